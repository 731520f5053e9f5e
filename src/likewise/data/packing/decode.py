"""Decoding: the bytes of an image file to upright RGB pixels of the size a packed set holds.

JPEG goes through simplejpeg where it is installed, everything else (and every JPEG that simplejpeg does not take: CMYK, a stray byte)
through Pillow. A JPEG at least twice too large is shrunk while decoding, by a factor of 2 or more in the cosine domain, never below the
size asked for.

What is decided here, for every format:
- EXIF rotation is applied first; a box counts pixels of the upright image.
- The shorter side becomes `side`, the longer int(side x longer / shorter), as torchvision does; smaller images are enlarged too, as the
  papers' protocol says, unless enlarge=False. side=None keeps the size (Omniglot, MNIST, glyphs).
- What is transparent becomes white. 16 bits become 8 by division by 257. Of an animation the first frame is taken. Profiles are ignored.
- What `likewise.limits` does not allow is refused from the header, before anything is decoded: too many pixels, before or after
  resizing, and strips, which grow beyond measure when their shorter side becomes `side`.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image, UnidentifiedImageError
from torch import Tensor
from torch.nn import functional

from likewise.data.dataset import Box
from likewise.formats.regular_file import read_whole
from likewise.limits import OverLimit, current_limits, how_to_raise, require_within

ORIENTATION = 0x0112  # the EXIF tag
HAS_SIMPLEJPEG = find_spec("simplejpeg") is not None

Array = npt.NDArray[np.uint8]


class Undecodable(ValueError):
    """An image that cannot be decoded; the message is the reason, in words."""


def image_bytes(path: Path) -> bytes:
    """The file of an image. Raises Undecodable where it is larger than images are, OSError where it is no file or cannot be read."""
    try:
        return read_whole(path, "image_bytes")
    except OverLimit as fault:
        raise Undecodable(str(fault).removeprefix(f"{path} ")) from fault


def decode(
    data: bytes,
    *,
    side: int | None = 256,
    enlarge: bool = True,
    box: Box | None = None,
    pixel_limit: int | None = None,
    simplejpeg: bool = HAS_SIMPLEJPEG,
) -> Tensor:
    """The image as uint8 (3, height, width), in memory height x width x 3. Raises Undecodable. pixel_limit: less than `likewise.limits`."""
    if side is not None and side < 1:
        raise ValueError(f"side={side!r}: expected a number of pixels, or None to keep each image's size")
    if not data:
        raise Undecodable("the file is empty")
    allowed = _Allowed(pixel_limit, side if box is None else None, enlarge)
    pixels = _jpeg(data, side, box, allowed) if simplejpeg and data[:3] == b"\xff\xd8\xff" else None
    if pixels is None:
        pixels = _any_format(data, allowed)
    if box is not None:
        pixels = _cut(pixels, box)
    return _finished(pixels, _Allowed(pixel_limit, side, enlarge))


def from_pillow(image: Image.Image, *, side: int | None = 256, enlarge: bool = True, pixel_limit: int | None = None) -> Tensor:
    """An image that Pillow has opened already, as `decode` gives it from a file that Pillow decodes. Raises Undecodable."""
    allowed = _Allowed(pixel_limit, side, enlarge)
    with _faults_in_words(allowed):
        pixels = _pillow_pixels(image, allowed)
    return _finished(pixels, allowed)


@dataclass(frozen=True)
class _Allowed:
    """What an image may be, given what is to become of it."""

    pixel_limit: int | None
    side: int | None  # None: it keeps its size, or what does not is not known yet
    enlarge: bool

    @property
    def pixels(self) -> int:
        return current_limits().pixels if self.pixel_limit is None else self.pixel_limit

    def refuse(self, height: int, width: int) -> None:
        """Undecodable where an image of this size is none, or more than is allowed."""
        if height < 1 or width < 1:
            raise Undecodable(f"an image of {width} x {height} pixels")
        limit = self.pixels
        if height * width > limit:
            raise Undecodable(
                f"{width} x {height} pixels, more than the limit of {limit:,}: a decompression bomb, or to be shrunk first"
                f"{how_to_raise('pixels') if self.pixel_limit is None else ''}"
            )
        try:
            require_within("width", width, "a width of")
            require_within("height", height, "a height of")
        except OverLimit as fault:
            raise Undecodable(str(fault)) from fault
        if self.side is None:
            return
        new_height, new_width = resized_size(height, width, self.side, enlarge=self.enlarge)
        if (new_height, new_width) == (height, width):
            return
        refuse_strip(height, width)
        if new_height * new_width > limit:
            raise Undecodable(
                f"{width} x {height} pixels are too long a strip: resized it has {new_width} x {new_height}, over the limit of {limit:,}"
            )


def refuse_strip(height: int, width: int) -> None:
    """Undecodable where one side is so many times the other that resizing by the shorter one is no use."""
    limit = current_limits().aspect
    if max(height, width) > limit * min(height, width):
        raise Undecodable(
            f"{width} x {height} pixels are too long a strip: one side is more than {limit:,} times the other; cut it up"
            f"{how_to_raise('aspect')}"
        )


def _finished(pixels: Array, allowed: _Allowed) -> Tensor:
    image = torch.from_numpy(np.ascontiguousarray(pixels)).permute(2, 0, 1)
    return image if allowed.side is None else _resized(image, allowed.side, allowed)


def resized_size(height: int, width: int, side: int, *, enlarge: bool = True) -> tuple[int, int]:
    """Height and width with the shorter side made `side`."""
    shorter = min(height, width)
    if shorter == side or (shorter < side and not enlarge):
        return height, width
    return side * height // shorter, side * width // shorter


def _resized(image: Tensor, side: int, allowed: _Allowed) -> Tensor:
    size = resized_size(image.shape[1], image.shape[2], side, enlarge=allowed.enlarge)
    if size == tuple(image.shape[1:]):
        return image
    allowed.refuse(image.shape[1], image.shape[2])
    return functional.interpolate(image[None], size=size, mode="bilinear", antialias=True)[0]


def _jpeg(data: bytes, side: int | None, box: Box | None, allowed: _Allowed) -> Array | None:
    """The upright pixels, perhaps shrunk to no less than `side`; None leaves the file to Pillow, which words the reason if it is broken."""
    import simplejpeg

    try:
        height, width, colours, _ = simplejpeg.decode_jpeg_header(data)
        allowed.refuse(height, width)
        if colours not in ("RGB", "YCbCr", "Gray"):
            return None
        least = 0 if side is None or box is not None else side
        pixels: Array = simplejpeg.decode_jpeg(data, colorspace="RGB", min_height=least, min_width=least, min_factor=2 if least else 1)
    except Undecodable:
        raise
    except ValueError:
        return None
    if b"Exif\0\0" in data[:65536]:  # the segment stands near the start; most files have none, and parsing costs
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(io.BytesIO(data)) as header:
                pixels = _upright(pixels, _orientation(header))
    return pixels


def _orientation(image: Image.Image) -> int:
    try:
        return int(image.getexif().get(ORIENTATION, 1))
    except Exception:  # what Pillow raises on a broken EXIF block is not one type; the pixels may be fine
        return 1


def _upright(pixels: Array, orientation: int) -> Array:
    """EXIF orientations 2 to 8: how the stored rows and columns lie in the upright image."""
    if orientation in (5, 6, 7, 8):
        pixels = pixels.swapaxes(0, 1)
    if orientation in (3, 4, 7, 8):
        pixels = pixels[::-1]
    if orientation in (2, 3, 6, 7):
        pixels = pixels[:, ::-1]
    return pixels


def _any_format(data: bytes, allowed: _Allowed) -> Array:
    with _faults_in_words(allowed), Image.open(io.BytesIO(data)) as image:
        return _pillow_pixels(image, allowed)


@contextmanager
def _faults_in_words(allowed: _Allowed) -> Iterator[None]:
    """Whatever Pillow raises inside as Undecodable, and no warnings."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # large images, odd EXIF blocks: what matters raises
            yield
    except Undecodable:
        raise
    except Image.DecompressionBombError:
        limit = min(allowed.pixels, 2 * (Image.MAX_IMAGE_PIXELS or allowed.pixels))  # Pillow raises at twice what it warns of
        raise Undecodable(f"more pixels than the limit of {limit:,}: a decompression bomb, or to be shrunk first") from None
    except UnidentifiedImageError:
        raise Undecodable("not an image, or of a format that Pillow does not read") from None
    except MemoryError:
        raise Undecodable("it needs more memory than there is: shrink it first") from None
    except Exception as fault:  # Pillow's plugins raise OSError, SyntaxError, struct.error, EOFError, ... on broken files
        raise Undecodable(f"broken image: {fault or type(fault).__name__}") from fault


