"""The report: one file with everything in it, the same every time, whatever the data are called."""

import base64
import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from likewise.comparison.results import ComparisonResults, read_vectors
from likewise.evaluation import per_query
from likewise.reports import embedding_map
from likewise.reports.comparison_report import write_report
from likewise.reports.page import Shared, report_page
from likewise.reports.page.examples_html import LARGEST_SIDE, SMALLEST_SIDE, make_sprite
from likewise.reports.ranked_lists import ranked_lists

from .made_up import HOSTILE, made_up

VOID = {"meta", "link", "input", "br", "img", "wbr"}


class Reader(HTMLParser):
    """What a browser would make of the page: elements that are open, those seen, and the text of scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts[-1] += data
        else:
            self.text.append(data)


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert reader.open == []
    return reader


def page_of(results: ComparisonResults) -> str:
    """The page alone, without tables and plots beside it."""
    return report_page(Shared.of(results))


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    return write_report(made_up(folder / "vectors", datasets=("glyphs", HOSTILE[0]), hostile=True, sweep=True), folder / "report")


@pytest.fixture(scope="module")
def hostile_page(hostile: Path) -> Reader:
    return read(hostile.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> ComparisonResults:
    return made_up(tmp_path_factory.mktemp("usual"), sweep=True)


@pytest.fixture(scope="module")
def usual_page(usual: ComparisonResults) -> Reader:
    return read(page_of(usual))


@pytest.fixture(scope="module")
def vectors_only(tmp_path_factory: pytest.TempPathFactory) -> tuple[ComparisonResults, Reader]:
    """Without pictures, and with queries and gallery apart."""
    results = made_up(tmp_path_factory.mktemp("vectors_only"), thumbnails=False, query_gallery=True, num_classes=8)
    return results, read(page_of(results))


def test_names_from_the_data_stay_text(hostile_page: Reader) -> None:
    page = hostile_page
    scripts = [attributes for tag, attributes in page.seen if tag == "script"]
    assert scripts == [{"type": "application/json", "id": "data"}, {}]
    assert not [tag for tag, _ in page.seen if tag in ("img", "b ", "iframe", "object")]
    assert not [name for _, attributes in page.seen for name in attributes if name.startswith("on")]
    told = "".join(page.text)
    assert HOSTILE[0] in told
    assert HOSTILE[1] in told
    assert HOSTILE[2] in told  # a place of the template in a name is no place of the template


def test_the_data_island_holds_the_names_as_they_are(hostile_page: Reader) -> None:
    page = hostile_page
    known = json.loads(page.scripts[0])["items"]["0"]
    assert set(HOSTILE[:3]) <= set(known["classes"])
    assert not re.search("[<>&]", page.scripts[0])
    assert all(ord(letter) < 128 for letter in page.scripts[0])


def test_nothing_comes_from_outside(hostile: Path, hostile_page: Reader) -> None:
    text = hostile.read_text(encoding="utf-8")
    for tag, attributes in hostile_page.seen:
        for name in ("src", "href", "xlink:href"):
            value = attributes.get(name)
            assert value is None or value.startswith(("#", "data:")), (tag, value)
    assert not re.search(r"url\((?!\"data:|#)", text)
    assert "default-src 'none'" in text


def test_the_page_says_which_is_best_and_shows_every_part(usual: ComparisonResults, usual_page: Reader) -> None:
    results, page = usual, usual_page
    told = "".join(page.text)
    assert "RAW + VTHM leads on glyphs: MAP@R" in told
    assert "Within noise of it: Ranked list." in told
    assert "paper 66.9" in told
    assert "looks beyond the anchor's row" in told  # lifted has no weight curve
    sections = [attributes["id"] for tag, attributes in page.seen if tag == "section"]
    expected_sections = [
        "leaderboard",
        "differences",
        "sweeps",
        "curves",
        "loss",
        "map",
        "lists",
        "tuning",
        "weights",
        "conditions",
        "guard",
    ]
    assert sections == [*expected_sections, "notes", "repeat"]
    for expected in (results.command, "opened 3 times", "2.13.0", *results.equal.values(), *results.notes):
        assert expected in told


def test_lists_and_map_show_the_items_of_the_embeddings(usual: ComparisonResults, usual_page: Reader) -> None:
    """Every list is that of a slow search, and right is what has the query's label."""
    results, page = usual, usual_page
    known = json.loads(page.scripts[0])["items"]["0"]
    items = results.items["glyphs"]
    names = {name: i for i, name in enumerate(items.names)}
    shown_methods = [method for method in results.methods if not method.sweep]
    order = sorted((method for method in shown_methods if not method.apart), key=lambda method: -method.scores["MAP@R"].mean)
    order += [method for method in shown_methods if method.apart]
    shown = [attributes for tag, attributes in page.seen if "data-i" in attributes]
    queries = [known["names"][int(a["data-i"] or 0)] for a in shown if a.get("class") == "query"]
    cells = [(names[known["names"][int(a["data-i"] or 0)]], a["class"]) for a in shown if a.get("class") in ("hit", "miss")]
    assert len(queries) == 3 * 6
    assert len(set(queries)) == len(queries)
    assert len(cells) == len(queries) * 8 * len(order)
    at = 0
    for query in (names[name] for name in queries):
        for method in order:
            assert method.embeddings is not None
            vectors = np.load(method.embeddings).astype(np.float64)
            vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
            similarity = vectors @ vectors[query]
            similarity[query] = -np.inf
            found = cells[at : at + 8]
            assert np.allclose(similarity[[item for item, _ in found]], np.sort(similarity)[::-1][:8], atol=1e-6)
            assert [kind == "hit" for _, kind in found] == [items.labels[item] == items.labels[query] for item, _ in found]
            at += 8
    assert len(known["map"]) == 240
    assert {len(places) for places in known["places"].values()} == {480}


