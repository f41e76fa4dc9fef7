"""JSON: any value as it comes (`JsonSerde()`), or a dataclass and other annotated types with their fields checked.

The text has no spaces and keeps the fields' order, as Jackson's and Spark's has, so that equal keys have equal
bytes. Decimals are written as text, which both read, so that no digit is lost.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import types
import typing
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin
from uuid import UUID

from ottla.base import decimal_of_text, plain_text
from ottla.streams.errors import SerializationError

__all__ = ["JsonSerde"]

_encoder = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, default=lambda value: _untyped(value))


def _untyped(value: object) -> object:
    """Say a value that JSON has no word for, where no annotation says how."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
    if isinstance(value, (datetime, date)):
        return _time_text(value)
    if isinstance(value, (UUID, Decimal)):
        return str(value)
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


@dataclass(frozen=True, slots=True)
class JsonSerde:
    """UTF-8 JSON. With `type` (a dataclass, `list[int]`, `dict[str, Account]` …) values are of it and checked."""

    type: Any = None

    @property
    def name(self) -> str:
        """Its name in plans and messages."""
        return "json" if self.type is None else getattr(self.type, "__name__", None) or str(self.type)

    @property
    def sql_type(self) -> str | None:
        """What its column is in Spark, if it has one."""
        return "variant" if self.type is None else _codec(self.type).ddl

    def serialize(self, value: Any) -> bytes | None:
        """Return a value's bytes."""
        if value is None:
            return None
        try:
            plain = value if self.type is None else _codec(self.type).say(value)
            return _encoder.encode(plain).encode("utf-8", "surrogatepass")
        except (TypeError, ValueError, AttributeError, KeyError, ArithmeticError, RecursionError) as problem:
            raise SerializationError(f"{self.name}: {problem}") from None

    def deserialize(self, data: bytes | None) -> Any:
        """Return the value of bytes."""
        if data is None:
            return None
        try:
            plain = json.loads(data)
            return plain if self.type is None else _codec(self.type).read(plain)
        except (TypeError, ValueError, KeyError, ArithmeticError, RecursionError) as problem:
            raise SerializationError(f"{self.name}: {problem}") from None

    def plain(self, value: Any) -> Any:
        """Return a value as what JSON knows: a dataclass as a dictionary of its fields."""
        return value if value is None or self.type is None else _codec(self.type).say(value)

    def typed(self, plain: Any) -> Any:
        """Return the value that `plain` says; raises TypeError or ValueError for what is not of the type."""
        return plain if plain is None or self.type is None else _codec(self.type).read(plain)

    def sql_decode(self, column: str) -> str:
        """Return SQL text that reads a binary column."""
        text = f"try_validate_utf8(cast({column} as string))"
        if self.type is None:
            return f"try_parse_json({text})"
        codec = _codec(self.type)
        if codec.ddl is None:
            raise SerializationError(f"{self.name}: only Python can decode it")
        # Inside an object of its own, because text that is no JSON gives null there, and a struct of nulls at the top. Where
        # a field is of another type, Spark has null for it, and says so beside.
        options = "map('columnNameOfCorruptRecord', 'bad')"
        read = f"from_json(concat('{{\"v\":', {text}, '}}'), 'struct<v: {codec.ddl}, bad: string>', {options})"
        return f"transform(array({read}), r -> if(r.bad is null, r.v, null))[0]"

    def sql_encode(self, column: str) -> str:
        """Return SQL text that writes a binary column."""
        ddl = self.sql_type
        if ddl is None:
            raise SerializationError(f"{self.name}: only Python can encode it")
        if self.type is None:
            return f"cast(to_json({column}) as binary)"
        if ddl.startswith(("struct", "array", "map")):
            return f"cast(to_json({column}, map('ignoreNullFields', 'false')) as binary)"
        text = f"to_json(named_struct('v', {column}))"
        return f"if({column} is null, null, cast(substring({text}, 6, length({text}) - 6) as binary))"


@dataclass(frozen=True, slots=True)
class _Codec:
    """How one annotated type is written as plain JSON values and read back, and what Spark calls it."""

    say: Callable[[Any], Any]
    read: Callable[[Any], Any]
    ddl: str | None


def _expecting(kind: type | tuple[type, ...], word: str) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise TypeError(f"expected {word}, got {value!r:.60}")
        return value

    return check


