"""SQL's types and values as Connect's, from which Avro, Protobuf and JSON Schema are told.

ksqlDB does it in these two steps, and what a schema cannot tell is refused on the way.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from ottla.connect import DataError
from ottla.connect.data import (
    BOOLEAN,
    BYTES,
    DATE_SCHEMA,
    FLOAT64,
    INT32,
    INT64,
    MS_PER_DAY,
    STRING,
    TIME_SCHEMA,
    TIMESTAMP_SCHEMA,
    Schema,
    SchemaBuilder,
    SchemaType,
    Struct,
    date_of_days,
    decimal_schema,
    epoch_ms,
    java_text,
    time_of_ms,
    timestamp_of_ms,
)
from ottla.sql.formats.codec import FormatError
from ottla.sql.formats.exact import fitted
from ottla.sql.schema import SqlColumn
from ottla.sql.types import ArrayType, DecimalType, MapType, SqlType, StructType

Convert = Callable[[Any], Any]
DECIMAL = decimal_schema(0).name
PRECISION = "connect.decimal.precision"
DEFAULT_PRECISION = 64
_AVRO_NAME = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_PLAIN = {
    "BOOLEAN": BOOLEAN,
    "INTEGER": INT32,
    "BIGINT": INT64,
    "DOUBLE": FLOAT64,
    "STRING": STRING,
    "BYTES": BYTES,
    "DATE": DATE_SCHEMA,
    "TIME": TIME_SCHEMA,
    "TIMESTAMP": TIMESTAMP_SCHEMA,
}
_MOMENTS = (DATE_SCHEMA.name, TIME_SCHEMA.name, TIMESTAMP_SCHEMA.name)
_INTS = (SchemaType.INT8, SchemaType.INT16, SchemaType.INT32)
_LONGS = (*_INTS, SchemaType.INT64)
_FLOATS = (SchemaType.FLOAT32, SchemaType.FLOAT64)
_READABLE: dict[str, tuple[SchemaType, ...]] = {
    "BOOLEAN": (SchemaType.BOOLEAN,),
    "INTEGER": _INTS,
    "DATE": _INTS,
    "TIME": _INTS,
    "BIGINT": _LONGS,
    "TIMESTAMP": _LONGS,
    "DOUBLE": _FLOATS,
    "STRING": (*_LONGS, *_FLOATS, SchemaType.BOOLEAN, SchemaType.STRING),
    "BYTES": (SchemaType.BYTES,),
    "DECIMAL": (SchemaType.BYTES,),
    "ARRAY": (SchemaType.ARRAY,),
    "MAP": (SchemaType.MAP,),
    "STRUCT": (SchemaType.STRUCT,),
}
"""Which of Connect's types a column reads."""


# -- types


def row_schema(columns: Sequence[SqlColumn], *, wrapped: bool, name: str | None, named: bool) -> Schema:
    """The Connect schema of columns; not `wrapped`, that of the only one.

    `name` is that of the row's struct; with `named` all structs and maps within have names that begin with it, as Avro
    needs them, and what is not wrapped is not nullable.
    """
    inner = name if named else None
    if not wrapped:
        return _schema(columns[0].type, inner, optional=not named)
    builder = SchemaBuilder.struct().name(name)
    for column in columns:
        builder.field(_field_name(column.name, named), _schema(column.type, _within(inner, column.name)))
    return builder.build()


def _field_name(name: str, named: bool) -> str:
    return name.replace(".", "_") if named else name


def _within(name: str | None, part: str) -> str | None:
    return None if name is None else f"{name}_{part}"


def _schema(type_: SqlType, name: str | None, *, optional: bool = True) -> Schema:
    builder = _builder(type_, name)
    return (builder.optional() if optional else builder).build()


