"""Results of a comparison that never ran: glyphs seen through random projections, with names meant to do harm."""

from pathlib import Path
from typing import Any

import numpy as np

from likewise.comparison.results import ComparisonResults, Curve, MethodResult, TestItems, Trial
from likewise.comparison.statistics import estimates, judged, verdict_among
from likewise.comparison.sweeping.sweeps import point_in_words
from likewise.comparison.sweeping.swept_methods import SweptMethod
from likewise.comparison.tuning import LADDER
from likewise.data.dataset import Pixels
from likewise.data.readers.glyphs import read_glyphs
from likewise.evaluation import per_query
from likewise.evaluation.certainty.verdict import Verdict
from likewise.evaluation.retrieval import PerQuery

HOSTILE = (
    "</script><script>window.harmed=1</script>",
    '"><img src=x onerror="window.harmed=1">',
    "a & b 'c' \\ {{style}}",
    "caf\udce9\u202e\u2028 \x07",  # an undecodable byte, a turn of direction, a line separator, a bell
    "$x_1$ | % # ~ ^ *b*",
)
METHODS = (
    ("raw_vthm", "RAW + VTHM", 48),
    ("ranked_list", "Ranked list", 44),
    ("proxy_nca", "Proxy-NCA", 24),
    ("lifted", "Lifted structure", 16),
)


SWEPT: tuple[dict[str, Any], ...] = ({"dim": 8}, {"dim": 16}, {"pooling": "avg"}, {"pooling": "max"})
POOLED = {"avg": 12, "max": 20}  # dimensions


def made_up(
    folder: Path,
    *,
    datasets: tuple[str, ...] = ("glyphs",),
    num_seeds: int = 3,
    num_trials: int = 6,
    thumbnails: bool = True,
    query_gallery: bool = False,
    hostile: bool = False,
    sweep: bool = False,
    num_classes: int = 24,
    images: int = 10,
    more: int = 0,
    indifferent: float | None = None,
    look: int = 1,
) -> ComparisonResults:
    """The given methods and one apart on each data set; `more` adds as many further methods."""
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(0)
    names = [*METHODS, ("multilevel" if not hostile else "m<b>", HOSTILE[0] if hostile else "Multilevel", 64)]
    names += [(f"method_{i}", f"Method {i}", 18 + 3 * i) for i in range(more)]
    methods: list[MethodResult] = []
    items: dict[str, TestItems] = {}
    verdicts: dict[tuple[str, str], Verdict] = {}
    swept: list[SweptMethod] = []
    for dataset in datasets:
        items[dataset] = _items(num_classes, images, thumbnails=thumbnails, query_gallery=query_gallery, hostile=hostile)
        at_points: dict[str, tuple[list[MethodResult], dict[str, list[PerQuery]]]] = {}
        for number, (name, title, dim) in enumerate(names):
            points: list[dict[str, Any]] = [{}] + (list(SWEPT) if sweep and number < 3 else [])
            for point in points:
                path = folder / f"{len(items)}-{number}-{point_in_words(point)}.npy"
                seeds = _seeds(
                    items[dataset], POOLED[point["pooling"]] if "pooling" in point else point.get("dim", dim), num_seeds, number, path
                )
                apart = "" if number != len(METHODS) else (HOSTILE[1] if hostile else "1,536 dimensions")
                rows, runs = at_points.setdefault(point_in_words(point), ([], {}))
                rows.append(_result(name, title, dataset, apart, point, dim, seeds, path, num_trials if number < 3 else 0, random))
                runs[name] = seeds
        for place, (rows, runs) in at_points.items():
            with_verdict, verdict = judged(rows, runs, look=look, indifferent=indifferent)
            methods += with_verdict
            assert verdict is not None
            verdicts[dataset, place] = verdict
        if sweep:
            swept += [_swept(dataset, kind, name, title, at_points) for kind in ("dim", "pooling") for name, title, _ in names[:3]]
    ranks = {name: 1.0 + 0.8 * i for i, (name, _, _) in enumerate(METHODS)} if len(datasets) > 1 else {}
    return ComparisonResults(
        title=f"Comparison {HOSTILE[0]}" if hostile else "Glyphs, five methods",
        command="likewise compare glyphs --methods raw_vthm,ranked_list,proxy_nca,lifted --trials 6 --seeds 3",
        created="2025-01-02T03:04:05+00:00",
        protocol={"name": "quick", "steps": 300, "learning_rate": 0.001, "evaluation": {"ks": [1, 2, 4, 8]}},
        equal={
            "data": f"{num_classes} test classes, {num_classes * images} test images, unseen while training and tuning",
            "backbone": "convnet, random weights, the same for every method",
            "images": "64 a step, 300 steps",
        },
        num_seeds=num_seeds,
        num_trials=num_trials,
        num_folds=2 if num_trials else 0,
        methods=tuple(methods),
        items=items,
        guard_record=tuple(
            {
                "event": "opened",
                "time": f"2025-01-02T03:0{seed}:00+00:00",
                "purpose": "final evaluation",
                "run": f"raw-seed{seed}",
                "number": seed,
            }
            for seed in range(num_seeds)
        ),
        versions={"likewise": "0.1.0", "torch": "2.13.0", "python": "3.13"},
        notes=("2 images could not be read and were left out", *(HOSTILE if hostile else ())),
        verdicts=verdicts,
        swept=tuple(swept),
        indifferent=indifferent,
        average_ranks=ranks,
        critical_difference=1.3 if ranks else None,
        time_spent={"training": 120.0, "tuning": 340.0, "evaluation": 12.5, "report": 6.0, "waiting": 21.5},
        elapsed=260.0,
        jobs=2,
    )


