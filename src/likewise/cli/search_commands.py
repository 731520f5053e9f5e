"""Commands that put a model to work on a collection of images: index, search."""

from pathlib import Path
from typing import Annotated

import typer
from typer.core import TyperGroup

from likewise.cli.faults import GOES_ON, faults_in_words
from likewise.cli.streams import work_first

DEFAULT = "build"


class IndexGroup(TyperGroup):
    """`likewise index MODEL IMAGES...` is `likewise index build MODEL IMAGES...`: what is no command is a model, and ./add a folder."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        is_command = not args or args[0] in self.commands or args[0] in ctx.help_option_names
        return super().parse_args(ctx, args if is_command else [DEFAULT, *args])


index_commands = typer.Typer(
    cls=IndexGroup,
    no_args_is_help=True,
    help="Make an index of images to search in: likewise index MODEL IMAGES... --out INDEX. Or add to one, remove, show what is in it.",
    context_settings={"help_option_names": ["-h", "--help"]},
)

Index = Annotated[Path, typer.Argument(metavar="INDEX", help="The folder of an index.")]
Images = Annotated[
    list[str],
    typer.Argument(metavar="IMAGES", help="Files, folders with or without class folders, tables (.csv, .parquet), lists (.txt)."),
]
Where = Annotated[
    list[str], typer.Option("--where", metavar="CONDITION", help="Only images with label=gull, year>=2010, place~harbour; all must hold.")
]
Device = Annotated[str, typer.Option(help="cpu, cuda, or auto: cuda where there is one.")]
Ray = Annotated[str | None, typer.Option(help="Embed on Ray: local, or a cluster's address.")]
Json = Annotated[bool, typer.Option("--json", help="Machine-readable to stdout, and nothing else.")]


@index_commands.command(DEFAULT)
def build(
    model: Annotated[
        str, typer.Argument(help="A run, a comparison (its best), a saved embedder, or a name that `likewise weights` lists.")
    ],
    images: Images,
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder of the index; one that is there is gone on with.")],
    store: Annotated[str, typer.Option(help="Where vectors are kept: exact, faiss or postgresql.")] = "exact",
    store_option: Annotated[list[str], typer.Option(metavar="NAME=VALUE", help="A setting of the store, such as rows=int8.")] = [],  # noqa: B006
    device: Device = "auto",
    ray: Ray = None,
    as_json: Json = False,
) -> None:
    """Make an index of IMAGES under the vectors of MODEL; a killed one goes on where it was. `likewise index MODEL ...` does the same."""
    with faults_in_words(GOES_ON), work_first(unless=as_json):
        from likewise.terminal.commands.index_command import run_index

        run_index(model, images, out, store=store, store_options=store_option, device=device, ray=ray, as_json=as_json)


@index_commands.command()
def add(
    index: Index,
    images: Images,
    prune: Annotated[bool, typer.Option("--prune", help="Also remove images whose files are gone.")] = False,
    device: Device = "auto",
    ray: Ray = None,
    as_json: Json = False,
) -> None:
    """Add IMAGES to INDEX: new ones and changed ones are embedded, the others left alone."""
    with faults_in_words(GOES_ON), work_first(unless=as_json):
        from likewise.terminal.commands.index_command import run_index_add

        run_index_add(index, images, prune=prune, device=device, ray=ray, as_json=as_json)


@index_commands.command()
def remove(
    index: Index,
    paths: Annotated[list[str], typer.Argument(metavar="PATHS", help="Images, or folders: all below.")] = [],  # noqa: B006
    where: Where = [],  # noqa: B006
    as_json: Json = False,
) -> None:
    """Remove images from INDEX, not from the disk."""
    with faults_in_words(), work_first(unless=as_json):
        from likewise.terminal.commands.index_command import run_index_remove

        run_index_remove(index, paths, where, as_json=as_json)


@index_commands.command()
def show(index: Index, as_json: Json = False) -> None:
    """Say what is in INDEX: images, columns, the model and what its similarities mean."""
    with faults_in_words():
        from likewise.terminal.commands.index_command import run_index_show

        run_index_show(index, as_json=as_json)


def search(
    index: Index,
    queries: Annotated[list[str], typer.Argument(metavar="QUERY", help="Image files, or folders of them.")],
    k: Annotated[int, typer.Option("-k", help="How many to find for each.")] = 10,
    where: Where = [],  # noqa: B006
    html: Annotated[Path | None, typer.Option(help="Also write a page with the pictures.")] = None,
    as_json: Json = False,
    device: Device = "auto",
) -> None:
    """Find the images of INDEX that are most like each QUERY."""
    with faults_in_words():
        from likewise.terminal.commands.search_command import run_search

        run_search(index, queries, k=k, where=where, html=html, as_json=as_json, device=device)
