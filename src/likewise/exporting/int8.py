"""The graph with its network in 8 bits, and what that costs, measured on classes that it was not fitted to.

Static quantisation (onnxruntime): weights a channel at a time, activations by the range they have on a hundred images, in the form of
QuantizeLinear and DequantizeLinear pairs. The preparation of the image and what brings vectors to length 1 stay as they are.
"""

from __future__ import annotations

import logging
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.data.dataset import Dataset, Features
from likewise.environment import num_cores
from likewise.evaluation.certainty.uncertainty import Interval, paired_test
from likewise.evaluation.nearest import nearest
from likewise.evaluation.retrieval import per_query
from likewise.evaluation.threads import in_order
from likewise.exporting.onnx_model import Item, OnnxEmbedder, onnx_packages
from likewise.models.images import DatasetImage, images_of, loaded
from likewise.progress import ProgressCallback

NUM_FITTED = 100  # images that ranges are taken from
MOST_MEASURED = 5000  # images, in whole classes
SHARE_FITTED = 0.2  # of the classes
FEWEST_CLASSES = 5  # for those that are fitted and those that are measured to be apart
TIMED = 20  # images
NETWORK = "/network/"  # how the names of its nodes begin
KINDS = ("Conv", "Gemm", "MatMul", "Add", "Clip", "Relu", "MaxPool", "AveragePool", "GlobalAveragePool", "Concat")
METRICS = ("R@K", "MAP@R")


@dataclass(frozen=True)
class Int8Items:
    """Of a data set with classes: the items to fit to, and those to measure with."""

    fitted: npt.NDArray[np.int64]
    measured: npt.NDArray[np.int64]
    apart: bool  # no class is in both


@dataclass(frozen=True)
class Int8Trial:
    """What 8 bits cost and bring."""

    data: str
    num_fitted: int
    num_items: int
    num_classes: int
    apart: bool
    before: dict[str, float]  # R@1 and MAP@R in [0, 1], of the graph in float32
    after: dict[str, float]
    mixed: float  # R@1 of queries in 8 bits among vectors of float32
    change: Interval  # of R@1, with a 95 % interval over classes
    num_bytes: tuple[int, int]  # before and after
    speed: float  # times as fast, one image after the other on one core of the machine that exported

    @property
    def words(self) -> tuple[str, ...]:
        where = f"{self.num_items:,} images of {self.num_classes:,} classes of {self.data}"
        fitted = f"fitted to {self.num_fitted:,} images of {'other' if self.apart else 'the same'} classes"
        low, change, high = (f"{100 * value:+.2f}" for value in (self.change.low, self.change.estimate, self.change.high))
        scores = "; ".join(f"{name} {100 * self.before[name]:.2f} % before, {100 * self.after[name]:.2f} % after" for name in self.before)
        return (
            f"on {where}, {fitted}: {scores}",
            f"R@1 changes by {change} points ({low} to {high} with 95 % confidence over classes)",
            f"queries in 8 bits among vectors of float32: R@1 {100 * self.mixed:.2f} %",
            f"{self.num_bytes[1] / 1e6:.1f} MB instead of {self.num_bytes[0] / 1e6:.1f}, {self.speed:.1f} times as fast on one core here; "
            "processors without 8-bit dot products (VNNI) may be slower and may clip sums",
        )

    def as_table(self) -> dict[str, Any]:
        return asdict(self)


def items_for_int8(dataset: Dataset) -> Int8Items:
    """Some classes, drawn always alike, to fit to, and the others to measure with; the same where there are too few."""
    classes = np.random.default_rng(0).permutation(np.unique(dataset.labels))
    apart = len(classes) >= FEWEST_CLASSES
    fitted = classes[: max(1, int(SHARE_FITTED * len(classes)))] if apart else classes
    measured = classes[len(fitted) :] if apart else classes
    return Int8Items(_items_of(dataset, fitted), _items_of(dataset, measured), apart)


