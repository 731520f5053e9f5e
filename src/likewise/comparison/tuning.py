"""Tuning: the sets of values each method tries, decided before anything is trained, and the one rule that stops and chooses.

Every method tries the same learning rates. The sets do not depend on any result, so that neither the number of workers nor a kill in the
middle changes what is tried; only where some method does best at the lowest or highest rate, every method tries one rate beyond it.
"""

from __future__ import annotations

import hashlib
import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from sqlalchemy.exc import SQLAlchemyError
from torch import nn

from likewise.addresses import Address, without_secrets
from likewise.comparison.running.database import DatabaseFault, engine_options
from likewise.configuration import Choice, Uniform
from likewise.data.dataset import Dataset
from likewise.data.splits import SPLIT_SEED, Fold, folds
from likewise.losses.loss import traits_of
from likewise.methods import HEAD_RATE, RATE, Method, at
from likewise.protocols import Tune
from likewise.wording import shortened

if TYPE_CHECKING:
    import optuna

    Distributions: TypeAlias = dict[str, optuna.distributions.BaseDistribution]

TrialState = Literal["complete", "pruned", "failed"]

LADDER = (1.0, 3.0, 0.3, 10.0, 0.1, 30.0, 0.03)  # multiples of the protocol's rate, in the order in which more trials add them
RATES = Uniform(0.1, 10.0, log=True)  # where everything is tuned: the middle is the protocol's own
HEAD_RATES = Uniform(0.5, 200.0, log=True)  # of new layers on a pretrained backbone
MOST_SETS = 4096  # beyond any budget: a mistake
INSIDE = 3  # so many rates have one that is not at an edge


def num_parts(folds: int) -> int:
    """Into how many parts of about as many classes tuning divides the training classes: it holds one out and trains on the others."""
    return max(folds, 2)


def tuning_folds(train: Dataset, num_folds: int) -> list[Fold]:
    """The folds that tuning runs on the training part of a data set; one holds half of the classes out."""
    return folds(train, np.arange(len(train)), k=num_parts(num_folds), seed=SPLIT_SEED)[:num_folds]


def check_trials(trials: int, tune: Tune) -> None:
    """Refuses a number of trials that tells nothing, or that there are no values for."""
    if trials == 1 and tune != "grid":
        raise ValueError("trials=1: a single set of values is no choice; 0 for no tuning, or at least 2")
    if tune != "all" and trials > len(LADDER):
        which = "the rate alone is" if tune == "rate" else "with grids, rates are"
        raise ValueError(f"trials={trials}: {which} tuned over at most {len(LADDER)} values; --tune all tunes every setting of a method")
    if trials > MOST_SETS:
        raise ValueError(f"trials={trials}: expected at most {MOST_SETS}")


def draw_sets(method: Method, *, trials: int, tune: Tune, pretrained: bool) -> tuple[dict[str, Any], ...]:
    """`trials` sets of values. The n-th has the same rate for every method, whatever the method; the first is the protocol's.

    tune "rate": nothing else.  "all": also the method's whole search space, the first set with the values of its file, the others points
    of a scrambled Sobol sequence by the method's name (choices at random).  "grid": every combination of the method's grid, the first that
    of its file, each with `trials` rates.  pretrained: the backbone has weights of its own, so that new layers may need another rate than
    it.
    """
    if tune == "rate":
        return tuple({RATE: rate} for rate in LADDER[:trials])
    if tune == "grid":
        sets = [{RATE: rate} | values for values in grid_sets(method) for rate in LADDER[:trials]]
        if len(sets) > MOST_SETS:
            raise ValueError(f"{method.name}: its grid makes {len(sets):,} sets of values: expected at most {MOST_SETS}")
        return tuple(sets)
    sets = [{RATE: rate} for rate in _spread(RATES, trials, base=2)]
    if pretrained:
        heads = [at(method, HEAD_RATE), *_spread(HEAD_RATES, max(trials - 1, 0), base=3)]
        sets = [values | {HEAD_RATE: head} for values, head in zip(sets, heads, strict=False)]
    drawn = _draw(method, search_space(method), trials=trials)
    return tuple(values | own for values, own in zip(sets, drawn, strict=True))


def search_space(method: Method) -> dict[str, Uniform | Choice]:
    """What tuning of everything may try beside the rates: the table of the method file, without what cannot matter."""
    return {name: kind for name, kind in method.search.items() if matters(method, name)}


def grid_sets(method: Method) -> list[dict[str, Any]]:
    """Every combination of the values of the method's grid, the values of its file among them and first; without what cannot matter."""
    names = [name for name in method.grid if matters(method, name)]
    return [dict(zip(names, values, strict=True)) for values in product(*(_grid_values(method, name) for name in names))]


def _grid_values(method: Method, name: str) -> list[Any]:
    own = at(method, name)
    return [own, *(value for value in method.grid[name] if value != own)]


def matters(method: Method, name: str) -> bool:
    """Whether a setting changes what is learned, with the method's other settings as they are."""
    loss = method.make_loss(num_classes=2)
    traits = traits_of(loss)
    switched_on = {
        "norm": method.norm is not None,
        "normalize": method.norm is None,
        "memory_warm_up": method.memory > 0,
        "rates.proxies": traits.meets == "proxies",
        "rates.loss": isinstance(loss, nn.Module),
        "loss.norm_penalty": method.norm is None,  # a constant where the length is fixed
        "loss.regularization": traits.proxies_per_class > 1,  # of soft_triple, between the centres of a class
        "loss.gamma": method.loss.name != "soft_triple" or traits.proxies_per_class > 1,
    }
    return switched_on.get(name, True)


