"""Photographs against drawings: real photographs (scikit-learn brings two) in every light, drawings as people store them."""

import io
from pathlib import Path

import matplotlib
import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image, ImageDraw, ImageFont
from sklearn.datasets import load_sample_images

from likewise.data.dataset import Dataset, Files, Pixels
from likewise.data.image_kind import image_kind, num_tones
from likewise.data.readers import read

from ..models.drawn_photographs import drawn_photographs


def photographs(side: int = 128) -> list[Image.Image]:
    """Parts of two photographs."""
    return [
        Image.fromarray(picture[top : top + 200, left : left + 200]).resize((side, side))
        for picture in load_sample_images().images
        for top in (0, 200)
        for left in (0, 200, 400)
    ]


def characters(side: int = 128, *, soft: bool = False) -> list[Image.Image]:
    font = ImageFont.truetype(str(Path(matplotlib.get_data_path()) / "fonts/ttf/DejaVuSans.ttf"), side // 2)
    images = []
    for letter in "AgR8&qZ3mtSé":
        image = Image.new("L" if soft else "1", (side, side), 255)
        ImageDraw.Draw(image).text((side // 4, side // 6), letter, fill=0, font=font)
        images.append(image)
    return images


def logos(side: int = 128) -> list[Image.Image]:
    rng = np.random.default_rng(0)
    images = []
    for _ in range(12):
        image = Image.new("RGB", (side, side), tuple(rng.integers(0, 256, 3).tolist()))
        for _ in range(3):
            left, top = rng.integers(0, side // 2, 2).tolist()
            ImageDraw.Draw(image).ellipse((left, top, left + side // 2, top + side // 3), fill=tuple(rng.integers(0, 256, 3).tolist()))
        images.append(image)
    return images


def cut_out(image: Image.Image) -> Image.Image:
    """An object on white, as shops have them."""
    mask = Image.new("L", image.size, 0)
    ImageDraw.Draw(mask).ellipse((40, 30, 90, 100), fill=255)
    return Image.composite(image, Image.new("RGB", image.size, "white"), mask)


def darker(image: Image.Image) -> Image.Image:
    return Image.fromarray((np.asarray(image) * 0.3).astype(np.uint8))


def as_jpeg(image: Image.Image, quality: int) -> Image.Image:
    file = io.BytesIO()
    image.convert("L" if image.mode == "1" else image.mode).save(file, "JPEG", quality=quality)
    return Image.open(file)


def in_memory(images: list[Image.Image]) -> Dataset:
    pixels = np.stack([np.asarray(image.convert("RGB")) for image in images])
    return Dataset("mine", Pixels(pixels), np.arange(len(images)), tuple(map(str, range(len(images)))))


@pytest.mark.parametrize(
    ("images", "kind"),
    [
        (photographs(), "photographs"),
        ([image.convert("L") for image in photographs()], "photographs"),
        ([darker(image) for image in photographs()], "photographs"),
        ([cut_out(image) for image in photographs()], "photographs"),
        ([cut_out(darker(image)).convert("L") for image in photographs()], "photographs"),
        ([as_jpeg(image, 30) for image in photographs()], "photographs"),
        (photographs(64), "photographs"),
        (photographs(63), "tiny"),
        (drawn_photographs(12, 96), "photographs"),
        (characters(), "drawings"),
        (characters(63), "tiny"),
        (characters(400), "drawings"),
        (characters(soft=True), "drawings"),
        ([image.resize((256, 256)) for image in characters(soft=True)], "drawings"),
        ([as_jpeg(image, 75) for image in characters()], "drawings"),
        (logos(), "drawings"),
        ([image.resize((300, 300), Image.Resampling.BICUBIC) for image in logos()], "drawings"),
        ([Image.new("RGB", (90, 90), "grey")] * 4, "drawings"),
        (photographs()[3:9] + characters()[:6], "photographs"),
        (photographs()[3:5] + characters()[:10], "drawings"),
    ],
)
def test_kinds(images: list[Image.Image], kind: str) -> None:
    assert image_kind(in_memory(images)) == kind


@pytest.mark.parametrize("spec", ["glyphs:classes=20,images=4", "digits"])
def test_the_built_in_sets_are_drawn(spec: str) -> None:
    assert image_kind(read(spec)) != "photographs"


def test_files_are_looked_at_through_their_boxes_and_broken_ones_passed_over(tmp_path: Path) -> None:
    pictures = photographs(160)[:4]
    for number, picture in enumerate(pictures):
        picture.save(tmp_path / f"{number}.png")
    (tmp_path / "broken.png").write_bytes(b"no image")
    paths = (*(tmp_path / f"{number}.png" for number in range(4)), tmp_path / "broken.png", tmp_path / "missing.png")
    labels, names = np.zeros(6, np.int64), ("one",)
    assert image_kind(Dataset("mine", Files(paths), labels, names)) == "photographs"
    assert image_kind(Dataset("mine", Files(paths, ((0, 0, 160, 63),) * 6), labels, names)) == "tiny"
    broken = Dataset("mine", Files(paths[4:]), labels[:2], names)
    assert image_kind(broken) == "photographs"  # whoever needs all of them says what is wrong


def test_few_are_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are: from the first to the last."""
    opened: list[int] = []
    monkeypatch.setattr("likewise.data.image_kind.image_bytes", lambda path: opened.append(int(path.name)) or b"")
    image_kind(Dataset("mine", Files(tuple(tmp_path / str(number) for number in range(10_000))), np.zeros(10_000, np.int64), ("one",)))
    assert len(opened) <= 32
    assert (min(opened), max(opened)) == (0, 9_999)
    assert max(np.diff(opened)) < 350


def test_number_of_tones() -> None:
    """So many shades in equal shares, on a background of another: so many tones, whatever their order."""

    def shaded(count: int) -> npt.NDArray[np.uint8]:
        grey = np.full((40, 64), 255, np.uint8)
        grey[:, :32] = np.repeat(np.linspace(0, 200, count).astype(np.uint8), 32 // count)
        return np.repeat(grey[..., None], 3, axis=2)

    for count in (1, 2, 4, 8, 16):
        assert num_tones(shaded(count)) == pytest.approx(count, rel=0.02)
    assert num_tones(np.full((8, 8, 3), 7, np.uint8)) == 1.0
