"""RowFile: rows of one width and type in a file that only grows, mapped into memory by whoever reads them."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.files import flush_folder

Rows = npt.NDArray[Any]  # (rows, columns)


@dataclass(frozen=True)
class RowFile:
    """How many of its rows count is written elsewhere: what stands beyond them was never acknowledged, and is overwritten."""

    path: Path
    dtype: np.dtype[Any]
    columns: int

    @property
    def row_bytes(self) -> int:
        return self.dtype.itemsize * self.columns

    def create(self) -> None:
        """An empty file, whatever a killed process left under its name."""
        self.path.write_bytes(b"")
        flush_folder(self.path.parent)

    def write(self, start: int, rows: Rows) -> None:
        """Writes rows from number `start` on; they are on the disk when this returns."""
        if rows.dtype != self.dtype or rows.shape[1:] != (self.columns,):
            raise AssertionError(f"rows of {rows.dtype} {rows.shape} for {self}")
        with self.path.open("r+b") as file:
            file.seek(start * self.row_bytes)
            file.write(np.ascontiguousarray(rows).data)
            file.flush()
            os.fsync(file.fileno())

    def mapped(self, num_rows: int) -> Rows:
        """The first rows. Whatever is done to the array stays in memory: torch takes none that it may not write."""
        if num_rows == 0:
            return np.zeros((0, self.columns), self.dtype)
        size = self.path.stat().st_size
        if size < num_rows * self.row_bytes:
            needed = f"it has {size:,} bytes, and its {num_rows:,} rows need {num_rows * self.row_bytes:,}"
            raise OSError(errno.EIO, f"{needed}: it was cut; copy the whole index again, or build it anew", str(self.path))
        mapped = np.memmap(self.path, self.dtype, "c", shape=(num_rows, self.columns))
        return mapped.view(np.ndarray)  # whose parts are had more quickly
