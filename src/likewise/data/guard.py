"""TestGuard: holds the test part of a split. Only the final evaluation opens it, and every opening is recorded.

A record beside the run has every request, each line chained to the one before; the user's ledger counts the looks of all runs at a test
set (likewise.data.ledger).

Python cannot hide a value from someone who looks for it. The guard makes a look at the test part impossible by accident and visible
on purpose: the indices are in no public attribute, no repr, no pickle and no copy; opening needs a key that the guard gives out once,
to whoever runs the final evaluation; and the record of every request, granted or refused, is written before anything is handed out.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, NoReturn

import numpy as np
import numpy.typing as npt

from likewise.chained_lines import ChainedLine, ChainedLines
from likewise.data.dataset import Dataset
from likewise.data.ledger import CountedLook, Occasion, enter_look, uncounted_look
from likewise.files import locked

Indices = npt.NDArray[np.int64]
Event = Literal["key", "opened", "resumed", "refused", "unreadable"]


@dataclass(frozen=True, eq=False)
class TestPart:
    """What an opened guard gives: items of the data set. Query and gallery are set where they are separate halves (In-Shop)."""

    __test__ = False  # not a test case, whatever pytest thinks of the name

    indices: Indices  # every test item
    query: Indices | None = None
    gallery: Indices | None = None

    def query_and_gallery(self, indices: Indices) -> tuple[Indices, Indices] | None:
        """Where the queries and the gallery stand among the items with these indices; None where they are not separate."""
        if self.query is None or self.gallery is None:
            return None
        return np.flatnonzero(np.isin(indices, self.query)), np.flatnonzero(np.isin(indices, self.gallery))


@dataclass(frozen=True)
class Opening:
    """One line of the record: somebody asked for the test part."""

    event: Event  # key: the key was given out; opened, resumed: the part was handed out; refused; unreadable: a damaged line of the file
    time: str  # UTC, ISO 8601
    purpose: str
    run: str  # which run asked; empty for a key
    decided: str  # names everything decided before this look: configuration and weights
    caller: str  # file:line in function
    number: int  # the how many-th opening of this test part, this one included if it was granted
    num_items: int
    test: str  # digest of the test part

    @property
    def handed_out(self) -> bool:
        return self.event in ("opened", "resumed")


@dataclass(frozen=True)
class Seal:
    """What a record held: it only grows, so that its beginning is this for good."""

    num_bytes: int
    sha256: str


class TestKey:
    """Opens one guard. A guard gives it out once; it cannot be copied or pickled."""

    __slots__ = ()
    __test__ = False

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("the key of a test part stays with the final evaluation: it cannot be copied or pickled")


class TestGuard:
    """The test part, closed.

    guard = split.test
    key = guard.issue_key("final evaluation")              # once, by the code that will score the finished runs
    part = guard.open(key, run="raw-seed0", purpose="final evaluation", decided=digest_of_configuration_and_weights)

    A run opens the part once. The same run may open it again with the same purpose and the same `decided` (it was killed and resumed);
    with anything else it is refused: something was changed after the test part had been seen. While `closed(...)` is in force, as during
    tuning, nothing opens.
    """

    __slots__ = (
        "__weakref__",
        "_closed_for",
        "_data",
        "_digest",
        "_digest_of_items",
        "_has_query_and_gallery",
        "_items_digest",
        "_key",
        "_look",
        "_num_items",
        "_record",
        "_reveal",
    )
    __test__ = False

    def __init__(self, part: TestPart, *, record: str | Path | None = None, dataset: Dataset | None = None) -> None:
        frozen = TestPart(*(None if indices is None else _frozen(indices) for indices in (part.indices, part.query, part.gallery)))  # type: ignore[arg-type]
        self._digest = test_digest(frozen)
        self._num_items = len(frozen.indices)
        self._has_query_and_gallery = frozen.query is not None
        self._reveal: Callable[[], TestPart] = lambda: frozen  # a closure: no attribute walk, vars() or asdict() meets the indices
        self._data = "" if dataset is None else dataset.name
        self._items_digest = self._digest if dataset is None else ""  # of a data set's items it is taken when it is asked for
        self._digest_of_items: Callable[[], str] = lambda: "" if dataset is None else dataset.items_digest(frozen.indices)
        self._look: CountedLook | None = None
        self._key: TestKey | None = None
        self._closed_for: list[str] = []
        self._record = Record(None if record is None else Path(record))

    @property
    def num_items(self) -> int:
        return self._num_items

    @property
    def has_query_and_gallery(self) -> bool:
        return self._has_query_and_gallery

    @property
    def digest(self) -> str:
        """Names the test part without telling it. 64 hexadecimal digits."""
        return self._digest

    @property
    def items_digest(self) -> str:
        """Names the test items by their content, wherever the data set lies. 64 hexadecimal digits."""
        if not self._items_digest:
            self._items_digest = self._digest_of_items()
        return self._items_digest

    @property
    def look(self) -> CountedLook | None:
        """The look that was last entered in the ledger through this guard; None before the part is opened."""
        return self._look

    @property
    def record(self) -> tuple[Opening, ...]:
        """Every request for this test part, oldest first; with a file, those of earlier processes too."""
        return tuple(opening for opening in self._record.read() if opening.test in (self._digest, ""))

    @property
    def record_faults(self) -> tuple[str, ...]:
        """What was edited in the record or taken out of it, in words."""
        return self._record.faults()

    def keep_record(self, path: str | Path) -> None:
        """From here on the record is a file of JSON lines. What was recorded so far is written there first."""
        kept = Record(Path(path))
        with kept.locked():
            for opening in self._record.read():
                kept.append(opening)
        self._record = kept

    def seal(self) -> Seal | None:
        """Names all that the file of the record holds, this moment; None without a file."""
        with self._record.locked():
            return self._record.seal()

    def still_holds(self, seal: Seal) -> bool:
        """Whether the record still begins with what was sealed: False once a line of that was edited or deleted."""
        return self._record.still_holds(seal)

    def issue_key(self, holder: str) -> TestKey:
        """The one key of this guard, to the code of the final evaluation. Asking twice is an error."""
        caller = _caller()
        with self._record.locked():
            self._write("refused" if self._key is not None else "key", purpose=holder, run="", decided="", caller=caller)
        if self._key is not None:
            raise ValueError(
                f"the key of the test part was given out before, so {holder!r} cannot have it: "
                "only the final evaluation holds it; tune and look at figures on folds of the training classes"
            )
        self._key = TestKey()
        return self._key

    @contextmanager
    def closed(self, reason: str) -> Iterator[None]:
        """Nothing opens inside this block, with or without the key."""
        self._closed_for.append(reason)
        try:
            yield
        finally:
            self._closed_for.remove(reason)

    def open(self, key: TestKey, *, run: str, purpose: str, decided: str, occasion: Occasion | None = None) -> TestPart:
        """The test part, after the opening was recorded and the look entered in the user's ledger.

        occasion: what the ledger counts as one look; unless given, this run with what it decided.
        """
        caller = _caller()
        for name, value in (("run", run), ("purpose", purpose), ("decided", decided)):
            if not isinstance(value, str) or not value.strip():
                raise ValueError(f"{name}={value!r}: expected words that say what opens the test part")
        with self._record.locked():
            event, refusal = self._judge(key, run=run, purpose=purpose, decided=decided)
            self._write(event, purpose=purpose, run=run, decided=decided, caller=caller)
        if refusal:
            raise ValueError(f"the test part stays closed to {run!r} ({purpose}): {refusal}")
        self.enter_look(occasion or Occasion("python", self._record.folder, run, decided), purpose=purpose)
        return self._reveal()

    def enter_look(self, occasion: Occasion, *, purpose: str) -> CountedLook:
        """The look of this occasion, entered in the user's ledger if it is not there. Opens nothing."""
        if self._look is None or not self._look.is_entered or self._look.look.occasion.key != occasion.key:
            data, num_items = self._data, self._num_items
            try:
                self._look = enter_look(occasion, test=self.items_digest, data=data, num_items=num_items, purpose=purpose)
            except OSError as fault:  # an image went while a network was trained, whose scores are still worth having
                self._look = uncounted_look(occasion, fault, data=data, num_items=num_items, purpose=purpose)
        return self._look

    def _judge(self, key: TestKey, *, run: str, purpose: str, decided: str) -> tuple[Event, str]:
        if key is not self._key or not isinstance(key, TestKey):
            return "refused", "this is not the key of this guard; the final evaluation gets it from issue_key"
        if self._closed_for:
            return "refused", f"{self._closed_for[-1]} is under way; score on folds of the training classes"
        before = [opening for opening in self.record if opening.handed_out and opening.run == run]
        if not before:
            return "opened", ""
        if all((opening.purpose, opening.decided) == (purpose, decided) for opening in before):
            return "resumed", ""
        first = before[0]
        what = "with another purpose" if first.purpose != purpose else "with other settings or weights"
        return "refused", f"this run opened it on {first.time} {what} ({first.purpose}); start a new run to score something else"

    def _write(self, event: Event, *, purpose: str, run: str, decided: str, caller: str) -> None:
        handed_out = sum(opening.handed_out for opening in self.record) + (event in ("opened", "resumed"))
        time = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._record.append(
            Opening(event, time, purpose, run, decided, caller, number=handed_out, num_items=self._num_items, test=self._digest)
        )

    def __repr__(self) -> str:
        openings = sum(opening.handed_out for opening in self.record)
        return f"TestGuard({self._num_items} items, opened {openings} times)"

    def __copy__(self) -> TestGuard:
        return self

    def __deepcopy__(self, memo: object) -> TestGuard:
        return self  # one guard, one record

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a TestGuard cannot be pickled: store the split with Split.to_json() and load it with Split.from_json() there")


