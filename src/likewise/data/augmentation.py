"""Augmentation: what is done to an image on its way into a batch, and the random choices of that for each item.

The choices (a few numbers an image) are made here, on the CPU, by key: see draws.py. The pixels are cut by crops.py and coloured by
colour.py on the training device. The crop, the colour factors and the erased rectangle are drawn as torchvision draws them, except that
colour changes always come in the order brightness, contrast, saturation, hue.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from likewise.data.draws import uniforms
from likewise.registries import registered

Crop = Literal["resized", "random", "centre", "whole"]
Range = tuple[float, float]
Colour = tuple[float, float, float]
Int64s = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

IMAGENET_MEAN: Colour = (0.485, 0.456, 0.406)
IMAGENET_STD: Colour = (0.229, 0.224, 0.225)
HALF: Colour = (0.5, 0.5, 0.5)  # as mean and deviation: black is -1, white is 1; for drawn and grey sets

ATTEMPTS = 10  # of a random rectangle to lie in the image, as in torchvision
# The columns of an item's random numbers. Each choice has its own, so that switching one on changes no other.
MIRROR, TOP, LEFT, BRIGHTNESS, CONTRAST, SATURATION, HUE, ERASE, ERASE_TOP, ERASE_LEFT = range(10)
CROP_AREA, CROP_RATIO, ERASE_AREA, ERASE_RATIO = (slice(10 + k * ATTEMPTS, 10 + (k + 1) * ATTEMPTS) for k in range(4))
COLUMNS = 10 + 4 * ATTEMPTS


@dataclass(frozen=True)
class Augmentation:
    """How an image becomes a square of `size` pixels.

    crop: "resized" a random rectangle of `scale` of the area and `ratio` width/height, resized; "random" and "centre" a square of `size`
    pixels as it is, or of `cut` pixels, resized; "whole" the whole image, squeezed to `size`, or as it is with size=None (images of a
    batch must then be of one size).
    """

    size: int | None
    crop: Crop
    cut: int | None = None  # side of a random or centre crop before it is resized; None: `size`
    scale: Range = (0.08, 1.0)
    ratio: Range = (3 / 4, 4 / 3)
    mirror: float = 0.0  # probability
    brightness: float = 0.0  # the factor is drawn from [1 - x, 1 + x]
    contrast: float = 0.0
    saturation: float = 0.0
    hue: float = 0.0  # the shift is drawn from [-x, x] of the colour circle
    erase: float = 0.0  # probability of a rectangle of the mean colour
    erase_scale: Range = (0.02, 0.33)  # of the area
    erase_ratio: Range = (0.3, 3.3)  # height/width
    mean: Colour = IMAGENET_MEAN
    std: Colour = IMAGENET_STD

    def __post_init__(self) -> None:
        if self.crop not in get_args(Crop):
            raise ValueError(f"crop={self.crop!r}: expected one of {', '.join(get_args(Crop))}")
        if self.size is None and self.crop != "whole":
            raise ValueError(
                f"size=None keeps the images' size and goes with crop='whole' only, not with crop={self.crop!r}: give a size in pixels"
            )
        if self.size is not None and self.size < 1:
            raise ValueError(f"size={self.size}: expected a number of pixels, or None")
        if self.cut is not None and (self.cut < 1 or self.crop not in ("random", "centre")):
            raise ValueError(f"cut={self.cut} with crop={self.crop!r}: expected a number of pixels, with crop='random' or 'centre'")
        for name in ("mirror", "erase"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name}={getattr(self, name)}: expected a probability from 0 to 1")
        for name, most in (("brightness", 1.0), ("contrast", 1.0), ("saturation", 1.0), ("hue", 0.5)):
            if not 0 <= getattr(self, name) <= most:
                raise ValueError(f"{name}={getattr(self, name)}: expected a number from 0 (unchanged) to {most:g}")
        for name in ("scale", "ratio", "erase_scale", "erase_ratio"):
            limits = getattr(self, name)
            if len(limits) != 2:
                raise ValueError(f"{name}={limits}: expected (low, high)")
            low, high = limits
            if not 0 < low <= high or (name.endswith("scale") and high > 1):
                raise ValueError(
                    f"{name}={getattr(self, name)}: expected (low, high), above 0{' and at most 1' if name.endswith('scale') else ''}"
                )
        if len(self.std) != 3 or min(self.std) <= 0:
            raise ValueError(f"std={self.std}: expected three numbers above 0")
        if len(self.mean) != 3:
            raise ValueError(f"mean={self.mean}: expected three numbers")

    @property
    def colours(self) -> bool:
        return max(self.brightness, self.contrast, self.saturation, self.hue) > 0


AUGMENTATIONS: dict[str, Augmentation] = {
    "crop227": Augmentation(227, "random", mirror=0.5),  # resize 256, crop 227: the Inception papers
    "crop224": Augmentation(224, "random", mirror=0.5),
    "resized227": Augmentation(227, "resized", scale=(0.16, 1.0), mirror=0.5),
    "resized224": Augmentation(224, "resized", scale=(0.16, 1.0), mirror=0.5),
    "resized256": Augmentation(256, "resized", scale=(0.16, 1.0), mirror=0.5),
    "colour224": Augmentation(
        224, "resized", scale=(0.16, 1.0), mirror=0.5, brightness=0.25, contrast=0.25, saturation=0.25, hue=0.05, erase=0.25
    ),
    "colour256": Augmentation(
        256, "resized", scale=(0.16, 1.0), mirror=0.5, brightness=0.25, contrast=0.25, saturation=0.25, hue=0.05, erase=0.25
    ),
    "centre227": Augmentation(227, "centre"),
    "centre224": Augmentation(224, "centre"),
    "centre240": Augmentation(240, "centre"),
    "centre256": Augmentation(256, "centre"),
    "centre260": Augmentation(260, "centre"),
    "enlarged352": Augmentation(352, "centre", cut=256),  # what a network was trained to see small, it finds more surely when larger
    "whole224": Augmentation(224, "whole"),  # squeezed: nothing is cut off
    "resized64": Augmentation(64, "resized", scale=(0.36, 1.0), mirror=0.5),  # small networks on small photographs
    "centre64": Augmentation(64, "centre"),
    # drawn characters: as they are, or stretched a little; a mirrored one is another character
    "resized28": Augmentation(28, "resized", scale=(0.64, 1.0), ratio=(4 / 5, 5 / 4), mean=HALF, std=HALF),
    "whole28": Augmentation(28, "whole", mean=HALF, std=HALF),
    "none": Augmentation(None, "whole", mean=HALF, std=HALF),  # small images as they are
}


def named_augmentation(given: Augmentation | str) -> Augmentation:
    """An augmentation itself, or the one of that name, or at that address of the user's code."""
    augmentation = registered("augmentation", given, AUGMENTATIONS) if isinstance(given, str) else given
    if not isinstance(augmentation, Augmentation):
        raise ValueError(f"{given} is a {type(augmentation).__name__}: expected a likewise.data.augmentation.Augmentation")
    return augmentation


