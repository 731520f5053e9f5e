"""Does the bound of `likewise.calibrate` hold for classes never seen, and how much does it cost? Simulated, where the truth is known.

    python benchmarks/calibration.py                       # 1,000 repetitions of each
    python benchmarks/calibration.py --repetitions 100 --only hubs
    python benchmarks/calibration.py --vectors FILE.npz    # real vectors: calibrated on some classes, tried on the others

Similarities of items i and j of classes a and b are made as

    s_ij = shift_a + shift_b + (clones: 0.6 with a small chance) + class_a + class_b + pair_ab + item_i + item_j + noise_ij

all normal but for the shifts and clones, so the rate of similarities above any threshold is a sum of normal tails. A hub is a class with a
large shift: alike to all others.
"""

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr

from likewise.evaluation.calibration import Asked, calibrate
from likewise.evaluation.calibration.class_bounds import Array, least_units, least_where
from likewise.evaluation.calibration.class_pairs import ClassPairs, Runs


@dataclass(frozen=True)
class Population:
    hub_share: float = 0.0
    hub_shift: float = 0.0
    clone_share: float = 0.0
    by_class: float = 0.02  # standard deviations
    by_pair: float = 0.02
    by_item: float = 0.03
    noise: float = 0.08
    largest: int = 4  # items of a class: 1 to so many
    larger_hubs: bool = False  # hubs have all of the items, the others one or two

    def rate(self, threshold: float) -> float:
        """True share of pairs of items of two new classes that reach the threshold."""
        deviation = np.sqrt(2 * self.by_class**2 + self.by_pair**2 + 2 * self.by_item**2 + self.noise**2)
        total = 0.0
        for hubs, chance in ((0, (1 - self.hub_share) ** 2), (1, 2 * self.hub_share * (1 - self.hub_share)), (2, self.hub_share**2)):
            for clone, of in ((0.0, 1 - self.clone_share), (0.6, self.clone_share)):
                total += chance * of * ndtr((hubs * self.hub_shift + clone - threshold) / deviation)
        return total

    def draw(self, num_classes: int, rng: np.random.Generator) -> ClassPairs:
        is_hub = rng.random(num_classes) < self.hub_share
        sizes = rng.integers(1, self.largest + 1, num_classes)
        if self.larger_hubs:
            sizes = np.where(is_hub, self.largest, rng.integers(1, 3, num_classes))
        sizes[0] = max(2, sizes[0])
        codes = np.repeat(np.arange(num_classes), sizes)
        of_class = is_hub * self.hub_shift + self.by_class * rng.normal(size=num_classes)
        of_item = of_class[codes] + self.by_item * rng.normal(size=len(codes))
        pair = self.by_pair * rng.normal(size=(num_classes, num_classes)) + 0.6 * (
            rng.random((num_classes, num_classes)) < self.clone_share
        )
        pair = np.triu(pair, 1) + np.triu(pair, 1).T
        similarity = of_item[:, None] + of_item + pair[codes][:, codes] + self.noise * rng.normal(size=(len(codes), len(codes)))
        return ClassPairs.of(lambda some, others: similarity[np.ix_(some, others)].astype(np.float32), codes, rng)


def populations(rate: float) -> dict[str, Population]:
    """Those with rare hubs or clones are just bad enough that the rate is broken where none of them is seen."""
    return {
        "classes alike": Population(by_class=0.0, by_pair=0.0),
        "classes differ": Population(by_class=0.08, by_pair=0.08),
        "hubs, 5 %": Population(hub_share=0.05, hub_shift=0.15),
        "rare hubs": Population(hub_share=0.51 * rate, hub_shift=0.6),
        "rare large hubs": Population(hub_share=0.51 * rate, hub_shift=0.6, largest=12, larger_hubs=True),
        "rare clones": Population(clone_share=1.02 * rate),
    }


# Classes and the rate that is asked for: what so many can promise with some room, and 1 %; and the least that they can promise.
ASKED = ((5, 0.2), (20, 0.3), (50, 0.2), (100, 0.1), (100, 0.01), (200, 0.05), (700, 0.01))
LEAST = (20, 100, 200)


def least_rate(num_units: int) -> float:
    return next(rate for rate in np.arange(0.001, 1, 0.0005) if least_units(rate, 0.95) <= num_units)


def as_observed(rates: Callable[[float], Array], rate: float) -> float:
    """The threshold at which the rate at hand is the one asked for."""
    value = least_where(lambda threshold: float(rates(threshold).mean()) <= rate, -1000, 3000, 0.001)
    assert value is not None
    return value


def row(asked: Iterator[Asked], truth: Callable[[float], float], rate: float) -> str:
    """How the three ways to set a threshold do, over repetitions; a promise that is not made is not broken."""
    true: dict[str, list[float]] = {"promised": [], "likely": [], "observed": []}
    for ask in asked:
        promise = ask.promise(rate)
        true["promised"].append(np.nan if promise is None else truth(promise.value))
        true["likely"].append(truth(ask.likely(rate).value))
        true["observed"].append(truth(as_observed(ask.false_accepts, rate)))
    made = np.isfinite(true["promised"])
    cells = [f"{100 * made.mean():.0f}"]
    for rates in map(np.array, true.values()):
        kept = rates[np.isfinite(rates)]
        cells.append(f"{100 * (kept > rate).sum() / len(rates):.1f} | {kept.mean() / rate:.2f}" if len(kept) else "| ")
    return " | ".join(cells)


