"""likewise.explain: where two images match, place by place, such that the parts add up to the similarity."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch import Tensor

from likewise.argument_types import checked_arguments
from likewise.data.augmentation import Augmentation, choose
from likewise.data.packing.packed import PackedImages
from likewise.evaluation.calibration import Calibration
from likewise.explanation.held_layers import is_switching
from likewise.explanation.occlusion import OccludedImage, occluded
from likewise.explanation.place_vectors import Grid, PlaceVectors, place_vectors
from likewise.explanation.region_pairs import RegionPair, best_pairs
from likewise.files import write_whole
from likewise.models.embedder import Embedder
from likewise.models.embedding import evaluating, packed_inputs
from likewise.models.images import Picture, packed_batches
from likewise.models.opening import open_model
from likewise.progress import ProgressCallback

SHOWN_SIDE = 448  # pixels of the shorter side of an image as it is shown
ENDINGS = (".html", ".png")

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SeenImage:
    """One of the two images as the network sees it: what is cut off is not there."""

    name: str
    picture: Image.Image  # what the network sees, at a size to look at and with its own proportions
    grid: Grid  # rows and columns of places
    heat: Array  # (rows, columns) what each place adds to the similarity in all; what is of no place is spread evenly over the places
    rest: float  # what is of no place of this image adds
    occlusion: OccludedImage | None = None  # where it was asked for


@dataclass(frozen=True, eq=False)
class Explanation:
    """The cosine similarity of two images as a sum. Made by `explain`.

    similarity = contributions.sum() + a_with_rest.sum() + b_with_rest.sum() + rest = spread.sum() = a.heat.sum() = b.heat.sum()
    """

    similarity: float
    a: SeenImage
    b: SeenImage
    contributions: Array  # (places of a, places of b), places counted row by row
    a_with_rest: Array  # (places of a,) with what is of no place of b: biases and the whitening's mean
    b_with_rest: Array  # (places of b,) with what is of no place of a
    rest: float  # of no place of either
    pairs: tuple[RegionPair, ...]  # of regions that match most, largest first; they overlap nowhere
    meaning: str | None  # what the similarity means, where the model was calibrated
    notes: tuple[str, ...]  # what was held to make it a sum

    @property
    def parts(self) -> dict[str, float]:
        """What the similarity is the sum of."""
        return {
            "places of both": float(self.contributions.sum()),
            "places of the first image, no place of the second": float(self.a_with_rest.sum()),
            "places of the second image, no place of the first": float(self.b_with_rest.sum()),
            "no place of either": self.rest,
        }

    @property
    def spread(self) -> Array:
        """(places of a, places of b): the contributions, with what is of no place spread evenly over the places. They add up to the
        similarity; a pair of places that are no more alike than the average place is to itself adds nothing.
        """
        return spread_evenly(self.contributions, self.a_with_rest, self.b_with_rest, self.rest)

    def share(self, contribution: float) -> float | None:
        """Of the similarity; None where that is not above 0 and there is nothing to have a share of."""
        return contribution / self.similarity if self.similarity > 0 else None

    def as_table(self) -> dict[str, Any]:
        """Numbers, strings, lists and dicts, as JSON has them; without the pictures and the single pairs of places."""
        return {
            "similarity": self.similarity,
            "meaning": self.meaning,
            "parts": self.parts,
            "a": _image_table(self.a),
            "b": _image_table(self.b),
            "pairs": [{**asdict(pair), "share": self.share(pair.contribution)} for pair in self.pairs],
            "notes": list(self.notes),
        }

    def png(self) -> bytes:
        from likewise.explanation.match_picture import match_picture, png_bytes

        return png_bytes(match_picture(self))

    def html(self) -> str:
        """One page that needs nothing else."""
        from likewise.explanation.match_page import match_page

        return match_page(self)

    def save(self, path: str | Path) -> None:
        """As a page (.html) or as a picture (.png)."""
        path = checked_ending(path)
        write_whole(path, self.png() if path.suffix.lower() == ".png" else self.html().encode())


def checked_ending(path: str | Path) -> Path:
    """A ValueError for a file that is neither a page nor a picture."""
    if Path(path).suffix.lower() not in ENDINGS:
        raise ValueError(f"{path}: expected a file that ends in {' or '.join(ENDINGS)}")
    return Path(path)


@checked_arguments
def explain(
    model: Embedder | str | Path,
    a: Picture,
    b: Picture,
    *,
    occlusion: bool = False,
    num_pairs: int = 5,
    device: torch.device | str = "cpu",
    on_progress: ProgressCallback | None = None,
) -> Explanation:
    """Where two images match: their similarity as a sum over pairs of places, exactly.

    model      an embedder, its folder, a run, a comparison, or the name of public weights.
    a, b       paths, or Pillow images.
    occlusion  also cover each image region by region and see what becomes of the similarity: an independent check, which takes as long as
               some hundred images take to embed.
    num_pairs  of regions that match most.
    device     that a model which is not open yet is put on.

    The network is taken as it acts at these two images: the lengths that vectors are divided by are held, and of a head with ReLU which
    units are on. A place is one of the network's last feature map; what it holds was computed from a larger part of the image around it.
    """
    embedder = open_model(model, device)
    _check(embedder)
    images = [_Prepared.of(embedder, picture, name) for picture, name in ((a, "first image"), (b, "second image"))]
    with evaluating(embedder.network):
        vectors = [place_vectors(embedder.network, image.inputs) for image in images]
        seen = list(_seen(embedder, images, vectors, occlusion=occlusion, on_progress=on_progress))
    of_a, of_b = vectors
    contributions = (of_a.vectors @ of_b.vectors.T).numpy()
    a_with_rest, b_with_rest = (of_a.vectors @ of_b.rest).numpy(), (of_b.vectors @ of_a.rest).numpy()
    rest = float(of_a.rest @ of_b.rest)
    spread = spread_evenly(contributions, a_with_rest, b_with_rest, rest)
    similarity = float(of_a.embedding @ of_b.embedding)
    return Explanation(
        similarity=similarity,
        a=seen[0],
        b=seen[1],
        contributions=contributions,
        a_with_rest=a_with_rest,
        b_with_rest=b_with_rest,
        rest=rest,
        pairs=best_pairs(spread, of_a.grid, of_b.grid, num_pairs),
        meaning=None if embedder.calibration is None else similarity_in_words(similarity, embedder.calibration),
        notes=_notes(embedder),
    )


def spread_evenly(contributions: Array, a_with_rest: Array, b_with_rest: Array, rest: float) -> Array:
    """(v_p + r_a / P) . (w_q + r_b / Q) of P and Q places, from the products of v, w and r."""
    num_a, num_b = contributions.shape
    return np.asarray(contributions + a_with_rest[:, None] / num_b + b_with_rest[None] / num_a + rest / (num_a * num_b))


def similarity_in_words(similarity: float, calibration: Calibration) -> str:
    """What a similarity says of two images being of one class."""
    same = calibration.same
    side = "so these two pass for one class" if similarity >= same.value else "so these two do not pass for one class"
    probability = float(calibration.probability(similarity))
    return (
        f"from {same.value:.3f} on two images pass for one class, {side}; where pairs of one class and of two are equally many, "
        f"{100 * probability:.0f} % of those as alike as these are of one class"
    )


def _check(embedder: Embedder) -> None:
    if embedder.preprocessing is None:
        raise ValueError("this model takes vectors: expected one that takes images, as there are no places to show in a vector")
    if embedder.network.spec.binary:
        raise ValueError("this model gives sign bits, and how many agree is not a sum over places: expected a model that is not binary")


@dataclass(frozen=True, eq=False)
class _Prepared:
    name: str
    inputs: Tensor  # (1, 3, height, width) on the embedder's device
    picture: Image.Image

    @staticmethod
    def of(embedder: Embedder, picture: Picture, name: str) -> _Prepared:
        assert embedder.preprocessing is not None
        preprocessing = embedder.preprocessing
        packed = next(packed_batches([picture], side=preprocessing.file_side, batch=1))
        inputs = next(packed_inputs(packed, preprocessing.augmentation, batch=1, device=embedder.device))
        shown = next(packed_batches([picture], side=SHOWN_SIDE, batch=1)).image(0)
        name = name if isinstance(picture, Image.Image) else Path(picture).name
        return _Prepared(name, inputs, _cut_as_seen(shown, packed, preprocessing.augmentation))


def _cut_as_seen(shown: Tensor, packed: PackedImages, augmentation: Augmentation) -> Image.Image:
    """What the network sees of the packed image, cut out of a larger one of the same proportions."""
    heights, widths = packed.heights.numpy(), packed.widths.numpy()
    crop = choose(augmentation, heights, widths, packed.indices.numpy(), seed=0, step=0)
    down, across = shown.shape[1] / int(heights[0]), shown.shape[2] / int(widths[0])
    top, bottom = round(int(crop.top[0]) * down), round(int(crop.top[0] + crop.height[0]) * down)
    left, right = round(int(crop.left[0]) * across), round(int(crop.left[0] + crop.width[0]) * across)
    return Image.fromarray(shown[:, top:bottom, left:right].permute(1, 2, 0).contiguous().numpy())


def _seen(
    embedder: Embedder, images: list[_Prepared], vectors: list[PlaceVectors], *, occlusion: bool, on_progress: ProgressCallback | None
) -> Iterator[SeenImage]:
    """Each image, with what its places add: (v_p + r / P) . embedding of the other."""
    for number, (image, own, other) in enumerate(zip(images, vectors, reversed(vectors), strict=True)):
        towards = other.embedding
        rest = float(own.rest @ towards)
        heat = (own.vectors @ towards).view(own.grid).numpy() + rest / len(own.vectors)
        check = None
        if occlusion:
            check = occluded(embedder.network, image.inputs, towards.to(image.inputs), heat)
            if on_progress is not None:
                on_progress("covering regions", number + 1, len(images))
        yield SeenImage(image.name, image.picture, own.grid, heat, rest, check)


def _notes(embedder: Embedder) -> tuple[str, ...]:
    spec = embedder.network.spec
    notes = ["a place holds what the network computed from a larger part of the image, whose middle may lie half a place aside"]
    if any(is_switching(layer) for member in embedder.network.members for layer in member.heads.modules()):  # type: ignore[union-attr]
        notes.append(f"the head {spec.head!r} has units that are on or off: they are held as they are for these two images")
    if "max" in spec.pooling:
        notes.append("of a channel's maximum all is given to the place that has it")
    if spec.pooling == "gem":
        notes.append("of a channel's generalised mean a place has its share of the sum of powers")
    if len(spec.levels) * spec.num_members > 1:
        members = f" of {spec.num_members} members" if spec.num_members > 1 else ""
        notes.append(f"added up over the levels {', '.join(spec.levels)}{members}")
    return tuple(notes)


def _image_table(image: SeenImage) -> dict[str, Any]:
    table: dict[str, Any] = {"name": image.name, "grid": list(image.grid), "heat": image.heat.tolist(), "rest": image.rest}
    if image.occlusion is not None:
        table["occlusion"] = {"drops": image.occlusion.drops.tolist(), "agreement": image.occlusion.agreement}
    return table
