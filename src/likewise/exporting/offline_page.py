"""A page that searches an index in any browser, without a network and without a server: from a folder, or in one file.

index.html loads page.js and what that needs as scripts, for a page that is opened from a file may load nothing else: runtime, graph and
vectors (float16) as gzip in base64. Thumbnails are files beside it. In one file all of that lies in the page itself.
"""

from __future__ import annotations

import base64
import gzip
import html
import json
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import closing
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from likewise.data.dataset import Dataset, Files
from likewise.data.packing.thumbnails import EDGE, make_thumbnail
from likewise.environment import num_cores
from likewise.evaluation.calibration import Calibration
from likewise.evaluation.threads import in_order
from likewise.exporting.export_card import weights_digest
from likewise.exporting.web_runtime import WebRuntime
from likewise.files import write_whole
from likewise.models.embedder import Embedder
from likewise.models.images import DatasetImage, images_of, loaded
from likewise.progress import ProgressCallback
from likewise.search.index import Index
from likewise.search.item import Item
from likewise.search.likeness import NOT_CALIBRATED, UNKNOWN, in_words
from likewise.wording import count_of, printable

MOST_ITEMS = 200_000  # whose vectors a browser holds and compares in good time
STEP = 0.001  # of similarities whose words are looked up
FOLDED = 1000  # thumbnails to a folder
PAGE = "index.html"
END_ESCAPED = r"<\/script"  # the same in a string of JavaScript


def check_searchable(embedder: Embedder, index: Index) -> None:
    """A ValueError where a page cannot search this index with the model."""
    if embedder.preprocessing is None:
        raise ValueError("a page for a network of vectors: in a browser there are pictures; leave --browser out")
    if embedder.network.spec.binary:
        raise ValueError("a page for an embedder of bits: it compares unit vectors; leave --browser out, or serve the index")
    if _computed_by(embedder) != _computed_by(index.embedder):
        raise ValueError(f"{index.folder} is an index by another model: give the model that it was built with, {index.folder / 'model'}")
    if not len(index):
        raise ValueError(f"{index.folder} holds no images: add some with `likewise index add`")
    if len(index) > MOST_ITEMS:
        raise ValueError(
            f"{index.folder} holds {len(index):,} images, more than a page can search ({MOST_ITEMS:,}): make an index of a part, or "
            "`likewise serve` it"
        )


def _computed_by(embedder: Embedder) -> tuple[object, ...]:
    return embedder.network.spec, embedder.preprocessing, weights_digest(embedder)


def write_page(
    folder: Path,
    graph: bytes,
    index: Index,
    runtime: WebRuntime,
    *,
    one_file: bool = False,
    on_progress: ProgressCallback | None = None,
) -> Path:
    """Writes the page into the folder, and gives its path."""
    ids = index.store.ids().tolist()
    items = index.store.items(ids)
    vectors = np.concatenate([rows for _, rows in index.store.blocks()]).astype(np.float16)
    thumbnails = []
    for number, jpeg in enumerate(_thumbnails(items, on_progress)):
        if jpeg is None or one_file:
            thumbnails.append(None if jpeg is None else f"data:image/jpeg;base64,{base64.b64encode(jpeg).decode()}")
        else:
            place = f"thumbnails/{number // FOLDED}/{number}.jpg"
            write_whole(folder / place, jpeg)
            thumbnails.append(place)
    about = _about(index, items, thumbnails)
    stored = {"vectors": vectors.tobytes(), "glue": runtime.glue, "wasm": runtime.wasm, "model": graph}
    scripts = {
        "runtime.js": runtime.script.decode(),
        "about.js": f"window.likewise={{stored:{{}},about:{_script_json(about)}}};\n",
        **{f"{part}.js": f'window.likewise.stored.{part}="{_packed(content)}";\n' for part, content in stored.items()},
        "page.js": _source("page.js"),
    }
    style = _source("page.css")
    if one_file:
        # A tag inside a script would end it.
        tags = [f"<script>{script.replace('</script', END_ESCAPED)}</script>" for script in scripts.values()]
        parts = {"style": f"<style>\n{style}</style>", "scripts": "\n".join(tags)}
    else:
        parts = {
            "style": '<link rel="stylesheet" href="page.css">',
            "scripts": "\n".join(f'<script src="{file}"></script>' for file in scripts),
        }
        for file, content in {**scripts, "page.css": style}.items():
            write_whole(folder / file, content.encode())
    parts["title"] = html.escape(f"Search {index.folder.resolve().name.removesuffix('.index')}")
    page = re.sub(r"\{(title|style|scripts)\}", lambda mark: parts[mark[1]], _source("page.html"))
    write_whole(folder / PAGE, page.encode())
    return folder / PAGE


def _about(index: Index, items: Sequence[Item], thumbnails: Sequence[str | None]) -> dict[str, Any]:
    """What the page says, and how it words similarities."""
    calibration = index.calibration
    of_files = Dataset("", Files(tuple(Path(item.path) for item in items)), np.zeros(len(items), np.int64), ("",))
    return {
        "line": f"{count_of(len(items), 'picture', 'pictures')}; works without a network",
        "width": index.store.width,
        "items": [
            [name, None if item.label is None else printable(item.label)] for name, item in zip(of_files.item_names(), items, strict=True)
        ],
        "thumbnails": list(thumbnails),
        "words": [NOT_CALIBRATED] if calibration is None else list(calibration.words),
        "known": None if calibration is None or calibration.known is None else calibration.known.value,
        "unknown": UNKNOWN,
        "steps": None if calibration is None else word_steps(calibration),
    }


def word_steps(calibration: Calibration) -> list[tuple[float, str]]:
    """From which similarity on which words are said."""
    grid = (np.arange(round(-1 / STEP), round(1 / STEP) + 1) * STEP).round(3).tolist()
    said = [(similarity, in_words(similarity, calibration)) for similarity in grid]
    return [next(group) for _, group in groupby(said, key=lambda step: step[1])]


def _thumbnails(items: Sequence[Item], on_progress: ProgressCallback | None) -> Iterator[bytes | None]:
    """A small JPEG of each item; None of one whose file is gone or broken."""
    images = images_of(Dataset("index", Files(tuple(Path(item.path) for item in items)), np.zeros(len(items), np.int64), ("",)), EDGE)

    def thumbnail(image: DatasetImage) -> bytes | None:
        pixels = loaded(image) if not image.fault else image.fault
        return None if isinstance(pixels, str) else make_thumbnail(pixels)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # as decoding does, which Python cannot do for one thread alone
        with closing(in_order(thumbnail, images, num_threads=num_cores())) as jpegs:
            for done, jpeg in enumerate(jpegs, 1):
                if on_progress is not None:
                    on_progress("thumbnails", done, len(items))
                yield jpeg


def _packed(content: bytes) -> str:
    return base64.b64encode(gzip.compress(content, 6, mtime=0)).decode()


def _script_json(value: Any) -> str:
    """JSON that may stand in a script of a page: no tag ends it."""
    return json.dumps(value, ensure_ascii=True, allow_nan=False).replace("<", "\\u003c")


def _source(name: str) -> str:
    return files("likewise.exporting").joinpath("browser_page", name).read_text(encoding="utf-8")
