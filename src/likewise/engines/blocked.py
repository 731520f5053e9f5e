"""Row blocks: the gradient of each block is taken in the forward pass and the block is dropped.

For a sum over rows the gradient by everything the rows depend on is known as soon as a block is evaluated, up to the one
factor that arrives in the backward pass. So nothing of size anchors x references outlives its block.

A block is evaluated in tiles of fewer rows, small enough that the dozens of elementwise passes of a loss over a tile stay
in the processor's cache; the matrix products run over the whole block.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from likewise.rows import CountedFunction, Grouping, RowFunction, Rows, pairs_of, statistics_dtype

CPU_BETWEEN_NUMBERS = 2**24  # of a block's positives' rows against the references; beyond, a loss makes them part by part
CUDA_BETWEEN_NUMBERS = 2**28

Step = Callable[..., Any]  # pairs_of's arguments -> what the row function gives for them


@dataclass(frozen=True)
class Block:
    """Rows evaluated together; the first `done` of them were part of the block before and count no more."""

    rows: slice
    done: int = 0


@dataclass(frozen=True)
class Blocked:
    """Evaluates `block` rows at a time."""

    block: int
    tile: int | None = None  # rows of a tile; None: the whole block
    positives: int | None = None  # and of a tile's rows no more than so many positives together; None: no limit

    def step(self, function: RowFunction | CountedFunction) -> Step:
        """One tile: from similarities to the function's results."""
        return lambda similarity, tensors, **more: function(pairs_of(similarity, tensors, **more))

    def blocks(self, num_rows: int) -> list[Block]:
        return [Block(slice(start, min(start + self.block, num_rows))) for start in range(0, num_rows, self.block)]

    def width(self, grouping: Grouping, rows: slice) -> int:
        """How many columns of positives these rows are given: beside a large class the small ones are not to pay for it."""
        return grouping.width(rows) if grouping.order.is_cpu else grouping.largest  # a GPU would be waited for

    def tiles(self, grouping: Grouping | None, block: slice) -> list[slice]:
        """A block's rows cut into tiles, as slices within the block."""
        height, end = self.tile or block.stop - block.start, block.stop - block.start
        if self.positives is not None and grouping is not None and grouping.even:
            height = min(height, max(1, self.positives // grouping.largest))
        if self.positives is None or grouping is None or grouping.even:
            return [slice(start, min(start + height, end)) for start in range(0, end, height)]
        tiles, start, widest = [], 0, 0
        for row, size in enumerate(grouping.size[block].tolist()):
            widest = max(widest, size)
            if row > start and (row - start == height or (row - start + 1) * widest > self.positives):
                tiles.append(slice(start, row))
                start, widest = row, size
        return [*tiles, slice(start, end)]

    def named(self, columns: Tensor) -> tuple[Tensor, Tensor]:
        """The references some columns (a, k) name, each once, and which of them each column is."""
        references, place = columns.unique(return_inverse=True)  # anchors of one class name the same ones
        return references, place

    def total(
        self, function: CountedFunction, rows: Rows, *, parameters: Sequence[Tensor] = (), between_references: bool = False
    ) -> tuple[Tensor, Tensor]:
        sweep = _Sweep(self, function, rows, tuple(parameters), between_references)
        inputs = sweep.inputs()
        wanted = torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in inputs)
        value, count = _Total.apply(sweep, wanted, *inputs)  # type: ignore[no-untyped-call]
        return value, count

    def each(self, function: RowFunction, rows: Rows, *, parameters: Sequence[Tensor] = (), between_references: bool = False) -> Tensor:
        sweep = _Sweep(self, function, rows, tuple(parameters), between_references)
        result: Tensor = _Each.apply(sweep, *sweep.inputs())  # type: ignore[no-untyped-call]
        return result


@dataclass
class _Gradients:
    """Sums over blocks of the gradients by everything a row depends on; None where nobody asks."""

    anchors: Tensor | None
    references: Tensor | None  # the same tensor as `anchors` when the anchors are the references
    statistic: Tensor | None
    parameters: list[Tensor | None]
    anchor_square: Tensor | None = None  # by the squared norms, chained on to the vectors once, at the end
    reference_square: Tensor | None = None

    def add(self, name: str, rows: slice, gradient: Tensor | None) -> None:
        total = getattr(self, name)
        if total is not None and gradient is not None:
            total[rows] += gradient

    def by_norms(self, anchors: Tensor, references: Tensor) -> None:
        """Chains the gradients by ||x||^2 on to the vectors: d||x||^2 = 2 x dx."""
        if self.anchors is not None and self.anchor_square is not None:
            self.anchors.addcmul_(self.anchor_square[:, None], anchors, value=2)
        if self.references is not None and self.reference_square is not None:
            self.references.addcmul_(self.reference_square[:, None], references, value=2)


@dataclass
class _Between:
    """The rows of a block's positives against the references, and the gradient by them."""

    named: Tensor  # (m,) the references that have a row
    place: Tensor  # (a, k) which row belongs to a positive
    rows: Tensor  # (m, r)
    slope: Tensor | None  # (m, r)


@dataclass(frozen=True)
class _Sweep:
    """One pass of a row function over all rows, block by block."""

    engine: Blocked
    function: RowFunction | CountedFunction
    rows: Rows
    parameters: tuple[Tensor, ...]
    between_references: bool

    def inputs(self) -> tuple[Tensor | None, ...]:
        """What autograd must know the result depends on."""
        rows = self.rows
        return (rows.anchors, None if rows.symmetric else rows.references, rows.statistic, *self.parameters)

    def zeros(self) -> _Gradients:
        """Where the gradients by the inputs that ask for one are summed, in the type of the statistics."""
        anchors, references, statistic, *parameters = (
            torch.zeros_like(tensor, dtype=statistics_dtype(tensor)) if tensor is not None and tensor.requires_grad else None
            for tensor in self.inputs()
        )
        gradients = _Gradients(anchors, anchors if self.rows.symmetric else references, statistic, parameters)
        if not self.rows.unit:
            gradients.anchor_square = None if anchors is None else anchors.new_zeros(self.rows.num_anchors)
            gradients.reference_square = None if gradients.references is None else gradients.references.new_zeros(self.rows.num_references)
        return gradients

    @torch.no_grad()
    def run(self, gradients: _Gradients | None, cotangent: Tensor | None) -> tuple[Tensor, ...]:
        """The results of all rows; to `gradients` is added the gradient of sum(results * cotangent).

        Without a cotangent that is the gradient of the sum of the first result.
        """
        rows, engine = self.rows, self.engine
        anchors = rows.anchors.detach()
        references = anchors if rows.symmetric else rows.references.detach()
        squares = rows.squared_norms()
        step = engine.step(self.function)
        blocks = engine.blocks(rows.num_anchors)
        # One buffer for the similarities of all blocks, and one for the results of all tiles: a small result left behind by
        # each tile in the space of its temporaries would keep the next tile from using that space again.
        buffer = anchors.new_empty(blocks[0].rows.stop, rows.num_references)
        results: tuple[Tensor, ...] = ()
        for block in blocks:
            slope = similarity = buffer[: block.rows.stop - block.rows.start]
            torch.mm(anchors[block.rows], references.T, out=similarity)
            between = self._between(block.rows, references, gradients) if self.between_references else None
            tiles = engine.tiles(rows.grouping, block.rows)
            for within in tiles:
                tile = Block(slice(block.rows.start + within.start, block.rows.start + within.stop), max(0, block.done - within.start))
                leaves = {"similarity": similarity[within]}
                if self.between_references and between is None:
                    leaves["vectors"] = references
                if squares is not None:
                    leaves["anchor_square"], leaves["reference_square"] = squares[0][tile.rows], squares[1]
                if rows.statistic is not None:
                    leaves["statistic"] = rows.statistic
                result, taken = self._tile(step, tile, leaves, between, within, gradients, cotangent)
                results = results or tuple(part.new_empty(rows.num_anchors, *part.shape[1:]) for part in result)
                for whole, part in zip(results, result, strict=True):
                    whole[tile.rows.start + tile.done : tile.rows.stop] = part
                if taken is not None and len(tiles) == 1:
                    slope = taken
                elif taken is not None:  # the similarities of a tile are done with: their place takes the gradient
                    similarity[within] = taken
            if gradients is not None:
                self._products(slope, block.rows, anchors, references, between, gradients)
        if gradients is not None:
            gradients.by_norms(anchors, references)
        return results

    def _between(self, block: slice, references: Tensor, gradients: _Gradients | None) -> _Between | None:
        """The rows of the block's positives; None where they are too many to hold."""
        grouping = self.rows.grouping
        if grouping is None:  # any reference may be a positive
            return None
        width = self.engine.width(grouping, block)
        most = CPU_BETWEEN_NUMBERS if references.is_cpu else CUDA_BETWEEN_NUMBERS
        if min((block.stop - block.start) * width, references.shape[0]) * references.shape[0] > most:
            return None
        named, place = self.engine.named(grouping.columns(block, width)[0])
        rows = references[named] @ references.T
        return _Between(named, place, rows, None if gradients is None else torch.zeros_like(rows))

    def _tile(
        self,
        step: Step,
        tile: Block,
        leaves: dict[str, Tensor],
        between: _Between | None,
        within: slice,
        gradients: _Gradients | None,
        cotangent: Tensor | None,
    ) -> tuple[tuple[Tensor, ...], Tensor | None]:
        """A tile's results and, when gradients are asked for, the gradient by its similarities (a, r)."""
        grouping = self.rows.grouping
        width = None if grouping is None else self.engine.width(grouping, tile.rows)
        tensors = self.rows.block(tile.rows, width)
        columns = tensors["columns"]
        more: dict[str, Any] = {"tensors": tensors, "dim": self.rows.anchors.shape[1]}
        if columns is not None:
            leaves["positive_similarity"] = leaves["similarity"].gather(1, columns)
        if between is not None:
            used, more["place"] = self.engine.named(between.place[within, :width])
            leaves["between"] = between.rows[used]
        if gradients is None:
            return _fresh(step(**more, **leaves), tile.done), None

        leaves = {name: leaf.detach().requires_grad_() for name, leaf in leaves.items()}
        learned = [p for p, total in zip(self.parameters, gradients.parameters, strict=True) if total is not None]
        with torch.enable_grad():
            result = _fresh(step(**more, **leaves), tile.done)
            fresh = slice(tile.rows.start + tile.done, tile.rows.stop)
            scored = result[0].sum() if cotangent is None else (result[0] * cotangent[fresh]).sum()
            taken = torch.autograd.grad(scored, [*leaves.values(), *learned], allow_unused=True, materialize_grads=True)
        by = dict(zip(leaves, taken, strict=False))

        slope = by["similarity"]
        if columns is not None:
            slope.scatter_add_(1, columns, by["positive_similarity"])
        if between is not None and between.slope is not None:
            between.slope.index_add_(0, used, by["between"])
        gradients.add("anchor_square", tile.rows, by.get("anchor_square"))
        gradients.add("reference_square", slice(None), by.get("reference_square"))
        gradients.add("statistic", slice(None), by.get("statistic"))
        gradients.add("references", slice(None), by.get("vectors"))
        for total, gradient in zip([total for total in gradients.parameters if total is not None], taken[len(leaves) :], strict=True):
            total += gradient
        return tuple(part.detach() for part in result), slope

    def _products(
        self, slope: Tensor, block: slice, anchors: Tensor, references: Tensor, between: _Between | None, gradients: _Gradients
    ) -> None:
        """Chains the gradient by the block's similarities (a, r) on to the vectors."""
        if gradients.anchors is not None and gradients.anchors is gradients.references and slope.shape[0] == slope.shape[1]:
            _accumulate(gradients.anchors, slope.T.contiguous().add_(slope), anchors)  # one product instead of two
        else:
            if gradients.anchors is not None:
                _accumulate(gradients.anchors[block], slope, references)
            if gradients.references is not None:
                _accumulate(gradients.references, slope.T, anchors[block])
        if between is not None and between.slope is not None and gradients.references is not None:
            gradients.references.index_add_(0, between.named, (between.slope @ references).to(gradients.references.dtype))
            _accumulate(gradients.references, between.slope.T, references[between.named])


def _fresh(result: Tensor | tuple[Tensor, ...], done: int) -> tuple[Tensor, ...]:
    """The results of rows that do not repeat, always as a tuple."""
    parts = result if isinstance(result, tuple) else (result,)
    return tuple(part[done:] for part in parts) if done else parts


def _accumulate(total: Tensor, left: Tensor, right: Tensor) -> None:
    """total += left @ right, where total may be of a wider type."""
    if total.dtype == left.dtype:
        total.addmm_(left, right)
    else:
        total += left @ right


class _Total(torch.autograd.Function):
    """Sums over the rows, with the gradient of the first one ready before backward asks for it."""

    @staticmethod
    def forward(ctx: Any, sweep: _Sweep, wanted: bool, *inputs: Tensor | None) -> tuple[Tensor, Tensor]:
        ctx.dtypes = [None if tensor is None else tensor.dtype for tensor in inputs]
        ctx.gradients = sweep.zeros() if wanted else None
        values, counts = sweep.run(ctx.gradients, None)
        value, count = values.sum(), counts.sum()
        ctx.mark_non_differentiable(count)
        return value, count

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, slope: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        return (None, None, *_returned(ctx.gradients, slope, ctx.dtypes))


class _Each(torch.autograd.Function):
    """The results of all rows. Their cotangents are known only in backward, which evaluates the blocks once more."""

    @staticmethod
    def forward(ctx: Any, sweep: _Sweep, *inputs: Tensor | None) -> Tensor:
        ctx.dtypes = [None if tensor is None else tensor.dtype for tensor in inputs]
        ctx.sweep = sweep
        (results,) = sweep.run(None, None)
        return results

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, cotangent: Tensor) -> tuple[Tensor | None, ...]:
        gradients = ctx.sweep.zeros()
        ctx.sweep.run(gradients, cotangent)
        return (None, *_returned(gradients, None, ctx.dtypes))


def _returned(gradients: _Gradients, factor: Tensor | None, dtypes: Sequence[torch.dtype | None]) -> list[Tensor | None]:
    """The gradients in the order and type of the sweep's inputs."""
    references = None if gradients.references is gradients.anchors else gradients.references
    by_input = [gradients.anchors, references, gradients.statistic, *gradients.parameters]
    return [
        None if gradient is None or dtype is None else (gradient if factor is None else gradient * factor).to(dtype)
        for gradient, dtype in zip(by_input, dtypes, strict=True)
    ]
