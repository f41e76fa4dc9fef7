"""A sink's offsets as the REST interface shows and takes them (KIP-875): a consumer group's, under Connect's names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ottla.base import TopicPartition
from ottla.connect.data.java_text import java_text
from ottla.connect.errors import BadRequestError

__all__ = ["parse_sink_offsets", "sink_group", "sink_offsets"]

_TOPIC, _PARTITION, _OFFSET = "kafka_topic", "kafka_partition", "kafka_offset"


def sink_group(connector: str) -> str:
    """Return the consumer group of a sink connector."""
    return f"connect-{connector}"


def sink_offsets(committed: Mapping[TopicPartition, int]) -> list[dict[str, Any]]:
    """Return a group's offsets in the shape of `GET /connectors/{name}/offsets`, by topic and partition."""
    pairs = sorted(committed.items(), key=lambda pair: (pair[0].topic, pair[0].partition))
    return [
        {"partition": {_TOPIC: each.topic, _PARTITION: each.partition}, "offset": {_OFFSET: offset}}
        for each, offset in pairs
    ]


def parse_sink_offsets(
    pairs: Iterable[tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]],
) -> dict[TopicPartition, int | None]:
    """Return what (partition, offset) pairs mean, None to forget an offset; raises BadRequestError in Kafka's words."""
    return {_partition(partition): _offset(offset) for partition, offset in pairs}


def _partition(found: Mapping[str, Any] | None) -> TopicPartition:
    if found is None:
        raise BadRequestError("The partition for a sink connector offset cannot be null or missing")
    if _TOPIC not in found or _PARTITION not in found:
        raise BadRequestError(
            f"The partition for a sink connector offset must contain the keys '{_TOPIC}' and '{_PARTITION}'"
        )
    if found[_TOPIC] is None:
        raise BadRequestError("Kafka topic names must be valid strings and may not be null")
    if found[_PARTITION] is None:
        raise BadRequestError("Kafka partitions must be valid numbers and may not be null")
    return TopicPartition(java_text(found[_TOPIC]), _number(found[_PARTITION], "partition", bits=32))


def _offset(found: Mapping[str, Any] | None) -> int | None:
    if found is None:
        return None
    if _OFFSET not in found:
        raise BadRequestError(f"The offset for a sink connector should either be null or contain the key '{_OFFSET}'")
    return _number(found[_OFFSET], "offset", bits=64)


def _number(value: Any, word: str, *, bits: int) -> int:
    text = java_text(value)
    number = int(text) if len(text) < 40 and re.fullmatch(r"[+-]?\d+", text, re.ASCII) else None
    if number is None or not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
        raise BadRequestError(
            f"Failed to parse the following Kafka {word} value in the provided offsets: '{text}'. {word.capitalize()} "
            "values for sink connectors need to be integers."
        )
    return number
