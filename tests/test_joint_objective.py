"""Several objectives as one, and regularisers: against sums by hand and slow loops."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

import likewise
from likewise.joint_objective import CentrePenalty, Decorrelation, JointObjective, NormPenalty

from .cases import make
from .losses.oracles import batch, unit

CLOSE = {"rtol": 1e-9, "atol": 1e-9}


def norms(x: list[Tensor], target: float) -> Tensor:
    return sum((torch.linalg.vector_norm(v) - target) ** 2 for v in x) / len(x)


def centre(x: list[Tensor]) -> Tensor:
    mean = sum(unit(v) for v in x) / len(x)
    return sum(entry**2 for entry in mean)


def decorrelation(x: list[Tensor]) -> Tensor:
    vectors = [unit(v) for v in x]
    dim, number = len(vectors[0]), len(vectors)
    mean = sum(vectors) / number
    total = 0.0
    for a in range(dim):
        for b in range(dim):
            if a != b:
                total = total + (sum((v[a] - mean[a]) * (v[b] - mean[b]) for v in vectors) / (number - 1)) ** 2
    return total / (dim * (dim - 1)) * dim


@pytest.mark.parametrize(
    ("loss", "slow"),
    [
        (NormPenalty(), lambda x: norms(x, 0.0)),
        (NormPenalty(target=2.0), lambda x: norms(x, 2.0)),
        (CentrePenalty(), centre),
        (Decorrelation(), decorrelation),
    ],
    ids=["length", "length 2", "centre", "decorrelation"],
)
def test_regularisers_against_slow_loops(loss: object, slow: object) -> None:
    embeddings, labels = batch("unbalanced", 3)
    found_x, expected_x = (embeddings.clone().requires_grad_() for _ in range(2))
    found, expected = likewise.objective(loss)(found_x, labels), slow(list(expected_x))
    torch.testing.assert_close(found, expected, **CLOSE)
    found.backward()
    expected.backward()
    torch.testing.assert_close(found_x.grad, expected_x.grad, **CLOSE)
    alike = torch.zeros(4, 8, requires_grad=True)
    likewise.objective(loss)(alike, labels[:4]).backward()
    assert alike.grad is not None
    assert alike.grad.isfinite().all()


def test_a_joint_objective_is_the_weighted_sum() -> None:
    embeddings, labels = batch("unbalanced", 3)
    weights = torch.arange(len(labels)).double()
    terms = [make("raw", mining="vthm"), make("margin"), make("proxy_nca")]
    joint = JointObjective(list(zip((1.0, 0.5, 0.0), terms, strict=True)))
    x, y = (embeddings.clone().requires_grad_() for _ in range(2))
    found = joint(x, labels, weights=weights)
    expected = terms[0](y, labels, weights=weights) + 0.5 * terms[1](y, labels, weights=weights)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    found.backward()
    expected.backward()
    torch.testing.assert_close(x.grad, y.grad, rtol=1e-12, atol=1e-12)
    assert {name for name, _ in joint.named_parameters()} == {"objectives.1.loss.boundary", "objectives.2.proxies.vectors"}
    assert [value.requires_grad for value in joint.values] == [False] * 3
    torch.testing.assert_close(joint.values[0], terms[0](embeddings, labels, weights=weights))


@pytest.mark.parametrize(
    ("terms", "words"),
    [
        ([], "of no terms"),
        ([make("raw")], "term 0 is"),
        ([(1.0, "raw")], "expected a pair of a weight and an objective"),
        ([(1.0, make("raw")), (-1, make("raw"))], "term 1 has the weight -1"),
        ([(math.nan, make("raw"))], "weight nan"),
    ],
)
def test_what_is_no_term_is_told(terms: list[object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        JointObjective(terms)
