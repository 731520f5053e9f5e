"""Weights of anchors and classes, and what a batch's loss is the mean of: against the slow loops, in every way to carry a batch out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

import likewise
from likewise.engines import Blocked, Compiled, Dense, Engine
from likewise.losses.loss import OverPairs

from ..cases import DEFAULTS, LOSS_OBJECTS, PROXY_LOSSES, ROW_LOSSES, Case, assert_same, during, make, oracle_of, outcome
from ..test_engines import every_objective_uses
from .oracles import MINER_ORACLES, ORACLES, Row, batch, mean, mean_over_anchors, n_pair_row

ENGINES: list[Engine] = [Dense(), Blocked(5), Blocked(7, tile=2), Compiled(5, backend="aot_eager")]
UNCOMPILED = ENGINES[:3]
CLOSE = {"rtol": 1e-9, "atol": 1e-9}
Value = tuple[int, Row, Tensor]

CASES_OF_ROWS = [Case("n_pair", {"norm_penalty": 0.0}, normalize=True) if name == "n_pair" else DEFAULTS[name] for name in ROW_LOSSES]
every_row_loss = pytest.mark.parametrize("case", CASES_OF_ROWS, ids=str)


def weights_of(labels: Tensor) -> Tensor:
    """Uneven, some of them 0."""
    return torch.rand(len(labels), generator=torch.Generator().manual_seed(7), dtype=torch.float64) * (torch.arange(len(labels)) % 5 > 0)


def oracles() -> dict[str, Callable[..., Tensor]]:
    """Those of rows; the penalty of n_pair is no value of an anchor."""
    return {**ORACLES, "n_pair": lambda *batch, norm_penalty, **given: mean_over_anchors(n_pair_row)(*batch, **given)}


def in_every_way(
    make_objective: Callable[[], likewise.Objective], monkeypatch: pytest.MonkeyPatch, engines: Sequence[Engine] = ENGINES
) -> Iterator[likewise.Objective]:
    for engine in engines:
        with during(engine), every_objective_uses(engine, monkeypatch):
            yield make_objective()


def assert_equals_oracle(case: Case, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], call: dict[str, Any], **asked: Any) -> None:
    embeddings, labels = batch("unbalanced", 4)
    for objective in in_every_way(lambda: make(case, **options), monkeypatch, ENGINES if call else UNCOMPILED):
        found = outcome(objective, objective, embeddings, labels, **call)
        expected = outcome(oracle_of(case, oracles(), objective), objective, embeddings, labels, **asked)
        assert_same(found, expected, **CLOSE)
        assert expected.value != 0


@every_row_loss
def test_weights_of_anchors(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    embeddings, labels = batch("unbalanced", 4)
    weights = weights_of(labels)

    def weighted_mean(values: list[Value]) -> Tensor:
        return sum(weights[i] * value for i, _, value in values) / sum(weights[i] for i, _, _ in values)

    assert_equals_oracle(case, monkeypatch, {}, {"weights": weights}, together=weighted_mean)
    objective = make(case)
    alike = outcome(objective, objective, embeddings, labels, weights=torch.full((len(labels),), 3.0))
    assert_same(alike, outcome(objective, objective, embeddings, labels), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["raw", "lifted"])
def test_weights_of_classes_multiply_those_of_anchors(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _, labels = batch("unbalanced", 4)
    of_class, own = torch.tensor([0.5, 0.0, 2.0, 1.0, 3.0, 0.25], dtype=torch.float64), weights_of(labels)

    def weighted_mean(values: list[Value]) -> Tensor:
        both = [of_class[labels[i]] * own[i] for i, _, _ in values]
        return sum(weight * value for weight, (_, _, value) in zip(both, values, strict=True)) / sum(both)

    assert_equals_oracle(DEFAULTS[name], monkeypatch, {"class_weights": of_class}, {"weights": own}, together=weighted_mean)


@pytest.mark.parametrize("name", [name for name in PROXY_LOSSES if name != "proxy_anchor"])
def test_weights_of_items_that_meet_proxies(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case(name, {"num_centers": 2, "regularization": 0.0}) if name == "soft_triple" else DEFAULTS[name]
    embeddings, labels = batch("unbalanced", 4)
    weights = weights_of(labels)
    for objective in in_every_way(lambda: make(case), monkeypatch):
        of_item = oracle_of(case, ORACLES, objective)

        def weighted_mean(x: Tensor, y: Tensor, of_item: Any = of_item) -> Tensor:
            return sum(weight * of_item(x[i : i + 1], y[i : i + 1]) for i, weight in enumerate(weights)) / weights.sum()

        found = outcome(objective, objective, embeddings, labels, weights=weights)
        assert_same(found, outcome(weighted_mean, objective, embeddings, labels), **CLOSE)


def test_weights_of_queries_that_meet_prototypes() -> None:
    embeddings, labels = batch("balanced", 4)
    weights = weights_of(labels)
    objective = make("prototypical")
    support = torch.tensor([bool((labels[:i] == label).sum() < 1) for i, label in enumerate(labels)])  # one of three
    values = [make("prototypical")(embeddings, labels, weights=torch.eye(len(labels))[i]) for i in range(len(labels))]
    assert [value == 0 for value in values] == support.tolist()
    expected = sum(w * v for w, v in zip(weights, values, strict=True)) / weights[~support].sum()
    torch.testing.assert_close(objective(embeddings, labels, weights=weights), expected)


def test_histogram_weighs_the_pairs_of_an_anchor() -> None:
    """An anchor of weight 2 is one that is there twice, as an anchor but not as a reference."""
    embeddings, labels = batch("unbalanced", 4)
    others = torch.randn(9, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    against = {"references": others, "reference_labels": torch.arange(9) % 4}
    twice = torch.arange(len(labels)).repeat_interleave(1 + torch.arange(len(labels)) % 2)
    objective = make("histogram", block=4)
    found = objective(embeddings, labels, weights=1.0 + torch.arange(len(labels)) % 2, **against)
    torch.testing.assert_close(found, objective(embeddings[twice], labels[twice], **against))


@every_row_loss
def test_mean_over_anchors_with_a_loss(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    def above_zero(values: list[Value]) -> Tensor | float:
        return mean([value for _, _, value in values if value > 0])

    assert_equals_oracle(case, monkeypatch, {"reduce": "nonzero"}, {}, together=above_zero)


@every_row_loss
def test_singletons_kept(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_equals_oracle(case, monkeypatch, {"singletons": "keep"}, {}, alone=True)


def active_pairs(row: Row) -> int:
    return sum(row.d(p) - 1.2 + 0.2 > 0 for p in row.positives) + sum(1.2 - row.d(n) + 0.2 > 0 for n in row.negatives)


TERMS: dict[str, Callable[[Row], int]] = {
    "contrastive": lambda row: len(row.others),
    "contrastive_distance": lambda row: len(row.others),
    "triplet": lambda row: len(row.positives) * len(row.negatives),
    "margin": active_pairs,
    **dict.fromkeys(("n_pair", "lifted", "angular", "supcon", "nt_xent", "smooth_ap"), lambda row: len(row.positives)),
}


def test_every_mean_over_pairs_has_its_count() -> None:
    assert set(TERMS) == {name for name in ROW_LOSSES if isinstance(LOSS_OBJECTS[name], OverPairs)}


@pytest.mark.parametrize("case", [case for case in CASES_OF_ROWS if case.name in TERMS], ids=str)
@pytest.mark.parametrize("miner", [None, "vthm"])
def test_mean_over_pairs(case: Case, miner: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """An anchor's terms are as many as the miner leaves; with weights each weighs what its anchor does."""
    weights = weights_of(batch("unbalanced", 4)[1])

    def over_pairs(values: list[Value]) -> Tensor:
        terms = [TERMS[case.name](row) for _, row, _ in values]
        factors = [1 if case.name == "contrastive" else number for number in terms]  # which is a sum
        total = sum(weights[i] * factor * value for (i, _, value), factor in zip(values, factors, strict=True))
        return total / sum(weights[i] * number for (i, _, _), number in zip(values, terms, strict=True))

    asked = {} if miner is None else {"mine": MINER_ORACLES[miner]}
    assert_equals_oracle(case, monkeypatch, {"reduce": "pairs", "mining": miner}, {"weights": weights}, together=over_pairs, **asked)


