"""A summary as rich tables for the terminal."""

import math
from collections.abc import Iterator, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from likewise.evaluation.certainty.uncertainty import paired_test
from likewise.evaluation.diagnostics import Diagnosis, Distances
from likewise.evaluation.reranking.reranked_scores import RerankedScores
from likewise.evaluation.scores import Summary
from likewise.models.backbones import Level

BARS = " ▁▂▃▄▅▆▇█"
LEVEL_SCORES = ("R@1", "MAP@R")  # of combinations of levels in the terminal; --json has all
SHOWN = 5  # classes, queries and hubs in the terminal; --json has more


def summary_view(summary: Summary, title: str, *, about: Sequence[Text] = ()) -> RenderableType:
    """`about`: lines on what was scored."""
    parts: list[RenderableType] = [Text(title, style="bold"), Text(_counts(summary), style="dim"), *about, _scores(summary)]
    for name, after in summary.scores.reranked.items():
        head = f"the first {after.depth:,} of each list re-ranked, the others behind them as before"
        parts += [_heading(f"After {name}"), Text(f"  {head}", style="dim"), _reranked(summary, after)]
    parts += [Text(f"\n  {note}", style="yellow") for note in summary.scores.notes]
    if summary.diagnosis is not None:
        parts.extend(_diagnosis(summary.diagnosis, joined=summary.num_gallery is not None))
    return Group(*parts)


def levels_view(summaries: Mapping[tuple[Level, ...], Summary], title: str, *, about: Sequence[Text] = ()) -> RenderableType:
    """One row a combination of levels, all together last. The first score has its interval, and that of the difference to all together."""
    whole = list(summaries.values())[-1]
    first, *others = [name for name in LEVEL_SCORES if name in whole.scores.means] or list(whole.scores.means)[:2]
    queries, unit = whole.scores.per_query, whole.interval_unit
    table = _table()
    for name in ("levels", "width", first, "95 % interval", *others, f"{first} beside all"):
        table.add_column(name, justify="left" if name == "levels" else "right", no_wrap=True)
    for levels, summary in summaries.items():
        interval, beside = summary.scores.intervals.get(first), ""
        if interval and queries and summary.scores.per_query and summary is not whole:
            gain = paired_test(queries, summary.scores.per_query, unit="query" if unit == "query" else "class")[first]
            beside = f"{100 * gain.difference:+.1f} ({100 * gain.low:+.1f} to {100 * gain.high:+.1f})"
        spread = f"{100 * interval.low:.1f} to {100 * interval.high:.1f}" if interval else ""
        means = [f"{100 * summary.scores.means[name]:.1f}" for name in (first, *others)]
        table.add_row("+".join(levels), f"{summary.dim}", Text(means[0], style="bold"), spread, *means[1:], beside)
    over = [] if unit == "none" else [f"95 % intervals over {'classes' if unit == 'class' else 'queries'}, of this one training"]
    notes = [*(Text(f"  {words}", style="dim") for words in over), *(Text(f"\n  {note}", style="yellow") for note in whole.scores.notes)]
    return Group(Text(title, style="bold"), Text(_counts(whole), style="dim"), *about, table, *notes)


def _counts(summary: Summary) -> str:
    items = "items" if summary.num_gallery is None else f"queries, {summary.num_gallery:,} gallery items"
    dim = f"{8 * summary.dim} bits" if summary.metric == "hamming" else f"{summary.dim} dimensions"
    return f"{summary.num_items:,} {items}, {summary.num_classes:,} classes, {dim}, {summary.metric}"


def _scores(summary: Summary) -> Table:
    table = _table()
    table.add_column("score")
    table.add_column("%", justify="right")
    if summary.scores.intervals:
        table.add_column(f"95 % interval over {'classes' if summary.interval_unit == 'class' else 'queries'}", justify="center")
    for name, score in summary.scores.means.items():
        interval = summary.scores.intervals.get(name)
        spread = [f"{100 * interval.low:6.2f} to {100 * interval.high:6.2f}"] if interval else []
        table.add_row(name, Text(f"{100 * score:.2f}", style="bold"), *spread)
    return table


