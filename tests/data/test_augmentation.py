"""Augmentation: the choices against a slow loop per image, the pixels against Pillow, colorsys and torch's own resizing."""

import colorsys
import math

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance
from torch.nn import functional

from likewise.data import augmentation as module
from likewise.data.augmentation import AUGMENTATIONS, Augmentation, Choices, choose
from likewise.data.colour import erased, jittered
from likewise.data.crops import copied_crops, crop_numbers, gathered_crops, num_taps
from likewise.data.draws import occurrences, uniforms

SIZES = np.array([(256, 340), (256, 256), (400, 256), (256, 1500), (3000, 256), (40, 30)])


def sizes(count: int) -> tuple[np.ndarray, np.ndarray]:
    return SIZES[np.arange(count) % len(SIZES), 0], SIZES[np.arange(count) % len(SIZES), 1]


# Random numbers by key


def test_draws_do_not_depend_on_what_else_is_drawn() -> None:
    items = np.random.default_rng(0).permutation(500).astype(np.int64)
    whole = uniforms(items, seed=3, step=7, count=20)
    for start in range(0, 500, 77):
        assert np.array_equal(uniforms(items[start : start + 77], seed=3, step=7, count=20), whole[start : start + 77])
    order = np.argsort(items)
    assert np.array_equal(uniforms(items[order], seed=3, step=7, count=20), whole[order])
    assert np.array_equal(uniforms(items, seed=3, step=7, count=5), whole[:, :5])


def test_draws_differ_with_every_key() -> None:
    drawn = {}
    for seed in (-1, 0, 1, 2**63):
        for step in (0, 1, 2**40):
            for item, row in enumerate(uniforms(np.arange(50), seed=seed, step=step, count=4)):
                drawn[seed, step, item] = tuple(row)
    assert len(set(drawn.values())) == len(drawn) == 4 * 3 * 50
    assert len({value for row in drawn.values() for value in row}) == 4 * len(drawn)


def test_draws_are_uniform_and_unrelated() -> None:
    """Over items, over steps and over seeds: means, deciles, and correlations of neighbours within five deviations."""
    by_item = uniforms(np.arange(20_000), seed=0, step=0, count=5)
    by_step = np.concatenate([uniforms(np.array([4]), seed=0, step=step, count=5) for step in range(2_000)])
    by_seed = np.concatenate([uniforms(np.array([4]), seed=seed, step=0, count=5) for seed in range(2_000)])
    for drawn in (by_item, by_step, by_seed):
        num = len(drawn)
        assert drawn.min() >= 0
        assert drawn.max() < 1
        assert np.abs(drawn.mean(axis=0) - 0.5).max() < 5 * math.sqrt(1 / 12 / num)
        for column in drawn.T:
            deciles = np.histogram(column, bins=10, range=(0, 1))[0]
            assert np.abs(deciles - num / 10).max() < 5 * math.sqrt(num * 0.09)
            assert abs(np.corrcoef(column[1:], column[:-1])[0, 1]) < 5 / math.sqrt(num)
        assert np.abs(np.corrcoef(drawn.T) - np.eye(5)).max() < 5 / math.sqrt(num)


def test_a_second_copy_draws_its_own() -> None:
    items = np.array([5, 9, 5, 5, 9, 1])
    assert occurrences(items).tolist() == [0, 0, 1, 2, 1, 0]
    drawn = uniforms(items, seed=0, step=0, count=3)
    assert len(np.unique(drawn[:, 0])) == 6
    assert np.array_equal(drawn[[0, 1, 5]], uniforms(np.array([5, 9, 1]), seed=0, step=0, count=3))


# Choices


def resized_crop(
    draws: np.ndarray, height: int, width: int, scale: tuple[float, float], ratio: tuple[float, float]
) -> tuple[int, int, int, int]:
    """torchvision's RandomResizedCrop.get_params, with the random numbers given."""
    for attempt in range(module.ATTEMPTS):
        area = height * width * (scale[0] + (scale[1] - scale[0]) * draws[module.CROP_AREA][attempt])
        log_ratio = (math.log(ratio[0]), math.log(ratio[1]))
        aspect = math.exp(log_ratio[0] + (log_ratio[1] - log_ratio[0]) * draws[module.CROP_RATIO][attempt])
        w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < w <= width and 0 < h <= height:
            return int(draws[module.TOP] * (height - h + 1)), int(draws[module.LEFT] * (width - w + 1)), h, w
    if width / height < min(ratio):
        w, h = width, round(width / min(ratio))
    elif width / height > max(ratio):
        w, h = round(height * max(ratio)), height
    else:
        w, h = width, height
    return (height - h) // 2, (width - w) // 2, h, w


