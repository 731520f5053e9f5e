"""The contract of losses: what any object with the right methods may do, and what is refused in words."""

import copy
import pickle
import re
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import likewise
from likewise.losses import LOSSES, Loss
from likewise.losses.loss import (
    FORMS,
    BatchLoss,
    PooledLoss,
    RowLoss,
    Traits,
    VectorLoss,
    WithPenalty,
    WithStatistic,
    checked_loss,
    traits_of,
)
from likewise.pair_weighting import weight_curve
from likewise.pairs import Pairs, masked_mean

from ..cases import LOSS_OBJECTS, assert_same, make, outcome
from .oracles import batch

X, LABELS = batch("unbalanced", 0)
TIGHT = {"rtol": 1e-12, "atol": 1e-12}


# Losses as somebody writes them who has read about the methods only: no base, no traits


class Rowwise:
    def per_anchor(self, pairs: Pairs) -> Tensor:
        pull, push = pairs.positives, pairs.negatives
        return masked_mean(push.similarity.square(), push.mask) - masked_mean(pull.similarity, pull.mask)


class Pooled:
    def pooled(self, pairs: Pairs) -> Tensor:
        push = pairs.negatives
        return torch.stack([torch.where(push.mask, push.similarity.square(), 0).sum(-1), push.count], -1)

    def from_pool(self, totals: Tensor) -> Tensor:
        return totals[0] / totals[1].clamp_min(1)


class OfBatch:
    def of_batch(self, pairs: Pairs) -> Tensor:
        return torch.where(pairs.negative, pairs.similarity, -torch.inf).amax()


class OfVectors:
    def of_vectors(self, vectors: Tensor, labels: Tensor) -> Tensor:
        return (vectors.mean(0).square().sum() + labels.sum() * 0).to(vectors.dtype)


PLAIN: dict[type, Any] = {RowLoss: Rowwise(), PooledLoss: Pooled(), BatchLoss: OfBatch(), VectorLoss: OfVectors()}


def unit_cosines(x: Tensor) -> Tensor:
    return torch.nn.functional.normalize(x) @ torch.nn.functional.normalize(x).T


def by_hand(form: type, x: Tensor) -> Tensor:
    cosine, same = unit_cosines(x), LABELS[:, None] == LABELS
    if form is PooledLoss:
        return cosine[~same].square().mean()
    if form is BatchLoss:
        return cosine[~same].max()
    if form is VectorLoss:
        return torch.nn.functional.normalize(x).mean(0).square().sum()
    rows = []
    for i in range(len(x)):
        positives = [j for j in range(len(x)) if j != i and same[i, j]]
        if positives:
            rows.append(cosine[i][~same[i]].square().mean() - cosine[i][positives].mean())
    return torch.stack(rows).mean()


@pytest.mark.parametrize("form", FORMS)
def test_an_object_with_the_methods_of_a_form_is_a_loss(form: type) -> None:
    loss = PLAIN[form]
    assert [other for other in FORMS if isinstance(loss, other)] == [form]
    expected = outcome(lambda x, labels: by_hand(form, x), likewise.objective(loss), X, LABELS)
    for block in (None, 4, "auto"):
        objective = likewise.objective(loss, block=block)
        assert objective.loss is loss
        assert_same(outcome(objective, objective, X, LABELS), expected, **TIGHT)


def test_methods_may_belong_to_the_object_alone() -> None:
    loss = SimpleNamespace(per_anchor=Rowwise().per_anchor, normalize=False)
    objective = likewise.objective(loss)
    assert objective.normalize is False
    assert torch.equal(objective(X, LABELS), likewise.objective(Rowwise(), normalize=False)(X, LABELS))


def test_deriving_from_loss_gives_the_defaults() -> None:
    @dataclass(frozen=True)
    class Derived(Loss):
        def per_anchor(self, pairs: Pairs) -> Tensor:
            return Rowwise().per_anchor(pairs)

    assert vars(traits_of(Derived())) == vars(traits_of(Rowwise())) | {name: getattr(Traits, name) for name in Traits.__annotations__}
    assert torch.equal(likewise.objective(Derived())(X, LABELS), likewise.objective(Rowwise())(X, LABELS))


