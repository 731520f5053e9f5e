"""Claims are judged where they can be: in every part that was run, over parts for every row, along every curve; and counted once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from likewise.comparison.results import Estimate
from likewise.protocols import load_protocol
from likewise.reproductions.paper_claims import Above, Alike, Best, Faster, Ordered, PaperClaim, Radii, Saturates
from likewise.reproductions.paper_item import PaperItem, PaperPart, PaperRow
from likewise.reproductions.reproduction import (
    ClaimVerdict,
    ItemResult,
    JointVerdict,
    Judged,
    PartResult,
    Reproduction,
    RowResult,
    joint_verdict,
)
from likewise.reproductions.verdicts.item_claims import judge_item
from likewise.reproductions.verdicts.looks import Looks

SEEDS, CLASSES = 3, 30


def row_of(mean: float, *, seconds: float = 10.0, seed: int = 0, seeds: int = SEEDS) -> RowResult:
    """With hardly any noise."""
    table: npt.NDArray[np.float64] = np.random.default_rng(seed).normal(mean, 1e-3, (seeds, CLASSES))
    values = tuple(table.mean(axis=1).tolist())
    nmi = tuple(value / 2 for value in values)
    scores = {name: Estimate(of, float(np.mean(of)), 0.001, None, None) for name, of in (("R@1", values), ("NMI", nmi))}
    return RowResult(scores, {"R@1": table}, tuple(seconds * (1 + 0.01 * seed) for seed in range(seeds)), 64)


def part_of(means: dict[str, float], *, digest: str = "d", seeds: int = SEEDS, **more: Any) -> PartResult:
    rows = {name: row_of(mean, seed=number, seeds=seeds) for number, (name, mean) in enumerate(means.items())}
    return PartResult(
        load_protocol("quick"),
        rows,
        more.pop("left_out", {}),
        more.pop("waiting", {}),
        seeds,
        "",
        class_sizes=np.ones(CLASSES),
        test_digest=digest,
    )


def item_of(*claims: PaperClaim, **more: Any) -> PaperItem:
    names = more.pop("names", ("a", "b", "c"))
    rows = more.pop("rows", None) or {
        name: PaperRow("raw", title=f"row {name}", settings={"loss.beta": float(40 + i)}) for i, name in enumerate(names)
    }
    parts = more.pop("parts", None) or tuple(PaperPart(name, "glyphs", "quick", title=f"part {name}") for name in ("one", "two"))
    return PaperItem("rll/table-0", "t", "w", "a", "table", rows, parts, claims=claims, **more)


def judged(item: PaperItem, parts: dict[str, PartResult], folder: Path, needs: dict[str, str] | None = None) -> list[Judged]:
    looks = Looks(folder)
    found = judge_item(item, parts, needs or {}, looks)
    looks.save()
    return list(found)


def verdicts(found: list[Judged]) -> list[tuple[str, str, str]]:
    return [(entry.part, entry.row, entry.verdict) for entry in found]


def test_one_verdict_a_part_that_was_run(tmp_path: Path) -> None:
    item = item_of(Best(says="a is best", best="a"), Best(says="a is best there", best="a", part="two"))
    first, second = {"a": 0.6, "b": 0.5, "c": 0.4}, {"a": 0.5, "b": 0.6, "c": 0.4}
    both = judged(item, {"one": part_of(first), "two": part_of(second)}, tmp_path)
    assert verdicts(both) == [("one", "", "confirmed"), ("two", "", "contradicted"), ("two", "", "contradicted")]
    assert "row a 60.0, row b 50.0, row c 40.0" in both[0].evidence
    one = judged(item, {"one": part_of(first)}, tmp_path, {"two": "it needs MNIST: give --data mnist:PATH"})
    assert verdicts(one) == [("one", "", "confirmed"), ("two", "", "not run")]
    assert one[1].evidence == "part two: it needs MNIST: give --data mnist:PATH"
    none = judged(item, {}, tmp_path, {"one": "no time", "two": "no time"})
    assert [entry.verdict for entry in none] == ["not run", "not run"]
    assert none[0].evidence == "part one and part two: no time"


def test_over_parts_for_every_row(tmp_path: Path) -> None:
    item = item_of(Above(says="two is better", over="parts", better="two", worse=("one",)))
    parts = {"one": part_of({"a": 0.5, "b": 0.6, "c": 0.5}), "two": part_of({"a": 0.6, "b": 0.5}, left_out={"c": "too small"})}
    found = judged(item, parts, tmp_path)
    assert verdicts(found) == [("", "a", "confirmed"), ("", "b", "contradicted")]
    assert "part two less part one +10.0" in found[0].evidence
    of_row = item_of(Above(says="two is better", over="parts", better="two", worse=("one",), row="a"))
    assert verdicts(judged(of_row, parts, tmp_path)) == [("", "a", "confirmed")]
    alone = judged(of_row, {"one": parts["one"]}, tmp_path, {"two": "no time"})
    assert verdicts(alone) == [("", "", "not run")]
    assert alone[0].evidence == "part two: no time"


def test_parts_with_other_test_classes_are_not_paired(tmp_path: Path) -> None:
    item = item_of(Above(says="two is better", over="parts", better="two", worse=("one",), row="a"))
    parts = {"one": part_of({"a": 0.5}), "two": part_of({"a": 0.6}, digest="other")}
    assert [entry.verdict for entry in judged(item, parts, tmp_path)] == ["not run"]


def test_curves_saturate_one_by_one(tmp_path: Path) -> None:
    rows = {
        f"{curve} {x}": PaperRow("raw", settings={"loss.beta": float(x)}, x=float(x), curve=curve)
        for curve in ("p", "q")
        for x in (1, 2, 3)
    }
    item = item_of(Saturates(says="2 is enough", beyond=2), rows=rows)
    means = {"p 1": 0.4, "p 2": 0.5, "p 3": 0.5, "q 1": 0.4, "q 2": 0.5, "q 3": 0.6}
    found = judged(item, {"one": part_of(means)}, tmp_path)
    assert verdicts(found) == [("one", "p", "confirmed"), ("one", "q", "contradicted")]


def test_series_of_parts_saturate_one_by_one(tmp_path: Path) -> None:
    parts = tuple(PaperPart(f"{s}{x}", "glyphs", "quick", x=float(x), series=s) for s in ("p", "q") for x in (1, 2, 3))
    item = item_of(Saturates(says="2 is enough", beyond=2, over="parts"), names=("a",), parts=parts)
    means = {"p1": 0.4, "p2": 0.5, "p3": 0.5, "q1": 0.4, "q2": 0.5, "q3": 0.6}
    found = judged(item, {name: part_of({"a": mean}) for name, mean in means.items()}, tmp_path)
    assert verdicts(found) == [("p", "a", "confirmed"), ("q", "a", "contradicted")]


def test_a_claim_is_not_asked_where_it_means_nothing(tmp_path: Path) -> None:
    item = item_of(Best(says="a is best", best="a", not_in=("two",)))
    means = {"a": 0.6, "b": 0.5, "c": 0.4}
    assert verdicts(judged(item, {"one": part_of(means), "two": part_of(means)}, tmp_path)) == [("one", "", "confirmed")]
    (found,) = judged(item, {"two": part_of(means)}, tmp_path, {"one": "no time"})
    assert (found.verdict, found.evidence) == ("not run", "part one: no time")
    with pytest.raises(ValueError, match="'three'"):
        item_of(Best(says="a is best", best="a", not_in=("three",)))


def test_parts_stand_for_those_of_another_series(tmp_path: Path) -> None:
    """What is claimed of two parts is asked of their like under other conditions, each pair by itself."""
    parts = (
        *(PaperPart(name, "glyphs", "quick", title=f"part {name}") for name in ("one", "two")),
        *(PaperPart(f"{name}'", "glyphs", "quick", title=f"{name} again", series="again", stands_for=name) for name in ("one", "two")),
    )
    item = item_of(Above(says="two is better", over="parts", better="two", worse=("one",), row="a"), parts=parts)
    ran = {"one": part_of({"a": 0.5}), "two": part_of({"a": 0.6}), "one'": part_of({"a": 0.7}), "two'": part_of({"a": 0.6})}
    found = judged(item, ran, tmp_path)
    assert verdicts(found) == [("", "a", "confirmed"), ("again", "a", "contradicted")]
    assert "two again less one again -10.0" in found[1].evidence
    alone = judged(item, {name: ran[name] for name in ("one", "one'", "two'")}, tmp_path, {"two": "no time"})
    assert verdicts(alone) == [("again", "a", "contradicted")]
    with pytest.raises(ValueError, match="'three'"):
        item_of(parts=(*parts, PaperPart("x", "glyphs", "quick", stands_for="three")))


def test_the_order_is_that_of_the_published_figures(tmp_path: Path) -> None:
    published = {"one": {"a": {"R@1": 50.0}, "b": {"R@1": 70.0}, "c": {"R@1": 60.0}}}
    item = item_of(Ordered(says="as published", part="one"), published=published)
    assert verdicts(judged(item, {"one": part_of({"a": 0.4, "b": 0.6, "c": 0.5})}, tmp_path)) == [("one", "", "confirmed")]
    assert verdicts(judged(item, {"one": part_of({"a": 0.4, "b": 0.5, "c": 0.6})}, tmp_path)) == [("one", "", "contradicted")]


def test_literature_and_what_waits(tmp_path: Path) -> None:
    rows = {"a": PaperRow("raw"), "b": PaperRow("margin"), "c": PaperRow(literature="no code")}
    item = item_of(Best(says="a is best", best="a"), rows=rows)
    found = judged(item, {"one": part_of({"a": 0.6, "b": 0.5})}, tmp_path)
    assert verdicts(found) == [("one", "", "confirmed")]
    assert "without c (no code)" in found[0].evidence
    waits = judged(item, {"one": part_of({"a": 0.6, "b": 0.5}, waiting={"d": "no time"})}, tmp_path)
    assert verdicts(waits) == [("one", "", "open")]


def test_times_and_scores_without_classes(tmp_path: Path) -> None:
    item = item_of(Faster(says="a is faster", faster="a", slower=("b",), part="one"), Best(says="a", best="a", score="NMI", part="one"))
    part = part_of({"a": 0.6, "b": 0.5, "c": 0.4})
    part.rows["a"] = row_of(0.6, seconds=5.0)
    faster, best = judged(item, {"one": part}, tmp_path)
    assert (faster.verdict, best.verdict) == ("confirmed", "confirmed")
    assert "row b takes 2.00 times as long as row a" in faster.evidence
    assert "noise of seeds alone" in best.evidence


def test_sizes_of_classes_in_the_plane(tmp_path: Path) -> None:
    """Three seeds each: circles of equal radii, and of radii that differ."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(4), 50)
    part = replace(part_of({"a": 0.6, "b": 0.5, "c": 0.5}), labels=labels)
    for name, radii in (("a", (1, 2, 3, 4)), ("b", (2, 2, 2, 2)), ("c", (1, 1, 1, 1.2))):
        files = tuple(tmp_path / f"{name}{seed}.npy" for seed in range(3))
        for file in files:
            angles = rng.uniform(0, 2 * np.pi, len(labels))
            np.save(file, np.array(radii)[labels][:, None] * np.stack([np.cos(angles), np.sin(angles)], 1) + 10 * labels[:, None])
        part.rows[name] = replace(part.rows[name], planes=files)
    item = item_of(Radii(says="a", wider="a", narrower=("b", "c")), Radii(says="b", wider="b", narrower=("a",)))
    wide, narrow = judged(item, {"one": part}, tmp_path)
    assert (wide.verdict, narrow.verdict) == ("confirmed", "contradicted")
    assert "noise of seeds alone" in wide.evidence
    without = replace(part, labels=None)
    assert [entry.verdict for entry in judged(item, {"one": without}, tmp_path)] == ["not run", "not run"]


