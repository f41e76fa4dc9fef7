"""The herder's round: be in the group, do what it assigns, follow what the configuration topic says, lead where asked to."""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ottla.background import end, supervise
from ottla.base import ErrorCode, KafkaError, OttlaError
from ottla.client import GroupMember, JoinedGeneration, JoinedMember, JoinRefusedError
from ottla.connect.assignment import Assignment, GroupProtocol, WorkerState, decode_assignment, encode_worker_state
from ottla.connect.distributed.config_store import ConfigStore, FencedError
from ottla.connect.distributed.group_state import (
    SYNC_RETRIES_MAX,
    GroupPosition,
    PendingChanges,
    RebalanceMeasures,
)
from ottla.connect.distributed.leading import Leading
from ottla.connect.distributed.local_work import LocalWork
from ottla.connect.distributed.settings import DistributedSettings
from ottla.connect.distributed.status_store import StatusStore
from ottla.connect.errors import ConnectError
from ottla.connect.logger_levels import LoggerLevels
from ottla.connect.storage import (
    LoggerLevel,
    RestartRequest,
    SessionKey,
    State,
    Status,
    TaskId,
)
from ottla.connect.storage.config_records import ConfigRecord
from ottla.connect.storage.config_state import Change

__all__ = ["GroupLoop"]

log = logging.getLogger(__name__)
RETRY_S, RETRY_S_MAX = 0.2, 5.0
FLUSH_SECONDS_MAX = 5.0


