"""adapt: from a data set to the embedder that pays on it, and what it was worth to go how far."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, get_args

from likewise.adaptation.answer import what_pays
from likewise.adaptation.card import card_text
from likewise.adaptation.fitting import Fitter
from likewise.adaptation.fold_scores import FoldScores
from likewise.adaptation.ladder import Climb, Folds, Ladder, Step
from likewise.adaptation.rung_conditions import conditions_for
from likewise.adaptation.rungs import FEATURES, RUNGS, Setting
from likewise.argument_types import checked_arguments
from likewise.checks import known_name
from likewise.configuration import as_table
from likewise.data.dataset import Dataset
from likewise.data.ledger import CountedLook, Occasion
from likewise.data.readers import read
from likewise.data.splits import SPLIT_SEED, Split, all_train, folds
from likewise.data.splits import split as drawn
from likewise.environment import check_alone
from likewise.evaluation.scores import Scores
from likewise.files import file_digest
from likewise.methods import Method
from likewise.models.network import Network
from likewise.progress import ProgressCallback
from likewise.training.runs.run_folder import RunFolder, environment
from likewise.training.scoring import protocol_scores
from likewise.training.small_data import judged_notes, test_notes
from likewise.training.train import NO_TEST, PURPOSE, Trains, decision, feed_notes

METHOD = "raw_vthm"
NUM_FOLDS = 3  # of the training classes
REPEATS = 3  # draws of the folds, each with a seed of its own: fewer say too little of how much draws differ
COMPARE = "`likewise compare`, which judges on the test classes"
SCORES, RESULT = "fold_scores.jsonl", "ladder.json"


@dataclass(frozen=True, eq=False)
class Adaptation:
    """What a ladder came to."""

    folder: Path  # likewise.Embedder.load(folder) is the chosen embedder
    ladder: Ladder
    sentence: str
    scores: dict[str, float]  # of the test classes; empty where every class was trained on
    as_they_are: dict[str, float]  # the same of the features as they are
    look: CountedLook | None
    notes: tuple[str, ...]
    seconds: float
    of_vectors: bool  # what the embedder takes; else images

    @property
    def chosen(self) -> str:
        """The title of the rung that counts."""
        return RUNGS[self.ladder.chosen].title

    @staticmethod
    def from_stored(folder: Path, content: dict[str, Any]) -> Adaptation:
        """Of what RESULT holds."""
        return Adaptation(
            folder=folder,
            ladder=Ladder.from_stored(content),
            sentence=content["sentence"],
            scores=content["scores"],
            as_they_are=content["as_they_are"],
            look=CountedLook.from_json(content["look"]) if content["look"] is not None else None,
            notes=tuple(content["notes"]),
            seconds=content["seconds"],
            of_vectors=content["of_vectors"],
        )


@checked_arguments
def adapt(
    data: str | Path | Dataset,
    *,
    out: str | Path,
    minutes: float = 10.0,
    weights: str | Path | None = None,
    method: str | Path | Method = METHOD,
    split: Trains = "held-out",
    device: str = "auto",
    on_progress: ProgressCallback | None = None,
) -> Adaptation:
    """Goes from pretrained features up to a fine-tuned network as far as it pays on held-out training classes, in so many minutes.

    Each rung (RUNGS) is kept only where class-disjoint folds of the training classes show a gain over the best rung so far beyond noise.
    The test classes are scored once, in the end: the chosen rung, and the features as they are. What was found is kept in `out`, and the
    same call goes on from there; with more minutes it tries more.

    weights  a name that `likewise weights` lists; None: the default of photographs. Vectors have none.
    method   whose loss trains heads and networks
    split    "held-out": the test items are kept for the score; "all-train": every class trains, and there is no score
    """
    began = time.monotonic()
    check_alone("an adaptation")
    if not minutes >= 0:
        raise ValueError(f"minutes={minutes}: expected a number not below 0")
    known_name("split", split, get_args(Trains))
    dataset = data if isinstance(data, Dataset) else read(data)
    conditions = conditions_for(dataset, method=method, weights=weights)
    folder = RunFolder(Path(out))
    config = {
        "method": as_table(replace(conditions.method, grid={})),  # which nothing here searches
        "frozen": as_table(conditions.frozen),
        "tuned": as_table(conditions.tuned),
        "data": {"name": dataset.name, "fingerprint": dataset.fingerprint()},
        "weights": None if conditions.weights is None else file_digest(conditions.weights),
        "folds": [REPEATS, NUM_FOLDS],
        "split": None if split == "held-out" else split,
    }
    folder.check(config, resume=folder.config() is not None)
    parts = all_train(dataset) if split == "all-train" else drawn(dataset, seed=SPLIT_SEED, record=folder.openings)
    fitter = Fitter(parts.train_part(dataset), conditions, device=device, maps_folder=folder.path / "maps", on_progress=on_progress)
    fitter.feed(RUNGS[FEATURES])  # what the user can do wrong with the data is told before anything is written
    if folder.config() is None:
        folder.begin(config)
        folder.write_json("split.json", parts.to_json())
        folder.write_json("environment.json", environment())
    with parts.test.closed("choosing the rung"):
        scores = FoldScores(folder.path / SCORES)
        ladder = climbed(fitter, drawn_folds(dataset, parts), scores, until=began + 60 * minutes, on_progress=on_progress)
    content = _finished(folder, dataset, parts, fitter, ladder, config)
    content |= {"seconds": time.monotonic() - began}
    result = Adaptation.from_stored(folder.path, content)
    fitter.forget_maps()
    folder.write_text("README.md", card_text(result, dataset.name))
    folder.write_last(RESULT, content, grows=(SCORES,))
    return result


def read_adaptation(folder: str | Path) -> Adaptation | None:
    """What `adapt` left in this folder; None where it holds something else, a ValueError where `adapt` has not ended."""
    run = RunFolder(Path(folder))
    config = run.config()
    if config is None or "tuned" not in config:
        return None
    content = run.checked(RESULT)
    if content is None or "seconds" not in content:
        raise ValueError(f"{folder}: `likewise adapt` has not ended there: the same command goes on")
    return Adaptation.from_stored(run.path, content)


def drawn_folds(dataset: Dataset, parts: Split) -> Folds:
    """Folds of the training items' numbers among themselves; none where there are too few classes."""
    train = parts.train_part(dataset)
    everything = all_train(train).train
    for k in range(NUM_FOLDS, 1, -1):
        try:
            return [folds(train, everything, k=k, seed=SPLIT_SEED + 1 + repeat) for repeat in range(REPEATS)]
        except ValueError:  # too few classes, or groups of them
            continue
    return []


