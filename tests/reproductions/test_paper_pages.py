"""Pages of papers say what was published, what was found and what became of every claim, in HTML and in Markdown."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from likewise.reports.drawing import drawing
from likewise.reproductions.benches import KS
from likewise.reproductions.pages import write_markdown, write_pages
from likewise.reproductions.pages.claim_summary import (
    all_claims,
    count_in_words,
    counted,
    figures_in_words,
    part_titles,
    summed_claims,
)
from likewise.reproductions.pages.paper_charts import pictures
from likewise.reproductions.pages.paper_markdown import markdown_table
from likewise.reproductions.pages.sentences_of_papers import what_was_trained
from likewise.reproductions.pages.side_by_side import grids, set_up, side_by_side, unlike_the_paper
from likewise.reproductions.pages.what_lacks import lacking_parts, lacks, takes_in_words
from likewise.reproductions.paper_claims import Above, Alike, Best, Between, Ordered, Separates
from likewise.reproductions.paper_item import items_named, load_item
from likewise.reproductions.reproduction import ItemResult, PartResult, Reproduction

from .made import VERDICTS, made_part, made_reproduction

SOME = ["rll/table-1", "rll/table-3", "nra/figure-3", "unified/figure-1", "unbiased/figure-2", "unbiased/table-4"]


@pytest.fixture(scope="module")
def reproduction() -> Reproduction:
    return made_reproduction(SOME)


class Reader(HTMLParser):
    """The words of a page, what it links to within itself, and whether every tag that opens closes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.words, self.ids, self.links, self.open, self.depth = "", set[str](), set[str](), [""], 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = dict(attrs)
        self.ids.add(known.get("id") or "")
        if (known.get("href") or "").startswith("#"):
            self.links.add((known.get("href") or "")[1:])
        if tag not in ("meta", "link"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self.open[-1] in ("path", "use", "rect", "stop") and self.open[-1] != tag:
            self.open.pop()
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1] not in ("style", "script"):
            self.words += " " + " ".join(data.split())


def test_a_page_has_all_claims_and_figures(reproduction: Reproduction, tmp_path: Path) -> None:
    pages = {path.stem: path.read_text() for path in write_pages(reproduction, tmp_path)}
    assert list(pages) == ["rll", "nra", "unified", "unbiased"]
    for result in reproduction.items:
        page = Reader(pages[result.item.paper])
        assert page.links <= page.ids
        for claim in result.item.claims:
            assert page.words.count(claim.says) == 2  # in the summary, and with its evidence
            assert claim.refuted_by in page.words
        for rows in result.item.published.values():
            for scores in rows.values():
                assert all(f"{value:g}" in page.words for value in scores.values())
        for note in result.item.notes:
            assert note in page.words
    assert "100 classes <train> & 100 test" in Reader(pages["rll"]).words
    assert "<train>" not in pages["rll"]
    assert not re.search(r"(src|href)=\"(?!#|data:)", "".join(pages.values())), "a page needs nothing but itself"


def test_pages_are_the_same_every_time(reproduction: Reproduction, tmp_path: Path) -> None:
    only = replace(reproduction, items=reproduction.items[1:2])
    first, second = (write_pages(only, tmp_path / name)[0].read_bytes() for name in ("a", "b"))
    assert first == second


def test_markdown_is_whole(reproduction: Reproduction, tmp_path: Path) -> None:
    written = write_markdown(reproduction, tmp_path)
    assert {path.name for path in written} == {"README.md", "rll.md", "nra.md", "unified.md", "unbiased.md"}
    texts = {path.name: path.read_text() for path in written}
    anchors = {name: {anchor_of(title) for title in re.findall(r"^#+ (.*)$", text, re.MULTILINE)} for name, text in texts.items()}
    linked = 0
    for name, text in texts.items():
        for page, anchor in re.findall(r"\]\(([\w.]*)#([^)]*)\)", text):
            assert anchor in anchors[page or name], f"{name}: no heading {anchor} in {page or name}"
            linked += 1
        for image in re.findall(r"!\[[^]]*\]\(([^)]*)\)", text):
            assert (tmp_path / image).stat().st_size > 3000
        for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
            widths = {len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}
            assert len(widths) == 1, block
    assert linked > 60
    assert f"**{count_in_words(all_claims(reproduction))}.**" in texts["README.md"]
    for summed in all_claims(reproduction):
        assert summed.claim.says in texts["README.md"]
        assert summed.claim.says in texts[f"{summed.item.paper}.md"]


