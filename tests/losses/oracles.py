"""Slow float64 loops for every loss and miner, written from the papers' formulas and from nothing else.

`ORACLES[name](embeddings, labels, *, normalize, proxies=None, mine=None, <settings>)` gives the batch loss as a float64 scalar; autograd
through the loop gives its gradient. Losses of an anchor's row (those that take `mine`) are written as a function of a `Row`;
`inspect.signature(ORACLES[name])` shows that function, hence the settings and their defaults. Losses of the whole batch, of
prototypes and of proxies take no `mine`: the anchors' batch is not what they are compared with.

`MINER_ORACLES[name](similarities, labels, anchor, <settings>)` gives the (positives, negatives) of one anchor that are kept, as sets of
indices; `similarities` are cosines as a list of lists of floats, whether or not the loss normalises its embeddings. An anchor counts in
the mean if it had a positive and a negative before mining.
"""

import functools
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

Indices = set[int]
Miner = Callable[[list[list[float]], list[int], int], tuple[Indices, Indices]]


def batch(kind: str, seed: int = 0) -> tuple[Tensor, Tensor]:
    """A small batch, shuffled: "unbalanced" (14 x 8, classes of 1 to 4) or "balanced" (12 x 8, four classes of three)."""
    labels = {"unbalanced": [0, 0, 0, 1, 1, 2, 3, 3, 3, 3, 4, 5, 5, 5], "balanced": [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]}[kind]
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(labels), generator=generator)
    shuffled = torch.tensor(labels)[order]
    centers = torch.randn(6, 8, generator=generator, dtype=torch.float64)
    noise = torch.randn(len(labels), 8, generator=generator, dtype=torch.float64)
    return 0.6 * centers[shuffled] + noise, shuffled


# Scalars


def number(scalar: Tensor) -> float:
    """The value alone, for choices and for what the gradient holds constant."""
    return scalar.detach().item()


def unit(vector: Tensor) -> Tensor:
    """x / ||x||; a zero vector stays zero and receives no gradient."""
    if not vector.any():
        return vector * 0
    return vector / torch.linalg.vector_norm(vector)


def distance(a: Tensor, b: Tensor) -> Tensor:
    """||a - b||, whose gradient at a = b is taken to be 0."""
    difference = a - b
    if not difference.any():
        return (difference * 0).sum()
    return torch.linalg.vector_norm(difference)


def squared_distance(a: Tensor, b: Tensor) -> Tensor:
    return torch.dot(a - b, a - b)


def hinge(value: Tensor) -> Tensor:
    return value if value > 0 else value * 0


def log_sum_exp(values: list[Tensor]) -> Tensor:
    return torch.logsumexp(torch.stack(values), dim=0)


def log_one_plus_sum_exp(values: list[Tensor]) -> Tensor:
    """log(1 + sum of e^v); 0 for no values."""
    return log_sum_exp([torch.zeros((), dtype=torch.float64), *values])


def mean(values: list) -> Tensor | float:
    """Mean; 0 for no values."""
    return sum(values) / len(values) if values else 0.0


def sides(labels: list[int], anchor: int) -> tuple[list[int], list[int]]:
    """The anchor's positives (itself left out) and negatives."""
    positives = [j for j in range(len(labels)) if j != anchor and labels[j] == labels[anchor]]
    negatives = [j for j in range(len(labels)) if labels[j] != labels[anchor]]
    return positives, negatives


def anchors_of(classes: list[int]) -> list[int]:
    """Those that have a positive and a negative."""
    return [i for i in range(len(classes)) if all(sides(classes, i))]


def vectors(embeddings: Tensor, normalize: bool) -> list[Tensor]:
    return [unit(embeddings[i]) if normalize else embeddings[i] for i in range(len(embeddings))]


def cosines(embeddings: Tensor) -> list[list[float]]:
    x = vectors(embeddings.detach(), True)
    return [[number(torch.dot(a, b)) for b in x] for a in x]


def zero(*tensors: Tensor) -> Tensor:
    """0 that still back-propagates."""
    return sum((tensor * 0).sum() for tensor in tensors)


# Miners


def all_pairs(similarities: list[list[float]], labels: list[int], anchor: int) -> tuple[Indices, Indices]:
    positives, negatives = sides(labels, anchor)
    return set(positives), set(negatives)


def vthm(similarities: list[list[float]], labels: list[int], anchor: int, *, margin: float = 0.1) -> tuple[Indices, Indices]:
    """Valid-triplet hard mining (unified view, 5.1)."""
    positives, negatives = sides(labels, anchor)
    s = similarities[anchor]
    hardest_positive = min([s[p] for p in positives], default=math.inf)
    hardest_negative = max([s[n] for n in negatives], default=-math.inf)
    return {p for p in positives if s[p] < hardest_negative + margin}, {n for n in negatives if s[n] > hardest_positive - margin}


def non_trivial(
    similarities: list[list[float]], labels: list[int], anchor: int, *, alpha: float = 1.2, margin: float = 0.4
) -> tuple[Indices, Indices]:
    """Ranked list loss, 3.2."""
    positives, negatives = sides(labels, anchor)
    d = [math.sqrt(max(0.0, 2 - 2 * s)) for s in similarities[anchor]]
    return {p for p in positives if d[p] > alpha - margin}, {n for n in negatives if d[n] < alpha}


