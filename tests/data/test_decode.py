"""Decoding against Pillow, for every kind of file that people have."""

import io
import struct
import zlib

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps

from likewise.data.packing.decode import HAS_SIMPLEJPEG, Undecodable, decode, resized_size

from ..optional import needs_package


def photo(width: int, height: int, seed: int = 0) -> Image.Image:
    """Smooth colours with detail at every size, as a photograph has."""
    rng = np.random.default_rng(seed)
    total = np.full((height, width, 3), 128.0)
    for cells in (4, 16, 64):
        coarse = rng.normal(size=(cells, cells, 3), scale=200 / cells).astype(np.float32)
        layers = [Image.fromarray(coarse[..., c]).resize((width, height), Image.Resampling.BICUBIC) for c in range(3)]
        total += np.stack([np.asarray(layer) for layer in layers], axis=-1)
    return Image.fromarray(np.clip(total, 0, 255).astype(np.uint8))


def stored(image: Image.Image, kind: str, **options: object) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def hwc(image: torch.Tensor) -> np.ndarray:
    assert image.dtype == torch.uint8
    return image.permute(1, 2, 0).numpy()


@pytest.mark.parametrize("kind", ["PNG", "BMP", "TIFF", "WEBP"])
def test_lossless_colour_is_exact(kind: str) -> None:
    image = photo(40, 30)
    options = {"lossless": True} if kind == "WEBP" else {}
    assert np.array_equal(hwc(decode(stored(image, kind, **options), side=None)), np.asarray(image))


@pytest.mark.parametrize("mode", ["1", "L", "P"])
def test_grey_bit_and_palette(mode: str) -> None:
    image = photo(40, 30).convert(mode)
    assert np.array_equal(hwc(decode(stored(image, "PNG"), side=None)), np.asarray(image.convert("RGB")))


@pytest.mark.parametrize("mode", ["RGBA", "LA"])
def test_transparency_becomes_white(mode: str) -> None:
    image = photo(8, 8).convert(mode)
    alpha = np.zeros((8, 8), dtype=np.uint8)
    alpha[:, 4:] = 255
    alpha[:, 3] = 128
    image.putalpha(Image.fromarray(alpha))
    got = hwc(decode(stored(image, "PNG"), side=None)).astype(int)
    colour = np.asarray(image.convert("RGBA"))[..., :3].astype(int)
    assert (got[:, :3] == 255).all()
    assert np.array_equal(got[:, 4:], colour[:, 4:])
    assert np.abs(got[:, 3] - (colour[:, 3] * 128 / 255 + 255 * 127 / 255)).max() <= 1


def test_palette_with_a_transparent_colour() -> None:
    image = Image.new("P", (2, 1))
    image.putpalette([10, 20, 30, 40, 50, 60])
    image.putdata([0, 1])
    assert hwc(decode(stored(image, "PNG", transparency=0), side=None)).tolist() == [[[255, 255, 255], [40, 50, 60]]]


def test_sixteen_bits_become_eight() -> None:
    values = np.array([[0, 256, 257, 32767, 65534, 65535]], dtype=np.uint16)
    got = hwc(decode(stored(Image.fromarray(values), "PNG"), side=None))
    assert got[0, :, 0].tolist() == [0, 0, 1, 127, 254, 255]
    assert (got == got[..., :1]).all()


@pytest.mark.parametrize("values", [np.ones((2, 2), np.float32), np.full((2, 2), 70_000, np.int32)])
def test_pixels_without_a_known_white_are_refused(values: np.ndarray) -> None:
    with pytest.raises(Undecodable, match="convert it to 8 bits"):
        decode(stored(Image.fromarray(values), "TIFF"), side=None)


def test_cmyk_and_grey_jpeg() -> None:
    for mode in ("CMYK", "L"):
        data = stored(photo(64, 48).convert(mode), "JPEG", quality=95)
        expected = np.asarray(Image.open(io.BytesIO(data)).convert("RGB")).astype(int)
        assert np.abs(hwc(decode(data, side=None)) - expected).max() <= 2


def test_first_frame_of_an_animation() -> None:
    data = stored(Image.new("RGB", (4, 4), "red"), "GIF", save_all=True, append_images=[Image.new("RGB", (4, 4), "blue")])
    assert (hwc(decode(data, side=None)) == (255, 0, 0)).all()


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_exif_rotation_is_honoured(orientation: int, kind: str) -> None:
    image = photo(48, 32)
    exif = image.getexif()
    exif[0x0112] = orientation
    data = stored(image, kind, exif=exif)
    expected = np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(data)))).astype(int)
    got = hwc(decode(data, side=None)).astype(int)
    assert got.shape == expected.shape
    assert np.abs(got - expected).max() <= 2
    assert expected.shape[:2] == ((48, 32) if orientation >= 5 else (32, 48))


def test_broken_exif_does_not_cost_the_image() -> None:
    data = stored(photo(48, 32), "JPEG", exif=b"Exif\0\0MM\0*\xff\xff\xff\xff")
    assert decode(data, side=None).shape == (3, 32, 48)


@pytest.mark.parametrize("size", [(300, 400), (400, 300), (256, 900), (700, 700), (61, 100)])
def test_shorter_side_as_pillow_resizes(size: tuple[int, int]) -> None:
    image = photo(*size)
    shorter = min(size)
    expected_size = tuple(int(256 * length / shorter) for length in size)
    expected = np.asarray(image.resize(expected_size, Image.Resampling.BILINEAR)).astype(int)
    got = hwc(decode(stored(image, "PNG")))
    assert got.shape == expected.shape
    assert np.abs(got - expected).max() <= 1


