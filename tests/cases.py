"""Every loss as the tests make it: its settings, its proxies, its oracle, and the ways a batch can be carried out."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

import likewise
from likewise.engines import choice
from likewise.losses.loss import PooledLoss, RowLoss

NUM_CLASSES, DIM = 6, 8


LOSS_OBJECTS = {name: loss() for name, loss in likewise.LOSSES.items()}
PROXY_LOSSES = [name for name, loss in LOSS_OBJECTS.items() if loss.meets == "proxies"]
ROW_LOSSES = [name for name, loss in LOSS_OBJECTS.items() if isinstance(loss, RowLoss) and loss.meets == "batch"]
PART_LOSSES = [name for name, loss in LOSS_OBJECTS.items() if loss.parts]
MINED_LOSSES = [name for name, loss in LOSS_OBJECTS.items() if isinstance(loss, RowLoss | PooledLoss)]


@dataclass(frozen=True)
class Case:
    """A loss with settings: `make` builds it, the oracle is called with the same."""

    name: str
    settings: dict[str, Any] = field(default_factory=dict)
    normalize: bool | None = None
    per_class: bool = False  # margin with a boundary for each class

    def __str__(self) -> str:
        words = [f"{key}={value}" for key, value in self.settings.items()]
        words += [f"normalize={self.normalize}"] * (self.normalize is not None) + ["per_class"] * self.per_class
        return "-".join([self.name, *words])


# soft_triple with its ten centres would make every proxy test ten times as slow
DEFAULTS = {name: Case(name, {"num_centers": 3} if name == "soft_triple" else {}) for name in likewise.LOSSES}

VARIANTS = [
    Case("triplet", {"select": "semihard"}),
    Case("triplet", {"select": "hard"}),
    Case("triplet", {"squared": False}),
    Case("triplet", {"squared": False, "select": "semihard"}),
    Case("triplet", {"squared": False, "margin": 1.0}, normalize=False),
    Case("triplet", {"margin": 3.0, "select": "semihard"}, normalize=False),
    Case("lifted", {"squared": False}),
    Case("lifted", normalize=False),
    Case("margin", per_class=True),
    Case("margin", {"margin": 0.5, "boundary": 0.9}, normalize=False, per_class=True),
    Case("angular", {"angle": 36.0}),
    Case("angular", normalize=False),
    Case("contrastive", {"threshold": -0.1}),
    Case("contrastive_distance", {"margin": 4.0}, normalize=False),
    Case("generalized_lifted", {"margin": 0.0}),
    Case("generalized_lifted", normalize=False),
    Case("binomial_deviance", {"alpha": 3.0, "beta": 10.0, "threshold": 0.1}),
    Case("histogram", {"bins": 7}),
    Case("ranked_list", {"margin": 0.2, "alpha": 1.4, "temperature": 0.0, "balance": 0.5}),
    Case("ranked_list", {"alpha": 4.0}, normalize=False),
    Case("nonlinear_rank", normalize=False),
    Case("nonlinear_rank", {"alpha": 1.0, "eps": 1e-2}),
    Case("n_pair", normalize=True),
    Case("n_pair", {"norm_penalty": 0.0}),
    Case("structured_clustering", {"gamma": 3.0}),
    Case("spectral_clustering", normalize=False),
    Case("prototypical", {"num_support": 1}),
    Case("prototypical", {"num_support": 2}, normalize=True),
    Case("proxy_nca", {"scale": 1.0}, normalize=False),
    Case("proxy_triplet", normalize=False),
    Case("proxy_softmax", {"label_smoothing": 0.1}),
    Case("softmax", normalize=True),
    Case("proxy_anchor", {"alpha": 4.0, "delta": 0.3}),
    Case("soft_triple", {"num_centers": 1}),
    Case("soft_triple", {"num_centers": 2, "regularization": 0.0, "margin": 0.3}),
    Case("arcface", {"margin": 1.5, "scale": 8.0}),
    Case("circle", {"margin": 0.25, "scale": 32.0}),
    Case("nca", {"scale": 0.2}, normalize=False),
    Case("tuplet_margin", {"slack": 0.0, "scale": 8.0}),
    Case("intra_pair_variance", {"pull": -0.2, "push": 0.3}),
    *(Case("pnp", {"variant": variant, "temperature": 0.1, "alpha": 2.0}) for variant in ("O", "Iu", "Ib", "Ds", "Dq")),
    Case("weight_family", {"pull": "squared", "push": "sigmoid", "pull_relative": 0.0, "push_relative": 0.4, "push_sharpness": 5.0}),
    Case("weight_family", {"pull": "hinge", "push": "hinge", "pull_relative": 0.7, "push_relative": 0.0, "pull_threshold": 0.9}),
    Case("weight_family", {"pull_relative": 0.3, "push_relative": 0.0, "push_sharpness": 8.0}),
    Case("supcon", {"temperature": 1.0}),
    Case("nt_xent", {"temperature": 1.0}),
    Case("smooth_ap", {"temperature": 0.3}),
    Case("fast_ap", {"bins": 3}),
    Case("recall_at_k", {"ks": (1, 3), "rank_temperature": 0.3, "count_temperature": 0.5}),
    Case("boosted_binomial", {"parts": (1, 1), "alpha": 3.0, "beta": 10.0, "threshold": 0.1, "shrinkage": 0.2}),
    Case("attention_ensemble", {"parts": (1,) * 4, "margin": 0.6, "apart": 2.5, "divergence": 0.3}),
    Case("position_dependent", {"score_margin": 0.1, "margin": 0.3}),
    Case("hierarchical_triplet", {"margin": 0.3, "levels": 4}),
    Case("hard_aware_cascade", {"parts": (1, 3), "hardest": (1.0, 0.3), "margin": 0.6}),
]
CASES = [*DEFAULTS.values(), *VARIANTS]


def case_of(name: str) -> Case:
    return DEFAULTS[name]


def make(
    case: Case | str,
    *,
    num_classes: int = NUM_CLASSES,
    dim: int = DIM,
    dtype: torch.dtype = torch.float64,
    seed: int = 9,
    **options: Any,
) -> likewise.Objective:
    """The objective of a case, its parameters of the given type and drawn from the seed."""
    case = case_of(case) if isinstance(case, str) else case
    if case.name in PROXY_LOSSES:
        options |= {"num_classes": num_classes, "dim": dim}
    if case.per_class:
        options |= {"num_classes": num_classes}
    if "memory" in options or "dim" in inspect.signature(likewise.LOSSES[case.name]).parameters:
        options |= {"dim": dim}
    objective = likewise.objective(case.name, normalize=case.normalize, **case.settings, **options).to(dtype)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        if objective.proxies is not None:
            objective.proxies.vectors.copy_(torch.randn(objective.proxies.vectors.shape, generator=generator, dtype=torch.float64))
        if case.name == "softmax":
            objective.loss.bias += torch.randn(num_classes, generator=generator, dtype=torch.float64)
        if case.per_class:
            objective.loss.boundary += 0.2 * torch.rand(num_classes, generator=generator, dtype=torch.float64)
        if case.name == "position_dependent":
            for parameter in objective.loss.parameters():
                parameter.copy_(0.3 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return objective


def oracle_of(case: Case, oracles: dict[str, Any], objective: likewise.Objective) -> Any:
    """The oracle called as the objective is: (embeddings, labels, mine=None) -> loss, of the objective's own parameters."""
    settings: dict[str, Any] = dict(case.settings) | {"normalize": objective.normalize}
    if objective.proxies is not None:
        settings["proxies"] = objective.proxies.vectors
    if case.name == "margin":
        settings["boundary"] = objective.loss.boundary
    if case.name == "position_dependent":
        settings["layers"] = dict(objective.loss.named_parameters())
    if case.name == "softmax":
        settings["bias"] = objective.loss.bias
    return lambda embeddings, labels, **mining: oracles[case.name](embeddings, labels, **settings, **mining)


