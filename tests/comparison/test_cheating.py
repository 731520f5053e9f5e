"""Attempts to see a test class before its time. All fail, and all are on record."""

from __future__ import annotations

import gc
import pickle
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from torch import Tensor

from likewise.comparison.folder import ComparisonFolder, find_folder, open_folder
from likewise.comparison.plan import Piece, Plan
from likewise.comparison.plan_progress import Progress
from likewise.comparison.request import Request, make_plan, read_datasets
from likewise.comparison.running.store import Owner
from likewise.comparison.running.workshop import Context, Workshop
from likewise.data.guard import TestGuard, TestKey
from likewise.losses.contrastive import Contrastive
from likewise.pairs import Pairs

from .tiny import DATA, openings_of, tiny_compare, tiny_protocol


@pytest.fixture
def begun(tmp_path: Path) -> tuple[ComparisonFolder, Workshop]:
    """A comparison of which nothing is done yet."""
    request = Request(methods=["contrastive"], data=DATA, protocol=tiny_protocol(), trials=2, folds=2, seeds=1, device="cpu")
    datasets, specs = read_datasets(request.data)
    plan = make_plan(request, datasets, specs)
    folder, _ = open_folder(tmp_path / "out", lambda there: plan, store=None, command="test")
    return folder, Workshop(Context(plan, datasets, folder.path, None, "cpu"))


def events(workshop: Workshop) -> list[str]:
    return [opening.event for opening in workshop.context.split("glyphs").test.record]


def test_asking_for_a_score_before_every_choice_is_made(begun: tuple[ComparisonFolder, Workshop]) -> None:
    folder, workshop = begun
    with closing(folder.store()) as store:
        owner = Owner.here()
        while True:
            claims = store.claims()
            progress = Progress(workshop.plan, claims)
            due = progress.due()
            if due[0].kind == "score":
                break
            for piece in (Piece("score", "glyphs", "", "contrastive"), Piece("items", "glyphs")):
                result = workshop.perform(piece, progress)
                assert result.failure is not None
                assert "stays closed" in result.failure
            assert store.claim(due, owner, claims) == due[0]
            store.finish(due[0], workshop.perform(due[0], progress))
        assert "opened" not in events(workshop)
        assert events(workshop).count("refused") >= 10
        assert workshop.perform(due[0], progress).failure is None


def test_opening_with_a_key_of_ones_own_or_none(begun: tuple[ComparisonFolder, Workshop]) -> None:
    guard = begun[1].context.split("glyphs").test
    for key in (TestKey(), None):
        with pytest.raises(ValueError, match="not the key of this guard"):
            guard.open(key, run="mine", purpose="curiosity", decided="nothing")  # type: ignore[arg-type]
    assert [opening.event for opening in guard.record] == ["refused", "refused"]


def test_the_plan_and_what_workers_are_sent_name_no_test_item(begun: tuple[ComparisonFolder, Workshop]) -> None:
    """The split is stored by its training items; a guard cannot be sent at all."""
    workshop = begun[1]
    assert set(workshop.plan.sources["glyphs"].split) >= {"train", "test_digest"}
    assert "test" not in workshop.plan.sources["glyphs"].split
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(workshop.context.split("glyphs"))


class Peeking(Contrastive):
    """A loss that looks for the guard wherever it is in memory and tries to open it."""

    def per_anchor(self, pairs: Pairs) -> Tensor:
        for guard in [held for held in gc.get_objects() if type(held) is TestGuard]:
            for key in _keys(guard):
                try:
                    guard.open(key, run="peek", purpose="peek", decided="nothing")
                except ValueError as refusal:
                    refusals.append(str(refusal))
                else:
                    seen.append(guard)
        return super().per_anchor(pairs)


refusals: list[str] = []
seen: list[TestGuard] = []


def _keys(guard: TestGuard) -> Iterator[TestKey]:
    yield from [held for held in gc.get_objects() if type(held) is TestKey]
    try:
        yield guard.issue_key("peek")
    except ValueError as refusal:
        refusals.append(str(refusal))


def test_a_loss_that_peeks_sees_nothing_and_is_told_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import likewise.losses

    monkeypatch.setitem(likewise.losses.LOSSES, "contrastive", Peeking)
    gc.collect()
    others = {id(held) for held in gc.get_objects() if type(held) is TestGuard}
    found = tiny_compare(tmp_path / "out", methods=["contrastive"], trials=2, seeds=1)
    assert not [guard for guard in seen if id(guard) not in others]
    assert any("tuning is under way" in refusal for refusal in refusals)
    assert any("training is under way" in refusal for refusal in refusals)
    assert openings_of(found).count("refused") >= 4
    assert "peek" not in {opening["run"] for opening in found.guard_record if opening["event"] in ("opened", "resumed")}
    assert any("requests for the test classes were refused" in note for note in found.notes)


def test_changing_a_network_after_the_test_classes_were_seen(tmp_path: Path) -> None:
    """The score of an exchanged network is refused: the run opened the test part with other weights."""
    found = tiny_compare(tmp_path / "out", methods=["contrastive"], trials=0, seeds=2, keep_networks=True)
    folder = find_folder(tmp_path / "out")
    assert folder is not None
    assert openings_of(found).count("refused") == 0
    first, second = sorted((tmp_path / "out" / "networks").glob("*contrastive*"))
    first.write_bytes(second.read_bytes())
    datasets, _ = read_datasets(DATA)
    with closing(folder.store()) as store:
        stored = store.plan()
        assert stored is not None
        plan = Plan.from_table(stored[0])
        workshop = Workshop(Context(plan, datasets, folder.path, None, "cpu"))
        progress = Progress(plan, store.claims())
        piece = Piece("score", "glyphs", "", "contrastive", 0)
        failures = [workshop.perform(replace(piece, number=seed), progress).failure for seed in range(2)]
    assert [failure is not None and "with other settings or weights" in failure for failure in failures] in ([True, False], [False, True])
