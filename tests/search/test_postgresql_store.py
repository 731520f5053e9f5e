"""PostgresqlStore on a real server: its HNSW index, servers and clients that die in the middle, passwords, what cannot work in words."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import psutil
import pytest

from likewise.comparison.running.database import DatabaseFault
from likewise.search.filters import parse_filter
from likewise.search.index import Index
from likewise.search.item import Item
from likewise.search.stores import postgresql_store
from likewise.search.stores.postgresql import nearest_sql, vector_table
from likewise.search.stores.postgresql_store import PostgresqlStore

from .made_items import made
from .pictures import class_folders, small_embedder

WIDTH = 32
SECRET = "hunter2secret"


@pytest.fixture
def create(tmp_path: Path, database: str) -> Callable[..., PostgresqlStore]:
    def make(name: str = "store", **options: Any) -> PostgresqlStore:
        return PostgresqlStore.create(tmp_path / "photos.index" / name, WIDTH, **{"address": database, **options})

    return make


@pytest.fixture
def indexed(create: Callable[..., PostgresqlStore], monkeypatch: pytest.MonkeyPatch) -> PostgresqlStore:
    """Three thousand items under an HNSW index."""
    monkeypatch.setattr(postgresql_store, "LEAST_INDEXED", 1000)
    store = create()
    store.add(*made(3000, WIDTH))
    store.prepare()
    return store


def nearest_ids(vectors: npt.NDArray[np.float32], queries: npt.NDArray[np.float32], k: int) -> npt.NDArray[np.int64]:
    """By the whole matrix of similarities; ids count from 1."""
    return np.argsort(-(queries @ vectors.T), axis=1, kind="stable")[:, :k] + 1


def never(*_: object) -> None:
    raise AssertionError("all rows were looked at")


def test_the_index_reaches_the_recall_it_says(indexed: PostgresqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """With queries that are no items, and without a look at all rows."""
    monkeypatch.setattr(postgresql_store, "nearest_by_scan", never)
    recall = indexed._table.settings.recall
    assert recall is not None
    assert recall.reached >= 0.95
    assert (recall.num_items, recall.num_queries) == (3000, 300)
    _, vectors = made(3000, WIDTH)
    _, queries = made(100, WIDTH, seed=5)
    ids, similarities = indexed.search(queries, 10)
    truth = np.sort(queries @ vectors.T, axis=1)[:, -10:]
    assert (similarities >= truth[:, :1] - 1e-3).mean() >= 0.93
    stored = indexed.vectors(ids.flatten().tolist()).reshape(100, 10, WIDTH)
    cosines = np.einsum("qw,qkw->qk", queries, stored) / np.linalg.norm(stored, axis=2)
    np.testing.assert_allclose(similarities, cosines, atol=1e-6)
    assert (np.diff(similarities, axis=1) <= 0).all()
    words = indexed.describe()["search"]
    assert f"{100 * recall.reached:.1f} % of the 10 nearest" in words
    assert "95.0 % were asked for" in words
    other = PostgresqlStore.open(indexed.folder)  # every client searches as hard as the one that measured
    assert other._table.settings == indexed._table.settings
    other.close()


def test_more_recall_takes_more_effort(create: Callable[..., PostgresqlStore], monkeypatch: pytest.MonkeyPatch) -> None:
    """Points without any structure are hard: the effort goes up until it suffices, and what does not suffice is told."""
    monkeypatch.setattr(postgresql_store, "LEAST_INDEXED", 1000)
    monkeypatch.setattr(postgresql_store, "EFFORTS", (1, 2, 4, 8, 16, 32, 64))
    items, _ = made(2500, WIDTH)
    vectors = np.random.default_rng(0).standard_normal((2500, WIDTH)).astype(np.float32)
    efforts = []
    for number, target in enumerate((0.3, 0.9, 1.0)):
        store = create(str(number), recall=target)
        store.add(items, vectors)
        store.prepare()
        recall = store._table.settings.recall
        assert recall is not None
        assert recall.reached >= target or (recall.effort == 64 and "NOT reached" in store.describe()["search"])
        efforts.append(recall.effort)
        store.close()
    assert efforts == sorted(efforts)
    assert efforts[0] < efforts[-1]


def test_filters_with_an_index(indexed: PostgresqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where few fulfil the conditions these are all compared; where many do, k of them are found; where the index gives up, all are."""
    _, vectors = made(3000, WIDTH)
    stored = indexed.vectors(range(1, 3001))
    queries = vectors[:20]
    for where in (["label=Class 3"], ["year>=2010"], ["path~99"], ["label=nobody"]):
        for few in (10_000, 10, -1):
            monkeypatch.setattr(nearest_sql, "FEW", few)
            allowed = indexed.ids(parse_filter(where))
            ids, similarities = indexed.search(queries, 10, where=parse_filter(where))
            there = min(10, len(allowed))
            assert np.isin(ids[:, :there], allowed).all()
            assert (ids[:, there:] == -1).all()
            if there:
                some = stored[allowed - 1]
                cosines = np.sort(queries @ (some / np.linalg.norm(some, axis=1, keepdims=True)).T, axis=1)[:, ::-1][:, :there]
                is_found = similarities[:, :there] >= cosines[:, -1:] - 1e-5
                assert is_found.mean() >= (1 if len(allowed) <= few else 0.9), (where, few)