def test_a_score_that_a_part_lacks(tmp_path: Path) -> None:
    item = item_of(Alike(says="alike", score="R@4", part="one"))
    (found,) = judged(item, {"one": part_of({"a": 0.6, "b": 0.5})}, tmp_path)
    assert (found.verdict, found.evidence) == ("not run", "R@4 is not among the scores here")


def test_a_row_without_the_score_leaves_what_it_is_named_in_open(tmp_path: Path) -> None:
    item = item_of(Best(says="a", best="a", among=("b", "c"), part="one"), Best(says="a", best="a", among=("b",), part="one"))
    part = part_of({"a": 0.6, "b": 0.5, "c": 0.4})
    del part.rows["c"].scores["R@1"]
    among, without = judged(item, {"one": part}, tmp_path)
    assert (among.verdict, without.verdict) == ("open", "confirmed")
    assert "without row c (R@1 is not among its scores)" in among.evidence


def test_looks_are_counted_by_a_claim_s_own_figures(tmp_path: Path) -> None:
    claim = Above(says="a beats b", better="a", worse=("b",), part="one")
    item = item_of(claim)
    first = judged(item, {"one": part_of({"a": 0.6, "b": 0.5, "c": 0.4}, seeds=2)}, tmp_path)
    assert "time" not in first[0].evidence
    # Another row, other words and the same again are no other look; more seeds are.
    other = judged(item, {"one": part_of({"a": 0.6, "b": 0.5, "c": 0.7}, seeds=2)}, tmp_path)
    assert other[0].evidence == first[0].evidence
    worded = judged(item_of(replace(claim, says="b is behind a")), {"one": part_of({"a": 0.6, "b": 0.5}, seeds=2)}, tmp_path)
    assert worded[0].evidence == first[0].evidence
    later = judged(item, {"one": part_of({"a": 0.6, "b": 0.5}, seeds=4)}, tmp_path)
    assert "97.5 % intervals" in later[0].evidence
    again = judged(item, {"one": part_of({"a": 0.6, "b": 0.5}, seeds=2)}, tmp_path)
    assert again[0].evidence == first[0].evidence
    single = judged(item, {"one": part_of({"a": 0.6, "b": 0.5}, seeds=1)}, tmp_path)
    assert single[0].verdict == "open"
    third = judged(item, {"one": part_of({"a": 0.6, "b": 0.5}, seeds=5)}, tmp_path)
    assert "99.17 % intervals that hold at once, as it is judged for the third time" in third[0].evidence


