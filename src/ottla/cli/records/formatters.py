"""Records → text: Kafka's stock message formatters and deserializers, by their class names or short ones."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.base import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.cli.records.record_reader import ConsumedRecord

__all__ = ["Formatter", "deserializer", "formatter", "json_formatter"]

Deserializer = Callable[[bytes], str]
Formatter = Callable[["ConsumedRecord"], bytes]


def _sized(name: str, code: str, size: int) -> Deserializer:
    def read(data: bytes) -> str:
        if len(data) != size:
            raise KafkaError(ErrorCode.INVALID_RECORD, f"Size of data received by {name}Deserializer is not {size}")
        (value,) = struct.unpack(code, data)
        return str(value)

    return read


def _boolean(data: bytes) -> str:
    if len(data) != 1:
        raise KafkaError(ErrorCode.INVALID_RECORD, "Size of data received by BooleanDeserializer is not 1")
    if data not in (b"\0", b"\1"):
        raise KafkaError(ErrorCode.INVALID_RECORD, "Unexpected byte received by BooleanDeserializer")
    return "true" if data == b"\1" else "false"


def _double(data: bytes) -> str:
    from ottla.java import double_text

    return double_text(float(_sized("Double", ">d", 8)(data)))


def _float(data: bytes) -> str:
    from ottla.java import float_text

    return float_text(float(_sized("Float", ">f", 4)(data)))


def _uuid(data: bytes) -> str:
    from uuid import UUID

    try:
        return str(UUID(data.decode()))
    except ValueError:
        raise KafkaError(ErrorCode.INVALID_RECORD, "Error parsing data into UUID") from None


def _void(_: bytes) -> str:
    raise KafkaError(ErrorCode.INVALID_RECORD, "Data should be null for a VoidDeserializer.")


_DESERIALIZERS: Mapping[str, Deserializer | None] = {
    "String": None,
    "ByteArray": None,
    "Bytes": None,
    "ByteBuffer": None,
    "Void": _void,
    "Boolean": _boolean,
    "Short": _sized("Short", ">h", 2),
    "Integer": _sized("Integer", ">i", 4),
    "Long": _sized("Long", ">q", 8),
    "Float": _float,
    "Double": _double,
    "UUID": _uuid,
}
"""None means that the bytes go out as they are: Java would print the object's address for the three byte types."""


def deserializer(name: str | None) -> Deserializer | None:
    """Return the deserializer of a class name such as `org.apache.kafka.common.serialization.LongDeserializer`.

    `LongDeserializer` and `Long` mean the same. Raises KafkaError for one that is not built in.
    """
    if name is None:
        return None
    short = name.strip().removeprefix("org.apache.kafka.common.serialization.").removesuffix("Deserializer")
    if short not in _DESERIALIZERS:
        known = ", ".join(_DESERIALIZERS)
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"deserializer {name} is not built in; these are: {known}")
    return _DESERIALIZERS[short]


