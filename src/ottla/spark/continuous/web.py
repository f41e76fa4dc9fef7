"""A `StreamsService` over HTTP: its applications listed, added by name, paused, resumed, ended and looked into.

What can be added lies on this machine already: a request names it, and never carries code. Whoever may ask can have it run,
so an address that others reach is served by HTTPS and to logins alone. A page in somebody's browser cannot ask: the guard
of every service refuses its origin, its forms, and a name that was made to lead here (DNS rebinding).
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Protocol

from ottla.base import ConfigError, KafkaError, OttlaError, why_unreached
from ottla.http import HttpError, Reply, Request, Who, is_loopback, json_reply, text_reply
from ottla.service import Endpoint
from ottla.spark.continuous.applications import StreamsService, short_facts
from ottla.spark.streams.run import StreamsApplication
from ottla.spark.streams.web import PROMETHEUS, SMALL, application_endpoints, metrics_text
from ottla.spark.streams.web_door import Door
from ottla.spark.streams.web_server import Handle, ThreadedServer
from ottla.streams import StreamsSettings, Topology

__all__ = ["Catalogue", "ServiceServer", "check_door"]

log = logging.getLogger(__name__)
BODY_LETTERS_MAX = 10_000
END_SECONDS = 30.0


class Catalogue(Protocol):
    """The applications that may be added by name."""

    def names(self) -> list[str]:
        """Return their names, in order; what lies there now."""
        ...

    def load(self, name: str) -> tuple[Topology, StreamsSettings]:
        """Return a plan and its settings; raises KeyError for a name that is none, OttlaError for what is no application."""
        ...


def check_door(door: Door) -> None:
    """Raise ConfigError where others could reach a service without TLS, or without saying who they are."""
    if is_loopback(door.host) or (door.tls is not None and door.logins is not None):
        return
    words = (
        f"http.listener={door.host}:{door.port}: a service has code run by name: off this machine it is served by https://… "
        "and with http.listener.logins.file alone"
    )
    raise ConfigError("http.listener", f"{door.host}:{door.port}", "", words)


class ServiceServer:
    """Serves a service until `close`. Applications are known by the names of the catalogue."""

    def __init__(self, service: StreamsService, catalogue: Catalogue, door: Door) -> None:
        """Listen; raises ConfigError for a door that is too open, OSError where the address is taken."""
        check_door(door)
        self._service, self._catalogue = service, catalogue
        self._ids: dict[str, str] = {}
        """By name, the `application.id` under which it was added."""
        self._adding = threading.Lock()
        self._server = ThreadedServer(self.endpoints(), door)
        self.port, self.url = self._server.port, self._server.url

    def close(self) -> None:
        """Stop listening."""
        self._server.close()

    def add(self, name: str) -> StreamsApplication:
        """Start an application of the catalogue; raises KeyError, and what `StreamsService.add` raises."""
        with self._adding:  # modules are imported one at a time
            topology, settings = self._catalogue.load(name)
        application = self._service.add(topology, settings)
        self._ids[name] = settings.application_id
        return application

    # -- routes

    def endpoints(self) -> Iterator[Endpoint[Handle]]:
        """Yield every address."""
        one = "/applications/{name}"
        yield Endpoint("GET", "/health", "Whether the hosts run", self._health, Who.ANYONE, statuses=(200, 503))
        yield Endpoint("GET", "/", "States and lags of all", self._status, Who.LOGGED_IN)
        yield Endpoint("GET", "/metrics", "Metrics for Prometheus", self._metrics, Who.LOGGED_IN)
        yield Endpoint("GET", "/applications", "Those that run, and those that may be added", self._list, Who.LOGGED_IN)
        yield Endpoint(
            *("POST", "/applications", "Start one that lies here", self._add, Who.LOGGED_IN),
            body="Name",
            statuses=(201, 400, 404, 409, 422),
            changes=True,
            limits=SMALL,
        )
        yield Endpoint("GET", one, "One application", self._show, Who.LOGGED_IN, statuses=(200, 404))
        change = partial(Endpoint[Handle], who=Who.LOGGED_IN, statuses=(200, 404, 409), changes=True, limits=SMALL)
        yield change("DELETE", one, "End one", self._end)
        yield change("PUT", f"{one}/pause", "Pause one", self._pause)
        yield change("PUT", f"{one}/resume", "Have a paused one go on", self._resume)
        yield from application_endpoints(one, self._of)

    def _of(self, request: Request) -> StreamsApplication:
        name = request.match_info["name"]
        try:
            return self._service.application(self._ids.get(name, name))
        except KeyError:
            raise HttpError(404, f"no application {name} runs here; /applications lists them") from None

    async def _health(self, _request: Request) -> Reply:
        is_well = all(each.is_ready for each in self._service.hosts.hosts())
        return json_reply({"hosts_ready": is_well}, status=200 if is_well else 503)

    async def _status(self, _request: Request) -> Reply:
        return json_reply(self._service.status())

    async def _metrics(self, _request: Request) -> Reply:
        running = list(self._service.applications.values())
        measured = [metric for each in running for metric in each.metrics()]
        return text_reply(metrics_text([each.status() for each in running], measured), content_type=PROMETHEUS)

    async def _list(self, _request: Request) -> Reply:
        named = {id_: name for name, id_ in self._ids.items()}
        running = [
            {"name": named.get(id_, id_), **short_facts(each)} for id_, each in self._service.applications.items()
        ]
        started = {each["name"] for each in running}
        available = [each for each in self._catalogue.names() if each not in started]
        return json_reply({"applications": running, "available": available})

    async def _show(self, request: Request) -> Reply:
        return json_reply({"name": request.match_info["name"], **self._of(request).status()})

    async def _add(self, request: Request) -> Reply:
        name = await _name_in(request)
        try:
            application = await asyncio.to_thread(self.add, name)
        except KeyError:
            known = ", ".join(self._catalogue.names()) or "none"
            raise HttpError(404, f"{name} is not among the applications that lie here: {known}") from None
        except KafkaError as error:
            status = 409 if "already" in error.message else 500 if error.retriable else 422
            raise HttpError(status, error.message) from None
        except (OttlaError, OSError) as error:
            raise HttpError(422, f"{name}: {why_unreached(error)}") from None
        except Exception as error:  # a file is imported and a plan is pickled, which may raise anything
            log.warning("application %s cannot be added", name, exc_info=True)
            raise HttpError(422, f"{name}: {type(error).__name__}: {error}") from None
        return json_reply({"name": name, **short_facts(application)}, status=201)

    async def _pause(self, request: Request) -> Reply:
        return await self._set(request, StreamsApplication.pause)

    async def _resume(self, request: Request) -> Reply:
        return await self._set(request, StreamsApplication.resume)

    async def _set(self, request: Request, change: Callable[[StreamsApplication], None]) -> Reply:
        application = self._of(request)
        try:
            await asyncio.to_thread(change, application)
        except KafkaError as error:
            raise HttpError(409, error.message) from None
        return json_reply({"name": request.match_info["name"], **short_facts(application)})

    async def _end(self, request: Request) -> Reply:
        application = self._of(request)
        in_time = await asyncio.to_thread(self._service.end, application.settings.application_id, END_SECONDS)
        return json_reply({"name": request.match_info["name"], "ended": True, "in_time": in_time})


async def _name_in(request: Request) -> str:
    """Return the name that a request's JSON gives; raises HttpError."""
    if request.content_type != "application/json":
        raise HttpError(415, 'expected a body of application/json: {"name": "…"}')
    text = await request.text()
    try:
        given = json.loads(text) if len(text) <= BODY_LETTERS_MAX else None
    except (ValueError, RecursionError):
        given = None
    name = given.get("name") if isinstance(given, Mapping) else None
    if not isinstance(given, Mapping) or not isinstance(name, str) or not name:
        raise HttpError(400, 'expected {"name": "…"}, with the name of an application that lies here')
    if further := sorted(given.keys() - {"name"}):
        words = "settings are those of the application's file and of whoever runs the service"
        raise HttpError(400, f"{', '.join(further)[:200]}: a request names an application, and sets nothing: {words}")
    return name
