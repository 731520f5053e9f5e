"""`likewise serve` in a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from ..optional import needs_package

if TYPE_CHECKING:
    import httpx

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}


class Running:
    """A server, and what it has printed until it served."""

    def __init__(self, *options: str, **environment: str) -> None:
        for package in ("fastapi", "uvicorn", "python_multipart", "httpx"):
            needs_package(package)
        command = [sys.executable, "-m", "likewise", "serve", *options, "--port", "0", "--device", "cpu"]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**ENVIRONMENT, **environment}
        )
        assert self.process.stdout is not None
        self.printed = ""
        while "Ctrl-C" not in self.printed:
            line = self.process.stdout.readline()
            assert line, self.printed
            self.printed += line
        found = re.search(r"http://(\S+?):(\d+)(?:/\?token=(\S+))?", self.printed)
        assert found is not None, self.printed
        self.port, self.token = int(found[2]), found[3]
        self.address = f"http://127.0.0.1:{self.port}"

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.ask("GET", path, **options)

    def ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        import httpx

        return httpx.request(method, self.address + path, timeout=20, **options)

    def end(self, number: int) -> tuple[int, str]:
        """The exit code, and what was printed since."""
        self.process.send_signal(number)
        printed, _ = self.process.communicate(timeout=30)
        return self.process.returncode, printed
