"""Losses against pytorch-metric-learning in the same run: time and peak extra memory of forward + backward.

    python benchmarks/losses.py                      # CPU: N = 128 .. 4,096, process CPU time
    python benchmarks/losses.py --device cuda        # GPU: N = 128 .. 65,536, bf16, beside the matrix products' own time
    python benchmarks/losses.py --sizes 2048 --cases raw+vthm,margin+distance_weighted

d = 512, 4 items a class, random embeddings. Every figure comes from a process of its own: the least time of several repetitions,
and the growth of the peak of memory over what the inputs take. The peer is left out where it is not installed; "-" means it has
no such loss, "no" that it ran out of the memory or the time it was given.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from multiprocessing.connection import Connection
from typing import Any

import torch
from torch import Tensor

import likewise

DIM, PER_CLASS = 512, 4
PEER_SECONDS = 60  # what the peer is given for one figure
PEER_GIB = 12

# case -> (peer's loss and its settings, peer's miner), or None where the peer has no such loss
CASES: dict[str, tuple[tuple[str, dict[str, Any]], tuple[str, dict[str, Any]] | None] | None] = {
    "raw+vthm": (("MultiSimilarityLoss", {"alpha": 2, "beta": 50, "base": 0.5}), ("MultiSimilarityMiner", {"epsilon": 0.1})),
    "ranked_list": (("RankedListLoss", {"margin": 0.4, "alpha": 1.2, "Tn": 10}), None),
    "contrastive": (("ContrastiveLoss", {}), None),
    "generalized_lifted": (("GeneralizedLiftedStructureLoss", {}), None),
    "margin+distance_weighted": (("MarginLoss", {}), ("DistanceWeightedMiner", {})),
    "triplet": (("TripletMarginLoss", {"margin": 0.2}), None),
    "triplet+semihard": (("TripletMarginLoss", {"margin": 0.2}), ("TripletMarginMiner", {"margin": 0.2, "type_of_triplets": "semihard"})),
    "n_pair": (("NPairsLoss", {}), None),
    "lifted": (("LiftedStructureLoss", {}), None),
    "binomial_deviance": None,
    "angular": (("AngularLoss", {"alpha": 45}), None),
    "histogram": (("HistogramLoss", {"n_bins": 100}), None),
    "nonlinear_rank": None,
    "raw": None,
    "weight_family": None,
    "nca": (("NCALoss", {}), None),
    "tuplet_margin": (("TupletMarginLoss", {"margin": 5.73, "scale": 64}), None),
    "intra_pair_variance": (("IntraPairVarianceLoss", {}), None),
    "pnp": (("PNPLoss", {"variant": "Dq"}), None),
    "contrastive_distance": None,
    "multi_similarity": (("MultiSimilarityLoss", {"alpha": 2, "beta": 50, "base": 0.5}), None),
    "circle": (("CircleLoss", {"m": 0.4, "gamma": 80}), None),
    "supcon": (("SupConLoss", {"temperature": 0.1}), None),
    "nt_xent": (("NTXentLoss", {"temperature": 0.07}), None),
    "smooth_ap": (("SmoothAPLoss", {}), None),
    "fast_ap": (("FastAPLoss", {"num_bins": 10}), None),
    "recall_at_k": None,
    "proxy_nca": (("ProxyNCALoss", {"softmax_scale": 3}), None),
    "proxy_softmax": (("NormalizedSoftmaxLoss", {"temperature": 0.05}), None),
    "proxy_anchor": (("ProxyAnchorLoss", {}), None),
    "arcface": (("ArcFaceLoss", {"margin": 28.6, "scale": 64}), None),
    "cosface": (("CosFaceLoss", {"margin": 0.35, "scale": 64}), None),
    "soft_triple": (("SoftTripleLoss", {}), None),
}
HAS_PROXIES = {"proxy_nca", "proxy_softmax", "proxy_anchor", "arcface", "cosface", "soft_triple"}


def batch(num_items: int, device: str, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    embeddings = torch.randn(num_items, DIM, device=device).to(dtype).requires_grad_()
    return embeddings, torch.arange(max(2, num_items // PER_CLASS), device=device).repeat_interleave(PER_CLASS)[:num_items]


def likewise_step(case: str, num_items: int, device: str, dtype: torch.dtype) -> Callable[[], object]:
    loss, _, mining = case.partition("+")
    if case == "triplet+semihard":
        settings: dict[str, Any] = {"select": "semihard"}
        mining = ""
    else:
        settings = {}
    if loss in HAS_PROXIES:
        settings |= {"num_classes": max(2, num_items // PER_CLASS), "dim": DIM}
    objective = likewise.objective(loss, mining=mining or None, **settings).to(device)
    embeddings, labels = batch(num_items, device, dtype)
    return lambda: _backward(objective(embeddings, labels), embeddings)


def peer_step(case: str, num_items: int, device: str, dtype: torch.dtype) -> Callable[[], object]:
    warnings.filterwarnings("ignore")
    from pytorch_metric_learning import losses, miners

    definition = CASES[case]
    assert definition is not None
    (name, settings), mining = definition
    if case in HAS_PROXIES:
        settings = settings | {"num_classes": max(2, num_items // PER_CLASS), "embedding_size": DIM}
    loss = getattr(losses, name)(**settings).to(device)
    miner = getattr(miners, mining[0])(**mining[1]) if mining else None
    embeddings, labels = batch(num_items, device, dtype)
    return lambda: _backward(loss(embeddings, labels, miner(embeddings, labels) if miner else None), embeddings)


def products_step(case: str, num_items: int, device: str, dtype: torch.dtype) -> Callable[[], object]:
    """The physical floor: the similarities and their gradient on to the embeddings, three matrix products."""
    embeddings, _ = batch(num_items, device, dtype)
    vectors = embeddings.detach()
    block = min(num_items, 4096)

    def step() -> None:
        for start in range(0, num_items, block):
            rows = vectors[start : start + block]
            slope = rows @ vectors.T
            slope @ vectors
            slope.T @ rows

    return step


STEPS = {"likewise": likewise_step, "peer": peer_step, "products": products_step}


def _backward(loss: Tensor, embeddings: Tensor) -> None:
    embeddings.grad = None
    loss.backward()  # type: ignore[no-untyped-call]


def measure(who: str, case: str, num_items: int, device: str, repeats: int) -> dict[str, float]:
    """Seconds (process CPU time, or the GPU's) and MiB of one step, in this process."""
    dtype = torch.float32 if device == "cpu" else torch.bfloat16
    if device != "cpu" and who == "peer":
        dtype = torch.float32 if num_items <= 128 else torch.bfloat16
    STEPS[who](case, 16, device, dtype)()  # what is loaded on first use is not the loss's
    step = STEPS[who](case, num_items, device, dtype)
    if device == "cpu":
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        if who == "peer":
            resource.setrlimit(resource.RLIMIT_AS, (PEER_GIB << 30, PEER_GIB << 30))
        step()
        extra = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
        times = []
        for _ in range(repeats):
            begin = time.process_time()
            step()
            times.append(time.process_time() - begin)
            if sum(times) > 10:
                break
        return {"seconds": min(times), "mib": extra}
    for _ in range(3):
        step()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    times = []
    for _ in range(max(repeats, 20 if num_items <= 2048 else 5)):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        step()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) / 1000)
    return {"seconds": sorted(times)[len(times) // 2], "mib": (torch.cuda.max_memory_allocated() - before) / 2**20}


def measured(who: str, case: str, num_items: int, device: str, repeats: int) -> dict[str, float] | None:
    """The figure from a process of its own; None where it did not come about.

    The process is forked from this one, which has imported everything and computed nothing: no threads, no device yet.
    """
    fork = multiprocessing.get_context("fork")
    receive, send = fork.Pipe(duplex=False)
    process = fork.Process(target=_send_figure, args=(send, who, case, num_items, device, repeats))
    process.start()
    send.close()
    figure: dict[str, float] | None = None
    if receive.poll(PEER_SECONDS if who == "peer" else 600):
        with suppress(EOFError):  # it died without a word: killed for memory
            figure = receive.recv()
    process.kill()
    process.join()
    return figure


def _send_figure(send: Connection, who: str, case: str, num_items: int, device: str, repeats: int) -> None:
    try:
        send.send(measure(who, case, num_items, device, repeats))
    except (RuntimeError, MemoryError) as error:
        if who != "peer":
            print(f"{who} {case} N = {num_items}: {error}", file=sys.stderr)
        send.send(None)


def shown(figure: dict[str, float] | None, missing: str) -> str:
    return f"{missing:>10} {'':>8}" if figure is None else f"{figure['seconds'] * 1000:>10.2f} {max(0.0, figure['mib']):>8.0f}"


def table(cases: list[str], sizes: list[int], device: str, repeats: int) -> None:
    clock = "process CPU ms" if device == "cpu" else "GPU ms"
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {device}; {clock}, extra MiB; d = {DIM}, {PER_CLASS} a class")
    with_peer = find_spec("pytorch_metric_learning") is not None
    gave_up: set[str] = set()  # what the peer could not do it is not asked for at a larger size
    if with_peer:
        import pytorch_metric_learning.losses
        import pytorch_metric_learning.miners  # noqa: F401
    for num_items in sizes:
        floor = measured("products", "", num_items, device, repeats)
        print(f"\nN = {num_items:,}   three matrix products alone: {floor['seconds'] * 1000 if floor else float('nan'):.2f} ms")
        print(f"{'':<26}{'likewise':>10} {'MiB':>8} {'peer':>10} {'MiB':>8}   {'ratio':>6}")
        for case in cases:
            ours = measured("likewise", case, num_items, device, repeats)
            has_peer = CASES[case] is not None
            peer = measured("peer", case, num_items, device, repeats) if with_peer and has_peer and case not in gave_up else None
            if peer is None:
                gave_up.add(case)
            ratio = f"{peer['seconds'] / ours['seconds']:>6.1f}" if ours and peer else ""
            print(f"{case:<26}{shown(ours, 'no')} {shown(peer, 'no' if has_peer and with_peer else '-')}   {ratio}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--sizes", help="numbers of items, with commas")
    parser.add_argument("--cases", help=f"of {', '.join(CASES)}; with commas")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    default = [128, 512, 2048, 4096] if options.device == "cpu" else [128, 4096, 16384, 65536]
    sizes = [int(size) for size in options.sizes.split(",")] if options.sizes else default
    table(options.cases.split(",") if options.cases else list(CASES), sizes, options.device, options.repeats)


if __name__ == "__main__":
    main()
