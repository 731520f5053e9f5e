"""Formats: the one way from a file to what is in it. Whatever is wrong with a file is one ValueError: its name, what is wrong, what to do.

What hands a path to numpy, pyarrow, scipy, torch, json or csv elsewhere is a fault: a test looks for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from likewise.formats.idx_files import read_idx
from likewise.formats.matlab_files import read_mat
from likewise.formats.numpy_files import read_npy, read_npz
from likewise.formats.parquet_files import read_parquet
from likewise.formats.settings_files import read_json, read_toml
from likewise.formats.tensor_files import read_pickled_tensors, read_safetensors
from likewise.formats.text_files import read_delimited, read_lines, read_text_labels


@dataclass(frozen=True)
class Format:
    """A kind of file: how such files end, and what reads one of them whole."""

    about: str
    endings: tuple[str, ...]
    read: Callable[[Path], Any]


FORMATS: dict[str, Format] = {
    "npy": Format("an array of numpy", (".npy",), read_npy),
    "npz": Format("arrays of numpy by name", (".npz",), read_npz),
    "parquet": Format("a table of columns", (".parquet",), read_parquet),
    "csv": Format("a table as text", (".csv",), partial(read_delimited, delimiter=",")),
    "tsv": Format("a table as text, with tabs", (".tsv",), partial(read_delimited, delimiter="\t")),
    "lines": Format("lines of text: paths, annotations", (".txt",), partial(read_lines, expected="lines of text")),
    "labels": Format("a label a line", (".txt",), read_text_labels),
    "json": Format("JSON", (".json",), read_json),
    "toml": Format("TOML: methods and protocols", (".toml",), read_toml),
    "mat": Format("MATLAB's variables", (".mat",), read_mat),
    "idx": Format("MNIST's images", ("-ubyte", "-ubyte.gz"), partial(read_idx, num_dimensions=3)),
    "safetensors": Format("tensors by name", (".safetensors",), read_safetensors),
    "pickled_tensors": Format("tensors as torch saves them", (".pth", ".pt"), read_pickled_tensors),
}
