"""What every worker does with its own connectors and tasks: placeholders, validation, starts, and asking about offsets."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from ottla.base import ConfigError
from ottla.client import security_of
from ottla.config import resolved
from ottla.connect import decisions
from ottla.connect.client_overrides import ineffective_overrides
from ottla.connect.connector_config import validate_connector
from ottla.connect.connector_host import ConnectorHost
from ottla.connect.decisions.offsets import Pair
from ottla.connect.error_policy.secrets import concealed
from ottla.connect.errors import ConnectError
from ottla.connect.herder import GroupBusyError, SinkGroups, TaskStart
from ottla.connect.log_context import connector_context
from ottla.connect.plugins import PluginKind, Plugins
from ottla.connect.providers import Providers
from ottla.connect.query_sink import QuerySink
from ottla.connect.storage import (
    ConfigState,
    OffsetState,
    Status,
    TargetState,
    TaskId,
    parse_sink_offsets,
    sink_group,
    sink_offsets,
)
from ottla.connect.task_clients import prefixed

__all__ = ["Hosting", "SourceAlteration"]

log = logging.getLogger(__name__)

Properties = Mapping[str, str | None]
_HEADERS = "org.apache.kafka.connect.storage.SimpleHeaderConverter"


@dataclass(frozen=True, slots=True)
class SourceAlteration:
    """A source connector's offsets as they are to be stored, and whether the connector has taken part."""

    pairs: Sequence[tuple[Mapping[str, Any], Mapping[str, Any] | None]]
    by_connector: bool