def test_typical_queries_come_first_then_the_disputed_then_the_worst(usual: ComparisonResults) -> None:
    items = usual.items["glyphs"]
    vectors = read_vectors(usual.board("glyphs").methods, items)
    precision = np.stack([per_query(found, items.labels, metrics=("mAP",)).scores["mAP"].numpy() for found in vectors.values()])
    lists = ranked_lists(vectors, items)
    assert lists is not None
    assert lists.kinds == {"typical": 6, "most disputed": 6, "worst": 6}
    typical, disputed, worst = np.split(lists.queries, [6, 12])
    mean, deviation = precision.mean(axis=0), precision.std(axis=0)
    from_median = np.abs(mean - np.median(mean))
    assert from_median[typical[0]] == from_median.min()
    assert (np.diff(from_median[typical]) >= 0).all()
    assert worst[0] == next(query for query in mean.argsort() if query not in lists.queries[:12])
    assert np.allclose(lists.precision, mean[lists.queries])
    assert (np.diff(mean[worst]) >= 0).all()
    assert (np.diff(deviation[disputed]) <= 0).all()
    assert {len(np.unique(items.labels[kind])) for kind in (typical, disputed, worst)} == {6}
    agreeing = ranked_lists({"a": vectors["raw_vthm"], "b": vectors["raw_vthm"]}, items)
    assert agreeing is not None
    assert list(agreeing.kinds) == ["typical", "worst"]


def test_the_same_results_give_the_same_page(tmp_path: Path) -> None:
    results = made_up(tmp_path / "vectors", num_classes=8)
    first, second = (write_report(results, tmp_path / name).parent for name in ("first", "second"))
    written = sorted(path.relative_to(first) for path in first.rglob("*") if path.is_file())
    assert len(written) >= 4 + 2 * 5
    for path in written:
        assert (first / path).read_bytes() == (second / path).read_bytes(), path


