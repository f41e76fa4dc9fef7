"""Who is in sync, kept by the leaders of this broker: followers that lag leave, those that have caught up come back.

A change is proposed to the controller (AlterPartition, KIP-497), one request at a time for all partitions that wait; until
it has answered, the partition's watermark waits for the larger of the two sets. What the controller refuses for good is
given up until the metadata says something new; what may succeed later is asked again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from ottla.background import count_failure, supervise, why_ended
from ottla.base import ErrorCode, KafkaError, NodeId
from ottla.broker.controller.channel import ControllerChannel
from ottla.broker.metrics import Metrics
from ottla.broker.replicas.local_partition import LocalPartition
from ottla.broker.replicas.partitions import Partitions
from ottla.replica import IsrProposal
from ottla.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
    ResponsePartitionData,
)

__all__ = ["IsrKeeper"]

log = logging.getLogger(__name__)

RETRY_S = 0.05
"""Before a request that failed as a whole, or a partition that may succeed, is asked again: Kafka's 50 ms."""
ASK_TIMEOUT_MS = 30_000
PARTITIONS_PER_REQUEST_MAX = 5_000
"""So that no request and no batch of records grows past what others can bear; the rest goes with the next."""

LATE_S = 0.5
"""A timer so late means that this process was held up."""
PARTITIONS_PER_LOOK = 500
"""Looked at in one go: a millisecond or so."""

GIVEN_UP = frozenset(
    {
        ErrorCode.OPERATION_NOT_ATTEMPTED,
        ErrorCode.INELIGIBLE_REPLICA,
    }
)
"""The ISR stays what it was, and may be proposed anew when somebody fetches or lags."""
OVERTAKEN = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)
"""The controller knows more than this broker: nothing is proposed before the metadata has come here."""


@dataclass(frozen=True, slots=True)
class _Asked:
    partition: LocalPartition
    proposal: IsrProposal


