"""Every item runs on a stand-in: all of its rows in all of its parts, and no figure of it judges a claim."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from likewise.reproductions.paper_claims import Computed, Weighs
from likewise.reproductions.paper_item import ITEMS, load_item
from likewise.reproductions.reproduce import reproduce


@pytest.mark.parametrize("name", ITEMS)
def test_every_item_runs(name: str, quick_folder: Path) -> None:
    found = reproduce(name, quick=True, out=quick_folder, device="cpu", jobs=1)
    (result,) = found.items
    item = load_item(name)
    assert result.item == item
    assert found.is_stand_in
    assert found.trainings_left == 0
    assert result.needs == {}
    for part in item.parts:
        ran = result.parts[part.name]
        asked = {row for row, entry in item.rows_of(part).items() if entry.method} - part.cannot.keys()
        assert ran.left_out == part.cannot
        assert ran.waiting == {}
        assert set(ran.rows) == asked
        for row in ran.rows.values():
            assert 0 <= row.scores["R@1"].mean <= 1
            assert row.by_class["R@1"].shape == (1, 8)
    for judged in result.claims:
        is_computed = isinstance(judged.claim, Weighs | Computed)
        assert (judged.verdict == "not run") == (not is_computed), judged
        assert is_computed or "stand-in" in judged.evidence
    assert {judged.claim.says for judged in result.claims} == {claim.says for claim in item.claims}


def test_figures_are_marked_as_a_stand_in(quick_folder: Path) -> None:
    found = reproduce("rll/table-3", quick=True, out=quick_folder, device="cpu", jobs=1)
    with (found.folder / "figures.csv").open(encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    assert {line["stand_in"] for line in lines} == {"stand-in"}
    published = {(line["row"], line["score"]): line["published"] for line in lines if line["part"] == "sop"}
    assert published["alpha 1.2", "R@1"] == "79.8"
    assert published["alpha 1.2", "MAP@R"] == ""
    ours = [line for line in lines if line["row"] == "alpha 1.2" and line["score"] == "R@1"]
    assert all(line["values"].split() == [line["ours"]] and line["seeds"] == "1" for line in ours)
