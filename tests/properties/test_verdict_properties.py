"""What a verdict must not depend on: the order of methods, seeds and classes, where zero is, and in which unit scores are counted."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as some

from likewise.evaluation.certainty.verdict import Verdict, verdict

shapes = some.tuples(some.integers(2, 5), some.integers(2, 5), some.integers(3, 12))  # methods, seeds, classes
draws = some.integers(0, 2**32 - 1)
leads = some.sampled_from([0.0, 0.003, 0.02, 0.1])


def tables(shape: tuple[int, int, int], draw: int, lead: float) -> dict[str, Any]:
    methods, seeds, classes = shape
    rng = np.random.default_rng(draw)
    found = 0.5 + 0.05 * rng.standard_normal((classes,)) + 0.01 * rng.standard_normal((methods, seeds, classes))
    found[0] += lead
    return {f"method {number}": table for number, table in enumerate(found)}


def assert_same(found: Verdict, expected: Verdict, *, scale: float = 1.0, shift: float = 0.0, places: float = 1e-6) -> None:
    """The same words; the same numbers, in the other unit."""
    assert found.best == expected.best
    for name in ("within_noise", "behind", "equivalent", "lacking", "num_seeds", "num_classes"):
        assert getattr(found, name) == getattr(expected, name), name
    for name, mean in expected.means.items():
        assert math.isclose(found.means[name], scale * mean + shift, rel_tol=places, abs_tol=places * scale)
    for name, limits in expected.differences.items():
        assert np.allclose(found.differences[name], np.multiply(scale, limits), rtol=1e-3, atol=places * scale)
    for name, p_value in expected.p_values.items():
        assert math.isclose(found.p_values[name], p_value, rel_tol=1e-2, abs_tol=1e-4)


@given(shapes, draws, leads, draws)
def test_no_order_matters(shape: tuple[int, int, int], draw: int, lead: float, order: int) -> None:
    scores = tables(shape, draw, lead)
    rng = np.random.default_rng(order)
    classes = rng.permutation(shape[2])
    names = rng.permutation(list(scores)).tolist()
    moved = {name: scores[name][rng.permutation(shape[1])][:, classes] for name in names}
    assert_same(verdict(moved), verdict(scores))


@given(shapes, draws, leads, some.sampled_from([0.01, 0.5, 3.0, 100.0]), some.sampled_from([-1.0, 0.0, 0.25, 10.0]))
def test_units_and_where_zero_is_do_not_matter(shape: tuple[int, int, int], draw: int, lead: float, scale: float, shift: float) -> None:
    scores = tables(shape, draw, lead)
    moved = {name: scale * table + shift for name, table in scores.items()}
    assert_same(verdict(moved), verdict(scores), scale=scale, shift=shift)


@given(shapes, draws)
def test_methods_that_are_the_same_are_never_behind(shape: tuple[int, int, int], draw: int) -> None:
    one = tables(shape, draw, 0.0)["method 0"]
    found = verdict({f"copy {number}": one.copy() for number in range(shape[0])})
    assert found.behind == ()
    assert len(found.within_noise) == shape[0] - 1
    assert all(low <= 0 <= high for low, high in found.differences.values())


@given(shapes, draws, leads)
def test_what_is_said_fits_together(shape: tuple[int, int, int], draw: int, lead: float) -> None:
    scores = tables(shape, draw, lead)
    found = verdict(scores, indifferent=0.01)
    assert found.best == max(found.means, key=lambda name: found.means[name])
    assert sorted((found.best, *found.within_noise, *found.behind)) == sorted(scores)
    for name, (low, high) in found.differences.items():
        assert low <= found.means[name] - found.means[found.best] <= high
        assert (high < 0) == (name in found.behind)
    for name, (low, high) in found.intervals.items():
        assert low <= found.means[name] <= high
    assert math.isclose(sum(found.chance_best.values()), 1.0, abs_tol=1e-6)
    assert all(0 <= chance <= 1 for chance in (*found.chance_best.values(), *found.p_values.values()))


@given(shapes, draws, leads)
def test_later_looks_and_higher_levels_call_fewer_behind(shape: tuple[int, int, int], draw: int, lead: float) -> None:
    scores = tables(shape, draw, lead)
    first = verdict(scores)
    for stricter in (verdict(scores, look=3), verdict(scores, level=0.99)):
        assert set(stricter.behind) <= set(first.behind)
        for name, (low, high) in first.differences.items():
            assert stricter.differences[name][0] <= low + 1e-12
            assert stricter.differences[name][1] >= high - 1e-12


@given(shapes, draws, leads, some.integers(1, 4))
def test_weights_of_a_whole_number_are_classes_counted_so_often_in_the_mean(
    shape: tuple[int, int, int], draw: int, lead: float, weight: int
) -> None:
    scores = tables(shape, draw, lead)
    same = verdict(scores, weights=np.full(shape[2], float(weight)))
    assert_same(same, verdict(scores))


def test_all_fields_of_a_verdict_are_known_here() -> None:
    """A new one is thought of: is it to be the same whatever the order, and in which unit is it?"""
    known = "level best within_noise behind equivalent undecided means intervals differences pairs p_values chance_best lacking"
    assert {field.name for field in fields(Verdict)} == {*known.split(), "num_seeds", "num_classes", "look", "_noise"}