def test_an_index_that_gives_up_is_helped_out(indexed: PostgresqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """pgvector stops after some number of rows that do not fulfil the conditions."""
    monkeypatch.setattr(nearest_sql, "FEW", -1)
    indexed._table.connections.set_session({"hnsw.ef_search": "20", "hnsw.iterative_scan": "off"})
    allowed = indexed.ids(parse_filter(["path~99"]))
    assert 20 < len(allowed) < 200
    ids, _ = indexed.search(made(5, WIDTH, seed=2)[1], 20, where=parse_filter(["path~99"]))
    assert np.isin(ids, allowed).all()


def test_what_is_added_after_the_index_is_found(indexed: PostgresqlStore) -> None:
    items, vectors = made(40, WIDTH, seed=8, prefix="/new")
    ids = indexed.add(items, vectors)
    found, _ = indexed.search(vectors, 3)
    assert np.mean([number in row for number, row in zip(ids.tolist(), found.tolist(), strict=True)]) > 0.9
    indexed.remove(ids[:20].tolist())
    found, _ = indexed.search(vectors, 3)
    assert not np.isin(found, ids[:20]).any()


def test_the_index_is_built_once_and_again_when_items_doubled(indexed: PostgresqlStore) -> None:
    told: list[str] = []
    indexed.prepare(on_progress=lambda what, done, total: told.append(what))
    assert told == []
    indexed.add(*made(3100, WIDTH, seed=1))
    indexed.prepare(on_progress=lambda what, done, total: told.append(what))
    assert set(told) == {"HNSW index of 6,100 items", "measuring its recall"}
    assert indexed._table.settings.recall is not None
    assert indexed._table.settings.recall.num_items == 6100
    told.clear()
    indexed.prepare(anew=True, on_progress=lambda what, done, total: told.append(what))
    assert told
    names = "SELECT indexname FROM pg_indexes WHERE tablename = '{name}' AND indexdef LIKE '%%hnsw (vector%%'"
    assert len(indexed._table.rows(names)) == 1
    assert indexed._table.rows("SELECT count(*) FROM {name} WHERE held") == [(0,)]


@pytest.mark.parametrize("again", [False, True])
def test_what_is_held_out_while_it_is_measured_is_found(
    create: Callable[..., PostgresqlStore], monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    """By other clients meanwhile, and after a process was killed in between; the next one goes on."""
    monkeypatch.setattr(postgresql_store, "LEAST_INDEXED", 100)
    store = create()
    _, vectors = made(1000, WIDTH)
    store.add(*made(1000, WIDTH))
    if again:
        store.prepare()
    with monkeypatch.context() as patch:
        patch.setattr(PostgresqlStore, "_measure", never)
        with pytest.raises(AssertionError):
            store.prepare(anew=True)
    other = PostgresqlStore.open(store.folder)
    assert (other._table.settings.recall is None) == (not again)
    held = [number for (number,) in other._table.rows("SELECT id FROM {name} WHERE held")]
    assert len(held) == 100
    for where in ([], ["path~jpg"]):
        monkeypatch.setattr(nearest_sql, "FEW", 0)
        found, near = other.search(vectors[np.array(held) - 1], 3, where=parse_filter(where))
        assert (
            np.mean([number in row for number, row in zip(held, found.tolist(), strict=True)]) > 0.97
        )  # of many copies, others come first
        np.testing.assert_allclose(near[:, 0], 1, atol=1e-3)
    other.prepare(anew=again)
    assert other._table.settings.recall is not None
    assert other._table.rows("SELECT count(*) FROM {name} WHERE held") == [(0,)]
    found, _ = other.search(vectors[np.array(held) - 1], 3)
    assert np.mean([number in row for number, row in zip(held, found.tolist(), strict=True)]) > 0.9
    other.close()


def test_too_many_dimensions_for_an_index_are_searched_all_the_same(tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgresql_store, "LEAST_INDEXED", 10)
    store = PostgresqlStore.create(tmp_path / "wide", 4100, address=database)
    items, vectors = made(30, 4100)
    store.add(items, vectors)
    store.prepare()
    assert store.search(vectors[:1], 1)[0].tolist() == [[1]]
    assert "every item" in store.describe()["search"]
    store.close()


ADD_FOR_EVER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from tests.search.made_items import made
from likewise.search.stores.postgresql_store import PostgresqlStore
store = PostgresqlStore.open(Path(sys.argv[1]))
seed = 0
while True:
    store.add(*made(100, 32, seed=seed))
    print(seed, flush=True)
    seed += 1
"""


def test_nothing_that_was_acknowledged_is_lost_when_the_client_is_killed(create: Callable[..., PostgresqlStore]) -> None:
    store = create()
    root = Path(__file__).parent.parent.parent
    client = subprocess.Popen([sys.executable, "-c", ADD_FOR_EVER, str(store.folder), str(root)], stdout=subprocess.PIPE, text=True)
    assert client.stdout is not None
    lines = [client.stdout.readline() for _ in range(4)]
    time.sleep(0.013)
    client.kill()
    lines += client.stdout.read().splitlines()
    client.wait()
    client.stdout.close()
    deadline = time.monotonic() + 20
    items, vectors = made(1, WIDTH, seed=10**6)
    store.add(items, vectors)  # waits until the server has noticed
    assert time.monotonic() < deadline
    seeds = [int(line) for line in lines]
    assert seeds[:4] == [0, 1, 2, 3]
    paths = {item.path for item in store.items(store.ids().tolist())} - {items[0].path}
    assert len(paths) % 100 == 0
    assert all({item.path for item in made(100, WIDTH, seed=seed)[0]} <= paths for seed in seeds)
    assert len(store) == len(paths) + 1
    store.close()


def test_several_writers_and_readers_at_once(create: Callable[..., PostgresqlStore]) -> None:
    """Each with connections of its own, all of them replacing the same paths: one item a path in the end, and every answer whole."""
    store = create()
    items, vectors = made(60, WIDTH)
    faults: list[BaseException] = []

    def write(start: int) -> None:
        own = PostgresqlStore.open(store.folder)
        try:
            for turn in range(5):
                own.add(items[start:] + items[:start], np.roll(vectors, -start, axis=0))
                own.remove([own.find([items[turn].path]).get(items[turn].path, -1)])
        except BaseException as fault:
            faults.append(fault)
        own.close()

    def read() -> None:
        own = PostgresqlStore.open(store.folder)
        try:
            for _ in range(20):
                ids, similarities = own.search(vectors[:4], 5)
                assert ((ids > 0) == np.isfinite(similarities)).all()
        except BaseException as fault:
            faults.append(fault)
        own.close()

    threads = [*(threading.Thread(target=write, args=[start]) for start in (0, 20, 40)), *(threading.Thread(target=read) for _ in range(3))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    store.refresh()
    ids = store.ids().tolist()
    paths = [item.path for item in store.items(ids)]
    assert len(store) == len(ids) == len(set(paths)) >= 55
    assert store.columns() == {
        column: sum(item.metadata.get(column) is not None for item in store.items(ids)) for column in ("Ort", "year", "label")
    }
    store.close()


def test_a_password_is_never_written(tmp_path: Path, server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever way it comes; who opens the index has it from the environment."""
    plain = server.get_uri()
    addresses = [plain.replace("postgres:@", f"postgres:{SECRET}@"), f"{plain}&password={SECRET}", f"{plain}&sslpassword={SECRET}"]
    for number, address in enumerate([*addresses, addresses[0].replace("postgresql://", "postgresql+psycopg://")]):
        store = PostgresqlStore.create(tmp_path / str(number) / "store", WIDTH, address=address)
        assert SECRET not in "".join(path.read_text() for path in store.folder.rglob("*"))
        assert SECRET not in str(store.describe())
        assert SECRET not in str(PostgresqlStore.kept_options({"address": address}))
        store.close()
        PostgresqlStore.open(store.folder).close()
    monkeypatch.setenv("LIKEWISE_POSTGRESQL", addresses[0])
    assert PostgresqlStore.open(tmp_path / "0" / "store")._table.connections._parts["password"] == SECRET
    store = PostgresqlStore.create(tmp_path / "environment" / "store", WIDTH)
    assert SECRET not in "".join(path.read_text() for path in store.folder.rglob("*"))
    assert json.loads((store.folder / "postgresql.json").read_text())["from_environment"]
    store.close()
    monkeypatch.setenv("LIKEWISE_POSTGRESQL", f"postgresql://postgres:{SECRET}@localhost:1/elsewhere")
    with pytest.raises(DatabaseFault, match="elsewhere on localhost") as fault:  # it may have moved there
        PostgresqlStore.open(store.folder)
    assert SECRET not in str(fault.value)
    PostgresqlStore.open(tmp_path / "0" / "store").close()  # that one was given its own address


def test_an_index_of_images(tmp_path: Path, server: Any) -> None:
    """Built, gone on with by whoever has the password, searched; its folder tells no password, neither does a refusal."""
    address = server.get_uri().replace("postgres:@", f"postgres:{SECRET}@")
    photos = class_folders(tmp_path / "photos")
    index = Index.build(small_embedder(), tmp_path / "photos", out=tmp_path / "index", store="postgresql", address=address)
    assert [hit.path for hit in index.search(photos[2], 1)] == [str(photos[2])]
    again = Index.build(small_embedder(), tmp_path / "photos", out=tmp_path / "index", store="postgresql", address=address)
    assert len(again) == len(photos)
    assert len(again.search(photos[0], 20, "label=class 1")) == 4
    with pytest.raises(ValueError, match="is an index with the store postgresql") as refusal:
        Index.build(small_embedder(), tmp_path / "photos", out=tmp_path / "index", store="postgresql", address=address, table="another")
    written = [path.read_bytes() for path in (tmp_path / "index").rglob("*") if path.is_file()]
    assert SECRET not in str(refusal.value)
    assert not any(SECRET.encode() in content for content in written)
    index.close()
    again.close()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "LIKEWISE_POSTGRESQL"),
        ({"address": "nonsense"}, "expected one such as postgresql://"),
        ({"address": f"postgresql://u:{SECRET}@h:not_a_port:x/db?nothing=1"}, "expected one such as postgresql://"),
        ({"address": "postgresql://localhost:1/db"}, "the database db on localhost does not answer"),
        ({"precision": "float64"}, "float16"),
        ({"recall": 1.5}, "recall is 1.5"),
        ({"table": "a; DROP TABLE items"}, "small letters"),
        ({"table": 'a"b'}, "small letters"),
    ],
)
def test_options_that_cannot_work_are_told(tmp_path: Path, options: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LIKEWISE_POSTGRESQL", raising=False)
    given = {"address": "postgresql://localhost:1/db", **options} if options else {}
    with pytest.raises((ValueError, DatabaseFault), match=said) as fault:
        PostgresqlStore.create(tmp_path / "store", WIDTH, **given)
    assert SECRET not in str(fault.value)
    assert not (tmp_path / "store").exists()


def test_a_table_that_is_there_is_joined(create: Callable[..., PostgresqlStore]) -> None:
    """By other machines, of which each has a folder of its own; not by vectors of another width."""
    first, second = create("first", table="shared_by_all"), create("second", table="shared_by_all")
    items, vectors = made(10, WIDTH)
    first.add(items, vectors)
    second.refresh()
    assert len(second) == 10
    with pytest.raises(ValueError, match="holds vectors of 32 dimensions in float16, not of 32 in float32"):
        create("third", table="shared_by_all", precision="float32")
    first.close()
    second.close()


def test_a_table_that_is_gone_is_told(create: Callable[..., PostgresqlStore]) -> None:
    store = create()
    store._table.rows("DELETE FROM likewise_indexes WHERE name = %s RETURNING name", store._table.name)
    with pytest.raises(DatabaseFault, match="has no index likewise_photos_"):
        PostgresqlStore.open(store.folder)
    store._table.connections.run(lambda connection: store._table.execute(connection, "DROP TABLE {name}"))
    with pytest.raises(DatabaseFault, match="does not exist"):
        store.ids()
    store.close()


def test_a_server_without_pgvector_is_told(create: Callable[..., PostgresqlStore], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_table, "EXTENSION", "CREATE EXTENSION IF NOT EXISTS pgvector_that_is_not_there")
    with pytest.raises(DatabaseFault, match="CREATE EXTENSION vector"):
        create()


def test_without_psycopg_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ValueError, match=r'pip install "likewise\[postgresql\]"'):
        PostgresqlStore.create(tmp_path / "store", WIDTH, address="postgresql://localhost/db")


