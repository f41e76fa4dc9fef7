"""Deserializers and formatters by the names that Kafka's users write."""

from __future__ import annotations

import struct
from uuid import UUID

import pytest

from ottla.base import KafkaError
from ottla.cli.records.formatters import deserializer, formatter, json_formatter
from ottla.cli.records.record_reader import ConsumedRecord

RECORD = ConsumedRecord(
    topic="t",
    partition=2,
    offset=7,
    leader_epoch=3,
    timestamp=5,
    timestamp_type="LogAppendTime",
    key=b"k",
    value=b"v",
    headers=(("h", b"1"), ("g", None)),
)
ALL = {
    f"print.{name}": "true"
    for name in ("timestamp", "partition", "offset", "delivery", "epoch", "headers", "key", "value")
}
SERIALIZATION = "org.apache.kafka.common.serialization."


def test_columns_stand_in_kafkas_order() -> None:
    line = formatter("org.apache.kafka.tools.consumer.DefaultMessageFormatter", ALL)(RECORD)
    assert line == b"LogAppendTime:5\tPartition:2\tOffset:7\tDelivery:NOT_PRESENT\tEpoch:3\th:1,g:null\tk\tv\n"


def test_a_record_without_time_or_epoch_says_so() -> None:
    bare = ConsumedRecord("t", 0, 0, -1, -1, "CreateTime", None, None, ())
    line = formatter("default", ALL)(bare)
    assert (
        line
        == b"NO_TIMESTAMP\tPartition:0\tOffset:0\tDelivery:NOT_PRESENT\tEpoch:NOT_PRESENT\tNO_HEADERS\tnull\tnull\n"
    )


@pytest.mark.parametrize(
    ("name", "data", "text"),
    [
        ("Integer", struct.pack(">i", -5), "-5"),
        ("ShortDeserializer", struct.pack(">h", 300), "300"),
        (SERIALIZATION + "LongDeserializer", struct.pack(">q", 1 << 40), "1099511627776"),
        (SERIALIZATION + "DoubleDeserializer", struct.pack(">d", 1e10), "1.0E10"),
        ("Float", struct.pack(">f", 0.1), "0.1"),
        ("Boolean", b"\1", "true"),
        ("UUID", b"123e4567-e89b-12d3-a456-426614174000", str(UUID("123e4567-e89b-12d3-a456-426614174000"))),
    ],
)
def test_deserializers_write_what_java_writes(name: str, data: bytes, text: str) -> None:
    found = deserializer(name)
    assert found is not None and found(data) == text


def test_text_and_bytes_go_out_as_they_are() -> None:
    assert formatter("default", {"value.deserializer": "ByteArray"})(RECORD) == b"v\n"
    assert deserializer("String") is None


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("Integer", b"123", "Size of data received by IntegerDeserializer is not 4"),
        ("Boolean", b"12", "Size of data received by BooleanDeserializer is not 1"),
        ("Boolean", b"1", "Unexpected byte received by BooleanDeserializer"),
        ("UUID", b"1", "Error parsing data into UUID"),
        ("UUID", b"\xff", "Error parsing data into UUID"),
        ("Void", b"", "Data should be null for a VoidDeserializer."),
    ],
)
def test_data_of_another_kind_is_refused_in_javas_words(name: str, data: bytes, said: str) -> None:
    read = deserializer(name)
    assert read is not None
    with pytest.raises(KafkaError, match=said):
        read(data)


OFFSET_KEY = b"\0\1\0\1g\0\1t\0\0\0\2"
OFFSET_VALUE = b"\0\3" + (5).to_bytes(8, "big") + b"\xff\xff\xff\xff" + b"\0\1m" + (9).to_bytes(8, "big")
OFFSETS = "org.apache.kafka.tools.consumer.OffsetsMessageFormatter"


def internal(key: bytes | None, value: bytes | None) -> ConsumedRecord:
    return ConsumedRecord("__consumer_offsets", 0, 3, 0, 5, "CreateTime", key, value, ())


@pytest.mark.parametrize(
    ("record", "printed"),
    [
        (
            internal(OFFSET_KEY, OFFSET_VALUE),
            b'{"key":{"type":1,"data":{"group":"g","topic":"t","partition":2}},'
            b'"value":{"version":3,"data":{"offset":5,"leaderEpoch":-1,"metadata":"m","commitTimestamp":9}}}',
        ),
        (
            internal(OFFSET_KEY, None),
            b'{"key":{"type":1,"data":{"group":"g","topic":"t","partition":2}},"value":null}',
        ),
        (internal(b"\0\2\0\1g", None), b""),
        (internal(b"\x7f\0", b"later"), b""),
        (internal(None, b"v"), b""),
    ],
)
def test_coordinators_records_are_json_without_lines(record: ConsumedRecord, printed: bytes) -> None:
    assert formatter(OFFSETS, {})(record) == printed
    assert formatter("kafka.coordinator.group.GroupMetadataManager$OffsetsMessageFormatter", {})(record) == printed


def test_a_coordinators_record_that_does_not_read_is_named() -> None:
    with pytest.raises(KafkaError, match="Could not read record at offset 3 due to: "):
        formatter(OFFSETS, {})(internal(OFFSET_KEY[:-1], OFFSET_VALUE))


@pytest.mark.parametrize("call", [lambda: deserializer("foo.Bar"), lambda: formatter("foo.Bar", {})])
def test_what_is_not_built_in_is_named_with_what_is(call: object) -> None:
    assert callable(call)
    with pytest.raises(KafkaError, match="not built in"):
        call()


def test_json_holds_all_of_a_record() -> None:
    binary = ConsumedRecord("t", 2, 7, 3, 5, "CreateTime", b"\xff", None, (("h", b"1"),))
    assert json_formatter({})(binary) == (
        b'{"topic":"t","partition":2,"offset":7,"leaderEpoch":3,"timestamp":5,"timestampType":"CreateTime",'
        b'"headers":[["h","1"]],"key":{"base64":"/w=="},"value":null}\n'
    )
