"""Arguments held against their annotations: what is of another kind is refused by its name, before anything is done with it.

Every public function has `@checked_arguments`. What lies deeper than kinds (a range, a name of a registry) is checked where it is used.
"""

from __future__ import annotations

import collections.abc
import functools
import inspect
import math
import numbers
import os
import types
import typing
from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin

from likewise.wording import quoted

P = ParamSpec("P")
Result = TypeVar("Result")

MOST_LOOKED_AT = 1000  # entries of a sequence
LONGEST_PATH, LONGEST_NAME = 2000, 100  # letters
_LISTS = (collections.abc.Sequence, collections.abc.Collection, collections.abc.Iterable, list, tuple)
_WORDS = {bool: "True or False", int: "a whole number", float: "a number", str: "text", type(None): "None"}


def checked_arguments(function: Callable[P, Result]) -> Callable[P, Result]:
    """The function, which refuses arguments that are not of the kind it says it takes."""
    signature = inspect.signature(function)
    many = [name for name, parameter in signature.parameters.items() if parameter.kind is parameter.VAR_POSITIONAL]

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> Result:
        # a TypeError, as of every function, where one is missing
        given = signature.bind(*args, **kwargs).arguments
        for name in many:
            for value in given.pop(name, ()):
                require_kinds(function.__name__, function, {name: value})
        require_kinds(function.__name__, function, given)
        return function(*args, **kwargs)

    return checked


def require_kinds(what: str, function: Callable[..., Any], values: Mapping[str, object]) -> None:
    """The same of values by name; `what` is whose settings they are."""
    kinds = _kinds(function)
    for name, value in values.items():
        if name in kinds:
            require_kind(f"{what}: {name}", value, kinds[name])


def require_kind(where: str, value: object, kind: Any) -> None:
    """A ValueError that says what was expected, unless the value is of the kind that an annotation names."""
    if isinstance(value, float) and math.isnan(value) and not is_of(value, kind):
        raise ValueError(f"{where} is NaN: expected {in_words(kind)}")
    if not is_of(value, kind):
        raise ValueError(f"{where} is {_shown(value)}: expected {in_words(kind)}")
    _require_numbers(where, value)
    if isinstance(value, str | os.PathLike) and any(_is_path(each) for each in (get_args(kind) or (kind,))):
        _require_name(where, os.fspath(value))


def _require_numbers(where: str, value: object) -> None:
    """Refuses tensors and arrays that hold no numbers that could be computed with. Text, and objects that stand for it, may be labels."""
    dtype = getattr(value, "dtype", None)
    if dtype is None:
        return
    if hasattr(value, "layout") and (getattr(value, "is_meta", False) or str(value.layout) != "torch.strided"):
        what = "without data" if getattr(value, "is_meta", False) else f"of layout {value.layout}"
        raise ValueError(f"{where} is a tensor {what}: expected a dense one, which .to_dense() gives of a sparse one")
    if getattr(value, "ndim", 1) == 0 and (hasattr(value, "layout") or type(value).__name__ == "ndarray"):
        raise ValueError(f"{where} is a single number: expected a row an item")
    if getattr(value, "is_quantized", False):
        raise ValueError(f"{where} is a quantised tensor: expected numbers, which .dequantize() gives")
    if getattr(dtype, "kind", "f") in "mMV" or getattr(dtype, "name", "") in ("longdouble", "float96", "float128", "clongdouble"):
        raise ValueError(f"{where} is an array of {dtype}: expected numbers of at most 64 bits, or text, which .astype gives")


def _require_name(where: str, name: str | bytes) -> None:
    text = os.fsdecode(name)
    what = "holds a null" if "\0" in text else f"has {len(text):,} letters" if len(text) > LONGEST_PATH else ""
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        what = "holds half of a letter"
    if what:
        raise ValueError(f"{where} is {quoted(text)}, which {what}: no file has such a name")


def _is_path(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, PurePath)


