"""Every endpoint of the interface: where it is, what it answers, and what the OpenAPI document says of it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias
from urllib.parse import quote

from ottla import service
from ottla.connect import decisions
from ottla.connect.decisions.signature import signature_of
from ottla.connect.errors import BadRequestError, NotFoundError
from ottla.connect.herder import Created, Herder
from ottla.connect.rest.bodies import create_request, flag, read_json, read_map
from ottla.connect.rest.settings import RestSettings
from ottla.connect.storage import RestartRequest, TargetState, TaskId
from ottla.connect.version import STOCK_VERSION
from ottla.http import HttpError, Reply, Request, Who, json_reply

__all__ = ["ADMIN", "INTERNAL", "Endpoint", "Endpoints"]

_COMMIT = "Unknown"
"""Kafka's own word for a build that names no commit."""

_TASK = re.compile("-?[0-9]{1,11}")
_TASK_MAX = 2**31


Endpoint: TypeAlias = service.Endpoint[Callable[[Request], Awaitable[Reply]]]
ADMIN, INTERNAL = frozenset({"admin"}), frozenset({"internal"})
"""Tags: of `/admin`, and of what workers ask each other, which the OpenAPI document leaves out."""


def _empty(status: int) -> Reply:
    return Reply(b"", "application/json", status)


def _named(request: Request) -> str:
    return request.match_info["connector"]


def _task(request: Request) -> TaskId:
    text = request.match_info["task"]
    if not _TASK.fullmatch(text) or abs(int(text)) >= _TASK_MAX:
        raise HttpError(404, "HTTP 404 Not Found")
    return TaskId(_named(request), int(text))


