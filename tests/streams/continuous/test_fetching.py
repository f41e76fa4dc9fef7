"""One Fetch serves all works that read a partition: what one of them cannot read costs the others nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from ottla.base import ZERO_UUID, ErrorCode, KafkaError, NodeId, Offset, TopicPartition, Uuid
from ottla.client import Fetched, FetchPosition, Isolation
from ottla.spark.continuous.arrivals import Queue
from ottla.spark.continuous.fetching import Fetching
from ottla.wire import Record, build_batch
from tests.waiting import until_async

WORDS = TopicPartition("words", 0)
OLD, NEW = Uuid(bytes([1] * 16)), Uuid(bytes([2] * 16))
END = 20


@dataclass
class Model:
    """A cluster of one partition with a record in each batch; also what is known of it, as its client's `cluster`."""

    start: int = 0
    topic_id: Uuid = ZERO_UUID
    damaged: int = -1
    """The offset of a batch that cannot be read."""
    asked: list[int] = field(default_factory=list)

    @property
    def cluster(self) -> Model:
        return self

    def leader_of(self, partition: TopicPartition) -> NodeId:
        return NodeId(1)

    async def fetch(self, positions: Sequence[FetchPosition], **_: Any) -> list[Fetched]:
        await asyncio.sleep(0.001)
        return [self._answer(int(each.offset)) for each in positions]

    def _answer(self, offset: int) -> Fetched:
        self.asked.append(offset)
        is_there = self.start <= offset <= END
        data = bytearray()
        for at in range(offset, END) if is_there else ():
            each = bytearray(build_batch([Record(at, 0, None, b"%d" % at, ())], base_offset=at))  # type: ignore[arg-type]
            if at == self.damaged:
                each[-1] ^= 1
            data += each
        error = ErrorCode.NONE if is_there else ErrorCode.OFFSET_OUT_OF_RANGE
        ends = Offset(END), Offset(END), Offset(self.start)
        return Fetched(WORDS, Offset(offset), error, *ends, (), memoryview(data), self.topic_id)


def failed_beside(model: Model, behind: Queue, ahead: Queue) -> list[tuple[Queue, ErrorCode]]:
    """Return what failed until the queue that is ahead had come to the end."""
    failed: list[tuple[Queue, ErrorCode]] = []

    def note(queue: Queue, error: KafkaError) -> None:
        failed.append((queue, error.code))

    async def main() -> None:
        fetching = Fetching(
            model,  # type: ignore[arg-type]
            isolation=Isolation.READ_UNCOMMITTED,
            fetch_bytes=1 << 20,
            arrived=lambda: None,
            failed=note,
        )
        fetching.add([behind, ahead])
        fetching.start()
        try:
            await until_async(lambda: ahead.fetched == END or len(failed) == 2)
        finally:
            await fetching.close()

    asyncio.run(main())
    return failed


@pytest.mark.timeout(60)
def test_a_work_whose_offset_is_not_there_any_more_takes_no_neighbour_with_it() -> None:
    behind, ahead = Queue(WORDS, "s", 2), Queue(WORDS, "s", 15)
    assert failed_beside(Model(start=10), behind, ahead) == [(behind, ErrorCode.OFFSET_OUT_OF_RANGE)]
    assert ahead.records_total == END - 15


@pytest.mark.timeout(60)
def test_a_work_whose_offset_is_of_the_topic_before_takes_no_neighbour_of_the_new_one_with_it() -> None:
    behind, ahead = Queue(WORDS, "s", 2, OLD.hex()), Queue(WORDS, "s", 15, NEW.hex())
    found = failed_beside(Model(topic_id=NEW), behind, ahead)
    assert found == [(behind, ErrorCode.INCONSISTENT_TOPIC_ID)]
    assert ahead.records_total == END - 15


@pytest.mark.timeout(60)
def test_a_damaged_batch_takes_no_work_with_it_that_is_past_it() -> None:
    behind, ahead = Queue(WORDS, "s", 2), Queue(WORDS, "s", 15)
    [(queue, _)] = failed_beside(Model(damaged=2), behind, ahead)
    assert queue is behind
    assert ahead.records_total == END - 15