def _time_text(value: datetime | date) -> str:
    if not isinstance(value, datetime):
        return value.isoformat()
    moment = value if value.tzinfo else value.replace(tzinfo=UTC)
    return (
        moment.astimezone(UTC)
        .isoformat(timespec="milliseconds" if value.microsecond % 1000 == 0 else "microseconds")
        .replace("+00:00", "Z")
    )


def _time_read(value: Any) -> datetime:
    moment = datetime.fromisoformat(_expecting(str, "a timestamp's text")(value))
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _number(value: Any) -> float:
    return float(_expecting((int, float), "a number")(value))


_PLAIN: dict[Any, _Codec] = {
    str: _Codec(_expecting(str, "str"), _expecting(str, "a text"), "string"),
    int: _Codec(_expecting(int, "int"), _expecting(int, "a whole number"), "bigint"),
    float: _Codec(_number, _number, "double"),
    bool: _Codec(_expecting(bool, "bool"), _expecting(bool, "true or false"), "boolean"),
    bytes: _Codec(
        lambda value: b64encode(value).decode(),
        lambda value: b64decode(_expecting(str, "base64")(value), validate=True),
        "binary",
    ),
    datetime: _Codec(_time_text, _time_read, "timestamp"),
    date: _Codec(_time_text, lambda value: date.fromisoformat(_expecting(str, "a date's text")(value)), "date"),
    Decimal: _Codec(plain_text, lambda value: decimal_of_text(str(value)), "decimal(38,18)"),
    UUID: _Codec(lambda value: str(_expecting(UUID, "uuid.UUID")(value)), lambda value: UUID(value), "string"),
    Any: _Codec(lambda value: value, lambda value: value, "variant"),
    object: _Codec(lambda value: value, lambda value: value, "variant"),
    type(None): _Codec(lambda value: None, lambda value: None, "void"),
    dict: _Codec(_expecting(dict, "dict"), _expecting(dict, "an object"), "variant"),
    list: _Codec(_expecting(list, "list"), _expecting(list, "an array"), "variant"),
}


def _codec(kind: Any) -> _Codec:
    """Return the codec of an annotated type; raises TypeError for types that JSON has no form for."""
    return _made_codec(kind)


@cache
def _made_codec(kind: Any) -> _Codec:
    if kind in _PLAIN:
        return _PLAIN[kind]
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is typing.Annotated:
        return _codec(arguments[0])
    if origin in (Union, types.UnionType):
        return _optional(kind, arguments)
    if origin is Literal:
        return _literal(arguments)
    if origin in (list, set, frozenset, tuple) or _is_abstract_sequence(origin):
        return _sequence(kind, origin, arguments)
    if origin in (dict, Mapping) or origin is typing.get_origin(Mapping[str, str]):
        return _mapping(kind, arguments)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return _Codec(lambda value: kind(value).value, kind, _codec(type(next(iter(kind)).value)).ddl)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return _dataclass(kind)
    if isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return _fields(kind, dict.fromkeys(kind._fields, Any) | typing.get_type_hints(kind), set())
    raise TypeError(f"JSON has no form for {kind!r}: use a dataclass of plain types, or a serde of your own")


def _is_abstract_sequence(origin: Any) -> bool:
    return origin is not None and getattr(origin, "__name__", "") in {"Sequence", "Iterable", "Collection"}


def _optional(kind: Any, arguments: tuple[Any, ...]) -> _Codec:
    others = [each for each in arguments if each is not type(None)]
    if len(others) != 1:
        return _PLAIN[Any]
    inner = _codec(others[0])
    return _Codec(
        lambda value: None if value is None else inner.say(value),
        lambda value: None if value is None else inner.read(value),
        inner.ddl,
    )


def _literal(allowed: tuple[Any, ...]) -> _Codec:
    def check(value: Any) -> Any:
        if value not in allowed:
            raise ValueError(f"expected one of {allowed}, got {value!r:.60}")
        return value

    return _Codec(check, check, _codec(type(allowed[0])).ddl)


def _sequence(kind: Any, origin: Any, arguments: tuple[Any, ...]) -> _Codec:
    if origin is tuple and not (len(arguments) == 2 and arguments[1] is ...):
        return _fixed_tuple(arguments)
    made = origin if origin in (set, frozenset, tuple) else list
    inner = _codec(arguments[0])

    def say(value: Any) -> list[Any]:
        if isinstance(value, (str, bytes)):
            raise TypeError(f"expected {kind}, got {value!r:.60}")
        return [
            None if each is None else inner.say(each) for each in (sorted(value) if made in (set, frozenset) else value)
        ]

    def read(value: Any) -> Any:
        return made(None if each is None else inner.read(each) for each in _expecting(list, "an array")(value))

    return _Codec(say, read, None if inner.ddl is None else f"array<{inner.ddl}>")


