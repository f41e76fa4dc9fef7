"""A coordinator: the shards of an internal topic that this broker leads, each a fold over one partition.

Decide, append, apply, answer when committed. A shard is loaded when leadership of its partition begins, in slices so that
the loop goes on, takes office when all that it was loaded from is committed, and is let go when the leadership ends; whoever
is parked then hears NOT_COORDINATOR. With one copy an append is committed at once and the answer needs no task; with more it
waits for the high watermark. One timer serves the deadlines of all shards. Groups and transactions are coordinated so.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

from ottla.background import count_failure, note_failure, supervise
from ottla.base import (
    Clock,
    ErrorCode,
    KafkaError,
    Millis,
    Offload,
    OttlaError,
    ProducerId,
    StorageError,
    coordinating_partition,
)
from ottla.broker.coordinators.coordinator_errors import coordinator_error
from ottla.broker.coordinators.shard import (
    CoordinatedShard,
    Decided,
    MadeDecision,
    ParkedAnswer,
    RunningShard,
    ShardState,
    UncommittedAnswers,
)
from ottla.broker.replicas.local_partition import LocalPartition
from ottla.broker.replicas.partitions import Partitions
from ottla.broker.replicas.purgatory import Purgatory
from ottla.broker.requests.answers import Deferred
from ottla.config import BrokerSettings
from ottla.metadata import Delta, Image
from ottla.replica import Wait
from ottla.wire import Codec, Record, build_batch, control_type, iter_batch_records, iter_batches
from ottla.wire import ControlType as Control

__all__ = ["Coordinator"]

log = logging.getLogger(__name__)

SLICE_S = 0.002
"""How long loading may hold the loop before requests have their turn."""
RECORDS_PER_LOOK = 32
"""Records that loading replays between two looks at the time."""
TIMER_RETRY_MS = 1000
"""When a decision of a timer could not be appended, that timer and others come this much later."""
LOADED_WAIT_S = 0.5
"""How long one wait for the high watermark lasts while a shard is loaded; then it is looked at what it waits for."""
LOAD_RETRY_S, LOAD_RETRY_S_MAX = 0.5, 30.0
"""Before a shard that could not be loaded is loaded again; it doubles."""
EPSILON_S = 0.00001
"""Later than its deadline by this, a timer never finds the clock, which counts milliseconds, a fraction before it."""


class _Pace:
    """Gives requests their turn after each slice of time."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._until_s = loop.time() + SLICE_S

    def is_over(self) -> bool:
        """Return whether the slice is over."""
        return self._loop.time() >= self._until_s

    async def pause(self) -> None:
        """Let requests have their turn, and begin the next slice."""
        await asyncio.sleep(0)
        self._until_s = self._loop.time() + SLICE_S


S = TypeVar("S", bound=CoordinatedShard)
M = TypeVar("M")


