"""Cases tried in processes of their own: a crash, a hang or a flood of memory ends the process and is told by its case.

A process imports the package once and is forked for every few cases; each case says when it begins and how it ended.
"""

from __future__ import annotations

import faulthandler
import hashlib
import json
import os
import resource
import select
import shutil
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from .formats import FORMATS, Format
from .mutations import mutated

SECONDS = 20.0  # of a case, by the clock of the processor; by the wall's, three times as many
MEMORY = 1 << 30  # bytes that a case may ask for beyond what the process has
LONGEST = 1500  # letters of a message, in a line or two
ACCEPTED = ("result", "refused")


@dataclass(frozen=True)
class Case:
    """One damaged file. Its number and seed make it again."""

    format: str
    seed: int
    number: int

    @property
    def command(self) -> str:
        return f"python -m tests.fuzz --only '{self.format}' --seed {self.seed} --case {self.number}"


@dataclass(frozen=True)
class Outcome:
    """How one reader took it."""

    case: Case
    read: str
    what: str  # result, refused; or traceback, unnamed, wordy, unsound, changed, crash, hang, memory
    words: str = ""

    @property
    def is_accepted(self) -> bool:
        return self.what in ACCEPTED


def damaged(case: Case, sample: Path) -> tuple[str, bytes]:
    """Which file of the sample, by its path below it, and what stands in it now."""
    form = FORMATS[case.format]
    draw = Random(f"{case.seed}/{case.format}/{case.number}")
    files = sorted(
        {(str(path.relative_to(sample)), kind) for pattern, kind in form.files.items() for path in sample.glob(pattern) if path.is_file()}
    )
    name, kind = draw.choice(files)
    return name, mutated((sample / name).read_bytes(), kind, draw)


class Bench:
    """A folder with the samples, and the place where damaged copies of them stand: one place, as some files name where they lie."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.made: dict[str, Path] = {}

    def sample(self, name: str) -> Path:
        """Made at the place of the cases, then kept."""
        if name not in self.made:
            place = self.place
            told = _in_child(lambda: _make(FORMATS[name], place), seconds=120)
            if told != "done":
                raise RuntimeError(f"no sample of {name}: {told}")
            kept = self.folder / "samples" / name.replace("/", " of ")
            shutil.copytree(place, kept, symlinks=True)
            self.made[name] = kept
        return self.made[name]

    @property
    def place(self) -> Path:
        return self.folder / "fuzzed"

    def whole(self, name: str) -> dict[str, str]:
        """What every reader has of the undamaged sample, as digests."""
        sample = self.sample(name)

        def read() -> str:
            found = {}
            for reader, function in FORMATS[name].reads.items():
                _fresh(sample, self.place)
                found[reader] = digest(function(self.place))
            return json.dumps(found)

        told = _in_child(read, seconds=120)
        if not told.startswith("{"):
            raise RuntimeError(f"the undamaged sample of {name} is not read: {told}")
        return dict(json.loads(told))

    def run(
        self, cases: Sequence[Case], *, seconds: float = SECONDS, contents: Sequence[tuple[str, bytes]] | None = None
    ) -> Iterator[Outcome]:
        """The cases of one format, in as few processes as they survive. contents: what is tried, instead of what the numbers make."""
        name = cases[0].format
        sample, whole = self.sample(name), self.whole(name) if FORMATS[name].is_sealed else {}
        at = 0
        while at < len(cases):
            for number, outcome in self._batch(cases[at:], sample, whole, seconds, None if contents is None else contents[at:]):
                yield outcome
                last = number
            at += last + 1

    def _batch(
        self, cases: Sequence[Case], sample: Path, whole: dict[str, str], seconds: float, contents: Sequence[tuple[str, bytes]] | None
    ) -> Iterator[tuple[int, Outcome]]:
        """Until all are done or one has ended the process."""
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            _quiet(self.folder / "stderr")
            try:
                for number, case in enumerate(cases):
                    given = None if contents is None else contents[number]
                    for outcome in _tried(case, sample, self.place, whole, lambda read, n=number: _tell(writing, n, read), given):
                        _tell(writing, number, outcome)
            finally:
                os._exit(0)
        os.close(writing)
        under_way: tuple[int, str] = (0, "")
        ended = ""
        try:
            for line in _lines(reading, pid, seconds):
                if line is None:
                    ended = "hang"
                    os.kill(pid, signal.SIGKILL)
                    break
                number, read, outcome = line
                if outcome is None:
                    under_way = (number, read)
                else:
                    under_way = (-1, "")
                    yield number, Outcome(cases[number], read, outcome["what"], outcome["words"])
        finally:
            os.close(reading)
            _, status = os.waitpid(pid, 0)
        if under_way[0] >= 0 and (ended or status):
            code = os.waitstatus_to_exitcode(status)
            what = ended or ("memory" if code == -signal.SIGKILL else "crash")
            words = f"not done after {seconds:g} s" if ended else f"the process ended with {code}"
            yield under_way[0], Outcome(cases[under_way[0]], under_way[1], what, words)


def _make(form: Format, place: Path) -> str:
    _clear(place)
    place.mkdir(parents=True)
    form.make(place)
    return "done"


def _tried(case: Case, sample: Path, place: Path, whole: dict[str, str], begins: Any, given: tuple[str, bytes] | None) -> Iterator[Outcome]:
    form = FORMATS[case.format]
    name, content = damaged(case, sample) if given is None else given
    for read, function in form.reads.items():
        _fresh(sample, place)
        (place / name).write_bytes(content)
        begins(read)
        what, words = _outcome(form, function, place, name, whole.get(read))
        yield Outcome(case, read, what, words)


def _outcome(form: Format, function: Any, place: Path, name: str, whole: str | None) -> tuple[str, str]:
    resource.setrlimit(resource.RLIMIT_AS, (_address_space() + MEMORY, resource.RLIM_INFINITY))
    try:
        with warnings.catch_warnings(action="ignore"):
            result = function(place)
            found = digest(result)
    except MemoryError as fault:
        return "memory", _where(fault)
    except (ValueError, OSError) as fault:
        if type(fault).__module__ == "builtins" and _is_own(fault):
            return "traceback", _where(fault)
        return _refusal(form, fault, place, name)
    except Exception as fault:
        return "memory" if "llocat" in str(fault) and "memory" in str(fault) else "traceback", _where(fault)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    if found == "not finite":
        return "unsound", "what was read holds NaN or infinity"
    if whole is not None and found != whole:
        return "changed", "the damage was not noticed, and what was read differs"
    return "result", ""


def _is_own(fault: BaseException) -> bool:
    """Raised by somebody else's code and passed through: a sentence of that one's, not of ours. Python's own words have no file."""
    last = traceback.extract_tb(fault.__traceback__)[-1]
    return (
        isinstance(fault, ValueError)
        and not any(name in last.filename for name in ("/likewise/", "/fuzz/"))
        and not isinstance(fault, UnicodeError | OSError)
    )


