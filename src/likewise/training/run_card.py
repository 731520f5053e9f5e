"""The card of a run: a README.md that says what was trained on what, how it scored, and the exact command."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

from likewise.training.run_folder import RunFolder


def write_card(folder: RunFolder, config: dict[str, Any], content: dict[str, Any]) -> None:
    method, protocol = config["method"], config["protocol"]
    scores = content["scores"]
    validation = content["validation"]
    lines = [
        f"# {method['title']} on {config['data']['name']}",
        "",
        f"{method['summary'][:1].upper()}{method['summary'][1:]} ({method['paper']}). Protocol `{protocol['name']}`: {protocol['about']}.",
        "",
        *(_table(scores) if scores else ("No scores: see the notes.", "")),
        f"Scores of {content['num_test_items']:,} items of test classes, opened once, after training (`test_openings.jsonl`).",
        "",
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
        command(),
        "```",
        "",
        "Use it: `likewise embed . DATA -o vectors.npz`, or in Python `likewise.Embedder.load(folder).embed(paths)`.",
        "",
    ]
    folder.write_text("README.md", "\n".join(lines))


def _table(scores: dict[str, float]) -> list[str]:
    values = [f"{value:.1%}" for value in scores.values()]
    return [f"| {' | '.join(scores)} |", f"|{'---|' * len(scores)}", f"| {' | '.join(values)} |", ""]


def command() -> str:
    """The command line of this process, as it can be typed again."""
    program = Path(sys.argv[0]).name
    return shlex.join(["likewise" if program in ("likewise", "__main__.py") else program, *sys.argv[1:]])
