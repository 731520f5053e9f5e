"""The commands `likewise embed` and `likewise evaluate`: embeddings of a run or in a file, written or scored."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Literal, cast

from rich.console import Console
from rich.text import Text

from likewise.data.ledger import CountedLook
from likewise.environment import checked_device
from likewise.evaluation.embedding_file import PartName, read_embeddings
from likewise.evaluation.scores import summarise
from likewise.models.backbones import Level
from likewise.terminal.progress_bar import progress_bar
from likewise.terminal.run_view import look_line, result_view
from likewise.terminal.score_tables import summary_view
from likewise.training.run_embeddings import embeddings_to_score, write_embeddings
from likewise.training.run_folder import RunFolder

SCORED: dict[PartName, str] = {
    "test": "test items only; --split all scores those that the network was trained on too",
    "train": "training items only: what the network was trained on, not what it can do with new classes",
    "all": "all items, those that the network was trained on too",
}


def run_embed(run: Path, data: list[str], out: Path, *, levels: str | None, mirror: bool, device: str) -> None:
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
    part: PartName | None,
    labels: Path | None,
    ks: str,
    metrics: str,
    metric: Literal["cosine", "euclidean", "hamming"],
    intervals: Literal["class", "query", "none"],
    seed: int,
    rerank: str | None,
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
    look: CountedLook | None = None
    with progress_bar() as on_progress:
        if file.is_dir():
            embeddings, look = embeddings_to_score(
                file, str(data), part=part, device=checked_device(device), on_progress=on_progress, on_note=_note
            )
        else:
            embeddings = read_embeddings(file, labels=labels, embedding_name=embedding_name, label_name=label_name)
        to_score, scored = embeddings.part(part)
        summary = summarise(
            to_score,
            ks=wanted_ks,
            metrics=[name.strip() for name in metrics.split(",") if name.strip()],
            metric="hamming" if file.is_dir() and embeddings.embeddings.dtype.kind == "u" else metric,  # a run may give packed bits
            intervals=intervals,
            seed=seed,
            rerank=[name.strip() for name in (rerank or "").split(",") if name.strip()],
            with_diagnosis=diagnose,
            device=checked_device(device),
            on_step=None if on_progress is None else lambda step: on_progress(step, 0, 0),
        )
    for note in (*embeddings.notes, *(() if look is None else look.notes)):
        _note(note)
    if as_json:
        told = {"file": str(file), "split": scored, "look": None if look is None else look.as_json(), **summary.as_json()}
        print(json.dumps(told, indent=2, allow_nan=False))
    else:
        about = [] if embeddings.parts is None else [Text(SCORED[scored], style="dim" if scored == "test" else "yellow")]
        Console().print(summary_view(summary, str(file), about=[*about, *([] if look is None else [look_line(look)])]))


def _show_run(folder: Path, *, as_json: bool) -> None:
    """The scores that a run ended with."""
    result = RunFolder(folder).result()
    if as_json:
        look = None if result.look is None else result.look.as_json()
        told = {"run": str(folder), "scores": result.scores, "look": look, "notes": list(result.notes)}
        print(json.dumps(told, indent=2, allow_nan=False))
    else:
        Console().print(result_view(result))


def _note(words: str) -> None:
    print(f"note: {words}", file=sys.stderr)


def _whole_numbers(text: str, option: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError as fault:
        raise ValueError(f"{option} is {text!r}: expected whole numbers with commas between, such as 1,2,4,8") from fault
