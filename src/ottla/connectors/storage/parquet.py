"""Parquet files of Connect's values: schemas one into the other and back, with pyarrow doing the bytes.

A value that is no struct stands in one column `value`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from types import ModuleType
from typing import IO, TYPE_CHECKING, Any

from ottla.connect import DataError, Schema, SchemaType, Struct, data
from ottla.connectors.storage.formats import Encoder, Output, checked_text, needs_extra, read_safely

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ROWS_PER_GROUP", "ParquetFormat", "read_parquet"]

ROWS_PER_GROUP = 32_768
"""How many values are kept in memory until they are written as columns."""

DIGITS_MAX = 38
"""Of a decimal, as in all that reads Parquet."""

ENDINGS = {"none": "", "snappy": ".snappy", "gzip": ".gz", "lz4": ".lz4", "brotli": ".br", "zstd": ".zstd"}
"""What `parquet.codec` adds to files' names before `.parquet`."""

VALUE = "value"
_DECIMAL = data.decimal_schema(0).name
Convert = Callable[[Any], Any]


def _pyarrow() -> ModuleType:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise needs_extra("pyarrow", "ParquetFormat") from error
    return pyarrow  # type: ignore[no-any-return]


def arrow_type(schema: Schema) -> Any:
    """Return Arrow's type for a Connect schema; raises DataError where there is none."""
    pa = _pyarrow()
    match schema.type:
        case SchemaType.STRUCT:
            if not schema.fields:
                raise DataError("A struct without fields cannot be a column of Parquet")
            return pa.struct([_arrow_field(each.name, each.schema) for each in schema.fields])
        case SchemaType.ARRAY:
            return pa.list_(_arrow_field("element", _present(schema.value_schema)))
        case SchemaType.MAP:
            key = pa.field("key", arrow_type(_present(schema.key_schema)), nullable=False)
            return pa.map_(key, _arrow_field("value", _present(schema.value_schema)))
    return _plain_types(pa, schema)


def _plain_types(pa: ModuleType, schema: Schema) -> Any:
    match schema.name:
        case data.DATE_SCHEMA.name:
            return pa.date32()
        case data.TIME_SCHEMA.name:
            return pa.time32("ms")
        case data.TIMESTAMP_SCHEMA.name:
            return pa.timestamp("ms", tz="UTC")
        case name if name == _DECIMAL:
            return pa.decimal128(DIGITS_MAX, int(schema.parameter("scale") or 0))
    return {
        SchemaType.INT8: pa.int8,
        SchemaType.INT16: pa.int16,
        SchemaType.INT32: pa.int32,
        SchemaType.INT64: pa.int64,
        SchemaType.FLOAT32: pa.float32,
        SchemaType.FLOAT64: pa.float64,
        SchemaType.BOOLEAN: pa.bool_,
        SchemaType.STRING: pa.string,
        SchemaType.BYTES: pa.binary,
    }[schema.type]()


def _arrow_field(name: str, schema: Schema) -> Any:
    return _pyarrow().field(name, arrow_type(schema), nullable=schema.optional)


def _present(schema: Schema | None) -> Schema:
    if schema is None:
        raise DataError("Parquet needs a schema for what an array or map holds")
    return schema


def _writer(schema: Schema) -> Convert:
    inner, default = _inner_writer(schema), schema.default

    def write(value: Any) -> Any:
        if value is None:
            value = default
        return None if value is None else inner(value)

    return write


def _inner_writer(schema: Schema) -> Convert:
    match schema.type:
        case SchemaType.STRUCT:
            of_fields = [(each.name, each.index, _writer(each.schema)) for each in schema.fields]
            return lambda value: {name: of(value.values[index]) for name, index, of in of_fields}
        case SchemaType.ARRAY:
            of_element = _writer(_present(schema.value_schema))
            return lambda value: [of_element(each) for each in value]
        case SchemaType.MAP:
            of_key, of_value = _writer(_present(schema.key_schema)), _writer(_present(schema.value_schema))
            return lambda value: [(of_key(each), of_value(value[each])) for each in value]
        case SchemaType.BYTES if schema.name == _DECIMAL:
            return lambda value: _checked_decimal(schema, value)
        case SchemaType.BYTES:
            return bytes
        case SchemaType.STRING:
            return checked_text
    return _TIMES.get(schema.name, lambda value: value)


