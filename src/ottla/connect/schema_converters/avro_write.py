"""Connect's schemas as Avro's, and what makes of their values the plain ones that are encoded."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ottla.connect.data import MS_PER_DAY, SchemaBuilder, bytes_of_decimal, epoch_ms
from ottla.connect.data.schema import Field, Schema, SchemaType
from ottla.connect.data.struct import Struct
from ottla.connect.errors import DataError
from ottla.connect.schema_converters import sum_types
from ottla.connect.schema_converters.avro_words import (
    DECIMAL,
    DEFAULT_NAME,
    ENUM,
    FIXED_SIZE,
    INTERNAL_TYPE,
    LOGICAL,
    MAP_ENTRY,
    PRECISION,
    PRECISION_KEY,
    PRIMITIVE,
    UNION,
    present,
)

__all__ = ["AvroWriting"]

Write = Callable[[Any], Any]
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class AvroWriting:
    """Makes one Avro schema, since a name is defined once in it."""

    def __init__(self, *, meta: bool = True, scrub: bool = False, in_files: bool = False) -> None:
        """`in_files` is for those who have no registry's schema to keep to: records' names are scrubbed at all times, and
        decimals of more digits than the schema says, which readers of files refuse, are data errors.
        """
        self._meta, self._scrub, self._in_files = meta, scrub, in_files
        self._defined: dict[str, tuple[Any, ...]] = {}
        self._unnamed = 0

    def of(self, schema: Schema) -> tuple[Any, Write]:
        """Return the Avro schema and what converts values; raises DataError for what Avro does not allow."""
        if sum_types.is_union(schema, UNION):
            return self._union(schema)
        node, write = self._inner(schema)
        default = schema.default

        def converted(value: Any) -> Any:
            if value is None:
                value = default
            return None if value is None else write(value)

        if not schema.optional:
            return node, converted
        branch = _branch_name(node)

        def named(value: Any) -> Any:  # with its branch's name, which nobody has to find by the value then
            found = converted(value)
            return None if found is None else (branch, found)

        return ([node, "null"] if default is not None else ["null", node]), named

    def _inner(self, schema: Schema) -> tuple[Any, Write]:
        match schema.type:
            case SchemaType.STRUCT:
                return self._record(schema, self._record_name(schema))
            case SchemaType.ARRAY:
                items, of_item = self.of(present(schema.value_schema))
                made = self._with_meta(schema, {"type": "array", "items": items})
                return made, lambda value: [of_item(each) for each in value]
            case SchemaType.MAP:
                return self._map(schema)
        if schema.type is SchemaType.STRING and (schema.parameter(ENUM) or schema.parameter(sum_types.ENUM)):
            return self._enum(schema), str
        if schema.type is SchemaType.BYTES and schema.parameter(FIXED_SIZE) and schema.name:
            return self._fixed(schema)
        return self._primitive(schema)

    def _primitive(self, schema: Schema) -> tuple[Any, Write]:
        made: dict[str, Any] = {"type": PRIMITIVE[schema.type]}
        logical = LOGICAL.get(schema.name)
        if logical is not None:
            made |= self._decimal(schema) if logical == "decimal" else {}
            made["logicalType"] = logical
        if schema.type in (SchemaType.INT8, SchemaType.INT16):
            made["connect.type"] = schema.type.value
        made = self._with_meta(schema, made)
        return (made["type"] if len(made) == 1 else made), self._writer(schema)

    def _writer(self, schema: Schema) -> Write:
        write = _writer(schema)
        if schema.name != DECIMAL or not self._in_files:
            return write
        digits = self._decimal(schema)["precision"]

        def bounded(value: Any) -> Any:
            if value.is_finite() and len(value.as_tuple().digits) > digits:
                raise DataError(f"A decimal of more than {digits} digits cannot be written as Avro")
            return write(value)

        return bounded

    def _decimal(self, schema: Schema) -> dict[str, Any]:
        try:
            scale = int(schema.parameter("scale") or 0)
            return {"scale": scale, "precision": int(schema.parameter(PRECISION_KEY) or PRECISION)}
        except ValueError as error:
            raise DataError(f"A decimal's scale or precision is no number: {error}") from error

    def _with_meta(self, schema: Schema, made: dict[str, Any]) -> dict[str, Any]:
        if self._meta:
            words = {
                "connect.doc": schema.doc,
                "connect.version": schema.version,
                "connect.parameters": dict(schema.parameters) if schema.parameters else None,
                "connect.name": schema.name,
            }
            made |= {key: value for key, value in words.items() if value is not None}
        return made

    def _map(self, schema: Schema) -> tuple[Any, Write]:
        key, value = present(schema.key_schema), present(schema.value_schema)
        if key.type is SchemaType.STRING and not key.optional:
            values, of_value = self.of(value)
            made = self._with_meta(schema, {"type": "map", "values": values})
            return made, lambda entries: {each: of_value(entries[each]) for each in entries}
        entry = SchemaBuilder.struct().field("key", key).field("value", value).build()
        name = schema.name or self._numbered(MAP_ENTRY)
        record, write = self._record(entry, name)
        if name != MAP_ENTRY and isinstance(record, dict):
            record[INTERNAL_TYPE] = "MapEntry"
        made = self._with_meta(schema, {"type": "array", "items": record})

        def pair(each: Any, value: Any) -> Any:
            found = Struct(entry)
            found.values = [each, value]
            return write(found)

        return made, lambda entries: [pair(each, entries[each]) for each in entries]

    def _numbered(self, name: str) -> str:
        count = sum(each.startswith(name) for each in self._defined)
        return name if not count else f"{name}{count + 1}"

    def _record(self, schema: Schema, name: str) -> tuple[Any, Write]:
        content = tuple((each.name, each.schema) for each in schema.fields)
        known = self._defined.get(name)
        if known is not None and known != content:
            raise DataError(f"Two structs of different fields have the name {name}, which Avro does not allow")
        self._defined[name] = content
        pairs = [self._field(each) for each in schema.fields]
        names = [made["name"] for made, _ in pairs]
        if len(set(names)) < len(names):
            named = ", ".join(
                each.name for each, made in zip(schema.fields, names, strict=True) if names.count(made) > 1
            )
            raise DataError(f"Two fields of {name} would have the same name in Avro: {named}")
        writers = [(made["name"], each.index, write) for (made, write), each in zip(pairs, schema.fields, strict=True)]
        node: Any = name
        if known is None:
            node = self._with_meta(schema, {"type": "record", "name": name, "fields": [made for made, _ in pairs]})
        return node, lambda value: {key: write(value.values[index]) for key, index, write in writers}

    def _field(self, field: Field) -> tuple[dict[str, Any], Write]:
        schema = field.schema
        node, write = self.of(schema)
        made = {"name": self._field_name(field.name), "type": node}
        if schema.doc is not None:
            made["doc"] = schema.doc
        if schema.default is not None:
            made["default"] = _as_json(write(schema.default))
        elif schema.optional:
            made["default"] = None
        return made, write

    def _record_name(self, schema: Schema) -> str:
        if schema.name is None:
            self._unnamed += 1
            return DEFAULT_NAME + ("" if self._unnamed == 1 else str(self._unnamed))
        return self._full_name(schema.name)

    def _full_name(self, name: str) -> str:
        if all(_NAME.fullmatch(each) for each in name.split(".")):
            return name
        if self._scrub or self._in_files:
            return ".".join(_scrubbed(each) or "_" for each in name.split("."))
        raise DataError(f"Avro does not allow the name {name}; scrub.invalid.names=true replaces such signs")

    def _field_name(self, name: str) -> str:
        if _NAME.fullmatch(name):
            return name
        if self._scrub:
            return _scrubbed(name) or "_"
        raise DataError(f"Avro does not allow the field name {name}; scrub.invalid.names=true replaces such signs")

    def _enum(self, schema: Schema) -> Any:
        name = self._full_name(schema.parameter(ENUM) or schema.parameter(sum_types.ENUM) or "")
        symbols = sum_types.symbols_of(schema, ENUM, sum_types.ENUM)
        if not symbols:
            raise DataError(f"The enum {name} has no symbols")
        if not self._is_new(name, (ENUM, *symbols)):
            return name
        return self._with_meta(schema, {"type": "enum", "name": name, "symbols": symbols})

    def _is_new(self, name: str, content: tuple[Any, ...]) -> bool:
        """Return whether a name is to be defined: once, and told by itself from then on; raises DataError for another."""
        known = self._defined.setdefault(name, content)
        if known is not content and known != content:
            raise DataError(f"Two different types have the name {name}, which Avro does not allow")
        return known is content

    def _fixed(self, schema: Schema) -> tuple[Any, Write]:
        made = self._decimal(schema) | {"logicalType": "decimal"} if schema.name == DECIMAL else {}
        name, size = self._full_name(schema.name or ""), self._size(schema)
        content = (FIXED_SIZE, size, *made.items())
        if schema.name == DECIMAL and self._defined.get(name, content) != content:  # its own name is not known
            name = f"{name}_{size}_{made['precision']}_{made['scale']}".replace("-", "_")
        write = self._writer(schema)

        def padded(value: Any) -> bytes:
            data: bytes = write(value)
            if schema.name == DECIMAL:
                data = data.rjust(size, b"\xff" if data[0] & 0x80 else b"\x00")
            if len(data) != size:
                raise DataError(f"A value of {name} has {len(data)} bytes, not {size}")
            return data

        if not self._is_new(name, content):
            return name, padded
        return self._with_meta(schema, {"type": "fixed", "name": name, "size": size} | made), padded

    @staticmethod
    def _size(schema: Schema) -> int:
        text = schema.parameter(FIXED_SIZE) or ""
        if not (text.isascii() and text.isdecimal()):
            raise DataError(f"The size of {schema.name} is no number: {text}")
        return int(text)

    def _union(self, schema: Schema) -> tuple[Any, Write]:
        """Return a union of a struct's fields; a value names its branch, as fastavro takes it."""
        branches: list[tuple[int, str, Write]] = []
        nodes: list[Any] = []
        for each in _branches(schema):
            node, write = self.of(each.schema.with_optional(False))
            nodes.append(node)
            branches.append((each.index, _branch_name(node), write))
        if schema.optional:
            nodes.insert(0 if schema.default is None else 1, "null")

        def write_set(value: Any) -> Any:
            if value is None:
                return None
            for index, name, write in branches:
                if value.values[index] is not None:
                    return (name, write(value.values[index]))
            raise DataError("No field of a union's struct is set")

        return nodes, write_set


