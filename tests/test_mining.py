"""Miners: what they keep, against slow loops and, for the one that draws, against its distribution."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import likewise
from likewise.mining import DistanceWeighted, DrawingMiner, Hard, NonTrivial, SemiHard, ValidTriplet, make_miner
from likewise.pair_weighting import weight_curve
from likewise.pairs import Pairs
from likewise.references import batch_rows
from likewise.rows import Grouping, Rows, pairs_of

from .losses.oracles import MINER_ORACLES, batch, cosines


def pairs_from(rows: Rows, *, as_columns: bool = False, noise: Tensor | None = None) -> Pairs:
    grouping = Grouping.of(rows.anchor_labels, rows.reference_labels) if as_columns else None
    rows = Rows(**{**vars(rows), "grouping": grouping, "noise": noise})
    return pairs_of(rows.similarity(), rows.block(), dim=rows.anchors.shape[1])


def kept(miner: object, embeddings: Tensor, labels: Tensor, **options: object) -> tuple[Tensor, Tensor]:
    """The positives and negatives a miner keeps, as masks."""
    mined = miner(pairs_from(batch_rows(F.normalize(embeddings), labels, unit=True), **options))
    return mined.positive, mined.negative


SETTINGS = [
    *((name, {}) for name in MINER_ORACLES),
    ("vthm", {"margin": 0.4}),
    ("vthm", {"margin": -0.2}),
    ("non_trivial", {"alpha": 0.9, "margin": 0.1}),
]


@pytest.mark.parametrize("as_columns", [False, True])
@pytest.mark.parametrize(("name", "settings"), SETTINGS)
@pytest.mark.parametrize("kind", ["balanced", "unbalanced"])
def test_miners_keep_what_their_oracles_keep(name: str, settings: dict[str, float], kind: str, as_columns: bool) -> None:
    for seed in range(8):
        embeddings, labels = batch(kind, seed)
        positive, negative = kept(likewise.MINERS[name](**settings), embeddings, labels, as_columns=as_columns)
        for i in range(len(labels)):
            expected = MINER_ORACLES[name](cosines(embeddings), labels.tolist(), i, **settings)
            assert (set(positive[i].nonzero().flatten().tolist()), set(negative[i].nonzero().flatten().tolist())) == expected


@pytest.mark.parametrize("as_columns", [False, True])
@pytest.mark.parametrize("name", likewise.MINERS)
def test_miners_only_narrow(name: str, as_columns: bool) -> None:
    embeddings, labels = batch("unbalanced", 0)
    before = pairs_from(batch_rows(F.normalize(embeddings), labels, unit=True))
    positive, negative = kept(likewise.MINERS[name](), embeddings, labels, as_columns=as_columns)
    assert not (positive & ~before.positive).any()
    assert not (negative & ~before.negative).any()


def test_defaults() -> None:
    assert ValidTriplet() == ValidTriplet(margin=0.1)
    assert NonTrivial() == NonTrivial(alpha=1.2, margin=0.4)
    assert (DistanceWeighted().cutoff, DistanceWeighted().farthest) == (0.5, 1.4)


def test_semihard_falls_back_to_the_farthest_where_all_similarities_are_positive() -> None:
    """The farthest negative has the least similarity, which may well be above 0."""
    degrees = torch.tensor([0.0, 80.0, 20.0, 40.0], dtype=torch.float64).deg2rad()
    embeddings = torch.stack([degrees.cos(), degrees.sin()], 1)
    _, negative = kept(SemiHard(), embeddings, torch.tensor([0, 0, 1, 2]))
    assert negative[0].tolist() == [False, False, False, True]


def test_hard_takes_the_first_of_equals() -> None:
    embeddings = torch.tensor([[1.0, 0], [0, 1], [0, 1], [-1, 0], [-1, 0], [0, 1]], dtype=torch.float64)
    for as_columns in (False, True):
        positive, negative = kept(Hard(), embeddings, torch.tensor([0, 0, 0, 1, 1, 2]), as_columns=as_columns)
        assert positive[0].nonzero().flatten().tolist() == [1]
        assert negative[0].nonzero().flatten().tolist() == [5]
        assert (positive.sum(1) <= 1).all()
        assert (negative.sum(1) <= 1).all()


# Distance-weighted


def inverse_density(distance: float, dim: int, cutoff: float) -> float:
    """log 1/q(d) of Wu et al. 2017, q(d) = d^(n-2) (1 - d^2/4)^((n-3)/2)."""
    d = max(distance, cutoff)
    return -((dim - 2) * math.log(d) + (dim - 3) / 2 * math.log(1 - d * d / 4))


def weights_of(anchor: Tensor, others: Tensor, dim: int, *, cutoff: float = 0.5, farthest: float = 1.4) -> Tensor:
    distances = [math.dist(anchor.tolist(), other.tolist()) for other in others]
    logs = [inverse_density(d, dim, cutoff) if d < farthest else -math.inf for d in distances]
    return torch.tensor([math.exp(log - max(logs)) for log in logs], dtype=torch.float64)


@pytest.mark.parametrize("num_positives", [1, 3])
@pytest.mark.parametrize("dim", [3, 8, 32])
def test_draws_are_distributed_as_one_over_the_density(dim: int, num_positives: int) -> None:
    """20,000 draws of one row: every negative as often as its weight says (chi-square at the .001 level, and inclusion exact).

    A negative whose expected number of draws is above 1 is always among them.
    """
    generator = torch.Generator().manual_seed(dim)
    x = torch.randn(12, dim, generator=generator, dtype=torch.float64)
    x[1:] += 0.8 * x[0]
    x = F.normalize(x)
    labels = torch.tensor([0] * (1 + num_positives) + [1] * (11 - num_positives))
    rows = batch_rows(x, labels, unit=True)
    miner = DistanceWeighted()
    draws = 20_000
    noise = torch.rand(draws, 1, generator=generator, dtype=torch.float64)
    pairs = pairs_from(
        Rows(
            **{
                **vars(rows),
                "anchors": x[:1].expand(draws, -1),
                "anchor_labels": labels[:1].expand(draws),
                "anchor_items": torch.zeros(draws, dtype=torch.long),
            }
        ),
        noise=noise,
    )
    drawn = miner(pairs).negative
    negatives = slice(1 + num_positives, None)
    weights = weights_of(x[0], x[negatives], dim)
    expected = (num_positives * weights / weights.sum()).clamp_max(1)
    assert (expected > 0.005).sum() > 1
    counts = drawn[:, negatives].double().sum(0)
    assert not counts[weights == 0].any()
    assert not drawn[:, : 1 + num_positives].any()
    assert torch.equal(counts[expected == 1], torch.full_like(counts[expected == 1], draws))
    tested = (expected > 0) & (expected < 1)
    deviation = (counts - draws * expected)[tested].square() / (draws * expected * (1 - expected))[tested]
    assert deviation.max() < 4.5**2  # standard deviations, for at most ten negatives
    if num_positives == 1:
        enough = draws * expected > 5
        chi_square = ((counts - draws * expected).square() / (draws * expected))[enough].sum()
        freedom = int(enough.sum()) - 1
        assert chi_square < freedom + 3.1 * math.sqrt(2 * freedom) + 6.5
        assert (drawn[:, negatives].sum(1) == 1).all()


def test_as_many_negatives_are_drawn_as_there_are_positives() -> None:
    """At most: one that is drawn twice counts once. Exactly, where weights are even."""
    generator = torch.Generator().manual_seed(0)
    embeddings, labels = torch.randn(60, 3, generator=generator, dtype=torch.float64), torch.arange(60) // 5
    positive, negative = kept(DistanceWeighted(cutoff=0.0, farthest=3.0), embeddings, labels)
    assert (positive.sum(1) == 4).all()
    assert (negative.sum(1) <= 4).all()
    assert (negative.sum(1) == 4).double().mean() > 0.9
    corners = torch.eye(30, dtype=torch.float64)  # all at the same distance
    _, negative = kept(DistanceWeighted(farthest=2.0), corners, torch.arange(30) // 5)
    assert (negative.sum(1) == 4).all()


def test_no_negative_beyond_the_farthest() -> None:
    embeddings, labels = batch("unbalanced", 0)
    x = F.normalize(embeddings)
    _, negative = kept(DistanceWeighted(farthest=1.1), embeddings, labels)
    assert negative.any()
    assert torch.cdist(x, x)[negative].max() < 1.1
    _, negative = kept(DistanceWeighted(farthest=0.01), embeddings, labels)
    assert not negative.any()


def test_draws_come_from_the_generator() -> None:
    embeddings, labels = torch.randn(40, 6, generator=torch.Generator().manual_seed(0)), torch.arange(40) // 4

    def draws(seed: int) -> list[Tensor]:
        miner = DistanceWeighted(generator=torch.Generator().manual_seed(seed))
        return [kept(miner, embeddings, labels)[1] for _ in range(2)]

    first, second = draws(1)
    assert not torch.equal(first, second)
    state = torch.get_rng_state()
    assert all(torch.equal(one, other) for one, other in zip(draws(1), (first, second), strict=True))
    assert torch.equal(state, torch.get_rng_state())  # the global one is left alone
    assert not torch.equal(draws(2)[0], first)


def test_draws_are_the_same_for_any_block_size() -> None:
    embeddings, labels = torch.randn(40, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64), torch.arange(40) // 4
    values = []
    for block in (None, 1, 7, 40, "auto"):
        miner = DistanceWeighted(generator=torch.Generator().manual_seed(5))
        objective = likewise.objective("margin", mining=miner, block=block)
        values.append([objective(embeddings, labels).item() for _ in range(3)])
    for other in values[1:]:
        assert other == pytest.approx(values[0], rel=1e-12)
    assert len(set(values[0])) == 3


@pytest.mark.parametrize("dim", [2, 3, 512, 4096])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_every_anchor_is_served_in_any_dimension(dim: int, dtype: torch.dtype) -> None:
    """Random vectors beside a near-duplicate negative pair, whose weight is larger by hundreds of orders of magnitude."""
    generator = torch.Generator().manual_seed(1)
    embeddings = torch.randn(64, dim, generator=generator, dtype=dtype)
    embeddings[8] = embeddings[0] + 1e-3 * embeddings[8]
    labels = torch.arange(64) // 4
    _, negative = kept(DistanceWeighted(farthest=1.99), embeddings, labels)
    assert (negative.sum(1) >= 1).all()
    if dim > 3:  # in a few dimensions all distances are about as likely
        assert negative[0, 8]
        assert negative[8, 0]


# What is no miner


@dataclass
class Thawed:
    least: float = 0.0

    def __call__(self, pairs: Pairs) -> Pairs:
        return pairs.narrow(negative=pairs.negatives.similarity > self.least)


@pytest.mark.parametrize(
    ("mining", "words"),
    [
        (ValidTriplet, "mining=ValidTriplet is no miner but a class: give an object, ValidTriplet()"),
        ([ValidTriplet(), Hard()], "is no miner but several: give one, which may call the others in turn"),
        ([], "mining=[] is no miner but several"),
        (("vthm", "hard"), "mining=('vthm', 'hard') is no miner but several"),
        (0.5, "mining=0.5 is no miner: give a name in likewise.MINERS or an object that maps Pairs to Pairs when called"),
        (0, "mining=0 is no miner"),
        (likewise.LOSSES["raw"](), "is no miner: give a name in likewise.MINERS"),
        (Thawed(), "the miner Thawed is a dataclass whose settings may change once it is in use: write @dataclass(frozen=True)"),
        ("", "unknown miner ''"),
    ],
    ids=str,
)
def test_what_is_no_miner(mining: object, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        likewise.objective("raw", mining=mining)
    with pytest.raises(ValueError, match=re.escape(words)):
        weight_curve("raw", mining=mining, negatives=(0.5,), vary="positive")


def test_a_function_is_a_miner() -> None:
    embeddings, labels = batch("unbalanced", 0)

    def hardest(pairs: Pairs) -> Pairs:
        return Hard()(pairs)

    for block in (None, 4):
        by_function, by_object, unmined = (likewise.objective("raw", mining=mining, block=block) for mining in (hardest, Hard(), None))
        assert torch.equal(by_function(embeddings, labels), by_object(embeddings, labels))
        assert not torch.equal(by_function(embeddings, labels), unmined(embeddings, labels))


def test_a_miner_returns_pairs() -> None:
    embeddings, labels = batch("unbalanced", 0)
    objective = likewise.objective("raw", mining=lambda pairs: pairs.negatives.similarity > 0.1)
    with pytest.raises(ValueError, match=re.escape("returned Tensor, not Pairs: return pairs.narrow(positive=..., negative=...)")):
        objective(embeddings, labels)


def test_miners_that_draw_are_told_from_the_others() -> None:
    assert isinstance(DistanceWeighted(), DrawingMiner)
    assert not isinstance(ValidTriplet(), DrawingMiner)


def test_settings_of_a_miner_given_by_name() -> None:
    assert make_miner("vthm", {"margin": 0.3}) == ValidTriplet(0.3)
    with pytest.raises(ValueError, match="unknown setting of vthm 'margn': did you mean 'margin'"):
        make_miner("vthm", {"margn": 0.3})
    with pytest.raises(ValueError, match="belong to a miner given by name"):
        make_miner(Hard(), {"margin": 0.3})
