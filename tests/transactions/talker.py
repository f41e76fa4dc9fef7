"""A transactional producer by hand: one connection, each request in a version of the test's choice.

The same calls go to a broker of Ottla and to one of Apache Kafka, so that tests can compare what they answer.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable
from typing import Any

from ottla.wire import APIS, Message, Record, build_batch, encode_request, read_response
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.describe_transactions import DescribeTransactionsRequest
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.waiting import until

__all__ = ["Talker", "transactional_batch"]

READ_COMMITTED = 1
NOT_READY = (14, 15, 16)
"""The coordinator is loading, is not available, is another one."""


def transactional_batch(
    producer_id: int, epoch: int, sequence: int, *values: bytes, transactional: bool = True
) -> bytes:
    """Return a batch of a transactional producer, of this time: markers are, and a week between begins a new segment."""
    now_ms = int(time.time() * 1000)
    records = [Record(timestamp=now_ms, key=None, value=value) for value in values]
    return bytes(
        build_batch(
            records,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=transactional,
        )
    )


class Talker:
    """Asks one broker, and waits for each answer."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), 20)
        self.correlation_id = 0
        self.topic_ids: dict[str, bytes] = {}

    def close(self) -> None:
        """Hang up."""
        self.socket.close()

    def __enter__(self) -> Talker:
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    def ask(self, request: Message, version: int) -> Any:
        """Return the answer to a request."""
        self.correlation_id += 1
        self.socket.sendall(encode_request(request, version, self.correlation_id, "talker"))
        (size,) = struct.unpack(">i", self._read(4))
        assert request.API_KEY is not None
        return read_response(APIS[request.API_KEY].response, self._read(size), request.API_KEY, version)[1]

    def _ask_ready(self, request: Message, version: int, code: Callable[[Any], int]) -> Any:
        """Return the first answer whose code is not that the coordinator is away or loading."""
        answers: list[Any] = []

        def is_ready() -> bool:
            answers[:] = [self.ask(request, version)]
            return code(answers[0]) not in NOT_READY

        until(is_ready, "a coordinator that has loaded")
        return answers[0]

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self.socket.recv(size - len(data))
            assert part, "the broker hung up"
            data += part
        return data

    # -- setting up

    def create(self, topic: str, partitions: int = 1) -> None:
        """Create a topic, and wait until its partitions have a leader."""
        new = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1)
        answer = self.ask(CreateTopicsRequest(topics=[new], timeout_ms=10_000), 7)
        assert answer.topics[0].error_code == 0, answer
        self.topic_ids[topic] = bytes(answer.topics[0].topic_id)

        def is_led() -> bool:
            found = self.ask(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 12).topics[0]
            return len(found.partitions) == partitions and all(each.leader_id >= 0 for each in found.partitions)

        until(is_led, f"a leader of {topic}")

    def coordinate(self, key: str, kind: int = 1) -> None:
        """Wait until a coordinator answers for a transactional id, or for a group where `kind` is 0."""
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
        until(lambda: self.ask(request, 4).coordinators[0].error_code == 0, f"a coordinator of {key}")

    # -- a transaction's requests; each returns what the test compares

    def init(
        self, name: str | None, *, timeout_ms: int = 60_000, producer_id: int = -1, epoch: int = -1, version: int = 5
    ) -> tuple[int, int, int]:
        """Return (error code, producer id, epoch) of InitProducerId; waits while the coordinator is loading."""
        request = InitProducerIdRequest(
            transactional_id=name, transaction_timeout_ms=timeout_ms, producer_id=producer_id, producer_epoch=epoch
        )
        answer = self._ask_ready(request, version, lambda answer: answer.error_code)
        return answer.error_code, answer.producer_id, answer.producer_epoch

    def add(self, name: str, producer_id: int, epoch: int, *partitions: tuple[str, int], version: int = 3) -> list[int]:
        """Return the codes of AddPartitionsToTxn as clients send it."""
        topics = _by_topic(partitions)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=topic, partitions=indexes) for topic, indexes in topics.items()
            ],
        )
        answer = self.ask(request, version)
        return [
            each.partition_error_code
            for topic in sorted(answer.results_by_topic_v3_and_below, key=lambda topic: topic.name)
            for each in sorted(topic.results_by_partition, key=lambda each: each.partition_index)
        ]

    def add_as_broker(
        self,
        name: str,
        producer_id: int,
        epoch: int,
        *partitions: tuple[str, int],
        version: int = 5,
        verify_only: bool = False,
    ) -> list[int]:
        """Return the codes of AddPartitionsToTxn as brokers send it."""
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=name,
            producer_id=producer_id,
            producer_epoch=epoch,
            verify_only=verify_only,
            topics=[
                AddPartitionsToTxnTopic(name=topic, partitions=indexes)
                for topic, indexes in _by_topic(partitions).items()
            ],
        )
        answer = self.ask(AddPartitionsToTxnRequest(transactions=[transaction]), version)
        assert answer.error_code == 0
        return [
            each.partition_error_code
            for found in answer.results_by_transaction
            for topic in sorted(found.topic_results, key=lambda topic: topic.name)
            for each in sorted(topic.results_by_partition, key=lambda each: each.partition_index)
        ]

    def add_offsets(self, name: str, producer_id: int, epoch: int, group: str, *, version: int = 4) -> int:
        """Return the code of AddOffsetsToTxn."""
        request = AddOffsetsToTxnRequest(
            transactional_id=name, producer_id=producer_id, producer_epoch=epoch, group_id=group
        )
        code: int = self.ask(request, version).error_code
        return code

    def end(self, name: str, producer_id: int, epoch: int, *, commit: bool, version: int = 5) -> tuple[int, int, int]:
        """Return (error code, producer id, epoch) of EndTxn."""
        request = EndTxnRequest(transactional_id=name, producer_id=producer_id, producer_epoch=epoch, committed=commit)
        answer = self.ask(request, version)
        return answer.error_code, answer.producer_id, answer.producer_epoch

    def produce(
        self, name: str | None, topic: str, batch: bytes, *, index: int = 0, version: int = 12, acks: int = -1
    ) -> int:
        """Return the code of a Produce of one batch."""
        data = TopicProduceData(
            name=topic,
            topic_id=self.topic_ids.get(topic, bytes(16)),
            partition_data=[PartitionProduceData(index=index, records=batch)],
        )
        request = ProduceRequest(transactional_id=name, acks=acks, timeout_ms=10_000, topic_data=[data])
        code: int = self.ask(request, version).responses[0].partition_responses[0].error_code
        return code

    def commit_offsets(
        self,
        name: str,
        producer_id: int,
        epoch: int,
        group: str,
        topic: str,
        offset: int,
        *,
        version: int = 5,
        member: str = "",
        generation: int = -1,
    ) -> int:
        """Return the code of a TxnOffsetCommit of partition 0; waits while the group's coordinator is loading."""
        request = TxnOffsetCommitRequest(
            transactional_id=name,
            group_id=group,
            producer_id=producer_id,
            producer_epoch=epoch,
            generation_id=generation,
            member_id=member,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        TxnOffsetCommitRequestPartition(
                            partition_index=0, committed_offset=offset, committed_metadata=""
                        )
                    ],
                )
            ],
        )
        answer = self._ask_ready(request, version, lambda answer: answer.topics[0].partitions[0].error_code)
        code: int = answer.topics[0].partitions[0].error_code
        return code

    # -- what others see

    def settle(self, name: str) -> None:
        """Wait until no end of a transactional id is being written."""
        request = DescribeTransactionsRequest(transactional_ids=[name])
        until(
            lambda: not self.ask(request, 0).transaction_states[0].transaction_state.startswith("Prepare"),
            f"the end of the transaction of {name}",
        )

    def fetch_offset(self, group: str, topic: str, *, stable: bool = False) -> tuple[int, int]:
        """Return (error code, offset) of OffsetFetch for partition 0."""
        request = OffsetFetchRequest(
            groups=[
                OffsetFetchRequestGroup(
                    group_id=group, topics=[OffsetFetchRequestTopics(name=topic, partition_indexes=[0])]
                )
            ],
            require_stable=stable,
        )
        found = self.ask(request, 8).groups[0]
        if found.error_code:
            return found.error_code, -1
        each = found.topics[0].partitions[0]
        return each.error_code, each.committed_offset

    def fetch(self, topic: str, offset: int = 0, *, isolation: int = READ_COMMITTED, index: int = 0) -> Any:
        """Return what a Fetch says of a partition."""
        wanted = FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20)
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            isolation_level=isolation,
            session_epoch=-1,
            topics=[FetchTopic(topic=topic, partitions=[wanted])],
        )
        return self.ask(request, 12).responses[0].partitions[0]

    def end_offset(self, topic: str, *, isolation: int = READ_COMMITTED, index: int = 0) -> int:
        """Return where a partition ends for such a reader."""
        wanted = ListOffsetsTopic(name=topic, partitions=[ListOffsetsPartition(partition_index=index, timestamp=-1)])
        request = ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=[wanted])
        offset: int = self.ask(request, 7).topics[0].partitions[0].offset
        return offset


def _by_topic(partitions: tuple[tuple[str, int], ...]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(index)
    return topics
