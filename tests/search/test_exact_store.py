"""ExactStore: finds what likewise.nearest finds among the stored vectors, keeps what it acknowledged, and is seen by other processes."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from likewise import nearest
from likewise.search.filters import parse_filter
from likewise.search.item import Item
from likewise.search.stores import bounded_search, exact_store
from likewise.search.stores.exact_store import MANY_REMOVED, ExactStore
from likewise.search.stores.row_kinds import ROW_KINDS

WIDTH = 24
PLACES = ("harbour", "Old Harbour", "forest", None)


def unit(count: int, seed: int = 0, width: int = WIDTH) -> npt.NDArray[np.float32]:
    """Unit rows in classes, some of them equal."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(max(count // 10, 1), width))[rng.integers(0, max(count // 10, 1), count)] + 0.3 * rng.normal(
        size=(count, width)
    )
    rows[count // 2] = rows[0]
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def items(count: int, start: int = 0) -> list[Item]:
    return [
        Item(
            f"/images/{number}.jpg",
            f"{number:064x}",
            None if number % 5 == 0 else f"class {number % 3}",
            {"year": 2000 + number % 20, "place": PLACES[number % 4], "sold": number % 2 == 0},
        )
        for number in range(start, start + count)
    ]


def filled(folder: Path, count: int = 300, **options: Any) -> tuple[ExactStore, npt.NDArray[np.float32]]:
    store = ExactStore.create(folder, WIDTH, **options)
    vectors = unit(count)
    for start in range(0, count, 70):
        ids = store.add(items(count)[start : start + 70], vectors[start : start + 70])
        assert ids.tolist() == list(range(start + 1, start + 1 + len(ids)))
    return store, vectors


@pytest.mark.parametrize("rows", ROW_KINDS)
@pytest.mark.parametrize("num_queries", [1, 2, 7])
@pytest.mark.parametrize("block", [64, 1 << 14])
def test_finds_what_nearest_finds(rows: str, num_queries: int, block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_search, "BLOCK", block)
    monkeypatch.setattr(bounded_search, "WORTH_THREADS", 0)
    store, vectors = filled(tmp_path / "store", rows=rows)
    store.remove([4, 5, 290])
    queries = 3 * unit(num_queries, seed=1)
    queries[0] = vectors[0]
    for conditions in ([], ["year>=2005"], ["place~HARBOUR", "sold=true"], ["label="]):
        where = parse_filter(conditions)
        expected_ids = np.array([id for id in range(1, 301) if id not in (4, 5, 290)])
        expected_ids = np.array([id for id in expected_ids if all(condition.holds(items(300)[id - 1]) for condition in where)])
        assert store.ids(where).tolist() == expected_ids.tolist()
        index, similarity = nearest(queries, store.vectors(expected_ids.tolist()), 9)
        ids, found = store.search(queries, 9, where=where)
        np.testing.assert_array_equal(ids, expected_ids[index.numpy()])
        np.testing.assert_array_equal(found, similarity.numpy())


@pytest.mark.parametrize(("rows", "tolerance"), [("float32", 1e-7), ("float16", 1e-3), ("int8", 1e-3), ("bits", 1e-3)])
def test_vectors_are_what_was_added(rows: str, tolerance: float, tmp_path: Path) -> None:
    store, vectors = filled(tmp_path / "store", rows=rows)
    np.testing.assert_allclose(store.vectors([3, 1]), vectors[[2, 0]], rtol=0, atol=tolerance)
    blocks = list(store.blocks(128))
    assert [len(ids) for ids, _ in blocks] == [128, 128, 44]
    np.testing.assert_allclose(np.concatenate([part for _, part in blocks]), vectors, rtol=0, atol=tolerance)


def test_a_bound_that_is_too_loose_costs_time_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """300 items as good as equal: no few candidates can settle it, and the order is still that of the exact similarities."""
    monkeypatch.setattr(type(ROW_KINDS["int8"]), "num_candidates", lambda self, k: k)
    rng = np.random.default_rng(0)
    vectors = (unit(1)[0] + 1e-3 * rng.normal(size=(300, WIDTH))).astype(np.float32)
    store = ExactStore.create(tmp_path / "store", WIDTH, rows="int8")
    store.add(items(300), vectors)
    index, _ = nearest(vectors[:3], store.vectors(range(1, 301)), 5)
    np.testing.assert_array_equal(store.search(vectors[:3], 5)[0], index.numpy() + 1)


def test_of_fewer_than_k_the_rest_is_empty(tmp_path: Path) -> None:
    store = ExactStore.create(tmp_path / "store", WIDTH)
    ids, similarities = store.search(unit(2), 3)
    assert ids.tolist() == [[-1] * 3] * 2
    assert np.isneginf(similarities).all()
    store.add(items(2), unit(2))
    assert store.search(unit(2), 3)[0].tolist() == [[1, 2, -1]] * 2
    assert store.search(unit(1), 3, where=parse_filter(["year>2050"]))[0].tolist() == [[-1] * 3]


def test_a_path_has_one_item(tmp_path: Path) -> None:
    store, vectors = filled(tmp_path / "store")
    again = Item("/images/7.jpg", "changed", "gull", {"colour": "grey"})
    assert store.add([again], vectors[:1]).tolist() == [301]
    assert len(store) == 300
    assert store.find(["/images/7.jpg", "/nowhere", "/images/0.jpg"]) == {"/images/7.jpg": 301, "/images/0.jpg": 1}
    assert store.items([301, 1]) == [again, items(1)[0]]
    for gone in (8, 302):
        with pytest.raises(KeyError):
            store.items([gone])
        with pytest.raises(KeyError):
            store.vectors([gone])
    with pytest.raises(ValueError, match=r"/images/3\.jpg is there twice"):
        store.add([items(4)[3], items(4)[3]], vectors[:2])
    assert store.columns() == {"colour": 1, "place": 225, "sold": 299, "year": 299}
    assert store.ids(parse_filter(["colour=grey"])).tolist() == [301]
    assert store.remove([301, 8, 1]) == 2
    assert store.columns() == {"place": 224, "sold": 298, "year": 298}


def test_names_need_not_be_text(tmp_path: Path) -> None:
    store = ExactStore.create(tmp_path / "store", WIDTH)
    odd = Item("/images/\udcff'\"\n.jpg", "d", "\udcfe", {"a 'b\" $.c": "\udcfd", "": 1.5})
    store.add([odd], unit(1))
    assert store.items([1]) == [odd]
    assert store.find([odd.path]) == {odd.path: 1}


def test_what_is_added_elsewhere_is_seen(tmp_path: Path) -> None:
    writer, vectors = filled(tmp_path / "store")
    reader = ExactStore.open(tmp_path / "store")
    writer.remove([1])
    writer.add(items(1, start=300), -vectors[:1])
    assert len(reader) == 300
    reader.refresh()
    assert reader.ids().tolist() == [*range(2, 302)]
    assert reader.search(-vectors[:1], 1)[0].tolist() == [[301]]
    assert reader.ids(parse_filter(["path=/images/300.jpg"])).tolist() == [301]


def test_a_store_that_was_made_anew_is_not_taken_for_the_old_one(tmp_path: Path) -> None:
    store, _ = filled(tmp_path / "store")
    (tmp_path / "store").rename(tmp_path / "old")
    filled(tmp_path / "store", 400)
    with pytest.raises(OSError, match="deleted, moved or made anew since it was opened: open it again"):
        store.refresh()


def test_many_removed_rows_are_dropped_from_the_files(tmp_path: Path) -> None:
    store = ExactStore.create(tmp_path / "store", WIDTH, rows="int8")
    count = 2 * MANY_REMOVED
    vectors = unit(count)
    store.add(items(count), vectors)
    where = parse_filter(["year<2010"])
    reader, slow_reader = ExactStore.open(tmp_path / "store"), ExactStore.open(tmp_path / "store")
    expected, before = reader.ids(where).tolist(), slow_reader.search(vectors[:3], 5)
    size = (tmp_path / "store" / "rows-0.float16").stat().st_size
    store.remove(range(1, count, 2))
    assert not list((tmp_path / "store").glob("rows-0.*"))
    assert (tmp_path / "store" / "rows-1.float16").stat().st_size == size // 2
    np.testing.assert_array_equal(slow_reader.search(vectors[:3], 5)[0], before[0])  # of the files that it has mapped
    assert slow_reader.ids(where).tolist() == [id for id in expected if id % 2 == 0]  # whose columns cannot be read any more
    with pytest.raises(KeyError):
        store.vectors([1])
    kept = np.arange(2, count + 1, 2)
    for each in (store, ExactStore.open(tmp_path / "store"), reader, slow_reader):
        each.refresh()
        assert each.ids().tolist() == kept.tolist()
        assert each.ids(where).tolist() == [id for id in expected if id % 2 == 0]
        index, _ = nearest(vectors[:4], each.vectors(kept.tolist()), 6)
        np.testing.assert_array_equal(each.search(vectors[:4], 6)[0], kept[index.numpy()])


def test_rows_that_were_never_acknowledged_are_written_over(tmp_path: Path) -> None:
    store, vectors = filled(tmp_path / "store", count=70)
    file = tmp_path / "store" / "rows-0.float16"
    whole = file.read_bytes()
    file.write_bytes(whole + b"\x01" * 1001)  # what a process that was killed left
    again = ExactStore.open(tmp_path / "store")
    assert len(again) == 70
    again.add(items(2, start=70), vectors[:2])
    np.testing.assert_array_equal(again.vectors([71, 72]), store.vectors([1, 2]))


def test_a_fault_while_rows_are_written_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, vectors = filled(tmp_path / "store", count=70)
    with monkeypatch.context() as broken:
        broken.setattr("os.fsync", lambda handle: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        with pytest.raises(OSError, match="No space"):
            store.add(items(2, start=70), vectors[:2])
    assert len(store) == 70
    assert store.add(items(2, start=70), vectors[:2]).tolist() == [71, 72]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda store: store.search(unit(1)[:, :5], 3), r"queries of shape \(1, 5\): expected \(queries, 24\)"),
        (lambda store: store.search(unit(1)[0], 3), r"queries of shape \(24,\)"),
        (lambda store: store.search(unit(1), 0), "k is 0: expected a whole number"),
        (lambda store: store.search(unit(1) * np.nan, 1), "NaN or infinity"),
        (lambda store: store.add(items(3), unit(2)), r"vectors of shape \(2, 24\) for 3 items"),
        (lambda store: store.add(items(1), unit(1) * np.inf), "NaN or infinity"),
        (lambda store: ExactStore.create(store.folder, 3), "is not empty"),
        (lambda store: ExactStore.create(store.folder / "new", 3, rows="int4"), r"rows is 'int4': expected one of 'float16', 'float32'"),
        (lambda store: ExactStore.create(store.folder / "new", 3, row="int8"), "did you mean 'rows'"),
        (lambda store: ExactStore.open(store.folder / "elsewhere"), r"items\.sqlite is missing"),
    ],
)
def test_faults_in_words(call: Any, message: str, tmp_path: Path) -> None:
    store, _ = filled(tmp_path / "store", count=70)
    with pytest.raises(ValueError, match=message):
        call(store)


