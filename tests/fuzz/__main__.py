"""python -m tests.fuzz --minutes 10: damaged files of every format, for so long. Exits with 1 where one was not taken as it should.

--only FORMAT      one of them
--seed N           other cases; the same number makes the same ones
--case N           one case again, with the reader's own words
--cases N          so many of each format, instead of minutes
--replay           the cases in tests/fuzz/cases alone
--no-keep          failures are not written to tests/fuzz/cases
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from importlib import import_module
from pathlib import Path

from .bench import Bench, Case, Outcome, damaged
from .formats import FORMATS
from .kept_cases import KeptCase, keep, kept_cases

EARLY = (
    *(
        "torch",
        "faiss",
        "lightning_fabric",
        "matplotlib.pyplot",
        "optuna",
        "pyarrow.parquet",
        "safetensors.torch",
        "scipy.io",
        "sqlalchemy",
        "sklearn.cluster",
    ),
    *(f"likewise.{name}" for name in ("cli.learning", "comparison.compare", "evaluation.embedding_file", "reports.comparison_report")),
    *(f"likewise.{name}" for name in ("reproductions.paper_item", "search.index", "serving.served_images", "training.train")),
)
AT_ONCE, AT_ONCE_IF_SLOW = 200, 12


def main() -> int:
    asked = _arguments()
    _import_everything()
    with tempfile.TemporaryDirectory(prefix="likewise-fuzz-", ignore_cleanup_errors=True) as folder:
        for name in ("cache", "state"):
            os.environ[f"LIKEWISE_{name.upper()}"] = str(Path(folder) / name)
        bench = Bench(Path(folder))
        if asked.case is not None:
            return _one(bench, Case(asked.only, asked.seed, asked.case))
        failures = _replayed(bench, asked.only)
        if not asked.replay:
            failures += _fuzzed(bench, asked)
    print(f"{len(failures)} failures" if failures else "no failures", flush=True)
    return 1 if failures else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--cases", type=int)
    parser.add_argument("--only", choices=sorted(FORMATS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", type=int)
    parser.add_argument("--replay", action="store_true")
    parser.add_argument("--no-keep", dest="keep", action="store_false")
    asked = parser.parse_args()
    if asked.case is not None and asked.only is None:
        parser.error("--case needs --only FORMAT")
    return asked


def _import_everything() -> None:
    """Before any process is forked, and so once."""
    for name in EARLY:
        import_module(name)
    sys.modules["torch"].set_num_threads(1)


def _one(bench: Bench, case: Case) -> int:
    name, content = damaged(case, bench.sample(case.format))
    print(f"{name}: {len(content)} bytes, {content[:200]!r}")
    outcomes = list(bench.run([case]))
    for outcome in outcomes:
        print(f"{outcome.read}: {outcome.what} {outcome.words}")
    return 0 if all(outcome.is_accepted for outcome in outcomes) else 1


def _replayed(bench: Bench, only: str | None) -> list[Outcome]:
    """What failed once, and must not again."""
    failures = []
    for kept in kept_cases():
        if only in (None, kept.format):
            found = list(bench.run([Case(kept.format, -1, 0)], contents=[(kept.file, kept.content)]))
            failures += [_told(outcome, kept) for outcome in found if not outcome.is_accepted]
    return failures


def _fuzzed(bench: Bench, asked: argparse.Namespace) -> list[Outcome]:
    """Round after round, each with some cases of every format."""
    names = [asked.only] if asked.only else list(FORMATS)
    until = time.monotonic() + 60 * asked.minutes
    counts: Counter[str] = Counter()
    tried: Counter[str] = Counter()
    failures: list[Outcome] = []
    kinds: set[tuple[str, str]] = set()
    began = time.monotonic()
    while True:
        for name in names:
            number = asked.cases or (AT_ONCE_IF_SLOW if FORMATS[name].is_slow else AT_ONCE)
            cases = [Case(name, asked.seed, tried[name] + place) for place in range(number)]
            for outcome in bench.run(cases):
                counts[outcome.what] += 1
                if not outcome.is_accepted:
                    failures.append(_told(outcome))
                    kind = (outcome.what, outcome.words[:60])
                    if asked.keep and kind not in kinds:
                        kinds.add(kind)
                        keep(KeptCase(name, *damaged(outcome.case, bench.sample(name)), f"{outcome.read}: {outcome.what} {outcome.words}"))
                if asked.cases is None and time.monotonic() > until:
                    break
            tried[name] += number
            if asked.cases is None and time.monotonic() > until:
                break
        if asked.cases is not None or time.monotonic() > until:
            break
    seconds = time.monotonic() - began
    print(
        f"{sum(tried.values()):,} cases of {len(tried)} formats, {sum(counts.values()):,} readings in {seconds:.0f} s: {dict(counts)}",
        flush=True,
    )
    return failures


def _told(outcome: Outcome, kept: KeptCase | None = None) -> Outcome:
    where = outcome.case.command if kept is None else f"case {kept.name}"
    print(f"{outcome.case.format} ({outcome.read}): {outcome.what}: {outcome.words}\n    {where}", flush=True)
    return outcome


if __name__ == "__main__":
    sys.exit(main())