def erased_rectangle(draws: np.ndarray, size: int, setting: Augmentation) -> tuple[int, int, int, int]:
    """torchvision's RandomErasing.get_params, with the random numbers given."""
    if draws[module.ERASE] >= setting.erase:
        return 0, 0, 0, 0
    for attempt in range(module.ATTEMPTS):
        area = (
            size * size * (setting.erase_scale[0] + (setting.erase_scale[1] - setting.erase_scale[0]) * draws[module.ERASE_AREA][attempt])
        )
        low, high = (math.log(value) for value in setting.erase_ratio)
        aspect = math.exp(low + (high - low) * draws[module.ERASE_RATIO][attempt])
        h, w = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if h < size and w < size:
            return int(draws[module.ERASE_TOP] * (size - h + 1)), int(draws[module.ERASE_LEFT] * (size - w + 1)), h, w
    return 0, 0, 0, 0


def test_resized_crops_as_torchvision_takes_them() -> None:
    heights, widths = sizes(600)
    items = np.arange(600)[::-1].copy()
    draws = uniforms(items, seed=1, step=2, count=module.COLUMNS)
    fallbacks = 0
    for scale in ((0.16, 1.0), (0.9, 1.0)):
        setting = Augmentation(224, "resized", scale=scale, mirror=0.5)
        chosen = choose(setting, heights, widths, items, seed=1, step=2)
        for i in range(600):
            expected = resized_crop(draws[i], int(heights[i]), int(widths[i]), scale, setting.ratio)
            assert (chosen.top[i], chosen.left[i], chosen.height[i], chosen.width[i]) == expected
            fallbacks += expected[2] == heights[i] or expected[3] == widths[i]
        assert (chosen.top >= 0).all()
        assert (chosen.top + chosen.height <= heights).all()
        assert (chosen.left + chosen.width <= widths).all()
        assert np.array_equal(chosen.mirror, draws[:, module.MIRROR] < 0.5)
    assert fallbacks > 100


def test_random_and_centre_crops() -> None:
    heights, widths = np.full(4000, 300), np.full(4000, 227)
    chosen = choose(AUGMENTATIONS["crop227"], heights, widths, np.arange(4000), seed=0, step=0)
    assert set(chosen.top.tolist()) == set(range(74))  # every place, both ends included
    assert set(chosen.left.tolist()) == {0}
    assert 0.45 < chosen.mirror.mean() < 0.55
    for height, width in ((256, 340), (256, 341), (257, 259), (224, 224)):
        centre = choose(AUGMENTATIONS["centre224"], np.array([height]), np.array([width]), np.array([0]), seed=0, step=0)
        assert (centre.top[0], centre.left[0]) == (round((height - 224) / 2.0), round((width - 224) / 2.0))  # torchvision's center_crop
        assert not centre.mirror[0]


def test_a_centre_crop_may_be_cut_larger_or_smaller_than_it_becomes() -> None:
    heights, widths = np.array([256, 300]), np.array([400, 256])
    chosen = choose(AUGMENTATIONS["enlarged352"], heights, widths, np.arange(2), seed=0, step=0)
    assert chosen.height.tolist() == chosen.width.tolist() == [256, 256]
    assert chosen.top.tolist() == [0, 22]
    assert chosen.left.tolist() == [72, 0]
    with pytest.raises(ValueError, match="255 x 400 pixels is smaller than the crop of 256"):
        choose(AUGMENTATIONS["enlarged352"], np.array([400]), np.array([255]), np.arange(1), seed=0, step=0)


