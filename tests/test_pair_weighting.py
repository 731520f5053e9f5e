"""The unified view: weights against the papers' formulas, surrogate against gradient, and the way back from weights to a loss."""

import math
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor

import likewise
from likewise.losses.loss import BatchLoss, VectorLoss
from likewise.mining import DrawingMiner
from likewise.pair_weighting import surrogate, weight_curve
from likewise.pairs import Pairs, masked_sum

from .cases import LOSS_OBJECTS, MINED_LOSSES

STEADY_MINERS = sorted(name for name, miner in likewise.MINERS.items() if not isinstance(miner(), DrawingMiner))
# losses that are not functions of pairs alone as they stand, what pair_weights says about them, and what to set (None: nothing helps)
NOT_PAIRS_ALONE = {
    "n_pair": ("norm_penalty=0", {"norm_penalty": 0.0}),
    "soft_triple": ("regularization=0", {"regularization": 0.0, "num_centers": 3}),
    "prototypical": ("class means", None),
    **{name: ("vectors themselves", None) for name, loss in LOSS_OBJECTS.items() if isinstance(loss, VectorLoss)},
}
OF_PAIRS = sorted(name for name in likewise.LOSSES if NOT_PAIRS_ALONE.get(name, ("", {}))[1] is not None)
OF_DISTANCES = {
    "contrastive_distance",
    "triplet",
    "lifted",
    "margin",
    "ranked_list",
    "nonlinear_rank",
    "structured_clustering",
    "proxy_nca",
    "proxy_triplet",
    "fast_ap",
    "nca",
}


def can_mine(name: str, mining: str) -> bool:
    """A loss of the whole batch is refused with a miner."""
    return mining == "all" or name in MINED_LOSSES


# docs/weights.md
SIGNED = {
    *("nonlinear_rank", "supcon", "smooth_ap", "fast_ap", "recall_at_k", "soft_triple", "structured_clustering"),
    "intra_pair_variance",
}
SMALL = 0.4  # keeps unnormalised similarities in reach of thresholds and histograms made for cosines

LABELS = torch.tensor([0, 0, 0, 1, 1, 2, 2, 2, 2, 3, 4, 4, 5])  # unbalanced, two singletons


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Threads cost more than they give on batches this small, and a hundred times that on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def batch(scale: float = 1.0, labels: Tensor = LABELS, dim: int = 6, seed: int = 0) -> Tensor:
    random = torch.Generator().manual_seed(seed)
    centres = torch.randn(int(labels.max()) + 1, dim, generator=random, dtype=torch.float64)
    return scale * (torch.randn(len(labels), dim, generator=random, dtype=torch.float64) + 1.2 * centres[labels])


def objective(name: str, *, mining: str | None = None, normalize: bool | None = None, **more: object) -> likewise.Objective:
    settings = (NOT_PAIRS_ALONE[name][1] or {}) if name in NOT_PAIRS_ALONE else {}
    torch.manual_seed(7)  # the proxies' first values
    return likewise.objective(name, mining=mining, normalize=normalize, num_classes=6, dim=6, **settings, **more).double()


def gradients(value: Tensor, of: likewise.Objective, embeddings: Tensor) -> list[Tensor]:
    """By the embeddings and, where there are any, by the proxies."""
    leaves = [embeddings] if of.proxies is None else [embeddings, of.proxies.vectors]
    return list(torch.autograd.grad(value, leaves))


def assert_same_gradient(of: likewise.Objective, embeddings: Tensor, labels: Tensor = LABELS, *, moves: bool = True) -> None:
    embeddings = embeddings.clone().requires_grad_()
    torch.manual_seed(3)
    expected = gradients(of(embeddings, labels), of, embeddings)
    torch.manual_seed(3)
    found = gradients(surrogate(of, embeddings, labels), of, embeddings)
    assert (expected[0].abs().max() > 1e-7) == moves
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-9)


