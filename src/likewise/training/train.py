"""train: from a method, a data set and a protocol to a run folder with a scored embedder in it."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from torch import Tensor

from likewise.argument_types import checked_arguments
from likewise.checks import known_name
from likewise.configuration import as_table, divided, with_settings
from likewise.data.dataset import Dataset
from likewise.data.ledger import Occasion
from likewise.data.packing.packed import left_out
from likewise.data.readers import read
from likewise.data.splits import SPLIT_SEED, Split, all_train, folds
from likewise.data.splits import split as drawn
from likewise.files import file_digest
from likewise.losses import AnyLoss
from likewise.methods import Method, load_method
from likewise.models.network import Network
from likewise.progress import ProgressCallback
from likewise.protocols import Protocol, load_protocol
from likewise.protocols.suited import Suited, suited_protocol
from likewise.training.devices import Devices
from likewise.training.feeds import Feed, Int64s, embedder_of, make_feed, preprocessing_of
from likewise.training.fit import fitted
from likewise.training.loop import Listener, Training
from likewise.training.runs.run_folder import RunFolder, TrainingResult, environment
from likewise.training.runs.run_writer import RunWriter
from likewise.training.scoring import embed_feed, protocol_scores, vectors_to_score
from likewise.training.small_data import test_notes, training_notes
from likewise.training.watchdogs import collapse_warning

PURPOSE = "final score of a training run"
FEW = 20  # items that are too few to tell whether embeddings have collapsed
SAMPLE = 500  # training items that are looked at for a collapse where there are no test items

Trains = Literal["held-out", "all-train"]  # which items train: all but the test items, or all
NO_TEST = (
    "every class was trained on, so none is left to test on and there is no score: what to expect of new classes, the same command "
    "without --split all-train tells"
)


class TrainingStopped(Exception):
    """By Ctrl-C, SIGTERM or a listener: the step was finished and a checkpoint written. The message says how to go on."""


@checked_arguments
def train(
    method: str | Path | Method | AnyLoss,
    data: str | Path | Dataset,
    *,
    protocol: str | Path | Protocol | None = None,
    out: str | Path,
    weights: str | Path | None = None,
    settings: Mapping[str, Any] | None = None,
    split: Trains = "held-out",
    seed: int = 0,
    micro_batch: int | None = None,
    resume: bool = False,
    device: str = "auto",
    checkpoint_every: int | None = None,
    listener: Listener | None = None,
    on_progress: ProgressCallback | None = None,
) -> TrainingResult:
    """Trains a method on the training classes of a data set and scores it, once, on the test classes.

    It is the training that a comparison ends with: the same method, values and seed give the same network, bit for bit on a CPU with as
    many threads (a comparison's trainings have one each).

    method            a name, a .toml file, a Method, or a loss object, with sampler, head and rates as methods have them unless they say
    protocol          a name, a .toml file or a Protocol; None: the one that suits the data, as in a comparison
    weights           pretrained weights of the backbone: a file, or a name that `likewise weights` lists
    settings          dotted names of the method or the protocol -> values: {"loss.margin": 0.3, "steps": 300}
    split             "held-out": the data set's test items, or half of the classes, are kept for the score; "all-train": every class
                      trains, for a network that goes to work, and there is no score
    micro_batch       embeds so many items at a time, with the gradient of the whole batch (gradient caching)
    resume            goes on from the last checkpoint in `out`
    checkpoint_every  steps between checkpoints; None: a minute between them
    listener          is told of steps, losses, scores and warnings, and may stop the training
    on_progress       is told how many images are packed
    """
    method = load_method(method)  # a name that is unknown is told before anything is read
    dataset = data if isinstance(data, Dataset) else read(data)
    suited = suited_protocol(dataset, weights=weights, device=device) if protocol is None else Suited(protocol, weights)
    chosen, conditions = resolved(method, suited.protocol, settings or {}, weights=suited.weights)
    if known_name("split", split, get_args(Trains)) == "all-train":
        conditions = without_validation(conditions, settings or {})
    folder = RunFolder(Path(out))
    weights_file = conditions.weights_file(suited.weights)
    config = {
        "method": as_table(chosen),
        "protocol": as_table(conditions),
        "data": {"name": dataset.name, "fingerprint": dataset.fingerprint()},
        "weights": None if weights_file is None else file_digest(weights_file),
        "seed": seed,
        "micro_batch": micro_batch,
        "split": None if split == "held-out" else split,
    }
    devices = Devices(conditions, device=device)
    first = devices.rank == 0
    if first:
        folder.check(config, resume=resume)
    if resume and folder.scores() is not None:
        return folder.result()
    parts = all_train(dataset) if split == "all-train" else drawn(dataset, seed=SPLIT_SEED, record=folder.openings)
    # what could not be scored in the end, or not be trained, is refused before images are packed
    preprocessing_of(conditions, dataset)
    held_out = held_out_items(dataset, parts, conditions)
    trained_on = parts.train if held_out is None else np.setdiff1d(parts.train, held_out)
    chosen.make_sampler(
        dataset.labels[trained_on], conditions.batch, few_classes=conditions.few_classes, rank=devices.rank, num_ranks=devices.num_ranks
    )
    feed = make_feed(parts.train_part(dataset), conditions, weights=weights_file, device=devices.device, on_progress=on_progress)
    training_feed, validation = hold_out(feed, parts, held_out)
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
    heard_by = listener if listener is not None and first else Listener()
    for note in suited.notes:
        heard_by.message(note)
    with RunWriter(folder, training, every=checkpoint_every, listener=heard_by, writes=first) as writer:
        finished = training.run(writer)
    if not finished:
        raise TrainingStopped(
            f"stopped after step {training.step} of {conditions.steps}; the same command with --resume goes on from there"
        )
    of_size = (*training_notes(training_feed.labels, batch=conditions.batch, kind=dataset.kind), *test_notes(parts.num_test_classes))
    notes = (*suited.notes, *dataset.notes, *parts.notes, *feed_notes(feed), *untrained_notes(chosen, conditions), *of_size)
    return _finish(folder, dataset, parts, training, config, notes=notes)


def resolved(
    method: str | Path | Method, protocol: str | Path | Protocol, settings: Mapping[str, Any], *, weights: str | Path | None = None
) -> tuple[Method, Protocol]:
    """The method (with its paper's settings under this protocol) and the protocol for these weights, each with its part of the settings."""
    conditions, chosen = load_protocol(protocol).for_weights(weights), load_method(method)
    chosen = chosen.for_protocol(conditions.name)
    parts = divided(settings, dotted=chosen.dotted_names, method=Method, protocol=Protocol)
    chosen = replace(chosen, grid={})  # which a training does not search
    return with_settings(chosen, parts["method"]), with_settings(conditions, parts["protocol"])


def without_validation(protocol: Protocol, settings: Mapping[str, Any]) -> Protocol:
    """The protocol with no classes held out; a ValueError where the user asks for some."""
    if settings.get("validation"):
        raise ValueError(
            f"validation={settings['validation']} with --split all-train: every class trains, so none can be held out; leave one out"
        )
    return replace(protocol, validation=0.0)


def held_out_items(dataset: Dataset, parts: Split, protocol: Protocol) -> Int64s | None:
    """The numbers of the training items on whose classes the best step is chosen; None: the last step is taken."""
    if protocol.validation == 0 or protocol.steps == 0:
        return None
    num_folds = max(round(1 / protocol.validation), 2)
    if parts.num_train_classes < 2 * num_folds:
        most = parts.num_train_classes // 2
        if protocol.few_classes == "more_images":  # a protocol for whatever data there is: two classes, or else none
            if most < 2:
                return None
            num_folds = most
        else:
            share = f"--set validation={math.ceil(100 / most) / 100}, or " if most >= 2 else ""
            raise ValueError(
                f"validation={protocol.validation} of {parts.num_train_classes} training classes is less than two classes, and fewer tell "
                f"nothing: {share}--set validation=0 to take the last step"
            )
    return folds(dataset, parts.train, k=num_folds, seed=SPLIT_SEED)[0].validation


def hold_out(feed: Feed, parts: Split, held_out: Int64s | None) -> tuple[Feed, Feed | None]:
    """The feed of the training part without, and with only, the items that are held out."""
    if held_out is None:
        return feed, None
    is_held_out = np.isin(parts.train[feed.indices], held_out)
    return feed.subset(np.flatnonzero(~is_held_out)), feed.subset(np.flatnonzero(is_held_out))


def feed_notes(feed: Feed) -> tuple[str, ...]:
    return (left_out(feed.skipped),) if feed.skipped else ()


def untrained_notes(method: Method, protocol: Protocol) -> tuple[str, ...]:
    """Where no step is taken: what the embeddings then are."""
    if protocol.steps:
        return ()
    if method.head.kind == "none":
        return ("no step was taken: the embeddings are the backbone's features as they are",)
    if protocol.head_start != "random":
        how = "whitened" if protocol.head_start == "whitening" else "centred"
        return (f"no step was taken: the embeddings are the backbone's features, {how}",)
    return ("no step was taken: the head is as it was drawn, at random; --set head.kind=none gives the backbone's features themselves",)


def _finish(
    folder: RunFolder, dataset: Dataset, parts: Split, training: Training, config: dict[str, Any], notes: tuple[str, ...]
) -> TrainingResult:
    """Saves the embedder, opens the test classes once, where there are any, and scores them; all on rank 0, which tells the others."""
    content: dict[str, Any] = {}
    if training.devices.rank == 0:
        card: dict[str, Any] = {"config": config, "split": parts.to_json()}
        network, weights = training.network, training.weights
        embedder = embedder_of(network, training.protocol, dataset, weights=weights, card=card, device=training.device)
        # of the embedder's network, which is what `evaluate` will find: a head's backbone was not there while it trained
        occasion = Occasion("train", str(folder.path.resolve()), decided=decision(config, embedder.network))
        embedder.card |= {"occasion": asdict(occasion)} if parts.test.num_items else {}
        embedder.save(folder.embedder)
        scored = _test_scores(folder, dataset, parts, training, occasion) if parts.test.num_items else _no_scores(training)
        content = _facts(training) | scored | {"notes": [*notes, *scored["notes"]]}
        folder.end(config, content)
    return folder.result_of(training.devices.from_first(content))


def _facts(training: Training) -> dict[str, Any]:
    """What `scores.json` holds of the training, beside the scores."""
    fit = fitted(training)
    return {
        "best_step": fit.best_step,
        "validation": fit.validation,
        "seconds": fit.seconds,
        "peak_bytes": fit.peak_bytes,
        "images_per_second": fit.rows[-1]["images_per_second"] if fit.rows else None,
    }


def _test_scores(folder: RunFolder, dataset: Dataset, parts: Split, training: Training, occasion: Occasion) -> dict[str, Any]:
    """What `scores.json` holds of the test classes, which are opened here."""
    protocol, network = training.protocol, training.network
    key = parts.test.issue_key("training run")
    part = parts.test.open(key, run=occasion.folder, purpose=PURPOSE, decided=occasion.decided, occasion=occasion)
    look, seal = parts.test.look, parts.test.seal()
    assert look is not None
    assert seal is not None  # the record of a run is a file
    test = make_feed(dataset.subset(part.indices), protocol, weights=training.weights, device=training.device, trains=False)
    outputs = embed_feed(network, test, protocol, device=training.device, normalize=False)
    scores = protocol_scores(
        vectors_to_score(network, outputs, protocol),
        test.labels,
        protocol,
        query_and_gallery=part.query_and_gallery(part.indices[test.indices]),
        unscoreable="note",  # a finished training is worth having, whatever its test items can tell
    )
    folder.write_queries(scores.per_query)
    return {
        "scores": scores.means,
        "num_test_items": len(test),
        "look": look.as_json(),
        "record": asdict(seal),
        "notes": [*feed_notes(test), *_collapse_notes(network.joined(outputs), training), *scores.notes, *look.notes],
    }


def _no_scores(training: Training) -> dict[str, Any]:
    """What `scores.json` holds where every class was trained on: nothing is opened, and no look is counted."""
    chosen = np.unique(np.linspace(0, len(training.feed) - 1, SAMPLE).astype(np.int64))
    embeddings = embed_feed(training.network, training.feed.subset(chosen), training.protocol, device=training.device)
    return {"scores": {}, "num_test_items": 0, "notes": [NO_TEST, *_collapse_notes(embeddings, training)]}


def _collapse_notes(embeddings: Tensor, training: Training) -> list[str]:
    collapsed = collapse_warning(embeddings, fitted(training).best_step) if len(embeddings) > FEW else None
    return [] if collapsed is None else [collapsed]


def decision(config: dict[str, Any], network: Network) -> str:
    """Names what was decided before the test classes were opened: the configuration and the weights."""
    digest = hashlib.sha256(json.dumps(config, sort_keys=True).encode())
    for name, value in sorted(network.state_dict().items()):
        digest.update(name.encode() + value.detach().float().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