@dataclass(frozen=True, eq=False)
class Choices:
    """What was chosen for each image of a batch; every array is (images,)."""

    top: Int64s  # the crop, in pixels of the packed image
    left: Int64s
    height: Int64s
    width: Int64s
    mirror: npt.NDArray[np.bool_]
    brightness: Floats  # factors; 1 leaves as is
    contrast: Floats
    saturation: Floats
    hue: Floats  # shift; 0 leaves as is
    erase_top: Int64s  # a rectangle of the finished crop; height 0: none
    erase_left: Int64s
    erase_height: Int64s
    erase_width: Int64s

    def at(self, places: slice | Int64s) -> Choices:
        return Choices(**{field.name: getattr(self, field.name)[places] for field in fields(self)})


def choose(augmentation: Augmentation, heights: Int64s, widths: Int64s, items: Int64s, *, seed: int, step: int) -> Choices:
    """The choices for images of these sizes. `items` are their numbers in the data set, which key the draws."""
    draws = uniforms(items, seed=seed, step=step, count=COLUMNS)
    if augmentation.crop == "resized":
        height, width, fitted = _resized_crop(augmentation, heights, widths, draws)
    else:
        height, width = _plain_crop(augmentation, heights, widths)
        fitted = np.full(len(heights), augmentation.crop == "random")
    # What was not drawn lies in the centre, rounded as torchvision rounds.
    round_half = np.floor if augmentation.crop == "resized" else np.rint
    top = np.where(fitted, _place(draws[:, TOP], heights - height), round_half((heights - height) / 2).astype(np.int64))
    left = np.where(fitted, _place(draws[:, LEFT], widths - width), round_half((widths - width) / 2).astype(np.int64))
    return Choices(
        top=top,
        left=left,
        height=height,
        width=width,
        mirror=draws[:, MIRROR] < augmentation.mirror,
        brightness=_around(1, augmentation.brightness, draws[:, BRIGHTNESS]),
        contrast=_around(1, augmentation.contrast, draws[:, CONTRAST]),
        saturation=_around(1, augmentation.saturation, draws[:, SATURATION]),
        hue=_around(0, augmentation.hue, draws[:, HUE]),
        **_erased(augmentation, height, width, draws),
    )


