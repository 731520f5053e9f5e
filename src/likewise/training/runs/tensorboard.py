"""TensorBoard's event files, scalars only: what `tensorboard --logdir RUN` reads, without the package.

A file is a sequence of records: length (uint64), masked CRC-32C of it, the message, masked CRC-32C of that, all little-endian. A message
is a protocol buffer `Event`: wall_time = 1 (double), step = 2 (varint), file_version = 3 (text), summary = 5 { value = 1 { tag = 1
(text), simple_value = 2 (float) } }, session_log = 7 { status = 1 (varint, 1 means START) }.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

POLYNOMIAL = 0x82F63B78  # Castagnoli's, reflected
DOUBLE, VARINT, BYTES, FLOAT = 1, 0, 2, 5  # wire types of protocol buffers
START = 1  # status of a session_log


class EventFile:
    """One event file in a folder. A resumed run writes another, and a START in it: TensorBoard drops what came after that step before."""

    def __init__(self, folder: Path, *, first_step: int = 0) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = (folder / f"events.out.tfevents.{time.time_ns()}.step{first_step}").open("xb")
        self._event(0, _text(3, "brain.Event:2"))
        if first_step:
            self._event(first_step + 1, _bytes(7, _field(1, VARINT, _varint(START))))

    def add(self, step: int, scalars: Mapping[str, float]) -> None:
        values = b"".join(_bytes(1, _text(1, tag) + _field(2, FLOAT, struct.pack("<f", value))) for tag, value in scalars.items())
        self._event(step, _bytes(5, values))

    def close(self) -> None:
        self._file.close()

    def _event(self, step: int, content: bytes) -> None:
        message = _field(1, DOUBLE, struct.pack("<d", time.time())) + _field(2, VARINT, _varint(step)) + content
        length = struct.pack("<Q", len(message))
        self._file.write(length + _masked_crc(length) + message + _masked_crc(message))
        self._file.flush()


def _field(number: int, wire_type: int, content: bytes) -> bytes:
    return _varint(number << 3 | wire_type) + content


def _bytes(number: int, content: bytes) -> bytes:
    return _field(number, BYTES, _varint(len(content)) + content)


def _text(number: int, content: str) -> bytes:
    return _bytes(number, content.encode())


def _varint(value: int) -> bytes:
    digits = bytearray()
    while value > 127:
        digits.append(value & 127 | 128)
        value >>= 7
    return bytes([*digits, value])


def _masked_crc(content: bytes) -> bytes:
    crc = crc32c(content)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def crc32c(content: bytes) -> int:
    table = _table()
    crc = 0xFFFFFFFF
    for byte in content:
        crc = table[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


@lru_cache(maxsize=1)
def _table() -> tuple[int, ...]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (POLYNOMIAL if value & 1 else 0)
        table.append(value)
    return tuple(table)