def nearest_beyond(distances: list[float], negatives: list[int], limit: float) -> int:
    """The nearest negative strictly farther than the limit; where there is none, the farthest. The lowest index on ties."""
    beyond = [n for n in negatives if distances[n] > limit]
    if beyond:
        return min(beyond, key=lambda n: (distances[n], n))
    return min(negatives, key=lambda n: (-distances[n], n))


def semihard(similarities: list[list[float]], labels: list[int], anchor: int) -> tuple[Indices, Indices]:
    """All positives; for each of them its semi-hard negative: the nearest of those farther than it, else the farthest."""
    positives, negatives = sides(labels, anchor)
    farness = [-s for s in similarities[anchor]]  # grows with the distance
    if not negatives:
        return set(positives), set()
    return set(positives), {nearest_beyond(farness, negatives, farness[p]) for p in positives}


def hard(similarities: list[list[float]], labels: list[int], anchor: int) -> tuple[Indices, Indices]:
    """Only the least similar positive and the most similar negative."""
    positives, negatives = sides(labels, anchor)
    s = similarities[anchor]
    hardest_positive = sorted(positives, key=lambda p: (s[p], p))[:1]
    hardest_negative = sorted(negatives, key=lambda n: (-s[n], n))[:1]
    return set(hardest_positive), set(hardest_negative)


MINER_ORACLES: dict[str, Callable] = {"all": all_pairs, "vthm": vthm, "non_trivial": non_trivial, "semihard": semihard, "hard": hard}


# Losses of one anchor's row


@dataclass
class Row:
    """One anchor, the vectors that enter the loss, and the (mined) positives and negatives."""

    x: list[Tensor]
    labels: list[int]
    anchor: int
    positives: list[int]
    negatives: list[int]
    sides_of: Callable[[int], tuple[list[int], list[int]]]  # the (mined) positives and negatives of any other item

    @property
    def others(self) -> list[int]:
        return self.positives + self.negatives

    def s(self, j: int) -> Tensor:
        return torch.dot(self.x[self.anchor], self.x[j])

    def d(self, j: int) -> Tensor:
        return distance(self.x[self.anchor], self.x[j])

    def d2(self, j: int) -> Tensor:
        return squared_distance(self.x[self.anchor], self.x[j])


def mean_over_anchors(anchor_loss: Callable) -> Callable[..., Tensor]:
    """The batch loss of a row loss: its mean over the anchors that have a positive and a negative.

    `related(i, j)` says instead of labels what j is to i: above 0 a positive, below 0 a negative, 0 neither. `alone`: anchors with one side
    count too. `together` makes the batch's loss of (anchor, its row, its value) instead of their mean.
    """

    @functools.wraps(anchor_loss)
    def oracle(
        embeddings: Tensor,
        labels: Tensor,
        *,
        normalize: bool = True,
        proxies: None = None,
        mine: Miner | None = None,
        related: Callable[[int, int], float] | None = None,
        alone: bool = False,
        together: Callable[[list[tuple[int, Row, Tensor]]], Tensor | float] | None = None,
        **settings: object,
    ) -> Tensor:
        classes = [int(label) for label in labels]
        x = vectors(embeddings, normalize)
        similarities = cosines(embeddings) if mine else []

        def unmined(i: int) -> tuple[list[int], list[int]]:
            if related is None:
                return sides(classes, i)
            others = [j for j in range(len(x)) if j != i]
            return [j for j in others if related(i, j) > 0], [j for j in others if related(i, j) < 0]

        def sides_of(i: int) -> tuple[list[int], list[int]]:
            if mine is None:
                return unmined(i)
            kept_positives, kept_negatives = mine(similarities, classes, i)
            return sorted(kept_positives), sorted(kept_negatives)

        values = []
        for i in range(len(x)):
            positives, negatives = unmined(i)
            if (positives and negatives) or (alone and (positives or negatives)):
                row = Row(x, classes, i, *sides_of(i), sides_of)
                values.append((i, row, anchor_loss(row, **settings)))
        if together is not None:
            return zero(embeddings) + together(values)
        return zero(embeddings) + mean([value for _, _, value in values])

    return oracle


def contrastive(row: Row, *, threshold: float = 0.5) -> Tensor | float:
    return sum(hinge(row.s(n) - threshold) for n in row.negatives) + sum(1 - row.s(p) for p in row.positives)


def contrastive_distance(row: Row, *, margin: float = 1.0) -> Tensor | float:
    return mean([row.d2(p) for p in row.positives] + [hinge(margin - row.d(n)) ** 2 for n in row.negatives])


def triplet(row: Row, *, margin: float = 0.2, select: str = "all", squared: bool = True) -> Tensor | float:
    def far(j: int) -> Tensor:
        return row.d2(j) if squared else row.d(j)

    if not row.positives or not row.negatives:
        return 0.0
    if select == "all":
        chosen = [(p, n) for p in row.positives for n in row.negatives]
    elif select == "semihard":
        distances = [number(row.d(j)) for j in range(len(row.x))]
        chosen = [(p, nearest_beyond(distances, row.negatives, distances[p])) for p in row.positives]
    elif select == "hard":
        farthest = max(row.positives, key=lambda p: number(row.d(p)))
        nearest = min(row.negatives, key=lambda n: number(row.d(n)))
        chosen = [(farthest, nearest)]
    else:
        raise ValueError(select)
    return mean([hinge(far(p) - far(n) + margin) for p, n in chosen])