def test_colours_and_erasing_are_drawn_in_range() -> None:
    setting = AUGMENTATIONS["colour224"]
    heights, widths = sizes(500)
    chosen = choose(setting, heights, widths, np.arange(500), seed=5, step=1)
    draws = uniforms(np.arange(500), seed=5, step=1, count=module.COLUMNS)
    for name, column in (("brightness", module.BRIGHTNESS), ("contrast", module.CONTRAST), ("saturation", module.SATURATION)):
        assert np.allclose(getattr(chosen, name), 0.75 + 0.5 * draws[:, column])
    assert np.allclose(chosen.hue, -0.05 + 0.1 * draws[:, module.HUE])
    erasures = 0
    for i in range(500):
        expected = erased_rectangle(draws[i], 224, setting)
        assert (chosen.erase_height[i], chosen.erase_width[i]) == expected[2:]
        if expected[2]:
            assert (chosen.erase_top[i], chosen.erase_left[i]) == expected[:2]
            erasures += 1
    assert 80 < erasures < 170


def test_switching_one_choice_on_changes_no_other() -> None:
    heights, widths = sizes(50)
    plain = choose(AUGMENTATIONS["resized224"], heights, widths, np.arange(50), seed=0, step=0)
    coloured = choose(AUGMENTATIONS["colour224"], heights, widths, np.arange(50), seed=0, step=0)
    for name in ("top", "left", "height", "width", "mirror"):
        assert np.array_equal(getattr(plain, name), getattr(coloured, name))


