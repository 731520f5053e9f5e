"""Refusals: answers that are not what was asked for, each a status and a sentence that says why and what to do."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Iterable

Headers = list[tuple[bytes, bytes]]


class Refusal(Exception):
    """Told to the client as JSON, {"error": words}, or as a plain page where a browser opens an address."""

    def __init__(self, status: int, words: str, *, retry_after: float | None = None) -> None:
        super().__init__(words)
        self.status, self.words, self.retry_after = status, words, retry_after

    def body(self, *, as_page: bool) -> tuple[Headers, bytes]:
        """Headers and body."""
        headers = [(b"cache-control", b"no-store")]
        if self.retry_after is not None:
            headers.append((b"retry-after", str(max(1, math.ceil(self.retry_after))).encode()))
        if self.status == 401:
            headers.append((b"www-authenticate", b'Bearer realm="likewise"'))
        if not as_page:
            return [*headers, (b"content-type", b"application/json")], json.dumps({"error": self.words}).encode()
        page = (
            '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
            '<meta name="color-scheme" content="light dark"><link rel="icon" href="data:,"><title>Likewise</title>'
            f"<h1>Likewise</h1><p>{html.escape(self.words)}</p></html>"
        )
        return [*headers, (b"content-type", b"text/html; charset=utf-8")], page.encode()


def wants_page(path: str, headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether a person looks at the answer: a browser that opens an address, not a script that asks the API."""
    accepted = next((value for name, value in headers if name == b"accept"), b"")
    return b"text/html" in accepted and "/api/" not in path