def _swept(
    dataset: str, sweep: str, name: str, title: str, at_points: dict[str, tuple[list[MethodResult], dict[str, list[PerQuery]]]]
) -> SweptMethod:
    points = {point_in_words(point): point for point in SWEPT if sweep in point}
    verdict = verdict_among({point: at_points[point][1][name] for point in points})
    return SweptMethod(dataset, sweep, name, title, points, verdict, {f"{sweep}=none": "<i>it cannot be</i>"})


def _items(num_classes: int, images: int, *, thumbnails: bool, query_gallery: bool, hostile: bool) -> TestItems:
    data = read_glyphs(classes=num_classes, images=images, size=24)
    assert isinstance(data.items, Pixels)
    names = [f"class{label:02}/{i:05}.png" for i, label in enumerate(data.labels.tolist())]
    class_names = list(data.class_names)
    if hostile:
        class_names[: len(HOSTILE)] = HOSTILE
        names[: len(HOSTILE)] = HOSTILE
    halves = (np.arange(0, len(data), 2), np.arange(1, len(data), 2)) if query_gallery else (None, None)
    pixels = np.repeat(data.items.array[..., None], 3, axis=-1) if thumbnails else None
    return TestItems(data.labels, tuple(class_names), tuple(names), pixels, *halves)


def _seeds(items: TestItems, dim: int, num_seeds: int, number: int, path: Path) -> list[PerQuery]:
    """Scores of a projection of the pixels, with more noise for later methods; one a seed."""
    pixels = read_glyphs(classes=len(items.class_names), images=len(items.labels) // len(items.class_names), size=24).items
    assert isinstance(pixels, Pixels)
    flat = pixels.array.reshape(len(items.labels), -1).astype(np.float32) / 255
    centres = np.random.default_rng(7).standard_normal((len(items.class_names), dim))
    found = []
    for seed in range(num_seeds):
        random = np.random.default_rng([number, seed])
        vectors = 0.1 * (flat - flat.mean(1, keepdims=True)) @ random.standard_normal((flat.shape[1], dim)) + centres[items.labels]
        vectors = vectors + (0.3 + 0.05 * number) * random.standard_normal(vectors.shape)
        vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float16)
        if seed == 0:
            np.save(path, vectors)
        query, gallery = (np.arange(len(vectors)), None) if items.query is None else (items.query, items.gallery)
        found.append(
            per_query(
                vectors[query].astype(np.float32),
                items.labels[query],
                gallery=None if gallery is None else vectors[gallery].astype(np.float32),
                gallery_labels=None if gallery is None else items.labels[gallery],
            )
        )
    return found


def _result(
    name: str,
    title: str,
    dataset: str,
    apart: str,
    point: dict[str, Any],
    dim: int,
    seeds: list[PerQuery],
    path: Path,
    num_trials: int,
    random: Any,
) -> MethodResult:
    means = [{score: float(values[seed.matched].mean()) for score, values in seed.scores.items()} for seed in seeds]
    scores = estimates([{**mean, "NMI": 0.9 * mean["MAP@R"]} for mean in means], seeds)
    steps = tuple(range(20, 320, 20))
    curves = []
    for seed in range(len(seeds)):
        noise = random.random(len(steps))
        losses = tuple((2.0 / (1 + step / 60) + 0.1 * n) for step, n in zip(steps, noise.tolist(), strict=True))
        validation = tuple(scores["MAP@R"].mean * (1 - 0.7 * np.exp(-step / 80)) for step in steps[::3])
        curves.append(Curve(seed, steps, losses, steps[::3], tuple(map(float, validation))))
    trials = tuple(
        Trial(i, {"rates.base": rate}, None if i == 2 else score, "pruned" if i == 2 else "complete", None if i == 5 else score)
        for i, (rate, score) in enumerate(zip(LADDER[:num_trials], (0.2 + 0.3 * random.random(num_trials)).tolist(), strict=True))
    )
    return MethodResult(
        name=name,
        title=title,
        dataset=dataset,
        apart=apart,
        dim=dim,
        settings={"rates.base": 3.0} if trials else {},
        defaults={"rates.base": 1.0} if trials else {},
        scores=scores,
        seconds=tuple(3.0 * dim**0.5 + seed for seed in range(len(seeds))),
        memory_bytes=300 << 20,
        curves=tuple(curves),
        trials=trials,
        published={"R@1": 0.669} if name == "raw_vthm" else {},
        sweep=point,
        embeddings=path,
    )
