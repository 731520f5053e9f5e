from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from likewise.comparison.tuning import grid_sets, search_space
from likewise.configuration import Named, Uniform, as_table, from_table, with_settings
from likewise.data.readers import READERS
from likewise.losses import LOSSES
from likewise.losses.loss import traits_of
from likewise.methods import FOLDER, METHODS, Ensemble, Method, at, load_method
from likewise.mining import All, ValidTriplet
from likewise.models.heads import HEADS
from likewise.objectives import Objective
from likewise.pair_weighting import pair_weights
from likewise.pairs import Pairs
from likewise.protocols import PROTOCOLS, Protocol, load_protocol
from likewise.training.devices import Devices
from likewise.training.feeds import Feed
from likewise.training.loop import Training
from likewise.training.method_objective import Objectives

from .file_opening import opening

ISSUE = {
    *("contrastive", "triplet_semihard", "lifted", "n_pairs", "structured_clustering", "spectral_clustering"),
    *("margin", "angular", "histogram", "prototypical", "proxy_triplet", "proxy_nca"),
    *("softmax", "proxy_softmax", "proxy_softmax_bits", "ranked_list", "ranked_list_multilevel", "dreml", "nonlinear_rank"),
    *("generalized_lifted", "binomial", "binomial_vthm", "vthm", "raw", "raw_vthm"),
    *("raw_distance_weighted", "raw_semihard", "multi_similarity", "proxy_anchor", "soft_triple", "arcface"),
    *("cosface", "circle", "supcon", "smooth_ap", "recall_at_k", "nca", "tuplet_margin", "pnp"),
    *("bier", "hdc", "htl", "pddm", "abe"),
}

CONDITIONS = replace(load_protocol("quick"), name="small", batch=64)
LABELS = np.repeat(np.arange(24), 10)
DIM = 24


def test_every_method_of_the_papers_is_there() -> None:
    assert set(METHODS) == ISSUE


@pytest.mark.parametrize("name", METHODS)
def test_reads_back(name: str) -> None:
    method = load_method(name)
    assert method.name == name
    assert from_table(Method, as_table(method), where=name) == method


@pytest.mark.parametrize("name", METHODS)
def test_opens_with_paper_figures_and_command(name: str) -> None:
    text = opening(FOLDER / f"{name}.toml")
    assert re.search(r"\bPaper: \w", text)
    assert re.search(r"\bPublished( R@1)?: \w", text)
    command = re.search(r"Command: likewise train (\S+) (\w+):PATH --protocol (\S+) .*--out RUN$", text)
    assert command is not None
    assert command[1] == name
    assert command[2] in READERS
    assert command[3] in PROTOCOLS


@pytest.mark.parametrize("name", METHODS)
def test_figures_in_the_opening_are_those_of_the_table(name: str) -> None:
    method, text = load_method(name), opening(FOLDER / f"{name}.toml")
    for protocol, scores in method.published.items():
        assert 0 < scores["R@1"] < 100
        assert f" {scores['R@1']:g}" in text, protocol
        ranks = {int(score.removeprefix("R@")): value for score, value in scores.items() if score.startswith("R@")}
        assert list(ranks) == sorted(ranks)
        assert list(ranks.values()) == sorted(ranks.values()), f"{protocol}: recall grows with K"
        assert set(ranks) <= set(load_protocol(protocol).ks), f"{protocol} does not score what is compared with"


@pytest.mark.parametrize("name", METHODS)
def test_published_and_under_name_protocols(name: str) -> None:
    method = load_method(name)
    assert set(method.published) <= set(PROTOCOLS)
    assert set(method.under) <= set(PROTOCOLS)


@pytest.mark.parametrize("name", METHODS)
def test_own_values_lie_within_what_tuning_may_try(name: str) -> None:
    """Under every protocol, and not at an edge, beyond which tuning could not tell."""
    method = load_method(name)
    for protocol in ("", *method.under):
        own = method.for_protocol(protocol)
        for setting, space in own.search.items():
            value = at(own, setting)
            if value is None:
                continue  # what the protocol's paper does without is not tuned there
            if isinstance(space, Uniform):
                assert space.low < value < space.high, (protocol, setting)
                assert space.low > 0 or not space.log
            elif isinstance(value, bool):
                assert set(space.choices) == {True, False}
            else:
                assert min(space.choices) < value < max(space.choices), (protocol, setting)


GRIDS = {
    *("triplet_semihard", "lifted", "n_pairs", "structured_clustering", "margin", "angular", "prototypical"),
    *("proxy_triplet", "proxy_nca", "proxy_softmax", "proxy_softmax_bits", "ranked_list", "dreml"),
}


