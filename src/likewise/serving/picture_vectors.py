"""Vectors of uploaded pictures, made as those of the files in an index are."""

from __future__ import annotations

import torch

from likewise.data.packing.decode import Undecodable, decode
from likewise.evaluation.binary import pack_bits
from likewise.models.embedder import Embedder
from likewise.models.embedding import evaluating, packed_inputs
from likewise.models.frozen.streaming import make_run
from likewise.models.images import pack_images
from likewise.search.adding import vectors_of
from likewise.search.vector_store import Vectors, unit_rows
from likewise.serving.admission.refusals import Refusal


class PictureVectors:
    """An embedder for one picture at a time, through onnxruntime on a CPU where that can be. Any number of threads may call it."""

    def __init__(self, embedder: Embedder, width: int, pixel_limit: int) -> None:
        if embedder.preprocessing is None:
            raise Refusal(422, "this index was made of vectors, not of images: search with an image of the index, by its id")
        self.embedder, self.width, self.pixel_limit = embedder, width, pixel_limit
        self.side, self.augmentation = embedder.preprocessing.file_side, embedder.preprocessing.augmentation
        self.device = torch.device(embedder.device)
        with evaluating(embedder.network):
            self._run = make_run(embedder.network, size=self.augmentation.size, device=self.device)

    def __call__(self, data: bytes) -> Vectors:
        """(1, width) of the file's bytes; a Refusal for what is no picture."""
        try:
            pixels = decode(data, side=self.side, pixel_limit=self.pixel_limit)
        except Undecodable as fault:
            raise Refusal(422, f"the picture cannot be searched with: {fault}") from fault
        rows = self._run(next(packed_inputs(pack_images([pixels]), self.augmentation, batch=1, device=self.device)))
        given = pack_bits(rows) if self.embedder.network.spec.binary else rows
        return unit_rows(vectors_of(self.embedder, given.numpy()), 1, self.width)
