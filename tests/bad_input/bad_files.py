"""The table of bad files: for every format a sound one, and all that is known to have gone wrong with such files."""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import stat
import struct
import zipfile
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from likewise.formats import FORMATS

VECTORS = np.arange(24, dtype=np.float32).reshape(8, 3)
LABELS = np.array(["a", "b"] * 4)
ZEROS = 100 * 2**20  # bytes that a bomb unpacks to

Make = Callable[[Path], object]


def _npy(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def _npz(**arrays: Any) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def _parquet(table: Any) -> bytes:
    import pyarrow.parquet

    file = io.BytesIO()
    pyarrow.parquet.write_table(table, file)
    return file.getvalue()


def _vectors_table() -> Any:
    import pyarrow

    return pyarrow.table({"embedding": list(VECTORS), "label": LABELS.tolist(), "path": [f"{i}.png" for i in range(8)]})


def _mat() -> bytes:
    from scipy.io import savemat

    kind = [(name, object) for name in ("relative_im_path", "class", "bbox_x1", "bbox_y1", "bbox_x2", "bbox_y2")]
    rows = [(f"car_ims/{i}.jpg", 1 + i % 2, 1, 0, 5, 3) for i in range(4)]
    file = io.BytesIO()
    savemat(file, {"annotations": np.array(rows, dtype=kind), "class_names": np.array(["x", "y"], dtype=object)}, do_compression=True)
    return file.getvalue()


def _pth(content: Any) -> bytes:
    file = io.BytesIO()
    torch.save(content, file)
    return file.getvalue()


def _safetensors(state: dict[str, torch.Tensor]) -> bytes:
    from safetensors.torch import save

    return save(state)


@cache
def sound(name: str) -> bytes:
    """The bytes of a sound file of the format."""
    made: dict[str, Callable[[], bytes]] = {
        "npy": lambda: _npy(VECTORS),
        "npz": lambda: _npz(features=VECTORS, embeddings=VECTORS, labels=LABELS),
        "parquet": lambda: _parquet(_vectors_table()),
        "csv": lambda: b"path,label\n" + b"".join(f"{i}.png,{'ab'[i % 2]}\n".encode() for i in range(8)),
        "tsv": lambda: b"path\tlabel\n" + b"".join(f"{i}.png\t{'ab'[i % 2]}\n".encode() for i in range(8)),
        "lines": lambda: b"".join(f"{i}.png\n".encode() for i in range(8)),
        "labels": lambda: b"a\nb\n" * 4,
        "json": lambda: b'{"a": [1, 2.5, "x", null, {"b": true}]}',
        "toml": lambda: b'a = 1\n[loss]\nname = "raw"\n',
        "mat": _mat,
        "idx": lambda: struct.pack(">4I", 0x803, 8, 4, 4) + bytes(128),
        "safetensors": lambda: _safetensors({"weight": torch.ones(3, 4)}),
        "pickled_tensors": lambda: _pth({"weight": torch.ones(3, 4)}),
    }
    assert made.keys() == FORMATS.keys(), "a format without a sound file: add one"
    return made[name]()


def _content(content: Callable[[str], bytes]) -> Callable[[str, Path], object]:
    return lambda name, path: path.write_bytes(content(name))


def _flipped(name: str) -> bytes:
    data = bytearray(sound(name))
    for place in range(len(data) // 3, len(data), max(1, len(data) // 7)):
        data[place] ^= 0xFF
    return bytes(data)


# Of every format: what lies there instead of the file.
BAD: dict[str, Callable[[str, Path], object]] = {
    "missing": lambda _, path: None,
    "a folder": lambda _, path: path.mkdir(),
    "a pipe": lambda _, path: os.mkfifo(path),
    "a socket": lambda _, path: os.mknod(path, stat.S_IFSOCK | 0o600),
    "a link to itself": lambda _, path: path.symlink_to(path.name),
    "a device": lambda _, path: path.symlink_to("/dev/zero"),
    "empty": _content(lambda _: b""),
    "junk": _content(lambda _: np.random.default_rng(0).bytes(3000)),
    "half": _content(lambda name: sound(name)[: len(sound(name)) // 2]),
    "all but the end": _content(lambda name: sound(name)[:-1]),
    "more behind": _content(lambda name: sound(name) + b"\0" * 100),
    "flipped": _content(_flipped),
    "nulls": _content(lambda _: bytes(5000)),
    "another format": _content(lambda name: sound("npz" if name != "npz" else "npy")),
    "a pickle": _content(lambda _: pickle.dumps({"a": print})),
}


def _npy_header(text: str, *, version: int = 1, length: int | None = None) -> bytes:
    header = text.encode("latin1") + b"\n"
    size = len(header) if length is None else length
    return b"\x93NUMPY" + bytes([version, 0]) + size.to_bytes(2 if version == 1 else 4, "little") + header


def _shaped(shape: str, kind: str = "<f4") -> bytes:
    return _npy_header(f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}}}") + bytes(64)


_BAD_ARRAYS: dict[str, Callable[[], bytes]] = {
    "says it has 40 TB": lambda: _shaped("(100000000, 100000)"),
    "says it has 10^12 rows": lambda: _shaped("(1000000000000,)"),
    "says it has rows of nothing": lambda: _shaped("(1000000000000, 0)"),
    "texts of no letters": lambda: _shaped("(1000000000000,)", "<U0"),
    "a size below 0": lambda: _shaped("(-1, -8)"),
    "sizes that overflow": lambda: _shaped("(4294967296, 4294967296)"),
    "objects": lambda: _npy(np.array([{}, None], dtype=object)),
    "times": lambda: _npy(np.array(["2020-01-01"] * 8, dtype="datetime64[D]")),
    "a table": lambda: _npy(np.zeros(8, dtype=[("a", "f4"), ("ä", "f4")])),
    "complex": lambda: _npy(VECTORS.astype(complex)),
    "longdouble": lambda: _npy(VECTORS.astype(np.longdouble)),
    "the other byte order": lambda: _npy(VECTORS.astype(">f8")),
    "no dimension": lambda: _npy(np.float32(3)),
    "five dimensions": lambda: _npy(np.zeros((1, 2, 1, 2, 1))),
    "NaN": lambda: _npy(VECTORS * np.nan),
    "an oversized header": lambda: _npy_header("{'descr': '<f4', " + " " * 60_000 + "}"),
    "a nested header": lambda: _npy_header("[" * 9_000),
    "a header that is cut": lambda: _npy_header("{}", length=60_000),
    "a header of code": lambda: _npy_header("__import__('os').system('true')"),
    "of a later version": lambda: _npy_header("{}", version=9),
}


def _zipped(content: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, data in content.items():
            archive.writestr(name, data)
    return file.getvalue()


def _archive_of(make: Callable[[], bytes]) -> bytes:
    data = make()
    return _zipped({"features.npy": data, "embeddings.npy": data, "labels.npy": _npy(LABELS)})


@cache
def _zip_bomb() -> bytes:
    header = _npy_header(f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({ZEROS},)}}")
    labels = _npy(LABELS)
    return _zipped({"features.npy": header + bytes(ZEROS), "embeddings.npy": header + bytes(ZEROS), "labels.npy": labels})


def _encrypted() -> bytes:
    data = bytearray(_npz(features=VECTORS, embeddings=VECTORS, labels=LABELS))
    place = 0
    while (place := data.find(b"PK\x01\x02", place)) >= 0:
        data[place + 8] |= 1
        place += 4
    return bytes(data)


@cache
def _run_of_equal_values() -> bytes:
    import pyarrow

    values = pyarrow.array(np.zeros(ZEROS // 4, dtype=np.int8))
    return _parquet(pyarrow.table({"path": values, "label": values, "embedding": values}))


def _not_utf8() -> Any:
    import pyarrow

    offsets = pyarrow.py_buffer(np.arange(9, dtype=np.int32).tobytes())
    texts = pyarrow.StringArray.from_buffers(8, offsets, pyarrow.py_buffer(b"\xff" * 8))
    return pyarrow.table({"embedding": list(VECTORS), "label": texts, "path": texts})


def _table(**columns: Any) -> bytes:
    import pyarrow

    return _parquet(pyarrow.table(columns))


_BAD_TEXT: dict[str, Callable[[], bytes]] = {
    "not UTF-8": lambda: b"path,label\n\xff\xfe.png,\xc3\n",
    "UTF-16": lambda: "path,label\n1.png,a\n".encode("utf-16"),
    "a long line": lambda: b"x" * 3_000_000,
    "names with nulls": lambda: b"path,label\n1\0.png,a\n2\0.png,b\n",
    "a name that is too long": lambda: b"path,label\n" + b"x" * 5000 + b".png,a\n",
}
_BAD_SETTINGS: dict[str, Callable[[], bytes]] = {
    "not UTF-8": lambda: b'a = "\xff"',
    "a number of 10,000 digits": lambda: b"a = " + b"9" * 10_000,
}

# Of one format: what is in the file.
BAD_OF: dict[str, dict[str, Callable[[], bytes]]] = {
    "npy": _BAD_ARRAYS,
    "npz": {
        **{words: partial(_archive_of, make) for words, make in _BAD_ARRAYS.items()},
        "a bomb": _zip_bomb,
        "encrypted": _encrypted,
        "no arrays": lambda: _zipped({}),
        "what is no array": lambda: _zipped({"features.npy": b"hello", "embeddings.npy": b"", "labels": b"x"}),
        "labels of another number": lambda: _npz(features=VECTORS, embeddings=VECTORS, labels=LABELS[:3]),
        "labels that are no text": lambda: _npz(features=VECTORS, embeddings=VECTORS, labels=np.array([b"\xff"] * 8)),
        "a split of no words": lambda: _npz(features=VECTORS, embeddings=VECTORS, labels=LABELS, split=np.arange(8)),
    },
    "parquet": {
        "runs of equal values": _run_of_equal_values,
        "texts that are no UTF-8": lambda: _parquet(_not_utf8()),
        "vectors of several lengths": lambda: _table(embedding=[[1.0], [1.0, 2.0]], label=["a", "b"], path=["1", "2"]),
        "vectors of texts": lambda: _table(embedding=[["x"], ["y"]], label=["a", "b"], path=["1", "2"]),
        "no vectors": lambda: _table(embedding=[None, [1.0]], label=["a", "b"], path=["1", "2"]),
        "tables as labels": lambda: _table(embedding=[[1.0], [2.0]], label=[{"x": 1}, {"x": 2}], path=["1", "2"]),
        "no rows": lambda: _table(embedding=[], label=[], path=[]),
        "a box of one number": lambda: _table(path=["1.png"], label=["a"], bbox=[7]),
        "a footer that says 2 GB": lambda: sound("parquet")[:-8] + struct.pack("<I", 2**31 - 1) + b"PAR1",
    },
    "csv": {
        **_BAD_TEXT,
        "a quote that stays open": lambda: b'path,label\n"1.png,a\n',
        "rows of several lengths": lambda: b"path,label\n1.png,a,b\n2.png\n",
        "100,000 columns": lambda: ",".join(map(str, range(100_000))).encode() + b"\n",
        "300,000 columns": lambda: ",".join(map(str, range(300_000))).encode() + b"\n",
        "a box of words": lambda: b"path,label,bbox\n0.png,a,x y z w\n",
        "a box of infinity": lambda: b"path,label,x1,y1,x2,y2\n0.png,a,0,0,inf,1e999\n",
    },
    "tsv": {**_BAD_TEXT, "a quote that stays open": lambda: b'path\tlabel\n"1.png\ta\n'},
    "lines": _BAD_TEXT,
    "labels": _BAD_TEXT,
    "json": {
        **_BAD_SETTINGS,
        "nested 100,000 deep": lambda: b"[" * 100_000 + b"]" * 100_000,
        "tables nested 5,000 deep": lambda: b'{"a":' * 5_000 + b"1" + b"}" * 5_000,
        "nested 500 deep": lambda: b'{"a":' * 500 + b"1" + b"}" * 500,
        "a number of 10,000 digits": lambda: b'{"a": ' + b"9" * 10_000 + b"}",
        "a list": lambda: b"[]",
        "a text": lambda: b'"x"',
        "nothing": lambda: b"null",
        "NaN": lambda: b'{"a": NaN, "b": Infinity}',
        "an empty table": lambda: b"{}",
    },
    "toml": {
        **_BAD_SETTINGS,
        "nested 100,000 deep": lambda: b"a = " + b"[" * 100_000 + b"]" * 100_000,
        "nested 200 deep": lambda: b"a = " + b"[" * 200 + b"]" * 200,
        "a name of 1,000 tables": lambda: b".".join([b"a"] * 1_000) + b" = 1",
        "NaN": lambda: b'paper = "x"\nsummary = "x"\ntitle = "x"\nmemory_warm_up = nan\nloss = "raw"\n',
        "two of one name": lambda: b"a = 1\na = 2\n",
    },
    "mat": {
        "of version 7.3": lambda: b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM" + b"\x89HDF\r\n\x1a\n" + bytes(512),
        "a variable of 4 GB": lambda: b"MATLAB 5.0 MAT-file".ljust(124) + b"\x00\x01IM" + struct.pack("<II", 14, 2**32 - 1) + bytes(64),
        "nested": lambda: b"MATLAB 5.0 MAT-file".ljust(124) + b"\x00\x01IM" + struct.pack("<II", 15, 20) + bytes(20),
    },
    "idx": {
        "says it has 40 GB": lambda: struct.pack(">4I", 0x803, 51_000_000, 28, 28) + bytes(1000),
        "says it has 10^27 bytes": lambda: struct.pack(">4I", 0x803, *(2**30,) * 3) + bytes(1000),
        "of four dimensions": lambda: struct.pack(">5I", 0x804, 1, 2, 2, 2) + bytes(8),
        "no images": lambda: struct.pack(">4I", 0x803, 0, 28, 28),
    },
    "safetensors": {
        "a header of 10^18 bytes": lambda: struct.pack("<Q", 10**18) + b"{}",
        "tensors beyond the end": lambda: _header_alone({"a": {"dtype": "F32", "shape": [10**6, 10**6], "data_offsets": [0, 4 * 10**12]}}),
        "tensors that overlap": lambda: _header_alone(
            {name: {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]} for name in ("a", "b")}, bytes(16)
        ),
        "a nested header": lambda: struct.pack("<Q", 8_000) + b"[" * 8_000,
        "NaN": lambda: _safetensors({"weight": torch.full((3, 4), torch.nan)}),
    },
    "pickled_tensors": {
        "code": lambda: _pth({"weight": _Evil()}),
        "a list": lambda: _pth([1, 2]),
        "a bomb": lambda: _zipped({"archive/data.pkl": pickle.dumps({}), "archive/data/0": bytes(ZEROS), "archive/version": b"3\n"}),
        "sparse": lambda: _pth({"weight": torch.ones(3, 4).to_sparse()}),
        "expanded to 10^12": lambda: _pth({"weight": torch.zeros(1).expand(10**12)}),
        "NaN": lambda: _pth({"weight": torch.full((3, 4), torch.nan)}),
        "numbers as names": lambda: _pth({1: torch.ones(3)}),
    },
}


def _header_alone(header: dict[str, Any], data: bytes = b"") -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


class _Evil:
    def __reduce__(self) -> tuple[object, ...]:
        return print, ("code has run",)


def gzipped_bomb() -> bytes:
    """An IDX file of as many zeros as it says, a thousandth of that when packed."""
    return gzip.compress(struct.pack(">4I", 0x803, ZEROS // 784, 28, 28) + bytes(ZEROS // 784 * 784), 1)


def bad_files(name: str) -> dict[str, Make]:
    """What makes each bad file of the format at a path, by what is wrong with it."""
    everywhere = {words: partial(make, name) for words, make in BAD.items()}
    own = {words: partial(_write, make) for words, make in BAD_OF[name].items()}
    return {**everywhere, **own}


def _write(make: Callable[[], bytes], path: Path) -> object:
    return path.write_bytes(make())
