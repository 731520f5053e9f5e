"""likewise train, embed and evaluate RUN at the command line."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest
import torch
from safetensors.torch import save_file
from typer.testing import CliRunner, Result

from likewise.cli import app
from likewise.data.readers import read
from likewise.data.splits import split
from likewise.files import file_digest
from likewise.models.backbones import make_backbone
from likewise.training.runs import checkpoints
from likewise.training.runs.run_embeddings import write_embeddings
from likewise.training.runs.run_writer import RunWriter

from .training.tiny import events, held, protocol_file, vectors_file, weights_of


def likewise(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [*map(str, arguments)])


def ok(*arguments: str | Path) -> Result:
    result = likewise(*arguments)
    assert result.exit_code == 0, result.output
    return result


def fault(*arguments: str | Path, code: int = 2) -> str:
    """The message, in one line, of a command that fails."""
    result = likewise(*arguments)
    assert result.exit_code == code, result.output
    assert isinstance(result.exception, SystemExit)
    assert "Traceback" not in result.stderr
    assert result.stdout == ""
    return " ".join(result.stderr.split())


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With vectors, other vectors, and a protocol of six steps."""
    folder = tmp_path_factory.mktemp("command")
    vectors_file(folder / "vectors.npz")
    vectors_file(folder / "others.npz", classes=6, seed=1)
    protocol_file(folder, steps=6, validate_every=3)
    return folder


@pytest.fixture(scope="module")
def run(place: Path) -> Path:
    ok("train", "raw", place / "vectors.npz", "--protocol", place / "tiny.toml", "--out", place / "run", "--device", "cpu")
    return place / "run"


def test_train_shows_the_scores(place: Path) -> None:
    result = ok("train", "raw", place / "vectors.npz", "--protocol", place / "tiny.toml", "--out", place / "shown", "--device", "cpu")
    scores = held(place / "shown", "scores.json")["scores"]
    for name, value in scores.items():
        assert name in result.stdout
        assert f"{value:.1%}" in result.stdout
    assert "test classes, scored once" in result.stdout
    assert "step 3: loss" in result.stderr  # one line a validation, where nobody watches a bar


def test_options_are_passed_on(place: Path) -> None:
    command = ("train", "margin", place / "vectors.npz", "--protocol", place / "tiny.toml", "--device", "cpu", "--out", place / "options")
    more = ("--set", "loss.margin=0.3", "--set", "steps=4", "--batch", "24", "--micro-batch", "5", "--seed", "7", "--checkpoint-every", "2")
    ok(*command, *more)
    config = held(place / "options", "config.json")
    assert (config["method"]["loss"]["margin"], config["protocol"]["steps"], config["protocol"]["batch"]) == (0.3, 4, 24)
    assert (config["seed"], config["micro_batch"]) == (7, 5)
    kept = checkpoints.Checkpoints(place / "options" / "checkpoints").load()
    assert kept is not None
    assert kept["step"] == 2


def test_evaluate_of_a_run_gives_the_scores_it_ended_with(run: Path) -> None:
    scores = held(run, "scores.json")["scores"]
    before = events(run)
    told = json.loads(ok("evaluate", run, "--json").stdout)
    assert (told["run"], told["scores"], told["notes"]) == (str(run), scores, [])
    assert (told["look"]["number"], told["look"]["what"], told["look"]["folder"]) == (1, "train", str(run))
    assert f"{scores['R@1']:.1%}" in ok("evaluate", run).stdout
    assert events(run) == before


def test_evaluate_of_a_run_and_its_data_scores_the_test_classes_again(run: Path, place: Path) -> None:
    told = json.loads(ok("evaluate", run, place / "vectors.npz", "--ks", "1,2", "--metrics", "R@K,MAP@R", "--json").stdout)
    assert told["scores"] == pytest.approx(held(run, "scores.json")["scores"])
    assert (told["num_items"], told["num_classes"]) == (12 * 8, 12)
    assert events(run)[:2] == ["key", "opened"]
    assert events(run)[-1] == "resumed"
    assert events(run).count("opened") == 1


