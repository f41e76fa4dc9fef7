"""What a column's type becomes: a schema, and a function that makes a value of the text that PostgreSQL prints. Pure.

Names, schemas and settings are Debezium's (`decimal.handling.mode`, `time.precision.mode` and the others).
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import partial
from typing import Any, Final

from ottla.connect import DataError
from ottla.connect.data import BYTES as BYTES_SCHEMA
from ottla.connect.data import INT32 as INT32_SCHEMA
from ottla.connect.data import (
    OPTIONAL_STRING,
    STRING,
    FarDate,
    SchemaBuilder,
    Struct,
    any_date_of_days,
    any_timestamp_of_ms,
    bytes_of_decimal,
    decimal_schema,
    plain_type,
    time_of_ms,
)
from ottla.connectors.cdc import clock, column_arrays, geometry

__all__ = ["ColumnKind", "ColumnType", "KindSettings", "binary_writer", "kind_of", "takes_default"]

_TEXTS: Final = frozenset(("text", "varchar", "bpchar", "char", "name"))
_HEADER_BYTES: Final = 4
"""What a type's modifier has beside the length of a text."""
Parse = Callable[[Any], Any]
Make = Callable[[], SchemaBuilder]


@dataclass(frozen=True, slots=True)
class ColumnType:
    """A column's type as the catalogue has it; a domain's is that of what it stands on."""

    oid: int
    name: str
    modifier: int = -1
    labels: tuple[str, ...] = ()
    """Of an enum."""
    element: ColumnType | None = None
    """Of an array."""
    domain: str = ""
    """The name of the domain that it is, if it is one."""
    delimiter: str = ","
    """What stands between its values where they are an array's elements: `;` between boxes."""

    @property
    def is_text(self) -> bool:
        """Whether its values are texts that can be hidden."""
        return self.name in _TEXTS

    @property
    def is_bytes(self) -> bool:
        """Whether its values are bytes."""
        return self.name == "bytea"

    @property
    def length(self) -> int:
        """Return the most characters of a text; not positive where that is not said."""
        return self.modifier - _HEADER_BYTES


@dataclass(frozen=True, slots=True)
class KindSettings:
    """The connector's settings that say how values are written."""

    decimal: str = "precise"
    time: str = "adaptive"
    interval: str = "numeric"
    hstore: str = "json"
    binary: str = "bytes"
    money_digits: int = 2
    money_shift: int = 0
    """By how many digits money is larger than it is printed."""
    placeholder: str = "__debezium_unavailable_value"
    unknown: bool = False


@dataclass(frozen=True, slots=True)
class ColumnKind:
    """How a column is written."""

    builder: Make
    """Begins its schema, without what is said of nulls and defaults."""
    parse: Parse
    """Makes a value of what the database tells: PostgreSQL its text. Raises DataError, ValueError."""
    unavailable: Any = None
    """What stands for a large value that the server did not send."""
    zero: Any = None
    """What stands for a value that is not known where null is not allowed."""
    null: Any = None
    """What null is written as: something else where the column is masked."""
    of_default: Parse | None = None
    """How a constant default is read, where that is not as values are: the server has not given it its scale yet."""
    column: Callable[[Any], Any] | None = None
    """Makes an Arrow array of a column of texts, with the values that `parse` makes of them; None for one by one."""


def kind_of(type_: ColumnType, settings: KindSettings) -> ColumnKind | None:
    """Return how a column is written, None for a type that is left out."""
    made = _BY_OID.get(type_.oid) or _BY_NAME.get(type_.name)
    if made is not None:
        return made(type_, settings)
    if type_.labels:
        return _enum(type_, settings)
    if type_.element is not None:
        return _array(type_.element, settings)
    return _unknown(settings) if settings.unknown else None


def takes_default(type_: ColumnType) -> bool:
    """Whether the schema of a column says its default, which Debezium leaves out for many types."""
    return not type_.domain and (type_.oid in _WITH_DEFAULT or bool(type_.labels))