@dataclass(frozen=True, slots=True)
class DefaultFormatter:
    """One line per record: the columns that were asked for, in Kafka's order."""

    print_timestamp: bool
    print_partition: bool
    print_offset: bool
    print_delivery: bool
    print_epoch: bool
    print_headers: bool
    print_key: bool
    print_value: bool
    key_separator: bytes
    line_separator: bytes
    headers_separator: bytes
    null_literal: bytes
    key_deserializer: Deserializer | None
    value_deserializer: Deserializer | None
    headers_deserializer: Deserializer | None

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> DefaultFormatter:
        """Read `--formatter-property` values."""

        def flag(name: str, default: str = "false") -> bool:
            return properties.get(name, default).strip().lower() == "true"

        def text(name: str, default: str) -> bytes:
            return properties.get(name, default).encode()

        return cls(
            print_timestamp=flag("print.timestamp"),
            print_partition=flag("print.partition"),
            print_offset=flag("print.offset"),
            print_delivery=flag("print.delivery"),
            print_epoch=flag("print.epoch"),
            print_headers=flag("print.headers"),
            print_key=flag("print.key"),
            print_value=flag("print.value", "true"),
            key_separator=text("key.separator", "\t"),
            line_separator=text("line.separator", "\n"),
            headers_separator=text("headers.separator", ","),
            null_literal=text("null.literal", "null"),
            key_deserializer=deserializer(properties.get("key.deserializer")),
            value_deserializer=deserializer(properties.get("value.deserializer")),
            headers_deserializer=deserializer(properties.get("headers.deserializer")),
        )

    def __call__(self, record: ConsumedRecord) -> bytes:
        """Return the record's line, its separator included."""
        columns: list[bytes] = []
        if self.print_timestamp:
            has_time = record.timestamp >= 0
            columns.append(f"{record.timestamp_type}:{record.timestamp}".encode() if has_time else b"NO_TIMESTAMP")
        if self.print_partition:
            columns.append(b"Partition:%d" % record.partition)
        if self.print_offset:
            columns.append(b"Offset:%d" % record.offset)
        if self.print_delivery:  # only share groups count deliveries (KIP-932)
            columns.append(b"Delivery:NOT_PRESENT")
        if self.print_epoch:
            columns.append(b"Epoch:%d" % record.leader_epoch if record.leader_epoch >= 0 else b"Epoch:NOT_PRESENT")
        if self.print_headers:
            columns.append(self._headers(record))
        if self.print_key:
            columns.append(self._field(record.key, self.key_deserializer))
        if self.print_value:
            columns.append(self._field(record.value, self.value_deserializer))
        return self.key_separator.join(columns) + self.line_separator

    def _headers(self, record: ConsumedRecord) -> bytes:
        if not record.headers:
            return b"NO_HEADERS"
        pairs = (name.encode() + b":" + self._field(value, self.headers_deserializer) for name, value in record.headers)
        return self.headers_separator.join(pairs)

    def _field(self, data: bytes | None, deserialize: Deserializer | None) -> bytes:
        if data is None:
            return self.null_literal
        return data if deserialize is None else deserialize(data).encode()


def json_formatter(properties: Mapping[str, str]) -> Formatter:
    """Return what writes one JSON document per record; bytes that are no text stand as `{"base64": …}`."""
    read_key = deserializer(properties.get("key.deserializer"))
    read_value = deserializer(properties.get("value.deserializer"))

    def render(record: ConsumedRecord) -> bytes:
        import json

        document = {
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
            "leaderEpoch": record.leader_epoch,
            "timestamp": record.timestamp,
            "timestampType": record.timestamp_type,
            "headers": [[name, _json_field(value, None)] for name, value in record.headers],
            "key": _json_field(record.key, read_key),
            "value": _json_field(record.value, read_value),
        }
        return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"

    return render


def _json_field(data: bytes | None, deserialize: Deserializer | None) -> str | dict[str, str] | None:
    if data is None:
        return None
    if deserialize is not None:
        return deserialize(data)
    try:
        return data.decode()
    except UnicodeDecodeError:
        from base64 import b64encode

        return {"base64": b64encode(data).decode()}


def _logging(default: DefaultFormatter) -> Formatter:
    """As Kafka's LoggingMessageFormatter: the default's line, and the record on standard error as a log line."""

    def render(record: ConsumedRecord) -> bytes:
        from ottla.cli.options import warn

        key = "null" if record.key is None else record.key.decode(errors="replace")
        value = "null" if record.value is None else record.value.decode(errors="replace")
        time = f"{record.timestamp_type}:{record.timestamp}, " if record.timestamp >= 0 else ""
        warn(f"{time}key:{key}, value:{value}")
        return default(record)

    return render


def formatter(name: str, properties: Mapping[str, str]) -> Formatter:
    """Return a formatter by its class name, as it is now or was before 4.0, or `default`, `logging` and `noop`.

    Raises KafkaError for any other.
    """
    from ottla.cli.records.coordinator_formatters import COORDINATOR_FORMATTERS, coordinator_formatter

    last = re.split(r"[.$]", name)[-1]
    match last.removesuffix("MessageFormatter").lower():
        case "default":
            return DefaultFormatter.of(properties)
        case "logging":
            return _logging(DefaultFormatter.of(properties))
        case "noop":
            return lambda _: b""
    if last in COORDINATOR_FORMATTERS:
        return coordinator_formatter(last)
    known = ", ".join(("DefaultMessageFormatter", "LoggingMessageFormatter", "NoOpMessageFormatter"))
    raise KafkaError(
        ErrorCode.INVALID_CONFIG,
        f"formatter {name} is not built in; Kafka's {known} and {', '.join(COORDINATOR_FORMATTERS)} are",
    )