@pytest.mark.parametrize(
    ("of_parts", "joint"),
    [
        (["confirmed", "confirmed"], "confirmed"),
        (["confirmed", "not run"], "confirmed"),
        (["confirmed", "open"], "confirmed"),
        (["contradicted", "open"], "contradicted"),
        (["confirmed", "contradicted", "open"], "mixed"),
        (["not run", "open"], "open"),
        (["not run", "not run"], "not run"),
        ([], "not run"),
    ],
)
def test_a_claim_counts_once(of_parts: list[ClaimVerdict], joint: JointVerdict) -> None:
    assert joint_verdict(of_parts) == joint


def test_questions_of_ours_are_not_the_papers(tmp_path: Path) -> None:
    item = item_of(Best(says="a", best="a"), Best(says="b, we ask", best="b", ours=True))
    parts = {"one": part_of({"a": 0.6, "b": 0.5}), "two": part_of({"a": 0.6, "b": 0.5})}
    found = tuple(judged(item, parts, tmp_path))
    assert [entry.verdict for entry in found] == ["confirmed", "confirmed", "contradicted", "contradicted"]
    reproduction = Reproduction((ItemResult(item, parts, {}, found),), tmp_path, "", {})
    assert reproduction.counts() == {"confirmed": 1, "contradicted": 0, "mixed": 0, "open": 0, "not run": 0}
    assert [(claim.says, verdict) for _, claim, verdict in reproduction.verdicts()] == [("a", "confirmed")]
