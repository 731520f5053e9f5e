"""likewise.reproduce: nothing is trained twice, what stops goes on, what fails is told, and what there is not is asked for."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import likewise
from likewise.comparison.folder import find_folder
from likewise.comparison.plan import Piece
from likewise.comparison.plan_progress import Progress
from likewise.comparison.running.workers import Orders
from likewise.comparison.running.workshop import Workshop
from likewise.reproductions.reproduction import PartResult, Reproduction

from .conftest import DATA, TEXT, written_item


def run(folder: Path, text: str = TEXT, **asked: Any) -> Reproduction:
    item = written_item(folder / "files", text)
    return likewise.reproduce(item, **{"data": {"glyphs": DATA}, "out": folder / "out", "device": "cpu", "jobs": 1, "seeds": 2, **asked})


def part(found: Reproduction, name: str = "small") -> PartResult:
    return found.items[0].parts[name]


def values(found: Reproduction) -> dict[tuple[str, str, str], tuple[float, ...]]:
    parts = found.items[0].parts
    return {
        (name, row, score): estimate.values
        for name, result in parts.items()
        for row, entry in result.rows.items()
        for score, estimate in entry.scores.items()
    }


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[Piece]:
    """Every training that is done."""
    done: list[Piece] = []
    perform = Workshop.perform

    def noting(self: Workshop, piece: Piece, progress: Progress, **more: Any) -> Any:
        if piece.kind == "final":
            done.append(piece)
        return perform(self, piece, progress, **more)

    monkeypatch.setattr(Workshop, "perform", noting)
    return done


def test_all_that_is_known_of_a_run(tmp_path: Path) -> None:
    found = run(tmp_path)
    assert set(part(found).rows) == {"raw", "sharper", "contrastive"}
    assert part(found).protocol.dim == 8
    assert part(found, "large").protocol.dim == 16
    assert part(found).rows["raw"].dim == 8
    assert part(found).data_words == "glyphs: 48 items of 8 classes train, 48 of 8 test"
    assert part(found).seeds == 2
    assert [judged.row for judged in found.items[0].claims] == ["", "", "raw", "contrastive"]
    assert [judged.part for judged in found.items[0].claims] == ["small", "large", "", ""]
    for judged in found.items[0].claims:
        assert judged.verdict in ("confirmed", "contradicted", "open")
        assert "2 seeds, 8 test classes" in judged.evidence
        assert judged.refuted_by
    with (found.folder / "claims.csv").open(encoding="utf-8") as file:
        claims = list(csv.DictReader(file))
    assert [(line["claim"], line["kind"], line["verdict"]) for line in claims] == [
        (judged.claim.says, "best" if "best" in judged.claim.says else "above", judged.verdict) for judged in found.items[0].claims
    ]
    with (found.folder / "figures.csv").open(encoding="utf-8") as file:
        figures = {(line["part"], line["row"], line["score"]): line for line in csv.DictReader(file)}
    assert figures["small", "unknown", "R@1"]["state"] == "no code"
    assert figures["small", "unknown", "R@1"]["published"] == "10"
    line = figures["small", "contrastive", "R@1"]
    mean = part(found).rows["contrastive"].scores["R@1"].mean
    assert (line["title"], line["seeds"], line["state"]) == ("Contrastive loss", "2", "run")
    assert float(line["ours"]) == pytest.approx(100 * mean, abs=1e-3)
    assert float(line["low"]) <= float(line["ours"]) <= float(line["high"])


def test_items_share_what_they_have_in_common(tmp_path: Path, trained: list[Piece]) -> None:
    first = run(tmp_path)
    names = {piece.method for piece in trained}
    assert names == {"raw", "raw loss.beta=40", "contrastive", "untrained"}
    trained.clear()
    other = (
        TEXT.replace('method = "contrastive"', 'method = "margin"')
        .replace("[rows.raw]", '[rows."as it is"]\ntitle = "RAW"')
        .replace("contrastive", "other")
        .replace('best = "raw"', 'best = "as it is"')
        .replace('each = ["raw"', 'each = ["as it is"')
        .replace("raw = {", '"as it is" = {')
    )
    second = run(tmp_path, other)
    assert {piece.method for piece in trained} == {"margin"}
    assert part(second).rows["as it is"].scores == part(first).rows["raw"].scores
    assert part(second).rows["sharper"].scores == part(first).rows["sharper"].scores


def test_seeds_are_added(tmp_path: Path, trained: list[Piece]) -> None:
    one = run(tmp_path, seeds=1)
    assert {judged.verdict for judged in one.items[0].claims} == {"open"}
    assert all("one seed leaves everything open" in judged.evidence for judged in one.items[0].claims)
    trained.clear()
    three = run(tmp_path, seeds=3)
    assert {piece.number for piece in trained} == {1, 2}
    assert all(value[:1] == values(one)[key] for key, value in values(three).items())
    trained.clear()
    assert values(run(tmp_path, seeds=1)) == values(three)  # what is there is not forgotten
    assert trained == []
    evidence = [judged.evidence for judged in three.items[0].claims]
    assert not any("time" in sentence for sentence in evidence)  # one seed judged nothing: this is the first look
    later = run(tmp_path, seeds=4)
    assert all("97.5 % intervals that hold at once, as it is judged for the second time" in j.evidence for j in later.items[0].claims)
    again = run(tmp_path, seeds=4)
    assert [judged.evidence for judged in again.items[0].claims] == [judged.evidence for judged in later.items[0].claims]


def test_slices_of_time_find_what_one_run_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = run(tmp_path / "whole")
    told: list[tuple[str, int, int]] = []
    nothing = run(tmp_path / "sliced", minutes=0)
    assert nothing.items[0].parts == {}
    assert nothing.trainings_left == 12
    assert set(nothing.items[0].needs.values()) == {"its turn has not come: the same command goes on"}
    assert {judged.verdict for judged in nothing.items[0].claims} == {"not run"}
    assert (nothing.folder / "figures.csv").is_file()
    looks: Counter[float] = Counter()

    def are_over(orders: Orders) -> bool:
        """At the sixth look of each comparison: before it is done."""
        assert orders.until is not None
        looks[orders.until] += 1
        return looks[orders.until] >= 6

    sliced, slices = nothing, 0
    with monkeypatch.context() as clock:
        clock.setattr(Orders, "are_over", property(are_over))
        while sliced.trainings_left and slices < 20:
            sliced = run(tmp_path / "sliced", minutes=60, on_progress=lambda *state: told.append(state))
            slices += 1
    assert slices > 3
    assert sliced.trainings_left == 0
    sliced = run(tmp_path / "sliced")
    assert values(sliced) == values(whole)
    assert any(done < total for _, done, total in told)
    assert all(done <= total for _, done, total in told)


def test_rows_that_cannot_be_are_told(tmp_path: Path) -> None:
    """And so is what fits a batch with fewer images of a class."""
    text = TEXT.replace('method = "contrastive"', 'method = "contrastive"\nconditions = { batch = 3 }')
    text = text.replace('settings = { "loss.beta" = 40.0 }', 'settings = { "loss.beta" = 40.0, "sampler.num_images" = 12 }')
    found = run(tmp_path, text)
    assert set(part(found).rows) == {"raw", "sharper"}
    assert part(found).left_out["contrastive"] == "a batch of 3 images holds no two classes with two images of each"
    assert "without Contrastive loss (a batch of 3 images" in found.items[0].claims[0].evidence
    assert part(found).rows["sharper"].adapted == "8 images a class instead of 12"
    assert part(found).rows["raw"].adapted == ""
    assert "run, 8 images a class instead of 12" in (found.folder / "figures.csv").read_text(encoding="utf-8")


def failing(monkeypatch: pytest.MonkeyPatch, fails: Callable[[Piece], bool]) -> None:
    perform = Workshop._final

    def maybe(self: Workshop, piece: Piece, *more: Any) -> Any:
        if fails(piece):
            raise FloatingPointError("the loss is not finite")
        return perform(self, piece, *more)

    monkeypatch.setattr(Workshop, "_final", maybe)


def test_a_row_that_fails_stops_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, lambda piece: piece.method == "contrastive" and piece.number == 1)
    found = run(tmp_path)
    assert set(part(found).rows) == {"raw", "sharper"}
    assert part(found).left_out["contrastive"] == "seed 1: FloatingPointError: the loss is not finite"
    assert "without Contrastive loss (seed 1: FloatingPointError" in found.items[0].claims[0].evidence
    assert found.trainings_left == 0


def test_where_every_row_fails_the_part_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, lambda piece: piece.method != "untrained")
    found = run(tmp_path, seeds=1)
    assert found.items[0].parts == {}
    assert found.items[0].needs["small"] == "seed 0: FloatingPointError: the loss is not finite"


def test_conditions_that_cannot_be_stop_no_other(tmp_path: Path) -> None:
    text = TEXT.replace("settings = { steps = 3, batch = 16, dim = 16", "settings = { steps = 0, batch = 16, dim = 16")
    found = run(tmp_path, text, seeds=1)
    assert set(found.items[0].parts) == {"small"}
    assert "steps=0: a comparison trains" in found.items[0].needs["large"]
    assert found.trainings_left == 0


def test_what_is_lacking_is_asked_for(tmp_path: Path) -> None:
    found = likewise.reproduce("rll/table-3", out=tmp_path / "out", device="cpu")
    (result,) = found.items
    assert result.parts == {}
    assert result.needs["sop"] == "it needs Stanford Online Products: give --data sop:PATH"
    assert {judged.verdict for judged in result.claims} == {"not run"}
    assert all("give --data cub:PATH" in judged.evidence for judged in result.claims if judged.claim.part == "cub-resnet50")
    with (tmp_path / "out" / "figures.csv").open(encoding="utf-8") as file:
        assert {line["published"] for line in csv.DictReader(file)} >= {"76.2", "79.8", "78.7"}


def test_a_bench_begun_elsewhere_is_read_and_not_mixed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = run(tmp_path, seeds=1)
    for name in ("likewise.reproductions.benches.device_kind", "likewise.comparison.compare.device_kind"):
        monkeypatch.setattr(name, lambda device: "cuda")
    assert values(run(tmp_path, seeds=1)) == values(one)
    more = run(tmp_path, seeds=2)
    assert values(more) == values(one)
    plan = find_folder(next((tmp_path / "out" / "benches").iterdir()))
    assert plan is not None
    store = plan.store()
    assert store.progress().plan.seeds == 1
    store.close()


def test_what_cannot_be_asked_is_refused(tmp_path: Path) -> None:
    for asked, fault in (
        ({"seeds": 0}, "seeds=0: expected at least 1"),
        ({"minutes": -1}, "minutes=-1: expected a number not below 0"),
        ({"settings": {"loss.alpha": 1}}, "setting 'loss.alpha' is a method's"),
        ({"settings": {"step": 1}}, "unknown setting 'step': did you mean 'steps'"),
        ({"data": ["cubs:/x"]}, "expected a reader and a path"),
        ({"data": {"cubs": "/x"}}, "expected the name of a reader"),
    ):
        with pytest.raises(ValueError, match=fault):
            run(tmp_path, **asked)
    with pytest.raises(ValueError, match="unknown item 'rll/table-99'"):
        likewise.reproduce("rll/table-99", out=tmp_path)
