"""What is damaged or edited between the pieces of a comparison, or in a finished one, is never used."""

import json
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from likewise.comparison.plan import Piece
from likewise.comparison.plan_progress import Progress
from likewise.comparison.results import ComparisonResults
from likewise.comparison.running.store import PieceResult
from likewise.comparison.running.workshop import Workshop
from likewise.sealing import sealed_json

from .tiny import table_of, tiny_compare

SMALL: dict[str, Any] = {"methods": ["contrastive"], "trials": 0, "seeds": 1}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> ComparisonResults:
    return tiny_compare(tmp_path_factory.mktemp("small") / "out", **SMALL)


@pytest.fixture
def copied(small: ComparisonResults, tmp_path: Path) -> Path:
    assert small.folder is not None
    shutil.copytree(small.folder, tmp_path / "copy")
    return tmp_path / "copy"


@pytest.mark.parametrize("damage", ["flipped", "deleted"])
def test_a_network_damaged_before_it_is_scored_is_trained_again(
    small: ComparisonResults, tmp_path: Path, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under the same conditions it is the same network, which its digest tells."""
    perform = Workshop.perform

    def meddling(workshop: Workshop, piece: Piece, progress: Progress, *, network: str = "") -> PieceResult:
        if piece.kind == "score" and piece.method == "contrastive":
            path = workshop.context.network_file(replace(piece, kind="final"))
            content = bytearray(path.read_bytes())
            content[-5] ^= 64
            path.write_bytes(content)
            if damage == "deleted":
                path.unlink()
        return perform(workshop, piece, progress, network=network)

    monkeypatch.setattr(Workshop, "perform", meddling)
    found = tiny_compare(tmp_path / "out", **SMALL)
    assert table_of(found) == table_of(small)
    state = "damaged" if damage == "flipped" else "missing"
    assert any(f"was {state} before it was scored; it was trained again and is the same" in note for note in found.notes)


def edit(folder: Path, change: str) -> None:
    """One result of the store, by other hands."""
    with closing(sqlite3.connect(folder / "comparison.sqlite")) as database, database:
        where = "WHERE kind = 'score' AND piece LIKE '%contrastive%'"
        ((text, arrays),) = database.execute(f"SELECT result, arrays FROM likewise_pieces {where}").fetchall()
        facts = json.loads(text)
        facts["scores"]["MAP@R"] = 0.9728
        if change == "a digit":
            text = text.replace('"width": 8', '"width": 9')
        elif change == "sealed anew":
            facts.pop("seal")
            text = sealed_json(facts, indent=None).decode().rstrip()
        elif change == "arrays":
            arrays = arrays[:-1] + bytes([arrays[-1] ^ 1])
        elif change == "a score":
            text = json.dumps(facts)
        database.execute(f"UPDATE likewise_pieces SET result = ?, arrays = ? {where}", (text, arrays))
        if change == "score":
            database.execute(f"UPDATE likewise_pieces SET score = score + 1e-9 {where}")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("a digit", r"differs from its own digest"),
        ("a score", r"differs from its own digest"),
        ("sealed anew", r"were edited in the store: MAP@R is 0\.972800 there, and 0\.\d+ by its queries"),
        ("arrays", r"the arrays of .* is not what was stored"),
        ("score", r"the score of .* is not what was stored"),
    ],
)
def test_an_edited_result_is_never_shown(copied: Path, change: str, said: str) -> None:
    edit(copied, change)
    with pytest.raises(ValueError, match=f"{said}.*begin anew with another --out"):
        tiny_compare(copied, **SMALL)


@pytest.mark.parametrize("damage", ["flipped", "deleted"])
@pytest.mark.parametrize("name", ["embeddings", "items"])
def test_a_report_without_what_is_drawn_of_lost_files(small: ComparisonResults, copied: Path, name: str, damage: str) -> None:
    for path in (copied / name).iterdir():
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
        if damage == "deleted":
            path.unlink()
    found = tiny_compare(copied, **SMALL, report=True)
    assert table_of(found) == table_of(small)
    state = "damaged" if damage == "flipped" else "missing"
    assert any(note.startswith(f"{name}/") and f"is {state}, so that the report lacks" in note for note in found.notes)
    assert found.report is not None
    assert f"is {state}, so that the report lacks" in found.report.read_text()


def test_a_deleted_record_is_told_beside_the_scores(small: ComparisonResults, copied: Path) -> None:
    for name in ("test_openings.jsonl", "test_openings.last.json"):
        (copied / name).unlink()
    found = tiny_compare(copied, **SMALL, report=True)
    assert table_of(found) == table_of(small)
    assert found.report is not None
    page = found.report.read_text()
    assert "was deleted or edited after scores were stored" in page
    assert "never opened" not in page
