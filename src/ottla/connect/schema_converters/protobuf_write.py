"""Connect's schemas as Protobuf's language, and what makes of their values the fields of messages."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ottla.connect.data import MS_PER_DAY, bytes_of_decimal, epoch_ms
from ottla.connect.data.schema import Field, Schema, SchemaType
from ottla.connect.errors import DataError
from ottla.connect.schema_converters import sum_types
from ottla.connect.schema_converters.protobuf_words import (
    DECIMAL,
    DEFAULT_NAME,
    ENUM,
    LOGICAL,
    PRECISION_KEY,
    PRIMITIVE,
    TAG,
    UNION,
    WRAPPED,
    WRAPPERS,
    Options,
    scrubbed,
)
from ottla.serdes import MessageFields

__all__ = ["ProtobufWriting"]

Write = Callable[[Any], Any]
Put = Callable[[list[Any], dict[str, Any]], None]
"""Puts a field of a struct's values among a message's fields."""
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MAP_KEYS = {"int32", "int64", "bool", "string"}
_UNSET: dict[SchemaType, Any] = {
    SchemaType.STRING: "",
    SchemaType.BYTES: b"",
    SchemaType.BOOLEAN: False,
    SchemaType.FLOAT32: 0.0,
    SchemaType.FLOAT64: 0.0,
}
_WRAPPER_OF = {kind: f"google.protobuf.{name}" for name, kind in WRAPPERS.items()}
_WRAPPERS_FILE = "google/protobuf/wrappers.proto"
_META_FILE = "confluent/meta.proto"
_NANOS_PER_MS = 1_000_000
_RESERVED = range(19_000, 20_000)


@dataclass
class _Message:
    """A message while it is put together."""

    name: str
    full: str
    lines: list[str] = field(default_factory=list)
    enums: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    tags: set[int] = field(default_factory=set)
    next_tag: int = 1

    def tag(self, schema: Schema) -> int:
        """Return a field's number: the one that it has, or the next."""
        given = schema.parameter(TAG)
        if given is not None:
            try:
                return int(given)
            except ValueError as error:
                raise DataError(f"A field's number is none: {given}") from error
        while self.next_tag in self.tags or self.next_tag in _RESERVED:
            self.next_tag += 1
        self.tags.add(self.next_tag)
        return self.next_tag

    def take(self, fields: tuple[Field, ...]) -> None:
        """Keep the numbers of these fields from others."""
        for each in fields:
            given = each.schema.parameter(TAG)
            if given is not None and given.isdigit():
                self.tags.add(int(given))


