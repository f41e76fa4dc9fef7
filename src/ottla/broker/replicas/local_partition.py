"""One partition that this broker holds: its log, its place among the copies, and its topic's rules."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import BrokenExecutor
from typing import Any, Final, TypeVar

from ottla.background import awaited, supervise
from ottla.base import (
    ErrorCode,
    KafkaError,
    Millis,
    MissingFileError,
    NodeId,
    NoSpaceError,
    Offload,
    Offset,
    StorageError,
    TopicPartition,
    Uuid,
)
from ottla.broker.meters import TopicTraffic
from ottla.broker.replicas.purgatory import Purgatory
from ottla.broker.replicas.refused_batches import NoRoomError, RefusedBatches
from ottla.broker.replicas.topic_rules import TopicRules
from ottla.broker.replicas.verification import Verification, Verifications, is_in_transaction
from ottla.log import AbortedTransaction, AppendInfo, AppendOrigin, Doubt, JoinedAppend, Log, LogDir, LogSlice, examine
from ottla.replica import NEVER, FetchSession, Replica, Role, SessionKey
from ottla.wire import (
    Attributes,
    BatchHeader,
    BatchRules,
    Codec,
    WritableBuffer,
    admit_batch,
    read_batch_header,
)

__all__ = ["LocalPartition"]

log = logging.getLogger(__name__)
T = TypeVar("T")

UNSEEN_MAX: Final = 1000
"""Appends above the high watermark of which each one's size is known; beyond that, the last ones are counted together."""
INT64_MAX: Final = (1 << 63) - 1
"""What `flush.messages` is where it is not wanted."""


