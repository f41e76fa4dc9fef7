"""Following one leader: a fetch session over one connection, whose answers go into the logs as they arrive.

The next fetch leaves as soon as an answer is appended, since it is what moves the leader's high watermark; no task is woken
for that. A partition with an error waits by itself, and what takes more than a moment (a truncation that has to be stored, a
log that begins or ends elsewhere, a flush that a topic asks for) is a `Repair`, during which the partition is left out.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush

from ottla import __version__
from ottla.background import keep_running, note_failure, supervise
from ottla.base import Clock, ErrorCode, KafkaError, NodeId, WireError
from ottla.broker.configuration import Configuration
from ottla.broker.replicas.followed_partition import BACKOFF_S_MIN, NOT_ASKED, FollowedPartition
from ottla.broker.replicas.follower_recovery import FollowerRecovery
from ottla.broker.replicas.replication_meters import ReplicationMeters
from ottla.broker.replicas.throttles import ReplicationThrottle
from ottla.client import Address, Connection
from ottla.config import BrokerSettings
from ottla.metadata import Image
from ottla.net import Network, ReceiveBuffer
from ottla.replica import FollowedKey, FollowerSession
from ottla.wire import (
    REPLICA_FETCH_VERSIONS,
    ApiKey,
    ReplicaFetchedPartition,
    read_replica_fetch,
    replica_fetch,
)

__all__ = ["Fetcher", "Following"]

log = logging.getLogger(__name__)

SLICE_S = 0.002
"""How long the partitions of one answer may hold the loop before others have their turn."""
CONNECT_S = 5.0
RECONNECT_S_MIN = 0.05
"""The first wait before the leader is connected to again; it doubles up to `replica.fetch.backoff.ms`."""
CUT_SHORT_PARTITIONS_MAX = 1000
"""With more partitions than this, those that are added wait until the fetch that is under way is answered."""
CUT_SHORT_S = 0.02
"""How old a fetch has to be before it is given up for what was added meanwhile: additions come together."""
BUSY_WAIT_MS = 10
"""How long the leader may hold a fetch while repairs are under way, whose partitions want to be asked for soon."""
REFUSED = (ErrorCode.SASL_AUTHENTICATION_FAILED, ErrorCode.UNSUPPORTED_SASL_MECHANISM)
"""What does not pass by itself: TLS or a login has failed."""
SESSION_ERRORS = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    ErrorCode.INCONSISTENT_TOPIC_ID,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Following:
    """What all fetchers of a broker share."""

    node_id: NodeId
    loop: asyncio.AbstractEventLoop
    clock: Clock
    network: Network
    listener: str
    configuration: Configuration
    image: Callable[[], Image]
    broker_epoch: Callable[[], int]
    """Of this process's registration, which the image may not show yet."""
    repairs: FollowerRecovery
    meters: ReplicationMeters
    throttle: ReplicationThrottle
    buffer: ReceiveBuffer
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    """FollowerRecovery under way, also of fetchers that are gone."""

    @property
    def settings(self) -> BrokerSettings:
        """The broker's settings as they are now."""
        return self.configuration.broker.settings


