"""A standalone worker's herder: configurations and states in memory, offsets in a file, tasks run by a `TaskRunner`."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from ottla.background import count_failure, supervise
from ottla.connect import decisions
from ottla.connect.decisions import Signature, View
from ottla.connect.decisions.offsets import Pair
from ottla.connect.errors import ConnectError, NotFoundError
from ottla.connect.herder import Created, SinkGroups, TaskOwner, TaskRunner
from ottla.connect.logger_levels import LoggerLevels
from ottla.connect.offset_file import OffsetFile
from ottla.connect.plugin_host import Hosting
from ottla.connect.plugins import Plugins
from ottla.connect.providers import Providers
from ottla.connect.storage import (
    OffsetState,
    RestartRequest,
    State,
    Status,
    TargetState,
    TaskId,
    TopicUse,
    apply_config,
    apply_status,
    encode_config,
    encode_status,
    encode_topic_use,
)
from ottla.connect.storage.config_records import ConfigRecord

__all__ = ["StandaloneHerder"]

log = logging.getLogger(__name__)

Properties = Mapping[str, str | None]
_HEADERS = "org.apache.kafka.connect.storage.SimpleHeaderConverter"


class StandaloneHerder:
    """One worker by itself; see `Herder`. Requests that change something are served one after another.

    The runner is made with this as its `TaskOwner`. `worker` are the worker's properties, for its converters.
    """

    def __init__(
        self,
        plugins: Plugins,
        *,
        worker_id: str,
        cluster_id: str | None,
        make_runner: Callable[[TaskOwner], TaskRunner],
        offsets: OffsetFile,
        groups: SinkGroups,
        providers: Providers | None = None,
        worker: Mapping[str, str] | None = None,
    ) -> None:
        self.plugins, self.worker_id, self.cluster_id = plugins, worker_id, cluster_id
        self.loggers = LoggerLevels(_now_ms)
        self.offset_file = offsets
        self.ready = False
        self.doing: str | None = "starting, and has not taken requests yet"
        self._runner = make_runner(self)
        self._hosting = Hosting(
            plugins,
            worker_id,
            tell=self.on_status,
            reconfigure=self._reconfigure_later,
            groups=groups,
            providers=providers,
            worker=worker,
        )
        self._host = self._hosting.connectors
        self._view = View()
        self._turn = asyncio.Lock()
        self._background: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Take requests from now on."""
        self.ready, self.doing = True, None

    async def close(self) -> None:
        """Stop all connectors and tasks."""
        async with self._doing("stopping all connectors"):
            self.ready = False
            for name in self._view.config.connectors():
                await self._runner.stop(self._view.config.tasks(name))
                await self._host.remove(name)
        for task in list(self._background):
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)

    def on_status(self, status: Status) -> None:
        """Called when the state of a connector or task changes; of a connector that is gone nothing is kept."""
        connector = status.of.connector if isinstance(status.of, TaskId) else status.of
        if connector in self._view.config.configs or status.state is State.DESTROYED:
            self._take_status(*encode_status(status))

    def on_topic(self, use: TopicUse) -> None:
        """Called when a connector has used a topic (KIP-558)."""
        if use.topic not in self._view.statuses.topics.get(use.connector, {}):
            self._take_status(*encode_topic_use(use))

    async def stored_offsets(self, connector: str) -> OffsetState:
        """See `TaskOwner`."""
        return self.offset_file.state

    async def store_offsets(
        self, connector: str, offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any] | None]]
    ) -> None:
        """See `TaskOwner`."""
        await asyncio.to_thread(self.offset_file.write, decisions.altered(self.offset_file.state, connector, offsets))

    async def confirm(self, task: TaskId) -> None:
        """See `TaskOwner`."""
        if task not in self._view.config.tasks(task.connector):
            raise ConnectError(f"Task {task} is not configured any more")

    def _take_status(self, key: str, data: bytes | None) -> None:
        statuses, ignored = apply_status(self._view.statuses, key, data)
        assert ignored is None, ignored
        self._view = replace(self._view, statuses=statuses)

    def _append(self, records: Sequence[ConfigRecord]) -> None:
        for record in records:
            key, data = encode_config(record)
            config, _ = apply_config(self._view.config, key, data, self._view.config.offset)
            self._view = replace(self._view, config=config)

    @asynccontextmanager
    async def _doing(self, what: str) -> AsyncIterator[None]:
        async with self._turn:
            self.doing = f"{what}, which began at {datetime.now(UTC).isoformat(timespec='milliseconds')}"
            try:
                yield
            finally:
                self.doing = None

    def metrics(self) -> dict[str, float]:
        """Return what connect-worker-metrics say of connectors."""
        return {f"worker-{name}": value for name, value in self._hosting.metrics().items()}

    def has_connector(self, name: str) -> bool:
        """Return whether a connector runs here, or has failed to."""
        return name in self._view.config.configs

    # What is read

    async def health(self) -> None:
        """See `Herder`."""
        async with self._turn:
            if not self.ready:
                raise TimeoutError

    async def view(self, *, settled: bool = False) -> View:
        """See `Herder`; a standalone worker is always settled."""
        return replace(self._view, progress=self._runner.progress(), idle=self._hosting.connectors.idle())

    async def validate(self, config: Properties) -> dict[str, Any]:
        """See `Herder`."""
        return await self._hosting.validate(config)

    async def offsets(self, name: str) -> dict[str, Any]:
        """See `Herder`."""
        config = self._view.config.configs.get(name)
        if config is None:
            raise NotFoundError(f"Connector {name} not found")
        if not self._hosting.is_sink(config):
            return decisions.source_offsets(self.offset_file.state, name)
        return await self._hosting.sink_offsets(name, config)

    # What is changed

    async def put_connector(
        self, name: str, config: Properties, *, target: TargetState | None = None, may_replace: bool
    ) -> Created:
        """See `Herder`."""
        state = self._view.config
        whole = decisions.completed(state, name, decisions.named_config(name, config), self.plugins)
        decisions.refuse_invalid(await self.validate(whole))
        async with self._doing(f"configuring connector {name}"):
            return await self._put(name, whole, target, may_replace=may_replace)

    async def patch_connector(self, name: str, patch: Properties) -> Created:
        """See `Herder`."""
        for _ in range(decisions.PATCH_TRIES):
            before = self._view.config
            whole = decisions.completed(before, name, patch, self.plugins, is_patch=True)
            decisions.refuse_invalid(await self.validate(whole))
            async with self._doing(f"configuring connector {name}"):
                # it may have gone in the meantime, which raises, or others may have configured it
                if decisions.patched(self._view.config, name, {}) == before.configs[name]:
                    return await self._put(name, whole, None, may_replace=True)
        raise ConnectError(f"Connector {name} was configured by others again and again")

    async def _put(self, name: str, config: Properties, target: TargetState | None, *, may_replace: bool) -> Created:
        change = decisions.create_or_replace(self._view.config, name, config, target=target, may_replace=may_replace)
        await self._host.remove(name)
        self._append(change.records)
        await self._start_connector(name)
        await self._update_tasks(name)
        return Created(decisions.connector_info(self._view, name, self.plugins), change.created)

    async def _start_connector(self, name: str) -> None:
        await self._hosting.start(self._view.config, name, self._generation(name))

    def _generation(self, name: str) -> int:
        return max(self._view.config.generations.get(name, 0), 0)

    async def _update_tasks(self, name: str) -> None:
        """Ask a running connector for its tasks, and set them anew where they differ."""
        state = self._view.config
        configs = await self._hosting.task_configs(state, name)
        if configs is not None and decisions.tasks_changed(state, name, configs):
            await self._remove_tasks(name)
            self._append(decisions.set_tasks(self._view.config, name, configs))
            await self._start_tasks(self._view.config.tasks(name))

    async def _remove_tasks(self, name: str) -> None:
        tasks = self._view.config.tasks(name)
        await self._runner.stop(tasks)
        for task in tasks:
            self.on_status(Status(task, State.DESTROYED, self.worker_id, self._generation(name)))

    async def _start_tasks(self, tasks: Collection[TaskId]) -> None:
        starts = [
            start
            for task in tasks
            for start in self._hosting.task_starts(self._view.config, [task], self._generation(task.connector))
        ]
        await self._runner.start(starts)

    async def delete_connector(self, name: str) -> None:
        """See `Herder`."""
        async with self._doing(f"deleting connector {name}"):
            records = decisions.remove(self._view.config, name)
            await self._remove_tasks(name)
            await self._host.remove(name)
            self._append(records)
            self.on_status(Status(name, State.DESTROYED, self.worker_id, 0))
            self._forget_topics(name)

    async def pause_or_resume(self, name: str, target: TargetState) -> None:
        """See `Herder`; the tasks follow behind the answer."""
        async with self._turn:
            self._append(decisions.pause_or_resume(self._view.config, name, target))
        self._later(self._follow_target(name))

    async def _follow_target(self, name: str) -> None:
        async with self._doing(f"bringing connector {name} into its target state"):
            target = self._view.config.target_state(name)
            if name not in self._view.config.configs or target is None:
                return
            await self._host.bring(name, target, self._generation(name))
            await self._runner.pause_or_resume(self._view.config.tasks(name), target)
            await self._update_tasks(name)

    async def stop_connector(self, name: str) -> None:
        """See `Herder`."""
        async with self._doing(f"stopping connector {name}"):
            records = decisions.stop(self._view.config, name)
            await self._remove_tasks(name)
            self._append(records)
            await self._host.bring(name, TargetState.STOPPED, self._generation(name))

    async def restart_connector(self, name: str) -> None:
        """See `Herder`."""
        async with self._doing(f"restarting connector {name}"):
            if name not in self._view.config.configs:
                raise NotFoundError(f"Unknown connector: {name}")
            await self._host.remove(name)
            await self._start_connector(name)
            await self._update_tasks(name)

    async def restart(self, request: RestartRequest) -> dict[str, Any]:
        """See `Herder`."""
        plan = decisions.restart_plan(self._view, request)
        self._later(self._restart(plan))
        return decisions.connector_status(plan.view, request.connector, self.plugins)

    async def _restart(self, plan: decisions.RestartPlan) -> None:
        name = plan.request.connector
        async with self._doing(f"restarting connector {name} and its tasks"):
            known = self._view.config.tasks(name)
            tasks = [task for task in plan.tasks if task in known]
            await self._runner.stop(tasks)
            for task in tasks:
                self._restarting(task)
            if plan.connector and name in self._view.config.configs:
                await self._host.remove(name)
                self._restarting(name)
                await self._start_connector(name)
            await self._start_tasks(tasks)

    def _restarting(self, of: str | TaskId) -> None:
        found = self._view.statuses.statuses.get(of)
        if found is not None:
            self.on_status(replace(found, state=State.RESTARTING, trace=None))

    async def restart_task(self, task: TaskId) -> None:
        """See `Herder`."""
        async with self._doing(f"restarting task {task}"):
            if task.connector not in self._view.config.configs:
                raise NotFoundError(f"Unknown connector: {task.connector}")
            if task not in self._view.config.tasks(task.connector):
                raise NotFoundError(f"Task {task} not found")
            await self._runner.stop([task])
            await self._start_tasks([task])

    async def alter_offsets(self, name: str, pairs: Sequence[Pair] | None) -> dict[str, str]:
        """See `Herder`."""
        async with self._doing(f"modifying the offsets of connector {name}"):
            decisions.check_modifiable(self._view.config, name)
            config = self._hosting.resolved(self._view.config.configs[name])
            if self._hosting.is_sink(config):
                by_connector = await self._hosting.alter_sink(name, config, pairs)
            else:
                asked = await self._hosting.ask_source(name, config, pairs, self.offset_file.state)
                await self.store_offsets(name, asked.pairs)
                by_connector = asked.by_connector
        return decisions.outcome(reset=pairs is None, by_connector=by_connector)

    async def reset_topics(self, name: str) -> None:
        """See `Herder`."""
        self._forget_topics(name)

    def _forget_topics(self, name: str) -> None:
        for use in list(self._view.statuses.topics.get(name, {}).values()):
            self._take_status(*encode_topic_use(use, removed=True))

    async def put_tasks(
        self, name: str, configs: Sequence[Properties], *, body: bytes, signature: Signature | None
    ) -> None:
        """See `Herder`: never here."""
        raise ConnectError("Kafka Connect in standalone mode does not support externally setting task configurations.")

    async def fence(self, name: str, *, body: bytes, signature: Signature | None) -> None:
        """See `Herder`: never here."""
        raise ConnectError("Kafka Connect in standalone mode does not support exactly-once source connectors.")

    async def set_cluster_level(self, namespace: str, level: str) -> None:
        """See `Herder`: this worker is the cluster."""
        self.loggers.set(namespace, level)

    def _reconfigure_later(self, name: str) -> None:
        self._later(self._reconfigure(name))

    async def _reconfigure(self, name: str) -> None:
        async with self._doing(f"reconfiguring the tasks of connector {name}"):
            if name in self._view.config.configs:
                await self._update_tasks(name)

    def _later(self, work: Any) -> None:
        async def watched() -> None:
            try:
                await work
            except Exception:  # nobody awaits this, so it is said here
                log.exception("A request to a connector has failed behind its answer")
                count_failure("the worker")

        task = supervise(watched(), name="a request", serves="the worker")
        self._background.add(task)
        task.add_done_callback(self._background.discard)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
