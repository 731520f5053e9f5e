"""Commands that find what is alike within an index: duplicates, cluster."""

from pathlib import Path
from typing import Annotated

import typer

from likewise.cli.faults import faults_in_words
from likewise.cli.search_commands import Device, Index, Json, Where

Page = Annotated[Path | None, typer.Option(help="Also write a page of contact sheets.")]
Most = Annotated[int, typer.Option(min=1, help="How many groups the page shows.")]


def duplicates(
    index: Index,
    similarity: Annotated[
        float | None,
        typer.Option(help="From which similarity on two images are copies; else what lightly changed copies reach, measured."),
    ] = None,
    where: Where = [],  # noqa: B006
    html: Page = None,
    show: Most = 100,
    as_json: Json = False,
    device: Device = "auto",
) -> None:
    """Find copies in INDEX: the same file, or nearly the same picture. Says where copies lie in different classes."""
    with faults_in_words():
        from likewise.terminal.commands.grouping_commands import run_duplicates

        run_duplicates(index, similarity=similarity, where=where, html=html, show=show, as_json=as_json, device=device)


def cluster(
    index: Index,
    k: Annotated[int | None, typer.Option("--k", "-k", min=1, help="So many groups, by k-means.")] = None,
    similarity: Annotated[
        float | None,
        typer.Option(help="Else join groups while their images are this alike in the mean; unless given, the calibrated threshold."),
    ] = None,
    where: Where = [],  # noqa: B006
    seed: Annotated[int, typer.Option(min=0, help="Seed of k-means.")] = 0,
    html: Page = None,
    show: Most = 100,
    as_json: Json = False,
    device: Device = "auto",
) -> None:
    """Group the images of INDEX that are alike, by k-means or by linkage; scored against the classes where there are some."""
    with faults_in_words():
        from likewise.terminal.commands.grouping_commands import run_cluster

        run_cluster(index, k=k, similarity=similarity, where=where, seed=seed, html=html, show=show, as_json=as_json, device=device)
