"""What an objective is given is looked at, and what is wrong is named with what to do about it."""

from __future__ import annotations

import re

import pytest
import torch
from torch import Tensor, nn

import likewise
from likewise.mining import ValidTriplet

from .cases import DIM, PART_LOSSES, PROXY_LOSSES, make
from .losses.oracles import batch

X, LABELS = batch("unbalanced", 0)


def with_entry(row: int, value: float) -> Tensor:
    x = X.clone()
    x[row, 3] = value
    return x


# Making one


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"loss": "tripplet"}, "unknown loss 'tripplet': did you mean 'triplet'?"),
        ({"loss": "rankedlist"}, "unknown loss 'rankedlist': did you mean 'ranked_list'?"),
        ({"loss": "zzz"}, "unknown loss 'zzz': known are angular, arcface"),
        ({"loss": "raw", "mining": "vhtm"}, "unknown miner 'vhtm': did you mean 'vthm'?"),
        ({"loss": "raw", "mining": "semi_hard"}, "unknown miner 'semi_hard': did you mean 'semihard'?"),
        ({"loss": "raw", "tresholds": 0.3}, "unknown setting of raw 'tresholds': did you mean 'threshold'?"),
        ({"loss": "margin", "beta": 1.2}, "unknown setting of margin 'beta'"),
        ({"loss": ValidTriplet()}, "is no loss: give a name in likewise.LOSSES or an object with per_anchor"),
        ({"loss": likewise.LOSSES["raw"]}, "is no loss"),
        ({"loss": None}, "loss is None: expected text or"),
        ({"loss": likewise.LOSSES["raw"](), "alpha": 3.0}, "settings ['alpha'] belong to a loss given by name"),
        ({"loss": "raw", "block": 0}, "block=0 must be a positive number of rows, 'auto' or None"),
        ({"loss": "raw", "block": -3}, "block=-3 must be"),
        ({"loss": "raw", "block": 2.5}, "block is 2.5: expected a whole number"),
        ({"loss": "raw", "block": "all"}, "block='all' must be"),
        ({"loss": "raw", "compile": "yes"}, "compile='yes' must be True, False or 'auto'"),
        ({"loss": "proxy_nca"}, "ProxyNCA owns proxies: give num_classes= and dim=, not None and None"),
        ({"loss": "proxy_nca", "num_classes": 4}, "not 4 and None"),
        ({"loss": "arcface", "num_classes": 0, "dim": 4}, "not 0 and 4"),
        ({"loss": "soft_triple", "num_classes": 4, "dim": 0}, "not 4 and 0"),
        ({"loss": "raw", "memory": 10}, "a memory needs its size and the embeddings' dimension: give memory= and dim=, not 10 and None"),
        ({"loss": "raw", "memory": 0, "dim": 4}, "not 0 and 4"),
        ({"loss": "proxy_nca", "num_classes": 4, "dim": 4, "memory": 5}, "ProxyNCA does not compare embeddings with other embeddings"),
        ({"loss": "prototypical", "dim": 4, "memory": 5}, "it cannot use a memory"),
        ({"loss": "structured_clustering", "dim": 4, "memory": 5}, "it cannot use a memory"),
        ({"loss": "spectral_clustering", "dim": 4, "memory": 5}, "it cannot use a memory"),
        (
            {"loss": "structured_clustering", "mining": "vthm"},
            "StructuredClustering is a loss of the whole batch, not of pairs: leave mining",
        ),
        ({"loss": "spectral_clustering", "mining": ValidTriplet()}, "leave mining out"),
        ({"loss": "triplet", "select": "semi"}, "triplet select='semi' is unknown: use 'all', 'semihard' or 'hard'"),
        ({"loss": "recall_at_k", "ks": ()}, "recall_at_k ks=() must be one or more positive numbers"),
        ({"loss": "recall_at_k", "ks": (0, 2)}, "ks=(0, 2) must be"),
        ({"loss": "prototypical", "num_support": 0}, "prototypical num_support=0 leaves classes without a mean"),
        ({"loss": "histogram", "bins": 1}, "histogram bins=1 cannot hold a distribution"),
    ],
    ids=str,
)
def test_what_cannot_be_made(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        likewise.objective(**arguments)


def test_by_name_by_object_and_by_class_of_settings() -> None:
    by_name = likewise.objective("raw", alpha=3.0, mining="vthm")
    by_object = likewise.objective(likewise.LOSSES["raw"](alpha=3.0), mining=ValidTriplet())
    assert by_name.loss == by_object.loss
    assert torch.equal(by_name(X, LABELS), by_object(X, LABELS))
    assert not torch.equal(by_name(X, LABELS), likewise.objective("raw", mining="vthm")(X, LABELS))
    assert not torch.equal(by_name(X, LABELS), likewise.objective("raw", alpha=3.0)(X, LABELS))


def test_it_is_a_module() -> None:
    objective = likewise.objective("margin", num_classes=6)
    assert [name for name, _ in objective.named_parameters()] == ["loss.boundary"]
    assert objective.loss.boundary.shape == (6,)
    assert next(likewise.objective("margin").parameters()).shape == (1,)
    assert isinstance(objective, nn.Module)
    assert "margin" in repr(likewise.objective("triplet")).lower()
    copy = likewise.objective("margin", num_classes=6, boundary=0.3)
    copy.load_state_dict(objective.state_dict())
    assert torch.equal(copy(X, LABELS), objective(X, LABELS))


@pytest.mark.parametrize("name", likewise.LOSSES)
def test_normalize_overrides_the_loss(name: str) -> None:
    objective = make(name)
    default = objective.normalize
    assert default == (name not in {"n_pair", "prototypical", "softmax"})
    if objective.proxies is None and name not in {"histogram", "fast_ap", *PART_LOSSES}:  # whose vectors, or parts, have length 1
        other = likewise.objective(name, normalize=not default, dim=DIM).double()
        assert other.normalize is not default
        assert not torch.isclose(other(3 * X, LABELS), objective(3 * X, LABELS))


# Calling one


@pytest.mark.parametrize(
    ("embeddings", "labels", "words"),
    [
        (X.tolist(), LABELS, "embeddings must be a tensor, not list"),
        (X, LABELS.tolist(), "labels must be a tensor, not list: torch.as_tensor makes one"),
        (X[0], LABELS, "embeddings must be a float tensor (items, dimensions), not torch.float64 (8,)"),
        (X[None], LABELS, "not torch.float64 (1, 14, 8)"),
        (X.long(), LABELS, "not torch.int64 (14, 8)"),
        (X[:0], LABELS[:0], "not torch.float64 (0, 8)"),
        (X[:, :0], LABELS, "not torch.float64 (14, 0)"),
        (X, LABELS.double(), "labels must be an integer tensor (items,), not torch.float64 (14,)"),
        (X, LABELS > 2, "labels must be an integer tensor (items,), not torch.bool (14,)"),
        (X, LABELS[:, None], "not torch.int64 (14, 1)"),
        (X, LABELS[:-1], "14 embeddings but 13 labels: every item needs one label"),
        (with_entry(3, torch.nan), LABELS, "embeddings hold NaN or infinity in 1 of 14 rows (3)"),
        (with_entry(13, torch.inf), LABELS, "in 1 of 14 rows (13)"),
        (with_entry(0, -torch.inf).float(), LABELS, "in 1 of 14 rows (0)"),
        (torch.full_like(X, torch.nan), LABELS, "in 14 of 14 rows (0, 1, 2, 3, 4, ...)"),
        (with_entry(5, torch.nan).half(), LABELS, "rows (5)"),
    ],
)
@pytest.mark.parametrize("name", ["raw", "spectral_clustering", "prototypical"])
def test_what_is_no_batch(name: str, embeddings: object, labels: object, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        likewise.objective(name)(embeddings, labels)


def test_infinities_of_both_signs_are_found() -> None:
    x = with_entry(2, torch.inf)
    x[7, 3] = -torch.inf
    with pytest.raises(ValueError, match=re.escape("2 of 14 rows (2, 7)")):
        likewise.objective("raw")(x, LABELS)


def test_large_finite_values_are_no_infinity() -> None:
    """Their sum overflows, the entries do not."""
    x = torch.full((4, 2), 1.5e38)
    x[:2, 1] = -1e10
    assert likewise.objective("n_pair", normalize=True)(x / 1e20, torch.tensor([0, 0, 1, 1])).isfinite()
    with torch.no_grad():
        likewise.objective("raw").check(x, torch.tensor([0, 0, 1, 1]))


@pytest.mark.parametrize("name", [*PROXY_LOSSES, "margin"])
def test_labels_beyond_the_classes(name: str) -> None:
    options = {"num_classes": 5, "dim": DIM} if name in PROXY_LOSSES else {"num_classes": 5}
    with pytest.raises(ValueError, match=re.escape("labels hold 5, but the objective knows classes 0 to 4: raise num_classes")):
        likewise.objective(name, **options)(X, LABELS)
    with pytest.raises(ValueError, match=re.escape("labels hold -1, but the objective knows classes 0 to 4")):
        likewise.objective(name, **options)(X, LABELS.clamp_max(3) - 1)


def test_dimension_of_what_the_objective_owns() -> None:
    words = re.escape("embeddings have 8 dimensions, the objective was made for 9: set dim=8")
    with pytest.raises(ValueError, match=words):
        likewise.objective("proxy_nca", num_classes=6, dim=9)(X, LABELS)
    with pytest.raises(ValueError, match=words):
        likewise.objective("raw", memory=5, dim=9)(X, LABELS)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"references": X}, "references and reference_labels belong together: give both or neither"),
        ({"reference_labels": LABELS}, "belong together"),
        ({"references": X[:, :5], "reference_labels": LABELS}, "references have 5 dimensions, embeddings 8: they must be equal"),
        ({"references": X, "reference_labels": LABELS[1:]}, "14 references but 13 reference_labels: every item needs one label"),
        ({"references": X.long(), "reference_labels": LABELS}, "references must be a float tensor"),
        ({"references": with_entry(4, torch.nan), "reference_labels": LABELS}, "references hold NaN or infinity in 1 of 14 rows (4)"),
        ({"items": torch.arange(13)}, "items must be one integer index an embedding: torch.int64 (13,) given for 14 embeddings"),
        ({"items": torch.rand(14)}, "items must be one integer index an embedding: torch.float32 (14,)"),
    ],
)
def test_what_does_not_go_with_the_batch(arguments: dict[str, Tensor], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        likewise.objective("raw")(X, LABELS, **arguments)


@pytest.mark.parametrize("name", [*PROXY_LOSSES, "structured_clustering", "spectral_clustering"])
def test_losses_that_bring_what_they_compare_with(name: str) -> None:
    with pytest.raises(ValueError, match="brings what it compares with: leave references out"):
        make(name)(X, LABELS, references=X, reference_labels=LABELS)


def test_a_memory_is_what_the_batch_is_compared_with() -> None:
    with pytest.raises(ValueError, match="leave references out"):
        make("raw", memory=5)(X, LABELS, references=X, reference_labels=LABELS)


# Around it


def test_autocast_does_not_reach_inside() -> None:
    """The loss of float32 embeddings is the same inside an autocast region of a training step."""
    objective = make("supcon", dtype=torch.float32)
    expected = objective(X.float(), LABELS)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(objective(X.float(), LABELS), expected)


def test_embeddings_need_not_be_contiguous() -> None:
    for name in likewise.LOSSES:
        objective = make(name)
        expected = objective(X, LABELS)
        strided = torch.stack([X, -X], -1)[..., 0]
        assert not strided.is_contiguous()
        torch.testing.assert_close(objective(strided, LABELS), expected, rtol=1e-12, atol=1e-12)


def test_the_batch_is_left_as_it_was() -> None:
    for name in likewise.LOSSES:
        embeddings, labels = X.clone().requires_grad_(), LABELS.clone()
        make(name, block=3)(embeddings, labels).backward()
        assert torch.equal(embeddings.detach(), X)
        assert torch.equal(labels, LABELS)


@pytest.mark.parametrize(
    ("loss", "settings", "words"),
    [
        ("nt_xent", {"temperature": 0}, "temperature=0 must be above 0"),
        ("raw", {"alpha": 0.0}, "alpha=0.0 must be above 0"),
        ("fast_ap", {"bins": 0}, "bins=0 must be above 0"),
        ("recall_at_k", {"rank_temperature": -1}, "rank_temperature=-1 must be above 0"),
        ("angular", {"angle": 90}, "between 0 and 90 degrees"),
    ],
)
def test_settings_that_cannot_be(loss: str, settings: dict[str, float], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        likewise.objective(loss, **settings)
