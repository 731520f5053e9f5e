"""Thumbnails: small squares that show the middle of an image."""

import numpy as np
import torch
from PIL import Image

from likewise.data.packing.thumbnails import EDGE, Thumbnails, make_thumbnail, middle_square


def gradient(height: int, width: int) -> torch.Tensor:
    """Red from left to right, green from top to bottom."""
    red = torch.linspace(0, 255, width).expand(height, width)
    green = torch.linspace(0, 255, height)[:, None].expand(height, width)
    return torch.stack([red, green, torch.zeros(height, width)]).to(torch.uint8)


def test_a_thumbnail_is_the_middle_square_as_pillow_has_it() -> None:
    image = gradient(256, 400)
    shown = Thumbnails((make_thumbnail(image),)).image(0).float()
    assert shown.shape == (3, EDGE, EDGE)
    cut = Image.fromarray(image.permute(1, 2, 0).numpy()).crop((72, 0, 328, 256))
    expected = torch.from_numpy(np.asarray(cut.resize((EDGE, EDGE), Image.Resampling.BILINEAR))).permute(2, 0, 1).float()
    assert (shown - expected).abs().mean() < 3  # of 255: JPEG's loss


def test_small_images_keep_their_size() -> None:
    shown = Thumbnails((make_thumbnail(gradient(28, 40)), make_thumbnail(gradient(20, 20))))
    assert [tuple(shown.image(i).shape) for i in range(len(shown))] == [(3, 28, 28), (3, 20, 20)]
    assert shown.edge == 28
    assert shown.subset(np.array([1])).edge == 20


def test_a_square_of_its_size_is_cut_and_not_changed() -> None:
    image = gradient(10, 14)
    assert torch.equal(middle_square(image, 10), image[:, :, 2:12])
