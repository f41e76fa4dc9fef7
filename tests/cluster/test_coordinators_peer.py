"""What coordinators serve while too few copies of their topics are in sync: ours beside Apache Kafka's, API by API."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from ottla.base import ErrorCode, NodeId, OttlaError
from ottla.client import BlockingClient, Limits
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from ottla.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.wire.messages.delete_groups import DeleteGroupsRequest
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from ottla.wire.messages.describe_transactions import DescribeTransactionsRequest
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.list_groups import ListGroupsRequest
from ottla.wire.messages.list_transactions import ListTransactionsRequest
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.broker.group_script import (
    commit_request,
    heartbeat_request,
    join_request,
    leave_request,
    sync_request,
)
from tests.cli.ottla_nodes import running_ottla_nodes
from tests.peer.nodes import Nodes, running_nodes
from tests.ports import free_port
from tests.waiting import until

pytestmark = [pytest.mark.peer, pytest.mark.slow, pytest.mark.timeout(900)]
SETTINGS = (
    "broker.session.timeout.ms=6000",
    "broker.heartbeat.interval.ms=500",
    "offsets.topic.num.partitions=1",
    "transaction.state.log.num.partitions=1",
    "offsets.commit.timeout.ms=2000",
    "group.consumer.max.session.timeout.ms=1000000",
    "group.consumer.session.timeout.ms=1000000",
    "auto.leader.rebalance.enable=false",
)
GROUPS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"
SESSION_MS = 1_000_000
SECONDS_MAX = 100.0
GROUP, TRANSACTION = 0, 1
"""Types of coordinators."""

OF_TRANSACTIONS = {
    each.API_KEY for each in (AddPartitionsToTxnRequest, AddOffsetsToTxnRequest, EndTxnRequest, InitProducerIdRequest)
}
PASSING = {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS.name, ErrorCode.NOT_COORDINATOR.name}
PATIENCE_S = 15.0
AGAIN = "copies are back"
WITHOUT_RECORDS: dict[str, Any] = {
    "OffsetFetch g True": (["NONE"], [5]),
    "OffsetFetch s True": (["NONE", "UNSTABLE_OFFSET_COMMIT"], [-1]),
    "Heartbeat": ["NONE"],
    "ConsumerGroupHeartbeat": ["NONE"],
}
"""What our coordinator serves from what it has loaded, with its answers; Kafka's only if it knew before how far the one
before it had committed, which is a matter of milliseconds."""
Answers = dict[str, Any]


class Teller:
    """Asks single nodes, once each, in the highest version that both speak up to a bound."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._client: BlockingClient | None = None
        self._of = 0

    def ask(self, node: int, message: Any, highest: int | None = None) -> Any:
        """Return a node's answer, of whatever code but that it is loading, or has not heard yet that it coordinates."""
        deadline = time.monotonic() + PATIENCE_S
        while PASSING & {*codes(answer := self._once(node, message, highest))} and time.monotonic() < deadline:
            time.sleep(0.1)
        return answer

    def _once(self, node: int, message: Any, highest: int | None) -> Any:
        if self._client is None or self._of != node:
            self.close()
            limits = Limits(unreachable_s=SECONDS_MAX)
            self._client, self._of = BlockingClient(f"127.0.0.1:{self._nodes.nodes[node].port}", limits=limits), node
        client = self._client.client

        async def once() -> Any:
            await client.metadata(())
            connection = await client._route(NodeId(node), None, False)
            version = connection.version_for(message.API_KEY, lowest=0, highest=highest)
            return await connection.request(message, version, timeout_s=SECONDS_MAX)

        return self._client.run(once())

    def close(self) -> None:
        """Hang up."""
        if self._client is not None:
            self._client.close()
            self._client = None


def codes(answer: Any) -> list[str]:
    """Return the codes in an answer, top down."""
    found = []
    for name in answer.__slots__:
        value = getattr(answer, name)
        if name.endswith("error_code"):
            found.append(ErrorCode(value).name)
        elif isinstance(value, list | tuple):
            for each in value:
                if hasattr(each, "__slots__"):
                    found += codes(each)
    return sorted(set(found))


