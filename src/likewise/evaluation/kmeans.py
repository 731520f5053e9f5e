"""k-means for thousands of clusters: exact k-means++ seeding in batches, Lloyd iterations in blocks, on the CPU or a GPU.

Minimises the inertia sum_i ||x_i - c_a(i)||^2 over centroids c and assignments a. Two things make K = 11,316 affordable:

Seeding. k-means++ draws each next centre with probability proportional to D_i^2, the squared distance of x_i to the centres so far; the
greedy form (scikit-learn's) draws 2 + log K and keeps the one that lowers sum_i D_i^2 most. That is K passes over the data. Here several
centres are drawn from one pass, a matrix product: candidates come from the D^2 of the batch's start and are kept with probability
D_now^2 / D_start^2, where D_now counts the centres taken earlier in the batch. That is rejection sampling, so the candidates are
distributed exactly as in k-means++ (Arthur & Vassilvitskii 2007). The gain by which the greedy choice is made is that at the batch's start
times D_now^2 / D_start^2. Small clusters need the greedy form: at 5 items a cluster it lowers the final inertia by a tenth.

Iterations. A centroid whose members did not change has not moved. A point no farther from its own centroid than before therefore only has
to be compared with the centroids that moved (Kaukoranta et al. 1999); only the other points meet all K. Late iterations cost a fraction of
the first.
"""

import math
from collections.abc import Callable
from importlib.util import find_spec
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from likewise.evaluation.similarity import full_float32

Backend = Literal["auto", "torch", "faiss"]
Array = np.ndarray

BLOCK_ELEMENTS = {"cpu": 1 << 21, "cuda": 1 << 27}  # similarities at once: 8 MiB stay near the cache of a CPU, 512 MiB fill a GPU
# Centres from one pass over the data: an eighth of those there are, so that few candidates are in each other's way, and at most so many
# that the candidates' distances to each other stay cheap beside the pass.
SEEDING_SHARE, SEEDING_MOST = 8.0, 128


class Clusters(NamedTuple):
    """What k-means found; unpacks as `assignment, centroids, inertia`."""

    assignment: Tensor  # (N,) int64, each item's nearest centroid
    centroids: Tensor  # (k, d)
    inertia: float  # sum of squared distances to the own centroid


def kmeans(
    embeddings: Tensor,
    k: int,
    *,
    seed: int = 0,
    restarts: int = 1,
    iterations: int = 100,
    tolerance: float = 1e-5,
    backend: Backend = "auto",
    on_restart: Callable[[int], None] | None = None,
) -> Clusters:
    """The best of `restarts` k-means runs by inertia, Euclidean on the rows as they are (normalise them first for cosine).

    A run ends after `iterations`, when no item changes its cluster, or when the inertia falls by less than its share `tolerance`. An empty
    cluster is started again at one of the items farthest from their centroids. Deterministic for a seed on the CPU.
    `backend="auto"` is "torch": in benchmarks/clustering.py it took fewer CPU seconds than faiss at 4,000 clusters and more at 100 (0.5
    against 0.2), and its inertia was 7 to 15 % lower at both. "faiss" needs the extra `likewise[faiss]`.
    `on_restart` is called with the number of finished restarts.
    """
    _check(embeddings, k, restarts=restarts, iterations=iterations, tolerance=tolerance, backend=backend)
    rows = embeddings.detach()
    rows = rows if rows.dtype == torch.float64 else rows.float()
    if backend == "faiss":
        return _faiss(rows, k, seed=seed, restarts=restarts, iterations=iterations, on_restart=on_restart)
    mean = rows.mean(dim=0)
    rows = rows - mean  # distances come from dot products: a common offset would cost digits
    generator = torch.Generator().manual_seed(seed)
    best: Clusters | None = None
    for restart in range(restarts):
        with full_float32():
            seeds = plus_plus(rows, k, generator=generator, trials=2 + int(math.log(k)))
            run = _lloyd(rows, seeds, iterations=iterations, tolerance=tolerance)
        if best is None or run.inertia < best.inertia:
            best = run
        if on_restart is not None:
            on_restart(restart + 1)
    assert best is not None
    return best._replace(centroids=best.centroids + mean)


