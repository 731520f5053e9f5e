"""How often something happens with classes never seen, bounded from classes that were: without any assumption on how classes differ.

What is bounded is a rate p = E[f]; f in [0, 1] is measured on a class, or on a pair of classes: the share of their items' pairs that are
more alike than a threshold. The class is the unit: two pairs that share a class say less than two that do not. Let f_1, ..., f_m be those
of m classes, or of m pairs without a class in common, and so independent. If p were a or more, then for any b < a

    evidence = product over i of  f_i b / a + (1 - f_i) (1 - b) / (1 - a)

would have an expectation of at most 1, as each factor has: the likelihood ratio of b against a, weighed by how much happened. So has any
mean of such products, over several b and over several ways to pair the classes, and by Markov's inequality it reaches 20 with a chance of
at most 1/20. Where it does, p < a with 95 % confidence. As f falls with the threshold, the evidence rises: the least threshold at which it
reaches 20 is as safe as one that was set beforehand. (Betting against a mean: Waudby-Smith and Ramdas 2024. A mean over pairings: Hoeffding
1963, for U-statistics.)

For b = 0 the product is the chance to see nothing in m comparisons, one of each pair, over (1 - a)^m. If nothing happens at all it is
(1 - a)^-m, so that m is to be about 3 / a. No method can do with much fewer: were a share of a / 2 of the classes hubs, alike to all
others, then m pairs of classes would hold none of them in one case of exp(m a), and nothing at hand would tell.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

# b / a, and how much of the evidence is put on it: most on b = 0, which needs the fewest classes.
BETS: dict[float, float] = {0.0: 0.9, 0.25: 0.04, 0.5: 0.04, 0.75: 0.02}


def log_evidence(rates: Array, groups: Indices, limit: float) -> float:
    """Logarithm of the evidence that the rate is below the limit.

    rates (units,): f of classes or of pairs of classes. groups (ways, m): each row names units that are independent of each other.
    """
    with np.errstate(divide="ignore"):
        bets = [np.log(rates * ratio + (1 - rates) * ((1 - ratio * limit) / (1 - limit)))[groups].sum(axis=1) for ratio in BETS]
    return float(logsumexp(bets, b=np.array(list(BETS.values()))[:, None] / len(groups)))


def is_bounded(rates: Array, groups: Indices, limit: float, confidence: float) -> bool:
    """Whether the rate is below the limit with this confidence."""
    return log_evidence(rates, groups, limit) >= -math.log(1 - confidence)


def least_units(limit: float, confidence: float) -> int:
    """How many classes, or pairs of classes without one in common, it takes at least: if nothing is seen to happen in so many."""
    most = math.ceil(math.log((1 - confidence) * BETS[0.0]) / math.log(1 - limit))  # by the first bet alone

    def is_enough(num: int) -> bool:
        evidence = math.fsum(weight * ((1 - ratio * limit) / (1 - limit)) ** num for ratio, weight in BETS.items())
        return evidence >= 1 / (1 - confidence)

    return next(num for num in itertools.count(most, -1) if not is_enough(num - 1))


def pairings(num: int, ways: int, rng: np.random.Generator) -> Indices:
    """(ways, num // 2, 2): all of `num` in pairs, drawn anew for each way; one is left out where the number is odd."""
    order = np.stack([rng.permutation(num) for _ in range(ways)])
    return order[:, : num // 2 * 2].reshape(ways, -1, 2)


def least_where(holds: Callable[[float], bool], low: int, high: int, step: float) -> float | None:
    """The least multiple of `step` from low to high steps at which something holds that then goes on holding; None if there is none."""
    if not holds(high * step):
        return None
    while low < high:
        middle = (low + high) // 2
        if holds(middle * step):
            high = middle
        else:
            low = middle + 1
    return high * step