@pytest.mark.parametrize("name", METHODS)
def test_the_twelve_of_the_unbiased_evaluation_have_grids(name: str) -> None:
    """Of a few values each, their own and those under the paper's protocols among them."""
    method = load_method(name)
    assert bool(method.grid) == (name in GRIDS)
    for protocol in ("", "quick", "paper-unbiased-cub", "paper-unbiased-cars", "paper-unbiased-sop"):
        own = method.for_protocol(protocol)
        for setting, values in own.grid.items():
            assert at(own, setting) in values, (protocol, setting)
            assert 2 <= len(set(values)) == len(values) <= 4
            assert list(values) == sorted(values) or isinstance(values[0], bool)
        assert len(grid_sets(own)) <= 12


@pytest.mark.parametrize("name", METHODS)
def test_tuning_has_images_a_class_and_scale(name: str) -> None:
    """Rates are common to all; a method's own are how many images of a class it draws and how its similarities are scaled."""
    method = load_method(name)
    assert 1 <= len(method.search) <= 5
    if method.sampler.name == "group":
        assert "sampler.num_images" in method.search
    if method.norm is not None:
        assert "norm" in method.search
    for scale in ("temperature", "scale", "margin", "threshold"):
        if scale in method.loss.settings:
            assert f"loss.{scale}" in method.search
    if traits_of(method.make_loss(num_classes=3)).meets == "proxies":
        assert "rates.proxies" in method.search


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_whatever_tuning_may_try_matters(name: str) -> None:
    """Two steps with one value and with another end in different weights."""
    method = replace(load_method(name), ensemble=Ensemble(members=min(2, load_method(name).ensemble.members), meta_classes=6))
    method = method if load_method(name).ensemble.meta_classes else replace(method, ensemble=Ensemble())
    assert search_space(method) == method.search
    for setting, space in method.search.items():
        ends = (space.low, space.high) if isinstance(space, Uniform) else (space.choices[0], space.choices[-1])
        first, second = (trained(with_settings(method, {setting: value})) for value in ends)
        assert any(
            not torch.equal(weight, second[part])
            for part, weight in first.items()
            if part in second and weight.shape == second[part].shape  # more centres have more proxies
        ), setting


def trained(method: Method) -> dict[str, Tensor]:
    """Weights and proxies after two steps on vectors."""
    dim = max(8, 4 * method.head.learners)  # a learner of one dimension knows only two directions
    protocol = replace(CONDITIONS, backbone="mlp", dim=dim, steps=2, batch=32, schedule="constant")
    vectors = torch.randn(len(LABELS), 6, generator=torch.Generator().manual_seed(0)) + torch.from_numpy(LABELS)[:, None] % 5
    feed = Feed(vectors, LABELS, np.arange(len(LABELS)))
    training = Training(
        replace(method, head=replace(method.head, levels=("high",))), protocol, feed, seed=0, devices=Devices(protocol, device="cpu")
    )
    training.run()
    return training.network.state_dict() | {f"objectives.{part}": held for part, held in training.objectives.state_dict().items()}


def test_rates_are_not_a_methods_own_to_search() -> None:
    with pytest.raises(ValueError, match=r"raw: 'rates.base' in \[search\]: every method tries the same values of it"):
        replace(load_method("raw"), search={"rates.base": Uniform(0.3, 3.0, log=True)})


@pytest.mark.parametrize("name", METHODS)
def test_learns_from_a_batch_of_its_sampler(name: str) -> None:
    method = load_method(name)
    labels, embeddings = batch_of(method)
    loss = objective_of(method)(0, (embeddings,) * len(method.head.levels), labels, torch.arange(len(labels)))
    loss.backward()
    assert loss.isfinite()
    assert embeddings.grad is not None
    assert embeddings.grad.isfinite().all()
    assert embeddings.grad.abs().max() > 1e-6


@pytest.mark.parametrize("name", METHODS)
def test_has_its_papers_settings_under_their_protocols(name: str) -> None:
    method = load_method(name)
    for protocol in method.under:
        paper = method.for_protocol(protocol)
        assert paper.under == {}
        assert replace(paper, under=method.under) != method, f"{protocol} changes nothing"
        objective_of(paper)
        conditions = load_protocol(protocol)
        classes = np.repeat(np.arange(conditions.batch), 12)
        assert 0.8 * conditions.batch < paper.make_sampler(classes, conditions.batch).batch_size <= conditions.batch


def test_nothing_is_both_compared_and_equal() -> None:
    assert {entry.name for entry in fields(Method)} & {entry.name for entry in fields(Protocol)} == {"name"}


def test_every_loss_of_the_papers_is_some_method_s() -> None:
    assert set(LOSSES) - {load_method(name).loss.name for name in METHODS} == {
        "contrastive_distance",
        "nt_xent",
        "fast_ap",
        "weight_family",
        "intra_pair_variance",
    }


def test_heads_are_the_models() -> None:
    assert {load_method(name).head.kind for name in METHODS} <= set(HEADS)