@dataclass
class Outcome:
    """A loss and its gradients, the embeddings' first."""

    value: Tensor
    gradients: dict[str, Tensor]


def outcome(loss: Any, objective: likewise.Objective, embeddings: Tensor, labels: Tensor, **arguments: Any) -> Outcome:
    """Value and gradient of `loss(embeddings, labels)` by the embeddings and the objective's parameters."""
    embeddings = embeddings.detach().clone().requires_grad_()
    value = loss(embeddings, labels, **arguments)
    names, parameters = zip(*objective.named_parameters(), strict=True) if list(objective.parameters()) else ((), ())
    gradients = torch.autograd.grad(value, [embeddings, *parameters], allow_unused=True, materialize_grads=True)
    return Outcome(value.detach(), dict(zip(("embeddings", *names), gradients, strict=True)))


def assert_same(found: Outcome, expected: Outcome, *, rtol: float, atol: float) -> None:
    assert found.gradients.keys() == expected.gradients.keys()
    torch.testing.assert_close(found.value, expected.value, rtol=rtol, atol=atol, msg=lambda text: f"value: {text}")
    for name, gradient in expected.gradients.items():
        torch.testing.assert_close(
            found.gradients[name], gradient, rtol=rtol, atol=atol, msg=lambda text, name=name: f"gradient by {name}: {text}"
        )


@contextmanager
def during(*what: object) -> Iterator[None]:
    """Whatever fails inside says in which of a test's many cases: a test for each of them would take longer to set up than to run."""
    try:
        yield
    except Exception as fault:
        fault.add_note(f"with {', '.join(map(str, what))}")
        raise


def hold_positives(monkeypatch: Any, *, as_columns: bool) -> None:
    """Whatever the batch's size: the positives of a row as the few columns of its class, or as a mask over the whole row."""
    monkeypatch.setattr(choice, "COMPACT_PAIRS", 0 if as_columns else 10**12)
    monkeypatch.setattr(choice, "COMPACT_SHARE", 1.0)