def create(teller: Teller) -> None:
    """Make the coordinators' topics with copies on nodes 1 and 2, both of which have to be in sync."""
    topics = []
    for name, copies in ((GROUPS, [1, 2]), (TRANSACTIONS, [1, 2]), ("t", [1]), ("u", [2])):
        configs = {"min.insync.replicas": str(len(copies))} | ({"cleanup.policy": "compact"} if "__" in name else {})
        topics.append(
            CreatableTopic(
                name=name,
                num_partitions=-1,
                replication_factor=-1,
                assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=copies)],
                configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
            )
        )
    answer = teller.ask(1, CreateTopicsRequest(topics=topics, timeout_ms=30_000))
    assert codes(answer) == ["NONE"], answer


def in_sync(nodes: Nodes, asked: int) -> set[tuple[int, ...]]:
    """Return the copies in sync of the coordinators' topics, as one node knows them."""
    with BlockingClient(f"127.0.0.1:{nodes.nodes[asked].port}", limits=Limits(unreachable_s=0, call_s=5)) as client:
        cluster = client.metadata([GROUPS, TRANSACTIONS])
        return {
            (int(each.leader), *sorted(int(one) for one in each.in_sync))
            for topic in cluster.topics.values()
            for each in topic.partitions.values()
        }


class Chapter:
    """Groups and transactions that are there before copies are lost, and what is asked about them afterwards."""

    def __init__(self, teller: Teller, name: str, topic: str) -> None:
        self._teller = teller
        self.name = name
        self._topic = topic
        self.simple, self.classic, self.modern, self.gone = (f"{name}-{each}" for each in ("s", "c", "m", "g"))
        self.open, self.idle, self.offsets = (f"{name}-{each}" for each in ("open", "idle", "offsets"))
        self.member, self.epoch = "", 0
        self.modern_member = f"{name}AAAAAAAAAAAAAAAAAAAAA"
        self.producers: dict[str, tuple[int, int]] = {}

    def tell(self, node: int) -> None:
        """Make what there is: an old group with a member, a new one, committed offsets, transactions."""
        ask = self._sound(node)
        for group in (self.simple, self.gone):
            ask(commit_request(5, group_id=group, topic=self._topic), 9)
        joined = self._teller.ask(node, join_request(self.classic, session_ms=SESSION_MS))
        self.member = joined.member_id
        ask(join_request(self.classic, self.member, session_ms=SESSION_MS))
        ask(sync_request(self.member, 1, self.member, group_id=self.classic))
        self.epoch = ask(self._modern_heartbeat(self.modern_member, 0)).member_epoch
        until(lambda: self._settled(node), "the new group is assigned", past=(OttlaError,))
        for each in (self.open, self.idle, self.offsets):
            made = ask(InitProducerIdRequest(transactional_id=each, transaction_timeout_ms=600_000))
            self.producers[each] = made.producer_id, made.producer_epoch
        ask(self._add_partition(self.open), 3)
        ask(self._add_offsets(self.offsets))
        ask(self._commit_in_transaction(self.offsets), 3)

    def _settled(self, node: int) -> bool:
        self.epoch = self._teller.ask(node, self._modern_heartbeat(self.modern_member, self.epoch)).member_epoch
        answer = self._teller.ask(node, ConsumerGroupDescribeRequest(group_ids=[self.modern]))
        return bool(answer.groups[0].group_state == "Stable")

    def _sound(self, node: int) -> Callable[..., Any]:
        def ask(message: Any, highest: int | None = None) -> Any:
            answer: Any = None

            def well() -> bool:
                nonlocal answer
                answer = self._teller.ask(node, message, highest)
                return codes(answer) == ["NONE"]

            until(well, lambda: f"{message} is answered: {answer}", past=(OttlaError,))
            return answer

        return ask

    def _modern_heartbeat(self, member: str, epoch: int) -> ConsumerGroupHeartbeatRequest:
        joins = epoch == 0
        return ConsumerGroupHeartbeatRequest(
            group_id=self.modern,
            member_id=member,
            member_epoch=epoch,
            rebalance_timeout_ms=300_000 if joins else -1,
            subscribed_topic_names=[self._topic] if joins else None,
            topic_partitions=[] if joins else None,
        )

    def _add_partition(self, name: str) -> AddPartitionsToTxnRequest:
        producer_id, epoch = self.producers[name]
        return AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=self._topic, partitions=[0])],
        )

    def _add_offsets(self, name: str) -> AddOffsetsToTxnRequest:
        producer_id, epoch = self.producers[name]
        return AddOffsetsToTxnRequest(
            transactional_id=name, producer_id=producer_id, producer_epoch=epoch, group_id=self.simple
        )

    def _commit_in_transaction(self, name: str, group: str | None = None) -> TxnOffsetCommitRequest:
        producer_id, epoch = self.producers[name]
        partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=7, committed_metadata="")
        return TxnOffsetCommitRequest(
            transactional_id=name,
            group_id=group or self.simple,
            producer_id=producer_id,
            producer_epoch=epoch,
            topics=[TxnOffsetCommitRequestTopic(name=self._topic, partitions=[partition])],
        )

    def _end(self, name: str, *, committed: bool) -> EndTxnRequest:
        producer_id, epoch = self.producers[name]
        return EndTxnRequest(transactional_id=name, producer_id=producer_id, producer_epoch=epoch, committed=committed)

    def _fetch(self, group: str, *, require_stable: bool = False) -> OffsetFetchRequest:
        topic = OffsetFetchRequestTopics(name=self._topic, partition_indexes=[0])
        asked = OffsetFetchRequestGroup(group_id=group, topics=[topic])
        return OffsetFetchRequest(groups=[asked], require_stable=require_stable)

    def offsets_read(self, node: int) -> Answers:
        """Ask for the offsets of a group without and of one with a transaction, stable ones and others."""
        found: Answers = {}
        for group, stable in ((self.gone, False), (self.gone, True), (self.simple, False), (self.simple, True)):
            [answer] = self._teller.ask(node, self._fetch(group, require_stable=stable), 9).groups
            offsets = [each.committed_offset for topic in answer.topics for each in topic.partitions]
            found[f"OffsetFetch {group[-1]} {stable}"] = codes(answer), offsets
        return found

    def _own(self, listed: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        return sorted(each for each in listed if each[0].startswith(f"{self.name}-"))

    def reads(self, node: int) -> Answers:
        """Ask for everything that needs no write."""
        ask = self._teller.ask
        found: Answers = {}
        for kind, key in ((GROUP, self.classic), (TRANSACTION, self.open)):
            [named] = ask(node, FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])).coordinators
            found[f"FindCoordinator of {['groups', 'transactions'][kind]}"] = (codes(named), named.node_id)
        found |= self.offsets_read(node)
        [old] = ask(node, DescribeGroupsRequest(groups=[self.classic])).groups
        found["DescribeGroups"] = codes(old), old.group_state, len(old.members)
        [new] = ask(node, ConsumerGroupDescribeRequest(group_ids=[self.modern])).groups
        found["ConsumerGroupDescribe"] = codes(new), new.group_state, len(new.members)
        listed = ask(node, ListGroupsRequest())
        found["ListGroups"] = codes(listed), self._own((each.group_id, each.group_state) for each in listed.groups)
        found["Heartbeat"] = codes(ask(node, heartbeat_request(self.member, 1, group_id=self.classic)))
        found["ConsumerGroupHeartbeat"] = codes(ask(node, self._modern_heartbeat(self.modern_member, self.epoch)))
        again = ask(node, sync_request(self.member, 1, group_id=self.classic))
        found["SyncGroup of a stable group"] = codes(again), bytes(again.assignment)
        described = ask(node, DescribeTransactionsRequest(transactional_ids=[self.open, self.idle]))
        found["DescribeTransactions"] = [(codes(each), each.transaction_state) for each in described.transaction_states]
        transactions = ask(node, ListTransactionsRequest())
        found["ListTransactions"] = (
            codes(transactions),
            self._own((each.transactional_id, each.transaction_state) for each in transactions.transaction_states),
        )
        return found

    def writes(self, node: int, *, of_transactions: bool = True) -> Answers:
        """Ask for what has to be written; a transaction's may take as long as the transaction."""
        asked: Sequence[tuple[str, Any, int | None]] = (
            ("OffsetCommit", commit_request(6, group_id=self.simple, topic=self._topic), 9),
            ("OffsetCommit of a new group", commit_request(6, group_id=f"{self.simple}-new", topic=self._topic), 9),
            ("TxnOffsetCommit", self._commit_in_transaction(self.offsets), 3),
            ("OffsetDelete", self._offset_delete(), None),
            ("DeleteGroups", DeleteGroupsRequest(groups_names=[self.gone]), None),
            ("ConsumerGroupHeartbeat that joins", self._modern_heartbeat("BAAAAAAAAAAAAAAAAAAAAA", 0), None),
            ("ConsumerGroupHeartbeat that leaves", self._modern_heartbeat(self.modern_member, -1), None),
            ("AddPartitionsToTxn", self._add_partition(self.idle), 3),
            ("AddOffsetsToTxn", self._add_offsets(self.open), None),
            ("EndTxn that commits", self._end(self.open, committed=True), None),
            ("EndTxn that aborts", self._end(self.offsets, committed=False), None),
            ("InitProducerId", InitProducerIdRequest(transactional_id=self.idle, transaction_timeout_ms=60_000), None),
            (
                "InitProducerId of a new id",
                InitProducerIdRequest(transactional_id=f"{self.idle}-new", transaction_timeout_ms=60_000),
                None,
            ),
            (
                "InitProducerId without an id",
                InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000),
                None,
            ),
            ("LeaveGroup", leave_request((self.member, None), group_id=self.classic), None),
        )
        found: Answers = {}
        for name, message, highest in asked:
            if not of_transactions and message.API_KEY in OF_TRANSACTIONS:
                continue
            found[name] = codes(self._teller.ask(node, message, highest))
        return found

    def _offset_delete(self) -> OffsetDeleteRequest:
        partition = OffsetDeleteRequestPartition(partition_index=0)
        topic = OffsetDeleteRequestTopic(name=self._topic, partitions=[partition])
        return OffsetDeleteRequest(group_id=self.gone, topics=[topic])