def test_small_images_are_left_alone_if_asked() -> None:
    data = stored(photo(40, 30), "PNG")
    assert decode(data, side=256, enlarge=False).shape == (3, 30, 40)
    assert decode(data, side=20, enlarge=False).shape == (3, 20, 26)
    assert decode(data, side=None).shape == (3, 30, 40)
    assert resized_size(30, 40, 256) == (256, 341)


@pytest.mark.parametrize(("size", "mean_error", "largest"), [((500, 400), 0.05, 1), ((1600, 1200), 1.0, 8)])
def test_jpeg_is_close_to_pillow(size: tuple[int, int], mean_error: float, largest: int) -> None:
    """The second is shrunk while decoding: a better filter than bilinear, hence not the same."""
    needs_package("simplejpeg")
    data = stored(photo(*size), "JPEG", quality=90)
    ours, pillows = hwc(decode(data)).astype(int), hwc(decode(data, simplejpeg=False)).astype(int)
    error = np.abs(ours - pillows)
    assert ours.shape == pillows.shape
    assert error.mean() < mean_error
    assert error.max() <= largest


@pytest.mark.parametrize(("size", "decoded"), [((500, 400), (400, 500)), ((1600, 1200), (300, 400)), ((1024, 600), (300, 512))])
def test_jpeg_is_shrunk_while_decoding(size: tuple[int, int], decoded: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    needs_package("simplejpeg")
    import simplejpeg

    shapes = []
    original = simplejpeg.decode_jpeg

    def spied(*arguments: object, **settings: object) -> np.ndarray:
        pixels: np.ndarray = original(*arguments, **settings)
        shapes.append(pixels.shape[:2])
        return pixels

    monkeypatch.setattr(simplejpeg, "decode_jpeg", spied)
    decode(stored(photo(*size), "JPEG"))
    assert shapes == [decoded]


def test_box_is_cut_from_the_upright_image() -> None:
    image = photo(48, 32)
    exif = image.getexif()
    exif[0x0112] = 6
    data = stored(image, "PNG", exif=exif)
    upright = np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(data))))
    assert np.array_equal(hwc(decode(data, side=None, box=(2, 3, 20, 40))), upright[3:40, 2:20])
    assert decode(data, side=10, box=(2, 3, 22, 43)).shape == (3, 20, 10)
    large = stored(photo(1600, 1200), "JPEG")
    assert (
        np.abs(hwc(decode(large, side=None))[100:500, 100:600].astype(int) - hwc(decode(large, side=400, box=(100, 100, 600, 500)))).max()
        == 0
    )


@pytest.mark.parametrize("box", [(0, 0, 49, 10), (5, 5, 5, 10), (-1, 0, 5, 5), (0, 10, 5, 3)])
def test_box_outside_is_an_error(box: tuple[int, int, int, int]) -> None:
    with pytest.raises(Undecodable, match="48 x 32"):
        decode(stored(photo(48, 32), "PNG"), box=box)


def bomb_png(side: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 1000)) + chunk(b"IEND", b"")


def bomb_jpeg(side: int) -> bytes:
    data = bytearray(stored(photo(16, 16), "JPEG"))
    place = data.index(b"\xff\xc0") + 5
    data[place : place + 4] = struct.pack(">HH", side, side)
    return bytes(data)


@pytest.mark.parametrize("data", [bomb_png(15_000), bomb_png(50_000), bomb_jpeg(15_000), bomb_jpeg(60_000)])
@pytest.mark.parametrize("simplejpeg", sorted({False, HAS_SIMPLEJPEG}))
def test_bombs_are_refused_before_decoding(data: bytes, simplejpeg: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def loaded(*_: object, **__: object) -> None:
        raise AssertionError("decoding was begun")

    monkeypatch.setattr(Image.Image, "load", loaded)
    if simplejpeg:
        monkeypatch.setattr("simplejpeg.decode_jpeg", loaded)
    with pytest.raises(Undecodable, match=r"decompression bomb"):
        decode(data, simplejpeg=simplejpeg)


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_the_limit_can_be_set(kind: str) -> None:
    data = stored(photo(20, 10), kind)
    assert decode(data, side=None, pixel_limit=200).shape == (3, 10, 20)
    with pytest.raises(Undecodable, match="20 x 10 pixels, more than the limit of 199"):
        decode(data, side=None, pixel_limit=199)


def test_postscript_is_not_run() -> None:
    with pytest.raises(Undecodable, match="PostScript"):
        decode(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\n")


def test_a_strip_that_would_grow_beyond_the_limit_is_refused() -> None:
    with pytest.raises(Undecodable, match="too long a strip"):
        decode(stored(Image.new("RGB", (1, 5000)), "PNG"), side=256, pixel_limit=10**6)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF"])
@pytest.mark.parametrize("share", [0.02, 0.5, 0.9])
def test_truncated_files_are_errors(kind: str, share: float) -> None:
    data = stored(photo(200, 150), kind)
    with pytest.raises(Undecodable, match=r"broken image|not an image"):
        decode(data[: int(len(data) * share)])


@pytest.mark.parametrize("data", [b"", b"hello", b"\xff\xd8\xff"])
def test_what_is_no_image_is_an_error(data: bytes) -> None:
    with pytest.raises(Undecodable, match=r".+"):
        decode(data)


def test_stray_bytes_that_pillow_takes_are_taken() -> None:
    data = stored(photo(64, 48), "JPEG")
    place = data.index(b"\xff\xdb")
    stray = data[:place] + b"\0\0" + data[place:]
    assert decode(stray, side=None).shape == (3, 48, 64)


def test_side_is_checked() -> None:
    with pytest.raises(ValueError, match="side=0"):
        decode(stored(photo(8, 8), "PNG"), side=0)
