"""Data: images packed per second and core against Pillow alone, batches cut from the packed set, memory over epochs.

    PYTHONPATH=src python3 benchmarks/data.py                    # generated photographs of 500 x 400
    PYTHONPATH=src python3 benchmarks/data.py --images FOLDER    # the images below a folder
    PYTHONPATH=src python3 benchmarks/data.py --device cuda      # also batches on the GPU: compiled, eager, and sent batch by batch

Decoding and batches on the CPU are counted by processor time, so that other work on the machine counts little; the rest by wall time.
Files are in the page cache. "Pillow alone" is open, convert, resize (bilinear) to a shorter side of 256, as most loaders do. Batches
are 180 crops of 224. A ResNet-50 training step on an H200 takes 6,140 images/s: the aim is five times that.
"""

import argparse
import io
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from rich.console import Console
from rich.table import Table

from likewise.data.batches import Batches
from likewise.data.dataset import Dataset, Files
from likewise.data.packing.cache import pack
from likewise.data.packing.decode import HAS_SIMPLEJPEG, decode
from likewise.data.packing.packed import PackedImages

BATCH = 180
STEP_IMAGES_PER_SECOND = 6_140
SUFFIXES = {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff"}


def generated(folder: Path, count: int) -> None:
    """JPEGs of 500 x 400 with gradients and detail at every size, about 45 kB each, as photographs have."""
    for number in range(count):
        rng = np.random.default_rng(number)
        total = np.full((400, 500, 3), 128.0) + rng.normal(size=(400, 500, 3), scale=4)
        for cells in (4, 8, 16, 32, 64, 128):
            coarse = rng.normal(size=(cells, cells, 3), scale=300 / cells).astype(np.float32)
            layers = [Image.fromarray(coarse[..., c]).resize((500, 400), Image.Resampling.BICUBIC) for c in range(3)]
            total += np.stack([np.asarray(layer) for layer in layers], axis=-1)
        Image.fromarray(np.clip(total, 0, 255).astype(np.uint8)).save(folder / f"{number:05}.jpg", quality=90)


def pillow_alone(data: bytes) -> Image.Image:
    with Image.open(io.BytesIO(data)) as image:
        colour = image.convert("RGB")
        shorter = min(image.size)
        return colour.resize((image.width * 256 // shorter, image.height * 256 // shorter), Image.Resampling.BILINEAR)


def per_second(function: Callable[[bytes], object], files: list[bytes], repeats: int = 3) -> float:
    """The best of several rounds, by processor time: other work on the machine counts little."""
    for data in files[:20]:
        function(data)
    best = float("inf")
    for _ in range(repeats):
        start = time.process_time()
        for data in files:
            function(data)
        best = min(best, time.process_time() - start)
    return len(files) / best


def memory_mib() -> float:
    """Resident memory of this process without the mapped file: the system keeps those pages as long as it likes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def position_lists(packed: PackedImages, num_batches: int) -> list[list[int]]:
    rng = np.random.default_rng(0)
    return [rng.integers(0, len(packed), BATCH).tolist() for _ in range(num_batches)]


def images_per_second(batches: Batches, first_step: int) -> float:
    """All work on the device done at the end; batches are dropped as they come."""

    def finished() -> float:
        if batches.device.type == "cpu":
            return time.process_time()
        torch.cuda.synchronize()
        return time.perf_counter()

    start, count = finished(), 0
    for batch in batches.from_step(first_step):
        count += len(batch.labels)
    return count / (finished() - start)


def measured(batches: Batches, epochs: int) -> tuple[float, float, float]:
    """Images/s, and the memory after the first epoch and after the last."""
    images_per_second(batches, 0)
    before, best = memory_mib(), 0.0
    for epoch in range(epochs):
        best = max(best, images_per_second(batches, epoch * len(batches)))
    return best, before, memory_mib()


def variants(packed: PackedImages, device: str, num_batches: int) -> Iterator[tuple[str, Batches]]:
    lists = position_lists(packed, num_batches)
    for name in ("resized224", "crop224", "centre224", "colour224"):
        if device == "cpu":
            yield f"{name}, CPU, per core", Batches(packed, lists[:4] if name == "colour224" else lists, name)
            continue
        yield f"{name}, {device}, compiled", Batches(packed, lists, name, device=device, compile=True)
        yield f"{name}, {device}, eager", Batches(packed, lists, name, device=device, compile=False)
        yield f"{name}, {device}, compiled, sent by batch", Batches(packed, lists, name, device=device, compile=True, resident=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=Path, help="a folder of images, at any depth; generated ones otherwise")
    parser.add_argument("--count", type=int, default=1000, help="images at most")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--workers", type=int, help="packing processes; one a core unless given")
    parser.add_argument("--epochs", type=int, default=5)
    arguments = parser.parse_args()
    console = Console(width=120)
    if not HAS_SIMPLEJPEG:
        console.print("simplejpeg is not installed: JPEG, too, is decoded by Pillow, and the pack speed below is that of the fallback")
    table = Table(title=f"torch {torch.__version__}, {torch.get_num_threads()} threads, device {arguments.device}")
    for column, justify in (
        ("what", "left"),
        ("images/s", "right"),
        ("against", "right"),
        ("batches/s", "right"),
        ("MiB before -> after", "right"),
    ):
        table.add_column(column, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.images or Path(temporary) / "images"
        if arguments.images is None:
            folder.mkdir()
            generated(folder, arguments.count)
        paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES)[: arguments.count]
        if not paths:
            raise SystemExit(f"no images below {folder}")
        dataset = Dataset("benchmark", Files(tuple(paths)), np.zeros(len(paths), np.int64), ("all",))
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        files = [path.read_bytes() for path in paths[:200]]
        pillow, ours = per_second(pillow_alone, files), per_second(decode, files)
        torch.set_num_threads(threads)
        table.add_row("decode + resize, 1 core: Pillow alone", f"{pillow:,.0f}", "1.00 x Pillow", "", "")
        table.add_row("decode + resize, 1 core: likewise", f"{ours:,.0f}", f"{ours / pillow:.2f} x Pillow", "", "")
        start = time.perf_counter()
        packed = pack(dataset, folder=Path(temporary) / "cache", workers=arguments.workers)
        took = time.perf_counter() - start
        table.add_row(f"pack, wall time, {len(packed):,} images, start included", f"{len(packed) / took:,.0f}", "", "", "")
        start = time.perf_counter()
        pack(dataset, folder=Path(temporary) / "cache")
        table.add_row("open again, wall time", f"{len(packed) / (time.perf_counter() - start):,.0f}", "", "", "")
        devices = ["cpu"] if arguments.device == "cpu" else ["cpu", arguments.device]
        for device in devices:
            for name, batches in variants(packed, device, 20 if device == "cpu" else 200):
                speed, before, after = measured(batches, 2 if device == "cpu" and "colour" in name else arguments.epochs)
                against = f"{speed / STEP_IMAGES_PER_SECOND:.1f} x a step"
                table.add_row(name, f"{speed:,.0f}", against, f"{speed / BATCH:,.1f}", f"{before:,.0f} -> {after:,.0f}")
    console.print(table)


if __name__ == "__main__":
    main()