def anchor_of(title: str) -> str:
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def test_a_stand_in_says_so(tmp_path: Path) -> None:
    made = made_reproduction(["rll/table-3"], is_stand_in=True)
    for path in (*write_pages(made, tmp_path), *write_markdown(made, tmp_path)):
        assert "stand-in" in path.read_text()


def test_bars_do_not_end_a_cell() -> None:
    assert markdown_table(("a",), [("1 | 2",)]).splitlines()[2] == "| 1 \\| 2 |"


def test_a_claim_counts_once(reproduction: Reproduction) -> None:
    claims = all_claims(reproduction)
    counts = counted(claims)
    of_papers = sum(not claim.ours for result in reproduction.items for claim in result.item.claims)
    assert sum(counts.values()) == of_papers < len(claims)
    assert all(counts[verdict] for verdict in VERDICTS)


def test_figures_that_decide_a_claim() -> None:
    figures = {"a": 61.0, "b": 50.0, "c": 52.0, "d": 51.0, "e": 40.0}
    titles = {"a": "A"}
    others = ("b", "c", "d", "e", "gone")
    assert figures_in_words(Above(says="", better="a", worse=others), figures, titles) == "A (61.0); highest of the other 4: c (52.0)"
    assert figures_in_words(Above(says="", better=("a", "c", "d"), worse=("e",)), figures, titles) == "lowest of the 3: d (51.0); e (40.0)"
    assert figures_in_words(Best(says="", best="a"), figures, titles) == "A (61.0); highest of the other 4: c (52.0)"
    assert figures_in_words(Best(says="", best="gone"), figures, titles) == ""
    assert figures_in_words(Alike(says=""), figures, titles) == "from e (40.0) to A (61.0)"
    assert figures_in_words(Alike(says="", rows=("b", "c")), figures, titles) == "b (50.0), c (52.0)"
    assert figures_in_words(Between(says="", rows=("b",), low="e", high="a"), figures, titles) == "e (40.0), b (50.0), A (61.0)"
    assert figures_in_words(Ordered(says=""), figures, titles) == "A (61.0), c (52.0), d (51.0), b (50.0), ... e (40.0)"
    assert figures_in_words(Separates(says="", figures={"a": 60}), figures, titles) == "A (61.0)"


def test_the_papers_figures_stand_beside_ours(reproduction: Reproduction) -> None:
    results = {result.item.name: result for result in reproduction.items}
    same = side_by_side(results["rll/table-1"], load_item("rll/table-1").part("cub-resnet50"))
    line = next(line for line in same.lines if line.name == "RLL-H")
    pair = line.scores["R@1"]
    assert same.is_comparable
    assert pair.published == 57.4
    assert pair.ours is not None
    assert pair.difference == pytest.approx(100 * pair.ours.mean - 57.4)
    assert same.others == ("R@2", "R@4", "R@8", "NMI")
    other = side_by_side(results["rll/table-3"], load_item("rll/table-3").part("cub-resnet50"))
    assert not other.is_comparable, "SOP's figures beside those of CUB have no difference"
    assert {line.scores["R@1"].difference for line in other.lines} == {None}
    assert other.others == ("R@2", "R@4", "R@8", "NMI"), "CUB's own scores"
    lacking = side_by_side(results["rll/table-1"], load_item("rll/table-1").part("cars"))
    assert (lacking.has_ours, lacking.needs) == (False, "give --data cars:PATH")


def test_set_ups_are_named_side_by_side(reproduction: Reproduction) -> None:
    result = next(result for result in reproduction.items if result.item.name == "rll/table-1")
    rows = {
        what: (paper, ours) for what, paper, ours in set_up(result.item, result.item.part("cub-resnet50"), result.parts["cub-resnet50"])
    }
    assert rows["steps"] == ("10,000", "10,000")
    assert rows["network"][0].startswith("GoogLeNet V2")
    assert rows["network"][1].startswith("resnet50_v1, weights w.pth")
    assert rows["which step is scored"] == ("not said", "the last step")
    assert rows["optimiser"][1] == "sgd 0.001, x 0.5 after 20, 40, 60 and 80 % of the steps, weight decay 2e-05"


