"""What every test runs under, and which are those that a person runs while working."""

import itertools
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from .cases import hold_positives

# `pytest -m fast`: the core, but for the tests in these files that are marked `slow`,
FAST = (
    "comparison/test_plan.py",
    "comparison/test_request.py",
    "comparison/test_statistics.py",
    "evaluation",
    "losses/test_contract.py",
    "losses/test_every_loss.py",
    "samplers",
    "test_architecture.py",
    "test_configuration.py",
    "test_engines.py",
    "test_files.py",
    "test_house.py",
    "test_method_files.py",
    "test_mining.py",
    "test_objectives.py",
    "test_pair_weighting.py",
    "test_pairs.py",
    "test_protocol_files.py",
    "test_references.py",
)
# and a training and a comparison, the tests in these that are marked `fast`.
WITH_FAST_TESTS = ("comparison/test_compare.py", "training/test_train.py")


def _is_among(path: Path, places: tuple[str, ...]) -> bool:
    return any(path.is_relative_to(Path(__file__).parent / place) for place in places)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With `-m fast` other files are not even imported."""
    others = collection_path.name.startswith("test_") and not _is_among(collection_path, (*FAST, *WITH_FAST_TESTS))
    return True if others and config.option.markexpr == "fast" else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _is_among(item.path, FAST) and item.get_closest_marker("slow") is None:
            item.add_marker(pytest.mark.fast)
        elif item.get_closest_marker("fast") is not None:
            assert _is_among(item.path, (*FAST, *WITH_FAST_TESTS)), f"{item.nodeid} is marked fast: name its file in tests/conftest.py"


@pytest.fixture(params=["masks", pytest.param("columns", marks=pytest.mark.slow)])
def positives(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Positives held as masks over whole rows, then as the few columns of the anchor's class, whatever the batch's size."""
    hold_positives(monkeypatch, as_columns=request.param == "columns")
    return str(request.param)


@pytest.fixture(autouse=True, scope="session")
def _states(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Iterator[str]]:
    """The developer's own ledger is never written to, nor read: not by fixtures, not by processes that tests start."""
    base = tmp_path_factory.mktemp("state")
    before = os.environ.get("LIKEWISE_STATE")
    os.environ["LIKEWISE_STATE"] = str(base / "of fixtures")
    yield (str(base / str(number)) for number in itertools.count())
    if before is None:
        del os.environ["LIKEWISE_STATE"]
    else:
        os.environ["LIKEWISE_STATE"] = before


@pytest.fixture(autouse=True)
def _own_ledger(_states: Iterator[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test counts its own looks."""
    monkeypatch.setenv("LIKEWISE_STATE", next(_states))


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    """The batches here are tiny: a second thread only waits, and for long where the machine is shared."""
    torch.set_num_threads(1)


@pytest.fixture(autouse=True, scope="session")
def _ctrl_c_is_heard() -> None:
    """A shell starts background jobs with SIGINT ignored, which their children inherit: tests that press Ctrl-C need it heard."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _seeded() -> None:
    if torch.cuda.is_available():
        torch.manual_seed(0)
    else:  # without a GPU that takes a hundred times as long as this: it writes down the stack, for when there is one
        torch.default_generator.manual_seed(0)
