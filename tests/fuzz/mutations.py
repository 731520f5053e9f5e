"""Damage to the bytes of a file: at random, and by what its format is made of. The same random numbers do the same damage."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import sqlite3
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

Mutation = Callable[[bytes, Random], bytes]

NUMBERS = (0, 1, -1, 2, 7, 255, 256, 65_535, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63 - 1, 2**63, 10**12, 10**30, -(2**63))
NOT_FINITE = (float("nan"), float("inf"), float("-inf"))
TEXTS = (
    "",
    " ",
    "007",
    "\x00",
    "\x1b[31mred",
    "ä\u0301",
    "\ud800",
    "../../etc/passwd",
    "/dev/zero",
    "x" * 5000,
    "None",
    "nan",
    "1e999",
    "=1+1",
    "\u202e",
)
NESTED = 3000


def mutated(content: bytes, kind: str, draw: Random) -> bytes:
    """One to three mutations, half of them by what the format is made of."""
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        how = KINDS[kind] if kind != "bytes" and draw.random() < 0.6 else at_random
        try:
            content = how(content, draw)
        except _NOT_THAT_FORMAT:  # any more, after what was done to it before
            content = at_random(content, draw)
    return content


_NOT_THAT_FORMAT = (ValueError, KeyError, IndexError, TypeError, EOFError, OSError, RecursionError, OverflowError, NotImplementedError)
_NOT_THAT_FORMAT += (zipfile.BadZipFile, zlib.error, sqlite3.Error, csv.Error)


def at_random(content: bytes, draw: Random) -> bytes:
    """Bits flipped, spans cut out, doubled, moved, inserted or made extreme, the end cut off."""
    return draw.choice((_flip, _flip, _flip, _truncate, _remove, _double, _insert, _extreme, _zeros, _replace, _empty))(content, draw)


def _flip(content: bytes, draw: Random) -> bytes:
    changed = bytearray(content)
    for _ in range(draw.choice((1, 1, 2, 8, 32)) if content else 0):
        changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def _truncate(content: bytes, draw: Random) -> bytes:
    return content[: draw.randrange(len(content) + 1)]


def _span(content: bytes, draw: Random) -> tuple[int, int]:
    start = draw.randrange(len(content) + 1)
    return start, min(len(content), start + draw.choice((1, 4, 16, 100, 1000)))


def _remove(content: bytes, draw: Random) -> bytes:
    start, end = _span(content, draw)
    return content[:start] + content[end:]


def _double(content: bytes, draw: Random) -> bytes:
    start, end = _span(content, draw)
    return content[:end] + content[start:end] * draw.choice((1, 2, 50)) + content[end:]


def _insert(content: bytes, draw: Random) -> bytes:
    start, _ = _span(content, draw)
    return content[:start] + draw.randbytes(draw.choice((1, 3, 8, 200))) + content[start:]


def _replace(content: bytes, draw: Random) -> bytes:
    start, end = _span(content, draw)
    return content[:start] + draw.randbytes(end - start) + content[end:]


def _zeros(content: bytes, draw: Random) -> bytes:
    start, end = _span(content, draw)
    return content[:start] + bytes(end - start) + content[end:]


def _extreme(content: bytes, draw: Random) -> bytes:
    """A whole number of 2, 4 or 8 bytes at its extreme: most often a size."""
    size = draw.choice((2, 4, 8))
    at = draw.randrange(max(1, min(len(content), draw.choice((64, 512, len(content) or 1))) - size))
    number = draw.choice(
        (b"\xff" * size, b"\x7f" + b"\xff" * (size - 1), b"\xff" * (size - 1) + b"\x7f", bytes(size), b"\x00" * (size - 1) + b"\x01")
    )
    return content[:at] + number + content[at + size :]


def _empty(content: bytes, draw: Random) -> bytes:
    return b"" if draw.random() < 0.3 else draw.randbytes(draw.choice((1, 10, 1000)))


# --- values in JSON


def odd_value(draw: Random) -> Any:
    values = (
        lambda: draw.choice(NUMBERS),
        lambda: draw.choice(NOT_FINITE),
        lambda: draw.choice(TEXTS),
        lambda: draw.choice((None, True, False)),
        lambda: draw.choice(([], {}, [[]], [None], {"": None}, [1, "a"], {"name": 3}, [1.5] * 200)),
        lambda: draw.uniform(-1e3, 1e3),
    )
    return draw.choice(values)()


def mutate_value(value: Any, draw: Random) -> Any:
    """The same with one place in it changed: another type, an extreme, a key less, more or of another name."""
    holders: list[tuple[Any, Any]] = []

    def collect(within: Any) -> None:
        keys = within.keys() if isinstance(within, dict) else range(len(within)) if isinstance(within, list) else ()
        for key in list(keys):
            holders.append((within, key))
            collect(within[key])

    collect(value)
    if not holders or draw.random() < 0.03:
        return odd_value(draw)
    within, key = draw.choice(holders)
    what = draw.choice(("value", "value", "value", "scale", "remove", "rename", "add", "swap"))
    if what == "scale" and isinstance(within[key], int | float) and not isinstance(within[key], bool):
        within[key] = within[key] * draw.choice((-1, 0, 2, 0.5, 10**6, 1 / 3)) + draw.choice((0, 0, 1))
    elif what == "remove":
        del within[key]
    elif what == "rename" and isinstance(within, dict):
        within[draw.choice(("", "x" * 3000, f"{key} ", str(key).upper(), "__class__", "\x1b[2J"))] = within.pop(key)
    elif what == "add":
        if isinstance(within, dict):
            within[draw.choice(("new", "__init__", "name", "x" * 3000))] = odd_value(draw)
        else:
            within.insert(draw.randrange(len(within) + 1), odd_value(draw))
    elif what == "swap":
        other, place = draw.choice(holders)
        within[key], other[place] = other[place], within[key]
    else:
        within[key] = odd_value(draw)
    return value


def of_json(content: bytes, draw: Random) -> bytes:
    if draw.random() < 0.06:
        return draw.choice(
            (b"[" * 100_000, b'{"a":' * 50_000, b"[" * NESTED + b"]" * NESTED, b"9" * 10_000, b'"\\ud800"', b"{}", b"null", b"[]")
        )
    if draw.random() < 0.08:  # one key twice
        return re.sub(rb'("\w+"): ', lambda found: found[0] + b"1e999, " + found[0], content, count=1)
    value = mutate_value(json.loads(content), draw)
    if draw.random() < 0.05:
        for _ in range(NESTED):
            value = [value]
        return b"[" * NESTED + b"1" + b"]" * NESTED
    return json.dumps(value).encode("utf-8", "surrogatepass")


def of_json_lines(content: bytes, draw: Random) -> bytes:
    lines = content.split(b"\n")
    at = draw.randrange(max(1, len(lines) - 1))
    what = draw.choice(("json", "json", "remove", "double", "swap", "cut"))
    if what == "json":
        lines[at] = of_json(lines[at], draw)
    elif what == "remove":
        del lines[at]
    elif what == "double":
        lines.insert(at, lines[at])
    elif what == "swap":
        other = draw.randrange(max(1, len(lines) - 1))
        lines[at], lines[other] = lines[other], lines[at]
    else:
        lines[at] = lines[at][: draw.randrange(len(lines[at]) + 1)]
    return b"\n".join(lines)


# --- TOML, as text: so that what no writer writes is among it

_TOML_VALUES = (
    *("nan", "inf", "-inf", "0", "-1", "1e999", "9223372036854775807", "9223372036854775808", "1_000_000_000_000", "0.0", "-0.5"),
    *("true", '""', '"none"', '"x"', "[]", "{}", "[[]]", "[1, 'a']", "{ name = 3 }", "{ name = 'raw' }", "2026-01-01", "07:00:00"),
    *("[nan]", "[-1, 1e12]", "{ low = 1, high = 0 }", "{ low = nan, high = inf, log = true }", "{ choices = [] }", "'\x1b[31m'"),
    *("[" * NESTED + "]" * NESTED, "9" * 5000, f"'{'x' * 5000}'"),
)


def of_toml(content: bytes, draw: Random) -> bytes:
    lines = content.decode().split("\n")
    settings = [i for i, line in enumerate(lines) if re.match(r"\s*[\w.\"-]+\s*=", line)]
    at = draw.choice(settings) if settings else 0
    key = lines[at].partition("=")[0].rstrip()
    what = draw.choice(("value", "value", "value", "value", "remove", "double", "add", "header", "rename", "nested"))
    if what == "value":
        lines[at] = f"{key} = {draw.choice(_TOML_VALUES)}"
    elif what == "remove":
        del lines[at]
    elif what == "double":
        lines.insert(at, lines[at])
    elif what == "add":
        lines.insert(at, f"{draw.choice(('new', 'x' * 3000, 'name', 'a.b.c', '__class__', key + '.x'))} = {draw.choice(_TOML_VALUES)}")
    elif what == "header":
        lines.insert(at, draw.choice(("[loss]", "[[loss]]", "[a.b]", "[" + ".".join("a" * NESTED) + "]", "[sampler]", "[search]", "[]")))
    elif what == "rename":
        lines[at] = lines[at].replace(key, draw.choice((f"{key}s", key.upper(), "''", f"'{key}'")), 1)
    else:
        lines[at] = f"{key} = " + "{a = " * NESTED + "1" + "}" * NESTED
    return "\n".join(lines).encode()


# --- tables and lists


def of_csv(content: bytes, draw: Random) -> bytes:
    rows = list(csv.reader(io.StringIO(content.decode())))
    row = draw.choice(rows)
    at = draw.randrange(len(row))
    what = draw.choice(("cell", "cell", "cell", "header", "row", "no cell", "cells", "columns", "quote", "end", "code", "paths"))
    if what == "cell":
        row[at] = _cell(draw)
    elif what == "header":
        rows[0][draw.randrange(len(rows[0]))] = draw.choice(
            (*rows[0], *(str(name) for name in TEXTS[:6]), "split", "is_query", "bbox", "x_1")
        )
    elif what == "row":
        rows.insert(draw.randrange(len(rows) + 1), draw.choice(rows))
    elif what == "no cell":
        del row[at]
    elif what == "cells":
        row.insert(at, _cell(draw))
    elif what == "columns":
        number = draw.choice((1, 30, 3000))
        for i, each in enumerate(rows):
            each.extend(str(j) if i else f"column {j}" for j in range(number))
    elif what == "quote":
        return content.replace(b",", b',"', 1)
    elif what == "end":
        return content.replace(b"\n", draw.choice((b"\r", b"\r\n", b"\n\n", b"\n\x00")))
    elif what == "code":
        return content.decode().encode(draw.choice(("utf-16", "utf-32", "utf-8-sig", "utf-7")))
    else:
        for each in rows[1:]:
            each[0] = draw.choice((each[0], f"/{each[0]}", f"../{each[0]}", f"./{each[0]}", "."))
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode("utf-8", "surrogatepass")


def _cell(draw: Random) -> str:
    return str(draw.choice((*NUMBERS, *NOT_FINITE, *TEXTS, "1,2,3,4", "train", "query", "true", "."))).replace("\x00", "0")


def of_lines(content: bytes, draw: Random) -> bytes:
    """Lines of words."""
    lines = content.split(b"\n")
    at = draw.randrange(len(lines))
    words = lines[at].split(b" ")
    word = draw.randrange(len(words))
    what = draw.choice(("word", "word", "word", "line", "no line", "no word", "swap"))
    if what == "word":
        words[word] = _cell(draw).encode("utf-8", "surrogatepass")
        lines[at] = b" ".join(words)
    elif what == "line":
        lines.insert(at, draw.choice(lines))
    elif what == "no line":
        del lines[at]
    elif what == "no word":
        del words[word]
        lines[at] = b" ".join(words)
    else:
        other = draw.randrange(len(lines))
        lines[at], lines[other] = lines[other], lines[at]
    return b"\n".join(lines)


# --- containers: what is inside is changed, and the container around it is made whole again


def of_npy(content: bytes, draw: Random) -> bytes:
    """The header: another shape, type or order than there is data for."""
    start = content.index(b"{")
    end = content.index(b"}", start) + 1
    header = content[start:end].decode()
    if draw.random() < 0.6:
        sizes = ", ".join(str(draw.choice((*NUMBERS, 3, 12, 10**9))) for _ in range(draw.choice((0, 1, 2, 3, 33))))
        header = re.sub(r"'shape': \([^)]*\)", f"'shape': ({sizes}{',' if sizes else ''})", header)
    else:
        kinds = ("|O", "<f2", "<f8", "<f16", "<c16", "|V8", "|V0", "<U1000000000", "<U0", "<M8[s]", "|b1", "<i8", "|S3", "zz", ">u4")
        header = re.sub(r"'descr': '[^']*'", f"'descr': '{draw.choice(kinds)}'", header)
    if draw.random() < 0.1:
        header = draw.choice(("{}", "{'descr': " + "[" * NESTED, "{" * 100, header.replace("False", "True"), "__import__('os')"))
    rest = content[content.index(b"\n", end) :] if b"\n" in content[end:] else b"\n"
    head = header.encode()
    return content[:8] + min(len(head) + 1, 65_535).to_bytes(2, "little") + head + rest


def of_zip(content: bytes, draw: Random) -> bytes:
    """A member changed, its checksum right again; members swapped, renamed, left out, doubled; a bomb among them."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = [(name, archive.read(name)) for name in archive.namelist()]
    at = draw.randrange(len(members))
    name, inside = members[at]
    how = zipfile.ZIP_STORED
    what = draw.choice(("inside", "inside", "inside", "header", "header", "swap", "rename", "remove", "double", "bomb", "empty"))
    if what == "inside":
        members[at] = name, at_random(inside, draw)
    elif what == "header":
        members[at] = name, of_npy(inside, draw)
    elif what == "swap":
        other = draw.randrange(len(members))
        members[at], members[other] = (name, members[other][1]), (members[other][0], inside)
    elif what == "rename":
        members[at] = draw.choice(("x.npy", "../../x.npy", "labels", "", "split.npy", "gallery.npy", f"{name}.npy")), inside
    elif what == "remove":
        del members[at]
    elif what == "double":
        members.append((f"{name.removesuffix('.npy')}2.npy", inside))
    elif what == "bomb":
        how = zipfile.ZIP_DEFLATED
        members[at] = name, inside + bytes(draw.choice((10**6, 3 * 10**8)))
    else:
        members[at] = name, b""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", how, compresslevel=1) as archive:
        for member, data in members:
            archive.writestr(member, data)
    return made.getvalue()