def test_deriving_from_a_form_is_a_class_like_any_other() -> None:
    class Derived(RowLoss):
        def per_anchor(self, pairs: Pairs) -> Tensor:
            return Rowwise().per_anchor(pairs)

    assert isinstance(Derived(), Derived)
    assert not isinstance(Rowwise(), Derived)
    assert torch.equal(likewise.objective(Derived())(X, LABELS), likewise.objective(Rowwise())(X, LABELS))


@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_of_the_registry_keeps_the_contract(name: str) -> None:
    loss = LOSS_OBJECTS[name]
    assert checked_loss(loss) is loss
    assert isinstance(loss, Loss)
    traits = traits_of(loss)
    assert all(getattr(traits, trait) == getattr(loss, trait) for trait in Traits.__annotations__)


def test_which_losses_add_to_their_form() -> None:
    assert {name for name in ("lifted", "n_pair", "soft_triple", "raw") if isinstance(LOSS_OBJECTS[name], WithStatistic)} == {"lifted"}
    with_penalty = {name for name in ("lifted", "n_pair", "soft_triple", "raw") if isinstance(LOSS_OBJECTS[name], WithPenalty)}
    assert with_penalty == {"n_pair", "soft_triple"}


# Traits of an object without a base


class Settable(Rowwise):
    def __init__(self, **traits: object) -> None:
        vars(self).update(traits)


def test_traits_need_no_base() -> None:
    assert likewise.objective(Settable(normalize=False)).normalize is False
    constant = likewise.objective(Settable(references_constant=True))
    assert not torch.equal(*(outcome(one, one, X, LABELS).gradients["embeddings"] for one in (constant, likewise.objective(Rowwise()))))
    proxies = likewise.objective(Settable(meets="proxies", proxies_per_class=2), num_classes=6, dim=8).proxies
    assert proxies is not None
    assert proxies.labels.tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert likewise.objective(Settable(meets="prototypes", num_support=1)).rows(X, LABELS).num_anchors == len(LABELS) - 6
    assert likewise.objective(Settable(expands_positives=True)).rows(X, LABELS).grouping is not None
    with pytest.raises(ValueError, match="labels hold 3, but the objective knows classes 0 to 2"):
        likewise.objective(Settable(num_classes=3))(X, LABELS.clamp(0, 3))


def test_looking_between_references_is_enough_to_have_them_in_blocks() -> None:
    class Between:
        between_references = True

        def per_anchor(self, pairs: Pairs) -> Tensor:
            of_positives = pairs.positives_against_references().square().mean(-1)  # (a, k)
            return masked_mean(of_positives, pairs.positives.mask)

    expected, found = (likewise.objective(Between(), block=block) for block in (None, 4))
    assert_same(outcome(found, found, X, LABELS), outcome(expected, expected, X, LABELS), **TIGHT)


def test_a_module_without_a_base_learns() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.tensor(2.0, dtype=torch.float64))

        def per_anchor(self, pairs: Pairs) -> Tensor:
            return self.scale * Rowwise().per_anchor(pairs)

    for block in (None, 4):
        objective = likewise.objective(Scaled(), block=block)
        assert list(objective.state_dict()) == ["loss.scale"]
        objective(X, LABELS).backward()
        scale = objective.loss.scale
        assert torch.isclose(scale.grad, likewise.objective(Rowwise())(X, LABELS))


@pytest.mark.parametrize("name", ["raw", "margin", "proxy_anchor"])
def test_an_objective_can_be_copied_and_sent(name: str) -> None:
    objective = make(name)
    for other in (copy.deepcopy(objective), pickle.loads(pickle.dumps(objective))):
        assert vars(other.traits) == vars(objective.traits)
        assert torch.equal(other(X, LABELS), objective(X, LABELS))


