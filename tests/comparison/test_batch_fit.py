"""Which methods can exist with which batches: unbiased evaluation, Figure 2, from 2 images on."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
import torch

from likewise.comparison.sweeping.batch_fit import fitted_to_batch
from likewise.configuration import Named, with_settings
from likewise.losses.loss import traits_of
from likewise.methods import METHODS, Method, load_method
from likewise.protocols import load_protocol
from likewise.training.feeds import Feed
from likewise.training.fit import fit

LABELS = np.repeat(np.arange(24), 10)
QUICK = replace(load_protocol("quick"), backbone="mlp", dim=8, steps=3, schedule="constant")
UNBIASED = "paper-unbiased-cub"  # where triplet and lifted draw images at random, n-pairs pairs, prototypical 5 + 5
SIZES = (2, 3, 4, 5, 6, 8, 16, 32)


def meets_proxies(method: Method) -> bool:
    return traits_of(method.make_loss(num_classes=2)).meets == "proxies"


def smallest(method: Method) -> int:
    """The fewest images that a batch of this method can have: written from what its loss compares, not from its sampler's code."""
    if meets_proxies(method):
        return 1
    return 3 if method.sampler.name == "shuffled" else 4  # an anchor with one of its class and one of another; two classes of two


@pytest.mark.parametrize("under", ["quick", UNBIASED])
@pytest.mark.parametrize("name", METHODS)
def test_every_method_exists_from_its_smallest_batch_on(name: str, under: str) -> None:
    method = load_method(name).for_protocol(under)
    for batch in SIZES:
        protocol = replace(QUICK, batch=batch)
        if batch < smallest(method):
            with pytest.raises(ValueError, match=rf"a batch of {batch} images (never holds an anchor|holds no two classes)"):
                fitted_to_batch(method, protocol, LABELS, may_change_protocol=True)
            continue
        found = fitted_to_batch(method, protocol, LABELS, may_change_protocol=True)
        sampler = found.method.make_sampler(LABELS, batch, few_classes=found.protocol.few_classes)
        assert sampler.batch_size <= batch
        for chosen in islice(iter(sampler), 5):
            counts = Counter(LABELS[chosen].tolist())
            if sampler.gives_positive_pairs:
                assert len(counts) >= 2
                assert max(counts.values()) >= 2
        if found.adapted:
            assert found.method.sampler != method.sampler or found.protocol != protocol
            assert replace(found.method, sampler=method.sampler, loss=method.loss) == method
        else:
            assert (found.method, found.protocol) == (method, protocol)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_trains_with_small_batches(name: str) -> None:
    """Three steps of each size at which it can exist, with the paper's settings: finite, and something is learned."""
    method = load_method(name).for_protocol(UNBIASED)
    method = replace(method, head=replace(method.head, levels=("high",)), ensemble=replace(method.ensemble, members=1))
    vectors = torch.randn(len(LABELS), 6, generator=torch.Generator().manual_seed(0)) + torch.from_numpy(LABELS)[:, None] % 5
    feed = Feed(vectors, LABELS, np.arange(len(LABELS)))
    for batch in (2, 4, 8):
        if batch >= smallest(method):
            found = fitted_to_batch(method, replace(QUICK, batch=batch), LABELS, may_change_protocol=True)
            trained = fit(found.method, found.protocol, feed, seed=0, device="cpu")
            assert all(np.isfinite(row["loss"]) for row in trained.rows)
            if method.sampler.name != "shuffled" or meets_proxies(method):  # whose few images seldom hold a pair
                assert sum(row["loss"] for row in trained.rows) > 0, batch


def test_as_few_images_as_leave_room_for_two_classes() -> None:
    cases = {
        ("ranked_list", 4): {"num_images": 2},
        ("ranked_list", 6): {"num_images": 3},
        ("nonlinear_rank", 7): {"num_images": 3},
        ("prototypical", 4): {"num_support": 1, "num_query": 1},
        ("prototypical", 6): {"num_support": 1, "num_query": 1},
    }
    for (name, batch), expected in cases.items():
        found = fitted_to_batch(load_method(name), replace(QUICK, batch=batch), LABELS, may_change_protocol=False)
        assert {key: found.method.sampler.settings[key] for key in expected} == expected, (name, batch)
        assert "images a class instead of" in found.adapted
    whole = fitted_to_batch(load_method("ranked_list"), replace(QUICK, batch=8), LABELS, may_change_protocol=False)
    assert whole.adapted == ""
    uneven = with_settings(load_method("prototypical"), {"sampler.num_support": 6, "sampler.num_query": 2, "loss.num_support": 6})
    found = fitted_to_batch(uneven, replace(QUICK, batch=8), LABELS, may_change_protocol=False)
    assert found.method.sampler.settings == {"num_support": 3, "num_query": 1}
    assert found.method.loss.settings == {"num_support": 3}


def test_too_few_classes_for_a_large_batch() -> None:
    """Only where the protocol may be changed."""
    protocol = replace(QUICK, batch=200)
    with pytest.raises(ValueError, match="only 24 training classes have enough images"):
        fitted_to_batch(load_method("ranked_list"), protocol, LABELS, may_change_protocol=False)
    found = fitted_to_batch(load_method("ranked_list"), protocol, LABELS, may_change_protocol=True)
    assert found.protocol == replace(protocol, few_classes="more_images")
    assert found.adapted == "batches of 192, as there are no more"
    found = fitted_to_batch(load_method("proxy_nca"), replace(QUICK, batch=500), LABELS, may_change_protocol=True)
    assert found.adapted == "batches of 240, as there are no more"
    even = fitted_to_batch(load_method("ranked_list"), replace(QUICK, batch=192), LABELS, may_change_protocol=True)
    assert even.adapted == "more images of each class, as there are too few classes"


def test_one_image_teaches_where_it_meets_something_beside_the_batch() -> None:
    """A memory of earlier batches holds what two images do not."""
    lonely = replace(load_method("raw"), sampler=Named("shuffled"))
    with pytest.raises(ValueError, match="a batch of 2 images never holds an anchor with a positive and a negative"):
        fitted_to_batch(lonely, replace(QUICK, batch=2), LABELS, may_change_protocol=True)
    assert fitted_to_batch(replace(lonely, memory=64), replace(QUICK, batch=2), LABELS, may_change_protocol=True).adapted == ""
