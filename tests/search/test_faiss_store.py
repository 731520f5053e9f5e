"""FaissStore with an index: it has the recall it says, sees what was added and not what was removed, and can be lost without loss."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from likewise.search.filters import parse_filter
from likewise.search.stores import exact_store, faiss_index, faiss_store, indexed_rows
from likewise.search.stores.exact_store import ExactStore
from likewise.search.stores.faiss_kinds import FAISS_KINDS, IvfPq
from likewise.search.stores.faiss_store import FaissStore

from ..optional import needs_package
from .made_items import made

WIDTH = 32
NUMBER = 3000


@pytest.fixture(autouse=True)
def _with_faiss_and_few_items(monkeypatch: pytest.MonkeyPatch) -> None:
    needs_package("faiss")
    monkeypatch.setattr(faiss_store, "LEAST_INDEXED", 1000)
    monkeypatch.setattr(faiss_store, "FEW", 100)


@pytest.fixture(params=FAISS_KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> FaissStore:
    """Three thousand items under an index."""
    store = FaissStore.create(tmp_path / "store", WIDTH, index=request.param)
    store.add(*made(NUMBER, WIDTH))
    store.prepare()
    assert store._index is not None
    return store


def cosines(store: FaissStore, queries: npt.NDArray[np.float32], where: list[str] | None = None) -> dict[int, npt.NDArray[np.float64]]:
    """Id -> its similarity with every query, by NumPy."""
    ids = store.ids(parse_filter(where or []))
    rows, given = store.vectors(ids.tolist()).astype(np.float64), queries.astype(np.float64)
    values = (rows / np.linalg.norm(rows, axis=1, keepdims=True)) @ (given / np.linalg.norm(given, axis=1, keepdims=True)).T
    return dict(zip(ids.tolist(), values, strict=True))


def checked_recall(store: FaissStore, queries: npt.NDArray[np.float32], k: int, where: list[str] | None = None) -> float:
    """How much of the k nearest is found; whatever is found is there, wanted, and as near as it is said to be, the nearest first."""
    truth = cosines(store, queries, where)
    ids, similarities = store.search(queries, k, where=parse_filter(where or []))
    there, found = min(k, len(truth)), []
    for number, (row, near) in enumerate(zip(ids.tolist(), similarities.tolist(), strict=True)):
        best = sorted((values[number] for values in truth.values()), reverse=True)[:there]
        assert row[there:] == [-1] * (k - there)
        assert len(set(row[:there])) == there
        np.testing.assert_allclose(near[:there], [truth[id][number] for id in row[:there]], atol=2e-6)
        assert near[:there] == sorted(near[:there], reverse=True)
        assert all(first < second for first, second, a, b in zip(row, row[1:there], near, near[1:], strict=False) if a == b)
        found += [value >= best[-1] - 2e-6 for value in near[:there]]
    return float(np.mean(found)) if found else 1.0


def test_the_index_has_the_recall_it_says(store: FaissStore) -> None:
    """Measured with other queries than its own."""
    assert store._index is not None
    recall = store._index.description.recall
    assert recall.reached >= 0.95
    assert (recall.target, recall.num_items, recall.num_queries) == (0.95, NUMBER, NUMBER // 10)
    _, queries = made(200, WIDTH, seed=5)
    assert checked_recall(store, queries, 10) >= 0.93
    assert f"finds {100 * recall.reached:.1f} % of the 10 nearest (95.0 % were asked for" in store.describe()["search"]
    assert checked_recall(store, 3 * queries[:4], 50) > 0.9
    assert checked_recall(store, queries[:2], NUMBER + 5) == 1  # all of them


def test_it_is_the_index_that_is_asked(store: FaissStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("all rows were looked at")

    monkeypatch.setattr(exact_store, "nearest_rows", never)
    monkeypatch.setattr(faiss_store, "nearest_rows", never)
    store.search(made(3, WIDTH, seed=6)[1], 10)
    FaissStore.open(store.folder).search(made(3, WIDTH, seed=6)[1], 10)


@pytest.mark.parametrize("kind", FAISS_KINDS)
def test_more_recall_takes_more_effort(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FAISS_KINDS["hnsw"], "LINKS", 5)
    items, _ = made(NUMBER, WIDTH)
    vectors = np.random.default_rng(0).standard_normal((NUMBER, WIDTH)).astype(np.float32)
    efforts, reached = [], []
    for target in (0.3, 0.999):
        store = FaissStore.create(tmp_path / str(target), WIDTH, index=kind, recall=target)
        store.add(items, vectors)
        store.prepare()
        assert store._index is not None
        recall = store._index.description.recall
        assert (recall.reached < target) == ("NOT reached" in store.describe()["search"])
        efforts.append(recall.effort)
        reached.append(recall.reached)
        store.close()
    assert efforts[0] < efforts[1]
    assert 0.3 <= reached[0] < 0.9 < reached[1]


def test_what_is_added_and_removed_after_the_index_was_built(store: FaissStore) -> None:
    """At once, for who writes and for who reads; a replaced item is found by its new vector alone."""
    reader = FaissStore.open(store.folder)
    _, queries = made(40, WIDTH, seed=9)
    new = store.add(*made(150, WIDTH, seed=9))
    for some in (store, reader):
        some.refresh()
        found, near = some.search(made(150, WIDTH, seed=9)[1], 3)
        assert np.mean([id in row for id, row in zip(new.tolist(), found.tolist(), strict=True)]) > 0.97  # copies may come first
        np.testing.assert_allclose(near[:, 0], 1, atol=1e-5)
        assert checked_recall(some, queries, 10) >= 0.93
    items, vectors = made(NUMBER, WIDTH)
    nearest = np.unique(store.search(queries, 5)[0])
    store.remove(nearest.tolist())
    replaced = store.find([item.path for item in items[:200]])
    store.add(items[:200], -vectors[:200])
    assert not set(replaced.values()) & set(store.ids().tolist())
    for some in (store, reader):
        some.refresh()
        assert not np.isin(some.search(queries, 10)[0], nearest).any()
        assert checked_recall(some, queries, 10) >= 0.85  # of these, the nearest are gone: it is others that have to be found
        assert checked_recall(some, made(100, WIDTH, seed=11)[1], 10) >= 0.92
    reader.close()


def test_filters_with_an_index(store: FaissStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few: all are compared. Many: the index is told whom it may find, and tries harder."""
    store.remove(range(1, 200, 3))
    store.add(*made(60, WIDTH, seed=4))
    _, queries = made(30, WIDTH, seed=2)
    monkeypatch.setattr(faiss_store, "FEW", 0)
    for where in (["label=Class 3"], ["year>=2010"], ["label~class"], ["path~/9"], ["label=nobody"]):
        is_few = len(store.ids(parse_filter(where))) <= len(store) // 20
        assert checked_recall(store, queries, 10, where) >= (1 if is_few else 0.9), where


