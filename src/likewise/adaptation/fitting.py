"""Fitting: a rung taken on some of the training items, as a network, and what it makes of others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from likewise.adaptation.mid_maps import few_mid_maps, mid_maps
from likewise.adaptation.rung_conditions import Conditions
from likewise.adaptation.rungs import FEATURES, PCA, WITHIN, Rung, Setting
from likewise.data.dataset import Dataset, Features
from likewise.environment import checked_device
from likewise.models.embedder import Embedder
from likewise.models.head_start import Starts
from likewise.models.network import Network, NetworkSpec, make_network
from likewise.models.whitening import Whitening, whiten, whitenings_by_shrinkage
from likewise.progress import ProgressCallback
from likewise.training.feeds import Feed, Int64s, embedder_of, make_feed
from likewise.training.fit import fit
from likewise.training.loop import Listener
from likewise.training.scoring import embed_feed

PCA_WIDTH = 512  # dimensions that PCA keeps at most


class Fitter:
    """Takes rungs on the training part of a data set. Features, images and maps are made when they are first asked for."""

    def __init__(
        self,
        dataset: Dataset,
        conditions: Conditions,
        *,
        device: str,
        maps_folder: Path,
        on_progress: ProgressCallback | None = None,
    ) -> None:
        self.dataset, self.conditions, self.device = dataset, conditions, checked_device(device)
        self._maps_folder, self._on_progress = maps_folder, on_progress
        self._feeds: dict[str, Feed] = {}
        self._starts = Starts()
        self._pretrained: dict[str, Tensor] | None = None

    @property
    def takes_vectors(self) -> bool:
        return isinstance(self.dataset.items, Features)

    def goes_on_from_maps(self, rung: Rung) -> bool:
        """Where the last stage alone learns, a CPU computes what is before it once."""
        return rung.learns == "high" and self.device == "cpu"

    def feed(self, rung: Rung) -> Feed:
        """All training items, as this rung is fitted on them."""
        if not rung.changes_backbone:
            return self._feed("vectors", lambda: self.feed_of(rung, self.dataset))
        if self.goes_on_from_maps(rung):
            return self._feed("maps", lambda: self._maps(rung))
        return self._images(rung)

    def feed_of(self, rung: Rung, dataset: Dataset, *, trains: bool = True) -> Feed:
        """Any items of the same kind, as the protocol has them."""
        return make_feed(
            dataset,
            self.conditions.protocol(rung),
            weights=self.conditions.weights,
            device=self.device,
            trains=trains,
            on_progress=self._on_progress,
        )

    def fits(
        self, rung: Rung, feed: Feed, *, rate: float, seed: int, listener: Listener | None = None
    ) -> Iterator[tuple[Setting, Network]]:
        """The rung taken on these items with one rate, in every other way: networks of vectors or of images, by what the feed holds."""
        if rung.learns == "nothing":
            yield from closed_forms(rung, feed)
            return
        conditions = self.conditions
        network = fit(
            conditions.method_at(rate),
            conditions.protocol(rung),
            feed,
            seed=seed,
            weights=conditions.weights,
            device=self.device,
            listener=listener,
            starts=self._starts,
        ).network
        for setting in rung.settings(rate):
            yield setting, self.at_share(network, setting.share)

    def fit(self, rung: Rung, setting: Setting, feed: Feed, *, seed: int) -> Network:
        """The rung taken on these items in one way."""
        return next(network for way, network in self.fits(rung, feed, rate=setting.rate, seed=seed) if way == setting)

    def at_share(self, network: Network, share: float) -> Network:
        """A share of the way from the pretrained backbone to this network's: p + share x (q - p) for each of its weights.

        Its head stays: it was trained on features that lie between the two on the way.
        """
        if share == 1:
            return network
        if self._pretrained is None:
            self._pretrained = make_network(network.spec, seed=0, weights=self.conditions.weights).state_dict()
        state = network.state_dict()
        for name, pretrained in self._pretrained.items():
            if ".backbone." in f".{name}" and state[name].is_floating_point():
                state[name] = torch.lerp(pretrained.to(state[name].device), state[name], share)
        between = make_network(network.spec, seed=0)
        between.load_state_dict(state)
        return between.to(next(iter(state.values())).device).eval()

    def embeddings(self, rung: Rung, network: Network, feed: Feed) -> Tensor:
        """Unit rows, one for each item of the feed."""
        return embed_feed(network.to(self.device), feed, self.conditions.protocol(rung), device=self.device)

    def embedder(self, rung: Rung, network: Network, *, card: dict[str, Any]) -> Embedder:
        """What takes the data set's own items: images too where the network was fitted on their features."""
        return embedder_of(network, self.conditions.protocol(rung), self.dataset, weights=self.conditions.weights, card=card)

    def forget_maps(self) -> None:
        """They are as large as the images, and made again if they are asked for."""
        self._feeds.pop("maps", None)
        for path in self._maps_folder.glob("*.float16") if self._maps_folder.is_dir() else ():
            path.unlink()

    def _feed(self, name: str, make: Callable[[], Feed]) -> Feed:
        if name not in self._feeds:
            self._feeds[name] = make()
        return self._feeds[name]

    def few(self, rung: Rung, *, classes: int, images: int) -> Feed:
        """A few items of a few classes, as this rung is fitted on them: enough to time it."""
        feed = self._images(rung) if rung.changes_backbone else self.feed(rung)
        first = [np.flatnonzero(feed.labels == label)[:images] for label in np.unique(feed.labels)[:classes]]
        feed = feed.subset(np.sort(np.concatenate(first)))
        return few_mid_maps(feed, *self._before_last_stage(rung)) if self.goes_on_from_maps(rung) else feed

    def _images(self, rung: Rung) -> Feed:
        return self._feed("images", lambda: self.feed_of(rung, self.dataset))

    def _maps(self, rung: Rung) -> Feed:
        network, augmentation = self._before_last_stage(rung)
        return mid_maps(self._images(rung), network, augmentation, folder=self._maps_folder, on_progress=self._on_progress)

    def _before_last_stage(self, rung: Rung) -> tuple[Network, str]:
        protocol = self.conditions.protocol(rung)
        spec = NetworkSpec(protocol.backbone, head="none")
        return make_network(spec, seed=0, weights=self.conditions.weights), protocol.test_augmentation


def part_of(feed: Feed, items: Int64s) -> Feed:
    """The items with these numbers that the feed holds."""
    return feed.subset(np.flatnonzero(np.isin(feed.indices, items)))


def closed_forms(rung: Rung, feed: Feed) -> Iterator[tuple[Setting, Network]]:
    """Vectors as they are, or whitened by what these items say."""
    assert isinstance(feed.source, Tensor)
    assert feed.in_features is not None
    as_they_are = make_network(NetworkSpec("identity", head="none", in_features=feed.in_features), seed=0).eval()
    if rung.name == FEATURES:
        yield Setting(), as_they_are
    elif rung.name == PCA:
        whole = whiten(feed.source, kind="pca")
        yield Setting(), as_they_are.with_whitening(Whitening(whole.mean, whole.matrix[:, :PCA_WIDTH]))
    else:
        assert rung.name == WITHIN
        for shrinkage, whitening in whitenings_by_shrinkage(feed.source, feed.labels).items():
            yield Setting(shrinkage=shrinkage), as_they_are.with_whitening(whitening)
