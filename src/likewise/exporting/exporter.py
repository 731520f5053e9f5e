"""likewise.export: an embedder as files that run without likewise.

model.onnx        an image of any size in, its unit vector out
model_int8.onnx   the same in 8 bits, where it was asked for
export.json       what they are: input, output, thresholds, scores, digests
README.md         the same for people: the model's card
example.py        how to use it with onnxruntime in Python
example.mjs       how to use it in JavaScript
browser/          a page that searches an index, where one was given
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from likewise.argument_types import checked_arguments
from likewise.data.dataset import Dataset
from likewise.data.readers import read
from likewise.exporting.export_card import card_text, description_of, metadata_of
from likewise.exporting.int8 import Int8Items, Int8Trial, int8_model, items_for_int8
from likewise.exporting.offline_page import check_searchable, write_page
from likewise.exporting.onnx_model import TOLERANCE, difference, onnx_model, onnx_packages, with_metadata
from likewise.exporting.web_runtime import find_runtime
from likewise.files import write_folder, write_whole
from likewise.models.embedder import Embedder
from likewise.models.opening import model_home, open_model
from likewise.models.weights.pretrained import WEIGHTS
from likewise.progress import ProgressCallback
from likewise.sealing import digests_below, sealed_json
from likewise.search.index import Index
from likewise.training.runs.run_embeddings import OnNote, open_again, own_split

MODEL, INT8_MODEL, DESCRIPTION, CARD, BROWSER = "model.onnx", "model_int8.onnx", "export.json", "README.md", "browser"
EXAMPLES = {"example.py": "example.py.txt", "example.mjs": "example.mjs"}


@dataclass(frozen=True)
class Exported:
    """What lies in the folder."""

    folder: Path
    description: dict[str, Any]  # as export.json has it
    difference: float  # the largest of any number, between graph and embedder, on drawn items
    int8: Int8Trial | None = None
    page: Path | None = None  # that searches an index


@checked_arguments
def export(
    model: Embedder | str | Path,
    folder: str | Path,
    *,
    int8: Dataset | str | Path | None = None,
    browser: Index | str | Path | None = None,
    one_file: bool = False,
    runtime: str | Path | None = None,
    on_progress: ProgressCallback | None = None,
    on_note: OnNote | None = None,
) -> Exported:
    """Writes the model into the folder; an export that is there is replaced, anything else is refused.

    model     a run, a comparison or its best, a saved embedder, a name of `likewise weights`, or an Embedder.
    int8      images with classes: also writes the network in 8 bits, fitted to images of some classes and measured on others. Of the
              data that a run was trained on, it is fitted to training items and measured on test items.
    browser   an index by this model: also writes a page that searches it in any browser, without a network or a server.
    one_file  that page as one file, thumbnails and all, instead of a folder.
    runtime   a folder with onnxruntime-web, which the page needs; None: node_modules here or above, the cache, or npm.
    on_note   is told in a sentence where the images for int8 are not what a run was trained on.
    """
    onnx_packages()  # refused before anything is computed
    embedder = open_model(model)
    name, home = _name_and_home(model)
    if int8 is not None:
        _check_quantisable(embedder)
    dataset = read(int8) if isinstance(int8, str | Path) else int8
    index = Index.load(browser, "cpu") if isinstance(browser, str | Path) else browser
    if index is not None:
        check_searchable(embedder, index)
    web_runtime = None if index is None else find_runtime(runtime)
    with write_folder(Path(folder), known_by=DESCRIPTION, what="an export") as unfinished:
        if on_progress is not None:
            on_progress("exporting", 0, 0)
        graph, largest = _checked_graph(embedder)
        description = description_of(embedder, name, home, largest)
        graph = with_metadata(graph, metadata_of(description))
        write_whole(unfinished / MODEL, graph)
        trial = None
        if dataset is not None:
            small, trial = int8_model(graph, dataset, _items(home, embedder, dataset, on_note), on_progress=on_progress)
            write_whole(unfinished / INT8_MODEL, small)
            description["int8"] = trial.as_table() | {"words": list(trial.words)}
        page = None
        if index is not None and web_runtime is not None:
            home_page = unfinished / BROWSER
            page = write_page(home_page, graph, index, web_runtime, one_file=one_file, on_progress=on_progress)
            page = page.relative_to(unfinished)
        if embedder.preprocessing is not None and not embedder.network.spec.binary:
            for file, source in EXAMPLES.items():
                write_whole(unfinished / file, files("likewise.exporting").joinpath("examples", source).read_bytes())
        of_run = (home / CARD).read_text(encoding="utf-8") if home is not None and (home / CARD).is_file() else None
        write_whole(unfinished / CARD, card_text(description, embedder, int8=trial, page=page, of_run=of_run).encode())
        digests = digests_below(unfinished)
        description["files"] = {name: {"bytes": (unfinished / name).stat().st_size, "sha256": digest} for name, digest in digests.items()}
        description["page"] = None if page is None else page.as_posix()
        write_whole(unfinished / DESCRIPTION, sealed_json(description))
    return Exported(Path(folder), description, largest, trial, None if page is None else Path(folder) / page)


def _checked_graph(embedder: Embedder) -> tuple[bytes, float]:
    """The graph, and how far it is off the embedder; a ValueError where that is too far."""
    graph = onnx_model(embedder)
    largest = difference(embedder, graph)
    if not largest <= (0 if embedder.network.spec.binary else TOLERANCE):
        raise ValueError(f"the graph's numbers are up to {largest:.1e} off the embedder's, more than {TOLERANCE:.0e}: nothing was exported")
    return graph, largest


def _name_and_home(model: Embedder | str | Path) -> tuple[str, Path | None]:
    """What to call it, and the folder of the run that holds it, if any."""
    if isinstance(model, Embedder):
        return str(model.card.get("weights", model.network.spec.backbone)), None
    if str(model) in WEIGHTS and not Path(model).exists():
        return str(model), None
    home = model_home(model)
    return Path(model).resolve().name, home.parent if home.name == "embedder" else home


def _check_quantisable(embedder: Embedder) -> None:
    if embedder.preprocessing is None:
        raise ValueError("int8 of a network of vectors: it is for networks of images, which are large and slow; leave --int8 out")
    if embedder.network.spec.binary:
        raise ValueError("int8 of an embedder of bits: rounding would flip some of them; leave --int8 out")


def _items(home: Path | None, embedder: Embedder, dataset: Dataset, on_note: OnNote | None) -> Int8Items:
    dataset.require_labels()
    own = None if home is None else own_split(home, embedder, dataset, on_note=on_note)
    if home is None or own is None or not own.test.num_items:
        return items_for_int8(dataset)
    return Int8Items(own.train, open_again(home, embedder, own).indices, apart=True)
