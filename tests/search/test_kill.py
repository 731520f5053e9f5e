"""kill -9 at any moment loses nothing that was acknowledged, and leaves nothing half done."""

from __future__ import annotations

import itertools
import multiprocessing
import random
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from likewise.search import intake
from likewise.search.index import Index
from likewise.search.item import Item
from likewise.search.stores import exact_store
from likewise.search.stores.exact_store import ExactStore

from .pictures import class_folders, small_embedder

pytestmark = pytest.mark.filterwarnings("ignore:.*fork")  # a forked process starts at once, so that many can be killed
WIDTH, AT_ONCE = 16, 40
State = dict[str, str]  # path -> digest


def added(number: int) -> list[Item]:
    """By an operation that adds: half are new, half replace what is there, or was."""
    first = number * AT_ONCE // 2
    return [Item(f"/{first + place}.jpg", str(number * AT_ONCE + place)) for place in range(AT_ONCE)]


def removed(number: int) -> list[str]:
    """By an operation that removes."""
    return [item.path for before in (number - 3, number - 2) for item in added(before)]


def is_removal(number: int) -> bool:
    return number % 4 == 3


def after(state: State, number: int) -> State:
    if is_removal(number):
        return {path: digest for path, digest in state.items() if path not in removed(number)}
    return {**state, **{item.path: item.digest for item in added(number)}}


def vector(digest: str) -> npt.NDArray[np.float32]:
    """What must stand beside an item."""
    made = np.random.default_rng(int(digest)).normal(size=WIDTH)
    return (made / np.linalg.norm(made)).astype(np.float32)


def operate(folder: Path, first: int, told: Connection) -> None:
    """One operation after the other, each told when it is done."""
    store = ExactStore.open(folder)
    for number in itertools.count(first):
        if is_removal(number):
            store.remove(list(store.find(removed(number)).values()))
        else:
            store.add(added(number), np.stack([vector(item.digest) for item in added(number)]))
        told.send(number)


def killed(work: Callable[..., None], *given: object, after_seconds: float, after_number: int = -1) -> list[int]:
    """What a process had told when it was killed, so long after it first told of more than that number, or of its end (-1)."""
    context = multiprocessing.get_context("fork")
    heard, told = context.Pipe(duplex=False)
    process = context.Process(target=work, args=(*given, told), daemon=True)
    process.start()
    told.close()
    numbers = [heard.recv()]
    while -1 < numbers[-1] <= after_number:
        numbers.append(heard.recv())
    time.sleep(after_seconds)
    process.kill()
    process.join()
    while True:
        try:
            numbers.append(heard.recv())
        except EOFError:
            return numbers


@pytest.mark.parametrize("rows", ["float16", "int8"])
def test_a_store_keeps_what_it_acknowledged(rows: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is there is the outcome of all operations that were acknowledged, and perhaps of the next one as a whole."""
    monkeypatch.setattr(exact_store, "MANY_REMOVED", 30)  # so that files are written anew every few operations
    folder = tmp_path / "store"
    ExactStore.create(folder, WIDTH, rows=rows).close()
    rng = random.Random(rows)
    state: State = {}
    done = 0
    rounds = 0
    while rounds < 15 or done < 40:
        rounds += 1
        told = killed(operate, folder, done, after_seconds=rng.uniform(0, 0.1))
        assert told == list(range(done, done + len(told)))
        for number in told:
            state = after(state, number)
        done += len(told)
        store = ExactStore.open(folder)
        ids = store.ids().tolist()
        there = {item.path: item.digest for item in store.items(ids)}
        if there != state:
            state, done = after(state, done), done + 1
        assert there == state
        expected = np.stack([vector(item.digest) for item in store.items(ids)])
        np.testing.assert_allclose(store.vectors(ids), expected, atol=1e-3)
        np.testing.assert_array_equal(store.search(expected[:20], 1)[0][:, 0], ids[:20])
        store.close()


def build(photos: Path, out: Path, told: Connection) -> None:
    def tell(what: str, number: int, total: int) -> None:
        told.send(number)
        time.sleep(0.02)  # so that on no machine it is over before it can be killed

    Index.build(small_embedder(), photos, out=out, on_progress=tell)
    told.send(-1)
    time.sleep(100)


def test_a_build_goes_on_where_it_was_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "CHUNK", 4)
    photos = class_folders(tmp_path / "photos", classes=4, images=20)
    rng = random.Random(0)
    kills = 0
    told = [0]
    there = 0
    while told[-1] != -1:
        told = killed(build, tmp_path / "photos", tmp_path / "index", after_seconds=rng.uniform(0, 0.1), after_number=there)
        there = len(Index.load(tmp_path / "index"))
        assert there >= max(told) - 4  # but for the chunk under way
        kills += 1
    assert kills > 2
    index = Index.load(tmp_path / "index")
    assert len(index) == len(photos)
    found = index.search_many(photos, 1)
    assert [hits[0].path for hits in found] == [str(path) for path in photos]
    assert not (tmp_path / "index" / "writer.json").exists()
