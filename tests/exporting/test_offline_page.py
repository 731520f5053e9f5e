"""The page that searches an index: what it is refused for, where its runtime comes from, which words it says. In a browser:
tests/browser/test_browser_export.py.
"""

import json
import os
import re
import tarfile
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import likewise
from likewise.cli import app
from likewise.exporting.exporter import export
from likewise.exporting.offline_page import STEP, word_steps
from likewise.exporting.web_runtime import GLUE, SCRIPT, VERSION, WASM, WebRuntime, find_runtime
from likewise.models.network import NetworkSpec
from likewise.search.index import Index
from likewise.search.likeness import in_words

from ..optional import needs_package
from .small_models import MODELS, calibrated, embedder, picture, small

FILES = {SCRIPT: b"script </script> of it", GLUE: b"glue", WASM: b"wasm"}


@pytest.fixture
def runtime(tmp_path: Path) -> Path:
    """A folder that has the runtime's files, which nothing runs here."""
    return written(tmp_path / "runtime")


def written(folder: Path) -> Path:
    folder.mkdir(parents=True)
    for name, content in FILES.items():
        (folder / name).write_bytes(content)
    return folder


@pytest.fixture
def index(tmp_path: Path) -> Index:
    needs_package("onnx")
    needs_package("onnxruntime")
    for number in range(4):
        path = tmp_path / "pictures" / f"kind {number % 2}" / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        picture(50 + number, 60).save(path)
    return likewise.Index.build(small(), tmp_path / "pictures", out=tmp_path / "pictures.index")


def test_words_are_those_of_search() -> None:
    calibration = calibrated().calibration
    assert calibration is not None
    steps = word_steps(calibration)
    assert len(steps) > 2
    assert steps[0][0] == -1
    for similarity in np.random.default_rng(0).uniform(-1, 1, 500):
        if min(abs(similarity - place) for place, _ in steps) > STEP:
            said = [words for place, words in steps if similarity >= place][-1]
            assert said == in_words(float(similarity), calibration), similarity


def test_a_folder_or_one_file(index: Index, runtime: Path, tmp_path: Path) -> None:
    (tmp_path / "pictures" / "kind 0" / "0.png").unlink()  # gone since it was indexed
    exported = export(small(), tmp_path / "out", browser=index, runtime=runtime)
    assert exported.page == tmp_path / "out" / "browser" / "index.html"
    home = tmp_path / "out" / "browser"
    page = (home / "index.html").read_text()
    assert re.findall(r'src="(.*?)"', page) == ["runtime.js", "about.js", "vectors.js", "glue.js", "wasm.js", "model.js", "page.js"]
    assert all((home / name).is_file() for name in re.findall(r'(?:src|href)="([^"]*\.\w+)"', page))
    assert "<title>Search pictures</title>" in page
    assert sorted(path.name for path in home.rglob("*.jpg")) == ["1.jpg", "2.jpg", "3.jpg"]
    about = (home / "about.js").read_text()
    assert '["kind 0/0.png", "kind 0"]' in about
    assert "http://" not in page + (home / "page.js").read_text()
    assert "https://" not in page + (home / "page.js").read_text()
    assert "browser/index.html" in (tmp_path / "out" / "README.md").read_text()
    assert json.loads((tmp_path / "out" / "export.json").read_text())["page"] == "browser/index.html"

    export(small(), tmp_path / "out", browser=index.folder, runtime=runtime, one_file=True)
    assert [path.name for path in home.iterdir()] == ["index.html"]
    page = (home / "index.html").read_text()
    assert page.count("<script>") == page.count("</script>") == 7  # what the runtime says of the tag does not end its script
    assert page.count("data:image/jpeg;base64,") == 3


