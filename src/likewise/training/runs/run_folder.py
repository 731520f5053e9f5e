"""RunFolder: what a run leaves on the disk. Everything is written whole or not at all.

config.json       method, protocol, data, seed, weights: what decides the result
split.json        which items train; the test items by their digest only
test_openings.jsonl  every opening of the test classes
log.csv           a row each few steps; tensorboard/ holds the same
checkpoints/      last.ckpt and the one before
embedder/         the trained network, for likewise.Embedder.load
scores.json       of the test classes; none where every class was trained on
environment.json  versions and the machine
README.md         a card, with the exact command
test_queries.npz  the scores of every test query, which those of scores.json are means of

Every .json ends with a digest of itself. scores.json, written last, holds those of the other files, and of the record of openings as it
was then.
"""

from __future__ import annotations

import csv
import io
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from likewise.addresses import command_line, shown_words
from likewise.configuration import differing
from likewise.data.guard import Record, Seal
from likewise.data.ledger import CountedLook
from likewise.environment import num_cores, versions
from likewise.evaluation.retrieval import PerQuery
from likewise.files import file_digest, is_unfinished, remove_unfinished, write_whole
from likewise.formats.regular_file import in_brief
from likewise.sealing import Damaged, digests_below, sealed_json, unsealed_json
from likewise.training.runs.checkpoints import Checkpoints

SCORES, QUERIES = "scores.json", "test_queries.npz"
MEND = "restore it from a copy, or train again with another --out"
GROWS = ("test_openings.jsonl", "test_openings.last.json", "embedder/calibration.json")  # after the run has ended
COLUMNS = ("step", "loss", "seconds", "images_per_second", "R@1", "MAP@R")


@dataclass(frozen=True, eq=False)
class TrainingResult:
    """How a run ended."""

    folder: Path
    scores: dict[str, float]  # of the test classes, in [0, 1]
    best_step: int
    validation: dict[str, float] | None
    seconds: float
    notes: tuple[str, ...] = ()
    look: CountedLook | None = (
        None  # which look at these test classes it was; None: none was taken, or a run from before looks were counted
    )
    num_test_items: int = 0  # 0: every class was trained on, and there is no score


class RunFolder:
    """The folder of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = Checkpoints(path / "checkpoints")
        self.openings = path / "test_openings.jsonl"
        self.embedder = path / "embedder"
        self.tensorboard = path / "tensorboard"

    def check(self, config: dict[str, Any], *, resume: bool) -> None:
        """Refuses a folder that holds another run, or the same where it is not to be resumed. Writes nothing."""
        stored = self.config()
        if stored is None:
            if resume:
                raise ValueError(f"there is no run to resume in {self.path}: leave --resume out, or give the --out of the run")
            if self.path.exists() and (not self.path.is_dir() or any(not is_unfinished(entry) for entry in self.path.iterdir())):
                raise ValueError(f"{self.path} exists and holds no run: choose a new or empty folder with --out, nothing was written")
            existing = next(folder for folder in (self.path, *self.path.absolute().parents) if folder.exists())
            if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
                raise ValueError(f"{self.path} cannot be made: {existing} cannot be written to; choose another folder with --out")
            return
        differences = differing(stored, config)
        if differences:
            first = differences[0]
            more = f" ({len(differences) - 1} more fields differ)" if len(differences) > 1 else ""
            raise ValueError(
                f"{self.path} holds another run: its {first.name} is {first.before}, now it is {first.now}{more}. "
                "Choose another --out, or give the same settings"
            )
        if not resume:
            raise ValueError(f"{self.path} holds this run already: add --resume to go on with it, or choose another --out")

    def begin(self, config: dict[str, Any]) -> None:
        """Makes the folder this configuration's; what a process that was killed left half written goes."""
        remove_unfinished(self.path)
        self.write_json("config.json", config)

    def config(self) -> dict[str, Any] | None:
        return self.read_json("config.json")

    def scores(self) -> dict[str, Any] | None:
        """What scores.json holds; `Damaged` where it is not what the run ended with, or not what its queries come to."""
        return self.checked(SCORES)

    def checked(self, name: str) -> dict[str, Any] | None:
        """What a file with scores holds, after they were computed once more from those of the single queries."""
        content = self.read_json(name)
        if content is not None and QUERIES in content.get("files", {}):
            self._check_queries(name, content)
        return content

    def _check_queries(self, name: str, content: dict[str, Any]) -> None:
        path = self.path / QUERIES
        if not path.is_file():
            raise Damaged(f"{path} is missing, by which the scores of the run are checked: {MEND}")
        if file_digest(path) != content["files"][QUERIES]:
            raise Damaged(f"{path} is damaged, by which the scores of the run are checked: {MEND}")
        unlike = PerQuery.from_bytes(path.read_bytes()).unlike(content["scores"])
        if unlike:
            raise Damaged(f"{self.path / name} was edited: {unlike}; {MEND}")

    def result(self) -> TrainingResult:
        """How the run ended."""
        content = self.scores()
        if content is None:
            ended = "has not ended: go on with its command and --resume"
            what = ended if self.config() is not None else "is a folder that holds no run: give a run, or a file of embeddings"
            raise ValueError(f"{self.path} {what}")
        result = self.result_of(content)
        record = Record(self.openings)
        try:
            seal = Seal(**content["record"]) if "record" in content else None
            is_whole = seal is None or (record.still_holds(seal) and not record.faults())
        except TypeError as fault:
            raise Damaged(f"{self.path / SCORES} is damaged ({in_brief(fault)}): {MEND}") from fault
        if not is_whole:
            note = f"the record of looks at the test classes ({self.openings.name}) was deleted or edited after the run had ended"
            return replace(result, notes=(*result.notes, note))
        return result

    def result_of(self, content: dict[str, Any]) -> TrainingResult:
        """What `scores.json` holds, as a result."""
        try:
            return TrainingResult(
                folder=self.path,
                scores=content["scores"],
                best_step=content["best_step"],
                validation=content["validation"],
                seconds=content["seconds"],
                notes=tuple(content["notes"]),
                look=CountedLook.from_json(content["look"]) if "look" in content else None,
                num_test_items=content["num_test_items"],
            )
        except (KeyError, TypeError, AttributeError) as fault:
            raise Damaged(f"{self.path / SCORES} is damaged ({in_brief(fault)}): {MEND}") from fault

    def end(self, config: dict[str, Any], content: dict[str, Any]) -> None:
        """Writes the card and then the scores, with the digests of all else: a run with scores has ended."""
        self.write_text("README.md", _card(config, content))
        self.write_last(SCORES, content)

    def write_last(self, name: str, content: dict[str, Any], *, grows: Sequence[str] = ()) -> None:
        """With the digests of all other files of the run that are there and do not grow."""
        self.write_json(name, content | {"files": digests_below(self.path, but=(*GROWS, *grows, name))})

    def write_queries(self, queries: PerQuery | None) -> None:
        """The scores of every test query; nothing where there are none."""
        if queries is not None:
            write_whole(self.path / QUERIES, queries.to_bytes())

    def read_json(self, name: str) -> dict[str, Any] | None:
        try:
            return unsealed_json((self.path / name).read_bytes(), self.path / name, mend=MEND)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def write_json(self, name: str, content: dict[str, Any]) -> None:
        write_whole(self.path / name, sealed_json(content))

    def write_text(self, name: str, content: str) -> None:
        write_whole(self.path / name, content.encode())

    def write_log(self, rows: Sequence[dict[str, float]]) -> None:
        """All rows so far: after a resume, those beyond the checkpoint are gone."""
        text = io.StringIO()
        writer = csv.DictWriter(text, COLUMNS)
        writer.writeheader()
        writer.writerows({name: f"{value:.6g}" if name != "step" else int(value) for name, value in row.items()} for row in rows)
        self.write_text("log.csv", text.getvalue())