class ProtobufWriting:
    """Makes one Protobuf file."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._imports: dict[str, None] = {}
        self._known: dict[str, tuple[tuple[Any, ...], str, Write]] = {}
        self._unnamed = 0

    def of(self, schema: Schema) -> tuple[str, str, Write]:
        """Return the file's text, the full name of the message that is written, and what converts values."""
        if schema.type is not SchemaType.STRUCT:
            return self._primitive_file(schema)
        full = self._full_name(schema)
        package, _, name = full.rpartition(".")
        message = _Message(name, full)
        self._known[schema.name or full] = (_plain(schema), full, lambda value: value)
        write = self._message(message, schema)
        head = ['syntax = "proto3";', *([f"package {package};"] if package else [])]
        imports = [f'import "{each}";' for each in sorted(self._imports)]
        return "\n".join([*head, *imports, *_block(message)]) + "\n", full, write

    def _primitive_file(self, schema: Schema) -> tuple[str, str, Write]:
        """Return `wrappers.proto` with the message that holds a value which is no struct."""
        if not self._options.raw_primitives or not schema.type.primitive or schema.name in LOGICAL:
            raise DataError(f"Protobuf needs a struct, and not a value of type {schema.type}")
        kind = PRIMITIVE[schema.type]
        bodies = "".join(f"message {name} {{ {each} value = 1; }}\n" for name, each in WRAPPERS.items())
        write = _plain_writer(schema)

        def wrapped(value: Any) -> MessageFields:
            return MessageFields(value=write(schema.default if value is None else value))

        return f'syntax = "proto3";\npackage google.protobuf;\n{bodies}', _WRAPPER_OF[kind], wrapped

    def _full_name(self, schema: Schema) -> str:
        package, _, name = (schema.name or self._default_name()).rpartition(".")
        name = self._name(name)
        for part in package.split(".") if package else []:
            if not _IDENTIFIER.fullmatch(part):
                raise DataError(f"Protobuf does not allow the package {package}")
        return f"{package}.{name}" if package else name

    def _default_name(self) -> str:
        self._unnamed += 1
        return f"{DEFAULT_NAME}{self._unnamed}"

    def _name(self, name: str) -> str:
        if self._options.scrub:
            return scrubbed(name)
        if not _IDENTIFIER.fullmatch(name):
            raise DataError(f"Protobuf does not allow the name {name}; scrub.invalid.names=true replaces such signs")
        return name

    def _message(self, message: _Message, schema: Schema) -> Write:
        message.take(schema.fields)
        for each in schema.fields:
            if self._is_union(each.schema):
                message.take(each.schema.fields)
        puts = [self._field(message, each) for each in schema.fields]

        def write(value: Any) -> MessageFields:
            found = MessageFields()
            for put in puts:
                put(value.values, found)
            return found

        return write

    def _is_union(self, schema: Schema) -> bool:
        named = str(schema.name or "")
        return schema.type is SchemaType.STRUCT and (
            named == UNION or named.startswith(f"{UNION}.") or schema.parameter(sum_types.UNION) is not None
        )

    def _field(self, message: _Message, each: Field) -> Put:
        if self._is_union(each.schema):
            return self._oneof(message, each)
        name, index = self._name(each.name), each.index
        line, write = self._declared(message, each.schema, name)
        message.lines.append(line)
        default, required = each.schema.default, not each.schema.optional

        def put(values: list[Any], found: dict[str, Any]) -> None:
            value = values[index]
            if value is None:
                value = default
            if value is not None:
                found[name] = write(value)
            elif required:
                raise DataError(f"The field {name} is required and has no value")

        return put

    def _declared(self, message: _Message, schema: Schema, name: str, *, inside: bool = False) -> tuple[str, Write]:
        """Return a field's line, and what converts its values; `inside` a oneof there are no labels."""
        number = message.tag(schema)
        if schema.type is SchemaType.MAP:
            if inside:
                raise DataError(f"A oneof cannot hold the map {name}")
            kind, write = self._map(message, schema, name)
            return f"{kind} {name} = {number};", write
        if schema.type is SchemaType.ARRAY:
            inner = _present(schema.value_schema)
            if inside or inner.type in (SchemaType.ARRAY, SchemaType.MAP) or self._is_union(inner):
                raise DataError(
                    f"Protobuf has no arrays of arrays, of maps or of unions, and no array in a oneof: {name}"
                )
            kind, notes, of_item = self._type(message, inner, name, wrap=False)
            return f"repeated {kind} {name} = {number}{notes};", lambda value: [_item(of_item, each) for each in value]
        kind, notes, write = self._type(message, schema, name)
        label = "optional " if self._options.optional_nullables and schema.optional and not inside else ""
        return f"{label}{kind} {name} = {number}{notes};", write

    def _type(self, message: _Message, schema: Schema, name: str, *, wrap: bool = True) -> tuple[str, str, Write]:
        """Return a field's type, its options, and what converts its values."""
        if schema.name in LOGICAL:
            kind, file = LOGICAL[schema.name]
            self._imports[file] = None
            return f".{kind}", self._decimal_notes(schema), _logical_writer(schema)
        if schema.type is SchemaType.STRUCT:
            return self._struct(message, schema, name)
        if self._is_enum(schema):
            return self._enum(message, schema), "", lambda value: value
        kind, notes = PRIMITIVE[schema.type], ""
        if schema.type in (SchemaType.INT8, SchemaType.INT16):
            notes = self._notes({"connect.type": schema.type.value})
        write = _plain_writer(schema)
        if schema.parameter(WRAPPED) or (wrap and self._options.wrapper_nullables and schema.optional):
            self._imports[_WRAPPERS_FILE] = None
            return f".{_WRAPPER_OF[kind]}", notes, lambda value: {"value": write(value)}
        return kind, notes, write

    def _notes(self, params: dict[str, str]) -> str:
        self._imports[_META_FILE] = None
        pairs = ", ".join(f"{{key: {json.dumps(key)}, value: {json.dumps(each)}}}" for key, each in params.items())
        return f" [(confluent.field_meta) = {{params: [{pairs}]}}]"

    def _decimal_notes(self, schema: Schema) -> str:
        if schema.name != DECIMAL:
            return ""
        words = {"precision": schema.parameter(PRECISION_KEY), "scale": schema.parameter("scale")}
        return self._notes({key: each for key, each in words.items() if each is not None})

    def _is_enum(self, schema: Schema) -> bool:
        whole = (SchemaType.STRING, SchemaType.INT32)
        return schema.type in whole and bool(schema.parameter(ENUM) or schema.parameter(sum_types.ENUM))

    def _enum(self, message: _Message, schema: Schema) -> str:
        word = ENUM if schema.parameter(ENUM) else sum_types.ENUM
        full = schema.parameter(word) or ""
        name = self._name(full.rpartition(".")[2])
        parameters = dict(schema.parameters or {})
        values = {key[len(word) + 1 :]: each for key, each in parameters.items() if key.startswith(f"{word}.")}
        if not all(re.fullmatch(r"-?[0-9]{1,10}", each) and _IDENTIFIER.fullmatch(key) for key, each in values.items()):
            raise DataError(f"The enum {name} has symbols or numbers that Protobuf does not allow")
        ordered = tuple(sorted(((int(each), key) for key, each in values.items()), key=lambda pair: pair[0] != 0))
        if not ordered or ordered[0][0] != 0:
            raise DataError(f"The enum {name} has no symbol with the number 0, which Protobuf needs")
        if message.enums.setdefault(name, ordered) is ordered:
            alias = ["  option allow_alias = true;"] if len({each for each, _ in ordered}) < len(ordered) else []
            body = [*alias, *(f"  {key} = {each};" for each, key in ordered)]
            message.lines += [f"enum {name} {{", *body, "}"]
        elif message.enums[name] != ordered:
            raise DataError(f"Two enums of different symbols have the name {name} in {message.full}")
        return name

    def _struct(self, message: _Message, schema: Schema, field_name: str) -> tuple[str, str, Write]:
        key = schema.name or self._default_name()
        plain = _plain(schema)
        if key in self._known:
            known, full, write = self._known[key]
            if known != plain:
                raise DataError(f"Two structs of different fields have the name {key}, which Protobuf does not allow")
            return f".{full}", "", write
        name = self._name(key.rpartition(".")[2])
        if name == field_name:
            name += "Message"  # a field and a message of one name cannot stand in one message
        inner = _Message(name, f"{message.full}.{name}")
        write = self._message(inner, schema)
        message.lines += _block(inner)
        self._known[key] = (plain, inner.full, write)
        return f".{inner.full}", "", write

    def _map(self, message: _Message, schema: Schema, name: str) -> tuple[str, Write]:
        key, value = _present(schema.key_schema), _present(schema.value_schema)
        if value.type in (SchemaType.ARRAY, SchemaType.MAP) or self._is_union(value):
            raise DataError(f"Protobuf's maps cannot hold arrays, maps or unions: {name}")
        kind, notes, of_value = self._type(message, value, name, wrap=False)
        plain_key = key.name not in LOGICAL and PRIMITIVE.get(key.type) in _MAP_KEYS and not self._is_enum(key)
        if plain_key and not notes:
            of_key = _or_unset(key, _plain_writer(key))
            or_unset = _or_unset(value, of_value)
            return f"map<{PRIMITIVE[key.type]}, {kind}>", lambda entries: {
                of_key(each): or_unset(entries[each]) for each in entries
            }
        return self._entries(message, key, kind, notes, of_value, name)

    def _entries(
        self, message: _Message, key: Schema, kind: str, notes: str, of_value: Write, name: str
    ) -> tuple[str, Write]:
        """Return a map whose keys or values Protobuf's own have not: repeated messages of a key and a value."""
        entry = _Message(f"{_camel(name)}Entry", f"{message.full}.{_camel(name)}Entry")
        if key.type in (SchemaType.ARRAY, SchemaType.MAP) or self._is_union(key):
            raise DataError(f"Protobuf has no maps whose keys are arrays, maps or unions: {name}")
        key_kind, key_notes, of_key = self._type(entry, key, "key", wrap=False)
        entry.lines += [f"{key_kind} key = 1{key_notes};", f"{kind} value = 2{notes};"]
        message.lines += _block(entry)
        return f"repeated .{entry.full}", lambda entries: [
            {
                **({} if each is None else {"key": of_key(each)}),
                **({} if entries[each] is None else {"value": of_value(entries[each])}),
            }
            for each in entries
        ]

    def _oneof(self, message: _Message, each: Field) -> Put:
        schema = each.schema
        named = str(schema.name or "").removeprefix(UNION).removeprefix(".").rpartition(".")[2]
        generalized = schema.parameter(sum_types.UNION)
        if generalized is not None:
            named = "" if generalized == schema.name else generalized
        name = self._name(named or each.name)
        branches: list[tuple[int, str, Write]] = []
        lines: list[str] = []
        for inner in schema.fields:
            field_name = self._name(inner.name)
            line, write = self._declared(message, inner.schema, field_name, inside=True)
            lines.append(f"  {line}")
            branches.append((inner.index, field_name, write))
        message.lines += [f"oneof {name} {{", *lines, "}"]

        def put(values: list[Any], found: dict[str, Any]) -> None:
            union = values[each.index]
            if union is None:
                return
            for at, key, write in branches:
                if union.values[at] is not None:
                    found[key] = write(union.values[at])
                    return
            raise DataError("No field of a union's struct is set")

        return put


