"""Every item's file says what can be run and judged; what cannot is refused in words."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from likewise.reproductions.paper_claims import KINDS, Above, PaperClaim, claim_of
from likewise.reproductions.paper_item import FOLDER, ITEMS, PAPERS, PaperRow, items_named, load_item, read_item

EXAMPLE = (FOLDER / "rll" / "table-3.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ITEMS)
def test_every_item_is_whole(name: str) -> None:
    item = load_item(name)
    assert item.name == name
    assert item.paper in PAPERS
    assert all((item.title, item.where, item.asks, item.setup))
    assert item.claims, "a paper's table or figure says something"
    for claim in item.claims:
        assert all((claim.says, claim.refuted_by))
    for part in item.parts:
        in_part = item.rows_of(part)
        assert any(row.method for row in in_part.values())
        if part.published:
            assert set(item.published.get(part.name, ())) <= set(in_part)
            for scores in item.published.get(part.name, {}).values():
                assert all(0 <= value <= 100 for value in scores.values())
        else:
            assert part.name not in item.published
    if item.shape == "curve":
        along_parts = all(part.x is not None for part in item.parts)
        assert along_parts or all(row.x is not None for row in item.rows.values() if row.method)


def written(folder: Path, text: str) -> Path:
    path = folder / "rll" / "table-9.toml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("before", "after", "fault"),
    [
        ('data = "cub"', 'data = "cubs"', "unknown data of part cub-resnet50 of rll/table-9 'cubs': did you mean 'cub'?"),
        ('protocol = "paper-rll-cub"', 'protocol = "rll-cub"', "unknown protocol 'rll-cub'"),
        ('method = "ranked_list_multilevel"', 'method = "ranked_lists"', "unknown method 'ranked_lists'"),
        ('"loss.alpha" = 1.4', '"loss.alfa" = 1.4', "unknown setting of ranked_list 'alfa'"),
        ('best = "alpha 1.2"', 'best = "alpha 1.2"\namong = ["alpha 2"]', "unknown row in rll/table-9"),
        ('kind = "best"', 'kind = "finest"', "unknown kind of claim in claim 1 of rll/table-9 'finest'"),
        ('kind = "best"', "", "a claim without a kind: expected one of above, best"),
        (
            'kind = "best"',
            'kind = "best"\nscore = "R@16"',
            "no part gives R@16: the protocols of sop, cub-resnet50 and cub-features give R@1, R@10, R@100, R@1000",
        ),
        ('kind = "best"', 'kind = "best"\nwithin = 3', "unknown key of claim 1 of rll/table-9 (best) 'within'"),
        ("[published.sop]", "[published.spo]", "unknown part in [published] of rll/table-9 'spo': did you mean 'sop'?"),
        ('shape = "table"', 'shape = "list"', "shape is 'list': expected one of 'table', 'curve', 'plane', 'weights'"),
        ('shape = "table"', 'shape = "table"\nsteps = 3', "unknown key of item rll/table-9 'steps'"),
        ("x = 1.4", 'x = 1.4\nliterature = "no code"', "row alpha 1.4: expected a method, or literature"),
        ("x = 1.4", "x = 1.4\nconditions = { batches = 9 }", "unknown setting 'batches': did you mean 'batch'?"),
        ("published = false", 'published = false\nbeside = "spo"', "unknown published part beside cub-resnet50 of rll/table-9 'spo'"),
        ("published = false", "published = false\nrow_conditions = { alfa = { batch = 9 } }", "unknown row of part cub-resnet50"),
        ('kind = "best"\nbest = "alpha 1.2"', 'kind = "computed"\nfact = "so"', "unknown fact 'so'"),
        ("x = 1.4", 'x = 1.4\nlevels = ["top"]', "'low', 'mid', 'high'"),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path: Path, before: str, after: str, fault: str) -> None:
    assert before in EXAMPLE
    with pytest.raises(ValueError, match=re.escape(fault)):
        read_item(written(tmp_path, EXAMPLE.replace(before, after, 1)))


def test_claims_over_parts_need_one_data_set(tmp_path: Path) -> None:
    claim = '\n[[claims]]\nsays = "parts alike"\nkind = "alike"\nover = "parts"\n'
    with pytest.raises(ValueError, match="over parts of different data sets"):
        read_item(written(tmp_path, EXAMPLE + claim))


def test_rows_are_named_by_their_content() -> None:
    base = {"loss.alpha": 1.2, "loss.margin": 0.4}  # the method's own values
    names = [
        PaperRow("ranked_list", settings=settings).under("quick").name
        for settings in (base, {}, {"loss.alpha": 1}, {"loss.alpha": 1.0, "loss.margin": 0.4}, {"loss.margin": 0.3, "loss.alpha": 1})
    ]
    assert names == [
        "ranked_list",
        "ranked_list",
        "ranked_list loss.alpha=1",
        "ranked_list loss.alpha=1",
        "ranked_list loss.alpha=1 loss.margin=0.3",
    ]
    changed = PaperRow("ranked_list", settings={"loss.alpha": 1.0}).under("quick")
    assert changed.loss.settings["alpha"] == 1.0
    of_levels = PaperRow("ranked_list_multilevel", settings={"head.levels": ["low", "mid", "high"]})
    assert of_levels.under("quick").name == "ranked_list_multilevel"


def test_a_row_is_run_under_its_own_conditions(tmp_path: Path) -> None:
    text = EXAMPLE.replace("x = 1.4", "x = 1.4\nconditions = { batch = 90, steps = 7 }", 1)
    text = text.replace("published = false", 'published = false\nrow_conditions = { "alpha 1.4" = { batch = 120 } }', 1)
    item = read_item(written(tmp_path, text))
    sop, cub, _ = item.parts
    assert (item.conditions(sop, "alpha 1.2").batch, item.conditions(cub, "alpha 1.2").batch) == (180, 60)
    assert (item.conditions(sop, "alpha 1.4").batch, item.conditions(sop, "alpha 1.4").steps) == (90, 7)
    assert (item.conditions(cub, "alpha 1.4").batch, item.conditions(cub, "alpha 1.4").steps) == (120, 7)
    assert item.conditions(cub, "alpha 1.4").backbone == "resnet50_v1"
    assert (item.beside(sop), item.beside(cub)) == ("sop", "sop")


def test_a_paper_stands_for_its_items() -> None:
    assert [item.name for item in items_named(["rll"])] == [name for name in ITEMS if name.startswith("rll/")]
    assert [item.name for item in items_named([])] == list(ITEMS)
    assert [item.name for item in items_named(["rll/table-3", "rll/table-3"])] == ["rll/table-3"]
    with pytest.raises(ValueError, match="unknown item 'rll/tabel-3': did you mean 'rll/table-3'"):
        items_named(["rll/tabel-3"])


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("above", {"better": "a", "worse": ["b", "c"]}),
        ("best", {"best": "a"}),
        ("alike", {"within": 2}),
        ("order", {"rows": ["a", "b"]}),
        ("between", {"rows": ["a"], "low": "b", "high": "c"}),
        ("saturates", {"beyond": 64}),
        ("faster", {"faster": "a", "slower": ["b"]}),
        ("separates", {"figures": {"a": 95, "b": 90}}),
        ("separates", {"figures": {"a": 95}, "below": True}),
        ("above", {"better": ["a", "b"], "worse": ["c"]}),
        ("reordered", {"rows": ["a", "b"]}),
        ("radii", {"wider": "a", "narrower": ["b"]}),
        ("computed", {"fact": "raw_looks_at_both"}),
        ("weight", {"row": "a", "of": "negative", "shape": "rising"}),
    ],
)
def test_every_kind_says_what_would_refute_it(kind: str, settings: dict[str, Any]) -> None:
    claim = claim_of({"says": "so it is", "kind": kind, **settings}, where="here")
    assert isinstance(claim, KINDS[kind])
    assert len(claim.refuted_by) > 20
    assert set(claim.names) <= {"a", "b", "c"}


def test_claims_are_compared_by_what_they_say() -> None:
    table = {"says": "a is best", "kind": "above", "better": "a", "worse": ["b"]}
    claim: PaperClaim = claim_of(table, where="here")
    assert claim == Above(says="a is best", better="a", worse=("b",))
