"""Avro container files of Connect's values: schemas one into the other and back, with fastavro doing the bytes.

Connect's types that Avro has not stand as the closest one that it has, with properties `connect.…` that say what they were.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from types import ModuleType
from typing import IO, TYPE_CHECKING, Any, cast

from ottla.connect import DataError, Schema, SchemaType, Struct, data
from ottla.connectors.storage.formats import Encoder, Output, needs_extra

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["AvroFormat", "AvroSchemas", "read_avro"]

NAMESPACE = "io.confluent.connect.avro"
DEFAULT_NAME = "ConnectDefault"
PRECISION = 64
"""Of decimals, of which Connect knows the scale only."""

_PRIMITIVE = {
    SchemaType.INT8: "int",
    SchemaType.INT16: "int",
    SchemaType.INT32: "int",
    SchemaType.INT64: "long",
    SchemaType.FLOAT32: "float",
    SchemaType.FLOAT64: "double",
    SchemaType.BOOLEAN: "boolean",
    SchemaType.STRING: "string",
    SchemaType.BYTES: "bytes",
}
_LOGICAL = {
    data.DATE_SCHEMA.name: "date",
    data.TIME_SCHEMA.name: "time-millis",
    data.TIMESTAMP_SCHEMA.name: "timestamp-millis",
    data.decimal_schema(0).name: "decimal",
}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
Convert = Callable[[Any], Any]


def _fastavro() -> ModuleType:
    try:
        import fastavro
    except ImportError as error:
        raise needs_extra("fastavro", "AvroFormat") from error
    return fastavro


class AvroSchemas:
    """Makes Avro schemas of Connect's. One object makes one schema, since a name is defined once in it."""

    def __init__(self, *, meta: bool = True, scrub: bool = False) -> None:
        self._meta, self._scrub = meta, scrub
        self._defined: dict[str, tuple[Any, ...]] = {}
        self._unnamed = 0

    def of(self, schema: Schema) -> Any:
        """Return the Avro schema; raises DataError for a name that Avro does not allow."""
        inner = self._inner(schema)
        if not schema.optional:
            return inner
        return [inner, "null"] if schema.default is not None else ["null", inner]

    def _inner(self, schema: Schema) -> Any:
        match schema.type:
            case SchemaType.STRUCT:
                return self._record(schema)
            case SchemaType.ARRAY:
                return self._with_meta(schema, {"type": "array", "items": self.of(_present(schema.value_schema))})
            case SchemaType.MAP:
                return self._with_meta(schema, self._map(schema))
        made: dict[str, Any] = {"type": _PRIMITIVE[schema.type]}
        logical = _LOGICAL.get(schema.name)
        if logical == "decimal":
            made |= {"logicalType": logical, "precision": PRECISION, "scale": int(schema.parameter("scale") or 0)}
        elif logical is not None:
            made["logicalType"] = logical
        if schema.type in (SchemaType.INT8, SchemaType.INT16):
            made["connect.type"] = schema.type.value
        made = self._with_meta(schema, made)
        return made["type"] if len(made) == 1 else made

    def _with_meta(self, schema: Schema, made: dict[str, Any]) -> dict[str, Any]:
        if self._meta:
            if schema.doc is not None:
                made["connect.doc"] = schema.doc
            if schema.version is not None:
                made["connect.version"] = schema.version
            if schema.parameters:
                made["connect.parameters"] = dict(schema.parameters)
            if schema.name is not None:
                made["connect.name"] = schema.name
        return made

    def _map(self, schema: Schema) -> dict[str, Any]:
        key, value = _present(schema.key_schema), _present(schema.value_schema)
        if key.type is SchemaType.STRING and not key.optional:
            return {"type": "map", "values": self.of(value)}
        entry = data.SchemaBuilder.struct().field("key", key).field("value", value)
        entry.name(schema.name or f"{NAMESPACE}.MapEntry")
        record = self._record(entry.build())
        if schema.name is not None and isinstance(record, dict):
            record["connect.internal.type"] = "MapEntry"
        return {"type": "array", "items": record}

    def _record(self, schema: Schema) -> Any:
        name = self._record_name(schema)
        content = tuple((each.name, each.schema) for each in schema.fields)
        if name in self._defined:
            if self._defined[name] == content:
                return name
            raise DataError(f"Two structs of different fields have the name {name}, which Avro does not allow")
        self._defined[name] = content
        fields = [self._field(each.name, each.schema) for each in schema.fields]
        taken: dict[str, str] = {}
        for written, each in zip(fields, schema.fields, strict=True):
            other = taken.setdefault(written["name"], each.name)
            if other != each.name:
                raise DataError(f"The fields {other} and {each.name} would both be {written['name']} in Avro")
        made = {"type": "record", "name": name, "fields": fields}
        return self._with_meta(schema, made)

    def _field(self, name: str, schema: Schema) -> dict[str, Any]:
        made = {"name": self.field_name(name), "type": self.of(schema)}
        if schema.doc is not None:
            made["doc"] = schema.doc
        if schema.default is not None:
            made["default"] = _default(schema, schema.default)
        elif schema.optional:
            made["default"] = None
        return made

    def _record_name(self, schema: Schema) -> str:
        if schema.name is not None:
            return ".".join(re.sub(r"^(?=\d)|\W", "_", each, flags=re.ASCII) for each in schema.name.split("."))
        self._unnamed += 1
        return f"{NAMESPACE}.{DEFAULT_NAME}" + ("" if self._unnamed == 1 else str(self._unnamed))

    def field_name(self, name: str) -> str:
        """Return a field's name as Avro has it; raises DataError for one that it does not allow."""
        if _NAME.fullmatch(name):
            return name
        if self._scrub:
            return re.sub(r"^(?=\d)|\W", "_", name, flags=re.ASCII)
        raise DataError(
            f"The field {name} has a name that Avro does not allow; scrub.invalid.names=true replaces such signs"
        )


