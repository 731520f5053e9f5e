"""Pixels inside the graph are those of likewise's own way: packed by torch's resizing of bytes, then cut and normalised."""

import numpy as np
import pytest
import torch
from PIL import Image

from likewise.data.augmentation import AUGMENTATIONS, Augmentation
from likewise.data.batches import make_batch
from likewise.data.packing.decode import from_pillow
from likewise.exporting.onnx_model import OnnxEmbedder
from likewise.exporting.preparation import Preparation
from likewise.models.embedder import Preprocessing
from likewise.models.frozen.onnx_network import onnx_graph
from likewise.models.images import pack_images

from ..optional import needs_package

SIZES = ((1, 1), (2, 3), (7, 200), (28, 28), (97, 640), (255, 257), (256, 256), (300, 500), (501, 333), (464, 820), (1211, 1607))
NOT_RANDOM = {name: given for name, given in AUGMENTATIONS.items() if given.crop in ("centre", "whole")}


def noise(height: int, width: int) -> np.ndarray:
    """The worst case: every pixel another."""
    return np.random.default_rng((height, width)).integers(0, 256, (height, width, 3), dtype=np.uint8)


def expected(preprocessing: Preprocessing, image: np.ndarray) -> np.ndarray:
    packed = pack_images([from_pillow(Image.fromarray(image), side=preprocessing.file_side)])
    return make_batch(packed, [0], preprocessing.augmentation).numpy()


def graph_of(preprocessing: Preprocessing) -> OnnxEmbedder:
    needs_package("onnx")
    needs_package("onnxruntime")
    names = {"image": {0: "height", 1: "width"}, "inputs": {}}
    return OnnxEmbedder(onnx_graph(Preparation(preprocessing), torch.zeros(90, 120, 3, dtype=torch.uint8), names))


@pytest.mark.parametrize("name", NOT_RANDOM)
def test_every_augmentation_without_chance_gives_the_same_pixels(name: str) -> None:
    """To rounding of the normalisation in float32, of any size."""
    preprocessing = Preprocessing(None if name == "none" else 272, AUGMENTATIONS[name])
    run = graph_of(preprocessing)
    for size in SIZES:
        image = noise(*size)
        np.testing.assert_allclose(run(image), expected(preprocessing, image), rtol=0, atol=1e-5, err_msg=str(size))


@pytest.mark.parametrize(
    ("side", "augmentation"),
    [
        (256, Augmentation(64, "centre", cut=200)),
        (17, Augmentation(16, "centre", cut=11)),
        (None, Augmentation(20, "whole")),
        ("auto", Augmentation(33, "whole")),
        (1, Augmentation(1, "centre")),
    ],
)
def test_odd_sides_and_crops(side: int | None, augmentation: Augmentation) -> None:
    preprocessing = Preprocessing(side, augmentation)
    run = graph_of(preprocessing)
    for size in SIZES:
        np.testing.assert_allclose(run(noise(*size)), expected(preprocessing, noise(*size)), rtol=0, atol=1e-5, err_msg=str(size))


def test_many_sizes_in_a_row() -> None:
    """Both sides anything from 1 on, but for strips, which are refused here: whichever weights are rounded, and to however many places."""
    preprocessing = Preprocessing(40, Augmentation(32, "centre"))
    run = graph_of(preprocessing)
    rng = np.random.default_rng(0)
    for height, width in np.exp(rng.uniform(0, np.log(900), (150, 2))).astype(int) + 1:
        if max(height, width) > 100 * min(height, width):
            continue
        image = noise(height, width)
        np.testing.assert_allclose(run(image), expected(preprocessing, image), rtol=0, atol=1e-5, err_msg=f"{height} x {width}")


def test_an_image_smaller_than_a_crop_of_it_as_it_is_is_a_fault() -> None:
    run = graph_of(Preprocessing(None, Augmentation(64, "centre")))
    assert run(noise(64, 70)).shape == (1, 3, 64, 64)
    for size in ((63, 200), (200, 63), (10, 10), (40, 63)):
        with pytest.raises(Exception, match="Reshape"):
            run(noise(*size))
