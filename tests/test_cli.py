import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from typer.testing import CliRunner, Result

import likewise
from likewise.cli import app
from likewise.evaluation.embedding_file import read_embeddings
from likewise.evaluation.metrics import DEFAULT_METRICS, METRICS
from likewise.evaluation.scores import KS, evaluate, summarise

NAMES = np.array(["robin", "wren", "crow", "jay"])


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["evaluate", *map(str, arguments)])


def ok(*arguments: str | Path) -> dict[str, object]:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    decoded: dict[str, object] = json.loads(result.stdout)
    return decoded


def fault(*arguments: str | Path) -> str:
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert isinstance(result.exception, SystemExit)
    return result.stderr


@pytest.fixture
def birds() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    labels = rng.integers(4, size=60)
    return (rng.normal(size=(4, 8))[labels] + 0.8 * rng.normal(size=(60, 8))).astype(np.float32), labels


@pytest.fixture
def npz(birds: tuple[np.ndarray, np.ndarray], tmp_path: Path) -> Path:
    np.savez(tmp_path / "birds.npz", embeddings=birds[0], labels=NAMES[birds[1]])
    return tmp_path / "birds.npz"


def test_json_holds_what_evaluate_says(npz: Path, birds: tuple[np.ndarray, np.ndarray]) -> None:
    told = ok(npz, "--ks", "1,3", "--seed", "4")
    expected = evaluate(*birds, ks=(1, 3), seed=4)
    assert told["num_unmatched"] == expected.pop("unmatched") == 0
    assert told["scores"] == pytest.approx(expected)
    assert list(told["scores"]) == ["R@1", "R@3", "RP", "MAP@R", "mAP", "NMI", "AMI"]  # type: ignore[call-overload]
    assert (told["num_items"], told["num_classes"], told["dim"], told["metric"]) == (60, 4, 8, "cosine")
    intervals = told["intervals"]
    assert list(intervals) == ["R@1", "R@3", "RP", "MAP@R", "mAP"]  # type: ignore[call-overload]
    for name, interval in intervals.items():  # type: ignore[attr-defined]
        assert interval["low"] <= expected[name] <= interval["high"]
    assert "diagnosis" not in told


def test_choices_are_passed_on(npz: Path, birds: tuple[np.ndarray, np.ndarray]) -> None:
    by_class, by_query = (ok(npz, "--metrics", "R@K", "--intervals", unit) for unit in ("class", "query"))
    assert (by_class["interval_unit"], by_query["interval_unit"]) == ("class", "query")
    assert by_class["intervals"] != by_query["intervals"]
    euclidean = ok(npz, "--metrics", "mAP,NMI_geometric", "--metric", "euclidean", "--intervals", "none")
    assert list(euclidean["scores"]) == ["mAP", "NMI_geometric"]  # type: ignore[call-overload]
    assert euclidean["scores"]["mAP"] == pytest.approx(evaluate(*birds, metrics=("mAP",), metric="euclidean")["mAP"])  # type: ignore[index]
    assert euclidean["intervals"] == {}


def test_the_seed_reaches_k_means(tmp_path: Path) -> None:
    """Noise without clusters: every seed finds others."""
    rng = np.random.default_rng(0)
    rows, labels = rng.normal(size=(200, 16)), np.arange(200) % 20
    np.savez(tmp_path / "noise.npz", embeddings=rows, labels=labels)
    found = [ok(tmp_path / "noise.npz", "--metrics", "NMI", "--seed", str(seed))["scores"]["NMI"] for seed in (0, 4)]  # type: ignore[index]
    assert found[0] != found[1]
    assert found[1] == pytest.approx(evaluate(rows, labels, metrics=("NMI",), seed=4)["NMI"])


