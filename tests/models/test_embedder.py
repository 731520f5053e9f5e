"""Embedder: every kind of item gives the vectors of the packed set; what is saved comes back; damage is refused."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from likewise.data import Dataset, Features, Files, Pixels, pack
from likewise.data.augmentation import Augmentation
from likewise.evaluation.binary import pack_bits
from likewise.models import LEVELS, Embedder, NetworkSpec, Preprocessing, embed_batches, embed_packed, freeze_batch_norm, make_network
from likewise.models.embedder import MANY

from ..optional import needs_package

CENTRE = Augmentation(28, "centre", mean=(0.5, 0.4, 0.3), std=(0.5, 0.6, 0.7))


def of_images(side: int | None = 32, **settings: object) -> Embedder:
    network = make_network(NetworkSpec("convnet", **{"dim": 12, **settings}), seed=0)  # type: ignore[arg-type]
    return Embedder(network, Preprocessing(side, CENTRE), {"method": "raw", "score": 0.5})


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    rng = np.random.default_rng(0)
    found = []
    for number, size in enumerate([(40, 60), (64, 32), (35, 35), (90, 70), (33, 50)]):
        found.append(tmp_path / f"{number}.{'jpg' if number % 2 else 'png'}")
        Image.fromarray(rng.integers(0, 256, (*size, 3), dtype=np.uint8)).save(found[-1])
    return found


def dataset(paths: list[Path]) -> Dataset:
    return Dataset("pictures", Files(tuple(paths)), np.zeros(len(paths), np.int64), ("one",))


def test_paths_equal_the_packed_set(paths: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIKEWISE_CACHE", str(tmp_path / "cache"))
    embedder = of_images()
    packed = pack(dataset(paths), side=32)
    expected = embed_packed(embedder.network, packed, CENTRE, batch=2).numpy()
    assert expected.shape == (5, 12)
    assert expected.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(expected, axis=1), 1, rtol=1e-6)
    assert np.abs(expected[0] - expected[1]).max() > 1e-3
    for items in (paths, [str(path) for path in paths], packed, dataset(paths)):
        np.testing.assert_array_equal(embedder.embed(items, batch=2), expected)
    np.testing.assert_allclose(embedder.embed(paths, batch=64), expected, rtol=0, atol=1e-6)


def test_paths_need_no_cache(paths: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIKEWISE_CACHE", str(tmp_path / "cache"))
    of_images().embed(paths)
    assert not (tmp_path / "cache").exists()


@pytest.fixture
def many(paths: list[Path]) -> list[Path]:
    return [paths[number % len(paths)] for number in range(MANY + 3)]


@pytest.mark.parametrize("missing", ["onnxruntime", None])
@pytest.mark.parametrize("settings", [{}, {"mirror": True}, {"levels": ("low", "high")}], ids=str)
def test_many_files_are_streamed_to_the_same_rows(
    settings: dict[str, Any], missing: str | None, many: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if missing:
        monkeypatch.setitem(sys.modules, missing, None)
    else:
        needs_package("onnxruntime")
    monkeypatch.setenv("LIKEWISE_CACHE", str(tmp_path / "cache"))
    embedder = of_images(levels=LEVELS)
    embedder.network.train()
    expected = np.concatenate([embedder.embed(many[start : start + 10], **settings) for start in range(0, len(many), 10)])
    told: list[tuple[str, int, int]] = []
    for items in (many, [str(path) for path in many], dataset(many)):
        rows = embedder.embed(items, on_progress=lambda *given: told.append(given), **settings)  # type: ignore[arg-type]
        np.testing.assert_allclose(rows, expected, rtol=0, atol=1e-4 * np.abs(expected).max())
    assert told[: len(told) // 3] == [("embedding", done, len(many)) for done in (*range(4, len(many), 4), len(many))]
    assert embedder.network.training
    assert not (tmp_path / "cache").exists()


def test_of_many_files_the_broken_one_is_named(many: list[Path], tmp_path: Path) -> None:
    (tmp_path / "broken.png").write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"broken\.png cannot be embedded: not an image.*; repair it or leave it out"):
        of_images().embed([*many, tmp_path / "broken.png"])
    with pytest.raises(ValueError, match=r"gone\.png cannot be embedded: cannot be read: No such file"):
        of_images().embed([*many, tmp_path / "gone.png"])


@pytest.mark.parametrize("count", [3, MANY])
def test_what_can_be_decoded_is_embedded(count: int, many: list[Path], tmp_path: Path) -> None:
    (tmp_path / "broken.png").write_bytes(b"nothing")
    embedder = of_images()
    given = dataset([*many[:2], tmp_path / "broken.png", *many[2:count]])
    rows, kept, skipped = embedder.embed_images(given)
    np.testing.assert_allclose(rows, embedder.embed(many[:count]), rtol=0, atol=1e-5)
    assert kept.tolist() == [0, 1, *range(3, count + 1)]
    assert [problem.path.name for problem in skipped] == ["broken.png"]
    with pytest.raises(ValueError, match="none of 1 images can be decoded"):
        embedder.embed_images(dataset([tmp_path / "broken.png"]))


def test_pillow_images_equal_their_files(paths: list[Path]) -> None:
    embedder = of_images()
    pngs = [path for path in paths if path.suffix == ".png"]
    turned = Image.open(paths[0])
    exif = turned.getexif()
    exif[0x0112] = 6
    turned.save(pngs[0].with_name("turned.png"), exif=exif)
    transparent = Image.open(paths[2]).convert("RGBA")
    transparent.putalpha(100)
    transparent.save(pngs[0].with_name("transparent.png"))
    pngs += [pngs[0].with_name("turned.png"), pngs[0].with_name("transparent.png")]
    np.testing.assert_array_equal(embedder.embed([Image.open(path) for path in pngs]), embedder.embed(pngs))
    assert np.abs(embedder.embed([pngs[0]]) - embedder.embed([pngs[-2]])).max() > 1e-3


def test_pixels_and_preprocessed_tensors() -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (3, 32, 32, 3), dtype=np.uint8)
    embedder = of_images()
    vectors = embedder.embed(pixels)
    cut = torch.from_numpy(pixels[:, 2:30, 2:30]).permute(0, 3, 1, 2) / 255
    mean, std = torch.tensor(CENTRE.mean).view(3, 1, 1), torch.tensor(CENTRE.std).view(3, 1, 1)
    np.testing.assert_allclose(embedder.embed((cut - mean) / std), vectors, atol=1e-5)
    np.testing.assert_array_equal(embedder.embed(torch.from_numpy(pixels)), vectors)
    np.testing.assert_array_equal(embedder.embed(Dataset("p", Pixels(pixels), np.zeros(3, np.int64), ("a",))), vectors)


def test_vectors() -> None:
    embedder = Embedder(make_network(NetworkSpec("mlp", in_features=6, dim=4), seed=0), None)
    array = np.random.default_rng(1).normal(size=(7, 6)).astype(np.float32)
    vectors = embedder.embed(array, batch=3)
    assert vectors.shape == (7, 4)
    np.testing.assert_array_equal(vectors, embed_batches(embedder.network, torch.from_numpy(array).split(3)).numpy())
    np.testing.assert_array_equal(embedder.embed(Dataset("f", Features(array), np.zeros(7, np.int64), ("a",)), batch=3), vectors)
    np.testing.assert_array_equal(embedder.embed(torch.from_numpy(array), batch=3), vectors)


def test_mirror_is_the_normalised_sum() -> None:
    embedder = of_images()
    images = torch.randn(4, 3, 28, 28)
    both = embedder.embed(images) + embedder.embed(images.flip(3))
    np.testing.assert_allclose(embedder.embed(images, mirror=True), both / np.linalg.norm(both, axis=1, keepdims=True), atol=1e-6)


def test_embeddings_as_the_heads_give_them(many: list[Path]) -> None:
    embedder = of_images(levels=LEVELS, binary=True, num_members=2)
    images = torch.rand(6, 3, 28, 28)
    plain = embedder.embed(images, normalize=False, batch=4)
    expected = torch.cat([output for member in embedder.network.members for output in member.eval()(images)], dim=1)  # type: ignore[operator]
    np.testing.assert_allclose(plain, expected.detach().numpy(), rtol=1e-5, atol=1e-6)
    assert np.linalg.norm(plain, axis=1).std() > 0.01
    for levels, bits in embedder.embed_levels(images).items():
        np.testing.assert_array_equal(bits, embedder.embed(images, levels=levels))
    files = embedder.embed(many, normalize=False)  # through onnxruntime where it is there
    np.testing.assert_allclose(files[:5], embedder.embed(many[:5], normalize=False), rtol=1e-3, atol=1e-4)
    assert embedder.embed([], normalize=False).shape == (0, 72)
    with pytest.raises(ValueError, match="normalize=False with mirror or levels"):
        embedder.embed(images, normalize=False, levels=("low",))


def test_single_levels_and_binary() -> None:
    embedder = of_images(levels=LEVELS)
    images = torch.randn(4, 3, 28, 28)
    whole, low = embedder.embed(images), embedder.embed(images, levels=("low",))
    assert (whole.shape, low.shape) == ((4, 36), (4, 12))
    np.testing.assert_allclose(low, whole[:, :12] / np.linalg.norm(whole[:, :12], axis=1, keepdims=True), atol=1e-6)
    bits = of_images(levels=LEVELS, binary=True).embed(images)
    assert bits.dtype == np.uint8
    np.testing.assert_array_equal(bits, pack_bits(whole).numpy())
    with pytest.raises(ValueError, match="expected at least one of high"):
        of_images().embed(images, levels=("low",))


def test_modes_are_restored_and_evaluation_mode_used() -> None:
    embedder = of_images(head="mlp")
    network = embedder.network
    freeze_batch_norm(network)
    network.train()
    network.members[0].heads.eval()
    before = [module.training for module in network.modules()]
    images = torch.randn(4, 3, 28, 28)
    first = embedder.embed(images, batch=4)
    np.testing.assert_allclose(embedder.embed(images, batch=3), first, atol=1e-6)  # batch statistics would differ
    assert [module.training for module in network.modules()] == before
    assert len(set(before)) == 2


def test_autocast_stays_near() -> None:
    network = of_images().network
    images = torch.randn(6, 3, 28, 28)
    rough = embed_batches(network, [images], autocast=torch.bfloat16)
    assert rough.dtype == torch.float32
    assert 0 < (rough - embed_batches(network, [images])).abs().max() < 0.05


@pytest.mark.parametrize("binary", [False, True])
def test_nothing_gives_no_rows(binary: bool) -> None:
    assert of_images(binary=binary).embed([]).shape == (0, 2 if binary else 12)


def test_progress_is_told_and_nothing_is_printed(
    paths: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LIKEWISE_CACHE", str(tmp_path / "cache"))
    told: list[tuple[str, int, int]] = []
    total = len(paths)
    of_images().embed(dataset(paths), batch=2, on_progress=lambda *told_now: told.append(told_now))
    assert told == [("packing pictures", total, total), *(("embedding", min(done, total), total) for done in range(2, total + 2, 2))]
    of_images().embed(paths)
    captured = capsys.readouterr()
    assert captured.out + captured.err == ""


def test_a_broken_image_is_named(paths: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIKEWISE_CACHE", str(tmp_path / "cache"))
    broken = paths[1].with_name("broken.jpg")
    broken.write_bytes(paths[1].read_bytes()[:-700])
    with pytest.raises(ValueError, match=r"broken.jpg cannot be embedded"):
        of_images().embed([*paths, broken])
    with pytest.raises(ValueError, match=r"broken.jpg: "):
        of_images().embed(dataset([*paths, broken]))
    with pytest.raises(ValueError, match=r"nowhere.png is not there: expected an image file"):
        of_images().embed([paths[0].with_name("nowhere.png")])
    with pytest.raises(ValueError, match="image 1 cannot be embedded: floating point"):
        of_images().embed([Image.new("RGB", (40, 40)), Image.new("F", (40, 40))])
    with Image.open(broken) as opened, pytest.raises(ValueError, match="image 0 cannot be embedded"):
        of_images().embed([opened])


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ("a.png", "items is 'a.png': expected a list"),
        (torch.zeros(2, 4, 8, 8), "torch.float32 of shape \\(2, 4, 8, 8\\): this embedder takes uint8 pixels"),
        (np.zeros((2, 3)), "float64 of shape \\(2, 3\\): this embedder takes uint8"),
        (Dataset("f", Features(np.zeros((2, 3), np.float32)), np.zeros(2, np.int64), ("a",)), "float32 of shape \\(2, 3\\)"),
    ],
)
def test_wrong_items(items: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        of_images().embed(items)  # type: ignore[arg-type]


def test_wrong_items_for_vectors() -> None:
    embedder = Embedder(make_network(NetworkSpec("identity", in_features=6), seed=0), None)
    with pytest.raises(ValueError, match=r"this embedder takes float vectors \(items, 6\)"):
        embedder.embed(["a.png"])
    with pytest.raises(ValueError, match=r"shape \(2, 5\): this embedder takes float vectors \(items, 6\)"):
        embedder.embed(torch.zeros(2, 5))
    with pytest.raises(ValueError, match="only images have a mirror"):
        embedder.embed(torch.zeros(2, 6), mirror=True)
    with pytest.raises(ValueError, match="batch=0"):
        embedder.embed(torch.zeros(2, 6), batch=0)


def test_preprocessing_must_be_certain_and_match_the_network() -> None:
    with pytest.raises(ValueError, match="must not depend on chance"):
        Preprocessing(32, Augmentation(28, "random"))
    with pytest.raises(ValueError, match="must not depend on chance"):
        Preprocessing(32, Augmentation(28, "centre", mirror=0.5))
    with pytest.raises(ValueError, match="'convnet' with preprocessing=None: expected a Preprocessing"):
        Embedder(make_network(NetworkSpec("convnet"), seed=0), None)


@pytest.mark.parametrize(
    "settings",
    [{}, {"levels": LEVELS, "head": "rll"}, {"num_members": 2, "pooling": "gem", "head": "mlp"}, {"head": "none", "binary": True}],
)
def test_round_trip_is_bit_equal(tmp_path: Path, settings: dict[str, object]) -> None:
    embedder = of_images(**settings)
    embedder.network.to(memory_format=torch.channels_last)
    images = torch.randn(4, 3, 28, 28)
    embedder.network.train()
    embedder.network(images)  # statistics that no fresh network has
    embedder.save(tmp_path / "run" / "embedder")
    assert sorted(os.listdir(tmp_path / "run")) == ["embedder"]
    assert sorted(os.listdir(tmp_path / "run" / "embedder")) == ["embedder.json", "model.safetensors"]
    for folder in (tmp_path / "run", str(tmp_path / "run" / "embedder")):
        loaded = Embedder.load(folder)
        assert loaded.network.spec == embedder.network.spec
        assert loaded.preprocessing == embedder.preprocessing
        assert loaded.card == embedder.card
        assert not loaded.network.training
        torch.testing.assert_close(loaded.network.state_dict(), embedder.network.state_dict(), rtol=0, atol=0)
        loaded.network.to(memory_format=torch.channels_last)
        np.testing.assert_array_equal(loaded.embed(images), embedder.embed(images))


def test_vectors_round_trip(tmp_path: Path) -> None:
    embedder = Embedder(make_network(NetworkSpec("mlp", in_features=6), seed=0), None)
    embedder.save(tmp_path / "m")
    loaded = Embedder.load(tmp_path / "m")
    assert loaded.preprocessing is None
    np.testing.assert_array_equal(loaded.embed(torch.ones(2, 6)), embedder.embed(torch.ones(2, 6)))


def test_save_replaces_an_embedder_and_nothing_else(tmp_path: Path) -> None:
    of_images().save(tmp_path / "m")
    of_images(dim=5).save(tmp_path / "m")
    assert Embedder.load(tmp_path / "m").network.width == 5
    assert os.listdir(tmp_path) == ["m"]
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("precious")
    with pytest.raises(ValueError, match="other is there and is not an embedder"):
        of_images().save(tmp_path / "other")
    assert (tmp_path / "other" / "thesis.tex").read_text() == "precious"


def test_a_failed_save_keeps_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of_images().save(tmp_path / "m")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("likewise.models.bundle.write_whole", full)
    with pytest.raises(OSError, match="No space left"):
        of_images(dim=5).save(tmp_path / "m")
    assert os.listdir(tmp_path) == ["m"]
    assert Embedder.load(tmp_path / "m").network.width == 12


def test_damage_is_refused(tmp_path: Path) -> None:
    of_images().save(tmp_path / "m")
    weights, description = tmp_path / "m" / "model.safetensors", tmp_path / "m" / "embedder.json"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    with pytest.raises(ValueError, match=r"model.safetensors differs from its checksum"):
        Embedder.load(tmp_path / "m")
    weights.unlink()
    with pytest.raises(ValueError, match=r"model.safetensors is missing"):
        Embedder.load(tmp_path / "m")
    good = json.loads(description.read_text())
    description.write_text(json.dumps({**good, "format": 99}))
    with pytest.raises(ValueError, match="written in format 99, and this version of likewise reads 1"):
        Embedder.load(tmp_path / "m")
    description.write_text("{")
    with pytest.raises(ValueError, match=r"embedder.json is (not a readable JSON file|damaged)"):
        Embedder.load(tmp_path / "m")
    description.unlink()
    with pytest.raises(ValueError, match="holds no embedder"):
        Embedder.load(tmp_path / "m")


def test_unknown_settings_are_refused(tmp_path: Path) -> None:
    of_images().save(tmp_path / "m")
    description = tmp_path / "m" / "embedder.json"
    stored = json.loads(description.read_text())
    stored["spec"]["colour"] = "red"
    description.write_text(json.dumps(stored))
    with pytest.raises(ValueError, match=r"does not fit this version of likewise .*colour"):
        Embedder.load(tmp_path / "m")


def test_what_json_cannot_hold_is_found_before_writing(tmp_path: Path) -> None:
    embedder = of_images()
    embedder.card["network"] = nn.Identity()
    with pytest.raises(TypeError, match="not JSON serializable"):
        embedder.save(tmp_path / "m")
    assert os.listdir(tmp_path) == []


def test_vectors_are_finite_on_the_way_in_and_out(tmp_path: Path) -> None:
    embedder = Embedder(make_network(NetworkSpec("mlp", in_features=6, dim=4), seed=0), None)
    vectors = torch.randn(5, 6)
    vectors[3, 2] = torch.nan
    with pytest.raises(ValueError, match=r"what is given of item 3 holds NaN or infinity \(1 of 5 items do\)"):
        embedder.embed(vectors)
    with torch.no_grad():
        next(embedder.network.parameters()).fill_(torch.nan)
    with pytest.raises(ValueError, match=r"what is computed of item 0 holds NaN or infinity \(5 of 5 items do\)"):
        embedder.embed(torch.randn(5, 6))
    embedder.save(tmp_path / "m")
    with pytest.raises(ValueError, match=r"model\.safetensors: .* holds NaN or infinity"):
        Embedder.load(tmp_path / "m")


def test_numbers_of_the_preprocessing_are_finite(tmp_path: Path) -> None:
    of_images().save(tmp_path / "m")
    description = tmp_path / "m" / "embedder.json"
    stored = json.loads(description.read_text())
    stored["preprocessing"]["augmentation"]["mean"][1] = float("nan")
    description.write_text(json.dumps(stored))
    with pytest.raises(ValueError, match=r"embedder\.json: preprocessing\.augmentation\.mean\[1\] is NaN or infinite"):
        Embedder.load(tmp_path / "m")