def _checked_time(value: Any) -> Any:
    if isinstance(value, data.EndOfDay):
        raise DataError("24:00 is no time of day in Parquet")
    return value


_TIMES: dict[str | None, Convert] = {  # times that Python has not go as the numbers that Parquet has for them
    data.DATE_SCHEMA.name: lambda value: value.days if isinstance(value, data.FarDate) else value,
    data.TIME_SCHEMA.name: _checked_time,
    data.TIMESTAMP_SCHEMA.name: lambda value: value.ms if isinstance(value, data.FarTimestamp) else value,
}


def _checked_decimal(schema: Schema, value: Decimal) -> Decimal:
    data.bytes_of_decimal(schema, value)
    if len(value.as_tuple().digits) > DIGITS_MAX:
        raise DataError(f"A decimal of more than {DIGITS_MAX} digits cannot be written as Parquet")
    return value


class _Sink:
    """An output as the file that pyarrow writes to."""

    closed = False

    def __init__(self, output: Output) -> None:
        self._output, self._position = output, 0

    def write(self, piece: Any) -> int:
        view = memoryview(piece)
        self._output.write(view)
        self._position += view.nbytes
        return view.nbytes

    def tell(self) -> int:
        return self._position

    def flush(self) -> None:
        """Nothing is kept here."""

    def close(self) -> None:
        """The output ends elsewhere."""


class _Columns:
    """A file; values wait until they are a row group."""

    def __init__(self, columns: Any, output: Output, codec: str) -> None:
        self._pa = _pyarrow()
        self._columns = columns
        self._sink = self._pa.PythonFile(_Sink(output), mode="w")
        self._writer = self._pa.parquet.ParquetWriter(self._sink, columns, compression=codec)
        self._rows: list[Any] = []

    def add(self, converted: Any) -> None:
        """See `Encoder`."""
        self._rows.append(converted)
        if len(self._rows) >= ROWS_PER_GROUP:
            self._write()

    def _write(self) -> None:
        pa = self._pa
        made = pa.array(self._rows, pa.struct(list(self._columns)))
        self._writer.write_table(pa.Table.from_arrays(made.flatten(), schema=self._columns))
        self._rows = []

    def finish(self) -> None:
        """See `Encoder`."""
        if self._rows:
            self._write()
        self._writer.close()


class ParquetFormat:
    """Columns, one for each field."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        _pyarrow()
        self._codec: str = settings.get("parquet.codec") or "snappy"
        self.extension = ENDINGS[self._codec] + ".parquet"
        self._known: dict[Schema, tuple[Any, Convert]] = {}

    def _of(self, schema: Schema) -> tuple[Any, Convert]:
        found = self._known.get(schema)
        if found is None:
            pa, write = _pyarrow(), _writer(schema)
            if schema.type is SchemaType.STRUCT:
                columns = pa.schema(list(arrow_type(schema)))
                found = columns, write
            else:
                columns = pa.schema([_arrow_field(VALUE, schema)])
                found = columns, lambda value: {VALUE: write(value)}
            self._known[schema] = found
        return found

    def convert(self, topic: str, schema: Schema | None, value: Any) -> Any:
        """See `FileFormat`."""
        if schema is None:
            raise DataError(
                "ParquetFormat needs values with a schema: use a converter that gives one, such as JsonConverter with "
                "schemas.enable=true, or JsonFormat"
            )
        if value is None and schema.type is SchemaType.STRUCT:
            raise DataError("ParquetFormat cannot write a row that is null")
        data.validate_value(schema, value)
        return self._of(schema)[1](value)

    def encoder(self, schema: Schema | None, output: Output, seed: str) -> Encoder:
        """See `FileFormat`."""
        assert schema is not None
        return _Columns(self._of(schema)[0], output, self._codec)

    def block(self, values: pa.Array) -> memoryview | None:
        """See `FileFormat`."""
        return None


def read_parquet(file: IO[bytes], batch: int = 4096) -> tuple[Schema, Iterator[Any]]:
    """Return the Connect schema of a file's rows and the rows; raises DataError for a file that is none."""
    pa = _pyarrow()
    try:
        found = pa.parquet.ParquetFile(file)
        columns = found.schema_arrow
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(f"This is no Parquet file: {error}") from error
    builder = data.SchemaBuilder.struct()
    for each in columns:
        builder.field(each.name, connect_schema(each.type, optional=each.nullable))
    schema = builder.build()
    read = reader_of(schema)
    rows = (read(row) for part in found.iter_batches(batch) for row in _plain_rows(part))
    return schema, read_safely(rows, "Parquet")