def _fixed_tuple(arguments: tuple[Any, ...]) -> _Codec:
    inner = [_codec(each) for each in arguments]

    def read(value: Any) -> tuple[Any, ...]:
        given = _expecting(list, "an array")(value)
        if len(given) != len(inner):
            raise ValueError(f"expected {len(inner)} elements, got {len(given)}")
        return tuple(each.read(part) for each, part in zip(inner, given, strict=True))

    same = {each.ddl for each in inner}
    return _Codec(
        lambda value: [each.say(part) for each, part in zip(inner, value, strict=True)],
        read,
        f"array<{same.pop()}>" if len(same) == 1 and None not in same else None,
    )


def _mapping(kind: Any, arguments: tuple[Any, ...]) -> _Codec:
    if arguments[0] is not str:
        raise TypeError(f"JSON has no form for {kind}: its keys are texts")
    inner = _codec(arguments[1])
    return _Codec(
        lambda value: {str(name): None if each is None else inner.say(each) for name, each in value.items()},
        lambda value: {
            name: None if each is None else inner.read(each)
            for name, each in _expecting(dict, "an object")(value).items()
        },
        None if inner.ddl is None else f"map<string, {inner.ddl}>",
    )


def _dataclass(kind: type) -> _Codec:
    hints = typing.get_type_hints(kind)
    given = [each for each in dataclasses.fields(kind) if each.init]
    has_default = {
        each.name
        for each in given
        if each.default is not dataclasses.MISSING or each.default_factory is not dataclasses.MISSING
    }
    return _fields(kind, {each.name: hints[each.name] for each in given}, has_default)


@dataclass(slots=True)
class _Lazy:
    """The codecs of a class's fields, made on first use: a class may hold itself."""

    hints: dict[str, Any]
    made: dict[str, _Codec] = field(default_factory=dict)

    def codecs(self) -> dict[str, _Codec]:
        if len(self.made) < len(self.hints):
            self.made = {name: _codec(hint) for name, hint in self.hints.items()}
        return self.made


def _fields(kind: Any, hints: dict[str, Any], has_default: set[str]) -> _Codec:
    lazy = _Lazy(hints)
    optional = {name for name, hint in hints.items() if type(None) in get_args(hint)}

    def say(value: Any) -> dict[str, Any]:
        if not isinstance(value, kind):
            raise TypeError(f"expected {kind.__name__}, got {value!r:.60}")
        found = {}
        for name, codec in lazy.codecs().items():
            part = getattr(value, name)
            try:
                found[name] = None if part is None else codec.say(part)
            except (TypeError, ValueError) as problem:
                raise TypeError(f"{kind.__name__}.{name}: {problem}") from None
        return found

    def read(value: Any) -> Any:
        given = _expecting(dict, f"an object for {kind.__name__}")(value)
        found = {}
        for name, codec in lazy.codecs().items():
            if name not in given:
                if name in has_default:
                    continue
                if name not in optional:
                    raise ValueError(f"{kind.__name__}: field {name!r} is missing")
            part = given.get(name)
            try:
                found[name] = None if part is None else codec.read(part)
            except (TypeError, ValueError) as problem:
                raise TypeError(f"{kind.__name__}.{name}: {problem}") from None
        return kind(**found)

    return _Codec(say, read, _struct_ddl(kind, hints))


def _struct_ddl(kind: Any, hints: dict[str, Any]) -> str | None:
    """Return a struct's DDL; None where a field has none, or the class holds itself."""
    if _holds(kind, hints, frozenset()):
        return None
    parts = [(name, _codec(hint).ddl) for name, hint in hints.items()]
    if not parts or any(ddl is None for _, ddl in parts):
        return None
    return f"struct<{', '.join(f'`{name}`: {ddl}' for name, ddl in parts)}>"


def _holds(kind: Any, hints: dict[str, Any], seen: frozenset[Any]) -> bool:
    """True where a class is reached from its own fields."""
    stack = list(hints.values())
    visited = set(seen)
    while stack:
        hint = stack.pop()
        if hint is kind:
            return True
        stack.extend(each for each in get_args(hint) if each is not ...)
        if isinstance(hint, type) and dataclasses.is_dataclass(hint) and hint not in visited:
            visited.add(hint)
            stack.extend(typing.get_type_hints(hint).values())
    return False
