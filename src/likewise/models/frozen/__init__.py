"""Frozen: a network trained on the features of a backbone that was not, put on that backbone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from likewise.models.network import Member, Network, make_network


def on_backbone(network_of_vectors: Network, backbone: str, pooling: str, weights: Path | None) -> Network:
    """The network of images that embeds as `network_of_vectors` does the backbone's pooled features, in evaluation mode.

    network_of_vectors: trained on these features as they are (backbone "identity"), with its heads and its whitening.
    weights: those of the backbone that made the features.
    """
    given = network_of_vectors.spec
    if given.backbone != "identity":
        raise ValueError(f"a network with backbone {given.backbone!r}: expected one of vectors as they are (backbone 'identity')")
    if given.levels != ("high",):
        raise ValueError(f"levels={given.levels!r}: features are of the last level, so only a network of level 'high' fits the backbone")
    network = make_network(replace(given, backbone=backbone, pooling=pooling, in_features=None), seed=0, weights=weights)
    for member, trained in zip(network.members, network_of_vectors.members, strict=True):
        assert isinstance(member, Member)
        assert isinstance(trained, Member)
        channels = member.backbone.channels["high"]
        if channels != given.in_features:
            raise ValueError(
                f"backbone {backbone!r} has {channels} features and the network takes {given.in_features}: give the one they are of"
            )
        # Without the pooling before: the vectors were pooled as they are here, and passed through the network's own.
        member.heads["high"][1:].load_state_dict(trained.heads["high"][1:].state_dict())  # type: ignore[index]
    if network.whitening is not None and network_of_vectors.whitening is not None:
        network.whitening.load_state_dict(network_of_vectors.whitening.state_dict())
    return network.eval()
