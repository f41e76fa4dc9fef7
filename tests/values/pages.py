"""What the console shows, searches, hides and mends, and the command line prints and reads, of hostile records."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from itertools import pairwise

from ottla.admin import FixError
from ottla.base import KafkaError
from ottla.cli.records.dump_records import Decoder
from ottla.cli.records.formatters import formatter, json_formatter
from ottla.cli.records.json_lines import read_json_lines
from ottla.cli.records.line_reader import LineReader, LineRules
from ottla.cli.records.record_format import FormatReader, format_renderer
from ottla.cli.records.record_reader import ConsumedRecord
from ottla.console.records.decoding import DECODERS
from ottla.console.records.fixes import Fix
from ottla.console.records.masks import WAYS, Mask, Masks
from ottla.console.records.reads import Read
from ottla.console.records.rows import Decoders, document_of, row_of, shortened
from ottla.sql import SqlError, document_condition
from tests.hostile_values import NAMES, RAW, TEXTS
from tests.values.watched import Case, short

_TEXTS = [each.encode("utf-8", "surrogatepass") for each in TEXTS]
_DOCUMENTS = [b'{"a":' + each + b',"b":"x"}' for each in _TEXTS] + [json.dumps({"a": each}).encode() for each in TEXTS]
BYTES: tuple[bytes | None, ...] = (
    *RAW, *_TEXTS, *_DOCUMENTS, b"\x81" * 3000, b"\x91" * 3000 + b"\xc0", b"\xdf\xff\xff\xff\xff",
    b"\xc2\x5a" + b"\xff" * 1000,
    b"\xc4\x82\x1b\x7f\xff\xff\xff\xff\xff\xff\xff\x01", b"\xc5\x82\x1b\x7f\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\xd8\x1d\x00",
    b"\xc7\x0c\xff" + b"\xff" * 12, b"\xd7\xff" + b"\xff" * 8, b"\xc1\xfb\x7f\xf0\0\0\0\0\0\0", b"\0\0\0\0\1", b"\xff" * 8,
)  # fmt: skip
CONDITIONS = (
    "value.a > 1", "value.a * 1e300 * 1e300 > 0", "value.a / value.b = 1", "value.a = 1.5", "value.a LIKE '%a%a%b'",
    "value.a % 7 = 0",
    "LOWER(value.a) = 'x'", "LENGTH(value.a) > 3", "ABS(value.a) > 1", "value.a - 1 < value.b", "value.a BETWEEN 0 AND 9",
    "value.a IN ('x', 1)", "value IS NULL", "key = 'x' AND timestamp > '2020-01-01'", "value.a.b.c = 1", "x y",
    "-value.a > 0",
    "value.a = '2020-01-01T00:00:00Z'", "value[1] = 1", "value.a + value.a > 0", "value.a * value.a * value.a * value.a > 0",
)  # fmt: skip
FIXES = (
    "value.a = 1",
    "value.b = value.a",
    "value.a = value.a * 1e300",
    "value = 'x'",
    "key = value.a",
    "headers['h'] = value.a",
)
FORMATS = ("%k|%s|%h\n", "%S %k{hex} %s{base64}\n", "%s{pack(>q)}\n", "%s{big8}\n", "%T %t %p %o %K %S\n", "%s{json}\n")


def cases(*rooms: str) -> Iterator[Case]:
    """The console's and the command line's."""
    for data in BYTES:
        for one, other in ((data, data), (None, data)):
            yield from _console(Read(0, 0, one, other, (("h", data), ("😀", None))))
    for name in (*NAMES, ""):
        yield from _console(Read(0, (1 << 63) - 1, b"k", json.dumps({name: {name: 1}}).encode(), ((name, b"x"),)))
    yield from _formatters()
    yield from _readers()


def _console(record: Read) -> Iterator[Case]:
    label = f"{short(record.key)} {short(record.value)}"
    for wanted in (None, *DECODERS):
        for whole in (False, True):

            def page(wanted=wanted, whole=whole) -> None:
                row = row_of(0, shortened(record), Decoders(wanted, wanted), whole=whole)
                json.dumps(row, allow_nan=False).encode()

            yield Case(f"row {wanted} {whole} {label}", page, ())
    document = document_of("t", 0, record)
    for text in CONDITIONS:
        yield Case(f"{text} {label}", lambda text=text: document_condition(text).holds(document), (SqlError,))
    for way in WAYS:
        for path in (("value",), ("value", "a"), ("value", "a", "a"), ("key",), ("headers", "h")):
            masks = Masks([Mask("*", path, way, frozenset())], b"secret")
            yield Case(f"masked {way} {path} {label}", lambda masks=masks: masks.masked(record), ())
    for text in FIXES:
        yield Case(f"{text} {label}", lambda text=text: Fix(text).apply(record, record.headers), (FixError, SqlError))


def _consumed(data: bytes | None) -> ConsumedRecord:
    return ConsumedRecord("t", 0, 0, 0, (1 << 63) - 1, "CreateTime", data, data, (("h", data), ("😀", None)))


def _formatters() -> Iterator[Case]:
    known = ("String", "Integer", "Long", "Short", "Float", "Double", "Boolean", "UUID", "Void", "ByteArray", "Bytes")
    everything = {
        f"print.{each}": "true" for each in ("key", "timestamp", "partition", "offset", "headers", "epoch", "delivery")
    }
    made = [("json", json_formatter({}))]
    for name in known:
        named = {"value.deserializer": f"org.apache.kafka.common.serialization.{name}Deserializer"}
        made.append(
            (
                name,
                formatter(
                    "DefaultMessageFormatter", {**everything, **named, "key.deserializer": named["value.deserializer"]}
                ),
            )
        )
    for text in FORMATS:
        try:
            made.append((text, format_renderer(text)))
        except KafkaError:
            continue
    for data in BYTES:
        for name, render in made:
            yield Case(
                f"prints {name} {short(data)}", lambda render=render, data=data: render(_consumed(data)), (KafkaError,)
            )
        for decoder in (
            Decoder(None, "StringDecoder", "LongDecoder"),
            Decoder("cluster-metadata", None, None),
            Decoder("offsets", None, None),
            Decoder("transaction-log", None, None),
            Decoder("share-group-state", None, None),
        ):
            yield Case(
                f"dumps {short(data)}",
                lambda decoder=decoder, data=data: json.dumps(decoder.decode(_consumed(data))),  # type: ignore[arg-type]
                (KafkaError,),
            )


def _readers() -> Iterator[Case]:
    lines = [each for each in BYTES if each is not None]
    for one, other in pairwise(lines):
        yield Case(
            f"lines {short(one)}", lambda one=one, other=other: list(read_json_lines([one, other])), (KafkaError,)
        )
        yield Case(
            f"lines {short(one)}", lambda one=one: list(read_json_lines([b'{"value":' + one + b"}"])), (KafkaError,)
        )
        for rules in (
            LineRules(),
            LineRules.of({"parse.key": "true", "parse.headers": "true"}) if hasattr(LineRules, "of") else LineRules(),
        ):
            yield Case(
                f"reads {short(one)}", lambda rules=rules, one=one: list(LineReader(rules).read([one])), (KafkaError,)
            )
        for text in ("%k %s\n", "%K{big4}%k%S{big4}%s", "%S %s"):
            yield Case(
                f"reads {text} {short(one)}",
                lambda text=text, one=one: list(FormatReader(text).read(io.BytesIO(one))),
                (KafkaError,),
            )