def of_gzip(content: bytes, draw: Random) -> bytes:
    inside = gzip.decompress(content)
    if draw.random() < 0.15:
        return gzip.compress(inside + bytes(draw.choice((10, 10**6, 10**8))), 1, mtime=0)
    if draw.random() < 0.15:
        return content + content
    return gzip.compress(of_idx(inside, draw), mtime=0)


def of_idx(content: bytes, draw: Random) -> bytes:
    """MNIST's: the sizes in its header."""
    at = 4 * draw.randrange(max(1, content[3]) + 1)
    return content[:at] + draw.choice(NUMBERS).to_bytes(16, "big", signed=True)[-4:] + content[at + 4 :]


def of_safetensors(content: bytes, draw: Random) -> bytes:
    """The header, whose length stands before it."""
    length = int.from_bytes(content[:8], "little")
    header = of_json(content[8 : 8 + length], draw)
    said = draw.choice((len(header), len(header), len(header), draw.choice(NUMBERS) & (2**64 - 1)))
    return said.to_bytes(8, "little") + header + content[8 + length :]


def of_png(content: bytes, draw: Random) -> bytes:
    """A chunk changed, its checksum right again: among them the sizes, the depth and the kind of colour."""
    chunks, at = [], 8
    while at < len(content):
        length = int.from_bytes(content[at : at + 4], "big")
        chunks.append((content[at + 4 : at + 8], content[at + 8 : at + 8 + length]))
        at += 12 + length
    number = 0 if draw.random() < 0.5 else draw.randrange(len(chunks))
    kind, data = chunks[number]
    what = draw.choice(("change", "change", "double", "remove", "kind", "profile"))
    if what == "change" and kind == b"IHDR":
        sizes = [draw.choice((size, size, 0, 1, 34_500, 2**31 - 1)).to_bytes(4, "big") for size in (64, 48)]
        data = draw.choice((sizes[0] + data[4:], data[:4] + sizes[1] + data[8:], data[:8] + draw.randbytes(5)))
    elif what == "change":
        data = at_random(data, draw)
    if what == "double":
        chunks.insert(number, (kind, data))
    elif what == "remove":
        del chunks[number]
    elif what == "kind":
        chunks[number] = draw.choice((b"IDAT", b"IEND", b"PLTE", b"iCCP", b"tRNS", b"eXIf", b"acTL", b"fdAT", b"zTXt")), data
    elif what == "profile":
        chunks.insert(1, (b"zTXt", b"a\0\0" + zlib.compress(bytes(10**7), 1)))
    else:
        chunks[number] = kind, data
    return content[:8] + b"".join(
        len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big") for kind, data in chunks
    )