_WITH_DEFAULT: Final = frozenset(
    (16, 20, 21, 23, 25, 114, 142, 700, 701, 1042, 1043, 1082, 1083, 1114, 1184, 1186, 1560, 1562, 1700, 2950, 3802)
)

# -- numbers


def _plain(
    make: Make, parse: Callable[[str], Any], zero: Any, column: Callable[[Any], Any] | None = None
) -> Callable[[ColumnType, KindSettings], ColumnKind]:
    kind = ColumnKind(make, lambda raw: parse(raw.decode()), zero=zero, column=column)
    return lambda type_, settings: kind


def _numeric(type_: ColumnType, settings: KindSettings) -> ColumnKind:
    packed = type_.modifier - 4
    precision, scale = packed >> 16 & 0xFFFF, (packed & 0x7FF ^ 0x400) - 0x400
    step = Decimal((0, (1,), -scale))
    if settings.decimal == "string":
        scaled = None if type_.modifier < 0 else lambda raw: str(_finite(raw).quantize(step, context=_WIDE))
        as_text = column_arrays.texts
        return ColumnKind(
            SchemaBuilder.string, bytes.decode, settings.placeholder, "0", of_default=scaled, column=as_text
        )
    if settings.decimal == "double":
        return ColumnKind(SchemaBuilder.float64, float, zero=0.0, column=column_arrays.doubles)
    if type_.modifier < 0:
        return ColumnKind(_variable_builder, _variable, zero=_variable(b"0"), column=_variable_column)

    def make() -> SchemaBuilder:
        return _decimal_builder(scale).parameter("connect.decimal.precision", str(precision))

    def parse(raw: bytes) -> Decimal:
        found = _finite(raw)
        return found if found.as_tuple().exponent == -scale else found.quantize(step, context=_WIDE)

    return ColumnKind(make, parse, zero=Decimal(0).quantize(step), column=column_arrays.decimals(scale))


def _finite(raw: bytes) -> Decimal:
    found = Decimal(raw.decode())
    if not found.is_finite():
        words = "decimal.handling.mode=string or double takes it"
        raise DataError(f"A numeric column holds {found}, which no Decimal of Connect can be: {words}")
    return found


_WIDE: Final = Context(prec=200_000)


def _decimal_builder(scale: int) -> SchemaBuilder:
    name = "org.apache.kafka.connect.data.Decimal"
    return SchemaBuilder.bytes_().name(name).version(1).parameter("scale", str(scale))


def _variable_builder() -> SchemaBuilder:
    builder = SchemaBuilder.struct().name("io.debezium.data.VariableScaleDecimal").version(1)
    return builder.doc("Variable scaled decimal").field("scale", INT32_SCHEMA).field("value", BYTES_SCHEMA)


_VARIABLE: Final = _variable_builder().optional().build()


def _variable(raw: bytes) -> Struct:
    found = _finite(raw).normalize(_WIDE)
    exponent = found.as_tuple().exponent
    assert isinstance(exponent, int)
    scale = max(0, -exponent)
    whole = found.quantize(Decimal((0, (1,), -scale)), context=_WIDE)
    return Struct(_VARIABLE, {"scale": scale, "value": bytes_of_decimal(decimal_schema(scale), whole)})


def _variable_column(column: Any) -> Any:
    """Return an Arrow array of the structs that `_variable` makes."""
    import pyarrow as pa

    found = [(None, None) if each is None else tuple(_variable(each).values) for each in column.to_pylist()]
    scales, values = (
        pa.array([each[0] for each in found], pa.int32()),
        pa.array([each[1] for each in found], pa.binary()),
    )
    return pa.StructArray.from_arrays([scales, values], ["scale", "value"], mask=scales.is_null())


