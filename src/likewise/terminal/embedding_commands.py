"""The commands `likewise embed` and `likewise evaluate`: embeddings of a run or in a file, written or scored."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Literal, cast

from rich.console import Console

from likewise.environment import checked_device
from likewise.evaluation.embedding_file import read_embeddings
from likewise.evaluation.scores import summarise
from likewise.models.backbones import Level
from likewise.terminal.progress_bar import progress_bar
from likewise.terminal.run_view import result_view
from likewise.terminal.score_tables import summary_view
from likewise.training.run_embeddings import scored_embeddings, write_embeddings
from likewise.training.run_folder import RunFolder


def run_embed(run: Path, data: str, out: Path, *, levels: str | None, mirror: bool, device: str) -> None:
    """Writes the embeddings of DATA by RUN to a file, and says where."""
    chosen = None if levels is None else cast(tuple[Level, ...], tuple(name.strip() for name in levels.split(",")))  # `embed` checks them
    with progress_bar() as on_progress:
        rows, width = write_embeddings(
            run,
            data,
            out,
            device=checked_device(device),
            levels=chosen,
            mirror=mirror,
            on_progress=on_progress,
            on_note=_note,
        )
    print(f"{rows:,} embeddings of {width} numbers: {out}")


def run_evaluate(
    file: Path,
    data: str | None,
    *,
    labels: Path | None,
    ks: str,
    metrics: str,
    metric: Literal["cosine", "euclidean", "hamming"],
    intervals: Literal["class", "query", "none"],
    seed: int,
    diagnose: bool,
    as_json: bool,
    embedding_name: str | None,
    label_name: str | None,
    device: str,
) -> None:
    """Prints the scores of the embeddings in a file, of those that a run makes of DATA, or those that a run ended with."""
    if file.is_dir() and data is None:
        _show_run(file, as_json=as_json)
        return
    wanted_ks = _whole_numbers(ks, "--ks")
    with progress_bar() as on_progress:
        if file.is_dir():
            embeddings = scored_embeddings(file, str(data), device=checked_device(device), on_progress=on_progress, on_note=_note)
        else:
            embeddings = read_embeddings(file, labels=labels, embedding_name=embedding_name, label_name=label_name)
        summary = summarise(
            embeddings,
            ks=wanted_ks,
            metrics=[name.strip() for name in metrics.split(",") if name.strip()],
            metric="hamming" if file.is_dir() and embeddings.embeddings.dtype.kind == "u" else metric,  # a run may give packed bits
            intervals=intervals,
            seed=seed,
            with_diagnosis=diagnose,
            device=checked_device(device),
            on_step=None if on_progress is None else lambda step: on_progress(step, 0, 0),
        )
    if as_json:
        print(json.dumps({"file": str(file), **summary.as_json()}, indent=2, allow_nan=False))
    else:
        Console().print(summary_view(summary, str(file)))


def _show_run(folder: Path, *, as_json: bool) -> None:
    """The scores that a run ended with."""
    result = RunFolder(folder).result()
    if as_json:
        print(json.dumps({"run": str(folder), "scores": result.scores}, indent=2, allow_nan=False))
    else:
        Console().print(result_view(result))


def _note(words: str) -> None:
    print(f"note: {words}", file=sys.stderr)


def _whole_numbers(text: str, option: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError as fault:
        raise ValueError(f"{option} is {text!r}: expected whole numbers with commas between, such as 1,2,4,8") from fault
