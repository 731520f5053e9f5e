"""What a fine-tuning recipe gains on CUB, on class-disjoint folds of the training classes; then the chosen ones on the test classes.

    python benchmarks/cub_recipe.py folds --data PATH --weights FILE --out DIR
    python benchmarks/cub_recipe.py final --data PATH --weights FILE --out DIR --recipes colour,colour_levels --seeds 0,1,2

Every training is a line of DIR/folds.jsonl or DIR/final.jsonl, written as it ends; what is there is not run again, and --seconds ends a
slice after the training under way. On a fold, half of the classes train, for so many steps that each is seen as often as with all of
them. One training is scored several ways: centre crops of 224 and 256 pixels, the latter also enlarged, with the mirror image, with the
weights drawn back towards the pretrained ones (w0 + a (w - w0)), and with the weights of all its seeds averaged. Only `final` opens the
test classes.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from likewise.data import folds, read, split
from likewise.methods import load_method
from likewise.models.embedding import embed_batches, packed_inputs
from likewise.models.network import Network
from likewise.protocols import Protocol, load_protocol
from likewise.training import loop
from likewise.training.feeds import Feed, make_feed
from likewise.training.fit import fit
from likewise.training.loop import network_spec
from likewise.training.scoring import protocol_scores
from likewise.training.train import resolved

LEVELS = ["low", "mid", "high"]
COLOUR = {"train_augmentation": "colour224"}
RECIPES: dict[str, dict[str, Any]] = {
    "base": {},
    "colour": COLOUR,
    "levels": {"head.levels": LEVELS},
    "colour_levels": COLOUR | {"head.levels": LEVELS},
    "colour_1536": COLOUR | {"head.dim": 1536},
    "colour_256": {"train_augmentation": "colour256"},
    "colour_long": COLOUR | {"steps": 1200},
    "colour_slow": COLOUR | {"learning_rate": 1e-5},
    "colour_fast": COLOUR | {"learning_rate": 4e-5},
    "at_256": {"train_augmentation": "resized256"},
    "at_256_levels": {"train_augmentation": "resized256", "head.levels": LEVELS},
    "long": {"steps": 1200},
    "large": {"batch": 224},
    "large_fast": {"batch": 224, "learning_rate": 4e-5},
    "1536": {"head.dim": 1536},
    "average": {"pooling": "avg"},
}
METHODS = "raw_vthm,proxy_anchor"
ENLARGED = (288, 320, 352, 384)  # pixels
DRAWN_BACK = (0.7, 0.85)  # shares a of the way from the pretrained weights


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", choices=("folds", "final"))
    parser.add_argument("--data", required=True, help="folder of CUB-200-2011")
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--recipes", default=",".join(RECIPES))
    parser.add_argument("--methods", default=METHODS)
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--seconds", type=float, default=480.0)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    device = torch.device("cuda")
    dataset = read(f"cub:{given.data}")
    parts = split(dataset, seed=0, record=given.out / "test_openings.jsonl")
    feed = make_feed(parts.train_part(dataset), load_protocol("cub"))
    if given.stage == "folds":
        sides = []
        for fold in folds(dataset, parts.train, k=2, seed=0):
            held = np.isin(parts.train[feed.indices], fold.validation)
            sides.append((feed.subset(np.flatnonzero(~held)).to(device), feed.subset(np.flatnonzero(held)).to(device)))
    else:
        key = parts.test.issue_key("cub_recipe")
        part = parts.test.open(key, run="cub recipe", purpose="final table", decided=given.recipes)
        sides = [(feed.to(device), make_feed(dataset.subset(part.indices), load_protocol("cub")).to(device))]
    rows = given.out / f"{given.stage}.jsonl"
    done = {json.loads(line)["key"] for line in rows.read_text().splitlines()} if rows.exists() else set()
    make = loop.make_network
    loop.make_network = lambda spec, *, seed, weights=None: make(spec, seed=0, weights=weights)  # one start for all seeds, to average
    for recipe in given.recipes.split(","):
        for name in given.methods.split(","):
            method, protocol = resolved(load_method(name), "cub", RECIPES[recipe])
            if given.stage == "folds":
                protocol = replace(protocol, steps=protocol.steps // 2)
            for number, (train, scored) in enumerate(sides):
                trained: list[dict[str, Tensor]] = []
                for seed in map(int, given.seeds.split(",")):
                    label = f"{recipe} {name} fold {number} seed {seed}"
                    if label in done:
                        continue
                    if time.perf_counter() - began > given.seconds:
                        print("slice over; call again to go on")
                        return
                    started = time.perf_counter()
                    found = fit(method, replace(protocol, validation=0.0), train, seed=seed, weights=given.weights)
                    start = make(network_spec(method, protocol), seed=0, weights=given.weights).state_dict()
                    scores = dict(scored_ways(found.network, start, scored, protocol, device))
                    trained.append({key: held.float().cpu() for key, held in found.network.state_dict().items()})
                    if len(trained) > 1:
                        mean = {key: torch.stack([state[key] for state in trained]).mean(0) for key in trained[0]}
                        scores[f"352 mean of {len(trained)}"] = scores_of(
                            with_state(found.network, mean), scored, protocol, device, enlarged=352
                        )
                    row = {"key": label, "scores": scores, "seconds": found.seconds, "all": time.perf_counter() - started}
                    with rows.open("a") as file:
                        file.write(json.dumps(row) + "\n")
                    said = "  ".join(f"{way} {100 * s['R@1']:.1f}/{100 * s['MAP@R']:.1f}" for way, s in scores.items())
                    print(f"{label}: {said}  ({found.seconds:.0f} of {row['all']:.0f} s)", flush=True)
    print("done")


def scored_ways(
    network: Network, start: dict[str, Tensor], feed: Feed, protocol: Protocol, device: torch.device
) -> Iterator[tuple[str, dict[str, float]]]:
    """Name of a way -> R@1 and MAP@R."""
    yield "224", scores_of(network, feed, protocol, device, crop="centre224")
    yield "256", scores_of(network, feed, protocol, device)
    yield "256 mirror", scores_of(network, feed, protocol, device, mirror=True)
    for pixels in ENLARGED:
        yield f"{pixels}", scores_of(network, feed, protocol, device, enlarged=pixels)
    yield "352 mirror", scores_of(network, feed, protocol, device, enlarged=352, mirror=True)
    state = {key: held.clone() for key, held in network.state_dict().items()}
    for share in DRAWN_BACK:
        drawn = {
            key: torch.lerp(start[key].to(held), held, share) if held.is_floating_point() and "backbone" in key else held
            for key, held in state.items()
        }
        yield f"352 back to {share}", scores_of(with_state(network, drawn), feed, protocol, device, enlarged=352)
    network.load_state_dict(state)


def scores_of(
    network: Network,
    feed: Feed,
    protocol: Protocol,
    device: torch.device,
    *,
    crop: str = "centre256",
    enlarged: int | None = None,
    mirror: bool = False,
) -> dict[str, float]:
    inputs: Any = packed_inputs(feed.source, crop, batch=128, device=device)  # type: ignore[arg-type]
    if enlarged is not None:
        inputs = (torch.nn.functional.interpolate(part, size=enlarged, mode="bicubic", antialias=True) for part in inputs)
    with torch.compiler.set_stance("force_eager"):
        vectors = embed_batches(network, inputs, autocast=torch.bfloat16, mirror=mirror)
    return protocol_scores(vectors, feed.labels, protocol, metrics=("R@K", "MAP@R"), ks=(1,)).means


def with_state(network: Network, state: dict[str, Tensor]) -> Network:
    network.load_state_dict(state)
    return network


if __name__ == "__main__":
    main()
