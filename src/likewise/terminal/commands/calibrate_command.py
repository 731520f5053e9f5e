"""The command `likewise calibrate`: what the similarities of a model mean, stored beside it, in words and as a page."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from rich.text import Text

from likewise.environment import checked_device
from likewise.evaluation.calibration import calibrate, check_shares
from likewise.files import check_output, write_whole
from likewise.models.bundle import bundle_home, write_calibration
from likewise.models.embedder import Embedder
from likewise.models.opening import model_folder
from likewise.models.weights.pretrained import WEIGHTS
from likewise.reports.calibration_page import calibration_page
from likewise.terminal.progress_bar import progress_bar
from likewise.terminal.run_view import look_line
from likewise.terminal.screen import Screen, say
from likewise.training.runs.run_embeddings import embeddings_to_score

SCORING = ("compare", "train", "adapt")  # commands whose look at the test classes it is, of the same weights, if they took it


def run_calibrate(
    model: str, data: str, *, false_accepts: float, confidence: float, out: Path | None, page: Path | None, as_json: bool, device: str
) -> None:
    """Calibrates on those items of DATA whose classes MODEL was not trained on."""
    check_shares(false_accepts, confidence)
    if page is not None:
        check_output(page)
    folder = _model_folder(model, out)
    with progress_bar() as on_progress:
        embeddings, look = embeddings_to_score(folder, data, device=checked_device(device), on_progress=on_progress, on_note=_note)
    items = embeddings.part(None)[0]
    if items.embeddings.dtype.kind == "u":
        raise ValueError(f"{model} gives bits: expected vectors, whose cosine similarity is calibrated")
    vectors = items.embeddings if items.gallery is None else np.concatenate([items.embeddings, items.gallery])
    labels = items.labels if items.gallery_labels is None else np.concatenate([items.labels, items.gallery_labels])
    calibration = calibrate(vectors, labels, false_accepts=false_accepts, confidence=confidence)
    stored = write_calibration(folder, calibration.as_table())
    page = bundle_home(folder) / "calibration.html" if page is None else page
    write_whole(page, calibration_page(calibration, f"{model}, calibrated on {data}").encode())
    if as_json:
        print(calibration.to_json())
        return
    console = Screen()
    console.print(Text(f"{calibration.num_items:,} items of {calibration.num_classes:,} classes", style="dim"))
    if look is not None:
        console.print(look_line(look).append(f", the same that `likewise {look.look.what}` took" if look.look.what in SCORING else ""))
    for words in calibration.words:
        console.print(f"- {words}", highlight=False)
    console.print(f"stored in {stored}; curves: {page}", soft_wrap=True, highlight=False, style="dim")


def _model_folder(model: str, out: Path | None) -> Path:
    """The folder of a run, of an embedder, of a comparison's best or an index's model; pretrained weights become an embedder first."""
    if model in WEIGHTS and not Path(model).exists():
        if out is None:
            raise ValueError(f"{model} is the name of weights and has no folder that a calibration could be stored in: give one with --out")
        Embedder.pretrained(model).save(out)
        return out
    if out is not None:
        raise ValueError(f"--out is {out}, but {model} has a folder of its own: leave out --out")
    return model_folder(model)


def _note(words: str) -> None:
    say(f"note: {words}", err=True)
