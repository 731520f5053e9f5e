"""The command `likewise`. Commands are thin: they parse, call one function, and print; what is heavy is imported inside."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    name="likewise",
    help="Deep metric learning: learn embeddings in which like things lie close, and find out fairly which method does that best.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class MetricName(StrEnum):
    cosine = "cosine"
    euclidean = "euclidean"
    hamming = "hamming"


class EqualWhat(StrEnum):
    steps = "steps"
    time = "time"


class Tuned(StrEnum):
    rate = "rate"
    all_ = "all"


class IntervalUnit(StrEnum):
    class_ = "class"
    query = "query"
    none = "none"


class TrainsOn(StrEnum):
    held_out = "held-out"
    all_train = "all-train"


class PartOption(StrEnum):
    all = "all"
    test = "test"
    train = "train"


def main() -> None:
    """Entry point of the command."""
    app()


def _show_version(wanted: bool) -> None:
    if wanted:
        import likewise

        typer.echo(f"likewise {likewise.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")] = False,
) -> None:
    pass


@app.command()
def train(
    method: Annotated[str, typer.Argument(help="A name that `likewise methods` lists, or a .toml file.")],
    data: Annotated[str, typer.Argument(help="A folder of class folders, a table, a data set such as cub:/path, glyphs, vectors.npz.")],
    out: Annotated[Path, typer.Option(help="The run's folder.")],
    protocol: Annotated[str | None, typer.Option(help="The conditions: see `likewise protocols`. Else what suits DATA.")] = None,
    weights: Annotated[str | None, typer.Option(help="Pretrained weights: a name of `likewise weights`, or a file.")] = None,
    changes: Annotated[list[str] | None, typer.Option("--set", help="key=value of method or protocol, such as loss.margin=0.3.")] = None,
    split: Annotated[
        TrainsOn, typer.Option(help="all-train: every class trains, for use at work, and there is no score.")
    ] = TrainsOn.held_out,
    seed: Annotated[int, typer.Option(min=0, help="Of initial weights, batches and augmentation.")] = 0,
    batch: Annotated[int | None, typer.Option(min=2, help="Images a step, instead of the protocol's.")] = None,
    micro_batch: Annotated[int | None, typer.Option(min=1, help="Images in memory at a time; the gradient stays the batch's.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
    checkpoint_every: Annotated[int | None, typer.Option(min=1, help="Steps between checkpoints, instead of a minute.")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, or auto: cuda where there is one.")] = "auto",
) -> None:
    """Train METHOD on the training classes of DATA and score it, once, on the test classes."""
    with _faults_in_words(), _stops_in_words():
        from likewise.terminal.progress_bar import progress_bar
        from likewise.terminal.training_progress import TrainingProgress
        from likewise.training.train import train as run_training

        settings = _settings(changes or []) | ({} if batch is None else {"batch": batch})
        with progress_bar() as on_progress:
            result = run_training(
                method,
                data,
                protocol=protocol,
                out=out,
                weights=weights,
                settings=settings,
                split=split.value,
                seed=seed,
                micro_batch=micro_batch,
                resume=resume,
                checkpoint_every=checkpoint_every,
                device=device,
                listener=TrainingProgress(),
                on_progress=on_progress,
            )
    if os.environ.get("RANK", "0") != "0":  # torchrun: one rank tells
        return
    from rich.console import Console

    from likewise.terminal.run_view import result_view

    Console().print(result_view(result))


@app.command()
def adapt(
    data: Annotated[str, typer.Argument(help="A folder of class folders, a table, a data set such as cub:/path, or vectors.npz.")],
    out: Annotated[Path, typer.Option(help="The folder for the embedder; one that is there goes on.")],
    minutes: Annotated[float, typer.Option(min=0, help="What would take longer is not tried.")] = 10.0,
    weights: Annotated[str | None, typer.Option(help="Pretrained weights: see `likewise weights`.")] = None,
    method: Annotated[str, typer.Option(help="Whose loss trains: see `likewise methods`.")] = "raw_vthm",
    split: Annotated[
        TrainsOn, typer.Option(help="all-train: every class trains, for use at work, and there is no score.")
    ] = TrainsOn.held_out,
    device: Annotated[str, typer.Option(help="cpu, cuda, or auto: cuda where there is one.")] = "auto",
) -> None:
    """Get the best embedder for DATA from pretrained features, as far up as it pays: whitening, a head, fine-tuning."""
    try:
        with _faults_in_words():
            from likewise.terminal.adapt_command import run_adapt

            run_adapt(data, out=out, minutes=minutes, weights=weights, method=method, split=split.value, device=device)
    except KeyboardInterrupt:
        typer.echo("interrupted: what was finished is kept, the same command goes on from there", err=True)
        raise typer.Exit(130) from None


@app.command()
def compare(
    data: Annotated[
        list[str] | None, typer.Argument(help="Folders, tables, data sets such as cub:/path, vectors.npz; glyphs if none.")
    ] = None,
    methods: Annotated[str | None, typer.Option(help="Names or .toml files with commas between, papers, or all; +NAME adds.")] = None,
    protocol: Annotated[str | None, typer.Option(help="What is equal for all: see `likewise protocols`. Else what suits DATA.")] = None,
    equal: Annotated[EqualWhat | None, typer.Option(help="What every method has as much of: training steps, or time.")] = None,
    tune: Annotated[Tuned | None, typer.Option(help="What tuning tries: the rate alone, or all settings of a method.")] = None,
    trials: Annotated[int | None, typer.Option(min=0, help="Sets of values that tuning tries for each method; 0: no tuning.")] = None,
    folds: Annotated[int | None, typer.Option(min=1, help="Folds of the training classes, for tuning; 1: half of them, once.")] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Final trainings of each method; more than there are add to it.")] = None,
    sweep: Annotated[list[str] | None, typer.Option(help="dim=64,128,256 or batch=32,64: the final trainings with each.")] = None,
    changes: Annotated[list[str] | None, typer.Option("--set", help="key=value of the protocol, such as steps=400.")] = None,
    weights: Annotated[str | None, typer.Option(help="Pretrained weights: a name of `likewise weights`, or a file.")] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Trainings at once; else one a core, or one on a GPU.")] = None,
    out: Annotated[Path | None, typer.Option(help="The comparison's folder; one that is there goes on. Else runs/compare-...")] = None,
    store: Annotated[str | None, typer.Option(help="A database for the results: postgresql+psycopg://... Else a file in --out.")] = None,
    ray: Annotated[str | None, typer.Option(help="Run on Ray: local, or a cluster's address.")] = None,
    gpu_share: Annotated[float, typer.Option(help="With --ray: the part of a GPU that a training takes.")] = 1.0,
    device: Annotated[str, typer.Option(help="cpu, cuda, or auto: cuda where there is one.")] = "auto",
    indifferent: Annotated[
        float | None, typer.Option(metavar="POINTS", help="Points of the score that would not matter, such as 1.0.")
    ] = None,
    keep_networks: Annotated[bool, typer.Option("--keep-networks", help="Keep every trained network, not the best alone.")] = False,
    profile: Annotated[bool, typer.Option("--profile", help="Show where the time went.")] = False,
    status: Annotated[Path | None, typer.Option(help="Only show how far the comparison in this folder is.")] = None,
) -> None:
    """Find out which method is best on DATA: equal conditions, equal tuning, test classes seen once, and what is noise."""
    try:
        with _faults_in_words():
            if status is not None:
                from rich.console import Console

                from likewise.terminal.comparison_progress import status_view

                Console().print(status_view(status, store=store))
                return
            from likewise.comparison.request import Request
            from likewise.terminal.comparison_command import named_methods, run_compare, swept_values

            request = Request(
                methods=named_methods(methods),
                data=data or Request.data,
                protocol=protocol,
                settings=_settings(changes or []),
                equal=None if equal is None else equal.value,
                tune=None if tune is None else tune.value,
                trials=trials,
                folds=folds,
                seeds=seeds,
                sweeps=swept_values(sweep or []),
                weights=weights,
                jobs=jobs,
                out=out,
                store=store,
                ray=ray,
                gpu_share=gpu_share,
                device=device,
                indifferent=indifferent,
                keep_networks=keep_networks,
            )
            run_compare(request, profile=profile)
    except KeyboardInterrupt:
        typer.echo("interrupted: what was finished is kept, the same command goes on from there", err=True)
        raise typer.Exit(130) from None


@app.command()
def embed(
    run: Annotated[Path, typer.Argument(help="A run's folder, a saved embedder, or a name that `likewise weights` lists.")],
    data: Annotated[
        list[str], typer.Argument(help="Images, with classes or without: files, folders, lists of paths (.txt, .csv), data sets.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write: .npz or .parquet.")],
    levels: Annotated[str | None, typer.Option(help="Only these levels of a multilevel embedding, such as low,high.")] = None,
    mirror: Annotated[bool, typer.Option("--mirror", help="Average an image and its mirror image.")] = False,
    device: Annotated[str, typer.Option(help="cpu, cuda, or auto: cuda where there is one.")] = "auto",
) -> None:
    """Embed every item of DATA with the network of RUN. Folders are classes; images:FOLDER reads them without."""
    with _faults_in_words():
        from likewise.terminal.embedding_commands import run_embed

        run_embed(run, data, out, levels=levels, mirror=mirror, device=device)


@app.command()
def evaluate(
    file: Annotated[Path, typer.Argument(help="A run's folder; or a .npz (embeddings, labels), .npy with --labels, or .parquet.")],
    data: Annotated[str | None, typer.Argument(help="With a run: what to score it on. Without: the scores it ended with.")] = None,
    split: Annotated[PartOption | None, typer.Option(help="Which items: test where it is known which these are, else all.")] = None,
    labels: Annotated[Path | None, typer.Option(help="Labels of a .npy file: .npy, or text with one label a line.")] = None,
    ks: Annotated[str, typer.Option(help="The K of R@K.")] = "1,2,4,8",
    metrics: Annotated[str, typer.Option(help="Scores: R@K, RP, MAP@R, mAP, NMI, NMI_geometric, AMI.")] = "R@K,RP,MAP@R,mAP,NMI,AMI",
    metric: Annotated[MetricName, typer.Option(help="How items are compared; hamming for packed bits.")] = MetricName.cosine,
    intervals: Annotated[IntervalUnit, typer.Option(help="What the 95 % intervals are over.")] = IntervalUnit.class_,
    seed: Annotated[int, typer.Option(min=0, help="Seed of k-means.")] = 0,
    rerank: Annotated[str | None, typer.Option(help="Also after re-ranking: alpha_qe, database_augmentation, k_reciprocal:k1=30.")] = None,
    diagnose: Annotated[bool, typer.Option("--diagnose", help="Also distances, spectrum, hubs, failing classes and queries.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable to stdout, and nothing else.")] = False,
    embedding_name: Annotated[str | None, typer.Option(help="Array or column of the embeddings.")] = None,
    label_name: Annotated[str | None, typer.Option(help="Array or column of the labels.")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, or auto: cuda where there is one.")] = "auto",
) -> None:
    """Score the embeddings in FILE, or those that a RUN makes of DATA: retrieval and clustering, with 95 % intervals."""
    with _faults_in_words():
        from likewise.terminal.embedding_commands import run_evaluate

        run_evaluate(
            file,
            data,
            part=None if split is None else split.value,
            labels=labels,
            ks=ks,
            metrics=metrics,
            metric=metric.value,
            intervals=intervals.value,
            seed=seed,
            rerank=rerank,
            diagnose=diagnose,
            as_json=as_json,
            embedding_name=embedding_name,
            label_name=label_name,
            device=device,
        )


@app.command()
def calibrate(
    model: Annotated[str, typer.Argument(help="A run's folder, a saved embedder, or a name that `likewise weights` lists.")],
    data: Annotated[
        str, typer.Argument(help="Items of classes that MODEL was not trained on: a folder, a table, a data set, vectors.npz.")
    ],
    false_accepts: Annotated[float, typer.Option(help="The share of pairs of different classes that may pass for one.")] = 0.01,
    confidence: Annotated[float, typer.Option(help="How sure the promise is to be.")] = 0.95,
    out: Annotated[Path | None, typer.Option(help="With the name of weights: the folder for the embedder.")] = None,
    page: Annotated[Path | None, typer.Option(help="Where the page with the curves goes; else calibration.html beside the model.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable to stdout, and nothing else.")] = False,
    device: Annotated[str, typer.Option(help="cpu, cuda, or auto: cuda where there is one.")] = "auto",
) -> None:
    """Find out what the similarities of MODEL mean: thresholds with a bound for classes never seen, and probabilities."""
    with _faults_in_words():
        from likewise.terminal.calibrate_command import run_calibrate

        run_calibrate(model, data, false_accepts=false_accepts, confidence=confidence, out=out, page=page, as_json=as_json, device=device)


@app.command()
def doctor(
    data: Annotated[str, typer.Argument(help="A folder of class folders, a table, a data set such as cub:/path, or glyphs.")],
    out: Annotated[Path | None, typer.Option(help="Write report.json and contact_sheet.png into this folder.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable to stdout, and nothing else.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 if there are problems.")] = False,
    contact_sheet: Annotated[Path | None, typer.Option(help="Write the contact sheet to this .png.")] = None,
) -> None:
    """Look at every image of DATA: broken files, duplicates within and across train and test, class sizes."""
    try:
        with _faults_in_words():
            from likewise.terminal.doctor_command import run_doctor

            report = run_doctor(data, out=out, as_json=as_json, sheet=contact_sheet)
    except KeyboardInterrupt:
        typer.echo("interrupted", err=True)
        raise typer.Exit(130) from None
    if strict and report.problems:
        raise typer.Exit(1)


@app.command()
def ledger(
    data: Annotated[str | None, typer.Argument(help="Only looks at the test classes of this folder, table or data set.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable to stdout, and nothing else.")] = False,
) -> None:
    """Show every look at test classes that compare, train, adapt, evaluate and Python took."""
    with _faults_in_words():
        from likewise.terminal.ledger_command import run_ledger

        run_ledger(data, as_json=as_json)


@app.command()
def methods(
    as_json: Annotated[bool, typer.Option("--json", help="All settings, machine-readable to stdout.")] = False,
) -> None:
    """List the methods: what is compared."""
    from likewise.terminal.catalogue import methods_view, settings_of_methods

    _print_listing(settings_of_methods() if as_json else methods_view())


@app.command()
def protocols(
    as_json: Annotated[bool, typer.Option("--json", help="All conditions, machine-readable to stdout.")] = False,
) -> None:
    """List the protocols: what is equal for every method."""
    from likewise.terminal.catalogue import protocols_view, settings_of_protocols

    _print_listing(settings_of_protocols() if as_json else protocols_view())


weights_commands = typer.Typer(help="List pretrained weights and whether they are here, or get them.")
app.add_typer(weights_commands, name="weights")


@weights_commands.callback(invoke_without_command=True)
def weights(
    context: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable to stdout, and nothing else.")] = False,
) -> None:
    if context.invoked_subcommand is None:
        with _faults_in_words():
            from likewise.terminal.weights_command import run_weights

            run_weights(as_json=as_json)


@weights_commands.command()
def get(
    name: Annotated[str, typer.Argument(help="A name that `likewise weights` lists, timm:NAME, or hf:OWNER/REPO[/FILE].")],
) -> None:
    """Fetch the weights NAME, or go on with what was broken off."""
    try:
        with _faults_in_words():
            from likewise.terminal.weights_command import run_weights_get

            run_weights_get(name)
    except KeyboardInterrupt:
        typer.echo("interrupted: what came is kept, the same command goes on from there", err=True)
        raise typer.Exit(130) from None


def _print_listing(listing: object) -> None:
    """Settings as JSON, a table as the terminal shows it."""
    if isinstance(listing, dict):
        import json

        typer.echo(json.dumps(listing, indent=2, allow_nan=False))
        return
    from rich.console import Console

    Console().print(listing)


@contextmanager
def _faults_in_words() -> Iterator[None]:
    """A fault of the user's (ValueError, OSError) as one message on stderr and exit code 2, without a traceback."""
    try:
        yield
    except (ValueError, OSError) as fault:
        typer.secho("error: ", fg=typer.colors.RED, bold=True, nl=False, err=True)
        typer.echo(str(fault), err=True)
        raise typer.Exit(2) from fault


@contextmanager
def _stops_in_words() -> Iterator[None]:
    """Ctrl-C, SIGTERM and a training that diverged, in words and with an exit code."""
    from likewise.training.train import TrainingStopped

    try:
        yield
    except TrainingStopped as stop:
        typer.echo(str(stop), err=True)
        raise typer.Exit(130) from None
    except KeyboardInterrupt:
        typer.echo("interrupted; the same command with --resume goes on from the last checkpoint", err=True)
        raise typer.Exit(130) from None


def _settings(changes: list[str]) -> dict[str, object]:
    """{"loss.margin": 0.3} of ["loss.margin=0.3"]."""
    from likewise.configuration import value_of

    settings = {}
    for change in changes:
        name, equals, value = change.partition("=")
        if not equals or not name.strip():
            raise ValueError(f"--set {change!r}: expected key=value, such as loss.margin=0.3")
        settings[name.strip()] = value_of(value.strip())
    return settings