def test_every_format_gives_the_same_scores(npz: Path, birds: tuple[np.ndarray, np.ndarray], tmp_path: Path) -> None:
    rows, labels = birds
    expected = ok(npz, "--metrics", "mAP")["scores"]
    np.save(tmp_path / "rows.npy", rows)
    np.save(tmp_path / "labels.npy", labels)
    (tmp_path / "numbers.txt").write_text("\n".join(map(str, labels)) + "\n\n")
    (tmp_path / "names.txt").write_text("\n".join(NAMES[labels]))
    for name in ("labels.npy", "numbers.txt", "names.txt"):
        assert ok(tmp_path / "rows.npy", "--labels", tmp_path / name, "--metrics", "mAP")["scores"] == expected
    lists = [pyarrow.array(list(rows)), pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(rows.ravel()), 8)]
    kinds = [pyarrow.array(labels), pyarrow.array(NAMES[labels]), pyarrow.array(NAMES[labels]).dictionary_encode()]
    for column in lists:
        for label in kinds:
            pyarrow.parquet.write_table(pyarrow.table({"embedding": column, "label": label}), tmp_path / "rows.parquet", row_group_size=17)
            assert ok(tmp_path / "rows.parquet", "--metrics", "mAP")["scores"] == expected
    pyarrow.parquet.write_table(pyarrow.table({"v": lists[0], "species": kinds[1]}), tmp_path / "other.parquet")
    named = ("--embedding-name", "v", "--label-name", "species")
    assert ok(tmp_path / "other.parquet", *named, "--metrics", "mAP")["scores"] == expected


def test_labels_of_a_text_file_stay_text(tmp_path: Path) -> None:
    """007 and 7 are two labels, and so are 1_0 and 10."""
    np.save(tmp_path / "rows.npy", np.eye(8, dtype=np.float32))
    (tmp_path / "labels.csv").write_text("007\n7\n007\n7\n10\n1_0\n10\n1_0\n")
    file = read_embeddings(tmp_path / "rows.npy", labels=tmp_path / "labels.csv")
    assert file.labels.tolist() == ["007", "7", "007", "7", "10", "1_0", "10", "1_0"]
    assert ok(tmp_path / "rows.npy", "--labels", tmp_path / "labels.csv", "--ks", "1")["num_classes"] == 4


def test_labels_of_a_text_file_meet_numbers_of_a_gallery(birds: tuple[np.ndarray, np.ndarray], tmp_path: Path) -> None:
    rows, labels = birds
    np.savez(tmp_path / "shop.npz", embeddings=rows[:20], labels=labels[:20], gallery=rows[20:], gallery_labels=labels[20:])
    (tmp_path / "labels.txt").write_text("\n".join(map(str, labels[:20])))
    told = ok(tmp_path / "shop.npz", "--labels", tmp_path / "labels.txt", "--metrics", "mAP")
    assert told["scores"] == ok(tmp_path / "shop.npz", "--metrics", "mAP")["scores"]


def test_gallery_and_unmatched_queries(birds: tuple[np.ndarray, np.ndarray], tmp_path: Path) -> None:
    rows, labels = birds
    rest = np.where(labels[20:] == 3, 9, labels[20:])
    np.savez(tmp_path / "shop.npz", embeddings=rows[:20], labels=labels[:20], gallery=rows[20:], gallery_labels=rest)
    told = ok(tmp_path / "shop.npz", "--metrics", "R@K,MAP@R", "--diagnose")
    assert told["num_gallery"] == 40
    assert told["num_unmatched"] == int((labels[:20] == 3).sum()) > 0
    expected = evaluate(rows[:20], labels[:20], gallery=rows[20:], gallery_labels=rest, metrics=("R@K", "MAP@R"))
    expected.pop("unmatched")
    assert told["scores"] == pytest.approx(expected)
    assert told["diagnosis"]["intra"]["num_pairs"] + told["diagnosis"]["inter"]["num_pairs"] == 60 * 59 / 2  # type: ignore[index]
    shown = run(tmp_path / "shop.npz", "--diagnose", "--metrics", "R@K").stdout
    assert "20 queries, 40 gallery items, 4 classes, 8 dimensions, cosine" in shown
    assert f"{told['num_unmatched']} queries have nothing of their class to find and are left out of the means" in shown
    assert "Geometry of queries and gallery together" in shown


def test_a_k_that_is_too_large_is_left_out_and_noted(npz: Path) -> None:
    note = "R@60 and R@99 are left out: the gallery has only 59 items besides the query"
    told = ok(npz, "--ks", "1,60,99", "--metrics", "R@K,MAP@R", "--intervals", "none")
    assert list(told["scores"]) == ["R@1", "MAP@R"]  # type: ignore[call-overload]
    assert told["notes"] == [note]
    assert note in " ".join(run(npz, "--ks", "1,60,99", "--metrics", "R@K,MAP@R").stdout.split())
    assert ok(npz, "--ks", "1", "--metrics", "R@K,MAP@R", "--intervals", "none") == {**told, "notes": []}
    assert [words[:18] for words in ok(npz, "--metrics", "MAP@R")["notes"]] == ["4 classes are few:"]  # type: ignore[attr-defined]
    without = ok(npz, "--ks", "60", "--metrics", "R@K,NMI")
    assert list(without["scores"]) == ["NMI"]  # type: ignore[call-overload]
    assert without["notes"] == ["R@60 is left out: the gallery has only 59 items besides the query"]