def _refusal(form: Format, fault: Exception, place: Path, name: str) -> tuple[str, str]:
    words = f"{os.fsdecode(fault.filename)}: {fault.strerror}" if isinstance(fault, OSError) and fault.filename is not None else str(fault)
    if not words.strip():
        return "unnamed", _where(fault)
    if len(words) > LONGEST or len(words.splitlines()) > 2:
        return "wordy", _where(fault)
    known = {part for file in place.rglob("*") for part in (file.name, file.stem)} | {Path(name).name, place.name}
    if form.is_named and not any(part in words for part in known):
        return "unnamed", _where(fault)
    return "refused", words


def _where(fault: BaseException) -> str:
    frames = [frame for frame in traceback.extract_tb(fault.__traceback__) if "/likewise/" in frame.filename]
    frame = frames[-1] if frames else traceback.extract_tb(fault.__traceback__)[-1]
    said = " ".join(str(fault).split())[:160]
    return f"{type(fault).__name__} at {frame.filename.partition('/likewise/')[2] or frame.filename}:{frame.lineno}: {said}"


def digest(result: Any) -> str:
    """Names what was read, whatever it is made of; or says that it is not finite."""
    hashed = hashlib.sha256()
    return hashed.hexdigest() if _add(hashed, result) else "not finite"


def _add(hashed: Any, result: Any) -> bool:
    if isinstance(result, dict):
        return all(_add(hashed, (str(key), value)) for key, value in result.items())
    if isinstance(result, tuple | list):
        return all(_add(hashed, value) for value in result)
    if hasattr(result, "numpy"):
        result = result.numpy()
    if isinstance(result, np.ndarray) and result.dtype.kind == "f":
        hashed.update(np.ascontiguousarray(result).tobytes())
        return bool(np.isfinite(result).all())
    if isinstance(result, np.ndarray):
        result = (str(result.dtype), result.shape, result.tolist() if result.dtype.kind in "UO" else result.tobytes())
    hashed.update(repr(result).encode("utf-8", "surrogatepass"))
    return True


def _fresh(sample: Path, place: Path) -> None:
    _clear(place)
    shutil.copytree(sample, place, symlinks=True)


def _clear(place: Path) -> None:
    shutil.rmtree(place, ignore_errors=True)


def _address_space() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def _quiet(path: Path) -> None:
    """What libraries print goes to a file; a crash writes no core."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for number in (1, 2):
        os.dup2(handle, number)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    faulthandler.disable()  # a crash is told by its signal
    sys.setrecursionlimit(1000)


def _tell(pipe: int, number: int, told: str | Outcome) -> None:
    read, outcome = (told, None) if isinstance(told, str) else (told.read, asdict(told))
    os.write(pipe, (json.dumps([number, read, outcome]) + "\n").encode())


def _lines(pipe: int, pid: int, seconds: float) -> Iterator[tuple[int, str, Any] | None]:
    """What is told, until the process ends; None where it has been silent for too long."""
    pending = b""
    since, cpu = time.monotonic(), _cpu_seconds(pid)
    while True:
        ready, _, _ = select.select([pipe], [], [], 0.5)
        if not ready:
            silent = time.monotonic() - since
            if silent > 3 * seconds or (silent > seconds and _cpu_seconds(pid) - cpu > seconds):
                yield None
                return
            continue
        content = os.read(pipe, 1 << 16)
        if not content:
            return
        pending += content
        *lines, pending = pending.split(b"\n")
        for line in lines:
            yield tuple(json.loads(line))  # type: ignore[misc]
        since, cpu = time.monotonic(), _cpu_seconds(pid)


def _cpu_seconds(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _in_child(work: Any, *, seconds: float) -> str:
    """What the work says, done in a process of its own, so that this one stays small and without threads."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        try:
            with warnings.catch_warnings(action="ignore"):
                told = work()
        except BaseException:
            told = traceback.format_exc()[-1500:]
        os.write(writing, told.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        ready, _, _ = select.select([pipe], [], [], seconds)
        content = pipe.read() if ready else b"not done in time"
    if not ready:
        os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return content.decode()
