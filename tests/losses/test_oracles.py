"""The oracles against what neither they nor the package define: values worked by hand, torch, scikit-learn, SciPy, pytorch-metric-learning.

Where pytorch-metric-learning (PML) reduces otherwise, its unreduced losses are taken and averaged as here: within the anchor, then over the
anchors with a positive and a negative. Gradients are compared too wherever PML means the same gradient.
"""

import functools
import math

import pytest
import scipy.linalg
import torch
import torch.nn.functional as F
from pytorch_metric_learning import distances, losses, miners, reducers
from sklearn.metrics import average_precision_score, normalized_mutual_info_score
from torch import Tensor

from ..cases import PART_LOSSES, PROXY_LOSSES, ROW_LOSSES
from .oracles import MINER_ORACLES, ORACLES, batch, cosines, normalized_mutual_information, sides

HELD_CONSTANT = {"ranked_list", "circle", "boosted_binomial", "hierarchical_triplet"}  # something of them, on purpose
FULL_GRADIENT = sorted(set(ORACLES) - HELD_CONSTANT)
ROOT2, ROOT3 = math.sqrt(2), math.sqrt(3)


def proxies_for(name: str, num_classes: int = 6, dim: int = 8, seed: int = 9) -> dict[str, object]:
    """What a proxy loss needs beside the batch; nothing for the others."""
    if name not in PROXY_LOSSES:
        return {}
    rows = num_classes * 3 if name == "soft_triple" else num_classes
    proxies = torch.randn(rows, dim, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return {"proxies": proxies, **({"num_centers": 3} if name == "soft_triple" else {})}


def on_circle(*degrees: float) -> Tensor:
    return torch.tensor([[math.cos(math.radians(a)), math.sin(math.radians(a))] for a in degrees], dtype=torch.float64)


# Two classes of two on the circle, by hand. Each row: the positive's similarity, then the negatives'.
#   0 (0 deg, class 0): 1/2 | 0, -1            2 (90 deg, class 1):  0 | 0, root3/2
#   1 (60 deg, class 0): 1/2 | root3/2, -1/2   3 (180 deg, class 1): 0 | -1, -1/2
TINY = 2.0 * on_circle(0, 60, 90, 180)
TINY_LABELS = torch.tensor([0, 0, 1, 1])
CLOSE = math.sqrt(2 - ROOT3)  # the distance of 1 and 2; the others: 01 1, 02 root2, 03 2, 13 root3, 23 root2


def softplus(value: float) -> float:
    return math.log1p(math.exp(value))


@pytest.mark.parametrize(
    ("name", "settings", "expected"),
    [
        ("contrastive", {}, (2 + ROOT3) / 4),
        ("contrastive_distance", {}, (1 / 3 + (1 + (1 - CLOSE) ** 2) / 3 + (2 + (1 - CLOSE) ** 2) / 3 + 2 / 3) / 4),
        # d^2: 0: 1 | 2, 4   1: 1 | 2 - root3, 3   2: 2 | 2, 2 - root3   3: 2 | 4, 3
        ("triplet", {}, ((ROOT3 - 0.8) / 2 + (0.2 + ROOT3 + 0.2) / 2) / 4),
        ("triplet", {"select": "hard"}, (ROOT3 - 0.8 + ROOT3 + 0.2) / 4),
        ("triplet", {"select": "hard", "squared": False}, (1 - CLOSE + 0.2 + ROOT2 - CLOSE + 0.2) / 4),
        # positives active beyond 1.05, negatives below 1.45: one, one, three, one
        ("margin", {"boundary": 1.25}, (1.45 - ROOT2 + 1.45 - CLOSE + (0.4 + 1.45 - CLOSE) / 3 + ROOT2 - 1.05) / 4),
        # d > .8: every positive; d < 1.2: only 1 and 2 of each other
        ("ranked_list", {}, (0.2 + 0.2 + 2 * (ROOT2 - 0.8) + 2 * (1.2 - CLOSE)) / 4),
        ("ranked_list", {"balance": 0.0}, (0.2 + 0.2 + 2 * (ROOT2 - 0.8)) / 4),
    ],
)
def test_values_worked_by_hand(name: str, settings: dict[str, float], expected: float) -> None:
    assert ORACLES[name](TINY, TINY_LABELS, **settings).item() == pytest.approx(expected, abs=1e-12)


def test_semihard_triplet_by_hand() -> None:
    # 0 moved a little towards 2, which breaks a tie. Negatives: 0 -> 2, 1 -> 3, 2 -> none beyond root2, so the farthest: 0; 3 -> 1.
    loss = ORACLES["triplet"](on_circle(0.001, 60, 90, 180), TINY_LABELS, select="semihard")
    assert loss.item() == pytest.approx(0.2 / 4, abs=1e-4)


def test_margin_boundary_belongs_to_the_anchors_class() -> None:
    boundary = torch.tensor([1.25, 0.5], dtype=torch.float64, requires_grad=True)
    loss = ORACLES["margin"](TINY, TINY_LABELS, boundary=boundary)
    # class 1 with boundary .5: positives active beyond .3, negatives below .7
    assert loss.item() == pytest.approx((1.45 - ROOT2 + 1.45 - CLOSE + (ROOT2 - 0.3 + 0.7 - CLOSE) / 2 + ROOT2 - 0.3) / 4)
    loss.backward()
    assert boundary.grad.tolist() == pytest.approx([0.25 + 0.25, 0 - 0.25])


def test_generalized_lifted_is_hinged() -> None:
    x, labels = on_circle(0, 0, 180), torch.tensor([0, 0, 1])  # each anchor: margin - 1 and -1
    assert ORACLES["generalized_lifted"](x, labels, margin=1.0).item() == 0
    assert ORACLES["generalized_lifted"](x, labels, margin=2.5).item() == pytest.approx(0.5)


def test_n_pair_by_hand() -> None:
    # unnormalised, on a line: 1, 2 | 3; products 2 | 3 and 2 | 6; the third has no positive but counts in the penalty
    x, labels = torch.tensor([[1.0], [2.0], [3.0]], dtype=torch.float64), torch.tensor([0, 0, 1])
    expected = (softplus(3 - 2) + softplus(6 - 2)) / 2
    assert ORACLES["n_pair"](x, labels, norm_penalty=0.0).item() == pytest.approx(expected)
    assert ORACLES["n_pair"](x, labels).item() == pytest.approx(expected + 5e-4 * (1 + 4 + 9) / 3)
    assert ORACLES["n_pair"](x, torch.tensor([0, 1, 2])).item() == 0
    # perfect embeddings of eight classes cost next to nothing once they are long (PML normalises, and stays at 1.27)
    perfect = 6 * torch.eye(8, dtype=torch.float64).repeat(2, 1)
    assert ORACLES["n_pair"](perfect, torch.arange(8).repeat(2), norm_penalty=0.0) < 1e-13


def test_nonlinear_rank_by_hand() -> None:
    # On a line: class 0 at 0, 1, 3.4, the others at 2 and 5. Distances | to negatives, then the two ranks that count:
    # from 0: 1, 3.4 | 2, 5: 2.4/4 and 1/4   from 1: 1, 2.4 | 1, 4: 1.4/3 and 0   from 3.4: 3.4, 2.4 | 1.4, 1.6: 1 and 0
    x = torch.tensor([[0.0], [1.0], [3.4], [2.0], [5.0]], dtype=torch.float64)
    labels = torch.tensor([0, 0, 0, 1, 2])
    from_0 = -math.log(0.5 * 0.8**4 + 1e-4) - math.log(0.5 * 0.5**4 + 1e-4)
    from_1 = -math.log(1 - 0.5 * (2.8 / 3) ** 4 + 1e-4) - math.log(1e-4)
    from_3 = -math.log(1e-4) - math.log(1e-4)
    assert ORACLES["nonlinear_rank"](x, labels, normalize=False).item() == pytest.approx((from_0 + from_1 + from_3) / 3)
    # all distances equal: nothing to rank
    corners = torch.eye(4, dtype=torch.float64, requires_grad=True)
    loss = ORACLES["nonlinear_rank"](corners, torch.tensor([0, 0, 1, 1]))
    loss.backward()
    assert loss.item() == 0
    assert not corners.grad.any()


def test_ranked_list_moves_the_query_alone_by_weighted_unit_steps() -> None:
    x = torch.tensor([[0.0, 0.0], [0.9, 0.0], [0.0, 0.5], [0.0, -0.7]], dtype=torch.float64, requires_grad=True)
    ORACLES["ranked_list"](x, torch.tensor([0, 0, 1, 2]), normalize=False).backward()
    share = math.exp(10 * (1.2 - 0.5)) / (math.exp(10 * (1.2 - 0.5)) + math.exp(10 * (1.2 - 0.7)))
    assert x.grad[0].tolist() == pytest.approx([-0.5, 0.5 * (share - (1 - share))])  # two anchors: a half each
    assert not x.grad[2:].any()  # they are no anchors


def test_structured_clustering_by_hand() -> None:
    # A line, unnormalised: 0 and 3 of class 0, 1 and 4 of class 1. True medoids: F~ = -6. The best S = one of {0, 1}, one of {3, 4}:
    # F = -2, the partitions are independent: NMI 0.
    x = torch.tensor([[0.0], [3.0], [1.0], [4.0]], dtype=torch.float64, requires_grad=True)
    loss = ORACLES["structured_clustering"](x, torch.tensor([0, 0, 1, 1]), normalize=False, gamma=0.5)
    assert loss.item() == pytest.approx(-2 + 0.5 + 6)
    loss.backward()
    # F~: -(3 - 0) - (4 - 1) and F: -(1 - 0) - (4 - 3)
    assert x.grad.flatten().tolist() == pytest.approx([-1 + 1, 1 + 1, -1 - 1, 1 - 1])
    # gamma decides between the true clustering, which costs 0, and others
    separated = torch.tensor([[0.0], [1.0], [10.0], [11.0]], dtype=torch.float64)
    assert ORACLES["structured_clustering"](separated, torch.tensor([0, 0, 1, 1]), normalize=False).item() == 0


@pytest.mark.parametrize("seed", range(20))
def test_nmi_is_scikit_learns(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    first = torch.randint(1 + seed % 5, (9,), generator=generator).tolist()
    second = torch.randint(1 + seed % 3, (9,), generator=generator).tolist()
    expected = normalized_mutual_info_score(first, second, average_method="geometric")
    assert normalized_mutual_information(first, second) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("kind", ["balanced", "unbalanced"])
def test_structured_clustering_is_the_maximum_over_all_medoids(kind: str) -> None:
    embeddings, labels = batch(kind)
    keep = labels < 3
    embeddings, labels = embeddings[keep], labels[keep]
    far = torch.cdist(F.normalize(embeddings), F.normalize(embeddings))
    values = []
    for medoids in torch.combinations(torch.arange(len(labels)), 3):
        cost, cluster = far[:, medoids].min(dim=1)
        values.append(-cost.sum().item() + 1 - normalized_mutual_info_score(labels, cluster, average_method="geometric"))
    truth = -sum(far[labels == c][:, labels == c].sum(dim=0).min().item() for c in range(3))
    assert ORACLES["structured_clustering"](embeddings, labels).item() == pytest.approx(max(0, max(values) - truth))
    assert max(values) > truth


@pytest.mark.parametrize("kind", ["balanced", "unbalanced"])
def test_spectral_clustering_is_given_by_the_principal_angles(kind: str) -> None:
    embeddings, labels = batch(kind)
    one_hot = F.one_hot(labels).double()
    cosine = torch.cos(torch.tensor(scipy.linalg.subspace_angles(embeddings.numpy(), one_hot.numpy())))
    unnormalised = (embeddings.shape[1] + one_hot.shape[1] - 2 * (cosine**2).sum()) / len(labels)
    assert ORACLES["spectral_clustering"](embeddings, labels, normalize=False).item() == pytest.approx(unnormalised.item())


def test_histogram_counts_the_wrongly_ordered_pairs() -> None:
    # Two bins (nodes -1 and 1): h(1) is the mean of (1 + s) / 2. Positives .5, 0; negatives 0, -1, root3/2, -1/2.
    positive, negative = (1 + 0.25) / 2, (1 + (ROOT3 / 2 - 1.5) / 4) / 2
    expected = (1 - negative) * (1 - positive) + negative * 1
    assert ORACLES["histogram"](TINY, TINY_LABELS, bins=2).item() == pytest.approx(expected)
    assert ORACLES["histogram"](TINY, torch.tensor([0, 0, 0, 0])).item() == 0
    assert ORACLES["histogram"](TINY, torch.tensor([0, 1, 2, 3])).item() == 0
    # with fine bins: the share of (positive pair, negative pair) in the wrong order
    embeddings, labels = batch("unbalanced")
    s, same = torch.tensor(cosines(embeddings)), labels[:, None] == labels
    off_diagonal = ~torch.eye(len(labels), dtype=torch.bool)
    share = (s[~same][:, None] > s[same & off_diagonal]).double().mean()
    assert ORACLES["histogram"](embeddings, labels, bins=20001).item() == pytest.approx(share.item(), abs=1e-4)


# Against pytorch-metric-learning


def by_anchor(values: Tensor, anchors: Tensor, count: int, reduce: str) -> Tensor:
    return torch.zeros(count, dtype=values.dtype).scatter_reduce(0, anchors, values, reduce, include_self=False)


def valid_anchors(labels: Tensor) -> list[int]:
    return [i for i in range(len(labels)) if all(sides(labels.tolist(), i))]


def unreduced(loss: torch.nn.Module, embeddings: Tensor, labels: Tensor, **arguments: object) -> list[tuple[Tensor, object]]:
    loss.reducer = reducers.DoNothingReducer()
    parts = loss(embeddings, labels, **arguments).values()
    return [(part["losses"].flatten(), part["indices"]) for part in parts if isinstance(part["losses"], Tensor)]


def pml_rows(
    loss: torch.nn.Module, embeddings: Tensor, labels: Tensor, *, within: str = "mean", power: int = 1, **arguments: object
) -> Tensor:
    """Mean over anchors of PML's unreduced losses; losses of pairs or triplets are first reduced within the anchor."""
    rows = torch.zeros(len(labels), dtype=torch.float64)
    for values, indices in unreduced(loss, embeddings, labels, **arguments):
        anchors = indices[0] if isinstance(indices, tuple) else indices
        rows = rows + by_anchor(values**power, anchors, len(labels), within)
    return rows[valid_anchors(labels)].mean()


def assert_same(name: str, peer, kind: str, *, rel: float = 1e-9, gradient: bool = True, **settings: object) -> None:
    ours, labels = batch(kind)
    theirs = ours.clone().requires_grad_()
    ours.requires_grad_()
    value, expected = ORACLES[name](ours, labels, **settings), peer(theirs, labels)
    assert value.dtype == torch.float64
    assert value.item() == pytest.approx(expected.item(), rel=rel)
    if gradient:
        value.backward()
        expected.backward()
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=max(rel, 1e-6), atol=rel)


COSINE, EUCLIDEAN, SQUARED = distances.CosineSimilarity, distances.LpDistance, functools.partial(distances.LpDistance, power=2)
PML_ROWS = {
    "contrastive": (losses.ContrastiveLoss(1, 0.5, distance=COSINE()), {"within": "sum"}, {}),
    "triplet": (losses.TripletMarginLoss(0.2, distance=SQUARED()), {}, {}),
    "triplet plain": (losses.TripletMarginLoss(0.3, distance=EUCLIDEAN()), {}, {"margin": 0.3, "squared": False}),
    "lifted": (losses.LiftedStructureLoss(neg_margin=1), {}, {}),
    "generalized_lifted": (losses.GeneralizedLiftedStructureLoss(neg_margin=0, pos_margin=1, distance=COSINE()), {}, {}),
    "raw": (losses.MultiSimilarityLoss(2, 50, 0.5), {}, {}),
    "multi_similarity": (losses.MultiSimilarityLoss(3, 20, 0.4), {}, {"alpha": 3.0, "beta": 20.0, "threshold": 0.4}),
    "circle": (losses.CircleLoss(), {}, {}),
    "circle 256": (losses.CircleLoss(0.25, 256), {}, {"margin": 0.25, "scale": 256.0}),
    "supcon": (losses.SupConLoss(), {}, {}),
    "nt_xent": (losses.NTXentLoss(), {}, {}),
    "nt_xent warm": (losses.NTXentLoss(0.5), {}, {"temperature": 0.5}),
    "fast_ap": (losses.FastAPLoss(), {}, {}),
    "nca": (losses.NCALoss(2), {}, {"scale": 2.0}),
    "tuplet_margin": (losses.TupletMarginLoss(math.degrees(0.1), 16), {}, {"slack": 0.1, "scale": 16.0}),
    "fast_ap 7": (losses.FastAPLoss(7), {}, {"bins": 7}),
}


@pytest.mark.parametrize("kind", ["balanced", "unbalanced"])
@pytest.mark.parametrize("case", PML_ROWS)
def test_row_losses_are_pmls(case: str, kind: str) -> None:
    loss, reduction, settings = PML_ROWS[case]
    assert_same(case.split()[0], functools.partial(pml_rows, loss, **reduction), kind, **settings)


@pytest.mark.parametrize("kind", ["balanced", "unbalanced"])
def test_contrastive_distance_is_pmls_squared(kind: str) -> None:
    """PML's contrastive loss of plain distances, each pair's loss squared as in the paper, averaged over the row."""

    def peer(embeddings: Tensor, labels: Tensor) -> Tensor:
        loss = losses.ContrastiveLoss(0, 1, distance=EUCLIDEAN())
        return pml_rows(loss, embeddings, labels, within="sum", power=2) / (len(labels) - 1)

    assert_same("contrastive_distance", peer, kind)


@pytest.mark.parametrize("kind", ["balanced", "unbalanced"])
def test_angular_is_pmls_on_unit_vectors(kind: str) -> None:
    """PML leaves the negatives unnormalised; given unit vectors it says the same."""
    loss = losses.AngularLoss(40)
    assert_same("angular", lambda x, y: pml_rows(loss, F.normalize(x), y), kind, angle=40.0)


@pytest.mark.parametrize("kind", ["balanced", "unbalanced"])
def test_ranked_list_is_pmls(kind: str) -> None:
    """PML adds 1e-5 per weight, lets the gallery and the weights move (so no gradient here) and halves the sum."""
    loss = losses.RankedListLoss(margin=0.4, Tn=5, imbalance=0.5, alpha=1.2)
    assert_same("ranked_list", lambda x, y: 2 * pml_rows(loss, x, y), kind, rel=1e-3, gradient=False, temperature=5.0)


@pytest.mark.filterwarnings("ignore:Using a non-tuple sequence")  # of PML's own code
def test_histogram_is_pmls() -> None:
    """PML has n_bins + 1 nodes, float32 weights, and leaves out pairs of two singletons: hence the balanced batch alone."""
    loss = losses.HistogramLoss(n_bins=20)
    assert_same("histogram", lambda x, y: loss(x, y), "balanced", rel=1e-5, bins=21)


@pytest.mark.parametrize("kind", ["balanced", "unbalanced"])
def test_binomial_deviance_and_margin_are_means_of_torchs_pairs(kind: str) -> None:
    def binomial(x: Tensor, y: Tensor) -> Tensor:
        s, rows = F.normalize(x) @ F.normalize(x).T, []
        for i in valid_anchors(y):
            positives, negatives = sides(y.tolist(), i)
            rows.append(F.softplus(2 * (0.5 - s[i, positives])).mean() + F.softplus(50 * (s[i, negatives] - 0.5)).mean())
        return torch.stack(rows).mean()

    def margin(x: Tensor, y: Tensor) -> Tensor:
        d, rows = torch.cdist(F.normalize(x), F.normalize(x)), []
        for i in valid_anchors(y):
            positives, negatives = sides(y.tolist(), i)
            pairs = torch.cat([F.relu(d[i, positives] - 1.0), F.relu(1.4 - d[i, negatives])])
            rows.append(pairs.sum() / pairs.count_nonzero().clamp(min=1))
        return torch.stack(rows).mean()

    assert_same("binomial_deviance", binomial, kind)
    assert_same("margin", margin, kind)


@pytest.mark.parametrize("kind", ["balanced", "unbalanced"])
def test_hard_triplet_is_pmls_over_its_miner(kind: str) -> None:
    loss, miner = losses.TripletMarginLoss(0.2, distance=SQUARED()), miners.BatchHardMiner()
    assert_same("triplet", lambda x, y: pml_rows(loss, x, y, indices_tuple=miner(x.detach(), y)), kind, select="hard")


@pytest.mark.parametrize("kind", ["balanced", "unbalanced"])
def test_n_pair_is_a_cross_entropy_for_each_positive(kind: str) -> None:
    embeddings, labels = batch(kind)
    rows = []
    for i in valid_anchors(labels):
        positives, negatives = sides(labels.tolist(), i)
        products = embeddings @ embeddings[i]
        logits = torch.stack([torch.cat([products[[p]], products[negatives]]) for p in positives])
        rows.append(F.cross_entropy(logits, torch.zeros(len(positives), dtype=torch.long)))
    expected = torch.stack(rows).mean() + 5e-4 * (embeddings**2).sum(dim=1).mean()
    assert ORACLES["n_pair"](embeddings, labels).item() == pytest.approx(expected.item())


# Against average precision and the plain recall: the limits of the smooth ranks


@pytest.mark.parametrize("kind", ["balanced", "unbalanced"])
def test_cold_smooth_ap_is_one_minus_average_precision(kind: str) -> None:
    embeddings, labels = batch(kind)
    s = torch.tensor(cosines(embeddings))
    scores = []
    for i in valid_anchors(labels):
        others = [j for j in range(len(labels)) if j != i]
        scores.append(average_precision_score(labels[others] == labels[i], s[i][others]))
    expected = 1 - sum(scores) / len(scores)
    assert ORACLES["smooth_ap"](embeddings, labels, temperature=1e-7).item() == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("kind", ["balanced", "unbalanced"])
def test_cold_recall_at_k_counts_what_is_found(kind: str) -> None:
    embeddings, labels = batch(kind)
    s = torch.tensor(cosines(embeddings)).fill_diagonal_(-2)
    for k in (1, 3, 6):
        recalls = []
        for i in valid_anchors(labels):
            found = (labels[s[i].topk(k).indices] == labels[i]).sum().item()
            recalls.append(found / min(k + 0.5, len(sides(labels.tolist(), i)[0])))
        # k + 1/2: a cold sigmoid at rank k exactly is one half
        cold = ORACLES["recall_at_k"](embeddings, labels, ks=(k + 0.5,), rank_temperature=1e-7, count_temperature=1e-7)
        assert cold.item() == pytest.approx(1 - sum(recalls) / len(recalls), abs=1e-9)


def test_recall_at_k_by_hand() -> None:
    sigmoid = torch.sigmoid(torch.tensor(1.0, dtype=torch.float64)).item()
    x, labels = on_circle(0, 0, 90), torch.tensor([0, 0, 1])  # rank 1 for both anchors
    expected = 1 - (0.5 + sigmoid / 1) / 2
    assert ORACLES["recall_at_k"](x, labels, ks=(1, 2)).item() == pytest.approx(expected, abs=1e-12)


# Against the proxy losses of torch and PML


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("kind", ["balanced", "unbalanced"])
def test_proxy_softmax_is_cross_entropy(kind: str, smoothing: float) -> None:
    proxies = proxies_for("proxy_softmax")["proxies"]

    def peer(x: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(F.normalize(x) @ F.normalize(proxies).T / 0.05, y, label_smoothing=smoothing)

    assert_same("proxy_softmax", peer, kind, proxies=proxies, label_smoothing=smoothing)


@pytest.mark.parametrize("kind", ["balanced", "unbalanced"])
def test_softmax_is_a_linear_layer_and_cross_entropy(kind: str) -> None:
    weight = proxies_for("softmax")["proxies"]
    bias = torch.randn(6, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    assert_same("softmax", lambda x, y: F.cross_entropy(F.linear(x, weight, bias), y), kind, proxies=weight, bias=bias)
    assert_same("softmax", lambda x, y: F.cross_entropy(F.linear(x, weight), y), kind, proxies=weight)


@pytest.mark.parametrize("kind", ["balanced", "unbalanced"])
def test_prototypical_is_cross_entropy(kind: str) -> None:
    def peer(x: Tensor, y: Tensor) -> Tensor:
        present = [c for c in range(6) if (y == c).sum() > 1]
        members = {c: torch.where(y == c)[0] for c in present}
        means = torch.stack([x[members[c][: len(members[c]) // 2]].mean(dim=0) for c in present])
        queries = torch.cat([members[c][len(members[c]) // 2 :] for c in present])
        target = torch.tensor([present.index(int(y[i])) for i in queries])
        return F.cross_entropy(-(torch.cdist(x[queries], means) ** 2), target)

    assert_same("prototypical", peer, kind)


def test_prototypical_support_by_hand() -> None:
    x = torch.tensor([[0.0], [2.0], [1.0], [4.0], [3.0]], dtype=torch.float64)
    labels = torch.tensor([0, 0, 0, 1, 1])
    # one support each: prototypes 0 and 4; queries 2, 1 | 3
    expected = (softplus(4 - 4) + softplus(1 - 9) + softplus(1 - 9)) / 3
    assert ORACLES["prototypical"](x, labels).item() == pytest.approx(expected)
    # two: the prototype of class 0 is 1, query 1; class 1 has no query left, its prototype is 3.5
    assert ORACLES["prototypical"](x, labels, num_support=2).item() == pytest.approx(softplus(0 - 2.5**2))
    # a lone item is no prototype
    assert ORACLES["prototypical"](x, torch.tensor([0, 0, 0, 0, 1])).item() == 0


def with_proxies(loss: torch.nn.Module, parameter: str, proxies: Tensor) -> torch.nn.Module:
    setattr(loss, parameter, torch.nn.Parameter(proxies.clone()))
    return loss


PML_PROXIES = {
    "proxy_anchor": (losses.ProxyAnchorLoss(7, 8), "proxies", {}),
    "arcface": (losses.ArcFaceLoss(7, 8, margin=math.degrees(0.5)), "W", {}),
    "arcface wide": (losses.ArcFaceLoss(7, 8, margin=math.degrees(1.5), scale=8), "W", {"margin": 1.5, "scale": 8.0}),
    "cosface": (losses.CosFaceLoss(7, 8), "W", {}),
    "soft_triple": (losses.SoftTripleLoss(7, 8, centers_per_class=3), "fc", {"num_centers": 3, "regularization": 0.0}),
}


@pytest.mark.parametrize("kind", ["balanced", "unbalanced"])
@pytest.mark.parametrize("case", PML_PROXIES)
def test_proxy_losses_are_pmls(case: str, kind: str) -> None:
    loss, parameter, settings = PML_PROXIES[case]
    proxies = proxies_for(case.split()[0], num_classes=7)["proxies"].requires_grad_()
    theirs = with_proxies(loss, parameter, proxies.detach() if parameter == "proxies" else proxies.detach().T)
    assert_same(case.split()[0], theirs, kind, proxies=proxies, **settings)
    gradient = getattr(theirs, parameter).grad
    torch.testing.assert_close(proxies.grad, gradient if parameter == "proxies" else gradient.T, rtol=1e-6, atol=1e-9)


def test_arcface_beyond_pi_is_reached() -> None:
    """The wide margin above must use the second form, or that comparison says nothing about it."""
    embeddings, labels = batch("unbalanced")
    proxies = proxies_for("arcface", num_classes=7)["proxies"]
    own = (F.normalize(embeddings) * F.normalize(proxies)[labels]).sum(dim=1)
    assert (torch.acos(own) + 1.5 > math.pi).any()
    assert (torch.acos(own) + 1.5 < math.pi).any()


@pytest.mark.parametrize("kind", ["balanced", "unbalanced"])
def test_proxy_nca_is_pmls_odds(kind: str) -> None:
    """PML's denominator holds the own proxy too: with its probability q, the loss here is -log(q / (1 - q))."""
    proxies = proxies_for("proxy_nca")["proxies"]
    loss = with_proxies(losses.ProxyNCALoss(6, 8, softmax_scale=3), "proxies", proxies)

    def peer(x: Tensor, y: Tensor) -> Tensor:
        ((values, _),) = unreduced(loss, x, y)
        return (values + torch.log1p(-torch.exp(-values))).mean()

    assert_same("proxy_nca", peer, kind, proxies=proxies)


@pytest.mark.parametrize("kind", ["balanced", "unbalanced"])
def test_proxy_triplet_is_pmls_triplet_against_references(kind: str) -> None:
    proxies = proxies_for("proxy_triplet")["proxies"]
    loss = losses.TripletMarginLoss(1, distance=SQUARED())

    def peer(x: Tensor, y: Tensor) -> Tensor:
        ((values, indices),) = unreduced(loss, x, y, ref_emb=proxies, ref_labels=torch.arange(6))
        return by_anchor(values, indices[0], len(y), "mean").mean()

    assert_same("proxy_triplet", peer, kind, proxies=proxies)


def test_soft_triple_regularization_by_hand() -> None:
    # class 0: centres 60 degrees apart (distance 1), class 1: 180 degrees apart (distance 2)
    proxies = 3 * on_circle(0, 60, 0, 180)
    x, labels = on_circle(10.0, 20.0), torch.tensor([0, 1])
    plain = ORACLES["soft_triple"](x, labels, proxies=proxies, num_centers=2, regularization=0.0)
    assert ORACLES["soft_triple"](x, labels, proxies=proxies, num_centers=2).item() == pytest.approx(plain.item() + 0.2 * 3 / (2 * 2 * 1))
    # one centre a class: cosface
    single = ORACLES["soft_triple"](x, labels, proxies=proxies[1:3], num_centers=1, scale=5.0, margin=0.2)
    assert single.item() == pytest.approx(ORACLES["cosface"](x, labels, proxies=proxies[1:3], scale=5.0, margin=0.2).item())


# Miners


def kept_by_pml(miner: torch.nn.Module, embeddings: Tensor, labels: Tensor, anchor: int) -> tuple[set[int], set[int]]:
    found = miner(embeddings, labels)
    if len(found) == 3:
        a, p, n = found
        found = a, p, a, n
    a1, p, a2, n = found
    return set(p[a1 == anchor].tolist()), set(n[a2 == anchor].tolist())


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["balanced", "unbalanced"])
@pytest.mark.parametrize(
    ("name", "miner"),
    [
        ("vthm", miners.MultiSimilarityMiner(0.1)),
        ("non_trivial", miners.PairMarginMiner(pos_margin=0.8, neg_margin=1.2)),
        ("hard", miners.BatchHardMiner()),
    ],
)
def test_miners_are_pmls(name: str, miner: torch.nn.Module, kind: str, seed: int) -> None:
    embeddings, labels = batch(kind, seed)
    narrowed = 0
    for i in valid_anchors(labels):
        kept = MINER_ORACLES[name](cosines(embeddings), labels.tolist(), i)
        assert kept == kept_by_pml(miner, embeddings, labels, i)
        narrowed += kept != MINER_ORACLES["all"](cosines(embeddings), labels.tolist(), i)
    assert narrowed


def test_miners_by_hand() -> None:
    labels = [0, 0, 0, 1, 1, 2]

    def kept(name: str, *row: float, **settings: float) -> tuple[set[int], set[int]]:
        return MINER_ORACLES[name]([list(row)] * 6, labels, 0, **settings)

    row = (1.0, 0.8, 0.3, 0.85, 0.5, 0.1)
    assert kept("all", *row) == ({1, 2}, {3, 4, 5})
    assert kept("semihard", *row) == ({1, 2}, {4, 5})  # beyond .8: .5 is nearest; beyond .3: .1
    assert kept("semihard", 1.0, 0.8, 0.05, 0.85, 0.5, 0.1) == ({1, 2}, {4, 5})  # none beyond .05: the farthest, .1
    assert kept("semihard", 1.0, 0.5, 0.5, 0.5, 0.3, 0.6) == ({1, 2}, {4})  # equal is not farther
    assert kept("semihard", 1.0, 0.1, 0.1, 0.6, 0.5, 0.5) == ({1, 2}, {4})  # the farthest, of the lowest index
    assert kept("hard", *row) == ({2}, {3})
    assert kept("hard", 1.0, 0.3, 0.3, 0.5, 0.5, 0.5) == ({1}, {3})
    assert kept("vthm", *row) == ({1, 2}, {3, 4})  # negatives above .2, positives below .95
    assert kept("vthm", *row, margin=0.25) == ({1, 2}, {3, 4, 5})
    assert kept("vthm", 1.0, 0.9, 0.8, 0.1, 0.0, 0.2) == (set(), set())
    # d = sqrt(2 - 2s): .63, 1.18 | .55, 1, 1.34
    assert kept("non_trivial", *row) == ({2}, {3, 4})


@pytest.mark.parametrize("kind", ["balanced", "unbalanced"])
def test_mined_loss_is_pmls(kind: str) -> None:
    """The original multi-similarity: its loss over its miner's pairs."""
    loss, miner = losses.MultiSimilarityLoss(), miners.MultiSimilarityMiner(0.1)

    def peer(x: Tensor, y: Tensor) -> Tensor:
        return pml_rows(loss, x, y, indices_tuple=miner(x.detach(), y))

    assert_same("multi_similarity", peer, kind, mine=MINER_ORACLES["vthm"])


def test_lifted_mines_the_positives_negatives_too() -> None:
    # rows of TINY with hard mining: the negative of 0 is 2, of 1 is 2, of 2 is 1, of 3 is 1
    violations = [1 + math.log(math.exp(1 - ROOT2) + math.exp(1 - CLOSE))] * 2
    violations += [ROOT2 + math.log(math.exp(1 - CLOSE) + math.exp(1 - ROOT3))] * 2
    mined = ORACLES["lifted"](TINY, TINY_LABELS, mine=MINER_ORACLES["hard"])
    assert mined.item() == pytest.approx(sum(v**2 for v in violations) / 8)
    plain = ORACLES["lifted"](TINY, TINY_LABELS, mine=MINER_ORACLES["hard"], squared=False)
    assert plain.item() == pytest.approx(sum(violations) / 8)


@pytest.mark.parametrize("name", ROW_LOSSES)
def test_mining_none_leaves_zero_and_mining_all_changes_nothing(name: str) -> None:
    embeddings, labels = batch("unbalanced")
    embeddings.requires_grad_()
    settings = {"norm_penalty": 0.0} if name == "n_pair" else {}
    nothing = ORACLES[name](embeddings, labels, mine=lambda *_: (set(), set()), **settings)
    nothing.backward()
    assert nothing.item() == 0
    assert not embeddings.grad.any()
    assert ORACLES[name](embeddings, labels, mine=MINER_ORACLES["all"]).item() == ORACLES[name](embeddings, labels).item()


@pytest.mark.parametrize("name", ROW_LOSSES)
def test_an_empty_side_after_mining_is_finite(name: str) -> None:
    embeddings, labels = batch("unbalanced")
    for empty in (0, 1):

        def mine(similarities: list[list[float]], classes: list[int], anchor: int, empty: int = empty) -> tuple[set[int], set[int]]:
            kept = [set(side) for side in sides(classes, anchor)]
            kept[empty] = set()
            return tuple(kept)

        x = embeddings.clone().requires_grad_()
        loss = ORACLES[name](x, labels, mine=mine)
        loss.backward()
        assert loss.isfinite()
        assert x.grad.isfinite().all()


# What holds for every oracle


@pytest.mark.parametrize("name", ORACLES)
def test_without_a_valid_anchor_the_loss_is_a_zero_that_back_propagates(name: str) -> None:
    extra = proxies_for(name, num_classes=1)
    for labels in ([0, 0, 0, 0], [0, 1, 2, 3]):
        if extra and labels[1]:
            continue  # every item has its proxy
        x = batch("balanced")[0][:4].requires_grad_()
        loss = ORACLES[name](x, torch.tensor(labels), **extra)
        loss.backward()
        assert loss.item() == 0
        assert x.grad is not None
        assert not x.grad.any()


@pytest.mark.parametrize("name", sorted(set(ORACLES) - {"prototypical"}))  # whose support is the first of each class
def test_order_does_not_matter(name: str) -> None:
    embeddings, labels = batch("unbalanced")
    if name == "structured_clustering":
        embeddings, labels = embeddings[labels < 4], labels[labels < 4]
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(3))
    extra = proxies_for(name)
    expected = ORACLES[name](embeddings, labels, **extra).item()
    assert ORACLES[name](embeddings[order], labels[order], **extra).item() == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("name", ORACLES)
def test_length_matters_only_unnormalised(name: str) -> None:
    embeddings, labels = batch("balanced")
    extra = proxies_for(name)
    stretched = embeddings * torch.linspace(0.5, 2, len(labels), dtype=torch.float64)[:, None]
    normalised = [ORACLES[name](x, labels, normalize=True, **extra).item() for x in (embeddings, stretched)]
    assert normalised[0] == pytest.approx(normalised[1], rel=1e-10)
    default = ORACLES[name](embeddings, labels, **extra).item()
    assert (default == normalised[0]) == (name not in {"n_pair", "prototypical", "softmax"})
    if name not in {"histogram", "fast_ap", *PART_LOSSES}:  # defined on unit vectors, or on unit parts
        assert ORACLES[name](stretched, labels, normalize=False, **extra).item() != pytest.approx(normalised[1], rel=1e-6)


ZERO_WHEN_PERFECT = {
    *("contrastive", "contrastive_distance", "triplet", "margin", "histogram", "ranked_list", "structured_clustering"),
    *("spectral_clustering", "proxy_triplet", "smooth_ap", "fast_ap"),
}


@pytest.mark.parametrize("name", ORACLES)
def test_perfect_embeddings_cost_least(name: str) -> None:
    labels = torch.arange(4).repeat_interleave(3)
    embeddings = torch.eye(4, dtype=torch.float64)[labels]
    extra = proxies_for(name, 4, 4)
    if extra:
        extra["proxies"] = torch.eye(4, dtype=torch.float64).repeat_interleave(len(extra["proxies"]) // 4, dim=0)
    perfect = ORACLES[name](embeddings, labels, **extra).item()
    if name in ZERO_WHEN_PERFECT:
        assert perfect == pytest.approx(0, abs=1e-12)
    mixed = labels.roll(1)
    assert ORACLES[name](embeddings, mixed, **extra).item() > perfect + 1e-3
    x = embeddings.clone().requires_grad_()  # equal vectors: distance 0 has gradient 0
    ORACLES[name](x, labels, **extra).backward()
    assert x.grad.isfinite().all()


@pytest.mark.parametrize("name", FULL_GRADIENT)
def test_gradient_is_the_derivative(name: str) -> None:
    generator = torch.Generator().manual_seed(2)
    labels = torch.tensor([0, 1, 0, 2, 1, 0, 2])
    x = torch.randn(7, 3, generator=generator, dtype=torch.float64, requires_grad=True)
    extra = proxies_for(name, 3, 3)
    if not extra:
        assert torch.autograd.gradcheck(lambda x: ORACLES[name](x, labels), (x,))
        return
    proxies = extra.pop("proxies").requires_grad_()
    assert torch.autograd.gradcheck(lambda x, proxies: ORACLES[name](x, labels, proxies=proxies, **extra), (x, proxies))


@pytest.mark.parametrize("name", ORACLES)
def test_a_zero_vector_stays_zero(name: str) -> None:
    embeddings, labels = batch("balanced")
    embeddings[0] = 0
    embeddings.requires_grad_()
    loss = ORACLES[name](embeddings, labels, normalize=True, **proxies_for(name))
    loss.backward()
    assert loss.isfinite()
    assert embeddings.grad.isfinite().all()
    assert not embeddings.grad[0].any()


def test_batches_are_what_they_say() -> None:
    embeddings, labels = batch("unbalanced", 1)
    counts = labels.bincount()
    assert embeddings.dtype == torch.float64
    assert embeddings.shape == (len(labels), 8)
    assert (counts == 1).sum() == 2
    assert counts.unique().numel() > 2
    _, balanced = batch("balanced", 1)
    assert balanced.bincount().unique().tolist() == [3]
    assert len(balanced.bincount()) == 4
    assert not torch.equal(labels, batch("unbalanced", 2)[1])