def test_packed_bits(birds: tuple[np.ndarray, np.ndarray], tmp_path: Path) -> None:
    bits = np.packbits(birds[0] > 0, axis=1)
    np.savez(tmp_path / "bits.npz", embeddings=bits, labels=birds[1])
    told = ok(tmp_path / "bits.npz", "--metric", "hamming")
    expected = evaluate(bits, birds[1], metric="hamming")
    expected.pop("unmatched")
    assert told["scores"] == pytest.approx(expected)


def test_the_table(npz: Path) -> None:
    told = ok(npz)
    shown = run(npz).stdout
    assert "60 items, 4 classes, 8 dimensions, cosine" in shown
    assert "95 % interval over classes" in shown
    assert "left out" not in shown
    for name, score in told["scores"].items():  # type: ignore[attr-defined]
        line = next(line.split() for line in shown.splitlines() if line.split()[:1] == [name])
        assert line[1] == f"{100 * score:.2f}"
        interval = told["intervals"].get(name)  # type: ignore[attr-defined]
        assert line[2:] == ([f"{100 * interval['low']:.2f}", "to", f"{100 * interval['high']:.2f}"] if interval else [])


def test_the_diagnosis_is_shown_and_told(npz: Path, birds: tuple[np.ndarray, np.ndarray]) -> None:
    told = ok(npz, "--diagnose", "--metrics", "R@K")["diagnosis"]
    shown = run(npz, "--diagnose", "--metrics", "R@K").stdout
    assert f"effective rank {told['effective_rank']:.1f} of 8 dimensions" in shown  # type: ignore[index]
    assert [recall["label"] for recall in told["class_recall"]][0] in NAMES  # type: ignore[index]  # noqa: RUF015
    for query in told["worst_queries"][:5]:  # type: ignore[index]
        assert NAMES[birds[1]][query["index"]] == query["label"]
        assert f"{query['gap']:.3f}" in shown
    assert max(len(line) for line in shown.splitlines()) <= 80


def test_labels_with_markup_are_shown_as_they_are(birds: tuple[np.ndarray, np.ndarray], tmp_path: Path) -> None:
    np.savez(tmp_path / "odd.npz", embeddings=birds[0], labels=np.array(["[red]a[/red]", "[/b]", "c", "d"])[birds[1]])
    shown = run(tmp_path / "odd.npz", "--diagnose", "--metrics", "R@K").stdout
    assert "[red]a[/red]" in shown
    assert "[/b]" in shown


def test_faults_are_told_in_words(npz: Path, birds: tuple[np.ndarray, np.ndarray], tmp_path: Path) -> None:
    rows, labels = birds
    assert "not there" in fault(tmp_path / "absent.npz")
    (tmp_path / "folder.npz").mkdir()
    assert "a folder" in fault(tmp_path / "folder.npz")
    assert "expected .npz, .npy or .parquet" in fault(tmp_path / "birds.csv")
    assert "--ks is '1,x'" in fault(npz, "--ks", "1,x")
    assert "speed" in fault(npz, "--metrics", "R@K,speed")
    assert "nothing can be scored: R@60 is left out: the gallery has only 59 items" in fault(npz, "--metrics", "R@K", "--ks", "60")
    assert "device is 'tpu'" in fault(npz, "--device", "tpu")
    assert "no array 'labels', it holds embeddings, classes" in fault(saved(tmp_path, embeddings=rows, classes=labels))
    assert "no array 'gallery_labels'" in fault(saved(tmp_path, embeddings=rows, labels=labels, gallery=rows))
    assert "60 embeddings but labels of shape (59,)" in fault(saved(tmp_path, embeddings=rows, labels=labels[1:]))
    assert "shape (480,)" in fault(saved(tmp_path, embeddings=rows.ravel(), labels=labels))
    assert "none of the 60 queries" in fault(saved(tmp_path, embeddings=rows, labels=np.arange(60)))
    assert "float64" in fault(saved(tmp_path, embeddings=rows, labels=labels + 0.5))
    broken = rows.copy()
    broken[7] = np.nan
    assert "1 of 60 embeddings hold NaN or infinity, first row 7" in fault(saved(tmp_path, embeddings=broken, labels=labels))