def climbed(fitter: Fitter, folds: Folds, scores: FoldScores, *, until: float, on_progress: ProgressCallback | None) -> Ladder:
    """The ladder; where there are no folds, nothing can be judged and the features stay as they are."""
    if not folds:
        return Ladder(tuple(Step(name, "start" if name == FEATURES else "cannot tell") for name in RUNGS), FEATURES, Setting(), None)
    return Climb(fitter, folds, scores, until=until, on_progress=on_progress).ladder()


def _finished(folder: RunFolder, dataset: Dataset, parts: Split, fitter: Fitter, ladder: Ladder, config: dict[str, Any]) -> dict[str, Any]:
    """The chosen rung taken on all training classes, saved and scored; as it is in the folder where the same rung was chosen before."""
    choice = {"rung": ladder.chosen, "setting": asdict(ladder.setting)}
    stored = folder.checked(RESULT)
    if stored is None or stored["choice"] != choice:
        stored = {"choice": choice} | _taken(folder, dataset, parts, fitter, ladder, config | choice)
    stored |= ladder.to_store() | {"sentence": what_pays(ladder, device=fitter.device), "of_vectors": fitter.takes_vectors}
    return stored


def _taken(folder: RunFolder, dataset: Dataset, parts: Split, fitter: Fitter, ladder: Ladder, config: dict[str, Any]) -> dict[str, Any]:
    """Fits the chosen rung on all training items, saves it and scores it, and the features as they are, on the test items."""
    rung, features = RUNGS[ladder.chosen], RUNGS[FEATURES]
    feed = fitter.feed(rung)
    network = fitter.fit(rung, ladder.setting, feed, seed=0)
    as_they_are = fitter.fit(features, Setting(), fitter.feed(features), seed=0)
    occasion = Occasion("adapt", str(folder.path.resolve()), decided=decision(config, network))
    card = {"config": config, "split": parts.to_json()} | ({"occasion": asdict(occasion)} if parts.test.num_items else {})
    fitter.embedder(rung, network, card=card).save(folder.embedder)
    little = [*judged_notes(parts.num_train_classes, part="training", other=COMPARE), *test_notes(parts.num_test_classes)]
    notes = [*fitter.conditions.notes, *dataset.notes, *parts.notes, *feed_notes(feed), *little]
    if not parts.test.num_items:
        return {"scores": {}, "as_they_are": {}, "look": None, "notes": [*notes, NO_TEST]}
    key = parts.test.issue_key("adaptation")
    run = f"{occasion.folder}: {rung.name}"  # with more minutes another rung may be chosen: another look
    part = parts.test.open(key, run=run, purpose=PURPOSE, decided=occasion.decided, occasion=occasion)
    look = parts.test.look
    assert look is not None

    def test_scores(name: str, tested: Network) -> tuple[Scores, list[str]]:
        test = fitter.feed_of(RUNGS[name], dataset.subset(part.indices), trains=False)
        vectors = fitter.embeddings(RUNGS[name], tested, test)
        places = part.query_and_gallery(part.indices[test.indices])
        scored = protocol_scores(vectors, test.labels, fitter.conditions.frozen, query_and_gallery=places, unscoreable="note")
        return scored, [*feed_notes(test), *scored.notes]

    before, notes_of_test = test_scores(FEATURES, as_they_are)
    after = before if rung is features else test_scores(rung.name, network)[0]
    folder.write_queries(after.per_query)
    return {"scores": after.means, "as_they_are": before.means, "look": look.as_json(), "notes": [*notes, *notes_of_test, *look.notes]}