# What is refused


class TwoForms(Rowwise):
    def of_batch(self, pairs: Pairs) -> Tensor:
        return pairs.similarity.sum()


class HalfPooled:
    def pooled(self, pairs: Pairs) -> Tensor:
        return pairs.similarity


class PooledWithStatistic(Pooled):
    def statistic(self, pairs: Pairs) -> Tensor:
        return pairs.similarity.sum(-1)


class VectorsWithPenalty(OfVectors):
    def penalty(self, anchors: Tensor, references: Tensor) -> Tensor:
        return anchors.sum()


class VectorsOfProxies(OfVectors):
    meets = "proxies"


@dataclass
class Thawed(Rowwise):
    scale: float = 1.0


class Named(Rowwise):
    def normalize(self) -> None: ...


REFUSED: list[tuple[object, str]] = [
    (Rowwise, "Rowwise is no loss but a class: give an object, Rowwise()"),
    (LOSSES["margin"], "Margin is no loss but a class: give an object, Margin()"),
    (object(), "is no loss: give a name in likewise.LOSSES or an object with per_anchor(pairs), with pooled(pairs) and from_pool(totals)"),
    (
        HalfPooled(),
        "is no loss: give a name in likewise.LOSSES or an object with per_anchor(pairs), with pooled(pairs) and from_pool(totals)",
    ),
    (TwoForms(), "TwoForms has per_anchor and of_batch: a loss has exactly one form, leave all but one out"),
    (PooledWithStatistic(), "PooledWithStatistic has a statistic, which only per_anchor looks at: leave it out"),
    (VectorsWithPenalty(), "VectorsWithPenalty has a penalty beside of_vectors, which sees the vectors itself: add the term there"),
    (VectorsOfProxies(), "VectorsOfProxies meets='proxies', but of_vectors sees the batch alone: leave meets out"),
    (Thawed(), "the loss Thawed is a dataclass whose settings may change once it is in use: write @dataclass(frozen=True)"),
    (Settable(meets="momentum"), "Settable meets='momentum' is unknown: use 'batch', 'proxies' or 'prototypes'"),
    (Settable(meets=None), "Settable meets=None is unknown"),
    (Settable(normalize="no"), "Settable normalize='no' must be True or False"),
    (Settable(references_constant=None), "Settable references_constant=None must be True or False"),
    (Settable(expands_positives="yes"), "Settable expands_positives='yes' must be True or False"),
    (Settable(between_references=2), "Settable between_references=2 must be True or False"),
    (Settable(proxies_are_anchors=True), "Settable says proxies_are_anchors but meets='batch': add meets = 'proxies'"),
    (Settable(proxies_per_class=0), "Settable proxies_per_class=0 must be a number of at least 1"),
    (Settable(proxies_per_class=None), "Settable proxies_per_class=None must be a number of at least 1"),
    (Settable(num_support=0.5), "Settable num_support=0.5 must be a number of at least 1 or None"),
    (Settable(num_classes=-1), "Settable num_classes=-1 must be a number of at least 1 or None"),
    (Named(), "must be True or False"),
]


@pytest.mark.parametrize(("loss", "words"), REFUSED, ids=[words[:40] for _, words in REFUSED])
def test_what_breaks_the_contract_is_refused(loss: Any, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        likewise.objective(loss)
    with pytest.raises(ValueError, match=re.escape(words)):
        weight_curve(loss, positives=(0.5,), negatives=(0.1,), vary="positive")


def test_a_module_that_is_a_dataclass_need_not_be_frozen() -> None:
    @dataclass(eq=False)
    class Learned(nn.Module):
        scale: float = 2.0

        def __post_init__(self) -> None:
            super().__init__()

        def per_anchor(self, pairs: Pairs) -> Tensor:
            return self.scale * Rowwise().per_anchor(pairs)

    assert torch.equal(likewise.objective(Learned())(X, LABELS), 2 * likewise.objective(Rowwise())(X, LABELS))