class Endpoints:
    """The endpoints of a worker."""

    def __init__(self, herder: Herder, settings: RestSettings) -> None:
        self._herder, self._settings = herder, settings

    def all(self) -> list[Endpoint]:
        """Return every endpoint, in the order of Kafka's documentation."""
        return [*self._connectors(), *self._state(), *self._plugins_and_loggers()]

    def _connectors(self) -> list[Endpoint]:
        return [*self._server(), *self._configurations()]

    def _server(self) -> list[Endpoint]:
        return [
            Endpoint(
                "GET",
                "/",
                "Versions and the cluster's id",
                self.root,
                Who.LOGGED_IN,
                statuses=(200,),
                answer="ServerInfo",
            ),
            Endpoint(
                "GET",
                "/health",
                "Whether the worker works",
                self.health,
                Who.LOGGED_IN,
                statuses=(200, 500, 503),
                answer="Health",
            ),
        ]

    def _configurations(self) -> list[Endpoint]:
        one = "/connectors/{connector}"
        return [
            Endpoint(
                "GET",
                "/connectors",
                "All connectors",
                self.connectors,
                Who.LOGGED_IN,
                statuses=(200,),
                query=("expand",),
            ),
            Endpoint(
                "POST",
                "/connectors",
                "Create a connector",
                self.create,
                Who.LOGGED_IN,
                statuses=(201, 400, 409, 415),
                body="Create",
                answer="ConnectorInfo",
                changes=True,
            ),
            Endpoint("GET", one, "A connector", self.info, Who.LOGGED_IN, answer="ConnectorInfo", statuses=(200, 404)),
            Endpoint(
                "DELETE", one, "Delete a connector", self.delete, Who.LOGGED_IN, statuses=(204, 404, 409), changes=True
            ),
            Endpoint(
                "GET",
                f"{one}/config",
                "A connector's configuration",
                self.config,
                Who.LOGGED_IN,
                answer="Config",
                statuses=(200, 404),
            ),
            Endpoint(
                "PUT",
                f"{one}/config",
                "Create or configure",
                self.put,
                Who.LOGGED_IN,
                statuses=(200, 201, 400, 409, 415),
                body="ConnectorConfig",
                answer="ConnectorInfo",
                changes=True,
            ),
            Endpoint(
                "PATCH",
                f"{one}/config",
                "Change some keys",
                self.patch,
                Who.LOGGED_IN,
                statuses=(200, 400, 404, 409, 415),
                body="ConfigPatch",
                answer="ConnectorInfo",
                changes=True,
            ),
        ]

    def _state(self) -> list[Endpoint]:
        return [*self._running(), *self._topics_and_offsets(), *self._between_workers()]

    def _running(self) -> list[Endpoint]:
        one = "/connectors/{connector}"
        restart = ("includeTasks", "onlyFailed")
        return [
            Endpoint(
                "GET",
                f"{one}/status",
                "A connector's state and its tasks'",
                self.status,
                Who.LOGGED_IN,
                answer="ConnectorStatus",
                statuses=(200, 404),
            ),
            Endpoint(
                "POST",
                f"{one}/restart",
                "Restart",
                self.restart,
                Who.LOGGED_IN,
                statuses=(202, 204, 404, 409),
                query=restart,
                changes=True,
            ),
            Endpoint(
                "PUT",
                f"{one}/pause",
                "Pause a connector and its tasks",
                self.pause,
                Who.LOGGED_IN,
                statuses=(202, 404),
                changes=True,
            ),
            Endpoint(
                "PUT",
                f"{one}/resume",
                "Resume a connector and its tasks",
                self.resume,
                Who.LOGGED_IN,
                statuses=(202, 404),
                changes=True,
            ),
            Endpoint(
                "PUT",
                f"{one}/stop",
                "Stop a connector, remove its tasks",
                self.stop,
                Who.LOGGED_IN,
                statuses=(204, 404, 409),
                changes=True,
            ),
            Endpoint(
                "GET",
                f"{one}/tasks",
                "Tasks and their configurations",
                self.tasks,
                Who.LOGGED_IN,
                statuses=(200, 404, 409),
                answer="Tasks",
            ),
            Endpoint(
                "GET",
                one + "/tasks/{task}/status",
                "A task's state",
                self.task,
                Who.LOGGED_IN,
                answer="TaskState",
                statuses=(200, 404),
            ),
        ]

    def _topics_and_offsets(self) -> list[Endpoint]:
        one = "/connectors/{connector}"
        return [
            Endpoint(
                "POST",
                one + "/tasks/{task}/restart",
                "Restart a task",
                self.restart_task,
                Who.LOGGED_IN,
                statuses=(204, 404, 409),
                changes=True,
            ),
            Endpoint(
                "GET",
                f"{one}/topics",
                "Topics that a connector has used",
                self.topics,
                Who.LOGGED_IN,
                statuses=(200, 403),
            ),
            Endpoint(
                "PUT",
                f"{one}/topics/reset",
                "Forget the topics used",
                self.reset_topics,
                Who.LOGGED_IN,
                statuses=(202, 403),
                changes=True,
            ),
            Endpoint(
                "GET",
                f"{one}/offsets",
                "A connector's offsets",
                self.offsets,
                Who.LOGGED_IN,
                answer="Offsets",
                statuses=(200, 404),
            ),
            Endpoint(
                "PATCH",
                f"{one}/offsets",
                "Alter offsets",
                self.alter,
                Who.LOGGED_IN,
                statuses=(200, 400, 404, 409, 415),
                body="OffsetsChange",
                answer="Message",
                changes=True,
            ),
            Endpoint(
                "DELETE",
                f"{one}/offsets",
                "Reset offsets",
                self.reset,
                Who.LOGGED_IN,
                statuses=(200, 400, 404, 409),
                answer="Message",
                changes=True,
            ),
        ]

    def _between_workers(self) -> list[Endpoint]:
        one = "/connectors/{connector}"
        return [
            Endpoint(
                "POST",
                f"{one}/tasks",
                "Between workers",
                self.put_tasks,
                Who.SIGNED,
                statuses=(204,),
                tags=INTERNAL,
                changes=True,
            ),
            Endpoint(
                "PUT",
                f"{one}/fence",
                "Between workers",
                self.fence,
                Who.SIGNED,
                statuses=(204,),
                tags=INTERNAL,
                changes=True,
            ),
        ]

    def _plugins_and_loggers(self) -> list[Endpoint]:
        plugin = "/connector-plugins/{plugin}/config"
        return [
            Endpoint(
                "GET",
                "/connector-plugins",
                "Installed plugins",
                self.plugins,
                Who.LOGGED_IN,
                statuses=(200,),
                query=("connectorsOnly",),
            ),
            Endpoint(
                "GET",
                plugin,
                "What a plugin is configured with",
                self.plugin,
                Who.LOGGED_IN,
                statuses=(200, 400, 404),
                query=("version",),
            ),
            Endpoint(
                "PUT",
                f"{plugin}/validate",
                "Check a configuration",
                self.validate,
                Who.LOGGED_IN,
                statuses=(200, 400, 415),
                body="ConnectorConfig",
            ),
            Endpoint(
                "GET", "/admin/loggers", "Levels of loggers", self.loggers, Who.LOGGED_IN, statuses=(200,), tags=ADMIN
            ),
            Endpoint(
                "GET",
                "/admin/loggers/{logger}",
                "A logger's level",
                self.logger,
                Who.LOGGED_IN,
                answer="Level",
                statuses=(200, 404),
                tags=ADMIN,
            ),
            Endpoint(
                "PUT",
                "/admin/loggers/{logger}",
                "Set a level",
                self.set_level,
                Who.LOGGED_IN,
                statuses=(200, 204, 400, 404, 415),
                body="LevelChange",
                query=("scope",),
                tags=ADMIN,
                changes=True,
            ),
        ]

    async def root(self, request: Request) -> Reply:
        """Say who answers."""
        return json_reply({"version": STOCK_VERSION, "commit": _COMMIT, "kafka_cluster_id": self._herder.cluster_id})

    async def health(self, request: Request) -> Reply:
        """Say whether the worker does what it is asked (KIP-1017)."""
        try:
            async with asyncio.timeout(self._settings.health_seconds_max):
                await self._herder.health()
        except TimeoutError:
            doing = f" The worker is currently {self._herder.doing}." if self._herder.doing else ""
            if not self._herder.ready:
                return json_reply({"status": "starting", "message": f"Worker is still starting up.{doing}"}, status=503)
            words = "Worker was unable to handle this request and may be unable to handle other requests."
            return json_reply({"status": "unhealthy", "message": words + doing}, status=500)
        words = "Worker has completed startup and is ready to handle requests."
        return json_reply({"status": "healthy", "message": words})

    async def connectors(self, request: Request) -> Reply:
        """List connectors; with `expand`, what else is asked of each."""
        view, plugins = await self._herder.view(), self._herder.plugins
        if "expand" not in request.query:
            return json_reply(view.config.connectors())
        kinds = request.query.getall("expand")
        makers: dict[str, Callable[[str], dict[str, Any]]] = {
            "status": lambda name: decisions.connector_status(view, name, plugins),
            "info": lambda name: decisions.connector_info(view, name, plugins),
        }
        found = {}
        for name in view.config.connectors():
            try:
                found[name] = {kind: makers[kind](name) for kind in kinds if kind in makers}
            except NotFoundError:
                continue  # it has no status yet, or none any more
        return json_reply(found)

    def _created(self, created: Created) -> Reply:
        if not created.created:
            return json_reply(created.info)
        reply = json_reply(created.info, status=201)
        location = f"/connectors/{quote(created.info['name'], safe='')}"
        return Reply(reply.body, reply.content_type, 201, {"Location": location})

    async def create(self, request: Request) -> Reply:
        """Create a connector."""
        asked = create_request(await read_json(request, literal=True))
        config = decisions.named_config(asked.name, asked.config)
        return self._created(
            await self._herder.put_connector(asked.name, config, target=asked.initial, may_replace=False)
        )

    async def put(self, request: Request) -> Reply:
        """Create a connector or configure it anew."""
        config = decisions.named_config(_named(request), await read_map(request))
        return self._created(await self._herder.put_connector(_named(request), config, may_replace=True))

    async def patch(self, request: Request) -> Reply:
        """Change some of a connector's keys."""
        return json_reply((await self._herder.patch_connector(_named(request), await read_map(request))).info)

    async def info(self, request: Request) -> Reply:
        """Show a connector."""
        view = await self._herder.view(settled=True)
        return json_reply(decisions.connector_info(view, _named(request), self._herder.plugins))

    async def config(self, request: Request) -> Reply:
        """Show a connector's configuration."""
        view = await self._herder.view(settled=True)
        return json_reply(decisions.connector_info(view, _named(request), self._herder.plugins)["config"])

    async def status(self, request: Request) -> Reply:
        """Show the states of a connector and its tasks."""
        return json_reply(decisions.connector_status(await self._herder.view(), _named(request), self._herder.plugins))

    async def tasks(self, request: Request) -> Reply:
        """Show a connector's tasks."""
        view = await self._herder.view(settled=True)
        return json_reply(decisions.task_infos(view, _named(request), self._herder.plugins))

    async def task(self, request: Request) -> Reply:
        """Show a task's state."""
        return json_reply(decisions.task_status(await self._herder.view(), _task(request)))

    async def delete(self, request: Request) -> Reply:
        """Delete a connector."""
        await self._herder.delete_connector(_named(request))
        return _empty(204)

    async def pause(self, request: Request) -> Reply:
        """Pause a connector."""
        await self._herder.pause_or_resume(_named(request), TargetState.PAUSED)
        return _empty(202)

    async def resume(self, request: Request) -> Reply:
        """Resume a connector."""
        await self._herder.pause_or_resume(_named(request), TargetState.STARTED)
        return _empty(202)

    async def stop(self, request: Request) -> Reply:
        """Stop a connector."""
        await self._herder.stop_connector(_named(request))
        return _empty(204)

    async def restart(self, request: Request) -> Reply:
        """Restart a connector, and by request its tasks (KIP-745)."""
        tasks, failed = flag(request, "includeTasks") or False, flag(request, "onlyFailed") or False
        if not tasks and not failed:
            await self._herder.restart_connector(_named(request))
            return _empty(204)
        asked = RestartRequest(_named(request), only_failed=failed, include_tasks=tasks)
        return json_reply(await self._herder.restart(asked), status=202)

    async def restart_task(self, request: Request) -> Reply:
        """Restart a task."""
        await self._herder.restart_task(_task(request))
        return _empty(204)

    def _check_tracking(self) -> None:
        if not self._settings.topic_tracking:
            raise HttpError(403, "Topic tracking is disabled.")

    async def topics(self, request: Request) -> Reply:
        """List the topics that a connector has used (KIP-558)."""
        self._check_tracking()
        name = _named(request)
        return json_reply({name: {"topics": decisions.topics_of(await self._herder.view(), name)}})

    async def reset_topics(self, request: Request) -> Reply:
        """Forget the topics that a connector has used."""
        self._check_tracking()
        if not self._settings.topic_reset:
            raise HttpError(403, "Topic tracking reset is disabled.")
        await self._herder.reset_topics(_named(request))
        return _empty(202)

    async def offsets(self, request: Request) -> Reply:
        """Show a connector's offsets (KIP-875)."""
        return json_reply(await self._herder.offsets(_named(request)))

    async def alter(self, request: Request) -> Reply:
        """Alter a stopped connector's offsets."""
        pairs = decisions.check_pairs(await read_json(request))
        return json_reply(await self._herder.alter_offsets(_named(request), pairs))

    async def reset(self, request: Request) -> Reply:
        """Forget a stopped connector's offsets."""
        return json_reply(await self._herder.alter_offsets(_named(request), None))

    async def put_tasks(self, request: Request) -> Reply:
        """Take a connector's tasks from the worker that it runs on."""
        body, signature = await request.read(), _signature(request)
        configs = await read_json(request)
        if not isinstance(configs, list) or not all(isinstance(each, dict) for each in configs):
            raise BadRequestError("Task configurations are a list of objects")
        await self._herder.put_tasks(_named(request), configs, body=body, signature=signature)
        return _empty(204)

    async def fence(self, request: Request) -> Reply:
        """Fence a source connector's older tasks for another worker."""
        await self._herder.fence(_named(request), body=await request.read(), signature=_signature(request))
        return _empty(204)

    async def plugins(self, request: Request) -> Reply:
        """List plugins."""
        only = flag(request, "connectorsOnly")
        return json_reply(self._herder.plugins.listing(connectors_only=only is not False))

    async def plugin(self, request: Request) -> Reply:
        """Show the keys of a plugin."""
        name, version = request.match_info["plugin"], request.query.get("version", "latest")
        plugin = self._herder.plugins.any_kind(name)
        if plugin is not None and version not in ("latest", str(plugin.version)):
            raise BadRequestError(f"Plugin {name} is installed in version {plugin.version}, not {version}")
        return json_reply(decisions.plugin_keys(self._herder.plugins, name))

    async def validate(self, request: Request) -> Reply:
        """Check a configuration."""
        config, name = await read_map(request), request.match_info["plugin"]
        included = config.get("connector.class")
        if included is not None and not _short(included).endswith(_short(name)):
            raise BadRequestError(f"Included connector type {included} does not match request type {name}")
        return json_reply(await self._herder.validate(config))

    async def loggers(self, request: Request) -> Reply:
        """Show the levels of all loggers."""
        return json_reply(self._herder.loggers.levels())

    async def logger(self, request: Request) -> Reply:
        """Show a logger's level."""
        return json_reply(self._herder.loggers.level(request.match_info["logger"]))

    async def set_level(self, request: Request) -> Reply:
        """Set the level of a logger and those below it, here or on every worker (KIP-976)."""
        level = (await read_map(request)).get("level")
        if level is None:
            raise BadRequestError("Desired 'level' parameter was not specified in request.")
        word, namespace = self._herder.loggers.checked(level), request.match_info["logger"]
        if request.query.get("scope", "worker").lower() == "cluster":
            await self._herder.set_cluster_level(namespace, word)
            return _empty(204)
        return json_reply(self._herder.loggers.set(namespace, word))


def _short(name: str) -> str:
    """Return a class name without its ending, which an alias leaves out."""
    return name.removesuffix("Connector") or name


def _signature(request: Request) -> decisions.Signature | None:
    headers = request.headers
    return signature_of(headers.get("X-Connect-Authorization"), headers.get("X-Connect-Request-Signature-Algorithm"))
