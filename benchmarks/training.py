"""How much of a training step is the backbone: the full step against the bare forward and backward pass of the same network.

    python benchmarks/training.py --cub PATH --weights FILE      # on a GPU: ResNet-50, 224 px, batch 112, compiled, bf16
    python benchmarks/training.py --quick                        # on a CPU: the quick protocol

The full step: choosing the batch, cutting and augmenting it, forward, loss, backward, optimiser. The floor: forward and backward of the
backbone, compiled on a GPU, on one batch that stays where it is, the sum of its features as the loss. "graph": the same launched as a CUDA
graph, as the training does it, so that no launching counts. All in the same process, alternating, median of rounds.
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
from likewise.models import freeze_batch_norm, make_backbone
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
    print(f"{'method':<22}{'step ms':>9}{'floor ms':>10}{'graph ms':>10}{'ratio':>7}{'images/s':>10}")
    for row in rows:
        times = f"{row['step_ms']:>9.2f}{row['floor_ms']:>10.2f}{row.get('graph_ms', float('nan')):>10.2f}"
        print(f"{row['method']:<22}{times}{row['ratio']:>7.2f}{row['images_per_second']:>10,.0f}")
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
    on_gpu = training.device.type == "cuda"
    bare = make_backbone(protocol.backbone).to(training.device, memory_format=torch.channels_last)
    freeze_batch_norm(bare) if protocol.frozen_batch_norm else None
    graphed = training.network.members[0].backbone
    if on_gpu:
        bare.compile(dynamic=False)

    def full() -> None:
        training._add_gradients(*next(stream))
        training._update()

    def floor(backbone: torch.nn.Module) -> None:
        torch.compiler.cudagraph_mark_step_begin()
        with training.devices.autocast():
            features = backbone(first[0])
        features[-1].sum().backward()
        for parameter in backbone.parameters():
            parameter.grad = None

    works = {"step": full, "floor": lambda: floor(bare), **({"graph": lambda: floor(graphed)} if on_gpu else {})}
    found: dict[str, list[float]] = {name: [] for name in works}
    for work in works.values():
        for _ in range(steps // 5 + 3):
            work()
    for _ in range(ROUNDS):
        for name_, work in works.items():
            found[name_].append(timed(work, steps, training.device))
    middle = {name_: 1e3 * statistics.median(times) for name_, times in found.items()}
    return {
        "method": name,
        **{f"{name_}_ms": value for name_, value in middle.items()},
        "ratio": middle["step"] / middle["floor"],
        "images_per_second": 1e3 * protocol.batch / middle["step"],
    }


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