def of_sqlite(content: bytes, draw: Random) -> bytes:
    """A value of a table, a row, a whole table: what SQLite itself finds nothing wrong with."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "x.sqlite"
        file.write_bytes(content)
        database = sqlite3.connect(file)
        try:
            tables = [
                name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'")
            ]
            table = draw.choice(sorted(tables))
            columns = [row[1] for row in database.execute(f'PRAGMA table_info("{table}")')]
            rows = [row for (row,) in database.execute(f'SELECT rowid FROM "{table}"')]
            what = draw.choice(("value", "value", "value", "json", "json", "row", "table", "column"))
            column = draw.choice(columns)
            if what in ("value", "json") and rows:
                row = draw.choice(rows)
                ((old,),) = database.execute(f'SELECT "{column}" FROM "{table}" WHERE rowid = ?', (row,))
                new: Any = draw.choice((None, "", "x", -1, 2**62, 0.5, b"\xff\x00", "[" * NESTED, "nan", 1e999))
                if what == "json" and isinstance(old, str) and old[:1] in "{[":
                    new = of_json(old.encode(), draw).decode(errors="replace")
                elif what == "json" and isinstance(old, bytes):
                    new = at_random(old, draw)
                database.execute(f'UPDATE "{table}" SET "{column}" = ? WHERE rowid = ?', (new, row))
            elif what == "row" and rows:
                database.execute(f'DELETE FROM "{table}" WHERE rowid = ?', (draw.choice(rows),))
            elif what == "table":
                database.execute(f'DROP TABLE "{table}"')
            else:
                database.execute(f'ALTER TABLE "{table}" RENAME COLUMN "{column}" TO other')
            database.commit()
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            database.close()
        return file.read_bytes()


def of_parquet(content: bytes, draw: Random) -> bytes:
    """A column of another type, name or length of lists."""
    import pyarrow
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(io.BytesIO(content))
    at = draw.randrange(table.num_columns)
    rows = table.num_rows
    made = (
        lambda: pyarrow.array([None] * rows, pyarrow.string()),
        lambda: pyarrow.array([[1.0] * (i % 3) for i in range(rows)]),
        lambda: pyarrow.array([["a", "b"]] * rows),
        lambda: pyarrow.array([[float("nan"), 1.0]] * rows),
        lambda: pyarrow.array([{"a": 1}] * rows),
        lambda: pyarrow.array([b"\xff\xfe"] * rows),
        lambda: pyarrow.array(range(rows), pyarrow.timestamp("ns")),
        lambda: pyarrow.array([2**63] * rows, pyarrow.uint64()),
        lambda: pyarrow.array([[[1.0]]] * rows),
        lambda: pyarrow.array([True] * rows),
        lambda: pyarrow.array([str(i) for i in range(rows)]).dictionary_encode(),
        lambda: pyarrow.array([[None, 1.0]] * rows),
        lambda: pyarrow.array([1.5] * rows, pyarrow.float16()),
        lambda: pyarrow.array([], pyarrow.string()),
    )
    what = draw.choice(("type", "type", "type", "name", "remove", "double"))
    if what == "type":
        column = draw.choice(made)()
        table = table.slice(0, 0) if len(column) != rows else table.set_column(at, table.column_names[at], column)
    elif what == "name":
        names = table.column_names
        names[at] = draw.choice((*names, "", "split", "bbox", "is_query", "x_1", "x" * 3000))
        table = table.rename_columns(names)
    elif what == "remove":
        table = table.remove_column(at)
    else:
        table = table.append_column(draw.choice(("split", "bbox", "is_gallery", "label")), table.column(at))
    written = io.BytesIO()
    pyarrow.parquet.write_table(table, written)
    return written.getvalue()


KINDS: dict[str, Mutation] = {
    "bytes": at_random,
    "json": of_json,
    "json lines": of_json_lines,
    "toml": of_toml,
    "csv": of_csv,
    "lines": of_lines,
    "npy": of_npy,
    "zip": of_zip,
    "gzip": of_gzip,
    "idx": of_idx,
    "safetensors": of_safetensors,
    "png": of_png,
    "sqlite": of_sqlite,
    "parquet": of_parquet,
}
