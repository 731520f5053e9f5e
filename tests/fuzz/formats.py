"""Every format that Likewise reads: how a small sample of it is made, and who reads it.

A new one is an entry of FORMATS; test_fuzz.py fails where a module of the package reads files and no entry names it.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

Read = Callable[[Path], Any]


@dataclass(frozen=True)
class Format:
    """One kind of file, or of folder with several files of which one is damaged."""

    make: Callable[[Path], object]  # writes the sample into an empty folder
    files: Mapping[str, str]  # pattern below the folder -> kind of mutation
    reads: Mapping[str, Read]  # by name: given the folder, what a user has of it
    modules: tuple[str, ...]  # of the package, whose reading this tries
    is_sealed: bool = False  # it has digests: what is damaged is refused, or makes no difference
    is_named: bool = True  # a message names the file, or another of the sample; not where it has no name
    is_slow: bool = False  # a case takes longer than a tenth of a second: fewer of them
    note: str = field(default="", compare=False)


VECTORS, LABELS = np.linspace(-1, 1, 48, dtype=np.float32).reshape(12, 4), np.arange(12) // 3
WORDS = np.array([f"class {label}" for label in LABELS])


# --- vectors with labels


def _save_npz(folder: Path) -> None:
    np.savez(folder / "vectors.npz", embeddings=VECTORS, labels=LABELS, split=np.array(["train", "test"] * 6))


def _save_npy(folder: Path) -> None:
    np.save(folder / "vectors.npy", VECTORS)
    np.save(folder / "labels.npy", WORDS)
    (folder / "labels.txt").write_text("".join(f"{word}\n" for word in WORDS))


def _save_parquet(folder: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    columns = {"embedding": VECTORS.tolist(), "label": WORDS.tolist(), "split": ["train", "test"] * 6}
    pyarrow.parquet.write_table(pyarrow.table(columns), folder / "vectors.parquet")
    columns = {"path": [f"{i}.png" for i in range(4)], "label": ["a", "b"] * 2, "bbox": [[0, 0, 2, 3]] * 4}
    columns |= {"is_query": [True, False] * 2, "is_gallery": [True] * 4}
    pyarrow.parquet.write_table(pyarrow.table(columns), folder / "images.parquet")
    _draw_all(folder, 4)


def _scored(file: Any) -> Any:
    """Read, then used: as `likewise evaluate` does."""
    import likewise

    part, _ = file.part()
    if len(part.embeddings) > 1000:
        raise ValueError("vectors: too many for a sample that was damaged")
    given = {} if part.gallery is None else {"gallery": part.gallery, "gallery_labels": part.gallery_labels}
    return likewise.evaluate(part.embeddings, part.labels, metrics=("MAP@R",), **given)


def _evaluated(name: str, **options: str) -> Read:
    def read(folder: Path) -> Any:
        from likewise.evaluation.embedding_file import read_embeddings

        file = read_embeddings(folder / name, **{key: folder / value for key, value in options.items()})
        return np.asarray(file.embeddings)

    return read


def _dataset(name: str, *, labelled: bool = True) -> Read:
    """Through the door that every command takes."""

    def read(folder: Path) -> Any:
        from likewise.data.readers import read

        dataset = read(folder / name if name else folder, labelled=labelled)
        array = getattr(dataset.items, "array", None)
        return dataset.fingerprint() if array is None else (array, dataset.labels)

    return read


# --- lists, tables, published layouts


def _draw(path: Path) -> None:
    from PIL import Image

    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (6, 4), "white").save(path)


def _draw_all(folder: Path, number: int) -> None:
    for i in range(number):
        _draw(folder / f"{i}.png")


def _save_table(folder: Path) -> None:
    rows = [f"{i}.png,{'ab'[i % 2]},{'train' if i < 3 else 'query'},0,0,4,3,200{i}" for i in range(6)]
    (folder / "images.csv").write_text("\n".join(["path,label,split,x_1,y_1,x_2,y_2,year", *rows]) + "\n")
    (folder / "images.tsv").write_text("\n".join(["path\tlabel", *(f"{i}.png\t{i % 2}" for i in range(6))]) + "\n")
    _draw_all(folder, 6)


def _save_list(folder: Path) -> None:
    (folder / "images.txt").write_text("".join(f"{i}.png\n" for i in range(5)))
    _draw_all(folder, 5)


def _save_cub(folder: Path) -> None:
    classes = {1: "001.Albatross", 2: "002.Auk", 100: "100.Pelican", 101: "101.Pipit", 200: "200.Yellowthroat"}
    rows = [(number, name, i) for number, name in classes.items() for i in range(2)]
    texts = {
        "classes": [f"{number} {name}" for number, name in classes.items()],
        "images": [f"{n} {name}/im {i}.jpg" for n, (_, name, i) in enumerate(rows, start=1)],
        "image_class_labels": [f"{n} {number}" for n, (number, _, _) in enumerate(rows, start=1)],
        "train_test_split": [f"{n} {n % 2}" for n in range(1, len(rows) + 1)],
        "bounding_boxes": [f"{n} 1.0 0.0 3.0 2.0" for n in range(1, len(rows) + 1)],
    }
    for name, lines in texts.items():
        (folder / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines))
    for _, name, i in rows:
        _draw(folder / "images" / name / f"im {i}.jpg")


def _save_sop(folder: Path) -> None:
    header = "image_id class_id super_class_id path\n"
    (folder / "Ebay_train.txt").write_text(header + "1 2 1 b/a_0.JPG\n2 2 1 b/a_1.JPG\n3 10 1 b/b 0.JPG\n")
    (folder / "Ebay_test.txt").write_text(header + "4 11 2 c/c_0.JPG\n")
    for name in ("b/a_0.JPG", "b/a_1.JPG", "b/b 0.JPG", "c/c_0.JPG"):
        _draw(folder / name)


def _save_inshop(folder: Path) -> None:
    rows = [("1/a.jpg", "id_1", "train"), ("1/b.jpg", "id_1", "train"), ("2/a.jpg", "id_2", "query"), ("2/b.jpg", "id_2", "gallery")]
    for name in ("Eval", "Anno"):
        (folder / name).mkdir()
    listed = "".join(f"img/{image}   {item} {status}\n" for image, item, status in rows)
    (folder / "Eval" / "list_eval_partition.txt").write_text(f"4\nimage_name item_id evaluation_status\n{listed}")
    boxes = "".join(f"img/{image} 1 2 001 000 005 003\n" for image, _, _ in rows)
    (folder / "Anno" / "list_bbox_inshop.txt").write_text(f"4\nimage_name clothes_type pose_type x_1 y_1 x_2 y_2\n{boxes}")
    for image, _, _ in rows:
        _draw(folder / "img" / image)


def _published(name: str) -> Read:
    def read(folder: Path) -> Any:
        from likewise.data.readers import read

        return read(f"{name},boxes=true:{folder}").fingerprint()

    return read


def _published_without_boxes(name: str) -> Read:
    def read(folder: Path) -> Any:
        from likewise.data.readers import read

        return read(f"{name}:{folder}").fingerprint()

    return read


def _save_cars(folder: Path) -> None:
    from scipy.io import savemat

    rows = [(f"car_ims/{i}.jpg", number, 1, 0, 5, 3, i % 2) for i, number in enumerate((1, 98, 99, 196, 98))]
    names = ("relative_im_path", "class", "bbox_x1", "bbox_y1", "bbox_x2", "bbox_y2", "test")
    content = {
        "annotations": np.array(rows, dtype=[(name, object) for name in names]),
        "class_names": np.array([f"Car {n}" for n in range(1, 197)], dtype=object),
    }
    savemat(folder / "cars_annos.mat", content, do_compression=True)
    for i in range(5):
        _draw(folder / "car_ims" / f"{i}.jpg")


def _save_cars_plain(folder: Path) -> None:
    from scipy.io import loadmat, savemat

    _save_cars(folder)
    loaded = loadmat(folder / "cars_annos.mat")
    savemat(folder / "cars_annos.mat", {name: loaded[name] for name in ("annotations", "class_names")})


def _idx(array: Any) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + b"".join(size.to_bytes(4, "big") for size in array.shape) + array.astype(np.uint8).tobytes()


def _save_mnist(folder: Path, *, zipped: bool = False) -> None:
    import gzip

    for stem, number in (("train", 6), ("t10k", 4)):
        images, labels = np.arange(number * 784).reshape(number, 28, 28) % 251, np.arange(number) % 3
        for name, array in (("images-idx3", images), ("labels-idx1", labels)):
            content = _idx(array)
            path = folder / f"{stem}-{name}-ubyte{'.gz' if zipped else ''}"
            path.write_bytes(gzip.compress(content, mtime=0) if zipped else content)


def _save_mnist_gz(folder: Path) -> None:
    _save_mnist(folder, zipped=True)


# --- images


def _picture() -> Any:
    from PIL import Image

    draw = np.random.default_rng(3)
    return Image.fromarray(draw.integers(0, 255, (6, 8, 3)).astype(np.uint8)).resize((64, 48))


def _save_picture(*endings: str) -> Callable[[Path], None]:
    def save(folder: Path) -> None:
        for ending in endings:
            options: dict[str, Any] = (
                {"exif": b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"} if ending == "jpg" else {}
            )
            image = _picture()
            image = image.convert("P") if ending == "gif" else image
            image.save(folder / f"picture.{ending}", **options)
        _draw(folder / "whole" / "a.png")

    return save


def _decoded(folder: Path) -> Any:
    from likewise.data.packing.decode import decode

    content = next(folder.glob("picture.*")).read_bytes()
    pixels = decode(content, side=32)
    decode(content, side=None, box=(1, 1, 5, 4))
    return pixels


def _packed_images(folder: Path) -> Any:
    """What cannot be decoded is left out and named."""
    from likewise.data.packing.cache import pack
    from likewise.data.readers import read

    (folder / "cache").mkdir()
    packed = pack(read(f"images:{folder}", labelled=False), side=32, folder=folder / "cache", workers=1)
    return [str(problem) for problem in packed.skipped]


def _boxed(folder: Path) -> Any:
    """A table whose rows have no box reads the sizes of its images."""
    from likewise.data.readers import read

    name = next(folder.glob("picture.*")).name
    (folder / "t.csv").write_text(f"path,label,x_1,y_1,x_2,y_2\n{name},a,,,,\nwhole/a.png,a,0,0,2,2\n")
    return read(folder / "t.csv").fingerprint()


def _doctored(folder: Path) -> Any:
    from likewise.data.doctor.examination import diagnose_dataset
    from likewise.data.readers import read

    (folder / "class").mkdir()
    next(folder.glob("picture.*")).rename(folder / "class" / next(folder.glob("picture.*")).name)
    return repr(diagnose_dataset(read(f"folder:{folder}"), workers=1))[:500]


def _as_upload(folder: Path) -> Any:
    """As a picture comes in from a browser."""
    from likewise.serving.served_images import jpeg_of

    return len(jpeg_of(next(folder.glob("picture.*")).read_bytes(), "thumb", 10**7, None))


# --- TOML


def _copy_toml(kind: str, *names: str) -> Callable[[Path], None]:
    def copy(folder: Path) -> None:
        for name in names:
            shutil.copy(_package() / kind / f"{name}.toml", folder / f"{Path(name).stem}.toml")

    return copy


def _package() -> Path:
    import likewise

    return Path(likewise.__file__).parent


def _forget() -> None:
    """Files of one name are read once in a process, and all cases have the same name."""
    from likewise import methods, protocols
    from likewise.reproductions import paper_item

    for kept in (methods._read, protocols._read, paper_item.read_item):
        if hasattr(kept, "cache_clear"):
            kept.cache_clear()


def _method(folder: Path) -> Any:
    from likewise.configuration import as_table
    from likewise.methods import load_method

    _forget()
    made = []
    for path in sorted(folder.glob("*.toml")):
        method = load_method(path).for_protocol("quick")
        made.append([as_table(method), repr(method.make_loss(num_classes=10, dim=8))[:2000], repr(method.make_miner())])
    return repr(made)  # not its numbers: NaN is what nobody has checked yet


def _sampled(folder: Path) -> Any:
    """Its batches are drawn, and its trials."""
    from likewise.comparison.tuning import draw_sets
    from likewise.methods import load_method

    _forget()
    for path in sorted(folder.glob("*.toml")):
        method = load_method(path)
        next(iter(method.make_sampler(np.repeat(np.arange(40), 6), 24, few_classes="error")))
        draw_sets(method, trials=3, tune="all", pretrained=False)


def _protocol(folder: Path) -> Any:
    from likewise.configuration import as_table
    from likewise.protocols import load_protocol

    _forget()
    return repr([as_table(load_protocol(path)) for path in sorted(folder.glob("*.toml"))])


def _item(folder: Path) -> Any:
    from likewise.reproductions.paper_item import read_item

    _forget()
    return repr(read_item(_only(folder, "*.toml")))


def _save_item(folder: Path) -> None:
    from likewise.reproductions.paper_item import FOLDER

    shutil.copy(sorted(FOLDER.glob("*/*.toml"))[0], folder / "item.toml")


def _only(folder: Path, pattern: str) -> Path:
    return next(iter(sorted(folder.glob(pattern))))


def _save_settings(folder: Path) -> None:
    (folder / "settings.txt").write_text("steps=3\nloss.threshold=0.5\nks=[1, 2]\nrates.base=1e-3\ndim=8\n")


def _settings(folder: Path) -> Any:
    """`--set` of a command line: each line is one."""
    from likewise.cli.learning import settings_of
    from likewise.training.train import resolved

    given = settings_of((folder / "settings.txt").read_text(errors="replace").splitlines())
    return [repr(made) for made in resolved("contrastive", "quick", given)]


# --- weights, bundles, checkpoints


def _small_embedder() -> Any:
    from likewise.data.augmentation import Augmentation
    from likewise.models import Embedder, NetworkSpec, Preprocessing, make_network

    network = make_network(NetworkSpec("convnet", dim=4), seed=0)
    return Embedder(network, Preprocessing(16, Augmentation(16, "centre")), {"method": "raw"})


def _save_weights(folder: Path) -> None:
    import torch
    from safetensors.torch import save_file

    state = {"a.weight": torch.arange(12.0).reshape(3, 4), "a.bias": torch.zeros(3)}
    save_file(state, folder / "weights.safetensors")
    torch.save({"state_dict": state}, folder / "weights.pt")


def _weights(name: str) -> Read:
    def read(folder: Path) -> Any:
        from likewise.models.weights.weight_files import read_weights

        return sorted(read_weights(folder / name))

    return read


def _save_bundle(folder: Path) -> None:
    from dataclasses import replace

    import likewise

    draw = np.random.default_rng(0)
    vectors, labels = draw.normal(size=(80, 4)).astype(np.float32), np.arange(80) % 20
    embedder = replace(_small_embedder(), calibration=likewise.calibrate(vectors, labels, false_accepts=0.2))
    embedder.save(folder / "model")


def _bundle(folder: Path) -> Any:
    import likewise

    embedder = likewise.Embedder.load(folder / "model")
    calibration = embedder.calibration
    return embedder.embed([_picture()]), None if calibration is None else calibration.probability(np.linspace(-1, 1, 9))


def _save_calibration(folder: Path) -> None:
    import likewise

    draw = np.random.default_rng(0)
    calibration = likewise.calibrate(draw.normal(size=(80, 4)).astype(np.float32), np.arange(80) % 20, false_accepts=0.2)
    (folder / "calibration.json").write_text(calibration.to_json())


def _calibration(folder: Path) -> Any:
    import likewise

    calibration = likewise.Calibration.from_json((folder / "calibration.json").read_text(encoding="utf-8", errors="replace"))
    return calibration.probability(np.linspace(-1, 1, 9)), repr(calibration)


def _save_checkpoint(folder: Path) -> None:
    import torch

    from likewise.training.runs.checkpoints import Checkpoints

    for step in (1, 2):
        Checkpoints(folder).save({"step": step, "network": {"w": torch.full((40,), float(step))}, "words": ["a", None]})
    (folder / "previous.ckpt").unlink()  # nothing to fall back to: damage must be told


def _checkpoint(folder: Path) -> Any:
    from likewise.training.runs.checkpoints import Checkpoints

    state = Checkpoints(folder).load()
    assert state is not None
    return state["step"], state["network"]["w"].numpy()


# --- a run


def _protocol_of_a_blink(backbone: str) -> Any:
    from dataclasses import replace

    from likewise.protocols import load_protocol

    few: dict[str, Any] = {"backbone": backbone, "steps": 3, "batch": 16, "dim": 8, "ks": (1, 2), "validation": 0.0}
    few |= {"train_augmentation": "none", "test_augmentation": "none"} if backbone == "identity" else {}
    return replace(load_protocol("quick"), name="tiny", **few)


def _save_clouds(folder: Path) -> Path:
    """Vectors of some classes, as data to train on."""
    draw = np.random.default_rng(0)
    rows = np.repeat(draw.normal(size=(24, 6)), 6, axis=0) + 0.5 * draw.normal(size=(144, 6))
    np.savez(folder / "clouds.npz", features=rows.astype(np.float32), labels=np.arange(144) // 6)
    return folder / "clouds.npz"


def _pictures() -> Any:
    """Small images of some classes, in memory."""
    from likewise.data.dataset import Dataset, Pixels

    draw = np.random.default_rng(0)
    pixels = np.repeat(draw.integers(0, 255, (16, 16, 16)), 6, axis=0) // 2 + draw.integers(0, 100, (96, 16, 16))
    return Dataset("pictures", Pixels(pixels.astype(np.uint8)), np.arange(96) // 6, tuple(f"class {i}" for i in range(16)))


def _trained(folder: Path, **options: Any) -> Any:
    import likewise

    protocol = _protocol_of_a_blink("identity")
    return likewise.train("contrastive", folder / "clouds.npz", protocol=protocol, out=folder / "run", device="cpu", **options)


def _save_run(folder: Path) -> None:
    _save_clouds(folder)
    _trained(folder)


def _run(folder: Path) -> Any:
    """What the command says when it is given again."""
    return _trained(folder, resume=True).scores


def _run_openings(folder: Path) -> Any:
    """Either the record is as it was, or it is told that it is not."""
    from likewise.training.runs.run_folder import RunFolder

    result = RunFolder(folder / "run").result()
    if any("record of looks" in note for note in result.notes):
        raise ValueError(f"fuzzed: {result.notes[-1]}")
    return (folder / "run" / "test_openings.jsonl").read_bytes().split(b"\n")[:2]


def _run_embedded(folder: Path) -> Any:
    from likewise.training.runs.run_embeddings import write_embeddings

    write_embeddings(folder / "run", str(folder / "clouds.npz"), folder / "vectors.npz")
    with np.load(folder / "vectors.npz") as arrays:
        return arrays["embeddings"]


# --- a comparison


def _compared(out: Path) -> Any:
    from likewise.comparison.compare import run_comparison
    from likewise.comparison.request import Request

    return run_comparison(_request(Request, out))


def _request(kind: Any, out: Path) -> Any:
    return kind(
        methods=("contrastive", "proxy_nca"),
        data=_pictures(),
        protocol=_protocol_of_a_blink("convnet"),
        seeds=2,
        jobs=1,
        out=out,
        device="cpu",
    )


def _save_comparison(folder: Path) -> None:
    _compared(folder / "made")
    with closing(sqlite3.connect(folder / "made" / "comparison.sqlite")) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _comparison(folder: Path) -> Any:
    """The same command again: scores, or words."""
    results = _compared(folder / "made")
    return [(method.name, method.scores, method.p_value) for method in results.methods]


def _comparison_page(folder: Path) -> Any:
    """Its report, whose files are vectors and thumbnails."""
    from likewise.reports.comparison_report import write_report

    write_report(_compared(folder / "made"), folder / "made")


# --- an index


def _save_index(folder: Path, store: str = "exact", **options: Any) -> None:
    from PIL import Image

    from likewise.search.index import Index

    for label in range(3):
        for number in range(4):
            path = folder / "images" / f"class {label}" / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            pixels = np.random.default_rng([label, number]).integers(0, 255, (6, 6, 3)).astype(np.uint8)
            Image.fromarray(pixels).resize((20, 20)).save(path)
    Index.build(_small_embedder(), folder / "images", out=folder / "made.index", store=store, device="cpu", **options).close()


def _save_faiss_index(folder: Path) -> None:
    _save_index(folder, "faiss")


QUERY = np.eye(4, dtype=np.float32)[:1]


def _index(folder: Path) -> Any:
    from likewise.search.index import Index

    with closing(Index(folder / "made.index", device="cpu")) as index:
        hits = index.search_vectors(QUERY, k=5)[0]
        found = [(Path(hit.path).name, hit.label, round(float(hit.similarity), 6)) for hit in hits]
        index.search_vectors(QUERY, k=2, where="label=class 1")
        return found


def _index_grown(folder: Path) -> Any:
    from likewise.search.index import Index

    _draw(folder / "more" / "new.png")
    with closing(Index(folder / "made.index", device="cpu")) as index:
        index.add(folder / "more")
        return len(index)


def _save_marks(folder: Path) -> None:
    from likewise.search.feedback import Feedback, MarkedImage

    marks = Feedback(folder / "made.index")
    for number in range(4):
        marks.mark(MarkedImage("/a/query.png", "0" * 64), MarkedImage(f"/a/{number}.png", f"{number}" * 64), number % 2 == 0, 0.5)


def _marks(folder: Path) -> Any:
    from likewise.search.feedback import Feedback, classes_of, write_pairs

    pairs = Feedback(folder / "made.index").pairs()
    write_pairs(pairs, folder / "pairs.csv")
    return sorted(classes_of(pairs, {"/a/0.png": "x"})[0].items())


# --- caches


def _save_packed(folder: Path) -> None:
    from PIL import Image

    (folder / "images").mkdir()
    for number in range(24):
        pixels = np.random.default_rng(number).integers(0, 255, (5, 5, 3)).astype(np.uint8)
        Image.fromarray(pixels).resize((16, 16)).save(folder / "images" / f"{number}.png")
    _packed(folder)


def _packed(folder: Path) -> Any:
    from likewise.data.packing.cache import pack
    from likewise.data.readers import read

    packed = pack(read(f"images:{folder / 'images'}", labelled=False), side=16, folder=folder / "cache", workers=1)
    return np.concatenate([packed.image(i).reshape(-1).numpy() for i in range(len(packed))])


def _save_drawing(folder: Path) -> None:
    os.environ["LIKEWISE_CACHE"] = str(folder)
    _drawing(folder)


ASKED = (0, ["a", "b"], 1000, 4)


def _drawing(folder: Path) -> Any:
    from likewise.data.readers.glyph_cache import kept_drawing

    os.environ["LIKEWISE_CACHE"] = str(folder)
    return kept_drawing(ASKED, lambda: (np.arange(2000 * 16).reshape(2000, 4, 4) % 251).astype(np.uint8))


def _save_rows(folder: Path) -> None:
    from likewise.models.frozen.feature_rows import write_rows
    from likewise.models.frozen.streaming import Streamed

    write_rows(folder, {bytes([i] * 8): Streamed(np.full(4, i, np.float32), b"jpeg") if i else "no image" for i in range(5)})


def _rows(folder: Path) -> Any:
    """A damaged file is removed, and its rows are computed anew: never others than were written."""
    from likewise.models.frozen.feature_rows import read_rows

    rows = read_rows(folder, {bytes([i] * 8) for i in range(5)})
    for key, row in rows.items():
        assert row == "no image" if key[0] == 0 else (row.vector == key[0]).all(), "a row that was not written"  # type: ignore[union-attr]
    return None


# --- records


def _save_ledger(folder: Path) -> None:
    from likewise.data.ledger import Occasion, enter_look

    os.environ["LIKEWISE_STATE"] = str(folder)
    for number in range(4):
        enter_look(
            Occasion("train", f"/runs/{number}", f"run {number}", "d" * 64), test="t" * 64, data="birds", num_items=9, purpose="score"
        )


def _ledger(folder: Path) -> Any:
    from likewise.data.ledger import looks_at, read_ledger

    os.environ["LIKEWISE_STATE"] = str(folder)
    ledger = read_ledger()
    looks_at("t" * 64)
    return [repr(look) for look in ledger.looks] if not ledger.damaged and not ledger.changed else None


def _ledger_grown(folder: Path) -> Any:
    from likewise.data.ledger import Occasion, enter_look

    os.environ["LIKEWISE_STATE"] = str(folder)
    return repr(enter_look(Occasion("train", "/x", "x", "d" * 64), test="t" * 64, data="b", num_items=9, purpose="p").is_entered)


def _save_folds(folder: Path) -> None:
    from likewise.adaptation.fold_scores import FoldScore, FoldScores
    from likewise.adaptation.rungs import Setting

    scores = FoldScores(folder / "scores.jsonl")
    for fold in range(3):
        scores.add(FoldScore("features", Setting(), 0, fold, {1: 0.5, 2: 0.25}, {1: 3, 2: 4}, 0.1))


def _folds(folder: Path) -> Any:
    from likewise.adaptation.fold_scores import FoldScores
    from likewise.adaptation.rungs import Setting

    scores = FoldScores(folder / "scores.jsonl")
    scores.seconds("features")
    return [repr(scores.get("features", Setting(), 0, fold)) for fold in range(3)]


def _save_looks(folder: Path) -> None:
    from likewise.reproductions.verdicts.looks import Looks

    looks = Looks(folder)
    looks.number({"claim": 1}, [1.0, 2.0])
    looks.number({"claim": 1}, [1.5, 2.0])
    looks.save()


def _looks(folder: Path) -> Any:
    from likewise.reproductions.verdicts.looks import Looks

    looks = Looks(folder)
    number = looks.number({"claim": 1}, [3.0])
    looks.save()
    return number


def _save_split(folder: Path) -> None:
    from likewise.data.splits import split

    (folder / "split.json").write_text(json.dumps(split(_pictures(), seed=0).to_json()))


def _split(folder: Path) -> Any:
    from likewise.data.splits import Split
    from likewise.formats.settings_files import read_sealed_table

    return Split.from_json(read_sealed_table(folder / "split.json"), _pictures()).train


LEDGER_READS: dict[str, Read] = {"read": _ledger, "add": _ledger_grown}

FORMATS: dict[str, Format] = {
    "vectors.npz": Format(
        _save_npz,
        {"vectors.npz": "zip"},
        {"evaluate": _evaluated("vectors.npz"), "read": _dataset("vectors.npz"), "embed": _dataset("vectors.npz", labelled=False)},
        ("evaluation/embedding_file.py", "data/readers/features.py"),
    ),
    "vectors.npy": Format(
        _save_npy,
        {"vectors.npy": "npy"},
        {"evaluate": _evaluated("vectors.npy", labels="labels.txt"), "read": _dataset("vectors.npy")},
        ("evaluation/embedding_file.py", "data/readers/features.py"),
    ),
    "labels": Format(
        _save_npy,
        {"labels.txt": "lines", "labels.npy": "npy"},
        {
            "text": _evaluated("vectors.npy", labels="labels.txt"),
            "array": _evaluated("vectors.npy", labels="labels.npy"),
            "read": _dataset("vectors.npy"),
        },
        ("evaluation/embedding_file.py", "data/readers/features.py"),
    ),
    "vectors.parquet": Format(
        _save_parquet,
        {"vectors.parquet": "parquet"},
        {"evaluate": _evaluated("vectors.parquet"), "read": _dataset("vectors.parquet")},
        ("evaluation/embedding_file.py", "data/readers/features.py"),
    ),
    "images.parquet": Format(
        _save_parquet,
        {"images.parquet": "parquet"},
        {"read": _dataset("images.parquet"), "embed": _dataset("images.parquet", labelled=False)},
        ("data/readers/table.py",),
    ),
    "images.csv": Format(
        _save_table,
        {"images.csv": "csv"},
        {"read": _dataset("images.csv"), "embed": _dataset("images.csv", labelled=False)},
        ("data/readers/table.py",),
    ),
    "images.tsv": Format(_save_table, {"images.tsv": "lines"}, {"read": _dataset("images.tsv")}, ("data/readers/table.py",)),
    "images.txt": Format(
        _save_list, {"images.txt": "lines"}, {"embed": _dataset("images.txt", labelled=False)}, ("data/readers/unlabelled.py",)
    ),
    "cub": Format(_save_cub, {"*.txt": "lines"}, {"read": _published("cub")}, ("data/readers/listing.py", "data/readers/cub.py")),
    "sop": Format(_save_sop, {"Ebay_*.txt": "lines"}, {"read": _published_without_boxes("sop")}, ("data/readers/listing.py",)),
    "inshop": Format(
        _save_inshop,
        {"Eval/*.txt": "lines", "Anno/*.txt": "lines"},
        {"read": _published("inshop"), "any": _dataset("")},
        ("data/readers/listing.py", "data/readers/inshop.py"),
    ),
    "cars.mat": Format(_save_cars, {"*.mat": "bytes"}, {"read": _published("cars")}, ("data/readers/cars.py",), is_slow=True),
    "cars_plain.mat": Format(_save_cars_plain, {"*.mat": "bytes"}, {"read": _published("cars")}, ("data/readers/cars.py",), is_slow=True),
    "mnist": Format(
        _save_mnist,
        {"*-ubyte": "idx"},
        {"read": _dataset("", labelled=False), "mnist": _published_without_boxes("mnist")},
        ("data/readers/mnist.py",),
    ),
    "mnist.gz": Format(_save_mnist_gz, {"*.gz": "gzip"}, {"read": _published_without_boxes("mnist")}, ("data/readers/mnist.py",)),
    **{
        f"picture.{ending}": Format(
            _save_picture(ending),
            {f"picture.{ending}": kind},
            {"decode": _decoded, "pack": _packed_images, "table": _boxed, "doctor": _doctored, "upload": _as_upload},
            (
                *("data/packing/decode.py", "data/packing/pack_workers.py", "data/readers/table.py", "data/doctor/examination.py"),
                *("data/doctor/contact_sheet.py", "data/image_kind.py", "models/images.py", "search/grouping/near_copies.py"),
                *("search/search_page.py", "serving/served_images.py", "serving/search_service.py"),
            ),
            is_named=False,
        )
        for ending, kind in {
            "jpg": "bytes",
            "png": "png",
            "gif": "bytes",
            "bmp": "bytes",
            "webp": "bytes",
            "tif": "bytes",
            "ppm": "lines",
        }.items()
    },
    "method.toml": Format(
        _copy_toml("methods", "contrastive", "raw_vthm", "soft_triple", "multi_similarity", "ranked_list", "bier"),
        {"*.toml": "toml"},
        {"method": _method, "sampler": _sampled},
        ("configuration.py", "methods/__init__.py"),
    ),
    "protocol.toml": Format(
        _copy_toml("protocols", "quick", "cub", "features"),
        {"*.toml": "toml"},
        {"protocol": _protocol},
        ("configuration.py", "protocols/__init__.py"),
    ),
    "item.toml": Format(_save_item, {"*.toml": "toml"}, {"item": _item}, ("reproductions/paper_item.py",), is_named=False),
    "settings": Format(_save_settings, {"settings.txt": "toml"}, {"train": _settings}, ("configuration.py",), is_named=False),
    "weights.safetensors": Format(
        _save_weights,
        {"weights.safetensors": "safetensors"},
        {"read": _weights("weights.safetensors")},
        ("models/weights/weight_files.py",),
    ),
    "weights.pt": Format(_save_weights, {"weights.pt": "zip"}, {"read": _weights("weights.pt")}, ("models/weights/weight_files.py",)),
    "embedder.json": Format(_save_bundle, {"model/embedder.json": "json"}, {"embed": _bundle}, ("models/bundle.py",)),
    "bundle": Format(_save_bundle, {"model/*.safetensors": "safetensors"}, {"embed": _bundle}, ("models/bundle.py",), is_sealed=True),
    "bundle/calibration.json": Format(_save_bundle, {"model/calibration.json": "json"}, {"embed": _bundle}, ("models/bundle.py",)),
    "calibration.json": Format(
        _save_calibration, {"calibration.json": "json"}, {"read": _calibration}, ("evaluation/calibration/__init__.py",), is_named=False
    ),
    "checkpoint": Format(
        _save_checkpoint, {"last.ckpt": "bytes"}, {"resume": _checkpoint}, ("training/runs/checkpoints.py",), is_sealed=True
    ),
    "run/config.json": Format(_save_run, {"run/config.json": "json"}, {"resume": _run}, ("training/runs/run_folder.py",), is_sealed=True),
    "run/scores.json": Format(_save_run, {"run/scores.json": "json"}, {"resume": _run}, ("training/runs/run_folder.py",), is_sealed=True),
    "run/split.json": Format(
        _save_run, {"run/split.json": "json"}, {"embed": _run_embedded}, ("training/runs/run_embeddings.py", "data/splits.py"), is_slow=True
    ),
    "run/openings": Format(
        _save_run, {"run/test_openings.jsonl": "json lines"}, {"result": _run_openings}, ("data/guard.py",), is_sealed=True
    ),
    "split.json": Format(_save_split, {"split.json": "json"}, {"read": _split}, ("data/splits.py",), is_sealed=True, is_named=False),
    "comparison.json": Format(
        _save_comparison, {"made/comparison.json": "json"}, {"again": _comparison}, ("comparison/folder.py",), is_sealed=True, is_slow=True
    ),
    "comparison.sqlite": Format(
        _save_comparison,
        {"made/comparison.sqlite": "sqlite"},
        {"again": _comparison},
        ("comparison/running/store.py", "comparison/running/database.py", "evaluation/retrieval.py", "comparison/plan.py"),
        is_sealed=True,
        is_slow=True,
    ),
    "comparison/files": Format(
        _save_comparison,
        {"made/*/*": "bytes", "made/*/*/*": "bytes"},
        {"again": _comparison},
        (
            "comparison/gather.py",
            "comparison/results.py",
            "comparison/running/workshop.py",
            "comparison/compare.py",
            "reports/embedding_map.py",
        ),
        is_sealed=True,
        is_slow=True,
    ),
    "index.json": Format(
        _save_index, {"made.index/index.json": "json"}, {"search": _index, "add": _index_grown}, ("search/index_folder.py",)
    ),
    "index/store": Format(
        _save_index,
        {"made.index/store/*.sqlite": "sqlite"},
        {"search": _index, "add": _index_grown},
        ("search/stores/exact_store.py", "search/stores/item_table.py", "search/index_digests.py", "integrity/index_checks.py"),
    ),
    "index/rows": Format(
        _save_index,
        {"made.index/store/*": "bytes"},
        {"search": _index, "add": _index_grown},
        ("search/stores/exact_store.py", "search/stores/row_file.py", "search/stores/item_table.py"),
    ),
    "index/faiss": Format(
        _save_faiss_index,
        {"made.index/store/faiss*": "bytes", "made.index/store/faiss.json": "json"},
        {"search": _index, "add": _index_grown},
        ("search/stores/faiss_index.py", "search/stores/faiss_store.py", "search/stores/faiss_kinds.py"),
    ),
    "index/model": Format(_save_index, {"made.index/model/embedder.json": "json"}, {"add": _index_grown}, ("search/index_folder.py",)),
    "marks": Format(_save_marks, {"made.index/feedback/marks.sqlite": "sqlite"}, {"pairs": _marks}, ("search/feedback.py",)),
    "packed": Format(
        _save_packed,
        {"cache/*.packed": "bytes"},
        {"pack": _packed},
        ("data/packing/packed.py", "data/packing/cache.py"),
        is_sealed=True,
    ),
    "drawing": Format(_save_drawing, {"glyphs/*": "npy"}, {"read": _drawing}, ("data/readers/glyph_cache.py",), is_sealed=True),
    "feature rows": Format(_save_rows, {"*.rows": "bytes"}, {"read": _rows}, ("models/frozen/feature_rows.py",)),
    "ledger": Format(
        _save_ledger, {"*.jsonl": "json lines"}, {"read": _ledger, "add": _ledger_grown}, ("data/ledger.py", "chained_lines.py")
    ),
    "ledger/last": Format(
        _save_ledger, {"*.json": "json"}, {"read": _ledger, "add": _ledger_grown}, ("data/ledger.py", "chained_lines.py")
    ),
    "fold scores": Format(_save_folds, {"scores.jsonl": "json lines"}, {"read": _folds}, ("adaptation/fold_scores.py",)),
    "judgements.json": Format(_save_looks, {"judgements.json": "json"}, {"read": _looks}, ("reproductions/verdicts/looks.py",)),
}
