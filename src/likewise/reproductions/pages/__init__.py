"""Pages of papers: each table and figure beside ours, and what became of the claims, as HTML and as Markdown."""

from __future__ import annotations

from pathlib import Path

from likewise.files import write_whole
from likewise.reports.drawing import drawing, save_figure
from likewise.reproductions.pages.paper_charts import Picture, pictures
from likewise.reproductions.pages.paper_html import paper_page
from likewise.reproductions.pages.paper_markdown import paper_markdown, summary_markdown
from likewise.reproductions.paper_item import PAPERS
from likewise.reproductions.reproduction import Reproduction

PREFACE = "preface.md"  # beside the summary: it is read, and never written


def write_pages(reproduction: Reproduction, folder: Path) -> list[Path]:
    """folder/PAPER.html, one a paper that any of the items is of."""
    written = []
    for paper in _papers(reproduction):
        written.append(folder / f"{paper}.html")
        write_whole(written[-1], paper_page(reproduction, paper).encode())
    return written


def write_markdown(reproduction: Reproduction, folder: Path) -> list[Path]:
    """folder/README.md with all claims, folder/PAPER.md one a paper, and their figures in folder/images.

    What somebody wrote of them into folder/preface.md stands on top of the README.
    """
    images: dict[str, list[tuple[Picture, str]]] = {}
    (folder / "images").mkdir(parents=True, exist_ok=True)
    for result in reproduction.items:
        for picture in pictures(result):
            name = f"{result.item.name.replace('/', '-')}-{picture.name.replace(' ', '-')}"
            with drawing():
                save_figure(picture.make(), folder / "images" / name, svg=False)
            images.setdefault(result.item.name, []).append((picture, f"images/{name}.png"))
    pages = {f"{paper}.md": paper_markdown(reproduction, paper, images) for paper in _papers(reproduction)}
    preface = folder / PREFACE
    pages["README.md"] = summary_markdown(reproduction, preface.read_text(encoding="utf-8") if preface.is_file() else "")
    for name, text in pages.items():
        write_whole(folder / name, text.encode())
    return [folder / name for name in pages]


def _papers(reproduction: Reproduction) -> list[str]:
    return [paper for paper in PAPERS if any(result.item.paper == paper for result in reproduction.items)]
