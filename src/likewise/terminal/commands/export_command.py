"""The command `likewise export`: a model as files that run without likewise, and what is worth knowing of them."""

from __future__ import annotations

import json
from pathlib import Path

from likewise.exporting.exporter import DESCRIPTION, export
from likewise.terminal.progress_bar import progress_bar
from likewise.terminal.screen import Screen, say


def run_export(
    model: str, out: Path, *, int8: str | None, browser: Path | None, one_file: bool, runtime: Path | None, as_json: bool
) -> None:
    if browser is None and (one_file or runtime is not None):
        raise ValueError(f"{'--one-file' if one_file else '--runtime'} is for a page that searches: give its index with --browser INDEX")
    with progress_bar() as on_progress:
        exported = export(
            model, out, int8=int8, browser=browser, one_file=one_file, runtime=runtime, on_progress=on_progress, on_note=_note
        )
    described = exported.description
    if as_json:
        print(json.dumps(described, indent=2))
        return
    console = Screen()
    console.print(f"{out / 'model.onnx'}: {described['input']['is']} in,\n{described['output']['is']} out", highlight=False, soft_wrap=True)
    console.print(f"- equal to the embedder within {exported.difference:.0e} on drawn items", highlight=False)
    for words in (*described["words"], *(() if exported.int8 is None else exported.int8.words)):
        console.print(f"- {words}", highlight=False)
    if exported.page is not None:
        console.print(f"- {exported.page}: open it in a browser to search, with or without a network", highlight=False, soft_wrap=True)
    console.print(
        f"also {', '.join(name for name in (*described['files'], DESCRIPTION) if name != 'model.onnx')}", style="dim", highlight=False
    )


def _note(words: str) -> None:
    say(f"note: {words}", err=True)
