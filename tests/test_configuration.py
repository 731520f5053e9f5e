from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

from likewise.configuration import (
    Choice,
    Difference,
    Named,
    Uniform,
    as_table,
    differing,
    divided,
    from_table,
    value_of,
    with_settings,
)
from likewise.formats.settings_files import read_toml


@dataclass(frozen=True)
class Inner:
    depth: int = 1
    ratio: float = 0.5


@dataclass(frozen=True)
class Outer:
    name: str
    loss: Named
    mining: Named | None = None
    inner: Inner = Inner()
    kind: Literal["a", "b"] = "a"
    sizes: tuple[int, ...] = (1, 2)
    side: int | Literal["auto"] = "auto"
    lively: bool = False
    search: dict[str, Uniform | Choice] = field(default_factory=dict)


FULL: dict[str, Any] = {
    "name": "full",
    "loss": {"name": "raw", "alpha": 2.0},
    "mining": {"name": "vthm", "margin": 0.1},
    "inner": {"depth": 3, "ratio": 0.25},
    "kind": "b",
    "sizes": [3, 4, 5],
    "side": 64,
    "lively": True,
    "search": {"loss.alpha": {"low": 1.0, "high": 2.0, "log": True}, "kind": {"choices": ["a", "b"]}},
}
LEAST: dict[str, Any] = {"name": "least", "loss": "raw"}


def made(**changes: Any) -> Outer:
    return from_table(Outer, LEAST | changes, where="file x.toml")


def test_a_table_becomes_the_dataclass() -> None:
    assert from_table(Outer, FULL, where="x") == Outer(
        name="full",
        loss=Named("raw", {"alpha": 2.0}),
        mining=Named("vthm", {"margin": 0.1}),
        inner=Inner(3, 0.25),
        kind="b",
        sizes=(3, 4, 5),
        side=64,
        lively=True,
        search={"loss.alpha": Uniform(1.0, 2.0, True), "kind": Choice(("a", "b"))},
    )


@pytest.mark.parametrize("table", [FULL, LEAST])
def test_as_table_and_from_table_are_each_others_inverse(table: dict[str, Any]) -> None:
    config = from_table(Outer, table, where="x")
    assert from_table(Outer, as_table(config), where="x") == config


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kinds": "a"}, "unknown key of file x.toml 'kinds': did you mean 'kind'?"),
        ({"inner": {"dept": 2}}, "unknown key of file x.toml: inner 'dept': did you mean 'depth'?"),
        ({"kind": "c"}, "file x.toml: kind is 'c': expected one of 'a', 'b'"),
        ({"inner": {"depth": "deep"}}, "file x.toml: inner: depth is 'deep': expected int"),
        ({"inner": {"depth": 1.5}}, "file x.toml: inner: depth is 1.5: expected int"),
        ({"inner": {"depth": True}}, "file x.toml: inner: depth is True: expected int"),
        ({"inner": {"ratio": True}}, "file x.toml: inner: ratio is True: expected float"),
        ({"lively": 1}, "file x.toml: lively is 1: expected bool"),
        ({"inner": "deep"}, "file x.toml: inner is 'deep': expected a table of depth, ratio; to set one of them, name it: inner.depth"),
        ({"sizes": [1, "two"]}, "file x.toml: sizes is 'two': expected int"),
        ({"loss": {"alpha": 1.0}}, "file x.toml: loss is {'alpha': 1.0}: expected a table with a name"),
        ({"search": {"kind": {"low": 1.0}}}, "file x.toml: search.kind: high missing"),
    ],
)
def test_what_does_not_fit_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        made(**changes)


def test_what_is_missing_is_named() -> None:
    with pytest.raises(ValueError, match=r"^file x\.toml: name, loss missing$"):
        from_table(Outer, {}, where="file x.toml")


def test_whole_floats_are_integers_and_integers_floats() -> None:
    inner = made(inner={"depth": 4.0, "ratio": 1}).inner
    assert (inner.depth, type(inner.depth), inner.ratio, type(inner.ratio)) == (4, int, 1.0, float)


def test_settings_by_dotted_names() -> None:
    changed = with_settings(made(), {"loss.alpha": 3.0, "inner.depth": 7, "mining.name": "vthm", "mining.margin": 0.2, "kind": "b"})
    assert changed.loss == Named("raw", {"alpha": 3.0})
    assert changed.mining == Named("vthm", {"margin": 0.2})
    assert (changed.inner, changed.kind) == (Inner(7, 0.5), "b")
    assert with_settings(made(), {"loss": {"name": "margin", "margin": 0.3}}).loss == Named("margin", {"margin": 0.3})


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("inner.dpth", 1, "unknown setting 'dpth': did you mean 'depth'?"),
        ("kind", "z", "kind is 'z': expected one of 'a', 'b'"),
        ("inner", "none", "inner is 'none': expected a table of depth, ratio; to set one of them, name it: inner.depth"),
        ("inner.depth", "deep", "inner.depth is 'deep': expected int"),
        ("mining.margin", 0.1, "there is no mining here; set mining.name first"),
        ("kind.deeper", 1, "kind has no settings of its own"),
        ("loss.alpha.x", 1, "raw has no settings within 'alpha'"),
    ],
)
def test_settings_that_do_not_fit_are_named(name: str, value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        with_settings(made(), {name: value})


def test_settings_go_to_the_configuration_that_has_them() -> None:
    settings = {"depth": 3, "inner.ratio": 0.1, "name": "x"}
    assert divided(settings, inner=Inner, outer=Outer) == {"inner": {"depth": 3}, "outer": {"inner.ratio": 0.1, "name": "x"}}
    with pytest.raises(ValueError, match=r"^unknown setting 'dept': did you mean 'depth' \(inner\)\?$"):
        divided({"dept": 3}, outer=Outer, inner=Inner)
    with pytest.raises(ValueError, match=r"^unknown setting 'zzz': known are depth, inner, kind, "):
        divided({"zzz": 3}, outer=Outer, inner=Inner)


@pytest.mark.parametrize(
    ("text", "value"), [("3", 3), ("0.5", 0.5), ("1e-3", 1e-3), ("true", True), ("[1, 2]", [1, 2]), ("max", "max"), ('"a b"', "a b")]
)
def test_values_of_a_command_line(text: str, value: Any) -> None:
    told = value_of(text)
    assert told == value
    assert type(told) is type(value)


def test_a_file_that_is_no_toml_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text("title = \n")
    with pytest.raises(ValueError, match=r"bad\.toml is not a readable TOML file .*line 1"):
        read_toml(tmp_path / "bad.toml")


def test_differing_names_settings_by_their_dotted_names() -> None:
    before = {"a": {"b": 1, "c": {"d": [1, 2]}}, "e": None}
    assert differing(before, before) == []
    assert differing(before, {"a": {"b": 2, "c": {"d": [1]}}}) == [Difference("a.b", "1", "2"), Difference("a.c.d", "[1, 2]", "[1]")]


def test_differing_tells_what_is_absent_and_a_name_before_its_settings() -> None:
    before, now = (
        made(loss={"name": "raw", "alpha": 2.0}),
        made(loss={"name": "margin", "beta": 1.2}, mining={"name": "vthm", "margin": 0.1}),
    )
    assert differing(as_table(before), as_table(now)) == [
        Difference("loss.name", "'raw'", "'margin'"),
        Difference("loss.alpha", "2.0", "absent"),
        Difference("loss.beta", "absent", "1.2"),
        Difference("mining", "absent", "'vthm'"),
    ]
