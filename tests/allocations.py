"""What a computation allocates, read off the operators and the allocator: exact, and without a clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LargestTensor(TorchDispatchMode):
    """Records the most elements any tensor made inside has memory for: views and expanded tensors count what they stand on."""

    def __init__(self) -> None:
        super().__init__()
        self.elements = 0
        self.made_by = ""

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor):
                elements = tensor.untyped_storage().nbytes() // tensor.element_size()
                if elements > self.elements:
                    self.elements, self.made_by = elements, f"{function} {tuple(tensor.shape)}"
        return result


def peak_bytes(computation: Callable[[], object]) -> int:
    """The most bytes alive at once among those the computation allocates, from the allocator's own record."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True, acc_events=True) as profile:
        kept = computation()
    events = [event for event in profile.profiler.kineto_results.events() if event.name() == "[memory]"]
    alive = peak = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        alive += event.nbytes()
        peak = max(peak, alive)
    assert events, "the profiler recorded no allocation"
    del kept
    return peak