@pytest.mark.parametrize(("name", "mining"), [(name, mining) for name in OF_PAIRS for mining in STEADY_MINERS if can_mine(name, mining)])
def test_surrogate_has_the_gradient_of_the_loss(name: str, mining: str) -> None:
    of = objective(name, mining=mining)
    # one positive and one negative are always the first and the last of two
    moves = (name, mining) != ("nonlinear_rank", "hard")
    assert_same_gradient(of, batch(1.0 if of.normalize else SMALL), moves=moves)


@pytest.mark.parametrize("name", OF_PAIRS)
def test_unnormalised_loss_is_one_of_pairs_unless_it_measures_distances(name: str) -> None:
    of = objective(name, normalize=False)
    if name in OF_DISTANCES:
        with pytest.raises(ValueError, match="normalize=True"):
            likewise.pair_weights(of, batch(), LABELS)
    else:
        assert_same_gradient(of, batch(SMALL))


def test_a_miner_may_look_at_norms() -> None:
    assert_same_gradient(objective("n_pair", mining="non_trivial"), batch(SMALL))


@pytest.mark.parametrize("name", NOT_PAIRS_ALONE)
def test_a_loss_not_of_pairs_alone_says_so(name: str) -> None:
    words, _ = NOT_PAIRS_ALONE[name]
    of = likewise.objective(name, num_classes=6, dim=6).double()
    for normalize in (of.normalize, False):
        of = likewise.objective(name, num_classes=6, dim=6, normalize=normalize).double()
        with pytest.raises(ValueError, match=words):
            likewise.pair_weights(of, batch(), LABELS)
        with pytest.raises(ValueError, match=words):
            surrogate(of, batch(), LABELS)


def test_prototypical_is_refused_normalised_too() -> None:
    with pytest.raises(ValueError, match="class means"):
        likewise.pair_weights(likewise.objective("prototypical", normalize=True), batch(), LABELS)


def test_a_penalty_on_norms_does_not_matter_to_unit_vectors() -> None:
    assert_same_gradient(likewise.objective("n_pair", normalize=True), batch())


@pytest.mark.parametrize(("name", "mining"), [(name, mining) for name in OF_PAIRS for mining in ("all", "vthm") if can_mine(name, mining)])
def test_no_weight_where_there_is_no_pair(name: str, mining: str) -> None:
    of = objective(name, mining=mining)
    weights = likewise.pair_weights(of, batch(), LABELS)
    assert weights.isfinite().all()
    assert weights.any()
    if of.proxies is not None:
        assert weights.shape == (len(LABELS), len(of.proxies.labels))
        return
    assert weights.shape == (len(LABELS), len(LABELS))
    one_class = likewise.pair_weights(of, batch(), torch.zeros_like(LABELS))
    all_apart = likewise.pair_weights(of, batch()[:6], torch.arange(6))
    for found in (weights, one_class, all_apart):
        assert not found.diagonal().any()
        # no anchor counts in the last two; structured_clustering has no anchors, only medoids
        assert found is weights or name == "structured_clustering" or not found.any()


@pytest.mark.parametrize("name", OF_PAIRS)
def test_weights_are_at_least_zero_but_for_the_losses_named(name: str) -> None:
    least = min(float(likewise.pair_weights(objective(name), batch(seed=seed), LABELS).min()) for seed in range(8))
    assert (least < -1e-6) == (name in SIGNED), least


def test_pairs_a_miner_leaves_out_weigh_nothing() -> None:
    weights = likewise.pair_weights(objective("contrastive", mining="hard"), batch(), LABELS)
    unit = torch.nn.functional.normalize(batch())
    cosine = unit @ unit.T
    for i, label in enumerate(LABELS):
        positives = [j for j in range(len(LABELS)) if LABELS[j] == label and j != i]
        negatives = [j for j in range(len(LABELS)) if LABELS[j] != label]
        if not positives:
            assert not weights[i].any()
            continue
        hardest = min(positives, key=lambda j: cosine[i, j])
        assert weights[i, positives].nonzero().tolist() == [[positives.index(hardest)]]
        nearest = max(negatives, key=lambda j: cosine[i, j])
        assert (weights[i, negatives] > 0).sum() == int(cosine[i, nearest] > 0.5)