def _block(message: _Message) -> list[str]:
    return [f"message {message.name} {{", *(f"  {line}" for line in message.lines), "}"]


def _plain(schema: Schema) -> tuple[Any, ...]:
    """Return what a struct's message is made of: its fields, and nothing that depends on where it stands."""
    return tuple((each.name, each.schema) for each in schema.fields)


def _present(schema: Schema | None) -> Schema:
    if schema is None:
        raise DataError("Protobuf needs a schema for what an array or map holds")
    return schema


def _item(write: Write, value: Any) -> Any:
    if value is None:
        raise DataError("Protobuf's arrays hold no nulls")
    return write(value)


def _or_unset(schema: Schema, write: Write) -> Write:
    """Write null, as a map's key or value, as what Protobuf reads where neither is set."""
    unset: Any = 0
    if schema.name in LOGICAL or schema.type is SchemaType.STRUCT:
        unset = {}
    elif schema.type in _UNSET:
        unset = _UNSET[schema.type]
    return lambda value: unset if value is None else write(value)


def _camel(name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))


def _plain_writer(schema: Schema) -> Write:
    if schema.type is SchemaType.BYTES:
        return bytes
    return float if schema.type in (SchemaType.FLOAT32, SchemaType.FLOAT64) else lambda value: value


def _logical_writer(schema: Schema) -> Write:
    match LOGICAL[schema.name][0]:
        case "confluent.type.Decimal":
            return lambda value: _decimal(schema, value)
        case "google.type.Date":
            return _date
        case "google.type.TimeOfDay":
            return _time
    return _timestamp


def _decimal(schema: Schema, value: Any) -> dict[str, Any]:
    digits = len(value.as_tuple().digits)
    scale = int(schema.parameter("scale") or 0)
    return {"value": bytes_of_decimal(schema, value), "precision": digits, "scale": scale}


def _date(value: Any) -> dict[str, Any]:
    year = getattr(value, "year", None)
    if year is None:
        raise DataError(
            f"The date {value} has no year that Protobuf's Date can hold ({epoch_ms(value) // MS_PER_DAY} days)"
        )
    return {"year": value.year, "month": value.month, "day": value.day}


def _time(value: Any) -> dict[str, Any]:
    seconds, ms = divmod(epoch_ms(value), 1000)
    minutes, second = divmod(seconds, 60)
    return {"hours": minutes // 60, "minutes": minutes % 60, "seconds": second, "nanos": ms * _NANOS_PER_MS}


def _timestamp(value: Any) -> dict[str, Any]:
    seconds, ms = divmod(epoch_ms(value), 1000)
    return {"seconds": seconds, "nanos": ms * _NANOS_PER_MS}