def _builder(type_: SqlType, name: str | None) -> SchemaBuilder:
    if isinstance(type_, ArrayType):
        return SchemaBuilder.array(_schema(type_.item, name))
    if isinstance(type_, MapType):
        key, value = _schema(type_.key, _within(name, "MapKey")), _schema(type_.value, _within(name, "MapValue"))
        return SchemaBuilder.map(key, value).name(name)
    if isinstance(type_, StructType):
        builder = SchemaBuilder.struct().name(name)
        for field, of in type_.fields:
            builder.field(_field_name(field, name is not None), _schema(of, _within(name, field)))
        return builder
    if isinstance(type_, DecimalType):
        parameters = {"scale": str(type_.scale), PRECISION: str(type_.precision)}
        return SchemaBuilder.bytes_().name(DECIMAL).version(1).parameters(parameters)
    plain = _PLAIN[type_.base]
    return SchemaBuilder(plain.type).name(plain.name).version(plain.version)


def check_avro_names(schema: Schema) -> None:
    """Raise DataError, in Avro's words, for a field whose name Avro does not allow."""
    for field in schema.fields if schema.type is SchemaType.STRUCT else ():
        if not _AVRO_NAME.fullmatch(field.name):
            begins = _AVRO_NAME.match(field.name) is not None
            raise DataError(f"Illegal {'character in' if begins else 'initial character'}: {field.name}")
        check_avro_names(field.schema)
    if schema.type in (SchemaType.ARRAY, SchemaType.MAP):
        check_avro_names(_present(schema.value_schema))


def sql_type(schema: Schema, *, upper: bool) -> SqlType | None:
    """The SQL type of a Connect schema, None for one that SQL has not; `upper` puts names of fields in upper case."""
    match schema.type:
        case SchemaType.ARRAY:
            item = sql_type(_present(schema.value_schema), upper=upper)
            return None if item is None else ArrayType(item)
        case SchemaType.MAP:
            return _map_type(schema, upper)
        case SchemaType.STRUCT:
            return StructType(tuple(fields_of(schema, upper=upper)))
        case SchemaType.BYTES if schema.name == DECIMAL:
            precision = schema.parameter(PRECISION) or str(DEFAULT_PRECISION)
            return DecimalType(int(precision), int(schema.parameter("scale") or 0))
    if schema.name in _MOMENTS:
        return next(_typed(base) for base, plain in _PLAIN.items() if plain.name == schema.name)
    wanted = {**dict.fromkeys(_INTS, "INTEGER"), **dict.fromkeys(_FLOATS, "DOUBLE")}.get(schema.type)
    return _typed(wanted or next(base for base, plain in _PLAIN.items() if plain.type is schema.type))


def _typed(base: str) -> SqlType:
    from ottla.sql.types import PRIMITIVES

    return PRIMITIVES[base]


def fields_of(schema: Schema, *, upper: bool) -> list[tuple[str, SqlType]]:
    """A struct's fields that SQL has types for."""
    found = ((each.name, sql_type(each.schema, upper=upper)) for each in schema.fields)
    return [(name.upper() if upper else name, type_) for name, type_ in found if type_ is not None]


def _map_type(schema: Schema, upper: bool) -> SqlType | None:
    key = _present(schema.key_schema)
    if key.type not in (*_LONGS, SchemaType.BOOLEAN, SchemaType.STRING):
        return None
    value = sql_type(_present(schema.value_schema), upper=upper)
    return None if value is None else MapType(_typed("STRING"), value)


def _present(schema: Schema | None) -> Schema:
    assert schema is not None, "arrays and maps say what they hold"
    return schema


# -- SQL's values → Connect's


def writer(type_: SqlType, schema: Schema) -> Convert:
    """What makes a Connect value of a schema of an SQL value; raises FormatError for a struct that lacks what it needs."""
    plain = _writer(type_, schema)
    return lambda value: None if value is None else plain(value)


def _writer(type_: SqlType, schema: Schema) -> Convert:
    if isinstance(type_, ArrayType) and schema.type is SchemaType.ARRAY:
        item = writer(type_.item, _present(schema.value_schema))
        return lambda values: [item(each) for each in values]
    if isinstance(type_, MapType) and schema.type is SchemaType.MAP:
        key, value = writer(type_.key, _present(schema.key_schema)), writer(type_.value, _present(schema.value_schema))
        return lambda entries: {key(name): value(each) for name, each in entries.items()}
    if isinstance(type_, StructType) and schema.type is SchemaType.STRUCT:
        return struct_writer(type_.fields, schema)
    match type_.base:
        case "DATE":
            return date_of_days
        case "TIME":
            return time_of_ms
        case "TIMESTAMP":
            return timestamp_of_ms
    return lambda value: value


