"""Dead letters of query sinks: once for each record whatever columns there are, and in batches that their topic takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
import pytest

from ottla.base import ErrorCode, KafkaError
from ottla.client import BlockingClient
from ottla.connect import Reading, error_policy
from ottla.spark.connect import query_rows
from ottla.spark.connect.query_dead_letters import DeadLetters, RawRecord
from ottla.spark.connect.query_sinks import _Frames
from tests.spark.conftest import narrow_topic
from tests.spark.running import JSON, records_of, spec_of

CONTEXT = error_policy.ErrorContext("sink", 0, error_policy.Processing.VALUE_CONVERTER, "Some", ValueError("no"))


def a_letter(number: int, size: int = 300) -> RawRecord:
    return RawRecord("topic", 0, number, 1_700_000_000_000, False, None, b"%d " % number + b"x" * size, ())


def letters_to(broker: str, topic: str) -> DeadLetters:
    return DeadLetters({"errors.deadletterqueue.topic.name": topic}, "sink", broker, {})


def test_letters_that_their_topic_takes_not_at_once_are_split_and_keep_their_order(
    broker: str, client: BlockingClient
) -> None:
    topic = "small-letters"
    narrow_topic(client, topic, 1000)
    letters = letters_to(broker, topic)
    for number in range(20):
        letters.report(a_letter(number), CONTEXT)
    letters.finish()
    assert [int((each.value or b"").split()[0]) for each in records_of(broker, topic)] == list(range(20))


def test_a_letter_that_alone_is_too_large_is_an_error_and_not_lost_in_silence(
    broker: str, client: BlockingClient
) -> None:
    narrow_topic(client, "tiny-letters", 500)
    letters = letters_to(broker, "tiny-letters")
    letters.report(a_letter(0, 2000), CONTEXT)
    with pytest.raises(KafkaError) as caught:
        letters.finish()
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE


class _Rows:
    """What a micro-batch's data frame is to `_Frames`, in this process."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch
        self.found: list[Any] = []

    def coalesce(self, _count: int) -> _Rows:
        return self

    def persist(self) -> _Rows:
        return self

    def unpersist(self) -> None: ...

    def distinct(self) -> _Rows:
        return self

    def collect(self) -> list[Any]:
        return self.found

    def mapInArrow(self, work: Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]], _schema: Any) -> _Rows:
        made = _Rows(self._batch)
        for batch in work([self._batch]):
            made.found += [type("Row", (), each) for each in batch.to_pylist()]
        return made


def test_a_record_that_fails_is_one_letter_however_many_kinds_of_columns_a_batch_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reported: list[int] = []

    class Collected:
        def __init__(self, *_: object) -> None: ...

        def report(self, raw: RawRecord, _context: object) -> None:
            reported.append(raw.offset)

        def finish(self) -> None: ...

    monkeypatch.setattr(query_rows, "DeadLetters", Collected)
    values = [b'{"a": 1}', b"not json", b'{"b": "x"}', b"[1]", b"nor this"]
    topics = ["one", "one", "two", "three", "two"]
    batch = pa.RecordBatch.from_pydict(
        {
            "topic": topics,
            "partition": pa.array([0] * 5, pa.int32()),
            "offset": pa.array(range(5), pa.int64()),
            "timestamp": pa.array([1_700_000_000_000_000] * 5, pa.timestamp("us", tz="UTC")),
            "timestampType": pa.array([0] * 5, pa.int32()),
            "value": pa.array(values, pa.binary()),
        }
    )
    config = {
        "name": "kinds",
        "topics": "one,two,three",
        "value.converter": JSON,
        "value.converter.schemas.enable": "false",
        "errors.tolerance": "all",
    }
    frames = _Frames(spec_of("nowhere:1", config), config, Reading(), (), {})
    with frames.of(_Rows(batch)) as opened:  # type: ignore[arg-type]
        assert len(opened) == 3, "one frame for each kind of columns"
        rows: list[Any] = [row for frame in opened for row in frame.rows.found]  # type: ignore[attr-defined]
    assert sorted(each.kafka_offset for each in rows) == [0, 2, 3]
    assert reported == [1, 4]
