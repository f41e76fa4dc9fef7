"""A full disk under an idempotent producer with several requests on their way: nothing overtakes what found no room."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ottla.base import ErrorCode, KafkaError
from ottla.broker.replicas import refused_batches
from ottla.broker.replicas.refused_batches import RefusedBatches
from ottla.wire import BatchHeader, read_batch_header
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.broker.hooked_disk import HookedDisk, full
from tests.broker.node_client import NodeClient, batch, run, running_node
from tests.broker.test_fetch import values

NO_ROOM = ErrorCode.KAFKA_STORAGE_ERROR


def header(sequence: int, *, producer_id: int = 7, epoch: int = 0, count: int = 1) -> BatchHeader:
    """Return the header of a batch of this producer."""
    made = batch(*[b"x"] * count, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
    return read_batch_header(made)


class Producer:
    """Sends batches of one record to `partitions` of a topic, several requests at once."""

    def __init__(self, client: NodeClient, partitions: tuple[int, ...], *, producer_id: int) -> None:
        self.client, self.partitions, self.producer_id = client, partitions, producer_id

    async def codes(self, *sequences: int) -> list[list[ErrorCode]]:
        """Send a request for each sequence, all of them before the first answer; return each one's codes."""
        requests = [self._request(each, await self.client.topic_id("t")) for each in sequences]
        for each in requests:
            self.client.send(each, 13)
        answers: list[Any] = [await self.client.receive(each, 13) for each in requests]
        return [[ErrorCode(each.error_code) for each in answer.responses[0].partition_responses] for answer in answers]

    def _request(self, sequence: int, topic_id: bytes) -> ProduceRequest:
        data = [
            PartitionProduceData(
                index=each,
                records=batch(b"%d" % sequence, producer_id=self.producer_id, producer_epoch=0, base_sequence=sequence),
            )
            for each in self.partitions
        ]
        topics = [TopicProduceData(name="t", topic_id=topic_id, partition_data=data)]
        return ProduceRequest(transactional_id=None, acks=-1, timeout_ms=10_000, topic_data=topics)


@pytest.mark.parametrize("is_known", [True, False], ids=["a known producer", "a new one"])
@pytest.mark.parametrize("partitions", [(0,), (0, 1)], ids=["one partition", "several"])
@pytest.mark.parametrize("failures", [1, 2])
def test_what_was_sent_behind_a_batch_without_room_is_refused_alike_and_comes_in_order(
    tmp_path: Path, partitions: tuple[int, ...], failures: int, is_known: bool
) -> None:
    """OUT_OF_ORDER_SEQUENCE_NUMBER has librdkafka send in a new epoch what other partitions may have already."""
    disk = HookedDisk()
    left = 0

    def hook(call: str, path: str) -> None:
        nonlocal left
        if left and call in ("append", "write", "writev", "pwrite") and "/t-0/" in path and path.endswith(".log"):
            left -= 1
            raise full(path)

    async def test() -> None:
        nonlocal left
        async with running_node(tmp_path, disk=disk) as client:
            await client.create("t", 2)
            producer = Producer(client, partitions, producer_id=7)
            disk.hook = hook
            first = 0
            if is_known:
                assert await producer.codes(0) == [[ErrorCode.NONE] * len(partitions)]
                first = 1
            left = failures
            refused = await producer.codes(first, first + 1, first + 2)
            assert left < failures
            left = 0
            codes = [each[0] for each in refused]
            assert set(codes) <= {ErrorCode.NONE, NO_ROOM} and codes == sorted(codes, key=lambda each: each is NO_ROOM)
            again = [first + at for at, each in enumerate(codes) if each is NO_ROOM]
            assert all(each[0] is ErrorCode.NONE for each in await producer.codes(*again))
            stored = values((await client.fetch("t", 0)).records)
            assert stored == [b"%d" % each for each in range(first + 3)]

    run(test)


NOW = 1_000_000


def is_refused(refused: RefusedBatches, sent: BatchHeader, now_ms: int = NOW) -> bool:
    """Return whether a batch is refused for one before it."""
    try:
        refused.check(sent, now_ms, "t-0")
    except KafkaError as error:
        assert error.code is NO_ROOM and error.retriable
        return True
    return False


def test_only_what_its_producer_sent_behind_a_refused_batch_is_refused() -> None:
    refused = RefusedBatches()
    refused.note(header(5), NOW)
    assert is_refused(refused, header(6)) and is_refused(refused, header(9))
    assert not is_refused(refused, header(5)) and not is_refused(refused, header(3))
    assert not is_refused(refused, header(6, producer_id=8))
    refused.note(header(7), NOW)
    assert is_refused(refused, header(6))
    refused.appended(header(5))
    assert not is_refused(refused, header(6)) and not refused


def test_sequences_begin_at_0_again_behind_the_last_one() -> None:
    refused = RefusedBatches()
    refused.note(header(2**31 - 1), NOW)
    assert is_refused(refused, header(0)) and is_refused(refused, header(100))
    assert not is_refused(refused, header(2**31 - 2))


@pytest.mark.parametrize(("epoch", "now_ms"), [(1, NOW), (0, NOW + refused_batches.LASTS_MS + 1), (0, NOW - 1)])
def test_a_producer_that_has_given_its_batch_up_is_not_held(epoch: int, now_ms: int) -> None:
    refused = RefusedBatches()
    refused.note(header(5), NOW)
    assert not is_refused(refused, header(6, epoch=epoch), now_ms) and not refused


def test_batches_without_a_producer_are_not_noted_and_producers_are_bounded() -> None:
    refused = RefusedBatches()
    refused.note(header(-1, producer_id=-1, epoch=-1), NOW)
    assert not refused
    sent = header(5)
    for each in range(refused_batches.PRODUCERS_MAX + 5):
        refused.note(sent._replace(producer_id=each), NOW)  # type: ignore[arg-type]
    assert len(refused) == refused_batches.PRODUCERS_MAX


def test_a_producer_that_has_gone_costs_others_nothing_for_long() -> None:
    """Batches of several requests are appended by one write only where nobody has one to send again."""
    refused = RefusedBatches()
    refused.note(header(5), 1_000)
    refused.note(header(5, producer_id=8), 2_000)
    assert refused.any_left(1_000 + refused_batches.LASTS_MS)
    assert refused.any_left(1_001 + refused_batches.LASTS_MS) and len(refused) == 1
    assert not refused.any_left(2_001 + refused_batches.LASTS_MS) and len(refused) == 0
