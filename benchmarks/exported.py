"""An exported model beside the embedder it comes from: milliseconds an image, by its size, and how far the vectors are apart.

    PYTHONPATH=src OMP_NUM_THREADS=1 python3 benchmarks/exported.py --model efficientnet_lite0 --images FOLDER

Processor time of one thread from pixels to vector, the best of three, all in one process: `Embedder.embed` of one image at a time and of 64
at once (torch), model.onnx and model_int8.onnx one at a time (onnxruntime). Then the same images as JPEG files, which the embedder shrinks
while it decodes them where they are large, against their pixels decoded in full: the cosine similarity of the two vectors.
FOLDER holds class folders, which the 8 bits are fitted to; its images are resized to each size.
"""

import argparse
import io
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image
from rich.console import Console
from rich.table import Table

from likewise.data.packing.decode import decode
from likewise.data.readers import read
from likewise.exporting.exporter import export
from likewise.exporting.onnx_model import OnnxEmbedder
from likewise.models.opening import open_model

SIZES = ((256, 256), (375, 500), (768, 1024), (1536, 2048), (3024, 4032))  # height, width


def milliseconds(function: Callable[[], object], count: int) -> float:
    best = float("inf")
    for _ in range(3):
        start = time.process_time()
        function()
        best = min(best, time.process_time() - start)
    return 1000 * best / count


def pictures(folder: Path, size: tuple[int, int], count: int) -> list[Image.Image]:
    paths = read(folder).items.paths  # type: ignore[union-attr]
    chosen = [paths[place] for place in np.linspace(0, len(paths) - 1, count).astype(int)]
    return [Image.open(path).convert("RGB").resize(size[::-1], Image.Resampling.BICUBIC) for path in chosen]


def as_jpeg(picture: Image.Image) -> bytes:
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=90)
    return file.getvalue()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="efficientnet_lite0")
    parser.add_argument("--images", type=Path, required=True)
    parser.add_argument("--count", type=int, default=32)
    options = parser.parse_args()
    embedder = open_model(options.model)
    table = Table("size", "embed, one", "embed, 64", "model.onnx", "model_int8.onnx", "largest difference", "JPEG, least cosine", "median")
    with tempfile.TemporaryDirectory() as folder:
        exported = export(options.model, Path(folder) / "out", int8=options.images)
        run, small = (OnnxEmbedder((exported.folder / name).read_bytes()) for name in ("model.onnx", "model_int8.onnx"))
    console = Console(width=160)
    for words in exported.int8.words if exported.int8 is not None else ():
        console.print(f"- {words}")
    for size in SIZES:
        count = min(options.count, max(4, options.count * 375 * 500 // (size[0] * size[1])))
        images = pictures(options.images, size, count)
        arrays = [np.asarray(image) for image in images]
        single, whole = lambda images=images: [embedder.embed([image]) for image in images], lambda images=images: embedder.embed(images)
        times = [milliseconds(single, count), milliseconds(whole, count)]
        times += [milliseconds(lambda run=run, arrays=arrays: [run(array) for array in arrays], count) for run in (run, small)]
        rows = np.stack([run(array) for array in arrays])
        apart = np.abs(rows - np.concatenate(single())).max()
        files = [as_jpeg(image) for image in images]
        in_full = np.stack([run(np.ascontiguousarray(decode(file, side=None).permute(1, 2, 0).numpy())) for file in files])
        with tempfile.TemporaryDirectory() as folder:
            paths = [Path(folder) / f"{number}.jpg" for number in range(count)]
            for path, content in zip(paths, files, strict=True):
                path.write_bytes(content)
            similarity = (embedder.embed(paths) * in_full).sum(1)
        shown = [f"{value:.1f}" for value in times]
        table.add_row(f"{size[1]} x {size[0]}", *shown, f"{apart:.1e}", f"{similarity.min():.4f}", f"{np.median(similarity):.4f}")
    console.print(table)


if __name__ == "__main__":
    main()
