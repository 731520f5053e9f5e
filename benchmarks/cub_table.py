"""Every method on CUB under the `cub` protocol, on one GPU, in slices that can be resumed.

    python benchmarks/cub_table.py folds --data PATH --weights FILE --out DIR    # choose settings on a fold of the training classes
    python benchmarks/cub_table.py final --data PATH --weights FILE --out DIR    # train on all training classes, score the test classes

Every finished run is a line of DIR/folds.jsonl or DIR/final.jsonl; what is there is not run again. `folds` trains each method with its
file's settings and, where ALTERNATIVES has some, with those, on two thirds of the training classes, and scores the rest; `final` takes
the best of these by MAP@R. The test classes are opened by `final` only. --seconds ends a slice after the run under way.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from likewise.configuration import with_settings
from likewise.data import folds, read, split
from likewise.methods import METHODS, Method, load_method
from likewise.models.network import make_network
from likewise.protocols import load_protocol
from likewise.training.feeds import make_feed
from likewise.training.fit import fit
from likewise.training.loop import network_spec
from likewise.training.scoring import embed_feed, protocol_scores, vectors_to_score

# Beside the method file's own settings; chosen from on a fold of the training classes.
ALTERNATIVES: dict[str, list[dict[str, Any]]] = {
    "n_pairs": [{"norm": 3.0}, {"norm": 6.0}],
    "generalized_lifted": [{"norm": 3.5}, {"norm": 7.0}],
    "ranked_list": [{"loss.alpha": 1.0}, {"loss.margin": 0.2}, {"loss.temperature": 5.0}],
    "ranked_list_multilevel": [{"loss.alpha": 1.0}],
    "margin": [{"rates.base": 2.0}],
    "triplet_semihard": [{"loss.margin": 0.1}, {"rates.base": 2.0}],
    "lifted": [{"rates.base": 2.0}, {"norm": 3.0}],
    "angular": [{"loss.angle": 40.0}, {"norm": 3.0}],
    "prototypical": [{"norm": 4.0}, {"norm": 6.0}],
    "proxy_nca": [{"loss.scale": 20.0}],
    "proxy_triplet": [{"rates.base": 2.0}, {"loss.margin": 0.5}],
    "proxy_softmax": [{"loss.temperature": 0.1}, {"head.kind": "linear"}],
    "nonlinear_rank": [{"normalize": True}],
    "binomial_vthm": [{"rates.base": 2.0}, {"loss.threshold": 0.7}],
    "vthm": [{"rates.base": 2.0}],
    "raw": [{"loss.threshold": 0.7}],
    "raw_vthm": [{"loss.threshold": 0.7}, {"loss.alpha": 4.0}],
    "histogram": [{"rates.base": 2.0}],
    "structured_clustering": [{"rates.base": 2.0}],
    "spectral_clustering": [{"rates.base": 2.0}, {"rates.base": 0.3}],
    "arcface": [{"loss.margin": 0.2}, {"loss.scale": 32.0, "loss.margin": 0.3}],
    "cosface": [{"loss.margin": 0.2}],
    "circle": [{"loss.scale": 40.0}],
    "smooth_ap": [{"loss.temperature": 0.03}],
    "recall_at_k": [{"rates.base": 2.0}],
    "supcon": [{"loss.temperature": 0.2}],
}
CONTROLS = {"ranked_list (1,536)": ("ranked_list", {"head.dim": 1536}), "raw_vthm (1,536)": ("raw_vthm", {"head.dim": 1536})}
MULTILEVEL = {"raw_vthm multilevel": ("raw_vthm", {"head.levels": ["low", "mid", "high"]})}
TOO_SLOW_TO_TUNE = ("dreml",)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", choices=("folds", "final"))
    parser.add_argument("--data", required=True, help="folder of CUB-200-2011, or glyphs to try the script itself")
    parser.add_argument("--weights", type=Path)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--no-graphs", action="store_true", help="compile without CUDA graphs")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--seconds", type=float, default=500.0)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    protocol = replace(load_protocol("quick" if given.data == "glyphs" else "cub"), validation=0.0, steps=given.steps)
    protocol = replace(protocol, compile=True) if given.no_graphs else protocol
    dataset = read("glyphs" if given.data == "glyphs" else f"cub:{given.data}")
    parts = split(dataset, seed=0, record=given.out / "test_openings.jsonl")
    feed = make_feed(parts.train_part(dataset), protocol)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    names = given.methods.split(",")
    rows = given.out / f"{given.stage}.jsonl"
    done = {row["key"] for row in read_rows(rows)}
    if given.stage == "folds":
        held = folds(dataset, parts.train, k=3, seed=0)[0]
        inside = torch.from_numpy(parts.train)
        is_held = torch.isin(inside, torch.from_numpy(held.validation)).numpy()[feed.indices]
        feed, scored = feed.subset((~is_held).nonzero()[0]).to(device), feed.subset(is_held.nonzero()[0]).to(device)
        protocol = replace(protocol, steps=max(given.steps // 2, 1), metrics=("R@K", "MAP@R"))
        work = [
            (f"{name} {json.dumps(settings)}", with_settings(load_method(name).for_protocol(protocol.name), settings), settings, 0)
            for name in names
            if name not in TOO_SLOW_TO_TUNE
            for settings in ([{}, *ALTERNATIVES[name]] if name in ALTERNATIVES else [])
        ]
    else:
        chosen = best_settings(read_rows(given.out / "folds.jsonl"))
        (given.out / "chosen.json").write_text(json.dumps(chosen, indent=2))
        key = parts.test.issue_key("cub_table")
        part = parts.test.open(key, run="cub table", purpose="final table", decided=json.dumps(chosen, sort_keys=True))
        scored = make_feed(dataset.subset(part.indices), protocol).to(device)
        feed = feed.to(device)
        work = []
        for seed in (int(number) for number in given.seeds.split(",")):
            extra = {**CONTROLS, **MULTILEVEL} if seed == 0 else {}
            for name in [*names, *extra]:
                base, more = extra.get(name, (name, {}))
                settings = {**chosen.get(base, {}), **more}
                work.append((f"{name} seed {seed}", with_settings(load_method(base).for_protocol(protocol.name), settings), settings, seed))
        for pooling in ("avg", "max"):
            if f"untrained {pooling}" not in done:
                bare = replace(protocol, pooling=pooling)
                method = with_settings(load_method("raw_vthm"), {"head.kind": "none"})
                network = make_network(network_spec(method, bare), seed=0, weights=given.weights).to(device)
                found = protocol_scores(embed_feed(network, scored, bare, device=device), scored.labels, bare).means
                write_row(rows, {"key": f"untrained {pooling}", "scores": found})
    for key_, method, settings, seed in work:
        if key_ in done:
            continue
        if time.perf_counter() - began > given.seconds:
            print("slice over; call again to go on")
            return
        write_row(rows, {"key": key_, **ran(method, protocol, feed, scored, settings, seed, given.weights)})
    print("done")


def ran(method: Method, protocol: Any, feed: Any, scored: Any, settings: dict[str, Any], seed: int, weights: Path | None) -> dict[str, Any]:
    started = time.perf_counter()
    try:
        found = fit(method, protocol, feed, seed=seed, weights=weights)
    except (ValueError, RuntimeError) as fault:
        return {"method": method.name, "settings": settings, "fault": str(fault)[:300]}
    embeddings = embed_feed(found.network, scored, protocol, device=next(found.network.parameters()).device)
    scores = protocol_scores(vectors_to_score(found.network, embeddings), scored.labels, protocol).means
    return {
        "method": method.name,
        "settings": settings,
        "seed": seed,
        "scores": scores,
        "width": found.network.width,
        "seconds": found.seconds,
        "all_seconds": time.perf_counter() - started,
        "peak_gib": found.peak_bytes / 2**30,
        "losses": [round(row["loss"], 4) for row in found.rows[:: max(len(found.rows) // 10, 1)]],
    }


def best_settings(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """By method, the settings with the highest MAP@R on the fold."""
    best: dict[str, tuple[float, dict[str, Any]]] = {}
    for row in rows:
        if "scores" in row and (row["method"] not in best or row["scores"]["MAP@R"] > best[row["method"]][0]):
            best[row["method"]] = (row["scores"]["MAP@R"], row["settings"])
    return {name: settings for name, (_, settings) in best.items() if settings}


def read_rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def write_row(path: Path, row: dict[str, Any]) -> None:
    with path.open("a") as file:
        file.write(json.dumps(row) + "\n")
    scores = row.get("scores")
    said = (
        row.get("fault")
        or f"R@1 {scores['R@1']:.3f} MAP@R {scores['MAP@R']:.3f} {row.get('seconds', 0):.1f} s of {row.get('all_seconds', 0):.1f}"
    )
    print(row["key"], said, flush=True)


if __name__ == "__main__":
    main()
