"""Client limits: how much of anything a client may ask for, so that one of them cannot take the service from the others."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from likewise.serving.admission.refusals import Refusal

CHEAPER = 20  # pages and images count so many times less than what is searched
MOST_CLIENTS = 10_000  # whose rates are remembered


@dataclass(frozen=True)
class ClientLimits:
    """What `likewise serve` allows."""

    upload_bytes: int = 20_000_000
    pixels: int = 100_000_000  # of a picture, told by its header
    rate: float = 600  # searches, explanations and marks a minute and client; 0: any number
    burst: float = 300  # of these at once
    threads: int = 2  # that embed and search
    queue: int = 64  # requests that wait for them; the next is told to come back
    at_once: int = 256  # requests that are being answered or read
    seconds: float = 30.0  # for an upload to come in, and for its answer
    most_results: int = 200

    def __post_init__(self) -> None:
        for name in ("upload_bytes", "pixels", "threads", "at_once", "seconds", "most_results", "burst"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} is {getattr(self, name)}: expected more than 0")
        for name in ("rate", "queue"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}: expected 0 or more")


class ClientRates:
    """A bucket a client: it holds `burst` requests at most and is filled again with `rate` a minute."""

    def __init__(self, limits: ClientLimits, clock: Callable[[], float] = time.monotonic) -> None:
        self.per_second, self.burst, self.clock = limits.rate / 60, limits.burst, clock
        self._left: dict[str, tuple[float, float]] = {}  # how much was left, and when

    def take(self, client: str, *, is_costly: bool) -> None:
        """A Refusal where the client's bucket is empty."""
        if not self.per_second:
            return
        now, cost = self.clock(), 1.0 if is_costly else 1 / CHEAPER
        left, before = self._left.pop(client, (self.burst, now))
        left = min(self.burst, left + (now - before) * self.per_second)
        self._left[client] = (left - cost if left >= cost else left, now)  # put at the end: the first is the one not seen for longest
        if len(self._left) > MOST_CLIENTS:
            self._left.pop(next(iter(self._left)))
        if left < cost:
            wait = (cost - left) / self.per_second
            raise Refusal(429, f"more than {60 * self.per_second:g} requests a minute: wait {max(1, round(wait))} s", retry_after=wait)
