"""Features on a CPU: what an image costs to decode, to cut and to run through onnxruntime and through torch, and all of it on all cores.

    PYTHONPATH=src OMP_NUM_THREADS=1 python3 benchmarks/features.py --images FOLDER
    PYTHONPATH=src OMP_NUM_THREADS=1 python3 benchmarks/features.py --images FOLDER --count 11788 --backbones efficientnet_lite0 --whole

Single steps are counted by processor time of one thread, so that other work on the machine counts little, the best of three; "on all
cores" is `frozen_features` into an empty cache, by wall time and by the processor time of all threads. Backbones have random weights,
which take as long. Files are in the page cache.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from safetensors.torch import save_file
from torch import Tensor, nn

from likewise.data.augmentation import AUGMENTATIONS
from likewise.data.batches import make_batch
from likewise.data.dataset import Dataset, Files
from likewise.data.packing.thumbnails import make_thumbnail
from likewise.environment import num_cores
from likewise.models.backbones import make_backbone
from likewise.models.frozen.frozen_features import frozen_features
from likewise.models.frozen.onnx_network import onnx_network
from likewise.models.frozen.streaming import BATCH
from likewise.models.images import images_of, pack_images
from likewise.models.network import NetworkSpec, make_network

AUGMENTATION = "centre224"
SAMPLE = 64  # images that single steps are measured on


def milliseconds(function: Callable[[], object], count: int) -> float:
    """Of processor time an image, the best of three."""
    best = float("inf")
    for _ in range(3):
        start = time.process_time()
        function()
        best = min(best, time.process_time() - start)
    return 1000 * best / count


def found(folder: Path, count: int) -> Dataset:
    suffixes = {".jpg", ".jpeg", ".png", ".webp"}
    paths = [path for path in sorted(folder.rglob("*")) if path.suffix.lower() in suffixes]
    chosen = [paths[place] for place in np.linspace(0, len(paths) - 1, min(count, len(paths))).astype(int)]
    return Dataset("benchmark", Files(tuple(chosen)), np.zeros(len(chosen), np.int64), ("one",))


def cut(pixels: Sequence[Tensor]) -> Tensor:
    return make_batch(pack_images(pixels), range(len(pixels)), AUGMENTATION)


def torch_network(backbone: str) -> nn.Module:
    network = make_network(NetworkSpec(backbone, pooling="avg", head="none"), seed=0).eval()
    return network.to(memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=Path, required=True, help="a folder of images, at any depth")
    parser.add_argument("--count", type=int, default=200, help="images for all cores")
    parser.add_argument("--backbones", nargs="+", default=["efficientnet_lite0", "resnet18", "resnet50"])
    parser.add_argument("--whole", action="store_true", help="only the whole, on all cores")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    console = Console(width=120)
    data = found(arguments.images, arguments.count)
    sample = images_of(found(arguments.images, SAMPLE), 256)
    pixels = [image.load() for image in sample]
    parts = [pixels[start : start + BATCH] for start in range(0, len(pixels), BATCH)]
    inputs = [cut(part) for part in parts]
    if not arguments.whole:
        steps = {
            "decode, shorter side 256": lambda: [image.load() for image in sample],
            "thumbnail": lambda: [make_thumbnail(image) for image in pixels],
            "pack and cut": lambda: [cut(part) for part in parts],
        }
        console.print(f"torch {torch.__version__}, {AUGMENTATION}, batches of {BATCH}; ms of one core an image")
        for name, step in steps.items():
            console.print(f"  {name:26} {milliseconds(step, len(sample)):6.2f}")
    table = Table(box=None)
    for column in ("backbone", "torch ms", "onnxruntime ms", "ratio", "export s", f"images/s, {num_cores()} cores", "core ms an image"):
        table.add_column(column, justify="left" if column == "backbone" else "right")
    for backbone in arguments.backbones:
        network = torch_network(backbone)
        began = time.process_time()
        run = onnx_network(network, AUGMENTATIONS[AUGMENTATION].size or 0)
        export = time.process_time() - began
        assert run is not None, "onnxruntime is not installed"
        of_torch = of_onnx = float("nan")
        if not arguments.whole:
            with torch.no_grad():
                of_torch = milliseconds(lambda network=network: [network(batch) for batch in inputs], len(sample))  # type: ignore[misc]
            of_onnx = milliseconds(lambda run=run: [run(batch) for batch in inputs], len(sample))  # type: ignore[misc]
        with tempfile.TemporaryDirectory() as folder:
            save_file(make_backbone(backbone).state_dict(), Path(folder) / "weights.safetensors")
            wall, work = time.perf_counter(), time.process_time()
            frozen_features(
                data,
                backbone=backbone,
                weights=Path(folder) / "weights.safetensors",
                augmentation=AUGMENTATION,
                folder=Path(folder) / "rows",
            )
            wall, work = time.perf_counter() - wall, time.process_time() - work
        figures = (of_torch, of_onnx, of_torch / of_onnx, export, len(data) / wall, 1000 * work / len(data))
        table.add_row(backbone, *(f"{figure:.1f}" for figure in figures))
    console.print(table)
    console.print(f"load of the machine: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