def _plain_crop(augmentation: Augmentation, heights: Int64s, widths: Int64s) -> tuple[Int64s, Int64s]:
    if augmentation.crop == "whole":
        if augmentation.size is None and len(heights) and (np.ptp(heights) or np.ptp(widths)):
            sizes = f"{widths.min()} x {heights.min()} to {widths.max()} x {heights.max()}"
            raise ValueError(f"images of {sizes} pixels cannot be one batch as they are: give the augmentation a size, or a crop")
        return heights, widths
    assert augmentation.size is not None
    side = augmentation.size if augmentation.cut is None else augmentation.cut
    if len(heights) and min(heights.min(), widths.min()) < side:
        worst = int(np.argmin(np.minimum(heights, widths)))
        what = f"an image of {widths[worst]} x {heights[worst]} pixels is smaller than the crop of {side}"
        raise ValueError(f"{what}: pack with a larger side (and enlarge=True), or take an augmentation with a smaller crop")
    return np.full_like(heights, side), np.full_like(widths, side)


def _resized_crop(
    augmentation: Augmentation, heights: Int64s, widths: Int64s, draws: Floats
) -> tuple[Int64s, Int64s, npt.NDArray[np.bool_]]:
    """Heights, widths, and whether a drawn rectangle fitted; where none did, the largest of an allowed ratio."""
    height, width = _rectangles(heights * widths, augmentation.scale, augmentation.ratio, draws[:, CROP_AREA], draws[:, CROP_RATIO])
    fits = (height > 0) & (width > 0) & (height <= heights[:, None]) & (width <= widths[:, None])
    rows, first = np.arange(len(heights)), fits.argmax(axis=1)
    fitted: npt.NDArray[np.bool_] = np.asarray(fits.any(axis=1))
    low, high = augmentation.ratio
    ratio = widths / heights
    largest_height = np.where(ratio < low, np.rint(widths / low).astype(np.int64), heights)
    largest_width = np.where(ratio > high, np.rint(heights * high).astype(np.int64), widths)
    return np.where(fitted, height[rows, first], largest_height), np.where(fitted, width[rows, first], largest_width), fitted


def _rectangles(area: Int64s, scale: Range, ratio: Range, area_draws: Floats, ratio_draws: Floats) -> tuple[Int64s, Int64s]:
    """Heights and widths, (images, attempts); the ratio is width/height, drawn evenly in its logarithm."""
    areas = area[:, None] * _between(scale, area_draws)
    ratios = np.exp(_between((np.log(ratio[0]), np.log(ratio[1])), ratio_draws))
    return np.rint(np.sqrt(areas / ratios)).astype(np.int64), np.rint(np.sqrt(areas * ratios)).astype(np.int64)


def _erased(augmentation: Augmentation, height: Int64s, width: Int64s, draws: Floats) -> dict[str, Int64s]:
    if not augmentation.erase:
        return dict.fromkeys(("erase_top", "erase_left", "erase_height", "erase_width"), np.zeros_like(height))
    tall = height if augmentation.size is None else np.full_like(height, augmentation.size)
    wide = width if augmentation.size is None else np.full_like(width, augmentation.size)
    # Here torchvision's ratio is height/width.
    widths, heights = _rectangles(
        tall * wide, augmentation.erase_scale, augmentation.erase_ratio, draws[:, ERASE_AREA], draws[:, ERASE_RATIO]
    )
    fits = (heights > 0) & (widths > 0) & (heights < tall[:, None]) & (widths < wide[:, None])
    rows, first = np.arange(len(tall)), fits.argmax(axis=1)
    erased = fits.any(axis=1) & (draws[:, ERASE] < augmentation.erase)
    erase_height = np.where(erased, heights[rows, first], 0)
    erase_width = np.where(erased, widths[rows, first], 0)
    return {
        "erase_top": _place(draws[:, ERASE_TOP], tall - erase_height),
        "erase_left": _place(draws[:, ERASE_LEFT], wide - erase_width),
        "erase_height": erase_height,
        "erase_width": erase_width,
    }


def _between(limits: Range, draws: Floats) -> Floats:
    return limits[0] + (limits[1] - limits[0]) * draws


def _around(middle: float, reach: float, draws: Floats) -> Floats:
    return middle + reach * (2 * draws - 1)


def _place(draws: Floats, room: Int64s) -> Int64s:
    """A whole number from 0 to room, each equally likely."""
    return np.floor(draws * (room + 1)).astype(np.int64)
