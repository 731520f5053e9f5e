"""Where everything has to be there, nothing is skipped for want of it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from .optional import needs_package, needs_program

absent = pytest.mark.parametrize(
    ("look", "words"),
    [
        (lambda: needs_package("likewise_is_not_this"), "the package likewise_"),
        (lambda: needs_program("likewise-is-not-this"), "the program likewise-"),
    ],
    ids=["package", "program"],
)


@pytest.mark.parametrize(("ci", "expected"), [(None, pytest.skip.Exception), ("1", pytest.fail.Exception)], ids=["at home", "in CI"])
@absent
def test_skipped_at_home_and_failed_in_ci(
    look: Callable[[], object], words: str, ci: str | None, expected: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LIKEWISE_CI", raising=False)
    if ci is not None:
        monkeypatch.setenv("LIKEWISE_CI", ci)
    with pytest.raises((pytest.skip.Exception, pytest.fail.Exception), match=words) as outcome:
        look()
    assert outcome.type is expected


def test_what_is_there_is_not_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIKEWISE_CI", "1")
    needs_package("likewise")
    assert Path(needs_program("sh")).name == "sh"


def test_no_test_skips_in_another_way() -> None:
    """But for a GPU, which CI does not have."""
    ways = ("importorskip", "skipif", "pytest.skip(", "mark.skip")
    lines = [
        f"{path.name}: {line.strip()}"
        for path in sorted(Path(__file__).parent.rglob("*.py"))
        if path.name not in ("optional.py", Path(__file__).name)
        for line in path.read_text(encoding="utf-8").splitlines()
        if any(way in line for way in ways) and "torch.cuda.is_available()" not in line
    ]
    assert lines == []
