"""What the space looks like: distances within and between classes, spectrum, hubs, and the classes and queries that fail.

All by blocks, never an N x N matrix. Distances are Euclidean; metric="cosine" normalises the embeddings first, so that
d^2 = 2 - 2 x cosine similarity and orthogonal items are sqrt(2) = 1.41 apart. metric="hamming" is for bits packed by `pack_bits`: distances
are how many bits differ, and the spectrum is that of the bits as numbers -1/2 and 1/2.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from likewise.evaluation.binary import check_packed, unpack_bits
from likewise.evaluation.labels import Labels, class_codes
from likewise.evaluation.nearest import nearest
from likewise.evaluation.similarity import Embeddings, as_embeddings, full_float32, square_norms

QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
FINE = 100  # quantiles are read from bins this many times finer than the histogram's
TILE = (512, 8192)  # distances at once; fewer than 2^24, so that float32 counts are exact
RANK_FLOOR = 0.1  # share of the directions that the classes could use
NEAR_FLOOR = 0.2  # median distance between classes, of at most 2, below which they are all but one point
HUB_SKEW = 5.0
ANTI_HUB_SHARE = 0.3


@dataclass(frozen=True)
class Distances:
    """Distribution of the distances of pairs of one kind; mean and histogram over all pairs, quantiles to within 1/100 of a bin."""

    num_pairs: int
    mean: float
    quantiles: dict[float, float]  # share -> distance; empty if there is no pair
    histogram: Tensor  # (bins,) int64, over `Diagnosis.edges`


@dataclass(frozen=True)
class ClassRecall:
    label: str
    num_items: int
    recall_at_1: float


@dataclass(frozen=True)
class WorstQuery:
    """A query whose nearest item is of another class; `gap` is how much farther its nearest positive lies."""

    index: int
    label: str
    gap: float
    neighbours: list[int]
    neighbour_labels: list[str]


@dataclass(frozen=True)
class Diagnosis:
    """Geometry of an embedding; `warnings` says in words what is wrong and what to try."""

    intra: Distances  # pairs of one class
    inter: Distances  # pairs of two classes
    edges: Tensor  # (bins + 1,) of both histograms
    separation: float  # chance that a random pair of one class is closer than a random pair of two (ties count half)
    singular_values: Tensor  # (d,) of the centred embedding matrix, falling
    effective_rank: float
    occurrence: Tensor  # (N,) int64: among the `neighbours` nearest of how many items each one is
    neighbours: int
    hub_skewness: float
    hubs: list[tuple[int, int]]  # (item, occurrence), most frequent first
    anti_hub_share: float  # items that are nobody's neighbour
    class_recall: list[ClassRecall]  # worst first; classes of one item are left out
    worst_queries: list[WorstQuery]  # largest gap first
    warnings: list[str]


def diagnose(
    embeddings: Embeddings, labels: Labels, *, metric: str = "cosine", neighbours: int = 10, worst: int = 10, bins: int = 100
) -> Diagnosis:
    """Distances, spectrum, hubness and failures of one labelled set of embeddings, every item a query among the others.

    Effective rank is exp(-sum_i p_i log p_i) with p_i = sigma_i / sum sigma (Roy & Vetterli 2007), sigma the singular values of the
    embedding matrix less its mean row: d when all directions are used alike, 1 when all items lie on a line, 0 when they are one point.
    Hubness is the skewness E[(o - mean)^3] / std^3 of the k-occurrence o, k = `neighbours` (Radovanovic et al. 2010).
    `worst` is how many hubs and queries are kept.
    """
    packed = check_packed(embeddings, embeddings)[0] if metric == "hamming" else None
    rows = as_embeddings(embeddings, "embeddings") if packed is None else unpack_bits(packed).div_(2)
    codes, _ = class_codes(labels, device=rows.device)
    names = [str(name) for name in np.unique(labels.cpu().numpy() if isinstance(labels, Tensor) else np.asarray(labels))]
    _check(rows, codes, metric, neighbours, worst, bins)
    num_zero = int((rows == 0).all(dim=1).sum())
    if metric == "cosine":
        rows = torch.nn.functional.normalize(rows, dim=1)
    k = min(neighbours, len(rows) - 1)
    if packed is None:
        index, near = nearest(rows, rows, k, metric="euclidean", exclude_self=True)
    else:
        index, near = nearest(packed, packed, k, metric="hamming", exclude_self=True)
    singular_values, effective_rank = spectrum(rows)
    if packed is None:  # distances stay, and lose no digits to a common offset
        rows = rows.sub_(rows.mean(dim=0)) if metric == "cosine" else rows - rows.mean(dim=0)
    with full_float32():
        distances = _all_distances(rows, codes, bins, counts_bits=packed is not None)

    occurrence = torch.bincount(index.flatten(), minlength=len(rows))
    most, hub = occurrence.sort(descending=True, stable=True)
    hit = codes[index[:, 0]] == codes
    gap = torch.where(hit | distances.nearest_positive.isinf(), -torch.inf, distances.nearest_positive - near[:, 0])
    failing, query = gap.sort(descending=True, stable=True)
    worst_queries = [
        WorstQuery(i, names[codes[i]], float(gap[i]), index[i].tolist(), [names[code] for code in codes[index[i]].tolist()])
        for i in query[: min(worst, int((failing > -torch.inf).sum()))].tolist()
    ]
    diagnosis = Diagnosis(
        intra=distances.intra,
        inter=distances.inter,
        edges=distances.edges,
        separation=distances.separation,
        singular_values=singular_values,
        effective_rank=effective_rank,
        occurrence=occurrence,
        neighbours=k,
        hub_skewness=_skewness(occurrence.double()),
        hubs=list(zip(hub[:worst].tolist(), most[:worst].tolist(), strict=True)),
        anti_hub_share=float((occurrence == 0).double().mean()),
        class_recall=_class_recall(hit, codes, names),
        worst_queries=worst_queries,
        warnings=[],
    )
    diagnosis.warnings.extend(_warnings(diagnosis, num_classes=len(names), num_zero=num_zero, metric=metric))
    return diagnosis


@dataclass(frozen=True)
class _AllDistances:
    intra: Distances
    inter: Distances
    edges: Tensor
    separation: float
    nearest_positive: Tensor  # (N,), infinite without one


def _all_distances(rows: Tensor, codes: Tensor, bins: int, counts_bits: bool) -> _AllDistances:
    """Every pair once, in tiles above the diagonal; sorted by class, so that pairs of one class lie near the diagonal."""
    order = codes.argsort(stable=True)
    rows, codes = rows[order], codes[order]
    squared_norm = rows.square().sum(dim=1)
    # no two items are farther apart
    top = float(rows.shape[1]) if counts_bits else max(2 * float(squared_norm.max().sqrt()), torch.finfo(torch.float32).tiny)
    counts = torch.zeros(2, bins * FINE, dtype=torch.int64, device=rows.device)  # inter, intra
    sums = torch.zeros(2, dtype=torch.float64, device=rows.device)
    positive = torch.full((len(rows),), torch.inf, dtype=rows.dtype, device=rows.device)
    for down, across in _tiles(len(rows)):
        squared = torch.addmm(squared_norm[across], rows[down], rows[across].T, alpha=-2).add_(squared_norm[down, None])
        distance = squared if counts_bits else squared.clamp_(min=0).sqrt_()  # of bits, products and sums are exact
        if codes[down.stop - 1] < codes[across.start]:
            kinds = [distance]
        else:
            same = codes[down, None] == codes[across]
            if across.start == down.start:
                once = torch.ones_like(same).triu_(1)
                kinds, same = [distance[once & ~same], distance[once & same]], same & once
            else:
                kinds = [distance[~same], distance[same]]
            to_positives = torch.where(same, distance, torch.inf)
            positive[down] = torch.minimum(positive[down], to_positives.amin(dim=1))
            positive[across] = torch.minimum(positive[across], to_positives.amin(dim=0))
        for kind, values in enumerate(kinds):
            counts[kind] += torch.histc(values.clamp_(max=top), bins=bins * FINE, min=0, max=top).long()
            sums[kind] += values.sum(dtype=torch.float64)
    edges = torch.linspace(0, top, bins + 1, dtype=torch.float64)
    counts = counts.cpu()
    inter, intra = (_distribution(count, float(total), top) for count, total in zip(counts, sums, strict=True))
    nearest_positive = torch.empty_like(positive)
    nearest_positive[order] = positive
    return _AllDistances(intra, inter, edges, _separation(counts[1].double(), counts[0].double()), nearest_positive)


def _tiles(count: int) -> Iterator[tuple[slice, slice]]:
    """Row and column slices that cover every pair i < j; only tiles that start on the diagonal hold others as well."""
    height, width = TILE
    for start in range(0, count, height):
        stop = min(start + height, count)
        yield slice(start, stop), slice(start, stop)
        for left in range(stop, count, width):
            yield slice(start, stop), slice(left, min(left + width, count))


def _distribution(counts: Tensor, total: float, top: float) -> Distances:
    num_pairs = int(counts.sum())
    quantiles = {}
    if num_pairs:
        cumulative = counts.cumsum(dim=0).double()
        for share in QUANTILES:  # as numpy does: between the two pairs around share x (pairs - 1), here to within a bin
            place = int(torch.searchsorted(cumulative, torch.tensor(share * (num_pairs - 1), dtype=torch.float64), right=True))
            quantiles[share] = (place + 0.5) * top / len(counts)
    return Distances(num_pairs, total / num_pairs if num_pairs else math.nan, quantiles, counts.view(-1, FINE).sum(dim=1))


def _separation(intra: Tensor, inter: Tensor) -> float:
    pairs = float(intra.sum() * inter.sum())
    farther = inter.sum() - inter.cumsum(dim=0) + inter / 2
    return float((intra * farther).sum()) / pairs if pairs else math.nan


def spectrum(rows: Tensor) -> tuple[Tensor, float]:
    """Singular values (d,) of the centred rows, falling, from the d x d Gram matrix in float64, and their effective rank; see diagnose."""
    length = float(square_norms(rows).mean().sqrt())
    mean = rows.mean(dim=0)
    gram = torch.zeros(rows.shape[1], rows.shape[1], dtype=torch.float64, device=rows.device)
    for part in torch.split(rows, 8192):
        centred = (part - mean).double()
        gram += centred.T @ centred
    values = torch.linalg.eigvalsh(gram).flip(0)
    values = torch.where(values > values[0] * 1e-12, values, 0).clamp(min=0).sqrt()  # below is rounding of the Gram matrix, not rank
    # rows that are all alike still differ from their mean in the last bits
    if float(values[0]) <= 8 * torch.finfo(rows.dtype).eps * length * math.sqrt(len(rows)):
        return torch.zeros_like(values), 0.0
    share = values / values.sum()
    return values, float(torch.special.entr(share).sum().exp())


def _skewness(values: Tensor) -> float:
    centred = values - values.mean()
    spread = float(centred.square().mean().sqrt())
    return float((centred**3).mean()) / spread**3 if spread else 0.0


def _class_recall(hit: Tensor, codes: Tensor, names: list[str]) -> list[ClassRecall]:
    sizes = torch.bincount(codes, minlength=len(names)).tolist()
    hits = torch.bincount(codes, weights=hit.double(), minlength=len(names)).tolist()
    recalls = [ClassRecall(name, size, count / size) for name, size, count in zip(names, sizes, hits, strict=True) if size > 1]
    return sorted(recalls, key=lambda recall: recall.recall_at_1)


def _warnings(diagnosis: Diagnosis, *, num_classes: int, num_zero: int, metric: str) -> list[str]:
    said = []
    if num_zero:
        said.append(f"{num_zero} embeddings are all zero. Look for dead units (a ReLU before the embedding) or failed images.")
    dim, count = len(diagnosis.singular_values), len(diagnosis.occurrence)
    usable = min(dim, count - 1, max(num_classes - 1, 1))  # that many directions are enough to keep the classes apart
    if diagnosis.effective_rank == 0:
        said.append(
            "The embeddings have collapsed to one point. Try a lower learning rate, semi-hard or no mining for the first epochs, "
            "a larger margin, and check that batches hold several classes."
        )
    elif diagnosis.effective_rank < max(min(2, usable), RANK_FLOOR * usable):
        said.append(
            f"The embeddings use only {diagnosis.effective_rank:.1f} of {dim} directions (effective rank), where {num_classes} classes "
            f"could use {usable}: a dimensional collapse. Try more classes a batch, a loss with all negatives, less weight decay, or a "
            f"smaller dimension."
        )
    if metric == "cosine" and diagnosis.effective_rank > 0 and diagnosis.inter.num_pairs and diagnosis.inter.quantiles[0.5] < NEAR_FLOOR:
        said.append(
            f"Different classes lie almost on one point (median distance {diagnosis.inter.quantiles[0.5]:.3f} of at most 2). Try a larger "
            f"margin, a higher temperature or scale, or subtracting the mean before normalising."
        )
    if diagnosis.intra.num_pairs and diagnosis.inter.num_pairs and diagnosis.intra.quantiles[0.5] >= diagnosis.inter.quantiles[0.5]:
        said.append(
            "Items of one class are no closer than items of two: the embedding tells nothing of the classes. Check that labels and "
            "embeddings are in the same order."
        )
    if diagnosis.hub_skewness > HUB_SKEW:
        item, times = diagnosis.hubs[0]
        said.append(
            f"A few hubs are everybody's neighbours: item {item} is among the {diagnosis.neighbours} nearest of {times} items (skewness "
            f"{diagnosis.hub_skewness:.1f}). Look at the hubs for blank or broken images; normalise, centre, or lower the dimension."
        )
    if diagnosis.anti_hub_share > ANTI_HUB_SHARE:
        said.append(
            f"{diagnosis.anti_hub_share:.0%} of the items are nobody's neighbour among the nearest {diagnosis.neighbours}: they cannot "
            "be found."
        )
    lost = sum(recall.recall_at_1 == 0 for recall in diagnosis.class_recall)
    if lost:
        said.append(
            f"R@1 is 0 for {lost} of {len(diagnosis.class_recall)} classes: check their labels, and whether they are near copies of others."
        )
    return said


def _check(rows: Tensor, codes: Tensor, metric: str, neighbours: int, worst: int, bins: int) -> None:
    if metric not in ("cosine", "euclidean", "hamming"):
        raise ValueError(f'metric is {metric!r}: expected "cosine", "euclidean" or "hamming"')
    if len(codes) != len(rows):
        raise ValueError(f"{len(codes)} labels for {len(rows)} embeddings: expected one label an embedding")
    if len(rows) < 2:
        raise ValueError(f"there are {len(rows)} embeddings: a diagnosis needs at least two")
    for name, value in (("neighbours", neighbours), ("bins", bins)):
        if value < 1:
            raise ValueError(f"{name} is {value}: expected 1 or more")
    if worst < 0:
        raise ValueError(f"worst is {worst}: expected 0 or more")
