"""Values that serdes, converters and connectors have to take, or to refuse by name: never to change, hang or fall over.

`HOSTILE` is (label, Connect schema, value); `NAMES` are names of fields, tables, topics and files; `RAW` is bytes of keys
and values, `NUMBERS` are numbers as texts and `TEXTS` whatever else a text may be. `tests/values` puts all of them through
everything that takes values. `same` tells whether a value came back: NaN is NaN, −0 is not 0, and a decimal has its scale.
"""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

from ottla.connect import Schema, SchemaBuilder, Struct, data

__all__ = ["DOUBLES", "HOSTILE", "NAMES", "NUMBERS", "RAW", "TEXTS", "same"]

_INT8, _INT16, _INT32, _INT64 = data.OPTIONAL_INT8, data.OPTIONAL_INT16, data.OPTIONAL_INT32, data.OPTIONAL_INT64
_FLOAT, _DOUBLE, _TEXT, _BYTES = (
    data.OPTIONAL_FLOAT32,
    data.OPTIONAL_FLOAT64,
    data.OPTIONAL_STRING,
    data.OPTIONAL_BYTES,
)


def _optional(schema: Schema) -> Schema:
    builder = SchemaBuilder(schema.type).name(schema.name).version(schema.version).parameters(schema.parameters)
    return builder.optional().build()


_DATE, _TIME, _MOMENT = (_optional(each) for each in (data.DATE_SCHEMA, data.TIME_SCHEMA, data.TIMESTAMP_SCHEMA))
_WHOLE, _CENTS, _TINY = (_optional(data.decimal_schema(scale)) for scale in (0, 2, 38))
_LIST = SchemaBuilder.array(_TEXT).optional().build()
_MAP = SchemaBuilder.map(data.STRING, _TEXT).optional().build()
_INNER = SchemaBuilder.struct().field("a", _INT64).field("b", _TEXT).optional().build()

