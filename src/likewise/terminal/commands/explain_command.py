"""The command `likewise explain`: where two images match, as a page or a picture, and the sum in a few lines."""

from __future__ import annotations

import json
from pathlib import Path

from likewise.environment import checked_device
from likewise.explanation.match_picture import contribution_in_words
from likewise.explanation.matching import Explanation, checked_ending, explain
from likewise.files import check_output
from likewise.terminal.progress_bar import progress_bar
from likewise.terminal.screen import Screen


def run_explain(model: str, first: Path, second: Path, out: Path, *, num_pairs: int, occlusion: bool, as_json: bool, device: str) -> None:
    """Explains and writes the file."""
    checked_ending(out)
    check_output(out)
    with progress_bar() as on_progress:
        explanation = explain(
            model, first, second, occlusion=occlusion, num_pairs=num_pairs, device=checked_device(device), on_progress=on_progress
        )
    explanation.save(out)
    if as_json:
        print(json.dumps(explanation.as_table(), indent=1, allow_nan=False))
        return
    _show(explanation, out)


def _show(explanation: Explanation, out: Path) -> None:
    console = Screen(highlight=False)
    console.print(f"similarity {explanation.similarity:.4f}")
    if explanation.meaning is not None:
        console.print(explanation.meaning, style="dim")
    for name, value in explanation.parts.items():
        if value:
            console.print(f"- {name}: {value:+.4f}")
    for number, pair in enumerate(explanation.pairs, 1):
        console.print(f"- matching region {number}: {contribution_in_words(explanation, pair.contribution)}", style="dim")
    checks = [(image.name, image.occlusion.agreement) for image in (explanation.a, explanation.b) if image.occlusion is not None]
    if checks:
        agreements = (f"{'cannot be told' if agreement is None else f'{agreement:.2f}'} in {name}" for name, agreement in checks)
        console.print(
            f"check by covering parts of an image: does the similarity fall most where it is said to come from? {' and '.join(agreements)} "
            "(rank correlation; 1 is full agreement)"
        )
    console.print(f"written to {out}", style="dim", soft_wrap=True)
