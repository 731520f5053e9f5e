"""Own code by address: losses, miners, samplers, backbones and augmentations out of a file of the user's, through the whole machine."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import Tensor

import likewise
from likewise import own_code
from likewise.comparison.request import methods_of
from likewise.losses import LOSSES
from likewise.methods import load_method
from likewise.models import Embedder
from likewise.own_code import address_of_class, at_address, is_address, known_code, resolved_address, take_over
from likewise.pairs import Pairs, masked_mean, softplus

LOSS = '''
from dataclasses import dataclass

from my_scale import SCALE

from likewise.losses import Loss
from likewise.pairs import Pairs, masked_mean, softplus


@dataclass(frozen=True)
class MeanRatio(Loss):
    """l = log(1 + exp((mean_N s - mean_P s) / temperature))."""

    temperature: float = 0.1

    def per_anchor(self, pairs: Pairs):
        pull, push = pairs.positives, pairs.negatives
        gap = masked_mean(push.similarity, push.mask) - masked_mean(pull.similarity, pull.mask)
        return SCALE * softplus(gap / self.temperature).masked_fill(pull.empty | push.empty, 0.0)


@dataclass(frozen=True)
class Near:
    """Keeps the negatives that are more similar than a threshold."""

    above: float = 0.0

    def __call__(self, pairs: Pairs) -> Pairs:
        return pairs.narrow(negative=pairs.negatives.similarity > self.above)
'''
NET = '''
import torch
from torch import nn

from likewise.data.augmentation import Augmentation
from likewise.models import Backbone
from likewise.samplers.group import Group

whole = Augmentation(None, "whole", mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5))


class Tiny(Backbone):
    channels = {"low": 4, "mid": 8, "high": 16}

    def __init__(self):
        super().__init__()
        self.stages = nn.ModuleList(nn.Conv2d(a, b, 3, 2, 1) for a, b in ((3, 4), (4, 8), (8, 16)))

    def forward(self, inputs, levels=("high",)):
        taps = {}
        for level, stage in zip(("low", "mid", "high"), self.stages):
            inputs = taps[level] = stage(inputs).relu()
        return tuple(taps[level] for level in levels)


class Pairwise(Group):
    """A group sampler under another name."""
'''
METHOD = """
title = "Mean ratio"
paper = "mine"
summary = "means against each other"

[loss]
name = "losses/mine.py:MeanRatio"
temperature = 0.2

[mining]
name = "losses/mine.py:Near"

[sampler]
name = "net.py:Pairwise"
num_images = 2

[search]
"loss.temperature" = { low = 0.05, high = 1.0, log = true }
"""
DATA = "glyphs:classes=12,images=4,size=16"
SETTINGS = {"steps": 2, "batch": 8, "backbone": "net.py:Tiny", "test_augmentation": "net.py:whole", "train_augmentation": "net.py:whole"}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with files of a user's, from which commands are given; what the process knows of code is as before, afterwards."""
    before = {name: dict(getattr(own_code, name)) for name in ("_known", "_modules")}
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LIKEWISE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "losses").mkdir()
    (tmp_path / "losses" / "mine.py").write_text(LOSS)
    (tmp_path / "losses" / "my_scale.py").write_text("SCALE = 1.0\n")
    (tmp_path / "net.py").write_text(NET)
    (tmp_path / "mean_ratio.toml").write_text(METHOD)
    yield tmp_path
    for name, known in before.items():
        getattr(own_code, name).clear()
        getattr(own_code, name).update(known)


def forget() -> None:
    """As another process, that was given nothing."""
    own_code._known.clear()
    own_code._modules.clear()


@pytest.mark.parametrize(("name", "expected"), [("raw", False), ("timm:resnet18", False), ("a.py:B", True), ("package.module:Name", True)])
def test_what_is_an_address(name: str, expected: bool) -> None:
    assert is_address(name) is expected


def test_a_loss_of_a_file_is_a_loss(home: Path) -> None:
    torch.manual_seed(0)
    embeddings, labels = torch.randn(12, 4, dtype=torch.float64), torch.arange(4).repeat_interleave(3)
    address = resolved_address("losses/mine.py:MeanRatio")
    value = likewise.objective(address, temperature=0.3, mining=resolved_address("losses/mine.py:Near"), block=None)(embeddings, labels)
    unit = torch.nn.functional.normalize(embeddings)
    expected = []
    for i in range(12):
        row = unit @ unit[i]
        pull = [row[j] for j in range(12) if labels[j] == labels[i] and j != i]
        push = [row[j] for j in range(12) if labels[j] != labels[i] and row[j] > 0]
        expected.append(softplus((sum(push) / max(len(push), 1) - sum(pull) / len(pull)) / 0.3) if push else torch.tensor(0.0))
    torch.testing.assert_close(value, torch.stack([entry.double() for entry in expected]).mean(), rtol=1e-9, atol=0)


