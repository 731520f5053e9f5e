"""The rows that nothing is trained for: what they are, that no seed counts twice, and that they win where training does not pay."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import likewise
from likewise.comparison.baselines import AS_THEY_ARE, BASELINES, INITIALISED, WHITENED, baselines, competes, is_baseline
from likewise.comparison.plan import why_apart
from likewise.comparison.request import methods_of
from likewise.comparison.results import ComparisonResults
from likewise.comparison.statistics import estimates, judged
from likewise.data.dataset import Dataset, Features
from likewise.data.splits import SPLIT_SEED, split
from likewise.evaluation.retrieval import per_query
from likewise.methods import load_method
from likewise.reports.sentences import command_to_go_on, gain_in_words, headline, noise_in_words, power_in_words
from likewise.terminal.commands.comparison_command import closing_lines

from .test_plan import Simulation, plan_of
from .test_results import result, results_of
from .test_statistics import drawn_runs
from .tiny import tiny_compare, tiny_protocol

METHODS = ("contrastive", "proxy_nca")


def of_vectors(*, noise: float, classes: int = 32, images: int = 8, dim: int = 12) -> Dataset:
    """Classes about their centres; besides, all items vary far more in two directions that say nothing of the class."""
    random = np.random.default_rng(3)
    rows = random.normal(size=(classes, dim)).repeat(images, axis=0) + 0.3 * random.normal(size=(classes * images, dim))
    rows[:, :2] += noise * random.normal(size=(len(rows), 2))
    return Dataset("mine", Features(rows.astype(np.float32)), np.arange(classes).repeat(images), tuple(map(str, range(classes))))


def test_what_a_comparison_starts_from_decides_its_baselines() -> None:
    assert baselines(has_features=False) == (INITIALISED,)
    assert baselines(has_features=True) == (WHITENED, AS_THEY_ARE)
    assert {method.name for method in (INITIALISED, AS_THEY_ARE, WHITENED)} == set(BASELINES)
    assert [competes(method) for method in (INITIALISED, AS_THEY_ARE, WHITENED, load_method("raw"))] == [False, True, True, False]
    assert [is_baseline(method) for method in (INITIALISED, AS_THEY_ARE, WHITENED, load_method("raw"))] == [True, True, True, False]
    protocol = tiny_protocol()
    assert why_apart(INITIALISED, protocol, protocol.dim) == "no training"
    assert why_apart(AS_THEY_ARE, protocol, 1280) == why_apart(WHITENED, protocol, 1280) == ""
    for name in BASELINES:
        with pytest.raises(ValueError, match=f"'{name}'.*which a comparison has of itself"):
            methods_of(replace(load_method("raw"), name=name), "quick")


def test_what_no_seed_changes_is_done_once_and_added_to_by_nothing() -> None:
    plan = plan_of(seeds=3, sweeps={"dim": (4, 16), "batch": (8,)})
    plan = replace(plan, methods=(*plan.compared, *baselines(has_features=True)))
    simulation = Simulation(plan)
    simulation.run()
    finals = [piece for piece in simulation.progress.final_pieces() if piece.method in BASELINES]
    assert [(piece.method, piece.number, piece.point) for piece in finals] == [("whitening", 0, ""), ("untrained", 0, "")]
    asked = replace(plan, methods=(load_method("margin"), *plan.methods), seeds=5, sets=plan.sets | {"margin": plan.sets["contrastive"]})
    grown = plan.extended(asked, time="2026-11-16", command="", looked=1)
    assert [method.name for method in grown.methods] == ["contrastive", "raw_vthm", "margin", "whitening", "untrained"]
    assert [method.name for method in grown.compared] == ["contrastive", "raw_vthm", "margin"]
    more = Simulation(grown)
    more.claims = dict(simulation.claims)
    assert not [piece for found in more.run() for piece in found if piece.method in BASELINES]
    assert more.progress.is_complete


def test_the_verdict_knows_that_they_have_no_seeds() -> None:
    """By hand: one row of a method that is named as seedless. So a lead over it is told, and one seed of it lacks nothing."""
    runs = drawn_runs({"best": 0.0, "worse": -0.1, "whitening": -0.05})
    runs["whitening"] = runs["whitening"][:1]
    methods = [replace(result(name, 0.5), seedless=name == "whitening") for name in runs]
    found, judgement = judged(methods, runs)
    tables = {name: [[float(run.scores["MAP@R"][run.labels == k].mean()) for k in range(30)] for run in runs[name]] for name in runs}
    by_hand = likewise.verdict(tables, weights=[4] * 30, seedless=["whitening"])
    assert judgement is not None
    assert judgement.differences == {name: pytest.approx(limits) for name, limits in by_hand.differences.items()}
    assert not judgement.lacking
    assert (judgement.fewest_seeds, judgement.num_seeds["whitening"]) == (3, 1)
    assert [method.standing for method in found] == ["best", "behind", "behind"]
    alone, judgement = judged(methods[-1:], runs)
    assert judgement is not None
    assert judgement.fewest_seeds == 0
    board = replace(results_of(*alone), verdicts={("glyphs", ""): judgement}).board("glyphs")
    assert power_in_words(board) == command_to_go_on(replace(results_of(*alone), folder=Path("x")), board) == ""


def test_a_score_without_seeds_lacks_no_seeds() -> None:
    random = torch.Generator().manual_seed(0)
    queries = per_query(torch.randn(40, 4, generator=random), torch.arange(8).repeat(5), metrics=("MAP@R",))
    means = {"MAP@R": float(queries.scores["MAP@R"].mean()), "NMI": 0.5}
    found, seeded = (estimates([means], [queries], seedless=seedless) for seedless in (True, False))
    assert (found["MAP@R"].lacking, seeded["MAP@R"].lacking) == ("", "seeds")
    assert (found["MAP@R"].low, found["MAP@R"].high) == (seeded["MAP@R"].low, seeded["MAP@R"].high)
    assert found["NMI"].low is None


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def harmful(tmp_path_factory: pytest.TempPathFactory) -> tuple[Dataset, ComparisonResults]:
    """A comparison of MLPs that forget in three steps what the vectors told."""
    data = of_vectors(noise=1.0)
    settings = {"steps": 3, "batch": 16, "dim": 8}
    out = tmp_path_factory.mktemp("harmful") / "out"
    return data, tiny_compare(out, data=data, methods=METHODS, protocol="features", settings=settings, trials=2, report=True)


def test_vectors_as_they_are_and_whitened_are_scored_as_by_hand(harmful: tuple[Dataset, ComparisonResults]) -> None:
    data, results = harmful
    rows = {method.name: method for method in results.methods}
    assert list(rows) == [*METHODS, "whitening", "untrained"]
    assert (rows["untrained"].title, rows["whitening"].title) == ("No training (12-d)", "Whitening (12-d)")
    assert isinstance(data.items, Features)
    parts = split(data, seed=SPLIT_SEED)
    test = np.setdiff1d(np.arange(len(data)), parts.train)
    vectors, labels = data.items.array, data.labels
    whitening = likewise.whiten(vectors[parts.train], labels[parts.train], shrinkage="auto")
    for name, embedded in (("untrained", vectors[test]), ("whitening", whitening(vectors[test]))):
        expected = likewise.evaluate(embedded, labels[test], ks=(1, 2, 4, 8))
        assert {score: rows[name].scores[score].mean for score in ("R@1", "MAP@R", "RP")} == pytest.approx(
            {score: expected[score] for score in ("R@1", "MAP@R", "RP")}, abs=1e-6
        )
        assert len(rows[name].scores["MAP@R"].values) == 1
        assert rows[name].seedless
        assert rows[name].apart == ""
    assert all(len(rows[name].scores["MAP@R"].values) == 2 for name in METHODS)
    assert results.verdicts["mine", ""].num_seeds == {"contrastive": 2, "proxy_nca": 2, "whitening": 1, "untrained": 1}


def test_where_training_does_not_pay_that_is_said_and_nothing_worse_is_kept(harmful: tuple[Dataset, ComparisonResults]) -> None:
    data, results = harmful
    board = results.board("mine")
    assert board.best is board.winner is board.equal[0]
    assert board.best.name == "whitening"
    said = gain_in_words(board)
    assert said.startswith("Training does not pay here: nothing beats Whitening (12-d), for which nothing is trained. ")
    assert "the best that was trained, has" in said
    assert results.folder is not None
    assert results.report is not None
    for text in (
        results.report.read_text(),
        (results.folder / "leaderboard.md").read_text(),
        (results.folder / "leaderboard.tex").read_text(),
    ):
        assert "Training does not pay here" in text
    assert f"best: Whitening (12-d) on mine, in {results.folder / 'best'}; use it with" in closing_lines(results)
    model = likewise.Embedder.load(results.best["mine"])
    assert isinstance(data.items, Features)
    train = split(data, seed=SPLIT_SEED).train
    whitening = likewise.whiten(data.items.array[train], data.labels[train], shrinkage="auto")
    assert model.embed(data.items.array) == pytest.approx(whitening(data.items.array), abs=1e-5)


def test_whether_training_pays_in_words() -> None:
    def said(*rows: tuple[str, float, str], trials: int = 3) -> str:
        methods = [replace(result(name, score), standing=standing) for name, score, standing in rows]  # type: ignore[arg-type]
        return gain_in_words(replace(results_of(*methods), num_trials=trials).board("glyphs"))

    close = (("raw", 0.5, "leads"), ("whitening", 0.49, "within noise"), ("untrained", 0.4, "behind"))
    assert said(*close) == (
        "Whether training pays is not told: Raw gains 1.0 points over Whitening (within noise) and 10.0 points over Untrained, where "
        "nothing is trained."
    )
    told = (("raw", 0.5, "best"), ("whitening", 0.4, "behind"), ("untrained", 0.35, "behind"))
    assert (
        said(*told) == "Training pays here: Raw gains 10.0 points over Whitening and 15.0 points over Untrained, where nothing is trained."
    )
    assert said(*told, trials=0) == said(("raw", 0.5, "best"), ("margin", 0.4, "behind")) == ""


def test_no_noise_is_missed_in_words_that_is_not_missing(harmful: tuple[Dataset, ComparisonResults]) -> None:
    board = harmful[1].board("mine")
    assert "With one seed" not in noise_in_words(board)
    assert "Intervals of NMI and AMI hold the noise of seeds alone." in noise_in_words(board)
    assert headline(board).startswith("Whitening (12-d) ")
