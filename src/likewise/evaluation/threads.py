"""Whole blocks to threads, instead of all threads to every small operation.

Operations on a block take a fraction of a millisecond. Split among threads they wait for the slowest of these each time, and on a busy
machine that is a time slice of the scheduler; whole blocks never wait. What the work on a block shares it has to guard.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")

AHEAD = 2  # items a thread may be ahead of whoever takes the results


def for_each(work: Callable[[Item], None], items: Iterable[Item], device: torch.device) -> None:
    """Runs `work` on every item; on the CPU by torch's number of threads at once, each item by one of them."""
    if device.type != "cpu" or torch.get_num_threads() == 1:
        for item in items:
            work(item)
        return
    for _ in in_order(work, items, num_threads=torch.get_num_threads()):
        pass


def in_order(work: Callable[[Item], Result], items: Iterable[Item], *, num_threads: int) -> Generator[Result, None, None]:
    """`work` of every item, in the items' order, each done by one of `num_threads` threads; only a few are done ahead of time.

    Whoever stops taking results (Ctrl-C, a fault) waits for the items under way; the others are not begun.
    """
    under_way: deque[Future[Result]] = deque()
    with _pool(num_threads) as pool:
        for item in items:
            under_way.append(pool.submit(work, item))
            if len(under_way) > AHEAD * num_threads:
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()


@contextmanager
def _pool(num_threads: int) -> Iterator[ThreadPoolExecutor]:
    """Threads in each of which torch works with one."""
    before = torch.get_num_threads()
    pool = ThreadPoolExecutor(num_threads, initializer=torch.set_num_threads, initargs=(1,))
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(before)  # the workers' setting is also that of threads to come
