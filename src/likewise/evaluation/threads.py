"""Whole blocks to threads, instead of all threads to every small operation."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

Item = TypeVar("Item")


def for_each(work: Callable[[Item], None], items: Iterable[Item], device: torch.device) -> None:
    """Runs `work` on every item; on the CPU by torch's number of threads at once, each item by one of them.

    Operations on a block take a fraction of a millisecond. Split among threads they wait for the slowest of these each time, and on a busy
    machine that is a time slice of the scheduler; whole blocks never wait. What `work` shares it has to guard.
    """
    num_threads = torch.get_num_threads()
    if device.type != "cpu" or num_threads == 1:
        for item in items:
            work(item)
        return
    try:
        with ThreadPoolExecutor(num_threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            list(pool.map(work, items))
    finally:
        torch.set_num_threads(num_threads)  # the workers' setting is also that of threads to come