def saved(folder: Path, **arrays: np.ndarray) -> Path:
    np.savez(folder / "bad.npz", allow_pickle=True, **arrays)  # type: ignore[arg-type]
    return folder / "bad.npz"


def test_pickles_are_not_loaded(birds: tuple[np.ndarray, np.ndarray], tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.mkdir, (str(tmp_path / "sprung"),)

    trap = np.array([Trap()] * 60, dtype=object)
    assert "array 'labels'" in fault(saved(tmp_path, embeddings=birds[0], labels=trap))
    np.save(tmp_path / "trap.npy", trap, allow_pickle=True)
    assert "not a readable numpy file" in fault(tmp_path / "trap.npy", "--labels", tmp_path / "trap.npy")
    assert not (tmp_path / "sprung").exists()


def test_faults_of_other_formats(birds: tuple[np.ndarray, np.ndarray], tmp_path: Path) -> None:
    rows, labels = birds
    np.save(tmp_path / "rows.npy", rows)
    assert "--labels" in fault(tmp_path / "rows.npy")
    (tmp_path / "junk.npz").write_bytes(b"PK junk")
    assert "not a readable numpy archive" in fault(tmp_path / "junk.npz")
    (tmp_path / "junk.txt").write_bytes(b"\xff\xfe\x00")
    assert "is not UTF-8 text" in fault(tmp_path / "rows.npy", "--labels", tmp_path / "junk.txt")
    (tmp_path / "junk.parquet").write_bytes(b"junk")
    assert "not a readable Parquet file" in fault(tmp_path / "junk.parquet")

    def table(**columns: object) -> Path:
        pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "bad.parquet")
        return tmp_path / "bad.parquet"

    assert "no column 'label', it holds embedding, class" in fault(table(embedding=list(rows), **{"class": labels}))
    assert "lists of 2 to 8 numbers" in fault(table(embedding=[*rows[1:], rows[0, :2]], label=labels))
    assert "none of the" in fault(table(embedding=list(rows), label=[None] * len(rows)))
    assert "1 empty entries" in fault(table(embedding=[None, *rows[1:]], label=labels))
    assert "1 empty numbers" in fault(table(embedding=[[None, 1.0], [1.0, 2.0]], label=[0, 0]))
    assert "expected lists of numbers" in fault(table(embedding=rows[:, 0], label=labels))


def test_bad_choices_are_usage_errors(npz: Path) -> None:
    for arguments in (("--metric", "manhattan"), ("--intervals", "image"), ("--seed", "-1")):
        result = run(npz, *arguments)
        assert result.exit_code == 2
        assert result.stdout == ""
        assert arguments[0] in result.stderr


def test_steps_are_told(npz: Path) -> None:
    steps: list[str] = []
    summarise(read_embeddings(npz), with_diagnosis=True, on_step=steps.append)
    expected = ["retrieval", "k-means", *(f"k-means, {done} restarts done" for done in range(1, 11)), "diagnosis"]
    assert steps == expected


def test_the_command_asks_for_the_metrics_that_evaluate_asks_for(npz: Path) -> None:
    assert ok(npz)["scores"] == ok(npz, "--metrics", ",".join(DEFAULT_METRICS), "--ks", ",".join(map(str, KS)))["scores"]
    described = CliRunner().invoke(app, ["evaluate", "--help"], env={"COLUMNS": "200"}).output
    assert ", ".join(METRICS) in " ".join(described.replace("│", " ").split())


def test_help_names_every_command() -> None:
    result = CliRunner().invoke(app, ["--help"])
    assert result.exit_code == 0
    assert "evaluate" in result.stdout


def test_as_a_real_process(npz: Path, tmp_path: Path) -> None:
    source = str(Path(likewise.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": source, "OMP_NUM_THREADS": "1"}

    def process(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "likewise", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=False)

    done = process("evaluate", npz, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["scores"] == ok(npz)["scores"]
    failed = process("evaluate", tmp_path / "absent.npz")
    assert (failed.returncode, failed.stdout) == (2, "")
    assert failed.stderr == f"error: {tmp_path / 'absent.npz'} is not there: expected a file\n"
    assert process("--version").stdout.startswith("likewise ")
