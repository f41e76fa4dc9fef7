"""Connect: every transformation, predicate and converter, and conversions between types, over every hostile value."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from ottla.base import ConfigError
from ottla.connect import Schema, SchemaBuilder, SourceRecord, Struct, converters, data
from ottla.connect.errors import ConnectError
from ottla.connect.transforms import PREDICATES, TRANSFORMATIONS
from tests.connect.transform_cases import settings_of
from tests.hostile_values import HOSTILE, NAMES, RAW, TEXTS
from tests.values.watched import Case, short

ERRORS = (ConnectError,)
TYPES = ("int8", "int16", "int32", "int64", "float32", "float64", "boolean", "string")
MOMENTS = ("string", "unix", "Date", "Time", "Timestamp")
PATTERNS = ("yyyy-MM-dd'T'HH:mm:ss.SSSX", "G yyyyy EEE", "'", "yyyy" * 50)
TIMES = 3
VALUES: tuple[tuple[str, Schema, Any], ...] = (
    *HOSTILE,
    *((f"text {at}", data.OPTIONAL_STRING, each) for at, each in enumerate(TEXTS)),
)


def cases(*rooms: str) -> Iterator[Case]:
    """All of it."""
    chance = random.Random(11)
    for kind in (*TRANSFORMATIONS, *PREDICATES):
        for settings in _settings(kind, chance):
            made: Any = kind()
            try:
                made.configure(settings)
            except (ConfigError, ConnectError):
                continue
            ask = made.test if kind in PREDICATES else made.apply
            for label, schema, value in VALUES:
                for record in _records(schema, value):
                    yield Case(
                        f"{kind.__name__} {settings} {label}", lambda ask=ask, record=record: ask(record), ERRORS
                    )
    yield from _converted()
    yield from _conversions()


def _settings(kind: Any, chance: random.Random) -> list[dict[str, str]]:
    name = kind.__name__.removesuffix("Key").removesuffix("Value") if kind not in PREDICATES else kind.__name__
    if name.startswith("Cast"):
        return [{"spec": each} for each in TYPES] + [{"spec": f"v:{each}"} for each in TYPES]
    if name.startswith("TimestampConverter"):
        found = [{"target.type": each, "format": pattern} for each in MOMENTS for pattern in PATTERNS[:2]]
        found += [{"target.type": "unix", "unix.precision": each} for each in ("nanoseconds", "seconds")]
        found += [{"target.type": "Timestamp", "format": each} for each in PATTERNS]
        return [*found, *({**each, "field": "v"} for each in found)]
    if name.startswith("TimestampRouter"):
        return [{"timestamp.format": each} for each in PATTERNS]
    if name.startswith("MaskField"):
        return [{"fields": "v"}, {"fields": "v", "replacement": "42"}, {"fields": "v", "replacement": "1e1000000"}]
    try:
        return [settings_of(chance, name, ["v"]) for _ in range(TIMES)]
    except (KeyError, ValueError, AssertionError):
        return [{}]


def _records(schema: Schema, value: Any) -> Iterator[SourceRecord]:
    whole = SchemaBuilder.struct().field("v", schema).build()
    struct = Struct(whole)
    struct.values[0] = value
    for kind, each in ((schema, value), (whole, struct), (None, value), (None, {"v": value})):
        yield SourceRecord(
            topic="t", key_schema=kind, key=each, value_schema=kind, value=each, timestamp=(1 << 63) - 1,
            source_partition={}, source_offset={},
        )  # fmt: skip


def _converted() -> Iterator[Case]:
    """Values to bytes and back, and strangers' bytes to values."""
    for name in converters.__all__:
        for settings in (
            {"schemas.enable": "true"},
            {"schemas.enable": "false"},
            {"schemas.enable": "true", "decimal.format": "NUMERIC"},
        ):
            made: Any = getattr(converters, name)()
            if hasattr(made, "configure"):
                made.configure(settings, is_key=False)
            if not hasattr(made, "to_connect"):
                for raw in (*RAW, *(each.encode("utf-8", "surrogatepass") for each in TEXTS)):
                    yield Case(f"{name} {short(raw)}", lambda made=made, raw=raw: made.to_header("t", "h", raw), ERRORS)
                continue
            for label, schema, value in VALUES:
                yield Case(
                    f"{name} {settings} {label}",
                    lambda made=made, schema=schema, value=value: made.to_connect(
                        "t", made.from_connect("t", schema, value)
                    ),
                    ERRORS,
                )
            for raw in (*RAW, *(each.encode("utf-8", "surrogatepass") for each in TEXTS), *_enveloped()):
                yield Case(
                    f"{name} {settings} {short(raw)}", lambda made=made, raw=raw: made.to_connect("t", raw), ERRORS
                )


def _enveloped() -> Iterator[bytes]:
    """JSON with the schemas of strangers: each type with each hostile text for its payload, and odd schemas."""
    kinds = ("int8", "int16", "int32", "int64", "float", "double", "boolean", "string", "bytes")
    for kind in kinds:
        for text in TEXTS:
            if len(text) < 6000:
                yield f'{{"schema":{{"type":"{kind}"}},"payload":{text}}}'.encode("utf-8", "surrogatepass")
    for scale in ("2147483647", "-2147483648", "1e9", "x", "9" * 5000):
        decimal = f'"type":"bytes","name":"org.apache.kafka.connect.data.Decimal","parameters":{{"scale":"{scale}"}}'
        for payload in ('"AQ=="', '"/w=="', "1e1000000", "1.5", '""'):
            yield f'{{"schema":{{{decimal}}},"payload":{payload}}}'.encode()
    for name in NAMES:
        field = name.replace("\\", "\\\\").replace('"', '\\"')
        yield f'{{"schema":{{"type":"struct","fields":[{{"field":"{field}","type":"string"}}]}},"payload":{{}}}}'.encode()
    deep = '{"type":"array","items":' * 2000 + '{"type":"int8"}' + "}" * 2000
    yield f'{{"schema":{deep},"payload":[]}}'.encode()


def _conversions() -> Iterator[Case]:
    wanted = (
        *(data.OPTIONAL_INT8, data.OPTIONAL_INT16, data.OPTIONAL_INT32, data.OPTIONAL_INT64, data.OPTIONAL_FLOAT32),
        *(data.OPTIONAL_FLOAT64, data.OPTIONAL_STRING, data.OPTIONAL_BYTES, data.decimal_schema(2), data.DATE_SCHEMA),
        *(data.TIME_SCHEMA, data.TIMESTAMP_SCHEMA, SchemaBuilder.array(data.OPTIONAL_STRING).build()),
    )
    for label, schema, value in VALUES:
        for to in wanted:
            yield Case(
                f"{label} to {to}",
                lambda to=to, schema=schema, value=value: data.convert_to(to, schema, value),
                ERRORS,
            )
        yield Case(f"schema of {label}", lambda value=value: data.infer_schema(value), ERRORS)
    for text in TEXTS:
        yield Case(f"value of {short(text)}", lambda text=text: data.parse_value(text), ERRORS)
