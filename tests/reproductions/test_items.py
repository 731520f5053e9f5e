"""The items hold what the papers print, and their claims are what the papers' own figures say, or a note says that they are not."""

from __future__ import annotations

from itertools import combinations

import pytest

from likewise.methods import load_method
from likewise.reproductions.paper_claims import Above, Alike, Best, Between, Ordered, PaperClaim, Reordered, Saturates, Separates
from likewise.reproductions.paper_item import ITEMS, REPORTED, PaperItem, load_item

ASKED = [
    *(f"rll/table-{number}" for number in range(1, 8)),
    "rll/poster",
    *(f"nra/{name}" for name in ("table-1", "table-2", "figure-3", "figure-4")),
    *(f"unified/{name}" for name in ("table-1", "table-2", "table-3", "figure-1")),
    *(f"unbiased/{name}" for name in ("table-2", "table-3", "table-4", "figure-1", "figure-2")),
]
WITHOUT_NUMBERS = {"nra/figure-3", "nra/figure-4", "unified/figure-1", "unbiased/figure-1", "unbiased/figure-2"}  # curves and pictures
UNDER_CPU = {"mnist", "omniglot"}  # the data sets that a CPU is enough for

Places = dict[str, float]  # row or part -> published percent


def test_every_table_and_figure_of_the_issue_is_there() -> None:
    assert list(ITEMS) == ASKED


@pytest.mark.parametrize("name", ASKED)
def test_published_figures_stand_where_there_are_any(name: str) -> None:
    item = load_item(name)
    if name in WITHOUT_NUMBERS:
        assert not item.published
        return
    for part in item.parts:
        if part.published:
            assert item.published[part.name], f"{part.name} has no figure"
    for part_name, rows in item.published.items():
        for row, scores in rows.items():
            recall = {int(score[2:]): value for score, value in scores.items() if score.startswith("R@")}
            assert recall, f"{row} of {part_name} has no recall"
            assert list(recall.values()) == sorted(recall[k] for k in sorted(recall)), f"{row} of {part_name}: recall falls with K"


@pytest.mark.parametrize("name", ASKED)
def test_what_cannot_be_had_is_asked_of_what_we_have(name: str) -> None:
    """SOP, Cars196, In-Shop and weights of BN-Inception cannot be had: every item that is trained has a part without them."""
    item = load_item(name)
    if item.shape == "weights":
        return
    within_reach = [
        part for part in item.parts if part.data in UNDER_CPU or (part.data == "cub" and part.conditions().backbone == "resnet50_v1")
    ]
    names = {part.name for part in within_reach}
    judged = [set(claim.names) <= names if claim.over == "parts" else claim.part in ("", *names) for claim in item.claims]
    assert within_reach
    assert any(judged), "no claim can be judged there"


def test_published_figures_are_those_of_the_method_files() -> None:
    """Both were copied from the papers, by different hands: a slip in one shows."""
    compared = 0
    for name in ITEMS:
        item = load_item(name)
        for part in item.parts:
            for row_name, scores in item.published.get(part.name, {}).items():
                row = item.rows[row_name]
                if not row.method or row.conditions or row.levels or part.settings:
                    continue
                known = load_method(row.method).published.get(part.protocol, {})
                if name.startswith("nra/table-2") or not known:  # figures of other papers, under their own conditions
                    continue
                if name in ("unified/table-2", "unified/table-3") and row.method not in ("raw_vthm", "hdc", "htl"):
                    continue
                if "m 0" in row_name or "T " in row_name or "alpha " in row_name or row_name == "m 1.2":
                    continue  # sweeps: the method file has the best of them
                own = {score: value for score, value in scores.items() if score != REPORTED}
                shared = own.keys() & known.keys()
                assert shared
                assert {score: own[score] for score in shared} == {score: known[score] for score in shared}, (
                    f"{name} {part.name} {row_name}"
                )
                compared += len(shared)
    assert compared > 350