class Seeds(NamedTuple):
    """Rows drawn as starting centres, and where that leaves every row: the first assignment comes for free."""

    chosen: Tensor  # (k,) int64, indices of rows
    nearest: Tensor  # (N,) int64, position in `chosen` of each row's nearest centre
    squared_distance: Tensor  # (N,) to that centre


def plus_plus(rows: Tensor, k: int, *, generator: torch.Generator, trials: int) -> Seeds:
    """k rows drawn as greedy k-means++ does with `trials` candidates a centre; one trial is plain k-means++ (see the module).

    `generator` is a CPU generator, so that devices draw alike.
    """
    count, device = len(rows), rows.device
    squared_norm = rows.square().sum(dim=1)
    chosen = torch.randint(count, (1,), generator=generator)
    seeds = Seeds(chosen.to(device), torch.zeros(count, dtype=torch.int64, device=device), torch.full_like(squared_norm, torch.inf))
    _meet(seeds, rows, squared_norm, first=0)
    coarse = rows.to(_coarse_type(rows)) if trials > 1 else rows
    while (done := len(seeds.chosen)) < k:
        batch = min(max(int(done / SEEDING_SHARE), 1), SEEDING_MOST, k - done)
        cumulative = seeds.squared_distance.double().cumsum(dim=0)
        draw = torch.rand(batch * trials, dtype=torch.float64, generator=generator).to(device) * cumulative[-1]
        candidates = torch.searchsorted(cumulative, draw, right=True).clamp_(max=count - 1)
        threshold = torch.rand(batch * trials, dtype=torch.float64, generator=generator).numpy()
        at_start = seeds.squared_distance[candidates].double().cpu().numpy()
        if at_start.any():
            norm = squared_norm[candidates]
            between = (norm[:, None] + norm[None, :] - 2 * rows[candidates] @ rows[candidates].T).cpu().numpy()
            gain = _gain(seeds, coarse, squared_norm, candidates).cpu().numpy() if trials > 1 else np.ones(batch)
            taken = _take(between, at_start, gain, threshold, trials=trials)
            fresh = candidates[torch.from_numpy(taken).to(device)]
        else:  # every row coincides with a centre, there are fewer than k different rows: any others will do
            others = torch.randperm(count, generator=generator).to(device)
            fresh = others[~torch.isin(others, seeds.chosen)][: k - done]
        seeds = seeds._replace(chosen=torch.cat([seeds.chosen, fresh]))
        _meet(seeds, rows, squared_norm, first=done)
    return seeds


def _coarse_type(rows: Tensor) -> torch.dtype:
    """bfloat16 where it is native and therefore faster: it serves to choose between candidates, not to measure."""
    if rows.dtype != torch.float32:
        return rows.dtype
    if rows.is_cuda:
        native = torch.cuda.is_bf16_supported(including_emulation=False)
    else:
        native = rows.device.type == "cpu" and bool(getattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)())
    return torch.bfloat16 if native else torch.float32


def _gain(seeds: Seeds, coarse: Tensor, squared_norm: Tensor, candidates: Tensor) -> Tensor:
    """By how much each candidate would lower the sum of squared distances: sum_i [D_i^2 - ||x_i - x_candidate||^2]+."""
    to = coarse[candidates].T.contiguous()
    norm = squared_norm[candidates].to(coarse.dtype)
    spare = (seeds.squared_distance - squared_norm)[:, None].to(coarse.dtype)
    gain = torch.zeros(len(candidates), dtype=torch.float64, device=coarse.device)
    total = torch.float64 if coarse.dtype == torch.float64 else torch.float32
    for block in _blocks(len(coarse), len(candidates), coarse.device):
        gain += torch.addmm(-norm, coarse[block], to, alpha=2).add_(spare[block]).relu_().sum(dim=0, dtype=total)
    return gain


def _take(between: Array, at_start: Array, gain: Array, threshold: Array, *, trials: int) -> Array:
    """Positions of the candidates that would have been taken one centre after the other."""
    now = at_start.copy()  # squared distance of each candidate to the centres so far
    taken: list[int] = []
    for first in range(0, len(now), trials):
        group = slice(first, first + trials)
        valid = threshold[group] * at_start[group] < now[group]
        if valid.any():
            share = now[group] / np.where(valid, at_start[group], 1.0)
            best = first + int(np.where(valid, gain[group] * share, -1.0).argmax())
            taken.append(best)
            np.minimum(now, between[best], out=now)
            now[best] = 0.0
    return np.asarray(taken, dtype=np.int64)