def test_what_cannot_be_done_says_so() -> None:
    small = np.array([256, 100]), np.array([300, 90])
    with pytest.raises(ValueError, match="90 x 100 pixels is smaller than the crop of 224"):
        choose(AUGMENTATIONS["centre224"], *small, np.arange(2), seed=0, step=0)
    with pytest.raises(ValueError, match="90 x 100 to 300 x 256"):
        choose(AUGMENTATIONS["none"], *small, np.arange(2), seed=0, step=0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"crop": "middle"}, "crop='middle'"),
        ({"cut": 0}, "cut=0"),
        ({"crop": "whole", "cut": 100}, "cut=100 with crop='whole'"),
        ({"size": None}, "size=None"),
        ({"size": 0}, "size=0"),
        ({"mirror": 1.5}, "mirror=1.5"),
        ({"hue": 0.6}, "hue=0.6"),
        ({"scale": (0.5, 0.1)}, "scale="),
        ({"erase_scale": (0.5, 1.1)}, "erase_scale="),
        ({"std": (1.0, 0.0, 1.0)}, "std="),
    ],
)
def test_settings_are_checked(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        Augmentation(**{"size": 224, "crop": "random", **settings})  # type: ignore[arg-type]


# Pixels


def made_choices(rectangles: list[tuple[int, int, int, int]], mirror: list[bool]) -> Choices:
    top, left, height, width = (np.array(column) for column in zip(*rectangles, strict=True))
    ones, zeros = np.ones(len(top)), np.zeros(len(top), dtype=np.int64)
    return Choices(top, left, height, width, np.array(mirror), ones, ones, ones, zeros * 1.0, zeros, zeros, zeros, zeros)


def flat_images(shapes: list[tuple[int, int]], seed: int = 0) -> tuple[list[torch.Tensor], torch.Tensor, np.ndarray]:
    """Noise, the hardest case for any resizing; as images, as a buffer with their first pixels."""
    generator = torch.Generator().manual_seed(seed)
    images = [torch.randint(0, 256, (height, width, 3), generator=generator, dtype=torch.uint8) for height, width in shapes]
    first = np.cumsum([0] + [height * width for height, width in shapes])[:-1]
    return [image.permute(2, 0, 1) for image in images], torch.cat([image.reshape(-1) for image in images]), first


CASES = [  # rectangle in an image of 120 x 160, to 50 x 50: enlarged, as is, slightly and strongly shrunk, at every border
    (0, 0, 20, 30),
    (10, 20, 50, 50),
    (0, 0, 57, 76),
    (33, 60, 87, 100),
    (0, 0, 120, 160),
    (119, 159, 1, 1),
    (3, 4, 100, 13),
    (20, 0, 99, 150),
]


@pytest.mark.parametrize("antialias", [True, False])
def test_gathered_crops_are_torchs_resizing_of_the_cut_rectangle(antialias: bool) -> None:
    images, buffer, first = flat_images([(120, 160)] * len(CASES))
    mirror = [i % 2 == 1 for i in range(len(CASES))]
    choices = made_choices(CASES, mirror)
    taps = num_taps(choices, 50, 50, antialias=antialias)
    assert taps == (8 if antialias else 2)
    numbers = torch.from_numpy(crop_numbers(first, np.full(len(CASES), 160), choices))
    got = gathered_crops(buffer, numbers, height=50, width=50, taps=taps, antialias=antialias)
    for i, (top, left, height, width) in enumerate(CASES):
        cut = images[i][None, :, top : top + height, left : left + width].float()
        expected = functional.interpolate(cut, size=(50, 50), mode="bilinear", antialias=antialias)[0]
        expected = expected.flip(2) if mirror[i] else expected
        assert (got[i].permute(2, 0, 1) - expected).abs().max() < 255 * 1e-5, CASES[i]  # the rounding of float32


def test_crops_that_are_not_resized_take_one_pixel_and_are_exact() -> None:
    images, buffer, first = flat_images([(60, 70), (51, 52)])
    choices = made_choices([(5, 6, 50, 50), (1, 0, 50, 50)], [False, True])
    assert num_taps(choices, 50, 50, antialias=True) == 1
    got = gathered_crops(buffer, torch.from_numpy(crop_numbers(first, np.array([70, 52]), choices)), height=50, width=50, taps=1)
    assert torch.equal(got[0].permute(2, 0, 1), images[0][:, 5:55, 6:56].float())
    assert torch.equal(got[1].permute(2, 0, 1), images[1][:, 1:51, 0:50].flip(2).float())


def test_copied_and_gathered_crops_differ_by_rounding_only() -> None:
    images, buffer, first = flat_images([(120, 160)] * len(CASES), seed=1)
    choices = made_choices(CASES, [i % 2 == 0 for i in range(len(CASES))])
    scale, shift = torch.tensor([1.0, 0.5, 2.0]), torch.tensor([0.0, 3.0, -1.0])
    copied = copied_crops(images, choices, height=50, width=50, scale=scale, shift=shift)
    numbers = torch.from_numpy(crop_numbers(first, np.full(len(CASES), 160), choices))
    gathered = gathered_crops(buffer, numbers, height=50, width=50, taps=8)
    assert ((copied - shift) / scale - gathered).abs().max() <= 1.01  # uint8 rounds twice, after the rows and after the columns


def test_colour_changes_as_pillow_and_colorsys_make_them() -> None:
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (6, 9, 8, 3), dtype=np.uint8)
    pixels[0, :3] = 77  # grey has no hue
    factors = np.array([[1.3, 1, 1, 0], [1, 0.6, 1, 0], [1, 1, 1.7, 0], [1, 1, 1, 0.3], [1, 1, 1, -0.5], [1.2, 0.7, 1.4, 0.1]])
    got = jittered(torch.from_numpy(pixels).float() / 255, torch.from_numpy(factors).float()).numpy() * 255
    for image, (brightness, contrast, saturation, hue), ours in zip(pixels, factors, got, strict=True):
        picture = ImageEnhance.Brightness(Image.fromarray(image)).enhance(brightness)
        picture = ImageEnhance.Contrast(picture).enhance(contrast)
        picture = ImageEnhance.Color(picture).enhance(saturation)
        expected = np.asarray(picture).astype(float)
        for row in range(9):
            for column in range(8):
                h, s, v = colorsys.rgb_to_hsv(*(expected[row, column] / 255))
                expected[row, column] = 255 * np.array(colorsys.hsv_to_rgb((h + hue) % 1, s, v))
        steps = sum((brightness != 1, contrast != 1, saturation != 1))
        assert np.abs(ours - expected).max() <= (
            0.01 if steps == 0 else 2 if steps == 1 else 8
        )  # Pillow rounds to whole numbers after each step


def test_unchanged_colours_are_unchanged() -> None:
    images = torch.rand(3, 5, 4, 3, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(jittered(images, torch.tensor([[1.0, 1.0, 1.0, 0.0]] * 3)), images, atol=1e-6)


def test_erasing() -> None:
    images = torch.rand(4, 9, 7, 3, generator=torch.Generator().manual_seed(0)) + 1
    rectangles = [(0, 0, 0, 0), (0, 0, 3, 2), (8, 6, 1, 1), (2, 1, 5, 6)]
    got = erased(images, torch.tensor(rectangles))
    for image, ours, (top, left, height, width) in zip(images, got, rectangles, strict=True):
        for row in range(9):
            for column in range(7):
                inside = top <= row < top + height and left <= column < left + width
                assert torch.equal(ours[row, column], torch.zeros(3) if inside else image[row, column])