def test_the_plane_and_the_curves_of_ranks_are_drawn(tmp_path: Path) -> None:
    made = made_reproduction(["nra/figure-4"])
    (result,) = made.items
    part = result.parts["mnist"]
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(10), 20)
    rows = {}
    for name, row in part.rows.items():
        np.save(tmp_path / f"{name}.npy", rng.normal(0, 1, (200, 2)).astype(np.float32))
        rows[name] = replace(row, planes=(tmp_path / f"{name}.npy",))
    with_planes = replace(part, rows=rows, labels=labels, class_names=tuple("0123456789"))
    (picture,) = pictures(replace(result, parts={"mnist": with_planes}))
    with drawing():
        figure = picture.make()
    assert [axis.get_title().split(",")[0] for axis in figure.axes] == titles_of(with_planes, result)
    assert sum(len(points.get_offsets()) for points in figure.axes[0].collections) == 200
    assert pictures(result) == [], "no plane was kept"
    (ranks,) = pictures(replace(made_reproduction(["nra/figure-3"]).items[0], parts={}))
    with drawing():
        assert len(ranks.make().axes[0].lines) == 6


def titles_of(part: PartResult, result: ItemResult) -> list[str]:
    return [(result.item.rows[name].title or name).split(",")[0] for name in part.rows]


def test_a_curve_over_parts_is_one_table(reproduction: Reproduction) -> None:
    result = next(result for result in reproduction.items if result.item.name == "unbiased/figure-2")
    (grid,) = grids(result)
    assert (grid.series, grid.xs) == ("ResNet-50", (2, 4, 8, 16, 32, 64, 128))
    assert grid.lines[-1][1][2] == "3 images a class do not fit"
    assert not isinstance(grid.lines[0][1][2], str)


def test_parts_are_told_apart_in_few_words() -> None:
    item = load_item("unbiased/table-2")
    assert part_titles(item, ("cub", "cub-resnet50")) == {"cub": "Inception-BN", "cub-resnet50": "ResNet-50"}
    assert part_titles(load_item("unbiased/figure-2"))["resnet50-64"] == "64"


def test_claims_show_the_papers_figures(reproduction: Reproduction) -> None:
    claims = {summed.claim.says: summed for result in reproduction.items for summed in summed_claims(result)}
    best = claims["alpha = 1.2 is best"]
    (published,) = best.published
    assert published.words == "alpha = 1.2 (79.8); alpha = 1.4 (76.2), alpha = 1.0 (78.7)"
    assert published.place == "Stanford Online Products, BN-Inception"
    (ours,) = best.ours
    assert ours.place == "CUB-200-2011, ResNet-50"


def test_what_was_not_run_is_summed_up_by_what_it_needs(reproduction: Reproduction, tmp_path: Path) -> None:
    """Minutes are those of the items' files, and no part is lost or told twice."""
    needs = "it needs weights of resnet50_v1"
    without = [
        replace(result, parts={}, needs=result.needs | {part.name: needs for part in result.item.parts if part.name in result.parts})
        for result in reproduction.items
    ]
    found = {lack.needs: lack for lack in lacks(without)}
    items = {result.item.name: result.item for result in without}
    asked = [part for item in items.values() for part in item.parts]
    assert sum(lack.num_parts for lack in found.values()) == len(asked)
    table, figure = (dict(lacking_parts(result)) for result in without if result.item.name in ("rll/table-1", "unbiased/figure-2"))
    assert table["CUB-200-2011, ResNet-50"] == f"{needs}; it takes about 20 minutes of an H200 a seed"
    assert figure["8 images, ResNet-50"] == f"{needs}; it takes about 8 minutes of an H200 a seed"
    minutes = sum(part.gpu_minutes for part in asked)
    assert found[needs].gpu_minutes == minutes > 60
    assert f"about {minutes / 60:.1f} hours of an H200 and about 50 minutes of one CPU core a seed" in found[needs].in_words
    assert takes_in_words(0, 0) == ""
    write_markdown(replace(reproduction, items=tuple(without)), tmp_path)
    assert f"| {needs} | {found[needs].in_words} |" in (tmp_path / "README.md").read_text()


