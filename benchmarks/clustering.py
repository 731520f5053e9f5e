"""k-means here against faiss and scikit-learn, in one run: time, inertia and NMI of the same data.

    PYTHONPATH=src python3 benchmarks/clustering.py                 # CPU: 5,924 x 512 into 100 and 20,000 x 512 into 4,000
    PYTHONPATH=src python3 benchmarks/clustering.py --device cuda   # also 60,502 x 512 into 11,316, the size of SOP; peers run on the CPU

One restart each; CPU seconds of all threads beside the clock's, as machines are shared. The data are drawn: class centres and scatter with
a falling spectrum, as trained embeddings have. scikit-learn is left out from 10,000,000 item-cluster pairs on unless --slow is given: it
takes minutes there. A peer that is not installed is left out.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec

import torch
from sklearn.metrics import normalized_mutual_info_score
from torch import Tensor

from likewise.evaluation.clustering import adjusted_mutual_information, clustering_scores
from likewise.evaluation.kmeans import kmeans

SIZES = {"cub": (5_924, 100), "middle": (20_000, 4_000), "sop": (60_502, 11_316)}
DIM = 512
Run = Callable[[], tuple[Tensor, float]]  # assignment and inertia


def drawn(count: int, k: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(count) % k
    spectrum = torch.arange(1, DIM + 1).float() ** -0.5
    centres = torch.randn(k, DIM, generator=generator) * spectrum
    scatter = (0.5 + torch.rand(k, 1, generator=generator)) * 0.8
    rows = centres[labels] + scatter[labels] * torch.randn(count, DIM, generator=generator) * spectrum
    return torch.nn.functional.normalize(rows, dim=1), labels


def runs(rows: Tensor, k: int, device: str, *, slow: bool) -> Iterator[tuple[str, Run]]:
    on_device = rows.to(device)

    def ours() -> tuple[Tensor, float]:
        found = kmeans(on_device, k, backend="torch")
        return found.assignment.cpu(), found.inertia

    yield f"likewise ({device})", ours
    if find_spec("faiss") is not None:
        import faiss

        for name, method in (("random", faiss.ClusteringInitMethod_RANDOM), ("k-means++", faiss.ClusteringInitMethod_KMEANS_PLUS_PLUS)):

            def theirs(method: int = method) -> tuple[Tensor, float]:
                model = faiss.Kmeans(
                    DIM, k, niter=25, seed=1, min_points_per_centroid=1, max_points_per_centroid=len(rows), init_method=method
                )
                model.train(rows.numpy())
                distance, assignment = model.index.search(rows.numpy(), 1)
                return torch.from_numpy(assignment[:, 0]), float(distance.sum(dtype="float64"))

            yield f"faiss, 25 iterations, {name}", theirs
    if slow or len(rows) * k < 10_000_000:
        from sklearn.cluster import KMeans

        def peer() -> tuple[Tensor, float]:
            model = KMeans(k, n_init=1, random_state=0).fit(rows.numpy())
            return torch.from_numpy(model.labels_), float(model.inertia_)

        yield "scikit-learn, greedy k-means++", peer


def seconds(device: str) -> float:
    if device.startswith("cuda"):
        torch.cuda.synchronize()
    return time.perf_counter()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--sizes", help=f"some of {','.join(SIZES)}")
    parser.add_argument("--slow", action="store_true", help="scikit-learn at every size")
    parser.add_argument("--no-peers", action="store_true")
    arguments = parser.parse_args()
    chosen = arguments.sizes.split(",") if arguments.sizes else ["cub", "middle"] + ["sop"] * arguments.device.startswith("cuda")
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, device {arguments.device}", flush=True)
    for size in chosen:
        count, k = SIZES[size]
        rows, labels = drawn(count, k)
        print(f"\n{count:,} x {DIM}, {k:,} clusters", flush=True)
        print(f"{'':32} {'seconds':>9} {'CPU s':>9} {'inertia':>10} {'ratio':>7} {'NMI':>7} {'ratio':>7}", flush=True)
        first: tuple[float, float] | None = None
        for name, run in runs(rows, k, arguments.device, slow=arguments.slow):
            if arguments.no_peers and not name.startswith("likewise"):
                continue
            if name.startswith("likewise") and arguments.device.startswith("cuda"):
                kmeans(torch.randn(256, DIM, device=arguments.device), 16)  # load the kernels
            start, busy = seconds(arguments.device), time.process_time()
            assignment, inertia = run()
            took, busy = seconds(arguments.device) - start, time.process_time() - busy
            nmi = float(normalized_mutual_info_score(labels, assignment))
            first = first or (inertia, nmi)
            ratios = f"{inertia:10.1f} {inertia / first[0]:7.3f} {nmi:7.4f} {nmi / first[1]:7.3f}"
            print(f"{name:32} {took:9.2f} {busy:9.2f} {ratios}", flush=True)
        start = seconds(arguments.device)
        adjusted_mutual_information(labels.numpy(), assignment.numpy())
        print(f"{'AMI of the last':32} {seconds(arguments.device) - start:9.2f}", flush=True)
        start = seconds(arguments.device)
        scores = clustering_scores(rows.to(arguments.device), labels)
        told = ", ".join(f"{name} {score:.4f}" for name, score in scores.items())
        print(f"{'clustering_scores, its restarts':32} {seconds(arguments.device) - start:9.2f}   {told}", flush=True)


if __name__ == "__main__":
    main()
