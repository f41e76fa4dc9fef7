"""Source offsets: keys that are found again, what may be stored, and Kafka's own file store on our file."""

from __future__ import annotations

import base64
import re
from pathlib import Path

import pytest

from ottla.base import TopicPartition
from ottla.connect.errors import BadRequestError, DataError
from ottla.connect.storage import (
    OffsetState,
    apply_offset,
    encode_offset,
    parse_sink_offsets,
    read_java_map,
    sink_offsets,
    write_java_map,
)
from tests.peer.connect import oracle


def stored(*pairs: tuple[bytes | None, bytes | None]) -> OffsetState:
    state = OffsetState()
    for key, value in pairs:
        state, ignored = apply_offset(state, key, value)
        assert ignored is None
    return state


def test_an_offset_is_kept_under_kafkas_key_and_value() -> None:
    key, value = encode_offset(OffsetState(), "file", {"filename": "/tmp/é"}, {"position": 5})
    assert key == '["file",{"filename":"/tmp/é"}]'.encode()
    assert value == b'{"position":5}'
    assert stored((key, value)).offset("file", {"filename": "/tmp/é"}) == {"position": 5}


def test_a_partition_keeps_the_key_that_it_was_first_written_under() -> None:
    state = stored((b'["c",{"b":1,"a":"x"}]', b'{"n":1}'))
    assert state.offset("c", {"a": "x", "b": 1}) == {"n": 1}
    key, value = encode_offset(state, "c", {"a": "x", "b": 1}, {"n": 2})
    assert (key, value) == (b'["c",{"b":1,"a":"x"}]', b'{"n":2}')


def test_a_tombstone_forgets_an_offset() -> None:
    state = stored((b'["c",{"p":1}]', b'{"n":1}'), (b'["d",{"p":1}]', b'{"n":7}'), (b'["c",{"p":1}]', None))
    assert state.offset("c", {"p": 1}) is None
    assert [each.offset for each in state.of_connector("d")] == [{"n": 7}]


@pytest.mark.parametrize("key", [None, b"", b"x", b"5", b'["c"]', b'["c",1]', b"[1,{}]", b'["c",{},1]'])
def test_a_key_of_another_form_is_ignored_with_a_reason(key: bytes | None) -> None:
    state, ignored = apply_offset(OffsetState(), key, b"{}")
    assert ignored and not state.stored


def test_only_flat_maps_of_plain_values_can_be_offsets() -> None:
    with pytest.raises(
        DataError, match="Offsets may only contain primitive types as values, but field a contains ARRAY"
    ):
        encode_offset(OffsetState(), "c", {"p": 1}, {"a": [1]})
    with pytest.raises(DataError, match="Offsets may only use String keys"):
        encode_offset(OffsetState(), "c", {1: 1}, {})  # type: ignore[dict-item]


@pytest.mark.parametrize("cut", [0, 3, 20, 80, 120])
def test_a_file_that_is_no_serialised_map_is_refused(cut: int) -> None:
    whole = write_java_map({b"key": b"value"})
    assert read_java_map(whole) == {b"key": b"value"}
    with pytest.raises(DataError, match="offsets file"):
        read_java_map(whole[:cut] + b"\x00" * 3)


def test_a_sinks_offsets_are_shown_and_taken_under_connects_names() -> None:
    committed = {TopicPartition("t", 1): 5, TopicPartition("a", 0): 7}
    shown = sink_offsets(committed)
    assert shown[0] == {"partition": {"kafka_topic": "a", "kafka_partition": 0}, "offset": {"kafka_offset": 7}}
    assert parse_sink_offsets([(each["partition"], each["offset"]) for each in shown]) == committed
    assert parse_sink_offsets([({"kafka_topic": "t", "kafka_partition": "3"}, None)]) == {TopicPartition("t", 3): None}


@pytest.mark.parametrize(
    ("partition", "offset", "message"),
    [
        (None, None, "The partition for a sink connector offset cannot be null or missing"),
        ({"kafka_topic": "t"}, None, "must contain the keys 'kafka_topic' and 'kafka_partition'"),
        ({"kafka_topic": None, "kafka_partition": 0}, None, "Kafka topic names must be valid strings"),
        ({"kafka_topic": "t", "kafka_partition": "x"}, None, "Failed to parse the following Kafka partition value"),
        ({"kafka_topic": "t", "kafka_partition": 0}, {}, "should either be null or contain the key 'kafka_offset'"),
        ({"kafka_topic": "t", "kafka_partition": 0}, {"kafka_offset": 1.5}, "'1.5'. Offset values for sink connectors"),
    ],
)
def test_sink_offsets_that_mean_nothing_are_refused_in_kafkas_words(
    partition: dict[str, object] | None, offset: dict[str, object] | None, message: str
) -> None:
    with pytest.raises(BadRequestError, match=re.escape(message)):
        parse_sink_offsets([(partition, offset)])


@pytest.mark.peer
def test_kafkas_file_store_reads_the_offsets_that_ottla_writes(tmp_path: Path) -> None:
    pairs = [
        encode_offset(OffsetState(), "file", {"filename": str(number)}, {"position": number}) for number in range(30)
    ]
    (tmp_path / "offsets").write_bytes(write_java_map(dict(pairs)))
    with oracle() as ask:
        keys = [base64.b64encode(key).decode() for key, _ in pairs]
        found = ask({"op": "offsets_read", "file": str(tmp_path / "offsets"), "keys": keys})
    assert [base64.b64decode(each) for each in found] == [value for _, value in pairs]
