"""A distributed worker's herder: what REST asks is answered from the topics, written by the leader, or passed on to it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from ottla.background import awaited
from ottla.client import Client, GroupMember
from ottla.connect import decisions
from ottla.connect.decisions import Signature, View
from ottla.connect.decisions.offsets import Pair
from ottla.connect.distributed.config_store import ConfigStore
from ottla.connect.distributed.fencing import Fencing
from ottla.connect.distributed.group_loop import GroupLoop
from ottla.connect.distributed.local_work import LocalWork
from ottla.connect.distributed.offset_store import OffsetStores
from ottla.connect.distributed.peers import Ask, ask_to_fence, send_tasks
from ottla.connect.distributed.settings import DistributedSettings
from ottla.connect.distributed.status_store import StatusStore
from ottla.connect.distributed.stores_under_way import StoresUnderWay
from ottla.connect.distributed.task_answers import TaskAnswers
from ottla.connect.distributed.validation import further_errors, with_errors
from ottla.connect.errors import ConnectError, NotFoundError, RebalanceNeededError
from ottla.connect.herder import Created, ElsewhereError, SinkGroups, TaskOwner, TaskRunner
from ottla.connect.logger_levels import LoggerLevels
from ottla.connect.plugin_host import Hosting
from ottla.connect.plugins import Plugins
from ottla.connect.providers import Providers
from ottla.connect.storage import (
    LoggerLevel,
    OffsetState,
    RestartRequest,
    SessionKey,
    State,
    Status,
    TargetState,
    TaskId,
    TopicUse,
)

__all__ = ["DistributedHerder"]

log = logging.getLogger(__name__)
Properties = Mapping[str, str | None]
SETTLE_SECONDS_MAX = 3.0
"""How long a question waits for a rebalance before it is answered with 409."""
RETRY_S, RETRY_S_MAX = 0.25, 60.0
FLUSH_SECONDS_MAX = 5.0
ENDED_SECONDS_MAX = 30.0
"""How long a change of offsets waits for a stopped connector's tasks, which end on other workers."""
ALTER_TRIES = 5
"""As often a change of offsets begins anew where its connector was resumed and stopped meanwhile."""
RESTART_SECONDS_MAX = 1.0
"""How long the tasks of a restart wait for their connector."""
_SAFE = (State.FAILED, State.UNASSIGNED)
"""States that a worker may tell late, when another has the connector or task already."""


_LEFT = (
    "The offsets of connector {name} cannot be modified since its tasks haven't stopped completely yet. They end with its "
    "workers; this operation can be safely retried"
)


class _Overtaken(Exception):
    """Others have configured the connector meanwhile."""