def test_weights_are_the_slopes_of_the_loss_by_each_ordered_pair() -> None:
    """Contrastive by hand: 1 / anchors on every positive and on every negative above the threshold."""
    embeddings = torch.tensor([[1.0, 0.0], [0.6, 0.8], [0.8, 0.6], [-1.0, 0.0]], dtype=torch.float64)
    labels = torch.tensor([0, 0, 1, 1])
    expected = torch.tensor([[0, 1, 1, 0], [1, 0, 1, 0], [1, 1, 0, 1], [0, 0, 1, 0]], dtype=torch.float64) / 4
    assert torch.equal(likewise.pair_weights(likewise.objective("contrastive"), embeddings, labels), expected)


def test_lifted_weighs_the_pairs_of_its_positives_rows_too() -> None:
    """The statistic of a positive's row is a function of that row's pairs: against the slopes of a written-out lifted loss."""
    embeddings = batch()
    unit = torch.nn.functional.normalize(embeddings)
    similarity = (unit @ unit.T).requires_grad_()

    def lifted(s: Tensor) -> Tensor:
        distance = (2 - 2 * s).clamp_min(1e-300).sqrt()
        values = []
        for i in range(len(LABELS)):
            positives = [j for j in range(len(LABELS)) if LABELS[j] == LABELS[i] and j != i]
            if not positives:
                continue
            terms = []
            for p in positives:
                push = sum((1 - distance[row, n]).exp() for row in (i, p) for n in range(len(LABELS)) if LABELS[n] != LABELS[row])
                terms.append((push.log() + distance[i, p]).clamp_min(0).square())
            values.append(sum(terms) / len(terms) / 2)
        return sum(values) / len(values)

    (slope,) = torch.autograd.grad(lifted(similarity), similarity)
    sign = torch.where(LABELS[:, None] == LABELS, -1.0, 1.0).fill_diagonal_(0)
    torch.testing.assert_close(likewise.pair_weights(objective("lifted"), embeddings, LABELS), sign * slope, rtol=0, atol=1e-9)


def test_compact_positives_give_the_same_weights() -> None:
    class Compact(likewise.LOSSES["raw"]):
        expands_positives = True

    whole = likewise.pair_weights(objective("raw", mining="vthm"), batch(), LABELS)
    of = likewise.objective(Compact(), mining="vthm")
    assert of.rows(batch(), LABELS).grouping is not None
    torch.testing.assert_close(likewise.pair_weights(of, batch(), LABELS), whole, rtol=0, atol=1e-12)


def test_a_drawing_miner_draws_once_a_call() -> None:
    of = objective("margin", mining="distance_weighted")
    assert_same_gradient(of, batch())  # the seed is set alike before both
    torch.manual_seed(0)
    first, second = (likewise.pair_weights(of, batch(), LABELS) for _ in range(2))
    assert not torch.equal(first, second)


def test_memory_widens_the_rows() -> None:
    of = likewise.objective("raw", memory=20, dim=6).double()
    of(batch(seed=1), LABELS)
    weights = likewise.pair_weights(of, batch(), LABELS)
    assert weights.shape == (13, 33)
    assert weights[:, 13:26].any()
    assert not weights[:, 26:].any()  # slots not filled yet
    assert_same_gradient(of.eval(), batch())
    assert of.memory is not None
    assert of.memory.cursor.tolist() == [13, 1]  # looked at, not added to


@pytest.mark.parametrize("name", ["lifted", "angular"])
def test_pairs_of_queued_items_are_not_pairs_of_anchors(name: str) -> None:
    of = likewise.objective(name, memory=20, dim=6).double()
    of(batch(seed=1), LABELS)
    with pytest.raises(ValueError, match="leave the memory out"):
        likewise.pair_weights(of, batch(), LABELS)