def is_of(value: object, kind: Any) -> bool:
    """Whether the value is of the kind; also where the annotation says nothing that could be looked at."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        is_array = any(getattr(get_origin(argument) or argument, "__name__", "") == "ndarray" for argument in arguments)
        return (is_array and isinstance(value, list | tuple)) or any(is_of(value, argument) for argument in arguments)
    if origin is Literal:
        # of a name that is none of them, whoever knows the names says more
        return (isinstance(value, str) and len(value) <= LONGEST_NAME) or any(
            type(value) is type(argument) and value == argument for argument in arguments
        )
    if kind is Any:
        return True
    if kind is None or kind is type(None):
        return value is None
    if kind is bool:
        return isinstance(value, bool) or type(value).__name__ == "bool_"
    if kind is int:
        return isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if kind is float:
        return isinstance(value, numbers.Real) and not isinstance(value, bool) and not math.isnan(value)
    if _is_path(kind):
        return isinstance(value, os.PathLike)
    if origin in _LISTS or kind in _LISTS:
        return _is_list(value, origin or kind, arguments)
    if origin is not None and isinstance(origin, type):  # an array of some numbers, a mapping, a callable
        return isinstance(value, origin) and (origin is not collections.abc.Mapping or _is_mapping(value, arguments))
    if not isinstance(kind, type):
        return True  # a name that is known to type checkers alone, Any
    if getattr(kind, "_is_protocol", False):  # what an object of a class lacks, whoever calls its methods says
        if "__call__" in vars(kind):  # a function may be one, and what is none is told where it is called
            return True
        made_of = value if isinstance(value, type) else type(value)
        return made_of is object or (made_of.__module__ not in ("builtins", "numpy", "torch") and not isinstance(value, PurePath))
    return isinstance(value, kind)


def _is_list(value: object, origin: Any, arguments: tuple[Any, ...]) -> bool:
    wanted = collections.abc.Sequence if origin in (list, tuple) else origin
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, wanted):
        return False
    entries = [argument for argument in arguments if argument is not Ellipsis]
    if hasattr(value, "dtype") and origin in _LISTS:  # arrays and tensors are named where they are meant
        return False
    if not isinstance(value, list | tuple | set | frozenset | range) or len(value) > MOST_LOOKED_AT or len(entries) != 1:
        return True
    return all(is_of(entry, entries[0]) for entry in value)


def _is_mapping(value: object, arguments: tuple[Any, ...]) -> bool:
    assert isinstance(value, Mapping)
    return not arguments or all(is_of(name, arguments[0]) and is_of(entry, arguments[1]) for name, entry in value.items())


def in_words(kind: Any) -> str:
    """The kind as a message has it."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(in_words(argument) for argument in arguments))
    if origin is Literal:
        return " or ".join(map(repr, arguments))
    if _is_path(kind):
        return "a path"
    if (origin or kind) in _LISTS:
        within = [argument for argument in arguments if argument is not Ellipsis]
        return f"a list of ({in_words(within[0])})" if len(within) == 1 else "a list"
    if origin is collections.abc.Mapping:
        return "a dict"
    if origin is collections.abc.Callable:
        return "a function"
    named = origin or kind
    return _WORDS.get(named, getattr(named, "__name__", str(named)))


def _shown(value: object) -> str:
    plain = value is None or isinstance(value, str | bytes | int | float | list | tuple | dict | set | PurePath)
    return quoted(value) if plain else f"of type {type(value).__name__}"


@functools.cache
def _kinds(function: Callable[..., Any]) -> dict[str, Any]:
    """The annotations that can be looked at: names that are imported for type checkers alone cannot."""
    kinds = {}
    for name, parameter in inspect.signature(function).parameters.items():
        hint = parameter.annotation
        if hint is inspect.Parameter.empty or parameter.kind is parameter.VAR_KEYWORD:
            continue
        try:
            resolved = typing.get_type_hints(types.SimpleNamespace(__annotations__={name: hint}), function.__globals__)
        except (NameError, TypeError):
            continue
        kinds[name] = resolved[name]
    return kinds