def environment() -> dict[str, Any]:
    """Versions, machine and time: stored with every result."""
    return {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": versions(),
        "cores": num_cores(),
        "threads": torch.get_num_threads(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "command": shown_words(sys.argv),
    }


def _card(config: dict[str, Any], content: dict[str, Any]) -> str:
    """What was trained on what, how it scored, and the exact command."""
    method, protocol = config["method"], config["protocol"]
    scores = content["scores"]
    validation = content["validation"]
    lines = [
        f"# {method['title']} on {config['data']['name']}",
        "",
        f"{method['summary'][:1].upper()}{method['summary'][1:]} ({method['paper']}). Protocol `{protocol['name']}`: {protocol['about']}.",
        "",
        *(_table(scores) if scores else ("No scores: see the notes.", "")),
        *_look(content),
        f"- step: {content['best_step']} of {protocol['steps']}"
        + (
            f", chosen on held-out training classes (MAP@R {validation['MAP@R']:.1%})"
            if validation
            else ", the last: no classes were held out"
        ),
        f"- time: {content['seconds']:.1f} s of training; peak memory {content['peak_bytes'] / 2**20:,.0f} MiB",
        f"- seed {config['seed']}; data fingerprint `{config['data']['fingerprint'][:16]}`; weights"
        f" {'random' if config['weights'] is None else '`sha256 ' + config['weights'][:16] + '`'}",
        *[f"- note: {note}" for note in content["notes"]],
        "",
        "```sh",
        command_line(),
        "```",
        "",
        "Use it: `likewise embed . DATA -o vectors.npz`, or in Python `likewise.Embedder.load(folder).embed(paths)`.",
        "",
    ]
    return "\n".join(lines)


def _look(content: dict[str, Any]) -> list[str]:
    """What was looked at for the scores."""
    if not content["num_test_items"]:
        return []
    opened = f"Scores of {content['num_test_items']:,} items of test classes, opened once, after training (`test_openings.jsonl`)"
    return [f"{opened}: {CountedLook.from_json(content['look']).in_words}.", ""]


def _table(scores: dict[str, float]) -> list[str]:
    values = [f"{value:.1%}" for value in scores.values()]
    return [f"| {' | '.join(scores)} |", f"|{'---|' * len(scores)}", f"| {' | '.join(values)} |", ""]