def struct_writer(fields: Sequence[tuple[str, SqlType]], schema: Schema) -> Convert:
    """What makes a struct of a schema of a dictionary; raises FormatError where one has what the other lacks."""
    types = {name if schema.field(name) is not None else name.replace(".", "_"): (name, of) for name, of in fields}
    missing = next((name for each, (name, _) in types.items() if schema.field(each) is None), None)
    if missing is not None:
        raise FormatError(f"Schema from Schema Registry misses field with name: {missing}")
    writers: list[tuple[str | None, Convert, Any]] = []
    for field in schema.fields:
        if field.name in types:
            name, of = types[field.name]
            writers.append((name, writer(of, field.schema), None))
        elif field.schema.optional or field.schema.default is not None:
            writers.append((None, lambda value: None, field.schema.default))
        else:
            raise FormatError(
                f"Missing default value for required field: [{field.name}]. "
                "This field appears in the schema in Schema Registry"
            )

    def write(value: dict[str, Any]) -> Struct:
        made = Struct(schema)
        made.values = [default if name is None else of(value.get(name)) for name, of, default in writers]
        return made

    return write


# -- Connect's values → SQL's


def reader(type_: SqlType, schema: Schema, path: str = "") -> Convert:
    """What makes an SQL value of a Connect value; raises FormatError where the column cannot be read from the schema."""
    right = schema.type in _READABLE[type_.base]
    if not right or (schema.name == DECIMAL) != (type_.base == "DECIMAL" and schema.type is SchemaType.BYTES):
        raise FormatError(
            f"Cannot deserialize type {_java_name(schema.type)} as type {_java_name(_wanted(type_))} for path: {path}"
        )
    plain = _reader(type_, schema, path)
    return lambda value: None if value is None else plain(value)


def _wanted(type_: SqlType) -> SchemaType:
    if isinstance(type_, DecimalType):
        return SchemaType.BYTES
    return _PLAIN[type_.base].type if type_.base in _PLAIN else _READABLE[type_.base][0]


def _java_name(kind: SchemaType) -> str:
    return kind.name.lower()


def _reader(type_: SqlType, schema: Schema, path: str) -> Convert:
    if isinstance(type_, ArrayType):
        item = reader(type_.item, _present(schema.value_schema), f"{path}->ARRAY")
        return lambda values: [item(each) for each in values]
    if isinstance(type_, MapType):
        key = reader(type_.key, _present(schema.key_schema), f"{path}->MAP_KEY")
        value = reader(type_.value, _present(schema.value_schema), f"{path}->MAP_VAL")
        return lambda entries: {key(name): value(each) for name, each in entries.items()}
    if isinstance(type_, StructType):
        return struct_reader(type_.fields, schema, path)
    if isinstance(type_, DecimalType):
        return lambda value: fitted(value, type_)
    plain = _moment_reader(schema)
    match type_.base:
        case "DOUBLE":
            return float
        case "STRING" if schema.type is not SchemaType.STRING:
            return lambda value: java_text(plain(value))
        case "STRING" | "BOOLEAN" | "BYTES":
            return lambda value: value
    return lambda value: int(plain(value))


def _moment_reader(schema: Schema) -> Convert:
    if schema.name == DATE_SCHEMA.name:
        return lambda value: epoch_ms(value) // MS_PER_DAY
    if schema.name in _MOMENTS:
        return epoch_ms
    return lambda value: value


def struct_reader(fields: Sequence[tuple[str, SqlType]], schema: Schema, path: str = "") -> Convert:
    """What makes a dictionary of a struct: fields are found in any case of letters, those that are missing are null."""
    known = {each.name.upper(): each for each in schema.fields}
    readers: list[tuple[str, int | None, Convert, Any]] = []
    for name, of in fields:
        field = known.get(name.upper()) or known.get(name.upper().replace(".", "_"))
        if field is None:
            readers.append((name, None, lambda value: None, None))
        else:
            readers.append((name, field.index, reader(of, field.schema, f"{path}->{name}"), field.schema.default))

    def read(value: Struct) -> dict[str, Any]:
        found = {}
        for name, index, of, default in readers:
            given = None if index is None else value.values[index]
            found[name] = of(default if given is None else given)
        return found

    return read


