"""Which protocol suits a data set, where none is asked for: the same for one training and for a comparison."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from likewise.data.dataset import Dataset, Features
from likewise.data.image_kind import image_kind
from likewise.environment import checked_device
from likewise.models.weights.pretrained import DEFAULT, WEIGHTS, is_here
from likewise.protocols import PROTOCOLS, Protocol, load_protocol

FROZEN, FINE_TUNED, FROM_SCRATCH = "photos", "folder-pretrained", "folder"
TO_FINE_TUNE = "resnet50"  # the weights for it, where none are given
_KINDS = {"tiny": "tiny (below 64 pixels)", "drawings": "drawn (few tones)"}


@dataclass(frozen=True)
class Suited:
    """A protocol, the weights it starts from, and what the user should know about the choice."""

    protocol: str | Path | Protocol
    weights: str | Path | None = None  # those that were given, or others that are here; None: the protocol's own, or none
    notes: tuple[str, ...] = ()


def suited_protocol(dataset: Dataset, *, weights: str | Path | None = None, device: str = "auto") -> Suited:
    """The protocol for this data set on this machine.

    Vectors have their own, as have glyphs and the published sets that are drawn (Omniglot). Of the others, drawings and tiny images
    (data/image_kind.py) are learned from scratch, unless weights are given. Photographs start from pretrained weights: on a GPU these are
    fine-tuned (under the protocol of a published set, or folder-pretrained), if weights are given or ResNet-50's are here; else they are
    left as they are and heads are trained on their features (photos). Where no weights are here at all, from scratch with a note.
    """
    if isinstance(dataset.items, Features):
        return Suited("features", weights)
    if dataset.name == "glyphs":
        return Suited("quick", weights)
    published = dataset.name if dataset.name in PROTOCOLS else None
    if published is not None and load_protocol(published).weights == "random":
        return Suited(published, weights)
    if published is None and weights is None:
        kind = image_kind(dataset)
        if kind != "photographs":
            return Suited(FROM_SCRATCH, notes=(_why_from_scratch(kind),))
    if checked_device(device).startswith("cuda") and (weights is not None or is_here(TO_FINE_TUNE)):
        return Suited(published or FINE_TUNED, TO_FINE_TUNE if weights is None else weights)
    if weights is not None or is_here(DEFAULT):
        return Suited(FROZEN, weights)
    missed = "these are photographs, and pretrained features tell photographs apart far better than a network that starts from nothing"
    return Suited(FROM_SCRATCH, notes=(f"{missed}: {WEIGHTS[DEFAULT].how_to_get} brings them, and the same command then takes them",))


def why_features_may_not_suit(dataset: Dataset) -> tuple[str, ...]:
    """A note on images that are no photographs, where pretrained features of photographs are taken all the same."""
    is_published = dataset.name in PROTOCOLS and load_protocol(dataset.name).weights != "random"  # of photographs, though they be small
    kind = "photographs" if is_published else image_kind(dataset)
    if kind == "photographs":
        return ()
    what = f"the images are {_KINDS[kind]}, and the pretrained features are of photographs, which may not suit them"
    return (f"{what}: `likewise compare` trains a small network from scratch on such images",)


def _why_from_scratch(kind: str) -> str:
    what = _KINDS[kind]
    remedy = f"--protocol {FROZEN} starts from pretrained features instead" if is_here(DEFAULT) else ""
    return f"the images are {what}, so that a small network is trained from scratch" + (f"; {remedy}" if remedy else "")
