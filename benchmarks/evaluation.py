"""Retrieval scores against pytorch-metric-learning, faiss and a plain loop of torch blocks: time and peak extra memory, one table in one
run.

    python benchmarks/evaluation.py                      # CPU, the sizes of CUB, a middle one and SOP
    python benchmarks/evaluation.py --quick              # 3,000 x 128 only
    python benchmarks/evaluation.py --device cuda        # all retrieval scores, and where their time goes

Every entry runs in a process of its own, so that peak memory is its own; rows of one size share the data (class centres plus noise,
seeded).
"""

import argparse
import importlib.util
import json
import resource
import subprocess
import sys
import time

import torch

SIZES = {"cub": (5924, 512, 100), "middle": (20000, 512, 4000), "sop": (60502, 512, 11316), "quick": (3000, 128, 600)}
KS = (1, 10, 100, 1000)
# The usual library's default asks for all neighbours: N (N - 1) indices and distances, 12 bytes a pair in its own arrays alone.
MOST_FOR_DEFAULTS = 6000


def data(size: str, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    num, dim, num_classes = SIZES[size]
    generator = torch.Generator().manual_seed(0)
    # Two items of every class and the rest at random, unevenly: some classes have three times the mean.
    labels = torch.cat([torch.arange(num_classes), torch.arange(num_classes)])
    weights = torch.rand(num_classes, generator=generator)
    rest = torch.multinomial(weights, num - len(labels), replacement=True, generator=generator)
    labels = torch.cat([labels, rest])[torch.randperm(num, generator=generator)]
    centres = torch.randn(num_classes, dim, generator=generator)
    embeddings = centres[labels] + 2.5 * torch.randn(num, dim, generator=generator)
    return torch.nn.functional.normalize(embeddings, dim=1).to(device), labels.to(device)


def likewise_scores(embeddings, labels, metrics=("R@K", "MAP@R")):
    from likewise.evaluation.scores import evaluate

    return evaluate(embeddings, labels, ks=KS, metrics=metrics)


def likewise_all(embeddings, labels):
    return likewise_scores(embeddings, labels, ("R@K", "RP", "MAP@R", "mAP"))


def likewise_nearest(embeddings, labels, k):
    from likewise.evaluation.nearest import nearest

    nearest(embeddings, embeddings, k, exclude_self=True)
    return {}


def likewise_nearest_fast(embeddings, labels, k):
    from likewise.evaluation.nearest import nearest

    nearest(embeddings, embeddings, k, exclude_self=True, ranking="fast")
    return {}


def pml(embeddings, labels, k):
    from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator

    calculator = AccuracyCalculator(include=("precision_at_1", "mean_average_precision_at_r"), k=k, device=embeddings.device)
    scores = calculator.get_accuracy(embeddings, labels)
    return {"R@1": scores["precision_at_1"], "MAP@R": scores["mean_average_precision_at_r"]}


def faiss_neighbours(embeddings, labels, k):
    import faiss

    index = faiss.IndexFlatIP(embeddings.shape[1])
    index.add(embeddings.numpy())
    index.search(embeddings.numpy(), k + 1)
    return {}


def torch_blocks(embeddings, labels):
    """What one writes first: blocks of rows, topk of each, R@K and MAP@R from the sorted list."""
    counts = torch.bincount(labels)[labels] - 1
    depth = max(max(KS), int(counts.max()))
    recalls, precisions = dict.fromkeys(KS, 0.0), 0.0
    for start in range(0, len(embeddings), 1024):
        rows = slice(start, min(start + 1024, len(embeddings)))
        scores = embeddings[rows] @ embeddings.T
        scores.diagonal(start).fill_(-torch.inf)
        hits = labels[scores.topk(depth, dim=1).indices] == labels[rows, None]
        for k in KS:
            recalls[k] += hits[:, :k].any(dim=1).sum().item()
        rank = torch.arange(1, depth + 1, device=labels.device)
        inside = hits & (rank <= counts[rows, None])
        precisions += (torch.where(inside, hits.cumsum(dim=1) / rank, 0.0).sum(dim=1) / counts[rows]).sum().item()
    return {f"R@{k}": value / len(labels) for k, value in recalls.items()} | {"MAP@R": precisions / len(labels)}


ENTRIES = {
    "likewise: R@K, MAP@R": (likewise_scores, {}),
    "likewise: R@K, RP, MAP@R, mAP": (likewise_all, {}),
    "torch blocks + topk: R@K, MAP@R": (torch_blocks, {}),
    "pytorch-metric-learning, k = R: R@1, MAP@R": (pml, {"k": "max_bin_count"}),
    "pytorch-metric-learning, defaults: R@1, MAP@R": (pml, {"k": None}),
    "faiss IndexFlatIP: 10 neighbours": (faiss_neighbours, {"k": 10}),
    "likewise.nearest: 10 neighbours": (likewise_nearest, {"k": 10}),
    "likewise.nearest fast: 10 neighbours": (likewise_nearest_fast, {"k": 10}),
    "faiss IndexFlatIP: 1000 neighbours": (faiss_neighbours, {"k": 1000}),
    "likewise.nearest: 1000 neighbours": (likewise_nearest, {"k": 1000}),
}


def reason_to_skip(entry: str, size: str, device: str) -> str | None:
    module = "faiss" if entry.startswith("faiss") else "pytorch_metric_learning" if entry.startswith("pytorch") else "torch"
    if importlib.util.find_spec(module) is None or (module == "pytorch_metric_learning" and importlib.util.find_spec("faiss") is None):
        return "not installed"
    if device == "cuda" and module != "torch":
        return "CPU only here"
    if "defaults" in entry and SIZES[size][0] > MOST_FOR_DEFAULTS:
        return "needs all N - 1 neighbours: memory and time"
    return None


def resident_bytes(which: str) -> int:
    """Now ("VmRSS") or at most so far ("VmHWM"), from Linux; elsewhere the peak of the process for both."""
    try:
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) * 1024 for line in status if line.startswith(which))
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def forget_peak() -> None:
    """The peak so far is that of making the data: start again from what is held now."""
    try:
        with open("/proc/self/clear_refs", "w") as peak:
            peak.write("5")
    except OSError:
        pass


