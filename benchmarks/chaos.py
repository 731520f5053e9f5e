"""Kills, full disks, flipped bytes and races against a training, a comparison, an index and the service, for as long as asked.

    python benchmarks/chaos.py --minutes 30 [--seed N] [--only training] [--fault kills]

An attempt disturbs the work one to four times, then lets it come to its end. It is recovered where the end is what the undisturbed work
gives, to the last digit, or where the damage is told in a sentence; anything else is lost, and its folder is kept. A kill and a full disk
may not even be told in the end: the same command must then give the same result. Everything lies in one temporary folder and speaks on
loopback alone; one attempt runs at a time. Prints a table as Markdown.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
import urllib.error
import urllib.request
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

PATIENCE = 180.0  # seconds after which a process that has not ended hangs
FAULTS = ("kills", "fills", "flips", "races")
Work = Callable[[Path], object]


@dataclass(frozen=True)
class Ended:
    """How a process ended: with a result, in words, with a traceback, by a signal, or not at all."""

    how: str  # result, told, fault, killed, hang
    words: str


class Process:
    """A forked child at some work, in the place. limit: bytes that any file of it may have, as on a disk that is full."""

    def __init__(self, work: Work, place: Path, *, limit: int | None = None) -> None:
        reading, writing = os.pipe()
        self.pid, self.began = os.fork(), time.monotonic()
        if self.pid == 0:
            os.close(reading)
            _carry_out(work, place, limit, writing)
        os.close(writing)
        self.pipe = reading

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> Ended:
        content = b""
        while True:
            ready, _, _ = select.select([self.pipe], [], [], max(0.0, self.began + PATIENCE - time.monotonic()))
            if not ready:
                self.kill()
                break
            piece = os.read(self.pipe, 1 << 16)
            if not piece:
                break
            content += piece
        os.close(self.pipe)
        _, status = os.waitpid(self.pid, 0)
        if not ready:
            return Ended("hang", f"not ended after {PATIENCE:g} s")
        if content.endswith(b"\n"):
            return Ended(*json.loads(content))
        return Ended("killed", f"exit {os.waitstatus_to_exitcode(status)}")


def _carry_out(work: Work, place: Path, limit: int | None, pipe: int) -> None:
    """In the child: never returns."""
    quiet = os.open(os.devnull, os.O_RDWR)
    for number in (1, 2):
        os.dup2(quiet, number)
    if limit is not None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        for name in ("cache", "state"):
            os.environ[f"LIKEWISE_{name.upper()}"] = str(place / name)
        with warnings.catch_warnings(action="ignore"):
            ended = Ended("result", json.dumps(work(place), sort_keys=True, default=repr))
    except (ValueError, OSError) as fault:
        ended = Ended("told", str(fault)) if str(fault) else Ended("fault", traceback.format_exc())
    except BaseException as fault:
        # Where a disk is full, what torch and SQLAlchemy raise is no OSError; a sentence is a sentence.
        told = type(fault).__name__ == "TrainingStopped"
        ended = Ended("told" if told else "fault", str(fault) if told else traceback.format_exc())
    os.write(pipe, f"{json.dumps([ended.how, ended.words])}\n".encode())
    os._exit(0)


# --- the work


def images(place: Path) -> Path:
    """Small images of some classes."""
    from PIL import Image

    home = place / "images"
    for label in range(10):
        for number in range(6):
            path = home / f"class {label}" / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            draw = np.random.default_rng([label, number])
            pixels = np.random.default_rng(label).integers(0, 255, (5, 5, 3)) * 0.7 + draw.integers(0, 77, (5, 5, 3))
            Image.fromarray(pixels.astype(np.uint8)).resize((20, 20)).save(path)
            os.utime(path, ns=(10**18, 10**18))
    return home


def protocol(**changes: Any) -> Any:
    from likewise.protocols import load_protocol

    few: dict[str, Any] = {
        "backbone": "convnet",
        "steps": 6,
        "batch": 12,
        "dim": 8,
        "ks": (1, 2),
        "validation": 0.0,
        "few_classes": "more_images",
    }
    return replace(load_protocol("quick"), name="chaos", **(few | changes))


def training(place: Path) -> object:
    import likewise

    out = place / "out"
    resume = (out / "config.json").is_file()
    result = likewise.train(
        "contrastive", place / "images", protocol=protocol(steps=40), out=out, device="cpu", resume=resume, checkpoint_every=3
    )
    weights = likewise.Embedder.load(out).network.state_dict()
    digest = hashlib.sha256(b"".join(tensor.numpy().tobytes() for _, tensor in sorted(weights.items())))
    if told := [note for note in result.notes if "record of looks" in note]:
        raise ValueError(told[0])
    return [result.scores, digest.hexdigest()]


def comparison(place: Path) -> object:
    from likewise.comparison.compare import run_comparison
    from likewise.comparison.request import Request

    asked = {
        "methods": ("contrastive", "proxy_nca"),
        "protocol": protocol(),
        "seeds": 2,
        "trials": 3,
        "folds": 1,
        "tune": "rate",
        "jobs": 1,
    }
    results = run_comparison(Request(data=place / "images", out=place / "out", device="cpu", command="chaos", **asked))
    return [[method.name, method.scores, method.settings, method.p_value, method.standing] for method in results.methods]


def index(place: Path) -> object:
    """Half of the images, then all of them, then some less; searched."""
    from likewise.search.index import Index

    out = place / "out"
    folders = sorted((place / "images").iterdir())
    with closing(Index.build(_embedder(), [*folders[:5]], out=out, device="cpu")) as built:
        built.add(folders[5:])
        built.remove(where="label=class 3")
        built.add(folders[3])
        queries = np.random.default_rng(0).normal(size=(8, 8)).astype(np.float32)
        hits = built.search_vectors(queries, k=6)
        return [len(built), [[(Path(hit.path).name, hit.label, float(hit.similarity)) for hit in found] for found in hits]]


def service(place: Path) -> object:
    """An index behind HTTP: searched, marked; what was acknowledged is there after whatever happened."""
    from likewise.terminal.commands.serve_command import run_serve

    if not (place / "indexed").is_file():  # an index whose building was killed is gone on with first
        index(place)
        (place / "indexed").touch()
    marker = place / "acknowledged"
    limits = {"upload_bytes": 10**6, "pixels": 10**7, "rate": 0, "threads": 1, "queue": 8, "seconds": 10.0}
    reading, writing = os.pipe()
    server = os.fork()
    if server == 0:
        os.close(reading)
        os.dup2(writing, 1)
        sys.stdout = os.fdopen(1, "w", buffering=1)
        # the server dies with whoever asks it
        with suppress(Exception):
            import ctypes

            ctypes.CDLL(None).prctl(1, signal.SIGKILL)
        try:
            run_serve(place / "out", host="127.0.0.1", port=0, token=None, marks=True, limits=limits, behind_proxy=False, device="cpu")
        except (ValueError, OSError) as fault:
            print(f"error: {' '.join(str(fault).split())}", flush=True)
        except BaseException:
            print(f"traceback: {traceback.format_exc()!r}", flush=True)
        os._exit(0)
    os.close(writing)
    try:
        address = _address(reading)
        found = [_ask(address, f"/api/search?id={number}&k=4", {})["neighbours"] for number in (1, 2)]
        for item in (2, 3, 4, 5):
            _ask(address, "/api/marks", {"query_id": 1, "id": item, "mark": "right" if item % 2 else "wrong"})
            with marker.open("a") as file:
                file.write(f"{item}\n")
        marks = _ask(address, "/api/marks", None)["pairs"]
        there = {pair["id"] for pair in marks}
        promised = {int(line) for line in marker.read_text().split()}
        assert promised <= there, f"marks {promised - there} were acknowledged and are gone"
        return [[(one["name"], one["label"], one["similarity"]) for one in some] for some in found], sorted(there)
    finally:
        with suppress(ProcessLookupError):
            os.kill(server, signal.SIGKILL)
        os.waitpid(server, 0)


def _address(reading: int) -> str:
    printed = b""
    while b"Ctrl-C" not in printed:
        piece = os.read(reading, 4096)
        printed += piece
        if b"traceback:" in printed:
            raise RuntimeError(printed.decode(errors="replace"))
        if b"error:" in printed and printed.endswith(b"\n"):
            raise ValueError(printed.decode(errors="replace").strip())
        if not piece:
            raise RuntimeError(f"the server ended: {printed!r}")
    return next(word for word in printed.decode().split() if word.startswith("http://127.0.0.1:"))


def _ask(address: str, path: str, body: Any) -> Any:
    """A refusal in words is a ValueError; an answer that is none of ours fails."""
    data = json.dumps(body).encode() if body else None
    headers = {"content-type": "application/json"} if body else {}
    request = urllib.request.Request(address + path, data=data, headers=headers, method="GET" if body is None else "POST")
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read())
    except urllib.error.HTTPError as refused:
        raise ValueError(f"{refused.code}: {json.loads(refused.read())['error']}") from None


def _embedder() -> Any:
    from likewise.data.augmentation import Augmentation
    from likewise.models import Embedder, NetworkSpec, Preprocessing, make_network

    return Embedder(
        make_network(NetworkSpec("convnet", dim=8), seed=0).eval(), Preprocessing(16, Augmentation(16, "centre")), {"method": "raw"}
    )


WORKS: dict[str, Work] = {"training": training, "comparison": comparison, "index": index, "service": service}


# --- what befalls it


def attempt(work: Work, fault: str, place: Path, seconds: float, draw: Random) -> tuple[list[Ended], Ended]:
    """What the disturbed processes said, and how it ended."""
    disturbed: list[Ended] = []
    for _ in range(draw.choice((1, 1, 2, 4))):
        if fault == "kills":
            disturbed.append(_killed(work, place, draw.uniform(0, 1.3 * seconds)))
        elif fault == "fills":
            disturbed.append(_filled(work, place, draw))
        elif fault == "flips":
            disturbed.append(_killed(work, place, draw.uniform(0.2, 2.5) * seconds))
            _flip(place, draw)
        else:
            both = [Process(work, place)]
            time.sleep(draw.uniform(0, 0.3) * seconds)
            both.append(Process(work, place))
            if draw.random() < 0.3:
                time.sleep(draw.uniform(0, 1) * seconds)
                both[draw.randrange(2)].kill()
            disturbed += [process.wait() for process in both]
    return disturbed, Process(work, place).wait()


def _killed(work: Work, place: Path, after: float) -> Ended:
    process = Process(work, place)
    ready, _, _ = select.select([process.pipe], [], [], after)
    if not ready:
        process.kill()
    return process.wait()


def _filled(work: Work, place: Path, draw: Random) -> Ended:
    """A small disk where that can be had, or else a limit on every file."""
    if draw.random() < 0.5 or not _mount(place, draw.choice((60, 150, 300, 600, 1500))):
        return Process(work, place, limit=int(10 ** draw.uniform(1, 5.5))).wait()
    try:
        return Process(work, place).wait()
    finally:
        _unmount(place)


def _mount(place: Path, kilobytes: int) -> bool:
    """A file system of its own over the place, with what was there and so much room beside it."""
    import subprocess

    used = sum(file.stat().st_blocks * 512 + 4096 for file in place.rglob("*")) // 1024
    aside = place.with_name("aside")
    shutil.copytree(place, aside, symlinks=True)
    options = f"size={used + kilobytes}k"
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "chaos", str(place)], capture_output=True, check=False).returncode == 0
    if made:
        try:
            shutil.copytree(aside, place, symlinks=True, dirs_exist_ok=True)
        except (OSError, shutil.Error):
            _unmount(place)
            made = False
    shutil.rmtree(aside, ignore_errors=True)
    return made


def _unmount(place: Path) -> None:
    """What was written there stays: it becomes the place's own."""
    import subprocess

    aside = place.with_name("aside")
    shutil.rmtree(aside, ignore_errors=True)
    shutil.copytree(place, aside, symlinks=True)
    subprocess.run(["umount", "-l", str(place)], capture_output=True, check=True)
    shutil.rmtree(place)
    aside.rename(place)


