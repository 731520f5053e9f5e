"""Baselines: the rows of a comparison that nothing is trained for, so that every table says what training is worth."""

from __future__ import annotations

from likewise.configuration import Named
from likewise.methods import Head, Method

UNTRAINED, WHITENING = "untrained", "whitening"
BASELINES = (UNTRAINED, WHITENING)  # names that no method may have

_NO_LOSS = Named("contrastive")  # a method has one; nothing is trained with it

INITIALISED = Method(
    name=UNTRAINED,
    title="Untrained network",
    paper="",
    summary="the network as it is initialised: what the images alone give",
    loss=_NO_LOSS,
)
AS_THEY_ARE = Method(
    name=UNTRAINED,
    title="No training",
    paper="",
    summary="the features as they are, or the vectors that were given",
    loss=_NO_LOSS,
    head=Head(kind="none"),
)
WHITENED = Method(
    name=WHITENING,
    title="Whitening",
    paper="",
    summary="the features under within-class whitening of the training classes, a closed form",
    loss=_NO_LOSS,
    head=Head(kind="none"),
)


def baselines(*, has_features: bool) -> tuple[Method, ...]:
    """Those of a comparison. has_features: it starts from pretrained weights or from vectors, which are of use as they are."""
    return (WHITENED, AS_THEY_ARE) if has_features else (INITIALISED,)


def is_baseline(method: Method) -> bool:
    return method.name in BASELINES


def competes(method: Method) -> bool:
    """Whether a baseline is judged beside the methods: it has no seed, and if it is best it is what to put to work.

    A network with random weights is neither: it is every comparison's lowest line.
    """
    return is_baseline(method) and method.head.kind == "none"