def _plain_rows(part: Any) -> list[Any]:
    rows: list[Any] = part.to_pylist()
    return rows


def reader_of(schema: Schema) -> Convert:
    """Return what makes Connect's values of those that Arrow reads."""
    match schema.type:
        case SchemaType.STRUCT:
            return _struct_reader(schema)
        case SchemaType.ARRAY:
            of_element = reader_of(_present(schema.value_schema))
            return lambda value: None if value is None else [of_element(each) for each in value]
        case SchemaType.MAP:
            of_key, of_value = reader_of(_present(schema.key_schema)), reader_of(_present(schema.value_schema))
            return lambda value: None if value is None else {of_key(key): of_value(each) for key, each in value}
    return lambda value: value


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


def connect_schema(type_: Any, *, optional: bool) -> Schema:
    """Return the Connect schema of an Arrow type; raises DataError where there is none."""
    builder = _builder_of(type_)
    return (builder.optional() if optional else builder).build()


def _builder_of(type_: Any) -> data.SchemaBuilder:
    types = _pyarrow().types
    if types.is_struct(type_):
        builder = data.SchemaBuilder.struct()
        for each in type_:
            builder.field(each.name, connect_schema(each.type, optional=each.nullable))
        return builder
    if types.is_map(type_):
        value = connect_schema(type_.item_type, optional=type_.item_field.nullable)
        return data.SchemaBuilder.map(connect_schema(type_.key_type, optional=False), value)
    if types.is_list(type_) or types.is_large_list(type_):
        return data.SchemaBuilder.array(connect_schema(type_.value_type, optional=type_.value_field.nullable))
    if types.is_decimal(type_):
        return data.SchemaBuilder.bytes_().name(_DECIMAL).version(1).parameter("scale", str(type_.scale))
    if types.is_timestamp(type_):
        return data.SchemaBuilder.int64().name(data.TIMESTAMP_SCHEMA.name).version(1)
    if types.is_date(type_):
        return data.SchemaBuilder.int32().name(data.DATE_SCHEMA.name).version(1)
    if types.is_time(type_):
        return data.SchemaBuilder.int32().name(data.TIME_SCHEMA.name).version(1)
    for kind, tests in _ARROW_KINDS.items():
        if any(getattr(types, test)(type_) for test in tests):
            return data.SchemaBuilder(kind)
    raise DataError(f"The column type {type_} has no counterpart here")


_ARROW_KINDS = {
    SchemaType.STRING: ("is_string", "is_large_string"),
    SchemaType.BYTES: ("is_binary", "is_large_binary", "is_fixed_size_binary"),
    SchemaType.BOOLEAN: ("is_boolean",),
    SchemaType.INT8: ("is_int8",),
    SchemaType.INT16: ("is_int16", "is_uint8"),
    SchemaType.INT32: ("is_int32", "is_uint16"),
    SchemaType.INT64: ("is_int64", "is_uint32"),
    SchemaType.FLOAT32: ("is_float32", "is_float16"),
    SchemaType.FLOAT64: ("is_float64",),
}
