"""Embedding on a Ray cluster: the same vectors in the same order as on one machine, though workers die."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest
from PIL import Image

from likewise.data.augmentation import Augmentation
from likewise.data.dataset import Dataset
from likewise.data.packing.packed import NoneDecoded
from likewise.data.readers import read_to_embed
from likewise.models import Embedder, NetworkSpec, Preprocessing, make_network, ray_embedding
from likewise.models.ray_embedding import RayEmbedder
from likewise.ray_session import RaySession
from likewise.search.index import Index

from ..optional import needs_package

pytestmark = pytest.mark.filterwarnings("ignore")  # Ray's own, about sockets and versions
PART = 64


@pytest.fixture(scope="module")
def session() -> Iterator[RaySession]:
    needs_package("ray")
    with RaySession("local", num_cpus=2) as session:
        yield session


@pytest.fixture(scope="module")
def embedder() -> Embedder:
    network = make_network(NetworkSpec("convnet", dim=8), seed=0).eval()
    return Embedder(network, Preprocessing(32, Augmentation(size=28, crop="centre")))


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Five parts of images, one of which cannot be decoded."""
    folder = tmp_path_factory.mktemp("images")
    rng = np.random.default_rng(0)
    for number in range(5 * PART + 7):
        Image.fromarray(rng.integers(0, 256, (30, 34, 3), dtype=np.uint8)).save(folder / f"{number:04}.png")
    (folder / "0100.png").write_bytes(b"no picture")
    return read_to_embed([folder])[0]


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_embedding, "PART", PART)


def kill_a_worker(killed: list[int], is_over: threading.Event) -> None:
    while not killed and not is_over.is_set():
        for process in psutil.process_iter(["cmdline"]):
            if any("likewise embedding" in part for part in process.info["cmdline"] or []):
                process.kill()
                killed.append(process.pid)
                return
        time.sleep(0.01)


def test_the_same_vectors_though_a_worker_is_killed(session: RaySession, embedder: Embedder, images: Dataset) -> None:
    rows, kept, problems = embedder.embed_images(images)
    killed: list[int] = []
    is_over = threading.Event()
    thread = threading.Thread(target=kill_a_worker, args=(killed, is_over))
    thread.start()
    told: list[tuple[str, int, int]] = []
    try:
        found = RayEmbedder(embedder, session).embed_images(images, on_progress=lambda *what: told.append(what))
    finally:
        is_over.set()
        thread.join()
    assert killed
    np.testing.assert_allclose(found[0], rows, atol=1e-6)
    np.testing.assert_array_equal(found[1], kept)
    assert [problem.path for problem in found[2]] == [problem.path for problem in problems]
    assert len(kept) == len(images) - 1
    assert told[-1] == ("embedding", len(images), len(images))
    assert [done for _, done, _ in told] == sorted(done for _, done, _ in told)


def test_parts_that_cannot_be_decoded_are_left_out(session: RaySession, embedder: Embedder, images: Dataset, tmp_path: Path) -> None:
    for number in range(2 * PART):
        (tmp_path / f"{number:04}.png").write_bytes(b"no picture")
    with pytest.raises(NoneDecoded, match=f"none of {2 * PART} images can be decoded"):
        RayEmbedder(embedder, session).embed_images(read_to_embed([tmp_path])[0])
    for number in range(PART):
        Image.new("RGB", (30, 30)).save(tmp_path / f"{number:04}.png")
    rows, kept, problems = RayEmbedder(embedder, session).embed_images(read_to_embed([tmp_path])[0])
    assert rows.shape == (PART, 8)
    np.testing.assert_array_equal(kept, np.arange(PART))
    assert len(problems) == PART


def test_an_index_by_the_cluster(session: RaySession, embedder: Embedder, images: Dataset, tmp_path: Path) -> None:
    """The same items and neighbours as one machine gives; the session that is there is used."""
    alone = Index.build(embedder, images, out=tmp_path / "alone")
    together = Index.build(embedder, images, out=tmp_path / "together", ray="local")
    assert len(together) == len(alone) == len(images) - 1
    query = Image.new("RGB", (40, 30), "olive")
    assert [hit.path for hit in together.search(query)] == [hit.path for hit in alone.search(query)]
    again = together.add(images, ray="local")
    assert (again.added, again.unchanged, len(again.skipped)) == (0, len(images) - 1, 1)


def test_faults_in_words(session: RaySession, embedder: Embedder) -> None:
    with pytest.raises(ValueError, match="has no GPU to offer"):
        RayEmbedder(embedder, session, "cuda")
    with pytest.raises(ValueError, match="expected cpu, cuda or auto"):
        RayEmbedder(embedder, session, "cuda:3")
