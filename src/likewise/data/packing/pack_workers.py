"""Packing processes: decode chunks of files and write them, in the data set's order, into one file.

A process of its own is started with a pipe instead of through multiprocessing: the user's script is not run again, nothing is forked,
no lock is inherited, and when the parent dies, even by kill -9, the pipe closes and the worker ends. Where a chunk goes is known once
the chunks before it are decoded; meanwhile its worker decodes the next one. So the file has the same bytes with any number of workers.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import zlib
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path

import torch
from torch import Tensor

from likewise.data.dataset import Box
from likewise.data.packing.decode import Undecodable, decode
from likewise.formats.regular_file import opened
from likewise.limits import OverLimit, current_limits, require_within

AHEAD = 2  # chunks a worker has in hand: one to decode, one waiting


@dataclass(frozen=True)
class SourceFile:
    """A file as it was when packing began. num_bytes is -1 where it could not be looked at; then `fault` says why."""

    path: Path
    box: Box | None
    num_bytes: int
    changed_ns: int
    fault: str = ""
    touched_ns: int = -1  # when the system last changed anything of it, which no program can set back


@dataclass(frozen=True)
class Settings:
    file: Path
    side: int | None
    enlarge: bool


@dataclass(frozen=True)
class Decoded:
    height: int
    width: int
    checksum: int
    content: int  # CRC-32 of the file


Outcome = Decoded | str  # or the reason why not


class SourceChanged(ValueError):
    """A file was written to while it was read."""


def read_source(source: SourceFile) -> bytes:
    """The file's bytes. Raises OSError, Undecodable where it is larger than images are, or SourceChanged."""
    with opened(source.path) as file:
        try:
            require_within("image_bytes", source.num_bytes, "the file has bytes:")
        except OverLimit as fault:
            raise Undecodable(str(fault)) from fault
        data = file.read(source.num_bytes + 1)
        status = os.fstat(file.fileno())
    if (status.st_size, status.st_mtime_ns) != (source.num_bytes, source.changed_ns) or len(data) != source.num_bytes:
        raise SourceChanged(f"{source.path} changed while it was read: nothing was kept of it; run again when the folder is at rest")
    return data


