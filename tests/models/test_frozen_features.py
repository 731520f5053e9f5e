"""Frozen features: what they are, that they are computed once, and that whatever happens to their files is noticed."""

import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from filelock import FileLock
from PIL import Image
from safetensors.torch import save_file
from torch import Tensor, nn

from likewise.data.augmentation import IMAGENET_MEAN, IMAGENET_STD
from likewise.data.dataset import Dataset, Features, Files, Pixels
from likewise.models import frozen_features as module
from likewise.models import onnx_network, streaming
from likewise.models.backbones import make_backbone
from likewise.models.frozen_features import FrozenFeatures, frozen_features
from likewise.models.images import DatasetImage

from ..optional import needs_package
from .drawn_photographs import drawn_photographs

SIDE = 64
COUNT = 20
BACKBONE = "convnet_small"


def make_images(folder: Path, count: int = COUNT) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, image in enumerate(drawn_photographs(count, SIDE)):
        image.save(folder / f"{number:03}.bmp")  # without loss, all of one size


def dataset(folder: Path) -> Dataset:
    paths = tuple(sorted(folder.iterdir()))
    return Dataset("made", Files(paths), np.arange(len(paths)) % 3, ("a", "b", "c"))


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a convnet whose norms have statistics of their own."""
    backbone = make_backbone(BACKBONE)
    generator = torch.Generator().manual_seed(5)
    for layer in backbone.modules():
        if isinstance(layer, nn.BatchNorm2d):
            assert layer.running_var is not None
            layer.running_var.uniform_(0.5, 2, generator=generator)
    path = tmp_path_factory.mktemp("weights") / "convnet.safetensors"
    save_file(backbone.state_dict(), path)
    return path


@pytest.fixture
def made(tmp_path: Path) -> Dataset:
    make_images(tmp_path / "images")
    return dataset(tmp_path / "images")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "cache"


class Compute:
    """`frozen_features` under these conditions, and how many images it had to decode."""

    def __init__(self, home: Path, weights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.home, self.weights, self.decoded = home, weights, 0
        original = streaming.loaded

        def counted(image: DatasetImage) -> Tensor | str:
            self.decoded += 1
            return original(image)

        monkeypatch.setattr(streaming, "loaded", counted)

    def __call__(self, data: Dataset, **changes: object) -> FrozenFeatures:
        settings: dict[str, object] = {
            "backbone": BACKBONE,
            "weights": self.weights,
            "augmentation": "centre64",
            "side": SIDE,
            "folder": self.home,
            "workers": 2,
        }
        self.decoded = 0
        return frozen_features(data, **(settings | changes))  # type: ignore[arg-type]


@pytest.fixture
def compute(home: Path, weights: Path, monkeypatch: pytest.MonkeyPatch) -> Compute:
    return Compute(home, weights, monkeypatch)


def by_hand(data: Dataset, weights: Path, *, mirror: bool = False) -> Tensor:
    """Pillow's pixels through the backbone, averaged over places."""
    from safetensors.torch import load_file

    assert isinstance(data.items, Files)
    backbone = make_backbone(BACKBONE)
    backbone.load_state_dict(load_file(weights))
    images = [np.asarray(Image.open(path).convert("RGB"), dtype=np.float32) / 255 for path in data.items.paths]
    pixels = (np.stack(images) - np.array(IMAGENET_MEAN)) / np.array(IMAGENET_STD)
    inputs = torch.from_numpy(pixels).float().permute(0, 3, 1, 2)
    with torch.no_grad():
        (maps,) = backbone.eval()(inputs.flip(3) if mirror else inputs, ("high",))
    return torch.as_tensor(maps.mean((2, 3)))