def _meet(seeds: Seeds, rows: Tensor, squared_norm: Tensor, *, first: int) -> None:
    """Bring `nearest` and `squared_distance` up to date with the centres chosen from position `first` on, in place."""
    fresh = seeds.chosen[first:]
    position, similarity = _assign(rows, rows[fresh])
    distance = (squared_norm - 2 * similarity).clamp_(min=0)
    closer = distance < seeds.squared_distance
    torch.where(closer, position + first, seeds.nearest, out=seeds.nearest)
    torch.where(closer, distance, seeds.squared_distance, out=seeds.squared_distance)
    seeds.squared_distance[fresh] = 0.0  # not left to rounding: a centre must not be drawn twice
    seeds.nearest[fresh] = torch.arange(first, first + len(fresh), device=rows.device)


def _lloyd(rows: Tensor, seeds: Seeds, *, iterations: int, tolerance: float) -> Clusters:
    # ||x - c||^2 = ||x||^2 - 2 similarity, similarity = x.c - ||c||^2 / 2: the nearest centroid has the highest similarity
    squared_norm = rows.square().sum(dim=1)
    centroids, assignment, similarity = rows[seeds.chosen], seeds.nearest, (squared_norm - seeds.squared_distance) / 2
    inertia = float((squared_norm - 2 * similarity).double().sum())
    changed = torch.ones(len(centroids), dtype=torch.bool, device=rows.device)
    for _ in range(iterations):
        updated, moved = _update(rows, centroids, assignment, distance=squared_norm - 2 * similarity, changed=changed)
        before_assignment = assignment
        assignment, similarity = _reassign(rows, updated, moved, assignment, similarity)
        centroids = updated
        differs = assignment != before_assignment
        changed = torch.zeros_like(changed)
        changed[assignment[differs]] = True
        changed[before_assignment[differs]] = True
        previous, inertia = inertia, float((squared_norm - 2 * similarity).double().sum())
        if previous - inertia <= tolerance * previous or not bool(differs.any()):
            break
    exact = torch.zeros((), dtype=torch.float64, device=rows.device)
    for block in _blocks(len(rows), rows.shape[1], rows.device):
        exact += (rows[block] - centroids[assignment[block]]).double().square().sum()
    return Clusters(assignment, centroids, float(exact))


def _update(rows: Tensor, centroids: Tensor, assignment: Tensor, *, distance: Tensor, changed: Tensor) -> tuple[Tensor, Tensor]:
    """Means of the clusters with changed members, empty ones at far items; also which centroids moved."""
    k = len(centroids)
    sizes = torch.bincount(assignment, minlength=k)
    sums = torch.zeros_like(centroids).index_add_(0, assignment, rows)
    empty = sizes == 0
    updated = torch.where(changed[:, None], sums / sizes.clamp(min=1)[:, None], centroids)
    farthest = distance.argsort(descending=True, stable=True)[:k]  # the e-th empty cluster takes the e-th farthest item
    updated = torch.where(empty[:, None], rows[farthest[(empty.cumsum(0) - 1).clamp(min=0)]], updated)
    return updated, changed | empty


def _reassign(rows: Tensor, centroids: Tensor, moved: Tensor, assignment: Tensor, similarity: Tensor) -> tuple[Tensor, Tensor]:
    """Nearest centroids after `moved` ones moved, from the assignment and similarities before."""
    movers = moved.nonzero().squeeze(1)
    if 2 * len(movers) > len(centroids):
        return _assign(rows, centroids)
    members = moved[assignment].nonzero().squeeze(1)  # the others keep centroid and similarity
    assignment, before, similarity = assignment.clone(), similarity, similarity.clone()
    similarity[members] = _own_similarity(rows, centroids, assignment, members)
    farther = similarity < before
    some, all_ = (~farther).nonzero().squeeze(1), farther.nonzero().squeeze(1)
    if len(movers):
        nearest_mover, mover_similarity = _assign(rows, centroids[movers], some)
        better = mover_similarity > similarity[some]
        assignment[some] = torch.where(better, movers[nearest_mover], assignment[some])
        similarity[some] = torch.where(better, mover_similarity, similarity[some])
    if len(all_):
        assignment[all_], similarity[all_] = _assign(rows, centroids, all_)
    return assignment, similarity