class Packer:
    """Decodes chunks and writes each where it is told."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.file = settings.file.open("r+b")
        self.pixels: dict[int, list[memoryview | SourceFile]] = {}
        self.num_held, self.most_held = 0, current_limits().chunk_bytes  # bytes

    def decode(self, chunk: int, sources: Sequence[SourceFile]) -> list[Outcome]:
        self.pixels[chunk] = []
        return [self._decode(chunk, source) for source in sources]

    def _decode(self, chunk: int, source: SourceFile) -> Outcome:
        if source.num_bytes < 0:
            return source.fault
        try:
            data = read_source(source)
            image = self._image(data, source)
        except OSError as fault:
            return f"cannot be read: {fault.strerror or fault}"
        except Undecodable as fault:
            return str(fault)
        pixels = memoryview(image.permute(1, 2, 0).reshape(-1).numpy())  # type: ignore[arg-type]
        decoded = Decoded(image.shape[1], image.shape[2], zlib.crc32(pixels), zlib.crc32(data))
        has_room = self.num_held + len(pixels) <= self.most_held
        self.pixels[chunk].append(pixels if has_room else source)
        self.num_held += len(pixels) * has_room
        return decoded

    def _image(self, data: bytes, source: SourceFile) -> Tensor:
        return decode(data, side=self.settings.side, enlarge=self.settings.enlarge, box=source.box)

    def write(self, chunk: int, offset: int) -> None:
        self.file.seek(offset)
        for held in self.pixels.pop(chunk):
            if isinstance(held, SourceFile):  # there was no room for its pixels
                self.file.write(memoryview(self._image(read_source(held), held).permute(1, 2, 0).reshape(-1).numpy()))  # type: ignore[arg-type]
            else:
                self.num_held -= len(held)
                self.file.write(held)
        self.file.flush()


def pack_chunks(
    chunks: Sequence[Sequence[SourceFile]], settings: Settings, *, start: int, num_workers: int
) -> Generator[list[Outcome], None, None]:
    """The outcomes of the chunks, in order; the pixels are in the file, from byte `start` on, when the iterator is done."""
    packed = 0
    for outcomes in _in_processes(chunks, settings, start, num_workers) if num_workers > 1 else _here(chunks, settings, start):
        packed += num_bytes(outcomes)
        require_within("packed_bytes", packed, "the packed images take bytes:")
        yield outcomes


def _here(chunks: Sequence[Sequence[SourceFile]], settings: Settings, offset: int) -> Generator[list[Outcome], None, None]:
    packer = Packer(settings)
    with packer.file:
        for number, sources in enumerate(chunks):
            outcomes = packer.decode(number, sources)
            packer.write(number, offset)
            offset += num_bytes(outcomes)
            yield outcomes


def _in_processes(
    chunks: Sequence[Sequence[SourceFile]], settings: Settings, offset: int, num_workers: int
) -> Generator[list[Outcome], None, None]:
    workers: dict[Connection, subprocess.Popen[bytes]] = {}
    try:
        for _ in range(num_workers):
            ours, process = _start()
            workers[ours] = process
            _send(ours, process, settings)
        in_hand = dict.fromkeys(workers, 0)
        owner: dict[int, Connection] = {}
        decoded: dict[int, list[Outcome]] = {}
        placed = written = 0
        while written < len(chunks):
            for connection, count in in_hand.items():
                # Beyond 4 chunks a worker, decoded pixels would pile up in memory behind one slow chunk.
                for number in range(len(owner), min(len(owner) + AHEAD - count, len(chunks), placed + 4 * num_workers)):
                    _send(connection, workers[connection], ("decode", number, chunks[number]))
                    owner[number] = connection
                    in_hand[connection] += 1
            for ready in wait(list(workers)):
                assert isinstance(ready, Connection)
                kind, number, payload = _receive(ready, workers[ready])
                if kind == "written":
                    written += 1
                    continue
                in_hand[ready] -= 1
                decoded[number] = payload
                while placed in decoded:
                    outcomes = decoded.pop(placed)
                    _send(owner[placed], workers[owner[placed]], ("write", placed, offset))
                    offset += num_bytes(outcomes)
                    placed += 1
                    yield outcomes
    finally:
        for connection, process in workers.items():
            connection.close()
            process.kill()
            process.wait()


def num_bytes(outcomes: Sequence[Outcome]) -> int:
    """Of the pixels of what was decoded."""
    return sum(outcome.height * outcome.width * 3 for outcome in outcomes if isinstance(outcome, Decoded))


def _start() -> tuple[Connection, subprocess.Popen[bytes]]:
    ours, theirs = Pipe()
    with theirs:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(entry or os.getcwd() for entry in sys.path), "OMP_NUM_THREADS": "1"}
        code = f"from {__name__} import serve; serve({theirs.fileno()})"
        command = [sys.executable, "-c", code]
        process = subprocess.Popen(command, pass_fds=[theirs.fileno()], env=environment, stdin=subprocess.DEVNULL)
    return ours, process


def _send(connection: Connection, process: subprocess.Popen[bytes], message: object) -> None:
    try:
        connection.send(message)
    except (BrokenPipeError, ConnectionResetError):
        raise _ended_early(process) from None


def _receive(connection: Connection, process: subprocess.Popen[bytes]) -> tuple[str, int, list[Outcome]]:
    try:
        message = connection.recv()
    except (EOFError, ConnectionResetError):
        raise _ended_early(process) from None
    if isinstance(message, Exception):
        raise message
    kind, number, payload = message
    return kind, number, payload


def _ended_early(process: subprocess.Popen[bytes]) -> OSError:
    return OSError(f"a packing process ended early (exit code {process.wait()}); if memory ran out, use fewer workers")


def serve(descriptor: int) -> None:
    """The worker process: does what comes through the pipe until it closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, which ends its workers
    torch.set_num_threads(1)
    connection = Connection(descriptor)
    try:
        packer = Packer(connection.recv())
        while True:
            kind, number, payload = connection.recv()
            try:
                if kind == "decode":
                    connection.send(("decoded", number, packer.decode(number, payload)))
                else:
                    packer.write(number, payload)
                    connection.send(("written", number, None))
            except (BrokenPipeError, ConnectionResetError):
                raise
            except Exception as fault:
                connection.send(fault)
    except (EOFError, ConnectionError, FileNotFoundError):
        os._exit(1)  # the parent is gone, and perhaps its file with it
