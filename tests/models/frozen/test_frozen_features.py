"""Frozen features: what they are, and that they are computed once."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from likewise.data.dataset import Dataset, Features, Files, Pixels
from likewise.models.backbones import make_backbone

from .made_features import BACKBONE, COUNT, SIDE, Compute, assert_alike, by_hand


def test_features_are_the_backbones(made: Dataset, compute: Compute, weights: Path) -> None:
    features = compute(made)
    assert compute.decoded == COUNT
    assert_alike(features.vectors, by_hand(made, weights))
    assert features.indices.tolist() == list(range(COUNT))
    assert features.skipped == ()
    assert features.vectors.dtype == torch.float32


def test_computed_once_whatever_the_labels_order_or_part(made: Dataset, compute: Compute) -> None:
    whole = compute(made)
    again = compute(Dataset("made", made.items, 2 - made.labels, ("x", "y", "z")))
    assert compute.decoded == 0
    assert torch.equal(again.vectors, whole.vectors)
    some = np.array([17, 3, 4, 11])
    part = compute(made.subset(some))
    assert compute.decoded == 0
    assert torch.equal(part.vectors, whole.vectors[some])
    assert part.indices.tolist() == [0, 1, 2, 3]
    assert part.thumbnails.jpegs == tuple(whole.thumbnails.jpegs[i] for i in some)


def test_the_rest_of_a_part(made: Dataset, compute: Compute, home: Path, tmp_path: Path) -> None:
    compute(made.subset(np.arange(5, 12)))
    assert compute.decoded == 7
    whole = compute(made)
    assert compute.decoded == COUNT - 7
    assert torch.allclose(whole.vectors, compute(made, folder=tmp_path / "other").vectors, atol=1e-5)


def test_a_changed_file_is_computed_again(made: Dataset, compute: Compute, weights: Path) -> None:
    compute(made)
    assert isinstance(made.items, Files)
    path = made.items.paths[4]
    status = path.stat()
    Image.new("RGB", (SIDE, SIDE), "red").save(path)
    assert path.stat().st_size == status.st_size
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    assert_alike(compute(made).vectors, by_hand(made, weights))
    assert compute.decoded == 1


@pytest.mark.parametrize(
    "change",
    [{"pooling": "max"}, {"augmentation": "whole28"}, {"side": 72}, {"weights": "other"}],
    ids=lambda change: next(iter(change)),
)
def test_other_conditions_are_other_features(change: dict[str, object], made: Dataset, compute: Compute, tmp_path: Path) -> None:
    before = compute(made).vectors
    if "weights" in change:
        change = {"weights": tmp_path / "other.safetensors"}
        save_file(make_backbone(BACKBONE).state_dict(), tmp_path / "other.safetensors")
    after = compute(made, **change).vectors
    assert compute.decoded == COUNT
    assert not torch.allclose(before, after, atol=1e-3)
    assert torch.equal(compute(made).vectors, before)
    assert compute.decoded == 0


def test_progress_goes_from_nothing_to_all_that_is_missing(made: Dataset, compute: Compute, capsys: pytest.CaptureFixture[str]) -> None:
    told: list[tuple[str, int, int]] = []
    compute(made.subset(np.arange(3)))
    compute(made, on_progress=lambda *told_now: told.append(told_now))
    assert {what for what, _, _ in told} == {"features of made"}
    assert [done for _, done, _ in told] == [0, 4, 8, 12, 16, 17]
    assert {total for _, _, total in told} == {COUNT - 3}
    told.clear()
    compute(made, on_progress=lambda *told_now: told.append(told_now))
    assert told == []
    assert capsys.readouterr() == ("", "")


def test_views(made: Dataset, compute: Compute, weights: Path) -> None:
    features = compute(made, views=4)
    assert features.views.shape == (COUNT, 4, features.vectors.shape[1])
    assert_alike(features.views[:, 0], by_hand(made, weights))
    assert_alike(features.views[:, 1], by_hand(made, weights, mirror=True))
    for one, other in ((0, 2), (1, 2), (2, 3)):
        assert not torch.allclose(features.views[:, one], features.views[:, other], atol=1e-3)
    assert torch.equal(compute(made).vectors, features.vectors)
    assert torch.equal(compute(made, views=2).views, features.views[:, :2])
    assert compute.decoded == 0


def test_a_view_does_not_depend_on_what_else_there_is(made: Dataset, compute: Compute, tmp_path: Path) -> None:
    some = np.array([13, 2])
    whole = compute(made, views=3).views[some]
    assert torch.allclose(compute(made.subset(some), views=3, folder=tmp_path / "other").views, whole, atol=1e-5)
    assert compute.decoded == 6


def test_pixels(compute: Compute, made: Dataset) -> None:
    assert isinstance(made.items, Files)
    array = np.stack([np.asarray(Image.open(path)) for path in made.items.paths])
    features = compute(Dataset("pixels", Pixels(array), made.labels, made.class_names))
    assert torch.allclose(features.vectors, compute(made).vectors, atol=1e-5)
    part = compute(Dataset("pixels", Pixels(array[5:9]), made.labels[5:9], made.class_names))
    assert compute.decoded == 0
    assert torch.equal(part.vectors, features.vectors[5:9])


def test_thumbnails_show_the_images(made: Dataset, compute: Compute) -> None:
    assert isinstance(made.items, Files)
    features = compute(made)
    for position, path in enumerate(made.items.paths):
        shown = features.thumbnails.image(position).permute(1, 2, 0).numpy().astype(float)
        assert abs(shown - np.asarray(Image.open(path))).mean() < 12  # of 255; another image is 60 away


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"views": 0}, "views=0"),
        ({"workers": 0}, "workers=0"),
        ({"augmentation": "crop224"}, "must not depend on chance"),
        ({"augmentation": "centre"}, "augmentation"),
        ({"backbone": "resnet18"}, "do not fit"),
        ({"weights": "nobodys"}, "nobodys"),
    ],
    ids=str,
)
def test_what_is_wrong_is_said(change: dict[str, object], message: str, made: Dataset, compute: Compute) -> None:
    with pytest.raises(ValueError, match=message):
        compute(made, **change)


def test_features_have_no_features(compute: Compute) -> None:
    with pytest.raises(ValueError, match="holds features"):
        compute(Dataset("vectors", Features(np.zeros((2, 3), np.float32)), np.zeros(2, np.int64), ("a",)))
