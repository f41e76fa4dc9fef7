"""The metadata quorum's driver: decides, appends, makes durable, applies, and answers when committed.

It performs what the Raft core asks for, in the order which `Ready` states, on the log of `__cluster_metadata-0`. Many
decisions may be in flight: each sees the image that those before it will leave, and one fsync, on a thread, makes all of
them durable that were appended before it began (group commit).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from ottla.background import keep_running, supervise
from ottla.base import (
    Clock,
    ConfigError,
    CorruptionError,
    ErrorCode,
    KafkaError,
    LeaderEpoch,
    Millis,
    NodeId,
    NoSpaceError,
    Offload,
    Offset,
    Rng,
    StorageError,
)
from ottla.broker.quorum.effects import LogEffects
from ottla.broker.quorum.freshness import Freshness
from ottla.broker.quorum.images import Images
from ottla.broker.quorum.leadership import LeadershipListener, QuorumLeadership
from ottla.broker.quorum.log import MetadataLog
from ottla.broker.quorum.membership import Membership
from ottla.broker.quorum.peers import QuorumNetwork, QuorumPeers
from ottla.broker.quorum.room import AGAIN_S, Room
from ottla.broker.quorum.settings import QuorumSettings, QuorumStatus, progress_text
from ottla.broker.quorum.snapshot import encode_records
from ottla.broker.quorum.snapshotting import Snapshotting
from ottla.broker.quorum.times import QuorumTimes
from ottla.broker.quorum.waiters import Waiters
from ottla.broker.requests.answers import Deferred
from ottla.log import Disk
from ottla.metadata import (
    EMPTY_IMAGE,
    Delta,
    Endpoint,
    Image,
    Record,
    decide,
    delta_between,
)
from ottla.raft import (
    BeginEpoch,
    Envelope,
    EpochRefused,
    FetchReply,
    Message,
    Raft,
    Ready,
    ReplicaKey,
    SnapshotId,
    VoterSet,
)

__all__ = ["LeadershipListener", "Listener", "Quorum", "QuorumNetwork", "QuorumSettings", "QuorumStatus"]

T = TypeVar("T")
Listener = Callable[[Image, Image, Delta], None]
"""Called on the event loop with the image before, the image now and what differs; must neither block nor raise."""

log = logging.getLogger(__name__)

IN_FLIGHT_MAX = 10_000
"""Decisions that may wait for their commit: far beyond what connections can ask, so that only a stuck disk meets it."""

RESIGN_SECONDS = 1.0
"""How long a leader that stops lets its farewell travel."""

BATCH_RECORDS_MAX = 10_000
"""Records in one batch, so that no batch grows past what a fetch carries; only fencing a large broker takes several."""


class Quorum:
    """The one owner of `__cluster_metadata-0` in this process.

    Without `network` it is a quorum of one voter. `on_failure` is called once if the metadata
    log's disk fails: what is not committed then is lost to this process, and it must stop. A disk that has no room (see
    `Room`) is no such failure: an append that finds none has not happened, everything else waits for room.
    """

    def __init__(
        self,
        *,
        key: ReplicaKey,
        folder: str,
        disk: Disk,
        settings: QuorumSettings,
        clock: Clock,
        rng: Rng,
        offload: Offload,
        static_voters: VoterSet | None = None,
        network: QuorumNetwork | None = None,
        on_failure: Callable[[StorageError], None] | None = None,
    ) -> None:
        self.key = key
        self._folder = folder
        self._disk = disk
        self._settings = settings
        self._clock = clock
        self._rng = rng
        self._offload = offload
        self._static_voters = static_voters
        self._on_failure = on_failure
        self._listeners: list[Listener] = []
        self._leadership = QuorumLeadership()
        self.times = QuorumTimes()
        self._peers = None if network is None else self._meet(network)
        self._transport = None if self._peers is None else self._peers.transport
        self._images = Images(lambda batches: self._log.decode_records(batches))
        self._waiters = Waiters()
        self._tasks: set[asyncio.Task[None]] = set()
        self._persisting: asyncio.Task[None] | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._flushing = False
        self._room = Room()
        self._stalled = False
        self._timer: asyncio.TimerHandle | None = None
        self._failed: StorageError | None = None
        self._stopped = False

    # What others ask

    async def start(self) -> None:
        """Replay snapshot and log, win the election where this node is the only voter; then the image is ready on return.

        A new cluster gets its first records here. Among several voters, `ready` waits for their leader.
        """
        self._loop = asyncio.get_running_loop()
        self._started_at, self._started_ms = self._loop.time(), self._clock.now_ms()
        self._freshness = Freshness(self._started_at)
        self._log = MetadataLog.open(
            self._disk,
            self._folder,
            segment_bytes=self._settings.segment_bytes,
            segment_ms=self._settings.segment_ms,
            now_ms=self._now(),
            reserve_bytes=self._settings.reserve_bytes,
        )
        self._snapshots = Snapshotting(self._settings, self._log, self._room)
        voters = self._images.replay(self._log, self._static_voters or VoterSet())
        self._raft = Raft(
            self.key,
            voters=voters,
            log=self._log.view,
            election=self._log.read_election(),
            rng=self._rng,
            now=self._now(),
            config=replace(self._settings.raft, bootstrap=() if self._peers is None else tuple(self._peers.bootstrap)),
        )
        self._effects = LogEffects(
            node_id=self.key.id,
            raft=self._raft,
            log=self._log,
            images=self._images,
            waiters=self._waiters,
            room=self._room,
        )
        if self._transport is None and voters.latest.others(self.key.id):
            raise ConfigError(
                "controller.quorum.voters",
                ",".join(map(str, voters.latest.ids)),
                "this version runs a quorum of one voter, its own node",
            )
        self._tick()
        if self._peers is not None:
            keep, serves = self._peers.membership.keep, "the metadata quorum"
            self._keeping = keep_running(keep, name="keep voters", serves=serves, loop=self._loop)
        if voters.latest.ids == (self.key.id,) and voters.latest.has(self.key):
            try:
                await self._open_cluster()
            except KafkaError:
                if self._room.missing is not None:
                    raise self._room.missing from None
                raise

    async def ready(self) -> None:
        """Return once a leader is known and the image is as new as it was when the leader first answered."""
        await self._leadership.until(self._is_ready, lambda: progress_text(self._raft, self._obstacles()))

    def _obstacles(self) -> list[str]:
        return [] if self._peers is None else self._peers.transport.obstacles()

    def _is_ready(self) -> bool:
        if self._failed is not None:
            raise self._failed
        if not self._images.published.metadata_version:
            return False
        if self._raft.is_leader:
            return True
        watermark = self._freshness.leader_watermark
        return watermark is not None and self._raft.high_watermark >= watermark

    async def _open_cluster(self) -> None:
        """Write a new cluster's first records; nothing where there is one."""
        await self._settled()
        formatted = self._log.bootstrap_records() if not self._images.latest.metadata_version else ()
        least = self._settings.min_insync_replicas
        await self.submit(lambda image: decide.bootstrap(image, formatted, min_insync_replicas=least))

    async def _open_cluster_once(self) -> None:
        try:
            await self._open_cluster()
        except KafkaError as error:
            log.info("The cluster's first records are left to the next leader: %s", error)

    async def _settled(self) -> None:
        """Return once no election state is on its way to the disk; until then the newest image may lack the log's end."""
        while self._persisting is not None:
            if self._stalled:
                raise self._room.refusal()
            await asyncio.wait({self._persisting}, timeout=AGAIN_S)

    async def stop(self) -> None:
        """Finish the commits in flight, resign, and close the log cleanly."""
        self._stopped = True
        self._quiet()
        if self._failed is None and len(self._raft.voters) > 1:
            self._raft.resign(self._now())
            self._pump()
        if self._transport is not None:
            self._transport.give_up(EpochRefused(self._raft.epoch, None))
            await self._transport.close(linger_s=RESIGN_SECONDS if len(self._raft.voters) > 1 else 0)
        while self._tasks:
            await asyncio.wait(self._tasks)
        self._waiters.release(KafkaError(ErrorCode.NOT_CONTROLLER, "the node is shutting down"))
        await self._offload.thread(self._log.close, self._failed is None)

    def abandon(self) -> None:
        """Stop as a crash would: the node could not start."""
        self._stopped = True
        self._quiet()
        for task in self._tasks:
            task.cancel()
        if self._transport is not None:
            self._transport.abandon()

    def _quiet(self) -> None:
        """Do nothing any more of itself."""
        if self._timer is not None:
            self._timer.cancel()
        if self._keeping is not None:
            self._keeping.cancel()

    @property
    def image(self) -> Image:
        """The committed image: what every reader may see."""
        return self._images.published

    @property
    def is_leader(self) -> bool:
        """True while this node decides for the cluster."""
        return self._raft.is_leader and not self._stalled

    @property
    def kraft_version(self) -> int:
        """The quorum's own feature level: 0 under static voters, 1 where voters are records (KIP-853)."""
        return self._raft.voter_history.kraft_version

    @property
    def status(self) -> QuorumStatus:
        """How the quorum stands, as this node knows."""
        return QuorumStatus.of(self._raft)

    def subscribe(self, listener: Listener) -> None:
        """Call this listener at each committed change of the image, in order; at once where there is an image already."""
        self._listeners.append(listener)
        if self._images.published is not EMPTY_IMAGE:
            listener(EMPTY_IMAGE, self._images.published, delta_between(EMPTY_IMAGE, self._images.published))

    async def submit(
        self,
        decision: Callable[[Image], decide.Decision[T]],
        *,
        timeout_ms: int | None = None,
        makes_room: bool = False,
    ) -> T:
        """Run a decision on the leader's newest image and return its response once what it saw and wrote is committed.

        The decision must be pure: it runs once, on the loop; one that `makes_room` may have the log's `Reserve`. Raises
        NOT_CONTROLLER where this node does not lead, or lost the leadership before the commit: then nobody may assume that
        the records were written, nor that they were not. Nor may anybody after REQUEST_TIMED_OUT (`timeout_ms`).
        """
        await self._settled()
        self._check_decides()
        if len(self._waiters) >= IN_FLIGHT_MAX:
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "too many metadata changes wait for their commit")
        decided = decision(self._images.latest)
        for start in range(0, len(decided.records), BATCH_RECORDS_MAX):
            self._propose(decided.records[start : start + BATCH_RECORDS_MAX])
        if makes_room:
            self._log.reserve.promise(self._images.latest.offset)
        if self._images.latest.offset >= self._raft.high_watermark:
            await self._answered(self._images.latest.offset, timeout_ms)
        return decided.response

    def _check_decides(self) -> None:
        if self._failed is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(self._failed))
        if not self._raft.is_leader or self._stopped:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, f"node {self.key.id} does not lead the metadata quorum")

    async def _answered(self, offset: Offset, timeout_ms: int | None, *, waits: bool = True) -> None:
        """Perform what was appended, and return once everything up to this offset is committed."""
        if not waits:
            self._pump()
            if offset >= self._raft.log.end_offset:
                raise self._effects.no_room()
            return
        began_s = self._loop.time()
        future = self._waiters.add(offset, self._raft.epoch)
        self._pump()
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                await future
            self.times.committed(began_s, self._loop.time())
        except TimeoutError:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "The request timed out.") from None

    @property
    def is_alone(self) -> bool:
        """True where this node is the only voter."""
        return self._raft.voters.ids == (self.key.id,)

    def subscribe_leadership(self, listener: LeadershipListener) -> None:
        """Call this listener whenever the quorum's leader changes; at once where one is known."""
        self._leadership.subscribe(listener)

    @property
    def leader(self) -> tuple[NodeId | None, LeaderEpoch]:
        """Who leads the quorum as far as this node knows, and in which epoch."""
        raft = self._raft
        known = raft.leader_id if raft.leader_id != self.key.id or raft.is_leader else None
        return known, raft.epoch

    def controller_endpoint(self, node_id: NodeId) -> Endpoint | None:
        """Return where a controller listens for other nodes; None where that is not known, or nobody else is there."""
        return None if self._peers is None else self._peers.endpoint_of(node_id)

    # The other replicas

    @property
    def cluster_id(self) -> str:
        """The cluster's id, which every request of the quorum names."""
        return "" if self._peers is None else self._peers.network.cluster_id

    @property
    def voters(self) -> VoterSet:
        """Who votes, by the newest word of the log."""
        return self._raft.voters

    def _meet(self, network: QuorumNetwork) -> QuorumPeers:
        raft = self._settings.raft
        return QuorumPeers(
            self,
            network,
            receive=self.receive,
            disconnected=self._disconnected,
            limits=self._settings.limits,
            request_timeout_ms=raft.request_timeout_ms,
            period_ms=raft.fetch_timeout_ms,
        )

    def ask(self, source: NodeId, message: Message) -> Deferred[Message]:
        """Take in another node's request; the answer is a message of the core."""
        if self._transport is None or self._stopped or self._failed is not None or self._stalled:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "the metadata quorum's node is stopping, or has no room")
        return self._transport.ask_core(source, message)

    def tell(self, source: NodeId, message: Message) -> None:
        """Take in what needs no answer of the core's."""
        self.receive(Envelope(source, self.key.id, message))

    @property
    def log_start_offset(self) -> Offset:
        """Where the log begins; what is before is in snapshots."""
        return self._raft.log.start_offset

    def snapshot_size(self, snapshot: SnapshotId) -> int | None:
        """Return how many bytes a snapshot has; None where this node does not hold it."""
        return self._log.snapshot_size(snapshot)

    def learn(self, node_id: NodeId, host: str, port: int) -> None:
        """Remember where a node has said that it listens."""
        if self._transport is not None:
            self._transport.learn(node_id, host, port)

    async def change_voters(
        self, change: Callable[[VoterSet], VoterSet], *, timeout_ms: int, until_committed: bool = True
    ) -> None:
        """Append a changed voter set, and return once it is committed by the new one."""
        await self._settled()
        self._check_decides()
        offset = self._raft.propose_voters(change(self._raft.voters), self._now())
        await self._answered(offset, timeout_ms if until_committed else None, waits=until_committed)

    async def record_voters(self, voters: VoterSet, level: int) -> None:
        """Append a higher `kraft.version` and with it the voters, and return once both are committed."""
        await self._settled()
        self._check_decides()
        offset = self._raft.propose_kraft_version(level, voters, self._now())
        await self._answered(offset, None)

    def now_ms(self) -> Millis:
        """Return the time on the clock of the quorum, which never goes back."""
        return self._now()

    def receive(self, envelope: Envelope) -> None:
        """Take in a message from another voter or an observer."""
        if self._stopped or self._failed is not None or self._stalled:
            return
        reply = envelope.message if isinstance(envelope.message, FetchReply) else None
        if reply is not None:
            self._freshness.heard(reply, self._raft.epoch)
        asked_ms = self._raft.asked_at
        try:
            self._raft.step(envelope, self._now())
        except CorruptionError as error:  # what was committed is gone elsewhere: to follow would lose it here, too
            self._fail(error)
            return
        self._pump()
        if asked_ms is not None and reply is not None:
            asked_s = self._started_at + (asked_ms - self._started_ms) / 1000
            known_end = self._images.published.offset + 1
            self._freshness.took_in(reply, self._raft.epoch, known_end=known_end, asked_s=asked_s)

    @property
    def informed_s(self) -> float:
        """Since which time of the loop something may have been committed of which the image knows nothing yet."""
        return self._loop.time() if self.is_leader else self._freshness.informed_s

    def _disconnected(self, peer: NodeId) -> None:
        if not self._stopped and self._failed is None and not self._stalled:
            self._raft.disconnected(peer, self._now())
            self._pump()

    @property
    def membership(self) -> Membership:
        """Changes of the voters."""
        if self._peers is None:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "this quorum has no network")
        return self._peers.membership

    def _announce_leadership(self) -> None:
        """Tell who leads where that has changed; answer nobody any more who asked the leader that this node was."""
        self.times.saw(self._raft.role, self._loop.time())
        leader_id, epoch = self.leader
        known, is_self = self._leadership, self._raft.is_leader
        if (known.leader_id, known.epoch, known.is_self) == (leader_id, epoch, is_self):
            return
        if known.is_self and not is_self and self._transport is not None:
            self._transport.give_up(EpochRefused(epoch, leader_id))
        if is_self and not self._images.latest.metadata_version and not self.is_alone:
            self._run(self._open_cluster_once())
        known.changed(leader_id, epoch, is_self, is_news=not self.is_alone)

    # Deciding

    def _propose(self, records: Sequence[Record]) -> None:
        """Append a decision's records and let the next one see what they leave."""
        base_offset = self._raft.log.end_offset
        before = self._images.latest
        image = self._images.decided(records, base_offset, self._raft.epoch)
        level = image.metadata_version or before.metadata_version
        self._raft.propose(encode_records(records, level), self._now())

    def _now(self) -> Millis:
        """Return the wall clock's time as it was at the start, plus what has passed: it never goes back."""
        return Millis(self._started_ms + int((self._loop.time() - self._started_at) * 1000))

    # Performing what Raft asks for

    def _pump(self) -> None:
        while self._persisting is None and self._failed is None:
            ready = self._raft.ready()
            if not ready:
                break
            if ready.election is not None or not self._is_cut(ready):
                self._persisting = self._run(self._persist(ready))
            else:
                self._perform(ready)
        if self._persisting is None:
            self._announce_leadership()
        self._schedule()

    def _run(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = supervise(work, serves="the metadata quorum", failed=self._cannot_go_on, loop=self._loop)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _cannot_go_on(self, error: BaseException) -> None:
        self._fail(StorageError(f"the metadata quorum cannot go on: {error!r}"))

    async def _persist(self, ready: Ready) -> None:
        """Make the election state durable, and only then do the rest.

        Without room for it, or for a truncation, this replica waits as a process does that is paused: no vote is given, no
        epoch taken over, nothing heard and nothing said.
        """
        election, voters = ready.election, self._raft.voter_history
        try:
            while True:
                try:
                    if election is not None:
                        write = self._log.write_election
                        await self._offload.thread(write, election, voters.kraft_version, voters.latest)
                        election = None
                    self._effects.truncate(ready.truncate_to)
                except NoSpaceError as error:
                    self._room.missed(error)
                    self._stalled = True
                    self._drop_lost_waiters()
                    if self._stopped:
                        return
                    await asyncio.sleep(AGAIN_S)
                else:
                    break
        except StorageError as error:
            self._fail(error)
            return
        finally:
            self._persisting = None
            self._stalled = False
        self._perform(ready)
        self._pump()

    def _is_cut(self, ready: Ready) -> bool:
        """Cut the log as far as is asked for; False where that has to wait for room."""
        try:
            self._effects.truncate(ready.truncate_to)
        except NoSpaceError:
            return False
        except StorageError as error:
            self._fail(error)
        return True

    def _perform(self, ready: Ready) -> None:
        """Do what is left of it, once the election state is durable and the log is cut."""
        if self._failed is not None:
            return
        try:
            self._effects.append(ready.appends, self._now())
            for write in ready.snapshot_writes:
                if self._effects.write_part(write, self._now()) and write.last:
                    self._run(self._install(write.snapshot))
        except StorageError as error:
            self._fail(error)
            return
        if ready.appends and not self._flushing:
            self._flushing = True
            self._run(self._flush())
        for envelope in ready.messages:
            begins = isinstance(envelope.message, BeginEpoch)
            if self._transport is not None and (self._raft.is_leader or not begins):
                self._transport.send(self._effects.filled(envelope))
        if ready.committed is not None:
            self._commit(min(ready.committed, self._log.end_offset))
        self._drop_lost_waiters()

    async def _flush(self) -> None:
        """Make appended batches durable until there are none left; appends go on meanwhile and share the next round."""
        try:
            while self._log.flushed_offset < self._log.end_offset:
                self._log.begin_flush()
                if not await self._room.on_thread(self._offload, self._log.flush, stopped=lambda: self._stopped):
                    break
                self._raft.flushed(self._log.end_flush(), self._now())
                self._pump()
        except StorageError as error:
            self._fail(error)
        finally:
            self._flushing = False

    def _commit(self, high_watermark: Offset) -> None:
        published = self._images.commit(high_watermark)
        self._images.check()
        if published is not None:
            delta = delta_between(*published)
            for listener in self._listeners:
                listener(*published, delta)
            self._leadership.progressed()
        self._waiters.committed(high_watermark)
        ends = self._failed is not None or self._stopped
        if not ends and self._snapshots.is_due(self._images.committed, self._now()):
            self._snapshots.is_busy = True
            self._run(self._write_snapshot())

    def _drop_lost_waiters(self) -> None:
        self._waiters.led(self._raft.epoch if self._raft.is_leader else None)

    def _fail(self, error: StorageError) -> None:
        """The metadata log cannot be written: revert to what is committed, answer nobody with success, and stop."""
        if self._failed is not None:
            return
        self._failed = error
        log.error("metadata log failed: %s", error)
        self._images.revert()
        self._waiters.release(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the metadata log failed: {error}"))
        self._leadership.progressed()
        if self._transport is not None:
            self._transport.give_up(EpochRefused(self._raft.epoch, None))
        if self._on_failure is not None:
            self._on_failure(error)

    def _tick(self) -> None:
        self._timer = None
        if not self._stalled:
            self._raft.tick(self._now())
            self._pump()

    def _schedule(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._stopped and self._failed is None:
            delay_ms = max(self._raft.next_deadline - self._now(), 1)
            self._timer = self._loop.call_later(delay_ms / 1000, self._tick)

    # Snapshots

    async def _write_snapshot(self) -> None:
        image = self._images.committed
        voters = self._raft.voter_history.at(image.offset + 1)
        try:
            await self._snapshots.write(image, voters, self._now(), self._offload, moved=self._raft.snapshotted)
        except StorageError as error:
            self._fail(error)

    async def _install(self, snapshot: SnapshotId) -> None:
        """Load a snapshot fetched from the leader in place of the log."""
        try:
            loaded = await self._offload.thread(self._log.install, snapshot)
        except NoSpaceError as error:
            self._room.missed(error)
            self._raft.not_downloaded(snapshot, self._now())
            self._pump()
            return
        except StorageError as error:
            self._fail(error)
            return
        self._images.revert(loaded.image)
        self._raft.installed(snapshot, loaded.voters or self._raft.voter_history, self._now())
        self._commit(snapshot.end_offset)
        self._pump()