def _pillow_pixels(image: Image.Image, allowed: _Allowed) -> Array:
    allowed.refuse(image.height, image.width)
    if image.format == "EPS":
        raise Undecodable("PostScript is a program, not pixels: convert it to PNG")
    image.load()
    return _upright(_eight_bit_rgb(image), _orientation(image))


def _eight_bit_rgb(image: Image.Image) -> Array:
    if image.mode in ("I", "I;16", "I;16L", "I;16B", "I;16N"):
        values = np.asarray(image).astype(np.int64)
        if values.size and (values.min() < 0 or values.max() > 65535):
            raise Undecodable(f"whole numbers from {values.min()} to {values.max()} instead of 8 or 16 bits: convert it to 8 bits")
        grey = (values // 257).astype(np.uint8)
        return np.repeat(grey[..., None], 3, axis=2)
    if image.mode == "F":
        raise Undecodable("floating point pixels have no agreed white: convert it to 8 bits")
    if image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return np.array(image.convert("RGB"))


def _cut(pixels: Array, box: Box) -> Array:
    left, top, right, bottom = box
    height, width = pixels.shape[:2]
    if not (0 <= left < right <= width and 0 <= top < bottom <= height):
        where = f"left {left}, top {top}, right {right}, bottom {bottom}"
        raise Undecodable(f"the box ({where}) does not lie in an image of {width} x {height} pixels")
    return pixels[top:bottom, left:right]