class Hosting:
    """The connectors that run in this process, and what their configurations mean here.

    `worker` are the worker's properties, for its converters. `tell` is called with connectors' states, `reconfigure`
    when one wants other tasks.
    """

    def __init__(
        self,
        plugins: Plugins,
        worker_id: str,
        *,
        tell: Callable[[Status], None],
        reconfigure: Callable[[str], None],
        groups: SinkGroups,
        providers: Providers | None = None,
        worker: Mapping[str, str] | None = None,
    ) -> None:
        self._plugins, self._groups, self._providers = plugins, groups, providers or Providers()
        self._worker = {"header.converter": _HEADERS, **(worker or {})}
        self.connectors = ConnectorHost(plugins, worker_id, tell=tell, reconfigure=reconfigure)

    def resolved(self, config: Properties) -> dict[str, str | None]:
        """Return a configuration with its placeholders replaced."""
        return resolved(config, self._providers.lookup)

    async def validate(self, config: Properties) -> dict[str, Any]:
        """Return a configuration's validation; the plugin's own part runs in a thread, on resolved values."""
        whole = self.resolved(config)
        found = await asyncio.to_thread(lambda: validate_connector(whole, self._plugins, self._worker))
        return concealed(found, config, whole)

    def is_sink(self, config: Properties) -> bool:
        """Return whether a configuration is a sink's; raises ConnectError where its class is not installed."""
        return self._plugins.connector((config.get("connector.class") or "").strip()).kind is PluginKind.SINK

    async def start(self, state: ConfigState, name: str, generation: int) -> None:
        """Start a connector in its target state; raises ConnectError."""
        target, config = state.target_state(name) or TargetState.STARTED, state.configs[name]
        self._warn(name, config)
        try:
            await self.connectors.start(name, self.resolved(config), target, generation)
        except ConfigError as error:
            raise ConnectError(f"Failed to start connector: {name}") from error

    def metrics(self) -> dict[str, float]:
        """Return what connect-worker-metrics say of connectors, those of this worker."""
        done, failed = self.connectors.startups, self.connectors.startup_failures
        attempts = done + failed
        return {
            "connector-count": len(self.connectors.names()),
            "connector-startup-attempts-total": attempts,
            "connector-startup-success-total": done,
            "connector-startup-failure-total": failed,
            "connector-startup-success-percentage": done / attempts if attempts else 0.0,
            "connector-startup-failure-percentage": failed / attempts if attempts else 0.0,
        }

    def _warn(self, name: str, config: Properties) -> None:
        """Tell the log what of a configuration has no effect."""
        try:
            plugin = self._plugins.connector((config.get("connector.class") or "").strip())
        except ConnectError:
            return  # whoever starts the connector says so
        task, sink = plugin.cls.task_class, plugin.kind is PluginKind.SINK
        query = isinstance(task, type) and issubclass(task, QuerySink)
        with connector_context(name):
            for line in ineffective_overrides(config, sink=sink, query=query):
                log.warning("%s", line)

    async def task_configs(self, state: ConfigState, name: str) -> list[dict[str, str | None]] | None:
        """Return what a running connector wants its tasks to be, placeholders kept; None where it does not run.

        Raises ConnectError.
        """
        if not self.connectors.is_running(name) or state.target_state(name) is not TargetState.STARTED:
            return None
        found = await self.connectors.task_configs(name, self.resolved(state.configs[name]))
        return decisions.reversed_tasks(state.configs[name], found)

    def task_starts(self, state: ConfigState, tasks: Collection[TaskId], generation: int) -> list[TaskStart]:
        """Return what a runner needs to start tasks; raises where a placeholder cannot be replaced."""
        return [
            TaskStart(
                task,
                self.resolved(state.configs[task.connector]),
                self.resolved(state.task_configs[task]),
                state.target_state(task.connector) or TargetState.STARTED,
                generation,
            )
            for task in tasks
        ]

    async def sink_offsets(self, name: str, config: Properties) -> dict[str, Any]:
        """Return the offsets of a sink connector as they are shown."""
        config = self.resolved(config)
        async with self._groups_of(config) as groups:
            return {"offsets": sink_offsets(await groups.committed(_group(name, config)))}

    @asynccontextmanager
    async def _groups_of(self, config: Properties) -> AsyncIterator[SinkGroups]:
        """Yield the groups of the cluster that a sink reads from."""
        own = {**prefixed(config, "consumer.override."), **prefixed(config, "admin.override.")}
        bootstrap, security = own.get("bootstrap.servers"), security_of(own)
        if not bootstrap and not security:
            yield self._groups
            return
        bootstrap = bootstrap or self._worker.get("bootstrap.servers") or ""
        security = security_of(prefixed(self._worker, "admin.")) | security
        async with self._groups.elsewhere(bootstrap, security) as groups:
            yield groups

    async def ask_source(
        self, name: str, config: Properties, pairs: Sequence[Pair] | None, stored: OffsetState
    ) -> SourceAlteration:
        """Ask a source connector about other offsets, None to reset all; raises ConnectError where it refuses."""
        plain = decisions.reset_pairs(stored, name) if pairs is None else decisions.plain_pairs(pairs)
        connector = self._plugins.connector((config.get("connector.class") or "").strip()).cls()
        return SourceAlteration(plain, await _asked(name, connector.alter_offsets, config, plain))

    async def alter_sink(self, name: str, config: Properties, pairs: Sequence[Pair] | None) -> bool:
        """Alter a sink's offsets, reset them all where None; returns whether the connector took part."""
        async with self._groups_of(config) as groups:
            return await self._alter_in(groups, name, config, pairs)

    async def _alter_in(self, groups: SinkGroups, name: str, config: Properties, pairs: Sequence[Pair] | None) -> bool:
        group, word = _group(name, config), "reset" if pairs is None else "alter"
        offsets = dict.fromkeys(await groups.committed(group)) if pairs is None else parse_sink_offsets(pairs)
        connector = self._plugins.connector((config.get("connector.class") or "").strip()).cls()
        by_connector = await _asked(name, connector.alter_offsets, config, offsets)
        try:
            if pairs is None:
                await groups.delete(group)
            else:
                await groups.alter(group, offsets)
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
