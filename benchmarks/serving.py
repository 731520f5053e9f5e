"""`likewise serve` over loopback against index.search called in the process: latencies of searches by id and by picture, one table.

    python benchmarks/serving.py                              # 1,000, 100,000 and 1,000,000 vectors of 512 dimensions
    python benchmarks/serving.py --sizes 1000 20000 --requests 100
    python benchmarks/serving.py --sizes 1000000 --rows int8 --threads 1

Vectors are made: class centres plus noise, seeded. By id: the vector is in the index, so this is search alone. By picture: a JPEG of
500 x 375 is sent, decoded and embedded too, by EfficientNet-Lite0 with a head of 512 dimensions; every picture is another one. The ratio
is the median served to one client over the median in the process, both taken turn by turn. Clients are threads of this process with a
connection each that they keep.
"""

import argparse
import http.client
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from likewise.data.augmentation import AUGMENTATIONS
from likewise.environment import num_cores
from likewise.models.embedder import Embedder, Preprocessing
from likewise.models.network import NetworkSpec, make_network
from likewise.models.weights.pretrained import WEIGHTS, find_weights
from likewise.search.index import Index
from likewise.search.item import Item

DIM, A_CLASS, K = 512, 20, 10
AT_ONCE = 50_000  # vectors made and added
BOUNDARY = "picture-of-the-benchmark"


def made_embedder() -> Embedder:
    weights = WEIGHTS["efficientnet_lite0"]
    spec = NetworkSpec(weights.backbone, pooling=weights.pooling, head="linear", dim=DIM)
    network = make_network(spec, seed=0, weights=find_weights("efficientnet_lite0").path).eval()
    return Embedder(network, Preprocessing(weights.side, AUGMENTATIONS[weights.augmentation]))