def _present(schema: Schema | None) -> Schema:
    if schema is None:
        raise DataError("Avro needs a schema for what an array or map holds")
    return schema


def _default(schema: Schema, value: Any) -> Any:
    """Return a default as Avro's JSON has it: bytes as one sign each."""
    made = writer_of(schema)(value)
    return made.decode("latin-1") if isinstance(made, bytes) else made


def writer_of(schema: Schema, names: Callable[[str], str] = str) -> Convert:
    """Return what makes of this schema's values the plain ones that fastavro writes; `names` makes the fields' names."""
    inner = _writer(schema, names)
    default = schema.default

    def write(value: Any) -> Any:
        if value is None:
            value = default
        return None if value is None else inner(value)

    return write


def _writer(schema: Schema, names: Callable[[str], str]) -> Convert:
    match schema.type:
        case SchemaType.STRUCT:
            of_fields = [(names(each.name), each.index, writer_of(each.schema, names)) for each in schema.fields]
            return lambda value: {name: of(value.values[index]) for name, index, of in of_fields}
        case SchemaType.ARRAY:
            of_element = writer_of(_present(schema.value_schema), names)
            return lambda value: [of_element(each) for each in value]
        case SchemaType.MAP:
            key = _present(schema.key_schema)
            of_key, of_value = writer_of(key, names), writer_of(_present(schema.value_schema), names)
            if key.type is SchemaType.STRING and not key.optional:
                return lambda value: {of_key(each): of_value(value[each]) for each in value}
            return lambda value: [{"key": of_key(each), "value": of_value(value[each])} for each in value]
    match _LOGICAL.get(schema.name):
        case "decimal":
            return lambda value: _decimal(schema, value)
        case "date":
            return lambda value: data.epoch_ms(value) // data.MS_PER_DAY
        case "time-millis" | "timestamp-millis":
            return data.epoch_ms
    if schema.type in (SchemaType.BYTES, SchemaType.FLOAT32, SchemaType.FLOAT64):
        return bytes if schema.type is SchemaType.BYTES else float
    return checked_text if schema.type is SchemaType.STRING else lambda value: value


def _decimal(schema: Schema, value: Decimal) -> bytes:
    written = data.bytes_of_decimal(schema, value)
    if len(value.as_tuple().digits) > PRECISION:
        raise DataError(f"A decimal of more than {PRECISION} digits cannot be written as Avro")
    return written


def checked_text(value: str) -> str:
    """Return a text that can be written; raises DataError for one that is no UTF-8."""
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise DataError("The text has half of a surrogate pair and is no UTF-8") from error
    return value


def read_safely(values: Iterator[Any], form: str) -> Iterator[Any]:
    """Yield what is read of a file; raises DataError for bytes that are none, and for times that Python has not."""
    while True:
        try:
            value = next(values)
        except StopIteration:
            return
        except (ValueError, OverflowError, EOFError, IndexError, OSError, zlib.error) as error:
            raise DataError(f"A value of this {form} file cannot be read: {error}") from error
        yield value


