"""likewise.Index: what is added is found, what has changed is noticed, what is saved comes back, and faults are said in words."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import likewise
from likewise.data.dataset import Dataset, Files
from likewise.evaluation.calibration import calibrate
from likewise.models import Embedder
from likewise.search import adding, intake
from likewise.search.index import Index

from ..optional import needs_package
from .pictures import class_folders, picture, small_embedder


@pytest.fixture
def photos(tmp_path: Path) -> list[Path]:
    return class_folders(tmp_path / "photos")


@pytest.fixture
def index(photos: list[Path], tmp_path: Path) -> Index:
    return Index.build(small_embedder(), tmp_path / "photos", out=tmp_path / "index")


def test_finds_what_nearest_finds(index: Index, photos: list[Path]) -> None:
    assert likewise.Index is Index
    assert len(index) == len(photos)
    vectors = small_embedder().embed(photos).astype(np.float16).astype(np.float32)
    for number in (0, 5, 11):
        neighbours, similarity = likewise.nearest(vectors[[number]], vectors, 5)
        for image in (photos[number], str(photos[number]), Image.open(photos[number]), np.asarray(Image.open(photos[number]))):
            hits = index.search(image, k=5)
            assert [hit.path for hit in hits] == [str(photos[i]) for i in neighbours[0].tolist()]
            np.testing.assert_allclose([hit.similarity for hit in hits], similarity[0], atol=2e-3)
        assert hits[0].label == photos[number].parent.name
        assert (hits[0].probability, hits[0].words, hits[0].metadata) == (None, None, {})
    many = index.search_many(photos[:2], k=20)
    assert [len(hits) for hits in many] == [12, 12]
    assert [hit.path for hit in many[1][:1]] == [str(photos[1])]
    assert len(index.search(photos[0], k=10**12)) == 12  # room is made for what there is, not for what was asked for
    assert [hit.label for hit in index.search(photos[0], 20, "label!=class 0")] == [hit.label for hit in many[0] if hit.label != "class 0"]
    assert index.search(photos[0], 20, where=["label=class 1", "path~3.PNG"])[0].path == str(photos[7])


def test_answers_score_as_evaluate_says(photos: list[Path], tmp_path: Path) -> None:
    """The nearest besides the query itself: R@1 of what is found is that of `likewise.evaluate`."""
    index = Index.build(small_embedder(), tmp_path / "photos", rows="float32")
    found = index.search_many(photos, 2)
    others = [next(hit for hit in hits if hit.path != str(path)) for path, hits in zip(photos, found, strict=True)]
    labels = [path.parent.name for path in photos]
    score = likewise.evaluate(small_embedder().embed(photos), labels, metrics=("R@K",), ks=(1,))["R@1"]
    assert np.mean([hit.label == label for hit, label in zip(others, labels, strict=True)]) == pytest.approx(score)


def test_what_has_not_changed_is_not_embedded_again(
    index: Index, photos: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedded: list[str] = []
    embed_images = Embedder.embed_images
    monkeypatch.setattr(
        Embedder,
        "embed_images",
        lambda self, dataset, **k: (embedded.extend(map(str, dataset.items.paths)), embed_images(self, dataset, **k))[1],
    )
    result = index.add(tmp_path / "photos")
    assert (result.added, result.changed, result.unchanged) == (0, 0, 12)
    assert embedded == []
    picture(photos[3], 77, 9)
    os.utime(photos[4])  # another time, the same content
    new = picture(tmp_path / "photos" / "class 1" / "new.png", 5, 1)
    result = index.add(tmp_path / "photos")
    assert (result.added, result.changed, result.unchanged) == (1, 1, 11)
    assert embedded == [str(photos[3]), str(new)]
    assert index.search(photos[3], 1)[0].similarity == pytest.approx(1, abs=1e-3)
    photos[0].unlink()
    assert index.add(tmp_path / "photos").removed == 0
    assert len(index) == 13
    assert index.add(tmp_path / "photos", prune=True).removed == 1
    assert str(photos[0]) not in {hit.path for hit in index.search(photos[1], 20)}


def test_a_table_gives_labels_and_metadata(photos: list[Path], tmp_path: Path) -> None:
    table = tmp_path / "birds.csv"
    rows = [f"photos/{path.parent.name}/{path.name},kind {i % 2},{2000 + i},{'harbour' if i < 4 else ''}" for i, path in enumerate(photos)]
    table.write_text("\n".join(["path,species,year,place", *rows]))
    index = Index.build(small_embedder(), f"table,label_column=species:{table}")
    assert index.store.columns() == {"place": 4, "year": 12}
    hits = index.search(photos[0], 20, where=["year>=2002", "place=harbour"])
    assert sorted(hit.path for hit in hits) == sorted(map(str, photos[2:4]))
    assert {hit.metadata["year"]: hit.label for hit in hits} == {"2002": "kind 0", "2003": "kind 1"}
    assert index.add(photos).unchanged == 12  # files alone keep what is known of them
    table.write_text(table.read_text().replace("2003,harbour", "2013,harbour"))
    assert (result := index.add(f"table,label_column=species:{table}")).changed == 1
    assert result.unchanged == 11
    assert index.search(photos[3], 20, where="year=2013")[0].similarity == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("apart", [False, True], ids=["in one chunk", "chunks apart"])
def test_several_boxes_of_a_path_are_refused(photos: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, apart: bool) -> None:
    """Of which only the last would stay; before anything is embedded, however far apart they are."""
    monkeypatch.setattr(intake, "CHUNK", 2 if apart else 1000)
    rows = [f"{path},{i},0,{i + 20},20" for i, path in enumerate([*photos[:6], photos[0]])]
    (tmp_path / "boxes.csv").write_text("\n".join(["path,left,top,right,bottom", *rows]))
    index = Index.create(small_embedder(), out=tmp_path / "index")
    with pytest.raises(ValueError, match=r"0\.png is there with several boxes: an index holds one item a path"):
        index.add(tmp_path / "boxes.csv")
    assert len(index) == 0
    (tmp_path / "boxes.csv").write_text("\n".join(["path,left,top,right,bottom", *rows[:6], rows[0]]))
    assert index.add(tmp_path / "boxes.csv").added == 6


def test_a_parquet_table_keeps_types(photos: list[Path], tmp_path: Path) -> None:
    needs_package("pyarrow")
    import pyarrow
    import pyarrow.parquet

    columns = {
        "path": [str(path) for path in photos],
        "sold": [i % 2 == 0 for i in range(12)],
        "price": [i / 2 for i in range(11)] + [None],
    }
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "table.parquet")
    index = Index.build(small_embedder(), tmp_path / "table.parquet")
    hits = index.search(photos[0], 20, where=["sold=true", "price>1"])
    assert sorted(hit.metadata["price"] for hit in hits) == [2.0, 3.0, 4.0, 5.0]  # type: ignore[type-var]
    assert {hit.label for hit in hits} == {None}


def test_several_sources_at_once(photos: list[Path], tmp_path: Path) -> None:
    """The same file in two of them is one item; flat folders and files have no label."""
    loose = picture(tmp_path / "loose" / "a.png", 1, 1)
    dataset = Dataset("two", Files((photos[0], photos[1])), np.array([0, -1]), ("mine",))
    index = Index.build(small_embedder(), [loose.parent, photos[0], loose, tmp_path / "photos" / "class 1", dataset])
    labels = {hit.path: hit.label for hit in index.search(loose, 20)}
    assert labels == {str(loose): None, str(photos[0]): "mine", str(photos[1]): None, **{str(path): None for path in photos[4:8]}}


def test_a_killed_build_goes_on_where_it_was(photos: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "CHUNK", 5)
    told: list[tuple[str, int, int]] = []
    with monkeypatch.context() as killed:
        chunks = iter([1, 2])
        add_chunk = adding._add_chunk
        killed.setattr(
            adding, "_add_chunk", lambda *given: add_chunk(*given) if next(chunks, None) else (_ for _ in ()).throw(KeyboardInterrupt)
        )
        with pytest.raises(KeyboardInterrupt):
            Index.build(small_embedder(), tmp_path / "photos", out=tmp_path / "index")
    assert len(Index.load(tmp_path / "index")) == 10
    index = Index.create(small_embedder(), out=tmp_path / "index")
    result = index.add(tmp_path / "photos", on_progress=lambda *progress: told.append(progress))
    assert (result.added, result.unchanged) == (2, 10)
    assert told[-1] == ("indexing", 12, 12)
    assert all(done < total for _, done, total in told[:-1])


def test_saved_and_loaded(index: Index, photos: list[Path], tmp_path: Path) -> None:
    temporary = Index.build(small_embedder(), photos, rows="float32")
    expected = temporary.search(photos[2], 7)
    temporary.save(tmp_path / "saved")
    where = temporary.folder
    temporary.close()
    assert not where.exists()
    again = Index.load(tmp_path / "saved")
    assert again.search(photos[2], 7) == expected
    assert {path.name for path in (tmp_path / "saved").iterdir()} >= {"index.json", "model", "store"}
    index.save(tmp_path / "saved")  # in its place
    assert Index.load(tmp_path / "saved").search(photos[2], 1)[0].label == "class 0"
    index.save(index.folder)
    assert len(index) == 12
    with pytest.raises(ValueError, match="is there and is not an index"):
        index.save(tmp_path / "photos")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["index", "photos", "saved"]


def test_removal(index: Index, photos: list[Path], tmp_path: Path) -> None:
    assert index.remove(photos[0]) == 1
    assert index.remove([str(tmp_path / "photos" / "class 1"), photos[1]], where="path~1.png") == 2
    assert index.remove(where="label=class 2") == 4
    assert {hit.path for hit in index.search(photos[0], 20)} == {str(path) for path in (photos[2], photos[3], photos[4], *photos[6:8])}
    with pytest.raises(ValueError, match="class 9 is not in"):
        index.remove(tmp_path / "photos" / "class 9")
    with pytest.raises(ValueError, match="nothing to remove"):
        index.remove()


def test_broken_images_are_told(photos: list[Path], tmp_path: Path) -> None:
    (tmp_path / "photos" / "class 0" / "broken.png").write_bytes(b"no image")
    index = Index.create(small_embedder(), out=tmp_path / "index")
    result = index.add(tmp_path / "photos")
    assert result.added == 12
    assert [problem.path.name for problem in result.skipped] == ["broken.png"]
    only_broken = index.add(tmp_path / "photos" / "class 0" / "broken.png")
    assert (only_broken.added, len(only_broken.skipped)) == (0, 1)
    photos[0].unlink()
    gone = Dataset("gone", Files((photos[0], photos[1])), np.array([-1, -1]), ())
    assert [str(problem) for problem in index.add(gone).skipped] == [f"{photos[0]}: cannot be read: No such file or directory"]


def test_a_calibrated_model_speaks(photos: list[Path], tmp_path: Path) -> None:
    embedder = small_embedder()
    index = Index.build(embedder, photos, out=tmp_path / "index")
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(40), 5)
    made = rng.normal(size=(40, 12))[labels] + 0.5 * rng.normal(size=(200, 12))
    embedder.calibration = calibrate(made, labels, false_accepts=0.1)
    assert index.search(photos[0], 1)[0].words is None
    again = Index.build(embedder, photos, out=tmp_path / "index")  # the same weights
    hits = again.search(photos[0], 12)
    assert hits[0].words == "very likely the same"
    assert hits[0].probability == pytest.approx(float(embedder.calibration.probability(hits[0].similarity)))
    assert Index.load(tmp_path / "index").search(photos[0], 12) == hits


def test_bits_are_searched_by_their_distance(photos: list[Path], tmp_path: Path) -> None:
    from likewise.evaluation.binary import hamming_nearest

    embedder = small_embedder(dim=20, binary=True)
    bits = embedder.embed(photos)
    index = Index.build(embedder, photos, rows="bits")
    neighbours, distance = hamming_nearest(bits[:3], bits, 6)
    found = index.search_many(photos[:3], 6)
    assert [[hit.path for hit in hits] for hits in found] == [[str(photos[i]) for i in row] for row in neighbours.tolist()]
    np.testing.assert_allclose([[hit.similarity for hit in hits] for hits in found], 1 - 2 * distance.numpy() / 20, atol=1e-6)


def test_one_writes_at_a_time(index: Index, photos: list[Path]) -> None:
    """And who does is said; who was killed holds nothing."""
    program = (
        "import sys, time\nfrom pathlib import Path\nfrom likewise.search.index_folder import only_writer\n"
        f"with only_writer(Path({str(index.folder)!r})):\n    print('writing', flush=True)\n    time.sleep(100)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "writing\n"
        with pytest.raises(ValueError, match=rf"is being written to by process {other.pid} on .* since \d\d:\d\d:\d\d \(-c\): wait until"):
            index.add(photos)
        assert len(index.search(photos[0], 3)) == 3
        other.kill()
    assert index.add(photos).unchanged == 12


def changed_description(index: Index, **values: object) -> Index:
    path = index.folder / "index.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))
    return Index.load(index.folder)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda index, root: Index.load(root / "nothing"), "nothing is not there: expected an index; `likewise index MODEL IMAGES"),
        (lambda index, root: Index.load(root / "photos"), r"holds no index\.json: expected an index"),
        (lambda index, root: changed_description(index, format=7), "is an index of format 7, and this version of likewise reads 1"),
        (lambda index, root: changed_description(index, store="fais"), "unknown store 'fais'"),
        (
            lambda index, root: (small_embedder(1).save(index.folder / "model"), Index.load(index.folder)),
            "is not the model that the vectors",
        ),
        (lambda index, root: Index.build(small_embedder(1), root / "photos", out=index.folder), "is an index by another model"),
        (lambda index, root: Index.create(small_embedder(), out=index.folder, rows="int8"), "is an index with the store exact , not exact"),
        (lambda index, root: Index.create(small_embedder(), out=root / "photos"), "is there and is not an index"),
        (lambda index, root: Index.create(small_embedder(), store="exakt"), "did you mean 'exact'"),
        (
            lambda index, root: Index.create(small_embedder(), out=root / "new", size=3),
            "unknown key of the options of the store exact 'size'",
        ),
        (lambda index, root: index.search(root / "nothing.jpg"), r"nothing\.jpg is not there: expected an image file"),
        (lambda index, root: index.search(root / "index" / "index.json"), r"index\.json cannot be embedded: not an image"),
        (lambda index, root: index.search(root / "photos" / "class 0" / "0.png", k=0), "k is 0"),
        (
            lambda index, root: index.search(root / "photos" / "class 0" / "0.png", where="labl=x"),
            "no image has a column 'labl': did you mean 'label'",
        ),
        (lambda index, root: index.search(root / "photos" / "class 0" / "0.png", where="label"), "condition 'label': expected a column"),
        (
            lambda index, root: (index.remove(root / "photos"), index.search(root / "photos" / "class 0" / "0.png")),
            "holds no images: add some",
        ),
        (lambda index, root: index.add("digits"), "digits holds no image files"),
        (lambda index, root: index.add(root / "nothing"), "is not there"),
        (lambda index, root: index.add([]), "nothing to embed"),
    ],
)
def test_faults_in_words(call: Any, message: str, index: Index, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        call(index, tmp_path)


def test_nothing_is_left_of_an_index_that_could_not_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for out in (tmp_path / "new", None):
        with pytest.raises(ValueError, match="size"):
            Index.create(small_embedder(), out=out, size=3)
    assert list(tmp_path.iterdir()) == []


def test_a_temporary_index_goes_with_its_object(photos: list[Path]) -> None:
    index = Index.build(small_embedder(), photos)
    folder = index.folder
    assert folder.is_dir()
    del index
    assert not folder.exists()
