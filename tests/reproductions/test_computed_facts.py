"""The facts hold where a formula written out by hand says so, and not where it does not."""

from __future__ import annotations

import numpy as np
import pytest

from likewise.reproductions.computed_facts import FACTS, RANKS, loss_part, transfer


def written_out(ranks: np.ndarray, alpha: float) -> np.ndarray:
    """w(r) of NRA, eq. 10."""
    return np.where(ranks < 0.5, 0.5 * (2 * ranks) ** alpha, 1 - 0.5 * (2 * (1 - ranks)) ** alpha)


@pytest.mark.parametrize("alpha", [1.0, 2.0, 4.0, 6.0])
def test_curves_are_those_of_the_paper(alpha: float) -> None:
    ranks = RANKS.numpy()
    values, slopes = transfer(alpha)
    np.testing.assert_allclose(values.numpy(), written_out(ranks, alpha), rtol=1e-12)
    small = 1e-6
    np.testing.assert_allclose(
        slopes.numpy(), (written_out(ranks + small, alpha) - written_out(ranks - small, alpha)) / (2 * small), rtol=1e-5, atol=1e-9
    )
    values, slopes = loss_part(alpha)
    np.testing.assert_allclose(values.numpy(), -np.log(1 - written_out(ranks, alpha) + 1e-4), rtol=1e-9)


def test_which_facts_hold() -> None:
    found = {name: fact.find() for name, fact in FACTS.items()}
    assert {name for name, finding in found.items() if not finding.holds} == {"loss_is_flatter_below_half"}
    assert all(len(finding.evidence) > 20 and len(FACTS[name].refuted_by) > 20 for name, finding in found.items())
    # 4 (2r)^3 / (1 - (2r)^4 / 2) = 1 / (1 - r), where the curves of alpha = 4 and 1 are equally steep, has its root at r = .348
    assert "up to rank 0.35" in found["loss_is_flatter_below_half"].evidence