def test_what_was_trained_is_said_on_top(reproduction: Reproduction, tmp_path: Path) -> None:
    tuned = what_was_trained(reproduction.items)
    assert "resnet50_v1 (CUB-200-2011)" in tuned
    assert "No pretrained network was fine-tuned." not in tuned
    item = load_item("unified/table-1")
    part = item.part("cub-features")
    frozen = ItemResult(item, {part.name: made_part(item, part, np.random.default_rng(0))}, {}, ())
    words = "Trained here: heads on frozen efficientnet_lite0 (CUB-200-2011). No pretrained network was fine-tuned."
    assert what_was_trained([frozen]) == words
    assert what_was_trained([replace(frozen, parts={})]) == ""
    of_frozen = replace(reproduction, items=(frozen,))
    (page,) = write_pages(of_frozen, tmp_path)
    write_markdown(of_frozen, tmp_path)
    for file in (page, tmp_path / "README.md", tmp_path / "unified.md"):
        assert words in file.read_text(encoding="utf-8")
    shown = side_by_side(frozen, part)
    assert (shown.is_comparable, shown.has_difference) == (True, False)
    assert {line.scores["R@1"].difference for line in shown.lines} == {None}
    for file in (page, tmp_path / "unified.md"):
        assert "Not the paper" in file.read_text(encoding="utf-8")
        assert "difference |" not in file.read_text(encoding="utf-8")
    assert unlike_the_paper(made_part(item, item.part("cub-resnet50"), np.random.default_rng(0))) == ""


def test_recall_that_only_benches_have_is_not_shown() -> None:
    """A bench has nine scores of recall for all items; a page has those that the part asks for, and a curve has colours for them."""
    item = load_item("nra/figure-3")
    part = item.part("cub-features")
    made = made_part(item, part, np.random.default_rng(0))
    for row in made.rows.values():
        row.scores.update({f"R@{k}": row.scores["R@1"] for k in KS})
    result = ItemResult(item, {part.name: made}, {}, ())
    assert side_by_side(result, part).others == tuple(f"R@{k}" for k in part.conditions().ks[1:])
    with drawing():
        for picture in pictures(result):
            picture.make()


def test_what_somebody_wrote_stands_on_top(reproduction: Reproduction, tmp_path: Path) -> None:
    (tmp_path / "preface.md").write_text("All of it on *one* core.\n")
    write_markdown(reproduction, tmp_path)
    write_markdown(reproduction, tmp_path)
    text = (tmp_path / "README.md").read_text()
    assert text.count("All of it on *one* core.") == 1
    assert text.index("All of it on *one* core.") < text.index("## Claims by paper")


def test_the_readme_counts_what_the_written_pages_do() -> None:
    """docs/reproductions was written by a run: its counts are in the README, its pictures are there, its claims are those of the items."""
    root = Path(__file__).parents[2]
    folder = root / "docs/reproductions"
    summary = (folder / "README.md").read_text(encoding="utf-8")
    found = re.search(r"\*\*(\d+) of (\d+) claims confirmed, (\d+) contradicted, (\d+) open, (\d+) not run\.\*\*", summary)
    assert found is not None
    confirmed, total, contradicted, still_open, not_run = found.groups()
    line = " ".join((root / "README.md").read_text(encoding="utf-8").split())
    assert f"of {total} claims of four papers](docs/reproductions/README.md) {confirmed} confirmed, {contradicted} contradicted" in line
    assert f"{still_open} open, {not_run} not run" in line
    claims = [claim for item in items_named(()) for claim in item.claims]
    assert int(total) == sum(not claim.ours for claim in claims)
    for page in folder.glob("*.md"):
        text = page.read_text(encoding="utf-8")
        for image in re.findall(r"!\[[^]]*\]\(([^)]*)\)", text):
            assert (folder / image).is_file(), f"{page.name}: {image}"
    written = "".join(page.read_text(encoding="utf-8") for page in folder.glob("*.md"))
    assert [claim.says for claim in claims if claim.says.replace("|", "\\|") not in written] == []