def test_an_item_with_itself_is_its_norm() -> None:
    class Everything:
        def per_anchor(self, pairs: Pairs) -> Tensor:
            return pairs.similarity.square().sum(-1)

    assert_same_gradient(likewise.objective(Everything()), batch())  # always 1 for a unit vector: no gradient, and no weight
    assert not likewise.pair_weights(likewise.objective(Everything()), batch(), LABELS).diagonal().any()
    with pytest.raises(ValueError, match="with itself"):
        likewise.pair_weights(likewise.objective(Everything(), normalize=False), batch(), LABELS)


def test_weights_of_half_precision_and_without_gradient() -> None:
    with torch.no_grad():
        weights = likewise.pair_weights(likewise.objective("raw"), batch().bfloat16(), LABELS)
    assert weights.dtype == torch.float32
    exact = likewise.pair_weights(likewise.objective("raw"), batch(), LABELS)
    assert (weights - exact).abs().max() < 0.02
    assert not weights.requires_grad


def test_an_episode_of_singletons_has_no_weights() -> None:
    assert likewise.pair_weights(likewise.objective("prototypical"), batch()[:6], torch.arange(6)).shape == (6, 0)


@pytest.mark.parametrize("of", [likewise.pair_weights, surrogate])
def test_weights_are_an_objectives(of: Callable[..., Tensor]) -> None:
    for no_objective in ("raw", likewise.LOSSES["raw"]()):
        with pytest.raises(ValueError, match=r"is no objective: make one with likewise\.objective|objective is .*: expected Objective"):
            of(no_objective, batch(), LABELS)


def test_faulty_batches_are_refused_in_words() -> None:
    with pytest.raises(ValueError, match="every item needs one label"):
        likewise.pair_weights(likewise.objective("raw"), batch(), LABELS[:-1])


# Curves: the unified view's own formulas, written from the paper

POSITIVES, NEGATIVES = (0.8, 0.5), (0.4, 0.1, -0.3)
GRID = torch.linspace(-0.97, 0.97, 98, dtype=torch.float64)  # no value is on an edge of a step


def exp_sum(values: list[float]) -> float:
    return math.fsum(math.exp(value) for value in values)


def contrastive_weight(s: float, own: list[float], other: list[float], side: str) -> float:  # eq. 6
    return 1.0 if side == "positive" else float(s > 0.5)


def triplet_weight(s: float, own: list[float], other: list[float], side: str) -> float:
    """Eq. 8 summed over the triplets the pair is part of. On squared distances d^2 = 2 - 2 s: twice, and half the margin."""
    active = [(n - s if side == "positive" else s - n) + 0.2 / 2 > 0 for n in other]
    return 2 * sum(active) / (len(own) * len(other))


def generalized_lifted_weight(s: float, own: list[float], other: list[float], side: str) -> float:
    """Eq. 10, and eq. 11 as corrected; the hinge is open in this row."""
    sign = 1 if side == "positive" else -1
    return 1 / exp_sum([sign * (s - k) for k in own])


def binomial_weight(s: float, own: list[float], other: list[float], side: str) -> float:  # eq. 13-14
    sharpness, gap = (2, 0.5 - s) if side == "positive" else (50, s - 0.5)
    return sharpness / len(own) * math.exp(sharpness * gap) / (1 + math.exp(sharpness * gap))


def raw_weight(s: float, own: list[float], other: list[float], side: str) -> float:  # eq. 15-16
    sharpness = 2 if side == "positive" else -50
    return 1 / (exp_sum([sharpness * (s - k) for k in own]) + math.exp(sharpness * (s - 0.5)))


def ranked_list_weight(s: float, own: list[float], other: list[float], side: str) -> float:
    """RLL, eq. 8-13; d = sqrt(2 - 2 s) has the slope -1/d."""
    distance = [math.sqrt(2 - 2 * k) for k in own]
    d = math.sqrt(2 - 2 * s)
    if side == "positive":
        return float(d > 0.8) / sum(k > 0.8 for k in distance) / d if d > 0.8 else 0.0
    return math.exp(10 * (1.2 - d)) / exp_sum([10 * (1.2 - k) for k in distance if k < 1.2]) / d if d < 1.2 else 0.0