def n_pair_row(row: Row) -> Tensor | float:
    return mean([log_one_plus_sum_exp([row.s(n) - row.s(p) for n in row.negatives]) for p in row.positives])


def n_pair(
    embeddings: Tensor,
    labels: Tensor,
    *,
    normalize: bool = False,
    proxies: None = None,
    mine: Miner | None = None,
    norm_penalty: float = 5e-4,
) -> Tensor:
    loss = mean_over_anchors(n_pair_row)(embeddings, labels, normalize=normalize, mine=mine)
    classes = [int(label) for label in labels]
    if not any(all(sides(classes, i)) for i in range(len(classes))):
        return loss
    return loss + norm_penalty * mean([torch.dot(v, v) for v in vectors(embeddings, normalize)])


def lifted(row: Row, *, margin: float = 1.0, squared: bool = True) -> Tensor | float:
    terms = []
    for p in row.positives:
        around_anchor = [margin - row.d(n) for n in row.negatives]
        around_positive = [margin - distance(row.x[p], row.x[n]) for n in row.sides_of(p)[1]]
        if not around_anchor + around_positive:
            terms.append(0.0)  # log 0 = -infinity, and the hinge of it
            continue
        violation = hinge(log_sum_exp(around_anchor + around_positive) + row.d(p))
        terms.append(violation**2 if squared else violation)
    return mean(terms) / 2


def generalized_lifted(row: Row, *, margin: float = 1.0) -> Tensor | float:
    pull = log_sum_exp([margin - row.s(p) for p in row.positives]) if row.positives else 0.0
    push = log_sum_exp([row.s(n) for n in row.negatives]) if row.negatives else 0.0
    return hinge(pull + push + zero(row.x[row.anchor]))


def binomial_deviance(row: Row, *, alpha: float = 2.0, beta: float = 50.0, threshold: float = 0.5) -> Tensor | float:
    pull = mean([log_one_plus_sum_exp([alpha * (threshold - row.s(p))]) for p in row.positives])
    push = mean([log_one_plus_sum_exp([beta * (row.s(n) - threshold)]) for n in row.negatives])
    return pull + push


def margin_row(row: Row, *, margin: float = 0.2, boundary: float | Tensor = 1.2) -> Tensor | float:
    b = boundary
    if isinstance(boundary, Tensor):
        b = boundary.reshape(-1)[row.labels[row.anchor]] if boundary.numel() > 1 else boundary.reshape(())
    losses = [hinge(row.d(p) - b + margin) for p in row.positives] + [hinge(b - row.d(n) + margin) for n in row.negatives]
    return mean([loss for loss in losses if loss > 0])


def angular(row: Row, *, angle: float = 45.0) -> Tensor | float:
    tan2 = math.tan(math.radians(angle)) ** 2
    a = row.x[row.anchor]
    terms = []
    for p in row.positives:
        exponents = [4 * tan2 * torch.dot(a + row.x[p], row.x[n]) - 2 * (1 + tan2) * torch.dot(a, row.x[p]) for n in row.negatives]
        terms.append(log_one_plus_sum_exp(exponents))
    return mean(terms)


def ranked_list(row: Row, *, margin: float = 0.4, alpha: float = 1.2, temperature: float = 10.0, balance: float = 1.0) -> Tensor | float:
    query = row.x[row.anchor]
    d = {j: distance(query, row.x[j].detach()) for j in row.others}  # only the query moves
    pull = mean([d[p] - (alpha - margin) for p in row.positives if d[p] > alpha - margin])
    pushed = [n for n in row.negatives if d[n] < alpha]
    weights = [math.exp(temperature * (alpha - number(d[n]))) for n in pushed]
    push = sum(weight / sum(weights) * (alpha - d[n]) for weight, n in zip(weights, pushed, strict=True))
    return pull + balance * push


def nonlinear_rank(row: Row, *, alpha: float = 4.0, eps: float = 1e-4) -> Tensor | float:
    if not row.others:
        return 0.0
    d = {j: row.d(j) for j in row.others}

    def largest(items: list[int]) -> Tensor:
        return d[max(items, key=lambda j: number(d[j]))]

    def smallest(items: list[int]) -> Tensor:
        return d[min(items, key=lambda j: number(d[j]))]

    d_max, d_min = largest(row.others), smallest(row.others)
    if d_max == d_min:
        return 0.0

    def similarity(far: Tensor) -> Tensor:
        rank = (far - d_min) / (d_max - d_min)
        w = (2 * rank) ** alpha / 2 if rank < 0.5 else 1 - (2 * (1 - rank)) ** alpha / 2
        return 1 - w

    loss = 0.0
    if row.positives:
        loss = loss - torch.log(similarity(largest(row.positives)) + eps)
    if row.negatives:
        loss = loss - torch.log(1 - similarity(smallest(row.negatives)) + eps)
    return loss


def raw(row: Row, *, alpha: float = 2.0, beta: float = 50.0, threshold: float = 0.5) -> Tensor | float:
    pull = log_one_plus_sum_exp([-alpha * (row.s(p) - threshold) for p in row.positives]) / alpha
    push = log_one_plus_sum_exp([beta * (row.s(n) - threshold) for n in row.negatives]) / beta
    return pull + push


def nca(row: Row, *, scale: float = 1.0) -> Tensor | float:
    if not row.positives:
        return 0.0
    near = {j: torch.exp(-scale * row.d2(j)) for j in row.others}
    return -torch.log(sum(near[j] for j in row.positives) / sum(near.values()))


