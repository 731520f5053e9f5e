"""Scores of one very large class beside balanced classes of the same total: time and peak memory beyond the embeddings.

    python benchmarks/large_classes.py                          # one class of 1,000 to 200,000 beside 1,000 items in 50 classes
    python benchmarks/large_classes.py --sizes 1000 10000

Every entry runs in a process of its own, so that its peak is its own. CPU seconds, as machines are shared. Beyond --whole items only some
of the queries are scored against all items, and the time of all is extrapolated from theirs, marked with "~": each query costs the same.
"""

import argparse
import json
import subprocess
import sys
import time

import torch
from evaluation import forget_peak, resident_bytes

REST, IN_A_CLASS, SOME = 1_000, 20, 1_000
SETS = {"R@K": ("R@K",), "R@K, MAP@R": ("R@K", "MAP@R"), "R@K, RP, MAP@R, mAP": ("R@K", "RP", "MAP@R", "mAP")}


def data(size: int, shape: str, dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    total = size + REST
    if shape == "one large class":
        labels = torch.cat([torch.zeros(size, dtype=torch.int64), 1 + torch.arange(REST) // IN_A_CLASS])
    else:
        labels = torch.arange(total) // IN_A_CLASS
    generator = torch.Generator().manual_seed(0)
    labels = labels[torch.randperm(total, generator=generator)]
    centres = torch.randn(int(labels.max()) + 1, dim, generator=generator)
    embeddings = torch.randn(total, dim, generator=generator).mul_(2.5)
    for start in range(0, total, 8192):
        embeddings[start : start + 8192] += centres[labels[start : start + 8192]]
    return embeddings, labels


def measure(size: int, shape: str, metrics: str, dim: int, whole: int) -> dict[str, float]:
    from likewise.evaluation import per_query

    embeddings, labels = data(size, shape, dim)
    few = torch.arange(300) % 50
    per_query(embeddings[:300].clone(), few, metrics=SETS[metrics])
    is_part = len(labels) > whole
    forget_peak()
    before = resident_bytes("VmRSS")
    start = time.process_time()
    if is_part:
        per_query(embeddings[:SOME], labels[:SOME], gallery=embeddings, gallery_labels=labels, metrics=SETS[metrics])
    else:
        per_query(embeddings, labels, metrics=SETS[metrics])
    seconds = time.process_time() - start
    return {"seconds": seconds * (len(labels) / SOME if is_part else 1), "extra": resident_bytes("VmHWM") - before, "is_part": is_part}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 10_000, 50_000, 200_000])
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--whole", type=int, default=60_000, help="most items whose queries are all scored")
    parser.add_argument("--entry", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.entry:
        size, shape, metrics = options.entry
        print(json.dumps(measure(int(size), shape, metrics, options.dim, options.whole)))
        return
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, d = {options.dim}; CPU seconds, extra MiB")
    for size in options.sizes:
        print(f"\n{size:,} + {REST:,} items ({(size + REST) * options.dim / 2**18:,.0f} MiB)", flush=True)
        for metrics in SETS:
            for shape in ("one large class", "balanced"):
                settings = ["--dim", str(options.dim), "--whole", str(options.whole)]
                command = [sys.executable, __file__, *settings, "--entry", str(size), shape, metrics]
                found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
                about = "~" if found["is_part"] else ""
                print(
                    f"  {metrics:22} {shape:16} {about + format(found['seconds'], ',.1f'):>10} {found['extra'] / 2**20:8,.0f}", flush=True
                )


if __name__ == "__main__":
    main()