def test_evaluate_of_a_run_and_other_data_scores_all_of_it(run: Path, place: Path) -> None:
    before = events(run)
    told = json.loads(ok("evaluate", run, place / "others.npz", "--json").stdout)
    assert (told["num_items"], told["num_classes"]) == (6 * 8, 6)
    assert events(run) == before  # no test part was opened


@pytest.mark.parametrize("suffix", [".npz", ".parquet"])
def test_embeddings_are_written_whole_or_not_at_all(run: Path, place: Path, suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    out = place / f"whole{suffix}" / f"embedded{suffix}"
    write_embeddings(run, str(place / "vectors.npz"), out)
    before = out.read_bytes()

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_embeddings(run, str(place / "others.npz"), out)
    assert out.read_bytes() == before
    assert list(out.parent.iterdir()) == [out]


def test_names_that_parquet_cannot_hold_are_told_before_the_work(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for label in (b"plain", b"caf\xe9"):  # Latin 1, as old archives have it
        os.makedirs(os.fsencode(tmp_path / "photos") + b"/" + label)
        (Path(os.fsdecode(os.fsencode(tmp_path / "photos") + b"/" + label)) / "0.png").write_bytes(b"not opened")

    def opened(*_: object) -> None:
        raise AssertionError("the model was opened")

    monkeypatch.setattr("likewise.training.runs.run_embeddings.open_model", opened)
    result = likewise("embed", run, tmp_path / "photos", "-o", tmp_path / "out.parquet")
    assert result.exit_code == 2, result.output
    assert "is a name that is no UTF-8, which .parquet cannot hold: choose .npz, or rename it" in result.stderr
    assert "caf\N{REPLACEMENT CHARACTER}" in result.stderr
    (tmp_path / "there.npz").mkdir()
    result = likewise("embed", run, tmp_path / "photos", "-o", tmp_path / "there.npz")
    assert (result.exit_code, result.stderr) == (
        2,
        f"error: '{tmp_path / 'there.npz'}' is a folder: expected the name of a file to write\n",
    )


@pytest.mark.parametrize("suffix", [".npz", ".parquet"])
def test_embed_writes_what_evaluate_reads(run: Path, place: Path, suffix: str) -> None:
    out = place / f"embedded{suffix}"
    assert f"192 embeddings of 8 numbers: {out}" in ok("embed", run, place / "vectors.npz", "-o", out, "--device", "cpu").stdout
    if suffix == ".npz":
        with np.load(out) as held_in:
            rows, labels, items, parts = held_in["embeddings"], held_in["labels"], held_in["items"], held_in["split"]
    else:
        table = pyarrow.parquet.read_table(out)
        rows, labels, items = (np.stack(table["embedding"].to_numpy()), table["label"].to_numpy(), table["item"].to_numpy())
        parts = table["split"].to_numpy()
    with np.load(place / "vectors.npz") as data:
        assert (labels == data["labels"]).all()
    assert items[5] == "item 5"
    assert np.linalg.norm(rows, axis=1) == pytest.approx(np.ones(192), abs=1e-5)
    told = json.loads(ok("evaluate", out, "--ks", "1,2", "--metrics", "R@K,MAP@R", "--json").stdout)
    direct = json.loads(ok("evaluate", run, place / "vectors.npz", "--ks", "1,2", "--metrics", "R@K,MAP@R", "--json").stdout)
    assert (told["num_items"], told["split"]) == (96, "test")  # the classes that the network has not seen
    assert told["scores"] == pytest.approx(direct["scores"])
    test = ~np.isin(np.arange(192), _train_items(run))
    assert ((parts == "test") == test).all()
    assert ((parts == "train") == ~test).all()
    np.savez(place / f"test{suffix}.npz", embeddings=rows[test], labels=labels[test].astype(np.str_))
    again = json.loads(ok("evaluate", place / f"test{suffix}.npz", "--ks", "1,2", "--metrics", "R@K,MAP@R", "--json").stdout)
    assert again["scores"] == pytest.approx(direct["scores"])
    assert again["scores"] == pytest.approx(held(run, "scores.json")["scores"])


@pytest.mark.parametrize("suffix", [".npz", ".parquet"])
@pytest.mark.parametrize(
    ("part", "items", "said"),
    [("all", 192, "those that the network was trained on too"), ("train", 96, "training items only"), ("test", 96, "test items only")],
)
def test_evaluate_scores_the_part_that_is_asked_for(run: Path, place: Path, suffix: str, part: str, items: int, said: str) -> None:
    """Of a file of embeddings, and of a run and its data, alike."""
    out = place / f"parts{suffix}"
    ok("embed", run, place / "vectors.npz", "-o", out)
    common = ("--split", part, "--ks", "1,2", "--metrics", "R@K,MAP@R")
    told = json.loads(ok("evaluate", out, *common, "--json").stdout)
    assert (told["split"], told["num_items"]) == (part, items)
    assert said in ok("evaluate", out, *common).stdout
    direct = json.loads(ok("evaluate", run, place / "vectors.npz", *common, "--json").stdout)
    assert direct["split"] == part
    assert direct["scores"] == pytest.approx(told["scores"])


def test_training_items_are_scored_without_a_look(run: Path, place: Path) -> None:
    before = events(run)
    told = json.loads(ok("evaluate", run, place / "vectors.npz", "--split", "train", "--json").stdout)
    assert told["look"] is None
    assert events(run) == before
    ok("evaluate", run, place / "vectors.npz", "--split", "all", "--json")
    assert events(run) == [*before, "key", "resumed"]  # the test items are among all


def test_data_that_the_run_was_not_trained_on_has_no_split(run: Path, place: Path) -> None:
    told = ok("embed", run, place / "others.npz", "-o", place / "foreign.npz")
    assert f"note: others is not what {run} was trained on, or was changed since" in told.stderr
    with np.load(place / "foreign.npz") as file:
        assert "split" not in file
    scored = ok("evaluate", place / "foreign.npz")
    assert "items only" not in scored.stdout
    assert json.loads(ok("evaluate", place / "foreign.npz", "--json").stdout)["split"] == "all"
    said = fault("evaluate", place / "foreign.npz", "--split", "test")
    assert "nothing says which embeddings are test items: embed with a run the data it was trained on, or leave --split out" in said
    assert (
        "nothing says which embeddings are train items"
        in fault("evaluate", run, place / "others.npz", "--split", "train").split("error: ")[1]
    )


def test_an_embedder_alone_knows_its_split_and_its_look(run: Path, place: Path) -> None:
    """As does the best of a comparison: both have it on their card."""
    common = (place / "vectors.npz", "--ks", "1,2", "--metrics", "R@K,MAP@R", "--json")
    before = json.loads(ok("evaluate", run, *common).stdout)
    alone = json.loads(ok("evaluate", run / "embedder", *common).stdout)
    assert (alone["split"], alone["num_items"], alone["scores"]) == ("test", 96, before["scores"])
    assert alone["look"] == before["look"]
    assert list((run / "embedder").glob("*.jsonl")) == []  # a model's folder stays as it is


def test_a_head_trained_on_embeddings_keeps_their_split(run: Path, place: Path) -> None:
    """Otherwise its test classes could be those that the network below it was trained on."""
    ok("embed", run, place / "vectors.npz", "-o", place / "below.npz")
    dataset = read(place / "below.npz")
    parts = split(dataset, seed=0)
    assert parts.official
    assert parts.train.tolist() == _train_items(run).tolist()
    head = ("--protocol", place / "tiny.toml", "--out", place / "head", "--device", "cpu")
    ok("train", "raw", place / "below.npz", *head)
    assert held(place / "head", "split.json")["train"] == held(run, "split.json")["train"]
    ok("embed", place / "head", place / "below.npz", "-o", place / "above.npz")
    with np.load(place / "above.npz") as above, np.load(place / "below.npz") as below:
        assert (above["split"] == below["split"]).all()


def test_queries_and_gallery_of_a_file_are_scored_apart(run: Path, place: Path) -> None:
    ok("embed", run, place / "vectors.npz", "-o", place / "halves.npz")
    with np.load(place / "halves.npz") as file:
        rows, labels, parts = file["embeddings"], file["labels"], file["split"]
    test = np.flatnonzero(parts == "test")
    query, gallery = test[test % 8 < 2], test[test % 8 >= 2]
    halves = parts.astype("U7")
    halves[query], halves[gallery] = "query", "gallery"
    np.savez(place / "halves.npz", embeddings=rows, labels=labels, split=halves)
    np.savez(place / "expected.npz", embeddings=rows[query], labels=labels[query], gallery=rows[gallery], gallery_labels=labels[gallery])
    told, expected = (json.loads(ok("evaluate", place / name, "--json").stdout) for name in ("halves.npz", "expected.npz"))
    assert (told["num_items"], told["num_gallery"], told["split"]) == (24, 72, "test")
    assert told["scores"] == expected["scores"]


@pytest.mark.parametrize(
    ("split_words", "options", "expected"),
    [
        (["train"] * 4, (), "none of the 4 embeddings is a test item: --split all scores them all"),
        (["test"] * 4, ("--split", "train"), "none of the 4 embeddings is a train item"),
        (["train", "test"], (), "4 embeddings but a split of shape (2,): expected one word each"),
        (
            ["train", "tset", "test", "test"],
            (),
            "x.npz: unknown part 'tset': did you mean 'test'? (--split all scores them all)",
        ),
    ],
)
def test_a_split_that_cannot_be_used(split_words: list[str], options: tuple[str, ...], expected: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", embeddings=np.eye(4, dtype=np.float32), labels=np.array([0, 0, 1, 1]), split=np.array(split_words))
    assert expected in fault("evaluate", tmp_path / "x.npz", *options)


def test_the_terminal_says_which_look_it_was(place: Path, tmp_path: Path) -> None:
    common = ("--protocol", place / "tiny.toml", "--device", "cpu", "--out")
    first = ok("train", "raw", place / "vectors.npz", *common, tmp_path / "one").stdout
    second = ok("train", "margin", place / "vectors.npz", *common, tmp_path / "two").stdout
    assert "first look at these test classes" in first
    assert "second look at these test classes, after" in " ".join(second.split())
    for command in (("evaluate", tmp_path / "two"), ("evaluate", tmp_path / "two", place / "vectors.npz")):
        assert "second look at these test classes, after" in " ".join(ok(*command).stdout.split())


def _train_items(run: Path) -> np.ndarray:
    return np.concatenate([np.arange(first, end) for first, end in held(run, "split.json")["train"]])


def test_a_run_of_bits(place: Path) -> None:
    """Its embeddings are packed bits, and evaluate compares them as such."""
    out = place / "bits"
    common = ("--protocol", place / "tiny.toml", "--device", "cpu", "--set", "head.dim=48")
    ok("train", "proxy_softmax_bits", place / "vectors.npz", "--out", out, *common)
    told = json.loads(ok("evaluate", out, place / "vectors.npz", "--ks", "1,2", "--metrics", "R@K,MAP@R", "--json").stdout)
    assert told["metric"] == "hamming"
    assert told["scores"] == pytest.approx(held(out, "scores.json")["scores"])
    ok("embed", out, place / "vectors.npz", "-o", place / "bits.npz")
    with np.load(place / "bits.npz") as rows:
        assert (rows["embeddings"].dtype, rows["embeddings"].shape) == (np.uint8, (192, 6))


def test_levels_of_a_run_can_be_embedded_apart(place: Path) -> None:
    ok(
        "train",
        "ranked_list_multilevel",
        place / "vectors.npz",
        "--protocol",
        place / "tiny.toml",
        "--device",
        "cpu",
        "--out",
        place / "levels",
    )
    for levels, width in (("high", 8), ("low,high", 16)):
        told = ok("embed", place / "levels", place / "vectors.npz", "-o", place / "level.npz", "--levels", levels).stdout
        assert f"192 embeddings of {width} numbers" in told
    assert "each once and in this order" in fault(
        "embed", place / "levels", place / "vectors.npz", "-o", place / "x.npz", "--levels", "high,low"
    )
    assert not (place / "x.npz").exists()


def test_a_run_that_was_stopped_goes_on_with_resume(place: Path, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit code 130 and how to go on; with --resume the end is the uninterrupted run's."""
    command = ("train", "raw", place / "vectors.npz", "--protocol", place / "tiny.toml", "--out", place / "stopped", "--device", "cpu")
    monkeypatch.setattr(RunWriter, "wants_to_stop", lambda self: self.training.step == 4)
    said = fault(*command, code=130)
    assert said.endswith("stopped after step 4 of 6; the same command with --resume goes on from there")
    assert "has not ended: go on with its command and --resume" in fault("evaluate", place / "stopped")
    monkeypatch.undo()
    ok(*command, "--resume")
    for name, value in weights_of(run).items():
        assert torch.equal(weights_of(place / "stopped")[name], value)
    assert held(place / "stopped", "scores.json")["scores"] == held(run, "scores.json")["scores"]
    assert str(held(run, "scores.json")["best_step"]) in ok(*command, "--resume").stdout  # it has ended: its scores again


def test_ctrl_c_twice_stops_at_once(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def twice(writer: Any, step: int) -> None:
        if step == 3:
            writer._stop(2, None)
            writer._stop(2, None)

    monkeypatch.setattr(RunWriter, "step", twice)
    said = fault(
        "train", "raw", place / "vectors.npz", "--protocol", place / "tiny.toml", "--out", place / "twice", "--device", "cpu", code=130
    )
    assert "interrupted: the same command with --resume goes on from the last checkpoint" in said


def test_a_diverged_run_is_said_in_words(place: Path) -> None:
    command = ("train", "n_pairs", place / "vectors.npz", "--protocol", place / "tiny.toml", "--out", place / "diverged", "--device", "cpu")
    said = fault(*command, "--set", "learning_rate=1e30", "--set", "optimizer=sgd")
    assert "diverged at step" in said
    assert "Try a lower learning rate" in said


def weights_file(path: Path, **changes: tuple[int, ...]) -> Path:
    state = {name: value.clone() for name, value in make_backbone("convnet_small").state_dict().items()}
    save_file(state | {name.replace("__", "."): torch.zeros(shape) for name, shape in changes.items()}, path)
    return path


BAD: dict[str, tuple[tuple[str, ...], str]] = {
    "method": (("raw_vhtm", "{data}"), "did you mean 'raw_vthm'?"),
    "protocol": (("raw", "{data}", "--protocol", "quikc"), "did you mean 'quick'?"),
    "reader": (("raw", "glyhps"), "did you mean 'glyphs'?"),
    "data": (("raw", "nowhere/pictures.npz"), "there is no file or folder 'nowhere/pictures.npz'"),
    "method file": (("mine.toml", "{data}"), "there is no method file mine.toml"),
    "setting of the protocol": (("raw", "{data}", "--set", "step=1"), "unknown setting 'step': did you mean 'steps' (protocol)?"),
    "whole head": (("raw", "{data}", "--set", "head=7"), "head is 7: expected a table of kind, levels"),
    "setting of the loss": (("raw", "{data}", "--set", "loss.alfa=1"), "did you mean 'alpha'?"),
    "value of a setting": (("raw", "{data}", "--set", "steps=many"), "steps is 'many': expected int"),
    "impossible value": (("raw", "{data}", "--set", "steps=-1"), "steps=-1: expected a number not below 0"),
    "initials": (("raw", "{data}", "--set", "lr=3"), "unknown setting 'lr': did you mean 'learning_rate' (protocol)?"),
    "no dot": (("margin", "{data}", "--set", "margin=3"), "unknown setting 'margin': did you mean 'loss.margin'?"),
    "head by its kind": (("raw", "{data}", "--set", "head=none"), "head is 'none': write head.kind=none, as head has settings of its own"),
    "head only": (("raw", "{data}", "--set", "head_only=2"), "head_only=2.0: expected a share of the steps from 0 to 1"),
    "nothing to learn": (("raw", "{data}", "--set", "head.kind=none"), "`likewise evaluate` scores vectors as they are"),
    "no value": (("raw", "{data}", "--set", "steps"), "expected key=value"),
    "choice": (("raw", "{data}", "--set", "optimizer=lion"), "expected one of 'adamw', 'adam', 'sgd'"),
    "device": (("raw", "{data}", "--device", "tpu"), "device is 'tpu': expected cpu, auto, or cuda"),
    "weights needed": (("raw", "{data}", "--protocol", "cub"), "give --weights FILE"),
    "weights not there": (("raw", "{data}", "--weights", "no.pth", "--set", "weights=optional"), "there is no weights file no.pth"),
    "weights not wanted": (("raw", "{data}", "--weights", "no.pth"), "starts from random weights: leave --weights out"),
    "resume of nothing": (("raw", "{data}", "--resume"), "there is no run to resume in"),
    "small batch": (("raw", "{data}", "--batch", "7"), "raw: batch=7: a batch of 7 images is too small for two classes x 4 images"),
    "no images of a class": (("raw", "{data}", "--set", "sampler.num_images=0"), "sampler.num_images=0: expected a whole number"),
    "few classes": (("raw", "{data}", "--set", "few_classes=error", "--batch", "400"), "--set few_classes=more_images"),
    "images for vectors": (("raw", "{data}", "--set", "backbone=convnet"), "it takes images, not vectors"),
    "vectors for images": (("raw", "glyphs:classes=20,images=4"), "'identity'"),
    "precision": (("raw", "{data}", "--set", "precision=fp16"), "precision=fp16 needs a GPU"),
    "head": (("raw", "{data}", "--set", "head.kind=liner"), "head.kind is 'liner': expected one of"),
    "miner": (("raw", "{data}", "--set", "mining.name=vtmh"), "did you mean 'vthm'?"),
    "sampler": (("raw", "{data}", "--set", "sampler.name=episode"), "--set sampler.num_support="),
    "augmentation": (
        ("raw", "glyphs:classes=20,images=4", "--protocol", "quick", "--set", "train_augmentation=nnoe"),
        "did you mean 'none'?",
    ),
    "chance in scoring": (("raw", "glyphs:classes=20,images=4", "--protocol", "quick", "--set", "test_augmentation=resized28"), "chance"),
    "metric": (("raw", "{data}", "--set", 'metrics=["R@K", "MAPR"]'), "did you mean 'MAP@R'?"),
    "validation": (
        ("raw", "{data}", "--set", "validation=0.02", "--set", "few_classes=error"),
        "--set validation=0.17, or --set validation=0 to take the last step",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_said_in_words_and_nothing_is_written(name: str, place: Path, tmp_path: Path) -> None:
    given, expected = BAD[name]
    arguments = [part.format(data=place / "vectors.npz") for part in given]
    protocol = [] if "--protocol" in given else ["--protocol", str(place / "tiny.toml")]
    said = fault("train", *arguments, *protocol, *([] if "--device" in given else ["--device", "cpu"]), "--out", tmp_path / "run")
    assert expected in said
    assert list(tmp_path.iterdir()) == []


def test_more_images_where_classes_are_too_few(place: Path, tmp_path: Path) -> None:
    common = ("--protocol", place / "tiny.toml", "--device", "cpu", "--batch", "400", "--out", tmp_path / "run")
    ok("train", "raw", place / "vectors.npz", *common, "--set", "few_classes=more_images")
    assert held(tmp_path / "run", "scores.json")["scores"]["R@1"] > 0


@pytest.mark.parametrize(
    ("changes", "expected"),
    [({"high__0__weight": (3, 3)}, "high.0.weight"), ({"surplus": (2,)}, "surplus")],
    ids=["shape", "surplus"],
)
def test_weights_that_do_not_fit(changes: dict[str, tuple[int, ...]], expected: str, tmp_path: Path) -> None:
    weights = weights_file(tmp_path / "convnet.safetensors", **changes)
    common = ("--protocol", "quick", "--set", "weights=optional", "--set", "steps=2", "--device", "cpu", "--out", tmp_path / "run")
    assert expected in fault("train", "raw", "glyphs:classes=20,images=4,size=28", "--weights", weights, "--batch", "16", *common)
    assert not (tmp_path / "run").exists()


def test_weights_that_fit(tmp_path: Path) -> None:
    weights = weights_file(tmp_path / "convnet.safetensors")
    common = ("--protocol", "quick", "--set", "weights=optional", "--set", "steps=2", "--device", "cpu", "--out", tmp_path / "run")
    ok("train", "raw", "glyphs:classes=20,images=4,size=28", "--weights", weights, "--batch", "16", *common)
    assert held(tmp_path / "run", "config.json")["weights"] == file_digest(weights)
    assert f"`sha256 {file_digest(weights)[:16]}`" in (tmp_path / "run" / "README.md").read_text()


def test_a_folder_that_cannot_be_written(place: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    command = ("train", "raw", place / "vectors.npz", "--protocol", place / "tiny.toml", "--device", "cpu", "--out")
    said = fault(*command, tmp_path / "file" / "run")
    assert f"cannot be made: {tmp_path / 'file'} cannot be written to; choose another folder with --out" in said
    assert "exists and holds no run" in fault(*command, tmp_path / "file")
    assert (tmp_path / "file").read_text() == "not a folder"


def test_another_runs_folder(run: Path, place: Path) -> None:
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    common = ("--protocol", place / "tiny.toml", "--device", "cpu", "--out", run)
    assert "holds this run already: add --resume" in fault("train", "raw", place / "vectors.npz", *common)
    assert "its method.name is 'raw', now it is 'margin'" in fault("train", "margin", place / "vectors.npz", *common, "--resume")
    assert "its data.name is 'vectors', now it is 'others' (1 more fields differ)" in fault(
        "train", "raw", place / "others.npz", *common, "--resume"
    )
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


def test_two_damaged_checkpoints(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = ("train", "raw", place / "vectors.npz", "--protocol", place / "tiny.toml", "--out", tmp_path / "run", "--device", "cpu")
    monkeypatch.setattr(RunWriter, "wants_to_stop", lambda self: self.training.step == 4)
    fault(*command, "--checkpoint-every", "1", code=130)
    for path in (tmp_path / "run" / "checkpoints").iterdir():
        path.write_bytes(b"damaged" * 100)
    said = fault(*command, "--resume")
    assert "last.ckpt is damaged" in said
    assert "start again without --resume and with another --out" in said


def test_a_full_disk(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*given: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoints, "write_whole", full)
    command = ("train", "raw", place / "vectors.npz", "--protocol", place / "tiny.toml", "--out", tmp_path / "run", "--device", "cpu")
    said = fault(*command, "--checkpoint-every", "1")
    assert "No space left on device" in said
    assert "the same command with --resume goes on from it" in said
    monkeypatch.undo()
    ok(*command, "--resume")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("embed", "{place}", "{data}", "-o", "{out}.npz"), "holds no embedder"),
        (("embed", "{run}", "{data}", "-o", "{out}.csv"), "expected .npz or .parquet"),
        (("embed", "{run}", "glyphs:classes=8,images=2", "-o", "{out}.npz"), "holds images, but this run was trained on vectors"),
        (("embed", "{run}", "nowhere", "-o", "{out}.npz"), "nowhere"),
        (("embed", "{run}", "{data}", "-o", "{out}.npz", "--mirror"), "only images have a mirror image"),
        (("embed", "{run}", "{data}", "-o", "{out}.npz", "--levels", "hihg"), "did you mean 'high'?"),
        (("embed", "{run}", "{data}", "-o", "{out}.npz", "--device", "tpu"), "device is 'tpu'"),
        (("evaluate", "{place}"), "holds no run"),
        (("evaluate", "{place}", "{data}"), "holds no embedder"),
        (("evaluate", "{run}", "nowhere"), "nowhere"),
    ],
)
def test_bad_input_of_embed_and_evaluate(arguments: tuple[str, ...], expected: str, place: Path, run: Path, tmp_path: Path) -> None:
    names = {"place": place, "run": run, "data": place / "vectors.npz", "out": tmp_path / "out"}
    assert expected in fault(*(part.format(**names) for part in arguments))
    assert list(tmp_path.iterdir()) == []


def test_importing_likewise_imports_nothing_heavy() -> None:
    program = (
        "import sys, likewise\n"
        "heavy = {'lightning_fabric', 'optuna', 'rich', 'matplotlib', 'PIL', 'safetensors', 'typer'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
        "assert {'train', 'Embedder', 'compare'} <= set(likewise.__all__)\n"
        "from likewise.training.train import train\n"
        "from likewise.models.embedder import Embedder\n"
        "assert likewise.train is train and likewise.Embedder is Embedder\n"
        "assert 'lightning_fabric' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=100)
