"""likewise discover, whole: on a few drawn characters."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

import likewise
from likewise.cli import app
from likewise.comparison.results import Estimate
from likewise.discovery import weight_search
from likewise.methods import load_method

DATA = "glyphs:classes=16,images=6,size=16"
SETTINGS = {"steps": 2, "batch": 16}


def test_found_written_and_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIKEWISE_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    asked = {"trials": 2, "folds": 1, "seeds": 2, "protocol": "quick", "settings": SETTINGS, "jobs": 1, "device": "cpu"}
    found = likewise.discover(DATA, against=["raw"], **asked)  # type: ignore[arg-type]
    assert found.results.folder == (tmp_path / "runs" / "discover-glyphs-quick").resolve()
    assert found.best_known == "raw"
    tried = {method.name: len(method.trials) for method in found.results.methods if method.is_trained}
    assert set(tried) == {"raw", "weight_family"}
    assert len(set(tried.values())) == 1  # as many sets of values for both
    own = next(method for method in found.results.methods if method.name == "weight_family")
    written = load_method(found.file)
    assert written.loss == found.method.loss
    assert written.rates.base == own.settings["rates.base"]
    of_loss = {name.removeprefix("loss."): value for name, value in own.settings.items() if name.startswith("loss.")}
    assert {name: written.loss.settings[name] for name in of_loss} == pytest.approx(of_loss)
    assert found.picture.read_bytes().startswith(b"\x89PNG")
    assert all(line.startswith("#") for line in found.file.read_text().splitlines()[:4])
    before = found.file.stat().st_mtime_ns
    words = ["discover", DATA, "--against", "raw", "--trials", "2", "--folds", "1", "--seeds", "2", "--protocol", "quick", "--jobs", "1"]
    words += ["--set", "steps=2", "--set", "batch=16", "--device", "cpu"]
    said = CliRunner().invoke(app, words, env={"COLUMNS": "150"})
    assert said.exit_code == 0, said.output
    assert found.formula[0] in said.output
    assert re.search(r"It is (not told from|better than|worse than) the best known method, RAW", said.output)
    assert found.file.stat().st_mtime_ns > before


@pytest.mark.parametrize(
    ("own", "rival", "words", "is_told_apart"),
    [
        ("best", "behind", "better than the best known method, Rival: MAP@R 30.0 beside 20.0, +10.0 points, more than noise", True),
        ("leads", "within noise", "not told from the best known method, Rival", False),
        ("within noise", "leads", "not told from the best known method, Rival", False),
        ("behind", "best", "worse than the best known method, Rival", True),
    ],
)
def test_the_verdict_in_a_sentence(own: str, rival: str, words: str, is_told_apart: bool) -> None:
    def method(standing: str, mean: float) -> SimpleNamespace:
        return SimpleNamespace(title="Rival", standing=standing, scores={"MAP@R": Estimate((mean,), mean, None, None, None)})

    sentence, told = weight_search._judgement(method(own, 0.3), method(rival, 0.2), leading="MAP@R", names_winner=True)  # type: ignore[arg-type]
    assert sentence.startswith(words)
    assert told is is_told_apart


def test_faults() -> None:
    with pytest.raises(ValueError, match="give at least one known method"):
        likewise.discover(DATA, against=())