def _flip(place: Path, draw: Random) -> None:
    """Bits of a random file of ours: of the result, or of the cache."""
    files = sorted(
        file for name in ("out", "cache", "state") for file in (place / name).rglob("*") if file.is_file() and file.stat().st_size
    )
    if not files:
        return
    file = draw.choice(files)
    content = bytearray(file.read_bytes())
    for _ in range(draw.choice((1, 1, 3, 20))):
        content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    times = file.stat()
    file.write_bytes(content)
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))  # as a failing disk does it
    (place / "flipped").write_text(str(file.relative_to(place)))


def judged(fault: str, disturbed: list[Ended], ended: Ended, expected: str) -> str:
    """same, told, or why it is lost."""
    for one in disturbed:
        if one.how in ("fault", "hang"):
            return f"{one.how} while disturbed: {one.words.strip().splitlines()[-1][:200]}"
        if one.how == "result" and one.words != expected:
            return "a disturbed process gave another result"
    if ended.how == "result":
        return "same" if ended.words == expected else "another result"
    if ended.how == "told" and fault == "flips":
        return "told"
    return f"{ended.how} in the end: {ended.words.strip().splitlines()[-1][:200]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=WORKS)
    parser.add_argument("--fault", choices=FAULTS)
    parser.add_argument("--keep", type=Path, help="lost attempts are kept here")
    asked = parser.parse_args()
    _import_everything()
    home = Path(tempfile.mkdtemp(prefix="likewise-chaos-"))
    place, pristine = home / "place", home / "pristine"
    images(pristine)
    chosen = [(work, fault) for work in WORKS for fault in FAULTS if asked.only in (None, work) and asked.fault in (None, fault)]
    expected, seconds = {}, {}
    for name in {work for work, _ in chosen}:
        shutil.copytree(pristine, place)
        began = time.monotonic()
        ended = Process(WORKS[name], place).wait()
        if ended.how != "result":
            raise SystemExit(f"{name}, undisturbed: {ended.how} {ended.words}")
        expected[name], seconds[name] = ended.words, time.monotonic() - began
        shutil.rmtree(place)
    counts: dict[tuple[str, str], Counter[str]] = {pair: Counter() for pair in chosen}
    until, number = time.monotonic() + 60 * asked.minutes, 0
    while time.monotonic() < until:
        for name, fault in chosen:
            if time.monotonic() > until:
                break
            number += 1
            draw = Random(f"{asked.seed}/{name}/{fault}/{number}")
            shutil.copytree(pristine, place)
            disturbed, ended = attempt(WORKS[name], fault, place, seconds[name], draw)
            how = judged(fault, disturbed, ended, expected[name])
            counts[name, fault]["attempts"] += 1
            counts[name, fault]["disturbances"] += len(disturbed)
            counts[name, fault][how if how in ("same", "told") else "lost"] += 1
            if how not in ("same", "told"):
                flipped = (place / "flipped").read_text() if (place / "flipped").is_file() else ""
                print(f"LOST {name}, {fault}, number {number} of seed {asked.seed}: {how} {flipped}", file=sys.stderr, flush=True)
                if asked.keep is not None:
                    shutil.copytree(place, asked.keep / f"{name}-{fault}-{number}", symlinks=True, dirs_exist_ok=True)
            shutil.rmtree(place, ignore_errors=True)
    shutil.rmtree(home, ignore_errors=True)
    print(_table(counts))


def _import_everything() -> None:
    """Before anything is forked, and so once."""
    from importlib import import_module

    for name in ("lightning_fabric", "optuna", "sqlalchemy", "uvicorn", "fastapi", "safetensors.torch", "likewise.serving.search_app"):
        import_module(name)
    for name in ("comparison.compare", "training.train", "search.index", "terminal.commands.serve_command"):
        import_module(f"likewise.{name}")
    sys.modules["torch"].set_num_threads(1)


def _table(counts: dict[tuple[str, str], Counter[str]]) -> str:
    lines = ["| work | fault | attempts | disturbances | same result | told in words | lost |", "|---|---|---|---|---|---|---|"]
    total: Counter[str] = Counter()
    columns = ("attempts", "disturbances", "same", "told", "lost")
    for (name, fault), found in counts.items():
        total += found
        lines.append(f"| {name} | {fault} | {' | '.join(str(found[column]) for column in columns)} |")
    lines.append(f"| all | | {' | '.join(str(total[column]) for column in columns)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
