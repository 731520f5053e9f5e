"""train: from a method, a data set and a protocol to a run folder with a scored embedder in it."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from likewise.configuration import as_table, divided, with_settings
from likewise.data.augmentation import AUGMENTATIONS
from likewise.data.dataset import Dataset, Features
from likewise.data.packed import left_out
from likewise.data.readers import read
from likewise.data.splits import Split, folds, split
from likewise.methods import Method, load_method
from likewise.models.embedder import Embedder, Preprocessing
from likewise.models.network import Network
from likewise.progress import ProgressCallback
from likewise.protocols import Protocol, load_protocol
from likewise.training.devices import Devices
from likewise.training.feeds import Feed, make_feed
from likewise.training.fit import Fit, fitted
from likewise.training.loop import Training
from likewise.training.run_card import write_card
from likewise.training.run_folder import RunFolder, environment
from likewise.training.run_writer import Keeper
from likewise.training.scoring import embed_feed, protocol_scores, vectors_to_score

SPLIT_SEED = 0  # the same test classes for every run on a data set
PURPOSE = "final score of a training run"


class Interrupted(Exception):
    """Ctrl-C or SIGTERM: the step was finished and a checkpoint written. The message says how to go on."""


@dataclass(frozen=True, eq=False)
class TrainingResult:
    folder: Path
    scores: dict[str, float]  # of the test classes, in [0, 1]
    best_step: int
    validation: dict[str, float] | None
    seconds: float
    notes: tuple[str, ...] = ()


def train(
    method: str | Path | Method,
    data: str | Path | Dataset,
    *,
    protocol: str | Path | Protocol = "quick",
    out: str | Path,
    weights: str | Path | None = None,
    settings: Mapping[str, Any] | None = None,
    seed: int = 0,
    micro_batch: int | None = None,
    resume: bool = False,
    device: str = "auto",
    checkpoint_every: int | None = None,
    progress: bool = False,
    on_progress: ProgressCallback | None = None,
) -> TrainingResult:
    """Trains a method on the training classes of a data set and scores it, once, on the test classes.

    settings          dotted names of the method or the protocol -> values: {"loss.margin": 0.3, "steps": 300}
    micro_batch       embeds so many items at a time, with the gradient of the whole batch (gradient caching)
    resume            goes on from the last checkpoint in `out`
    checkpoint_every  steps between checkpoints; None: a minute between them
    on_progress       is told how many images are packed
    """
    chosen, conditions = resolved(method, protocol, settings or {})
    dataset = data if isinstance(data, Dataset) else read(data)
    folder = RunFolder(Path(out))
    weights_file = checked_weights(conditions, weights)
    config = {
        "method": as_table(chosen),
        "protocol": as_table(conditions),
        "data": {"name": dataset.name, "fingerprint": dataset.fingerprint()},
        "weights": None if weights_file is None else file_digest(weights_file),
        "seed": seed,
        "micro_batch": micro_batch,
    }
    devices = Devices(conditions, device=device)
    first = devices.rank == 0
    if first:
        folder.check(config, resume=resume)
    done = folder.scores()
    if done is not None and resume:
        return result_of(folder, done)
    parts = split(dataset, seed=SPLIT_SEED, record=folder.openings)
    feed = make_feed(parts.train_part(dataset), conditions, on_progress=on_progress)
    training_feed, validation = hold_out(dataset, parts, feed, conditions)
    preprocessing_of(conditions, dataset)  # what could not be scored in the end is refused now
    training = Training(
        chosen,
        conditions,
        training_feed,
        seed=seed,
        devices=devices,
        weights=weights_file,
        validation=validation,
        micro_batch=micro_batch,
    )
    if first:  # from here on the user has made no mistake that could be seen
        folder.begin(config)
        folder.write_json("split.json", parts.to_json())
        folder.write_json("environment.json", environment())
    state = folder.checkpoints.load() if resume else None
    if state is not None:
        training.load_state_dict(state)
    with Keeper(folder, training, every=checkpoint_every, progress=progress and first, writes=first) as keeper:
        finished = training.run(keeper)
    if not finished:
        raise Interrupted(f"stopped after step {training.step} of {conditions.steps}; the same command with --resume goes on from there")
    return _finish(folder, dataset, parts, training, config, notes=(*dataset.notes, *parts.notes, *feed_notes(feed)))


def resolved(method: str | Path | Method, protocol: str | Path | Protocol, settings: Mapping[str, Any]) -> tuple[Method, Protocol]:
    """The method (with its paper's settings under this protocol) and the protocol, each with its part of the settings."""
    conditions, chosen = load_protocol(protocol), load_method(method)
    chosen = chosen.for_protocol(conditions.name)
    parts = divided(settings, method=Method, protocol=Protocol)
    return with_settings(chosen, parts["method"]), with_settings(conditions, parts["protocol"])


def checked_weights(protocol: Protocol, weights: str | Path | None) -> Path | None:
    """The weights file, if there is one and the protocol takes one."""
    if weights is None:
        if protocol.weights == "required":
            raise ValueError(
                f"protocol {protocol.name} starts from pretrained weights of {protocol.backbone}: give --weights FILE "
                "(.safetensors or .pth), or --set weights=random to start from nothing"
            )
        return None
    if protocol.weights == "random":
        raise ValueError(f"protocol {protocol.name} starts from random weights: leave --weights out, or --set weights=optional")
    path = Path(weights)
    if not path.is_file():
        raise ValueError(f"there is no weights file {path}: give the path of a .safetensors or .pth file")
    return path


def hold_out(dataset: Dataset, parts: Split, feed: Feed, protocol: Protocol) -> tuple[Feed, Feed | None]:
    """The feed without, and with only, the classes on which the best step is chosen."""
    if protocol.validation == 0:
        return feed, None
    num_folds = max(round(1 / protocol.validation), 2)
    if parts.num_train_classes < 2 * num_folds:
        most = parts.num_train_classes // 2
        if protocol.few_classes == "more_images":  # a protocol for whatever data there is: two classes, or else none
            if most < 2:
                return feed, None
            num_folds = most
        else:
            share = f"--set validation={math.ceil(100 / most) / 100}, or " if most >= 2 else ""
            raise ValueError(
                f"validation={protocol.validation} of {parts.num_train_classes} training classes is less than two classes, and fewer tell "
                f"nothing: {share}--set validation=0 to take the last step"
            )
    fold = folds(dataset, parts.train, k=num_folds, seed=SPLIT_SEED)[0]
    held = np.isin(parts.train[feed.indices], fold.validation)
    return feed.subset(np.flatnonzero(~held)), feed.subset(np.flatnonzero(held))


def feed_notes(feed: Feed) -> tuple[str, ...]:
    return (left_out(feed.skipped),) if feed.skipped else ()


def file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _finish(
    folder: RunFolder, dataset: Dataset, parts: Split, training: Training, config: dict[str, Any], notes: tuple[str, ...]
) -> TrainingResult:
    """Saves the embedder, opens the test classes once and scores them; all on rank 0, which tells the others."""
    content: dict[str, Any] = {}
    if training.devices.rank == 0:
        preprocessing = preprocessing_of(training.protocol, dataset)
        Embedder(training.network, preprocessing, card={"config": config}, device=training.device).save(folder.embedder)
        content = _test_scores(folder, dataset, parts, training, config, notes)
        write_card(folder, config, content)
        folder.write_json("scores.json", content)  # last: a run with scores has ended
    return result_of(folder, training.devices.from_first(content))


def preprocessing_of(protocol: Protocol, dataset: Dataset) -> Preprocessing | None:
    """How the protocol scores images; None for vectors."""
    if isinstance(dataset.items, Features):
        return None
    side = None if protocol.side == "as_is" else protocol.side
    return Preprocessing(side=side, augmentation=AUGMENTATIONS[protocol.test_augmentation])


def _test_scores(
    folder: RunFolder, dataset: Dataset, parts: Split, training: Training, config: dict[str, Any], notes: tuple[str, ...]
) -> dict[str, Any]:
    """What `scores.json` holds."""
    found: Fit = fitted(training)
    protocol, network = training.protocol, training.network
    key = parts.test.issue_key("training run")
    part = parts.test.open(key, run=str(folder.path.resolve()), purpose=PURPOSE, decided=decision(config, network))
    test = make_feed(dataset.subset(part.indices), protocol)
    embeddings = embed_feed(network, test, protocol, device=training.device)
    scores = protocol_scores(
        vectors_to_score(network, embeddings),
        test.labels,
        protocol,
        query_and_gallery=part.query_and_gallery(part.indices[test.indices]),
        unscoreable="note",  # a finished training is worth having, whatever its test items can tell
    )
    return {
        "scores": scores.means,
        "best_step": found.best_step,
        "validation": found.validation,
        "seconds": found.seconds,
        "peak_bytes": found.peak_bytes,
        "images_per_second": found.rows[-1]["images_per_second"] if found.rows else None,
        "num_test_items": len(test),
        "notes": [*notes, *feed_notes(test), *scores.notes],
    }


def decision(config: dict[str, Any], network: Network) -> str:
    """Names what was decided before the test classes were opened: the configuration and the weights."""
    digest = hashlib.sha256(json.dumps(config, sort_keys=True).encode())
    for name, held in sorted(network.state_dict().items()):
        digest.update(name.encode() + held.detach().float().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def result_of(folder: RunFolder, content: dict[str, Any]) -> TrainingResult:
    """As `scores.json` holds it."""
    return TrainingResult(
        folder=folder.path,
        scores=content["scores"],
        best_step=content["best_step"],
        validation=content["validation"],
        seconds=content["seconds"],
        notes=tuple(content["notes"]),
    )
