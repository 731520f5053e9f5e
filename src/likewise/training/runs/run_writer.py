"""RunWriter: what is written into the run folder while a training is under way, and how a user stops one."""

from __future__ import annotations

import signal
import threading
import time
from types import FrameType
from typing import Any

from likewise.training.loop import Listener, Row, Training
from likewise.training.runs.run_folder import RunFolder
from likewise.training.runs.tensorboard import EventFile

CHECKPOINT_SECONDS = 60.0
CPU_TIME_IS_UP = "the processor time that this process may take (ulimit -t) is used up"
CPU_LIMIT = getattr(signal, "SIGXCPU", None)  # where the system has one
STOPPING = (signal.SIGINT, signal.SIGTERM, *([] if CPU_LIMIT is None else [CPU_LIMIT]))


class RunWriter(Listener):
    """Writes the log and the checkpoints, and passes on what it hears to another listener.

    Ctrl-C, SIGTERM and a limit of processor time are a wish to stop.
    """

    def __init__(self, folder: RunFolder, training: Training, *, every: int | None, listener: Listener, writes: bool) -> None:
        self.folder, self.training, self.every, self.listener, self.writes = folder, training, every, listener, writes
        newest = folder.checkpoints.newest
        self.last_checkpoint = "No checkpoint had been written yet." if newest is None else f"The last good checkpoint is {newest}."
        self.events = EventFile(folder.tensorboard, first_step=training.step) if writes else None
        self.saved_at = time.monotonic()
        self.stopping = False
        self.handlers: dict[int, Any] = {}

    def __enter__(self) -> RunWriter:
        if threading.current_thread() is threading.main_thread():
            for number in STOPPING:
                self.handlers[number] = signal.signal(number, self._stop)
        return self

    def __exit__(self, *fault: Any) -> None:
        for number, handler in self.handlers.items():
            signal.signal(number, handler)
        if self.events is not None:
            self.events.close()

    def _stop(self, number: int, frame: FrameType | None) -> None:
        if number == CPU_LIMIT:
            signal.signal(number, signal.SIG_IGN)  # it comes again every second
            if not self.stopping:
                self.stopping = True
                self.listener.message(f"{CPU_TIME_IS_UP}: finishing the step, then saving")
            return
        if self.stopping:  # a second time: at once
            raise KeyboardInterrupt
        self.stopping = True
        self.listener.message("finishing the step, then saving; once more to stop at once")

    def began(self, step: int, steps: int) -> None:
        self.listener.began(step, steps)

    def ended(self) -> None:
        self.listener.ended()

    def step(self, step: int) -> None:
        self.listener.step(step)

    def row(self, row: Row) -> None:
        self.listener.row(row)
        if self.events is not None:
            self.events.add(int(row["step"]), {name: value for name, value in row.items() if name not in ("step", "seconds")})
            self.folder.write_log(self.training.rows)

    def warning(self, text: str) -> None:
        self.listener.warning(text)

    def wants_checkpoint(self, step: int) -> bool:
        if self.every is not None:
            return step % self.every == 0
        return time.monotonic() - self.saved_at >= CHECKPOINT_SECONDS

    def save(self, state: dict[str, Any]) -> None:
        if self.writes:
            self.folder.checkpoints.save(state)
        self.last_checkpoint = f"The last good checkpoint is {self.folder.checkpoints.last}, of step {state['step']}."
        self.saved_at = time.monotonic()

    def wants_to_stop(self) -> bool:
        return self.stopping or self.listener.wants_to_stop()
