"""Claims, results and their owners, in SQLite and PostgreSQL alike."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from likewise.addresses import Address
from likewise.comparison.plan import Piece, Plan
from likewise.comparison.running import store as store_module
from likewise.comparison.running.store import Owner, PieceResult, Store

from .test_plan import plan_of

PIECES = [Piece("final", "glyphs", "", "raw_vthm", seed) for seed in range(20)]


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with closing(Store(Address(url), "one")) as held:
        held.create({"plan": 1}, {"command": "x"})
        yield held


def dead_owner() -> Owner:
    """A process that has been and gone."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    stat = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    owner = Owner(Owner.here().host, process.pid, stat[19], "dead")
    assert not owner.is_gone
    process.kill()
    process.communicate()
    return owner


def test_a_piece_is_claimed_once(store: Store) -> None:
    owner, other = Owner.here(), Owner.here()
    assert store.claim(PIECES[:1], owner, {}) == PIECES[0]
    assert store.claim(PIECES[:1], other, {}) is None  # as one that has not yet seen the row
    assert store.claim(PIECES[:1], other, store.claims()) is None
    assert store.claim(PIECES[:2], other, store.claims()) == PIECES[1]


def test_many_at_once_take_each_piece_once(store: Store, url: str) -> None:
    taken: list[Piece] = []

    def take() -> None:
        owner = Owner.here()
        with closing(Store(Address(url), "one")) as held:
            while (piece := held.claim(PIECES, owner, held.claims())) is not None:
                taken.append(piece)
                held.finish(piece, PieceResult({"by": owner.name}))

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(piece.number for piece in taken) == list(range(20))


def test_results_are_as_they_were(store: Store) -> None:
    found = PieceResult({"loss": 0.1 + 0.2, "rows": [1, 2]}, score=1 / 3, arrays=bytes(range(256)))
    store.claim(PIECES[:1], Owner.here(), {})
    store.finish(PIECES[0], found)
    assert store.result(PIECES[0]) == found
    claim = store.claims()[PIECES[0].key]
    assert (claim.score, claim.failure) == (1 / 3, None)
    store.finish(PIECES[0], PieceResult({"loss": 9}))
    assert store.result(PIECES[0]) == found


def test_a_dead_process_loses_its_piece_at_once(store: Store) -> None:
    store.claim(PIECES[:1], dead_owner(), {})
    owner, slower = Owner.here(), Owner.here()
    seen = store.claims()
    assert store.claim(PIECES[:1], owner, seen) == PIECES[0]
    assert store.claim(PIECES[:1], slower, seen) is None  # both saw the dead one's row


def test_a_silent_machine_loses_its_piece_after_the_lease(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = Owner("another machine", 1, "1", "n")
    store.claim(PIECES[:1], elsewhere, {})
    owner = Owner.here()
    assert store.claim(PIECES[:1], owner, store.claims()) is None
    monkeypatch.setattr(store_module, "LEASE", -1.0)
    store.beat(elsewhere)
    assert store.claim(PIECES[:1], owner, store.claims()) is None  # it was heard of since
    assert store.claim(PIECES[:1], owner, store.claims()) == PIECES[0]
    store.beat(elsewhere)  # too late: it is not its own any more
    assert store.claims()[PIECES[0].key].beat == 0


def test_a_released_piece_is_free(store: Store) -> None:
    owner = Owner.here()
    for _ in range(2):
        store.claim(PIECES[:2], owner, store.claims())
    store.finish(PIECES[0], PieceResult({}))
    store.release(owner.name)
    assert set(store.claims()) == {PIECES[0].key}


@pytest.mark.parametrize("looked", [False, True])
def test_failures_are_tried_again_until_a_test_class_is_seen(store: Store, looked: bool) -> None:
    pieces = [PIECES[0], Piece("trial", "glyphs", "", "raw_vthm", 0)]
    looks = [Piece("score", "glyphs", "", "margin", seed) for seed in range(2)] if looked else []
    for piece in pieces + looks:
        store.claim([piece], Owner.here(), {})
        store.finish(piece, PieceResult({}, failure="no memory" if piece.number == 0 else None))
    store.forget_failures()
    assert set(store.claims()) == ({piece.key for piece in [*pieces, looks[1]]} if looked else set())


def test_comparisons_do_not_see_each_other(store: Store, url: str) -> None:
    store.claim(PIECES[:1], Owner.here(), {})
    with closing(Store(Address(url), "two")) as other:
        assert other.plan() is None
        other.create({"plan": 2}, {"command": "y"})
        assert other.claims() == {}
        assert other.claim(PIECES[:1], Owner.here(), {}) == PIECES[0]
        assert other.plan() == ({"plan": 2}, {"command": "y"})
    assert store.plan() == ({"plan": 1}, {"command": "x"})


def planned(url: str, name: str) -> Store:
    store = Store(Address(url), name)
    store.create(plan_of().as_table(), {"command": "x"})
    return store


def with_more_seeds(looked: int) -> Plan:
    before = plan_of()
    return before.extended(replace(before, seeds=9), time="now", command="more", looked=looked)


def test_a_plan_is_extended_once_and_everybody_hears_of_it(url: str) -> None:
    with closing(planned(url, "plan")) as first, closing(Store(Address(url), "plan")) as second:
        assert second.progress().plan == first.progress().plan == plan_of()
        first.claim([Piece("score", "glyphs", "", "raw_vthm")], Owner.here(), {})
        first.claim([Piece("items", "glyphs")], Owner.here(), {})
        first.claim(PIECES[:1], Owner.here(), {})
        assert first.extend(with_more_seeds)
        assert not second.extend(with_more_seeds)  # it read the plan before
        assert second.progress().plan == first.progress().plan == with_more_seeds(2)  # two looks, one training
        assert second.extend(with_more_seeds)


def test_no_look_is_claimed_under_a_plan_that_has_grown(url: str) -> None:
    look, training = Piece("score", "glyphs", "", "raw_vthm"), PIECES[0]
    with closing(planned(url, "plan")) as first, closing(Store(Address(url), "plan")) as second:
        first.progress()
        second.progress()
        second.claim([Piece("items", "glyphs")], dead_owner(), {})
        assert first.extend(with_more_seeds)
        seen = second.claims()
        assert second.claim([look], Owner.here(), {}) is None
        assert second.claim([Piece("items", "glyphs")], Owner.here(), seen) is None  # nor taken over
        assert second.claims() == seen
        assert second.claim([training], Owner.here(), {}) == training  # what trains may go on
        second.progress()
        assert second.claim([look], Owner.here(), {}) == look
        assert second.claim([Piece("items", "glyphs")], Owner.here(), seen) == Piece("items", "glyphs")
