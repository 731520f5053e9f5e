"""Stand-ins: the same rows on a few drawn characters under a tiny protocol, seconds an item: what runs, not what is true."""

from __future__ import annotations

from dataclasses import replace

from likewise.configuration import with_settings
from likewise.data.dataset import Dataset
from likewise.data.readers import read
from likewise.evaluation.metrics import RETRIEVAL_METRICS
from likewise.methods import Method
from likewise.models.weights.pretrained import WeightsFile
from likewise.protocols import Protocol, load_protocol
from likewise.reproductions.supplies import Supplies

DATA = "glyphs:classes=16,images=10,size=16"
STEPS, DIM = 2, 8
SMALL, LARGE = 24, 48  # batches: pairs, threes and eights of a class fit


class StandIns(Supplies):
    """In the place of data sets, weights and protocols; every part of an item has a place in them, and shares it where it can."""

    def dataset(self, reader: str) -> Dataset:
        if DATA not in self._read:
            self._read[DATA] = read(DATA)
        return self._read[DATA]

    def data_name(self, reader: str) -> str:
        return "glyphs"

    def weights_of(self, protocol: Protocol) -> WeightsFile | None:
        return None

    def protocol(self, asked: Protocol) -> Protocol:
        """A tiny one. Of the conditions that items vary, dimensions stay two where they are two, and there are two
        sizes of batches."""
        tiny = replace(load_protocol("quick"), name="stand-in", backbone="convnet", steps=STEPS, few_classes="more_images", trials=0)
        return replace(tiny, dim=min(asked.dim, DIM), batch=LARGE if asked.batch > 100 else SMALL, metrics=RETRIEVAL_METRICS)

    def method(self, asked: Method) -> Method:
        """With no more than two networks, as many characters as there are."""
        members = min(asked.ensemble.members, 2)
        smaller = with_settings(asked, {"ensemble.members": members, "ensemble.meta_classes": min(asked.ensemble.meta_classes, 4)})
        return smaller if members == asked.ensemble.members else replace(smaller, name=f"{asked.name} of {members} networks")