def test_an_interrupted_answer_is_not_read_on(create: Callable[..., PostgresqlStore]) -> None:
    """Ctrl-C in the middle: the connection is given up, not handed to the next question."""
    store = create()
    store.add([Item("/a", "0")], np.eye(1, WIDTH, dtype=np.float32))

    def interrupted(connection: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store._table.connections.run(interrupted)
    assert store._table.connections._idle == []
    assert store.ids().tolist() == [1]
    store.close()


def crash(server: Any) -> None:
    """As a power cut ends it: it writes nothing more, and has to recover when it starts again."""
    process = psutil.Process(server.get_pid())
    children = process.children(recursive=True)
    process.send_signal(signal.SIGQUIT)
    psutil.wait_procs([process, *children], timeout=30)


def start_again(server: Any) -> None:
    for is_last in (False, False, True):  # it gives a server ten seconds, which a busy machine may need twice
        try:
            return server.ensure_postgres_running()
        except subprocess.SubprocessError:
            if is_last:
                raise


def test_a_database_that_is_gone_is_told_and_reached_again_when_it_is_back(create: Callable[..., PostgresqlStore], server: Any) -> None:
    import psycopg

    store = create(address=server.get_uri().replace("postgres:@", f"postgres:{SECRET}@"))
    items, vectors = made(20, WIDTH)
    store.add(items[:10], vectors[:10])
    crash(server)
    for ask in (
        lambda: store.search(vectors[:1], 1),
        lambda: store.add(items[10:], vectors[10:]),
        lambda: store.remove([1]),
        lambda: store.ids(),
        store.refresh,
        lambda: PostgresqlStore.open(store.folder),
    ):
        with pytest.raises(DatabaseFault, match="does not answer") as fault:
            ask()
        assert "is kept" in str(fault.value)
        assert SECRET not in str(fault.value)
    start_again(server)
    assert store.search(vectors[:1], 1)[0].tolist() == [[1]]
    assert len(store.add(items[10:], vectors[10:])) == 10
    assert len(store) == 20
    with psycopg.connect(server.get_uri(), autocommit=True) as other:  # connections that die while nobody looks
        other.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND state = 'idle'")
    assert len(store.ids()) == 20
    store.close()


def test_nothing_that_was_acknowledged_is_lost_when_the_server_dies(create: Callable[..., PostgresqlStore], server: Any) -> None:
    """Killed at any moment of an addition, and started again: each addition is there wholly, or was refused and is there not at all.

    Where the server dies between writing the commit and saying so, the addition is done once more: never twice.
    """
    store = create()
    acknowledged: list[set[str]] = []
    attempted: list[set[str]] = []
    done = threading.Event()

    def add() -> None:
        seed = 0
        while not done.is_set():
            items, vectors = made(150, WIDTH, seed=seed)
            attempted.append({item.path for item in items})
            try:
                store.add(items, vectors)
                acknowledged.append(attempted[-1])
            except DatabaseFault:
                time.sleep(0.02)
            seed += 1

    writer = threading.Thread(target=add)
    writer.start()
    try:
        for pause in (0.05, 0.23):
            time.sleep(pause)
            crash(server)
            start_again(server)
        number = len(acknowledged)
        deadline = time.monotonic() + 30
        while len(acknowledged) < number + 2 and time.monotonic() < deadline:
            time.sleep(0.05)
    finally:
        done.set()
        writer.join()
    assert len(acknowledged) >= number + 2, "the store did not come back"
    again = PostgresqlStore.open(store.folder)
    paths = {item.path for item in again.items(again.ids().tolist())}
    assert all(some <= paths for some in acknowledged)
    assert all(some <= paths or not some & paths for some in attempted)
    assert len(again) == len(again.ids()) == len(paths)
    again.close()
    store.close()