def nonlinear_rank_weight(s: float, own: list[float], other: list[float], side: str) -> float:
    """A central difference of NRA, eq. 8-13."""

    def transfer(rank: float) -> float:
        return (2 * rank) ** 4 / 2 if rank < 0.5 else 1 - (2 * (1 - rank)) ** 4 / 2

    def value(varied: float) -> float:
        rest = list(own)
        rest.remove(s)
        mine, others = [math.sqrt(2 - 2 * k) for k in [varied, *rest]], [math.sqrt(2 - 2 * k) for k in other]
        positive, negative = (mine, others) if side == "positive" else (others, mine)
        low, high = min(mine + others), max(mine + others)
        far, near = (max(positive) - low) / (high - low), (min(negative) - low) / (high - low)
        return -math.log(1 - transfer(far) + 1e-4) - math.log(transfer(near) + 1e-4)

    step = 1e-6
    slope = (value(s + step) - value(s - step)) / (2 * step)
    return -slope if side == "positive" else slope


@pytest.mark.parametrize("side", ["positive", "negative"])
@pytest.mark.parametrize(
    ("name", "formula", "tolerance"),
    [
        ("contrastive", contrastive_weight, 1e-9),
        ("triplet", triplet_weight, 1e-9),
        ("generalized_lifted", generalized_lifted_weight, 1e-9),
        ("binomial_deviance", binomial_weight, 1e-9),  # torch's softplus is linear beyond 20: e^-20 = 2e-9
        ("raw", raw_weight, 1e-9),
        ("ranked_list", ranked_list_weight, 1e-9),
        ("nonlinear_rank", nonlinear_rank_weight, 1e-5),  # of the difference: step^2 times a third derivative of up to 1e5
    ],
)
def test_curves_are_the_papers_formulas(name: str, formula, tolerance: float, side: str) -> None:
    curve = weight_curve(name, positives=POSITIVES, negatives=NEGATIVES, vary=side, similarities=GRID)
    own, other = (POSITIVES, NEGATIVES) if side == "positive" else (NEGATIVES, POSITIVES)
    expected = torch.tensor([formula(s, [s, *own], list(other), side) for s in GRID.tolist()], dtype=torch.float64)
    assert expected.unique().numel() > 1 or name == "contrastive"
    torch.testing.assert_close(curve.weights, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("side", ["positive", "negative"])
def test_curve_keeps_the_weights_of_the_other_pairs(side: str) -> None:
    curve = weight_curve("raw", positives=POSITIVES, negatives=NEGATIVES, vary=side, similarities=GRID)
    for row, s in enumerate(GRID.tolist()):
        positives = [s, *POSITIVES] if side == "positive" else list(POSITIVES)
        negatives = [s, *NEGATIVES] if side == "negative" else list(NEGATIVES)
        pull = [raw_weight(k, positives, negatives, "positive") for k in POSITIVES]
        push = [raw_weight(k, negatives, positives, "negative") for k in NEGATIVES]
        assert curve.positive_weights[row].tolist() == pytest.approx(pull, abs=1e-9)
        assert curve.negative_weights[row].tolist() == pytest.approx(push, abs=1e-9)


def test_mined_curve_is_zero_off_the_valid_triplets() -> None:
    curve = weight_curve("raw", mining="vthm", positives=POSITIVES, negatives=NEGATIVES, vary="negative", similarities=GRID)
    assert torch.equal(curve.weights > 0, GRID > 0.5 - 0.1)


def test_weights_of_nonlinear_rank_have_either_sign() -> None:
    """A negative that sets the largest distance is drawn nearer, a positive that sets the smallest is pushed away."""
    for side in ("positive", "negative"):
        curve = weight_curve("nonlinear_rank", positives=POSITIVES, negatives=NEGATIVES, vary=side, similarities=GRID)
        assert curve.weights.min() < -1
        assert curve.weights.max() > 1


def test_curve_agrees_with_the_weights_of_a_batch() -> None:
    """A batch whose first row is the context: its weights are the curve's, over the number of anchors that count."""
    labels = torch.tensor([0, 0, 0, 1, 2, 3])
    embeddings = batch(labels=labels)
    unit = torch.nn.functional.normalize(embeddings)
    row = (unit[0] @ unit.T).tolist()
    for name in ("raw", "supcon", "triplet"):
        weights = likewise.pair_weights(likewise.objective(name), embeddings, labels) * 3
        curve = weight_curve(name, positives=row[2:3], negatives=row[3:], vary="positive", similarities=row[1:2])
        assert curve.weights[0].item() == pytest.approx(weights[0, 1].item(), abs=1e-9)
        assert curve.positive_weights[0].tolist() == pytest.approx(weights[0, 2:3].tolist(), abs=1e-9)
        assert curve.negative_weights[0].tolist() == pytest.approx(weights[0, 3:].tolist(), abs=1e-9)


@pytest.mark.parametrize("name", sorted(likewise.LOSSES))
def test_every_loss_has_a_curve_or_says_why_not(name: str) -> None:
    loss = LOSS_OBJECTS[name]
    if name in ("lifted", "angular") or isinstance(loss, BatchLoss | VectorLoss):
        with pytest.raises(ValueError, match="beyond the anchor's row"):
            weight_curve(loss, positives=(0.5,), negatives=(0.1,), vary="positive")
        return
    alone = loss.meets != "batch" and name != "proxy_anchor"
    centres = loss.proxies_per_class
    positives = (0.5,) * (centres - 1 if alone else 2)
    curve = weight_curve(name, positives=positives, negatives=(0.1,) * centres * 2, vary="positive")
    assert curve.similarities.shape == curve.weights.shape == (201,)
    assert curve.weights.isfinite().all()
    assert curve.weights.any()
    if alone:
        with pytest.raises(ValueError, match="references of the anchor's own class"):
            weight_curve(name, positives=(*positives, 0.5), negatives=(0.1,) * centres, vary="positive")


def test_curves_ask_for_a_sensible_row() -> None:
    with pytest.raises(ValueError, match="a positive and a negative"):
        weight_curve("raw", positives=(0.5,), vary="positive")
    with pytest.raises(ValueError, match="'positive' or 'negative'"):
        weight_curve("raw", positives=(0.5,), negatives=(0.5,), vary="both")
    with pytest.raises(ValueError, match="draws pairs at random"):
        weight_curve("raw", mining="distance_weighted", negatives=(0.5,), vary="positive")
    with pytest.raises(ValueError, match="list of numbers"):
        weight_curve("raw", negatives=(0.5,), vary="positive", similarities=torch.zeros(2, 2))
    with pytest.raises(ValueError, match="did you mean 'raw'"):
        weight_curve("rawr", negatives=(0.5,), vary="positive")


# --- a loss designed by its weights ---------------------------------------------------------------------------------------


def raw_weights(pairs: Pairs) -> Tensor:
    """Eq. 15-16 for a block of rows."""
    s = pairs.similarity
    apart = s[:, :, None] - s[:, None, :]  # s_ij - s_ik
    pull = 1 / (masked_sum((2 * apart).exp(), pairs.positive[:, None, :]) + (2 * (s - 0.5)).exp())
    push = 1 / (masked_sum((-50 * apart).exp(), pairs.negative[:, None, :]) + (-50 * (s - 0.5)).exp())
    return torch.where(pairs.positive, pull, push)


def contrastive_weights(pairs: Pairs) -> Tensor:
    return (pairs.positive | (pairs.similarity > 0.5)).to(pairs.similarity.dtype)


def binomial_weights(pairs: Pairs) -> Tensor:
    s = pairs.similarity
    pull = 2 * torch.sigmoid(2 * (0.5 - s)) / pairs.positive.sum(-1, keepdim=True).clamp_min(1)
    push = 50 * torch.sigmoid(50 * (s - 0.5)) / pairs.negative.sum(-1, keepdim=True).clamp_min(1)
    return torch.where(pairs.positive, pull, push)


DESIGNS = {"raw": raw_weights, "contrastive": contrastive_weights, "binomial_deviance": binomial_weights}


@pytest.mark.parametrize("compact", [False, True])
@pytest.mark.parametrize("block", [None, 5])
@pytest.mark.parametrize("mining", ["all", "vthm"])
@pytest.mark.parametrize("name", DESIGNS)
def test_designed_loss_trains_like_the_one_whose_weights_it_has(name: str, mining: str, block: int | None, compact: bool) -> None:
    class Compact(likewise.DesignedByWeights):
        expands_positives = True

    made = Compact if compact else likewise.DesignedByWeights
    designed = likewise.objective(made(DESIGNS[name]), mining=mining, block=block)
    embeddings = batch().requires_grad_()
    assert (designed.rows(embeddings, LABELS).grouping is not None) == compact
    (expected,) = torch.autograd.grad(likewise.objective(name, mining=mining)(embeddings, LABELS), embeddings)
    (found,) = torch.autograd.grad(designed(embeddings, LABELS), embeddings)
    assert expected.abs().max() > 1e-3
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", DESIGNS)
def test_weights_of_a_designed_loss_are_the_designed_ones(name: str) -> None:
    designed = likewise.objective(likewise.DesignedByWeights(DESIGNS[name]))
    found = likewise.pair_weights(designed, batch(), LABELS)
    torch.testing.assert_close(found, likewise.pair_weights(likewise.objective(name), batch(), LABELS), rtol=0, atol=1e-9)
    assert found.sum() > 0


def test_weights_off_the_pairs_do_not_matter() -> None:
    def wild(pairs: Pairs) -> Tensor:
        return torch.where(pairs.positive | pairs.negative, 1.0, torch.inf)

    embeddings = batch().requires_grad_()
    (gradient,) = torch.autograd.grad(likewise.objective(likewise.DesignedByWeights(wild))(embeddings, LABELS), embeddings)
    assert gradient.isfinite().all()
    assert gradient.any()


@pytest.mark.parametrize("weight_function", ["raw", 0.5, None, likewise.LOSSES["raw"], likewise.LOSSES["raw"]()])
def test_weights_come_from_a_function(weight_function: object) -> None:
    with pytest.raises(ValueError, match="is no function: give one that maps pairs to weights"):
        likewise.DesignedByWeights(weight_function)


def test_one_weight_a_pair() -> None:
    with pytest.raises(ValueError, match=r"\(13,\) for \(13, 13\) pairs"):
        likewise.objective(likewise.DesignedByWeights(lambda pairs: pairs.similarity[:, 0]))(batch(), LABELS)


def nearest_neighbour_error(embeddings: Tensor, labels: Tensor) -> float:
    unit = torch.nn.functional.normalize(embeddings)
    nearest = (unit @ unit.T).fill_diagonal_(-2).argmax(-1)
    return float((labels[nearest] != labels).double().mean())


def test_designed_loss_trains() -> None:
    """Classes differ in 4 directions of 24; the others are stronger noise, which a linear map can learn to drop."""
    random = torch.Generator().manual_seed(0)
    centres = torch.randn(16, 4, generator=random)
    labels = torch.arange(16).repeat_interleave(16)

    def items() -> Tensor:
        signal = centres[labels] + 0.25 * torch.randn(256, 4, generator=random)
        return torch.cat([signal, 1.5 * torch.randn(256, 20, generator=random)], 1)

    train, test = items(), items()
    layer = torch.nn.Linear(24, 8, bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.randn(8, 24, generator=random) / 5)
    before = nearest_neighbour_error(layer(test).detach(), labels)
    objective = likewise.objective(likewise.DesignedByWeights(binomial_weights), mining="vthm", block=64)
    optimiser = torch.optim.Adam(layer.parameters(), lr=0.02)
    for _ in range(60):
        optimiser.zero_grad()
        objective(layer(train), labels).backward()
        optimiser.step()
    after = nearest_neighbour_error(layer(test).detach(), labels)
    assert before > 0.6
    assert after < before / 2
