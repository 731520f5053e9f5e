"""Weight files: what fits is loaded, what does not is refused whole."""

import pickle
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from likewise.data.augmentation import named_augmentation
from likewise.models import load_weights
from likewise.models.backbones import make_backbone
from likewise.models.embedder import Embedder, Preprocessing
from likewise.models.network import NetworkSpec, make_network
from likewise.models.weights.pretrained import find_weights
from likewise.models.weights.weights_fit import check_weights


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, bias=False)
        self.bn = nn.BatchNorm2d(4)


def filled() -> dict[str, Tensor]:
    torch.manual_seed(1)
    module = Small()
    for value in module.state_dict().values():
        value.copy_(torch.randint(1, 9, value.shape))
    return module.state_dict()


def save(state: dict[str, Tensor], path: Path) -> None:
    if path.suffix == ".safetensors":
        save_file(state, path)
    else:
        torch.save(state, path)


@pytest.mark.parametrize("ending", [".safetensors", ".pth", ".pt"])
def test_loads_casts_and_ignores_the_classifier(tmp_path: Path, ending: str) -> None:
    state = filled()
    stored = {name: value.half() if name == "conv.weight" else value for name, value in state.items()}
    save({**stored, "fc.weight": torch.ones(2, 4)}, tmp_path / f"file{ending}")
    module = Small()
    load_weights(module, tmp_path / f"file{ending}", ignore=("fc.",))
    assert module.conv.weight.dtype == torch.float32
    torch.testing.assert_close(dict(module.state_dict()), dict(state), rtol=0, atol=0)


@pytest.mark.parametrize("key", ["state_dict", "model"])
def test_wrapped_and_prefixed(tmp_path: Path, key: str) -> None:
    state = filled()
    torch.save({key: {f"module.{name}": value for name, value in state.items()}, "epoch": 3}, tmp_path / "file.pth")
    module = Small()
    load_weights(module, tmp_path / "file.pth")
    torch.testing.assert_close(dict(module.state_dict()), dict(state), rtol=0, atol=0)


def test_counts_of_batches_may_be_missing(tmp_path: Path) -> None:
    state = filled()
    save_file({name: value for name, value in state.items() if not name.endswith("tracked")}, tmp_path / "old.safetensors")
    module = Small()
    load_weights(module, tmp_path / "old.safetensors")
    torch.testing.assert_close(module.bn.running_var, state["bn.running_var"], rtol=0, atol=0)
    assert module.bn.num_batches_tracked == 0


def test_partial_load_refused_with_all_faults_and_nothing_loaded(tmp_path: Path) -> None:
    state = filled()
    del state["bn.running_mean"], state["bn.weight"]
    state["conv.weight"] = torch.ones(4, 3, 5, 5)
    state |= {f"more.{i}": torch.ones(1) for i in range(6)}
    save_file(dict(state), tmp_path / "file.safetensors")
    module = Small()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    with pytest.raises(ValueError, match="do not fit Small") as fault:
        load_weights(module, tmp_path / "file.safetensors", ignore=("fc.",))
    message = str(fault.value)
    assert str(tmp_path / "file.safetensors") in message
    assert "2 missing (bn.weight, bn.running_mean)" in message
    assert "6 unexpected (more.0, more.1, more.2, more.3, ...)" in message
    assert "1 of another shape (conv.weight (4, 3, 5, 5) instead of (4, 3, 3, 3))" in message
    torch.testing.assert_close(dict(module.state_dict()), before, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"more": torch.ones(1)}, r"do not fit Small: 1 unexpected \(more\)\. Nothing was loaded"),
        ({"bn.bias": torch.ones(5)}, r"do not fit Small: 1 of another shape \(bn.bias \(5,\) instead of \(4,\)\)\. Nothing was loaded"),
    ],
)
def test_one_fault_is_enough(tmp_path: Path, changes: dict[str, Tensor], message: str) -> None:
    save_file({**filled(), **changes}, tmp_path / "file.safetensors")
    with pytest.raises(ValueError, match=message):
        load_weights(Small(), tmp_path / "file.safetensors")


def test_what_is_ignored_is_still_loaded_where_the_module_has_it(tmp_path: Path) -> None:
    state = filled()
    save_file(dict(state), tmp_path / "file.safetensors")
    module = Small()
    load_weights(module, tmp_path / "file.safetensors", ignore=("bn.",))
    torch.testing.assert_close(module.bn.weight, nn.Parameter(state["bn.weight"]), rtol=0, atol=0)


class Evil:
    def __reduce__(self) -> tuple[object, ...]:
        return print, ("code has run",)


def test_code_is_not_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "evil.pth").write_bytes(pickle.dumps({"conv.weight": Evil()}))
    torch.save({"conv.weight": Evil()}, tmp_path / "evil.pt")
    for name in ("evil.pth", "evil.pt"):
        with pytest.raises(ValueError, match=rf"{name}: broken, or more than tensors"):
            load_weights(Small(), tmp_path / name)
    assert "code has run" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("cut.safetensors", b"\x80\0\0\0\0\0\0\0{", "not a safetensors file, or cut off"),
        ("empty.pth", b"", "broken, or more than tensors"),
        ("text.pt", b"hello", "broken, or more than tensors"),
        ("model.onnx", b"", "the ending '.onnx' is unknown"),
    ],
)
def test_unreadable(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        load_weights(Small(), tmp_path / name)


def test_missing_or_not_weights(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no such file"):
        load_weights(Small(), tmp_path / "none.pth")
    torch.save([1, 2], tmp_path / "list.pth")
    with pytest.raises(ValueError, match="expected tensors by name, found list"):
        load_weights(Small(), tmp_path / "list.pth")


def test_a_saved_embedder_is_told_as_such(tmp_path: Path) -> None:
    """Not as so many missing names: whether its file is given, its folder, or the folder of the run or comparison that holds it."""
    network = make_network(NetworkSpec("resnet18", dim=8), seed=0)
    Embedder(network, Preprocessing(None, named_augmentation("centre224"))).save(tmp_path / "run" / "embedder")
    words = r"this is an embedder that Likewise saved.*`likewise embed FOLDER IMAGES --out vectors.npz` uses it"
    file = tmp_path / "run" / "embedder" / "model.safetensors"
    for module in (Small(), make_backbone("resnet18").named_as_in_files):
        with pytest.raises(ValueError, match=words) as told:
            load_weights(module, file)
        assert "missing" not in str(told.value)
    with pytest.raises(ValueError, match=words):
        check_weights("resnet18", file)
    for folder in (tmp_path / "run", tmp_path / "run" / "embedder"):
        with pytest.raises(ValueError, match=words):
            find_weights(folder)
    with pytest.raises(ValueError, match="is a folder: give a file in it"):
        find_weights(tmp_path)
    load_weights(network, file)  # of which it is
