"""Seeds and methods that are added to a comparison: what is there stays, and the new look is counted."""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from likewise.comparison.folder import find_folder, open_folder
from likewise.comparison.plan import Claim, Piece
from likewise.comparison.plan_progress import Progress
from likewise.comparison.request import Request, make_plan, methods_of, read_datasets
from likewise.comparison.results import ComparisonResults
from likewise.comparison.running.workshop import Context, Workshop
from likewise.methods import load_method
from likewise.models.embedder import Embedder
from likewise.reports.comparison_report import compare
from likewise.reports.sentences import look_in_words

from .tiny import DATA, openings_of, tiny_compare, tiny_protocol

SMALL: dict[str, Any] = {"methods": ["contrastive"], "trials": 2, "folds": 1, "tune": "rate"}


def claims_in(folder: Path) -> dict[str, Claim]:
    found = find_folder(folder)
    assert found is not None
    with closing(found.store()) as store:
        return store.claims()


def scores_of(results: ComparisonResults) -> dict[str, Any]:
    return {method.name: (method.settings, method.scores["MAP@R"].values) for method in results.methods}


def test_more_seeds_are_added_to_what_is_there(tmp_path: Path) -> None:
    """The same to the last digit as if they had been asked for at once; nothing is done twice."""
    out = tmp_path / "out"
    first = tiny_compare(out, **SMALL, seeds=1)
    before = claims_in(out)
    more = tiny_compare(out, **SMALL, seeds=3)
    after = claims_in(out)
    assert {key: after[key] for key in before} == before
    assert {Piece.from_key(key).number for key in after.keys() - before.keys()} == {1, 2}
    at_once = tiny_compare(tmp_path / "at once", **SMALL, seeds=3)
    assert scores_of(more) == scores_of(at_once)
    assert (first.num_looks, more.num_looks, at_once.num_looks) == (1, 2, 1)
    assert more.num_seeds == 3
    assert openings_of(more).count("opened") == openings_of(at_once).count("opened")
    assert "refused" not in openings_of(more)
    assert any(note.endswith("after 3 test scores: 3 seeds a method") for note in more.notes)
    assert more.extensions[0].seeds == 3
    levels = [verdict.level for results in (first, more, at_once) for verdict in results.verdicts.values()]
    assert levels == pytest.approx([0.95, 0.975, 0.95])


def test_the_ledger_counts_an_extension_as_another_look(tmp_path: Path) -> None:
    out, data = tmp_path / "out", "glyphs:classes=16,images=6,size=16,seed=7"
    first = tiny_compare(out, **SMALL, data=data, seeds=1)
    more = tiny_compare(out, **SMALL, data=data, seeds=2)
    assert [results.looks["glyphs"].number for results in (first, more)] == [1, 2]
    assert "second look" in look_in_words(more, more.board("glyphs")).lower()


def test_a_method_is_added_and_tuned_like_the_others(tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = tiny_compare(out, **SMALL, seeds=2)
    more = tiny_compare(out, **(SMALL | {"methods": ["+raw_vthm"]}), seeds=None)
    assert [method.name for method in more.methods] == ["contrastive", "raw_vthm", "untrained"]
    assert scores_of(first).items() <= scores_of(more).items()
    rates = [[trial.settings["rates.base"] for trial in method.trials] for method in more.methods[:2]]
    assert rates[0] == rates[1] == [1.0, 3.0]
    assert more.num_looks == 2
    assert more.num_seeds == 2  # what is not asked for is as it is there
    again = tiny_compare(out, **(SMALL | {"methods": ["+raw_vthm"]}), seeds=None)  # the same command only reads
    assert again.num_looks == 2
    assert scores_of(again) == scores_of(more)
    assert again.guard_record == more.guard_record


def test_what_is_left_open_is_as_it_is_there(tmp_path: Path) -> None:
    out = tmp_path / "out"
    tiny_compare(out, **SMALL, seeds=1)
    more = tiny_compare(out, methods=None, seeds=2)
    assert [method.name for method in more.methods] == ["contrastive", "untrained"]
    assert (more.num_trials, more.tune, more.num_folds) == (2, "rate", 1)
    assert scores_of(tiny_compare(out, methods=None, seeds=None)) == scores_of(more)


def test_only_growth_is_added(tmp_path: Path) -> None:
    out = tmp_path / "out"
    tiny_compare(out, **SMALL, seeds=2)
    renamed = replace(load_method("contrastive"), title="Mine")
    for changes, said in (
        ({"seeds": 1}, "seeds is 2 there and 1 here"),
        ({"methods": ["raw_vthm"]}, r"methods\.contrastive is 'contrastive' there and absent here"),
        ({"seeds": 5, "trials": 3}, "trials is 2 there and 3 here"),
        ({"seeds": 5, "protocol": tiny_protocol(steps=9)}, r"protocol\.steps is 3 there and 9 here"),
        (
            {"methods": [renamed, "raw_vthm"]},
            r"methods\.contrastive\.title is 'Contrastive' there and 'Mine' here",
        ),
    ):
        with pytest.raises(ValueError, match=f"{said}; give the same values to go on with it .more --seeds, or --methods .NAME, add to it"):
            tiny_compare(out, **(SMALL | {"seeds": 2} | changes))
    found = find_folder(out)
    assert found is not None
    with closing(found.store()) as store:
        assert store.progress().plan.extensions == ()


def test_what_is_added_before_any_score_is_the_same_look(tmp_path: Path) -> None:
    out = tmp_path / "out"

    def stop(progress: Progress) -> None:
        if any(claim.piece.kind == "final" and claim.piece.method == "contrastive" for claim in progress.claims.values()):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tiny_compare(out, **SMALL, seeds=1, on_progress=stop)
    more = tiny_compare(out, **(SMALL | {"methods": ["+proxy_nca"]}), seeds=2)
    assert more.num_looks == 1
    assert any("before any test score" in note for note in more.notes)
    assert [method.name for method in more.methods] == ["contrastive", "proxy_nca", "untrained"]


def test_two_processes_add_different_methods_at_once(tmp_path: Path) -> None:
    out = tmp_path / "out"
    tiny_compare(out, **SMALL, seeds=1)
    children = []
    for name in ("+raw_vthm", "+proxy_nca"):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                tiny_compare(out, **(SMALL | {"methods": [name]}), seeds=None)
                code = 0
            finally:
                os._exit(code)
        children.append(pid)
    assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children] == [0, 0]
    found = tiny_compare(out, methods=None, seeds=None)
    assert {method.name for method in found.methods} == {"contrastive", "raw_vthm", "proxy_nca", "untrained"}
    assert "refused" not in openings_of(found)
    runs = [opening["run"] for opening in found.guard_record if opening["event"] == "opened"]
    assert len(runs) == len(set(runs)) == 5  # four networks, and the pictures
    assert found.num_looks in (2, 3)  # both before the next look, or one after the other