def test_an_address_is_seen_from_the_file_that_names_it(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "elsewhere").mkdir()
    monkeypatch.chdir(home / "elsewhere")
    method = load_method("../mean_ratio.toml")
    assert method.loss.name.startswith("mine.py:MeanRatio@")
    assert method.loss.settings == {"temperature": 0.2}
    assert method.make_loss().temperature == 0.2  # type: ignore[union-attr]
    assert "loss.temperature" in method.dotted_names


def test_changed_code_is_another_method(home: Path) -> None:
    before = load_method("mean_ratio.toml")
    assert load_method("mean_ratio.toml") == before
    (home / "losses" / "my_scale.py").write_text("SCALE = 2.0\n")  # what it imports counts, too
    after = load_method("mean_ratio.toml")
    assert after.loss.name != before.loss.name
    assert type(before.make_loss()).per_anchor.__globals__["SCALE"] == 1.0  # both versions live side by side
    assert type(after.make_loss()).per_anchor.__globals__["SCALE"] == 2.0
    assert "my_scale" not in sys.modules
    with pytest.raises(ValueError, match=r"is there already, and another: its loss.name is 'mine.py:MeanRatio@\w+' there and"):
        methods_of(["+mean_ratio.toml"], "quick", there=[before])


def test_code_travels(home: Path) -> None:
    address = resolved_address("losses/mine.py:MeanRatio")
    sent = known_code()
    forget()
    with pytest.raises(ValueError, match=r"the code of mine\.py \(version \w{12}\) is not known here: give its file again"):
        at_address(address)
    take_over(sent)
    for file in home.rglob("*.py"):
        file.unlink()  # a machine that has none of the files
    assert at_address(address)().temperature == 0.1


