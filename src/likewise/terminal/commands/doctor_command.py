"""The command `likewise doctor`: reads a data set, diagnoses it, prints and writes what was found."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

from likewise.data.dataset import Features
from likewise.data.doctor import DatasetReport, contact_sheet, diagnose_dataset
from likewise.data.readers import read
from likewise.files import write_whole
from likewise.terminal.doctor_view import report_view
from likewise.terminal.progress_bar import progress_bar
from likewise.terminal.screen import Screen


def run_doctor(data: str, *, out: Path | None = None, as_json: bool = False, sheet: Path | None = None) -> DatasetReport:
    """Prints the report to stdout; with `out` also writes report.json and contact_sheet.png there, with `sheet` the sheet alone."""
    if sheet is not None and sheet.suffix.lower() != ".png":
        raise ValueError(f"--contact-sheet is '{sheet}': expected a file name that ends in .png")
    if sheet is not None and not sheet.absolute().parent.is_dir():
        raise ValueError(f"--contact-sheet is '{sheet}': the folder {sheet.absolute().parent} is not there; make it first")
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
    dataset = read(data)
    if sheet is not None and isinstance(dataset.items, Features):
        raise ValueError(f"{dataset.name} holds features, not images: leave --contact-sheet out")
    with progress_bar() as on_progress:
        report = diagnose_dataset(dataset, on_progress=on_progress)
    as_text = json.dumps(report.as_json(), indent=2, allow_nan=False)
    if out is not None:
        write_whole(out / "report.json", f"{as_text}\n".encode())
        if not isinstance(dataset.items, Features):
            sheet = sheet or out / "contact_sheet.png"
    if sheet is not None:
        picture = io.BytesIO()
        contact_sheet(dataset, report).save(picture, format="PNG")
        write_whole(sheet, picture.getvalue())
    if as_json:
        sys.stdout.write(as_text + "\n")
    else:
        Screen().print(report_view(report))
    return report
