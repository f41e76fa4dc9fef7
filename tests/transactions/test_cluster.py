"""What a transaction's coordinator asks of other brokers, over the wire, and ends that wait for a second copy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ottla.base import ErrorCode, KafkaError, NodeId, Offset, ProducerEpoch, ProducerId, TopicPartition
from ottla.broker.controller.peers import Peers
from ottla.broker.coordinators.transaction_markers import Marker, markers_request, read_markers
from ottla.net import TcpNetwork
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from tests.broker.node_client import NodeClient, parts, run, running_node
from tests.transactions.talker import transactional_batch

OTHER = NodeId(9)
PLACE = TopicPartition("t", 0)
SETTINGS = ("transaction.state.log.num.partitions=1",)


async def begun(client: NodeClient) -> tuple[ProducerId, ProducerEpoch]:
    """Return a producer of the transactional id `a` that has written one record to `t`."""
    await client.create("t")
    finding = FindCoordinatorRequest(key_type=1, coordinator_keys=["a"])
    while (await client.ask(finding, 4)).coordinators[0].error_code:
        pass
    answer = await client.ask(InitProducerIdRequest(transactional_id="a", transaction_timeout_ms=60_000), 5)
    assert answer.error_code == 0
    batch = transactional_batch(answer.producer_id, answer.producer_epoch, 0, b"x")
    request = client.produce_request("t", batch).replace(transactional_id="a")
    produced = await client.ask(request, 12)
    assert produced.responses[0].partition_responses[0].error_code == 0
    return ProducerId(answer.producer_id), ProducerEpoch(answer.producer_epoch)


def partition(client: NodeClient, topic: str) -> Any:
    """Return a partition as the node holds it."""
    node: Any = client.node
    return parts(node).partitions.get(topic, 0)


def stable_end(client: NodeClient) -> int:
    """Return the last stable offset of `t`."""
    return int(partition(client, "t").last_stable_offset())


def test_markers_are_written_by_another_broker_when_it_is_asked(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path, *SETTINGS) as client:
            producer_id, epoch = await begun(client)
            node: Any = client.node
            peers = Peers(image=lambda: node.quorum.image, listener="PLAINTEXT", network=TcpNetwork())
            marker = Marker(producer_id, ProducerEpoch(epoch + 1), 0, commit=True, version=2)
            absent = TopicPartition("absent", 0)
            assert stable_end(client) == 0
            answer = await peers.ask(NodeId(1), markers_request(marker, [PLACE, absent]), lowest=1)
            assert read_markers(answer) == {PLACE: ErrorCode.NONE, absent: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
            assert stable_end(client) == 2
            again = await peers.ask(NodeId(1), markers_request(marker, [PLACE]), lowest=1)
            assert read_markers(again) == {PLACE: ErrorCode.NONE}  # as when the answer was lost
            await peers.close()

    run(test)


def test_a_marker_of_the_second_protocol_cannot_end_the_transaction_of_its_own_epoch(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path, *SETTINGS) as client:
            producer_id, epoch = await begun(client)
            for version, code in ((2, ErrorCode.INVALID_PRODUCER_EPOCH), (0, ErrorCode.NONE)):
                marker = Marker(producer_id, epoch, 0, commit=False, version=version)
                assert read_markers(await client.ask(markers_request(marker, [PLACE]), 2)) == {PLACE: code}

    run(test)


def test_an_end_without_its_second_copy_is_not_answered_and_writes_no_marker(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path, *SETTINGS) as client:
            producer_id, epoch = await begun(client)
            held = partition(client, "__transaction_state")
            replica = held.replica
            copies = (NodeId(client.node.config.node_id), OTHER)
            replica.become(
                leader=copies[0],
                leader_epoch=replica.leader_epoch,
                partition_epoch=replica.partition_epoch + 1,
                replicas=copies,
                isr=copies,
            )
            node: Any = client.node

            def copy_everything() -> None:
                end = Offset(held.log.log_end_offset)
                if replica.fetched_by(OTHER, fetch_offset=end, log_start_offset=Offset(0), now_s=0.0):
                    parts(node).purgatory.advanced(held.key, replica.high_watermark, 0)

            copy_everything()
            before = held.log.log_end_offset
            request = EndTxnRequest(transactional_id="a", producer_id=producer_id, producer_epoch=epoch, committed=True)
            client.send(request, 5)
            other = await NodeClient.connect(client.node)
            while held.log.log_end_offset == before:
                await other.topic_id("t")
                other.topic_ids.clear()
            assert stable_end(client) == 0
            copy_everything()
            ended = await client.receive(request, 5)
            assert (ended.error_code, ended.producer_epoch, stable_end(client)) == (0, epoch + 1, 2)
            copy_everything()
            other.close()

    run(test)


def test_an_end_whose_last_record_finds_no_disk_is_told_and_taken_up_by_the_next_start(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path, *SETTINGS) as client:
            producer_id, epoch = await begun(client)
            held = partition(client, "__transaction_state")
            real = held.append_from_coordinator
            appended = []

            def once(records: Any, *, now_ms: Any) -> Any:
                if appended:
                    raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
                appended.append(records)
                return real(records, now_ms=now_ms)

            node: Any = client.node
            parts(node).transactions._shards[0].partition = _Failing(held, once)
            request = EndTxnRequest(transactional_id="a", producer_id=producer_id, producer_epoch=epoch, committed=True)
            ended = await client.ask(request, 5)
            assert (ended.error_code, stable_end(client)) == (0, 2)
            again = await client.ask(request, 5)
            assert again.error_code == ErrorCode.CONCURRENT_TRANSACTIONS
        async with running_node(tmp_path, *SETTINGS) as client:
            code: int = ErrorCode.CONCURRENT_TRANSACTIONS
            while code in (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
                ended = await client.ask(request, 5)
                code = ended.error_code
            assert (code, ended.producer_epoch) == (0, epoch + 1)

    run(test)


class _Failing:
    """A partition whose disk takes what `append` takes."""

    def __init__(self, held: Any, append: Any) -> None:
        self._held = held
        self.append_from_coordinator = append

    def __getattr__(self, name: str) -> Any:
        return getattr(self._held, name)


def test_what_was_asked_before_another_led_admits_nothing_afterwards(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path, *SETTINGS) as client:
            await client.create("t")
            held = partition(client, "t")
            verification = held.verifications.begin(7, 0, 0, 0, is_second=False)
            held.check_transaction(7, 0, 0, verification)
            replica = held.replica
            copies = (NodeId(client.node.config.node_id), OTHER)
            for leader in (OTHER, copies[0]):
                began = replica.become(
                    leader=leader,
                    leader_epoch=replica.leader_epoch + 1,
                    partition_epoch=replica.partition_epoch + 1,
                    replicas=copies,
                    isr=copies,
                )
                if began:
                    held.begin_epoch()
            with pytest.raises(KafkaError) as refused:
                held.check_transaction(7, 0, 0, verification)
            assert (
                refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
            )  # the producer asks again, and is verified anew

    run(test)


def test_a_marker_that_comes_late_leaves_the_next_transaction_alone(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path, *SETTINGS) as client:
            producer_id, epoch = await begun(client)
            held = partition(client, "t")
            ended = ProducerEpoch(epoch + 1)
            verification = held.verifications.begin(producer_id, ended, 0, 0, is_second=True)
            marker = Marker(producer_id, ended, 0, commit=True, version=2)
            assert read_markers(await client.ask(markers_request(marker, [PLACE]), 2)) == {PLACE: ErrorCode.NONE}
            held.check_transaction(producer_id, ended, 0, verification)
            marker = Marker(producer_id, ProducerEpoch(ended + 1), 0, commit=True, version=2)
            assert read_markers(await client.ask(markers_request(marker, [PLACE]), 2)) == {PLACE: ErrorCode.NONE}
            with pytest.raises(KafkaError):
                held.check_transaction(producer_id, ended, 0, verification)

    run(test)
