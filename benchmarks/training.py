"""How much of a training step is the backbone: the full step against the bare forward and backward pass of the same network.

    python benchmarks/training.py --cub PATH --weights FILE      # on a GPU: ResNet-50, 224 px, batch 112, compiled, bf16
    python benchmarks/training.py --quick                        # on a CPU: the quick protocol

The full step: choosing the batch, cutting and augmenting it, forward, loss, backward, optimiser. The floor: forward and backward of the
backbone on one batch that stays where it is, the sum of its features as the loss. Both in the same process, alternating, median of rounds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from likewise.data import read, split
from likewise.methods import load_method
from likewise.protocols import Protocol, load_protocol
from likewise.training.devices import Devices
from likewise.training.feeds import make_feed
from likewise.training.loop import Training

ROUNDS = 7


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cub", help="folder of CUB-200-2011")
    parser.add_argument("--weights", type=Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--methods", default="raw_vthm,proxy_anchor,ranked_list")
    parser.add_argument("--out", type=Path, help="also write the rows here, as JSON")
    given = parser.parse_args()
    if given.quick:
        torch.set_num_threads(1)
    protocol = load_protocol("quick" if given.quick or not given.cub else "cub")
    data = "glyphs" if protocol.name == "quick" else f"cub:{given.cub}"
    rows = [measured(name, protocol, data, given.weights) for name in given.methods.split(",")]
    machine = torch.cuda.get_device_name() if torch.cuda.is_available() else "one CPU thread"
    print(f"{protocol.name}: {protocol.backbone}, batch {protocol.batch}, {machine}")
    print(f"{'method':<22}{'step ms':>9}{'floor ms':>10}{'ratio':>7}{'images/s':>10}")
    for row in rows:
        print(f"{row['method']:<22}{row['step_ms']:>9.2f}{row['floor_ms']:>10.2f}{row['ratio']:>7.2f}{row['images_per_second']:>10,.0f}")
    if given.out:
        given.out.write_text(json.dumps(rows, indent=2))


def measured(name: str, protocol: Protocol, data: str, weights: Path | None) -> dict[str, float | str]:
    protocol = replace(protocol, steps=100_000, validation=0.0, schedule="constant")
    dataset = read(data)
    feed = make_feed(split(dataset, seed=0).train_part(dataset), protocol)
    training = Training(load_method(name).for_protocol(protocol.name), protocol, feed, seed=0, devices=Devices(protocol), weights=weights)
    training.network.train()
    stream = training._stream()
    steps = 50 if training.device.type == "cuda" else 10
    first = next(stream)
    backbone = training.network.members[0].backbone
    parameters = [parameter for parameter in training.network.parameters() if parameter.requires_grad]

    def full() -> None:
        training._add_gradients(*next(stream))
        training._update()

    def floor() -> None:
        with training.devices.autocast():
            features = backbone(first[0])
        features[-1].sum().backward()
        for parameter in parameters:
            parameter.grad = None

    for warm_up in (full, floor):
        for _ in range(steps // 5 + 3):
            warm_up()
    found = {full: [], floor: []}  # type: ignore[var-annotated]
    for _ in range(ROUNDS):
        for work, times in found.items():
            times.append(timed(work, steps, training.device))
    step, bare = (statistics.median(times) for times in found.values())
    return {"method": name, "step_ms": 1e3 * step, "floor_ms": 1e3 * bare, "ratio": step / bare, "images_per_second": protocol.batch / step}


def timed(work: Callable[[], None], steps: int, device: torch.device) -> float:
    """Seconds of one step."""
    if device.type == "cuda":
        torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(steps):
        work()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return (time.perf_counter() - began) / steps


if __name__ == "__main__":
    main()