def _branches(schema: Schema) -> list[Field]:
    """Return a union's fields; that of its default is first, as Avro has it."""
    found = list(schema.fields)
    if schema.default is not None:
        found.sort(key=lambda each: schema.default.values[each.index] is None)
    return found


def _branch_name(node: Any) -> str:
    if isinstance(node, str):
        return node
    return str(node["name"] if node["type"] in ("record", "enum", "fixed") else node["type"])


def _scrubbed(name: str) -> str:
    return re.sub(r"^(?=\d)|\W", "_", name, flags=re.ASCII)


def _writer(schema: Schema) -> Write:
    match LOGICAL.get(schema.name):
        case "decimal":
            return lambda value: bytes_of_decimal(schema, value)
        case "date":
            return lambda value: epoch_ms(value) // MS_PER_DAY
        case "time-millis" | "timestamp-millis":
            return epoch_ms
    if schema.type is SchemaType.BYTES:
        return bytes
    return float if schema.type in (SchemaType.FLOAT32, SchemaType.FLOAT64) else lambda value: value


def _as_json(value: Any) -> Any:
    """Return a converted value as Avro's defaults have it: bytes as one sign each."""
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, tuple):
        return _as_json(value[1])
    if isinstance(value, list):
        return [_as_json(each) for each in value]
    return {key: _as_json(each) for key, each in value.items()} if isinstance(value, dict) else value
