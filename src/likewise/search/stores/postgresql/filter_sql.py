"""Filters in PostgreSQL: what is kept of an item so that SQL agrees with `Condition.holds`, and conditions as SQL with parameters.

Numbers in text, folded case and missing values are Python's business: `searched_values` works them out once, when an item is added, and the
SQL only compares. Values and names of columns are always parameters; none becomes part of the SQL.
"""

from __future__ import annotations

import json
import re
from typing import Any

from likewise.search.filters import Condition, Filter, as_number, as_text
from likewise.search.item import Item

ESCAPE = "\x10"
SHIFT = 0x800  # of the characters after it: the 2,048 lone surrogates become private characters
_UNSTORABLE = re.compile(f"[\0{ESCAPE}\ud800-\udfff]")
_ESCAPED = re.compile(f"{ESCAPE}(.)", flags=re.DOTALL)


def storable(text: str) -> str:
    """The text as PostgreSQL can hold it: it knows neither NUL nor lone surrogates, which stand for undecodable bytes of file names."""
    return _UNSTORABLE.sub(lambda found: ESCAPE + chr(ord(found[0]) + SHIFT), text)


def restored(text: str) -> str:
    """Of what `storable` gave, the text."""
    return _ESCAPED.sub(lambda found: chr(ord(found[1]) - SHIFT), text)


def searched_values(item: Item) -> dict[str, dict[str, str | float]]:
    """Column -> "t": its text, "n": its number if it is one, "f": its folded text if that differs. The path's text is not repeated."""
    values: dict[str, dict[str, str | float]] = {}
    for column in ("path", "label", *item.metadata):
        value = item.value(column)
        if value is None:
            continue
        text, number = as_text(value), as_number(value)
        entry: dict[str, str | float] = {} if column == "path" else {"t": storable(text)}
        if number is not None:
            entry["n"] = number
        if text.casefold() != text:
            entry["f"] = storable(text.casefold())
        if entry:
            values[storable(column)] = entry
    return values


def filter_sql(where: Filter) -> tuple[str, list[Any]]:
    """All conditions as one SQL expression over the columns `path` and `searched`, and its parameters."""
    parts = [_condition_sql(condition) for condition in where]
    return " AND ".join(sql for sql, _ in parts) or "true", [value for _, values in parts for value in values]


def _condition_sql(condition: Condition) -> tuple[str, list[Any]]:
    column, value, number = storable(condition.column), storable(condition.value), as_number(condition.value)
    text, names = ("path", []) if column == "path" else ("(searched -> %s ->> 't')", [column])
    if condition.operator == "~":
        folded = storable(condition.value.casefold())
        return f"position(%s in coalesce(searched -> %s ->> 'f', {text})) > 0", [folded, column, *names]
    if condition.operator in ("=", "!="):
        equal, values = _equality_sql(column, value, number)
        if not value:  # nothing after the sign: items without a value count as equal
            equal, values = f"({equal} OR {text} IS NULL)", [*values, *names]
        return equal if condition.operator == "=" else f"NOT {equal}", values
    as_texts = f'{text} COLLATE "C" {condition.operator} %s'  # by code point, as Python compares
    if number is None:
        return as_texts, [*names, value]
    found = "(searched -> %s ->> 'n')::float8"
    compared = f"CASE WHEN {found} IS NOT NULL THEN {found} {condition.operator} %s ELSE {as_texts} END"
    return compared, [column, column, number, *names, value]


def _equality_sql(column: str, value: str, number: float | None) -> tuple[str, list[Any]]:
    """As containment, which the index on `searched` serves. A text that equals a number's text is that number."""
    if column == "path" and number is None:
        return "(path = %s)", [value]
    return "(searched @> %s::jsonb)", [json.dumps({column: {"t": value} if number is None else {"n": number}})]
