"""What was found as one page that needs nothing but itself: each query beside the images that are most like it."""

from __future__ import annotations

import base64
import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from likewise.data.packing.decode import Undecodable, image_bytes
from likewise.data.packing.thumbnails import fitting_jpeg
from likewise.reports.markup import Markup, join, tag
from likewise.reports.page import framed
from likewise.search.hits import Hit, Hits
from likewise.search.likeness import NOT_CALIBRATED, PERHAPS, PROBABLY, UNKNOWN, UNLIKELY, VERY_LIKELY
from likewise.wording import count_of

SIDE = 240  # pixels of a picture, at the most; shown at half of that, which sharp screens have twice as many of
STYLE = """
.found { display: grid; grid-template-columns: 15rem minmax(0, 1fr); gap: 1.2rem 1.6rem; padding-top: 1.6rem; }
.found + .found { border-top: 1px solid var(--rule); margin-top: 1.6rem; }
.found ol {
  list-style: none; margin: 0; padding: 0; display: grid; gap: .8rem; grid-template-columns: repeat(auto-fill, minmax(9.6rem, 1fr));
}
.found figure { padding: .5rem; height: 100%; }
.found .shown { display: grid; place-items: center; height: 7.6rem; overflow: hidden; border-radius: 4px; background: var(--raised); }
.found .asked { height: auto; align-self: start; }
.found .asked .shown { height: auto; min-height: 7.6rem; }
.found img { max-width: 100%; max-height: 7.6rem; border-radius: 4px; }
.found .asked img { max-height: 15rem; }
.found .gone { font-size: .84rem; color: var(--faint); padding: .5rem; text-align: center; }
.found figcaption { font-weight: 400; font-size: .84rem; line-height: 1.35; margin: .45rem 0 0; overflow-wrap: anywhere; }
.found figcaption b { font-variant-numeric: tabular-nums; }
.found figcaption > * { display: block; }
.found .name { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.found .said::before { content: ""; display: inline-block; width: .62em; height: .62em; border-radius: 50%; margin-right: .4em; }
.found .unknown { color: var(--miss); margin-top: .4rem; }
.found .said.very::before { background: var(--hit); }
.found .said.probably::before { background: color-mix(in srgb, var(--hit) 55%, var(--surface)); }
.found .said.perhaps::before { background: transparent; box-shadow: inset 0 0 0 2px var(--hit); }
.found .said.unlikely::before { background: transparent; box-shadow: inset 0 0 0 2px var(--miss); border-radius: 2px; }
@media (max-width: 46rem) {
  .found { grid-template-columns: minmax(0, 1fr); }
  .found ol { grid-template-columns: repeat(auto-fill, minmax(8.4rem, 1fr)); }
}
"""
SHADES = {VERY_LIKELY: "very", PROBABLY: "probably", PERHAPS: "perhaps", UNLIKELY: "unlikely"}


def search_page(title: str, queries: Sequence[tuple[str, Hits]], *, conditions: Sequence[str] = (), is_calibrated: bool) -> str:
    """queries: paths of images, each with what was found for it."""
    picture = cache(lambda path, what: shown_picture(path, f"{what}: {os.path.basename(path)}", SIDE))
    under = [count_of(len(queries), "query", "queries"), *(f"only {condition}" for condition in conditions)]
    header = tag(
        "header",
        {},
        tag("h1", {}, title),
        tag("p", {"class": "under"}, ", ".join(under), "." if is_calibrated else f"; {NOT_CALIBRATED}."),
    )
    sections = [
        tag(
            "section",
            {"class": "found"},
            tag(
                "figure",
                {"class": "asked"},
                picture(path, "query"),
                tag("figcaption", {}, tag("b", {}, "query"), _name(path), _unknown(hits)),
            ),
            tag("ol", {}, *(tag("li", {}, _card(place, hit, picture(hit.path, f"hit {place}"))) for place, hit in enumerate(hits, start=1)))
            if hits
            else tag("p", {}, "No image fulfils the conditions."),
        )
        for path, hits in queries
    ]
    footer = tag("footer", {}, "Made by likewise. This file needs no network: keep it, mail it, open it anywhere.")
    return framed(title, join([header, tag("main", {}, *sections), footer]), Markup(""), sprites=STYLE)


def _card(place: int, hit: Hit, picture: Markup) -> Markup:
    said = () if hit.words is None else (tag("span", {"class": f"said {SHADES[hit.words]}"}, hit.words),)
    label = () if hit.label is None else (tag("span", {"class": "label"}, hit.label),)
    facts = [tag("small", {}, f"{name}: {value}") for name, value in hit.metadata.items() if value is not None]
    return tag("figure", {}, picture, tag("figcaption", {}, tag("b", {}, f"{hit.similarity:.3f}"), *said, *label, _name(hit.path), *facts))


def _unknown(hits: Hits) -> Markup:
    return tag("span", {"class": "unknown"}, UNKNOWN) if hits.is_known is False else Markup("")


def _name(path: str) -> Markup:
    return tag("small", {"class": "name", "title": path}, os.path.basename(path))


def shown_picture(path: str, alt: str, side: int) -> Markup:
    """The image in a box, or why there is none."""
    try:
        content = fitting_jpeg(image_bytes(Path(path)), side)
    except FileNotFoundError:
        return tag("div", {"class": "shown"}, tag("span", {"class": "gone"}, "the file is gone"))
    except (Undecodable, OSError) as fault:
        return tag("div", {"class": "shown"}, tag("span", {"class": "gone"}, f"cannot be shown: {fault}"))
    source = f"data:image/jpeg;base64,{base64.b64encode(content).decode()}"
    image = tag("img", {"src": source, "alt": alt}).removesuffix("</img>")
    return tag("div", {"class": "shown"}, Markup(image))
