"""The work of an item: which training in which bench each row is, in each part; or why there is none."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from likewise.comparison.sweeping.batch_fit import fitted_to_batch
from likewise.methods import Level, Method
from likewise.protocols import Protocol
from likewise.reproductions.benches import Bench
from likewise.reproductions.paper_item import PaperItem, PaperPart
from likewise.reproductions.supplies import Lacking, Supplies


@dataclass(frozen=True, eq=False)
class RowWork:
    """A row in a part as a training in a bench."""

    part: str
    row: str
    method: Method
    bench: Bench
    levels: tuple[Level, ...] = ()  # that it is scored with; empty: all that the method has

    @property
    def is_whole(self) -> bool:
        return not self.levels or set(self.levels) == set(self.method.head.levels)


@dataclass(frozen=True, eq=False)
class ItemWork:
    """All rows of all parts of an item."""

    item: PaperItem
    rows: tuple[RowWork, ...]
    cannot: dict[tuple[str, str], str]  # part, row -> why it cannot exist under these conditions
    needs: dict[str, str]  # part -> what it lacks, so that no row of it is run
    protocols: dict[str, Protocol] = field(default_factory=dict)  # part -> as it is run

    def by_bench(self) -> Iterator[tuple[Bench, list[Method]]]:
        """The trainings, each once."""
        benches = {work.bench.path: work.bench for work in self.rows}
        for path, bench in benches.items():
            yield bench, list({work.method.name: work.method for work in self.rows if work.bench.path == path}.values())


def work_of(item: PaperItem, supplies: Supplies, folder: Path) -> ItemWork:
    """What is to be run for an item with what there is."""
    rows: list[RowWork] = []
    cannot: dict[tuple[str, str], str] = {}
    needs: dict[str, str] = {}
    protocols: dict[str, Protocol] = {}
    for part in item.parts:
        try:
            works, reasons = _work_of_part(item, part, supplies, folder)
        except Lacking as lack:
            needs[part.name] = str(lack)
            continue
        protocols[part.name] = _run_under(supplies, part, part.conditions())
        rows += works
        cannot |= {(part.name, row): why for row, why in reasons.items()}
    return ItemWork(item, tuple(rows), cannot, needs, protocols)


def _work_of_part(item: PaperItem, part: PaperPart, supplies: Supplies, folder: Path) -> tuple[list[RowWork], dict[str, str]]:
    dataset, labels = supplies.dataset(part.data), supplies.training_labels(part.data)
    works: list[RowWork] = []
    reasons: dict[str, str] = {}
    lacks: list[Lacking] = []
    for name, row in item.rows_of(part).items():
        if not row.method:
            continue
        if name in part.cannot:
            reasons[name] = part.cannot[name]
            continue
        asked = item.conditions(part, name)
        try:
            protocol = _run_under(supplies, part, asked)
            bench = Bench.of(folder, supplies.data_name(part.data), dataset, protocol, supplies.weights_of(protocol))
        except Lacking as lack:
            lacks.append(lack)
            reasons[name] = str(lack)
            continue
        method = supplies.method(row.under(asked.name))
        if protocol.frozen and method.head.levels != ("high",):
            reasons[name] = "it has heads at several levels of the network, and this protocol trains on the features of the last"
            continue
        try:
            fitted_to_batch(method, protocol, labels, may_change_protocol=False)
        except ValueError as fault:  # no batch of it exists there
            reasons[name] = str(fault)
            continue
        levels = tuple(level for level in method.head.levels if level in row.levels)
        works.append(RowWork(part.name, name, method, bench, levels))
    if lacks and not works:
        raise lacks[0]
    return works, reasons


def _run_under(supplies: Supplies, part: PaperPart, asked: Protocol) -> Protocol:
    """Settings are the paper's and nothing is tuned, unless the part itself says with how many trials."""
    return supplies.protocol(replace(asked, trials=int(part.settings.get("trials", 0))))


def trainings_left(works: Sequence[ItemWork], *, seeds: int, without: Collection[Path] = ()) -> int:
    """How many trainings all of it still takes; what two items share counts once. without: benches that cannot be run."""
    benches: dict[Path, tuple[Bench, dict[str, Method]]] = {}
    for work in works:
        for bench, methods in work.by_bench():
            benches.setdefault(bench.path, (bench, {}))[1].update({method.name: method for method in methods})
    return sum(bench.lacks(list(methods.values()), seeds=seeds) for path, (bench, methods) in benches.items() if path not in without)
