"""Whether a method can exist with batches of some size, and what it does otherwise to fit."""

from __future__ import annotations

from dataclasses import dataclass, replace

from likewise.losses.loss import traits_of
from likewise.methods import Method
from likewise.protocols import Protocol
from likewise.samplers.sampler import Labels

LEAST = 3  # images: an anchor, one of its class, one of another


@dataclass(frozen=True)
class BatchFit:
    """A method and a protocol that have batches, and what was done otherwise for it, in words."""

    method: Method
    protocol: Protocol
    adapted: str = ""


def fitted_to_batch(method: Method, protocol: Protocol, labels: Labels, *, may_change_protocol: bool) -> BatchFit:
    """The method as it is where its sampler has batches of the protocol's size; a ValueError where it cannot exist with such batches.

    Where the batch does not hold two classes, with fewer images of each. Where there are too few classes, with more images of each: that is
    the protocol's to say, unless it may be changed.
    """
    if protocol.batch < LEAST and not method.sampler_kind.gives_positive_pairs and not _learns_from_one(method):
        raise ValueError(f"a batch of {protocol.batch} images never holds an anchor with a positive and a negative")
    fault = _fault(method, protocol, labels)
    if fault is None:
        return BatchFit(method, protocol)
    fewer = method.with_fewer_images(protocol.batch)
    choices = [] if fewer is None else [BatchFit(fewer, protocol, f"{_images(fewer)} images a class instead of {_images(method)}")]
    for choice in choices:
        if _fault(choice.method, protocol, labels) is None:
            return choice
    if may_change_protocol and protocol.few_classes == "error":
        more = replace(protocol, few_classes="more_images")
        for choice in (BatchFit(method, protocol), *choices):
            if _fault(choice.method, more, labels) is None:
                return BatchFit(choice.method, more, ", ".join(filter(None, (choice.adapted, _filled(choice.method, more, labels)))))
    if protocol.batch < 2 * 2:
        raise ValueError(f"a batch of {protocol.batch} images holds no two classes with two images of each")
    raise fault


def _fault(method: Method, protocol: Protocol, labels: Labels) -> ValueError | None:
    try:
        method.make_sampler(labels, protocol.batch, few_classes=protocol.few_classes)
    except ValueError as fault:
        return fault
    return None


def _learns_from_one(method: Method) -> bool:
    """Whether a single image teaches something: what it is compared with is no part of the batch."""
    return method.memory > 0 or traits_of(method.make_loss(num_classes=2)).meets == "proxies"


def _images(method: Method) -> str:
    sampler = method.sampler
    if "num_support" in sampler.settings:
        return f"{sampler.settings['num_support']} + {sampler.settings['num_query']}"
    return str(sampler.settings["num_images"])


def _filled(method: Method, protocol: Protocol, labels: Labels) -> str:
    """How the batch is filled where the classes are too few for it."""
    size = method.make_sampler(labels, protocol.batch, few_classes="more_images").batch_size
    return (
        f"batches of {size}, as there are no more" if size < protocol.batch else "more images of each class, as there are too few classes"
    )