class GroupLoop:
    """Runs rounds, one after another, under `turn`; who wants to change something takes it between two of them.

    `restart` carries out a restart request here, `doing` is called with what the loop is at.
    """

    def __init__(
        self,
        settings: DistributedSettings,
        *,
        url: str,
        worker_id: str,
        member: Callable[[Callable[[], None], Callable[[], None]], GroupMember],
        configs: Callable[[Callable[[Change], None]], ConfigStore],
        work: LocalWork,
        statuses: StatusStore,
        loggers: LoggerLevels,
        restart: Callable[[RestartRequest], object],
        doing: Callable[[str | None], None],
    ) -> None:
        self.turn = asyncio.Lock()
        self.settled = asyncio.Event()
        """Set while this worker has done all that its group and the configurations ask for."""

        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Fails where the worker cannot go on."""

        self.member = member(self._wake_up, self._lose)
        self.configs = configs(self._on_change)
        self.leading = Leading(settings.rebalance_delay_ms)
        self.session_key: SessionKey | None = None
        self.protocol = settings.protocols[0]
        self._settings, self._url, self._worker_id = settings, url, worker_id
        self._work, self._statuses, self._loggers = work, statuses, loggers
        statuses.gone = lambda: self._wake.set()
        self._restart, self._doing = restart, doing
        self._at, self._pending, self._measures = GroupPosition(), PendingChanges(), RebalanceMeasures()
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    # What others ask

    @property
    def is_leader(self) -> bool:
        """Whether this worker leads its group, as far as it knows."""
        return (
            self._at.held is not None and bool(self.member.member_id) and self._at.held.leader == self.member.member_id
        )

    @property
    def is_fenced(self) -> bool:
        """Whether another worker has written as the leader since; the next round claims that again where this one leads."""
        return self._at.is_fenced

    @property
    def leader_url(self) -> str | None:
        """Where the leader answers, None while that is not known."""
        return self._at.held.leader_url if self._at.held is not None else None

    @property
    def assignment(self) -> Assignment:
        """What this worker has to do."""
        return self._at.assignment

    @property
    def signs(self) -> bool:
        """Whether workers of the group sign what they ask of each other."""
        return self.protocol is GroupProtocol.SESSIONED

    def metrics(self) -> dict[str, float]:
        """Return Kafka's connect-worker-rebalance-metrics and connect-coordinator-metrics, by group and name."""
        return self._measures.values(self.assignment, self.member.generation)

    async def write_as_leader(self, records: Sequence[ConfigRecord]) -> None:
        """Write to the configuration topic as the leader; raises ConnectError, after which it may be tried again."""
        try:
            await self.configs.write_as_leader(records)
        except FencedError:
            self._at.is_fenced = True
            self._wake.set()
            raise

    # Running

    def start(self) -> None:
        """Begin; the configuration topic has been read."""
        self._at.known = self.configs.state
        self.session_key = self._at.known.session_key
        self._task = supervise(self._run(), name="group loop", serves="the worker", failed=self.fail)

    def fail(self, error: BaseException) -> None:
        """Say that the worker cannot go on: by a mistake of ours it does not follow any more what it has to."""
        if not self.ended.done():
            self.ended.set_exception(error)
            self.ended.exception()  # seen, whether or not somebody waits for it

    async def rest(self) -> None:
        """Begin no further round, and stay a member: nothing is started any more."""
        self.settled.clear()
        await end(self._task)

    async def close(self, *, leave: bool = True) -> None:
        """Stop taking part; what runs here is stopped by whom it belongs to."""
        await self.rest()
        await self.member.close(leave=leave)

    def _wake_up(self) -> None:
        if self.member.rejoins:
            self.settled.clear()
        self._wake.set()

    def _lose(self) -> None:
        self._at.is_lost = True
        self._wake.set()

    async def _run(self) -> None:
        retry_s = RETRY_S
        while True:
            self._wake.clear()
            wait_s: float = 0
            try:
                async with self.turn:
                    wait_s = await self._round()
                retry_s = RETRY_S
            except JoinRefusedError as error:
                self.fail(_refusal(error, self._settings.group_id))
                return
            except (OttlaError, TimeoutError) as error:
                log.warning("The worker is not part of its group now, and tries again: %s", error)
                wait_s, retry_s = retry_s, min(2 * retry_s, RETRY_S_MAX)
                self._wake.clear()
            try:
                async with asyncio.timeout(None if wait_s == math.inf else wait_s):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def _round(self) -> float:
        """Do one thing after another until there is nothing left; returns for how many seconds there will not be."""
        if self._at.is_lost:
            await self._give_up_everything()
        if self._at.is_behind and not await self._read_configs():
            return 0
        if self.member.rejoins and not await self._join():
            return RETRY_S
        if not await self._resolve():
            return 0
        if self._at.is_fenced:
            await self._reclaim()
        key_s = await self._rotate_key()
        for request in self._pending.take_restarts():
            self._restart(request)
        if not await self._follow():
            return 0
        self._doing(None)
        self.settled.set()
        return max(min(self._at.rejoin_at_s, key_s) - time.monotonic(), 0)

    async def _give_up_everything(self) -> None:
        """Stop all work, as the group may have given it to others by now."""
        log.error("No broker has answered for a whole session: all connectors and tasks of this worker are stopped")
        self.settled.clear()
        self._at.is_lost = False
        await self._stop(self.assignment.connectors, self.assignment.tasks)
        self._at.held = None

    # Joining

    async def _join(self) -> bool:
        self.settled.clear()
        self._measures.begin()
        self._doing("ensuring membership in the cluster")
        self.leading.forget_owners()
        if self.protocol is GroupProtocol.EAGER and self._at.held is not None and not self._at.held.failed:
            await self._stop(self._at.held.connectors, self._at.held.tasks)
        state = WorkerState(self._url, self.configs.state.offset, self._at.held)
        offered = [(each.group_name, encode_worker_state(state, each)) for each in self._settings.protocols]
        joined = await self.member.join(offered, self._divide)
        if joined is None:
            return False
        self.member.start_heartbeats()
        found = decode_assignment(joined.assignment)
        if found is None:
            self.member.request_rejoin("the leader has assigned nothing")
            return False
        await self._take(joined, found)
        return True

    def _divide(self, protocol: str, generation: int, joiners: Sequence[JoinedMember]) -> Mapping[str, bytes]:
        return self.leading.assignments(
            *(GroupProtocol.of_group_name(protocol), joiners, self.configs.state),
            leader=self.member.member_id,
            last_generation=self.member.last_completed_generation,
            generation=generation,
            now_ms=int(time.monotonic() * 1000),
        )

    async def _take(self, joined: JoinedGeneration, found: Assignment) -> None:
        """Do what a new generation asks for: give up what is revoked, then know what is to be done."""
        self.protocol = GroupProtocol.of_group_name(joined.protocol)
        keeps = self.protocol is not GroupProtocol.EAGER
        if keeps and (found.revoked_connectors or found.revoked_tasks):
            await self._stop(found.revoked_connectors, found.revoked_tasks)
        self._at.take(found, keeps=keeps)
        log.info(
            "Joined generation %d with %d connectors and %d tasks; %s",
            *(joined.generation, len(self.assignment.connectors), len(self.assignment.tasks)),
            "this worker leads" if self.is_leader else f"the leader is at {found.leader_url}",
        )
        if self.is_leader:
            self._forget_the_gone()
            try:
                await self._claim()
            except ConnectError as error:
                log.error("%s; it is tried again", error)
                self._at.is_fenced = True

    async def _claim(self) -> None:
        """Become the one that writes, and know all that those who led before have written. Raises ConnectError."""
        await self.configs.claim()
        await self.configs.read(self._settings.sync_timeout_ms / 1000, before="leading the group")

    def _forget_the_gone(self) -> None:
        """Remove the states of connectors and tasks that are configured no more, and that no worker has any more."""
        configs = self.configs.state.configs
        for of in list(self._statuses.state.statuses):
            has_tasks = isinstance(of, str) and of not in configs and self.leading.has_tasks(of)
            if not (has_tasks or self.leading.is_held(of)):  # else a worker still stops it, and joins again when it has
                self._forget(of)

    def _forget(self, of: str | TaskId) -> None:
        """Remove the state of a connector or task, where it is configured no more."""
        if not self.configs.state.is_configured(of):
            self._statuses.put(Status(of, State.DESTROYED, self._worker_id, self.member.generation))

    async def _resolve(self) -> bool:
        """Begin the work of a new generation where the configurations have been read as far as its leader has read them."""
        if self._at.is_resolved and time.monotonic() < self._at.rejoin_at_s:
            return True
        held = self.assignment
        rejoin = held.failed
        read = self._at.known.offset < held.offset or (held.failed and self.is_leader)
        if self._at.rejoin_at_s <= time.monotonic():
            self._at.rejoin_at_s, rejoin = math.inf, True
        if read and not await self._read_configs():
            rejoin = True
        if rejoin or self._at.known.offset != held.offset:
            if not rejoin and self._at.known.offset < self.configs.state.offset:
                self._at.known = self.configs.state
            self.member.request_rejoin("the rebalance goes on")
            return False
        await self._start_work()
        self._at.is_resolved = True
        if held.revoked_connectors or held.revoked_tasks:
            self._at.held = replace(held, revoked_connectors=(), revoked_tasks=())
            self.member.request_rejoin("what was revoked can be given out")
            return False
        self._measures.end()
        return True

    async def _read_configs(self) -> bool:
        """Read to the end of the topic; a worker that cannot leaves the group for a while."""
        self._doing("reading to the end of the config topic")
        try:
            await self.configs.refresh(self._settings.sync_timeout_ms / 1000)
        except (TimeoutError, KafkaError) as error:
            log.warning("The configuration topic cannot be read to its end: %s", str(error) or "it takes too long")
            self._at.is_behind = True
            await self.member.leave("taking too long to read the log")
            await self._back_off()
            return False
        self._at.synced(self.configs.state)
        return True

    async def _back_off(self) -> None:
        if self.protocol is GroupProtocol.EAGER:
            await asyncio.sleep(self._settings.unsync_backoff_ms / 1000)
        elif self._at.sync_retries > 0:
            await asyncio.sleep(self._settings.rebalance_delay_ms / 10 / self._at.sync_retries / 1000)
            self._at.sync_retries -= 1
        else:
            await self._give_up_everything()
            self._at.sync_retries = SYNC_RETRIES_MAX

    # Work

    async def _start_work(self) -> None:
        held, work = self.assignment, self._work
        connectors = [name for name in held.connectors if name not in work.connectors]
        tasks = [task for task in held.tasks if task not in work.tasks]
        if connectors or tasks:
            self._doing(f"starting {len(connectors) + len(tasks)} connector(s) and task(s) after a rebalance")
        for name in connectors:
            work.launch(name, self.member.generation)
        await work.start_tasks(tasks, self.member.generation)

    async def _stop(self, connectors: Sequence[str], tasks: Sequence[TaskId]) -> None:
        self._doing(f"stopping {len(connectors)} connectors and {len(tasks)} tasks")
        await self._work.stop(connectors, tasks, self.member.generation)
        config = self.configs.state
        for name in {*connectors, *(task.connector for task in tasks)} - set(config.configs):
            for use in list(self._statuses.state.topics.get(name, {}).values()):
                self._statuses.put_use(use, removed=True)
        await self._statuses.flush(FLUSH_SECONDS_MAX)

    # What the configuration topic says

    def _on_change(self, change: Change) -> None:
        match change:
            case SessionKey():
                self.session_key = change
            case LoggerLevel(namespace, level):
                self._set_level(namespace, level)
            case _:
                self._pending.add(change, self._at.known)
        if self._pending.rebalance:
            self.settled.clear()
        self._wake.set()

    def _set_level(self, namespace: str, level: str) -> None:
        try:
            self._loggers.set(namespace, level)
        except ConnectError as error:
            log.warning("A logger's level in the configuration topic is passed over: %s", error)

    async def _follow(self) -> bool:
        """Do what the topic has said since the last round; False where that takes a rebalance."""
        for of in self._statuses.left_alone():
            self._forget(of)  # it was given up before this worker had read that it is gone, or that its tasks are
        if not self._pending:
            return True
        pending, known, generation = self._pending.take(), self.configs.state, self.member.generation
        self._at.known = known
        if pending.rebalance:
            self.member.request_rejoin("connectors or tasks have changed")
        for name in pending.updated & set(self.assignment.connectors):
            if name in known.configs:
                self._work.launch(name, generation)
            else:
                await self._work.stop([name], [], generation)
        for name in pending.targets & set(known.configs):
            await self._work.bring(name, generation)
        if pending.reconfigured:
            self._doing("stopping reconfigured tasks")
            await self._work.stop_stale(pending.reconfigured, generation)
        return not pending.rebalance

    # What the leader does besides

    async def _reclaim(self) -> None:
        """Become the one that writes again, where this worker still leads."""
        if self.is_leader:
            self._doing("reclaiming write privileges for the config topic")
            await self._claim()
        self._at.is_fenced = False

    async def _rotate_key(self) -> float:
        """Write a session key where there is none or it is too old; returns when (`time.monotonic`) to look again."""
        if not (self.signs and self.is_leader):
            return math.inf
        settings, key, now_ms = self._settings, self.session_key, time.time_ns() // 1_000_000
        fits = key is not None and key.algorithm == settings.key_algorithm and 8 * len(key.key) == settings.key_bits
        age_ms = now_ms - key.created_ms if key is not None else 0
        if not fits or (settings.key_ttl_ms > 0 and age_ms >= settings.key_ttl_ms):
            self._doing("writing a new session key to the config topic")
            made = SessionKey(secrets.token_bytes(settings.key_bits // 8), settings.key_algorithm, now_ms)
            await self.write_as_leader([made])
            age_ms = 0
        return math.inf if settings.key_ttl_ms <= 0 else time.monotonic() + (settings.key_ttl_ms - age_ms) / 1000


def _refusal(error: JoinRefusedError, group: str) -> ConnectError:
    hint = _HINTS.get(error.code, "")
    return ConnectError(f"Group {group} does not take this worker: {error.code.name}{hint}")


_HINTS = {
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: (
        ". Its members speak another protocol: group.id is another kind of group's, or connect.protocol does not fit"
    ),
    ErrorCode.INVALID_SESSION_TIMEOUT: (
        ". session.timeout.ms has to lie between the broker's group.min.session.timeout.ms and group.max.session.timeout.ms"
    ),
    ErrorCode.GROUP_AUTHORIZATION_FAILED: ". The worker needs the right to read group.id",
}
