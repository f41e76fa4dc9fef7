"""Runs connectors, the part of each that divides its work among tasks, in threads of their own calls."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ottla.connect.api import Connector
from ottla.connect.errors import ConnectError
from ottla.connect.log_context import connector_context
from ottla.connect.plugins import Plugins
from ottla.connect.storage import State, Status, TargetState

__all__ = ["ConnectorHost"]

log = logging.getLogger(__name__)

Properties = Mapping[str, str | None]
_STATES = {
    TargetState.STARTED: State.RUNNING,
    TargetState.PAUSED: State.PAUSED,
    TargetState.STOPPED: State.STOPPED,
}


class _Context:
    """What a connector may ask of its worker; it may ask from any thread."""

    def __init__(self, reconfigure: Callable[[], None], fail: Callable[[BaseException], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._reconfigure, self._fail = reconfigure, fail

    def request_task_reconfiguration(self) -> None:
        """See `ConnectorContext`."""
        self._loop.call_soon_threadsafe(self._reconfigure)

    def raise_error(self, error: BaseException) -> None:
        """See `ConnectorContext`."""
        self._loop.call_soon_threadsafe(self._fail, error)


@dataclass(slots=True)
class _Hosted:
    connector: Connector
    config: Properties
    version: str
    state: State
    started: bool = False
    idle: str | None = None
    """Why it is right that it wants no task, where it said so."""


class ConnectorHost:
    """The connectors of a worker. `tell` is called with their states, `reconfigure` when one wants other tasks."""

    def __init__(
        self,
        plugins: Plugins,
        worker_id: str,
        *,
        tell: Callable[[Status], None],
        reconfigure: Callable[[str], None],
    ) -> None:
        self._plugins, self._worker_id = plugins, worker_id
        self._tell, self._reconfigure = tell, reconfigure
        self._hosted: dict[str, _Hosted] = {}
        self.startups = self.startup_failures = 0
        """How many connectors have started here, and how many could not."""

    def is_running(self, name: str) -> bool:
        """Return whether a connector can be asked for its tasks."""
        hosted = self._hosted.get(name)
        return hosted is not None and hosted.started and hosted.state is State.RUNNING

    def knows(self, name: str) -> bool:
        """Return whether a connector is here, in whatever state; its states have been told then."""
        return name in self._hosted

    def names(self) -> list[str]:
        """Return the connectors that are here."""
        return list(self._hosted)

    async def start(self, name: str, config: Properties, target: TargetState, generation: int) -> None:
        """Make a connector of its configuration and bring it into a state; raises ConnectError where that fails."""
        try:
            await self._start(name, config, target, generation)
        except Exception:
            self.startup_failures += 1
            raise
        self.startups += target is TargetState.STARTED

    async def _start(self, name: str, config: Properties, target: TargetState, generation: int) -> None:
        plugin = self._plugins.connector((config.get("connector.class") or "").strip())
        connector: Connector = plugin.cls()
        hosted = self._hosted[name] = _Hosted(connector, config, str(plugin.version), State.UNASSIGNED)
        connector.context = _Context(
            lambda: self._reconfigure(name), lambda error: self._failed(name, error, generation)
        )
        await self._bring(name, hosted, target, generation)

    async def bring(self, name: str, target: TargetState, generation: int) -> None:
        """Start, pause or stop a connector that is here; raises ConnectError."""
        hosted = self._hosted.get(name)
        if hosted is None:
            return
        if hosted.state is State.FAILED and target is not TargetState.STOPPED:
            raise ConnectError(f"Cannot transition connector {name} to {target.value} since it has failed")
        await self._bring(name, hosted, target, generation)

    async def _bring(self, name: str, hosted: _Hosted, target: TargetState, generation: int) -> None:
        wanted = target is TargetState.STARTED
        with connector_context(name):
            await self._turn(name, hosted, target, generation, wanted=wanted)
        hosted.state = _STATES[target]
        self._tell(Status(name, hosted.state, self._worker_id, generation, None, hosted.version))

    async def _turn(self, name: str, hosted: _Hosted, target: TargetState, generation: int, *, wanted: bool) -> None:
        try:
            if wanted and not hosted.started:
                config = {key: value for key, value in hosted.config.items() if value is not None}
                await asyncio.to_thread(hosted.connector.start, config)
            elif hosted.started and not wanted:
                await asyncio.to_thread(hosted.connector.stop)
            hosted.started = wanted
        except Exception as error:  # a plugin may raise anything
            self._failed(name, error, generation)
            raise ConnectError(f"Failed to transition connector {name} to state {target.value}") from error

    def _failed(self, name: str, error: BaseException, generation: int) -> None:
        hosted = self._hosted.get(name)
        if hosted is None:
            return
        hosted.state = State.FAILED
        trace = "".join(traceback.format_exception(error))
        self._tell(Status(name, State.FAILED, self._worker_id, generation, trace, hosted.version))

    async def remove(self, name: str) -> None:
        """Stop a connector and let go of it; what it raises is logged."""
        hosted = self._hosted.pop(name, None)
        if hosted is None or not hosted.started:
            return
        try:
            with connector_context(name):
                await asyncio.to_thread(hosted.connector.stop)
        except Exception:  # a plugin may raise anything, and it is gone all the same
            log.exception("Connector %s failed while it was stopped", name)

    def idle(self) -> dict[str, str]:
        """Return why connectors that run here want no task, of those that say that this is right."""
        return {name: each.idle for name, each in self._hosted.items() if each.started and each.idle is not None}

    async def _no_tasks(self, name: str, connector: Connector) -> str | None:
        """Ask a connector why it wants no task: what it says is for people only, and keeps nothing from being done."""
        try:
            with connector_context(name):
                said = await asyncio.to_thread(connector.no_tasks)
        except Exception:  # a plugin may raise anything
            log.exception("Connector %s failed while it was asked why it wants no task", name)
            return None
        return said if isinstance(said, str) and said else None

    async def task_configs(self, name: str, config: Properties) -> list[dict[str, str | None]]:
        """Return the configurations that a running connector gives its tasks.

        Raises ConnectError for too many, and for whatever the connector raises: it may be asked again.
        """
        hosted = self._hosted[name]
        most = int(config.get("tasks.max") or 1)
        try:
            with connector_context(name):
                found: Sequence[Mapping[str, str]] = await asyncio.to_thread(hosted.connector.task_configs, most)
        except ConnectError:
            raise
        except Exception as raised:  # a plugin may raise anything
            said = f"{type(raised).__name__}: {raised}"
            raise ConnectError(f"Connector {name} failed while it was asked for its tasks: {said}") from raised
        hosted.idle = None if found else await self._no_tasks(name, hosted.connector)
        if len(found) > most and (config.get("tasks.max.enforce") or "true").strip().lower() == "true":
            error = ConnectError(
                f"The connector {name} has generated {len(found)} tasks, which is greater than {most}, the maximum number "
                "of tasks it is configured to create. This behaviour should be considered a bug and is disallowed. If "
                "necessary, it can be permitted by reconfiguring the connector with 'tasks.max.enforce' set to false."
            )
            self._failed(name, error, 0)
            raise error
        task = hosted.connector.task_class
        named = getattr(task, "java_name", "") or f"{task.__module__}.{task.__qualname__}"
        topics = {key: config[key] for key in ("topics", "topics.regex") if key in config}
        return [{**each, "task.class": named, **topics} for each in found]
