"""Re-ranking against one pass of likewise.nearest at the same k: time and peak extra memory, one table in one run.

    python benchmarks/reranking.py                  # CPU, the sizes of CUB, a middle one and SOP; k = 100 as `evaluate --rerank` has it
    python benchmarks/reranking.py --sizes cub -k 10
    python benchmarks/reranking.py --device cuda

Every entry runs in a process of its own, so that peak memory is its own; the data are those of benchmarks/evaluation.py: class centres plus
noise, seeded.
"""

import argparse
import json
import subprocess
import sys
import time

import torch
from evaluation import SIZES, data, forget_peak, resident_bytes

from likewise.evaluation.nearest import nearest
from likewise.evaluation.reranking import RERANKERS, rerank

FLOOR = "nearest"


def measure(entry: str, size: str, k: int, device: str) -> dict[str, float]:
    """Runs in its own process: a small warm-up, then one timed call."""
    embeddings, labels = data(size, device)

    def call(vectors: torch.Tensor) -> torch.Tensor:
        return nearest(vectors, vectors, k, exclude_self=True)[0] if entry == FLOOR else rerank(vectors, None, k, how=entry)[0]

    call(embeddings[:1500].clone())
    forget_peak()
    before = resident_bytes("VmRSS")
    if device == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    wall, cpu = time.perf_counter(), time.process_time()
    index = call(embeddings)
    if device == "cuda":
        torch.cuda.synchronize()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    peak = torch.cuda.max_memory_allocated() if device == "cuda" else resident_bytes("VmHWM")
    hits = labels[index] == labels[:, None]
    return {"wall": wall, "cpu": cpu, "extra": peak - before, "first": float(hits[:, 0].double().mean())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=["cub", "middle", "sop"])
    parser.add_argument("-k", type=int, default=100)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.only:
        print(json.dumps(measure(arguments.only, arguments.sizes[0], arguments.k, arguments.device)))
        return
    for size in arguments.sizes:
        print(
            f"\n{SIZES[size][0]:,} x {SIZES[size][1]}, {SIZES[size][2]:,} classes, k = {arguments.k}, {torch.get_num_threads()} threads",
            flush=True,
        )
        print(f"  {'':24s}{'wall s':>9s}{'CPU s':>9s}{'ratio':>8s}{'MiB':>8s}{'R@1':>9s}", flush=True)
        floor = 0.0
        for entry in (FLOOR, *RERANKERS):
            command = [sys.executable, __file__, "--only", entry, "--sizes", size, "-k", str(arguments.k), "--device", arguments.device]
            found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])
            taken = found["wall" if arguments.device == "cuda" else "cpu"]
            floor = taken if entry == FLOOR else floor
            times = f"{found['wall']:9.2f}{found['cpu']:9.2f}{taken / floor:8.1f}"
            print(f"  {entry:24s}{times}{found['extra'] / 2**20:8.0f}{found['first']:9.4f}", flush=True)


if __name__ == "__main__":
    main()