def test_an_extended_comparison_opens_nothing_before_it_is_decided_again(tmp_path: Path) -> None:
    out = tmp_path / "out"
    tiny_compare(out, **SMALL, seeds=1)
    request = Request(**SMALL, data=DATA, protocol=tiny_protocol(), seeds=2, device="cpu")
    datasets, specs = read_datasets(request.data)
    folder, _ = open_folder(out, lambda there: make_plan(request, datasets, specs, there=there), store=None, command="more")
    with closing(folder.store()) as store:
        progress = store.progress()
        assert not progress.is_decided
        workshop = Workshop(Context(progress.plan, datasets, out, None, "cpu", folder.comparison))
        for piece in (
            Piece("score", "glyphs", "", "contrastive", 1),
            Piece("score", "glyphs", "", "contrastive", 0),
            Piece("items", "glyphs"),
        ):
            failure = workshop.perform(piece, progress).failure
            assert failure is not None
            assert "stays closed" in failure
        assert [opening.event for opening in workshop.context.split("glyphs").test.record][-3:] == ["refused"] * 3


def test_a_worker_holds_no_test_item_while_it_trains_what_was_added(tmp_path: Path) -> None:
    tiny_compare(tmp_path / "out", **SMALL, seeds=1, keep_networks=True)
    found = find_folder(tmp_path / "out")
    assert found is not None
    datasets, _ = read_datasets(DATA)
    with closing(found.store()) as store:
        progress = store.progress()
        workshop = Workshop(Context(progress.plan, datasets, tmp_path / "out", None, "cpu", found.comparison))
        assert workshop.perform(Piece("score", "glyphs", "", "contrastive"), progress).failure is None
        assert workshop._test
        assert workshop.perform(Piece("final", "glyphs", "", "contrastive"), progress).failure is None
        assert not workshop._test


def test_the_best_is_kept_anew_where_another_has_become_it(tmp_path: Path) -> None:
    """The first comparison has one method; one that beats it is added, then one that does not."""
    out = tmp_path / "out"
    scored = scores_of(tiny_compare(tmp_path / "all", **(SMALL | {"methods": ["contrastive", "raw_vthm", "proxy_nca"]}), seeds=1))
    order = sorted(("contrastive", "raw_vthm", "proxy_nca"), key=lambda name: scored[name][1][0])
    for name, best in ((order[1], order[1]), (order[2], order[2]), (order[0], order[2])):
        methods = [name] if not out.exists() else [f"+{name}"]
        results = tiny_compare(out, **(SMALL | {"methods": methods}), seeds=1)
        assert Embedder.load(results.best["glyphs"]).card["method"]["name"] == best
        assert not (out / "networks").exists()


def test_methods_after_a_plus() -> None:
    there = tuple(load_method(name).for_protocol("quick") for name in ("raw", "margin"))
    assert [method.name for method in methods_of(None, "quick", there=there)] == ["raw", "margin"]
    assert [method.name for method in methods_of("+circle", "quick", there=there)] == ["raw", "margin", "circle"]
    assert [method.name for method in methods_of(["+circle", "supcon", "+raw"], "quick", there=there)] == [
        "raw",
        "margin",
        "circle",
        "supcon",
    ]
    assert [method.name for method in methods_of(["raw", "circle"], "quick", there=there)] == ["raw", "circle"]
    assert methods_of("+circle", "quick")[:-1] == methods_of(None, "quick")
    assert methods_of(["+circle"], "quick")[-1].name == "circle"
    with pytest.raises(ValueError, match=r"raw and \+circle: give all of them after a \+"):
        methods_of(["raw", "+circle"], "quick")


def test_what_is_finished_is_read_on_a_machine_without_its_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {"data": DATA, "protocol": tiny_protocol(), "out": tmp_path / "out", "jobs": 1, "report": False, **SMALL}
    with monkeypatch.context() as elsewhere:
        for module in ("request", "compare"):
            elsewhere.setattr(f"likewise.comparison.{module}.device_kind", lambda name: "cuda")
        there = compare(**asked, seeds=1, device="cpu")
    assert scores_of(compare(**asked, seeds=1)) == scores_of(there)
    with pytest.raises(ValueError, match="device is 'cuda' there and 'cpu' here"):
        compare(**asked, seeds=1, device="cpu")
    with pytest.raises(ValueError, match="was begun on cuda and this is cpu"):
        compare(**asked, seeds=2)
