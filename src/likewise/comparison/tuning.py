"""Tuning: the sets of values each method tries, drawn before anything is trained, and the one rule that stops and chooses.

The draws do not depend on any result, so that neither the number of workers nor a kill in the middle changes what is tried. Set 0 is the
method file's own values.
"""

from __future__ import annotations

import hashlib
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from sqlalchemy.exc import SQLAlchemyError

from likewise.comparison.database import DatabaseFault, engine_options, without_passwords
from likewise.configuration import Choice, Uniform
from likewise.methods import Method, at

if TYPE_CHECKING:
    import optuna

    Distributions: TypeAlias = dict[str, optuna.distributions.BaseDistribution]

TrialState = Literal["complete", "pruned", "failed"]

LEARNING_RATE = Uniform(0.25, 4.0, log=True)  # where a method file does not say: a multiple of the protocol's


def search_space(method: Method) -> dict[str, Uniform | Choice]:
    """What tuning may try: the method file's table, and the learning rate in any case."""
    return {"rates.base": LEARNING_RATE} | method.search


def draw_sets(method: Method, *, trials: int) -> tuple[dict[str, Any], ...]:
    """`trials` sets of values: the method's own, then points of a scrambled Sobol sequence (choices at random), by the method's name."""
    import optuna

    if trials == 0:
        return ()
    seed = int.from_bytes(hashlib.sha256(method.name.encode()).digest()[:4])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        warnings.filterwarnings("ignore", message=".*balance properties of Sobol.*")
        sampler = optuna.samplers.QMCSampler(
            scramble=True, seed=seed, independent_sampler=optuna.samplers.RandomSampler(seed=seed), warn_independent_sampling=False
        )
        with _quiet():
            study = optuna.create_study(sampler=sampler)
            space, from_file = _distributions(method), {name: at(method, name) for name in search_space(method)}
            study.enqueue_trial({name: value for name, value in from_file.items() if _within(space[name], value)})
            drawn = []
            for _ in range(trials):
                trial = study.ask(space)
                drawn.append(trial.params)
                study.tell(trial, 0.0)
    return ({**drawn[0], **from_file}, *drawn[1:])


def survivors(first_fold: Sequence[float | None]) -> list[int]:
    """Sets that go on after the first fold: the better half of those that did not fail, rounded up. The same rule for every method."""
    ranked = _ranked(first_fold)
    return sorted(ranked[: math.ceil(len(ranked) / 2)])


def winner(scores: Mapping[int, Sequence[float | None]], *, num_folds: int) -> int | None:
    """The set with the best mean over the folds, the first of equals; None if none ran them all without a fault."""
    numbers = list(scores)
    ranked = _ranked([trial_score(folds, num_folds=num_folds) for folds in scores.values()])
    return numbers[ranked[0]] if ranked else None


def trial_state(folds: Sequence[float | None], *, num_folds: int) -> TrialState:
    """What became of a set of values with these scores on the folds that it ran, None where it failed."""
    if any(score is None or math.isnan(score) for score in folds):
        return "failed"
    return "complete" if len(folds) == num_folds else "pruned"


def trial_score(folds: Sequence[float | None], *, num_folds: int) -> float | None:
    """Mean over the folds of a set of values that ran them all; None for any other."""
    if trial_state(folds, num_folds=num_folds) != "complete":
        return None
    return math.fsum(score for score in folds if score is not None) / num_folds


@dataclass(frozen=True)
class Study:
    """A method's tuning on one data set: the sets of values, and each one's MAP@R on the folds that it ran, None where it failed."""

    name: str
    method: Method
    num_folds: int
    sets: Sequence[Mapping[str, Any]]
    scores: Sequence[Sequence[float | None]]


def record_studies(url: str, studies: Sequence[Study]) -> None:
    """Tuning as optuna studies in the store, for optuna's own tools. What is there already stays."""
    import optuna

    with _quiet(), warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        try:
            storage = optuna.storages.RDBStorage(url, engine_kwargs=engine_options(url))
            for study in studies:
                recorded = optuna.create_study(study_name=study.name, storage=storage, direction="maximize", load_if_exists=True)
                recorded.add_trials(_trials(study)[len(recorded.get_trials(deepcopy=False)) :])
        except (SQLAlchemyError, optuna.exceptions.StorageInternalError) as fault:
            raise DatabaseFault(f"tuning cannot be recorded in its database: {without_passwords(str(fault).splitlines()[0])}") from fault
        storage.engine.dispose()


def _trials(study: Study) -> list[optuna.trial.FrozenTrial]:
    from optuna.trial import TrialState as OptunaState
    from optuna.trial import create_trial

    states = {"complete": OptunaState.COMPLETE, "pruned": OptunaState.PRUNED, "failed": OptunaState.FAIL}
    trials = []
    for values, folds in zip(study.sets, study.scores, strict=True):
        space = {name: kind for name, kind in _distributions(study.method).items() if _within(kind, values[name])}
        trials.append(
            create_trial(
                state=states[trial_state(folds, num_folds=study.num_folds)],
                params={name: values[name] for name in space},
                distributions=space,
                value=trial_score(folds, num_folds=study.num_folds),
                intermediate_values=dict(enumerate(score for score in folds if score is not None)),
                user_attrs={"settings": dict(values)},
            )
        )
    return trials


def _distributions(method: Method) -> Distributions:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    space: Distributions = {}
    for name, kind in search_space(method).items():
        if isinstance(kind, Choice):
            space[name] = CategoricalDistribution(kind.choices)
        elif isinstance(at(method, name), int) and not isinstance(at(method, name), bool):
            space[name] = IntDistribution(int(kind.low), int(kind.high), log=kind.log)
        else:
            space[name] = FloatDistribution(kind.low, kind.high, log=kind.log)
    return space


def _within(space: optuna.distributions.BaseDistribution, value: Any) -> bool:
    """A method's own value may lie outside what tuning may try; optuna would then refuse it."""
    try:
        return bool(space._contains(space.to_internal_repr(value)))
    except (ValueError, TypeError):
        return False


def _ranked(scores: Sequence[float | None]) -> list[int]:
    """Positions from the best score down, the first of equals first, without those that failed."""
    sound = [(-score, position) for position, score in enumerate(scores) if score is not None and not math.isnan(score)]
    return [position for _, position in sorted(sound)]


class _quiet:
    """Optuna's announcements of every study and trial, off inside."""

    def __enter__(self) -> None:
        import optuna

        self._level = optuna.logging.get_verbosity()
        optuna.logging.set_verbosity(optuna.logging.ERROR)

    def __exit__(self, *fault: object) -> None:
        import optuna

        optuna.logging.set_verbosity(self._level)
