"""Functions by their names in Spark, each with its types, and Python that says the same.

What stands here is held against Spark's own answers (`tests/streams/spark/test_expressions.py`); what does not is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ottla.streams.expressions.bound import Bound, as_text, cast, common, constant, lazy, strict
from ottla.streams.expressions.kinds import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DOUBLE,
    FLOAT,
    INT,
    INTEGERS,
    STRING,
    TIMESTAMP,
    VOID,
    Kind,
    Refused,
    array_of,
)
from ottla.streams.expressions.operators import OPERATORS, equal, texts_in_a_row
from ottla.streams.expressions.patterns import (
    java_count,
    java_extract,
    java_extract_all,
    java_pattern,
    java_replace,
    java_split,
    like_pattern,
)

__all__ = ["FUNCTIONS"]

Binder = Callable[[list[Bound], tuple[str, ...]], Bound]
FUNCTIONS: dict[str, Binder] = {}
"""By their names in small letters."""


def _function(*names: str, count: int | tuple[int, int] | None = None) -> Callable[[Any], Any]:
    """Register what binds a function of so many arguments, under all its names."""
    low, high = (0, 1 << 30) if count is None else count if isinstance(count, tuple) else (count, count)

    def register(bind: Callable[..., Bound]) -> Callable[..., Bound]:
        def checked(arguments: list[Bound], said: tuple[str, ...]) -> Bound:
            if not low <= len(arguments) <= high:
                raise Refused(f"{names[0]} with {len(arguments)} arguments is not known here")
            return bind(arguments)

        for each in names:
            FUNCTIONS[each] = checked
        return bind

    return register


def _texts(name: str, arguments: list[Bound]) -> list[Bound]:
    for each in arguments:
        if each.kind not in (STRING, VOID):
            raise Refused(f"{name} over {each.kind} is not known here: say cast({'…'} as string)")
    return [cast(each, STRING) for each in arguments]


def _whole(name: str, of: Bound) -> Bound:
    if of.kind == VOID:
        return cast(of, INT)
    if of.kind not in INTEGERS[:3]:
        raise Refused(f"{name} with a {of.kind} where it takes an int is not known here")
    return cast(of, INT)


def _text_functions() -> None:
    """Register functions of one or more texts that are one piece of Python."""
    simple: dict[tuple[str, ...], tuple[str, Kind, int, str]] = {
        ("upper", "ucase"): ("{0}.upper()", STRING, 1, "upper"),
        ("lower", "lcase"): ("{0}.lower()", STRING, 1, "lower"),
        ("length", "len", "char_length", "character_length"): ("len({0})", INT, 1, "length"),
        ("trim",): ("{0}.strip(' ')", STRING, 1, "trim"),
        ("ltrim",): ("{0}.lstrip(' ')", STRING, 1, "ltrim"),
        ("rtrim",): ("{0}.rstrip(' ')", STRING, 1, "rtrim"),
        ("reverse",): ("{0}[::-1]", STRING, 1, ""),
        ("startswith",): ("{0}.startswith({1})", BOOLEAN, 2, ""),
        ("endswith",): ("{0}.endswith({1})", BOOLEAN, 2, ""),
        ("contains",): ("({1} in {0})", BOOLEAN, 2, ""),
        ("instr",): ("({0}.find({1}) + 1)", INT, 2, ""),
    }
    for names, (template, kind, count, arrow) in simple.items():

        def bind(
            arguments: list[Bound],
            name: str = names[0],
            template: str = template,
            kind: Kind = kind,
            arrow: str = arrow,
        ) -> Bound:
            return strict(kind, template, *_texts(name, arguments), arrow=arrow)

        _function(*names, count=count)(bind)


_text_functions()


@_function("substring", "substr", count=(2, 3))
def _substring(arguments: list[Bound]) -> Bound:
    (text,) = _texts("substring", arguments[:1])
    numbers = [_whole("substring", each) for each in arguments[1:]]
    return strict(STRING, "r.part({0}, {1}, {2})" if len(numbers) == 2 else "r.rest({0}, {1})", text, *numbers)


def _with_number(name: str, template: str) -> None:
    def bind(arguments: list[Bound]) -> Bound:
        (text,) = _texts(name, arguments[:1])
        return strict(STRING, template, text, _whole(name, arguments[1]))

    _function(name, count=2)(bind)


_with_number("left", "r.first({0}, {1})")
_with_number("right", "r.last({0}, {1})")
_with_number("repeat", "r.repeated({0}, {1})")


def _filled(name: str, template: str) -> None:
    def bind(arguments: list[Bound]) -> Bound:
        fill = arguments[2] if len(arguments) == 3 else constant(" ", STRING)
        text, filling = _texts(name, [arguments[0], fill])
        return strict(STRING, template, text, _whole(name, arguments[1]), filling)

    _function(name, count=(2, 3))(bind)


_filled("lpad", "r.filled_left({0}, {1}, {2})")
_filled("rpad", "r.filled_right({0}, {1}, {2})")


@_function("replace", count=(2, 3))
def _replace(arguments: list[Bound]) -> Bound:
    new = arguments[2] if len(arguments) == 3 else constant("", STRING)
    return strict(STRING, "r.replaced({0}, {1}, {2})", *_texts("replace", [*arguments[:2], new]))


@_function("concat")
def _concat(arguments: list[Bound]) -> Bound:
    if not arguments or any(each.kind == BINARY or each.kind.name == "array" for each in arguments):
        raise Refused("concat of anything but texts and whole numbers is not known here")
    return texts_in_a_row(*(as_text(each) if each.kind != VOID else cast(each, STRING) for each in arguments))


@_function("concat_ws")
def _concat_ws(arguments: list[Bound]) -> Bound:
    if len(arguments) < 2:
        raise Refused("concat_ws with nothing to join is not known here")
    (separator,) = _texts("concat_ws", arguments[:1])
    parts = []
    for each in arguments[1:]:
        if each.kind.name == "array" and each.kind.element != STRING:
            raise Refused(f"concat_ws over {each.kind} is not known here")
        parts.append(each if each.kind.name == "array" else cast(each, STRING) if each.kind == VOID else as_text(each))
    codes = ", ".join(f"{{{at}}}" for at in range(1, len(parts) + 1))
    return lazy(STRING, f"r.joined({{0}}, {codes})", separator, *parts)


@_function("split", count=(2, 3))
def _split(arguments: list[Bound]) -> Bound:
    text, pattern = arguments[0], arguments[1]
    limit = arguments[2] if len(arguments) == 3 else constant(-1, INT)
    if not (pattern.is_literal and limit.is_literal and limit.kind == INT and isinstance(pattern.value, str)):
        raise Refused("split by anything but a literal, or with another limit than a literal, is not known here")
    (text,) = _texts("split", [text])
    if limit.value > 0:
        call = constant(java_split(pattern.value, limit.value), Kind("pattern"))
        return strict(array_of(STRING), "{1}({0})", text, call)
    if not re.fullmatch(r"[A-Za-z0-9 ,;:=_/@#%&'\"<>~`!-]+", pattern.value):
        return strict(array_of(STRING), "{1}({0})", text, constant(java_split(pattern.value), Kind("pattern")))
    return strict(array_of(STRING), "{0}.split({1})", text, pattern, arrow="split")


@_function("like", count=2)
def _like(arguments: list[Bound]) -> Bound:
    return _matched("like", arguments, like_pattern)


@_function("rlike", "regexp_like", count=2)
def _rlike(arguments: list[Bound]) -> Bound:
    return _matched("rlike", arguments, java_pattern)


def _matched(name: str, arguments: list[Bound], made: Callable[[str], Callable[[str], bool]]) -> Bound:
    text, pattern = arguments
    if not pattern.is_literal or not isinstance(pattern.value, str):
        raise Refused(f"{name} with anything but a literal is not known here")
    (text,) = _texts(name, [text])
    return strict(BOOLEAN, "{1}({0})", text, constant(made(pattern.value), Kind("pattern")))


def _literals(name: str, arguments: list[Bound], *kinds: Kind) -> list[Any]:
    """Return the values of arguments that have to be literals of some types."""
    for each, kind in zip(arguments, kinds, strict=False):
        if not each.is_literal or each.kind != kind:
            raise Refused(f"{name} with anything but literals behind its text is not known here")
    return [each.value for each in arguments]


@_function("regexp_replace", count=3)
def _regexp_replace(arguments: list[Bound]) -> Bound:
    (text,) = _texts("regexp_replace", arguments[:1])
    call = java_replace(*_literals("regexp_replace", arguments[1:], STRING, STRING))
    return strict(STRING, "{1}({0})", text, constant(call, Kind("pattern")))


@_function("regexp_extract", count=(2, 3))
def _regexp_extract(arguments: list[Bound]) -> Bound:
    return _extracted("regexp_extract", arguments, STRING, java_extract)


@_function("regexp_extract_all", count=(2, 3))
def _regexp_extract_all(arguments: list[Bound]) -> Bound:
    return _extracted("regexp_extract_all", arguments, array_of(STRING), java_extract_all)


def _extracted(name: str, arguments: list[Bound], kind: Kind, made: Callable[[str, int], Any]) -> Bound:
    (text,) = _texts(name, arguments[:1])
    group = arguments[2] if len(arguments) == 3 else constant(1, INT)
    call = made(*_literals(name, [arguments[1], group], STRING, INT))
    return strict(kind, "{1}({0})", text, constant(call, Kind("pattern")))


@_function("regexp_count", count=2)
def _regexp_count(arguments: list[Bound]) -> Bound:
    (text,) = _texts("regexp_count", arguments[:1])
    call = java_count(*_literals("regexp_count", arguments[1:], STRING))
    return strict(INT, "{1}({0})", text, constant(call, Kind("pattern")))


# -- nulls and choices


@_function("isnull", count=1)
def _is_null(arguments: list[Bound]) -> Bound:
    return lazy(BOOLEAN, "({0} is None)", *arguments, arrow="is_null")


@_function("isnotnull", count=1)
def _is_not_null(arguments: list[Bound]) -> Bound:
    return lazy(BOOLEAN, "({0} is not None)", *arguments, arrow="is_valid")


@_function("coalesce", "nvl", "ifnull", count=(1, 20))
def _coalesce(arguments: list[Bound]) -> Bound:
    kind = common([each.kind for each in arguments])
    found = cast(arguments[-1], kind)
    for each in reversed(arguments[:-1]):
        found = lazy(kind, "({a} if ({a} := {0}) is not None else {1})", cast(each, kind), found, arrow="coalesce")
    return found


@_function("nvl2", count=3)
def _nvl2(arguments: list[Bound]) -> Bound:
    kind = common([each.kind for each in arguments[1:]])
    return lazy(kind, "({1} if {0} is not None else {2})", arguments[0], *(cast(each, kind) for each in arguments[1:]))


@_function("nullif", count=2)
def _nullif(arguments: list[Bound]) -> Bound:
    one, other = arguments
    return lazy(one.kind, "(None if {0} is True else {1})", equal(one, other), one)


@_function("if", count=3)
def _if(arguments: list[Bound]) -> Bound:
    condition, *results = arguments
    if condition.kind != BOOLEAN:
        raise Refused(f"a condition of type {condition.kind} is not known here")
    kind = common([each.kind for each in results])
    return lazy(kind, "({1} if {0} is True else {2})", condition, *(cast(each, kind) for each in results))


@_function("in")
def _in(arguments: list[Bound]) -> Bound:
    value, *options = arguments
    kind = common([each.kind for each in arguments])
    if kind.name not in ("string", *map(str, INTEGERS)) or not all(each.is_literal for each in options):
        raise Refused(f"in over {kind} or with anything but literals is not known here")
    found = frozenset(each.value for each in options if each.value is not None)
    missing = any(each.value is None for each in options)
    template = "({0} in {1} or None)" if missing else "({0} in {1})"
    return strict(BOOLEAN, template, cast(value, kind), constant(found, Kind("set")))


def _extreme(name: str) -> None:
    def bind(arguments: list[Bound]) -> Bound:
        kind = common([each.kind for each in arguments])
        if len(arguments) < 2 or kind not in (*INTEGERS, DOUBLE, STRING, TIMESTAMP):
            raise Refused(f"{name} over {kind} is not known here")
        found = cast(arguments[0], kind)
        for each in arguments[1:]:
            below = "r.below({b}, {a})" if kind == DOUBLE else "{b} < {a}"
            if name == "greatest":
                below = "r.below({a}, {b})" if kind == DOUBLE else "{b} > {a}"
            both = "(({a} := {0}), ({b} := {1}))"
            template = f"({{a}} if {both}[1] is None else {{b}} if {{a}} is None or {below} else {{a}})"
            found = lazy(kind, template, found, cast(each, kind))
        return found

    _function(name)(bind)


_extreme("least")
_extreme("greatest")


# -- numbers


@_function("abs", count=1)
def _abs(arguments: list[Bound]) -> Bound:
    (of,) = arguments
    if of.kind in INTEGERS:
        return strict(of.kind, f"r.{'int_' if of.kind == INT else of.kind.name}(abs({{0}}))", of)
    if of.kind in (FLOAT, DOUBLE) or of.kind.name == "decimal":
        return strict(of.kind, "abs({0})", of)
    raise Refused(f"abs over {of.kind} is not known here")


def _rounded(name: str, template: str) -> None:
    def bind(arguments: list[Bound]) -> Bound:
        (of,) = arguments
        if of.kind not in (*INTEGERS, DOUBLE):
            raise Refused(f"{name} over {of.kind} is not known here")
        return strict(BIGINT, "{0}" if of.kind in INTEGERS else template, of)

    _function(name, *(["ceiling"] if name == "ceil" else []), count=1)(bind)


_rounded("ceil", "r.ceiling({0})")
_rounded("floor", "r.floor({0})")


@_function("sqrt", count=1)
def _sqrt(arguments: list[Bound]) -> Bound:
    (of,) = arguments
    if of.kind not in (*INTEGERS, DOUBLE):
        raise Refused(f"sqrt over {of.kind} is not known here")
    return strict(DOUBLE, "r.root({0})", cast(of, DOUBLE))


@_function("mod", count=2)
def _mod(arguments: list[Bound]) -> Bound:
    return OPERATORS["%"](arguments)


@_function("pmod", count=2)
def _pmod(arguments: list[Bound]) -> Bound:
    kind = common([each.kind for each in arguments])
    if kind not in INTEGERS[2:]:
        raise Refused(f"pmod over {kind} is not known here")
    return strict(kind, "r.pmod({1}, {0})", *(cast(each, kind) for each in reversed(arguments)))


# -- arrays


@_function("size", "cardinality", count=1)
def _size(arguments: list[Bound]) -> Bound:
    if arguments[0].kind.name != "array":
        raise Refused(f"size of {arguments[0].kind} is not known here")
    return strict(INT, "len({0})", *arguments)


@_function("array")
def _array(arguments: list[Bound]) -> Bound:
    if not arguments:
        raise Refused("array without elements is not known here")
    kind = common([each.kind for each in arguments])
    if kind == VOID:
        raise Refused("array of nulls is not known here")
    codes = ", ".join(f"{{{at}}}" for at in range(len(arguments)))
    return lazy(array_of(kind), f"[{codes}]", *(cast(each, kind) for each in arguments))


# -- structs


def _struct(arguments: list[Bound], names: tuple[str, ...]) -> Bound:
    said = [name or f"col{at}" for at, name in enumerate(names, 1)]
    return _struct_of(arguments, said)


def _named_struct(arguments: list[Bound], names: tuple[str, ...]) -> Bound:
    keys = arguments[::2]
    if len(arguments) % 2 or not all(each.is_literal and isinstance(each.value, str) for each in keys):
        raise Refused("named_struct with anything but literal names is not known here")
    return _struct_of(arguments[1::2], [each.value for each in keys])


def _struct_of(arguments: list[Bound], names: list[str]) -> Bound:
    if not arguments or len({each.lower() for each in names}) < len(names):
        raise Refused("a struct without fields, or with two of one name, is not known here")
    if any(each.kind == VOID or each.kind.held for each in arguments):
        raise Refused("a struct of nulls without type, or of objects, is not known here")
    kind = Kind("struct", fields=tuple((name, each.kind) for name, each in zip(names, arguments, strict=True)))
    parts = [f"{{n{at}}}: {{{at}}}" for at in range(len(arguments))]
    return lazy(kind, "{{" + ", ".join(parts) + "}}", *arguments, value=tuple(names))


FUNCTIONS["struct"] = _struct
FUNCTIONS["named_struct"] = _named_struct


# -- time


def _moment(name: str, template: str, kind: Kind) -> None:
    def bind(arguments: list[Bound]) -> Bound:
        if arguments[0].kind != TIMESTAMP:
            raise Refused(f"{name} over {arguments[0].kind} is not known here")
        return strict(kind, template, *arguments)

    _function(name, *(["dayofmonth"] if name == "day" else []), count=1)(bind)


for _name in ("year", "month", "day", "hour", "minute", "second"):
    _moment(_name, f"r.local({{0}}, zone).{_name}", INT)
_moment("unix_micros", "{0}", BIGINT)
_moment("unix_millis", "({0} // 1000)", BIGINT)
_moment("unix_seconds", "({0} // 1000000)", BIGINT)


@_function("timestamp_millis", count=1)
def _timestamp_millis(arguments: list[Bound]) -> Bound:
    if arguments[0].kind not in INTEGERS:
        raise Refused(f"timestamp_millis over {arguments[0].kind} is not known here")
    return strict(TIMESTAMP, "r.millis_to_moment({0})", *arguments)
