"""WorkQueue: a few threads that embed and search, and a queue before them that does not grow without end."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

from likewise.serving.admission.refusals import Refusal

Given = ParamSpec("Given")
Result = TypeVar("Result")


class WorkQueue:
    """Work is done or refused: with `queue` requests waiting the next is told when to come again, and none waits longer than `seconds`."""

    def __init__(self, *, threads: int, queue: int, seconds: float) -> None:
        self.threads, self.places, self.seconds = threads, threads + queue, seconds
        self.num_taken = 0
        self.usual_seconds = 0.05  # a running mean of what one piece of work takes
        self._lock = threading.Lock()
        self._executor = ThreadPoolExecutor(self.threads, thread_name_prefix="likewise-serve")

    async def run(self, work: Callable[Given, Result], *args: Given.args, **kwargs: Given.kwargs) -> Result:
        """What the work gives, done in a thread; a Refusal where there is no place, or it takes too long."""
        if self.num_taken >= self.places:
            wait = self.num_taken * self.usual_seconds / self.threads
            raise Refusal(503, f"{self.num_taken} requests are waiting already: try again in {max(1, round(wait))} s", retry_after=wait)
        self._take(1)
        future = self._executor.submit(self._timed, partial(work, *args, **kwargs))
        future.add_done_callback(lambda _: self._take(-1))  # when the thread is free, not when the client has given up
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), self.seconds)
        except TimeoutError:
            raise Refusal(503, f"not done within {self.seconds:g} s: try again later", retry_after=self.seconds) from None

    def _timed(self, work: Callable[[], Result]) -> Result:
        start = time.perf_counter()
        try:
            return work()
        finally:
            self.usual_seconds += 0.1 * (time.perf_counter() - start - self.usual_seconds)

    def _take(self, number: int) -> None:
        with self._lock:
            self.num_taken += number

    def close(self) -> None:
        """Work that has begun is finished, what waits is not begun."""
        self._executor.shutdown(wait=True, cancel_futures=True)
