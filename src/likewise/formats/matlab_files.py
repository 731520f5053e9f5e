"""MATLAB's .mat files, parsed by scipy in a process of its own: it crashes on some damaged files, and takes any memory on others.

The process gets the open file and nothing else, a limit of time and one of memory, and gives plain values back.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from likewise.formats.regular_file import UnreadableFile, opened, parsing, size_of
from likewise.limits import current_limits, how_to_raise, require_within

KIND, REMEDY = "MATLAB file", "download it again"


def read_mat(path: Path) -> dict[str, Any]:
    """The variables by name: numbers, texts, lists of these, and structures as tables."""
    limits = current_limits()
    with parsing(path, KIND, REMEDY), opened(path) as file:
        require_within("file_bytes", size_of(file), f"{path} has bytes:")
        command = [sys.executable, "-c", "from likewise.formats.matlab_child import main; main()"]
        places = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
        environment = {**os.environ, "PYTHONPATH": places, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        try:
            ended = subprocess.run(
                command,
                stdin=file,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment,
                timeout=limits.parser_seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise UnreadableFile(
                f"{path} is not read in {limits.parser_seconds:,} seconds{how_to_raise('parser_seconds')}: {REMEDY}"
            ) from None
        if ended.returncode:
            raise ValueError(f"its parser {_ending(ended.returncode)}")
        answer = json.loads(ended.stdout)
    if "fault" in answer:
        raise UnreadableFile(f"{path} is not a readable {KIND} ({answer['fault']}): {REMEDY}")
    variables: dict[str, Any] = answer["variables"]
    return variables


def _ending(code: int) -> str:
    if code > 0:
        return f"ended with code {code}"
    names = {entry.value: entry.name for entry in signal.Signals}
    if -code == getattr(signal, "SIGXCPU", None):
        return f"took too long{how_to_raise('parser_seconds')}"
    return f"crashed ({names.get(-code, f'signal {-code}')})"