@pytest.mark.parametrize("select", ["semihard", "hard"])
def test_triplets_chosen_are_counted(select: str) -> None:
    embeddings, labels = batch("unbalanced", 4)
    case = Case("triplet", {"select": select})
    found = make(case, reduce="pairs")(embeddings, labels)

    def over_pairs(values: list[Value]) -> Tensor:
        terms = [len(row.positives) if select == "semihard" else 1 for _, row, _ in values]
        return sum(number * value for number, (_, _, value) in zip(terms, values, strict=True)) / sum(terms)

    torch.testing.assert_close(found, oracle_of(case, ORACLES, make(case))(embeddings, labels, together=over_pairs), **CLOSE)


def test_weights_that_leave_nothing() -> None:
    """All of weight 0, or all but those that do not count: a zero that passes a gradient of 0 back."""
    embeddings, labels = batch("unbalanced", 4)
    for objective in (make("raw"), make("margin", block=3), make("histogram")):
        found = outcome(objective, objective, embeddings, labels, weights=torch.zeros(len(labels)))
        assert found.value == 0
        assert not any(gradient.any() for gradient in found.gradients.values())


@pytest.mark.parametrize(
    ("options", "weights", "words"),
    [
        ({}, torch.ones(13), "one weight for each of 14 anchors"),
        ({}, torch.tensor([1.0] * 13 + [-1]), "hold -1.0: expected numbers of at least 0"),
        ({}, torch.tensor([1.0] * 13 + [torch.nan]), "hold nan: expected numbers of at least 0"),
        ({"loss": "spectral_clustering"}, torch.ones(14), "no value for each item"),
        ({"loss": "proxy_anchor", "num_classes": 6, "dim": 8}, torch.ones(14), "no value for each item"),
        ({"class_weights": [1.0, 2.0]}, None, "classes 0 to 1"),
        ({"class_weights": [1.0, -2.0]}, None, "hold -2.0"),
        ({"class_weights": []}, None, "one weight a class"),
        ({"reduce": "mean"}, None, "'anchors', 'pairs' or 'nonzero'"),
        ({"reduce": "pairs"}, None, "RelativeAbsolute is no mean or sum of one term a pair"),
        ({"loss": "histogram", "reduce": "nonzero"}, None, "not a mean over anchors"),
        ({"singletons": "kept"}, None, "'leave_out' or 'keep'"),
        ({"loss": "spectral_clustering", "singletons": "keep"}, None, "not a mean over anchors"),
    ],
)
def test_what_cannot_be_weighed_or_reduced_is_told(options: dict[str, Any], weights: Tensor | None, words: str) -> None:
    embeddings, labels = batch("unbalanced", 4)
    with pytest.raises(ValueError, match=words):
        likewise.objective(**{"loss": "raw", **options})(embeddings, labels, weights=weights)
