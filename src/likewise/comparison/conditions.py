"""Conditions: what was equal for every method of a comparison, in words; and where that left a method at an edge."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from likewise.comparison.plan import Piece, Plan
from likewise.comparison.plan_progress import Progress
from likewise.comparison.results import MethodResult
from likewise.methods import RATE
from likewise.protocols import Protocol
from likewise.wording import listed, seconds_in_words

COMPARED = {
    "cosine": "cosine, exact neighbours",
    "euclidean": "Euclidean distance of embeddings that are not brought to length 1, exact neighbours",
}
_NOT_TRAINED = "; it stays as its weights are, and only heads are trained, on its features"


def equal_conditions(progress: Progress, weights: Path | None) -> dict[str, str]:
    """What was equal for every method, in words."""
    plan, protocol = progress.plan, progress.plan.protocol
    parts = []
    for source in plan.data:
        split = source.split
        how = "the official split" if split["official"] else "split by classes"
        parts.append(
            f"{source.name}: {split['num_train']:,} items of {split['num_train_classes']:,} classes to train on, "
            f"{split['num_test']:,} of {split['num_test_classes']:,} to test on ({how})"
        )
    return {
        "data": "; ".join(parts),
        "backbone": f"{protocol.backbone}, {protocol.pooling} pooling{_NOT_TRAINED if protocol.frozen else ''}",
        "initial weights": "random, from the seed" if weights is None else f"{weights.name} (sha256 {plan.weights[:12]}...)",
        **head_in_words(protocol),
        "dimension": str(protocol.dim),
        "augmentation": augmentation_in_words(protocol),
        **training_in_words(progress),
        "optimiser": f"{protocol.optimizer}, {protocol.schedule} schedule, learning rate {protocol.learning_rate:g} times a method's own",
        "step that is scored": "the last",
        "tuning": tuning_in_words(plan),
        "seeds": str(plan.seeds),
        "evaluation": f"{', '.join(protocol.metrics)}; K = {', '.join(map(str, protocol.ks))}; {COMPARED[protocol.compared_by]}",
        "device": plan.device,
    }


def head_in_words(protocol: Protocol) -> dict[str, str]:
    """Where heads start, unless at random, and where weight decay pulls them."""
    if protocol.head_start == "random":
        return {}
    pulled = ", and is pulled back towards that" if protocol.decay_towards == "start" else ""
    whitened = "half-whitened " if protocol.head_start == "whitening" else ""
    return {"head": f"starts as the {whitened}PCA of the training items' features{pulled}"}


def augmentation_in_words(protocol: Protocol) -> str:
    if not protocol.frozen:
        return f"{protocol.train_augmentation} for training, {protocol.test_augmentation} for testing"
    if protocol.views == 1:
        return f"none: every image is seen once, as {protocol.test_augmentation} cuts it"
    return f"{protocol.views} fixed views of an image for training, {protocol.test_augmentation} for testing"


def training_in_words(progress: Progress) -> dict[str, str]:
    """What every training had as much of as any other."""
    plan, protocol = progress.plan, progress.plan.protocol
    if protocol.equal == "steps":
        return {"items seen": f"{protocol.steps * protocol.batch:,} ({protocol.steps:,} steps of {protocol.batch})"}
    seconds = {source.name: seconds_in_words(progress.protocol_for(Piece("final", source.name)).seconds) for source in plan.data}
    told = listed([f"{taken} on {name}" for name, taken in seconds.items()]) if len(seconds) > 1 else next(iter(seconds.values()))
    why = f", which {protocol.steps:,} steps take with the method of median speed in tuning" if plan.measures_time else ""
    return {
        "batch": f"{protocol.batch} items",
        "training time": f"{told} by the clock{why}; the schedule follows the share that is spent. How many steps that makes depends on "
        "the machine and on what else runs there: trained again, the scores differ. A training that is interrupted begins anew; those "
        "that are finished, the values that were chosen and the time itself stay as they are stored, for every worker",
    }


def tuning_in_words(plan: Plan) -> str:
    if not plan.trials:
        return "none: the values of the method files"
    rates = f"{listed([f'{rate:g}' for rate in sorted(plan.rates)])} times the protocol's learning rate"
    if plan.tune == "rate":
        tried = f"{rates} for each method, and nothing else"
    elif plan.tune == "grid":
        sizes = listed([f"{len(sets)} sets of values for {plan.by_name[name].title}" for name, sets in plan.sets.items()])
        tried = f"every combination of each method's grid, each with {rates}: {sizes}"
    else:
        tried = f"{plan.trials} sets of values for each method, the first that of its file; in turn with the same rates for all, {rates}"
    if plan.folds == 1:
        judged = "by MAP@R on one half of the training classes, after training on the other"
    else:
        judged = f"by MAP@R on {plan.folds} class-disjoint folds of the training classes; after the first fold the worse half stops"
    return (
        f"{tried}; {judged}; a trial shows each class as often as the final training. Where some method did best at the lowest or highest "
        "rate, every method tried one beyond it"
    )


def steps_note(data: str, methods: Sequence[MethodResult]) -> str:
    """How many steps each method took, where time is what is equal."""
    taken = [
        f"{method.title} {round(np.mean([curve.steps[-1] for curve in method.curves])):,}"
        for method in methods
        if method.dataset == data and not method.sweep and method.curves
    ]
    return f"{data}: steps taken in the same time: {listed(taken)}"


def edge_notes(progress: Progress, data: str) -> list[str]:
    """Which methods did best at an edge of the rates they tried."""
    plan = progress.plan
    where = f"{data}: " if len(plan.data) > 1 else ""
    titles: dict[tuple[str, float], list[str]] = defaultdict(list)
    for name in plan.sets:
        rates = [progress.settings(data, name, number)[RATE] for number in progress.set_numbers(data, name)]
        rate = progress.settings(data, name, progress.choice(data, name)).get(RATE)
        if rate is not None and len(set(rates)) > 1 and rate in (min(rates), max(rates)):
            titles["higher" if rate == max(rates) else "lower", rate].append(plan.by_name[name].title)
    notes = []
    for (side, rate), methods in titles.items():
        edge = f"the {'highest' if side == 'higher' else 'lowest'} rate tried, {rate:g} times the protocol's"
        notes.append(f"{where}{listed(methods)} did best at {edge}: a {side} one might do better")
    return notes
