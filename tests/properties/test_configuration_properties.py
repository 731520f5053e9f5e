"""Configurations as tables and back, settings by their names, and words for numbers."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as some

from likewise.configuration import as_table, differing, from_table, value_of, with_settings
from likewise.methods import METHODS, Method, load_method
from likewise.protocols import PROTOCOLS, Protocol, load_protocol
from likewise.wording import bytes_in_words, count_of, listed, ordinal, percent, printable, seconds_in_words

finite = some.floats(allow_nan=False, allow_infinity=False)
values = some.recursive(
    some.one_of(some.booleans(), some.integers(-(2**63), 2**63 - 1), finite, some.text(max_size=9)),
    lambda inner: some.lists(inner, max_size=4),
    max_leaves=8,
)


@given(some.sampled_from(sorted(METHODS)), some.sampled_from(sorted(PROTOCOLS)))
def test_what_is_written_is_read_as_it_was(method: str, protocol: str) -> None:
    for config, kind in ((load_method(method), Method), (load_protocol(protocol), Protocol)):
        table = as_table(config)
        assert from_table(kind, json.loads(json.dumps(table)), where="here") == config
        assert as_table(from_table(kind, table, where="here")) == table
        assert differing(table, json.loads(json.dumps(table))) == []


@given(some.sampled_from(sorted(METHODS)), some.floats(1e-6, 1e3), some.integers(1, 4096))
def test_a_setting_changes_itself_and_nothing_else(name: str, rate: float, dim: int) -> None:
    method, protocol = load_method(name), load_protocol("quick")
    changed = with_settings(method, {"rates.base": rate})
    assert changed == replace(method, rates=replace(method.rates, base=rate))
    assert with_settings(changed, {"rates.base": method.rates.base}) == method
    other = with_settings(protocol, {"dim": dim})
    assert [found.name for found in differing(as_table(protocol), as_table(other))] == (["dim"] if dim != protocol.dim else [])


@given(some.dictionaries(some.text(max_size=6), values, max_size=5), some.dictionaries(some.text(max_size=6), values, max_size=5))
def test_differences_are_found_from_both_sides(before: dict[str, Any], now: dict[str, Any]) -> None:
    there, back = differing(before, now), differing(now, before)
    assert [(found.name, found.before, found.now) for found in there] == [(found.name, found.now, found.before) for found in back]
    assert differing(before, before) == []


@given(values.filter(lambda value: not isinstance(value, str)))
def test_a_value_of_a_command_line_is_the_one_that_toml_has(value: Any) -> None:
    text = json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    found = value_of(text)
    try:
        expected = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        expected = text
    assert found == expected


@given(some.text(max_size=30))
def test_any_text_of_a_command_line_is_a_value(text: str) -> None:
    value_of(text)  # never a fault: what is not TOML is text


@given(some.integers(0, 10**9))
def test_counts_say_their_number(number: int) -> None:
    assert count_of(number, "seed", "seeds") == f"{number:,} seed{'' if number == 1 else 's'}"
    word = ordinal(number + 1)
    assert word.isalpha() or re.fullmatch(r"[\d,]+(st|nd|rd|th)", word)
    if number >= 12:
        assert word.endswith("th") or (number + 1) % 10 in (1, 2, 3)


@given(some.lists(some.text(alphabet="abc", min_size=1, max_size=3), min_size=1, max_size=6))
def test_lists_name_everything_in_order(names: list[str]) -> None:
    assert re.split(r", | and ", listed(names)) == names


@given(some.floats(0, 1e7), some.floats(0, 1e7))
def test_longer_is_never_said_to_be_shorter(first: float, second: float) -> None:
    units = {"s": 1.0, "min": 60.0, "h": 3600.0}

    def said(seconds: float) -> float:
        number, unit = seconds_in_words(seconds).split(" ")
        return float(number) * units[unit]

    shorter, longer = sorted((first, second))
    assert said(shorter) <= said(longer) + 0.051 * 3600
    for seconds in (first, second):
        assert abs(said(seconds) - seconds) <= 0.0501 * units[seconds_in_words(seconds).split(" ")[1]]


@given(some.integers(1, 2**50))
def test_sizes_are_near_what_they_are(count: int) -> None:
    number, unit = bytes_in_words(count).split(" ")
    size = {"MiB": 2**20, "GiB": 2**30}[unit]
    assert abs(float(number) * size - count) <= (0.501 if unit == "MiB" else 0.00501) * size


@given(some.floats(0, 1))
def test_shares_in_percent(value: float) -> None:
    assert abs(float(percent(value)) - 100 * value) <= 0.00501


@given(some.text(alphabet=some.characters()))
def test_what_is_printed_has_no_control_characters(text: str) -> None:
    shown = printable(text)
    assert len(shown) == len(text)
    assert all(letter.isprintable() for letter in shown)
    assert printable(shown) == shown
    shown.encode()  # no half of a pair is left
