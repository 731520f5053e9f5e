"""The policy of limits: from the environment, for a block, and in docs/limits.md."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from likewise.limits import Limits, OverLimit, current_limits, limited, require_within, variable_of

PAGE = (Path(__file__).parent.parent / "docs" / "limits.md").read_text(encoding="utf-8")


def test_the_page_has_every_limit_as_it_is() -> None:
    rows = re.findall(r"^\| `(\w+)` \| ([\d,]+) \| (.+) \|$", PAGE, flags=re.MULTILINE)
    assert rows == [(variable_of(entry.name), f"{entry.default:,}", entry.metadata["about"]) for entry in fields(Limits)]


@pytest.mark.parametrize(("text", "value"), [("5", 5), ("2_000", 2000), ("3e9", 3_000_000_000)])
def test_the_environment_sets_them(text: str, value: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIKEWISE_MAX_PIXELS", text)
    assert current_limits() == Limits(pixels=value)


@pytest.mark.parametrize(
    ("variable", "text", "words"),
    [
        ("LIKEWISE_MAX_PIXELS", "many", r"LIKEWISE_MAX_PIXELS='many': expected a whole number"),
        ("LIKEWISE_MAX_PIXELS", "nan", r"LIKEWISE_MAX_PIXELS='nan': expected a whole number"),
        ("LIKEWISE_MAX_PIXELS", "0", "the limit pixels is 0: expected a whole number of at least 1"),
        ("LIKEWISE_MAX_PIXLES", "5", "unknown limit in the environment 'LIKEWISE_MAX_PIXLES': did you mean 'LIKEWISE_MAX_PIXELS'"),
    ],
)
def test_what_is_no_limit_is_named(variable: str, text: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, text)
    with pytest.raises(ValueError, match=words):
        current_limits()


def test_a_block_has_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIKEWISE_MAX_ROWS", "7")
    with limited(rows=3, columns=2) as limits:
        assert (limits.rows, limits.columns) == (3, 2)
        with pytest.raises(OverLimit, match=r"t\.csv has rows: 4, more than the limit of 3 \(LIKEWISE_MAX_ROWS raises it\)"):
            require_within("rows", 4, "t.csv has rows:")
        require_within("rows", 3, "t.csv has rows:")
    assert (current_limits().rows, current_limits().columns) == (7, Limits().columns)
    with pytest.raises(ValueError, match="the limit rows is 0"), limited(rows=0):
        pass
