"""likewise index and likewise search: made, added to, taken from, shown and searched on the command line."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from likewise.cli import app
from likewise.evaluation.calibration import calibrate
from likewise.models import Embedder
from likewise.search.index import Index

from ..search.pictures import class_folders, picture, small_embedder


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [*map(str, arguments)], env={"COLUMNS": "140"})


def ok(*arguments: str | Path) -> str:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def fault(*arguments: str | Path) -> str:
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert isinstance(result.exception, SystemExit)
    return result.stderr


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    class_folders(tmp_path / "photos")
    small_embedder().save(tmp_path / "model")
    return tmp_path


@pytest.fixture
def index(home: Path) -> Path:
    ok("index", "model", "photos", "--out", "idx")
    return home / "idx"


def test_made_added_to_taken_from_and_shown(home: Path) -> None:
    assert ok("index", "model", "photos", "--out", "idx") == "12 added, 0 changed, 0 unchanged: 12 images in idx\n"
    assert ok("index", "build", "model", "photos", "-o", "idx").splitlines() == [
        "idx is there already, with 12 images: going on with it",
        "0 added, 0 changed, 12 unchanged: 12 images in idx",
    ]
    picture(home / "photos" / "class 0" / "0.png", 99, 7)
    picture(home / "more" / "new.png", 98, 7)
    (home / "more" / "broken.jpg").write_bytes(b"nothing")
    result = run("index", "add", "idx", "photos", "more")
    assert result.stdout == "1 added, 1 changed, 11 unchanged: 13 images in idx\n"
    assert "note: 1 image could not be decoded and was left out" in result.stderr
    (home / "more" / "new.png").unlink()
    told = json.loads(ok("index", "add", "idx", "photos", "--prune", "--json"))
    assert (told["removed"], told["images"], told["skipped"]) == (1, 12, [])
    assert ok("index", "remove", "idx", "photos/class 1", "--where", "path~3.png") == "1 image removed, 11 left: idx\n"
    assert json.loads(ok("index", "remove", "idx", "--where", "label=class 2", "--json")) == {"removed": 4, "images": 7, "index": "idx"}
    shown = ok("index", "show", "idx")
    assert re.search(r"images +7 *\nwith a label +7 *\n", shown)
    told = json.loads(ok("index", "show", "idx", "--json"))
    assert (told["images"], told["labelled"], told["width"], told["store"]["kind"]) == (7, 7, 12, "exact")
    assert told["model"]["method"] == "raw"


def test_a_folder_called_add_is_a_model_by_its_path(home: Path) -> None:
    (home / "model").rename(home / "add")
    assert "12 added" in ok("index", "./add", "photos", "--out", "idx", "--store-option", "rows=int8", "--device", "cpu")
    assert json.loads(ok("index", "show", "idx", "--json"))["store"]["rows"] == "int8"
    assert "12 added" in ok("index", "--out", "other", "./add", "photos")


def test_several_queries_as_a_table_and_as_json(index: Path, home: Path) -> None:
    queries = ["photos/class 0/0.png", "photos/class 1"]
    told = json.loads(ok("search", index, *queries, "-k", "3", "--where", "label!=class 2", "--json"))
    paths = [home / "photos" / "class 0" / "0.png", *sorted((home / "photos" / "class 1").iterdir())]
    assert [query["query"] for query in told["queries"]] == [str(path.relative_to(home)) for path in paths]
    assert (told["calibrated"], told["k"], told["where"]) == (False, 3, ["label!=class 2"])
    expected = Index.load(index).search_many(paths, 3, "label!=class 2")
    assert [[hit["path"] for hit in query["hits"]] for query in told["queries"]] == [[hit.path for hit in hits] for hits in expected]
    assert told["queries"][0]["hits"][0]["similarity"] == pytest.approx(1, abs=1e-3)
    shown = ok("search", index, *queries, "-k", "3")
    assert shown.count("similarity  label") == 5
    assert re.search(r"1 +1\.000  class 0  photos/class 0/0\.png", shown)
    assert "the model is not calibrated: `likewise calibrate`" in shown


def test_a_calibrated_model_says_what_it_means(index: Path, home: Path) -> None:
    embedder = Embedder.load(home / "model")
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(40), 5)
    made = calibrate(rng.normal(size=(40, 12))[labels] + 0.5 * rng.normal(size=(200, 12)), labels, false_accepts=0.1)
    assert made.known is not None
    embedder.calibration = replace(made, known=replace(made.known, value=0.9999))  # to this untrained network all images are alike
    embedder.save(home / "model")
    ok("index", "model", "photos", "--out", "idx")
    far = picture(home / "far.png", 77, 77)
    shown = ok("search", index, "photos/class 0/0.png", far, "-k", "2")
    assert "very likely the same" in shown
    assert shown.count("unknown: nothing here is nearer") == 1
    assert "likewise calibrate" not in shown
    told = json.loads(ok("search", index, "photos/class 0/0.png", far, "--json"))
    assert [query["is_known"] for query in told["queries"]] == [True, False]
    assert told["queries"][0]["hits"][0]["probability"] > 0.9
    page = home / "found.html"
    ok("search", index, "photos/class 0/0.png", far, "--html", page)
    assert page.read_text().count("unknown: nothing here is nearer") == 1


def test_the_page_shows_every_picture_once(index: Path, home: Path) -> None:
    """A file that is gone is still listed."""
    (home / "photos" / "class 0" / "1.png").unlink()
    hits = Index.load(index).search("photos/class 0/0.png", 12)
    assert str(home / "photos" / "class 0" / "1.png") in [hit.path for hit in hits]
    shown = ok("search", index, "photos/class 0/0.png", "--html", "found.html", "-k", "12")
    assert "1.png (the file is gone)" in shown
    assert "pictures: found.html" in shown
    page = (home / "found.html").read_text()
    assert page.count("<img ") == 1 + 11
    assert page.count("the file is gone") == 1
    assert "http" not in page.replace("http-equiv", "")
    assert page.count('alt="hit ') == 11


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("search", "idx", "nothing.png"), "'nothing.png' is not there: expected an image file, or a folder of them"),
        (("search", "idx", ""), "'' is not there: expected an image file, or a folder of them"),
        (("search", "idx", "model/embedder.json"), "embedder.json cannot be searched with: not an image"),
        (("search", "idx", "broken.png", "broken.png"), "none of 2 queries can be searched with; the first: "),
        (("search", "idx", "photos", "--html", "photos"), "'photos' is a folder: expected the name of a file to write"),
        (("search", "idx", "photos", "--html", "broken.png/a.html"), "'broken.png/a.html' cannot be written, as broken.png is a file"),
        (("duplicates", "idx", "--html", "photos"), "'photos' is a folder"),
        (("cluster", "idx", "-k", "2", "--html", "photos"), "'photos' is a folder"),
        (("explain", "model", "nothing.png", "broken.png", "-o", "a.html"), "nothing.png is not there: expected an image file"),
        (("explain", "model", "broken.png", "broken.png", "-o", "broken.png/a.html"), "as broken.png is a file"),
        (("index", "feedback", "idx", "-o", "photos"), "'photos' is a folder"),
        (("index", "model", "empty", "--out", "new"), "empty holds no images: expected images in it, or in folders below it"),
        (("search", "idx", "model"), "model holds no images to search with"),
        (("search", "photos", "photos/class 0/0.png"), "photos holds no index.json: expected an index"),
        (("search", "idx", "photos/class 0/0.png", "--where", "year>3"), "no image has a column 'year': there are path, label"),
        (("search", "idx", "photos/class 0/0.png", "--where", "year"), "condition 'year': expected a column, one of"),
        (("search", "idx", "photos/class 0/0.png", "-k", "0"), "k is 0: expected a whole number of neighbours"),
        (("index", "nothing", "photos", "--out", "new"), "nothing is neither a folder nor the name of weights"),
        (("index", "model", "nothing", "--out", "new"), "there is no file or folder 'nothing' here"),
        (("index", "model", "photos"), "Missing option '--out'"),
        (("index", "model", "photos", "--out", "new", "--store", "exakt"), "unknown store 'exakt': did you mean 'exact'"),
        (("index", "model", "photos", "--out", "new", "--store-option", "int8"), "--store-option 'int8': expected NAME=VALUE"),
        (("index", "model", "photos", "--out", "photos"), "photos is there and is not an index"),
        (("index", "add", "idx", "broken.png"), "none of the images can be used, so that none is added to idx"),
        (("index", "add", "nothing", "photos"), "nothing is not there: expected an index"),
        (("index", "remove", "idx"), "nothing to remove: give paths, conditions, or both"),
        (("index", "remove", "idx", "photos/class 7"), "class 7 is not in idx"),
    ],
)
def test_faults_in_words(words: tuple[str, ...], message: str, index: Path) -> None:
    (index.parent / "broken.png").write_text("no image")
    (index.parent / "empty").mkdir()
    assert message in " ".join(fault(*words).replace("│", " ").split())
    assert not (index.parent / "new").exists()


def test_a_broken_query_among_others_is_named_and_left_out(index: Path, home: Path) -> None:
    (home / "photos" / "class 1" / "2.png").write_bytes(b"no image any more")
    result = run("search", index, "photos/class 1", "photos/class 0/0.png", "-k", "1", "--json", "--html", "found.html")
    assert result.exit_code == 0
    assert "note: 1 image could not be decoded and was left out" in result.stderr
    told = json.loads(result.stdout)
    assert [Path(query["query"]).name for query in told["queries"]] == ["0.png", "1.png", "3.png", "0.png"]
    assert [query["hits"][0]["path"] for query in told["queries"]] == [str(home / query["query"]) for query in told["queries"]]
    assert told["skipped"] == [
        {"path": str(home / "photos" / "class 1" / "2.png"), "reason": "not an image, or of a format that Pillow does not read"}
    ]
    assert (home / "found.html").read_text().count('class="asked"') == 4
    assert "left out" in run("search", index, "photos/class 1").stderr


def test_a_place_that_cannot_be_written_is_told_without_numbers(home: Path) -> None:
    """Below /proc, where root may not write either."""
    told = fault("index", "model", "photos", "--out", "/proc/likewise")
    assert "cannot be written (" in told
    assert "give another place" in told
    assert "Errno" not in told
    assert "unfinished" not in told


def test_rows_that_are_missing_are_told(index: Path) -> None:
    (index / "store" / "rows-0.float16").unlink()
    for words in (("search", "idx", "photos"), ("index", "show", "idx"), ("index", "add", "idx", "photos"), ("duplicates", "idx")):
        assert fault(*words) == "error: idx/store/rows-0.float16 is missing: copy the whole index again, or build it anew\n"


def test_an_empty_index_and_a_large_k(index: Path) -> None:
    result = run("search", index, "photos/class 0/0.png", "-k", "50", "--json")
    assert len(json.loads(result.stdout)["queries"][0]["hits"]) == 12
    assert "note: k is 50, and" in result.stderr
    assert "holds 12 images: all are listed" in result.stderr
    ok("index", "remove", "idx", "photos")
    assert "holds no images: add some with `likewise index add`" in fault("search", index, "photos/class 0/0.png")


def test_help_needs_no_torch() -> None:
    program = (
        "import sys\nfrom typer.testing import CliRunner\nfrom likewise.cli import app\n"
        "for words in (['index', '--help'], ['index', 'add', '--help'], ['search', '--help']):\n"
        "    assert CliRunner().invoke(app, words).exit_code == 0, words\n"
        "assert not {'torch', 'numpy'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=100)
