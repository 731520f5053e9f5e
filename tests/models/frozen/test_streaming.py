"""Images decoded and run by threads: through onnxruntime or torch, what cannot be decoded left out, and nothing else changed."""

import os
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from likewise.data.dataset import Dataset, Files
from likewise.models.frozen import onnx_network, streaming

from ...optional import needs_package
from ..drawn_photographs import drawn_photographs
from .made_features import COUNT, SIDE, Compute, assert_alike, by_hand, dataset


@pytest.mark.parametrize("missing", ["onnxruntime", None])
def test_with_and_without_onnxruntime(
    missing: str | None, made: Dataset, compute: Compute, weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if missing:
        monkeypatch.setitem(sys.modules, missing, None)
    else:
        needs_package("onnxruntime")
    used = []
    original = onnx_network.onnx_network
    monkeypatch.setattr(streaming, "onnx_network", lambda *given: used.append(original(*given)) or used[-1])  # type: ignore[func-returns-value]
    assert_alike(compute(made).vectors, by_hand(made, weights))
    assert [run is None for run in used] == [missing is not None]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU: torch.cuda.is_available()")
def test_a_gpu_gives_the_same_features(made: Dataset, compute: Compute, tmp_path: Path) -> None:
    on_cpu = compute(made, views=3).views
    on_gpu = compute(made, views=3, device="cuda", folder=tmp_path / "other").views
    assert on_gpu.device.type == "cpu"
    assert_alike(on_gpu[:, :2], on_cpu[:, :2])
    torch.testing.assert_close(on_gpu, on_cpu, rtol=0, atol=0.02 * float(on_cpu.abs().max()))  # a GPU does not round resized pixels


def test_what_cannot_be_decoded_is_named_and_left_out(made: Dataset, compute: Compute, weights: Path) -> None:
    assert isinstance(made.items, Files)
    made.items.paths[2].write_bytes(b"no image")
    made.items.paths[3].unlink()
    features = compute(made)
    kept = np.setdiff1d(np.arange(COUNT), [2, 3])
    assert features.indices.tolist() == kept.tolist()
    assert_alike(features.vectors, by_hand(made.subset(kept), weights))
    assert [problem.path for problem in features.skipped] == [made.items.paths[2], made.items.paths[3]]
    assert "not an image" in features.skipped[0].reason
    assert "No such file" in features.skipped[1].reason
    assert compute(made).skipped == features.skipped
    assert compute.decoded == 0  # nor is a broken file looked at again
    drawn_photographs(1, SIDE, seed=9)[0].save(made.items.paths[3])
    assert len(compute(made).indices) == COUNT - 1
    assert compute.decoded == 1


def test_a_file_that_may_be_readable_later_is_tried_again(made: Dataset, compute: Compute, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(made.items, Files)
    refused = made.items.paths[6]
    original = os.open

    def refusing(path: object, *args: int) -> int:
        if path == refused:
            raise PermissionError(13, "Permission denied", str(path))
        return original(path, *args)  # type: ignore[call-overload, no-any-return]

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refusing)
        assert [str(problem) for problem in compute(made).skipped] == [f"{refused}: cannot be read: Permission denied"]
    assert compute(made).skipped == ()
    assert compute.decoded == 1


def test_no_image_at_all_is_an_error(tmp_path: Path, compute: Compute) -> None:
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "a.png").write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"made: none of 1 images can be decoded; the first: .*a\.png: not an image"):
        compute(dataset(tmp_path / "images"))


def test_warnings_are_as_before_when_threads_have_decoded(made: Dataset, compute: Compute) -> None:
    before = list(warnings.filters)
    compute(made)
    assert list(warnings.filters) == before
