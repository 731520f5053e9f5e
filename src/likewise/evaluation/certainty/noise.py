"""Noise: how far the mean score of a method, or the difference of two, could have come out otherwise.

Scores are tables (seeds, test classes), one a method, over the same classes. Score y_sc of seed s on class c is taken as

    y_sc = mean + class effect_c + seed effect_s + interaction_sc

where both another seed and another class could have been drawn. The mean over the table then has the variance

    a / C + b / S + e / (S C)        a, b, e: variances of class effects, seed effects and interaction

and each is estimated without bias: A, the variance over classes of the scores averaged over seeds, holds a / C + e / (S C); B, that over
seeds of the scores averaged over classes, holds b / S + e / (S C); E, of the residuals, holds e / (S C). So the variance is A + B - E.

A difference of two methods is paired over classes (A is the variance of the differences) and not over seeds: B and E are the sums of the
two methods' own. Where seeds are shared (the same initial weights) and pull both methods the same way, that is too cautious, never too
bold; as blocks, S seeds would leave S - 1 degrees of freedom where two methods apart leave up to 2 (S - 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

# How far the variances of the other methods may speak for one: see `moderated`.
PRIOR_FREEDOM = 2.0 ** np.arange(-6, 7)
PRIOR_QUANTILE = 0.02
LOG_SCALES = np.linspace(-4, 4, 33)
CERTAIN = 1e9  # degrees of freedom of what is known exactly
MOST_SKEWNESS = 0.96  # over the bound on t: beyond 1 Hall's cubic turns flat and its limits run away


@dataclass(frozen=True)
class Noise:
    """Means of methods on the same test classes and what the tables say of their noise.

    Any axes before the last named one are comparisons of their own.
    """

    means: Array  # (..., methods)
    pulls: Array  # (..., methods, classes): what each class adds to the mean, w_c (y_c - mean) / sum w
    seed_variance: Array  # (..., methods): B; 0 where one seed leaves it unknown
    interaction: Array  # (..., methods): E
    seed_freedom: Array  # (methods,): seeds - 1
    class_scale: float  # A = class_scale x sum over classes of pulls^2
    class_freedom: float


@dataclass(frozen=True)
class Spread:
    """Values (means, or differences of means) with their two variances, each with its degrees of freedom.

    The bound c on |value - truth| / sqrt(variance) joins the t quantiles of both, q_class at level alpha / class_comparisons and q_seed at
    alpha / seed_comparisons, by the seeds' share r of the variance: c^2 = (1 - r^p) q_class^2 + r^p q_seed^2.
    With p = 1 the chance of passing it is at most alpha, whatever the true share (Banerjee 1960), which the usual degrees of freedom
    (Satterthwaite) do not give: two seeds that happen to agree look like much knowledge there, and at the small alpha that many
    comparisons need it errs tens of times as often as it says. p = 2 holds the error of a single interval nearer to alpha from both sides.

    Class scores are skewed (most classes near 0, a few far above): Hall's (1992) cubic transformation takes the skewness out of t. How
    skewed a difference is cannot be told from few classes, so where `symmetric` limits are asked for it may widen them but not narrow them.
    """

    value: Array
    class_variance: Array
    seed_variance: Array
    class_freedom: float
    seed_freedom: Array
    skewness: Array  # of the value's error, third moment over variance^1.5
    class_comparisons: float = 1.0
    seed_comparisons: Array | float = 1.0
    power_of_share: int = 1
    symmetric: bool = True

    @property
    def variance(self) -> Array:
        return self.class_variance + self.seed_variance

    @property
    def share(self) -> Array:
        """Of the seeds in the variance."""
        return np.divide(self.seed_variance, self.variance, out=np.zeros_like(self.variance), where=self.variance > 0)

    @property
    def freedom(self) -> Array:
        """Degrees of freedom of the variance (Satterthwaite), to say how far it is known."""
        by_class, by_seed = np.minimum(self.class_freedom, CERTAIN), np.minimum(self.seed_freedom, CERTAIN)
        return np.asarray(1 / ((1 - self.share) ** 2 / by_class + self.share**2 / by_seed))

    def bound(self, alpha: Array | float) -> Array:
        """c, two-sided."""
        share = self.share**self.power_of_share
        by_class = t_quantile(alpha / self.class_comparisons, np.where(share < 1, self.class_freedom, np.inf))
        by_seed = t_quantile(alpha / self.seed_comparisons, np.where(share > 0, self.seed_freedom, np.inf))
        return np.sqrt((1 - share) * by_class**2 + share * by_seed**2)

    def limits(self, alpha: Array | float) -> tuple[Array, Array]:
        """Where the truth lies, but for a chance of alpha."""
        bound, deviation = self.bound(alpha), np.sqrt(self.variance)
        most = MOST_SKEWNESS / np.maximum(bound, 1e-9)
        skewness = np.clip(self.skewness, -most, most)
        above, below = _t_of(bound, skewness), -_t_of(-bound, skewness)
        if self.symmetric:
            above, below = np.maximum(above, bound), np.maximum(below, bound)
        return self.value - deviation * above, self.value + deviation * below

    def p_value(self) -> Array:
        """The largest alpha at which the limits hold 0."""
        low, high = np.full(self.value.shape, -30.0), np.zeros(self.value.shape)  # of log10 alpha
        for _ in range(60):
            middle = (low + high) / 2
            below, above = self.limits(10.0**middle)
            holds = (below <= 0) & (above >= 0)
            low, high = np.where(holds, middle, low), np.where(holds, high, middle)
        return 10.0**high


def measured(scores: Sequence[Array], weights: Array | None = None) -> Noise:
    """From tables (..., seeds, classes), one a method; the number of seeds may differ. The mean weighs class c by weights[c]."""
    num_classes = scores[0].shape[-1]
    w = np.ones(num_classes) if weights is None else weights * (num_classes / weights.sum())
    # Residuals are smaller than errors, the heavier a class the more: this is C / (C - 1) for equal weights.
    squares = (w**2).sum()
    expected = (w**2 * (1 - 2 * w / num_classes + squares / num_classes**2)).sum()
    scale = float(squares / expected) if num_classes > 1 else 0.0
    freedom = float(squares**2 / (w**4).sum() - 1)
    means, pulls, seed_variance, interaction = [], [], [], []
    for table in scores:
        num_seeds = table.shape[-2]
        by_seed = table @ w / num_classes  # (..., seeds)
        by_class = table.mean(axis=-2)  # (..., classes)
        mean = by_seed.mean(axis=-1)
        means.append(mean)
        pulls.append(w * (by_class - mean[..., None]) / num_classes)
        if num_seeds > 1:
            seed_variance.append(by_seed.var(axis=-1, ddof=1) / num_seeds)
            residuals = w * (table - by_seed[..., None] - by_class[..., None, :] + mean[..., None, None])
            interaction.append(scale * np.square(residuals).sum(axis=(-2, -1)) / (num_classes**2 * num_seeds * (num_seeds - 1)))
        else:
            seed_variance.append(np.zeros_like(mean))
            interaction.append(np.zeros_like(mean))
    return Noise(
        np.stack(means, axis=-1),
        np.stack(pulls, axis=-2),
        np.stack(seed_variance, axis=-1),
        np.stack(interaction, axis=-1),
        np.array([table.shape[-2] - 1.0 for table in scores]),
        scale,
        freedom,
    )


def of_means(noise: Noise) -> Spread:
    """The mean of every method by itself."""
    over_classes, skewness = _over_classes(noise, noise.pulls)
    class_variance = _class_part(over_classes, noise.seed_variance, noise.interaction)
    return Spread(
        noise.means,
        class_variance,
        noise.seed_variance,
        noise.class_freedom,
        noise.seed_freedom,
        _diluted(skewness, class_variance, noise.seed_variance),
        power_of_share=2,
        symmetric=False,
    )


def of_differences(noise: Noise, reference: Indices) -> Spread:
    """Every method less the reference, which was picked, or may have been, by its mean: any two methods could have met.

    Seed variances are the methods' own, moderated. Of k methods k (k - 1) / 2 pairs could have met. Where one method's seeds make the noise
    of its pairs, those pairs stand or fall together, and k - 1 count: with n of the two carrying the noise (1 to 2) and l methods as noisy
    as the noisier of them, (k - 1) (l / 2)^(n - 1) comparisons by seeds.
    """
    num_methods = noise.means.shape[-1]
    own, freedom = moderated(noise.seed_variance, noise.seed_freedom)
    both = own + _at(own, reference)
    known = np.clip(freedom, 1 / CERTAIN, CERTAIN)
    share = np.divide(own, both, out=np.full_like(both, 0.5), where=both > 0)
    squares, other_squares = share**2, (1 - share) ** 2
    pulls = noise.pulls - np.take_along_axis(noise.pulls, reference[..., None, None], axis=-2)
    over_classes, skewness = _over_classes(noise, pulls)
    class_variance = _class_part(over_classes, _summed(noise.seed_variance, reference), _summed(noise.interaction, reference))
    return Spread(
        noise.means - _at(noise.means, reference),
        class_variance,
        both,
        noise.class_freedom,
        1 / (squares / known + other_squares / _at(known, reference)),  # Welch's
        _diluted(skewness, class_variance, both),
        class_comparisons=max(1.0, num_methods * (num_methods - 1) / 2),
        seed_comparisons=max(1, num_methods - 1) * np.maximum(1.0, _alike(own, reference) / 2) ** (1 / (squares + other_squares) - 1),
    )


def moderated(variance: Array, freedom: Array) -> tuple[Array, Array]:
    """Seed variances (..., methods) and their degrees of freedom after a cautious look at the other methods.

    The variances v_m, of f_m degrees of freedom, are taken as drawn around a common v_0 that is worth d degrees of freedom: v_m / v_0 ~
    F(f_m, d). What the methods together say is then worth d: v_m becomes (d v_0 + f_m v_m) / (d + f_m), of d + f_m degrees of freedom
    (Smyth 2004). d is no best guess: it is the PRIOR_QUANTILE of its posterior (log d uniform), and never more than f_m, so that methods
    whose noise differs, few methods, or two seeds leave every method with its own variance. That it errs no more than without is simulated,
    with noise that differs up to 30 times between methods, in benchmarks/verdicts.py.
    """
    variance, freedom = np.broadcast_arrays(variance, freedom)
    noisy = np.isfinite(freedom).all(axis=tuple(range(freedom.ndim - 1))) & (freedom > 0).all(axis=tuple(range(freedom.ndim - 1)))
    if noisy.sum() < 3:
        return variance, freedom
    v, f = variance[..., noisy], freedom[..., noisy]
    logs = np.log(np.maximum(v, 1e-12 * v.max(axis=-1, keepdims=True) + np.finfo(float).tiny))
    centre = np.median(logs, axis=-1, keepdims=True)
    ratio = (logs - centre)[..., None] - LOG_SCALES  # (..., methods, scales): log v_m / v_0
    likelihood = np.stack([_log_f_density(ratio, f[..., None], prior).sum(axis=-2) for prior in PRIOR_FREEDOM], axis=-2)
    joint = np.exp(likelihood - likelihood.max(axis=(-2, -1), keepdims=True))  # (..., prior freedoms, scales)
    chances = joint.sum(axis=-1)
    chances /= chances.sum(axis=-1, keepdims=True)
    below = np.cumsum(chances, axis=-1)
    place = (below < PRIOR_QUANTILE).sum(axis=-1, keepdims=True)
    chance = np.take_along_axis(chances, place, axis=-1)
    within = (PRIOR_QUANTILE - np.take_along_axis(below, place, axis=-1) + chance) / chance  # 0 to 1, through the place's own share
    prior = np.take_along_axis(PRIOR_FREEDOM * np.ones_like(chances), place, axis=-1) * 2.0 ** (within - 0.5)
    at_place = np.take_along_axis(joint, place[..., None], axis=-2)[..., 0, :]
    scale = (at_place * LOG_SCALES).sum(axis=-1, keepdims=True) / at_place.sum(axis=-1, keepdims=True)
    common = np.exp(centre + scale)
    prior = np.where(f < 2, 0.0, np.minimum(prior, f))
    new_variance, new_freedom = variance.copy(), freedom.astype(float)
    new_variance[..., noisy] = (prior * common + f * v) / (prior + f)
    new_freedom[..., noisy] = prior + f
    return new_variance, new_freedom


def t_quantile(alpha: Array | float, freedom: Array | float) -> Array:
    """Student's t that is passed, to either side, with a chance of alpha."""
    quantile: Array = -special.stdtrit(np.minimum(freedom, CERTAIN), np.asarray(alpha) / 2)
    return quantile


