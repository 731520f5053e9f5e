"""Commands about data, embeddings and what they are worth: embed, evaluate, calibrate, doctor, ledger."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from likewise.cli.faults import faults_in_words
from likewise.cli.streams import work_first


class MetricName(StrEnum):
    cosine = "cosine"
    euclidean = "euclidean"
    hamming = "hamming"


class IntervalUnit(StrEnum):
    class_ = "class"
    query = "query"
    none = "none"


class PartOption(StrEnum):
    all = "all"
    test = "test"
    train = "train"


def embed(
    run: Annotated[Path, typer.Argument(help="A run's folder, a saved embedder, or a name that `likewise weights` lists.")],
    data: Annotated[
        list[str], typer.Argument(help="Images, with classes or without: files, folders, lists of paths (.txt, .csv), data sets.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write: .npz or .parquet.")],
    levels: Annotated[str | None, typer.Option(help="Only these levels of a multilevel embedding, such as low,high.")] = None,
    mirror: Annotated[bool, typer.Option("--mirror", help="Average an image and its mirror image.")] = False,
    ray: Annotated[str | None, typer.Option(help="Embed on Ray: local, or a cluster's address.")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, or auto: cuda where there is one.")] = "auto",
) -> None:
    """Embed every item of DATA with the network of RUN. Folders are classes; images:FOLDER reads them without."""
    with faults_in_words(), work_first():
        from likewise.terminal.commands.embedding_commands import run_embed

        run_embed(run, data, out, levels=levels, mirror=mirror, ray=ray, device=device)


def evaluate(
    file: Annotated[Path, typer.Argument(help="A run's folder; or a .npz (embeddings, labels), .npy with --labels, or .parquet.")],
    data: Annotated[str | None, typer.Argument(help="With a run: what to score it on. Without: the scores it ended with.")] = None,
    split: Annotated[PartOption | None, typer.Option(help="Which items: test where it is known which these are, else all.")] = None,
    levels: Annotated[str | None, typer.Option(help="With a run: only these levels, such as low,high; all: each combination.")] = None,
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
    with faults_in_words():
        from likewise.terminal.commands.embedding_commands import run_evaluate

        run_evaluate(
            file,
            data,
            part=None if split is None else split.value,
            levels=levels,
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


def calibrate(
    model: Annotated[
        str, typer.Argument(help="A run, a comparison (its best), a saved embedder, an index, or a name that `likewise weights` lists.")
    ],
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
    with faults_in_words(), work_first(unless=as_json):
        from likewise.terminal.commands.calibrate_command import run_calibrate

        run_calibrate(model, data, false_accepts=false_accepts, confidence=confidence, out=out, page=page, as_json=as_json, device=device)


def doctor(
    data: Annotated[str, typer.Argument(help="A folder of class folders, a table, a data set such as cub:/path, or glyphs.")],
    out: Annotated[Path | None, typer.Option(help="Write report.json and contact_sheet.png into this folder.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable to stdout, and nothing else.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 if there are problems.")] = False,
    contact_sheet: Annotated[Path | None, typer.Option(help="Write the contact sheet to this .png.")] = None,
) -> None:
    """Look at every image of DATA: broken files, duplicates within and across train and test, class sizes."""
    with faults_in_words():
        from likewise.terminal.commands.doctor_command import run_doctor

        report = run_doctor(data, out=out, as_json=as_json, sheet=contact_sheet)
    if strict and report.problems:
        raise typer.Exit(1)


def check(
    folders: Annotated[
        list[Path] | None, typer.Argument(help="Runs, embedders, comparisons, indexes, exports, caches. Without: the cache and the ledger.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable to stdout, and nothing else.")] = False,
) -> None:
    """Verify byte by byte that FOLDERS are as they were written; exit code 1 where something is damaged or missing."""
    with faults_in_words():
        from likewise.terminal.commands.check_command import run_check

        if not run_check(folders or [], as_json=as_json):
            raise typer.Exit(1)


def ledger(
    data: Annotated[str | None, typer.Argument(help="Only looks at the test classes of this folder, table or data set.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable to stdout, and nothing else.")] = False,
) -> None:
    """Show every look at test classes that compare, train, adapt, evaluate and Python took."""
    with faults_in_words():
        from likewise.terminal.commands.ledger_command import run_ledger

        run_ledger(data, as_json=as_json)