class DistributedHerder:
    """One worker of a group; see `Herder`. The runner is made with this as its `TaskOwner`.

    Others reach it at `url`. `make_client` makes a client with an id's ending, `ask` sends requests to other workers.
    `worker` are the worker's properties, for its converters.
    """

    def __init__(
        self,
        plugins: Plugins,
        settings: DistributedSettings,
        *,
        url: str,
        make_client: Callable[[str], Client],
        make_runner: Callable[[TaskOwner], TaskRunner],
        groups: SinkGroups,
        ask: Ask,
        providers: Providers | None = None,
        worker: Mapping[str, str] | None = None,
    ) -> None:
        self.plugins, self.settings = plugins, settings
        self.cluster_id: str | None = None
        self.loggers = LoggerLevels(lambda: time.time_ns() // 1_000_000)
        self.ready = False
        self.doing: str | None = "starting, and has not taken requests yet"
        self.worker_id = urlsplit(url).netloc
        self._client = make_client("herder")
        self._bootstrap = (worker or {}).get("bootstrap.servers", "")
        self._offsets = OffsetStores(settings, make_client, self._fail)
        self._statuses = StatusStore(settings.status_topic, make_client, self._fail)
        self._prepared = False
        self._read = asyncio.Event()
        self._answers, self._storing = TaskAnswers(), StoresUnderWay()
        self._ask = ask
        self._hosting = Hosting(
            plugins,
            self.worker_id,
            tell=self.on_status,
            reconfigure=self._reconfigure_later,
            groups=groups,
            providers=providers,
            worker=worker,
        )
        self._work = LocalWork(
            settings,
            self._hosting,
            make_runner(self),
            worker_id=self.worker_id,
            current=lambda: self._loop.configs.state,
            tell=self.on_status,
            fence=self._fence_by_leader,
            started=self._reconfigure_later,
            offsets_topic=lambda state, name: self._offsets.topic_of(state.configs.get(name, {})),
            stored=self._storing.ended,
        )
        self._loop = GroupLoop(
            settings,
            url=url,
            worker_id=self.worker_id,
            member=lambda wake, lost: GroupMember(
                make_client("group"),
                settings.group_id,
                protocol_type="connect",
                session_timeout_ms=settings.session_timeout_ms,
                rebalance_timeout_ms=settings.rebalance_timeout_ms,
                heartbeat_interval_ms=settings.heartbeat_interval_ms,
                wake=wake,
                lost=lost,
            ),
            configs=lambda on_change: ConfigStore(settings, make_client, on_change, self._fail),
            work=self._work,
            statuses=self._statuses,
            loggers=self.loggers,
            restart=lambda request: self._work.later(self._restart_here(request)),
            doing=self._say,
        )
        self._fencing = Fencing(settings, self._loop)

    def _fail(self, error: BaseException) -> None:
        """End the worker, which does not hear any more what others write."""
        self._loop.fail(error)

    async def prepare(self) -> None:
        """Make or check the topics and read them, once; `start` does it where nobody has.

        Raises ConfigError for a topic that would not keep what workers write, KafkaError where no broker answers.
        """
        if self._prepared:
            return
        self._say("initializing and reading to the end of internal topics")
        self.cluster_id = (await self._client.metadata([])).cluster_id
        await self._offsets.start()
        await self._statuses.start()
        await self._loop.configs.start()
        self._prepared = True

    async def start(self) -> None:
        """Begin to take part in the group; raises what `prepare` does."""
        await self.prepare()
        self._loop.start()
        self._read.set()
        self._work.later(self._become_ready())

    def metrics(self) -> dict[str, float]:
        """Return the worker's metrics as a member of its group, by Kafka's group and name."""
        own = {f"worker-{name}": value for name, value in self._hosting.metrics().items()}
        return {**own, **self._loop.metrics()}

    def has_connector(self, name: str) -> bool:
        """Return whether a connector is this worker's."""
        return name in self._loop.assignment.connectors

    @property
    def group(self) -> GroupLoop:
        """The worker as a member: who leads, what is assigned to it, and the configurations that it has read."""
        return self._loop

    @property
    def work(self) -> LocalWork:
        """The connectors and tasks that run here."""
        return self._work

    @property
    def statuses(self) -> StatusStore:
        """The statuses of all connectors and tasks, as this worker has read them."""
        return self._statuses

    async def _become_ready(self) -> None:
        await self._loop.settled.wait()
        self.ready = True

    @property
    def ended(self) -> asyncio.Future[None]:
        """Fails where the worker cannot go on and should end."""
        return self._loop.ended

    async def close(self, *, leave: bool = True) -> None:
        """Stop all connectors and tasks and leave the group; without `leave` as a worker that dies does."""
        self.ready, self.doing = False, "shutting down"
        if leave and self._read.is_set():
            await self._loop.rest()  # a round would start again what is stopped here
            await self._work.close()
            await self._statuses.flush(FLUSH_SECONDS_MAX)
        await self._loop.close(leave=leave)
        await self._loop.configs.close()
        await self._statuses.close()
        await self._offsets.close()
        await self._client.close()

    def _say(self, what: str | None) -> None:
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        self.doing = None if what is None else f"{what}, which began at {now}"

    @asynccontextmanager
    async def _doing(self, what: str) -> AsyncIterator[None]:
        """Have the worker to oneself, settled in its group."""
        await self._read.wait()
        while True:
            await self._loop.settled.wait()
            async with self._loop.turn:
                if self._loop.settled.is_set():
                    self._say(what)
                    try:
                        yield
                    finally:
                        self._say(None)
                    return

    def _leads(self, words: str) -> None:
        if not self._loop.is_leader:
            raise ElsewhereError(words, self._loop.leader_url)

    # What tasks tell and ask

    def on_status(self, status: Status) -> None:
        """See `TaskOwner`; of what is configured no more and has ended, with all of its tasks, nothing is kept."""
        is_over = status.state is State.UNASSIGNED and not self._loop.configs.state.is_configured(status.of)
        if is_over and not self._statuses.has_tasks(status.of):
            status = replace(status, state=State.DESTROYED)
        self._statuses.put(status, safe=status.state in _SAFE)

    def on_topic(self, use: TopicUse) -> None:
        """See `TaskOwner`."""
        if self.settings.topic_tracking and use.topic not in self._statuses.state.topics.get(use.connector, {}):
            self._statuses.put_use(use)

    def _config(self, name: str) -> Properties:
        return self._hosting.resolved(self._loop.configs.state.configs.get(name, {}))

    async def stored_offsets(self, connector: str) -> OffsetState:
        """See `TaskOwner`."""
        return await self._offsets.state(connector, self._config(connector))

    async def store_offsets(
        self, connector: str, offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any] | None]]
    ) -> None:
        """See `TaskOwner`."""
        await self._storing.run(connector, self._offsets.store(connector, self._config(connector), offsets))

    async def confirm(self, task: TaskId) -> None:
        """See `TaskOwner`."""
        await self._loop.configs.read(self.settings.sync_timeout_ms / 1000, before="starting a source task")
        made = self._work.tasks.get(task)
        state = self._loop.configs.state
        if made is None or task not in self._loop.assignment.tasks:
            raise ConnectError(f"Cannot start source task {task} as it has already been revoked from this worker")
        if made != state.generations.get(task.connector, 0) or task not in state.tasks(task.connector):
            raise ConnectError(
                f"Cannot start source task {task} with exactly-once support as the connector has already generated a new "
                "set of task configs"
            )

    # What is read

    async def health(self) -> None:
        """See `Herder`."""
        async with self._doing("answering whether it is healthy"):
            return

    async def view(self, *, settled: bool = False) -> View:
        """See `Herder`."""
        await self._read.wait()
        if settled:
            try:
                async with asyncio.timeout(SETTLE_SECONDS_MAX):
                    await self._loop.settled.wait()
            except TimeoutError:
                raise RebalanceNeededError("Request cannot be completed because a rebalance is expected") from None
        idle = self._hosting.connectors.idle()
        return View(self._loop.configs.state, self._statuses.state, self._work.progress(), idle)

    async def validate(self, config: Properties) -> dict[str, Any]:
        """See `Herder`."""
        await self._read.wait()
        found = await self._hosting.validate(config)
        try:
            whole = self._hosting.resolved(config)
            errors = await asyncio.to_thread(
                lambda: further_errors(
                    *(whole, self.plugins),
                    is_sink=self._hosting.is_sink(whole),
                    group_id=self.settings.group_id,
                    exactly_once=self.settings.exactly_once_sources,
                    bootstrap=self._bootstrap,
                )
            )
        except ConnectError:
            return found  # the class is missing or unknown, which has been found before
        return with_errors(found, errors)

    async def offsets(self, name: str) -> dict[str, Any]:
        """See `Herder`."""
        config = (await self.view()).config.configs.get(name)
        if config is None:
            raise NotFoundError(f"Connector {name} not found")
        whole = self._hosting.resolved(config)
        if self._hosting.is_sink(whole):
            return await self._hosting.sink_offsets(name, whole)
        return decisions.source_offsets(await self._offsets.state(name, whole), name)

    # What is changed

    async def put_connector(
        self, name: str, config: Properties, *, target: TargetState | None = None, may_replace: bool
    ) -> Created:
        """See `Herder`."""
        state = (await self.view()).config
        whole = decisions.completed(state, name, decisions.named_config(name, config), self.plugins)
        decisions.refuse_invalid(await self.validate(whole))
        return await self._put(name, whole, target, may_replace=may_replace)

    async def patch_connector(self, name: str, patch: Properties) -> Created:
        """See `Herder`."""
        for _ in range(decisions.PATCH_TRIES):
            state = (await self.view()).config
            whole = decisions.completed(state, name, patch, self.plugins, is_patch=True)
            decisions.refuse_invalid(await self.validate(whole))
            with suppress(_Overtaken):
                return await self._put(name, whole, None, may_replace=True, patched=state.configs[name])
        raise ConnectError(f"Connector {name} was configured by others again and again")

    async def _put(
        self,
        name: str,
        config: Properties,
        target: TargetState | None,
        *,
        may_replace: bool,
        patched: Properties | None = None,
    ) -> Created:
        """Write a configuration down; raises `_Overtaken` where the one that it patches is not the connector's any more."""
        async with self._doing(f"writing a config for connector {name} to the config topic"):
            self._leads("Only the leader can set connector configs.")
            state = self._loop.configs.state
            if patched is not None and decisions.patched(state, name, {}) != patched:  # raises where it has gone
                raise _Overtaken
            change = decisions.create_or_replace(state, name, config, target=target, may_replace=may_replace)
            await self._loop.write_as_leader(change.records)
            return Created(decisions.connector_info(await self.view(), name, self.plugins), change.created)

    async def delete_connector(self, name: str) -> None:
        """See `Herder`."""
        async with self._doing(f"removing the config for connector {name} from the config topic"):
            self._leads("Only the leader can delete connector configs.")
            await self._loop.write_as_leader(decisions.remove(self._loop.configs.state, name))

    async def pause_or_resume(self, name: str, target: TargetState) -> None:
        """See `Herder`: any worker may write this."""
        state = (await self.view()).config
        await self._loop.configs.write(decisions.pause_or_resume(state, name, target))

    async def stop_connector(self, name: str) -> None:
        """See `Herder`."""
        async with self._doing(f"writing the STOPPED target state for connector {name} to the config topic"):
            records = decisions.stop(self._loop.configs.state, name)
            self._leads("Only the leader can transition connectors to the STOPPED state.")
            await self._loop.write_as_leader(records)

    async def restart_connector(self, name: str) -> None:
        """See `Herder`: on the worker that has it."""
        async with self._doing(f"restarting connector {name}"):
            state = self._loop.configs.state
            if name not in state.configs:
                raise NotFoundError(f"Unknown connector: {name}")
            if name not in self._work.connectors:
                self._leads("Only the leader can process restart requests.")
                raise ElsewhereError(
                    "Cannot restart connector since it is not assigned to this member",
                    self._loop.leading.owner_url(name),
                )
        await self._work.start_connector(name, self._loop.member.generation)

    async def restart_task(self, task: TaskId) -> None:
        """See `Herder`: on the worker that has it."""
        async with self._doing(f"restarting task {task}"):
            state, words = self._loop.configs.state, "Cannot restart task since it is not assigned to this member"
            if task.connector not in state.configs:
                raise NotFoundError(f"Unknown connector: {task.connector}")
            if task not in state.tasks(task.connector):
                raise NotFoundError(f"Unknown task: {task}")
            if task not in self._work.tasks:
                self._leads(words)
                raise ElsewhereError(words, self._loop.leading.owner_url(task))
            await self._work.restart_task(task, self._loop.member.generation)

    async def restart(self, request: RestartRequest) -> dict[str, Any]:
        """See `Herder`: the leader writes it down, and every worker restarts what it has of it."""
        async with self._doing(f"writing restart request for connector {request.connector} to the config topic"):
            view = await self.view()
            if request.connector not in view.config.configs:
                raise NotFoundError(f"Unknown connector: {request.connector}")
            self._leads("Only the leader can process restart requests.")
            await self._statuses.flush(FLUSH_SECONDS_MAX)
            await self._statuses.read_to_end()
            view = await self.view()
            plan = decisions.restart_plan(view, request)
            await self._loop.write_as_leader([request])
        return decisions.connector_status(plan.view, request.connector, self.plugins)

    async def _restart_here(self, request: RestartRequest) -> None:
        name = request.connector
        async with self._doing(f"handling restart request for connector {name}"):
            try:
                plan = decisions.restart_plan(await self.view(), request)
            except NotFoundError as error:
                log.info("Nothing is restarted: %s", error)
                return
            generation = self._loop.member.generation
            tasks = await self._work.stop_tasks(plan.tasks)
            connector = plan.connector and name in self._work.connectors
            restarted: list[str | TaskId] = [*([name] if connector else []), *tasks]
            for of in restarted:
                found = self._statuses.state.statuses.get(of)
                version = None if found is None else found.version
                self._statuses.put(Status(of, State.RESTARTING, self.worker_id, generation, version=version))
            if connector:
                launched = self._work.launch(name, generation)
                await asyncio.wait([launched], timeout=RESTART_SECONDS_MAX)
            held = self._loop.assignment.tasks  # what a rebalance has revoked meanwhile is another worker's
            await self._work.start_tasks([task for task in tasks if task in held], generation)

    async def alter_offsets(self, name: str, pairs: Sequence[Pair] | None) -> dict[str, str]:
        """See `Herder`: behind the end of the last task, which stores where it has come to, on whichever worker."""
        for _ in range(ALTER_TRIES):
            is_sink = await self._ended(name)
            if self.settings.exactly_once_sources and not is_sink:
                await self._fencing.fence(name)
            async with self._doing(f"modifying offsets for connector {name}"):
                config, is_sink = await self._modifiable(name)
                if self._loop.leading.has_tasks(name):
                    continue  # it was resumed and stopped once more
                by_connector = await self._alter(name, config, pairs, is_sink=is_sink)
                return decisions.outcome(reset=pairs is None, by_connector=by_connector)
        raise ConnectError(_LEFT.format(name=name))

    async def _alter(self, name: str, config: Properties, pairs: Sequence[Pair] | None, *, is_sink: bool) -> bool:
        """Alter offsets of a connector without tasks; returns whether it took part."""
        if is_sink:
            return await self._hosting.alter_sink(name, config, pairs)
        stored = await self._offsets.state(name, config)
        asked = await self._hosting.ask_source(name, config, pairs, stored)
        once = self.settings.exactly_once_sources
        by = self.settings.task_transactional_id(name, 0) if once else None
        await self._offsets.store(name, config, asked.pairs, transactional_id=by)
        return asked.by_connector

    async def _ended(self, name: str) -> bool:
        """Return when no worker has a task of a stopped connector any more, and whether that is a sink."""
        try:
            async with asyncio.timeout(ENDED_SECONDS_MAX):
                while True:
                    async with self._doing(f"modifying offsets for connector {name}"):
                        _, is_sink = await self._modifiable(name)
                        if not self._loop.leading.has_tasks(name):
                            return is_sink
                        divided = awaited(self._loop.leading.divided())
                    try:
                        await asyncio.wait([divided])
                    finally:
                        divided.cancel()
        except TimeoutError as error:
            raise ConnectError(_LEFT.format(name=name)) from error

    async def _modifiable(self, name: str) -> tuple[Properties, bool]:
        """Return a connector's configuration and whether it is a sink; raises where its offsets may not be changed now."""
        self._leads("Only the leader can process external offsets modification requests")
        await self._loop.configs.read(self.settings.sync_timeout_ms / 1000, before="modifying offsets")
        decisions.check_modifiable(self._loop.configs.state, name)
        config = self._config(name)
        return config, self._hosting.is_sink(config)

    async def reset_topics(self, name: str) -> None:
        """See `Herder`."""
        for use in list((await self.view()).statuses.topics.get(name, {}).values()):
            self._statuses.put_use(use, removed=True)
        await self._statuses.flush(FLUSH_SECONDS_MAX)
        await self._statuses.read_to_end()

    async def set_cluster_level(self, namespace: str, level: str) -> None:
        """See `Herder`."""
        await self._read.wait()
        await self._loop.configs.write([LoggerLevel(namespace, level)])

    # Between workers

    def _session(self) -> SessionKey | None:
        return self._loop.session_key if self._loop.signs else None

    async def _check(self, body: bytes, signature: Signature | None) -> None:
        await self._read.wait()
        if self._loop.signs:
            accepted = self.settings.verification_algorithms
            decisions.check_signature(signature, body, self._loop.session_key, accepted=accepted)

    async def put_tasks(
        self, name: str, configs: Sequence[Properties], *, body: bytes, signature: Signature | None
    ) -> None:
        """See `Herder`."""
        await self._check(body, signature)
        async with self._doing(f"writing {len(configs)} task configs for connector {name} to the config topic"):
            self._leads("Only the leader may write task configurations.")
            await self._loop.write_as_leader(decisions.set_tasks(self._loop.configs.state, name, configs))

    async def fence(self, name: str, *, body: bytes, signature: Signature | None) -> None:
        """See `Herder`."""
        await self._check(body, signature)
        async with self._doing(f"fencing older tasks of connector {name}"):
            self._leads("Only the leader may perform zombie fencing.")
            self._fencing.check(name, self._hosting)
        await self._fencing.fence(name)

    async def _fence_by_leader(self, name: str) -> None:
        async with self._doing(f"asking for older tasks of connector {name} to be fenced"):
            leads = self._loop.is_leader
        if leads:
            await self._fencing.fence(name)
            return
        await ask_to_fence(
            *(self._ask, self._loop.leader_url, name, self._session(), self.settings.signature_algorithm)
        )

    def _reconfigure_later(self, name: str) -> None:
        self._work.later(self._reconfigure(name))

    async def _reconfigure(self, name: str) -> None:
        """Have a connector's tasks set anew where it wants others, until that has come to pass."""
        retry_s = RETRY_S
        while name in self._work.connectors:
            try:
                await self._publish_tasks(name)
                return
            except (ConnectError, TimeoutError) as error:
                log.error("The tasks of connector %s cannot be set, which is tried again: %s", name, error)
            await asyncio.sleep(retry_s)
            retry_s = min(2 * retry_s, RETRY_S_MAX)

    async def _publish_tasks(self, name: str) -> None:
        async with self._doing(f"generating task configs for connector {name}"):
            state = self._loop.configs.state
        if name not in state.configs:
            return
        number = self._answers.ask()
        configs = await self._hosting.task_configs(state, name)
        if configs is None:
            return
        async with self._answers.writing(name, number) as is_newest:
            if is_newest:
                await self._set_tasks(name, configs)

    async def _set_tasks(self, name: str, configs: Sequence[Properties]) -> None:
        """Have the leader write a connector's tasks where they are others than those that are written by now."""
        await self._loop.configs.read(self.settings.sync_timeout_ms / 1000, before="setting tasks")
        async with self._doing(f"writing {len(configs)} task configs for connector {name} to the config topic"):
            state = self._loop.configs.state
            if name not in self._work.connectors or name not in state.configs:
                return
            if not decisions.tasks_changed(state, name, configs):
                return
            if self._loop.is_leader:
                await self._loop.write_as_leader(decisions.set_tasks(state, name, configs))
                return
        await send_tasks(
            *(self._ask, self._loop.leader_url, name, configs, self._session(), self.settings.signature_algorithm)
        )
