"""What is answered: neighbours as evaluate and a plain loop have them, images, marks, and bad input in words."""

from __future__ import annotations

import shutil
import struct
import subprocess
import sys
import zlib
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import likewise
from likewise.search.feedback import Feedback
from likewise.search.index import Index

from .asking import Asker
from .conftest import Serve
from .made_index import A_CLASS, CLASSES, MadeIndex, as_bytes, made_image, make_index, small_embedder


def upload(asker: Asker, data: bytes, query: str = "", name: str = "photo.png") -> Any:
    return asker.post(f"/api/search?{query}", files={"image": (name, data)})


def all_items(asker: Asker) -> list[dict[str, Any]]:
    return list(asker.get("/api/items?limit=100").json()["items"])


def bomb(side: int) -> bytes:
    """A PNG that says it has so many pixels a side, and holds none of them."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 64)) + chunk(b"IEND", b"")


def test_neighbours_of_a_picture_are_those_of_a_plain_loop(serve: Serve, made: MadeIndex) -> None:
    asker = serve()
    answer = upload(asker, made.paths[7].read_bytes(), "k=5").json()
    embedder = small_embedder()
    vectors, query = embedder.embed(made.paths), embedder.embed([made.paths[7]])[0]
    expected = sorted(range(len(vectors)), key=lambda number: -float(sum(a * b for a, b in zip(query, vectors[number], strict=True))))[:5]
    assert [found["name"] for found in answer["neighbours"]] == [made.paths[number].name for number in expected]
    assert answer["neighbours"][0]["similarity"] == pytest.approx(1.0, abs=1e-3)
    for found, number in zip(answer["neighbours"], expected, strict=True):
        assert found["similarity"] == pytest.approx(float(query @ vectors[number]), abs=1e-3)
    assert answer["query"]["item"] is None
    assert answer["verdict"]["is_known"] is None
    assert "not calibrated" in answer["verdict"]["words"]


def test_recall_of_what_is_served_is_that_of_evaluate(serve: Serve, made: MadeIndex) -> None:
    """Every image asks by its id, and is not among its own neighbours."""
    asker = serve(rate=0)
    items = all_items(asker)
    assert len(items) == len(CLASSES) * A_CLASS
    hits = []
    for item in items:
        (found,) = asker.post(f"/api/search?id={item['id']}&k=1").json()["neighbours"]
        assert found["id"] != item["id"]
        hits.append(found["label"] == item["label"])
    labels = np.repeat(np.arange(len(CLASSES)), A_CLASS)
    scores = likewise.evaluate(small_embedder().embed(made.paths), labels, ks=[1], metrics=["R@K"])
    assert np.mean(hits) == pytest.approx(scores["R@1"])
    assert np.mean(hits) > 0


def test_search_by_id_gives_as_many_as_asked_for(serve: Serve) -> None:
    asker = serve()
    assert len(asker.post("/api/search?id=1&k=4").json()["neighbours"]) == 4
    assert len(asker.post("/api/search?id=1&k=200").json()["neighbours"]) == len(CLASSES) * A_CLASS - 1


def test_conditions(serve: Serve) -> None:
    asker = serve()
    answer = asker.post("/api/search?id=1&k=200&where=label=jade&where=year>=2003").json()
    assert [(found["label"], int(found["metadata"]["year"]) >= 2003) for found in answer["neighbours"]] == [("jade", True)] * 3
    assert asker.post("/api/search?id=1&where=place~HARB&k=200").json()["neighbours"][0]["metadata"]["place"] == "harbour"
    assert asker.post("/api/search?id=1&where=label=none").json()["neighbours"] == []
    typo = asker.post("/api/search?id=1&where=lable=jade")
    assert (typo.status_code, "did you mean 'label'" in typo.json()["error"]) == (422, True)
    assert asker.post("/api/search?id=1&where=jade").json()["error"].startswith("condition 'jade': expected a column")


def test_columns_and_items(serve: Serve) -> None:
    asker = serve()
    columns = {column["name"]: column for column in asker.get("/api/columns").json()["columns"]}
    assert list(columns) == ["label", "place", "year"]
    assert sorted(columns["label"]["values"]) == sorted(CLASSES)
    assert columns["place"]["num_items"] == len(CLASSES) * A_CLASS
    assert len(asker.get("/api/items?limit=5").json()["items"]) == 5
    assert {item["label"] for item in asker.get("/api/items?where=label=navy").json()["items"]} == {"navy"}
    item = asker.get("/api/items/1").json()
    assert item == {**item, "id": 1, "name": "crimson0.png", "label": "crimson", "image": "api/images/1"}
    assert "/" not in item["name"]


def test_about_and_health(serve: Serve) -> None:
    asker = serve(upload_bytes=5000)
    about = asker.get("/api/index").json()
    assert (about["num_items"], about["upload_bytes"], about["is_calibrated"], about["store"]) == (24, 5000, False, "exact")
    assert asker.get("/api/health").json() == {"status": "ok", "num_items": 24}


def test_images_are_upright_jpegs_without_what_the_file_tells_besides(serve: Serve, changed: MadeIndex) -> None:
    picture = made_image(0, 99, (64, 32))
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was held upright
    exif[0x010E] = "at home"
    changed.paths[0].write_bytes(as_bytes(picture, "JPEG", exif=exif, quality=95))
    asker = serve(changed.folder)
    answer = asker.get("/api/images/1?size=full")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "image/jpeg")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert b"at home" not in answer.content
    shown = Image.open(BytesIO(answer.content))
    assert shown.size == (32, 64)
    upright = np.asarray(picture.rotate(-90, expand=True)).astype(int)
    assert abs(np.asarray(shown.convert("RGB")).astype(int) - upright).mean() < 12
    again = asker.get("/api/images/1?size=full", headers={"if-none-match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_thumbnails_are_small(serve: Serve, changed: MadeIndex) -> None:
    made_image(0, 1, (1600, 400)).save(changed.paths[0])
    asker = serve(changed.folder)
    assert Image.open(BytesIO(asker.get("/api/images/1?size=thumb").content)).size == (320, 80)
    assert Image.open(BytesIO(asker.get("/api/images/1").content)).size == (1600, 400)


def test_a_removed_file_is_told_and_found_all_the_same(serve: Serve, changed: MadeIndex) -> None:
    changed.paths[0].unlink()
    asker = serve(changed.folder)
    for address in ("/api/images/1", "/api/images/1?size=thumb", "/api/explain?query_id=2&id=1"):
        gone = asker.get(address)
        assert gone.status_code == 410
        assert "crimson0.png is not there any more" in gone.json()["error"]
        assert str(changed.images) not in gone.text
    assert asker.post("/api/search?id=1&k=3").status_code == 200
    assert asker.get("/api/items/1").json()["name"] == "crimson0.png"
    changed.paths[1].write_bytes(b"no image any more")
    assert "cannot be shown any more: not an image" in asker.get("/api/images/2").json()["error"]


def test_an_image_that_is_not_there(serve: Serve) -> None:
    asker = serve()
    for address in ("/api/items/999", "/api/images/999"):
        answer = asker.get(address)
        assert (answer.status_code, answer.json()["error"]) == (404, "there is no image 999 in the index: it was removed, or never there")
    assert asker.post("/api/search?id=999").status_code == 404
    for number in (2**63, 10**30):
        for method, address in (
            ("GET", f"/api/images/{number}"),
            ("POST", f"/api/search?id={number}"),
            ("GET", f"/api/explain?id=1&query_id={number}"),
        ):
            assert asker.request(method, address).status_code == 404, address


def test_an_index_that_was_deleted_or_made_anew_is_told(serve: Serve, changed: MadeIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was opened is not mixed with what lies there now."""
    monkeypatch.setattr("likewise.serving.search_service.REFRESHED_EVERY", 0)
    asker = serve(changed.folder)
    kept = changed.folder.rename(changed.folder.with_name("kept"))
    for words in ("deleted", "made anew"):
        for method, address in (("POST", "/api/search?id=1"), ("GET", "/api/health")):
            answer = asker.request(method, address)
            assert (answer.status_code, words in answer.json()["error"]) == (503, True), answer.text
            assert str(changed.folder) not in answer.text
        if words == "deleted":
            shutil.copytree(kept, changed.folder)
    shutil.rmtree(changed.folder)
    kept.rename(changed.folder)
    assert asker.post("/api/search?id=1").status_code == 200