class Fetcher:
    """Follows the partitions that it was given on one leader; `index` tells several fetchers of one leader apart."""

    def __init__(self, leader: NodeId, index: int, following: Following) -> None:
        self.leader = leader
        self.index = index
        self._following = following
        self._loop = following.loop
        self._partitions: dict[FollowedKey, FollowedPartition] = {}
        self._session = FollowerSession()
        self._waiting: list[tuple[float, int, FollowedPartition]] = []
        self._count = 0
        self._repairing = 0
        self._connection: Connection | None = None
        self._answer: _Answer
        self._address: Address | None = None
        self._version = REPLICA_FETCH_VERSIONS[1]
        self._lost = asyncio.Event()
        self._run_task: asyncio.Task[None] | None = None
        self._asked_s = 0.0
        self._in_flight = False
        self._rest: Iterator[ReplicaFetchedPartition] | None = None
        self._handles: dict[str, asyncio.Handle] = {}
        self._to_repair: list[FollowedPartition] = []
        self._failures = 0

    def __len__(self) -> int:
        return len(self._partitions)

    def __iter__(self) -> Iterator[FollowedPartition]:
        return iter(self._partitions.values())

    # -- what is followed

    def add(self, followed: FollowedPartition) -> None:
        """Follow a partition from now on."""
        self._partitions[followed.key] = followed
        partition = followed.partition
        if partition.stores_truncation:  # of an earlier epoch, by another fetcher
            self._wait(followed, BACKOFF_S_MIN)
        elif partition.log.leader_epochs.latest < 0 and partition.log.log_end_offset > partition.replica.high_watermark:
            try:
                partition.truncate_to(
                    partition.replica.high_watermark
                )  # without epochs nobody can tell where the logs part
            except KafkaError as error:
                self._fail(followed, error)
                return
            self._repair_later(followed)
            self._begin_repairs()
        else:
            self._session.want(followed.key)
        self._poke()

    def remove(self, key: FollowedKey) -> None:
        """Follow a partition no longer."""
        followed = self._partitions.pop(key, None)
        if followed is not None:
            followed.asked_offset = NOT_ASKED
            self._session.drop(key)
            if not self._partitions:
                self.close()

    def broker_changed(self) -> None:
        """Called when the leader has registered anew: it may be reached elsewhere, or be another process."""
        if self._connection is not None and self._endpoint() != self._address:
            self._lost.set()

    def end(self) -> None:
        """Follow nothing any more; once the repairs under way have ended, no log is changed from here."""
        self._partitions.clear()  # a repair that comes to its end must not begin to fetch again
        self.close()

    def close(self) -> None:
        """Let go of the leader."""
        for handle in self._handles.values():
            handle.cancel()
        self._handles.clear()
        if self._run_task is not None:
            self._run_task.cancel()
            self._run_task = None
        self._hang_up()

    @property
    def lag_max(self) -> int:
        """The largest lag of a partition."""
        return max((each.lag for each in self._partitions.values()), default=0)

    @property
    def failed_count(self) -> int:
        """Partitions that are not fetched until the metadata says something new."""
        return sum(each.failed for each in self._partitions.values())

    # -- the connection

    def _poke(self) -> None:
        """Have something fetched soon that was not in the last request."""
        if self._run_task is None:
            name, serves = f"follow {self.leader}", "replicas that follow"
            self._run_task = keep_running(self._run, name=name, serves=serves, reset=self._hang_up, loop=self._loop)
        elif self._in_flight:
            if len(self._session) <= CUT_SHORT_PARTITIONS_MAX:
                self._later("cut short", max(0.0, self._asked_s + CUT_SHORT_S - self._loop.time()), self._cut_short)
        elif self._connection is not None and self._rest is None:
            self._later("send", 0.0, self._send)

    def _later(self, name: str, delay_s: float, call: Callable[[], None]) -> None:
        """Call this after a delay, unless it is to be called anyhow."""
        if name in self._handles:
            return

        def due() -> None:
            del self._handles[name]
            call()

        self._handles[name] = self._loop.call_later(delay_s, due)

    def _cut_short(self) -> None:
        """Give up a fetch that the leader holds because nothing comes, for what has to be asked meanwhile."""
        if self._in_flight and self._rest is None:
            self._failures = 0
            self._lost.set()

    async def _run(self) -> None:
        """Keep a connection to the leader."""
        backoff_s = 0.0
        while self._partitions:
            if backoff_s:
                await asyncio.sleep(backoff_s)
            self._failures += 1
            try:
                await self._connect()
            except KafkaError as error:
                is_new = error.code in REFUSED and self._failures == 1
                level = logging.WARNING if is_new else logging.DEBUG
                log.log(level, "Broker %d, which is followed, cannot be reached: %s", self.leader, error)
            else:
                self._send()
                await self._lost.wait()
            self._hang_up()
            most_s = self._following.settings.replica_fetch_backoff_ms / 1000
            # an answer has come since: then it is worth trying at once
            backoff_s = min(RECONNECT_S_MIN * 2.0 ** (self._failures - 1), most_s) if self._failures else 0.0

    async def _connect(self) -> None:
        address = self._endpoint()
        if address is None:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"broker {self.leader} is not registered")
        following = self._following
        self._lost.clear()
        connection = await Connection.open(
            following.network,
            address,
            client_id=f"broker-{following.node_id}-fetcher-{self.index}",
            software_version=__version__,
            timeout_s=CONNECT_S,
            buffer=following.buffer,
        )
        lowest, highest = REPLICA_FETCH_VERSIONS
        try:
            self._version = connection.version_for(ApiKey.FETCH, lowest=lowest, highest=highest)
        except KafkaError:
            connection.close()
            raise
        self._connection = connection
        self._answer = _Answer(self, connection)
        self._address = address
        self._session.reset()

    def _endpoint(self) -> Address | None:
        broker = self._following.image().brokers.get(self.leader)
        found = None if broker is None else broker.endpoint(self._following.listener)
        return None if found is None else Address(found.host, found.port)

    def _hang_up(self) -> None:
        connection, self._connection = self._connection, None
        self._in_flight = False
        self._rest = None
        if connection is not None:
            connection.close()

    # -- asking

    def _send(self) -> None:
        """Ask for what is to be fetched, or rest where nothing is."""
        connection = self._connection
        if connection is None or self._in_flight or self._rest is not None:
            return
        self._release_due()
        if not len(self._session):
            self._wake_when_due()
            return
        try:
            connection.post(self._request, self._answer)
        except KafkaError:
            self._lost.set()
            return
        self._in_flight = True
        self._asked_s = self._loop.time()
        self._later("watch", self._timeout_s, self._watch)

    def _request(self, correlation_id: int) -> bytearray:
        following, settings = self._following, self._following.settings
        wanted = self._session.next_request()
        topics: dict[bytes, list[tuple[int, int, int, int, int, int]]] = {}
        most = settings.replica_fetch_max_bytes
        for key in wanted.asked:
            followed = self._partitions[key]
            held_log = followed.partition.log
            followed.asked_offset = end = held_log.log_end_offset
            followed.asked_start = start = held_log.log_start_offset
            asked = (key[1], followed.leader_epoch, end, held_log.leader_epochs.latest, start, most)
            topics.setdefault(key[0], []).append(asked)
        forgotten: dict[bytes, list[int]] = {}
        for topic_id, index in wanted.forgotten:
            forgotten.setdefault(topic_id, []).append(index)
        return replica_fetch(
            self._version,
            correlation_id,
            f"broker-{following.node_id}-fetcher-{self.index}",
            topics,
            forgotten,
            replica_id=following.node_id,
            broker_epoch=following.broker_epoch(),
            max_wait_ms=self._max_wait_ms(settings),
            min_bytes=settings.replica_fetch_min_bytes,
            max_bytes=settings.replica_fetch_response_max_bytes,
            session_id=wanted.id,
            session_epoch=wanted.epoch,
        )

    def _max_wait_ms(self, settings: BrokerSettings) -> int:
        """Return how long the leader may hold the request: no longer than until something else has to be asked."""
        wait_ms = settings.replica_fetch_wait_max_ms
        if self._waiting:
            wait_ms = min(wait_ms, max(0, int((self._waiting[0][0] - self._loop.time()) * 1000) + 1))
        return min(wait_ms, BUSY_WAIT_MS) if self._repairing else wait_ms

    @property
    def _timeout_s(self) -> float:
        return self._following.settings.replica_socket_timeout_ms / 1000

    def _watch(self) -> None:
        """Give up a connection on which no answer comes; one look per timeout, not one timer per request."""
        left_s = self._asked_s + self._timeout_s - self._loop.time()
        if self._in_flight and left_s <= 0:
            log.warning("Broker %d, which is followed, does not answer", self.leader)
            self._lost.set()
        elif self._in_flight:
            self._later("watch", left_s, self._watch)

    # -- answers

    def answered(self, connection: Connection, frame: memoryview) -> None:
        """Take an answer."""
        if connection is not self._connection:
            return
        self._in_flight = False
        try:
            answer = read_replica_fetch(frame, self._version)
        except WireError as error:
            log.warning("Broker %d, which is followed, sent what cannot be read: %s", self.leader, error)
            self._lost.set()
            return
        if answer.error:
            self._session.reset()
            if answer.error in SESSION_ERRORS:
                self._send()
            else:
                log.info("Broker %d refuses to be followed: %s", self.leader, ErrorCode(answer.error).name)
                self._lost.set()
            return
        self._failures = 0
        self._session.answered(answer.session_id)
        self._rest = iter(answer.partitions)
        self._take_rest()

    def failed(self, connection: Connection) -> None:
        """Called when there will be no answer."""
        if connection is self._connection:
            self._lost.set()

    def _take_rest(self) -> None:
        """Take in the partitions of an answer, then ask for more."""
        rest = self._rest
        if rest is None:  # the connection was lost meanwhile
            return
        until_s = self._loop.time() + SLICE_S
        for each in rest:
            self._take(each)
            if self._loop.time() >= until_s:
                self._later("go on", 0.0, self._take_rest)
                return
        self._rest = None
        if self._to_repair:
            self._begin_repairs()
        self._send()

    def _take(self, answer: ReplicaFetchedPartition) -> None:
        followed = self._partitions.get((answer.topic_id, answer.partition))
        if followed is None:
            return
        partition = followed.partition
        if followed.asked_offset != partition.log.log_end_offset:  # out of date, or nothing was asked
            return
        if answer.error:
            self._refused(followed, ErrorCode(answer.error))
            return
        try:
            if answer.diverging_epoch >= 0:
                self._diverged(followed, answer.diverging_epoch, answer.diverging_end)
                return
            size = partition.append_as_follower(
                answer.records,
                leader_epoch=followed.leader_epoch,
                high_watermark=answer.high_watermark,
                log_start_offset=answer.log_start_offset,
                now_ms=self._following.clock.now_ms(),
            )
        except KafkaError as error:
            self._not_appended(followed, error)
            return
        followed.lag = max(0, answer.high_watermark - partition.log.log_end_offset)
        if size:
            followed.backoff_s = BACKOFF_S_MIN
            self._following.meters.bytes_in += size
            if partition.must_flush:
                self._repair_later(followed)
            elif not partition.throttled_as_follower or not self._throttled(followed, size):
                self._session.want(followed.key)
        elif len(answer.records):
            self._back_off(followed)
        elif partition.log.log_start_offset != followed.asked_start:
            self._session.want(followed.key)

    def _throttled(self, followed: FollowedPartition, size: int) -> bool:
        """Count what came of a partition with a limit; let it wait, and return True, where more may not come now."""
        throttle = self._following.throttle
        throttle.record(size)
        wait_s = throttle.wait_s() if followed.lag > 0 else 0.0
        if wait_s:
            self._wait(followed, wait_s)
        return wait_s > 0

    def _diverged(self, followed: FollowedPartition, epoch: int, end_offset: int) -> None:
        """Cut what the leader does not have; raises KafkaError where the disk fails."""
        partition = followed.partition
        epochs = partition.log.leader_epochs
        before = (epochs.latest, partition.log.log_end_offset)
        partition.truncate_to(epochs.parts_from(epoch, end_offset))
        if (epochs.latest, partition.log.log_end_offset) == before:
            log.error("%s has nothing to cut, and yet differs from broker %d's", partition.key, self.leader)
            self._back_off(followed)
        else:
            log.info(
                "%s was cut to offset %d, as on broker %d", partition.key, partition.log.log_end_offset, self.leader
            )
            self._repair_later(followed)

    def _refused(self, followed: FollowedPartition, code: ErrorCode) -> None:
        """Do what a leader's error asks for, as Kafka's replica fetcher does."""
        partition = followed.partition
        if code in (ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE):
            followed.out_of_range = True
            self._repair_later(followed)
        elif code is ErrorCode.FENCED_LEADER_EPOCH:
            # the leader knows a newer epoch: the metadata will say so here too, and then it is followed anew
            self._fail(followed, KafkaError(code, f"epoch {followed.leader_epoch} is over"))
        else:
            quiet = code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_LEADER_EPOCH)
            log.log(
                logging.DEBUG if quiet else logging.WARNING,
                "Broker %d answers %s for %s at offset %d in epoch %d",
                *(self.leader, code.name, partition.key, followed.asked_offset, followed.leader_epoch),
            )
            self._back_off(followed)

    def _not_appended(self, followed: FollowedPartition, error: KafkaError) -> None:
        if error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER:  # it became something else; we are told in a moment
            self._leave_out(followed)
        elif followed.partition.is_offline:
            self._fail(followed, error)
        else:
            log.error("What broker %d sent of %s is not appended: %s", self.leader, followed.partition.key, error)
            self._back_off(followed)

    # -- partitions that are left out for a while

    def _leave_out(self, followed: FollowedPartition) -> None:
        followed.asked_offset = NOT_ASKED
        self._session.drop(followed.key)

    def _fail(self, followed: FollowedPartition, error: KafkaError) -> None:
        """Fetch a partition no more, until the metadata says something new of it."""
        log.info("%s is not followed any more: %s", followed.partition.key, error)
        followed.failed = True
        self._leave_out(followed)

    def _back_off(self, followed: FollowedPartition) -> None:
        """Let a partition wait, longer with each error in a row."""
        self._wait(followed, followed.backoff_s)
        followed.backoff_s = min(2 * followed.backoff_s, self._following.settings.replica_fetch_backoff_ms / 1000)

    def _wait(self, followed: FollowedPartition, delay_s: float) -> None:
        self._leave_out(followed)
        self._count += 1
        heappush(self._waiting, (self._loop.time() + delay_s, self._count, followed))

    def _release_due(self) -> None:
        now_s = self._loop.time()
        while self._waiting and self._waiting[0][0] <= now_s:
            followed = heappop(self._waiting)[2]
            if self._partitions.get(followed.key) is not followed:
                continue
            if followed.partition.stores_truncation:
                self._wait(followed, BACKOFF_S_MIN)
            elif not followed.partition.throttled_as_follower or not self._throttled(followed, 0):
                self._session.want(followed.key)

    def _wake_when_due(self) -> None:
        if self._waiting:
            self._later("send", max(0.0, self._waiting[0][0] - self._loop.time()), self._send)

    def _repair_later(self, followed: FollowedPartition) -> None:
        self._leave_out(followed)
        self._to_repair.append(followed)

    def _begin_repairs(self) -> None:
        partitions, self._to_repair = self._to_repair, []
        self._repairing += 1
        task = supervise(self._repair(partitions), name="repair", serves="replicas that follow", loop=self._loop)
        self._following.tasks.add(task)
        task.add_done_callback(self._following.tasks.discard)

    async def _repair(self, partitions: list[FollowedPartition]) -> None:
        """Mend what keeps partitions from being fetched, then fetch them again."""
        try:
            mended = await self._following.repairs.mend(self.leader, partitions)
        except Exception as error:  # our own mistake: it is said, and tried again as what could not be mended
            note_failure("replicas that follow", "repair", error, consequence="it is tried again")
            mended = []
        finally:
            self._repairing -= 1
        for followed in partitions:
            if self._partitions.get(followed.key) is not followed:
                continue
            if followed.partition.is_offline:
                self._fail(followed, KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "its log directory is offline"))
            elif followed in mended:
                self._session.want(followed.key)
            else:
                self._back_off(followed)
        if self._partitions:
            self._poke()


class _Answer:
    """Who waits for the answer of one request."""

    __slots__ = ("_connection", "_fetcher")

    def __init__(self, fetcher: Fetcher, connection: Connection) -> None:
        self._fetcher = fetcher
        self._connection = connection

    def done(self) -> bool:
        """Wait as long as the connection lasts."""
        return False

    def set_result(self, frame: memoryview, /) -> None:
        """Take the answer."""
        self._fetcher.answered(self._connection, frame)

    def set_exception(self, error: KafkaError, /) -> None:
        """Called when there will be none."""
        self._fetcher.failed(self._connection)