def test_vthm_weighs_all_mined_pairs_of_a_row_alike() -> None:
    """All mined positives of a row have one weight, all its mined negatives one, and both sets sum to the same (to 2 %)."""
    method = load_method("vthm")
    labels, embeddings = batch_of(method)
    objective = objective_of(method).of_level[0][0]
    assert isinstance(objective, Objective)
    weights = pair_weights(objective, embeddings.detach(), labels)
    assert 0 < (weights != 0).sum() < weights.numel() - len(labels)  # some pairs are left out
    for row, label in zip(weights, labels, strict=True):
        sides = [row[(labels == label) == same] for same in (True, False)]
        pull, push = (side[side != 0] for side in sides)
        if len(pull) and len(push):
            torch.testing.assert_close(pull, pull.mean().expand_as(pull), rtol=0.02, atol=0)
            torch.testing.assert_close(push, push.mean().expand_as(push), rtol=0.02, atol=0)
            torch.testing.assert_close(pull.sum(), push.sum(), rtol=0.02, atol=0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"loss.margn": 0.1}, "unknown setting of raw 'margn': known are alpha, beta, threshold"),
        ({"loss.betta": 0.1}, "unknown setting of raw 'betta': did you mean 'beta'?"),
        ({"loss.name": "raww"}, "unknown loss 'raww': did you mean 'raw'?"),
        ({"mining.name": "vhtm"}, "unknown miner 'vhtm': did you mean 'vthm'?"),
        ({"sampler.name": "groups"}, "unknown sampler 'groups': did you mean 'group'?"),
        ({"sampler.num_classes": 4}, "unknown setting of the group sampler 'num_classes'"),
        ({"head.kind": "liner"}, "head.kind is 'liner': expected one of 'linear', 'layer_norm', 'mlp', 'rll', 'none'"),
        ({"rates.heads": 1}, "unknown setting 'heads': did you mean 'head'?"),
        ({"norm": 2.0, "normalize": True}, "norm=2.0 must be above 0, and excludes normalize=true"),
        ({"batch": 12}, "unknown setting 'batch'"),
    ],
)
def test_what_does_not_fit_is_named(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        with_settings(load_method("raw_vthm"), changes)


def test_names_that_do_not_exist() -> None:
    with pytest.raises(ValueError, match=r"unknown method 'raw_vhtm': did you mean 'raw_vthm'\?"):
        load_method("raw_vhtm")
    with pytest.raises(ValueError, match=r"there is no method file mine\.toml: give the path"):
        load_method("mine.toml")


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('title = "Mine"\npaper = "none"\nsummary = "mine"\n[loss]\nname = "raw"\nalpha = 3.0\n')
    mine = load_method(tmp_path / "mine.toml")
    assert (mine.name, mine.loss.settings, mine.sampler.settings) == ("mine", {"alpha": 3.0}, {"num_images": 4})
    (tmp_path / "wrong.toml").write_text('title = "Mine"\nsumary = "mine"\n')
    with pytest.raises(ValueError, match=r"unknown key of method file wrong\.toml 'sumary': did you mean 'summary'\?"):
        load_method(tmp_path / "wrong.toml")


def test_lists_of_a_file_are_tuples_of_the_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    """TOML has no tuples, and a frozen loss must be hashable."""

    @dataclass(frozen=True)
    class Several:
        steps: tuple[int, ...] = (1,)

        def per_anchor(self, pairs: Pairs) -> Tensor:
            return pairs.similarity.sum(-1)

    monkeypatch.setitem(LOSSES, "several", Several)
    method = replace(load_method("raw"), loss=Named("several", {"steps": [2, 3]}))
    assert method.make_loss() == Several(steps=(2, 3))


def test_a_loss_has_parameters_of_each_class_where_it_can() -> None:
    margin = load_method("margin")
    for method in (margin, with_settings(margin, {"loss.num_classes": 3})):  # the data's classes, not the method's
        assert method.make_loss(num_classes=5).boundary.shape == (5,)
    assert load_method("raw").make_loss(num_classes=5) == load_method("raw").make_loss()


def test_the_miner_has_the_settings_of_the_file() -> None:
    assert load_method("raw").make_miner() == All()
    changed = with_settings(load_method("raw_vthm"), {"mining.margin": 0.25})
    assert changed.make_miner() == ValidTriplet(margin=0.25)


def test_a_sampler_that_cannot_be_is_said_with_the_method() -> None:
    with pytest.raises(ValueError, match=r"^raw: batch=7: a batch of 7 images is too small for two classes x 4 images"):
        load_method("raw").make_sampler(LABELS, 7)


def objective_of(method: Method) -> Objectives:
    return Objectives(method, num_classes=24, dim=DIM, steps=10, seed=0, gather=False)


def batch_of(method: Method) -> tuple[torch.Tensor, torch.Tensor]:
    """The labels of a batch, and embeddings of about the length that untrained networks give."""
    sampler = method.make_sampler(LABELS, CONDITIONS.batch)
    labels = torch.from_numpy(LABELS[next(iter(sampler))])
    embeddings = 3 * torch.randn(len(labels), DIM, generator=torch.Generator().manual_seed(0))
    return labels, embeddings.requires_grad_()