def make_index(folder: Path, size: int, rows: str) -> None:
    index = Index.create(made_embedder(), out=folder, device="cpu", rows=rows)
    rng = np.random.default_rng(0)
    for start in range(0, size, AT_ONCE):
        number = min(AT_ONCE, size - start)
        centres = np.repeat(rng.standard_normal((-(-number // A_CLASS), DIM), dtype=np.float32), A_CLASS, axis=0)[:number]
        vectors = centres + rng.standard_normal((number, DIM), dtype=np.float32)
        items = [Item(f"/made/{start + place}.jpg", "0" * 64, f"class {(start + place) // A_CLASS}") for place in range(number)]
        index.store.add(items, vectors / np.linalg.norm(vectors, axis=1, keepdims=True))
    index.close()


def made_pictures(number: int) -> list[bytes]:
    rng = np.random.default_rng(1)
    pictures = []
    for _ in range(number):
        out = BytesIO()
        small = Image.fromarray(rng.integers(0, 256, (24, 32, 3), dtype=np.uint8))
        small.resize((500, 375), Image.Resampling.BICUBIC).save(out, format="JPEG", quality=90)
        pictures.append(out.getvalue())
    return pictures


Call = Callable[[], object]


def turn_by_turn(calls: dict[str, list[Call]]) -> dict[str, list[float]]:
    """Seconds of each call, those of one name after those of another in small groups, so that a busy machine is as busy for all."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    longest = max(map(len, calls.values()))
    for start in range(0, longest, 10):
        for name, some in calls.items():
            for call in some[start : start + 10]:
                before = time.perf_counter()
                call()
                seconds[name].append(time.perf_counter() - before)
    return seconds


def asked(connection: http.client.HTTPConnection, request: tuple[str, bytes]) -> None:
    path, body = request
    headers = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"} if body else {}
    connection.request("POST", path, body=body, headers=headers)
    answer = connection.getresponse()
    content = answer.read()
    assert answer.status == 200, content


def connected(port: int) -> http.client.HTTPConnection:
    return http.client.HTTPConnection("127.0.0.1", port, timeout=120)


def many_clients(port: int, requests: list[tuple[str, bytes]], clients: int) -> tuple[list[float], float]:
    """Seconds of each request, and of all together."""

    def ask(part: list[tuple[str, bytes]]) -> list[float]:
        connection = connected(port)
        seconds = turn_by_turn({"": [partial(asked, connection, request) for request in part]})[""]
        connection.close()
        return seconds

    start = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        found = [one for part in pool.map(ask, (requests[first::clients] for first in range(clients))) for one in part]
    return found, time.perf_counter() - start


def form(picture: bytes) -> bytes:
    head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="image"; filename="a.jpg"\r\nContent-Type: image/jpeg\r\n\r\n'
    return head.encode() + picture + f"\r\n--{BOUNDARY}--\r\n".encode()


def start_server(folder: Path, threads: int) -> tuple[subprocess.Popen[str], int]:
    options = ["--port", "0", "--rate", "0", "--queue", "1000", "--seconds", "120", "--threads", str(threads), "--device", "cpu"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "likewise", "serve", str(folder), *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    line = process.stdout.readline()
    found = re.search(r":(\d+)\b\s*$", line)
    assert found, line
    return process, int(found[1])


def measure(size: int, arguments: argparse.Namespace) -> None:
    rng = np.random.default_rng(2)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as temporary:
        folder = Path(temporary) / "index"
        make_index(folder, size, arguments.rows)
        ids = [int(id) for id in rng.integers(1, size + 1, arguments.requests)]
        pictures = made_pictures(arguments.pictures * (1 + len(arguments.clients)))
        index = Index.load(folder, "cpu")
        vectors = index.store.vectors(ids)
        process, port = start_server(folder, arguments.threads)
        by_id = [(f"/api/search?id={id}&k={K}", b"") for id in ids]
        by_picture = [(f"/api/search?k={K}", form(picture)) for picture in pictures]
        numbers = [1, *arguments.clients]
        in_process: dict[str, list[Call]] = {
            "id": [partial(index.search_vectors, vector[None], K + 1) for vector in vectors],
            "picture": [partial(search_bytes, index, picture) for picture in pictures[: arguments.pictures]],
        }
        try:
            for what, calls in in_process.items():
                parts = [by_id if what == "id" else by_picture[part :: len(numbers)] for part in range(len(numbers))]
                connection = connected(port)  # anew: the server closes what idles while many clients ask, or the process alone
                calls[0]()
                asked(connection, parts[0][0])
                seconds = turn_by_turn({"alone": calls, "served": [partial(asked, connection, request) for request in parts[0]]})
                show(size, what, "in process", seconds["alone"], None, None)
                connection.close()
                show(size, what, "1 client", seconds["served"], None, float(np.median(seconds["served"]) / np.median(seconds["alone"])))
                for requests, clients in zip(parts[1:], arguments.clients, strict=True):
                    found, total = many_clients(port, requests, clients)
                    show(size, what, f"{clients} clients", found, len(found) / total, None)
        finally:
            process.terminate()
            process.wait()
            index.close()


def search_bytes(index: Index, picture: bytes) -> object:
    return index.search(Image.open(BytesIO(picture)), k=K)


def show(size: int, what: str, who: str, seconds: list[float], rate: float | None, ratio: float | None) -> None:
    middle, high, highest = (1000 * float(value) for value in np.percentile(seconds, (50, 95, 99)))
    rest = f"{'' if rate is None else f'{rate:.0f}':>10}{'' if ratio is None else f'{ratio:.2f}':>8}"
    print(f"{size:>10,}  {what:8}{who:12}{middle:9.1f}{high:9.1f}{highest:9.1f}{rest}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", type=int, default=[1_000, 100_000, 1_000_000])
    parser.add_argument("--clients", nargs="+", type=int, default=[16], help="besides one alone")
    parser.add_argument("--requests", type=int, default=400, help="searches by id, for each number of clients")
    parser.add_argument("--pictures", type=int, default=160, help="searches by picture, for each number of clients")
    parser.add_argument("--rows", default="float16", help="how the exact store keeps vectors")
    parser.add_argument("--threads", type=int, default=2, help="of the server; a search has the cores divided by them")
    parser.add_argument("--folder", help="where the indexes are made, for as long as they are needed")
    arguments: Any = parser.parse_args()
    torch.set_num_threads(max(1, num_cores() // arguments.threads))  # as the server has them
    print(f"{'vectors':>10}  {'by':8}{'':12}{'median':>9}{'95 %':>9}{'99 %':>9}{'a second':>10}{'ratio':>8}   (ms)", flush=True)
    for size in arguments.sizes:
        measure(size, arguments)


if __name__ == "__main__":
    main()
