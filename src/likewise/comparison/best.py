"""Best: the winner's network, kept to be put to work; those of the others have served."""

from __future__ import annotations

import shutil
from pathlib import Path

from likewise.comparison.folder import Home
from likewise.comparison.network_file import load_network
from likewise.comparison.pieces import Piece
from likewise.comparison.results import ComparisonResults, MethodResult
from likewise.comparison.workshop import NETWORKS, Context, file_name
from likewise.configuration import as_table, with_settings
from likewise.models.bundle import DESCRIPTION
from likewise.models.embedder import Embedder
from likewise.training.train import preprocessing_of

BEST = "best"


def keep_best(home: Home, context: Context, results: ComparisonResults, *, keep_networks: bool) -> dict[str, Path]:
    """Data set -> the first seed of its best method as an embedder in the folder, for `likewise embed`. The networks go unless kept.

    A finished comparison has one winner for good, so that an embedder that is there stays. The lock is for two processes that end at once.
    """
    names, found = results.datasets, {}
    with home.alone():
        for number, name in enumerate(names, start=1):
            winner = results.board(name).winner
            place = home.folder / (BEST if len(names) == 1 else f"{BEST}_{number}")
            if winner is not None and not (place / DESCRIPTION).is_file() and _network_of(context, winner).is_file():
                _embedder(context, winner).save(place)
            if place.is_dir():
                found[name] = place
        if not keep_networks:
            shutil.rmtree(home.folder / NETWORKS, ignore_errors=True)
    return found


def _network_of(context: Context, method: MethodResult) -> Path:
    return context.folder / NETWORKS / f"{file_name(Piece('final', method.dataset, '', method.name))}.safetensors"


def _embedder(context: Context, best: MethodResult) -> Embedder:
    protocol = context.plan.protocol
    card = {
        "method": as_table(with_settings(context.plan.by_name[best.name], best.settings)),
        "protocol": as_table(protocol),
        "data": {"name": best.dataset, "fingerprint": context.plan.sources[best.dataset].split["fingerprint"]},
        "seed": 0,
        "scores": {name: estimate.values[0] for name, estimate in best.scores.items()},
    }
    return Embedder(load_network(_network_of(context, best)).eval(), preprocessing_of(protocol, context.datasets[best.dataset]), card)
