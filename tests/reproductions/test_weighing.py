"""Claims about weights are judged by the losses themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from likewise.methods import load_method
from likewise.reproductions.paper_claims import Weighs
from likewise.reproductions.verdicts.weighing import has_shape, judge_weight


@pytest.mark.parametrize(
    ("method", "claim", "verdict"),
    [
        ("contrastive", {"of": "positive", "shape": "constant"}, "confirmed"),
        ("contrastive", {"of": "negative", "shape": "zero", "high": 0.49}, "confirmed"),
        ("contrastive", {"of": "negative", "shape": "zero"}, "contradicted"),
        ("contrastive", {"of": "negative", "shape": "constant", "low": 0.51}, "confirmed"),
        ("contrastive", {"of": "negative", "shape": "absolute"}, "confirmed"),
        ("binomial", {"of": "negative", "shape": "rising"}, "confirmed"),
        ("binomial", {"of": "positive", "shape": "falling"}, "confirmed"),
        ("binomial", {"of": "positive", "shape": "rising"}, "contradicted"),
        ("binomial", {"of": "negative", "shape": "absolute"}, "confirmed"),
        ("raw", {"of": "negative", "shape": "relative"}, "confirmed"),
        ("raw", {"of": "negative", "shape": "absolute"}, "contradicted"),
        ("raw", {"of": "negative", "shape": "not below zero"}, "confirmed"),
        ("nonlinear_rank", {"of": "negative", "shape": "not below zero"}, "contradicted"),
    ],
)
def test_weights_have_the_shape_that_is_claimed(method: str, claim: dict[str, Any], verdict: str) -> None:
    found, evidence = judge_weight(Weighs(says="", row="a", **claim), load_method(method))
    assert found == verdict, evidence
    assert f"weight of a {claim['of']} pair goes from" in evidence
    assert "computed" in evidence


def test_what_has_no_curve_says_why() -> None:
    verdict, evidence = judge_weight(Weighs(says="", row="a", of="negative", shape="rising"), load_method("lifted"))
    assert verdict == "not run"
    assert "looks beyond the anchor's row" in evidence


def test_other_pairs_are_those_of_the_claim() -> None:
    alone = Weighs(says="", row="a", of="negative", shape="rising", positives=(0.9,), negatives=(0.1,))
    assert "beside others at 0.9, 0.1" in judge_weight(alone, load_method("raw"))[1]


def test_shapes() -> None:
    line = np.linspace(-1, 1, 5)
    flat, none = np.full(5, 2.0), np.zeros(5)
    for weights, shapes in (
        (line, {"rising"}),
        (-line, {"falling"}),
        (flat, {"constant", "above zero", "not below zero"}),
        (none, {"constant", "zero", "not below zero"}),
        (line**2, {"not below zero"}),
    ):
        known = ("rising", "falling", "constant", "zero", "above zero", "not below zero")
        assert {shape for shape in known if has_shape(shape, weights, [weights])} == shapes
    assert has_shape("relative", line, [line, line + 0.1])
    assert not has_shape("absolute", line, [line, line + 0.1])
