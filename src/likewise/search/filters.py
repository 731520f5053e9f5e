"""Filters: which items of an index may be found, as `--where` has them: "label=gull", "year>=2010", "place~harbour"."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import eq, ge, gt, le, lt, ne
from typing import Any

from likewise.search.item import Item, Value

COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {"=": eq, "!=": ne, ">=": ge, "<=": le, ">": gt, "<": lt}
OPERATORS = (*COMPARISONS, "~")  # "~": contains the words, whatever their case
_FORM = re.compile(r"\s*([^=!<>~]+?)\s*(!=|>=|<=|=|>|<|~)\s*(.*?)\s*", flags=re.DOTALL)


@dataclass(frozen=True)
class Condition:
    """What the value of a column must be. Where both are numbers they are compared as numbers, else as text.

    An item that has no value in the column does not fulfil it, but for "!=" and for "=" with nothing after it.
    """

    column: str
    operator: str
    value: str

    def __post_init__(self) -> None:
        if self.operator not in OPERATORS:
            raise ValueError(f"operator {self.operator!r}: expected one of {' '.join(OPERATORS)}")

    def holds(self, item: Item) -> bool:
        return self.holds_for(item.value(self.column))

    def holds_for(self, found: Value) -> bool:
        """Of an item with this value in the column."""
        if found is None:
            return (self.operator == "!=") != (self.value == "") if self.operator in ("=", "!=") else False
        if self.operator == "~":
            return self.value.casefold() in as_text(found).casefold()
        numbers = as_number(found), as_number(self.value)
        if numbers[0] is not None and numbers[1] is not None:
            return COMPARISONS[self.operator](*numbers)
        return COMPARISONS[self.operator](as_text(found), self.value)


Filter = tuple[Condition, ...]  # all must hold


def parse_filter(conditions: Sequence[str]) -> Filter:
    """Of ["label=gull", "year>=2010"]."""
    return tuple(parse_condition(text) for text in conditions)


def parse_condition(text: str) -> Condition:
    found = _FORM.fullmatch(text)
    if found is None:
        raise ValueError(
            f"condition {text!r}: expected a column, one of {' '.join(OPERATORS)}, and a value, such as label=gull or year>=2010"
        )
    return Condition(*found.groups())


def as_number(value: Value) -> float | None:
    """The value as a finite number, where it is one."""
    try:
        number = float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else None
    except ValueError:
        return None
    return number if number is not None and abs(number) != float("inf") and number == number else None


def as_text(value: Value) -> str:
    """As a table has it: true and false for bool."""
    return str(value).lower() if isinstance(value, bool) else str(value)
