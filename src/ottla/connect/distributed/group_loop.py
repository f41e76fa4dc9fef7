"""The herder's round: be in the group, do what it assigns, follow what the configuration topic says, lead where asked to."""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ottla.base import ErrorCode, KafkaError, OttlaError
from ottla.client import GroupMember, JoinedGeneration, JoinedMember, JoinRefusedError
from ottla.connect.distributed.config_store import ConfigStore, FencedError
from ottla.connect.distributed.leading import Leading
from ottla.connect.distributed.local_work import LocalWork
from ottla.connect.distributed.settings import DistributedSettings
from ottla.connect.distributed.status_store import StatusStore
from ottla.connect.errors import ConnectError
from ottla.connect.grouping import Assignment, GroupProtocol, WorkerState, decode_assignment, encode_worker_state
from ottla.connect.logger_levels import LoggerLevels
from ottla.connect.storage import (
    ConfigState,
    ConnectorRemoved,
    ConnectorUpdated,
    LoggerLevel,
    RestartRequest,
    SessionKey,
    State,
    Status,
    TargetStateChanged,
    TaskId,
    TasksUpdated,
)
from ottla.connect.storage.config_records import ConfigRecord
from ottla.connect.storage.config_state import Change

__all__ = ["GroupLoop"]

log = logging.getLogger(__name__)
RETRY_S, RETRY_S_MAX = 0.2, 5.0
SYNC_RETRIES_MAX = 5
FLUSH_SECONDS_MAX = 5.0
_NOTHING = Assignment("", "", 0)


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

        self.work: LocalWork  # made by the herder, which it calls back
        self.member = member(self._wake_up, self._lose)
        self.configs = configs(self._on_change)
        self.leading = Leading(settings.rebalance_delay_ms)
        self.session_key: SessionKey | None = None
        self.protocol = settings.protocols[0]
        self._settings, self._url, self._worker_id = settings, url, worker_id
        self._statuses, self._loggers, self._restart, self._doing = statuses, loggers, restart, doing
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._known = ConfigState()
        self._held: Assignment | None = None
        self._resolved = True
        self._behind = self._lost = self._fenced = self._needs_rebalance = False
        self._scheduled_s = math.inf
        self._retries = SYNC_RETRIES_MAX
        self._updated: set[str] = set()
        self._targets: set[str] = set()
        self._reconfigured: set[str] = set()
        self._restarts: dict[str, RestartRequest] = {}
        self._begun_s: float | None = None
        self._rebalances = 0
        self._rebalance_s_sum = self._rebalance_s_max = 0.0
        self._rebalanced_s = math.nan

    # What others ask

    @property
    def is_leader(self) -> bool:
        """Whether this worker leads its group, as far as it knows."""
        return self._held is not None and bool(self.member.member_id) and self._held.leader == self.member.member_id

    @property
    def leader_url(self) -> str | None:
        """Where the leader answers, None while that is not known."""
        return self._held.leader_url if self._held is not None else None

    @property
    def assignment(self) -> Assignment:
        """What this worker has to do."""
        return self._held or _NOTHING

    @property
    def signs(self) -> bool:
        """Whether workers of the group sign what they ask of each other."""
        return self.protocol is GroupProtocol.SESSIONED

    def metrics(self) -> dict[str, float]:
        """Return Kafka's connect-worker-rebalance-metrics and connect-coordinator-metrics, by group and name."""
        done, since_s = max(self._rebalances, 1), time.monotonic() - self._rebalanced_s
        return {
            "worker-rebalance-epoch": self.member.generation,
            "worker-rebalance-rebalancing": float(self._begun_s is not None),
            "worker-rebalance-completed-rebalances-total": self._rebalances,
            "worker-rebalance-rebalance-avg-time-ms": 1000 * self._rebalance_s_sum / done,
            "worker-rebalance-rebalance-max-time-ms": 1000 * self._rebalance_s_max,
            "worker-rebalance-time-since-last-rebalance-ms": 1000 * since_s,
            "coordinator-assigned-connectors": len(self.assignment.connectors),
            "coordinator-assigned-tasks": len(self.assignment.tasks),
            "coordinator-rebalance-total": self._rebalances,
            "coordinator-rebalance-latency-total": 1000 * self._rebalance_s_sum,
            "coordinator-rebalance-latency-avg": 1000 * self._rebalance_s_sum / done,
            "coordinator-rebalance-latency-max": 1000 * self._rebalance_s_max,
            "coordinator-last-rebalance-seconds-ago": since_s,
        }

    def _count_rebalance(self) -> None:
        now_s = time.monotonic()
        took_s = now_s - (self._begun_s if self._begun_s is not None else now_s)
        self._begun_s, self._rebalanced_s = None, now_s
        self._rebalances += 1
        self._rebalance_s_sum += took_s
        self._rebalance_s_max = max(self._rebalance_s_max, took_s)

    async def write_as_leader(self, records: Sequence[ConfigRecord]) -> None:
        """Write to the configuration topic as the leader; raises ConnectError, after which it may be tried again."""
        try:
            await self.configs.write_as_leader(records)
        except FencedError:
            self._fenced = True
            self._wake.set()
            raise

    # Running

    def start(self) -> None:
        """Begin; the configuration topic has been read."""
        self._known = self.configs.state
        self.session_key = self._known.session_key
        self._task = asyncio.get_running_loop().create_task(self._run(), name="group loop")

    async def close(self, *, leave: bool = True) -> None:
        """Stop taking part; what runs here is stopped by whom it belongs to."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self.member.close(leave=leave)

    def _wake_up(self) -> None:
        if self.member.rejoins:
            self.settled.clear()
        self._wake.set()

    def _lose(self) -> None:
        self._lost = True
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
                self.ended.set_exception(_refusal(error, self._settings.group_id))
                self.ended.exception()  # seen, whether or not somebody waits for it
                return
            except (OttlaError, TimeoutError) as error:
                log.warning("The worker is not part of its group now, and tries again: %s", error)
                wait_s, retry_s = retry_s, min(2 * retry_s, RETRY_S_MAX)
                self._wake.clear()
            except Exception as error:  # our own mistake: the worker ends with it
                log.critical("The worker cannot go on", exc_info=error)
                self.ended.set_exception(error)
                self.ended.exception()
                return
            try:
                async with asyncio.timeout(None if wait_s == math.inf else wait_s):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def _round(self) -> float:
        """Do one thing after another until there is nothing left; returns for how many seconds there will not be."""
        if self._lost:
            await self._give_up_everything()
        if self._behind and not await self._read_configs():
            return 0
        if self.member.rejoins and not await self._join():
            return RETRY_S
        if not await self._resolve():
            return 0
        if self._fenced:
            await self._reclaim()
        key_s = await self._rotate_key()
        self._restart_asked()
        if not await self._follow():
            return 0
        self._doing(None)
        self.settled.set()
        return max(min(self._scheduled_s, key_s) - time.monotonic(), 0)

    async def _give_up_everything(self) -> None:
        """Stop all work, as the group may have given it to others by now."""
        log.error("No broker has answered for a whole session: all connectors and tasks of this worker are stopped")
        self.settled.clear()
        self._lost = False
        await self._stop(self.assignment.connectors, self.assignment.tasks)
        self._held = None

    # Joining

    async def _join(self) -> bool:
        self.settled.clear()
        self._begun_s = self._begun_s if self._begun_s is not None else time.monotonic()
        self._doing("ensuring membership in the cluster")
        self.leading.forget_owners()
        if self.protocol is GroupProtocol.EAGER and self._held is not None and not self._held.failed:
            await self._stop(self._held.connectors, self._held.tasks)
        state = WorkerState(self._url, self.configs.state.offset, self._held)
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
        if self.protocol is not GroupProtocol.EAGER:
            if found.revoked_connectors or found.revoked_tasks:
                await self._stop(found.revoked_connectors, found.revoked_tasks)
            found = _merged(found, self._held)
        self._held = found
        log.info(
            "Joined generation %d with %d connectors and %d tasks; %s",
            *(joined.generation, len(found.connectors), len(found.tasks)),
            "this worker leads" if self.is_leader else f"the leader is at {found.leader_url}",
        )
        self._scheduled_s = time.monotonic() + found.delay_ms / 1000 if found.delay_ms > 0 else math.inf
        self._resolved = False
        if self.is_leader:
            self._forget_the_gone()
            try:
                await self.configs.claim()
            except ConnectError as error:
                log.error("%s; it is tried again", error)
                self._fenced = True

    def _forget_the_gone(self) -> None:
        """Remove the states of connectors and tasks that are configured no more."""
        config = self.configs.state
        for of in list(self._statuses.state.statuses):
            connector = of.connector if isinstance(of, TaskId) else of
            if connector not in config.configs or (isinstance(of, TaskId) and of not in config.tasks(connector)):
                self._statuses.put(Status(of, State.DESTROYED, self._worker_id, self.member.generation))

    async def _resolve(self) -> bool:
        """Begin the work of a new generation where the configurations have been read as far as its leader has read them."""
        if self._resolved and time.monotonic() < self._scheduled_s:
            return True
        held = self.assignment
        rejoin = held.failed
        read = self._known.offset < held.offset or (held.failed and self.is_leader)
        if self._scheduled_s <= time.monotonic():
            self._scheduled_s, rejoin = math.inf, True
        if read and not await self._read_configs():
            rejoin = True
        if rejoin or self._known.offset != held.offset:
            if not rejoin and self._known.offset < self.configs.state.offset:
                self._known = self.configs.state
            self.member.request_rejoin("the rebalance goes on")
            return False
        await self._start_work()
        self._resolved = True
        if held.revoked_connectors or held.revoked_tasks:
            self._held = replace(held, revoked_connectors=(), revoked_tasks=())
            self.member.request_rejoin("what was revoked can be given out")
            return False
        self._count_rebalance()
        return True

    async def _read_configs(self) -> bool:
        """Read to the end of the topic; a worker that cannot leaves the group for a while."""
        self._doing("reading to the end of the config topic")
        try:
            await self.configs.refresh(self._settings.sync_timeout_ms / 1000)
        except (TimeoutError, KafkaError) as error:
            log.warning("The configuration topic cannot be read to its end: %s", error or "it takes too long")
            self._behind = True
            await self.member.leave("taking too long to read the log")
            await self._back_off()
            return False
        self._known, self._behind, self._retries = self.configs.state, False, SYNC_RETRIES_MAX
        return True

    async def _back_off(self) -> None:
        if self.protocol is GroupProtocol.EAGER:
            await asyncio.sleep(self._settings.unsync_backoff_ms / 1000)
        elif self._retries > 0:
            await asyncio.sleep(self._settings.rebalance_delay_ms / 10 / self._retries / 1000)
            self._retries -= 1
        else:
            await self._give_up_everything()
            self._retries = SYNC_RETRIES_MAX

    # Work

    async def _start_work(self) -> None:
        held, work = self.assignment, self.work
        connectors = [name for name in held.connectors if name not in work.connectors]
        tasks = [task for task in held.tasks if task not in work.tasks]
        if connectors or tasks:
            self._doing(f"starting {len(connectors) + len(tasks)} connector(s) and task(s) after a rebalance")
        for name in connectors:
            work.launch(self._known, name, self.member.generation)
        await work.start_tasks(self._known, tasks, self.member.generation)

    async def _stop(self, connectors: Sequence[str], tasks: Sequence[TaskId]) -> None:
        self._doing(f"stopping {len(connectors)} connectors and {len(tasks)} tasks")
        await self.work.stop(connectors, tasks, self.member.generation)
        config = self.configs.state
        for name in {*connectors, *(task.connector for task in tasks)} - set(config.configs):
            for use in list(self._statuses.state.topics.get(name, {}).values()):
                self._statuses.put_use(use, removed=True)
        await self._statuses.flush(FLUSH_SECONDS_MAX)

    # What the configuration topic says

    def _on_change(self, change: Change) -> None:
        match change:
            case ConnectorRemoved(name):
                self._note(name, known=name in self._known.configs)
            case ConnectorUpdated(name):
                self._note(name, known=name not in self._known.configs)
            case TasksUpdated(name, tasks):
                self._needs_rebalance = True
                self.settled.clear()
                if tasks:
                    self._reconfigured.add(name)
            case TargetStateChanged(name):
                self._targets.add(name)
            case SessionKey():
                self.session_key = change
            case RestartRequest():
                waiting = self._restarts.get(change.connector)
                if waiting is None or _impact(change) > _impact(waiting):
                    self._restarts[change.connector] = change
            case LoggerLevel(namespace, level):
                self._set_level(namespace, level)
        self._wake.set()

    def _note(self, name: str, *, known: bool) -> None:
        if known:
            self._needs_rebalance = True
            self.settled.clear()
        else:
            self._updated.add(name)

    def _set_level(self, namespace: str, level: str) -> None:
        try:
            self._loggers.set(namespace, level)
        except ConnectError as error:
            log.warning("A logger's level in the configuration topic is passed over: %s", error)

    def _restart_asked(self) -> None:
        asked, self._restarts = self._restarts, {}
        for request in asked.values():
            self._restart(request)

    async def _follow(self) -> bool:
        """Do what the topic has said since the last round; False where that takes a rebalance."""
        if not (self._needs_rebalance or self._updated or self._targets or self._reconfigured):
            return True
        self._known, generation = self.configs.state, self.member.generation
        rebalance, self._needs_rebalance = self._needs_rebalance, False
        updated, self._updated = self._updated, set()
        targets, self._targets = self._targets, set()
        reconfigured, self._reconfigured = self._reconfigured, set()
        if rebalance:
            self.member.request_rejoin("connectors or tasks have changed")
        for name in updated & set(self.assignment.connectors):
            if name in self._known.configs:
                self.work.launch(self._known, name, generation)
            else:
                await self.work.stop([name], [], generation)
        for name in targets & set(self._known.configs):
            await self.work.bring(self._known, name, generation)
        generations = self._known.generations
        stale = [
            task
            for task, made in self.work.tasks.items()
            if task.connector in reconfigured and made != generations.get(task.connector, 0)
        ]
        if stale:
            self._doing(f"stopping {len(stale)} reconfigured tasks")
            await self.work.stop_tasks(stale)
        return not rebalance

    # What the leader does besides

    async def _reclaim(self) -> None:
        """Become the one that writes again, where this worker still leads."""
        if self.is_leader:
            self._doing("reclaiming write privileges for the config topic")
            await self.configs.claim()
        self._fenced = False

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


def _merged(found: Assignment, held: Assignment | None) -> Assignment:
    """Return what a worker has to do when what it keeps is added to what it gets."""
    if held is None:
        return found
    gone, gone_tasks = set(found.revoked_connectors), set(found.revoked_tasks)
    kept = [each for each in held.connectors if each not in gone]
    kept_tasks = [each for each in held.tasks if each not in gone_tasks]
    return replace(
        found,
        connectors=tuple(dict.fromkeys((*found.connectors, *kept))),
        tasks=tuple(dict.fromkeys((*found.tasks, *kept_tasks))),
    )


def _impact(request: RestartRequest) -> int:
    """Return how much a restart touches: of several that wait, the largest is carried out."""
    return 2 * (not request.only_failed) + request.include_tasks


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
