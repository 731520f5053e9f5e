"""Commands that learn: train, adapt, compare."""

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from likewise.cli.faults import GOES_ON, TIME_IS_UP, faults_in_words, stops_in_words
from likewise.cli.streams import work_first


class EqualWhat(StrEnum):
    steps = "steps"
    time = "time"


class Tuned(StrEnum):
    rate = "rate"
    all_ = "all"
    grid = "grid"


class TrainsOn(StrEnum):
    held_out = "held-out"
    all_train = "all-train"


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
    with faults_in_words(), stops_in_words(out), work_first():
        from likewise.terminal.progress_bar import progress_bar
        from likewise.terminal.training_progress import TrainingProgress
        from likewise.training.train import train as run_training

        settings = settings_of(changes or []) | ({} if batch is None else {"batch": batch})
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
        from likewise.terminal.run_view import result_view
        from likewise.terminal.screen import Screen

        Screen().print(result_view(result))


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
    with faults_in_words(GOES_ON), work_first():
        from likewise.terminal.commands.adapt_command import run_adapt

        run_adapt(data, out=out, minutes=minutes, weights=weights, method=method, split=split.value, device=device)


def compare(
    data: Annotated[
        list[str] | None, typer.Argument(help="Folders, tables, data sets such as cub:/path, vectors.npz; glyphs if none.")
    ] = None,
    methods: Annotated[str | None, typer.Option(help="Names or .toml files with commas between, papers, or all; +NAME adds.")] = None,
    protocol: Annotated[str | None, typer.Option(help="What is equal for all: see `likewise protocols`. Else what suits DATA.")] = None,
    equal: Annotated[EqualWhat | None, typer.Option(help="What every method has as much of: training steps, or time.")] = None,
    tune: Annotated[Tuned | None, typer.Option(help="What tuning tries: the rate alone, all settings of a method, or its grid.")] = None,
    trials: Annotated[int | None, typer.Option(min=0, help="Sets of values that tuning tries for each method; 0: no tuning.")] = None,
    folds: Annotated[int | None, typer.Option(min=1, help="Folds of the training classes, for tuning; 1: half of them, once.")] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Final trainings of each method; more than there are add to it.")] = None,
    sweep: Annotated[
        list[str] | None, typer.Option(help="dim=64,128 or loss.alpha=1,1.2: the final trainings with each; 'A=1,2 x B=3,4': together.")
    ] = None,
    levels: Annotated[bool, typer.Option("--levels", help="Score each combination of a method's levels too.")] = False,
    changes: Annotated[list[str] | None, typer.Option("--set", help="key=value of the protocol, such as steps=400.")] = None,
    weights: Annotated[str | None, typer.Option(help="Pretrained weights: a name of `likewise weights`, or a file.")] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Trainings at once; else one a core, or one on a GPU.")] = None,
    out: Annotated[Path | None, typer.Option(help="The comparison's folder; one that is there goes on. Else runs/compare-...")] = None,
    store: Annotated[
        str | None, typer.Option(help="A database for the results: postgresql+psycopg://user@host/db; password: PGPASSWORD, ~/.pgpass.")
    ] = None,
    ray: Annotated[str | None, typer.Option(help="Run on Ray: local, or a cluster's address.")] = None,
    gpu_share: Annotated[float, typer.Option(help="With --ray: the part of a GPU that a training takes.")] = 1.0,
    device: Annotated[str, typer.Option(help="cpu, cuda, or auto: cuda where there is one.")] = "auto",
    indifferent: Annotated[
        float | None, typer.Option(metavar="POINTS", help="Points of the score that would not matter, such as 1.0.")
    ] = None,
    keep_networks: Annotated[bool, typer.Option("--keep-networks", help="Keep every trained network, not the best alone.")] = False,
    minutes: Annotated[float | None, typer.Option(min=0, help="Begin nothing new after these; the same command goes on.")] = None,
    profile: Annotated[bool, typer.Option("--profile", help="Show where the time went.")] = False,
    status: Annotated[Path | None, typer.Option(help="Only show how far the comparison in this folder is.")] = None,
) -> None:
    """Find out which method is best on DATA: equal conditions, equal tuning, test classes seen once, and what is noise."""
    with faults_in_words(GOES_ON):
        if status is not None:
            from likewise.terminal.comparison_progress import status_view
            from likewise.terminal.screen import Screen

            Screen().print(status_view(status, store=store))
            return
        from likewise.comparison.request import Request
        from likewise.terminal.commands.comparison_command import named_methods, run_compare, swept_values

        request = Request(
            methods=named_methods(methods),
            data=data or Request.data,
            protocol=protocol,
            settings=settings_of(changes or []),
            equal=None if equal is None else equal.value,
            tune=None if tune is None else tune.value,
            trials=trials,
            folds=folds,
            seeds=seeds,
            sweeps=swept_values(sweep or []),
            levels=levels,
            weights=weights,
            jobs=jobs,
            out=out,
            store=store,
            ray=ray,
            gpu_share=gpu_share,
            device=device,
            indifferent=indifferent,
            keep_networks=keep_networks,
            minutes=minutes,
        )
        with work_first():
            if not run_compare(request, profile=profile):
                raise typer.Exit(TIME_IS_UP)


def settings_of(changes: list[str]) -> dict[str, object]:
    """{"loss.margin": 0.3} of ["loss.margin=0.3"]."""
    from likewise.configuration import value_of
    from likewise.wording import quoted

    settings = {}
    for change in changes:
        name, equals, value = change.partition("=")
        if not equals or not name.strip():
            raise ValueError(f"--set {quoted(change)}: expected key=value, such as loss.margin=0.3")
        settings[name.strip()] = value_of(value.strip())
    return settings
