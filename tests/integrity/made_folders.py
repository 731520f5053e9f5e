"""A tiny folder of every kind that likewise writes, and what its ordinary reader makes of it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from likewise.adaptation import rung_conditions
from likewise.adaptation.adapt import adapt, read_adaptation
from likewise.data.dataset import Dataset, Files
from likewise.data.ledger import Occasion, enter_look, read_ledger
from likewise.data.packing.cache import pack
from likewise.data.readers import glyph_cache
from likewise.data.readers.glyphs import read_glyphs
from likewise.exporting.exporter import export
from likewise.models.embedder import Embedder
from likewise.models.frozen.feature_rows import read_rows, write_rows
from likewise.models.frozen.streaming import Streamed
from likewise.search.index import Index
from likewise.training.runs.run_folder import RunFolder
from likewise.training.train import train

from ..adaptation.small import protocol_file
from ..adaptation.small import vectors as stretched
from ..comparison.tiny import table_of, tiny_compare
from ..exporting.small_models import calibrated, small
from ..optional import needs_package
from ..search.pictures import class_folders, small_embedder
from ..training.tiny import PROTOCOL, pictures

SMALL_COMPARISON: dict[str, Any] = {"methods": ["contrastive"], "trials": 0, "seeds": 1}
KEYS = [bytes([number]) * 16 for number in range(4)]


class Noticed(Exception):
    """The reader told of damage without an exception."""


def make_run(folder: Path) -> None:
    train("raw", pictures(classes=8, images=4), protocol=PROTOCOL, out=folder, device="cpu", checkpoint_every=2)


def read_run(folder: Path) -> Any:
    config = RunFolder(folder).config()
    if config is None:  # `--resume` says that there is no run
        raise Noticed
    vectors = Embedder.load(folder).embed(pictures(classes=2, images=2).items.array)  # type: ignore[union-attr]
    return config, RunFolder(folder).result().scores, vectors.tobytes()


def make_bundle(folder: Path) -> None:
    calibrated().save(folder)


def read_bundle_folder(folder: Path) -> Any:
    model = Embedder.load(folder)
    calibration = model.calibration
    pixels = np.random.default_rng(0).integers(0, 256, (2, 40, 40, 3), dtype=np.uint8)
    return model.embed(pixels).tobytes(), None if calibration is None else calibration.words


def make_adaptation(folder: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rung_conditions, "FROZEN", protocol_file(folder.parent))
        adapt(stretched("stretched", classes=12), out=folder, minutes=0)


def read_adapted(folder: Path) -> Any:
    result = read_adaptation(folder)
    if result is None:  # it is said that this is no folder of `adapt`
        raise Noticed
    return result.scores, result.ladder, Embedder.load(folder).embed(stretched("stretched", classes=1).items.array).tobytes()  # type: ignore[union-attr]


def make_comparison(folder: Path) -> None:
    tiny_compare(folder, **SMALL_COMPARISON, report=True)


def read_comparison(folder: Path) -> Any:
    return table_of(tiny_compare(folder, **SMALL_COMPARISON))


def make_benches(folder: Path) -> None:
    make_comparison(folder / "bench")


def read_benches(folder: Path) -> Any:
    return read_comparison(folder / "bench")


def make_index(folder: Path) -> None:
    class_folders(folder.parent / "photos")
    Index.build(small_embedder(), folder.parent / "photos", out=folder).close()


def read_index_folder(folder: Path) -> Any:
    index = Index.load(folder, "cpu")
    vectors = np.random.default_rng(0).normal(size=(3, index.store.width)).astype(np.float32)
    ids, similarities = index.store.search(vectors, 5)
    items = [index.store.items(row) for row in ids.tolist()]
    picture = np.random.default_rng(0).integers(0, 256, (40, 40, 3), dtype=np.uint8)
    found = items, similarities.tobytes(), index.embed([picture]).tobytes()
    index.close()
    return found


def make_export(folder: Path) -> None:
    needs_package("onnxruntime")
    needs_package("onnx")
    export(small(), folder)


def make_ledger(folder: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LIKEWISE_STATE", str(folder))
        for name in ("a", "b"):
            enter_look(Occasion("train", f"/runs/{name}", decided=name), test="0" * 64, data="made", num_items=9, purpose="a test")


def read_ledger_folder(folder: Path) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LIKEWISE_STATE", str(folder))
        ledger = read_ledger()
    if ledger.damaged or ledger.changed:
        raise Noticed
    return ledger.looks


def photographs(folder: Path) -> Dataset:
    paths = tuple(folder / f"{number}.png" for number in range(5))
    folder.mkdir(exist_ok=True)
    for number, path in enumerate(paths):
        if not path.exists():
            Image.fromarray(np.random.default_rng(number).integers(0, 256, (20, 24, 3), dtype=np.uint8)).save(path)
    return Dataset("photographs", Files(paths), np.zeros(len(paths), np.int64), ("a",))


def make_cache(folder: Path) -> None:
    read_cache(folder)


def read_cache(folder: Path) -> Any:
    """Packed images, drawn glyphs and rows of features: from the folder, or made again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LIKEWISE_CACHE", str(folder))
        patch.setattr(glyph_cache, "WORTH_KEEPING", 10)
        packed = pack(photographs(folder.parent / "pictures"), side=16)
        packed.verify()
        images = [packed.image(number).numpy().tobytes() for number in range(len(packed))]
        glyphs = read_glyphs(classes=4, images=3, size=8, seed=0).items.array.tobytes()  # type: ignore[union-attr]
    place = folder / "features" / "made"
    rows = read_rows(place, KEYS)
    if len(rows) < len(KEYS):
        made = {key: Streamed(np.full(3, key[0], np.float32), b"jpeg") for key in KEYS}
        place.mkdir(parents=True, exist_ok=True)
        write_rows(place, made)
        rows = read_rows(place, KEYS)
    return images, glyphs, [(row.vector.tobytes(), row.thumbnail) for row in map(rows.__getitem__, KEYS) if isinstance(row, Streamed)]


