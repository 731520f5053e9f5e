"""Pairs told alike by a relation instead of by equal labels: every row loss against its slow loop."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import likewise
from likewise.engines import Blocked, Compiled, Dense
from likewise.relations import SharedLabels, SharedPath, explicit_pairs

from ..allocations import LargestTensor
from ..cases import Case, assert_same, during, make, oracle_of, outcome
from ..test_engines import every_objective_uses
from .oracles import batch
from .test_reductions import CASES_OF_ROWS, CLOSE, oracles

ENGINES = [Dense(), Blocked(5, tile=2), Compiled(5, backend="aot_eager")]


def drawn_relation(items: int) -> Tensor:
    """Likeness that no labels have: neither symmetric nor transitive, with pairs that are neither."""
    return torch.rand(items, items, generator=torch.Generator().manual_seed(3), dtype=torch.float64).mul(3).sub(1.5).round().mul(0.5)


@pytest.mark.parametrize("case", CASES_OF_ROWS, ids=str)
def test_a_matrix_against_the_slow_loop(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    embeddings, labels = batch("unbalanced", 4)
    relation = drawn_relation(len(labels))
    assert {-0.5, 0.0, 0.5} <= set(relation.flatten().tolist())
    for engine in ENGINES:
        with during(engine), every_objective_uses(engine, monkeypatch):
            objective = make(case)
            oracle = oracle_of(case, oracles(), objective)
            found = outcome(lambda x, _, own=objective: own(x, relation=relation), objective, embeddings, labels)
            expected = outcome(oracle, objective, embeddings, labels, related=lambda i, j: relation[i, j].item())
            assert expected.value != 0
            assert_same(found, expected, **CLOSE)


@pytest.mark.parametrize("case", [*CASES_OF_ROWS, Case("histogram")], ids=str)
def test_a_function_that_compares_labels_is_as_labels(case: Case) -> None:
    embeddings, labels = batch("unbalanced", 4)
    for block in (None, 4):
        objective = make(case, block=block)
        expected = outcome(objective, objective, embeddings, labels)
        found = outcome(objective, objective, embeddings, labels, relation=lambda a, b: (a[:, None] == b).to(torch.int8) * 2 - 1)
        assert_same(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["raw", "lifted", "angular"])
def test_against_other_references(name: str) -> None:
    embeddings, labels = batch("unbalanced", 4)
    others, other_labels = batch("balanced", 5)
    given: dict[str, Any] = {"references": others, "reference_labels": other_labels}
    for block in (None, 4):
        objective = make(name, block=block)
        expected = outcome(objective, objective, embeddings, labels, **given)
        found = outcome(objective, objective, embeddings, labels, relation=lambda a, b: (a[:, None] == b) * 2 - 1, **given)
        assert_same(found, expected, rtol=1e-12, atol=1e-12)


def test_a_function_never_makes_all_pairs_at_once() -> None:
    items = 512
    embeddings = torch.randn(items, 8, generator=torch.Generator().manual_seed(0)).requires_grad_()
    sets = (torch.rand(items, 6, generator=torch.Generator().manual_seed(1)) < 0.3).long()
    with LargestTensor() as largest:
        likewise.objective("raw", block=16)(embeddings, sets, relation=SharedLabels()).backward()
    assert embeddings.grad is not None
    assert embeddings.grad.any()
    assert largest.elements < items * items, largest.made_by


def test_sets_paths_and_pairs() -> None:
    sets = torch.tensor([[1, 1, 0], [1, 0, 0], [0, 0, 1], [1, 1, 1]])
    assert SharedLabels()(sets[:2], sets).tolist() == [[1, 1, -1, 1], [1, 1, -1, 1]]
    assert SharedLabels(like=2)(sets[:2], sets).tolist() == [[1, 0, -1, 1], [0, 0, -1, 0]]
    paths = torch.tensor([[0, 0, 0], [0, 0, 1], [0, 1, 0], [1, 0, 0]])
    assert SharedPath(like=2, unlike=1)(paths[:1], paths).tolist() == [[1, 1, 0, -1]]
    assert SharedPath(like=3, unlike=2)(paths[:1], paths).tolist() == [[1, 0, -1, -1]]
    relation = explicit_pairs(4, torch.tensor([[0, 1]]), torch.tensor([[0, 2], [3, 1]]))
    assert relation.tolist() == [[0, 1, -1, 0], [1, 0, 0, -1], [-1, 0, 0, 0], [0, -1, 0, 0]]


@pytest.mark.parametrize(
    ("options", "call", "words"),
    [
        ({}, {}, "no labels: give labels, or relation="),
        ({}, {"relation": torch.ones(13, 14)}, "expected numbers \\(14, 14\\)"),
        ({}, {"relation": torch.ones(14, 14, dtype=torch.bool)}, "1 for like, -1 for unlike"),
        ({}, {"relation": torch.full((14, 14), 2)}, "holds 2: expected numbers from -1 to 1"),
        ({}, {"relation": torch.full((14, 14), torch.nan)}, "holds nan"),
        ({}, {"relation": SharedLabels()}, "is called with labels"),
        ({}, {"relation": lambda a, b: a[:, None] == b, "labels": torch.zeros(14)}, "the relation gave torch.bool"),
        ({}, {"relation": SharedPath(2, 1), "labels": torch.zeros(14)}, "expected \\(items, levels\\)"),
        ({}, {"relation": SharedLabels(), "labels": torch.zeros(13, 2)}, "expected one for each of 14"),
        ({"gather": True}, {"relation": torch.ones(14, 14)}, "give relation= as a function"),
        ({"loss": "proxy_nca", "num_classes": 6, "dim": 8}, {"relation": torch.ones(14, 14)}, "ProxyNCA .* meets classes"),
        ({"loss": "spectral_clustering"}, {"relation": torch.ones(14, 14)}, "meets classes"),
        ({"memory": 9, "dim": 8}, {"relation": torch.ones(14, 14)}, "memory"),
        ({"loss": "margin", "num_classes": 6}, {"relation": torch.ones(14, 14)}, "need labels"),
    ],
)
def test_what_a_relation_cannot_be_is_told(options: dict[str, Any], call: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        likewise.objective(**{"loss": "raw", **options})(batch("unbalanced", 4)[0], **call)