def _log_f_density(log_ratio: Array, first: Array, second: float) -> Array:
    """Of log F(first, second)."""
    odds = first / second * np.exp(log_ratio)
    density: Array = first / 2 * np.log(odds) - (first + second) / 2 * np.log1p(odds) - special.betaln(first / 2, second / 2)
    return density


def _over_classes(noise: Noise, pulls: Array) -> tuple[Array, Array]:
    """A and the skewness of the mean, from each class's pull."""
    num_classes = pulls.shape[-1]
    second = np.square(pulls).sum(axis=-1)
    third = (pulls**3).sum(axis=-1)
    skewness = np.divide(third, second**1.5, out=np.zeros_like(third), where=second > 0)
    unbiased = np.sqrt(num_classes * (num_classes - 1)) / (num_classes - 2) if num_classes > 2 else 0.0
    return noise.class_scale * second, unbiased * skewness


def _class_part(over_classes: Array, over_seeds: Array, interaction: Array) -> Array:
    """What classes add to B: A - E, but the sum is not let below A."""
    return np.maximum(over_classes - np.minimum(interaction, over_seeds), 0.0)


def _diluted(skewness: Array, class_variance: Array, seed_variance: Array) -> Array:
    """Seeds add variance and no skewness."""
    total = class_variance + seed_variance
    return skewness * np.divide(class_variance, total, out=np.zeros_like(total), where=total > 0) ** 1.5


def _t_of(x: Array, skewness: Array) -> Array:
    """The t that Hall's transformation, x = ((1 + a t)^3 - 1) / (3 a) + a / 2 with a = skewness / 3, takes to x."""
    a = skewness / 3
    skewed = np.abs(a) > 1e-9
    some = np.where(skewed, a, 1.0)
    return np.where(skewed, (np.cbrt(1 + 3 * some * (x - some / 2)) - 1) / some, x)


def _alike(variance: Array, reference: Indices) -> Array:
    """How many methods are as noisy as the noisier of two: whole from a quarter of its variance to four times, by their ratio beyond."""
    noisier = np.maximum(variance, _at(variance, reference))[..., None]
    smaller, larger = np.minimum(variance[..., None, :], noisier), np.maximum(variance[..., None, :], noisier)
    ratio = np.divide(smaller, larger, out=np.ones_like(larger), where=larger > 0)
    return np.asarray(np.minimum(1.0, 4 * ratio).sum(axis=-1))


def _at(values: Array, reference: Indices) -> Array:
    return np.take_along_axis(values, reference[..., None], axis=-1)


def _summed(values: Array, reference: Indices) -> Array:
    return values + _at(values, reference)
