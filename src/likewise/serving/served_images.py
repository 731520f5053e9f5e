"""Images as the service gives them out: decoded, turned upright, shrunk and encoded anew, so that nothing but pixels leaves."""

from __future__ import annotations

import base64
import hashlib
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

from PIL import Image
from torch import Tensor
from torch.nn import functional

from likewise.data.dataset import Box
from likewise.data.packing.decode import Undecodable, decode, image_bytes
from likewise.search.item import Item
from likewise.serving.admission.refusals import Refusal
from likewise.wording import printable

SIDES = {"thumb": 320, "full": 1600}  # the longer side, at most
QUALITY = 88


class ByteCache:
    """The values used last, by key, that fit into so many bytes together."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes, self.num_bytes = most_bytes, 0
        self._values: OrderedDict[str, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: str) -> bytes | None:
        with self._lock:
            value = self._values.get(key)
            if value is not None:
                self._values.move_to_end(key)
            return value

    def put(self, key: str, value: bytes) -> None:
        with self._lock:
            self.num_bytes += len(value) - len(self._values.pop(key, b""))
            self._values[key] = value
            while self.num_bytes > self.most_bytes and len(self._values) > 1:
                self.num_bytes -= len(self._values.popitem(last=False)[1])


def jpeg_of(data: bytes, size: str, pixel_limit: int, box: Box | None = None) -> bytes:
    """The picture as a JPEG whose longer side is at most SIDES[size]. Raises Undecodable."""
    side = SIDES[size]
    # decoding may shrink as it goes, by the shorter side, of which it keeps enough
    is_whole = size == "full" or box is not None
    pixels = decode(data, side=None, box=box, pixel_limit=pixel_limit) if is_whole else _thumb_pixels(data, side, pixel_limit)
    return _jpeg(Image.fromarray(_within(pixels, side).permute(1, 2, 0).contiguous().numpy()))


def _thumb_pixels(data: bytes, side: int, pixel_limit: int) -> Tensor:
    try:
        return decode(data, side=side, enlarge=False, pixel_limit=pixel_limit)
    except Undecodable:  # a strip too long to be shrunk by its shorter side
        return decode(data, side=None, pixel_limit=pixel_limit)


def _within(pixels: Tensor, side: int) -> Tensor:  # (3, height, width)
    height, width = pixels.shape[1:]
    if max(height, width) <= side:
        return pixels
    scale = side / max(height, width)
    size = max(1, round(height * scale)), max(1, round(width * scale))
    return functional.interpolate(pixels[None].contiguous(), size=size, mode="bilinear", antialias=True)[0]


def as_address(image: Image.Image) -> str:
    """As a data: address, for what is shown once."""
    return f"data:image/jpeg;base64,{base64.b64encode(_jpeg(image)).decode()}"


def _jpeg(image: Image.Image) -> bytes:
    out = BytesIO()
    image.save(out, format="JPEG", quality=QUALITY)
    return out.getvalue()


class ItemImages:
    """The images of an index by their files; what was shrunk once is kept for a while."""

    def __init__(self, pixel_limit: int, most_bytes: int = 128 * 2**20) -> None:
        self.pixel_limit = pixel_limit
        self._cache = ByteCache(most_bytes)

    def tag(self, item: Item, size: str) -> str:
        """Names the image as it is now; a Refusal where the file is gone."""
        with _gone_in_words(item):
            status = Path(item.path).stat()
        identity = f"{item.path}\0{box_of(item)}\0{status.st_mtime_ns}\0{status.st_size}\0{size}"
        return hashlib.blake2b(identity.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()

    def jpeg(self, item: Item, size: str) -> bytes:
        key = self.tag(item, size)
        found = self._cache.get(key)
        if found is None:
            with _gone_in_words(item):
                found = jpeg_of(image_bytes(Path(item.path)), size, self.pixel_limit, box_of(item))
            self._cache.put(key, found)
        return found

    def pixels(self, item: Item) -> Tensor:  # (3, height, width)
        with _gone_in_words(item):
            return decode(image_bytes(Path(item.path)), side=None, box=box_of(item), pixel_limit=self.pixel_limit)


def box_of(item: Item) -> Box | None:
    """The part of the file that the item is; the digest ends in it."""
    _, _, box = item.digest.partition(":")
    if not box:
        return None
    left, top, right, bottom = (int(side) for side in box.split(","))
    return left, top, right, bottom


@contextmanager
def _gone_in_words(item: Item) -> Iterator[None]:
    name = printable(Path(item.path).name)
    try:
        yield
    except Undecodable as fault:
        raise Refusal(410, f"the image {name} cannot be shown any more: {fault}") from fault
    except OSError as fault:
        raise Refusal(410, f"the file {name} is not there any more ({fault.strerror or fault}): it was moved or deleted") from fault