def assert_alike(given: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(given, expected, rtol=0, atol=1e-4 * float(expected.abs().max()))


def rows_files(home: Path) -> list[Path]:
    return sorted(home.rglob("*.rows"))


def test_features_are_the_backbones(made: Dataset, compute: Compute, weights: Path) -> None:
    features = compute(made)
    assert compute.decoded == COUNT
    assert_alike(features.vectors, by_hand(made, weights))
    assert features.indices.tolist() == list(range(COUNT))
    assert features.skipped == ()
    assert features.vectors.dtype == torch.float32


@pytest.mark.parametrize("missing", ["onnxruntime", None])
def test_with_and_without_onnxruntime(
    missing: str | None, made: Dataset, compute: Compute, weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if missing:
        monkeypatch.setitem(sys.modules, missing, None)
    else:
        needs_package("onnxruntime")
    used = []
    original = onnx_network.onnx_network
    monkeypatch.setattr(streaming, "onnx_network", lambda *given: used.append(original(*given)) or used[-1])  # type: ignore[func-returns-value]
    assert_alike(compute(made).vectors, by_hand(made, weights))
    assert [run is None for run in used] == [missing is not None]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU: torch.cuda.is_available()")
def test_a_gpu_gives_the_same_features(made: Dataset, compute: Compute, tmp_path: Path) -> None:
    on_cpu = compute(made, views=3).views
    on_gpu = compute(made, views=3, device="cuda", folder=tmp_path / "other").views
    assert on_gpu.device.type == "cpu"
    assert_alike(on_gpu[:, :2], on_cpu[:, :2])
    torch.testing.assert_close(on_gpu, on_cpu, rtol=0, atol=0.02 * float(on_cpu.abs().max()))  # a GPU does not round resized pixels


def test_computed_once_whatever_the_labels_order_or_part(made: Dataset, compute: Compute) -> None:
    whole = compute(made)
    again = compute(Dataset("made", made.items, 2 - made.labels, ("x", "y", "z")))
    assert compute.decoded == 0
    assert torch.equal(again.vectors, whole.vectors)
    some = np.array([17, 3, 4, 11])
    part = compute(made.subset(some))
    assert compute.decoded == 0
    assert torch.equal(part.vectors, whole.vectors[some])
    assert part.indices.tolist() == [0, 1, 2, 3]
    assert part.thumbnails.jpegs == tuple(whole.thumbnails.jpegs[i] for i in some)


def test_the_rest_of_a_part(made: Dataset, compute: Compute, home: Path, tmp_path: Path) -> None:
    compute(made.subset(np.arange(5, 12)))
    assert compute.decoded == 7
    whole = compute(made)
    assert compute.decoded == COUNT - 7
    assert torch.allclose(whole.vectors, compute(made, folder=tmp_path / "other").vectors, atol=1e-5)


def test_a_changed_file_is_computed_again(made: Dataset, compute: Compute, weights: Path) -> None:
    compute(made)
    assert isinstance(made.items, Files)
    path = made.items.paths[4]
    status = path.stat()
    Image.new("RGB", (SIDE, SIDE), "red").save(path)
    assert path.stat().st_size == status.st_size
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    assert_alike(compute(made).vectors, by_hand(made, weights))
    assert compute.decoded == 1


@pytest.mark.parametrize(
    "change",
    [{"pooling": "max"}, {"augmentation": "whole28"}, {"side": 72}, {"weights": "other"}],
    ids=lambda change: next(iter(change)),
)
def test_other_conditions_are_other_features(change: dict[str, object], made: Dataset, compute: Compute, tmp_path: Path) -> None:
    before = compute(made).vectors
    if "weights" in change:
        change = {"weights": tmp_path / "other.safetensors"}
        save_file(make_backbone(BACKBONE).state_dict(), tmp_path / "other.safetensors")
    after = compute(made, **change).vectors
    assert compute.decoded == COUNT
    assert not torch.allclose(before, after, atol=1e-3)
    assert torch.equal(compute(made).vectors, before)
    assert compute.decoded == 0


@pytest.mark.parametrize("damage", ["cut", "empty", "one bit", "other content", "no digest"])
def test_damage_is_noticed_and_mended(damage: str, made: Dataset, compute: Compute, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FILE_ROWS", 8)
    expected = compute(made).vectors
    files = rows_files(home)
    assert len(files) == 3
    for number, path in enumerate(files):
        content = bytearray(path.read_bytes())
        if damage == "one bit":
            content[(number + 1) * len(content) // 4] ^= 16
        changed = {"cut": content[: len(content) // 2], "empty": b"", "other content": b"rows" * 100, "no digest": content[:-32]}
        path.write_bytes(changed.get(damage, content))
    assert torch.allclose(compute(made).vectors, expected, atol=1e-5)
    assert compute.decoded == COUNT
    compute(made)
    assert compute.decoded == 0


def test_what_cannot_be_decoded_is_named_and_left_out(made: Dataset, compute: Compute, weights: Path) -> None:
    assert isinstance(made.items, Files)
    made.items.paths[2].write_bytes(b"no image")
    made.items.paths[3].unlink()
    features = compute(made)
    kept = np.setdiff1d(np.arange(COUNT), [2, 3])
    assert features.indices.tolist() == kept.tolist()
    assert_alike(features.vectors, by_hand(made.subset(kept), weights))
    assert [problem.path for problem in features.skipped] == [made.items.paths[2], made.items.paths[3]]
    assert "not an image" in features.skipped[0].reason
    assert "No such file" in features.skipped[1].reason
    assert compute(made).skipped == features.skipped
    assert compute.decoded == 0  # nor is a broken file looked at again
    drawn_photographs(1, SIDE, seed=9)[0].save(made.items.paths[3])
    assert len(compute(made).indices) == COUNT - 1
    assert compute.decoded == 1


def test_a_file_that_may_be_readable_later_is_tried_again(made: Dataset, compute: Compute, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(made.items, Files)
    refused = made.items.paths[6]
    original = Path.open

    def refusing(path: Path, *args: object, **settings: object) -> object:
        if path == refused:
            raise PermissionError(13, "Permission denied", str(path))
        return original(path, *args, **settings)  # type: ignore[call-overload]

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", refusing)
        assert [str(problem) for problem in compute(made).skipped] == [f"{refused}: cannot be read: Permission denied"]
    assert compute(made).skipped == ()
    assert compute.decoded == 1


def test_no_image_at_all_is_an_error(tmp_path: Path, compute: Compute) -> None:
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "a.png").write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"made: none of 1 images can be decoded; the first: .*a\.png: not an image"):
        compute(dataset(tmp_path / "images"))


def test_progress_goes_from_nothing_to_all_that_is_missing(made: Dataset, compute: Compute, capsys: pytest.CaptureFixture[str]) -> None:
    told: list[tuple[str, int, int]] = []
    compute(made.subset(np.arange(3)))
    compute(made, on_progress=lambda *told_now: told.append(told_now))
    assert {what for what, _, _ in told} == {"features of made"}
    assert [done for _, done, _ in told] == [0, 4, 8, 12, 16, 17]
    assert {total for _, _, total in told} == {COUNT - 3}
    told.clear()
    compute(made, on_progress=lambda *told_now: told.append(told_now))
    assert told == []
    assert capsys.readouterr() == ("", "")


def test_views(made: Dataset, compute: Compute, weights: Path) -> None:
    features = compute(made, views=4)
    assert features.views.shape == (COUNT, 4, features.vectors.shape[1])
    assert_alike(features.views[:, 0], by_hand(made, weights))
    assert_alike(features.views[:, 1], by_hand(made, weights, mirror=True))
    for one, other in ((0, 2), (1, 2), (2, 3)):
        assert not torch.allclose(features.views[:, one], features.views[:, other], atol=1e-3)
    assert torch.equal(compute(made).vectors, features.vectors)
    assert torch.equal(compute(made, views=2).views, features.views[:, :2])
    assert compute.decoded == 0


def test_a_view_does_not_depend_on_what_else_there_is(made: Dataset, compute: Compute, tmp_path: Path) -> None:
    some = np.array([13, 2])
    whole = compute(made, views=3).views[some]
    assert torch.allclose(compute(made.subset(some), views=3, folder=tmp_path / "other").views, whole, atol=1e-5)
    assert compute.decoded == 6


def test_pixels(compute: Compute, made: Dataset) -> None:
    assert isinstance(made.items, Files)
    array = np.stack([np.asarray(Image.open(path)) for path in made.items.paths])
    features = compute(Dataset("pixels", Pixels(array), made.labels, made.class_names))
    assert torch.allclose(features.vectors, compute(made).vectors, atol=1e-5)
    part = compute(Dataset("pixels", Pixels(array[5:9]), made.labels[5:9], made.class_names))
    assert compute.decoded == 0
    assert torch.equal(part.vectors, features.vectors[5:9])


def test_thumbnails_show_the_images(made: Dataset, compute: Compute) -> None:
    assert isinstance(made.items, Files)
    features = compute(made)
    for position, path in enumerate(made.items.paths):
        shown = features.thumbnails.image(position).permute(1, 2, 0).numpy().astype(float)
        assert abs(shown - np.asarray(Image.open(path))).mean() < 12  # of 255; another image is 60 away


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"views": 0}, "views=0"),
        ({"workers": 0}, "workers=0"),
        ({"augmentation": "crop224"}, "must not depend on chance"),
        ({"augmentation": "centre"}, "augmentation"),
        ({"backbone": "resnet18"}, "do not fit"),
        ({"weights": "nobodys"}, "nobodys"),
    ],
    ids=str,
)
def test_what_is_wrong_is_said(change: dict[str, object], message: str, made: Dataset, compute: Compute) -> None:
    with pytest.raises(ValueError, match=message):
        compute(made, **change)


def test_features_have_no_features(compute: Compute) -> None:
    with pytest.raises(ValueError, match="holds features"):
        compute(Dataset("vectors", Features(np.zeros((2, 3), np.float32)), np.zeros(2, np.int64), ("a",)))


def test_what_was_done_before_an_interruption_is_kept(made: Dataset, compute: Compute) -> None:
    def interrupt(what: str, done: int, total: int) -> None:
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compute(made, on_progress=interrupt)
    compute(made)
    assert compute.decoded == COUNT - 4


def test_warnings_are_as_before_when_threads_have_decoded(made: Dataset, compute: Compute) -> None:
    before = list(warnings.filters)
    compute(made)
    assert list(warnings.filters) == before


def test_whoever_waits_is_told(made: Dataset, compute: Compute, home: Path) -> None:
    compute(made.subset(np.arange(2)))
    (place,) = home.iterdir()
    lock = FileLock(place / "lock", thread_local=False)
    lock.acquire()
    told: list[str] = []

    def release(what: str, done: int, total: int) -> None:
        told.append(what)
        lock.release()

    compute(made, on_progress=release)
    assert told[0] == "waiting for another process that computes features of made"


def test_a_folder_that_cannot_be_written(made: Dataset, compute: Compute, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match=r"no features can be kept here .*LIKEWISE_CACHE"):
        compute(made, folder=tmp_path / "file")


def test_a_full_disk_is_said(made: Dataset, compute: Compute, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*given: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "write_rows", full)
    with pytest.raises(OSError, match=r"No space left on device for features: free some space"):
        compute(made)


PROCESS = """
import sys, time
from pathlib import Path
import numpy as np
from likewise.data.dataset import Dataset, Files
from likewise.models import frozen_features as module
from likewise.models import streaming

images, home, weights, seconds = Path(sys.argv[1]), sys.argv[2], sys.argv[3], float(sys.argv[4])
original, module.FILE_ROWS, streaming.BATCH = streaming.loaded, 4, 2

def slowly(image):
    time.sleep(seconds)
    sys.stdout.write(f"decoded {image.path.name}\\n")  # in one piece, as two threads write
    sys.stdout.flush()
    return original(image)

streaming.loaded = slowly
paths = tuple(sorted(images.iterdir()))
data = Dataset("made", Files(paths), np.zeros(len(paths), np.int64), ("a",))
features = module.frozen_features(
    data, backbone="convnet_small", weights=weights, augmentation="centre64", side=64, folder=home, workers=2,
    on_progress=lambda what, done, total: print("told", what, flush=True),
)
print("sum", float(features.vectors.double().sum()))
"""


def start(images: Path, home: Path, weights: Path, *, seconds: float = 0.0) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PROCESS, str(images), str(home), str(weights), str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})


