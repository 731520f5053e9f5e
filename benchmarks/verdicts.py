"""How often the verdict errs, how well its intervals cover, and what it finds: simulated, with the error of the simulation beside it.

    python benchmarks/verdicts.py                       # all tables, a few minutes on one core
    python benchmarks/verdicts.py --quick               # a tenth of the draws and a third of the grid, a minute
    python benchmarks/verdicts.py --redraw FOLDER       # the scores of a finished comparison, drawn again

A cell says how often any of truly equal methods was called behind, in %. Noise is normal unless a table says otherwise; seed noise and
class noise are those of the mean (standard errors). Where they differ between methods they are spread evenly, on a log scale, over a factor
of 30, with the same mean square.
"""

from __future__ import annotations

import argparse
import io
import sqlite3
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from likewise.evaluation.certainty.noise import Noise, measured, of_differences, of_means
from likewise.evaluation.certainty.verdict import detectable, level_at

ALPHA = 0.05
METHODS = {2: 4000, 10: 2000, 35: 1000}  # and how often each cell is drawn
SEEDS, CLASSES, RATIOS = (2, 3, 5, 10), (5, 10, 20, 50, 200), (0.0, 0.5, 1.0, 2.0)
AT_ONCE = 4_000_000  # scores held in memory


def spread(num_methods: int, factor: float) -> np.ndarray:
    """Standard deviations over a factor, their mean square 1."""
    sizes = np.geomspace(1, factor, num_methods)
    return sizes / np.sqrt((sizes**2).mean())


def outlier(num_methods: int, factor: float) -> np.ndarray:
    """One method is noisier than the rest."""
    sizes = np.ones(num_methods)
    sizes[0] = factor
    return sizes / np.sqrt((sizes**2).mean())


# name -> (seed deviations, class deviations) by number of methods
NOISES: dict[str, Callable[[int], tuple[np.ndarray, np.ndarray]]] = {
    "noise equal": lambda k: (np.ones(k), np.ones(k)),
    "seed noise differs": lambda k: (spread(k, 30), np.ones(k)),
    "both differ": lambda k: (spread(k, 30), spread(k, 30)),
}


def normal(rng: np.random.Generator, size: tuple[int, ...]) -> np.ndarray:
    return rng.standard_normal(size)


def beta(rng: np.random.Generator, size: tuple[int, ...]) -> np.ndarray:
    """As MAP@R of classes is: most near 0, few far above (skewness 2.5); mean 0, variance 1."""
    a, b = 0.3, 4.0
    mean, variance = a / (a + b), a * b / ((a + b) ** 2 * (a + b + 1))
    return (rng.beta(a, b, size) - mean) / np.sqrt(variance)


def heavy(rng: np.random.Generator, size: tuple[int, ...]) -> np.ndarray:
    return rng.standard_t(3, size) / np.sqrt(3)


def failing(rng: np.random.Generator, size: tuple[int, ...]) -> np.ndarray:
    """A tenth of the trainings fails, by as much for all; mean 0, variance 1."""
    return (0.1 - (rng.random(size) < 0.1) + 0.1 * rng.standard_normal(size)) / np.sqrt(0.09 + 0.01)