def simulate_pairs(repetitions: int, only: str, num: int | None) -> None:
    print("\n| classes | asked | population | promised: made | broken | rate | likely: broken | rate | as observed: broken | rate |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    cases = [(num, rate, name) for num, rate in ASKED for name in populations(rate)]
    cases += [(num, least_rate(num // 2), name) for num in LEAST for name in ("rare hubs", "rare large hubs")]
    for num_classes, rate, name in cases:
        if num in (None, num_classes) and only in name:
            population, rng = populations(rate)[name], np.random.default_rng([num_classes, len(name)])
            asked = (Asked.of_pairs(population.draw(num_classes, rng), 0.95) for _ in range(repetitions))
            print(f"| {num_classes} | {100 * rate:.3g} % | {name} | {row(asked, population.rate, rate)} |", flush=True)


def simulate_unknown(repetitions: int) -> None:
    """Items of unknown classes and their nearest in a gallery: hubs and classes with a similarity of their own."""
    print(
        "\n| unknown classes | asked | population | promised: made | broken | rate | likely: broken | rate | as observed: broken | rate |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for num_classes, rate in ((20, 0.2), (50, 0.1), (100, 0.05), (400, 0.01), (100, least_rate(100))):
        for name, hub_share, by_class in (("classes alike", 0.0, 0.0), ("classes differ", 0.0, 0.15), ("rare hubs", 1.02 * rate, 0.02)):
            rng = np.random.default_rng([num_classes, len(name)])

            def truth(threshold: float, hub_share: float = hub_share, by_class: float = by_class) -> float:
                deviation = np.hypot(by_class, 0.08)
                return (1 - hub_share) * ndtr(-threshold / deviation) + hub_share * ndtr((0.8 - threshold) / deviation)

            def draw(num: int = num_classes, hub_share: float = hub_share, by_class: float = by_class, rng: Any = rng) -> Asked:
                sizes = rng.integers(1, 9, num)
                level = 0.8 * (rng.random(num) < hub_share) + by_class * rng.normal(size=num)
                values = (np.repeat(level, sizes) + 0.08 * rng.normal(size=sizes.sum())).astype(np.float32)
                runs = Runs(values, np.cumsum(sizes) - sizes)
                return Asked(runs.rates, runs.rates, np.arange(num)[None], runs.rates, 0.95)

            text = row((draw() for _ in range(repetitions)), truth, rate)
            print(f"| {num_classes} | {100 * rate:.3g} % | {name} | {text} |", flush=True)


def real(file: str, splits: int) -> None:
    """Calibrated on half of the classes, tried on the other half; `embeddings` and `labels` of an .npz file."""
    with np.load(file) as arrays:
        vectors, labels = arrays["embeddings"], arrays["labels"]
    vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    classes = np.unique(labels)
    true: dict[tuple[str, float], list[tuple[float, float]]] = {}
    for split in range(splits):
        rng = np.random.default_rng(split)
        fitted = np.isin(labels, rng.permutation(classes)[: len(classes) // 2])
        calibration = calibrate(vectors[fitted], labels[fitted], seed=split)
        codes = np.unique(labels[~fitted], return_inverse=True)[1]
        others = vectors[~fitted]
        pairs = ClassPairs.of(lambda some, rest, others=others: others[some] @ others[rest].T, codes, rng)
        for threshold in (calibration.same, *calibration.promises):
            found = float(pairs.between.rates(threshold.value).mean()), float(pairs.within.rates(threshold.value).mean())
            true.setdefault(("promised" if threshold.is_promised else "likely", threshold.rate), []).append(found)
    print(f"\n{len(classes) // 2} classes to calibrate with, the others to try; {splits} splits")
    print(
        "\n| asked | | rate on the others: mean, 5 to 95 % of splits | above the asked | pairs of one class kept |\n|---|---|---|---|---|"
    )
    for (way, rate), results in true.items():
        rates, kept = np.array(results).T
        low, high = np.quantile(rates, [0.05, 0.95])
        spread = f"{100 * rates.mean():.2f} %, {100 * low:.2f} to {100 * high:.2f}"
        print(f"| {100 * rate:g} % | {way} | {spread} | {100 * np.mean(rates > rate):.0f} % | {100 * kept.mean():.1f} % |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=1000)
    parser.add_argument("--only", default="", help="part of a population's name")
    parser.add_argument("--classes", type=int, help="only with so many")
    parser.add_argument("--vectors")
    arguments = parser.parse_args()
    if arguments.vectors:
        real(arguments.vectors, 50)
    else:
        print("broken: how often the true rate is above the one asked for, in %; a promise may be in 5. rate: the true one over the asked.")
        simulate_pairs(arguments.repetitions, arguments.only, arguments.classes)
        if arguments.classes is None and not arguments.only:
            simulate_unknown(arguments.repetitions)