def lines(process: subprocess.Popen[str], kind: str) -> list[str]:
    output, _ = process.communicate(timeout=60)
    return [line.removeprefix(kind).strip() for line in output.splitlines() if line.startswith(kind)]


@pytest.fixture
def ended() -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that are killed if the test does not end them."""
    processes: list[subprocess.Popen[str]] = []
    yield processes
    for process in processes:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("kind", [signal.SIGKILL, signal.SIGINT], ids=["kill -9", "Ctrl-C"])
def test_a_process_that_ended_early_is_gone_on_from(
    kind: signal.Signals, made: Dataset, compute: Compute, home: Path, weights: Path, ended: list[subprocess.Popen[str]]
) -> None:
    assert isinstance(made.items, Files)
    process = start(made.items.paths[0].parent, home, weights, seconds=0.3)
    ended.append(process)
    deadline = time.monotonic() + 60
    while not rows_files(home) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(kind)
    decoded = len(lines(process, "decoded "))
    assert process.returncode != 0
    assert 4 <= decoded < COUNT, "it was done before it could be ended"
    (place,) = home.iterdir()
    (place / ".abc.rows.0123abcd").write_bytes(b"unfinished")
    features = compute(made)
    assert compute.decoded <= COUNT - 4  # of what was in a file nothing is lost
    assert_alike(features.vectors, by_hand(made, weights))
    assert not (place / ".abc.rows.0123abcd").exists()


def test_two_processes_at_once_compute_once(made: Dataset, home: Path, weights: Path, ended: list[subprocess.Popen[str]]) -> None:
    assert isinstance(made.items, Files)
    ended.extend(start(made.items.paths[0].parent, home, weights, seconds=0.1) for _ in range(2))
    decoded = [lines(process, "decoded ") for process in ended]
    assert [process.returncode for process in ended] == [0, 0]
    assert sorted(decoded[0] + decoded[1]) == [path.name for path in made.items.paths]