def drawn(
    rng: np.random.Generator,
    times: int,
    *,
    seeds: int,
    classes: int,
    ratio: float,
    seed_sizes: np.ndarray,
    class_sizes: np.ndarray,
    by_class: Callable[[np.random.Generator, tuple[int, ...]], np.ndarray] = normal,
    by_seed: Callable[[np.random.Generator, tuple[int, ...]], np.ndarray] = normal,
    interaction: float = 0.0,
    shared: float = 0.0,
    lead: float = 0.0,
) -> Iterator[Noise]:
    """What `measured` makes of simulated scores.

    Class noise is 1 (root mean square over methods), seed noise `ratio` and interaction `interaction`, all as standard errors of the mean;
    `shared` is the correlation of a seed's effects on different methods; the first method leads by `lead`.
    """
    num_methods = len(seed_sizes)
    step = max(1, AT_ONCE // (num_methods * seeds * classes))
    for start in range(0, times, step):
        count = min(step, times - start)
        scores = by_class(rng, (count, num_methods, 1, classes)) * np.sqrt(classes) * class_sizes[:, None, None]
        own = by_seed(rng, (count, num_methods, seeds, 1))
        common = normal(rng, (count, 1, seeds, 1))
        scores = scores + (np.sqrt(1 - shared) * own + np.sqrt(shared) * common) * np.sqrt(seeds) * ratio * seed_sizes[:, None, None]
        if interaction:
            scores = scores + normal(rng, (count, num_methods, seeds, classes)) * interaction * np.sqrt(seeds * classes)
        scores[:, 0] += lead
        yield measured([scores[:, m] for m in range(num_methods)])


def judged(noises: Iterator[Noise], truth: np.ndarray | float = 0.0) -> dict[str, float]:
    """Chances, of all comparisons: that a method as good as the best, or better, is called behind; that all differences to the best are
    covered; that a method's mean is; that the first method is best and all others are called behind it."""
    wrong = covered = means = found = total = 0.0
    for noise in noises:
        true = np.broadcast_to(truth, noise.means.shape)
        best = noise.means.argmax(axis=-1)
        true_difference = true - np.take_along_axis(true, best[:, None], axis=-1)
        low, high = of_differences(noise, best).limits(ALPHA)
        behind = high < -1e-12
        wrong += float((behind & (true_difference >= 0)).any(axis=-1).sum())
        covered += float(((low <= true_difference + 1e-12) & (true_difference <= high + 1e-12)).all(axis=-1).sum())
        found += float(((best == 0) & (behind.sum(axis=-1) == behind.shape[-1] - 1)).sum())
        low, high = of_means(noise).limits(ALPHA)
        means += float(((low <= true) & (true <= high)).mean(axis=-1).sum())
        total += len(best)
    return {"wrong": wrong / total, "differences": covered / total, "means": means / total, "found": found / total, "times": total}


def percent(chance: float, times: float) -> str:
    return f"{100 * chance:.1f} ± {100 * np.sqrt(max(chance * (1 - chance), 1 / times) / times):.1f}"


def accuracy(times: float) -> str:
    return f"± {100 * np.sqrt(0.05 * 0.95 / times):.1f}"


def head(first: str, columns: list[str]) -> None:
    line(first, columns)
    print("|---|" + "---|" * len(columns))


def line(first: object, cells: list[str]) -> None:
    print(f"| {first} | {' | '.join(cells)} |", flush=True)


def error_rates(rng: np.random.Generator, *, quick: bool) -> None:
    seed_counts, class_counts = (SEEDS, CLASSES) if not quick else ((2, 3, 5), (5, 20, 200))
    worst: list[tuple[float, float, str]] = []
    coverage: dict[tuple[int, int], list[float]] = {}
    cells = above = 0
    for name, sizes in NOISES.items():
        for num_methods, times in METHODS.items():
            seed_sizes, class_sizes = sizes(num_methods)
            times = times // 8 if quick else times
            print(f"\n{num_methods} methods, {name}, seed noise 0 / 0.5 / 1 / 2 times class noise; {accuracy(times)} at 5 %\n")
            head("seeds", [f"{count} classes" for count in class_counts])
            for seeds in seed_counts:
                row = []
                for classes in class_counts:
                    chances = []
                    for ratio in RATIOS:
                        result = judged(
                            drawn(rng, times, seeds=seeds, classes=classes, ratio=ratio, seed_sizes=seed_sizes, class_sizes=class_sizes)
                        )
                        where = f"{num_methods} methods, {seeds} seeds, {classes} classes, {name}, ratio {ratio:g}"
                        chances.append(result["wrong"])
                        worst.append((result["wrong"], times, where))
                        coverage.setdefault((seeds, classes), []).append(result["means"])
                        cells += 1
                        above += result["wrong"] > 0.05 + 2 * np.sqrt(0.05 * 0.95 / times)
                    row.append(" / ".join(f"{100 * chance:.1f}" for chance in chances))
                line(seeds, row)
    print(f"\nWorst of {cells} cells (2.3 % of cells with a true 5 % would pass 5 % by two standard errors: {above} do):\n")
    for chance, times, where in sorted(worst, reverse=True)[:6]:
        print(f"- {percent(chance, times)}: {where}")
    print(
        "\nA method's own interval covers its mean, in % (mean over methods; least and most over numbers of methods, noises and ratios):\n"
    )
    head("seeds", [f"{count} classes" for count in class_counts])
    for seeds in seed_counts:
        ranges = [coverage[seeds, classes] for classes in class_counts]
        line(seeds, [f"{100 * min(own):.1f} to {100 * max(own):.1f}" for own in ranges])


# name -> how likely a query of a class is found, (draws, classes), the mean of that, and how many queries the classes have
Sizes = np.ndarray | int
POPULATIONS: dict[str, Callable[[np.random.Generator, tuple[int, int]], tuple[np.ndarray, float, Sizes]]] = {
    "mean 0.70, 20 queries a class": lambda rng, size: (rng.beta(7, 3, size), 0.7, 20),
    "mean 0.96, 20 queries a class": lambda rng, size: (rng.beta(9.6, 0.4, size), 0.96, 20),
    "mean 0.29, 200 queries a class": lambda rng, size: (rng.beta(2, 5, size), 2 / 7, 200),
    "mean 0.07, 200 queries a class": lambda rng, size: (rng.beta(0.3, 4, size), 0.3 / 4.3, 200),
    "mean 0.29, sizes vary by half": lambda rng, size: (rng.beta(2, 5, size), 2 / 7, 2 + rng.poisson(rng.lognormal(2.3, 0.5, size))),
    "mean 0.70, sizes vary twofold": lambda rng, size: (rng.beta(7, 3, size), 0.7, 2 + rng.poisson(rng.lognormal(2.3, 0.8, size))),
}


def single_intervals(rng: np.random.Generator, *, quick: bool) -> None:
    """What `likewise evaluate` says of one embedding, and the two bootstraps that it does not use."""
    times, samples = (300, 200) if quick else (2000, 400)
    print("\nThe interval of one embedding's score over classes covers the truth, in %: by percentiles of bootstrap samples / by")
    print(f"bootstrap-t / as it is, and how wide, in points; {accuracy(times)}. Where all classes score the same there is none: covered.\n")
    class_counts = (3, 5, 10, 20, 50)
    head("scores of classes", [f"{count} classes" for count in class_counts])
    for name, population in POPULATIONS.items():
        row = []
        for classes in class_counts:
            chances, truth, sizes = population(rng, (times, classes))
            counts = np.broadcast_to(sizes, chances.shape)
            scores = rng.binomial(counts, chances) / counts
            flat = np.ptp(scores, axis=1) == 0
            inside, width = np.zeros(3), 0.0
            for table, weights, is_flat in zip(scores, counts.astype(float), flat, strict=True):
                low, high = of_means(measured([table[None]], weights)).limits(ALPHA)
                ends_of = [*by_bootstrap(rng, table, weights, samples), (max(0.0, float(low[0])), min(1.0, float(high[0])))]
                inside += [is_flat or low <= truth <= high for low, high in ends_of]
                width += 0 if is_flat else ends_of[-1][1] - ends_of[-1][0]
            covered = " / ".join(f"{100 * share:.0f}" for share in inside[:2] / times)
            row.append(f"{covered} / {100 * inside[2] / times:.1f}, {100 * width / max(1, (~flat).sum()):.0f}")
        line(name, row)


def by_bootstrap(rng: np.random.Generator, scores: np.ndarray, sizes: np.ndarray, samples: int) -> list[tuple[float, float]]:
    """Limits by percentiles, and by studentised samples (bootstrap-t)."""
    drawn_classes = rng.integers(len(scores), size=(samples, len(scores)))
    values, weights = scores[drawn_classes], sizes[drawn_classes]

    def of(values: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mean = (values * weights).sum(axis=-1) / weights.sum(axis=-1)
        return mean, np.sqrt(((weights * (values - mean[..., None])) ** 2).sum(axis=-1)) / weights.sum(axis=-1)

    (means, errors), (mean, error) = of(values, weights), of(scores, sizes)
    known = errors > 0
    t = np.where(known, (means - mean) / np.where(known, errors, 1), np.sign(means - mean) * 1e9)
    low, high = np.quantile(means, [ALPHA / 2, 1 - ALPHA / 2])
    least, most = np.quantile(t, [ALPHA / 2, 1 - ALPHA / 2])
    return [(float(low), float(high)), (float(mean - most * error), float(mean - least * error))]


def other_shapes(rng: np.random.Generator, *, quick: bool) -> None:
    print("\nOther shapes of noise, equal methods; seed noise as large as class noise unless said; columns: methods and seeds\n")
    times = 250 if quick else 2000
    kinds: dict[str, Callable[[int], dict[str, object]]] = {
        "skewed class scores (beta)": lambda k: {"by_class": beta},
        "skewed, and one method's 30 times as wide": lambda k: {"by_class": beta, "class_sizes": outlier(k, 30), "ratio": 0.5},
        "heavy-tailed class scores (t, 3 degrees)": lambda k: {"by_class": heavy},
        "one method's seeds 30 times as noisy": lambda k: {"seed_sizes": outlier(k, 30)},
        "one method's seeds 5 times as noisy": lambda k: {"seed_sizes": outlier(k, 5), "ratio": 2.0},
        "half the methods' seeds 5 times as noisy": lambda k: {
            "seed_sizes": np.repeat([1.0, 5.0], [k - k // 2, k // 2]) / 3.6,
            "ratio": 2.0,
        },
        "a tenth of the trainings fails": lambda k: {"by_seed": failing},
        "seed noise alone": lambda k: {"class_sizes": np.full(k, 1e-6)},
        "seed noise alone, over a factor of 30": lambda k: {"class_sizes": np.full(k, 1e-6), "seed_sizes": spread(k, 30)},
        "interaction of seeds and classes alone": lambda k: {"class_sizes": np.full(k, 1e-6), "ratio": 0.0, "interaction": 1.0},
        "interaction as large as both": lambda k: {"interaction": 1.0},
        "seeds shared (correlation 0.7)": lambda k: {"shared": 0.7},
    }
    columns = [(2, 2), (2, 3), (2, 10), (10, 2), (10, 3), (10, 10)] + ([] if quick else [(35, 3)])
    for classes in (10, 50):
        print()
        head(f"{classes} classes", [f"{num_methods}, {seeds}" for num_methods, seeds in columns])
        for name, settings in kinds.items():
            row = []
            for num_methods, seeds in columns:
                given: dict[str, object] = {"ratio": 1.0, "seed_sizes": np.ones(num_methods), "class_sizes": np.ones(num_methods)}
                given |= settings(num_methods)
                result = judged(drawn(rng, times, seeds=seeds, classes=classes, **given))  # type: ignore[arg-type]
                row.append(f"{100 * result['wrong']:.1f}")
            line(name, row)


def unequal_methods(rng: np.random.Generator, *, quick: bool) -> None:
    print("\nMethods that differ: true means evenly apart, 6 standard errors from first to last; seed noise as large as class noise.")
    print("All differences to the chosen best covered at once (95 or more is meant), and a better method called behind (5 or less), in %\n")
    times = 250 if quick else 2000
    columns = [(seeds, classes) for seeds in (2, 3, 10) for classes in (10, 50)]
    head("methods, noise", [f"{seeds} seeds, {classes} classes" for seeds, classes in columns])
    for num_methods in (2, 10, 35) if not quick else (2, 10):
        for name in ("noise equal", "seed noise differs"):
            seed_sizes, class_sizes = NOISES[name](num_methods)
            truth = np.linspace(6, 0, num_methods)
            row = []
            for seeds, classes in columns:
                noises = drawn(rng, times, seeds=seeds, classes=classes, ratio=1.0, seed_sizes=seed_sizes, class_sizes=class_sizes)
                result = judged((replace(noise, means=noise.means + truth) for noise in noises), truth)
                row.append(f"{100 * result['differences']:.1f}, {100 * result['wrong']:.1f}")
            line(f"{num_methods}, {name}", row)


def power(rng: np.random.Generator, *, quick: bool) -> None:
    """The audit's case, a lead of one point with a seed deviation of 0.3 beside noisy methods, and what is said to be detectable."""
    times = 500 if quick else 4000
    print("\nA lead of 1 point over the second method, both with a seed deviation of 0.3 points; 200 classes, which add 0.15 points of")
    print("noise to the difference: found, in %. The others lie 4 points further back and have deviations of 0.3 (quiet) or 1.6 (noisy)\n")
    head("methods", [f"{seeds} seeds" for seeds in SEEDS])
    for num_methods, kind, deviation in ((2, "alone", 0.3), (6, "quiet", 0.3), (6, "noisy", 1.6), (10, "quiet", 0.3), (10, "noisy", 1.6)):
        place = np.arange(num_methods)
        truth = np.select([place == 0, place == 1], [1.0, 0.0], -4.0)
        row = []
        for seeds in SEEDS:
            found = total = 0
            seed_sizes = np.where(place < 2, 0.3, deviation) / np.sqrt(seeds)
            class_sizes = np.full(num_methods, 0.15 / np.sqrt(2))
            for noise in drawn(rng, times, seeds=seeds, classes=200, ratio=1.0, seed_sizes=seed_sizes, class_sizes=class_sizes):
                best = (noise.means + truth).argmax(axis=-1)
                _, high = of_differences(replace(noise, means=noise.means + truth), best).limits(ALPHA)
                found += int(((best == 0) & (high[:, 1] < 0)).sum())
                total += len(best)
            row.append(percent(found / total, total))
        line(f"{num_methods}, {kind}", row)

    print(
        "\nWhat is said to be detectable, in standard errors of the difference, and how often a lead of that size is found (80 % is meant);"
    )
    print("50 classes, seed noise as large as class noise and equal for all. Last, what 3 seeds say of 10\n")
    head("methods", [*(f"{seeds} seeds" for seeds in SEEDS), "10 seeds, by 3"])
    times = 100 if quick else 600
    for num_methods in (2, 10, 35) if not quick else (2, 10):
        sizes = np.ones(num_methods)
        row, guesses = [], []
        for seeds in SEEDS:
            said = []
            for noise in drawn(rng, times, seeds=seeds, classes=50, ratio=1.0, seed_sizes=sizes, class_sizes=sizes):
                each = [single(noise, index) for index in range(len(noise.means))]
                said += [detectable(one, seeds, ALPHA) for one in each]
                if seeds == 3:
                    guesses += [detectable(one, 10, ALPHA) for one in each]
            lead = float(np.median(said))
            found = total = 0
            for noise in drawn(rng, 5 * times, seeds=seeds, classes=50, ratio=1.0, seed_sizes=sizes, class_sizes=sizes, lead=lead):
                _, high = of_differences(noise, np.zeros(len(noise.means), dtype=np.intp)).limits(ALPHA)
                found += int((high[:, 1] < 0).sum())
                total += len(high)
            row.append(f"{lead / 2:.1f}: {100 * found / total:.0f} %")  # the variance of a difference is 2 by classes and 2 by seeds
        line(num_methods, [*row, f"{np.median(guesses) / np.sqrt(2 + 2 * 3 / 10):.1f}"])


# What is there at each look: the number of methods and of seeds
LOOKS: dict[str, list[tuple[int, int]]] = {
    "10 methods, 3 seeds, then 10": [(10, 3), (10, 10)],
    "10 methods, 2, 3, 5, 10, then 20 seeds": [(10, seeds) for seeds in (2, 3, 5, 10, 20)],
    "2 methods, a seed at a time from 2 to 20": [(2, seeds) for seeds in range(2, 21)],
    "3 seeds, a method at a time from 2 to 10": [(methods, 3) for methods in range(2, 11)],
    "a seed and a method in turn, 2 to 10": [step for k in range(2, 10) for step in ((k, k), (k, k + 1))],
}
Spending = Callable[[int], float]
SPENDINGS: dict[str, Spending] = {
    "5 % at every look": lambda look: ALPHA,
    "5 % / k": lambda look: ALPHA / look,
    "as it is": lambda look: 1 - level_at(look),
}


def many_looks(rng: np.random.Generator, *, quick: bool) -> None:
    """Equal methods; seeds and methods are added and the verdict asked again, on the same test classes."""
    times, chunk = (300, 100) if quick else (4000, 100)
    print("\nAny of equal methods called behind at the first look, and at any later one, in %; the greatest of seed noise 0, 0.5, 1 and 2")
    print(f"times class noise (at three seeds) and of 10 and 50 classes; {accuracy(times)}\n")
    head("looks", ["first look", *(f"later looks, {name}" for name in SPENDINGS)])
    for name, looks in LOOKS.items():
        num_methods, num_seeds = max(methods for methods, _ in looks), max(seeds for _, seeds in looks)
        worst = np.zeros(1 + len(SPENDINGS))
        for classes in (10, 50):
            for ratio in RATIOS:
                first, later = 0, np.zeros(len(SPENDINGS))
                for _ in range(0, times, chunk):
                    scores = normal(rng, (chunk, num_methods, 1, classes)) * np.sqrt(classes)
                    scores = scores + normal(rng, (chunk, num_methods, num_seeds, 1)) * np.sqrt(3) * ratio
                    any_later = np.zeros((len(SPENDINGS), chunk), dtype=bool)
                    for look, (methods, seeds) in enumerate(looks, start=1):
                        noise = measured([scores[:, m, :seeds] for m in range(methods)])
                        spread_of_all = of_differences(noise, noise.means.argmax(axis=-1))
                        wrong = [(spread_of_all.limits(spent(look))[1] < -1e-12).any(axis=-1) for spent in SPENDINGS.values()]
                        if look == 1:
                            first += int(wrong[0].sum())
                        else:
                            any_later |= np.stack(wrong)
                    later += any_later.sum(axis=1)
                worst = np.maximum(worst, np.array([first, *later]) / times)
        line(name, [f"{100 * chance:.1f}" for chance in worst])


def single(noise: Noise, index: int) -> Noise:
    return replace(noise, **{name: getattr(noise, name)[index] for name in ("means", "pulls", "seed_variance", "interaction")})


def class_scores(folder: Path, score: str = "MAP@R") -> dict[str, np.ndarray]:
    """{method: (seeds, classes)} of a finished comparison, its methods that were trained and the first data set."""
    store = folder / "comparison.sqlite"
    if not store.is_file():
        raise SystemExit(f"{folder} holds no comparison.sqlite: --redraw takes the folder of a finished `likewise compare`")
    with sqlite3.connect(f"file:{store}?mode=ro", uri=True) as connection:
        rows = connection.execute(
            "select piece, arrays from likewise_pieces where kind = 'score' and arrays is not null order by piece"
        ).fetchall()
    tables: dict[str, list[np.ndarray]] = {}
    for piece, arrays in rows:
        method, data = piece.split("|")[-2:]
        if method == "untrained" or data != rows[0][0].split("|")[-1]:
            continue
        with np.load(io.BytesIO(arrays)) as held:
            values, labels, matched = held[f"score {score}"], held["labels"], held["matched"]
        codes = np.unique(labels[matched], return_inverse=True)[1]
        tables.setdefault(method, []).append(np.bincount(codes, weights=values[matched]) / np.bincount(codes))
    seeds = min(map(len, tables.values()))
    return {name: np.stack(rows[:seeds]) for name, rows in tables.items()}


def redrawn(rng: np.random.Generator, folder: Path, *, quick: bool) -> None:
    tables = class_scores(folder)
    scores = np.stack(list(tables.values()))  # (methods, seeds, classes)
    num_methods, num_seeds, num_classes = scores.shape
    times = 200 if quick else 1000
    print(f"\n{folder}: {num_methods} methods, {num_seeds} seeds, {num_classes} classes; mean MAP@R {100 * scores.mean():.2f}")
    print(
        "skewness of class scores {:.1f} to {:.1f}, of differences {:.1f} to {:.1f}".format(
            *ends(scores.mean(axis=1)), *ends(differences(scores))
        )
    )
    if num_seeds > 1:
        noise = measured(list(scores))
        parts = (noise.class_scale * (noise.pulls**2).sum(axis=-1), noise.seed_variance, noise.interaction)
        by_class, by_seed, interaction = (100 * np.sqrt(part.mean()) for part in parts)
        print(f"standard errors of a mean, in points: classes {by_class:.2f}, seeds {by_seed:.2f}, of which interaction {interaction:.2f}")
        pairs = np.corrcoef(scores.mean(axis=-1))[np.triu_indices(num_methods, 1)]
        print(f"correlation of seeds between methods: median {np.median(pairs):.2f}, {pairs.min():.2f} to {pairs.max():.2f}")
    centred = scores - scores.mean(axis=(1, 2), keepdims=True)
    class_counts = [count for count in (10, 20, 50, 100) if count < num_classes] + [num_classes]
    print("\nSeeds and classes drawn with replacement. Any of equal methods called behind; then, of the methods as they are, how often a")
    print(f"method's own interval covers its mean and how often all differences to the best are covered; in %, {accuracy(times)}\n")
    head("", ["seeds", *(f"{count} classes" for count in class_counts)])
    for seeds in (2, 3, 5, 10) if num_seeds > 1 else (1,):
        permuted = [judged(redraw(rng, scores, times, seeds, classes, permute=True)) for classes in class_counts]
        line("methods permuted in every class", [str(seeds), *(f"{100 * result['wrong']:.1f}" for result in permuted)])
        shifted = [judged(redraw(rng, centred, times, seeds, classes)) for classes in class_counts]
        line("methods put on one mean", [str(seeds), *(f"{100 * result['wrong']:.1f}" for result in shifted)])
        real = [judged(redraw(rng, scores, times, seeds, classes), scores.mean(axis=(1, 2))) for classes in class_counts]
        line("as they are", [str(seeds), *(f"{100 * result['means']:.1f}, {100 * result['differences']:.1f}" for result in real)])


def redraw(rng: np.random.Generator, scores: np.ndarray, times: int, seeds: int, classes: int, *, permute: bool = False) -> Iterator[Noise]:
    """What `measured` makes of classes, and of seeds of each method, drawn from (methods, seeds, classes)."""
    num_methods, num_seeds, num_classes = scores.shape
    for _ in range(0, times, 50):
        place = np.broadcast_to(np.arange(num_methods)[:, None, None], (50, num_methods, 1, classes))
        if permute:
            place = rng.permuted(place, axis=1)
        at_seed = rng.integers(num_seeds, size=(50, num_methods, seeds, 1))
        drawn_scores = scores[place, at_seed, rng.integers(num_classes, size=(50, 1, 1, classes))]
        noise = measured([drawn_scores[:, m] for m in range(num_methods)])
        yield noise if seeds > 1 else replace(noise, seed_freedom=np.full(num_methods, np.inf))


def differences(scores: np.ndarray) -> np.ndarray:
    by_class = scores.mean(axis=1)
    first, second = np.triu_indices(len(by_class), 1)
    return by_class[first] - by_class[second]


def ends(values: np.ndarray) -> tuple[float, float]:
    """The least and the greatest skewness of the rows."""
    centred = values - values.mean(axis=-1, keepdims=True)
    skewness = (centred**3).mean(axis=-1) / (centred**2).mean(axis=-1) ** 1.5
    return float(skewness.min()), float(skewness.max())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer draws, a part of the grid")
    parser.add_argument("--redraw", type=Path, metavar="FOLDER", help="draw the scores of a finished comparison again")
    parser.add_argument("--only", choices=("errors", "intervals", "shapes", "unequal", "looks", "power"), help="one table")
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)
    begun = time.process_time()
    if arguments.redraw:
        redrawn(rng, arguments.redraw, quick=arguments.quick)
    else:
        tables = {
            "errors": error_rates,
            "intervals": single_intervals,
            "shapes": other_shapes,
            "unequal": unequal_methods,
            "looks": many_looks,
            "power": power,
        }
        for name, table in tables.items():
            if arguments.only in (None, name):
                table(rng, quick=arguments.quick)
    print(f"\n{time.process_time() - begun:.0f} s on one core")


if __name__ == "__main__":
    main()
