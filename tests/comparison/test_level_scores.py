"""Levels of one training, scored one by one: against embedding each combination by hand, and scikit-learn's nearest neighbours."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from sklearn.neighbors import NearestNeighbors

from likewise.comparison.level_scores import joined_queries, level_name, queries_of
from likewise.comparison.results import ComparisonResults
from likewise.comparison.running.workshop import load_network
from likewise.data.readers import read
from likewise.data.splits import SPLIT_SEED, split
from likewise.evaluation.retrieval import PerQuery
from likewise.evaluation.scores import score
from likewise.models.network import Network
from likewise.training.feeds import embedder_of

from .tiny import DATA, tiny_compare, tiny_protocol

LEVELS = ("low", "mid", "high")
METHOD = "ranked_list_multilevel"
ALL = [chosen for count in (1, 2, 3) for chosen in combinations(LEVELS, count)]


def by_hand(network: Network, images: Any, levels: tuple[str, ...]) -> npt.NDArray[np.float32]:
    """The un-normalised outputs of these heads, concatenated, then of length 1."""
    member = network.members[0].eval()
    with torch.no_grad():
        features = member.backbone(images, LEVELS)  # type: ignore[operator]
        parts = [member.heads[level](features[LEVELS.index(level)]) for level in levels]  # type: ignore[index]
    rows = torch.cat(parts, dim=1).numpy()
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def recall_at_1(rows: npt.NDArray[np.float32], labels: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    found = NearestNeighbors(n_neighbors=2).fit(rows).kneighbors(rows, return_distance=False)
    nearest = np.where(found[:, 0] == np.arange(len(rows)), found[:, 1], found[:, 0])
    return (labels[nearest] == labels).astype(np.float64)


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> ComparisonResults:
    changes = {"methods": (METHOD, "contrastive"), "protocol": tiny_protocol(trials=0), "levels": True, "keep_networks": True}
    return tiny_compare(tmp_path_factory.mktemp("levels") / "out", **changes)


def test_every_combination_is_scored_as_if_embedded_by_hand(compared: ComparisonResults) -> None:
    dataset = read(DATA)
    test = np.setdiff1d(np.arange(len(dataset)), split(dataset, seed=SPLIT_SEED).train)
    assert compared.folder is not None
    of_method = {result.levels: result for result in compared.methods if result.name.startswith(METHOD)}
    assert [*of_method] == [(), *ALL[:-1]]
    for seed in range(2):
        (path,) = (compared.folder / "networks").glob(f"*{METHOD}-{seed}-*.safetensors")
        network = load_network(path)
        embedder = embedder_of(network, tiny_protocol(), dataset, weights=None, card={})
        (images,) = embedder._inputs(dataset.subset(test), 1000, None)
        for levels in ALL:
            result = of_method[() if levels == LEVELS else levels]
            rows = by_hand(network, images, levels)
            assert result.dim == rows.shape[1] == 8 * len(levels)
            expected = recall_at_1(rows, dataset.labels[test])
            assert result.scores["R@1"].values[seed] == pytest.approx(expected.mean(), abs=1.5 / len(expected))  # a near tie may fall
            torch.testing.assert_close(torch.from_numpy(embedder.embed_levels(dataset.subset(test))[levels]), torch.from_numpy(rows))
    assert len({result.scores["MAP@R"].mean for result in of_method.values()}) > 4


def test_levels_share_a_training_and_stand_apart(compared: ComparisonResults) -> None:
    rows = {result.name: result for result in compared.methods}
    whole, some = rows[METHOD], rows[f"{METHOD} [low+mid]"]
    assert level_name(METHOD, ("low", "mid")) == some.name
    assert some.title == f"low+mid of {whole.title}"
    assert some.seconds == whole.seconds
    assert some.apart == "low and mid alone, 16 dimensions"
    assert (some.curves, some.trials, some.embeddings) == ((), (), None)
    assert not any(result.levels for result in compared.methods if result.name in ("contrastive", "untrained"))
    winner = compared.board(compared.datasets[0]).winner
    assert winner is not None
    assert not winner.levels
    assert some.scores["MAP@R"].low is not None


def test_the_verdict_within_a_training(compared: ComparisonResults) -> None:
    assert [*compared.level_verdicts] == [(compared.datasets[0], "", METHOD)]
    (found,) = compared.level_verdicts.values()
    means = {result.name: result.scores["MAP@R"].mean for result in compared.methods if result.name.startswith(METHOD)}
    assert found.means == pytest.approx(means)
    assert found.best == max(means, key=lambda name: means[name])
    assert set(found.num_seeds.values()) == {2}


def test_a_comparison_without_levels_has_the_same_scores(compared: ComparisonResults, tmp_path: Path) -> None:
    plain = tiny_compare(tmp_path / "out", methods=(METHOD, "contrastive"), protocol=tiny_protocol(trials=0))
    kept = [result for result in compared.methods if not result.levels]
    assert [result.scores for result in plain.methods] == [result.scores for result in kept]
    assert not plain.level_verdicts
    with pytest.raises(ValueError, match="levels is False there and True here"):
        tiny_compare(tmp_path / "out", methods=(METHOD, "contrastive"), protocol=tiny_protocol(trials=0), levels=True)


def test_the_queries_of_each_combination_are_kept_apart() -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(6), 4)
    tables = {levels: score(torch.from_numpy(rng.normal(size=(24, 3))), labels, metrics=("R@K", "MAP@R")) for levels in ALL}
    joined = joined_queries(tables[LEVELS], {levels: tables[levels] for levels in ALL[:-1]})  # type: ignore[index, misc]
    stored = PerQuery.from_bytes(joined.to_bytes())
    for levels, scores in tables.items():
        found = queries_of(stored, () if levels == LEVELS else levels)  # type: ignore[arg-type]
        assert scores.per_query is not None
        assert [*found.scores] == [*scores.per_query.scores]
        for name, values in scores.per_query.scores.items():
            assert torch.equal(found.scores[name], values)