def _items_of(dataset: Dataset, classes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return np.flatnonzero(np.isin(dataset.labels, classes))


def quantised(model: bytes, images: Sequence[Item]) -> bytes:
    """The graph with the network in 8 bits, ranges as on these images."""
    onnx, _ = onnx_packages()
    quantization = import_module("onnxruntime.quantization")
    outside = [node.name for node in onnx.load_from_string(model).graph.node if not node.name.startswith(NETWORK)]

    class Images(quantization.CalibrationDataReader):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            self._left = iter(images)

        def get_next(self) -> dict[str, Item] | None:
            return next(({"image": image} for image in self._left), None)

    with tempfile.TemporaryDirectory() as folder:
        before, after = Path(folder) / "before.onnx", Path(folder) / "after.onnx"
        before.write_bytes(model)
        with _quiet():
            quantization.quantize_static(
                before,
                after,
                Images(),
                quant_format=quantization.QuantFormat.QDQ,
                per_channel=True,
                activation_type=quantization.QuantType.QUInt8,
                weight_type=quantization.QuantType.QInt8,
                op_types_to_quantize=list(KINDS),
                nodes_to_exclude=outside,
            )
        return after.read_bytes()


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the quantiser's advice to fold batch norms first, which is done, to whatever logs there are."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)


def int8_model(model: bytes, dataset: Dataset, items: Int8Items, *, on_progress: ProgressCallback | None = None) -> tuple[bytes, Int8Trial]:
    """The graph in 8 bits, and what it costs on these items."""
    if isinstance(dataset.items, Features):
        raise ValueError(f"{dataset.name} holds vectors: to quantise a network of images, give images with their classes")
    measured = _whole_classes(dataset.labels, items.measured)
    spread = items.fitted[np.linspace(0, len(items.fitted) - 1, min(NUM_FITTED, len(items.fitted))).astype(int)]
    fitted = [pixels for pixels in map(_pixels, images_of(dataset.subset(spread), None)) if pixels is not None]
    if not fitted:
        raise ValueError(f"{dataset.name}: none of {len(spread)} images can be decoded")
    if on_progress is not None:
        on_progress("quantising", 0, 0)
    small = quantised(model, fitted)
    before, after = OnnxEmbedder(model), OnnxEmbedder(small)
    rows = list(_embedded(images_of(dataset.subset(measured), None), (before, after), on_progress))
    kept = np.array([number for number, row in enumerate(rows) if row is not None], dtype=np.int64)
    labels = dataset.labels[measured][kept]
    if len(kept) == 0 or np.unique(labels, return_counts=True)[1].max() < 2 or len(np.unique(labels)) < 2:
        raise ValueError(f"{dataset.name}: R@1 takes at least two classes, with two images of some, besides those that ranges come from")
    full, short = (np.stack([row[which] for row in rows if row is not None]) for which in (0, 1))
    trial = Int8Trial(
        data=dataset.name,
        num_fitted=len(fitted),
        num_items=len(kept),
        num_classes=len(np.unique(labels)),
        apart=items.apart,
        num_bytes=(len(model), len(small)),
        speed=_seconds(before, fitted) / _seconds(after, fitted),
        **_scores(full, short, labels),
    )
    return small, trial


def _scores(full: npt.NDArray[Any], short: npt.NDArray[Any], labels: npt.NDArray[np.int64]) -> dict[str, Any]:
    """The fields of a trial that vectors decide."""
    of_full, of_short = (per_query(rows, labels, metrics=METRICS, ks=(1,)) for rows in (full, short))
    paired = paired_test(of_full, of_short)["R@1"]
    nearest_of_full = nearest(short, full, 1, exclude_self=True)[0][:, 0].numpy()
    matched = of_full.matched.numpy()
    before, after = ({name: float(values[found.matched].mean()) for name, values in found.scores.items()} for found in (of_full, of_short))
    mixed = float((labels[nearest_of_full] == labels)[matched].mean())
    return {"before": before, "after": after, "mixed": mixed, "change": Interval(paired.low, paired.difference, paired.high)}


def _whole_classes(labels: npt.NDArray[np.int64], items: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """As many of the classes, drawn always alike, as have no more items than are measured."""
    classes, counts = np.unique(labels[items], return_counts=True)
    order = np.random.default_rng(1).permutation(len(classes))
    chosen = classes[order[np.cumsum(counts[order]) <= max(MOST_MEASURED, int(counts[order][:2].sum()))]]
    return items[np.isin(labels[items], chosen)]


def _embedded(
    images: Sequence[DatasetImage], runs: Sequence[Callable[[Item], npt.NDArray[Any]]], on_progress: ProgressCallback | None
) -> Iterator[tuple[npt.NDArray[Any], ...] | None]:
    def work(image: DatasetImage) -> tuple[npt.NDArray[Any], ...] | None:
        pixels = _pixels(image)
        return None if pixels is None else tuple(run(pixels) for run in runs)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # as decoding does, which Python cannot do for one thread alone
        with closing(in_order(work, images, num_threads=num_cores())) as results:
            for done, row in enumerate(results, 1):
                if on_progress is not None:
                    on_progress("measuring int8", done, len(images))
                yield row


def _pixels(image: DatasetImage) -> Item | None:
    """uint8 (height, width, 3); None where it cannot be decoded."""
    pixels = loaded(image)
    return None if isinstance(pixels, str) else np.ascontiguousarray(pixels.permute(1, 2, 0).numpy())


def _seconds(run: OnnxEmbedder, images: Sequence[Item]) -> float:
    """The middle of the times of some images."""
    times = []
    for image in [images[0], *images[:TIMED]]:  # once before, to warm up
        start = time.perf_counter()
        run(image)
        times.append(time.perf_counter() - start)
    return float(np.median(times[1:]))