class _Sink:
    """An output as the file that fastavro writes to."""

    def __init__(self, output: Output) -> None:
        self._output = output

    def write(self, piece: bytes) -> int:
        return self._output.write(piece)

    def seekable(self) -> bool:
        return False

    def flush(self) -> None:
        """Nothing is kept here."""


class _Container:
    """A container file."""

    def __init__(self, schema: Any, output: Output, codec: str, marker: bytes) -> None:
        from fastavro.write import Writer

        self._writer = Writer(cast("IO[bytes]", _Sink(output)), schema, codec, sync_marker=marker)

    def add(self, converted: Any) -> None:
        """See `Encoder`."""
        self._writer.write(converted)

    def finish(self) -> None:
        """See `Encoder`."""
        self._writer.flush()


class AvroFormat:
    """Container files of records, or of plain values, under the Avro schema of their Connect schema."""

    extension = ".avro"

    def __init__(self, settings: Mapping[str, Any]) -> None:
        _fastavro()
        self._codec: str = settings.get("avro.codec") or "null"
        self._meta: bool = settings.get("connect.meta.data", True)
        self._scrub: bool = settings.get("scrub.invalid.names", False)
        self._known: dict[Schema, tuple[Any, Convert]] = {}

    def _of(self, schema: Schema) -> tuple[Any, Convert]:
        found = self._known.get(schema)
        if found is None:
            made = AvroSchemas(meta=self._meta, scrub=self._scrub)
            parsed = _fastavro().parse_schema(made.of(schema))
            found = self._known[schema] = parsed, writer_of(schema, made.field_name)
        return found

    def convert(self, topic: str, schema: Schema | None, value: Any) -> Any:
        """See `FileFormat`."""
        if schema is None:
            raise DataError(
                "AvroFormat needs values with a schema: use a converter that gives one, such as JsonConverter with "
                "schemas.enable=true, or JsonFormat"
            )
        data.validate_value(schema, value)
        return self._of(schema)[1](value)

    def encoder(self, schema: Schema | None, output: Output, seed: str) -> Encoder:
        """See `FileFormat`."""
        assert schema is not None
        return _Container(self._of(schema)[0], output, self._codec, hashlib.md5(seed.encode()).digest())

    def block(self, values: pa.Array) -> memoryview | None:
        """See `FileFormat`."""
        return None


def read_avro(file: IO[bytes]) -> tuple[Schema, Iterator[Any]]:
    """Return the Connect schema of a container file and its values; raises DataError for a file that is none."""
    fastavro = _fastavro()
    try:
        reader = fastavro.reader(file)
        schema = _ConnectSchemas().of(reader.writer_schema)
    except (ValueError, EOFError, KeyError) as error:
        raise DataError(f"This is no Avro container file: {error}") from error
    return schema, read_safely(map(reader_of(schema), reader), "Avro")


