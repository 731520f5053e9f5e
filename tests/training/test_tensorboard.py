"""Event files are read by TensorBoard's own reader."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from likewise.training.runs.tensorboard import EventFile, crc32c

from ..optional import needs_package


def scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """As TensorBoard shows the folder."""
    needs_package("tensorboard")
    from tensorboard.backend.event_processing import event_accumulator

    read: Any = event_accumulator.EventAccumulator(str(folder), size_guidance={"scalars": 0})
    read.Reload()
    return {tag: [(event.step, event.value) for event in read.Scalars(tag)] for tag in read.Tags()["scalars"]}


def test_the_checksum_is_castagnolis() -> None:
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(b"") == 0
    assert crc32c(bytes(32)) == 0x8A9136AA  # RFC 3720, B.4


def test_tensorboard_reads_what_was_written(tmp_path: Path) -> None:
    file = EventFile(tmp_path)
    steps = [1, 127, 128, 300_000]
    for step in steps:
        file.add(step, {"loss": 1 / step, "MAP@R": -2.5 * step} if step != 127 else {"loss": 0.25})
    file.close()
    found = scalars(tmp_path)
    assert found["loss"] == [(step, pytest.approx(0.25 if step == 127 else 1 / step)) for step in steps]
    assert found["MAP@R"] == [(step, pytest.approx(-2.5 * step)) for step in steps if step != 127]


def test_a_resumed_run_takes_the_place_of_steps_taken_before(tmp_path: Path) -> None:
    """Killed at step 5, resumed from the checkpoint of step 3."""
    for first, last, value in ((0, 5, 1.0), (3, 7, 2.0)):
        file = EventFile(tmp_path, first_step=first)
        for step in range(first + 1, last + 1):
            file.add(step, {"loss": value})
        file.close()
    assert scalars(tmp_path)["loss"] == [(step, 1.0 if step <= 3 else 2.0) for step in range(1, 8)]


def test_what_a_killed_run_left_is_read_up_to_its_end(tmp_path: Path) -> None:
    file = EventFile(tmp_path)
    for step in (1, 2):
        file.add(step, {"loss": float(step)})
    file.close()
    (written,) = tmp_path.iterdir()
    written.write_bytes(written.read_bytes()[:-3])
    assert scalars(tmp_path)["loss"] == [(1, 1.0)]
