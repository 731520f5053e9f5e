"""Parquet files, through pyarrow. How much they unpack to is told by their own counts before they are read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from likewise.formats.regular_file import UnreadableFile, parsing, require_regular
from likewise.formats.unpacking import require_room
from likewise.limits import require_within

if TYPE_CHECKING:
    from collections.abc import Sequence

KIND, REMEDY = "Parquet file", "write it again, or save the table as .csv"
LEAST_VALUE = 4  # bytes of memory that a value takes at least
MOST_METADATA = 2**28  # bytes of text, and entries, of a file's table of contents


def parquet_columns(path: Path) -> list[str]:
    """The names of the columns."""
    with parsing(path, KIND, REMEDY):
        return list(_opened(path).schema_arrow.names)


def read_parquet(path: Path, columns: Sequence[str] | None = None) -> Any:  # a pyarrow.Table
    """These columns, or all, as a pyarrow.Table whose texts are text."""
    with parsing(path, KIND, REMEDY):
        file = _opened(path)
        names = file.schema_arrow.names
        repeated = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
        if repeated:
            raise UnreadableFile(f"{path} has several columns {repeated[0]!r}: expected one of each name")
        _require_room(path, file, None if columns is None else set(columns))
        table = file.read(columns=None if columns is None else list(columns), use_threads=False)
        table.validate(full=True)
        return table


def column_texts(path: Path, column: Any, name: str) -> npt.NDArray[np.str_]:
    """A column's cells as text, empty where there is none. Times are not texts; numbers are, as they are written."""
    import pyarrow

    with parsing(path, f"{KIND}: column {name!r}", "save the column as text or whole numbers"):
        return np.array(column.cast(pyarrow.string()).fill_null("").to_pylist(), dtype=np.str_)


def vector_column(column: Any, what: str) -> npt.NDArray[Any]:
    """(N, d) array from an Arrow column of lists, without a Python object a number."""
    import pyarrow
    import pyarrow.compute

    kind = column.type
    if not (pyarrow.types.is_list(kind) or pyarrow.types.is_large_list(kind) or pyarrow.types.is_fixed_size_list(kind)):
        raise ValueError(f"{what} is {kind}: expected lists of numbers")
    inner = kind.value_type
    if not (pyarrow.types.is_integer(inner) or pyarrow.types.is_floating(inner)):
        raise ValueError(f"{what} holds lists of {inner}: expected lists of numbers")
    if column.null_count:
        raise ValueError(f"{what} has {column.null_count:,} empty entries: drop these rows")
    lengths = pyarrow.compute.unique(pyarrow.compute.list_value_length(column)).to_pylist()
    if len(lengths) > 1:
        lengths = [length or 0 for length in lengths]
        raise ValueError(f"{what} has lists of {min(lengths)} to {max(lengths)} numbers: expected the same number everywhere")
    values = column.flatten()
    if values.null_count:
        raise ValueError(f"{what} has {values.null_count} empty numbers: drop these rows")
    flat: npt.NDArray[Any] = values.to_numpy(zero_copy_only=False)
    return flat.reshape(len(column), lengths[0] if lengths else 0)


def _opened(path: Path) -> Any:
    try:
        import pyarrow.parquet
    except ImportError as fault:
        raise UnreadableFile(f'reading {path} needs pyarrow: pip install "likewise[parquet]"') from fault
    require_within("file_bytes", require_regular(path).st_size, f"{path} has bytes:")
    file = pyarrow.parquet.ParquetFile(
        path, memory_map=False, thrift_string_size_limit=MOST_METADATA, thrift_container_size_limit=MOST_METADATA
    )
    require_within("columns", file.metadata.num_columns, f"{path} has columns:")
    require_within("rows", file.metadata.num_rows, f"{path} has rows:")
    return file


def _require_room(path: Path, file: Any, wanted: set[str] | None) -> None:
    """Runs of equal values take no room in the file, so that values count as well as bytes."""
    unpacked = 0
    for group in range(file.metadata.num_row_groups):
        row_group = file.metadata.row_group(group)
        for number in range(row_group.num_columns):
            column = row_group.column(number)
            if wanted is None or column.path_in_schema.split(".")[0] in wanted:
                unpacked += max(column.total_uncompressed_size, LEAST_VALUE * column.num_values)
    require_room(path, unpacked, path.stat().st_size)