class IsrKeeper:
    """Proposes every change of an ISR that this broker's leaderships call for."""

    def __init__(
        self,
        *,
        node_id: NodeId,
        partitions: Partitions,
        controller: ControllerChannel,
        broker_epoch: Callable[[], int],
        lag_max_ms: Callable[[], int],
        metrics: Metrics,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._node_id = node_id
        self._partitions = partitions
        self._controller = controller
        self._broker_epoch = broker_epoch
        self._lag_max_ms = lag_max_ms
        self._loop = loop
        self._waiting: dict[tuple[bytes, int], _Asked] = {}
        self._asking: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._due_s = 0.0
        self._shrinks = metrics.counter("ReplicaManager.IsrShrinksPerSec")
        self._expands = metrics.counter("ReplicaManager.IsrExpandsPerSec")
        self._failures = metrics.counter("ReplicaManager.FailedIsrUpdatesPerSec")

    def start(self) -> None:
        """Look for followers that lag, twice in `replica.lag.time.max.ms`."""
        self._due_s = self._loop.time() + self._lag_max_ms() / 2000
        self._timer = self._loop.call_at(self._due_s, self._look)

    async def close(self) -> None:
        """Propose nothing more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._waiting.clear()
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)

    # -- what calls for a change

    def fetched(self, partition: LocalPartition, follower: NodeId) -> None:
        """Take a follower in that has just shown that it has everything; the caller has seen that it is eligible."""
        replica = partition.replica
        if replica.may_join(follower):
            isr = tuple(node for node in replica.replicas if node in replica.isr or node == follower)
            self._propose(partition, isr)

    def _look(self) -> None:
        """Look at every partition, some at a time so that the loop goes on meanwhile, and then wait again.

        A process that was held up has followers' fetches to read first: who seems to lag may have been waiting for it.
        """
        if self._loop.time() - self._due_s > LATE_S:
            self.start()
            return
        self._look_at([partition for partition in self._partitions if partition.replica.has_followers])

    def _look_at(self, left: list[LocalPartition]) -> None:
        now_s = self._loop.time()
        for partition in left[:PARTITIONS_PER_LOOK]:
            self._look_at_one(partition, now_s)
        left = left[PARTITIONS_PER_LOOK:]
        if left:
            self._timer = self._loop.call_later(0, self._look_at, left)
        else:
            self.start()

    def _look_at_one(self, partition: LocalPartition, now_s: float) -> None:
        replica = partition.replica
        if partition.is_offline or not replica.has_followers:
            return
        if replica.forget_joining(now_s):
            partition.high_watermark_moved()
        lagging = replica.lagging(now_s)
        if lagging:
            log.info("Shrinking the ISR of %s: %s lag behind %s", partition.key, list(lagging), replica.log_end_offset)
            self._propose(partition, tuple(node for node in replica.isr if node not in lagging))

    def _propose(self, partition: LocalPartition, isr: tuple[NodeId, ...]) -> None:
        proposal = partition.replica.propose_isr(isr)
        self._waiting[(partition.topic_id, partition.key.partition)] = _Asked(partition, proposal)
        self._ask_soon()

    # -- asking

    def _ask_soon(self) -> None:
        """Ask when the loop has handled what it has read, so that one request takes all that a fetch has brought."""
        if self._asking is None and self._waiting:
            self._asking = supervise(self._ask(), name="ask for ISRs", serves="partitions led here", loop=self._loop)
            self._asking.add_done_callback(self._asked)

    def _asked(self, done: asyncio.Task[None]) -> None:
        self._asking = None
        if self._timer is None:
            return
        if why_ended(done) is not None:  # it is told, and asked again, but not at once
            self._loop.call_later(RETRY_S, self._ask_soon)
        else:
            self._ask_soon()

    async def _ask(self) -> None:
        """Ask for everything that waits, until nothing does or something has to wait a little."""
        while self._waiting:
            asked = dict(list(self._waiting.items())[:PARTITIONS_PER_REQUEST_MAX])
            try:
                response: AlterPartitionResponse = await self._controller.ask(
                    self._request(asked), timeout_ms=ASK_TIMEOUT_MS
                )
                code = ErrorCode(response.error_code)
            except KafkaError as error:
                code = error.code
            except Exception:  # our own mistake: it is said, and the others' ISRs are asked for again
                log.exception("Asking the controller for %d ISRs failed", len(asked))
                count_failure("partitions led here")
                code = ErrorCode.UNKNOWN_SERVER_ERROR
            if code is not ErrorCode.NONE:
                log.warning("The controller refused to change %d ISRs: %s", len(asked), code.name)
                self._drop_overtaken()
                await asyncio.sleep(RETRY_S)
                continue
            retry = False
            for topic in response.topics:
                for answer in topic.partitions:
                    key = (bytes(topic.topic_id), answer.partition_index)
                    each = asked.pop(key, None)
                    if each is None or not self._settle(each, answer):
                        retry = True
                    elif self._waiting.get(key) is each:  # else another proposal has taken its place
                        del self._waiting[key]
            if retry or asked:  # what the response does not name is asked again, too
                self._drop_overtaken()
                await asyncio.sleep(RETRY_S)

    def _request(self, asked: dict[tuple[bytes, int], _Asked]) -> AlterPartitionRequest:
        topics: dict[bytes, list[RequestPartitionData]] = {}
        own_epoch = self._broker_epoch()
        for (topic_id, index), each in asked.items():
            proposal = each.proposal
            members = [
                BrokerState(broker_id=node, broker_epoch=own_epoch if node == self._node_id else epoch)
                for node, epoch in zip(proposal.isr, proposal.broker_epochs, strict=True)
            ]
            data = RequestPartitionData(
                partition_index=index,
                leader_epoch=proposal.leader_epoch,
                new_isr_with_epochs=members,
                partition_epoch=proposal.partition_epoch,
            )
            topics.setdefault(topic_id, []).append(data)
        return AlterPartitionRequest(
            broker_id=self._node_id,
            broker_epoch=own_epoch,
            topics=[RequestTopicData(topic_id=key, partitions=value) for key, value in topics.items()],
        )

    def _drop_overtaken(self) -> None:
        """Ask no longer for what the metadata has decided meanwhile."""
        self._waiting = {
            key: each for key, each in self._waiting.items() if each.partition.replica.proposal is each.proposal
        }

    def _settle(self, asked: _Asked, answer: ResponsePartitionData) -> bool:
        """Take in what became of one proposal; False where it has to be asked again."""
        partition, proposal = asked.partition, asked.proposal
        replica = partition.replica
        code = ErrorCode(answer.error_code)
        if code is ErrorCode.NONE:
            (self._expands if proposal.grows else self._shrinks).value += 1
            if replica.isr_decided(
                leader_epoch=answer.leader_epoch,
                partition_epoch=answer.partition_epoch,
                isr=tuple(NodeId(node) for node in answer.isr),
            ):
                partition.high_watermark_moved()
            return True
        if replica.proposal is not proposal:  # the metadata came first
            return True
        self._failures.value += 1
        log.info("The controller refused the ISR %s of %s: %s", list(proposal.isr), partition.key, code.name)
        if code in GIVEN_UP:
            if replica.withdraw(proposal):
                partition.high_watermark_moved()
            return True
        return code in OVERTAKEN