def story(nodes: Nodes) -> dict[str, Answers]:
    """Lose copies in three ways, and ask the node that is left."""
    teller = Teller(nodes)
    found: dict[str, Answers] = {}
    try:
        create(teller)
        until(lambda: in_sync(nodes, 1) == {(1, 1, 2)}, "the copies are in sync", past=(OttlaError,))
        chapters = {name: Chapter(teller, name, "u" if name == "a" else "t") for name in ("s", "d", "a")}
        for each in chapters.values():
            each.tell(1)
        nodes.nodes[2].kill()
        until(lambda: in_sync(nodes, 1) == {(1, 1)}, "one copy is left", past=(OttlaError,))
        found["stayed, reads"] = chapters["s"].reads(1)
        found["stayed, writes"] = chapters["s"].writes(1)
        nodes.start(2)
        until(lambda: in_sync(nodes, 1) == {(1, 1, 2)}, "the copies are in sync again", past=(OttlaError,))
        found[AGAIN] = chapters["s"].offsets_read(1)
        for node in (2, 3):
            nodes.nodes[node].kill()
        found["two dead, reads"] = chapters["d"].reads(1)
        time.sleep(5)
        found["two dead, reads later"] = chapters["d"].reads(1)
        found["two dead, writes"] = chapters["d"].writes(1, of_transactions=False)
        nodes.nodes[3].start()
        nodes.start(2)
        until(lambda: in_sync(nodes, 2) == {(1, 1, 2)}, "the copies are in sync again", past=(OttlaError,))
        nodes.nodes[1].kill()
        until(lambda: in_sync(nodes, 2) == {(2, 2)}, "the other copy leads", past=(OttlaError,))
        found["took over, reads"] = chapters["a"].reads(2)
        found["took over, writes"] = chapters["a"].writes(2)
    finally:
        teller.close()
    return found