# By the kind of folder: what makes one, and what its ordinary reader gives; None: it is read by other programs.
MADE: dict[str, tuple[Callable[[Path], None], Callable[[Path], Any] | None]] = {
    "comparison": (make_comparison, read_comparison),
    "index": (make_index, read_index_folder),
    "export": (make_export, None),
    "adaptation": (make_adaptation, read_adapted),
    "run": (make_run, read_run),
    "bundle": (make_bundle, read_bundle_folder),
    "ledger": (make_ledger, read_ledger_folder),
    "cache": (make_cache, read_cache),
    "benches": (make_benches, read_benches),
}


def files_of(folder: Path) -> list[str]:
    """All that is checked: no locks, and nothing empty, of which there is no byte to flip."""
    paths = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.stat().st_size)
    return [path.relative_to(folder).as_posix() for path in paths if not path.name.endswith(("lock", "-wal", "-shm"))]


def flip(path: Path, seed: str) -> None:
    """Another value in one byte of the file, drawn by the seed; in JSON another digit, so that it stays JSON."""
    content = bytearray(path.read_bytes())
    rng = np.random.default_rng(list(seed.encode()))
    digits = [place for place, byte in enumerate(content) if chr(byte).isdigit()] if path.suffix == ".json" else []
    if digits:
        content[int(rng.choice(digits))] ^= 1
    else:
        content[int(rng.integers(len(content)))] ^= int(rng.integers(1, 256))
    status = path.stat()
    path.unlink()  # another file of the name: who has the old one mapped keeps it
    path.write_bytes(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def without_digests(path: Path) -> None:
    """A JSON file as an earlier version wrote it."""
    content = json.loads(path.read_text())
    content.pop("seal")
    path.write_text(json.dumps(content, indent=2) + "\n")