class Record:
    """Openings, oldest first; nothing is ever taken out. In memory, or in a file of JSON lines that several processes may share."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._memory: list[Opening] = []

    @property
    def folder(self) -> str:
        """Where the file is, absolute; empty without one."""
        return "" if self._path is None else str(self._path.absolute().parent)

    def read(self) -> list[Opening]:
        if self._path is None:
            return list(self._memory)
        return [_opening_of(line) for line in ChainedLines(self._path).read().lines]

    def faults(self) -> tuple[str, ...]:
        """What was edited or taken out, in words."""
        return () if self._path is None else ChainedLines(self._path).read().changed

    def _content(self) -> bytes:
        try:
            return b"" if self._path is None else self._path.read_bytes()
        except FileNotFoundError:
            return b""

    def seal(self) -> Seal | None:
        if self._path is None:
            return None
        content = self._content()
        return Seal(len(content), hashlib.sha256(content).hexdigest())

    def still_holds(self, seal: Seal) -> bool:
        content = self._content()
        return len(content) >= seal.num_bytes and hashlib.sha256(content[: seal.num_bytes]).hexdigest() == seal.sha256

    def append(self, opening: Opening) -> None:
        """On the disk before this returns."""
        if self._path is None:
            self._memory.append(opening)
            return
        try:
            ChainedLines(self._path).append(asdict(opening))
        except OSError as fault:
            raise OSError(
                fault.errno, f"{fault.strerror}: the opening could not be recorded, so nothing was opened", fault.filename
            ) from fault

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Looking and appending as one step among processes."""
        if self._path is None:
            yield
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with locked(self._path.with_name(f".{self._path.name}.lock")):
            yield


def test_digest(part: TestPart) -> str:
    digest = hashlib.sha256()
    for indices in (part.indices, part.query, part.gallery):
        digest.update(b"none;" if indices is None else f"{len(indices)};".encode() + indices.astype("<i8").tobytes())
    return digest.hexdigest()


test_digest.__test__ = False  # type: ignore[attr-defined]


def _opening_of(line: ChainedLine) -> Opening:
    try:
        return Opening(**{field.name: line.entry[field.name] for field in fields(Opening)})  # type: ignore[index]
    except (KeyError, TypeError):
        return Opening("unreadable", "", line.text[:80].decode(errors="replace"), "", "", "", number=0, num_items=0, test="")


def _frozen(indices: Indices) -> Indices:
    copy = np.array(indices, dtype=np.int64)
    copy.setflags(write=False)
    return copy


def _caller() -> str:
    """Who asks: the nearest frame outside this file."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_qualname}"