def test_nothing_that_was_received_is_run(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A method out of a run's folder names its code by the digest: it is read, and cannot be made before its user says so."""
    method = load_method("mean_ratio.toml")
    forget()
    again = load_method(method)
    assert again == method
    with pytest.raises(ValueError, match="not known here"):
        again.make_loss()
    monkeypatch.setenv("LIKEWISE_OWN_CODE", str(home / "losses" / "mine.py"))
    assert again.make_loss().temperature == 0.2  # type: ignore[union-attr]
    forget()
    monkeypatch.delenv("LIKEWISE_OWN_CODE")
    own_code.trust("losses/mine.py")
    again.make_loss()


FAULTS = {
    "no file": ("nowhere.py:Loss", r"there is no file nowhere\.py in .*: expected the Python file that is meant"),
    "no name": ("losses/mine.py:MeanRation", r"losses/mine\.py has no MeanRation|mine\.py has no MeanRation: did you mean MeanRatio\?"),
    "no Python": ("broken.py:Loss", r"broken\.py is not Python that can be run: invalid syntax"),
    "no text": ("binary.py:Loss", r"binary\.py cannot be read as Python"),
    "raises": ("raises.py:Loss", r"raises\.py cannot be run \(ZeroDivisionError: division by zero\)"),
    "no module": ("no_such_package.losses:Loss", r"module no_such_package\.losses cannot be imported \(ModuleNotFoundError"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_in_words(fault: str, home: Path) -> None:
    (home / "broken.py").write_text("def broken(:\n")
    (home / "binary.py").write_bytes(b"\xff\xfe\x00")
    (home / "raises.py").write_text("1 / 0\n")
    address, words = FAULTS[fault]
    with pytest.raises(ValueError, match=words):
        likewise.objective(address)


def test_what_is_no_loss_and_no_sampler_is_told(home: Path) -> None:
    (home / "mean_ratio.toml").write_text(METHOD.replace("net.py:Pairwise", "net.py:Tiny"))
    with pytest.raises(ValueError, match=r"net\.py:Tiny@\w+ is no sampler: expected a class that derives from"):
        load_method("mean_ratio.toml")
    with pytest.raises(ValueError, match=r"is no loss: give a name in likewise.LOSSES or an object with"):
        likewise.objective("losses/mine.py:Near")
    (home / "mean_ratio.toml").write_text(METHOD.replace("temperature = 0.2", "temprature = 0.2"))
    with pytest.raises(ValueError, match=r"unknown setting of mine\.py:MeanRatio@\w+ 'temprature': did you mean 'temperature'"):
        load_method("mean_ratio.toml")


@dataclass(frozen=True)
class Spread:
    """l = the mean similarity to negatives."""

    weight: float = 1.0

    def per_anchor(self, pairs: Pairs) -> Tensor:
        return self.weight * masked_mean(pairs.negatives.similarity, pairs.negatives.mask)


def test_loss_objects_are_methods() -> None:
    method = load_method(Spread(weight=2.0))
    assert (method.name, method.title, method.summary) == ("spread", "Spread", "l = the mean similarity to negatives.")
    assert method.loss.settings == {"weight": 2.0}
    assert method.make_loss().weight == 2.0  # type: ignore[union-attr]
    known = load_method(LOSSES["raw"](alpha=3.0))  # type: ignore[call-arg]
    assert (known.loss.name, known.loss.settings) == ("raw", {"alpha": 3.0})
    assert methods_of([Spread(), "raw_vthm"], "quick")[0].name == "spread"

    @dataclass(frozen=True)
    class Inner(Spread):
        pass

    with pytest.raises(ValueError, match="is defined inside of something: write it at the top of a file"):
        load_method(Inner())


SCRIPT = """
from dataclasses import dataclass
from likewise.pairs import masked_mean
import likewise

FACTOR = 2.0
print("the script runs")

def scaled(x):
    return FACTOR * x

@dataclass(frozen=True)
class Spread:
    weight: float = 1.0

    def per_anchor(self, pairs):
        return self.weight * scaled(masked_mean(pairs.negatives.similarity, pairs.negatives.mask))

table = likewise.compare([Spread(3.0), "raw_vthm"], DATA, protocol="quick", settings=SETTINGS, seeds=1, jobs=2, trials=0, out="runs/script")
print([method.name for method in table.methods], table.notes)
"""


def test_a_script_compares_its_own_loss_by_workers(home: Path) -> None:
    """What the class is made of goes to the workers, and what the script does is not done again."""
    (home / "script.py").write_text(SCRIPT.replace("DATA", repr(DATA)).replace("SETTINGS", repr({"steps": 2, "batch": 8})))
    ran = subprocess.run([sys.executable, "script.py"], capture_output=True, text=True, timeout=250)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.count("the script runs") == 1
    assert "'spread'" in ran.stdout
    assert "Spread" in (home / "runs" / "script" / "leaderboard.csv").read_text()


def test_through_training_and_comparison(home: Path) -> None:
    """Loss, miner, sampler, backbone and augmentation of one's own: trained, compared by two processes, gone on with, and embedded."""
    run = likewise.train("mean_ratio.toml", DATA, protocol="quick", settings=SETTINGS, out="runs/one")
    asked = {"protocol": "quick", "settings": SETTINGS, "trials": 0, "out": "runs/table"}
    table = likewise.compare(["mean_ratio.toml"], DATA, seeds=1, jobs=2, **asked)  # type: ignore[arg-type]
    (method,) = (method for method in table.methods if method.name == "mean_ratio")
    assert method.scores["MAP@R"].values[0] == pytest.approx(run.scores["MAP@R"], abs=1e-12)
    config = json.loads((home / "runs" / "one" / "config.json").read_text())
    assert config["protocol"]["backbone"].startswith("net.py:Tiny@")
    model = Embedder.load("runs/table/best")  # the comparison's best
    assert model.network.spec.backbone == config["protocol"]["backbone"]
    forget()
    with pytest.raises(ValueError, match=r"the code of net\.py \(version \w+\) is not known here"):
        Embedder.load("runs/table/best")
    with pytest.raises(ValueError, match=r"the code of (mine|net)\.py \(version \w+\) is not known here"):
        likewise.compare(None, DATA, seeds=2, jobs=1, trials=0, out="runs/table", protocol="quick")


def test_the_address_of_a_class() -> None:
    assert address_of_class(LOSSES["raw"]).startswith("likewise.losses.raw:RelativeAbsolute@")
    assert at_address(address_of_class(Spread)).__name__ == "Spread"