class _ConnectSchemas:
    """Makes Connect's schemas of Avro's."""

    def __init__(self) -> None:
        self._named: dict[str, Any] = {}

    def of(self, avro: Any, *, default: Any = None, optional: bool = False, doc: str | None = None) -> Schema:
        """Return the Connect schema; raises DataError for a union of several types."""
        if isinstance(avro, list):
            kinds = [each for each in avro if each != "null"]
            if len(kinds) != 1:
                raise DataError(f"An Avro union of several types has no counterpart here: {avro}")
            return self.of(kinds[0], default=default, optional=optional or "null" in avro, doc=doc)
        if isinstance(avro, str):
            avro = self._named.get(avro, {"type": avro})
        if isinstance(avro["type"], dict | list):
            return self.of(avro["type"], default=default, optional=optional, doc=doc)
        builder = self._builder(avro)
        if optional:
            builder.optional()
        said = avro.get("connect.doc", doc)
        name = avro.get("connect.name", _NAMES.get(avro.get("logicalType")))
        builder.doc(said).name(builder_name(avro, name)).version(avro.get("connect.version"))
        builder.parameters(avro.get("connect.parameters"))
        if name == data.decimal_schema(0).name:
            builder.parameters({"scale": str(avro.get("scale", 0))})
        made = builder.build()
        if default is None:
            return made
        return builder.default(reader_of(made)(_from_json(made, default))).build()

    def _is_map(self, avro: dict[str, Any]) -> bool:
        """Whether an array stands for a map: its records are called so or say so, or, formerly, the array does."""
        items = avro["items"]
        record = self._named.get(items) if isinstance(items, str) else items
        named = isinstance(record, dict) and record.get("name") == f"{NAMESPACE}.MapEntry"
        said = [each.get("connect.internal.type") for each in (avro, record) if isinstance(each, dict)]
        return named or "MapEntry" in said

    def _builder(self, avro: dict[str, Any]) -> data.SchemaBuilder:
        kind = avro["type"]
        match kind:
            case "record" | "error":
                self._named[avro["name"]] = avro
                builder = data.SchemaBuilder.struct()
                for each in avro["fields"]:
                    schema = self.of(each["type"], default=each.get("default"), doc=each.get("doc"))
                    builder.field(each["name"], schema)
                return builder
            case "array" if self._is_map(avro):
                entry = self.of(avro["items"])
                return data.SchemaBuilder.map(entry.fields[0].schema, entry.fields[1].schema)
            case "array":
                return data.SchemaBuilder.array(self.of(avro["items"]))
            case "map":
                return data.SchemaBuilder.map(data.STRING, self.of(avro["values"]))
            case "enum" | "fixed":
                self._named[avro["name"]] = avro
                return data.SchemaBuilder(SchemaType.STRING if kind == "enum" else SchemaType.BYTES)
        if avro.get("connect.type") in ("int8", "int16"):
            return data.SchemaBuilder(SchemaType(avro["connect.type"]))
        if avro.get("logicalType") in ("time-micros", "timestamp-micros"):
            kind = "int" if avro["logicalType"] == "time-micros" else "long"
        found = next((each for each, word in _PRIMITIVE.items() if word == kind and each.value[-1:] not in "86"), None)
        if found is None:
            raise DataError(f"The Avro type {kind} has no counterpart here")
        return data.SchemaBuilder(found)


_NAMES = {word: name for name, word in _LOGICAL.items()} | {
    "time-micros": data.TIME_SCHEMA.name,
    "timestamp-micros": data.TIMESTAMP_SCHEMA.name,
}


def builder_name(avro: Mapping[str, Any], said: str | None) -> str | None:
    """Return a Connect schema's name: what was said, else the record's own unless it stands for none."""
    if said is not None:
        return said
    own: str | None = avro.get("name") if avro["type"] == "record" else None
    return None if own is None or own.startswith(f"{NAMESPACE}.{DEFAULT_NAME}") else own


def _from_json(schema: Schema, value: Any) -> Any:
    """Return a default of a schema's JSON as fastavro would have read it."""
    if schema.type is SchemaType.BYTES and isinstance(value, str):
        raw = value.encode("latin-1")
        return data.decimal_of_bytes(schema, raw) if schema.name == data.decimal_schema(0).name else raw
    if schema.type is SchemaType.STRUCT and isinstance(value, dict):
        return {each.name: _from_json(each.schema, value.get(each.name)) for each in schema.fields}
    if isinstance(value, int) and not isinstance(value, bool):
        match _LOGICAL.get(schema.name):
            case "date":
                return data.date_of_days(value)
            case "time-millis":
                return data.time_of_ms(value)
            case "timestamp-millis":
                return data.timestamp_of_ms(value)
    return value


def reader_of(schema: Schema) -> Convert:
    """Return what makes Connect's values of those that fastavro or Arrow read."""
    match schema.type:
        case SchemaType.STRUCT:
            return _struct_reader(schema)
        case SchemaType.ARRAY:
            of_element = reader_of(_present(schema.value_schema))
            return lambda value: None if value is None else [of_element(each) for each in value]
        case SchemaType.MAP:
            of_key, of_value = reader_of(_present(schema.key_schema)), reader_of(_present(schema.value_schema))

            def of_map(value: Any) -> Any:
                if value is None:
                    return None
                pairs = value.items() if isinstance(value, dict) else map(_pair, value)
                return {of_key(key): of_value(each) for key, each in pairs}

            return of_map
    return lambda value: value


def _pair(entry: Any) -> tuple[Any, Any]:
    return (entry["key"], entry["value"]) if isinstance(entry, dict) else entry


def _struct_reader(schema: Schema) -> Convert:
    fields = [(each.name, each.index, reader_of(each.schema)) for each in schema.fields]

    def read(value: Any) -> Any:
        if value is None:
            return None
        made = Struct(schema)
        for name, index, of in fields:
            made.values[index] = of(value.get(name))
        return made

    return read