def test_rows_that_are_missing_are_told_and_come_back(serve: Serve, changed: MadeIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("likewise.serving.search_service.REFRESHED_EVERY", 0)
    asker = serve(changed.folder)
    (rows,) = (changed.folder / "store").glob("rows-*.float16")
    kept = rows.rename(changed.folder / "kept")
    for method, address in (("POST", "/api/search?id=1"), ("GET", "/api/health"), ("GET", "/api/items")):
        answer = asker.request(method, address)
        assert (answer.status_code, "files of rows are missing" in answer.json()["error"]) == (503, True), answer.text
        assert str(changed.folder) not in answer.text
    kept.rename(rows)
    assert asker.post("/api/search?id=1").status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/api/images/..%2f..%2fetc%2fpasswd",
        "/api/images/../../etc/passwd",
        "/api/images//etc/passwd",
        "/api/images/1%00.png",
        "/api/images/-1",
        "/api/pictures/..%2f..%2f..%2fetc%2fpasswd",
        "/api/pictures/....",
        "/search.html/../../answers.py",
        "/answers.py",
        "/..%2f..%2fpyproject.toml",
    ],
)
def test_no_path_leads_outside(serve: Serve, path: str) -> None:
    answer = serve().get(path)
    assert answer.status_code in (404, 410, 422)
    assert answer.json()["error"]
    assert "root:" not in answer.text


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "the file is empty"),
        (b"<svg onload=alert(1)>", "not an image"),
        (as_bytes(made_image(0, 0))[:300], "broken image"),
        (bomb(30_000), "more pixels than the limit of 100,000,000: a decompression bomb"),
        (bomb(12_000), "12000 x 12000 pixels, more than the limit of 100,000,000"),
    ],
    ids=["empty", "svg", "cut off", "30,000 pixels a side", "12,000 pixels a side"],
)
def test_what_is_no_picture_is_refused_in_words(serve: Serve, data: bytes, words: str) -> None:
    answer = upload(serve(), data)
    assert answer.status_code == 422
    assert words in answer.json()["error"]