def _money(type_: ColumnType, settings: KindSettings) -> ColumnKind:
    step = Decimal((0, (1,), -settings.money_digits))

    def amount(raw: bytes) -> Decimal:
        return _amount(raw).scaleb(settings.money_shift)

    if settings.decimal == "string":
        return ColumnKind(SchemaBuilder.string, lambda raw: f"{amount(raw):f}", zero="0")
    if settings.decimal == "double":
        return ColumnKind(SchemaBuilder.float64, lambda raw: float(amount(raw)), zero=0.0)
    return ColumnKind(
        lambda: _decimal_builder(settings.money_digits),
        lambda raw: amount(raw).quantize(step),
        zero=Decimal(0).quantize(step),
    )


def _amount(raw: bytes) -> Decimal:
    """Return money as the locale C prints it: `-$1,234.56`."""
    text = raw.decode()
    found = re.fullmatch(r"(-?)\$?([0-9,]+(?:\.[0-9]+)?)", text)
    if found is None:
        raise DataError(f"PostgreSQL printed {text!r}, which is no money in lc_monetary=C")
    return Decimal(found[1] + found[2].replace(",", ""))


# -- texts and bytes


def _text(name: str | None = None) -> Callable[[ColumnType, KindSettings], ColumnKind]:
    def make() -> SchemaBuilder:
        return SchemaBuilder.string() if name is None else SchemaBuilder.string().name(name).version(1)

    return lambda type_, settings: ColumnKind(make, bytes.decode, settings.placeholder, "", column=column_arrays.texts)


def _uuid(type_: ColumnType, settings: KindSettings) -> ColumnKind:
    zero = "00000000-0000-0000-0000-000000000000"

    def make() -> SchemaBuilder:
        return _named(SchemaBuilder.string(), "data.Uuid")

    return ColumnKind(make, bytes.decode, zero=zero, column=column_arrays.texts)


def _json(type_: ColumnType, settings: KindSettings) -> ColumnKind:
    def make() -> SchemaBuilder:
        return _named(SchemaBuilder.string(), "data.Json")

    return ColumnKind(make, bytes.decode, settings.placeholder, "{}", column=column_arrays.texts)


def _enum(type_: ColumnType, settings: KindSettings) -> ColumnKind:
    def make() -> SchemaBuilder:
        return _named(SchemaBuilder.string(), "data.Enum").parameter("allowed", ",".join(type_.labels))

    return ColumnKind(make, bytes.decode, settings.placeholder, "", column=column_arrays.texts)


def _named(builder: SchemaBuilder, name: str) -> SchemaBuilder:
    return builder.name(f"io.debezium.{name}").version(1)


def binary_writer(mode: str) -> Callable[[bytes], Any]:
    """Return how bytes are written (`binary.handling.mode`)."""
    writers: dict[str, Callable[[bytes], Any]] = {
        "bytes": bytes,
        "base64": lambda data: base64.b64encode(data).decode(),
        "base64-url-safe": lambda data: base64.urlsafe_b64encode(data).decode(),
        "hex": bytes.hex,
    }
    return writers[mode]


def _bytea(type_: ColumnType, settings: KindSettings) -> ColumnKind:
    write = binary_writer(settings.binary)
    if settings.binary == "bytes":
        absent: Any = settings.placeholder.encode()
        return ColumnKind(SchemaBuilder.bytes_, lambda raw: _hex(raw), absent, b"")
    return ColumnKind(SchemaBuilder.string, lambda raw: write(_hex(raw)), settings.placeholder, write(b""))


def _hex(raw: bytes) -> bytes:
    if not raw.startswith(b"\\x"):
        raise DataError(f"PostgreSQL printed {raw[:20]!r}, which is no bytea in hex")
    return bytes.fromhex(raw[2:].decode())


