"""A training on vectors with one very large class beside balanced classes of the same total: CPU seconds in all, a step, and peak memory.

    python benchmarks/large_class_training.py
    python benchmarks/large_class_training.py --sizes 1000 10000 --method ranked_list

Vectors of 32 numbers, 20 steps of 128, 200 test items in 20 classes. Every entry runs in a process of its own.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import likewise

REST, STEPS = 500, 20


def measured(size: int, shape: str, method: str) -> dict[str, float]:
    """One training in this process."""
    rng = np.random.default_rng(0)
    one = np.concatenate([np.zeros(size, int), 1 + np.arange(REST) // 10])
    train = one if shape == "one large class" else np.arange(size + REST) // 20
    labels = np.concatenate([train, 10**9 + np.arange(200) // 10])
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "vectors.npz"
        parts = np.array(["train"] * len(train) + ["test"] * 200)
        np.savez(file, features=rng.standard_normal((len(labels), 32)).astype(np.float32), labels=labels, split=parts)
        before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
        settings = {"steps": STEPS, "batch": 128, "metrics": ("R@K", "MAP@R")}
        run = likewise.train(method, file, protocol="features", settings=settings, out=Path(folder) / "run", device="cpu")
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        return {"seconds": time.process_time() - began, "step": run.seconds / STEPS, "mib": peak / 1024}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 10_000, 50_000, 200_000])
    parser.add_argument("--method", default="raw_vthm")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measured(int(options.one[0]), options.one[1], options.method)))
        return
    print("| items beside 500 | of | CPU in all | a step | MiB beyond the start |\n|---|---|---|---|---|")
    for size in options.sizes:
        for shape in ("one large class", "classes of 20"):
            command = [sys.executable, __file__, "--method", options.method, "--one", str(size), shape]
            found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])
            print(f"| {size:,} | {shape} | {found['seconds']:.1f} s | {1000 * found['step']:.1f} ms | {found['mib']:.0f} |", flush=True)


if __name__ == "__main__":
    main()