def tuplet_margin(row: Row, *, slack: float = 0.1, scale: float = 64.0) -> Tensor | float:
    def turned(cosine: Tensor) -> Tensor:
        return torch.cos(torch.arccos(cosine) - slack) if number(cosine) < 1 else cosine * math.cos(slack)

    return mean([log_one_plus_sum_exp([scale * (row.s(n) - turned(row.s(p))) for n in row.negatives]) for p in row.positives])


def intra_pair_variance(row: Row, *, pull: float = 0.01, push: float = 0.01) -> Tensor | float:
    near, far = [row.s(j) for j in row.positives], [row.s(j) for j in row.negatives]
    drawn = mean([hinge((1 - pull) * mean(near) - s) ** 2 for s in near])
    return drawn + mean([hinge(s - (1 + push) * mean(far)) ** 2 for s in far])


def pnp(row: Row, *, variant: str = "Dq", temperature: float = 0.01, alpha: float = 1.0, b: float = 2.0) -> Tensor | float:
    penalty = {
        "O": lambda r: r,
        "Iu": lambda r: (1 + r) * torch.log(1 + r),
        "Ib": lambda r: (b * r - torch.log(1 + b * r)) / b**2,
        "Ds": lambda r: torch.log(1 + r),
        "Dq": lambda r: 1 - 1 / (1 + r) ** alpha,
    }[variant]
    return mean([penalty(soft_rank(row, p, row.negatives, temperature) - 1) for p in row.positives])


def weight_family(
    row: Row,
    *,
    pull: str = "exponential",
    push: str = "exponential",
    pull_sharpness: float = 2.0,
    push_sharpness: float = 50.0,
    pull_threshold: float = 0.5,
    push_threshold: float = 0.5,
    pull_relative: float = 1.0,
    push_relative: float = 1.0,
) -> Tensor | float:
    def grown(x: Tensor, shape: str) -> Tensor:
        forms = {"exponential": torch.exp, "sigmoid": lambda y: torch.log(1 + torch.exp(y)), "squared": lambda y: hinge(y) ** 2 / 2}
        return forms.get(shape, hinge)(x)

    def side(total: Tensor | float, relative: float) -> Tensor | float:
        if isinstance(total, float | int):
            return 0.0
        return torch.log(1 + total) if relative == 1 else ((1 + total) ** (1 - relative) - 1) / (1 - relative)

    pulled = side(sum(grown(pull_sharpness * (pull_threshold - row.s(j)), pull) for j in row.positives), pull_relative)
    pushed = side(sum(grown(push_sharpness * (row.s(j) - push_threshold), push) for j in row.negatives), push_relative)
    return pulled / pull_sharpness + pushed / push_sharpness


def circle(row: Row, *, margin: float = 0.4, scale: float = 80.0) -> Tensor | float:
    if not row.positives or not row.negatives:
        return 0.0
    push, pull = [], []
    for n in row.negatives:
        s = row.s(n)
        push.append(scale * max(0.0, number(s) + margin) * (s - margin))
    for p in row.positives:
        s = row.s(p)
        pull.append(-scale * max(0.0, 1 + margin - number(s)) * (s - (1 - margin)))
    return log_one_plus_sum_exp([log_sum_exp(push) + log_sum_exp(pull)])


def supcon(row: Row, *, temperature: float = 0.1) -> Tensor | float:
    if not row.positives:
        return 0.0
    denominator = log_sum_exp([row.s(j) / temperature for j in row.others])
    return mean([denominator - row.s(p) / temperature for p in row.positives])


def nt_xent(row: Row, *, temperature: float = 0.07) -> Tensor | float:
    return mean([log_one_plus_sum_exp([(row.s(n) - row.s(p)) / temperature for n in row.negatives]) for p in row.positives])


def soft_rank(row: Row, p: int, items: list[int], temperature: float) -> Tensor:
    """1 + how many of the other items lie before p, softly."""
    return 1 + zero(row.x[p]) + sum(torch.sigmoid((row.s(j) - row.s(p)) / temperature) for j in items if j != p)


def smooth_ap(row: Row, *, temperature: float = 0.01) -> Tensor | float:
    if not row.positives:
        return 0.0
    precisions = [soft_rank(row, p, row.positives, temperature) / soft_rank(row, p, row.others, temperature) for p in row.positives]
    return 1 - mean(precisions)


def fast_ap(row: Row, *, bins: int = 10) -> Tensor | float:
    if not row.positives:
        return 0.0
    nodes = [4 * j / bins for j in range(bins + 1)]
    h_positive = soft_histogram([row.d2(p) for p in row.positives], nodes)
    h_all = soft_histogram([row.d2(j) for j in row.others], nodes)
    precision, cumulated_positive, cumulated_all = 0.0, 0.0, 0.0
    for j in range(bins + 1):
        cumulated_positive = cumulated_positive + h_positive[j]
        cumulated_all = cumulated_all + h_all[j]
        if cumulated_all > 0:
            precision = precision + h_positive[j] * cumulated_positive / cumulated_all
    return 1 - precision / len(row.positives)


def recall_at_k(
    row: Row, *, ks: tuple[int, ...] = (1, 2, 4, 8, 16), rank_temperature: float = 0.01, count_temperature: float = 1.0
) -> Tensor | float:
    if not row.positives:
        return 0.0
    ranks = [soft_rank(row, p, row.others, rank_temperature) for p in row.positives]
    recalls = []
    for k in ks:
        found = sum(torch.sigmoid((k - rank) / count_temperature) for rank in ranks)
        recalls.append(found / min(k, len(ranks)))
    return 1 - mean(recalls)