_TEXTS = (
    ("empty", ""),
    ("a blank", " "),
    ("1 MiB", "x" * (1 << 20)),
    ("NUL", "a\0b"),
    ("line ends", "a\nb\r\nc\r"),
    ("quotes", "'\"`\\'' OR 1=1 --"),
    ("a placeholder", "%s %(a)s :v ${topic} ${env:HOME} {0}"),
    ("a template", "${file:/etc/passwd:x}"),
    ("right to left", "\u202eabc\u202c\u200b\ufeff"),
    ("astral", "😀𝒳" * 3),
    ("not composed", "e\u0301"),
    ("half a surrogate pair", "a\ud800b"),
    ("U+FFFF", "\uffff\ufffe"),
    ("looks like null", "null"),
    ("looks like a number", "1e400"),
    ("looks like JSON", '{"a": [1, null]}'),
    ("controls", "".join(map(chr, range(1, 32))) + "\x7f\x85\u2028\u2029"),
)
_DOUBLES = (
    ("NaN", math.nan),
    ("infinity", math.inf),
    ("minus infinity", -math.inf),
    ("minus zero", -0.0),
    ("the least", 5e-324),
    ("the greatest", 1.7976931348623157e308),
    ("a third", 1 / 3),
)
_FLOATS = (
    *(("NaN", math.nan), ("infinity", math.inf), ("minus zero", -0.0), ("the least", 1.401298464324817e-45)),
    *(("the greatest", 3.4028234663852886e38), ("too large", 1e300), ("a tenth", 0.10000000149011612)),
)
_INTEGERS = (
    *((f"{schema.type.value} {word}", schema, value) for schema, value, word in (
        (_INT8, -128, "least"), (_INT8, 127, "greatest"), (_INT8, 128, "too large"),
        (_INT16, -(1 << 15), "least"), (_INT16, 1 << 15, "too large"),
        (_INT32, -(1 << 31), "least"), (_INT32, 1 << 31, "too large"),
        (_INT64, -(1 << 63), "least"), (_INT64, (1 << 63) - 1, "greatest"), (_INT64, 1 << 63, "too large"),
        (_INT64, (1 << 53) + 1, "beyond doubles"), (_INT64, 10**400, "huge"),
    )),
)  # fmt: skip
_DECIMALS = (
    ("zero", _CENTS, Decimal("0.00")),
    ("minus zero", _CENTS, Decimal("-0.00")),
    ("cents", _CENTS, Decimal("-12345678901234567890.12")),
    ("38 digits", _WHOLE, Decimal(10**38 - 1)),
    ("39 digits", _WHOLE, Decimal(10**38)),
    ("65 digits", _WHOLE, Decimal(10**64)),
    ("1000 digits", _WHOLE, Decimal(10**999 + 1)),
    ("tiny", _TINY, Decimal("1e-38").quantize(Decimal("1e-38"))),
    ("of another scale", _CENTS, Decimal("1.234")),
    ("no number", _CENTS, Decimal("NaN")),
    ("infinite", _CENTS, Decimal("Infinity")),
    ("with an exponent", _WHOLE, Decimal("1E+20")),
)
_TIMES = (
    ("the first day", _DATE, date(1, 1, 1)),
    ("before the calendar's change", _DATE, date(1582, 10, 4)),
    ("the day of the change", _DATE, date(1582, 10, 10)),
    ("the last day", _DATE, date(9999, 12, 31)),
    ("a day BC", _DATE, data.FarDate(-1_000_000)),
    ("a day of the year 10000", _DATE, data.FarDate(2_932_897)),
    ("no day any more", _DATE, data.FarDate((1 << 31) - 1)),
    ("midnight", _TIME, time(0, 0)),
    ("the last millisecond", _TIME, time(23, 59, 59, 999000)),
    ("24:00", _TIME, data.EndOfDay()),
    ("the epoch", _MOMENT, datetime(1970, 1, 1, tzinfo=UTC)),
    ("a millisecond before", _MOMENT, datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=UTC)),
    ("the first moment", _MOMENT, datetime(1, 1, 1, tzinfo=UTC)),
    ("the last moment", _MOMENT, datetime(9999, 12, 31, 23, 59, 59, 999000, tzinfo=UTC)),
    ("a moment BC", _MOMENT, data.FarTimestamp(-100_000_000_000_000_000)),
    ("a moment of the year 10000", _MOMENT, data.FarTimestamp(253_402_300_800_000_000)),
    ("infinite", _MOMENT, data.FarTimestamp(9223372036825200000_000)),
    ("in the gap of spring", _MOMENT, datetime(2024, 3, 31, 1, 30, tzinfo=UTC)),
    ("the first hour of autumn's two", _MOMENT, datetime(2024, 10, 27, 0, 30, tzinfo=UTC)),
    ("the second hour of autumn's two", _MOMENT, datetime(2024, 10, 27, 1, 30, tzinfo=UTC)),
)
_NESTED: tuple[tuple[str, Schema, object], ...] = (
    ("an empty list", _LIST, []),
    ("a list of nulls", _LIST, [None, "", "null", "NULL", '"', "{}", "a,b", "\\"]),
    ("an empty map", _MAP, {}),
    ("a map with odd keys", _MAP, {"": None, "a.b": "", '"': "'", "null": "null", "😀": "x"}),
    ("a struct of nulls", _INNER, Struct(_INNER)),
    ("a struct", _INNER, Struct(_INNER, a=(1 << 63) - 1, b="'\"")),
)

NUMBERS = (
    "1e1000000", "-1E+1000000", "1e-1000000", "0e1000000", "1e99999999999999999999", "1e2147483648",
    "1e-2147483648", "1e400",
    "9" * 39, "9" * 1000, "9" * 5000, "9" * 200_000, "0." + "9" * 5000, "1." + "0" * 200_000, "-0", "-0.0", "0" * 5000 + "1",
    "1_000", "\u0661\u0662", "+1", "1.", ".5", "0x10", "1d", "1f", "NaN", "-Infinity", "inf", "9223372036854775808",
    "-9223372036854775808", "2147483648", "9007199254740993", "1e308", "5e-324", " 1 ", "1e", "e5", "--1", "1e+",
)  # fmt: skip
"""Numbers as texts; some are none."""