def test_large_uploads_are_refused(serve: Serve) -> None:
    asker = serve(upload_bytes=20_000)
    answer = upload(asker, b"\xff\xd8\xff" + bytes(50_000))
    assert answer.status_code == 413
    assert "larger than 0.02 MB" in answer.json()["error"]


@pytest.mark.parametrize(
    ("request_of", "status", "words"),
    [
        ({"path": "/api/search"}, 422, "expected one of a picture"),
        ({"path": "/api/search?id=1&picture=x"}, 422, "expected one of a picture"),
        ({"path": "/api/search?id=one"}, 422, "id is 'one'"),
        ({"path": "/api/search?id=1&k=0"}, 422, "k is '0'"),
        ({"path": "/api/search?id=1&k=100000"}, 422, "less than or equal to 200"),
        ({"path": "/api/search", "content": b"{}", "headers": {"content-type": "application/json"}}, 415, "expected a form"),
        ({"path": "/api/search", "content": b"abc", "headers": {"content-type": "multipart/form-data"}}, 400, "boundary"),
        ({"path": "/api/search", "files": {"picture": ("a.png", b"x")}}, 422, "no file 'image', it has 'picture'"),
        ({"path": "/api/search", "files": [("image", ("a", b"x")), ("image", ("b", b"x"))]}, 400, "Too many files"),
        ({"path": "/api/search?picture=0123"}, 410, "not remembered any more"),
        ({"path": "/api/marks", "json": {"id": 1}}, 422, "mark: field required"),
        ({"path": "/api/marks", "json": {"id": 1, "query_id": 2, "mark": "maybe"}}, 422, "mark is 'maybe'"),
        ({"path": "/api/marks", "json": {"id": 1, "query_id": 1, "mark": "right"}}, 422, "an image and itself"),
        ({"path": "/api/marks", "json": {"id": 1, "mark": "right"}}, 422, "one of query_id and picture"),
        (
            {"path": "/api/marks", "content": b"\xff\xfe{", "headers": {"content-type": "application/json"}},
            400,
            "its bytes are no text in UTF-8",
        ),
        ({"path": "/api/marks", "content": b"{", "headers": {"content-type": "application/json"}}, 422, "the body is not JSON (Expec"),
        ({"path": "/api/marks", "json": [1]}, 422, "expected: a JSON object, sent as application/json"),
        ({"path": "/api/marks"}, 422, "expected: a JSON object, sent as application/json"),
        ({"path": "/api/nothing"}, 404, "there is nothing at /api/nothing"),
        ({"path": "/api/health"}, 405, "POST is not for /api/health"),
    ],
)
def test_requests_that_make_no_sense_are_told_why(serve: Serve, request_of: dict[str, Any], status: int, words: str) -> None:
    answer = serve().post(**request_of)
    assert (answer.status_code, words in answer.json()["error"]) == (status, True), answer.text