# Losses of the whole batch


def soft_histogram(values: list[Tensor], nodes: list[float]) -> list[Tensor | float]:
    """Each value gives 1 in all to the two nodes about it, linearly."""
    step = nodes[1] - nodes[0]
    histogram: list[Tensor | float] = [0.0] * len(nodes)
    for value in values:
        for r, node in enumerate(nodes):
            if abs(number(value) - node) < step:
                histogram[r] = histogram[r] + (1 - abs(value - node) / step)
    return histogram


def histogram(embeddings: Tensor, labels: Tensor, *, normalize: bool = True, proxies: None = None, bins: int = 100) -> Tensor:
    x = vectors(embeddings, normalize)
    positive, negative = [], []
    for i in range(len(x)):
        for j in range(len(x)):
            if i != j:
                (positive if labels[i] == labels[j] else negative).append(torch.dot(x[i], x[j]))
    if not positive or not negative:
        return zero(embeddings)
    nodes = [-1 + 2 * r / (bins - 1) for r in range(bins)]
    h_positive, h_negative = soft_histogram(positive, nodes), soft_histogram(negative, nodes)
    loss, cumulated = zero(embeddings), 0.0
    for r in range(bins):
        cumulated = cumulated + h_positive[r] / len(positive)
        loss = loss + h_negative[r] / len(negative) * cumulated
    return loss


def normalized_mutual_information(first: list[int], second: list[int]) -> float:
    """MI / sqrt(H H); 1 where both partitions are a single cluster."""
    count = len(first)

    def entropy(groups: list) -> float:
        return -sum(groups.count(g) / count * math.log(groups.count(g) / count) for g in set(groups))

    if len(set(first)) == 1 and len(set(second)) == 1:
        return 1.0
    if len(set(first)) == 1 or len(set(second)) == 1:
        return 0.0
    information = entropy(first) + entropy(second) - entropy(list(zip(first, second, strict=True)))
    return information / math.sqrt(entropy(first) * entropy(second))


def structured_clustering(
    embeddings: Tensor, labels: Tensor, *, normalize: bool = True, proxies: None = None, gamma: float = 1.0
) -> Tensor:
    """The inner maximum by trying every set of medoids: for tiny batches."""
    x = vectors(embeddings, normalize)
    classes = [int(label) for label in labels]
    items = range(len(x))
    far = [[number(distance(x[i], x[j])) for j in items] for i in items]

    def assignment(medoids: tuple[int, ...]) -> list[int]:
        return [min(medoids, key=lambda j: (far[i][j], j)) for i in items]

    best_score, best_assignment, best_penalty = -math.inf, [], 0.0
    for medoids in itertools.combinations(items, len(set(classes))):
        nearest = assignment(medoids)
        penalty = gamma * (1 - normalized_mutual_information(nearest, classes))
        score = -sum(far[i][nearest[i]] for i in items) + penalty
        if score > best_score:
            best_score, best_assignment, best_penalty = score, nearest, penalty

    violating = -sum(distance(x[i], x[best_assignment[i]]) for i in items) + best_penalty
    truth = zero(embeddings)
    for c in sorted(set(classes)):
        members = [i for i in items if classes[i] == c]
        medoid = min(members, key=lambda j: (sum(far[i][j] for i in members), j))
        truth = truth - sum(distance(x[i], x[medoid]) for i in members)
    return hinge(violating - truth)


def spectral_clustering(embeddings: Tensor, labels: Tensor, *, normalize: bool = True, proxies: None = None) -> Tensor:
    classes = [int(label) for label in labels]
    if not any(all(sides(classes, i)) for i in range(len(classes))):
        return zero(embeddings)
    x = torch.stack(vectors(embeddings, normalize))
    one_hot = torch.tensor([[float(c == k) for k in sorted(set(classes))] for c in classes], dtype=torch.float64)
    difference = x @ torch.linalg.pinv(x) - one_hot @ torch.linalg.pinv(one_hot)
    return sum(difference[i, j] ** 2 for i in range(len(classes)) for j in range(len(classes))) / len(classes)


# Losses against prototypes and proxies


