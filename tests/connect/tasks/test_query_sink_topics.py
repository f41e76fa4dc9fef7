"""A query sink's topic is deleted and made again while the sink writes: the old offset is not the new topic's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ottla.base import ErrorCode, KafkaError, Offset, TopicPartition, Uuid
from ottla.spark.connect.query_sinks import of_these_topics

KEPT, AGAIN, GONE, GROWN = (TopicPartition(name, 0) for name in ("kept", "again", "gone", "grown"))
OFFSETS = dict.fromkeys((KEPT, AGAIN, GONE, GROWN), Offset(7))


def uuid(number: int) -> Uuid:
    return Uuid(bytes([number]) * 16)


def topic(number: int, error: int = 0) -> Any:
    return SimpleNamespace(error=error, topic_id=uuid(number))


def test_offsets_of_topics_that_were_made_again_or_are_gone_are_not_committed() -> None:
    ids = {"kept": uuid(1), "again": uuid(2), "gone": uuid(3)}
    found = {
        "kept": topic(1),
        "again": topic(9),
        "gone": topic(0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        "grown": topic(4),
    }
    client: Any = SimpleNamespace(metadata=lambda names: SimpleNamespace(topics=found))
    assert of_these_topics(client, ids, OFFSETS) == {KEPT: 7, GROWN: 7}
    found["grown"] = topic(8)
    assert of_these_topics(client, ids, OFFSETS) == {KEPT: 7}


def test_nothing_is_committed_where_nobody_can_say_which_topics_there_are() -> None:
    def refused(names: set[str]) -> Any:
        raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "nobody answers")

    client: Any = SimpleNamespace(metadata=refused)
    assert of_these_topics(client, {"kept": uuid(1)}, OFFSETS) == {}
