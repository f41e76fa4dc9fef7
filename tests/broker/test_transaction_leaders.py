"""Leaders that change while a transaction's coordinator is asked: what the producer hears is what it may send again."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.base import ErrorCode
from ottla.metadata import Image
from ottla.metadata.decide import Decision
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.partition_change_record import PartitionChangeRecord
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.broker.follower import create_followed, lead, leader_and_follower
from tests.broker.node_client import NodeClient, batch, parts, run
from tests.waiting import until_async

STATE = "__transaction_state"
UNREADY = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)


async def taken(client: NodeClient, transactional_id: str) -> tuple[int, int]:
    """Take a transactional id over, as soon as its coordinator is ready."""
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)
    while (answer := await client.ask(request, 4)).error_code:
        assert ErrorCode(answer.error_code) in UNREADY
    return answer.producer_id, answer.producer_epoch


async def leave_alone(client: NodeClient, topic: str) -> None:
    """Take the follower out of the ISR of partition 0: what waits for its copy is committed."""

    def decision(image: Image) -> Decision[None]:
        found = image.topic(topic)
        assert found is not None
        return Decision((PartitionChangeRecord(partition_id=0, topic_id=found.id, isr=[1]),), None)

    await client.node.quorum.submit(decision)


@pytest.mark.parametrize("leaders", [(2, 1), (1, 2, 1)], ids=["comes", "goes and comes back"])
def test_a_partition_whose_leader_changes_while_the_coordinator_is_asked_may_be_asked_for_again(
    tmp_path: Path, leaders: tuple[int, ...]
) -> None:
    """Nothing is wrong with the transaction: other codes would end it, or its producer."""

    async def test() -> None:
        async with leader_and_follower(tmp_path) as (client, follower):
            await create_followed(client.node, STATE, (1, 2))
            producer_id, epoch = await taken(client, "mine")
            await create_followed(client.node, "led", (1,))
            await create_followed(client.node, "late", (1, 2))
            if leaders[0] != 1:
                await lead(client.node, "late", leaders[0])
            await follower.replication.close()  # what the coordinator decides now is not committed
            written = batch(b"x", producer_id=producer_id, producer_epoch=epoch, base_sequence=0, transactional=True)
            topics = [
                TopicProduceData(
                    topic_id=await client.topic_id(name),
                    partition_data=[PartitionProduceData(index=0, records=written)],
                )
                for name in ("led", "late")
            ]
            request = ProduceRequest(transactional_id="mine", acks=-1, timeout_ms=20_000, topic_data=topics)
            state = parts(client.node).partitions.get(STATE, 0)
            assert state is not None
            before = state.log.log_end_offset
            client.send(request, 13)
            await until_async(lambda: state.log.log_end_offset > before)
            for each in leaders[1:]:
                await lead(client.node, "late", each)
            await leave_alone(client, STATE)
            answer = await client.receive(request, 13)
            codes = [ErrorCode(each.error_code) for topic in answer.responses for each in topic.partition_responses]
            assert codes == [ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER]

    run(test)
