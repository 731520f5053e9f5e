"""The losses, one a file. `LOSSES` is the registry everything else reads."""

from collections.abc import Mapping
from typing import Any

from likewise.losses.angular import Angular
from likewise.losses.arcface import ArcFace
from likewise.losses.attention_ensemble import AttentionEnsemble
from likewise.losses.binomial_deviance import BinomialDeviance
from likewise.losses.boosted_binomial import BoostedBinomial
from likewise.losses.circle import Circle
from likewise.losses.contrastive import Contrastive
from likewise.losses.contrastive_distance import ContrastiveDistance
from likewise.losses.cosface import CosFace
from likewise.losses.fast_ap import FastAP
from likewise.losses.generalized_lifted import GeneralizedLifted
from likewise.losses.hard_aware_cascade import HardAwareCascade
from likewise.losses.hierarchical_triplet import HierarchicalTriplet
from likewise.losses.histogram import Histogram
from likewise.losses.intra_pair_variance import IntraPairVariance
from likewise.losses.lifted import Lifted
from likewise.losses.loss import AnyLoss, Loss, checked_loss
from likewise.losses.margin import Margin
from likewise.losses.multi_similarity import MultiSimilarity
from likewise.losses.n_pair import NPair
from likewise.losses.nca import NCA
from likewise.losses.nonlinear_rank import NonlinearRank
from likewise.losses.nt_xent import NTXent
from likewise.losses.pnp import PNP
from likewise.losses.position_dependent import PositionDependent
from likewise.losses.prototypical import Prototypical
from likewise.losses.proxy_anchor import ProxyAnchor
from likewise.losses.proxy_nca import ProxyNCA
from likewise.losses.proxy_softmax import ProxySoftmax
from likewise.losses.proxy_triplet import ProxyTriplet
from likewise.losses.ranked_list import RankedList
from likewise.losses.raw import RelativeAbsolute
from likewise.losses.recall_at_k import RecallAtK
from likewise.losses.smooth_ap import SmoothAP
from likewise.losses.soft_triple import SoftTriple
from likewise.losses.softmax import Softmax
from likewise.losses.spectral_clustering import SpectralClustering
from likewise.losses.structured_clustering import StructuredClustering
from likewise.losses.supcon import SupCon
from likewise.losses.triplet import Triplet
from likewise.losses.tuplet_margin import TupletMargin
from likewise.losses.weight_family import WeightFamily
from likewise.registries import from_registry

LOSSES: dict[str, type[AnyLoss]] = {
    # the papers'
    "contrastive": Contrastive,
    "contrastive_distance": ContrastiveDistance,
    "triplet": Triplet,
    "n_pair": NPair,
    "lifted": Lifted,
    "generalized_lifted": GeneralizedLifted,
    "binomial_deviance": BinomialDeviance,
    "margin": Margin,
    "angular": Angular,
    "histogram": Histogram,
    "ranked_list": RankedList,
    "nonlinear_rank": NonlinearRank,
    "raw": RelativeAbsolute,
    "structured_clustering": StructuredClustering,
    "spectral_clustering": SpectralClustering,
    "prototypical": Prototypical,
    "proxy_nca": ProxyNCA,
    "proxy_triplet": ProxyTriplet,
    "proxy_softmax": ProxySoftmax,
    "softmax": Softmax,
    # those of systems that they compare with
    "boosted_binomial": BoostedBinomial,
    "hard_aware_cascade": HardAwareCascade,
    "hierarchical_triplet": HierarchicalTriplet,
    "position_dependent": PositionDependent,
    "attention_ensemble": AttentionEnsemble,
    # beyond them
    "multi_similarity": MultiSimilarity,
    "proxy_anchor": ProxyAnchor,
    "soft_triple": SoftTriple,
    "arcface": ArcFace,
    "cosface": CosFace,
    "circle": Circle,
    "supcon": SupCon,
    "nt_xent": NTXent,
    "smooth_ap": SmoothAP,
    "fast_ap": FastAP,
    "recall_at_k": RecallAtK,
    "nca": NCA,
    "tuplet_margin": TupletMargin,
    "intra_pair_variance": IntraPairVariance,
    "pnp": PNP,
    "weight_family": WeightFamily,
}


def make_loss(loss: str | AnyLoss, settings: Mapping[str, Any] | None = None, **known: Any) -> AnyLoss:
    """The loss of this name with these settings, or the loss object itself, after a look at it.

    `known` is what the caller knows of the data and the network (num_classes, dim, parts). It reaches the losses that take it as a setting;
    the others need not know it. What is None is not known.
    """
    if isinstance(loss, str):
        where_taken = {name: value for name, value in known.items() if value is not None}
        return checked_loss(from_registry("loss", loss, LOSSES, settings or {}, where_taken=where_taken))
    if settings:
        raise ValueError(f"settings {sorted(settings)} belong to a loss given by name; this loss object has its own")
    return checked_loss(loss)


__all__ = ["LOSSES", "AnyLoss", "Loss", "make_loss"]
