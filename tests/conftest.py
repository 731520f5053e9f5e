"""What every test runs under."""

import signal

import pytest
import torch

from .cases import hold_positives


@pytest.fixture(params=["masks", "columns"])
def positives(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Positives held as masks over whole rows, then as the few columns of the anchor's class, whatever the batch's size."""
    hold_positives(monkeypatch, as_columns=request.param == "columns")
    return str(request.param)


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
    torch.manual_seed(0)
