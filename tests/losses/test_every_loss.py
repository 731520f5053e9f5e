"""What holds for every loss of the registry, most of it against the slow loops of oracles.py."""

import itertools
from collections.abc import Iterable
from functools import partial

import pytest
import torch
from torch import Tensor

import likewise
from likewise.mining import DrawingMiner

from ..cases import (
    CASES,
    DEFAULTS,
    MINED_LOSSES,
    NUM_CLASSES,
    PROXY_LOSSES,
    ROW_LOSSES,
    Case,
    assert_same,
    during,
    hold_positives,
    make,
    oracle_of,
    outcome,
)
from .oracles import MINER_ORACLES, ORACLES, batch, distance, number, vectors

BATCHES = [("unbalanced", 0), ("unbalanced", 1), ("balanced", 2), ("balanced", 3)]
DRAWN = {name for name, miner in likewise.MINERS.items() if isinstance(miner(), DrawingMiner)}  # tested by their distribution
SEVERAL_BLOCKS, TWO_BLOCKS = 5, 9  # rows of a block, of batches of 14 and 12: the last block is smaller
TIGHT = {"rtol": 1e-12, "atol": 1e-12}

every_loss = pytest.mark.parametrize("name", likewise.LOSSES)


def test_the_registries_have_their_oracles() -> None:
    assert set(ORACLES) == set(likewise.LOSSES)
    assert set(MINER_ORACLES) | DRAWN == set(likewise.MINERS)
    assert {case.name for case in CASES} == set(likewise.LOSSES)


# Value and gradient


