"""for_batch: the sampler that a method's settings and a protocol's batch make, where there are classes enough and where not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from likewise.samplers import SAMPLERS, BatchSampler
from likewise.samplers.episode import Episode
from likewise.samplers.group import Group
from likewise.samplers.hard_classes import HardClasses
from likewise.samplers.sampler import FewClasses
from likewise.samplers.shuffled import Shuffled
from likewise.samplers.two_per_class import NPair

LABELS = np.repeat(np.arange(20), 6)
FEW = np.repeat(np.arange(5), [6, 6, 6, 6, 1])  # four classes with a positive pair

SETTINGS: dict[str, dict[str, Any]] = {
    "group": {"num_images": 4},
    "n_pair": {},
    "episode": {"num_support": 2, "num_query": 3},
    "shuffled": {},
    "hard_classes": {"num_images": 3},
}


def made(name: str, labels: np.ndarray[Any, Any], batch: int, few_classes: FewClasses = "error", **settings: Any) -> BatchSampler:
    return SAMPLERS[name].for_batch(labels, batch, SETTINGS[name] | settings, few_classes=few_classes)


def test_every_sampler_is_tested() -> None:
    assert set(SETTINGS) == set(SAMPLERS)


@pytest.mark.parametrize(
    ("name", "batch", "expected"),
    [
        ("group", 26, Group(LABELS, num_classes=6, num_images=4)),
        ("n_pair", 27, NPair(LABELS, num_classes=13)),
        ("episode", 27, Episode(LABELS, num_classes=5, num_support=2, num_query=3)),
        ("shuffled", 27, Shuffled(LABELS, batch_size=27)),
        ("hard_classes", 26, HardClasses(LABELS, num_classes=8, num_images=3)),
    ],
)
def test_as_many_classes_as_the_batch_holds(name: str, batch: int, expected: BatchSampler) -> None:
    sampler = made(name, LABELS, batch)
    assert type(sampler) is type(expected)
    assert list(sampler) == list(expected)
    sampler.load_state_dict(expected.state_dict(epoch=1, step=0))  # refused, were a setting another


@pytest.mark.parametrize("name", SAMPLERS)
def test_seed_ranks_and_settings_are_passed_on(name: str) -> None:
    whole = made(name, LABELS, 12, seed=5)
    assert (whole.seed, list(whole)) != (0, list(made(name, LABELS, 12)))
    shares = [list(made(name, LABELS, 12, seed=5, rank=rank, num_ranks=2)) for rank in range(2)]
    whole.set_epoch(0)
    assert [first + second for first, second in zip(*shares, strict=True)] == list(whole)
    assert len(made("shuffled", LABELS, 50, drop_last=False)) == 3
    assert isinstance(hard := made("hard_classes", LABELS, 26, num_candidates=9), HardClasses)
    assert hard.num_candidates == 9


@pytest.mark.parametrize("name", ["group", "n_pair", "episode", "hard_classes"])
def test_too_few_classes_are_refused_with_a_batch_that_fits(name: str) -> None:
    per_class = {"group": 4, "n_pair": 2, "episode": 5, "hard_classes": 3}[name]
    words = (
        rf"{40 // per_class} classes x {per_class} images, but only 4 training classes have enough images: --set batch={4 * per_class} fits"
    )
    with pytest.raises(ValueError, match=words + ", or --set few_classes=more_images"):
        made(name, FEW, 40)
    made(name, FEW, 4 * per_class)
    with pytest.raises(ValueError, match="only 1 training classes have enough images"):
        made(name, FEW[:6], 40, "more_images")


@pytest.mark.parametrize("name", ["group", "n_pair", "hard_classes"])
def test_more_images_of_each_class_where_there_are_few(name: str) -> None:
    sampler = made(name, FEW, 40, "more_images")
    expected = Group(FEW, num_classes=4, num_images=10, short="repeat")
    assert type(sampler) is Group
    assert list(sampler) == list(expected)
    assert made("group", FEW, 40, "more_images", balance="image").balance == "image"  # type: ignore[attr-defined]
    assert made("group", FEW, 9, "more_images", num_images=3).batch_size == 9  # as many classes as it takes
    assert made("n_pair", FEW, 9, "more_images").batch_size == 8
    share = made(name, FEW, 40, "more_images", seed=5, rank=1, num_ranks=2)
    assert (share.seed, share.rank, share.num_ranks) == (5, 1, 2)


def test_an_episode_of_few_classes_keeps_its_shape() -> None:
    assert list(made("episode", FEW, 40, "more_images")) == list(Episode(FEW, num_classes=4, num_support=2, num_query=3))


def test_shuffled_takes_all_there_is() -> None:
    assert made("shuffled", FEW, 40, "more_images").batch_size == 25
    with pytest.raises(ValueError, match="a batch of 40 needs as many items, there are 25"):
        made("shuffled", FEW, 40)


@pytest.mark.parametrize("few_classes", ["error", "more_images"])
def test_a_batch_too_small_for_two_classes_is_named_as_the_cause(few_classes: FewClasses) -> None:
    words = r"batch=7: a batch of 7 images is too small for two classes x 4 images.*--set batch=8 or more, or fewer images of each class"
    with pytest.raises(ValueError, match=words):
        made("group", LABELS, 7, few_classes)
    with pytest.raises(ValueError, match=r"batch=3: .* two classes x 2 images.*--set batch=4 or more$"):
        made("n_pair", LABELS, 3, few_classes)
    with pytest.raises(ValueError, match=r"batch=9: .* two classes x 5 images"):
        made("episode", LABELS, 9, few_classes)


def test_settings_that_are_no_numbers_are_named() -> None:
    with pytest.raises(ValueError, match=r"the Episode sampler needs a number num_support: --set sampler\.num_support=4"):
        Episode.for_batch(LABELS, 20, {})
    for wrong in (0, -2, 2.5, "4", True):
        with pytest.raises(ValueError, match=r"sampler\.num_images=.*: expected a whole number of at least 1"):
            made("group", LABELS, 20, num_images=wrong)


@pytest.mark.parametrize("name", SAMPLERS)
def test_what_the_batch_decides_is_no_setting_of_a_method(name: str) -> None:
    names, decided = SAMPLERS[name].settings_of_methods(), SAMPLERS[name].set_by_batch
    assert decided  # something has to follow from the batch
    assert not {"labels", "batch_size", "seed", "rank", "num_ranks", *decided} & set(names)
    assert set(SETTINGS[name]) <= set(names)


@pytest.mark.parametrize("name", SAMPLERS)
def test_every_sampler_hears_of_the_embeddings(name: str) -> None:
    """One that does not learn gives the batches it would have given."""
    sampler, untold = made(name, LABELS, 12), made(name, LABELS, 12)
    assert sampler.learns == (name == "hard_classes")
    sampler.update(torch.randn(len(LABELS), 4), torch.from_numpy(LABELS))
    assert (list(sampler) == list(untold)) == (not sampler.learns)