def test_a_picture_is_remembered_for_conditions_and_its_own_image(serve: Serve, changed: MadeIndex) -> None:
    asker = serve(changed.folder)
    first = upload(asker, changed.paths[3].read_bytes(), "k=3").json()
    handle = first["query"]["picture"]
    again = asker.post(f"/api/search?picture={handle}&k=3").json()
    assert again["neighbours"] == first["neighbours"]
    assert asker.get(first["query"]["image"]).headers["content-type"] == "image/jpeg"
    assert not (changed.folder / "feedback").exists()  # nothing is kept before something is marked


def test_marks_are_kept_as_pairs_with_the_picture(serve: Serve, changed: MadeIndex) -> None:
    asker = serve(changed.folder)
    data = as_bytes(made_image(1, 77), "JPEG")
    handle = upload(asker, data).json()["query"]["picture"]
    for id, mark in ((7, "right"), (1, "wrong"), (2, "right"), (2, None)):
        assert asker.post("/api/marks", json={"picture": handle, "id": id, "mark": mark}).json()["mark"] == mark
    assert asker.post("/api/marks", json={"query_id": 3, "id": 4, "mark": "right"}).json()["num_marks"] == 3
    pairs = Feedback(changed.folder).pairs()
    assert [(Path(pair.item.path).name, pair.is_same) for pair in pairs] == [
        ("jade0.png", True),
        ("crimson0.png", False),
        ("crimson3.png", True),
    ]
    assert Path(pairs[0].query.path).read_bytes() == data
    assert Path(pairs[0].query.path).is_relative_to(changed.folder / "feedback")
    assert pairs[2].query.path == str(changed.paths[2])
    vectors = small_embedder().embed([changed.paths[2], changed.paths[3]])
    assert pairs[2].similarity == pytest.approx(float(vectors[0] @ vectors[1]), abs=1e-3)
    # they are seen by whoever searches next, after a restart too, whichever of the two asks
    later = serve(changed.folder)
    found = {one["id"]: one["mark"] for one in later.post(f"/api/search?picture={handle}&k=24").json()["neighbours"]}
    assert (found[7], found[1], found[2]) == ("right", "wrong", None)
    assert {one["id"]: one["mark"] for one in later.post("/api/search?id=4&k=24").json()["neighbours"]}[3] == "right"
    listed = later.get("/api/marks").json()["pairs"]
    assert [(pair["query_id"], pair["id"], pair["mark"]) for pair in listed] == [(None, 7, "right"), (None, 1, "wrong"), (3, 4, "right")]


def test_marks_can_be_turned_off(serve: Serve) -> None:
    answer = serve(takes_marks=False).post("/api/marks", json={"query_id": 1, "id": 2, "mark": "right"})
    assert (answer.status_code, "takes no marks" in answer.json()["error"]) == (403, True)


def test_similarities_have_words_where_the_model_is_calibrated(serve: Serve, tmp_path: Path) -> None:
    folder = make_index(tmp_path / "other", calibrated=True).folder
    index, asker = Index.load(folder, "cpu"), serve(folder)
    assert index.calibration is not None
    assert index.calibration.known is not None
    data = as_bytes(made_image(2, 50))
    answer = upload(asker, data, "k=24").json()
    expected = index.search(Image.open(BytesIO(data)), k=24)
    assert [found["words"] for found in answer["neighbours"]] == [hit.words for hit in expected]
    assert [found["probability"] for found in answer["neighbours"]] == pytest.approx([hit.probability for hit in expected], abs=1e-4)
    is_known = answer["neighbours"][0]["similarity"] >= index.calibration.known.value
    assert answer["verdict"]["is_known"] == is_known
    far = asker.post("/api/search?id=1&k=24&where=label=navy").json()
    nearest = far["neighbours"][0]["similarity"]
    assert far["verdict"]["is_known"] == (nearest >= index.calibration.known.value)
    assert far["verdict"]["words"].startswith("unknown") == (nearest < index.calibration.known.value)
    index.close()


