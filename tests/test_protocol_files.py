from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from likewise.configuration import as_table, from_table, with_settings
from likewise.data.augmentation import AUGMENTATIONS
from likewise.data.readers import READERS
from likewise.evaluation.metrics import CLUSTERING_METRICS
from likewise.methods import METHODS, load_method
from likewise.models.backbones import BACKBONES
from likewise.models.network import make_network
from likewise.models.weights.pretrained import WEIGHTS
from likewise.protocols import FOLDER, PROTOCOLS, Protocol, load_protocol
from likewise.training.loop import network_spec

from .file_opening import opening

ISSUE = {
    *("quick", "omniglot", "mnist2d", "cub", "cars", "sop", "inshop", "cub64", "cars64", "sop64", "inshop64"),
    *("paper-rll-cub", "paper-rll-cars", "paper-rll-sop", "paper-rll-inshop", "paper-nra-cub", "paper-nra-cars", "paper-nra-sop"),
    *("paper-raw-cub", "paper-raw-cars", "paper-raw-sop", "paper-raw-inshop"),
    *("paper-unbiased-cub", "paper-unbiased-cub-resnet50", "paper-unbiased-cars", "paper-unbiased-sop"),
    *("features", "folder", "folder-pretrained"),
}


def test_every_protocol_is_there() -> None:
    assert set(PROTOCOLS) >= ISSUE


@pytest.mark.parametrize("name", PROTOCOLS)
def test_reads_back(name: str) -> None:
    protocol = load_protocol(name)
    assert protocol.name == name
    assert from_table(Protocol, as_table(protocol), where=name) == protocol


@pytest.mark.parametrize("name", PROTOCOLS)
def test_opens_with_paper_and_command(name: str) -> None:
    text, protocol = opening(FOLDER / f"{name}.toml"), load_protocol(name)
    assert re.search(r"\bPaper: \w", text)
    command = re.search(r"Command: likewise train (\S+) (\S+) --protocol (\S+)(?: --weights (\S+))? --out RUN$", text)
    assert command is not None
    method, data, own, weights = command.groups()
    assert method in METHODS
    assert own == name
    assert data == (protocol.data or data)
    assert (weights is not None) == (protocol.weights == "required")
    assert weights is None or weights.startswith(protocol.backbone)
    if name.startswith("paper-"):
        assert "Differs" in text


@pytest.mark.parametrize("name", PROTOCOLS)
def test_names_what_exists(name: str) -> None:
    protocol = load_protocol(name)
    assert protocol.backbone in BACKBONES
    assert {protocol.train_augmentation, protocol.test_augmentation} <= set(AUGMENTATIONS)
    assert protocol.data == "" or protocol.data.partition(":")[0] in READERS
    assert set(protocol.metrics) <= {"R@K", "RP", "MAP@R", "mAP", *CLUSTERING_METRICS}


@pytest.mark.parametrize("name", PROTOCOLS)
def test_images_are_large_enough_for_its_crops(name: str) -> None:
    protocol = load_protocol(name)
    train, test = AUGMENTATIONS[protocol.train_augmentation], AUGMENTATIONS[protocol.test_augmentation]
    assert train.size == (test.size if test.cut is None else test.cut)  # the same pixels of an image, which may then be enlarged
    assert (train.mean, train.std) == (test.mean, test.std)
    if train.size is not None:
        assert (256 if protocol.side == "auto" else int(protocol.side)) >= train.size


@pytest.mark.parametrize("name", PROTOCOLS)
def test_schedule_is_whole(name: str) -> None:
    protocol = load_protocol(name)
    assert (protocol.schedule == "steps") == bool(protocol.milestones)
    assert list(protocol.milestones) == sorted(protocol.milestones)
    assert all(0 < milestone < 1 for milestone in protocol.milestones)
    assert protocol.validation == 0 or protocol.validate_every <= protocol.steps


@pytest.mark.parametrize("name", ["cub", "cars", "sop", "inshop"])
def test_64_dimensions_are_the_only_difference(name: str) -> None:
    large, small = load_protocol(name), load_protocol(f"{name}64")
    assert (large.dim, small.dim) == (512, 64)
    assert replace(small, name=name, dim=512, about=large.about) == large


@pytest.mark.parametrize("name", [name for name in PROTOCOLS if name.startswith("paper-")])
def test_some_method_has_its_papers_settings_under_it(name: str) -> None:
    assert any(name in load_method(method).under or name in load_method(method).published for method in METHODS)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pooling": "mean"}, "pooling is 'mean': expected one of 'avg', 'max', 'avg+max', 'gem'"),
        ({"stepps": 3}, "unknown setting 'stepps': did you mean 'steps'?"),
        ({"steps": -1}, "steps=-1: expected a number not below 0"),
        ({"step": 3}, "unknown setting 'step': did you mean 'steps'?"),
        ({"lr": 3}, "unknown setting 'lr': did you mean 'learning_rate'?"),
        ({"wd": 3}, "unknown setting 'wd': did you mean 'weight_decay'?"),
        ({"steps": 1.5}, "steps is 1.5: expected int"),
        ({"learning_rate": 0}, "learning_rate=0.0: expected a number above 0"),
        ({"weight_decay": -1}, "weight_decay=-1.0: expected a number not below 0"),
        ({"validation": 1}, "validation=1.0: expected a share of the training classes"),
        ({"side": "small"}, "side is 'small'"),
        ({"loss": "raw"}, "unknown setting 'loss'"),
    ],
)
def test_what_does_not_fit_is_named(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        with_settings(load_protocol("quick"), changes)


def test_names_that_do_not_exist() -> None:
    with pytest.raises(ValueError, match=r"unknown protocol 'qick': did you mean 'quick'\?"):
        load_protocol("qick")
    with pytest.raises(ValueError, match=r"there is no protocol file mine\.toml: give the path"):
        load_protocol("mine.toml")


def test_dreml_can_have_the_resnet18_of_the_unbiased_evaluation() -> None:
    """Table 2, second column: 48 members of 12 dimensions, of which two are made here."""
    protocol = with_settings(load_protocol("paper-unbiased-cub"), {"backbone": WEIGHTS["resnet18"].backbone})
    method = load_method("dreml").for_protocol(protocol.name)
    assert (method.ensemble.members, method.head.dim) == (48, 12)
    network = make_network(network_spec(replace(method, ensemble=replace(method.ensemble, members=2)), protocol), seed=0)
    assert network.width == 2 * 12
    assert sum(parameter.numel() for parameter in network.parameters()) == 2 * (11_176_512 + 512 * 12 + 12)  # torchvision's, without its fc


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('about = "mine"\nbatch = 12\n')
    mine = load_protocol(tmp_path / "mine.toml")
    assert (mine.name, mine.batch, mine.dim) == ("mine", 12, 512)