def _reranked(summary: Summary, after: RerankedScores) -> Table:
    """Scores before and after, with the interval of the difference."""
    table = _table()
    for name in ("score", "before", "after", *(["gain, 95 % interval"] if after.differences else [])):
        table.add_column(name, justify="left" if name == "score" else "right")
    for name, score in after.means.items():
        gain = after.differences.get(name)
        spread = [f"{100 * gain.low:+.2f} to {100 * gain.high:+.2f}"] if gain else []
        table.add_row(name, f"{100 * summary.scores.means[name]:.2f}", Text(f"{100 * score:.2f}", style="bold"), *spread)
    return table


def _diagnosis(diagnosis: Diagnosis, *, joined: bool) -> Iterator[RenderableType]:
    yield _heading("Geometry" + (" of queries and gallery together" if joined else ""))
    table = _table()
    for name in ("distances", "pairs", "5 %", "median", "95 %"):
        table.add_column(name, justify="left" if name == "distances" else "right")
    low, high = _span(diagnosis)
    table.add_column(f"{float(diagnosis.edges[low]):.2f} to {float(diagnosis.edges[high]):.2f}", no_wrap=True)
    for name, distances in (("within classes", diagnosis.intra), ("between classes", diagnosis.inter)):
        quantiles = [f"{distances.quantiles[share]:.3f}" if distances.quantiles else "" for share in (0.05, 0.5, 0.95)]
        table.add_row(name, f"{distances.num_pairs:,}", *quantiles, _bars(distances, low, high))
    yield table
    if diagnosis.intra.num_pairs and diagnosis.inter.num_pairs:
        yield Text(f"  a pair within a class is closer than one between classes {100 * diagnosis.separation:.1f} % of the time")
    yield Text(f"  effective rank {diagnosis.effective_rank:.1f} of {len(diagnosis.singular_values)} dimensions")
    alone = f"{100 * diagnosis.anti_hub_share:.1f} % of the items are among nobody's nearest {diagnosis.neighbours}"
    yield Text(f"  {alone}; hubness (skewness) {diagnosis.hub_skewness:.1f}")
    yield Text("  largest hubs: " + ", ".join(f"item {item} ({times} times)" for item, times in diagnosis.hubs[:3]))
    if diagnosis.class_recall:
        yield _heading("Classes with the lowest R@1")
        table = _table()
        table.add_column("class", overflow="ellipsis", no_wrap=True, max_width=40)
        table.add_column("items", justify="right")
        table.add_column("R@1 %", justify="right")
        for recall in diagnosis.class_recall[:SHOWN]:
            table.add_row(Text(recall.label), f"{recall.num_items:,}", f"{100 * recall.recall_at_1:.1f}")
        yield table
    if diagnosis.worst_queries:
        yield _heading("Queries whose nearest positive is farthest behind")
        table = _table()
        table.add_column("item", justify="right", no_wrap=True)
        table.add_column("class", overflow="ellipsis", no_wrap=True, min_width=8, max_width=24)
        table.add_column("behind by", justify="right", no_wrap=True)
        table.add_column("nearest items (class)", overflow="ellipsis", no_wrap=True)
        for query in diagnosis.worst_queries[:SHOWN]:
            near = "\n".join(f"{item} ({label})" for item, label in zip(query.neighbours[:3], query.neighbour_labels, strict=False))
            table.add_row(str(query.index), Text(query.label), f"{query.gap:.3f}", Text(near))
        yield table
    for warning in diagnosis.warnings:
        yield Text("\n! " + warning, style="yellow")


def _heading(words: str) -> Text:
    return Text("\n" + words, style="bold")


def _table() -> Table:
    return Table(box=None, padding=(0, 1, 0, 2), header_style="dim", pad_edge=True)


def _span(diagnosis: Diagnosis) -> tuple[int, int]:
    """First and last edge around all that the histograms hold."""
    filled = (diagnosis.intra.histogram + diagnosis.inter.histogram).nonzero().flatten()
    return int(filled[0]), int(filled[-1]) + 1


def _bars(distances: Distances, low: int, high: int, *, width: int = 16) -> str:
    """The histogram between two edges in at most `width` characters of equally many bins, the highest bar full."""
    counts = distances.histogram[low:high].tolist()
    group = math.ceil(len(counts) / width)
    heights = [sum(counts[start : start + group]) for start in range(0, len(counts), group)]
    most = max(heights) or 1
    return "".join(BARS[math.ceil(8 * height / most)] for height in heights)