def prototypical(
    embeddings: Tensor, labels: Tensor, *, normalize: bool = False, proxies: None = None, num_support: int | None = None
) -> Tensor:
    x = vectors(embeddings, normalize)
    classes = [int(label) for label in labels]
    prototypes: dict[int, Tensor] = {}
    queries = []
    for c in sorted(set(classes)):
        members = [i for i in range(len(x)) if classes[i] == c]
        support = members[: len(members) // 2 if num_support is None else num_support]
        if support:
            prototypes[c] = sum(x[i] for i in support) / len(support)
        queries += [i for i in members if i not in support]
    losses = []
    for i in queries:
        if classes[i] in prototypes and len(prototypes) > 1:
            logits = {c: -squared_distance(x[i], prototype) for c, prototype in prototypes.items()}
            losses.append(log_sum_exp(list(logits.values())) - logits[classes[i]])
    return zero(embeddings) + mean(losses)


def mean_over_items(
    embeddings: Tensor, labels: Tensor, proxies: Tensor, normalize: bool, num_classes: int, item_loss: Callable[..., Tensor]
) -> Tensor:
    """Mean of item_loss(x, own class, proxies) over the batch: each item has its own proxy, and a negative if there is a second class."""
    w = vectors(proxies, normalize)
    if num_classes < 2:
        return zero(embeddings, proxies)
    return mean([item_loss(x, int(label), w) for x, label in zip(vectors(embeddings, normalize), labels, strict=True)])


def proxy_nca(embeddings: Tensor, labels: Tensor, *, normalize: bool = True, proxies: Tensor, scale: float = 3.0) -> Tensor:
    def item_loss(x: Tensor, own: int, w: list[Tensor]) -> Tensor:
        others = [-scale * squared_distance(x, w[c]) for c in range(len(w)) if c != own]
        return scale * squared_distance(x, w[own]) + log_sum_exp(others)

    return mean_over_items(embeddings, labels, proxies, normalize, len(proxies), item_loss)


def proxy_triplet(embeddings: Tensor, labels: Tensor, *, normalize: bool = True, proxies: Tensor, margin: float = 1.0) -> Tensor:
    def item_loss(x: Tensor, own: int, w: list[Tensor]) -> Tensor:
        return mean([hinge(squared_distance(x, w[own]) - squared_distance(x, w[c]) + margin) for c in range(len(w)) if c != own])

    return mean_over_items(embeddings, labels, proxies, normalize, len(proxies), item_loss)


def proxy_softmax(
    embeddings: Tensor,
    labels: Tensor,
    *,
    normalize: bool = True,
    proxies: Tensor,
    temperature: float = 0.05,
    label_smoothing: float = 0.0,
) -> Tensor:
    def item_loss(x: Tensor, own: int, w: list[Tensor]) -> Tensor:
        logits = [torch.dot(x, proxy) / temperature for proxy in w]
        loss = torch.zeros((), dtype=torch.float64)
        for c in range(len(w)):
            target = (1 - label_smoothing) * (c == own) + label_smoothing / len(w)
            loss = loss - target * (logits[c] - log_sum_exp(logits))
        return loss

    return mean_over_items(embeddings, labels, proxies, normalize, len(proxies), item_loss)


def softmax(embeddings: Tensor, labels: Tensor, *, normalize: bool = False, proxies: Tensor, bias: Tensor | None = None) -> Tensor:
    def item_loss(x: Tensor, own: int, w: list[Tensor]) -> Tensor:
        logits = [torch.dot(x, w[c]) + (0 if bias is None else bias[c]) for c in range(len(w))]
        return log_sum_exp(logits) - logits[own]

    return mean_over_items(embeddings, labels, proxies, normalize, len(proxies), item_loss)


def proxy_anchor(
    embeddings: Tensor, labels: Tensor, *, normalize: bool = True, proxies: Tensor, alpha: float = 32.0, delta: float = 0.1
) -> Tensor:
    x, w = vectors(embeddings, normalize), vectors(proxies, normalize)
    if len(w) < 2:
        return zero(embeddings, proxies)
    pull, push = [], []
    for c in range(len(w)):
        own = [torch.dot(x[i], w[c]) for i in range(len(x)) if labels[i] == c]
        other = [torch.dot(x[i], w[c]) for i in range(len(x)) if labels[i] != c]
        if own:
            pull.append(log_one_plus_sum_exp([-alpha * (s - delta) for s in own]))
        push.append(log_one_plus_sum_exp([alpha * (s + delta) for s in other]))
    return mean(pull) + mean(push)


def soft_triple(
    embeddings: Tensor,
    labels: Tensor,
    *,
    normalize: bool = True,
    proxies: Tensor,
    num_centers: int = 10,
    scale: float = 20.0,
    gamma: float = 0.1,
    margin: float = 0.01,
    regularization: float = 0.2,
) -> Tensor:
    num_classes = len(proxies) // num_centers

    def item_loss(x: Tensor, own: int, w: list[Tensor]) -> Tensor:
        logits = []
        for c in range(num_classes):
            s = [torch.dot(x, w[c * num_centers + k]) for k in range(num_centers)]
            partition = log_sum_exp([value / gamma for value in s])
            class_similarity = sum(torch.exp(value / gamma - partition) * value for value in s)
            logits.append(scale * (class_similarity - margin * (c == own)))
        return log_sum_exp(logits) - logits[own]

    loss = mean_over_items(embeddings, labels, proxies, normalize, num_classes, item_loss)
    if num_classes < 2 or num_centers == 1:
        return loss
    w = vectors(proxies, normalize)
    apart = 0.0
    for c in range(num_classes):
        for s in range(num_centers):
            for t in range(s + 1, num_centers):
                apart = apart + distance(w[c * num_centers + s], w[c * num_centers + t])
    return loss + regularization * apart / (num_classes * num_centers * (num_centers - 1))


def arcface(
    embeddings: Tensor, labels: Tensor, *, normalize: bool = True, proxies: Tensor, margin: float = 0.5, scale: float = 64.0
) -> Tensor:
    def target(cosine: Tensor) -> Tensor:
        theta = math.acos(max(-1.0, min(1.0, number(cosine))))
        if theta + margin > math.pi:
            return cosine - margin * math.sin(margin)
        # cos(theta + margin), written so that the gradient at theta = 0 is finite
        sine = torch.sqrt(1 - cosine**2) if 1 - cosine**2 > 0 else 0.0
        return cosine * math.cos(margin) - sine * math.sin(margin)

    def item_loss(x: Tensor, own: int, w: list[Tensor]) -> Tensor:
        cosine = [torch.dot(x, proxy) for proxy in w]
        logits = [scale * (target(cosine[c]) if c == own else cosine[c]) for c in range(len(w))]
        return log_sum_exp(logits) - logits[own]

    return mean_over_items(embeddings, labels, proxies, normalize, len(proxies), item_loss)


def cosface(
    embeddings: Tensor, labels: Tensor, *, normalize: bool = True, proxies: Tensor, margin: float = 0.35, scale: float = 64.0
) -> Tensor:
    def item_loss(x: Tensor, own: int, w: list[Tensor]) -> Tensor:
        logits = [scale * (torch.dot(x, w[c]) - margin * (c == own)) for c in range(len(w))]
        return log_sum_exp(logits) - logits[own]

    return mean_over_items(embeddings, labels, proxies, normalize, len(proxies), item_loss)


def hierarchical_triplet(
    embeddings: Tensor, labels: Tensor, *, normalize: bool = True, proxies: None = None, margin: float = 0.1, levels: int = 16
) -> Tensor:
    """The tree of the batch's classes, level by level: connected components of the classes no farther apart than the level's threshold."""
    x = vectors(embeddings, normalize)
    classes = [int(label) for label in labels]
    names = sorted(set(classes))
    members = {c: [i for i in range(len(x)) if classes[i] == c] for c in names}
    far = [[number(squared_distance(a, b)) for b in x] for a in x]
    spread = {c: mean([far[i][j] for i, j in itertools.permutations(members[c], 2)]) for c in names if len(members[c]) > 1}
    typical = mean(list(spread.values()))

    def threshold(level: int) -> float:
        return typical + level * (4 - typical) / levels

    def joined(p: int, q: int, level: int) -> bool:
        reached, fresh = {p}, [p]
        while fresh:
            c = fresh.pop()
            near = {o for o in names if mean([far[i][j] for i in members[c] for j in members[o]]) <= threshold(level)} - reached
            reached |= near
            fresh += near
        return q in reached

    def margin_of(a: int, n: int) -> float:
        level = next((level for level in range(levels) if joined(classes[a], classes[n], level)), levels)
        return margin + threshold(level) - spread.get(classes[a], typical)

    losses = []
    for a in anchors_of(classes):
        positives, negatives = sides(classes, a)
        hinges = [
            hinge(squared_distance(x[a], x[p]) - squared_distance(x[a], x[n]) + margin_of(a, n)) for p in positives for n in negatives
        ]
        losses.append(mean(hinges) / 2)
    return zero(embeddings) + mean(losses)


def position_dependent(
    embeddings: Tensor,
    labels: Tensor,
    *,
    normalize: bool = True,
    proxies: None = None,
    score_margin: float = 0.5,
    margin: float = 1.0,
    layers: dict[str, Tensor] | None = None,
) -> Tensor:
    """`layers`: weight and bias of "apart", "middle", "joined" and "score"; None: S is minus the squared distance, which learns nothing."""
    x = vectors(embeddings, normalize)
    classes = [int(label) for label in labels]

    def through(name: str, value: Tensor) -> Tensor:
        return layers[f"{name}.weight"] @ value + layers[f"{name}.bias"]

    def score(i: int, j: int) -> Tensor:
        if layers is None:
            return -squared_distance(x[i], x[j])
        apart = torch.relu(through("apart", unit(abs(x[i] - x[j]))))
        middle = torch.relu(through("middle", unit((x[i] + x[j]) / 2)))
        return through("score", torch.relu(through("joined", torch.cat([apart, middle])))).sum()

    losses = []
    for i in anchors_of(classes):
        positives, negatives = sides(classes, i)
        j = min(positives, key=lambda p: number(score(i, p)))
        k = max(negatives, key=lambda n: number(score(i, n)))
        other = max(negatives, key=lambda n: number(score(j, n)))
        by_score = [hinge(score_margin + score(*pair) - score(i, j)) for pair in ((i, k), (j, other))]
        far = [distance(x[i], x[k]), distance(x[j], x[other])]
        losses.append(sum(by_score) + sum(hinge(margin + distance(x[i], x[j]) - d) for d in far))
    return zero(embeddings) + mean(losses)


# Losses of an embedding's parts


def parts_of(embeddings: Tensor, normalize: bool, shares: tuple[int, ...]) -> list[list[Tensor]]:
    """For each part every item's, of length 1. Widths as near to the proportions as whole numbers are."""
    x = vectors(embeddings, normalize)
    ends = [round(len(x[0]) * sum(shares[:number]) / sum(shares)) for number in range(len(shares) + 1)]
    return [[unit(v[start:end]) for v in x] for start, end in itertools.pairwise(ends)]


def boosted_binomial(
    embeddings: Tensor,
    labels: Tensor,
    *,
    normalize: bool = True,
    proxies: None = None,
    parts: tuple[int, ...] = (3, 5, 8),
    alpha: float = 2.0,
    beta: float = 50.0,
    threshold: float = 0.5,
    shrinkage: float = 1.0,
) -> Tensor:
    classes = [int(label) for label in labels]
    learners = parts_of(embeddings, normalize, parts)

    def side(i: int, j: int, similarity: Tensor | float) -> Tensor | float:
        """How far a pair is on its right side."""
        return alpha * (similarity - threshold) if classes[i] == classes[j] else beta * (threshold - similarity)

    def weight(i: int, j: int, learner: int) -> float:
        """Of a pair for a learner: by the mean cosine of those before, where the m-th counts m times."""
        if learner == 0:
            return 1.0
        counts = range(1, learner + 1)
        ensemble = sum(m * number(torch.dot(learners[m - 1][i], learners[m - 1][j])) for m in counts) / sum(counts)
        return 1 / (1 + math.exp(shrinkage * side(i, j, ensemble)))

    losses = []
    for learner, x in enumerate(learners):
        for i in anchors_of(classes):
            for others in sides(classes, i):
                deviances = [log_one_plus_sum_exp([-side(i, j, torch.dot(x[i], x[j]))]) for j in others]
                losses.append(mean([weight(i, j, learner) * deviance for j, deviance in zip(others, deviances, strict=True)]))
    return zero(embeddings) + sum(losses) / (len(learners) * max(1, len(anchors_of(classes))))


def hard_aware_cascade(
    embeddings: Tensor,
    labels: Tensor,
    *,
    normalize: bool = True,
    proxies: None = None,
    parts: tuple[int, ...] = (1, 1, 1),
    hardest: tuple[float, ...] = (1.0, 0.5, 0.2),
    margin: float = 1.0,
) -> Tensor:
    classes = [int(label) for label in labels]
    if not anchors_of(classes):
        return zero(embeddings)
    everything = list(itertools.combinations(range(len(classes)), 2))
    positives = [(i, j) for i, j in everything if classes[i] == classes[j]]
    negatives = [(i, j) for i, j in everything if classes[i] != classes[j]]
    counts = len(positives), len(negatives)
    loss = zero(embeddings)
    for x, after in zip(parts_of(embeddings, normalize, parts), [*hardest[1:], 1.0], strict=True):
        far = {(i, j): squared_distance(x[i], x[j]) for i, j in positives + negatives}
        loss = loss + sum(far[pair] for pair in positives) + sum(hinge(margin - far[pair]) for pair in negatives)
        positives = sorted(positives, key=lambda pair: -number(far[pair]))[: math.ceil(after * counts[0])]
        negatives = sorted(negatives, key=lambda pair: number(far[pair]))[: math.ceil(after * counts[1])]
    return loss / len(anchors_of(classes))


def attention_ensemble(
    embeddings: Tensor,
    labels: Tensor,
    *,
    normalize: bool = True,
    proxies: None = None,
    parts: tuple[int, ...] = (1, 1),
    margin: float = 1.0,
    apart: float = 1.0,
    divergence: float = 1.0,
) -> Tensor:
    classes = [int(label) for label in labels]
    if not anchors_of(classes):
        return zero(embeddings)
    learners = parts_of(embeddings, normalize, parts)
    loss = zero(embeddings)
    for x in learners:
        for i in anchors_of(classes):
            positives, negatives = sides(classes, i)
            pull = sum(squared_distance(x[i], x[p]) for p in positives)
            push = sum(hinge(margin - squared_distance(x[i], x[n])) for n in negatives)
            loss = loss + (pull + push) / 2 / len(anchors_of(classes))
    for first, second in itertools.combinations(learners, 2):
        alike = [hinge(apart - squared_distance(a, b)) for a, b in zip(first, second, strict=True)]
        loss = loss + divergence * mean(alike)
    return loss


ORACLES: dict[str, Callable[..., Tensor]] = {
    "contrastive": mean_over_anchors(contrastive),
    "contrastive_distance": mean_over_anchors(contrastive_distance),
    "triplet": mean_over_anchors(triplet),
    "n_pair": n_pair,
    "lifted": mean_over_anchors(lifted),
    "generalized_lifted": mean_over_anchors(generalized_lifted),
    "binomial_deviance": mean_over_anchors(binomial_deviance),
    "margin": mean_over_anchors(margin_row),
    "angular": mean_over_anchors(angular),
    "histogram": histogram,
    "ranked_list": mean_over_anchors(ranked_list),
    "nonlinear_rank": mean_over_anchors(nonlinear_rank),
    "raw": mean_over_anchors(raw),
    "structured_clustering": structured_clustering,
    "spectral_clustering": spectral_clustering,
    "prototypical": prototypical,
    "proxy_nca": proxy_nca,
    "proxy_triplet": proxy_triplet,
    "proxy_softmax": proxy_softmax,
    "softmax": softmax,
    "multi_similarity": mean_over_anchors(raw),  # Wang et al. 2019 eq. 15 is RAW's eq. 17
    "proxy_anchor": proxy_anchor,
    "soft_triple": soft_triple,
    "arcface": arcface,
    "cosface": cosface,
    "circle": mean_over_anchors(circle),
    "supcon": mean_over_anchors(supcon),
    "nt_xent": mean_over_anchors(nt_xent),
    "smooth_ap": mean_over_anchors(smooth_ap),
    "fast_ap": mean_over_anchors(fast_ap),
    "recall_at_k": mean_over_anchors(recall_at_k),
    "nca": mean_over_anchors(nca),
    "tuplet_margin": mean_over_anchors(tuplet_margin),
    "intra_pair_variance": mean_over_anchors(intra_pair_variance),
    "pnp": mean_over_anchors(pnp),
    "weight_family": mean_over_anchors(weight_family),
    "boosted_binomial": boosted_binomial,
    "hard_aware_cascade": hard_aware_cascade,
    "hierarchical_triplet": hierarchical_triplet,
    "position_dependent": position_dependent,
    "attention_ensemble": attention_ensemble,
}