def _bits(type_: ColumnType, settings: KindSettings) -> ColumnKind:
    if type_.oid == 1560 and type_.modifier in (1, -1):
        return ColumnKind(SchemaBuilder.boolean, lambda raw: raw == b"1", zero=False)
    length = str(type_.modifier if type_.modifier > 0 else (1 << 31) - 1)

    def parse(raw: bytes) -> bytes:
        return int(raw or b"0", 2).to_bytes((len(raw) + 7) // 8, "little")

    return ColumnKind(lambda: _named(SchemaBuilder.bytes_(), "data.Bits").parameter("length", length), parse, zero=b"")


def _hstore(type_: ColumnType, settings: KindSettings) -> ColumnKind:
    if settings.hstore == "map":
        return ColumnKind(
            lambda: SchemaBuilder.map(STRING, OPTIONAL_STRING),
            lambda raw: _pairs(raw.decode()),
            {settings.placeholder: settings.placeholder},
            {},
        )
    return ColumnKind(
        lambda: _named(SchemaBuilder.string(), "data.Json"),
        lambda raw: _compact_json(_pairs(raw.decode())),
        settings.placeholder,
        "{}",
    )


_PAIR = re.compile(r'\s*"((?:[^"\\]|\\.)*)"\s*=>\s*(?:NULL|"((?:[^"\\]|\\.)*)")\s*(?:,|$)', re.DOTALL)


def _pairs(text: str) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    at = 0
    while at < len(text):
        match = _PAIR.match(text, at)
        if match is None:
            raise DataError(f"PostgreSQL printed {text[at : at + 40]!r}, which is no hstore")
        value = match[2]
        found[_unescaped(match[1])] = None if value is None else _unescaped(value)
        at = match.end()
    return found


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL)


def _compact_json(value: Any) -> str:
    import json

    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


# -- times


def _date(type_: ColumnType, settings: KindSettings) -> ColumnKind:
    if settings.time == "isostring":
        return ColumnKind(
            _iso("IsoDate"), lambda raw: clock.iso_date(clock.date_days(raw.decode())), zero="1970-01-01Z"
        )
    if settings.time == "connect":
        return ColumnKind(
            _connect("Date", SchemaBuilder.int32),
            lambda raw: any_date_of_days(clock.date_days(raw.decode())),
            zero=any_date_of_days(0),
        )
    return ColumnKind(
        lambda: _named(SchemaBuilder.int32(), "time.Date"),
        lambda raw: clock.date_days(raw.decode()),
        zero=0,
        column=column_arrays.dates,
    )


def _iso(name: str) -> Make:
    return lambda: _named(SchemaBuilder.string(), f"time.{name}")


def _connect(name: str, begin: Make) -> Make:
    return lambda: begin().name(f"org.apache.kafka.connect.data.{name}").version(1)


def _timestamp(type_: ColumnType, settings: KindSettings) -> ColumnKind:
    def us(raw: bytes) -> int:
        return clock.local_us(raw.decode())

    if settings.time == "isostring":
        return ColumnKind(_iso("IsoTimestamp"), lambda raw: _iso_or_infinity(raw), zero="1970-01-01T00:00:00Z")
    if settings.time == "connect":
        return ColumnKind(
            _connect("Timestamp", SchemaBuilder.int64),
            lambda raw: any_timestamp_of_ms(_scaled(us(raw), 1000)),
            zero=any_timestamp_of_ms(0),
        )
    if settings.time == "nanoseconds":
        return _whole("NanoTimestamp", lambda raw: _bounded(us(raw), 1000))
    if settings.time != "microseconds" and 0 <= type_.modifier <= 3:
        return _whole("Timestamp", lambda raw: _scaled(us(raw), 1000), column=column_arrays.milliseconds)
    return _whole("MicroTimestamp", lambda raw: _bounded(us(raw)), column=column_arrays.microseconds)


def _iso_or_infinity(raw: bytes) -> str:
    text = raw.decode()
    return text if text.endswith("infinity") else clock.iso_timestamp(clock.local_us(text))


def _scaled(us: int, by: int) -> int:
    """Microseconds in larger units; the infinities stay the ends of 64 bits."""
    return us if us in (clock.INFINITY, -clock.INFINITY - 1) else us // by