def test_the_page_stays_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten methods, and more items than a map shows, with pictures that do not compress."""
    monkeypatch.setattr(embedding_map, "ITERATIONS", 250)  # where items lie on the map makes no difference here
    results = made_up(tmp_path / "vectors", num_classes=40, images=12, num_seeds=1, num_trials=0, more=5)
    items = results.items["glyphs"]
    noise = np.random.default_rng(0).integers(0, 256, (len(items.labels), 112, 112, 3), dtype=np.uint8)
    assert len(page_of(replace(results, items={"glyphs": replace(items, thumbnails=noise)})).encode()) < 15_000_000
    assert len(page_of(results).encode()) < 1_500_000


def test_pictures_are_large_where_they_are_few() -> None:
    side, some = LARGEST_SIDE, np.arange(3)
    pictures = np.random.default_rng(0).integers(0, 256, (40, side, side, 3), dtype=np.uint8)
    smooth = np.broadcast_to(np.linspace(0, 255, side).astype(np.uint8)[:, None], (40, side, side))[..., None].repeat(3, axis=-1)
    few = make_sprite(smooth, some, most_bytes=100_000)
    assert (few.side, few.columns, few.rows, few.place) == (side, 2, 2, {0: 0, 1: 1, 2: 2})
    with Image.open(BytesIO(base64.b64decode(few.uri.partition(",")[2]))) as sheet:
        shown = np.asarray(sheet.convert("RGB"))[:side, side : 2 * side].astype(int)
    assert np.abs(shown - smooth[1]).mean() < 3  # as sharp as it was given
    many = make_sprite(pictures, np.arange(40), most_bytes=40_000)
    assert SMALLEST_SIDE < many.side < side
    assert len(many.uri) < 4 / 3 * 40_000 + 100
    assert make_sprite(pictures, np.arange(40), most_bytes=1000).side == SMALLEST_SIDE
    assert make_sprite(pictures[:, :24, :24], some, most_bytes=100_000).side == 24  # none is enlarged


def test_plots_are_pictures(hostile: Path) -> None:
    plots = hostile.parent / "plots"
    stems = {path.stem for path in plots.iterdir()}
    kinds = ("leaderboard", "power", "recall", "validation", "training", "cost", "rates", "best_after", "sweeps")
    assert stems == {f"{kind}_{number}" for kind in kinds for number in (1, 2)} | {"weights", "critical_difference"}
    for stem in stems:
        with Image.open(plots / f"{stem}.png") as picture:
            assert len(np.unique(np.asarray(picture))) > 5
        assert (plots / f"{stem}.svg").read_text().startswith("<?xml")


def test_without_thumbnails_lists_show_class_names(vectors_only: tuple[ComparisonResults, Reader]) -> None:
    _, page = vectors_only
    classes = [attributes.get("class") for _, attributes in page.seen]
    assert "thumb" not in classes
    assert classes.count("word") > 8 * 5
    assert "pictures" not in classes


def test_query_and_gallery_are_kept_apart(vectors_only: tuple[ComparisonResults, Reader]) -> None:
    results, page = vectors_only
    known = json.loads(page.scripts[0])["items"]["0"]
    place = {name: i for i, name in enumerate(results.items["glyphs"].names)}
    by_kind: dict[str, set[int]] = {"query": set(), "hit": set(), "miss": set()}
    for _, attributes in page.seen:
        if attributes.get("class") in by_kind and "data-i" in attributes:
            by_kind[str(attributes["class"])].add(place[known["names"][int(attributes["data-i"] or 0)]] % 2)
    assert by_kind["query"] == {0}
    assert by_kind["hit"] | by_kind["miss"] == {1}


def test_one_seed_no_tuning_and_a_training_that_came_to_nothing(tmp_path: Path) -> None:
    results = made_up(tmp_path / "vectors", num_seeds=1, num_trials=0, num_classes=8)
    *others, last = results.methods
    nothing = {name: replace(score, values=(math.nan,), mean=math.nan, low=math.nan, high=math.nan) for name, score in last.scores.items()}
    path = tmp_path / "nan.npy"
    np.save(path, np.full((80, 4), np.nan, dtype=np.float16))
    curves = tuple(replace(curve, losses=(math.inf,) * len(curve.steps)) for curve in last.curves)
    failed = replace(last, name="failed", title="Failed", scores=nothing, apart="", embeddings=path, curves=curves)
    page = read(write_report(replace(results, methods=(failed, *others)), tmp_path / "report").read_text(encoding="utf-8"))
    told = "".join(page.text)
    assert "1 seed a method; no tuning" in told
    assert "Nothing was tuned" in told
    rows = [attributes for tag, attributes in page.seen if tag == "tr" and "data-method" in attributes]
    assert rows[-1]["data-method"] == "0"  # the failed one, the first given, stands last


def test_bad_results_are_told(tmp_path: Path) -> None:
    results = made_up(tmp_path / "vectors", num_classes=8, num_seeds=1, num_trials=0)
    with pytest.raises(ValueError, match="no results to report"):
        write_report(replace(results, methods=()), tmp_path)
    path = tmp_path / "few.npy"
    np.save(path, np.zeros((3, 4), dtype=np.float16))
    with pytest.raises(ValueError, match=r"shape \(3, 4\), but glyphs has 80 test items"):
        page_of(replace(results, methods=(replace(results.methods[0], embeddings=path),)))
