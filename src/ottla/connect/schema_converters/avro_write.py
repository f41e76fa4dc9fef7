"""Connect's schemas as Avro's, and what makes of their values the plain ones that are encoded."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ottla.connect.data import MS_PER_DAY, SchemaBuilder, bytes_of_decimal, epoch_ms
from ottla.connect.data.schema import Field, Schema, SchemaType
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

    def __init__(self, *, meta: bool = True, scrub: bool = False) -> None:
        self._meta, self._scrub = meta, scrub
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

        if schema.optional:
            node = [node, "null"] if default is not None else ["null", node]
        return node, converted

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
        return (made["type"] if len(made) == 1 else made), _writer(schema)

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
        record, _ = self._record(entry, name)
        if name != MAP_ENTRY and isinstance(record, dict):
            record[INTERNAL_TYPE] = "MapEntry"
        of_key, of_value = AvroWriting(scrub=True).of(key)[1], AvroWriting(scrub=True).of(value)[1]
        made = self._with_meta(schema, {"type": "array", "items": record})
        return made, lambda entries: [{"key": of_key(each), "value": of_value(entries[each])} for each in entries]

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
            raise DataError(f"Two fields of {name} would have the same name in Avro: {', '.join(names)}")
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
        if self._scrub:
            return ".".join(map(_scrubbed, name.split(".")))
        raise DataError(f"Avro does not allow the name {name}; scrub.invalid.names=true replaces such signs")

    def _field_name(self, name: str) -> str:
        if _NAME.fullmatch(name):
            return name
        if self._scrub:
            return _scrubbed(name)
        raise DataError(f"Avro does not allow the field name {name}; scrub.invalid.names=true replaces such signs")

    def _enum(self, schema: Schema) -> Any:
        name = self._full_name(schema.parameter(ENUM) or schema.parameter(sum_types.ENUM) or "")
        symbols = sum_types.symbols_of(schema, ENUM, sum_types.ENUM)
        if not symbols:
            raise DataError(f"The enum {name} has no symbols")
        if self._defined.setdefault(name, (ENUM, *symbols)) != (ENUM, *symbols):
            raise DataError(f"Two enums of different symbols have the name {name}, which Avro does not allow")
        return self._with_meta(schema, {"type": "enum", "name": name, "symbols": symbols})

    def _fixed(self, schema: Schema) -> tuple[Any, Write]:
        made = self._decimal(schema) | {"logicalType": "decimal"} if schema.name == DECIMAL else {}
        name = self._full_name(schema.name or "")
        size = int(schema.parameter(FIXED_SIZE) or 0)
        write = _writer(schema)

        def padded(value: Any) -> bytes:
            data: bytes = write(value)
            if schema.name == DECIMAL:
                data = data.rjust(size, b"\xff" if data[0] & 0x80 else b"\x00")
            if len(data) != size:
                raise DataError(f"A value of {name} has {len(data)} bytes, not {size}")
            return data

        return self._with_meta(schema, {"type": "fixed", "name": name, "size": size} | made), padded

    def _union(self, schema: Schema) -> tuple[Any, Write]:
        """Return a union of a struct's fields; a value names its branch, as fastavro takes it."""
        branches: list[tuple[int, str, Write]] = []
        nodes: list[Any] = ["null"] if schema.optional else []
        for each in schema.fields:
            node, write = self.of(each.schema.with_optional(False))
            nodes.append(node)
            branches.append((each.index, _branch_name(node), write))

        def write_set(value: Any) -> Any:
            if value is None:
                return None
            for index, name, write in branches:
                if value.values[index] is not None:
                    return (name, write(value.values[index]))
            raise DataError("No field of a union's struct is set")

        return nodes, write_set


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