def measure(entry: str, size: str, device: str) -> dict[str, object]:
    """Runs in its own process: a small warm-up, then one timed call (the best of three on CUDA)."""
    function, arguments = ENTRIES[entry]
    embeddings, labels = data(size, device)
    few = min(1500, len(labels))
    function(embeddings[:few].clone(), torch.arange(few, device=device) % (few // 3), **(arguments | {"k": 10} if "k" in arguments else {}))
    best: dict[str, object] = {}
    for _ in range(3 if device == "cuda" else 1):
        forget_peak()
        before = resident_bytes("VmRSS")
        if device == "cuda":
            torch.cuda.reset_peak_memory_stats()
            before_cuda = torch.cuda.memory_allocated()
            torch.cuda.synchronize()
        wall, cpu = time.perf_counter(), time.process_time()
        scores = function(embeddings, labels, **arguments)
        if device == "cuda":
            torch.cuda.synchronize()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        extra = resident_bytes("VmHWM") - before
        if device == "cuda":
            extra = torch.cuda.max_memory_allocated() - before_cuda
        if not best or wall < float(str(best["wall"])):
            best = {"wall": wall, "cpu": cpu, "extra": extra, "scores": {name: round(float(value), 5) for name, value in scores.items()}}
    return best


def breakdown(size: str) -> None:
    """Where the time goes on CUDA: the products alone, counting alone, and everything, for several blocks, mirrored or not."""
    from likewise.evaluation import retrieval
    from likewise.evaluation.ranks import rank_counter
    from likewise.evaluation.similarity import PairwiseSimilarity, full_float32

    embeddings, labels = data(size, "cuda")

    def timed(name, function):
        function()
        times = []
        for _ in range(3):
            torch.cuda.synchronize()
            start = time.perf_counter()
            function()
            torch.cuda.synchronize()
            times.append(time.perf_counter() - start)
        print(f"  {name:72s} {1e3 * min(times):9.2f} ms", flush=True)

    with full_float32():
        for side in (4096, 8192, 16384):
            out = torch.empty(side, side, device="cuda")
            timed(f"products alone, {side} x {side} blocks, all", lambda side=side, out=out: products(embeddings, side, out, False))
            timed(f"products alone, {side} x {side} blocks, mirrored", lambda side=side, out=out: products(embeddings, side, out, True))
            del out
        pairwise = PairwiseSimilarity.of(embeddings, None, "cosine")
        timed(
            "norms, factors, slack",
            lambda: (lambda s: (s.query_factor, s.slack(torch.float32)))(PairwiseSimilarity.of(embeddings, None, "cosine")),
        )
        timed("exact copies", lambda: rank_counter.Duplicates.of(embeddings))
        classes = rank_counter.Classes.of(labels, labels)

        def positives():
            groups = list(classes.groups((classes.query_count > 1).nonzero().flatten(), 1 << 20))
            return rank_counter.Positives.of(pairwise, groups, True, False)

        timed("positives and their similarities", positives)
        pairs = torch.randint(0, len(labels), (2, 1_000_000), device="cuda")
        timed("exact similarities of 1,000,000 pairs", lambda: pairwise.exact(pairs[0], pairs[1]))
        table = positives().for_all_queries(len(labels)).most_first()
        slack = pairwise.slack(torch.float32)[table.rows]
        for side in (4096, 8192, 16384):
            block = pairwise.query_factor[:side] @ pairwise.query_factor[:side].T
            counts = rank_counter.BandCounts(
                (table.similarity + slack).float(), (table.similarity - slack).float(), table.index, table.count, None
            )
            part = slice(0, len(block))
            scale = (len(labels) / len(block)) ** 2
            timed(f"counting one {side} block ({scale:.1f} of them), rows", lambda c=counts, b=block, p=part: c.add(b, p, 0))
            timed(f"counting one {side} block ({scale:.1f} of them), columns", lambda c=counts, b=block, p=part: c.add(b.T, p, 0))
    for symmetric in (True, False):
        for block in (4096, 8192, 16384):

            def everything(symmetric=symmetric, block=block):
                pairwise = PairwiseSimilarity.of(embeddings, None, "cosine")
                wanted = rank_counter.Wanted(max(KS), True, True)
                counter = rank_counter.RankCounter(
                    pairwise, True, wanted, rank_counter.Duplicates.of(embeddings), block, block, symmetric=symmetric
                )
                with full_float32():
                    counter.each(labels, labels, lambda ranks: None)

            timed(f"all ranks, block {block}, {'mirrored' if symmetric else 'all products'}", everything)
    timed("per_query, all scores", lambda: retrieval.per_query(embeddings, labels, ks=KS))


def products(embeddings: torch.Tensor, side: int, out: torch.Tensor, mirrored: bool) -> None:
    for start in range(0, len(embeddings), side):
        left = embeddings[start : start + side]
        for other in range(start if mirrored else 0, len(embeddings), side):
            right = embeddings[other : other + side]
            torch.mm(left, right.T, out=out.view(-1)[: len(left) * len(right)].view(len(left), len(right)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--sizes", nargs="+", default=["cub", "middle", "sop"], choices=tuple(SIZES))
    parser.add_argument("--quick", action="store_true", help="the smallest size only")
    parser.add_argument("--only", nargs="+", default=[""], help="entries whose name contains one of these")
    parser.add_argument("--timeout", type=float, default=600, help="seconds for one entry")
    parser.add_argument("--entry", nargs=2, metavar=("ENTRY", "SIZE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.entry:
        print(json.dumps(measure(*options.entry, options.device)))
        return
    print(
        f"torch {torch.__version__}, {options.device}, {torch.get_num_threads()} threads; wall and process CPU seconds, peak extra memory"
    )
    for size in ["quick"] if options.quick else options.sizes:
        num, dim, num_classes = SIZES[size]
        print(f"\n{num:,} x {dim}, {num_classes:,} classes", flush=True)
        for entry in ENTRIES:
            if not any(part in entry for part in options.only):
                continue
            skip = reason_to_skip(entry, size, options.device)
            if skip:
                print(f"  {entry:48s} skipped: {skip}")
                continue
            command = [sys.executable, __file__, "--device", options.device, "--entry", entry, size]
            try:
                result = subprocess.run(command, capture_output=True, text=True, timeout=options.timeout)
            except subprocess.TimeoutExpired:
                print(f"  {entry:48s} stopped after {options.timeout:.0f} s", flush=True)
                continue
            if result.returncode:
                print(f"  {entry:48s} failed: {(result.stderr.strip().splitlines() or [f'signal {-result.returncode}'])[-1]}", flush=True)
                continue
            found = json.loads(result.stdout.splitlines()[-1])
            print(
                f"  {entry:48s} {found['wall']:9.3f} s {found['cpu']:9.2f} CPU s {found['extra'] / 2**20:8.0f} MiB  "
                + " ".join(f"{name} {value:.4f}" for name, value in found["scores"].items() if name != "unmatched"),
                flush=True,
            )
        if options.device == "cuda":
            breakdown(size)


if __name__ == "__main__":
    main()
