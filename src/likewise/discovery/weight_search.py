"""likewise.discover: the weights of pairs searched on training classes, beside known methods that are tuned as much, and judged once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from likewise.argument_types import checked_arguments
from likewise.comparison.compare import default_folder
from likewise.comparison.plan_progress import OnProgress
from likewise.comparison.request import Request, read_datasets, with_suited_protocol
from likewise.comparison.results import ComparisonResults, MethodResult
from likewise.configuration import with_settings
from likewise.data.dataset import Dataset
from likewise.discovery.formula import formula_of, method_file
from likewise.files import write_whole
from likewise.losses.weight_family import WeightFamily
from likewise.methods import Method, load_method
from likewise.progress import ProgressCallback
from likewise.protocols import Protocol
from likewise.reports.charts import weight_charts
from likewise.reports.comparison_report import compare_and_report
from likewise.reports.drawing import write_picture
from likewise.reports.method_curves import PairCurves, pair_curves

FAMILY = "weight_family"
FILE_OF_FAMILY = Path(__file__).parent / f"{FAMILY}.toml"  # no method of its own: it has more settings than others may tune
KNOWN = ("raw_vthm", "multi_similarity", "ranked_list", "n_pairs", "contrastive")  # what the family is held against unless said
TRIALS = 24
FOLDS = 2
SEEDS = 3
FILE, PICTURE = "discovered.toml", "discovered"


@dataclass(frozen=True, eq=False)
class Discovery:
    """The best of the family on these training classes, and how it stands beside the best of the known methods on the test classes."""

    method: Method  # with the values that were found
    formula: tuple[str, str]  # the weights of positives, and of negatives
    sentence: str  # whether it is told from the best known method
    is_told_apart: bool  # from the best of the known, for better or worse
    best_known: str  # its name
    file: Path  # discovered.toml, for `likewise train` and `--methods`
    picture: Path  # its weights beside those of the known methods, as they were tuned
    results: ComparisonResults


@checked_arguments
def discover(
    data: str | Path | Dataset,
    *,
    against: Sequence[str | Path | Method] = KNOWN,
    trials: int = TRIALS,
    folds: int = FOLDS,
    seeds: int = SEEDS,
    protocol: str | Path | Protocol | None = None,
    settings: Mapping[str, Any] | None = None,
    weights: str | Path | None = None,
    jobs: int | None = None,
    out: str | Path | None = None,
    device: str = "auto",
    minutes: float | None = None,
    command: str | None = None,
    on_progress: OnProgress = lambda progress: None,
    on_preparing: ProgressCallback | None = None,
) -> Discovery:
    """Searches a loss for this data among those that the unified view gives: shapes, thresholds, relative and absolute parts of weights.

    It is a comparison in which the family (`likewise.losses.weight_family`) is a method like the others: `trials` sets of values of
    every setting are tried for each of them, on the same folds of the training classes; then `seeds` trainings of each with the values that
    did best, and one look at the test classes. So what was found has had no more tries than what it is held against.

    against: the known methods.  The other arguments are those of `likewise.compare`, and so is the folder: it goes on where it was
    stopped, and has the report of them all besides discovered.toml and a picture of the weights.
    """
    known = [load_method(method) for method in against]
    if not known:
        raise ValueError("against=(): give at least one known method, such as raw_vthm")
    request = Request(
        methods=[FILE_OF_FAMILY, *known],
        data=data,
        protocol=protocol,
        settings=settings or {},
        tune="all",
        trials=trials,
        folds=folds,
        seeds=seeds,
        weights=weights,
        jobs=jobs,
        out=out,
        device=device,
        minutes=minutes,
        command=command,
    )
    if out is None:
        request = replace(request, out=_folder_of(request))
    results = compare_and_report(request, on_progress=on_progress, on_preparing=on_preparing)
    return discovery_of(results)


def discovery_of(results: ComparisonResults) -> Discovery:
    """What a finished comparison with the family in it found; writes the method file and the picture into its folder."""
    assert results.folder is not None
    board = results.boards[0]
    tuned = {entry.name: entry for entry in board.methods if entry.is_trained}
    if FAMILY not in tuned:
        raise ValueError(f"{results.folder}: the family was not scored: {_why_not(results)}")
    used = {method.name: method for method in results.used}
    methods = {name: with_settings(used[name], entry.settings) for name, entry in tuned.items()}
    known = [entry for entry in board.methods if entry.name in tuned and entry.name != FAMILY]
    if not known:
        raise ValueError(f"{results.folder}: no known method was scored: {_why_not(results)}")
    rival, own = known[0], tuned[FAMILY]
    found = replace(methods[FAMILY], title="Discovered weights", paper="your own", summary=f"found on {board.dataset} by likewise discover")
    loss = found.make_loss()
    assert isinstance(loss, WeightFamily)
    formula = formula_of(loss)
    sentence, is_told_apart = _judgement(own, rival, leading=board.leading, names_winner=results.names_winner)
    about = "\n".join(("Found by likewise discover", *formula, sentence))
    write_whole(results.folder / FILE, method_file(found, about=about).encode())
    curves: dict[str, PairCurves | str] = {name: pair_curves(method) for name, method in methods.items()}
    titles = {name: "discovered" if name == FAMILY else method.title for name, method in methods.items()}
    picture = results.folder / "plots" / PICTURE
    write_picture(weight_charts(curves, titles), picture, lines={}, titles=titles, legend=False)
    file = results.folder / FILE
    return Discovery(found, formula, sentence, is_told_apart, rival.name, file, picture.with_suffix(".png"), results)


def _judgement(own: MethodResult, rival: MethodResult, *, leading: str, names_winner: bool) -> tuple[str, bool]:
    """Whether the family is told from the best of the known by the verdict on all of them."""
    gain = 100 * (own.scores[leading].mean - rival.scores[leading].mean)
    by = f"{leading} {100 * own.scores[leading].mean:.1f} beside {100 * rival.scores[leading].mean:.1f}"
    if not names_winner:
        return f"{by} of {rival.title}: nothing was tuned, so that neither is called better", False
    ahead = own.standing in ("best", "leads")
    if ahead and rival.standing == "behind":
        return f"better than the best known method, {rival.title}: {by}, {gain:+.1f} points, more than noise", True
    if own.standing == "behind" and rival.standing in ("best", "leads"):
        return f"worse than the best known method, {rival.title}: {by}, {gain:+.1f} points, more than noise", True
    return f"not told from the best known method, {rival.title}: {by}, {gain:+.1f} points, within noise", False


def _why_not(results: ComparisonResults) -> str:
    return "; ".join(left.why for left in results.left_out) or "; ".join(results.notes) or "see its report"


def _folder_of(request: Request) -> Path:
    """runs/discover-..., as a comparison's folder is named by default."""
    datasets, _ = read_datasets(request.data)
    suited, _ = with_suited_protocol(request, datasets)
    named = default_folder(suited, datasets)
    return named.with_name(named.name.replace("compare-", "discover-", 1))