@pytest.mark.parametrize("case", [case for case in CASES if case.name != "structured_clustering"], ids=str)
def test_equals_its_oracle(case: Case) -> None:
    for kind, seed in BATCHES:
        embeddings, labels = batch(kind, seed)
        objective = make(case, block=None)
        expected = outcome(oracle_of(case, ORACLES, objective), objective, embeddings, labels)
        for block in (None, SEVERAL_BLOCKS):
            with during(kind, seed, block):
                objective = make(case, block=block)
                assert_same(outcome(objective, objective, embeddings, labels), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", sorted(set(likewise.LOSSES) - {"structured_clustering"}))
def test_equals_its_oracle_where_everything_is_close(name: str) -> None:
    """All cosines above .9: the steep ends of the soft losses, where shortcuts of softplus and the like show."""
    embeddings, labels = batch("unbalanced", 0)
    embeddings = embeddings + 8
    objective = make(name, block=None)
    expected = outcome(oracle_of(DEFAULTS[name], ORACLES, objective), objective, embeddings, labels)
    assert_same(outcome(objective, objective, embeddings, labels), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("gamma", [0.0, 1.0, 3.0])
def test_structured_clustering_equals_the_exhaustive_search_where_it_finds_the_best_medoids(gamma: float) -> None:
    """Greedy search and swaps may end in a local maximum, which is lower and never higher; most often they find the best."""
    found = 0
    for kind, seed in itertools.product(("balanced", "unbalanced"), range(3)):
        embeddings, labels = batch(kind, seed)
        if kind == "unbalanced":
            embeddings, labels = embeddings[labels != 4], labels[labels != 4]
        case = Case("structured_clustering", {"gamma": gamma})
        objective = make(case)
        expected = outcome(oracle_of(case, ORACLES, objective), objective, embeddings, labels)
        got = outcome(objective, objective, embeddings, labels)
        assert got.value <= expected.value + 1e-9
        if expected.value - got.value < 1e-9:
            found += 1
            assert_same(got, expected, rtol=1e-9, atol=1e-9)
    assert found >= 4


def seen_by_miner(miner: str, embeddings: Tensor, normalize: bool) -> list[list[float]]:
    """What the miner's oracle goes by: products of the vectors the loss compares, or their distances for the miner of distances."""
    x = vectors(embeddings, normalize)
    if miner == "non_trivial":  # whose oracle takes sqrt(2 - 2 s) for the distance
        return [[1 - number(distance(a, b)) ** 2 / 2 for b in x] for a in x]
    return [[number(torch.dot(a, b)) for b in x] for a in x]


@pytest.mark.parametrize("name", ROW_LOSSES)
def test_mined_equals_its_oracle(name: str, positives: str) -> None:
    for miner, (kind, seed) in itertools.product(MINER_ORACLES, BATCHES[1:3]):
        embeddings, labels = batch(kind, seed)
        objective = make(name, mining=miner, block=None)
        seen = seen_by_miner(miner, embeddings, objective.normalize)
        mine = partial(_mined_by_oracle, miner, seen)
        expected = outcome(oracle_of(DEFAULTS[name], ORACLES, objective), objective, embeddings, labels, mine=mine)
        for block in (None, SEVERAL_BLOCKS):
            with during(miner, kind, seed, block):
                objective = make(name, mining=miner, block=block)
                assert_same(outcome(objective, objective, embeddings, labels), expected, rtol=1e-9, atol=1e-9)


def _mined_by_oracle(miner: str, seen: list[list[float]], _: object, classes: list[int], anchor: int) -> tuple[set[int], set[int]]:
    return MINER_ORACLES[miner](seen, classes, anchor)


@every_loss
def test_trains_only_what_asks_for_it(name: str) -> None:
    """Parameters get the same gradient whether or not the embeddings ask for one, and the other way round."""
    embeddings, labels = batch("unbalanced", 0)
    for block in (None, SEVERAL_BLOCKS):
        objective = make(name, block=block)
        expected = outcome(objective, objective, embeddings, labels)
        names, parameters = [n for n, _ in objective.named_parameters()], list(objective.parameters())
        if parameters:
            alone = torch.autograd.grad(objective(embeddings, labels), parameters)
            for gradient, parameter in zip(alone, names, strict=True):
                torch.testing.assert_close(gradient, expected.gradients[parameter], **TIGHT)
        x = embeddings.clone().requires_grad_()
        objective.requires_grad_(False)(x, labels).backward()
        torch.testing.assert_close(x.grad, expected.gradients["embeddings"], **TIGHT)


@pytest.mark.parametrize("name", sorted(set(likewise.LOSSES) - {"structured_clustering", "spectral_clustering"}))
def test_dense_can_be_differentiated_twice(name: str) -> None:
    """Against the oracle's second derivative. Spectral clustering has its gradient in closed form, structured clustering's
    oracle is compared above and its second derivative is that of distances alone."""
    embeddings, labels = batch("balanced", 2)
    direction = torch.randn(embeddings.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    objective = make(name, block=None)

    def twice(loss: object) -> Tensor:
        x = embeddings.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(loss(x, labels), x, create_graph=True)
        return torch.autograd.grad((gradient * direction).sum(), x)[0]

    torch.testing.assert_close(twice(objective), twice(oracle_of(DEFAULTS[name], ORACLES, objective)), rtol=1e-8, atol=1e-8)


# Ways to carry a batch out


@pytest.mark.parametrize("case", CASES, ids=str)
def test_dense_is_blocked_is_auto(case: Case, positives: str) -> None:
    embeddings, labels = batch("unbalanced", 4)
    dense = make(case, block=None)
    expected = outcome(dense, dense, embeddings, labels)
    for block in (1, 3, 100, "auto"):
        objective = make(case, block=block)
        assert_same(outcome(objective, objective, embeddings, labels), expected, **TIGHT)


@pytest.mark.slow
@pytest.mark.parametrize("name", MINED_LOSSES)
def test_mined_dense_is_blocked(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Positives as masks in one block against positives as columns in uneven blocks; draws are the same for any blocks."""
    embeddings, labels = batch("unbalanced", 5)
    for miner in likewise.MINERS:
        outcomes = []
        for block, as_columns in ((None, False), (5, True), (None, True), (5, False)):
            hold_positives(monkeypatch, as_columns=as_columns)
            torch.manual_seed(3)
            objective = make(name, mining=miner, block=block)
            outcomes.append(outcome(objective, objective, embeddings, labels))
        for other in outcomes[1:]:
            with during(miner):
                assert_same(other, outcomes[0], **TIGHT)


# Properties


NORMALISED = [name for name in likewise.LOSSES if make(name).normalize]


@pytest.mark.parametrize("name", NORMALISED)
def test_length_does_not_matter_when_normalised(name: str) -> None:
    embeddings, labels = batch("unbalanced", 0)
    objective = make(name)
    expected = outcome(objective, objective, embeddings, labels)
    assert ((expected.gradients["embeddings"] * embeddings).sum(-1).abs() < 1e-10).all()  # orthogonal to the vector
    for scale in (1e-3, 7.0, 1e4):
        lengths = scale * torch.linspace(0.5, 2, len(labels), dtype=torch.float64)[:, None]
        scaled = outcome(objective, objective, embeddings * lengths, labels)
        with during(f"vectors {scale} times as long"):
            torch.testing.assert_close(scaled.value, expected.value, rtol=1e-10, atol=1e-12)
            # the gradient shrinks as the vector grows
            torch.testing.assert_close(scaled.gradients["embeddings"] * lengths, expected.gradients["embeddings"], rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", sorted(set(likewise.LOSSES) - {"prototypical"}))
def test_order_does_not_matter(name: str, positives: str) -> None:
    """Prototypical is the exception: its support is the first items of each class."""
    embeddings, labels = batch("unbalanced", 0)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(3))
    for block in (None, 4):
        objective = make(name, block=block)
        expected, found = (outcome(objective, objective, embeddings[o], labels[o]) for o in (slice(None), order))
        expected.gradients["embeddings"] = expected.gradients["embeddings"][order]
        assert_same(found, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", [name for name in likewise.LOSSES if name not in PROXY_LOSSES])
def test_only_the_equality_of_labels_matters(name: str) -> None:
    """Not their values: renamed classes, large numbers that float32 cannot tell apart, small integer types."""
    embeddings, labels = batch("unbalanced", 0)
    objective = make(name)
    expected = outcome(objective, objective, embeddings, labels)
    for renamed in (labels + 2**40, -1 - labels, labels.to(torch.uint8), labels.to(torch.int32) * 1000 - 5):
        assert_same(outcome(objective, objective, embeddings, renamed), expected, rtol=1e-10, atol=1e-12)


MINIMUM = {
    "contrastive": 0.0,
    "contrastive_distance": 0.0,
    "triplet": 0.0,
    "margin": 0.0,
    "histogram": 0.0,
    "ranked_list": 0.0,
    "nonlinear_rank": -2 * torch.log(torch.tensor(1 + 1e-4, dtype=torch.float64)).item(),
    "structured_clustering": 0.0,
    "spectral_clustering": 0.0,
    "proxy_triplet": 0.0,
    "smooth_ap": 0.0,
    "fast_ap": 0.0,
}


@every_loss
def test_perfect_embeddings_cost_least(name: str) -> None:
    """Each class on an axis of its own (four classes of three): no wrong assignment of labels costs as little, and the
    gradient vanishes or at least is finite, although positives are at distance 0."""
    labels = torch.arange(4).repeat_interleave(3)
    embeddings = torch.eye(4, dtype=torch.float64)[labels]
    for block in (None, 5):
        objective = make(name, num_classes=4, dim=4, block=block)
        if objective.proxies is not None:
            objective.proxies.vectors.data.copy_(torch.eye(4, dtype=torch.float64)[objective.proxies.labels])
        perfect = outcome(objective, objective, embeddings, labels)
        if name in MINIMUM:
            assert perfect.value.item() == pytest.approx(MINIMUM[name], abs=1e-12)
        if MINIMUM.get(name) == 0 and name != "contrastive":  # whose pull never ends
            assert perfect.gradients["embeddings"].abs().max() < 1e-7
        assert all(gradient.isfinite().all() for gradient in perfect.gradients.values())
        for wrong in (labels.roll(1), torch.arange(4).repeat(3), labels.flip(0).roll(2)):
            if torch.equal(wrong, labels.flip(0)):
                continue
            assert objective(embeddings, wrong) > perfect.value + 1e-3


@pytest.mark.parametrize("squared", [True, False])
def test_triplet_all_equals_the_enumeration(squared: bool) -> None:
    """Every anchor, positive and negative of a batch of 40, in one expression."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(6, (40,), generator=generator)
    x = torch.nn.functional.normalize(torch.randn(40, 5, generator=generator, dtype=torch.float64))
    x.requires_grad_()
    objective = make(Case("triplet", {"squared": squared}))
    found = torch.autograd.grad(objective(x, labels), x)[0]
    d = (x[:, None] - x).square().sum(-1)
    if not squared:
        d = torch.where(d > 0, d, 1).sqrt() * (d > 0)
    same, own = labels[:, None] == labels, torch.eye(40, dtype=torch.bool)
    triplet = (same & ~own)[:, :, None] & ~same[:, None, :]
    values = torch.where(triplet, torch.relu(d[:, :, None] - d[:, None, :] + 0.2), 0).sum((1, 2)) / triplet.sum((1, 2)).clamp_min(1)
    expected = values.sum() / triplet.any(2).any(1).sum()
    torch.testing.assert_close(objective(x, labels), expected, rtol=1e-12, atol=1e-12)
    # the objective normalises what is normalised already: only the tangential part of the gradient remains
    by_hand = torch.autograd.grad(expected, x)[0]
    by_hand = by_hand - (by_hand * x).sum(-1, keepdim=True) * x
    torch.testing.assert_close(found, by_hand.detach(), rtol=1e-9, atol=1e-12)


# Batches in which something is missing or degenerate


def degenerate(kind: str) -> tuple[Tensor, Tensor]:
    embeddings, labels = batch("unbalanced", 0)
    match kind:
        case "one class":
            labels = torch.zeros_like(labels)
        case "all singletons":
            labels = torch.arange(len(labels))
        case "duplicates":  # within and across classes
            embeddings[1::2] = embeddings[::2]
        case "a zero vector":
            embeddings[labels == 3] *= torch.tensor([0.0, 1, 1, 1])[:, None]
        case "all zero":
            embeddings = torch.zeros_like(embeddings)
        case "identical positives":
            embeddings = torch.eye(8, dtype=torch.float64)[labels]
        case "opposite classes":
            embeddings = embeddings[:1] * torch.where(labels % 2 == 0, 1.0, -1.0)[:, None]
        case "one item":
            embeddings, labels = embeddings[:1], labels[:1]
        case "two of a class":
            embeddings, labels = embeddings[:2], torch.zeros(2, dtype=torch.long)
        case "all identical":
            embeddings = embeddings[:1].expand(len(labels), -1)
    return embeddings, labels


NO_ANCHOR = ["one class", "all singletons", "one item", "two of a class"]
DEGENERATE = [*NO_ANCHOR, "duplicates", "a zero vector", "all zero", "identical positives", "opposite classes", "all identical"]


def assert_degenerate_batches_are_finite(name: str, dtype: torch.dtype, miners: Iterable[str], blocks: tuple[int | None, ...]) -> None:
    parameters = torch.promote_types(dtype, torch.float32)
    for kind, miner, block in itertools.product(DEGENERATE, miners, blocks):
        with during(kind, miner, block):
            embeddings, labels = degenerate(kind)
            objective = make(name, num_classes=len(labels) + NUM_CLASSES, dtype=parameters, mining=miner, block=block)
            result = outcome(objective, objective, embeddings.to(dtype), labels)
            assert result.value.isfinite()
            assert result.value.dtype == parameters
            for parameter, gradient in result.gradients.items():
                assert gradient.isfinite().all(), parameter
            if kind in NO_ANCHOR and name not in PROXY_LOSSES:
                assert result.value == 0
                assert not any(gradient.any() for gradient in result.gradients.values())


@pytest.mark.parametrize(
    "dtype",
    [torch.float32, torch.bfloat16, *(pytest.param(dtype, marks=pytest.mark.slow) for dtype in (torch.float64, torch.float16))],
    ids=lambda dtype: str(dtype)[6:],
)
@every_loss
def test_degenerate_batches_have_finite_value_and_gradient(name: str, dtype: torch.dtype) -> None:
    assert_degenerate_batches_are_finite(name, dtype, ["all"], (None, TWO_BLOCKS))


@pytest.mark.slow
@pytest.mark.parametrize("name", MINED_LOSSES)
def test_degenerate_batches_with_every_miner(name: str) -> None:
    assert_degenerate_batches_are_finite(name, torch.float32, set(likewise.MINERS) - {"all"}, (None, TWO_BLOCKS))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=lambda dtype: str(dtype)[6:])
@pytest.mark.parametrize("name", MINED_LOSSES)
def test_degenerate_batches_with_positives_as_columns(name: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    hold_positives(monkeypatch, as_columns=True)
    assert_degenerate_batches_are_finite(name, dtype, likewise.MINERS, (TWO_BLOCKS,))


@pytest.mark.parametrize("name", sorted(set(PROXY_LOSSES) - {"proxy_anchor"}))
def test_proxies_of_one_class_have_nothing_to_be_told_from(name: str) -> None:
    """Proxy-Anchor is the exception: its pull is a term of its own, which needs no negatives."""
    embeddings, labels = batch("unbalanced", 0)
    for block in (None, SEVERAL_BLOCKS):
        objective = make(name, num_classes=1, block=block)
        found = outcome(objective, objective, embeddings, labels * 0)
        assert found.value == 0
        assert not any(gradient.any() for gradient in found.gradients.values())


@pytest.mark.parametrize("name", sorted(set(likewise.LOSSES) - {"spectral_clustering", "structured_clustering"}))
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=lambda dtype: str(dtype)[6:])
def test_half_precision_keeps_the_parameters_type(name: str, dtype: torch.dtype) -> None:
    """Products are rounded to the embeddings' type, so the loss differs by about its round-off; the rest is float32."""
    embeddings, labels = batch("unbalanced", 0)
    embeddings = embeddings.to(dtype)
    for block in (None, SEVERAL_BLOCKS):
        objective = make(name, dtype=torch.float32, block=block)
        exact = make(name, dtype=torch.float32, block=block)
        before = [parameter.dtype for parameter in objective.parameters()]
        found = outcome(objective, objective, embeddings, labels)
        expected = outcome(exact, exact, embeddings.float(), labels)
        assert [parameter.dtype for parameter in objective.parameters()] == before
        assert found.value.dtype == torch.float32
        assert found.gradients["embeddings"].dtype == dtype
        assert all(gradient.dtype == torch.float32 for key, gradient in found.gradients.items() if key != "embeddings")
        steepness = 100  # the steepest losses multiply similarities by about this
        torch.testing.assert_close(found.value, expected.value, rtol=steepness * torch.finfo(dtype).eps, atol=torch.finfo(dtype).eps)


@every_loss
def test_without_grad_nothing_is_differentiated(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    gradient = torch.autograd.grad
    monkeypatch.setattr(torch.autograd, "grad", lambda *args, **kwargs: calls.append(args) or gradient(*args, **kwargs))
    embeddings, labels = batch("unbalanced", 0)
    for block in (None, SEVERAL_BLOCKS):
        objective = make(name, block=block)
        with torch.no_grad():
            value = objective(embeddings.clone().requires_grad_(), labels)
        assert value.grad_fn is None
        frozen = make(name, block=block).requires_grad_(False)
        assert frozen(embeddings, labels).grad_fn is None
        assert not calls
        torch.testing.assert_close(value, objective(embeddings.clone().requires_grad_(), labels).detach(), **TIGHT)
        calls.clear()
