"""Whitening: unit vectors made comparable in closed form, by how classes vary within themselves or by how all vectors vary.

With u = x / |x| and m the mean of u over the vectors it is taken from, a whitening gives y = (u - m) A, then y / |y|.

within: A = (S + shrinkage x (mean eigenvalue of S) x I)^(-power / 2), S = 1/N sum of (u - its class's mean)(u - its class's mean)^T.
        With power 1 within-class covariance normalisation (WCCN; Hatch, Kajarekar and Stolcke, 2006).
pca:    A = E diag(s^-power), E and s^2 the eigenvectors and eigenvalues of 1/N sum of (u - m)(u - m)^T, largest first.
        With power 1/2 half-whitened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, get_args

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from likewise.argument_types import checked_arguments
from likewise.checks import known_name
from likewise.evaluation.labels import Labels, class_codes
from likewise.evaluation.retrieval import per_query

Vectors = TypeVar("Vectors", Tensor, npt.NDArray[Any])
Kind = Literal["within", "pca"]

BLOCK = 4096  # rows in float64 at a time
PANEL = 256  # columns of a scatter at a time, of which only the upper half is computed
DEGENERATE = 1e-10  # of the largest eigenvalue: below it nothing varies but the rounding of float32
SHRINKAGES = (1.0, 0.3, 3.0, 0.1, 10.0, 0.03, 30.0)  # that "auto" tries; the first of equals is taken
NUM_FOLDS = 4  # of the classes, for "auto"
FEWEST_CLASSES = 10  # with two items or more, for "auto" to tell anything; with fewer it is 1
MOST_SCORED = 4000  # items of a fold that "auto" scores, in whole classes


@dataclass(frozen=True, eq=False)
class _Rows:
    """Vectors as unit rows in float64, a block at a time."""

    vectors: Tensor | npt.NDArray[Any]

    @staticmethod
    def of(vectors: Tensor | npt.NDArray[Any]) -> _Rows:
        """Refuses what is no table of numbers, and rows that are not finite."""
        if not isinstance(vectors, (Tensor, np.ndarray)):
            raise ValueError(f"vectors must be a NumPy array or a tensor, not {type(vectors).__name__}")
        is_real = not vectors.is_complex() if isinstance(vectors, Tensor) else vectors.dtype.kind in "fiu"
        if vectors.ndim != 2 or not is_real or 0 in vectors.shape:
            raise ValueError(f"vectors must be numbers (items, dimensions), not {vectors.dtype} {tuple(vectors.shape)}")
        rows = _Rows(vectors)
        bad = [part.start + i for part, units in rows.blocks() for i in torch.nonzero(~units.isfinite().all(1)).flatten().tolist()]
        if bad:
            shown = ", ".join(map(str, bad[:5])) + (", ..." if len(bad) > 5 else "")
            raise ValueError(
                f"vectors hold NaN or infinity in {len(bad)} of {len(rows)} rows ({shown}): look at the model and its input there"
            )
        return rows

    def __len__(self) -> int:
        return len(self.vectors)

    @property
    def dimensions(self) -> int:
        return int(self.vectors.shape[1])

    @property
    def device(self) -> torch.device:
        return self.vectors.device if isinstance(self.vectors, Tensor) else torch.device("cpu")

    def units(self, chosen: slice | Tensor) -> Tensor:
        """(chosen, dimensions)"""
        if isinstance(self.vectors, Tensor):
            rows = self.vectors[chosen].double()
        else:
            rows = torch.from_numpy(np.array(self.vectors[chosen.numpy() if isinstance(chosen, Tensor) else chosen], np.float64))
        return nn.functional.normalize(rows)

    def blocks(self) -> Iterator[tuple[slice, Tensor]]:
        for first in range(0, len(self), BLOCK):
            part = slice(first, min(first + BLOCK, len(self)))
            yield part, self.units(part)

    def mean(self, chosen: Tensor | None = None) -> Tensor:
        """Of all rows, or of those that a mask chooses."""
        total = torch.zeros(self.dimensions, dtype=torch.float64, device=self.device)
        for part, units in self.blocks():
            total += (units if chosen is None else units[chosen[part]]).sum(0)
        return total / (len(self) if chosen is None else int(chosen.sum()))

    def class_means(self, codes: Tensor, num_classes: int) -> Tensor:
        """(classes, dimensions)"""
        totals = torch.zeros(num_classes, self.dimensions, dtype=torch.float64, device=self.device)
        for part, units in self.blocks():
            totals.index_add_(0, codes[part], units)
        return totals / torch.bincount(codes, minlength=num_classes)[:, None]

    def scatter(self, centre: Callable[[slice], Tensor], chosen: Tensor | None = None) -> Tensor:
        """The sum of (u - centre)(u - centre)^T, over all rows or those that a mask chooses; `centre` of a part of the rows."""
        total = torch.zeros(self.dimensions, self.dimensions, dtype=torch.float64, device=self.device)
        for part, units in self.blocks():
            away = units - centre(part)
            away = away if chosen is None else away[chosen[part]]
            for first in range(0, self.dimensions, PANEL):
                total[first : first + PANEL, first:].addmm_(away[:, first : first + PANEL].T, away[:, first:])
        return total.triu() + total.triu(1).T


class Whitening(nn.Module):
    """y = (x / |x| - mean) matrix, then y / |y|: float32 whatever the network around it computes in."""

    mean: Tensor  # (dimensions,)
    matrix: Tensor  # (dimensions, width)

    def __init__(self, mean: Tensor, matrix: Tensor, *, shrinkage: float | None = None) -> None:
        super().__init__()
        self.register_buffer("mean", mean.float())
        self.register_buffer("matrix", matrix.float())
        self.shrinkage = shrinkage  # that it was made with, or that "auto" chose

    @property
    def in_features(self) -> int:
        return int(self.matrix.shape[0])

    @property
    def width(self) -> int:
        return int(self.matrix.shape[1])

    def forward(self, vectors: Vectors) -> Vectors:
        """Unit rows (items, width), of the kind and type of the vectors (items, in_features)."""
        if vectors.ndim != 2 or vectors.shape[1] != self.in_features:
            raise ValueError(f"vectors of shape {tuple(vectors.shape)}: this whitening takes (items, {self.in_features})")
        if isinstance(vectors, Tensor):
            return self._whitened(vectors)
        result = np.empty((len(vectors), self.width), vectors.dtype if vectors.dtype.kind == "f" else np.float32)
        computed = np.promote_types(result.dtype, np.float32)
        for first in range(0, len(vectors), BLOCK):
            rows = torch.from_numpy(np.array(vectors[first : first + BLOCK], computed)).to(self.matrix.device)
            result[first : first + BLOCK] = self._whitened(rows).cpu().numpy()
        return result

    def _whitened(self, vectors: Tensor) -> Tensor:
        with torch.autocast(vectors.device.type, enabled=False):
            rows = vectors.to(torch.promote_types(vectors.dtype, self.matrix.dtype))
            centred = nn.functional.normalize(rows) - self.mean.to(rows.dtype)
            result = nn.functional.normalize(centred @ self.matrix.to(rows.dtype))
            return result.to(vectors.dtype) if vectors.is_floating_point() else result

    def extra_repr(self) -> str:
        return f"{self.in_features} -> {self.width}"


@torch.no_grad()
@checked_arguments
def whiten(
    vectors: Tensor | npt.NDArray[Any],
    labels: Labels | None = None,
    *,
    shrinkage: float | Literal["auto"] = 1.0,
    kind: Kind | None = None,
    dim: int | None = None,
    power: float | None = None,
) -> Whitening:
    """The whitening that these vectors (items, dimensions) call for; `whitening(others)` then gives unit vectors of the same kind.

    labels     the vectors' classes. With them the directions in which classes vary within themselves are made small (kind "within");
               without, those in which all vectors vary most (kind "pca").
    shrinkage  of "within": how much of the mean eigenvalue is added to all. 0: classes vary alike in every direction afterwards; large:
               the centred vectors as they are. "auto": of seven values the one with the best MAP@R on classes that it was not taken from,
               by four folds of the classes; 1 where fewer than ten classes have two items. `.shrinkage` says which.
    kind       "within" or "pca"; None: by whether there are labels.
    dim        dimensions of the result. "pca": the largest; None: all in which the vectors vary. "within": those in which the whitened
               vectors vary most; None: as many as there are.
    power      1: whitened wholly, 0: only centred. None: 1 for "within", 1/2 for "pca", where small directions hold much noise.

    The vectors are brought to length 1 first, and all is computed in float64, block by block, on the vectors' device.
    """
    rows = _Rows.of(vectors)
    kind = known_name("kind of whitening", kind, get_args(Kind)) if kind is not None else "pca" if labels is None else "within"  # type: ignore[assignment]
    power = (1.0 if kind == "within" else 0.5) if power is None else power
    if not 0 <= power <= 1:
        raise ValueError(f"power={power}: expected a number from 0 (only centred) to 1 (whitened wholly)")
    if dim is not None and dim < 1:
        raise ValueError(f"dim={dim}: expected at least 1")
    if kind == "pca":
        if shrinkage != 1.0:
            raise ValueError(f"shrinkage={shrinkage!r} with kind='pca': it is of kind 'within'; leave it out, or give labels")
        return _pca(rows, dim=dim, power=power)
    if labels is None:
        raise ValueError("kind='within' without labels: give the vectors' classes, or take kind='pca'")
    codes = class_codes(labels, device=rows.device)[0]
    if len(codes) != len(rows):
        raise ValueError(f"{len(codes)} labels for {len(rows)} vectors: expected one label a vector")
    return _within(rows, codes, shrinkage=shrinkage, dim=dim, power=power)


@torch.no_grad()
def whitenings_by_shrinkage(vectors: Tensor | npt.NDArray[Any], labels: Labels) -> dict[float, Whitening]:
    """`whiten(vectors, labels, shrinkage)` with each of SHRINKAGES, for little more than one of them costs."""
    rows = _Rows.of(vectors)
    codes = class_codes(labels, device=rows.device)[0]
    class_means = _class_means(rows, codes)
    mean = rows.mean()
    spectrum = _spectrum(rows.scatter(lambda part: class_means[codes[part]]) / len(rows))
    return {
        shrinkage: Whitening(mean, _inverse_power(*spectrum, shrinkage=shrinkage, power=1.0), shrinkage=shrinkage)
        for shrinkage in SHRINKAGES
    }


def _class_means(rows: _Rows, codes: Tensor) -> Tensor:
    counts = torch.bincount(codes)
    if counts.max() < 2:
        raise ValueError(f"every one of the {len(counts)} classes has a single vector: within-class whitening needs two of some class")
    return rows.class_means(codes, len(counts))


def _pca(rows: _Rows, *, dim: int | None, power: float) -> Whitening:
    mean = rows.mean()
    values, directions = _spectrum(rows.scatter(lambda _: mean) / len(rows))
    available = int((values > DEGENERATE * values[0]).sum()) if values[0] > DEGENERATE**2 else 0
    if not available:
        raise ValueError(f"all {len(rows)} vectors point the same way: there is nothing to whiten; look at what made them")
    if dim is not None and dim > available:
        raise ValueError(f"dim={dim}: {len(rows)} vectors of {rows.dimensions} dimensions vary in {available}; give at most that many")
    chosen = slice(available if dim is None else dim)
    return Whitening(mean, directions[:, chosen] * values[chosen] ** (-power / 2))


def _within(rows: _Rows, codes: Tensor, *, shrinkage: float | Literal["auto"], dim: int | None, power: float) -> Whitening:
    class_means = _class_means(rows, codes)
    if shrinkage != "auto" and not (isinstance(shrinkage, (int, float)) and shrinkage >= 0):
        raise ValueError(f"shrinkage={shrinkage!r}: expected a number not below 0, such as 1.0, or 'auto'")
    if dim is not None and dim > rows.dimensions:
        raise ValueError(f"dim={dim}: the vectors have {rows.dimensions} dimensions; give at most that many")
    if shrinkage == "auto":
        scores = scores_of_shrinkages(rows, codes, class_means, power=power)
        chosen = max(scores, key=lambda tried: scores[tried])
    else:
        chosen = float(shrinkage)
    mean = rows.mean()
    scatter = rows.scatter(lambda part: class_means[codes[part]]) / len(rows)
    matrix = _inverse_power(*_spectrum(scatter), shrinkage=chosen, power=power)
    if dim is not None:
        spread = matrix @ (rows.scatter(lambda _: mean) / len(rows)) @ matrix
        matrix = matrix @ _spectrum(spread)[1][:, :dim]
    return Whitening(mean, matrix, shrinkage=chosen)


def _inverse_power(values: Tensor, directions: Tensor, *, shrinkage: float, power: float) -> Tensor:
    """(S + shrinkage x mean eigenvalue x I)^(-power / 2) of a scatter with this spectrum."""
    return (directions * _scales(values, shrinkage=shrinkage, power=power)) @ directions.T


def _scales(values: Tensor, *, shrinkage: float, power: float) -> Tensor:
    """The eigenvalues of that matrix, from those of the scatter, largest first."""
    if values[0] <= DEGENERATE**2:
        raise ValueError("the vectors of every class point the same way: within-class whitening has nothing to learn from them")
    shifted = values + shrinkage * values.mean()
    if shifted[-1] <= DEGENERATE * values[0]:
        raise ValueError(
            f"shrinkage={shrinkage:g}: classes vary within themselves in {int((values > DEGENERATE * values[0]).sum())} of {len(values)} "
            "directions, and the others would be made infinite; give a shrinkage above 0, such as 1.0"
        )
    scales: Tensor = shifted ** (-power / 2)
    return scales


def scores_of_shrinkages(rows: _Rows, codes: Tensor, class_means: Tensor, *, power: float) -> dict[float, float]:
    """The mean MAP@R over the items of held-out classes with each shrinkage; 0 for all where there are too few classes to tell."""
    counts = torch.bincount(codes)
    classes = torch.nonzero(counts > 1).flatten().cpu().numpy()
    totals, num_scored = dict.fromkeys(SHRINKAGES, 0.0), 0
    if len(classes) < FEWEST_CLASSES:
        return totals
    fold_of = torch.full_like(counts, -1)  # classes of one item are in no fold: nothing can be found of them
    fold_of[np.random.default_rng(0).permutation(classes)] = torch.arange(len(classes), device=counts.device) % NUM_FOLDS
    item_fold = fold_of[codes]
    # A class adds to the scatter on its own, so that the scatter without a fold is a sum of the others'.
    scatters = [rows.scatter(lambda part: class_means[codes[part]], chosen=item_fold == fold) for fold in range(NUM_FOLDS)]
    for fold in range(NUM_FOLDS):
        held_out = item_fold == fold
        others = torch.stack(scatters[:fold] + scatters[fold + 1 :]).sum(0) / int((~held_out).sum())
        values, directions = _spectrum(others)
        scored = _whole_classes(codes, held_out)
        turned = (rows.units(scored) - rows.mean(chosen=~held_out)) @ directions  # and not back, which changes no similarity
        num_scored += len(scored)
        for shrinkage in SHRINKAGES:
            whitened = turned * _scales(values, shrinkage=shrinkage, power=power)
            found = per_query(nn.functional.normalize(whitened).float(), codes[scored], metrics=("MAP@R",))
            totals[shrinkage] += float(found.scores["MAP@R"].sum())
    return {shrinkage: total / num_scored for shrinkage, total in totals.items()}


def _whole_classes(codes: Tensor, held_out: Tensor) -> Tensor:
    """Positions of held-out items, class by class as long as they are no more than is scored; at least two classes."""
    counts = torch.bincount(codes[held_out], minlength=int(codes.max()) + 1)
    sums = counts.cumsum(0)
    within = (sums <= max(MOST_SCORED, int(sums[torch.nonzero(counts).flatten()[1]]))) & (counts > 0)
    return torch.nonzero(held_out & within[codes]).flatten()


def _spectrum(scatter: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues, largest first and not below 0, and eigenvectors as columns, each with its largest entry positive."""
    values, directions = torch.linalg.eigh(scatter)
    values, directions = values.flip(0).clamp(min=0), directions.flip(1)
    largest = directions.gather(0, directions.abs().argmax(0, keepdim=True))
    return values, directions * largest.sign()
