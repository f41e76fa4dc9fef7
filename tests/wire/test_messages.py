"""Every message in every version: what is written is read back, is what an independent codec writes, and cannot hurt."""

from __future__ import annotations

import contextlib
import random
import tracemalloc
from importlib import import_module
from io import BytesIO
from typing import Any

import pytest
from kio.serial import entity_reader, entity_writer

from ottla.base import KafkaError, WireError
from ottla.wire import APIS, Message, decode, encode
from ottla.wire.messages.fetch import FetchRequest, FetchTopic, ForgottenTopic
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.wire.random_messages import every_message, random_message

MESSAGES = every_message()
RPCS = [cls for spec in APIS.values() for cls in (spec.request, spec.response)]


@pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)
def test_what_is_written_is_read_back(cls: type[Message]) -> None:
    rng = random.Random(cls.__name__)
    for version in range(cls.VERSIONS[0], cls.VERSIONS[1] + 1):
        for _ in range(3):
            message = random_message(cls, version, rng)
            data = encode(message, version)
            again, end = decode(cls, data, version)
            assert end == len(data)
            assert again == message


def test_a_message_is_read_in_the_middle_of_a_frame() -> None:
    message = MetadataRequest(topics=[MetadataRequestTopic(name="a")])
    data = encode(message, 9)
    found, end = decode(MetadataRequest, b"xyz" + data + b"more", 9, 3)
    assert found == message and end == 3 + len(data)


def test_a_field_that_a_version_lacks_must_be_unset_unless_it_is_ignorable() -> None:
    with pytest.raises(KafkaError, match="has no field"):
        encode(FetchRequest(forgotten_topics_data=[ForgottenTopic(topic="t")]), 4)
    assert encode(FetchRequest(rack_id="ignored"), 4) == encode(FetchRequest(), 4)


def test_records_are_views_into_the_frame() -> None:
    from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

    request = ProduceRequest(
        topic_data=[TopicProduceData(name="t", partition_data=[PartitionProduceData(records=b"batch")])]
    )
    frame = bytearray(encode(request, 9))
    found, _ = decode(ProduceRequest, frame, 9)
    records = found.topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview) and records.obj is frame


def test_unknown_tagged_fields_are_skipped() -> None:
    data = encode(MetadataRequest(), 12)
    assert data[-1] == 0
    found, end = decode(MetadataRequest, data[:-1] + b"\x01\x63\x03abc", 12)
    assert found == MetadataRequest() and end == len(data) + 5


def test_a_count_larger_than_the_bytes_that_remain_is_refused() -> None:
    huge = (2**31 - 1).to_bytes(4, "big")
    tracemalloc.start()
    with pytest.raises(WireError, match="more elements than bytes remain"):
        decode(MetadataRequest, huge + b"\x00\x01a", 1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20


def test_replace_changes_a_copy() -> None:
    topic = FetchTopic(topic="a")
    other = topic.replace(topic="b")
    assert (topic.topic, other.topic) == ("a", "b") and topic != other
    assert "topic='b'" in repr(other)


# ---- an independent codec says the same --------------------------------------------------------------------------


def kio_class(cls: type[Message], version: int) -> Any:
    """Return kio's class for the same message and version, or None where kio does not have it."""
    side = "request" if cls.__name__.endswith("Request") else "response"
    spec = APIS.get(-1 if cls.API_KEY is None else cls.API_KEY)
    assert spec is not None
    try:
        module = import_module(f"kio.schema.{spec.module}.v{version}.{side}")
    except ImportError:
        return None
    return getattr(module, cls.__name__, None)


@pytest.mark.parametrize("cls", RPCS, ids=lambda cls: cls.__name__)
def test_an_independent_codec_reads_and_writes_the_same_bytes(cls: type[Message]) -> None:
    rng = random.Random(cls.__name__)
    compared = 0
    for version in range(cls.VERSIONS[0], cls.VERSIONS[1] + 1):
        theirs = kio_class(cls, version)
        if theirs is None:
            continue
        for _ in range(3):
            data = encode(random_message(cls, version, rng, tame=True), version)
            entity, size = entity_reader(theirs)(data, 0)
            assert size == len(data)
            again = BytesIO()
            entity_writer(theirs)(again, entity)
            assert again.getvalue() == data, f"{cls.__name__} version {version}"
            compared += 1
    if not compared:
        pytest.skip(f"kio does not have {cls.__name__}")


# ---- hostile bytes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", RPCS, ids=lambda cls: cls.__name__)
def test_torn_and_changed_messages_are_read_or_refused(cls: type[Message]) -> None:
    rng = random.Random(cls.__name__)
    for version in range(cls.VERSIONS[0], cls.VERSIONS[1] + 1):
        data = encode(random_message(cls, version, rng), version)
        for _ in range(15):
            changed = bytearray(data[: rng.randrange(len(data) + 1)] if rng.random() < 0.3 else data)
            for _ in range(rng.randrange(4)):
                if changed:
                    changed[rng.randrange(len(changed))] = rng.choice([0, 1, 127, 128, 255, rng.randrange(256)])
            with contextlib.suppress(WireError):
                decode(cls, changed, version)
