"""What was equal for every method, in words."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from likewise.comparison.plan import Plan

PACKAGES = ("likewise", "torch", "numpy", "scipy", "scikit-learn", "optuna")


def equal_conditions(plan: Plan, weights: Path | None) -> dict[str, str]:
    protocol = plan.protocol
    parts = []
    for source in plan.data:
        held = source.split
        how = "the official split" if held["official"] else "split by classes"
        parts.append(
            f"{source.name}: {held['num_train']:,} items of {held['num_train_classes']:,} classes to train on, "
            f"{held['num_test']:,} of {held['num_test_classes']:,} to test on ({how})"
        )
    tuned = "none: the values of the method files"
    if plan.trials:
        tuned = (
            f"{plan.trials} sets of values for each method, the first that of its file, by MAP@R on {plan.folds} class-disjoint folds of "
            "the training classes; after the first fold the worse half stops"
        )
    return {
        "data": "; ".join(parts),
        "backbone": f"{protocol.backbone}, {protocol.pooling} pooling",
        "initial weights": "random, from the seed" if weights is None else f"{weights.name} (sha256 {plan.weights[:12]}...)",
        "dimension": str(protocol.dim),
        "augmentation": f"{protocol.train_augmentation} for training, {protocol.test_augmentation} for testing",
        "images seen": f"{protocol.steps * protocol.batch:,} ({protocol.steps:,} steps of {protocol.batch})",
        "optimiser": f"{protocol.optimizer}, {protocol.schedule} schedule, learning rate {protocol.learning_rate:g} times a method's own",
        "step that is scored": "the last",
        "tuning": tuned,
        "seeds": str(plan.seeds),
        "evaluation": f"{', '.join(protocol.metrics)}; K = {', '.join(map(str, protocol.ks))}; cosine, exact neighbours",
        "device": plan.device,
    }


def versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "platform": platform.platform()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found