TEXTS = (
    *(value for _, value in _TEXTS),
    *NUMBERS,
    "[" * 100_000, "{" * 100_000, '{"a":' * 5000 + "1" + "}" * 5000, '{"a":1e1000000}', '[1e1000000,"\\ud800"]',
    '{"a":1,"a":2}',
    "$" + ".a" * 5000, "$[" + "9" * 5000 + "]", "$.a", "(a+)+$", "(?!x)(a|aa)+$", "(", "a" * 3000 + "!", "%" * 50 + "b",
    "+300000-01-01", "-0001-01-01", "9999-12-31T23:59:59.999+18:00", "0001-01-01T00:00+18:00", "2024-02-30",
    "24:00", "23:59:60",
    "2020-01-01T00:00:00+99:99", "2020-01-01T00:00:00.[Europe/Nowhere]", "999999999-12-31", "00000000000000000001-01-01",
    "../../etc/passwd", "Europe/Berlin", "+99:00", "UTC+23:59", "yyyy-MM-dd'T'HH:mm:ss.SSS", "y" * 1000,
    "'" * 999, "SSSSSSSSSSSS",
    "http://[::1", "http://a:99999999/%zz?%=%ff#", "//", "%ff%fe", "a=b&&=&%", "zz", "0x" + "f" * 1001, "====", "A" * 1001,
    "utf8", "base64", "hex", "ascii", "BIG_ENDIAN", "MD5", "AVRO", "x,y\n\"z", "\ud83d", "\udc00\ud83d", "ß" * 100, "İ" * 10,
)  # fmt: skip
"""Whatever else a text may be: numbers, JSON, paths, patterns, times, zones, addresses, and words that mean something."""

DOUBLES = tuple(value for _, value in _DOUBLES)

HOSTILE: tuple[tuple[str, Schema, Any], ...] = (
    *((f"null {each.type.value}", each, None) for each in (_INT8, _INT64, _DOUBLE, _TEXT, _BYTES, _DATE, _CENTS, _LIST)),
    *((f"text: {label}", _TEXT, value) for label, value in _TEXTS),
    *((f"double: {label}", _DOUBLE, value) for label, value in _DOUBLES),
    *((f"float: {label}", _FLOAT, value) for label, value in _FLOATS),
    *_INTEGERS,
    *((f"decimal: {label}", schema, value) for label, schema, value in _DECIMALS),
    *((f"time: {label}", schema, value) for label, schema, value in _TIMES),
    *((f"nested: {label}", schema, value) for label, schema, value in _NESTED),
    *((f"bytes: {label}", _BYTES, value) for label, value in (
        ("empty", b""), ("NUL", b"\0"), ("no UTF-8", b"\xff\xfe\xc3"), ("1 MiB", bytes(range(256)) * 4096),
    )),
)  # fmt: skip

NAMES = (
    "select", "order", "user", "table", "group", "null", "NULL", "a b", "a.b", "a-b", "a/b", "a\\b", "a'b", 'a"b', "a`b",
    "a;b", "a%b", "a%sb", "a:b", "a$b", "a{b}", "å😀", "A", "a", "1a", "_", "__connect_topic", "x" * 63, "aa",
    "a-", "-", ".", "..",
)  # fmt: skip

RAW: tuple[bytes | None, ...] = (
    None, b"", b"\0", b"null", b"{}", b"[", b"{", b"\xff\xfe", b"\xc3\x28", b'"\\ud800"', b"NaN", b"1e400", b"-0", b"-0.0",
    b"9" * 400, b'{"a":' * 5000, b"[" * 5000 + b"]" * 5000, b'{"a":1,"a":2}', b'{"schema":null,"payload":1}',
    b'{"schema":{}}', b'{"schema":{"type":"int64"},"payload":"x"}', b'{"schema":{"type":"struct"},"payload":{}}',
    b"\xef\xbb\xbf{}", b"x" * (1 << 20),
    b'{"schema":{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal"},"payload":"AA=="}',
    b'{"schema":{"type":"int32","name":"org.apache.kafka.connect.data.Date"},"payload":9999999999}',
    b'{"schema":{"type":"int64","name":"org.apache.kafka.connect.data.Timestamp"},"payload":-9223372036854775808}',
    b'{"schema":{"type":"int32","name":"org.apache.kafka.connect.data.Time"},"payload":-1}',
)  # fmt: skip


def same(one: Any, other: Any) -> bool:
    """Return whether a value came back as it was."""
    if isinstance(one, Struct) and isinstance(other, Struct):
        names = [each.name for each in one.schema.fields]
        return names == [each.name for each in other.schema.fields] and same(one.values, other.values)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return (math.isnan(one) and math.isnan(other)) or (
            one == other and math.copysign(1, one) == math.copysign(1, other)
        )
    if isinstance(one, Decimal) and isinstance(other, Decimal):
        return one == other and one.as_tuple().exponent == other.as_tuple().exponent
    return type(one) is type(other) and bool(one == other)
