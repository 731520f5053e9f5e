"""Owner: who works on a piece, and whether that process is still there."""

from __future__ import annotations

import os
import secrets
import socket
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Owner:
    """A process on a machine. The start time tells it from a later process with the same number."""

    host: str
    pid: int
    started: str
    nonce: str  # two comparisons in one process

    @staticmethod
    def here() -> Owner:
        return Owner(this_host(), os.getpid(), _started(os.getpid()) or "", secrets.token_hex(4))

    @property
    def name(self) -> str:
        return f"{self.host}|{self.pid}|{self.started}|{self.nonce}"

    @staticmethod
    def of(name: str) -> Owner:
        host, pid, started, nonce = name.rsplit("|", 3)
        return Owner(host, int(pid), started, nonce)

    @property
    def is_gone(self) -> bool:
        """Certainly dead. False also where that cannot be known from here: then only its silence tells."""
        if self.host != this_host() or not self.started:
            return False
        return _started(self.pid) != self.started


def this_host() -> str:
    """The machine, as far as process numbers mean the same: its name, boot and process-number space (containers have their own)."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()[:8]
        space = os.readlink("/proc/self/ns/pid").strip("pid:[]")
    except OSError:
        boot = space = ""
    return f"{socket.gethostname()}/{boot}/{space}".replace("|", "-")


def _started(pid: int) -> str | None:
    """The start time of a living process; None if there is none, or if it only waits to be collected by its parent."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in ("Z", "X") else fields[19]