def test_damage_in_words(tmp_path: Path) -> None:
    store, _ = filled(tmp_path / "store", count=70)
    store.close()
    rows = tmp_path / "store" / "rows-0.float16"
    rows.write_bytes(rows.read_bytes()[:-1])
    with pytest.raises(OSError, match="it was cut"):
        ExactStore.open(tmp_path / "store")
    rows.unlink()
    with pytest.raises(FileNotFoundError, match="files of rows are missing"):
        ExactStore.open(tmp_path / "store")
    (tmp_path / "store" / "items.sqlite").write_bytes(b"no database" * 100)
    with pytest.raises(ValueError, match="is damaged"):
        ExactStore.open(tmp_path / "store")


def test_the_copy_is_whole(tmp_path: Path) -> None:
    store, vectors = filled(tmp_path / "store", count=70)
    store.copy(tmp_path / "copy")
    again = ExactStore.open(tmp_path / "copy")
    np.testing.assert_array_equal(again.search(vectors, 5)[0], store.search(vectors, 5)[0])
    assert sqlite3.connect(tmp_path / "copy" / "items.sqlite").execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_full_disk_in_words(tmp_path: Path) -> None:
    """Of the table, where SQLite finds it: nothing of what was to be added is kept."""
    store, _ = filled(tmp_path / "store", count=70)
    pages = store._table._database.execute("PRAGMA page_count").fetchone()[0]
    store._table._database.execute(f"PRAGMA max_page_count = {pages + 2}")
    with pytest.raises(OSError, match=r"cannot be written \(database or disk is full\): nothing of this was kept"):
        store.add(items(2000, start=70), unit(2000))
    assert len(store) == 70
    store._table._database.execute("PRAGMA max_page_count = 1000000")
    assert len(store.add(items(2000, start=70), unit(2000))) == 2000


