"""What a setting may be: its type and range, written beside it and checked in one place."""

import dataclasses
import difflib
import math
import re
import types
from collections.abc import Callable, Iterable
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from discern.types import UserError


@dataclasses.dataclass(frozen=True)
class Range:
    """Which numbers a field takes, and how that is said."""

    said: str
    holds: Callable[[float], bool]


Positive = Annotated[int, Range("be at least 1", lambda x: x >= 1)]
Several = Annotated[int, Range("be at least 2", lambda x: x >= 2)]
Seed = Annotated[int, Range("lie between 0 and 4294967295", lambda x: 0 <= x < 2**32)]
Amount = Annotated[float, Range("be 0 or more", lambda x: x >= 0)]
AboveZero = Annotated[float, Range("be above 0", lambda x: x > 0)]
AtLeastOne = Annotated[float, Range("be at least 1", lambda x: x >= 1)]
Share = Annotated[float, Range("lie in [0, 1]", lambda x: 0 <= x <= 1)]
ShareBelowOne = Annotated[float, Range("lie in [0, 1)", lambda x: 0 <= x < 1)]

KINDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a text", type(None): "null"}


class SettingError(UserError, ValueError):
    """A setting that cannot be; its fields stand in braces, for each interface to name them its own way."""

    def __init__(self, sentence: str):
        super().__init__(re.sub(r"\{([\w.]+)\}", r"\1", sentence))
        self.sentence = sentence

    def spelt(self, name: Callable[[str], str]) -> str:
        """The sentence, its fields named by a function."""
        return re.sub(r"\{([\w.]+)\}", lambda field: name(field[1]), self.sentence)


def first_problem(settings: Any, path: str = "", but: str = "") -> str | None:
    """What is wrong with the first field of a dataclass, or of those in it, that is not of its type and range; the
    field `but` is passed over."""
    kinds = _kinds(settings.__class__)
    for name in (entry.name for entry in dataclasses.fields(settings) if entry.name != but):
        kind, value = kinds[name], getattr(settings, name)
        if isinstance(kind, type) and dataclasses.is_dataclass(kind):
            if not isinstance(value, kind):
                return f"{{{path}{name}}} must be a {kind.__name__}, not {value!r}"
            problem = first_problem(value, f"{path}{name}.")
        else:
            problem = _problem(f"{{{path}{name}}}", kind, value)
        if problem:
            return problem
    return None


@cache
def _kinds(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


def _problem(name: str, kind: Any, value: Any) -> str | None:
    kind, *ranges = get_args(kind) if get_origin(kind) is Annotated else (kind,)
    if not _is_a(kind, value):
        return f"{name} takes {_said(kind)}, not {value!r}"
    if get_origin(kind) in (Union, types.UnionType):
        return _problem(name, next(part for part in get_args(kind) if _is_a(part, value)), value)
    for number in value if isinstance(value, tuple) else (value,):
        if isinstance(number, float) and not math.isfinite(number):
            return f"{name} must be a finite number, not {number}"
    if get_origin(kind) is tuple:
        problems = (_problem(f"each of {name}", get_args(kind)[0], part) for part in value)
        return next(filter(None, problems), None)
    for range_ in ranges:
        if isinstance(range_, Range) and not range_.holds(value):
            return f"{name} must {range_.said}, not {value}"
    return None


def _is_a(kind: Any, value: Any) -> bool:
    origin = get_origin(kind)
    if origin is Annotated:
        return _is_a(get_args(kind)[0], value)
    if origin is Literal:
        return value in get_args(kind)
    if origin in (Union, types.UnionType):
        return any(_is_a(part, value) for part in get_args(kind))
    if origin is tuple:
        return isinstance(value, tuple) and all(_is_a(get_args(kind)[0], part) for part in value)
    if isinstance(value, bool) or kind is bool:
        return isinstance(value, bool) and kind is bool
    return isinstance(value, (int, float) if kind is float else kind)


def _said(kind: Any) -> str:
    origin = get_origin(kind)
    if origin is Annotated:
        return _said(get_args(kind)[0])
    if origin is Literal:
        return " or ".join(map(str, get_args(kind)))
    if origin is tuple:
        return f"a list, each {_said(get_args(kind)[0])}"
    if origin in (Union, types.UnionType):
        return " or ".join(map(_said, get_args(kind)))
    return KINDS.get(kind, "a path")


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of a sentence that says which known name was likely meant, or else nothing."""
    known = list(known)
    close = [other for other in known if name and other.endswith(f".{name.lstrip('-')}")]
    close = close or difflib.get_close_matches(name, known, 1, cutoff=0.6)
    return f": did you mean {close[0]}?" if close else ""