class Coordinator(Generic[S]):
    """Runs the shards of `topic` whose partitions this broker leads."""

    def __init__(
        self,
        topic: str,
        *,
        make_shard: Callable[[], S],
        make_context: Callable[[Millis, Millis], Any],
        codec: Callable[[], Codec],
        commit_timeout_ms: Callable[[BrokerSettings], int],
        settings: Callable[[], BrokerSettings],
        partitions: Partitions,
        purgatory: Purgatory,
        clock: Clock,
        offload: Offload,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.topic = topic
        self._make_shard = make_shard
        self._make_context = make_context
        self._codec = codec
        self._commit_timeout_ms = commit_timeout_ms
        self._settings = settings
        self._partitions = partitions
        self._purgatory = purgatory
        self._clock = clock
        self._offload = offload
        self._loop = loop
        self._count = 0
        self._shards: dict[int, RunningShard[S]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_s = 0.0  # when it is due: uvloop's handle does not say, where that is at once
        self._tokens = 0
        self._started_ms = clock.now_ms()
        self._started_s = loop.time()
        self._is_closed = False

    def now_ms(self) -> Millis:
        """Return the wall clock's time as it was at the start, plus what has passed: sessions survive a clock's jump."""
        return Millis(self._started_ms + int((self._loop.time() - self._started_s) * 1000))

    def decision_context(self) -> Any:
        """Return what a decision may know now besides its shard: the time that deadlines are in, and the wall clock's.

        What records say is the wall clock's: another broker reads it, and a clock may be wrong when a broker starts.
        """
        return self._make_context(self.now_ms(), self._clock.now_ms())

    # -- asking

    def write(
        self, key: str, decide: Callable[[S, int], Decided], refuse: Callable[[KafkaError], M]
    ) -> M | Deferred[M]:
        """Decide about a request for a key; return its answer, or a Deferred where it is committed or made later.

        `decide` gets the shard and the token under which the answer is parked where it gives none. `refuse` makes the
        answer that says why there is none.
        """
        try:
            running = self._active(key)
            self._tokens += 1
            token = self._tokens
            decision = self._append_or_else(running, decide(running.shard, token))
        except KafkaError as error:
            return self._refused(refuse, error)
        return self._answered(running, decision, token, refuse)

    def end_transaction(
        self, index: int, marker: bytearray, producer_id: ProducerId, *, commit: bool, is_bumped: bool
    ) -> Deferred[ErrorCode] | None:
        """Append a transaction's marker to a shard's partition, and apply it; return what waits for it to be committed.

        Raises KafkaError where it is refused. The answer, where there is one to wait for, is an ErrorCode. `is_bumped`: see
        `LocalPartition.append_marker`.
        """
        running = self._in_office(index)
        now_ms = self._clock.now_ms()
        info = running.partition.append_marker(memoryview(marker), now_ms=now_ms, is_bumped=is_bumped)
        running.end = info.last_offset + 1
        running.shard.end_transaction(producer_id, commit=commit)
        self._tokens += 1
        answer = self._answered(running, MadeDecision(ErrorCode.NONE), self._tokens, lambda error: error.code)
        return answer if isinstance(answer, Deferred) else None

    def leader_epoch_of(self, key: str) -> int:
        """Return the leader epoch in which a key's shard is in office; raises KafkaError where it is not here."""
        return self._in_office(self.partition_of(key)).epoch

    def read(self, key: str, look: Callable[[Any], Any]) -> Any:
        """Return what `look` makes of the committed state of a key's shard; raises KafkaError where it is not here."""
        running = self._active(key)
        self._committed(running)
        return look(running.committed)

    def committed_here(self, key: str) -> Any:
        """Return the committed state of a key's shard for this broker's own use: another may know of a newer one.

        Raises KafkaError where the shard is not here.
        """
        running = self._in_office(self.partition_of(key))
        self._committed(running)
        return running.committed

    def active_shards(self) -> list[S]:
        """Return the shards in office."""
        return [running.shard for running in self._shards.values() if running.is_active]

    def perform(self, shard: S, decisions: Iterable[Decided]) -> None:
        """Append decisions about a shard that nobody has asked for; raises KafkaError where it is not in office."""
        running = self._running(shard)
        if running is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        self._perform(running, decisions)

    def end_of(self, shard: S) -> int:
        """Return where the records of a shard in office end, -1 where it is not in office."""
        running = self._running(shard)
        return -1 if running is None else running.end

    def _running(self, shard: S) -> RunningShard[S] | None:
        return next((each for each in self._shards.values() if each.shard is shard and each.is_active), None)

    def committed_states(self) -> list[Any]:
        """Return the committed state of every shard that no other broker can have; raises KafkaError with

        COORDINATOR_LOAD_IN_PROGRESS while one is being loaded.
        """
        if not all(running.is_active for running in self._shards.values()):
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        answering = [running for running in list(self._shards.values()) if self._may_answer(running)]
        for running in answering:
            self._heed_deadlines(running)
            self._committed(running)
        return [running.committed for running in answering]

    def partition_of(self, key: str) -> int | None:
        """Return the partition that coordinates a key; None where the topic does not exist."""
        return coordinating_partition(key, self._count) if self._count else None

    def _in_office(self, index: int | None) -> RunningShard[S]:
        """Return a shard that has been loaded, though another broker may coordinate by now; raises KafkaError."""
        running = None if index is None else self._shards.get(index)
        if running is None or running.partition.is_offline:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        if not running.is_active:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return running

    def _active(self, key: str) -> RunningShard[S]:
        """Return the shard that nobody else can have, as it is now that its deadlines have been heeded."""
        running = self._in_office(self.partition_of(key))
        if not self._may_answer(running):
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        self._heed_deadlines(running)
        return running

    def _may_answer(self, running: RunningShard[S]) -> bool:
        """Return whether no other broker can coordinate by now what this one does."""
        return not running.partition.is_offline and self._partitions.lease.covers(running.partition.replica)

    # -- appending and answering

    def _append_or_else(self, running: RunningShard[S], decision: Decided) -> Decided:
        """Append a decision, or what it says is to be done where that fails; return which it was."""
        try:
            self._append(running, decision)
        except KafkaError as error:
            otherwise = getattr(decision, "otherwise", None)
            if otherwise is None:
                raise
            log.warning("A decision about %s cannot be appended: %s", running.partition.key, error)
            decision = otherwise(coordinator_error(error.code))
            self._append(running, decision)
        return decision

    def _encoded(self, running: RunningShard[S], decision: Decided) -> Sequence[tuple[bytes, bytes | None]]:
        """Return a decision's records as they are stored; raises UNKNOWN_SERVER_ERROR where a client's text is too long."""
        try:
            return running.shard.encode(decision)
        except ValueError as error:
            log.warning("A decision about %s cannot be encoded: %s", running.partition.key, error)
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{running.partition.key}: {error}") from error

    def _append(self, running: RunningShard[S], decision: Decided) -> None:
        """Append a decision's records, if any, and take it over; raises KafkaError where nothing has happened."""
        base_offset = -1
        if decision.records:
            now_ms = self._clock.now_ms()
            pairs = self._encoded(running, decision)
            producer = decision.producer
            producer_id, producer_epoch = (-1, -1) if producer is None else producer
            batch = build_batch(
                [Record(timestamp=now_ms, key=key, value=value) for key, value in pairs],
                codec=self._codec(),
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                transactional=producer is not None,
            )
            info = running.partition.append_from_coordinator(memoryview(batch), now_ms=now_ms)
            base_offset, running.end = info.first_offset, info.last_offset + 1
        running.shard.applied(decision, base_offset)
        self._note_deadline(running)

    def _answered(
        self, running: RunningShard[S], decision: Decided, token: int, refuse: Callable[[KafkaError], M]
    ) -> M | Deferred[M]:
        """Let the answers go that are committed; keep the others until they are."""
        own = decision.response
        others = []
        for reply in decision.replies:
            if reply[0] == token:
                own = reply[1]
            else:
                others.append(reply)
        if self._is_committed(running):
            for reply in others:
                self._reply(running, *reply)
            if own is not None:
                answer: M = own
                return answer
            return self._park(running, token, refuse)
        parked = self._park(running, token, refuse)
        self._wait(running, others if own is None else [*others, (token, own)])
        return parked

    def _park(self, running: RunningShard[S], token: int, refuse: Callable[[KafkaError], M]) -> Deferred[M]:
        answer: Deferred[M] = Deferred()
        running.parked[token] = ParkedAnswer(answer, refuse)
        return answer

    def _is_committed(self, running: RunningShard[S]) -> bool:
        """Return whether everything that the decision saw and wrote is committed, which with one copy it always is."""
        if running.end != running.loaded_end and running.partition.replica.high_watermark < running.end:
            return False
        if running.uncommitted:
            self._committed(running)
        running.committed = running.shard.state
        return True

    def _refused(self, refuse: Callable[[KafkaError], M], error: KafkaError) -> M:
        """Return the answer to a request that came to nothing, in the codes that this coordinator's clients know."""
        code = coordinator_error(error.code)
        if code is ErrorCode.UNKNOWN_SERVER_ERROR:
            log.error("A request to a coordinator of %s has failed: %s: %s", self.topic, error.code.name, error.message)
            count_failure(f"the coordinator of {self.topic}")
        return refuse(KafkaError(code, error.message))

    def _reply(self, running: RunningShard[S], token: int, response: Any) -> None:
        parked = running.parked.pop(token, None)
        if parked is not None:
            parked.answer.resolve(response)

    def _wait(self, running: RunningShard[S], replies: list[tuple[int, Any]]) -> None:
        """Keep answers until the high watermark has reached the end of what they saw."""
        answers = [(running.parked.pop(token), response) for token, response in replies if token in running.parked]
        assert not running.uncommitted or running.uncommitted[-1].end <= running.end, "decisions are appended in order"
        waiting = UncommittedAnswers(running.end, running.shard.state, answers)
        running.uncommitted.append(waiting)
        key = running.partition.key
        deadline_s = self._loop.time() + self._commit_timeout_ms(self._settings()) / 1000
        wait = Wait(deadline_s, lambda reached: self._waited(running, waiting, reached), required={key: running.end})
        self._purgatory.add_produce(wait, (key,))

    def _waited(self, running: RunningShard[S], waiting: UncommittedAnswers, reached: bool) -> None:
        """Called when a high watermark has come; or has not in time, or will not: then who waits is told so."""
        self._committed(running)
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER if reached else ErrorCode.REQUEST_TIMED_OUT
        answers, waiting.answers = waiting.answers, []
        for parked, _ in answers:
            parked.answer.resolve(self._refused(parked.refuse, KafkaError(code)))

    def _committed(self, running: RunningShard[S]) -> None:
        """Let go of everything up to the high watermark."""
        high_watermark = running.partition.replica.high_watermark
        waiting = running.uncommitted
        while waiting and waiting[0].end <= high_watermark:
            done = waiting.popleft()
            running.committed = done.state
            answers, done.answers = done.answers, []
            for parked, response in answers:
                parked.answer.resolve(response)

    def _perform(self, running: RunningShard[S], decisions: Iterable[Decided]) -> None:
        """Append decisions that nobody has asked for: timers, loading, housekeeping."""
        for decision in decisions:
            self._perform_one(running, decision)

    def _perform_one(self, running: RunningShard[S], decision: Decided) -> None:
        self._append(running, decision)
        if self._is_committed(running):
            for reply in decision.replies:
                self._reply(running, *reply)
        else:
            self._wait(running, [*decision.replies])

    def _perform_each(self, running: RunningShard[S], decisions: Iterable[Decided]) -> None:
        """Append each decision by itself: what cannot be appended is decided about again, later, and stops no other."""
        for decision in decisions:
            try:
                self._perform_one(running, decision)
            except KafkaError as error:
                log.warning("What was decided about %s has no effect yet: %s", running.partition.key, error)
                running.shard.postpone(self.now_ms() + TIMER_RETRY_MS)
        self._note_deadline(running)

    # -- time

    def _note_deadline(self, running: RunningShard[S]) -> None:
        deadline_ms = running.shard.next_deadline()
        if deadline_ms is not None:
            self._set_timer(deadline_ms)

    def _set_timer(self, deadline_ms: int) -> None:
        """Look at the deadlines at that time, unless that is done earlier."""
        at_s = self._started_s + (deadline_ms - self._started_ms) / 1000 + EPSILON_S
        if self._timer is not None:
            if self._timer_s <= at_s:
                return
            self._timer.cancel()
        if not self._is_closed:
            self._timer = self._loop.call_at(at_s, self._tick)
            self._timer_s = at_s

    def _tick(self) -> None:
        self._timer = None
        for running in list(self._shards.values()):
            if running.partition.is_offline:
                self._unload(running.partition.key.partition)
            elif running.is_active and running.shard.next_deadline() is not None:
                if self._may_answer(running):
                    self._heed_deadlines(running)
                    self._note_deadline(running)
                else:  # whose session has ended, another coordinator may know better
                    self._set_timer(self.now_ms() + TIMER_RETRY_MS)

    def _heed_deadlines(self, running: RunningShard[S]) -> None:
        """Do what the deadlines of a shard that have come ask for, so that nobody meets who is gone by the clock."""
        deadline_ms = running.shard.next_deadline()
        if deadline_ms is None or deadline_ms > self.now_ms():
            return
        try:
            self._perform_each(running, running.shard.expire(self.decision_context()))
        except Exception as error:  # our own mistake: it is said, and the shard's other deadlines still come
            serves = f"the coordinator of {self.topic}"
            note_failure(serves, f"a deadline of {running.partition.key}", error, consequence="it is heeded again soon")
            self._set_timer(self.now_ms() + TIMER_RETRY_MS)

    # -- following the image

    def image_changed(self, old: Image, image: Image, delta: Delta) -> None:
        """Load what this broker leads now, and let go of what it no longer does."""
        topic = image.topic(self.topic)
        self._count = 0 if topic is None else len(topic.partitions)
        if topic is not None and self.topic not in delta.topics_changed:
            return
        for index, running in list(self._shards.items()):
            if index >= self._count or not self._is_led(running):
                self._unload(index)
        for index in range(self._count):
            partition = self._partitions.get(self.topic, index)
            if (
                partition is not None
                and partition.replica.is_leader
                and not partition.is_offline
                and index not in self._shards
            ):
                self._load(index, partition)

    def _is_led(self, running: RunningShard[S]) -> bool:
        """Return whether the partition is led still, and has been without a break."""
        partition = running.partition
        is_hosted = self._partitions.get(self.topic, partition.key.partition) is partition
        return is_hosted and partition.replica.is_leader and partition.replica.leader_epoch == running.epoch

    def _unload(self, index: int) -> None:
        """Let a shard go; who waits for it has to ask the next coordinator."""
        running = self._shards.pop(index)
        running.become(ShardState.UNLOADED)
        owed = [*running.parked.values()]
        for waiting in running.uncommitted:  # its wait may still end, and must find nobody to answer a second time
            answers, waiting.answers = waiting.answers, []
            owed += [parked for parked, _ in answers]
        running.parked.clear()
        running.uncommitted.clear()
        for parked in owed:
            parked.answer.resolve(parked.refuse(KafkaError(ErrorCode.NOT_COORDINATOR)))

    def close(self) -> None:
        """Stop timers and loading; whoever still waits is refused."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        for task in self._tasks:
            task.cancel()
        for index in list(self._shards):
            self._unload(index)

    # -- loading

    def _load(self, index: int, partition: LocalPartition) -> None:
        shard = self._make_shard()
        running = RunningShard(partition, partition.replica.leader_epoch, shard, shard.state)
        self._shards[index] = running
        if partition.log.log_end_offset == partition.log.log_start_offset:
            self._activate(running)
        else:
            self.run(self._load_slices(running))

    def run(self, work: Any) -> None:
        """Run a coroutine until the coordinator is closed."""
        task = supervise(work, serves=f"the coordinator of {self.topic}", loop=self._loop)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def load_buffer_bytes(self) -> int:
        """Return how many bytes are read at once while a shard is loaded."""
        return self._settings().offsets_load_buffer_size

    async def _load_slices(self, running: RunningShard[S]) -> None:
        """Replay a partition, a buffer at a time, and take office unless the leadership has ended meanwhile.

        What could not be read is read again, later: whoever leads the partition is its only coordinator.
        """
        key = running.partition.key
        backoff_s = LOAD_RETRY_S
        while self._is_loading(running):
            started_s = self._loop.time()
            try:
                count = await self._replay(running)
                await self._replicated(running)
                if self._is_loading(running):
                    log.info("Loaded %s records of %s in %.3f s", count, key, self._loop.time() - started_s)
                    self._activate(running)
                return
            except Exception as error:  # our own mistake, too: it is said, and nobody else can load the shard
                known = isinstance(error, OttlaError)
                log.error("The coordinator of %s cannot be loaded yet: %s", key, error, exc_info=not known)
                if not known:
                    count_failure(f"the coordinator of {self.topic}")
                if isinstance(error, StorageError):
                    self._partitions.failures.met(error, running.partition)
                if not self._is_loading(running):
                    return
                running.become(ShardState.FAILED)
                if running.partition.is_offline:
                    return  # another copy may lead
                await asyncio.sleep(backoff_s)
                if running.state is ShardState.UNLOADED:
                    return
                backoff_s = min(2 * backoff_s, LOAD_RETRY_S_MAX)
                running.become(ShardState.LOADING)
                running.shard = self._make_shard()
                running.committed = running.shard.state

    def _is_loading(self, running: RunningShard[S]) -> bool:
        """Return whether a shard is still wanted that is being loaded."""
        return running.state is ShardState.LOADING

    async def _replay(self, running: RunningShard[S]) -> int:
        partition = running.partition
        position: int = partition.log.log_start_offset
        end, count = partition.log.log_end_offset, 0
        pace = _Pace(self._loop)
        while position < end and self._is_loading(running):
            size = self.load_buffer_bytes()
            part = partition.log.read(position, max_bytes=size, upper_bound=end, min_one_batch=True)
            data = await self._offload.thread(part.read)
            if not data:
                break
            for header, at in iter_batches(data):
                if header.last_offset >= position:
                    count += await self._replay_batch(running, data, at, header, pace)
                    position = header.last_offset + 1
        running.end = end
        return count

    async def _replicated(self, running: RunningShard[S]) -> None:
        """Return when what was replayed is committed, the shard was let go, or too few copies are left to commit anything.

        The coordinator before may have answered for all of it, while this broker, as a follower, has not heard yet how far
        the high watermark came: to be read from before that is to go back behind what was acknowledged. While fewer
        copies are in sync than `min.insync.replicas`, nobody commits anything: then the log holds all that was ever
        acknowledged, and is read from, as Kafka's is; what would write is refused.
        """
        partition = running.partition
        while (
            partition.replica.high_watermark < running.end
            and not partition.replica.is_under_min_isr
            and self._is_loading(running)
        ):
            await self._reached(partition, running.end)
        running.loaded_end = running.end
        running.committed = running.shard.state

    def _reached(self, partition: LocalPartition, end: int) -> asyncio.Future[None]:
        """Return what is done when a high watermark has come, will not come, or has not for a while."""
        over: asyncio.Future[None] = self._loop.create_future()

        def finish(reached: bool) -> None:
            if not over.done():
                over.set_result(None)

        wait = Wait(self._loop.time() + LOADED_WAIT_S, finish, required={partition.key: end})
        self._purgatory.add_produce(wait, (partition.key,))
        return over

    async def _replay_batch(self, running: RunningShard[S], data: bytes, at: int, header: Any, pace: _Pace) -> int:
        """Replay one batch."""
        shard = running.shard
        records = list(iter_batch_records(data, at, header))
        if header.is_control:
            for each in records:
                kind = control_type(each.key)
                if kind in (Control.COMMIT, Control.ABORT):
                    shard.end_transaction(header.producer_id, commit=kind == Control.COMMIT)
        else:
            producer_id = header.producer_id if header.is_transactional else -1
            for number, each in enumerate(records):
                if number % RECORDS_PER_LOOK == 0 and pace.is_over():
                    await pace.pause()
                shard.replay(each, producer_id)
        return len(records)

    def _activate(self, running: RunningShard[S]) -> None:
        """Take office: sessions begin, and requests are answered from now on."""
        running.become(ShardState.ACTIVE)
        try:
            self._perform_each(running, running.shard.loaded(self.decision_context()))
        except Exception as error:  # our own mistake: it is said, and who asks is answered all the same
            serves, name = (
                f"the coordinator of {self.topic}",
                f"what is to be done after loading {running.partition.key}",
            )
            note_failure(serves, name, error, consequence="deadlines that it did not set are missing")
        self.activated(running.shard)

    def activated(self, shard: S) -> None:
        """Called when a shard has taken office."""
