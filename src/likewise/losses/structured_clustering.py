"""Structured clustering loss (facility location)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from likewise.losses.loss import Loss
from likewise.pairs import Pairs


@dataclass(frozen=True)
class StructuredClustering(Loss):
    """L = [max_S (F(X, S) + gamma (1 - NMI(g(S), y))) - F~(X)]+  (RLL, eq. 6-7; unbiased evaluation, 2.7; Song et al. 2017).

    F(X, S) = -sum_i min_{j in S} d_ij, over sets S of as many medoids as the batch has classes; g(S) assigns every item to its
    nearest medoid; F~ uses the best medoid of each true class; NMI is normalised by the geometric mean of the entropies. S is
    found by loss-augmented inference: greedy facility location, then PAM swaps until none improves (at most `refinements`
    rounds). It is constant for the gradient.
    """

    gamma: float = 1.0  # weight of the clustering error
    refinements: int = 5

    def of_batch(self, pairs: Pairs) -> Tensor:
        classes = torch.unique(pairs.anchor_labels, return_inverse=True)[1]
        same_item = torch.eye(classes.shape[0], dtype=torch.bool, device=classes.device)
        distance = pairs.distance.masked_fill(same_item, 0.0)
        with torch.no_grad():
            search = _MedoidSearch(distance.detach(), classes, self.gamma)
            medoids = search.refined(search.greedy(), self.refinements)
            nearest = medoids[distance[:, medoids].argmin(-1)]
            error = search.clustering_error(nearest)
            same = classes[:, None] == classes
            within = torch.where(same, distance, 0.0).sum(0)  # (n,) cost of each item as the medoid of its class
            best = torch.where(same, within, torch.inf).argmin(-1)  # each item's best class medoid
        searched = -distance.gather(1, nearest[:, None]).sum()
        true = -distance.gather(1, best[:, None]).sum()
        return torch.relu(searched + self.gamma * error - true)


@dataclass(frozen=True)
class _MedoidSearch:
    """Maximises A(S) = F(X, S) + gamma (1 - NMI) over sets of medoids."""

    distance: Tensor  # (n, n)
    classes: Tensor  # (n,)
    gamma: float

    @property
    def num_classes(self) -> int:
        return int(self.classes.max()) + 1

    def greedy(self) -> Tensor:
        """Adds the medoid that raises A most until there are as many as classes."""
        medoids = torch.empty(0, dtype=torch.long, device=self.classes.device)
        for _ in range(self.num_classes):
            medoids = torch.cat([medoids, self.with_addition(medoids).argmax()[None]])
        return medoids

    def refined(self, medoids: Tensor, rounds: int) -> Tensor:
        """PAM: puts the best item in the place of each medoid in turn, until a round changes nothing."""
        for _ in range(rounds):
            before = medoids.clone()
            for position in range(medoids.shape[0]):
                rest = torch.cat([medoids[:position], medoids[position + 1 :]])
                value = self.with_addition(rest)
                better = value.argmax()
                if value[better] > value[medoids[position]]:  # a tie changes nothing, so that rounds end
                    medoids = medoids.clone()
                    medoids[position] = better
            if torch.equal(before, medoids):
                break
        return medoids

    def with_addition(self, medoids: Tensor) -> Tensor:
        """A(medoids + {j}) for every item j; minus infinity for the medoids themselves. (n,)"""
        n = self.classes.shape[0]
        reached, cluster = torch.full((n,), torch.inf, dtype=self.distance.dtype, device=self.classes.device), self.classes * 0
        if medoids.shape[0]:
            reached, cluster = self.distance[:, medoids].min(-1)
        value = torch.empty(n, dtype=self.distance.dtype, device=self.classes.device)
        # the contingency tables of all candidates at once are n x classes x clusters: taken in chunks
        chunk = max(1, 4_000_000 // (self.num_classes * (medoids.shape[0] + 1)))
        for candidates in torch.arange(n, device=self.classes.device).split(chunk):
            to_candidate = self.distance[candidates]  # (chunk, n)
            moves = to_candidate < reached
            assignment = torch.where(moves, medoids.shape[0], cluster)
            cost = torch.where(moves, to_candidate, reached).sum(-1)
            value[candidates] = -cost + self.gamma * self._errors(assignment, medoids.shape[0] + 1)
        return value.index_fill_(0, medoids, -torch.inf)

    def clustering_error(self, assignment: Tensor) -> Tensor:
        """1 - NMI of an assignment (n,) to medoids. ()"""
        cluster = torch.unique(assignment, return_inverse=True)[1]
        return self._errors(cluster[None], int(cluster.max()) + 1)[0]

    def _errors(self, assignment: Tensor, num_clusters: int) -> Tensor:
        """1 - NMI of each assignment (m, n) to clusters 0..num_clusters-1. (m,)"""
        m, n = assignment.shape
        key = assignment * self.num_classes + self.classes
        ones = torch.ones((), dtype=self.distance.dtype, device=key.device).expand(m, n)
        table = torch.zeros(m, num_clusters * self.num_classes, dtype=self.distance.dtype, device=key.device).scatter_add_(1, key, ones)
        table = table.unflatten(1, (num_clusters, self.num_classes))

        def entropy(counts: Tensor) -> Tensor:
            share = counts / n
            terms: Tensor = torch.special.xlogy(share, share)
            return -terms.flatten(1).sum(-1)

        of_clusters, of_classes, joint = entropy(table.sum(2)), entropy(table.sum(1)), entropy(table)
        information = (of_clusters + of_classes - joint).clamp_min(0)
        product = of_clusters * of_classes
        nmi = information / torch.where(product > 0, product, 1.0).sqrt()
        both_single = (of_clusters == 0) & (of_classes == 0)
        agreement: Tensor = torch.where(both_single, 1.0, torch.where(product > 0, nmi, 0.0))
        return 1 - agreement