def test_tables_that_share_figures_agree() -> None:
    poster, shared = load_item("rll/poster").published["sop"], 0
    for number in (2, 3, 4, 5, 6, 7):
        for row, scores in load_item(f"rll/table-{number}").published["sop"].items():
            assert poster[row] == scores
            shared += 1
    assert shared == len(poster)
    levels, sota = load_item("rll/table-6").published["sop"], load_item("rll/table-2").published["sop"]
    for level, row in (("H", "RLL-H"), ("(L,M,H)", "RLL-(L,M,H)")):
        assert levels[level].items() <= sota[row].items()
    ablation, beside = load_item("unified/table-1").published, load_item("unified/table-2").published
    for data in ("cub", "cars"):
        assert ablation[data]["RAW+VTHM"].items() <= beside[data]["RAW+VTHM"].items()
    first, second = load_item("nra/table-1").published, load_item("nra/table-2").published
    assert first["cub-512"]["NRA"]["R@1"] == second["cub"]["NRA 512"]["R@1"]
    assert (first["cars-512"]["NRA"]["R@1"], second["cars"]["NRA 512"]["R@1"]) == (81.9, 82.1)  # as printed, see the item's note


@pytest.mark.parametrize("name", ASKED)
def test_the_papers_own_figures_support_its_claims(name: str) -> None:
    item = load_item(name)
    for claim in item.claims:
        if claim.ours or claim.note:
            continue
        for where, places in published_places(item, claim):
            assert supported(claim, places) is not False, f"{name}: {claim.says!r} is not what the paper's own figures say in {where}"


def test_notes_that_deny_support_are_right() -> None:
    """Where a note says that the paper's own table does not support a claim, it does not somewhere."""
    denied = 0
    for name in ITEMS:
        item = load_item(name)
        for claim in item.claims:
            if "paper's own table" in claim.note and isinstance(claim, Above | Best | Between | Alike):
                found = [supported(claim, places) for _, places in published_places(item, claim)]
                if "is the gap" not in claim.note:
                    assert False in found, f"{name}: {claim.says!r} is supported everywhere: the note is wrong"
                denied += 1
    assert denied >= 8


def published_places(item: PaperItem, claim: PaperClaim) -> list[tuple[str, Places]]:
    """What was published of the rows (or parts) that a claim sets against each other, for each place where it would be judged."""
    score = item.score_of(claim)
    if claim.over == "parts":
        rows = claim.each or ((claim.row,) if claim.row else tuple(item.rows))
        tables = [(row, {part: item.published.get(part, {}).get(row, {}) for part in claim.names}) for row in rows]
    else:
        parts = [part for part in item.published if claim.part in ("", part)]
        names = claim.names or tuple(item.rows)
        tables = [(part, {row: item.published[part].get(row, {}) for row in names}) for part in parts]
    return [(where, {name: scores[score] for name, scores in table.items() if score in scores}) for where, table in tables]


def supported(claim: PaperClaim, places: Places) -> bool | None:
    """Whether published figures say what the claim says; None where too few were published, or where the kind has no figures."""
    if isinstance(claim, Above):
        pairs = [(places[better], places[worse]) for better in claim.betters for worse in claim.worse if {better, worse} <= places.keys()]
        return all(round(better - worse, 6) > claim.by for better, worse in pairs) if pairs else None
    if isinstance(claim, Best):
        others = [value for name, value in places.items() if name != claim.best]
        return places[claim.best] > max(others) if claim.best in places and others else None
    if isinstance(claim, Alike):
        values = list(places.values())
        return round(max(values) - min(values), 6) <= claim.within if len(values) > 1 else None
    if isinstance(claim, Ordered | Reordered):
        order = [places[name] for name in claim.names if name in places]
        reversed_pairs = sum(first < second for first, second in combinations(order, 2))
        if len(order) < 2:
            return None
        return reversed_pairs == 0 if isinstance(claim, Ordered) else reversed_pairs > 0
    if isinstance(claim, Between):
        known = {claim.low, claim.high} <= places.keys()
        return all(places[claim.low] < places[row] < places[claim.high] for row in claim.rows if row in places) if known else None
    if isinstance(claim, Separates):
        sides = [(places[row] < figure) == claim.below for row, figure in claim.figures.items() if row in places]
        return all(sides) if sides else None
    assert not isinstance(claim, Saturates) or not places, "a saturating curve with published points is not looked at here"
    return None