# -- Connect's values ↔ what a test case shows


def from_shown(value: object, schema: Schema) -> Any:
    """The Connect value of what a test case shows of it: fields in any case of letters; raises ValueError or KeyError."""
    if value is None:
        return None
    match schema.type:
        case SchemaType.ARRAY:
            item = _present(schema.value_schema)
            return [from_shown(each, item) for each in _as(list, value)]
        case SchemaType.MAP:
            key, inner = _present(schema.key_schema), _present(schema.value_schema)
            return {from_shown(name, key): from_shown(each, inner) for name, each in _as(dict, value).items()}
        case SchemaType.STRUCT:
            upper = {str(name).upper(): each for name, each in _as(dict, value).items()}
            made = Struct(schema)
            made.values = [from_shown(upper.get(each.name.upper()), each.schema) for each in schema.fields]
            return made
        case SchemaType.BYTES:
            return _bytes_from_shown(value, schema)
        case SchemaType.BOOLEAN:
            return str(value).lower() == "true"
        case SchemaType.STRING:
            return value if isinstance(value, str) else java_text(value)
        case SchemaType.FLOAT32 | SchemaType.FLOAT64:
            return float(str(value))
    whole = int(str(value))
    named = {DATE_SCHEMA.name: date_of_days, TIME_SCHEMA.name: time_of_ms, TIMESTAMP_SCHEMA.name: timestamp_of_ms}
    convert = named.get(schema.name)
    return whole if convert is None else convert(whole)


def _as(kind: type[Any], value: object) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"a {kind.__name__} is expected, and not {value!r}")
    return value


def _bytes_from_shown(value: object, schema: Schema) -> Any:
    import base64

    if schema.name != DECIMAL:
        return base64.b64decode(str(value), validate=True)
    precision, scale = schema.parameter(PRECISION), schema.parameter("scale")
    return fitted(Decimal(str(value)), DecimalType(int(precision or DEFAULT_PRECISION), int(scale or 0)))


def shown(value: Any, schema: Schema) -> object:
    """A Connect value as a test case shows it."""
    import base64

    if value is None:
        return None
    match schema.type:
        case SchemaType.ARRAY:
            return [shown(each, _present(schema.value_schema)) for each in value]
        case SchemaType.MAP:
            inner = _present(schema.value_schema)
            return {java_text(name): shown(each, inner) for name, each in value.items()}
        case SchemaType.STRUCT:
            return {each.name: shown(value.values[each.index], each.schema) for each in schema.fields}
        case SchemaType.BYTES if schema.name != DECIMAL:
            return base64.b64encode(value).decode()
        case SchemaType.INT8 | SchemaType.INT16 | SchemaType.INT32 | SchemaType.INT64:
            return int(_moment_reader(schema)(value))
        case SchemaType.FLOAT32 | SchemaType.FLOAT64:
            return float(value)
    return value


def with_maps(value: object, schema: Schema) -> object:
    """Parsed JSON with objects in the place of what its schema says are entries of a map."""
    match schema.type:
        case SchemaType.ARRAY if isinstance(value, list):
            item = _present(schema.value_schema)
            return [with_maps(each, item) for each in value]
        case SchemaType.MAP if isinstance(value, list):
            inner = _present(schema.value_schema)
            return {java_text(each.get("key")): with_maps(each.get("value"), inner) for each in value}
        case SchemaType.MAP if isinstance(value, dict):
            inner = _present(schema.value_schema)
            return {name: with_maps(each, inner) for name, each in value.items()}
        case SchemaType.STRUCT if isinstance(value, dict):
            known = {each.name: each.schema for each in schema.fields}
            return {name: with_maps(each, known[name]) if name in known else each for name, each in value.items()}
    return value