Running = Callable[..., AbstractContextManager[Nodes]]


def told(running: Running, folder: Path) -> dict[str, Answers]:
    port = free_port()
    with running(folder, range(port, port + 3), overrides=SETTINGS) as nodes:
        return story(nodes)


def test_coordinators_without_enough_copies_answer_as_kafkas(tmp_path: Path) -> None:
    """All but two things, in which ours keep more to their word.

    What Kafka's refuse has been appended, and happens when the copies are back; what ours refuse has not. And what Kafka's
    run as a write without records may wait until they know to be committed what they have loaded, and fail.
    """
    ours = told(running_ottla_nodes, tmp_path / "ottla")
    theirs = told(running_nodes, tmp_path / "kafka")
    assert ours.pop(AGAIN)["OffsetFetch s False"] == (["NONE"], [5])
    assert theirs.pop(AGAIN)["OffsetFetch s False"] == (["NONE"], [6])
    assert ours.keys() == theirs.keys()
    differing = {
        (chapter, name): (answer, theirs[chapter][name])
        for chapter, answers in ours.items()
        for name, answer in answers.items()
        if answer != theirs[chapter][name]
    }
    assert set(differing) <= {("took over, reads", name) for name in WITHOUT_RECORDS}, differing
    assert all(answer == WITHOUT_RECORDS[name] for (_, name), (answer, _) in differing.items())
