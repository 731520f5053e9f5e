"""Contact sheets: copies and groups of images as one page that needs nothing but itself, as many as a page can bear."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from likewise.progress import ProgressCallback
from likewise.reports.markup import Markup, join, tag
from likewise.reports.page import framed
from likewise.search.grouping.image_groups import ImageGroup, ImageGroups
from likewise.search.grouping.near_copies import Copies, CopyGroup, GroupedImage
from likewise.search.search_page import shown_picture
from likewise.wording import count_of, listed

SIDE = 168  # pixels of a picture, at the most; shown at three quarters of that
MOST_IMAGES = 16  # of a group
FEW_IMAGES = 2  # of a group that stands beside another one
MOST_LABELS = 4  # named of a group
STYLE = """
.sheets { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 19rem), 1fr)); gap: 0 1.6rem; }
.sheet { padding-top: 1.5rem; display: flex; flex-direction: column; }
.sheet.many { grid-column: 1 / -1; }
.sheet h2 { font-size: 1rem; margin-bottom: .15rem; }
.sheet > p { margin-bottom: .3rem; color: var(--faint); font-size: .9rem; }
.sheet .alarm { color: var(--miss); font-weight: 600; }
.sheet ol { list-style: none; margin: auto 0 0; padding: .3rem 0 0; display: grid; gap: .6rem; }
.sheet ol { grid-template-columns: repeat(auto-fill, minmax(8.2rem, 1fr)); }
.sheet figure { padding: .4rem; height: 100%; }
.sheet .shown { display: grid; place-items: center; height: 7.8rem; border-radius: 4px; background: var(--raised); }
.sheet img { max-width: 100%; max-height: 7.8rem; border-radius: 4px; display: block; }
.sheet .gone { font-size: .84rem; color: var(--faint); padding: .5rem; text-align: center; }
.sheet figcaption { font-weight: 400; font-size: .8rem; line-height: 1.35; margin: .35rem 0 0; }
.sheet figcaption > * { display: block; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; font-size: inherit; }
@media (max-width: 46rem) { .sheet ol { grid-template-columns: repeat(auto-fill, minmax(6.8rem, 1fr)); gap: .4rem; } }
"""


@dataclass(frozen=True)
class _Sheet:
    """A group as the page shows it."""

    title: str
    under: str
    alarm: str
    images: Sequence[GroupedImage]
    similarity_to: str  # what an image's similarity is to


def copies_page(title: str, copies: Copies, *, most: int, on_progress: ProgressCallback | None = None) -> str:
    """most: groups on the page."""
    return _page(title, [*copies_in_words(copies), *copies.notes], [_of_copies(group) for group in copies.groups], most, on_progress)


def groups_page(title: str, groups: ImageGroups, *, most: int, on_progress: ProgressCallback | None = None) -> str:
    """most: groups on the page."""
    sheets = [_of_group(number, group) for number, group in enumerate(groups.groups, 1)]
    return _page(title, [*groups_in_words(groups), *groups.notes], sheets, most, on_progress)


def copies_in_words(copies: Copies) -> list[str]:
    """What was found, in sentences without their ends."""
    if not copies.groups:
        return [f"there are no copies among {count_of(copies.num_images, 'image', 'images')}"]
    kinds = [count_of(sum(group.kind == kind for group in copies.groups), *names) for kind, names in KIND_NAMES.items()]
    words = [
        f"{count_of(len(copies.groups), 'group', 'groups')} of copies among {copies.num_images:,} images: {listed(kinds)}; "
        f"{count_of(copies.num_spare, 'image', 'images')} could go"
    ]
    across = sum(group.is_across_classes for group in copies.groups)
    if across:
        words.append(f"in {count_of(across, 'group', 'groups')} copies lie in different classes: at most one of these labels is right")
    return words


KIND_NAMES = {"file": ("is one file", "are one file"), "near": ("is nearly one picture", "are nearly one picture")}


def groups_in_words(groups: ImageGroups) -> list[str]:
    """What was found, in sentences without their ends."""
    words = [f"{count_of(groups.num_images, 'image', 'images')} in {count_of(len(groups.groups), 'group', 'groups')}"]
    if groups.num_single:
        words[0] += f", {groups.num_single:,} of them a single image"
    if groups.scores:
        words.append(f"against the classes: {', '.join(f'{name} {value:.3f}' for name, value in groups.scores.items())}")
    return words


def _of_copies(group: CopyGroup) -> _Sheet:
    kind = "the same file" if group.kind == "file" else f"nearly the same picture, tied by {group.similarity:.3f} and above"
    alarm = f"in different classes: {_named(group.labels)}" if group.is_across_classes else ""
    return _Sheet(f"{len(group.images):,} images: {kind}", "", alarm, group.images, "its nearest")


def _of_group(number: int, group: ImageGroup) -> _Sheet:
    parts = [f"mean similarity {group.similarity:.3f}"] if len(group.images) > 1 else []
    if group.labels:
        parts.append(_named([f"{label} ({count:,})" for label, count in group.labels.items()]))
    return _Sheet(f"Group {number:,}: {count_of(len(group.images), 'image', 'images')}", "; ".join(parts), "", group.images, "its middle")


def _named(labels: Sequence[str]) -> str:
    shown = list(labels[:MOST_LABELS])
    return listed([*shown, f"{len(labels) - len(shown):,} more"] if len(labels) > len(shown) else shown)


def _page(title: str, words: Sequence[str], sheets: Sequence[_Sheet], most: int, on_progress: ProgressCallback | None) -> str:
    headline, *rest = [f"{sentence[:1].upper()}{sentence[1:]}." for sentence in words]
    shown = sheets[:most]
    if len(shown) < len(sheets) or any(len(sheet.images) > MOST_IMAGES for sheet in shown):
        of_all = f"The first {len(shown):,} of {len(sheets):,} groups" if len(shown) < len(sheets) else f"All {len(sheets):,} groups"
        rest.append(f"{of_all} are shown, and of each at most {MOST_IMAGES} images; what the command gives as JSON names all.")
    drawn = []
    for number, sheet in enumerate(shown, 1):
        drawn.append(_drawn(sheet))
        if on_progress is not None:
            on_progress("drawing", number, len(shown))
    under = [tag("p", {"class": "under"}, sentence) for sentence in rest]
    body = [
        tag("header", {}, tag("h1", {}, title), tag("p", {"class": "headline"}, headline), *under),
        tag("main", {"class": "sheets"}, *drawn),
        tag("footer", {}, "Made by likewise. This file needs no network: keep it, mail it, open it anywhere."),
    ]
    return framed(title, join(body), Markup(""), sprites=STYLE)


def _drawn(sheet: _Sheet) -> Markup:
    images = sheet.images[:MOST_IMAGES]
    title = sheet.title + (f", {len(images)} of them shown" if len(images) < len(sheet.images) else "")
    lines = [tag("p", {}, sheet.under)] if sheet.under else []
    lines += [tag("p", {"class": "alarm"}, sheet.alarm)] if sheet.alarm else []
    cards = tag("ol", {}, *(_card(image, sheet) for image in images))
    return tag("section", {"class": "sheet" if len(images) <= FEW_IMAGES else "sheet many"}, tag("h2", {}, title), *lines, cards)


def _card(image: GroupedImage, sheet: _Sheet) -> Markup:
    label = () if image.label is None else (tag("span", {"title": image.label}, image.label),)
    name = tag("small", {"title": image.path}, os.path.basename(image.path))
    similarity = tag("small", {"title": f"similarity to {sheet.similarity_to}"}, f"{image.similarity:.3f}")
    return tag(
        "li",
        {},
        tag("figure", {}, shown_picture(image.path, os.path.basename(image.path), SIDE), tag("figcaption", {}, *label, name, similarity)),
    )
