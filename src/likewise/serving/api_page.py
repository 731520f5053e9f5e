"""The page of the JSON interface, written from its OpenAPI description: no script, nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from likewise.reports.markup import Markup, join, tag

EXAMPLES = {
    ("post", "/api/search"): (
        "curl -F image=@photo.jpg 'ADDRESS/api/search?k=10'",
        "curl -X POST 'ADDRESS/api/search?id=3&where=label=gull'",
    ),
    ("get", "/api/images/{id}"): ("curl -o thumb.jpg 'ADDRESS/api/images/3?size=thumb'",),
    ("get", "/api/explain"): ("curl 'ADDRESS/api/explain?query_id=3&id=7'",),
    ("post", "/api/marks"): (
        """curl -H 'Content-Type: application/json' -d '{"query_id": 3, "id": 7, "mark": "right"}' ADDRESS/api/marks""",
    ),
}


def api_page(description: Mapping[str, Any], address: str, *, needs_token: bool) -> str:
    """`address`: where the service was called, for the examples."""
    operations = [
        _operation(description, path, method, operation, address, needs_token=needs_token)
        for path, methods in description["paths"].items()
        for method, operation in methods.items()
    ]
    token = "" if not needs_token else "Every request needs the header Authorization: Bearer TOKEN. "
    body = join(
        (
            tag("h1", {}, "Search by picture: the JSON interface"),
            tag("p", {}, token, 'Whatever goes wrong is answered as {"error": "why, and what to do"}. Described for programs in '),
            tag("p", {}, tag("a", {"href": "openapi.json"}, "openapi.json"), "."),
            *operations,
        )
    )
    head = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark"><link rel="icon" href="data:,"><link rel="stylesheet" href="search.css">'
        "<title>Likewise: the JSON interface</title></head>"
    )
    header = tag("header", {}, tag("a", {"class": "brand", "href": "./"}, "Likewise"))
    return f"{head}{tag('body', {'class': 'docs'}, header, tag('main', {}, body))}</html>"


def _operation(
    description: Mapping[str, Any], path: str, method: str, operation: Mapping[str, Any], address: str, *, needs_token: bool
) -> Markup:
    heading = tag("h2", {}, tag("span", {"class": "method"}, method.upper()), " ", tag("code", {}, path))
    parts = [heading, tag("p", {}, operation.get("description") or operation.get("summary", ""))]
    parameters = [
        (one["name"], _type_of(one["schema"]), one.get("description", ""), "" if one.get("required") else "optional")
        for one in operation.get("parameters", ())
    ]
    content = operation.get("requestBody", {}).get("content", {})
    for kind, body in content.items():
        parts.append(tag("p", {}, "Takes in the body, ", tag("code", {}, kind), ":"))
        parts.append(_fields(description, body["schema"]))
    if parameters:
        parts += [tag("p", {}, "Takes in the address:"), _table(parameters)]
    answer = operation["responses"].get("200", {}).get("content", {}).get("application/json", {}).get("schema")
    if answer:
        parts += [tag("p", {}, "Gives:"), _fields(description, answer)]
    flag = "-H 'Authorization: Bearer TOKEN' " if needs_token else ""
    examples = [one.replace("ADDRESS", address).replace("curl ", f"curl {flag}", 1) for one in EXAMPLES.get((method, path), ())]
    if examples:
        parts.append(tag("pre", {}, tag("code", {}, "\n".join(examples))))
    return tag("article", {}, *parts)


def _fields(description: Mapping[str, Any], schema: Mapping[str, Any]) -> Markup:
    """The fields of an object, those of the objects in it below."""
    rows: list[tuple[str, ...]] = []
    _gather(description, schema, "", rows)
    return _table(rows)


def _gather(description: Mapping[str, Any], schema: Mapping[str, Any], before: str, rows: list[tuple[str, ...]]) -> None:
    schema = _resolved(description, schema)
    for name, field in schema.get("properties", {}).items():
        rows.append((before + name, _type_of(field), field.get("description", "")))
        inner = _inner(description, field)
        if inner is not None:
            _gather(description, inner, f"{before}{name}{'[]' if field.get('type') == 'array' else ''}.", rows)


def _inner(description: Mapping[str, Any], field: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The object that a field holds, or a list of it."""
    choices = [field, *field.get("anyOf", ()), *([field["items"]] if "items" in field else ())]
    return next((_resolved(description, one) for one in choices if "$ref" in one), None)


def _resolved(description: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    if "$ref" not in schema:
        return schema
    resolved: Mapping[str, Any] = description["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return resolved


def _type_of(schema: Mapping[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_type_of(one) for one in schema["anyOf"]))
    if "enum" in schema:
        return " or ".join(map(repr, schema["enum"]))
    if "const" in schema:
        return repr(schema["const"])
    if schema.get("type") == "array":
        return f"list of {_type_of(schema['items'])}"
    return "object" if "$ref" in schema else str(schema.get("format") if schema.get("format") == "binary" else schema.get("type", "any"))


def _table(rows: Sequence[tuple[str, ...]]) -> Markup:
    body = [tag("tr", {}, tag("td", {}, tag("code", {}, row[0])), *(tag("td", {}, cell) for cell in row[1:])) for row in rows]
    return tag("table", {}, tag("tbody", {}, *body))
