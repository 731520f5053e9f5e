"""Kinds of faiss indexes: how each is made, what its effort is, how it is searched. All compare by inner products of unit vectors."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar

from likewise.search.vector_store import Ids, Vectors


def import_faiss() -> Any:
    try:
        import faiss
    except ModuleNotFoundError as fault:
        raise ValueError('the store faiss needs faiss: pip install "likewise[faiss]", or take the store exact') from fault
    return faiss


class FaissKind(ABC):
    """One kind of index."""

    name: ClassVar[str]
    takes_positions: ClassVar[bool]  # of its items; else it counts them
    is_rescored: ClassVar[bool]  # its codes say too little of a vector: what it finds is compared again with the rows themselves

    @abstractmethod
    def make(self, width: int, num_items: int) -> Any:
        """An empty index for so many items."""

    @abstractmethod
    def num_trained(self, index: Any) -> int:
        """On how many items it is trained."""

    def add(self, index: Any, vectors: Vectors, positions: Ids) -> None:
        if self.takes_positions:
            index.add_with_ids(vectors, positions)
        else:
            index.add(vectors)

    @abstractmethod
    def efforts(self, index: Any) -> Iterator[int]:
        """How hard it may try, counting up."""

    @abstractmethod
    def factors(self) -> Iterator[int]:
        """How many candidates it may give for each item that is asked for, counting up."""

    @abstractmethod
    def parameters(self, effort: int, selector: Any | None) -> Any:
        """What faiss is told: the effort, and which positions may be found."""

    @abstractmethod
    def set_effort(self, index: Any, effort: int) -> None:
        """For searches that are not told."""

    @abstractmethod
    def words(self, effort: int, factor: int) -> str: ...


class Hnsw(FaissKind):
    """A graph of near neighbours (Malkov and Yashunin 2018) over vectors in float16, as the rows have them."""

    name = "hnsw"
    takes_positions = False
    is_rescored = False
    LINKS, EF_CONSTRUCTION = 24, 60

    def make(self, width: int, num_items: int) -> Any:
        faiss = import_faiss()
        index = faiss.IndexHNSWSQ(width, faiss.ScalarQuantizer.QT_fp16, self.LINKS, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction = self.EF_CONSTRUCTION
        return index

    def num_trained(self, index: Any) -> int:
        return 0 if index.is_trained else 1

    def efforts(self, index: Any) -> Iterator[int]:
        """efSearch."""
        yield from (16, 22, 32, 45, 64, 90, 128, 180, 256, 360, 512, 720, 1024, 1440, 2048)

    def factors(self) -> Iterator[int]:
        yield 1

    def parameters(self, effort: int, selector: Any | None) -> Any:
        return import_faiss().SearchParametersHNSW(efSearch=effort, **({} if selector is None else {"sel": selector}))

    def set_effort(self, index: Any, effort: int) -> None:
        index.hnsw.efSearch = effort

    def words(self, effort: int, factor: int) -> str:
        return f"HNSW with efSearch {effort}"


class IvfPq(FaissKind):
    """Lists about centres, and in them codes of a byte for every eight dimensions (Jegou, Douze and Schmid 2011)."""

    name = "ivf_pq"
    takes_positions = True
    is_rescored = True
    POINTS_A_CENTRE = 64  # to train with; further ones take long and change little
    ITERATIONS = 12

    def make(self, width: int, num_items: int) -> Any:
        faiss = import_faiss()
        if width % 4:
            raise ValueError(f"vectors of {width} dimensions: ivf_pq expects a multiple of 8, or of 4; take index='hnsw'")
        num_lists = max(1, min(int(4 * math.sqrt(num_items)), num_items // self.POINTS_A_CENTRE))
        bits = 8 if num_items >= 39 * 256 else 4  # faiss wants 39 points for each of the 2^bits values of a code
        quantizer = faiss.IndexFlatIP(width)
        index = faiss.IndexIVFPQ(quantizer, width, num_lists, width // (4 if width % 8 else 8), bits, faiss.METRIC_INNER_PRODUCT)
        index.cp.spherical = True
        for training in (index.cp, index.pq.cp):
            training.niter, training.max_points_per_centroid = self.ITERATIONS, self.POINTS_A_CENTRE
            training.min_points_per_centroid = 1  # of few items there are no more
        return index

    def num_trained(self, index: Any) -> int:
        return int(self.POINTS_A_CENTRE * max(index.nlist, 1 << index.pq.nbits))

    def efforts(self, index: Any) -> Iterator[int]:
        """nprobe: lists that are looked at."""
        effort = 1.0
        while effort < index.nlist:
            yield int(effort)
            effort = max(effort + 1, effort * math.sqrt(2))
        yield int(index.nlist)

    def factors(self) -> Iterator[int]:
        yield from (2, 4, 8, 16, 32, 64)

    def parameters(self, effort: int, selector: Any | None) -> Any:
        return import_faiss().SearchParametersIVF(nprobe=effort, **({} if selector is None else {"sel": selector}))

    def set_effort(self, index: Any, effort: int) -> None:
        index.nprobe = effort

    def words(self, effort: int, factor: int) -> str:
        return f"IVF-PQ with nprobe {effort}, {factor} candidates for each item compared exactly,"


FAISS_KINDS: dict[str, FaissKind] = {kind.name: kind for kind in (Hnsw(), IvfPq())}


def trained(index: Any, sample: Vectors) -> Any:
    if not index.is_trained:
        index.train(sample)
    return index