def test_who_searches_meanwhile_sees_whole_states(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process may add, remove and write the files anew: what is found is always what stands beside the item."""
    monkeypatch.setattr(exact_store, "MANY_REMOVED", 50)
    vectors = unit(2000)
    ExactStore.create(tmp_path / "store", WIDTH).close()
    is_over = threading.Event()
    faults: list[BaseException] = []
    num_searches = 0

    def search() -> None:
        nonlocal num_searches
        reader = ExactStore.open(tmp_path / "store")
        try:
            while not is_over.is_set():
                reader.refresh()
                ids, similarities = reader.search(vectors[:2], 8, where=parse_filter(["sold=true", "path~.jpg"]))
                for query, row, values in zip(vectors, ids.tolist(), similarities.tolist(), strict=False):
                    with suppress(KeyError):  # removed since
                        found = reader.items([id for id in row if id >= 0])
                        of_items = [vectors[int(item.path[len("/images/") : -len(".jpg")])] @ query for item in found]
                        np.testing.assert_allclose(values[: len(found)], of_items, atol=2e-3)
                        assert all(item.metadata["sold"] for item in found)
                num_searches += 1
        except BaseException as fault:
            faults.append(fault)
        finally:
            reader.close()

    readers = [threading.Thread(target=search) for _ in range(2)]
    for reader in readers:
        reader.start()
    writer = ExactStore.open(tmp_path / "store")
    for start in range(0, 2000, 100):
        writer.add(items(2000)[start : start + 100], vectors[start : start + 100])
        writer.remove(writer.ids()[:-40].tolist())
    is_over.set()
    for reader in readers:
        reader.join()
    assert faults == []
    assert num_searches > 5
    assert writer._view.rows.generation > 5


def test_what_cannot_be_written_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that is mounted to be read only."""
    store, vectors = filled(tmp_path / "store #1 100%", count=70)
    expected = store.search(vectors, 3)[0]
    monkeypatch.setattr("os.access", lambda path, mode: False)
    with pytest.raises(ValueError, match=r"items.sqlite-wal holds changes that are not in items\.sqlite yet"):
        ExactStore.open(store.folder)
    store.close()
    read_only = ExactStore.open(store.folder)
    np.testing.assert_array_equal(read_only.search(vectors, 3)[0], expected)
    assert len(read_only.ids(parse_filter(["year>=2005"]))) == 50
    with pytest.raises(OSError, match="cannot be written"):
        read_only.remove([1])
    assert not (store.folder / "items.sqlite-shm").exists()