def _assign(rows: Tensor, centroids: Tensor, which: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Index and similarity of the nearest centroid of each of the rows `which`."""
    half = centroids.square().sum(dim=1) / 2
    transposed = centroids.T.contiguous()
    count = len(rows) if which is None else len(which)
    index = torch.empty(count, dtype=torch.int64, device=rows.device)
    similarity = torch.empty(count, dtype=rows.dtype, device=rows.device)
    for block in _blocks(count, len(centroids), rows.device):
        part = rows[block] if which is None else rows[which[block]]
        similarity[block], index[block] = torch.addmm(-half, part, transposed).max(dim=1)
    return index, similarity


def _own_similarity(rows: Tensor, centroids: Tensor, assignment: Tensor, which: Tensor) -> Tensor:
    """Similarities of the rows `which` with their own centroids."""
    half = centroids.square().sum(dim=1) / 2
    similarity = torch.empty(len(which), dtype=rows.dtype, device=rows.device)
    for block in _blocks(len(which), rows.shape[1], rows.device):
        centroid = assignment[which[block]]
        similarity[block] = (rows[which[block]] * centroids[centroid]).sum(dim=1) - half[centroid]
    return similarity


def _blocks(count: int, width: int, device: torch.device) -> list[slice]:
    """Slices of `count` rows, such that rows x width stays within a block."""
    size = max(1, BLOCK_ELEMENTS.get(device.type, BLOCK_ELEMENTS["cuda"]) // width)
    return [slice(start, min(start + size, count)) for start in range(0, count, size)]


def _faiss(rows: Tensor, k: int, *, seed: int, restarts: int, iterations: int, on_restart: Callable[[int], None] | None) -> Clusters:
    if find_spec("faiss") is None:
        raise ValueError('backend="faiss" needs faiss, which is not installed: pip install "likewise[faiss]", or use backend="torch"')
    import faiss

    data = np.ascontiguousarray(rows.cpu().numpy(), dtype=np.float32)
    best: Clusters | None = None
    settings = {"niter": iterations, "min_points_per_centroid": 1, "max_points_per_centroid": len(data)}
    if hasattr(faiss, "ClusteringInitMethod_KMEANS_PLUS_PLUS"):  # its random start, all that older versions have, misses separable clusters
        settings["init_method"] = faiss.ClusteringInitMethod_KMEANS_PLUS_PLUS
    for restart in range(restarts):  # not faiss's own nredo, so that progress can be told
        model = faiss.Kmeans(data.shape[1], k, seed=seed + restart, **settings)
        model.train(data)
        distance, assignment = model.index.search(data, 1)
        inertia = float(distance.sum(dtype=np.float64))
        if best is None or inertia < best.inertia:
            centroids = torch.from_numpy(np.array(model.centroids)).to(rows)
            best = Clusters(torch.from_numpy(assignment[:, 0].astype(np.int64)).to(rows.device), centroids, inertia)
        if on_restart is not None:
            on_restart(restart + 1)
    assert best is not None
    return best


def _check(embeddings: Tensor, k: int, *, restarts: int, iterations: int, tolerance: float, backend: str) -> None:
    if embeddings.ndim != 2 or not embeddings.dtype.is_floating_point:
        raise ValueError(
            f"embeddings must be floating point of shape (items, dim), got {embeddings.dtype} of shape {tuple(embeddings.shape)}"
        )
    if not 1 <= k <= len(embeddings):
        raise ValueError(f"k must lie between 1 and the number of items, {len(embeddings)}; got {k}")
    finite = torch.isfinite(embeddings).all(dim=1)
    if not bool(finite.all()):
        bad = (~finite).nonzero().squeeze(1)
        raise ValueError(f"{len(bad)} embeddings hold NaN or infinity, the first is row {int(bad[0])}: remove or repair them")
    if restarts < 1 or iterations < 1:
        raise ValueError(f"restarts and iterations must be at least 1, got restarts={restarts} and iterations={iterations}")
    if not tolerance >= 0:
        raise ValueError(f"tolerance must not be negative, got {tolerance}")
    if backend not in ("auto", "torch", "faiss"):
        raise ValueError(f'backend must be "auto", "torch" or "faiss", got {backend!r}')
