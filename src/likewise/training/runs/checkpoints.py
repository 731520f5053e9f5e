"""Checkpoints: atomic, checksummed, read without running any code from them.

A file is torch's format followed by 32 bytes, the SHA-256 of all before. It is written whole as `next.ckpt`; then the last one is renamed
to `previous.ckpt` and the next one to `last.ckpt`. So at every moment a whole one is there, and a damaged one is noticed. Renaming is all
that is asked of the file system: some have no hard links.
"""

from __future__ import annotations

import hashlib
import io
import os
from pathlib import Path
from typing import Any, BinaryIO

import torch

from likewise.files import flush_folder, remove_unfinished, write_whole
from likewise.sealing import Damaged, tell_mended, without_digest


class DamagedCheckpoint(Damaged):
    """A checkpoint that is not as it was written."""


class Checkpoints:
    """The checkpoints of one run, in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def last(self) -> Path:
        return self.folder / "last.ckpt"

    @property
    def previous(self) -> Path:
        return self.folder / "previous.ckpt"

    @property
    def next(self) -> Path:
        """Where a checkpoint is written, until it is renamed."""
        return self.folder / "next.ckpt"

    @property
    def newest(self) -> Path | None:
        """The newest there is; one that was killed between its two renamings has no last one."""
        return next((path for path in (self.last, self.previous) if path.exists()), None)

    def save(self, state: dict[str, Any]) -> None:
        """`state` (tensors, numbers, texts, lists, dicts) as the last checkpoint. If it cannot be written, the last one stays."""
        buffer = io.BytesIO()
        torch.save(state, buffer)
        content = buffer.getbuffer()

        def write(file: BinaryIO) -> None:
            file.write(content)
            file.write(hashlib.sha256(content).digest())

        written = self.next
        try:
            remove_unfinished(self.folder)
            write_whole(written, write)
            if self.last.exists():
                os.replace(self.last, self.previous)
            os.replace(written, self.last)
            flush_folder(self.folder)
        except OSError as fault:
            written.unlink(missing_ok=True)
            reason = os.strerror(fault.errno) if fault.errno else fault
            raise OSError(
                f"the checkpoint could not be written to {self.folder} ({reason}): make room there; the "
                "checkpoint before it is unharmed, and the same command with --resume goes on from it"
            ) from fault

    def load(self) -> dict[str, Any] | None:
        """The last whole checkpoint, or None where there is none. Where that is the one before the last, it is told."""
        faults, missing = [], ""
        for path in (self.last, self.previous):
            try:
                state = read_checkpoint(path)
            except FileNotFoundError:
                missing = f"{path} is missing"
            except DamagedCheckpoint as fault:
                faults.append(str(fault))
            else:
                if faults or (path == self.previous and not self.next.exists()):  # or else a save was cut short, and nothing was lost
                    tell_mended(
                        f"{faults[0] if faults else missing}; the training goes on from {path.name}, of step {state.get('step', '?')}"
                    )
                    self.last.unlink(missing_ok=True)  # or else the next one saved would put it in the place of the whole one
                return state
        if faults:
            raise DamagedCheckpoint(f"{' and '.join(faults)}: start again without --resume and with another --out")
        return None


def read_checkpoint(path: Path) -> dict[str, Any]:
    content = without_digest(path.read_bytes())
    if not content:
        raise DamagedCheckpoint(f"{path} is damaged: its checksum does not fit")
    state: dict[str, Any] = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    return state
