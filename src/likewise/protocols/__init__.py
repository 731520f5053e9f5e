"""Protocols as data: what must be equal for every method. One TOML file a protocol; `PROTOCOLS` names them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from likewise.checks import known_name
from likewise.configuration import from_table
from likewise.data.augmentation import AUGMENTATIONS
from likewise.evaluation.metrics import DEFAULT_METRICS, METRICS
from likewise.formats.settings_files import naming, read_toml
from likewise.limits import require_within
from likewise.models.weights.pretrained import WEIGHTS, find_weights
from likewise.models.weights.weights_fit import check_weights
from likewise.own_code import is_address, resolved_address
from likewise.samplers.sampler import FewClasses

FOLDER = Path(__file__).parent
PROTOCOLS: tuple[str, ...] = tuple(sorted(path.stem for path in FOLDER.glob("*.toml")))

Pooling = Literal["avg", "max", "avg+max", "gem"]
Tune = Literal["rate", "all", "grid"]
Equal = Literal["steps", "time"]
TrainedPart = Literal["all", "high", "lora"]
OF_CODE = ("backbone", "train_augmentation", "test_augmentation")  # may be addresses of the user's code (own_code.py)
WEIGHTS_WORDS = ("required", "optional", "random")  # of `Protocol.weights`, beside names


@dataclass(frozen=True)
class Protocol:
    """Conditions of a training and its evaluation. No condition is also a field of `Method`."""

    name: str
    about: str  # one line
    # data
    data: str = ""  # the data set it is meant for, as `likewise train METHOD DATA` takes it; empty: any
    side: int | Literal["auto", "as_is"] = "auto"  # shorter side of packed images
    train_augmentation: str = "resized224"
    test_augmentation: str = "centre224"
    # model
    backbone: str = "resnet50_v1"
    weights: str = "optional"  # pretrained: "required", "optional" or "random" (none); or the name of those it has where none are given
    pooling: Pooling = "max"
    dim: int = 512
    frozen: bool = False  # the backbone stays as its weights are: its features are computed once and kept, and only heads are trained
    views: int = 1  # of an image that a frozen backbone sees for training: as tested; mirrored; crops
    frozen_batch_norm: bool = True
    trains: TrainedPart = "all"  # of the backbone; high: its last stage; lora: low-rank adapters, which are merged into it in the end
    head_start: Literal["random", "features", "whitening"] = "random"  # the PCA of the training items' features; half-whitened
    # optimisation
    batch: int = 112  # images a step
    few_classes: FewClasses = "error"  # what to do where a batch needs more classes than there are
    steps: int = 600  # 0: the network as it starts
    equal: Equal = "steps"  # for every method; time: each trains for as many seconds, and the schedule follows the share that is spent
    seconds: float = 0.0  # of a training where time is equal; 0, in a comparison: what the steps take with the method of median speed
    optimizer: Literal["adamw", "adam", "sgd", "rmsprop"] = "adamw"
    learning_rate: float = 2e-5
    weight_decay: float = 5e-4
    decay_towards: Literal["zero", "start"] = "zero"  # of the head's weights; the others decay towards zero
    eps: float = 1e-8  # adam's and rmsprop's
    momentum: float = 0.9  # sgd's
    schedule: Literal["constant", "cosine", "steps"] = "cosine"
    milestones: tuple[float, ...] = ()  # shares of the steps after which "steps" multiplies the rate by gamma
    gamma: float = 0.1
    clip: float = 0.0  # largest norm of the gradient; 0: as it is
    precision: Literal["auto", "bf16", "fp16", "fp32"] = "auto"  # auto: bf16 on a GPU, fp32 on a CPU
    compile: bool | Literal["auto"] = "auto"  # the backbone; auto: on a GPU, and there as a CUDA graph
    # choosing and scoring
    validation: float = 0.0  # share of the training classes held out to choose the best step; 0: the last step, and all of them train
    validate_every: int = 100
    compared_by: Literal["cosine", "euclidean"] = "cosine"  # test items; euclidean: what the heads give, not brought to length 1
    ks: tuple[int, ...] = (1, 2, 4, 8)
    metrics: tuple[str, ...] = DEFAULT_METRICS
    # comparison
    tune: Tune = "rate"  # what tuning tries: the learning rate alone, draws of every setting of a method, or its whole grid
    trials: int = 3  # of tuning, for each method; with grids: rates that are tried with each combination
    folds: int = 1  # of the training classes, for tuning; 1: half of them are held out, once
    seeds: int = 3

    def __post_init__(self) -> None:
        for name in ("dim", "views", "batch", "validate_every", "folds", "seeds"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)}: expected at least 1")
        for name in ("learning_rate", "eps", "gamma"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name}={getattr(self, name)}: expected a number above 0")
        for name in ("steps", "weight_decay", "clip", "momentum", "seconds", "trials"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name}={getattr(self, name)}: expected a number not below 0")
        if isinstance(self.side, int) and self.side < 1:
            raise ValueError(f"side={self.side}: expected a number of pixels, 'auto' or 'as_is'")
        for name in ("dim", "batch", "steps", "views", "trials", "folds", "seeds"):
            require_within("trials" if name in ("folds", "seeds") else name, getattr(self, name), f"{name} is")
        if self.views > 1 and not self.frozen:
            raise ValueError(f"views={self.views} of a backbone that is trained: its images are drawn anew each step; leave views out")
        known_name("weights", self.weights, (*WEIGHTS_WORDS, *WEIGHTS))
        for field in OF_CODE:
            name = getattr(self, field)
            if is_address(name):
                object.__setattr__(self, field, resolved_address(name))  # with the digest of the code
            elif field != "backbone":
                known_name("augmentation", name, AUGMENTATIONS)
        for name in self.metrics:
            known_name("metric", name, METRICS)
        if not self.metrics or not self.ks or min(self.ks) < 1:
            raise ValueError(f"metrics={self.metrics} with ks={self.ks}: expected at least one of each, and K of at least 1")
        if self.trains != "all" and self.frozen:
            raise ValueError(f"trains={self.trains!r} of a backbone that stays as it is: leave trains out, or --set frozen=false")
        if self.trains != "all" and not self.frozen_batch_norm:
            raise ValueError(f"trains={self.trains!r} while batch norms of the whole backbone learn: --set frozen_batch_norm=true as well")
        if not 0 <= self.validation < 1:
            raise ValueError(f"validation={self.validation}: expected a share of the training classes, such as 0.2, or 0 for none")

    @property
    def names(self) -> tuple[str, ...]:
        """Of what may be the user's own code."""
        return tuple(getattr(self, field) for field in OF_CODE)

    def check_time(self, *, is_measured: bool = False) -> None:
        """Refuses seconds that would not count, and equal time of unknown length, unless trials measure it."""
        if self.seconds and self.equal == "steps":
            raise ValueError(f"seconds={self.seconds:g} where steps are equal: give equal='time' as well, or leave it out")
        if self.equal == "time" and not self.seconds and not is_measured:
            raise ValueError("equal time of unknown length, as no trials of tuning measure it: give --set seconds=20")

    def for_weights(self, given: str | Path | None) -> Protocol:
        """The protocol for weights that bring a backbone of their own: those of a name that `likewise weights` lists, timm: and hf:.

        With the backbone come its pooling and, where it is frozen, the cut of the image that its authors test with; how a backbone that
        is trained sees images stays the protocol's. A plain file changes nothing.
        """
        if given is None or self.weights == "random":
            return self
        own = find_weights(given).backbone
        if own is None:
            return self
        known = WEIGHTS.get(str(given))
        if known is None:
            return replace(self, backbone=own)
        brought: dict[str, Any] = {"backbone": own, "pooling": known.pooling}
        if self.frozen:
            brought |= {"side": known.side, "test_augmentation": known.augmentation}
        return replace(self, **brought)

    def weights_file(self, given: str | Path | None) -> Path | None:
        """The file of the pretrained weights (a path, or a name that `likewise weights` lists), if the protocol takes any."""
        if given is None and self.weights in WEIGHTS:
            given = self.weights
        if given is None:
            if self.weights == "required":
                raise ValueError(
                    f"protocol {self.name} starts from pretrained weights of {self.backbone}: give --weights FILE "
                    "(.safetensors or .pth) or a name that `likewise weights` lists, or --set weights=random to start from nothing"
                )
            return None
        if self.weights == "random":
            raise ValueError(f"protocol {self.name} starts from random weights: leave --weights out, or --set weights=optional")
        file = find_weights(given)
        if file.backbone is None:
            check_weights(self.backbone, file.path)
        elif file.backbone != self.backbone:
            remedy = f"give weights of {self.backbone}, or --set backbone={file.backbone}"
            raise ValueError(
                f"the weights {given} are of {file.backbone}, and protocol {self.name} has the backbone {self.backbone}: {remedy}"
            )
        return file.path


def load_protocol(name: str | Path | Protocol) -> Protocol:
    """The protocol of this name, or of this .toml file."""
    if isinstance(name, Protocol):
        return name
    path = Path(name)
    if path.suffix == ".toml":
        if not path.is_file():
            raise ValueError(f"there is no protocol file {path}: give the path of a .toml file or a name that `likewise protocols` lists")
        return _read(path)
    return _of_package(known_name("protocol", str(name), PROTOCOLS))


@lru_cache(maxsize=64)
def _of_package(name: str) -> Protocol:
    return _read(FOLDER / f"{name}.toml")


def _read(path: Path) -> Protocol:
    with naming(f"protocol file {path.name}"):
        table = {"name": path.stem, **read_toml(path)}
        for key in OF_CODE:
            if isinstance(table.get(key), str) and is_address(table[key]):
                table[key] = resolved_address(table[key], folder=path.parent)
        return from_table(Protocol, table, where=f"protocol file {path.name}")