def test_what_a_page_cannot_search_is_refused(index: Index, runtime: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    with pytest.raises(ValueError, match=r"pictures\.index is an index by another model: give the model that it was built with, .*model"):
        export(embedder(NetworkSpec("convnet_small", dim=16), seed=1), out, browser=index, runtime=runtime)
    with pytest.raises(ValueError, match="another model"):
        export(embedder(NetworkSpec("convnet_small", dim=16, pooling="max")), out, browser=index, runtime=runtime)
    with pytest.raises(ValueError, match="a page for a network of vectors"):
        export(MODELS["vectors"](), out, browser=index, runtime=runtime)
    with pytest.raises(ValueError, match="a page for an embedder of bits"):
        export(MODELS["bits"](), out, browser=index, runtime=runtime)
    monkeypatch.setattr("likewise.exporting.offline_page.MOST_ITEMS", 3)
    with pytest.raises(ValueError, match=r"holds 4 images, more than a page can search \(3\)"):
        export(small(), out, browser=index, runtime=runtime)
    index.remove(where="label~kind")
    with pytest.raises(ValueError, match="holds no images"):
        export(small(), out, browser=index, runtime=runtime)
    with pytest.raises(ValueError, match=r"nowhere is not there: expected an index"):
        export(small(), out, browser=tmp_path / "nowhere", runtime=runtime)
    assert not out.exists()


def test_the_command(index: Index, runtime: Path, tmp_path: Path) -> None:
    model = str(index.folder)
    out = str(tmp_path / "out")
    told = CliRunner().invoke(app, ["export", model, "-o", out, "--browser", str(index.folder), "--runtime", str(runtime)])
    assert told.exit_code == 0, told.output
    assert "index.html: open it in a browser" in " ".join(told.stdout.split())
    told = CliRunner().invoke(app, ["export", model, "-o", out, "--one-file"])
    assert told.exit_code == 2
    assert "--one-file is for a page that searches: give its index with --browser INDEX" in told.stderr


def test_the_runtime_is_found_in_the_given_folder_in_node_modules_or_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = WebRuntime(*FILES.values())
    package = tmp_path / "project" / "node_modules" / "onnxruntime-web"
    written(package / "dist")
    for folder in (package / "dist", package, package.parent, package.parent.parent):
        assert find_runtime(folder) == expected
    (tmp_path / "project" / "deep").mkdir()
    monkeypatch.chdir(tmp_path / "project" / "deep")
    assert find_runtime() == expected
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.setenv("LIKEWISE_CACHE", str(tmp_path / "cache"))
    written(tmp_path / "cache" / f"onnxruntime-web-{VERSION}")
    assert find_runtime() == expected
    with pytest.raises(ValueError, match=f"elsewhere holds no onnxruntime-web: expected its {SCRIPT}"):
        find_runtime(tmp_path / "elsewhere")


def npm(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only this npm is on the path, and nothing is in the cache."""
    folder.mkdir()
    (folder / "npm").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "npm").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin")
    monkeypatch.setenv("LIKEWISE_CACHE", str(folder / "cache"))
    monkeypatch.chdir(folder)


def test_npm_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path / "package" / "dist")
    with tarfile.open(tmp_path / "onnxruntime-web.tgz", "w:gz") as archive:
        archive.add(tmp_path / "package", "package")
    npm(tmp_path / "bin", f'echo "$@" >> asked; cp {tmp_path}/onnxruntime-web.tgz "$5"', monkeypatch)
    for _ in range(2):
        assert find_runtime() == WebRuntime(*FILES.values())
    (asked,) = (tmp_path / "bin" / "asked").read_text().splitlines()
    assert asked.startswith(f"pack onnxruntime-web@{VERSION} --silent --pack-destination ")


@pytest.mark.parametrize("script", ["echo no such package >&2; exit 1", "exit 0"])
def test_what_to_do_where_npm_cannot(script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    npm(tmp_path / "bin", script, monkeypatch)
    with pytest.raises(ValueError, match=r"npm could not get onnxruntime-web \(.+\): `npm install onnxruntime-web` here, or give a folder"):
        find_runtime()
    assert not list((tmp_path / "bin" / "cache").rglob("*")) if (tmp_path / "bin" / "cache").exists() else True


def test_what_to_do_without_npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    monkeypatch.setenv("LIKEWISE_CACHE", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="which is not here, and there is no npm to get it: `npm install onnxruntime-web` here"):
        find_runtime()
