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

from ottla.base import ConfigError
from ottla.connect import herding
from ottla.connect.connector_config import validate_connector
from ottla.connect.connector_host import ConnectorHost
from ottla.connect.errors import ConnectError, NotFoundError
from ottla.connect.handling import resolved
from ottla.connect.herder import Created, GroupBusyError, SinkGroups, TaskOwner, TaskRunner, TaskStart
from ottla.connect.herding import Signature, View
from ottla.connect.herding.offsets import Pair
from ottla.connect.logger_levels import LoggerLevels
from ottla.connect.offset_file import OffsetFile
from ottla.connect.plugins import PluginKind, Plugins
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
    parse_sink_offsets,
    sink_group,
    sink_offsets,
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
        self._groups, self._providers = groups, providers or Providers({})
        self._converters = {"header.converter": _HEADERS, **(worker or {})}
        self._runner = make_runner(self)
        self._host = ConnectorHost(plugins, worker_id, tell=self.on_status, reconfigure=self._reconfigure_later)
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
        """Hear what a connector or task does; of a connector that is gone nothing is kept."""
        connector = status.of.connector if isinstance(status.of, TaskId) else status.of
        if connector in self._view.config.configs or status.state is State.DESTROYED:
            self._take_status(*encode_status(status))

    def on_topic(self, use: TopicUse) -> None:
        """Hear that a connector has used a topic (KIP-558)."""
        if use.topic not in self._view.statuses.topics.get(use.connector, {}):
            self._take_status(*encode_topic_use(use))

    async def stored_offsets(self, connector: str) -> OffsetState:
        """See `TaskOwner`."""
        return self.offset_file.state

    async def store_offsets(
        self, connector: str, offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any] | None]]
    ) -> None:
        """See `TaskOwner`."""
        await asyncio.to_thread(self.offset_file.write, herding.altered(self.offset_file.state, connector, offsets))

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

    # What is read

    async def health(self) -> None:
        """See `Herder`."""
        async with self._turn:
            if not self.ready:
                raise TimeoutError

    async def view(self, *, settled: bool = False) -> View:
        """See `Herder`; a standalone worker is always settled."""
        return self._view

    async def validate(self, config: Properties) -> dict[str, Any]:
        """See `Herder`: the plugin's own validation runs in a thread, on resolved values."""
        return await asyncio.to_thread(
            lambda: validate_connector(self._resolved(config), self.plugins, self._converters)
        )

    def _resolved(self, config: Properties) -> dict[str, str | None]:
        return resolved(config, self._providers.lookup)

    async def offsets(self, name: str) -> dict[str, Any]:
        """See `Herder`."""
        config = self._view.config.configs.get(name)
        if config is None:
            raise NotFoundError(f"Connector {name} not found")
        if not self._is_sink(config):
            return herding.source_offsets(self.offset_file.state, name)
        return {"offsets": sink_offsets(await self._groups.committed(_group(name, config)))}

    def _is_sink(self, config: Properties) -> bool:
        return self.plugins.connector(config.get("connector.class") or "").kind is PluginKind.SINK

    # What is changed

    async def put_connector(
        self, name: str, config: Properties, *, target: TargetState | None = None, may_replace: bool
    ) -> Created:
        """See `Herder`."""
        whole = herding.kept_secrets(self._view.config, name, herding.named_config(name, config))
        herding.refuse_invalid(await self.validate(whole))
        async with self._doing(f"configuring connector {name}"):
            return await self._put(name, whole, target, may_replace=may_replace)

    async def patch_connector(self, name: str, patch: Properties) -> Created:
        """See `Herder`."""
        whole = herding.patched(self._view.config, name, herding.kept_secrets(self._view.config, name, patch))
        herding.refuse_invalid(await self.validate(whole))
        async with self._doing(f"configuring connector {name}"):
            herding.patched(self._view.config, name, {})  # it may have gone in the meantime
            return await self._put(name, whole, None, may_replace=True)

    async def _put(self, name: str, config: Properties, target: TargetState | None, *, may_replace: bool) -> Created:
        change = herding.create_or_replace(self._view.config, name, config, target=target, may_replace=may_replace)
        await self._host.remove(name)
        self._append(change.records)
        await self._start_connector(name)
        await self._update_tasks(name)
        return Created(herding.connector_info(self._view, name, self.plugins), change.created)

    async def _start_connector(self, name: str) -> None:
        state = self._view.config
        target = state.target_state(name) or TargetState.STARTED
        try:
            await self._host.start(name, self._resolved(state.configs[name]), target, self._generation(name))
        except ConfigError as error:
            raise ConnectError(f"Failed to start connector: {name}") from error

    def _generation(self, name: str) -> int:
        return max(self._view.config.generations.get(name, 0), 0)

    async def _update_tasks(self, name: str) -> None:
        """Ask a running connector for its tasks, and set them anew where they differ."""
        state = self._view.config
        if not self._host.is_running(name) or state.target_state(name) is not TargetState.STARTED:
            return
        found = await self._host.task_configs(name, self._resolved(state.configs[name]))
        configs = herding.reversed_tasks(state.configs[name], found)
        if herding.tasks_changed(state, name, configs):
            await self._remove_tasks(name)
            self._append(herding.set_tasks(self._view.config, name, configs))
            await self._start_tasks(self._view.config.tasks(name))

    async def _remove_tasks(self, name: str) -> None:
        tasks = self._view.config.tasks(name)
        await self._runner.stop(tasks)
        for task in tasks:
            self.on_status(Status(task, State.DESTROYED, self.worker_id, self._generation(name)))

    async def _start_tasks(self, tasks: Collection[TaskId]) -> None:
        state = self._view.config
        await self._runner.start(
            [
                TaskStart(
                    task,
                    self._resolved(state.configs[task.connector]),
                    self._resolved(state.task_configs[task]),
                    state.target_state(task.connector) or TargetState.STARTED,
                    self._generation(task.connector),
                )
                for task in tasks
            ]
        )

    async def delete_connector(self, name: str) -> None:
        """See `Herder`."""
        async with self._doing(f"deleting connector {name}"):
            records = herding.remove(self._view.config, name)
            await self._remove_tasks(name)
            await self._host.remove(name)
            self._append(records)
            self.on_status(Status(name, State.DESTROYED, self.worker_id, 0))
            self._forget_topics(name)

    async def pause_or_resume(self, name: str, target: TargetState) -> None:
        """See `Herder`; the tasks follow behind the answer."""
        async with self._turn:
            self._append(herding.pause_or_resume(self._view.config, name, target))
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
            records = herding.stop(self._view.config, name)
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
        plan = herding.restart_plan(self._view, request)
        self._later(self._restart(plan))
        return herding.connector_status(plan.view, request.connector, self.plugins)

    async def _restart(self, plan: herding.RestartPlan) -> None:
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
            herding.check_modifiable(self._view.config, name)
            config = self._resolved(self._view.config.configs[name])
            sink = self._is_sink(config)
            by_connector = await (self._alter_sink if sink else self._alter_source)(name, config, pairs)
        return herding.outcome(reset=pairs is None, by_connector=by_connector)

    async def _alter_source(self, name: str, config: Properties, pairs: Sequence[Pair] | None) -> bool:
        state = self.offset_file.state
        plain = herding.reset_pairs(state, name) if pairs is None else herding.plain_pairs(pairs)
        connector = self.plugins.connector(config.get("connector.class") or "").cls()
        by_connector = await _asked(name, connector.alter_offsets, config, plain)
        await self.store_offsets(name, plain)
        return by_connector

    async def _alter_sink(self, name: str, config: Properties, pairs: Sequence[Pair] | None) -> bool:
        group, word = _group(name, config), "reset" if pairs is None else "alter"
        offsets = dict.fromkeys(await self._groups.committed(group)) if pairs is None else parse_sink_offsets(pairs)
        connector = self.plugins.connector(config.get("connector.class") or "").cls()
        by_connector = await _asked(name, connector.alter_offsets, config, offsets)
        try:
            if pairs is None:
                await self._groups.delete(group)
            else:
                await self._groups.alter(group, offsets)
        except GroupBusyError as error:
            raise ConnectError(
                f"Failed to {word} consumer group offsets for connector {name} either because its tasks haven't stopped "
                f"completely yet or the connector was resumed before the request to {word} its offsets could be "
                "successfully completed. If the connector is in a stopped state, this operation can be safely retried. If "
                "it doesn't eventually succeed, the Connect cluster may need to be restarted to get rid of the zombie sink "
                "tasks."
            ) from error
        except ConnectError as error:
            kind = "sink connector" if pairs is None else "connector"
            raise ConnectError(f"Failed to {word} consumer group offsets for {kind} {name}") from error
        return by_connector

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
            except Exception:
                log.exception("A request to a connector has failed behind its answer")

        task = asyncio.get_running_loop().create_task(watched())
        self._background.add(task)
        task.add_done_callback(self._background.discard)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _group(name: str, config: Properties) -> str:
    return config.get("consumer.override.group.id") or sink_group(name)


async def _asked(name: str, alter: Callable[..., bool], config: Properties, offsets: Any) -> bool:
    """Ask a connector about offsets; what it raises refuses them."""
    try:
        return bool(
            await asyncio.to_thread(alter, {key: each for key, each in config.items() if each is not None}, offsets)
        )
    except ConnectError:
        raise
    except Exception as error:  # a plugin may raise anything
        raise ConnectError(f"Failed to modify offsets for connector {name}: {error}") from error
