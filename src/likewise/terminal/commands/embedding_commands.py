"""The commands `likewise embed` and `likewise evaluate`: embeddings of a run or in a file, written or scored."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any, Literal, cast

from rich.text import Text

from likewise.adaptation.adapt import Adaptation, read_adaptation
from likewise.comparison.folder import MARK, REPORT
from likewise.data.ledger import CountedLook
from likewise.environment import checked_device
from likewise.evaluation.embedding_file import EmbeddingFile, PartName, read_embeddings
from likewise.evaluation.scores import Summary, summarise
from likewise.models.backbones import Level
from likewise.models.bundle import DESCRIPTION
from likewise.terminal.commands.adapt_command import ladder_view
from likewise.terminal.progress_bar import progress_bar
from likewise.terminal.run_view import look_line, result_view
from likewise.terminal.score_tables import levels_view, summary_view
from likewise.terminal.screen import Screen, say
from likewise.training.runs.run_embeddings import embeddings_to_score, levels_to_score, write_embeddings
from likewise.training.runs.run_folder import RunFolder

ALL = "all"  # combinations of levels
SCORED: dict[PartName, str] = {
    "test": "test items only; --split all scores those that the network was trained on too",
    "train": "training items only: what the network was trained on, not what it can do with new classes",
    "all": "all items, those that the network was trained on too",
}


def run_embed(run: Path, data: list[str], out: Path, *, levels: str | None, mirror: bool, ray: str | None, device: str) -> None:
    """Writes the embeddings of DATA by RUN to a file, and says where."""
    with progress_bar() as on_progress:
        rows, width = write_embeddings(
            run,
            data,
            out,
            device=device,
            levels=_levels(levels),
            mirror=mirror,
            ray=ray,
            on_progress=on_progress,
            on_note=_note,
        )
    say(f"{rows:,} embeddings of {width} numbers: {out}")


def run_evaluate(
    file: Path,
    data: str | None,
    *,
    part: PartName | None,
    levels: str | None,
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
    if levels is not None and (not file.is_dir() or data is None):
        raise ValueError(f"--levels {levels}: levels are scored of a run on DATA: likewise evaluate RUN DATA --levels {levels}")
    if file.is_dir() and data is None:
        _show_run(file, as_json=as_json)
        return
    wanted_ks = _whole_numbers(ks, "--ks")
    look: CountedLook | None = None
    with progress_bar() as on_progress:
        opened: dict[str, Any] = {"part": part, "device": checked_device(device), "on_progress": on_progress, "on_note": _note}
        of_levels: dict[tuple[Level, ...], EmbeddingFile]
        if levels == ALL:
            of_levels, look = levels_to_score(file, str(data), **opened)
        elif file.is_dir():
            embeddings, look = embeddings_to_score(file, str(data), levels=_levels(levels), **opened)
            of_levels = {(): embeddings}
        else:
            of_levels = {(): read_embeddings(file, labels=labels, embedding_name=embedding_name, label_name=label_name)}

        def summed_up(embeddings: EmbeddingFile) -> Summary:
            return summarise(
                embeddings.part(part)[0],
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

        summaries = {names: summed_up(embeddings) for names, embeddings in of_levels.items()}
    whole, summary = list(of_levels.values())[-1], list(summaries.values())[-1]
    scored = whole.part(part)[1]
    for note in (*whole.notes, *(() if look is None else look.notes)):
        _note(note)
    if as_json:
        told = {"file": str(file), "split": scored, "look": None if look is None else look.as_json(), **summary.as_json()}
        told |= {"levels": {"+".join(names): found.as_json() for names, found in summaries.items()}} if levels == ALL else {}
        print(json.dumps(told, indent=2, allow_nan=False))
        return
    about = [] if whole.parts is None else [Text(SCORED[scored], style="dim" if scored == "test" else "yellow")]
    about += [] if look is None else [look_line(look)]
    if levels == ALL:
        Screen().print(levels_view(summaries, str(file), about=about))
    else:
        Screen().print(summary_view(summary, str(file), about=about))


def _show_run(folder: Path, *, as_json: bool) -> None:
    """The scores that a training ended with, or an adaptation."""
    if (folder / MARK).is_file():
        raise ValueError(f"{folder} holds a comparison, with its scores in {folder / REPORT}: give DATA too, to score its best on that")
    if (folder / DESCRIPTION).is_file():
        raise ValueError(f"{folder} is an embedder, which is scored on data: likewise evaluate {shlex.quote(str(folder))} DATA")
    adaptation = read_adaptation(folder)
    result = RunFolder(folder).result() if adaptation is None else adaptation
    if as_json:
        look = None if result.look is None else result.look.as_json()
        told = {"run": str(folder), "scores": result.scores, "look": look, "notes": list(result.notes)}
        print(json.dumps(told, indent=2, allow_nan=False))
    else:
        Screen().print(ladder_view(result) if isinstance(result, Adaptation) else result_view(result))


def _note(words: str) -> None:
    say(f"note: {words}", err=True)


def _levels(text: str | None) -> tuple[Level, ...] | None:
    """("low", "high") of "low,high"; `embed` checks them."""
    return None if text is None else cast(tuple[Level, ...], tuple(name.strip() for name in text.split(",")))


def _whole_numbers(text: str, option: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError as fault:
        raise ValueError(f"{option} is {text!r}: expected whole numbers with commas between, such as 1,2,4,8") from fault
