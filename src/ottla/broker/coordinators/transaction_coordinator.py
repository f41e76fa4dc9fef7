"""The transaction coordinator: the shards of `__transaction_state`, and the carrying out of what they have decided.

An end is decided when its record is committed; then its markers are written, and when each partition has its own, a second
record says so. Where every partition is led here that happens before the client is answered, and without a task. Whatever is
interrupted (a broker that is gone, a restart) is taken up again: when a shard is loaded, and in every round of `_watch`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from typing import NamedTuple

from ottla.background import note_failure, restarting
from ottla.base import (
    TRANSACTIONS_TOPIC,
    Clock,
    ErrorCode,
    KafkaError,
    NodeId,
    Offload,
    ProducerEpoch,
    ProducerId,
    TopicPartition,
    coordinating_partition,
)
from ottla.broker.configuration import Configuration
from ottla.broker.controller.channel import ControllerChannel
from ottla.broker.controller.peers import Peers
from ottla.broker.coordinators.coordinator import Coordinator
from ottla.broker.coordinators.producer_ids import ProducerIds, allocate_from
from ottla.broker.coordinators.rounds import rounds
from ottla.broker.coordinators.transaction_markers import Marker, Markers, markers_request, read_markers
from ottla.broker.quorum.driver import Quorum
from ottla.broker.replicas.partitions import Partitions
from ottla.broker.replicas.purgatory import Purgatory
from ottla.broker.requests.answers import Deferred
from ottla.config import BrokerSettings
from ottla.transactions import (
    Decision,
    DecisionContext,
    Outcome,
    Shard,
    Status,
    Transaction,
    complete,
    expired,
    fence,
)
from ottla.wire import Codec

__all__ = ["TransactionCoordinator"]

log = logging.getLogger(__name__)

AT_ONCE_MAX = 200
"""Partitions whose markers are written before the client is answered; more are left to a task."""
SLICE = 1000
"""Transactions that are looked at before requests have their turn."""
EXPIRED_PER_BATCH = 500
BACKOFF_S, BACKOFF_S_MAX = 0.02, 1.0
COMMIT_TIMEOUT_MS = 5000
FEATURE = "transaction.version"

Decide = Callable[[Transaction | None, DecisionContext], Decision]


class _End(NamedTuple):
    """The end of one transaction, as one coordinator of its transactional id carries it out."""

    transaction: Transaction
    marker: Marker

    @property
    def key(self) -> tuple[str, ProducerId, ProducerEpoch, int]:
        """What tells it from every other end, and from itself under another coordinator."""
        marker = self.marker
        return self.transaction.transactional_id, marker.producer_id, marker.epoch, marker.coordinator_epoch


class TransactionCoordinator(Coordinator[Shard]):
    """The transactional ids of this broker."""

    def __init__(
        self,
        *,
        node_id: NodeId,
        configuration: Configuration,
        quorum: Quorum,
        controller: ControllerChannel,
        partitions: Partitions,
        producer_ids: ProducerIds,
        markers: Markers,
        peers: Peers,
        purgatory: Purgatory,
        clock: Clock,
        offload: Offload,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._node_id = node_id
        self._configuration = configuration
        self._quorum = quorum
        self._producer_ids = producer_ids
        self._allocate = allocate_from(controller, quorum, node_id)
        self.peers = peers
        self._ends: set[tuple[str, ProducerId, ProducerEpoch, int]] = set()
        self.markers = markers
        super().__init__(
            TRANSACTIONS_TOPIC,
            make_shard=lambda: Shard(self.version, self._loaded),
            make_context=lambda now_ms, wall_ms: DecisionContext(
                wall_ms, configuration.broker.settings, self.version(), self._take_id
            ),
            codec=lambda: Codec.NONE,
            commit_timeout_ms=lambda settings: COMMIT_TIMEOUT_MS,
            settings=lambda: configuration.broker.settings,
            partitions=partitions,
            purgatory=purgatory,
            clock=clock,
            offload=offload,
            loop=loop,
        )
        self._hosted = partitions

    def start(self) -> None:
        """Begin to look for transactions whose time is over, and for transactional ids that nobody uses."""
        self.run(
            rounds(
                "The abortion of late transactions",
                lambda: self._settings_now().transaction_abort_timed_out_transaction_cleanup_interval_ms,
                self._watch,
            )
        )
        self.run(
            rounds(
                "The expiry of transactional ids",
                lambda: self._settings_now().transaction_remove_expired_transaction_cleanup_interval_ms,
                self._expire,
            )
        )

    def version(self) -> int:
        """Return the finalized level of `transaction.version`."""
        return self._quorum.image.features.get(FEATURE, 0)

    def load_buffer_bytes(self) -> int:
        """Return how many bytes are read at once while a shard is loaded."""
        return self._settings_now().transaction_state_log_load_buffer_size

    # -- asking

    def decide(self, transactional_id: str, decide: Decide) -> Outcome | Deferred[Outcome]:
        """Decide about a transactional id; return the Outcome, or a Deferred of it, with the refusal's code if refused."""
        answer = self.write(
            transactional_id,
            lambda shard, token: decide(shard.state.get(transactional_id), self.decision_context()),
            lambda error: Outcome(error.code),
        )
        if isinstance(answer, Deferred):
            return answer.then(lambda outcome: self._settled(transactional_id, outcome))
        outcome: Outcome = self._settled(transactional_id, answer)
        return outcome

    def _settled(self, transactional_id: str, outcome: Outcome) -> Outcome:
        """Carry out what has been decided, now that it is committed."""
        self._carry_out(transactional_id)
        return outcome

    def look(self, transactional_id: str) -> Transaction | None:
        """Return a transactional id's committed state; raises KafkaError where it is not coordinated here."""
        found: Transaction | None = self.read(transactional_id, lambda state: state.get(transactional_id))
        return found

    def coordinator_of(self, transactional_id: str) -> NodeId | None:
        """Return the broker that coordinates a transactional id; None where there is none now."""
        topic = self._quorum.image.topic(TRANSACTIONS_TOPIC)
        if topic is None:
            return None
        partition = topic.partitions.get(coordinating_partition(transactional_id, len(topic.partitions)))
        return None if partition is None or partition.leader < 0 else NodeId(partition.leader)

    async def producer_id_at_hand(self) -> None:
        """Return once a producer id can be given; raises KafkaError where the controller gives none."""
        if not self._producer_ids.are_at_hand:
            await self._producer_ids.refill(self._allocate)

    async def take_producer_id(self) -> ProducerId:
        """Return a producer id for a producer without transactions; raises KafkaError."""
        return await self._producer_ids.take(self._allocate)

    def _take_id(self) -> ProducerId:
        found = self._producer_ids.take_at_hand()
        if found is None:
            self.run(self._refill())
            raise KafkaError(
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "producer ids are being fetched from the controller"
            )
        return found

    async def _refill(self) -> None:
        try:
            await self.producer_id_at_hand()
        except KafkaError as error:
            log.warning("The controller gives no producer ids now: %s", error)

    # -- carrying out ends

    def _carry_out(self, transactional_id: str) -> None:
        """Have the markers written if an end is decided and committed, unless that is under way."""
        try:
            found: Transaction | None = self.committed_here(transactional_id).get(transactional_id)
            if found is None or not found.status.is_ending:
                return
            coordinator_epoch = self.leader_epoch_of(transactional_id)
        except KafkaError:
            return  # the next coordinator does it
        end = _End(found, Marker.of(found, coordinator_epoch))
        if end.key in self._ends:
            return
        self._ends.add(end.key)
        left = set(found.partitions)
        if len(left) <= AT_ONCE_MAX:
            left -= self._write_at_once(end.marker, left)
        if not left:
            self._complete(end)
        else:
            self.run(self._finish(end, left))

    def _write_at_once(self, marker: Marker, partitions: Iterable[TopicPartition]) -> set[TopicPartition]:
        """Write markers into what is led here and has no other copy to wait for; return the partitions that are done."""
        done = set()
        for each in sorted(partitions):
            partition = self._hosted.get(*each)
            if partition is None or not partition.replica.is_leader or len(partition.replica.isr) > 1:
                continue
            try:
                waits = self.markers.write(marker, each)
            except KafkaError as error:
                log.debug("The marker for %s is written later: %s", each, error)
                continue
            if waits is None:
                done.add(each)
        return done

    def _complete(self, end: _End, backoff_s: float = BACKOFF_S) -> None:
        """Note that every partition has its marker, as often as it takes to have that committed."""
        ended = end.transaction
        name = ended.transactional_id

        def decide(shard: Shard, token: int) -> Decision:
            return complete(shard.state.get(name), ended.producer_id, ended.epoch, self.decision_context())

        def noted(outcome: Outcome, error: Exception | None = None) -> None:
            if outcome.code is ErrorCode.NONE or not self._is_in_office(end):
                self._ends.discard(end.key)
            else:
                self.run(self._complete_later(end, backoff_s))

        try:
            answer = self.write(name, decide, lambda error: Outcome(error.code))
        except Exception as error:  # our own mistake: nobody else ends the transaction
            note_failure(f"transactional id {name}", "the end of a transaction", error, consequence="it is tried again")
            answer = Outcome(ErrorCode.UNKNOWN_SERVER_ERROR)
        if isinstance(answer, Deferred):
            answer.listen(noted)
        else:
            noted(answer)

    async def _complete_later(self, end: _End, backoff_s: float) -> None:
        await asyncio.sleep(backoff_s)
        self._complete(end, min(2 * backoff_s, BACKOFF_S_MAX))

    async def _finish(self, end: _End, left: set[TopicPartition]) -> None:
        """Write what markers are left, as often as it takes, while this broker coordinates the transactional id."""
        name = end.transaction.transactional_id
        try:
            await restarting(
                lambda: self._write_left(end, left), name="the end of a transaction", serves=f"transactional id {name}"
            )
        finally:
            if left:
                self._ends.discard(end.key)

    async def _write_left(self, end: _End, left: set[TopicPartition]) -> None:
        """Write markers until none is left, which `left` says at any moment, and note that."""
        name = end.transaction.transactional_id
        backoff_s = BACKOFF_S
        while left and self._is_in_office(end):
            codes = await self._write(end.marker, left)
            if ErrorCode.TRANSACTION_COORDINATOR_FENCED in codes.values():
                log.warning("A later coordinator of %s is in office; this one leaves its end alone", name)
                return
            for each in [each for each in left if codes.get(each) is ErrorCode.INVALID_PRODUCER_EPOCH]:
                log.warning("%s has a later epoch of %s, whose end is not written there", each, name)
                codes[each] = ErrorCode.NONE  # something was lost, and no marker of this epoch can come in any more
            left -= {each for each, code in codes.items() if code is ErrorCode.NONE}
            left -= {each for each in left if self._is_deleted(each)}
            if left:
                await asyncio.sleep(backoff_s)
                backoff_s = min(2 * backoff_s, BACKOFF_S_MAX)
        if not left:
            self._complete(end)

    def _is_in_office(self, end: _End) -> bool:
        try:
            return self.leader_epoch_of(end.transaction.transactional_id) == end.marker.coordinator_epoch
        except KafkaError:
            return False

    def _is_deleted(self, partition: TopicPartition) -> bool:
        return self._quorum.image.partition(*partition) is None

    async def _write(self, marker: Marker, partitions: set[TopicPartition]) -> dict[TopicPartition, ErrorCode]:
        """Write markers where each partition's leader is; return a code for each that answered."""
        by_leader: dict[int, list[TopicPartition]] = {}
        for each in sorted(partitions):
            found = self._quorum.image.partition(*each)
            if found is not None and found.leader >= 0:
                by_leader.setdefault(found.leader, []).append(each)
        written = await asyncio.gather(
            *(self._write_at(NodeId(leader), marker, led) for leader, led in by_leader.items())
        )
        return {partition: code for codes in written for partition, code in codes.items()}

    async def _write_at(
        self, leader: NodeId, marker: Marker, led: list[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        if leader == self._node_id:
            return await self.markers.write_all(marker, led)
        return await self._write_elsewhere(leader, marker, led)

    async def _write_elsewhere(
        self, leader: NodeId, marker: Marker, led: list[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        try:
            return read_markers(await self.peers.ask(leader, markers_request(marker, led), lowest=1))
        except KafkaError as error:
            log.debug("Broker %s did not write markers: %s", leader, error)
            return {}

    # -- time

    def _loaded(self, shard: Shard) -> None:
        """Take up what the coordinator before has left, once requests are answered."""
        self._loop.call_soon(self._take_up, shard)

    def _take_up(self, shard: Shard) -> None:
        for each in shard.state.values():
            if each.status.is_ending:
                self._carry_out(each.transactional_id)

    async def _watch(self) -> None:
        """Abort transactions whose time is over, and take up ends that were interrupted."""
        for shard in self.active_shards():
            shard.open.begin_round(self.now_ms())
            async for part in _sliced(shard):
                for each in shard.open.timed_out(part, now_ms=self.now_ms(), wall_ms=self._clock.now_ms()):
                    log.info("Aborting a transaction of %s, which took too long", each.transactional_id)
                    self._abort(each)
                for each in part:
                    if each.status.is_ending:
                        self._carry_out(each.transactional_id)
            shard.open.end_round()

    def _abort(self, late: Transaction) -> None:
        def decide(found: Transaction | None, decision_context: DecisionContext) -> Decision:
            if found is None or found.status is not Status.ONGOING or found.started_ms != late.started_ms:
                return Decision(Outcome())
            return Decision(Outcome(), (fence(found, decision_context),))

        self.decide(late.transactional_id, decide)

    async def _expire(self) -> None:
        """Forget transactional ids that nobody has used for `transactional.id.expiration.ms`."""
        for shard in self.active_shards():
            async for part in _sliced(shard):
                ids = expired(part, self.decision_context())
                try:
                    for at in range(0, len(ids), EXPIRED_PER_BATCH):
                        gone = tuple(ids[at : at + EXPIRED_PER_BATCH])
                        self.perform(shard, [Decision(Outcome(), forgotten=gone)])
                except KafkaError as error:
                    log.warning("Transactional ids are forgotten another time: %s", error)
                    break

    def _settings_now(self) -> BrokerSettings:
        return self._configuration.broker.settings

    async def closed(self) -> None:
        """Hang up on other brokers, after `close`."""
        await self.peers.close()


async def _sliced(shard: Shard) -> AsyncIterator[list[Transaction]]:
    """Yield a shard's transactions, as they are then, in parts; requests have their turn in between."""
    names = list(shard.state)
    for at in range(0, len(names), SLICE):
        state = shard.state
        yield [state[name] for name in names[at : at + SLICE] if name in state]
        await asyncio.sleep(0)