def test_copies_come_in_the_order_of_their_ids(store: FaissStore) -> None:
    items, vectors = made(NUMBER, WIDTH)
    store.add(items[100:112], np.repeat(vectors[500:501], 12, axis=0))
    store.prepare(anew=True)
    found, near = store.search(vectors[500:501], 8)
    copies = np.flatnonzero(near[0] == near[0, 0])
    assert len(copies) >= 8
    assert (np.diff(found[0]) > 0).all()


def test_files_that_are_written_anew_keep_the_index(store: FaissStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows have other numbers then; the index knows items by their ids."""
    monkeypatch.setattr(exact_store, "MANY_REMOVED", 10)
    index, generation = store._index, store._view.rows.generation
    store.remove(store.ids()[: NUMBER // 2 + 5].tolist())
    assert store._view.rows.generation > generation
    reader = FaissStore.open(store.folder)
    _, queries = made(30, WIDTH, seed=3)
    for some in (store, reader):
        assert some._index is not None
        assert index is not None
        assert some._index.description == index.description
        assert checked_recall(some, queries, 10) >= 0.9
    reader.close()


@pytest.mark.parametrize("where", [[], ["year>=2010"]])
def test_faiss_and_numpy_compare_candidates_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: list[str]) -> None:
    """faiss reads the rows where they lie; where it cannot, as it is too old or the rows have other numbers, NumPy does the same."""
    store = FaissStore.create(tmp_path / "store", WIDTH, index="ivf_pq")
    store.add(*made(NUMBER, WIDTH))
    store.prepare()
    store.remove(range(5, 50))
    monkeypatch.setattr(faiss_store, "FEW", 0)
    _, queries = made(70, WIDTH, seed=5)
    by_faiss = store.search(queries, 10, where=parse_filter(where))
    assert store._last_covered is not None
    assert store._last_covered.indexed.refining is not None
    monkeypatch.setattr(indexed_rows, "refining_by", lambda index, rows: None)
    again = FaissStore.open(store.folder)
    by_numpy = again.search(queries, 10, where=parse_filter(where))
    assert again._last_covered is not None
    assert again._last_covered.indexed.refining is None
    np.testing.assert_array_equal(by_faiss[0], by_numpy[0])
    np.testing.assert_allclose(by_faiss[1], by_numpy[1], atol=1e-6)


def test_an_index_that_is_large_is_mapped(store: FaissStore, monkeypatch: pytest.MonkeyPatch) -> None:
    _, queries = made(20, WIDTH, seed=5)
    ids, near = store.search(queries, 10)
    monkeypatch.setattr(faiss_index, "MOST_IN_MEMORY", 0)
    again = FaissStore.open(store.folder)
    np.testing.assert_array_equal(again.search(queries, 10)[0], ids)
    np.testing.assert_array_equal(again.search(queries, 10)[1], near)
    again.close()


def test_it_is_extended_and_built_anew_as_it_grows(store: FaissStore) -> None:
    told: list[str] = []

    def tell(what: str, done: int, total: int) -> None:
        told.append(what)

    assert store._index is not None
    first = store._index.description
    store.prepare(on_progress=tell)
    store.add(*made(100, WIDTH, seed=1))
    store.prepare(on_progress=tell)
    assert told == []
    assert "100 items" in store.describe()["not in the index yet"]
    store.add(*made(600, WIDTH, seed=2))
    store.prepare(on_progress=tell)
    assert set(told) == {"indexing"}
    assert store._index.description.recall == first.recall
    assert store._index.description.last_id == NUMBER + 700
    assert store.describe()["not in the index yet"].startswith("0 items")
    assert checked_recall(store, made(50, WIDTH, seed=2)[1], 10) >= 0.93
    store.add(*made(NUMBER, WIDTH, seed=3))
    store.prepare(on_progress=tell)
    assert "measuring its recall" in told
    assert store._index.description.recall.num_items == 2 * NUMBER + 700
    assert len(list(store.folder.glob("faiss-*"))) == 2
    assert checked_recall(store, made(50, WIDTH, seed=2)[1], 10) >= 0.93


@pytest.mark.parametrize("what", ["missing", "cut", "nonsense", "description"])
def test_an_index_that_is_damaged_is_done_without_and_built_anew(store: FaissStore, what: str) -> None:
    (path,) = store.folder.glob("faiss-*.index")
    if what == "missing":
        path.unlink()
    elif what == "cut":
        content = path.read_bytes()
        path.unlink()  # who has it mapped keeps what is mapped
        path.write_bytes(content[: len(content) // 2])
    elif what == "nonsense":
        path.unlink()
        path.write_bytes(b"nonsense")
    else:
        (store.folder / faiss_index.DESCRIPTION).write_bytes(b"{")
    again = FaissStore.open(store.folder)
    assert again._index is None
    _, queries = made(10, WIDTH, seed=3)
    assert checked_recall(again, queries, 10) == 1
    assert "every item" in again.describe()["search"]
    again.prepare()
    assert again._index is not None
    assert checked_recall(again, queries, 10) >= 0.9
    again.close()


PREPARE = """
import sys
from pathlib import Path
from likewise.search.stores import faiss_store
faiss_store.LEAST_INDEXED = 1000
store = faiss_store.FaissStore.open(Path(sys.argv[1]))
print("opened", flush=True)
while True:
    store.prepare(anew=True)
    print("built", flush=True)
"""


def test_killed_while_it_builds(store: FaissStore) -> None:
    """The one before is there, or the new one; nothing that was added is lost; what was left half-written goes with the next."""
    for pause in (0.05, 0.3):
        process = subprocess.Popen([sys.executable, "-c", PREPARE, str(store.folder)], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stdout.readline() == "opened\n"
        time.sleep(pause)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        again = FaissStore.open(store.folder)
        assert again._index is not None
        assert checked_recall(again, made(5, WIDTH, seed=3)[1], 10) >= 0.8
        assert len(again) == NUMBER
        again.close()
    store.prepare(anew=True)
    assert len(list(store.folder.glob("faiss-*"))) == 2
    assert not [path for path in store.folder.iterdir() if path.name.startswith(".faiss")]


def test_compaction_while_it_builds_does_no_harm(store: FaissStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process may remove, and write the files anew, while this one builds of the rows that it has mapped."""
    monkeypatch.setattr(exact_store, "MANY_REMOVED", 10)
    build = faiss_index.FaissIndex.build

    def build_late(*values: Any) -> Any:
        other = FaissStore.open(store.folder)
        other.remove(other.ids()[::2].tolist())
        other.remove(other.ids()[:30].tolist())
        other.close()
        return build(*values)

    monkeypatch.setattr(faiss_index.FaissIndex, "build", build_late)
    store.prepare(anew=True)
    assert store._view.rows.generation > 0
    assert len(store) == NUMBER // 2 - 30
    assert checked_recall(store, made(20, WIDTH, seed=3)[1], 10) >= 0.9


@pytest.mark.parametrize(
    ("width", "options", "said"),
    [
        (WIDTH, {"recall": 0}, "recall is 0"),
        (WIDTH, {"index": "annoy"}, "hnsw"),
        (30, {"index": "ivf_pq"}, "multiple of 8"),
    ],
)
def test_options_that_cannot_work_are_told(tmp_path: Path, width: int, options: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        FaissStore.create(tmp_path / "store", width, **options)
    assert not (tmp_path / "store").exists()


def test_without_faiss_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    FaissStore.create(tmp_path / "store", WIDTH).close()
    monkeypatch.setitem(sys.modules, "faiss", None)
    make: list[Callable[[], object]] = [
        lambda: FaissStore.create(tmp_path / "another", WIDTH),
        lambda: FaissStore.open(tmp_path / "store"),
    ]
    for one in make:
        with pytest.raises(ValueError, match=r'pip install "likewise\[faiss\]"'):
            one()
    assert not (tmp_path / "another").exists()


def test_an_index_for_few_items_has_short_codes(tmp_path: Path) -> None:
    """faiss would warn of a training with too little."""
    assert IvfPq().make(WIDTH, 500).pq.nbits == 4
    assert IvfPq().make(WIDTH, 20_000).pq.nbits == 8


def test_the_rows_are_those_of_the_exact_store(store: FaissStore) -> None:
    """So that either can read them."""
    exact = ExactStore.open(store.folder)
    np.testing.assert_array_equal(exact.vectors([1, 2]), store.vectors([1, 2]))
    exact.close()