def _bounded(us: int, by: int = 1) -> int:
    """Return microseconds in smaller units; the infinities stay the ends of 64 bits.

    PostgreSQL's last years in microseconds since 1970 are beyond 64 bits; in nanoseconds all before 1677 and behind 2262.
    """
    if us in (clock.INFINITY, -clock.INFINITY - 1):
        return us
    found = us * by
    if not -clock.INFINITY - 1 < found < clock.INFINITY:
        when = FarDate(us // clock.DAY_US)
        raise DataError(
            f"A timestamp of {when} is beyond 64 bits of {'micro' if by == 1 else 'nano'}seconds since 1970: "
            "time.precision.mode=isostring or connect takes it"
        )
    return found


def _whole(
    name: str, parse: Parse, begin: Make = SchemaBuilder.int64, column: Callable[[Any], Any] | None = None
) -> ColumnKind:
    return ColumnKind(lambda: _named(begin(), f"time.{name}"), parse, zero=0, column=column)


def _time(type_: ColumnType, settings: KindSettings) -> ColumnKind:
    def us(raw: bytes) -> int:
        return clock.time_us(raw.decode())

    if settings.time == "isostring":
        return ColumnKind(_iso("IsoTime"), lambda raw: clock.iso_time(us(raw)), zero="00:00:00Z")
    if settings.time == "connect":
        return ColumnKind(
            _connect("Time", SchemaBuilder.int32), lambda raw: time_of_ms(us(raw) // 1000), zero=time_of_ms(0)
        )
    if settings.time == "nanoseconds":
        return _whole("NanoTime", lambda raw: us(raw) * 1000)
    if settings.time == "adaptive" and 0 <= type_.modifier <= 3:
        return _whole("Time", lambda raw: us(raw) // 1000, SchemaBuilder.int32)
    return _whole("MicroTime", us)


def _timestamptz(type_: ColumnType, settings: KindSettings) -> ColumnKind:
    return ColumnKind(
        _iso("ZonedTimestamp"),
        lambda raw: clock.zoned_text(raw.decode()),
        zero="1970-01-01T00:00:00.000000Z",
        column=column_arrays.zoned_texts,
    )


def _timetz(type_: ColumnType, settings: KindSettings) -> ColumnKind:
    return ColumnKind(_iso("ZonedTime"), lambda raw: clock.iso_time(clock.utc_time_us(raw.decode())), zero="00:00:00Z")


def _interval(type_: ColumnType, settings: KindSettings) -> ColumnKind:
    if settings.interval == "string":
        return ColumnKind(_iso("Interval"), lambda raw: clock.duration_text(raw.decode()), zero="P0Y0M0DT0H0M0S")
    return _whole("MicroDuration", lambda raw: clock.duration_us(raw.decode()))


# -- the rest


def _shape(make: Make, parse: Parse, zero: bytes) -> Callable[[ColumnType, KindSettings], ColumnKind]:
    kind = ColumnKind(make, parse, zero=parse(zero))
    return lambda type_, settings: kind


def _geometry(name: str, zero: bytes) -> Callable[[ColumnType, KindSettings], ColumnKind]:
    return _shape(geometry.geometry_builder, partial(geometry.geometry, name), zero)


def _array(element: ColumnType, settings: KindSettings) -> ColumnKind | None:
    kind = kind_of(element, settings)
    if kind is None:
        return None
    of_element = kind.builder().optional().build()
    delimiter = element.delimiter

    def parse(raw: bytes) -> list[Any]:
        return [None if each is None else kind.parse(each.encode()) for each in elements(raw.decode(), delimiter)]

    def column(texts: Any) -> Any:
        import pyarrow as pa

        return pa.array(
            [None if each is None else parse(each) for each in texts.to_pylist()], pa.list_(type_of_element)
        )

    type_of_element = plain_type(of_element)
    return ColumnKind(
        lambda: SchemaBuilder.array(of_element),
        parse,
        [] if kind.unavailable is None else [kind.unavailable],
        [],
        column=None if type_of_element is None else column,
    )


_SPACE: Final = " \t\n\r\v\f"
"""What PostgreSQL takes for white space between an array's elements; all else is part of one."""


_ELEMENT = re.compile(r'"((?:[^"\\]|\\.)*)"|([^{}"]+)', re.DOTALL)
"""An element in quotes, or what stands between two of them and braces: elements without quotes, and delimiters."""


def elements(text: str, delimiter: str = ",") -> list[str | None]:
    """Return what an array's text holds, in order; those of several dimensions one after another.

    An `int2vector` and an `oidvector` are arrays without braces.
    """
    if text.startswith("["):  # bounds that do not begin with 1
        text = text.partition("=")[2]
    if not text.startswith("{"):
        if re.fullmatch(r"[-\d ]*", text, re.ASCII):
            return [*text.split()]
        raise DataError(f"PostgreSQL printed {text[:40]!r}, which is no array")
    found: list[str | None] = []
    for match in _ELEMENT.finditer(text):
        if match[1] is not None:
            found.append(_unescaped(match[1]))
            continue
        bare = (each.strip(_SPACE) for each in match[2].split(delimiter))
        found += [None if each == "NULL" else _unescaped(each) for each in bare if each]
    return found


def _unknown(settings: KindSettings) -> ColumnKind:
    write = binary_writer(settings.binary)
    if settings.binary == "bytes":
        return ColumnKind(SchemaBuilder.bytes_, bytes, settings.placeholder.encode(), b"")
    return ColumnKind(SchemaBuilder.string, write, settings.placeholder, write(b""))


_STRING = _text()
_BY_OID: Final[Mapping[int, Callable[[ColumnType, KindSettings], ColumnKind]]] = {
    16: _plain(SchemaBuilder.boolean, lambda text: text == "t", False, column_arrays.booleans),
    20: _plain(SchemaBuilder.int64, int, 0, column_arrays.whole(64)),
    21: _plain(SchemaBuilder.int16, int, 0, column_arrays.whole(16)),
    23: _plain(SchemaBuilder.int32, int, 0, column_arrays.whole(32)),
    26: _plain(SchemaBuilder.int64, int, 0, column_arrays.whole(64)),
    700: _plain(SchemaBuilder.float32, float, 0.0),
    701: _plain(SchemaBuilder.float64, float, 0.0, column_arrays.doubles),
    790: _money,
    1700: _numeric,
    17: _bytea,
    114: _json,
    3802: _json,
    142: _text("io.debezium.data.Xml"),
    2950: _uuid,
    3614: _text("io.debezium.data.Tsvector"),
    1560: _bits,
    1562: _bits,
    1082: _date,
    1083: _time,
    1114: _timestamp,
    1184: _timestamptz,
    1186: _interval,
    1266: _timetz,
    600: _shape(geometry.point_builder, geometry.point, b"(0,0)"),
    601: _geometry("lseg", b"[(0,0),(0,0)]"),
    602: _geometry("path", b"[(0,0)]"),
    603: _geometry("box", b"(0,0),(0,0)"),
    604: _geometry("polygon", b"((0,0))"),
    628: _shape(geometry.line_builder, geometry.line, b"{0,0,0}"),
    718: _shape(geometry.circle_builder, geometry.circle, b"<(0,0),0>"),
    **dict.fromkeys((18, 19, 25, 1042, 1043, 650, 774, 829, 869), _STRING),
    **dict.fromkeys((3904, 3906, 3908, 3910, 3912, 3926), _STRING),
}
_BY_NAME: Final[Mapping[str, Callable[[ColumnType, KindSettings], ColumnKind]]] = {
    "citext": _STRING,
    "hstore": _hstore,
    "ltree": _text("io.debezium.data.Ltree"),
}