class LocalPartition:
    """Appends and what follows from them; reads go to `log` within the bounds of `replica`.

    Every change of this log's end passes through here, so that the high watermark follows and waits are told. What a
    failure of the disk costs says `failures.py` (`failed`); once offline, everything answers KAFKA_STORAGE_ERROR.
    """

    __slots__ = (
        "_examining",
        "_flush",
        "_idle",
        "_met",
        "_offload",
        "_parked",
        "_purgatory",
        "_unexamined",
        "_unseen",
        "_working",
        "being_cleaned",
        "compression_level",
        "damage",
        "deletions",
        "flushes",
        "is_lost",
        "is_offline",
        "key",
        "log",
        "log_dir",
        "min_insync_replicas",
        "recompress_to",
        "refused",
        "replica",
        "rules",
        "stores_truncation",
        "throttled_as_follower",
        "throttled_as_leader",
        "topic_id",
        "traffic",
        "verifications",
        "verifies",
    )

    def __init__(
        self,
        key: TopicPartition,
        topic_id: Uuid,
        log: Log,
        log_dir: LogDir,
        replica: Replica,
        *,
        purgatory: Purgatory,
        offload: Offload,
        failed: Callable[[StorageError, LocalPartition], object],
        traffic: TopicTraffic | None = None,
    ) -> None:
        self.key = key
        self.topic_id = topic_id
        self.log = log
        self.log_dir = log_dir
        self.replica = replica
        self.is_offline = False
        self.is_lost = False
        """True where its own files are why it is offline, and not its directory."""
        self.damage: StorageError | None = None
        """What is wrong with its files, as far as anybody has met it; with a vanished one it is offline."""
        self.deletions: list[Callable[[], None]] = []
        """Who waits for the copies to delete records, and looks whether they have whenever one fetches."""
        self.verifications = Verifications()
        self.refused = RefusedBatches()
        """Clients' batches that found no room."""
        self.verifies = True
        """False where `transaction.partition.verification.enable` says that batches begin transactions unasked."""
        self.throttled_as_follower = False
        self.throttled_as_leader = False
        """Named in `leader.replication.throttled.replicas`: copies that are out of sync get it no faster than allowed."""
        self.stores_truncation = False
        """True from a truncation until the recovery points are stored: until then nothing may be appended."""
        self.being_cleaned = False
        """True while the log cleaner works on it, and retention waits."""
        self.traffic = traffic or TopicTraffic()
        self.rules = BatchRules()
        self.recompress_to: Codec | None = None
        self.compression_level: int | None = None
        self.min_insync_replicas = 1
        self.flushes = False
        self._purgatory = purgatory
        self._offload = offload
        self._met = failed
        self._flush: asyncio.Future[None] | None = None
        self._examining: asyncio.Task[None] | None = None
        self._unexamined: StorageError | None = None
        """What kept the log's transactions from being examined, until somebody has heard it."""
        self._working = 0
        """Calls on threads that use the log's files by their names."""
        self._idle: list[Callable[[], None]] = []
        """What waits for their end."""
        self._unseen: deque[tuple[int, int]] = deque()
        """Ends and sizes of what was appended and lies above the high watermark."""
        self._parked: list[tuple[FetchSession, SessionKey]] = []
        """Followers' sessions that need not look here before something happens."""

    def configure(self, rules: TopicRules) -> None:
        """Take over a topic's configuration as it is now."""
        settings = rules.settings
        self.log.config = rules.log_config
        self.flushes = rules.log_config.flush_messages < INT64_MAX
        self.min_insync_replicas = self.replica.min_insync_replicas = settings.min_insync_replicas
        self.rules = rules.batches
        self.recompress_to = rules.recompress_to
        self.compression_level = rules.compression_level
        index = self.key.partition
        self.throttled_as_leader = rules.as_leader.has(index)
        self.throttled_as_follower = rules.as_follower.has(index)
        if self.replica.settle():  # fewer copies may be enough now
            self.high_watermark_moved()

    def begin_epoch(self) -> None:
        """Begin to lead: the log notes where the epoch starts, and what is replicated already may be served."""
        self.log.begin_epoch(self.replica.leader_epoch)
        self._unseen.clear()
        self.verifications.clear()
        self.refused.clear()
        self.replica.epoch_start = self.log.log_end_offset
        self.replica.appended(self.log.log_end_offset)

    def check_writable(self, acks: int) -> None:
        """Raise the KafkaError for which a Produce with these acks is refused now, if there is one."""
        if self.is_offline:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"Partition {self.key} is in an offline log directory")
        if self.replica.role is not Role.LEADER or self.stores_truncation:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"Leader not local for partition {self.key} on broker {self.replica.node_id}",
            )
        if acks == -1 and not self.replica.has_enough_in_sync(self.min_insync_replicas):
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"The size of the current ISR {list(self.replica.isr)} is insufficient to satisfy "
                f"the min.isr requirement of {self.min_insync_replicas} for partition {self.key}",
            )

    def append_from_client(
        self,
        records: WritableBuffer,
        *,
        acks: int,
        now_ms: Millis,
        verification: Verification | None = None,
        is_checked: bool = False,
    ) -> AppendInfo:
        """Check a client's batch, unless that is done, and append it as the leader; raises KafkaError where it is refused.

        When this returns, the records are with the operating system, and everyone who waited for them was told. A batch
        of a transaction needs the `verification` that was begun before its coordinator was asked.
        """
        self.check_writable(acks)
        header = read_batch_header(records) if is_checked else admit_batch(records, self.rules, now_ms, self.log.name)
        if self.refused:
            self.refused.check(header, now_ms, str(self.key))
        try:
            if header.attributes & Attributes.TRANSACTIONAL:
                info = self._append_in_transaction(records, header, verification, now_ms)
            else:
                info = self._append(records, AppendOrigin.CLIENT, now_ms)
        except NoRoomError:
            self.refused.note(header, now_ms)
            raise
        if self.refused:
            self.refused.appended(header)
        return info

    def append_joined(self, batches: Sequence[tuple[WritableBuffer, BatchHeader]], *, acks: int, now_ms: Millis) -> int:
        """Append clients' batches by one write, as `append_from_client` would; return the first offset.

        They were checked (`admit_batch`) and are outside of transactions. -1 where they have to be appended one by one, each
        with an answer of its own: nothing was appended then, and a failure of the disk has cost what it costs.
        """
        planned = self.plan_joined(batches, acks=acks, now_ms=now_ms)
        try:
            return -1 if planned is None else self.append_planned(planned, acks=acks, now_ms=now_ms)
        except KafkaError:
            return -1

    def plan_joined(
        self, batches: Sequence[tuple[WritableBuffer, BatchHeader]], *, acks: int, now_ms: Millis
    ) -> JoinedAppend | None:
        """Return what `append_planned` appends of batches as `append_joined` takes them; None where it would not.

        Nothing was appended yet: several partitions can be asked before the first of them is written to.
        """
        if self.refused and self.refused.any_left(now_ms):
            return None
        try:
            self.check_writable(acks)
            return self.log.plan_joined(batches, now_ms=now_ms)
        except KafkaError:
            return None
        except StorageError as error:
            self._met(error, self)
            return None

    def append_planned(self, planned: JoinedAppend, *, acks: int, now_ms: Millis) -> int:
        """Append what was planned, and return the first offset.

        Raises the KafkaError with which each of its batches is answered: the disk failed, and nothing was appended.
        """
        self.check_writable(acks)  # another partition's write may have shown meanwhile that the disk is gone
        try:
            first = self.log.append_planned(planned, leader_epoch=self.replica.leader_epoch, now_ms=now_ms)
        except StorageError as error:
            if isinstance(error, NoSpaceError):
                for header, _, _ in planned.placed:
                    self.refused.note(header, now_ms)
            raise self._failed(error) from error
        self._grew(planned.size)
        return first

    def _append_in_transaction(
        self, records: WritableBuffer, header: BatchHeader, verification: Verification | None, now_ms: Millis
    ) -> AppendInfo:
        if verification is None:  # the request names no transactional id, so nobody has asked whether it may
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        self.check_transaction(header.producer_id, header.producer_epoch, header.base_sequence, verification)
        info = self._append(records, AppendOrigin.CLIENT, now_ms)
        self.verifications.end(header.producer_id)
        return info

    def check_transaction(self, producer_id: int, epoch: int, sequence: int, verification: Verification | None) -> None:
        """Raise the KafkaError for which what would begin a transaction here is refused (KIP-890)."""
        if self.verifies and not is_in_transaction(self.log, producer_id, epoch):
            self.verifications.check(self.log, producer_id, sequence, verification)

    def append_marker(self, marker: WritableBuffer, *, now_ms: Millis, is_bumped: bool) -> AppendInfo:
        """Append the end of a transaction; raises KafkaError where it is refused.

        `is_bumped` says that its epoch is one that no record of the transaction has (KIP-890), so that a marker which comes
        late can end nothing newer (KIP-1228). The marker of a transaction that has ended may come again.
        """
        self.check_writable(-1)
        header = read_batch_header(marker)
        entry = self.log.producers.entries.get(header.producer_id)
        if is_bumped and entry is not None and header.producer_epoch == entry.epoch and entry.transaction_offset >= 0:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"A marker of epoch {header.producer_epoch} cannot end the transaction of producer "
                f"{header.producer_id} in {self.key}, which has that epoch itself",
            )
        info = self._append(marker, AppendOrigin.COORDINATOR, now_ms)
        # With an epoch of its own it ends what came before that; who has it is asked about for the next transaction.
        self.verifications.end_before(header.producer_id, header.producer_epoch + (0 if is_bumped else 1))
        return info

    def append_from_coordinator(self, records: WritableBuffer, *, now_ms: Millis) -> AppendInfo:
        """Append a batch that a coordinator of this broker has made, as with acks=all; raises KafkaError where refused."""
        self.check_writable(-1)
        return self._append(records, AppendOrigin.COORDINATOR, now_ms)

    def append_as_follower(
        self, records: WritableBuffer, *, leader_epoch: int, high_watermark: int, log_start_offset: int, now_ms: Millis
    ) -> int:
        """Append what the leader of this epoch sent, and follow its high watermark and log start; return the bytes appended.

        Batches keep their offsets, epochs and everything else; one that the end of `records` cuts off is left for the next
        fetch. Raises KafkaError: CORRUPT_MESSAGE for a wrong checksum, OFFSET_OUT_OF_RANGE where this log does not go on
        here, KAFKA_STORAGE_ERROR where it cannot be written, NOT_LEADER_OR_FOLLOWER where this broker does not follow.
        """
        self._check_follows(leader_epoch)
        log = self.log
        replica = self.replica
        size = 0
        if len(records):
            try:
                size = log.append_replicated(records, leader_epoch=leader_epoch, now_ms=now_ms)
            except StorageError as error:
                raise self._failed(error) from error
        if replica.followed(log.log_end_offset, high_watermark):
            self._purgatory.advanced(self.key, replica.high_watermark, size)
        if log_start_offset > log.log_start_offset:
            self._follow_start(log_start_offset)
        return size

    def _check_follows(self, leader_epoch: int) -> None:
        if self.is_offline:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"Partition {self.key} is in an offline log directory")
        if self.replica.role is not Role.FOLLOWER or self.replica.leader_epoch != leader_epoch:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"Partition {self.key} does not follow in epoch {leader_epoch} on broker {self.replica.node_id}",
            )
        assert not self.stores_truncation, f"{self.key}: the truncation is not stored yet"

    def _follow_start(self, log_start_offset: int) -> None:
        """Delete what the leader has deleted."""
        start = min(log_start_offset, self.log.log_end_offset)
        try:
            self.log.delete_records_before(start)
        except StorageError as error:
            raise self._failed(error) from error
        self.replica.log_start_moved(self.log.log_start_offset)

    def truncate_to(self, offset: int) -> None:
        """Cut this copy from `offset` on, because the leader's differs from there; raises KafkaError where the disk fails.

        Until the recovery points are stored (`Storage.checkpoints`, then `truncation_stored`) nothing may be appended.
        """
        if offset < self.replica.high_watermark:
            log.warning(
                "Truncating %s to offset %d below high watermark %d", self.key, offset, self.replica.high_watermark
            )
        self._cut(self.log.truncate_to, offset)

    def restart_at(self, offset: int) -> None:
        """Give up every record and go on at `offset`, because the leader's log begins there; as `truncate_to`."""
        self._cut(self.log.truncate_fully_and_start_at, offset)
        self.replica.log_start_moved(self.log.log_start_offset)

    def _cut(self, cut: Callable[[int], None], offset: int) -> None:
        before = self.log.truncations
        try:
            cut(offset)
        except StorageError as error:
            raise self._failed(error) from error
        if self.log.truncations != before:
            self.stores_truncation = True
        self.replica.truncated(self.log.log_end_offset)

    def truncation_stored(self) -> None:
        """Called when the recovery points were stored after a truncation."""
        self.stores_truncation = False

    def _failed(self, error: StorageError) -> KafkaError:
        """Return what to raise for a disk's failure, after it has cost what it costs."""
        self._met(error, self)
        text = str(error).removeprefix(f"{error.path}: ")  # where the disk is mounted is for the log, not for clients
        kind = NoRoomError if isinstance(error, NoSpaceError) else KafkaError
        return kind(ErrorCode.KAFKA_STORAGE_ERROR, f"Partition {self.key}: {text}")

    def _append(self, records: WritableBuffer, origin: AppendOrigin, now_ms: Millis) -> AppendInfo:
        replica = self.replica
        log = self.log
        try:
            info = log.append(records, leader_epoch=replica.leader_epoch, now_ms=now_ms, origin=origin)
        except StorageError as error:
            raise self._failed(error) from error
        self._grew(info.size)
        return info

    def _grew(self, size: int) -> None:
        """Have everybody know of so many bytes that were appended."""
        replica, end = self.replica, self.log.log_end_offset
        if replica.has_followers:
            self._append_replicated(end, size)
        elif replica.appended(end):
            self._purgatory.advanced(self.key, replica.high_watermark, size)

    def _append_replicated(self, end: Offset, size: int) -> None:
        """Note an append that followers have to fetch before consumers may see it."""
        self.wake_followers()
        unseen = self._unseen
        known = unseen.pop()[1] if len(unseen) >= UNSEEN_MAX else 0
        unseen.append((end, known + size))
        moved = self.replica.appended(end)
        self._purgatory.appended(self.key, size)
        if moved:
            self.high_watermark_moved()

    def fetched_by(
        self,
        follower: NodeId,
        *,
        fetch_offset: Offset,
        log_start_offset: Offset,
        now_s: float,
        broker_epoch: int,
        is_eligible: bool,
        confirmed_s: float = NEVER,
    ) -> None:
        """Note how far a follower is, and tell those who waited for that."""
        moved = self.replica.fetched_by(
            follower,
            fetch_offset=fetch_offset,
            log_start_offset=log_start_offset,
            now_s=now_s,
            broker_epoch=broker_epoch,
            is_eligible=is_eligible,
            confirmed_s=confirmed_s,
        )
        if moved:
            self.high_watermark_moved()
        for look in tuple(self.deletions):
            look()

    def park(self, session: FetchSession, key: SessionKey, follower: NodeId) -> bool:
        """Look no more at a follower that has everything and knows it, until something happens; False where it has not."""
        if self.is_offline or not self.replica.park(follower, session.last_fetch):
            return False
        session.park(key, self)
        self._parked.append((session, key))
        return True

    def wake_followers(self) -> None:
        """Have the next fetch of every follower look here; to be called before anything that they see changes."""
        if self._parked:
            self.replica.wake_followers()
            parked, self._parked = self._parked, []
            for session, key in parked:
                wait = session.woken(key)
                if wait is not None and not wait.done:
                    self._purgatory.list_follower_fetch(wait, self.key)

    def log_start_moved(self) -> None:
        """Take note that the log begins later than it did, and let followers hear of it."""
        self.wake_followers()
        self.replica.log_start_moved(self.log.log_start_offset)
        self._purgatory.tell_followers(self.key)

    def high_watermark_moved(self) -> None:
        """Tell those who wait for the high watermark that it has moved, and how much can be read now."""
        self.wake_followers()
        unseen = self._unseen
        high_watermark = self.replica.high_watermark
        size = 0
        while unseen and unseen[0][0] <= high_watermark:
            size += unseen.popleft()[1]
        self._purgatory.advanced(self.key, high_watermark, size or 1)

    def housekeep(self, now_ms: Millis) -> list[str]:
        """Apply retention below the high watermark; return the files whose time has come to be unlinked."""
        if self.being_cleaned:
            return []
        start = self.log.log_start_offset
        gone = self.log.housekeep(now_ms, high_watermark=self.replica.high_watermark)
        self.verifications.expire(now_ms - self.log.producers.expiration_ms)
        if self.log.log_start_offset != start:
            self.log_start_moved()
        self.replica.appended(self.log.log_end_offset)
        return gone

    def last_stable_offset(self) -> Offset:
        """Return the offset below which every transaction has ended, as far as it is replicated (KIP-98)."""
        return self.log.stable_until(self.replica.high_watermark)

    def aborted_transactions(
        self, offset: int, upper_bound: int, found: LogSlice | None = None
    ) -> list[AbortedTransaction] | None:
        """Return what `Log.aborted_transactions` does; None while the log is read for it in a worker process.

        Then clients' fetches are woken when that is done. Raises the StorageError that kept it from being done.
        """
        aborted, doubt = self.log.known_aborted(offset, upper_bound, found)
        if doubt is None:
            return aborted
        error, self._unexamined = self._unexamined, None
        if error is not None:
            raise error
        self._examine_soon(doubt)
        return None

    async def know_aborted(self, offset: int, upper_bound: int) -> None:
        """Return when `aborted_transactions` answers; raises StorageError."""
        while (doubt := self.log.known_aborted(offset, upper_bound)[1]) is not None and not self.is_offline:
            await asyncio.wait((self._examine_soon(doubt),))
            error, self._unexamined = self._unexamined, None
            if error is not None:
                raise error

    def _examine_soon(self, doubt: Doubt) -> asyncio.Task[None]:
        running = self._examining
        if running is None or running.done():
            serves = f"read_committed fetches from {self.key}"
            running = self._examining = supervise(self._examine(doubt), name="examine transactions", serves=serves)
        return running

    async def _examine(self, doubt: Doubt) -> None:
        log.info("%s: reading from offset %d on which transactions were aborted", self.key, doubt.wanted)
        try:
            self.log.take_examined(await self._offload.background(examine, self.log_dir.disk, doubt))
        except StorageError as error:
            has_gone = isinstance(error, MissingFileError) and error.path not in [
                each.file.path for each in self.log.segments
            ]
            self._unexamined = None if has_gone else error  # whoever asks again has another doubt then
        except BrokenExecutor:
            text = f"{self.key}: the process that looked for aborted transactions was killed, twice"
            log.error("%s; whoever asks again has it tried again", text)
            self._unexamined = NoSpaceError(text)  # most often for want of memory; the log and its disk are well
        finally:
            self._purgatory.look_again(self.key)

    @property
    def must_flush(self) -> bool:
        """True where `flush.messages` asks that what was appended is on the device before it is acknowledged."""
        return self.flushes and self.log.unflushed >= self.log.config.flush_messages

    async def flush(self) -> None:
        """Make durable everything that was appended before this call; one fsync serves all who wait (group commit).

        What is cut meanwhile is not waited for: whoever acknowledges looks whether the partition is led still. Raises
        KafkaError with KAFKA_STORAGE_ERROR where the disk fails, after which nothing of the directory is trusted, and where
        it is full, or the partition is dropped meanwhile.
        """
        end = self.log.log_end_offset
        while self.log.recovery_point < min(end, self.log.log_end_offset) and not self.is_offline:
            running = self._running_flush
            if running is None:
                running = self._flush = awaited(self._flush_once())  # a task: no caller's end cancels it
            await asyncio.shield(running)
        if self.is_offline:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)

    @property
    def _running_flush(self) -> asyncio.Future[None] | None:
        """The flush under way, or what keeps one from beginning.

        A future that is done no longer counts, whether its callbacks have run or not: awaiting it would not let them run.
        """
        return None if self._flush is None or self._flush.done() else self._flush

    async def quiet(self) -> None:
        """Return once no flush is running; until the caller lets others run, none begins."""
        while (running := self._running_flush) is not None:
            await asyncio.shield(running)

    async def instead_of_flush(self, work: Coroutine[Any, Any, T]) -> T:
        """Do something while no flush is running, and none begins before it has ended, with or without the caller."""
        try:
            while (running := self._running_flush) is not None:
                await asyncio.shield(running)
        except BaseException:
            work.close()
            raise
        task = awaited(work)
        self._flush = ended = asyncio.get_running_loop().create_future()

        task.add_done_callback(lambda _: ended.set_result(None))
        return await asyncio.shield(task)

    async def _flush_once(self) -> None:
        try:
            self.log.settle()
            await self.on_thread(self.log.flush)
        except StorageError as error:
            raise self._failed(error) from error

    async def on_thread(self, call: Callable[..., T], /, *args: object) -> T:
        """Run a call that uses the log's files on a thread; `when_idle` waits for its end even where the caller does not."""
        self._working += 1
        work = awaited(self._offload.thread(call, *args))
        work.add_done_callback(self._worked)
        return await asyncio.shield(work)

    def _worked(self, done: asyncio.Future[Any]) -> None:
        self._working -= 1
        if not done.cancelled():
            done.exception()  # whoever waited for it has it
        if not self._working:
            waiting, self._idle = self._idle, []
            for each in waiting:
                each()

    def when_idle(self, act: Callable[[], None]) -> None:
        """Do something to the log's folder, now or as soon as no thread uses its files."""
        if self._working:
            self._idle.append(act)
        else:
            act()

    def go_offline(self) -> None:
        """Answer everything with KAFKA_STORAGE_ERROR from now on."""
        self.wake_followers()
        self.is_offline = True
        self._purgatory.interrupt(self.key)