def test_why_adds_up_to_the_similarity(serve: Serve, made: MadeIndex) -> None:
    asker = serve()
    found = asker.post("/api/search?id=1&k=1").json()["neighbours"][0]
    answer = asker.get(f"/api/explain?query_id=1&id={found['id']}").json()
    assert answer["similarity"] == pytest.approx(found["similarity"], abs=2e-3)
    for side in ("a", "b"):
        assert np.sum(answer[side]["heat"]) + answer[side]["rest"] == pytest.approx(answer["similarity"], abs=1e-5)
        assert np.shape(answer[side]["heat"]) == tuple(answer[side]["grid"])
        assert answer[side]["picture"].startswith("data:image/jpeg;base64,")
    handle = upload(asker, made.paths[0].read_bytes()).json()["query"]["picture"]
    assert asker.get(f"/api/explain?picture={handle}&id={found['id']}").json()["similarity"] == pytest.approx(
        answer["similarity"], abs=2e-3
    )
    assert asker.get("/api/explain?id=1").json()["error"].startswith("what the image is compared with")


def test_what_another_process_adds_and_removes_is_seen(serve: Serve, changed: MadeIndex) -> None:
    asker = serve(changed.folder)
    assert asker.get("/api/health").json()["num_items"] == 24
    new = changed.images / "crimson" / "new.png"
    made_image(0, 60).save(new)
    program = (
        "import sys\nfrom likewise.search.index import Index\nindex = Index.load(sys.argv[1], 'cpu')\n"
        "index.add(sys.argv[2])\nindex.remove(sys.argv[3])\nindex.close()"
    )
    subprocess.run([sys.executable, "-c", program, str(changed.folder), str(new), str(changed.paths[0])], check=True)
    assert [item["name"] for item in asker.get("/api/items?where=path~new.png").json()["items"]] == ["new.png"]
    answer = upload(asker, new.read_bytes(), "k=30").json()
    names = [found["name"] for found in answer["neighbours"]]
    assert names[0] == "new.png"
    assert "crimson0.png" not in names
    assert len(names) == 24
    assert asker.post("/api/search?id=1").status_code == 404


def test_an_empty_index_answers(serve: Serve, changed: MadeIndex) -> None:
    index = Index.load(changed.folder, "cpu")
    index.remove(where="label!=none")
    index.close()
    asker = serve(changed.folder)
    answer = upload(asker, as_bytes(made_image(0, 0)))
    assert (answer.status_code, answer.json()["neighbours"]) == (200, [])
    assert asker.get("/api/columns").json() == {"columns": []}
    assert asker.get("/api/items").json() == {"items": []}


def test_boxes_are_what_is_shown(serve: Serve, tmp_path: Path) -> None:
    both = Image.new("RGB", (96, 48), "white")
    both.paste(made_image(1, 0, (48, 48)), (48, 0))
    both.save(tmp_path / "both.png")
    (tmp_path / "boxes.csv").write_text("path,label,x_1,y_1,x_2,y_2\nboth.png,jade,48,0,96,48\n", encoding="utf-8")
    Index.build(small_embedder(), tmp_path / "boxes.csv", out=tmp_path / "boxes.index", device="cpu").close()
    asker = serve(tmp_path / "boxes.index")
    shown = np.asarray(Image.open(BytesIO(asker.get("/api/images/1").content)).convert("RGB")).astype(int)
    assert shown.shape == (48, 48, 3)
    assert abs(shown - np.asarray(made_image(1, 0, (48, 48))).astype(int)).mean() < 12


def test_the_interface_is_described(serve: Serve) -> None:
    asker = serve()
    description = asker.get("/openapi.json").json()
    paths = {
        "/api/search", "/api/explain", "/api/columns", "/api/index", "/api/health", "/api/items", "/api/items/{id}", "/api/images/{id}",
        "/api/pictures/{handle}", "/api/marks",
    }  # fmt: skip
    assert set(description["paths"]) == paths
    page = asker.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    for path in paths:
        assert path in page.text
    assert "neighbours[].similarity" in page.text
    assert "<script" not in page.text
    assert "http://localhost:8000/api/search" in page.text
    assert (
        "Authorization: Bearer"
        in serve(token="a-token-of-many-letters").get("/docs", headers={"authorization": "Bearer a-token-of-many-letters"}).text
    )


def test_pages_ask_for_nothing_from_elsewhere(serve: Serve) -> None:
    asker = serve()
    for path in ("/", "/search.css", "/search.js", "/search_why.js", "/search_input.js", "/docs"):
        text = asker.get(path).text
        assert "://" not in text.replace("http://localhost:8000", "")
        assert "@import" not in text


def test_a_fault_inside_is_told_without_what_it_was(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asker = serve()

    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("secret path /home/somebody")

    monkeypatch.setattr(Index, "search_vectors", broken)
    answer = asker.post("/api/search?id=1")
    assert (answer.status_code, "secret" in answer.text) == (500, False)
    assert "secret path" in caplog.text
