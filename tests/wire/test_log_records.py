"""Records of internal logs: KRaft's frame, and the coordinators' keys and values."""

from __future__ import annotations

import random
from importlib import import_module

import pytest

from ottla.base import WireError
from ottla.wire import (
    COORDINATOR_TOPICS,
    Message,
    decode_coordinator_key,
    decode_coordinator_value,
    decode_metadata_record,
    encode_coordinator_key,
    encode_coordinator_value,
    encode_metadata_record,
)
from ottla.wire.messages.feature_level_record import FeatureLevelRecord
from ottla.wire.messages.group_metadata_key import GroupMetadataKey
from ottla.wire.messages.legacy_offset_commit_key import LegacyOffsetCommitKey
from ottla.wire.messages.offset_commit_key import OffsetCommitKey
from ottla.wire.messages.offset_commit_value import OffsetCommitValue
from ottla.wire.messages.topic_record import TopicRecord
from ottla.wire.record_table import METADATA_RECORDS
from tests.wire.random_messages import random_message


def load(entry: tuple[str, str]) -> type[Message]:
    """Return the class that a table names."""
    found: type[Message] = getattr(import_module(f"ottla.wire.messages.{entry[0]}"), entry[1])
    return found


@pytest.mark.parametrize("key", sorted(METADATA_RECORDS))
def test_every_metadata_record_is_read_back(key: int) -> None:
    cls = load(METADATA_RECORDS[key])
    rng = random.Random(key)
    for version in range(cls.VERSIONS[0], cls.VERSIONS[1] + 1):
        record = random_message(cls, version, rng)
        value = encode_metadata_record(record, version)
        assert value[:3] == bytes((1, key, version))
        assert decode_metadata_record(value) == (record, version)


def test_a_metadata_record_has_kafkas_bytes() -> None:
    """As Kafka 4.3 writes it when it formats a cluster (23 bytes)."""
    record = FeatureLevelRecord(name="metadata.version", feature_level=30)
    assert encode_metadata_record(record, 0) == b"\x01\x0c\x00\x11metadata.version\x00\x1e\x00"


@pytest.mark.parametrize(
    "value",
    [b"", b"\x01", b"\x01\x02", b"\x00\x02\x00", b"\x02\x02\x00", b"\x01\x63\x00", b"\x01\x02\x09", b"\xff" * 9],
    ids=["empty", "no key", "no version", "frame 0", "frame 2", "unknown record", "unknown version", "endless varint"],
)
def test_what_is_no_metadata_record_is_refused(value: bytes) -> None:
    with pytest.raises(WireError):
        decode_metadata_record(value)


def test_bytes_behind_a_metadata_record_are_refused() -> None:
    value = encode_metadata_record(TopicRecord(name="t", topic_id=bytes(range(16))), 0)
    with pytest.raises(WireError, match="followed by 1 bytes"):
        decode_metadata_record(value + b"\x00")
    for cut in range(len(value)):
        with pytest.raises(WireError):
            decode_metadata_record(value[:cut])


@pytest.mark.parametrize("topic", sorted(COORDINATOR_TOPICS))
def test_every_coordinator_record_is_read_back(topic: str) -> None:
    keys, values = COORDINATOR_TOPICS[topic]
    rng = random.Random(topic)
    assert keys.keys() == values.keys()
    for kind in keys:
        key = random_message(load(keys[kind]), 0, rng)
        data = encode_coordinator_key(key)
        assert data[:2] == kind.to_bytes(2, "big")
        assert decode_coordinator_key(topic, data) == key
        if kind == 0 and topic == "__consumer_offsets":
            continue  # below
        cls = load(values[kind])
        for version in range(cls.VERSIONS[0], cls.VERSIONS[1] + 1):
            value = random_message(cls, version, rng)
            data = encode_coordinator_value(value, version)
            assert data[:2] == version.to_bytes(2, "big")
            assert decode_coordinator_value(topic, key, data) == (value, version)


def test_a_legacy_offset_key_has_the_values_of_its_successor() -> None:
    value = OffsetCommitValue(offset=5, metadata="m", commit_timestamp=9)
    data = encode_coordinator_value(value, 3)
    for key in (LegacyOffsetCommitKey(group="g", topic="t"), OffsetCommitKey(group="g", topic="t")):
        assert decode_coordinator_value("__consumer_offsets", key, data) == (value, 3)


def test_a_group_key_has_kafkas_bytes() -> None:
    assert encode_coordinator_key(GroupMetadataKey(group="g")) == b"\x00\x02\x00\x01g"


def test_a_coordinator_record_of_a_later_kafka_is_passed_over() -> None:
    assert decode_coordinator_key("__consumer_offsets", b"\x00\x63whatever") is None


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x00\x02", b"\x00\x02\x00\x05g"])
def test_a_torn_coordinator_key_is_refused(data: bytes) -> None:
    with pytest.raises(WireError):
        decode_coordinator_key("__consumer_offsets", data)


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x00\x63", b"\x00\x03\x00"])
def test_a_torn_coordinator_value_is_refused(data: bytes) -> None:
    with pytest.raises(WireError):
        decode_coordinator_value("__consumer_offsets", OffsetCommitKey(), data)
