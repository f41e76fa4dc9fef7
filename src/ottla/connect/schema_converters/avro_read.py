"""Avro's schemas as Connect's, and what makes Connect's values of decoded ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.connect.data import (
    DATE_SCHEMA,
    STRING,
    TIME_SCHEMA,
    TIMESTAMP_SCHEMA,
    Float32,
    SchemaBuilder,
    date_of_days,
    decimal_of_bytes,
    time_of_ms,
    timestamp_of_ms,
)
from ottla.connect.data.schema import Schema, SchemaType
from ottla.connect.data.struct import Struct
from ottla.connect.errors import DataError
from ottla.connect.schema_converters import sum_types
from ottla.connect.schema_converters.avro_words import (
    DECIMAL,
    DEFAULT_NAME,
    ENUM,
    FIXED_SIZE,
    INTERNAL_TYPE,
    PRECISION,
    PRECISION_KEY,
    UNION,
    is_map_entry,
)

__all__ = ["AvroReading"]

Read = Callable[[Any], Any]
_TYPES = {
    "int": SchemaType.INT32,
    "long": SchemaType.INT64,
    "float": SchemaType.FLOAT32,
    "double": SchemaType.FLOAT64,
    "boolean": SchemaType.BOOLEAN,
    "string": SchemaType.STRING,
    "bytes": SchemaType.BYTES,
}
_MOMENTS: dict[str, tuple[str | None, Read]] = {
    "date": (DATE_SCHEMA.name, date_of_days),
    "time-millis": (TIME_SCHEMA.name, time_of_ms),
    "timestamp-millis": (TIMESTAMP_SCHEMA.name, timestamp_of_ms),
}
_INT_BITS = 31


class AvroReading:
    """Reads one Avro schema, whose names are full (fastavro's `parse_schema`) and whose logical types are told."""

    def __init__(self, *, meta: bool = True, enhanced: bool = False, generalized: bool = False) -> None:
        self._meta, self._enhanced, self._generalized = meta, enhanced, generalized
        self._unions = 0
        self._named: dict[str, Any] = {}
        self._open: set[str] = set()

    def of(
        self, node: Any, *, default: Any = None, optional: bool = False, doc: str | None = None
    ) -> tuple[Schema, Read]:
        """Return the Connect schema and what reads values; raises DataError for what Connect has not."""
        if isinstance(node, list):
            return self._union(node, default=default, optional=optional, doc=doc)
        is_again = isinstance(node, str) and node in self._named
        if isinstance(node, str):
            node = self._named.get(node, {"type": node})
        if isinstance(node["type"], dict | list):
            return self.of(node["type"], default=default, optional=optional, doc=doc)
        builder, read = self._builder(node)
        self._describe(builder, node, doc, is_again=is_again)
        if optional:
            builder.optional()
        if default is not None and node["type"] not in (
            "record",
            "error",
        ):  # a struct has its own schema, default and all
            builder.default(read(self._decoded(node, default)))
        return builder.build(), lambda value: None if value is None else read(value)

    def _describe(self, builder: SchemaBuilder, node: dict[str, Any], doc: str | None, *, is_again: bool) -> None:
        said = node if self._meta else {}
        name = said.get("connect.name")
        own = node.get("name") if node["type"] in ("record", "error", "fixed") else None
        if own is not None and str(own).startswith(DEFAULT_NAME):
            own = None
        logical = node.get("logicalType")
        if name is None and logical in _MOMENTS:
            name = _MOMENTS[logical][0]
        if name is None and logical == "decimal":
            name = DECIMAL
        version = said.get("connect.version")
        if name in (DECIMAL, *(each for each, _ in _MOMENTS.values())):
            version = version or 1
        builder.name(name or own).version(version)
        of_type = said.get("connect.doc") or node.get("doc")
        builder.doc(
            doc or of_type if is_again else of_type or doc
        )  # where it is used again, the type has the first one's
        builder.parameters({key: str(value) for key, value in (said.get("connect.parameters") or {}).items()})

    def _builder(self, node: dict[str, Any]) -> tuple[SchemaBuilder, Read]:
        kind = node["type"]
        match kind:
            case "record" | "error":
                return self._record(node)
            case "array" if self._is_map(node):
                entry, read = self.of(node["items"])
                key, value = entry.field("key"), entry.field("value")
                if key is None or value is None or len(entry.fields) != len((key, value)):
                    raise DataError("An Avro array that stands for a map holds records of a key and a value alone")
                made, places = SchemaBuilder.map(key.schema, value.schema), (key.index, value.index)
                return made, lambda found: {one.values[places[0]]: one.values[places[1]] for one in map(read, found)}
            case "array":
                items, of_item = self.of(node["items"])
                return SchemaBuilder.array(items), lambda found: [of_item(each) for each in found]
            case "map":
                values, of_value = self.of(node["values"])
                made = SchemaBuilder.map(STRING, values)
                return made, lambda found: {key: of_value(each) for key, each in found.items()}
            case "enum":
                return self._enum(node), str
        if kind == "fixed" or node.get("logicalType") == "decimal":
            return self._bytes(node)
        return self._primitive(node)

    def _is_map(self, node: dict[str, Any]) -> bool:
        """Whether an array stands for a map; Ottla itself has said so of the array in former versions."""
        items = node["items"]
        named = self._named.get(items, items) if isinstance(items, str) else items
        return is_map_entry(named) or node.get(INTERNAL_TYPE) == "MapEntry"

    def _primitive(self, node: dict[str, Any]) -> tuple[SchemaBuilder, Read]:
        kind = node["type"]
        if kind not in _TYPES:
            raise DataError(f"The Avro type {kind} has no counterpart in Connect")
        if self._meta and node.get("connect.type") in ("int8", "int16"):
            return SchemaBuilder(SchemaType(node["connect.type"])), int
        moment = _MOMENTS.get(node.get("logicalType", ""))
        if moment is not None:
            return SchemaBuilder(_TYPES[kind]), moment[1]
        return SchemaBuilder(_TYPES[kind]), Float32 if kind == "float" else lambda value: value

    def _bytes(self, node: dict[str, Any]) -> tuple[SchemaBuilder, Read]:
        builder = SchemaBuilder.bytes_()
        if node["type"] == "fixed":
            self._named[node["name"]] = node
            builder.parameter(FIXED_SIZE, str(node["size"]))
        if node.get("logicalType") != "decimal":
            return builder, bytes
        builder.parameter("scale", str(node.get("scale", 0)))
        if node.get("precision", PRECISION) != PRECISION:
            builder.parameter(PRECISION_KEY, str(node["precision"]))
        schema = builder.build()
        return builder, lambda value: decimal_of_bytes(schema, value)

    def _enum(self, node: dict[str, Any]) -> SchemaBuilder:
        self._named[node["name"]] = node
        builder = SchemaBuilder.string()
        if self._generalized:
            builder.parameters(sum_types.enum_parameters(node["name"], node["symbols"]))
        elif self._meta or self._enhanced:
            builder.parameter(ENUM, node["name"])
            builder.parameters({f"{ENUM}.{each}": each for each in node["symbols"]})
        return builder

    def _record(self, node: dict[str, Any]) -> tuple[SchemaBuilder, Read]:
        name = node["name"]
        if name in self._open:
            raise DataError(f"The Avro record {name} holds itself, which no schema of Connect can")
        self._named[name] = node
        self._open.add(name)
        builder = SchemaBuilder.struct()
        fields = []
        for each in node["fields"]:
            schema, read = self.of(each["type"], default=each.get("default"), doc=each.get("doc"))
            builder.field(each["name"], schema)
            fields.append((each["name"], read))
        self._open.discard(name)
        made: list[Schema] = []

        def struct(value: Any) -> Struct:
            if not made:
                made.append(builder.build())  # described by now, and optional where it is
            found = Struct(made[0])
            found.values = [read(value.get(key)) for key, read in fields]
            return found

        return builder, struct

    def _union(self, branches: list[Any], *, default: Any, optional: bool, doc: str | None) -> tuple[Schema, Read]:
        kinds = [each for each in branches if each != "null"]
        optional = optional or len(kinds) < len(branches)
        if len(kinds) == 1:
            schema, read = self.of(kinds[0], default=default, optional=optional, doc=doc)
            return schema, lambda value: read(_untold(value))
        builder = SchemaBuilder.struct().doc(doc)
        if self._generalized:
            builder.name(sum_types.union_name(self._unions)).parameter(
                sum_types.UNION, sum_types.union_name(self._unions)
            )
            self._unions += 1
        else:
            builder.name(UNION)
        readers: dict[str, tuple[str, Read]] = {}
        for index, each in enumerate(kinds):
            schema, read = self.of(each, optional=True)
            full = self._name_of(each)
            field = full if self._enhanced else full.rpartition(".")[2]
            if self._generalized:
                field = sum_types.union_field(index)
            builder.field(field, schema)
            readers[full] = field, read
        if optional:
            builder.optional()
        made = builder.build()

        def union(value: Any, schema: Schema) -> Struct:
            name = _branch(value, readers)
            field, read = readers[name]
            found = Struct(schema)
            found.put(field, read(_untold(value)))
            return found

        if default is not None:
            made = builder.default(union(self._decoded(branches, default), made)).build()
        return made, lambda value: None if value is None else union(value, made)

    def _decoded(self, node: Any, value: Any) -> Any:
        """Return a default, of a schema's JSON, as it would have been decoded."""
        if isinstance(node, list):  # a default is of the first branch
            found = None if node[0] == "null" else self._decoded(node[0], value)
            name = self._name_of(node[0])
            return (name, found) if name in self._named else found
        if isinstance(node, str):
            node = self._named.get(node, {"type": node})
        match node["type"]:
            case dict() | list() as inner:
                return self._decoded(inner, value)
            case "bytes" | "fixed":
                return value.encode("latin-1")
            case "float" | "double":
                return float(value)
            case "array":
                return [self._decoded(node["items"], each) for each in value]
            case "map":
                return {key: self._decoded(node["values"], each) for key, each in value.items()}
            case "record" | "error":
                fields = {
                    each["name"]: (each["type"], value.get(each["name"], each.get("default")))
                    for each in node["fields"]
                }
                return {name: self._decoded(type_, each) for name, (type_, each) in fields.items()}
        return value

    def _name_of(self, node: Any) -> str:
        if isinstance(node, str):
            return node
        return str(node["name"] if node["type"] in ("record", "error", "enum", "fixed") else node["type"])


def _untold(value: Any) -> Any:
    """Return a union's value without the name of its branch."""
    return value[1] if isinstance(value, tuple) else value


def _branch(value: Any, known: dict[str, Any]) -> str:
    """Return the branch of a union's value: named types are told, others are known by their Python type."""
    match value:
        case tuple():
            found: tuple[str, ...] = (str(value[0]),)
        case bool():
            found = ("boolean",)
        case int():
            fits = -(1 << _INT_BITS) <= value < 1 << _INT_BITS
            found = ("int", "long") if fits else ("long",)
        case float():
            found = ("double", "float")
        case str():
            found = ("string",)
        case bytes():
            found = ("bytes",)
        case list():
            found = ("array",)
        case _:
            found = ("map",)
    name = next((each for each in found if each in known), None)
    if name is None:
        raise DataError(f"A union's value is of none of its types: {', '.join(known)}")
    return name