def edge_of(rates: Sequence[float], scores: Sequence[float | None]) -> Literal["lowest", "highest", ""]:
    """Where the rate with the best score lies among those tried: at an edge, or between others."""
    ranked = _ranked(scores)
    if not ranked:
        return ""
    best = rates[ranked[0]]
    return "highest" if best == max(rates) else "lowest" if best == min(rates) else ""


def next_rate(rates: Sequence[float], *, above: bool) -> float:
    """The rate beyond these: three times the highest (a third of the lowest), rounded to one of ..., 0.3, 1, 3, 10, ..."""
    beyond = math.log10(3 * max(rates) if above else min(rates) / 3)
    steps = (decade + step for decade in range(math.floor(beyond), math.floor(beyond) + 2) for step in (0.0, math.log10(3)))
    return float(f"{10 ** min(steps, key=lambda step: abs(step - beyond)):.1g}")


def expected_best(scores: Sequence[float]) -> list[float]:
    """The best score that k of these trials are expected to have, k = 1, 2, ..., all of them (Dodge et al. 2019).

    Of n trials k are drawn without replacement, so that after all n it is the best itself: with the scores rising, the i-th (from 1) is
    the best of k with the chance C(i - 1, k - 1) / C(n, k).
    """
    rising, n = sorted(scores), len(scores)
    return [math.fsum(score * math.comb(i, k - 1) for i, score in enumerate(rising)) / math.comb(n, k) for k in range(1, n + 1)]


def survivors(first_fold: Mapping[int, float | None]) -> list[int]:
    """Sets that go on after the first fold: the better half of those that did not fail, rounded up. The same rule for every method."""
    numbers, ranked = list(first_fold), _ranked(list(first_fold.values()))
    return sorted(numbers[position] for position in ranked[: math.ceil(len(ranked) / 2)])


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


def record_studies(url: Address, studies: Sequence[Study]) -> None:
    """Tuning as optuna studies in the store, for optuna's own tools. What is there already stays."""
    import optuna

    with _quiet(), warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        try:
            storage = optuna.storages.RDBStorage(url.whole, engine_kwargs=engine_options(url))
            for study in studies:
                recorded = optuna.create_study(study_name=study.name, storage=storage, direction="maximize", load_if_exists=True)
                recorded.add_trials(_trials(study)[len(recorded.get_trials(deepcopy=False)) :])
        # The last few come of tables of optuna's that are not as it wrote them.
        except (SQLAlchemyError, optuna.exceptions.StorageInternalError, LookupError, TypeError, AttributeError, ValueError) as fault:
            said = shortened(" ".join(without_secrets(str(fault)).split()) or type(fault).__name__, most=200)
            raise DatabaseFault(f"tuning cannot be recorded in its database: {said}") from fault
        storage.engine.dispose()


def _trials(study: Study) -> list[optuna.trial.FrozenTrial]:
    from optuna.trial import TrialState as OptunaState
    from optuna.trial import create_trial

    states = {"complete": OptunaState.COMPLETE, "pruned": OptunaState.PRUNED, "failed": OptunaState.FAIL}
    trials = []
    for values, scores in zip(study.sets, study.scores, strict=True):
        space = {name: kind for name, kind in _distributions(study.method, values).items() if _within(kind, values[name])}
        trials.append(
            create_trial(
                state=states[trial_state(scores, num_folds=study.num_folds)],
                params={name: values[name] for name in space},
                distributions=space,
                value=trial_score(scores, num_folds=study.num_folds),
                intermediate_values=dict(enumerate(score for score in scores if score is not None)),
                user_attrs={"settings": dict(values)},
            )
        )
    return trials


def _draw(method: Method, space: Mapping[str, Uniform | Choice], *, trials: int) -> list[dict[str, Any]]:
    """The method file's values of this space, then points of a Sobol sequence."""
    import optuna

    seed = int.from_bytes(hashlib.sha256(method.name.encode()).digest()[:4])
    distributions, from_file = _distributions(method, space), {name: at(method, name) for name in space}
    with warnings.catch_warnings(), _quiet():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        warnings.filterwarnings("ignore", message=".*balance properties of Sobol.*")
        sampler = optuna.samplers.QMCSampler(
            scramble=True, seed=seed, independent_sampler=optuna.samplers.RandomSampler(seed=seed), warn_independent_sampling=False
        )
        study = optuna.create_study(sampler=sampler)
        study.enqueue_trial({name: value for name, value in from_file.items() if _within(distributions[name], value)})
        drawn = []
        for _ in range(trials):
            trial = study.ask(distributions)
            drawn.append(trial.params)
            study.tell(trial, 0.0)
    return [{**drawn[0], **from_file}, *drawn[1:]] if drawn else []


def _spread(space: Uniform, count: int, *, base: int) -> list[float]:
    """So many values of a logarithmic range, each far from those before (van der Corput's sequence from above), two digits each."""
    low, high = math.log(space.low), math.log(space.high)
    return [float(f"{math.exp(high - (high - low) * _reversed_digits(i, base)):.2g}") for i in range(1, count + 1)]


def _reversed_digits(number: int, base: int) -> float:
    """0.d1d2... of a number ...d2d1 in this base."""
    value, place = 0.0, 1.0 / base
    while number:
        number, digit = divmod(number, base)
        value, place = value + digit * place, place / base
    return value


def _distributions(method: Method, names: Iterable[str]) -> Distributions:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    space: Distributions = {}
    for name in names:
        kind = method.search.get(name)
        if kind is None and name in method.grid:
            space[name] = CategoricalDistribution(_grid_values(method, name))
        elif kind is None:  # a rate, which may lie beyond where it was first looked for
            space[name] = FloatDistribution(1e-6, 1e6, log=True)
        elif isinstance(kind, Choice):
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
