"""The cache: packed once, reused, and nothing half-written whatever happens."""

import errno
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch
from filelock import FileLock
from PIL import Image

from likewise.data.dataset import Dataset, Features, Files, Pixels
from likewise.data.packing import cache, pack_workers
from likewise.data.packing.cache import pack
from likewise.data.packing.decode import decode
from likewise.data.packing.packed import HEAD, PackedImages
from likewise.files import is_unfinished
from likewise.sealing import Mended


def make_images(folder: Path, count: int, size: tuple[int, int] = (40, 30)) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    for number in range(count):
        pixels = rng.integers(0, 256, (size[1] // 10, size[0] // 10, 3), dtype=np.uint8)
        Image.fromarray(pixels).resize((size[0] + number % 7, size[1])).save(folder / f"{number:04}.jpg")


def dataset(folder: Path, *, name: str = "made", boxes: bool = False) -> Dataset:
    paths = tuple(sorted(folder.glob("*.*")))
    labels = np.arange(len(paths), dtype=np.int64) % 3
    return Dataset(name, Files(paths, ((1, 2, 21, 22),) * len(paths) if boxes else None), labels, ("a", "b", "c"))


def content(folder: Path) -> list[str]:
    """What lies in a cache folder, without locks."""
    return sorted(path.name for path in folder.iterdir() if path.suffix != ".lock") if folder.exists() else []


def same(packed: PackedImages, data: Dataset, side: int | None = 32) -> bool:
    assert isinstance(data.items, Files)
    expected = [decode(data.items.paths[index].read_bytes(), side=side) for index in packed.indices.tolist()]
    return all(torch.equal(packed.image(position), image) for position, image in enumerate(expected))


@pytest.fixture
def made(tmp_path: Path) -> Dataset:
    make_images(tmp_path / "images", 40)
    return dataset(tmp_path / "images")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def no_packing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise AssertionError("packed again")

    monkeypatch.setattr(cache, "_write", fail)


def test_packed_images_are_the_decoded_images(made: Dataset, home: Path) -> None:
    packed = pack(made, side=32, folder=home)
    assert len(packed) == 40
    assert same(packed, made)
    assert packed.labels.tolist() == made.labels.tolist()
    assert packed.indices.tolist() == list(range(40))
    assert len(content(home)) == 1
    packed.verify()


def test_sizes_and_boxes(made: Dataset, home: Path, tmp_path: Path) -> None:
    assert pack(made, folder=home).heights.tolist() == [256] * 40
    kept = pack(made, side=None, folder=home)
    assert kept.heights.tolist() == [30] * 40
    assert kept.widths.tolist() == [40 + number % 7 for number in range(40)]
    assert pack(made, side=100, enlarge=False, folder=home).heights.tolist() == [30] * 40
    cut = pack(dataset(tmp_path / "images", boxes=True), side=None, folder=home)
    assert torch.equal(cut.image(3), kept.image(3)[:, 2:22, 1:21])
    assert len(content(home)) == 4


def test_second_time_nothing_is_decoded(made: Dataset, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = pack(made, side=32, folder=home)
    no_packing(monkeypatch)
    second = pack(made, side=32, folder=home)
    assert torch.equal(first.buffer, second.buffer)
    other = Dataset("made", made.items, made.labels[::-1].copy(), made.class_names)
    assert pack(other, side=32, folder=home).labels.tolist() == other.labels.tolist()
    with pytest.raises(AssertionError, match="packed again"):
        pack(made, side=33, folder=home)


def test_default_folder_is_the_users(made: Dataset, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIKEWISE_CACHE", str(home))
    assert pack(made, side=32).path is not None
    assert len(content(home / "packed")) == 1
    monkeypatch.delenv("LIKEWISE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert cache.cache_folder() == Path("/x/likewise")


def test_same_bytes_with_any_number_of_workers(tmp_path: Path, home: Path) -> None:
    make_images(tmp_path / "images", 150)
    (tmp_path / "images" / "0077.jpg").write_bytes(b"not an image")
    data = dataset(tmp_path / "images")
    one = pack(data, side=32, folder=home / "one", workers=1)
    two = pack(data, side=32, folder=home / "two", workers=2)
    assert one.path is not None
    assert two.path is not None
    assert one.path.read_bytes() == two.path.read_bytes()
    assert len(two) == 149
    assert same(two, data)


def test_changed_file_is_packed_again_in_the_same_place(made: Dataset, home: Path) -> None:
    before = pack(made, side=32, folder=home)
    assert isinstance(made.items, Files)
    old_image = before.image(5).clone()
    path = made.items.paths[5]
    Image.new("RGB", (40, 30), "red").save(path)
    after = pack(made, side=32, folder=home)
    assert not torch.equal(after.image(5), old_image)
    assert same(after, made)
    assert torch.equal(before.image(5), old_image)  # who has the old file open keeps it
    assert len(content(home)) == 1
    os.utime(path, ns=(1, 1))  # the time alone is enough to look again
    assert pack(made, side=32, folder=home).path is not None
    assert int(cache.read_index(home / content(home)[0]).stamps[5, 1]) == 1


def test_corrupt_images_are_named_and_left_out(made: Dataset, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(made.items, Files)
    paths = made.items.paths
    paths[3].write_bytes(b"nothing")
    paths[7].write_bytes(paths[7].read_bytes()[:300])
    paths[9].unlink()
    packed = pack(made, side=32, folder=home)
    assert len(packed) == 37
    assert packed.indices.tolist() == [i for i in range(40) if i not in (3, 7, 9)]
    assert packed.labels.tolist() == made.labels[packed.indices.numpy()].tolist()
    assert same(packed, made)
    assert [problem.path for problem in packed.skipped] == [paths[3], paths[7], paths[9]]
    assert "not an image" in packed.skipped[0].reason
    assert "broken" in packed.skipped[1].reason
    assert "No such file" in packed.skipped[2].reason
    with monkeypatch.context() as patch:
        no_packing(patch)
        assert pack(made, side=32, folder=home).skipped == packed.skipped
        with pytest.raises(ValueError, match=r"0003\.jpg: not an image.*strict"):
            pack(made, side=32, folder=home, strict=True)
    make_images(paths[9].parent, 10)
    assert len(pack(made, side=32, folder=home)) == 40


@pytest.mark.parametrize("workers", [1, 2])
def test_strict_stops_and_keeps_nothing(made: Dataset, home: Path, workers: int) -> None:
    assert isinstance(made.items, Files)
    made.items.paths[3].write_bytes(b"nothing")
    before = psutil.Process().children()  # a browser or a database of other tests
    with pytest.raises(ValueError, match=r"0003\.jpg: not an image"):
        pack(made, side=32, folder=home, strict=True, workers=workers)
    assert content(home) == []
    assert psutil.Process().children() == before


def test_no_image_at_all_is_an_error(made: Dataset, home: Path) -> None:
    assert isinstance(made.items, Files)
    for path in made.items.paths:
        path.write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"none of 40 images.*0000\.jpg: not an image"):
        pack(made, side=32, folder=home)
    assert content(home) == []


def test_what_cannot_be_packed_says_so(made: Dataset, home: Path) -> None:
    with pytest.raises(ValueError, match="features"):
        pack(Dataset("f", Features(np.zeros((2, 3), np.float32)), np.zeros(2, np.int64), ("a",)))
    with pytest.raises(ValueError, match="no images"):
        pack(Dataset("f", Files(()), np.zeros(0, np.int64), ()))
    with pytest.raises(ValueError, match="side=0"):
        pack(made, side=0, folder=home)
    with pytest.raises(ValueError, match="workers=0"):
        pack(made, workers=0, folder=home)


def test_pixels_stay_in_memory(home: Path) -> None:
    array = np.random.default_rng(0).integers(0, 256, (5, 28, 28), dtype=np.uint8)
    data = Dataset("m", Pixels(array), np.arange(5), tuple("abcde"))
    packed = pack(data, folder=home)
    assert packed.path is None
    assert packed.heights.tolist() == [28] * 5
    assert np.array_equal(packed.image(4)[1].numpy(), array[4])
    assert pack(data, side=56, folder=home).widths.tolist() == [56] * 5
    assert not home.exists()


def test_names_with_odd_characters(made: Dataset, home: Path, tmp_path: Path) -> None:
    folder = tmp_path / "a b\n[red]ü%"
    make_images(folder, 3)
    (folder / os.fsdecode(b"z\xff.jpg")).write_bytes(b"nothing")
    packed = pack(dataset(folder, name="../[bold]ö/\n"), side=32, folder=home)
    assert len(packed) == 3
    assert packed.skipped[0].path == folder / os.fsdecode(b"z\xff.jpg")
    assert len(content(home)) == 1


@pytest.mark.parametrize("damage", ["cut", "index", "first image", "emptied"])
def test_a_damaged_cache_is_built_again(made: Dataset, home: Path, damage: str) -> None:
    packed = pack(made, side=32, folder=home)
    whole = bytearray((home / content(home)[0]).read_bytes())
    broken = bytearray(whole)
    if damage == "cut":
        del broken[-1000:]
    elif damage == "index":
        broken[-200] ^= 1
    elif damage == "first image":
        broken[len(HEAD)] ^= 1
    else:
        broken[:] = b""
    assert packed.path is not None
    packed.path.unlink()
    packed.path.write_bytes(broken)
    with pytest.warns(Mended, match="was damaged|packed file is damaged"):
        assert same(pack(made, side=32, folder=home), made)
    assert packed.path.read_bytes() == whole


@pytest.mark.parametrize("seed", range(5))
def test_a_flipped_byte_of_pixels_is_never_used(made: Dataset, home: Path, seed: int) -> None:
    packed = pack(made, side=32, folder=home)
    path = packed.path
    assert path is not None
    whole = path.read_bytes()
    path.unlink()
    flipped(path, whole, at=len(HEAD) + random.Random(seed).randrange(packed.num_bytes))
    again = pack(made, side=32, folder=home)
    with pytest.warns(Mended, match=r"image \d+ was damaged; it was decoded again"):
        assert same(again, made)
    assert path.read_bytes() == whole


def test_an_image_that_cannot_be_decoded_again_is_an_error(made: Dataset, home: Path) -> None:
    packed = pack(made, side=32, folder=home)
    path = packed.path
    assert path is not None
    assert isinstance(made.items, Files)
    whole = path.read_bytes()
    path.unlink()
    flipped(path, whole, at=len(HEAD) + int(packed.offsets[1]))
    opened = pack(made, side=32, folder=home)
    made.items.paths[1].unlink()
    with pytest.raises(ValueError, match=r"1 of 40 images .* first number 1; delete that file"):
        opened.verify()
    assert torch.equal(opened.image(0), packed.image(0))
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.warns(Mended, match="is damaged, and the images are packed again"):
        assert len(pack(made, side=32, folder=home)) == 39


def test_who_packed_anew_meanwhile_is_not_written_into(made: Dataset, home: Path) -> None:
    packed = pack(made, side=32, folder=home)
    path = packed.path
    assert path is not None
    whole = path.read_bytes()
    path.unlink()
    flipped(path, whole, at=len(HEAD))
    opened = pack(made, side=32, folder=home)
    path.unlink()
    path.write_bytes(b"another file of that name")
    with pytest.raises(ValueError, match="first number 0"):
        opened.image(0)
    assert path.read_bytes() == b"another file of that name"


def test_other_content_at_equal_size_and_time_is_noticed(made: Dataset, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(made.items, Files)
    pack(made, side=32, folder=home)
    path = made.items.paths[3]
    status, content = path.stat(), path.read_bytes()
    with Image.open(path) as image:
        size = image.size
    Image.new("RGB", size, "red").save(path, quality=5)
    red = path.read_bytes()
    path.write_bytes(red + b"\0" * (len(content) - len(red)))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    after = pack(made, side=32, folder=home)
    assert same(after, made)
    assert after.image(3)[0].float().mean() > 200
    with monkeypatch.context() as patch:  # touched, but not changed: looked at once, and nothing is packed
        no_packing(patch)
        for touched in made.items.paths[:5]:
            touched.chmod(0o600)
        assert same(pack(made, side=32, folder=home), made)
        read: list[Path] = []
        read_bytes = Path.read_bytes
        patch.setattr(Path, "read_bytes", lambda path: read.append(path) or read_bytes(path))  # type: ignore[func-returns-value]
        pack(made, side=32, folder=home)
        assert not read


def flipped(path: Path, whole: bytes, *, at: int) -> None:
    """Writes the file with one bit of that byte turned over."""
    broken = bytearray(whole)
    broken[at] ^= 1
    path.write_bytes(broken)


def test_full_disk(made: Dataset, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for place in ("write", "write_index"):
        with monkeypatch.context() as patch:
            patch.setattr(*((pack_workers.Packer, place) if place == "write" else (cache, place)), full)
            with pytest.raises(OSError, match=r"No space left.*nothing was kept.*LIKEWISE_CACHE") as caught:
                pack(made, side=32, folder=home)
        assert caught.value.errno == errno.ENOSPC
        assert content(home) == []
    assert same(pack(made, side=32, folder=home), made)


def test_folder_that_cannot_be_written(made: Dataset, home: Path) -> None:
    home.write_text("a file")
    with pytest.raises(OSError, match=r"cannot|no packed file can be written") as caught:
        pack(made, side=32, folder=home)
    assert str(home) in str(caught.value)
    home.unlink()
    assert len(pack(made, side=32, folder=home)) == 40


@pytest.mark.parametrize("when", ["before it is read", "while it is read"])
def test_file_that_changes_during_packing(made: Dataset, home: Path, monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    assert isinstance(made.items, Files)
    victim = made.items.paths[35]

    def meddling(data: bytes, **settings: object) -> torch.Tensor:
        victim.write_bytes(victim.read_bytes() + b"\0")
        return decode(data, **settings)  # type: ignore[arg-type]

    def meddling_status(descriptor: int) -> os.stat_result:
        os.utime(victim, ns=(2, 2))
        return os.stat(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(*((pack_workers, "decode", meddling) if when.startswith("before") else (os, "fstat", meddling_status)))
        with pytest.raises(ValueError, match=r"0035\.jpg changed while it was read"):
            pack(made, side=32, folder=home)
    assert content(home) == []
    assert same(pack(made, side=32, folder=home), made)


def test_leftovers_go_unless_their_owner_lives(made: Dataset, home: Path) -> None:
    home.mkdir()
    for name in ("gone", "alive"):
        (home / f".{name}-00.packed.0123abcd").write_bytes(b"half")
    with FileLock(home / "alive-00.packed.lock"):
        pack(made, side=32, folder=home)
    left = [path.name for path in home.iterdir() if is_unfinished(path)]
    assert left == [".alive-00.packed.0123abcd"]


def test_a_user_without_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LIKEWISE_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)

    def nobody() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", nobody)
    with pytest.raises(ValueError, match="set LIKEWISE_CACHE to a folder"):
        cache.cache_folder()


def test_progress_is_told_and_nothing_is_printed(made: Dataset, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told: list[tuple[str, int, int]] = []
    pack(made, side=32, folder=home, on_progress=lambda *progress: told.append(progress))
    assert told == [("packing made", 32, 40), ("packing made", 40, 40)]
    pack(made, side=32, folder=home, on_progress=lambda *progress: told.append(progress))
    assert len(told) == 2  # nothing was under way
    pack(made, side=33, folder=home)
    captured = capsys.readouterr()
    assert captured.out + captured.err == ""


def test_whoever_waits_for_another_process_is_told(made: Dataset, home: Path) -> None:
    path = pack(made, side=32, folder=home).path
    assert path is not None
    path.unlink()
    lock = FileLock(f"{path}.lock", thread_local=False)
    lock.acquire()
    told: list[tuple[str, int, int]] = []

    def hear(what: str, done: int, total: int) -> None:
        told.append((what, done, total))
        lock.release()

    pack(made, side=32, folder=home, on_progress=hear)
    waiting = f"waiting for another process that packs {path.name}"
    assert told == [(waiting, 0, 0), (waiting, 1, 1), ("packing made", 32, 40), ("packing made", 40, 40)]


# Real processes. The script packs a folder and says how; it logs each time that it really packs.
SCRIPT = """
import sys
from pathlib import Path
import numpy as np
from likewise.data.packing import cache
from likewise.data.dataset import Dataset, Files

images, home, workers, limit = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
if limit:
    import resource
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
paths = tuple(sorted(images.glob("*.*")))
write = cache._write
def logged(*arguments):
    with (home.parent / "log").open("a") as log:
        log.write("packed\\n")
    write(*arguments)
cache._write = logged
try:
    packed = cache.pack(Dataset("made", Files(paths), np.arange(len(paths)), ()), side=200, folder=home, workers=workers)
except OSError as fault:
    print(fault)
    sys.exit(3)
print(len(packed))
"""


def start(images: Path, home: Path, *, workers: int, limit: int = 0) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", SCRIPT, str(images), str(home), str(workers), str(limit)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})


def wait_for_size(process: subprocess.Popen[str], home: Path, size: int) -> list[psutil.Process]:
    """Until the unfinished file has grown to the size; then the packing processes."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        sizes = [path.stat().st_size for path in home.iterdir() if is_unfinished(path)] if home.exists() else []
        if sizes and sizes[0] >= size:
            break
        time.sleep(0.001)
    assert process.poll() is None, "it was done before it could be killed"
    return psutil.Process(process.pid).children()


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("many")
    make_images(folder, 300, (500, 400))
    return folder


@pytest.mark.parametrize(("workers", "kind"), [(1, signal.SIGKILL), (2, signal.SIGKILL), (1, signal.SIGINT), (2, signal.SIGINT)])
def test_killed_at_a_random_moment(many: Path, home: Path, workers: int, kind: signal.Signals) -> None:
    rng = random.Random(f"{workers} {kind}")
    data = dataset(many)
    for _ in range(2 if (workers, kind) == (1, signal.SIGKILL) else 1):
        process = start(many, home, workers=workers)
        children = wait_for_size(process, home, rng.randrange(64, 100 * 200 * 250 * 3))
        assert len(children) == (workers if workers > 1 else 0)
        os.kill(process.pid, kind)
        process.communicate(timeout=30)
        _, alive = psutil.wait_procs(children, timeout=30)
        assert not alive, "a packing process outlived its parent"
        assert not [name for name in content(home) if name.endswith(".packed")]
        if kind == signal.SIGINT:
            assert content(home) == []
    packed = pack(data, side=200, folder=home, workers=1)
    assert len(packed) == 300
    packed.verify()
    assert same(packed.subset(np.arange(0, 300, 50)), data, side=200)
    assert len(content(home)) == 1


def test_two_processes_at_once_pack_once(tmp_path: Path, home: Path) -> None:
    make_images(tmp_path / "images", 200, (500, 400))
    processes = [start(tmp_path / "images", home, workers=1) for _ in range(2)]
    for process in processes:
        output, errors = process.communicate(timeout=120)
        assert (process.returncode, output) == (0, "200\n"), errors
    assert (tmp_path / "log").read_text() == "packed\n"
    assert len(content(home)) == 1


def test_a_disk_that_really_takes_no_more(tmp_path: Path, home: Path) -> None:
    """A limit of the system on file size stands for the full disk: the write itself fails, in the worker."""
    make_images(tmp_path / "images", 80)
    process = start(tmp_path / "images", home, workers=2, limit=3_000_000)
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 3, errors
    assert "nothing was kept" in output
    assert content(home) == []


def test_a_worker_that_dies_is_reported(made: Dataset, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", "/bin/false")
        with pytest.raises(OSError, match=r"ended early \(exit code 1\)"):
            pack(made, side=32, folder=home, workers=2)
    assert content(home) == []
