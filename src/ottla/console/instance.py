"""A console that runs: its clusters' samplers, and what HTTP asks of it."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from importlib.resources import files
from typing import TYPE_CHECKING

from ottla import __version__
from ottla.base import OttlaError
from ottla.console.api import Api, Endpoint, Place, http_error, openapi_document, scan_frames
from ottla.console.audit import Audit
from ottla.console.clusters import Cluster
from ottla.console.entry import SECURITY_HEADERS, Entry, Session
from ottla.console.live import Live
from ottla.console.plans import Plans
from ottla.console.requests import object_of
from ottla.console.sampler import PERIOD_SECONDS, Sampler
from ottla.console.settings import ConsoleSettings
from ottla.http import (
    HttpError,
    HttpServer,
    Reply,
    Request,
    Route,
    Socket,
    SocketRoute,
    StreamedReply,
    json_reply,
    static_routes,
)

if TYPE_CHECKING:
    from ottla.console.registry_values import RegistryValues

__all__ = ["Console"]

COOKIE = "ottla_console"
THIS_MACHINE = ("127.0.0.1", "localhost", "::1")
SAFE = ("GET", "HEAD")


class Console:
    """Serves pages and their interface; `start` it on a loop, and `stop` it there.

    `new_link` is called with each link that opens a session, the first one at the start.
    """

    def __init__(
        self,
        settings: ConsoleSettings,
        *,
        new_link: Callable[[str], None] = lambda link: None,
        period_s: float = PERIOD_SECONDS,
    ) -> None:
        self._settings = settings
        self._new_link = new_link
        self._period_s = period_s
        hosts = {*THIS_MACHINE, *settings.hosts, *(host for host, _ in settings.listeners if host)}
        self._entry = Entry(frozenset(hosts), time.monotonic, new_key=self._tell_key)
        self._audit = Audit()
        plans = Plans(self._audit, who="console", now_s=time.monotonic, now_ms=_now_ms)
        self._api = Api(plans, now_ms=_now_ms)
        self._endpoints = self._api.endpoints()
        self._places: dict[str, Place] = {}
        self._server: HttpServer | None = None
        self.addresses: list[str] = []
        """Where it is served, as `http://HOST:PORT`, once it has started."""

    def _tell_key(self, key: str) -> None:
        for address in self.addresses[:1]:
            self._new_link(f"{address}/#key={key}")

    async def start(self) -> None:
        """Serve; raises OSError where an address is taken."""
        values = _registry_values(self._settings)
        for each in self._settings.clusters:
            cluster = Cluster(each)
            sampler = Sampler(cluster.client, period_s=self._period_s)
            self._places[each.name] = Place(cluster, sampler, None if self._places else values)
        self._server = HttpServer(self._routes(), headers=SECURITY_HEADERS)
        try:
            for host, port in self._settings.listeners:
                bound = await self._server.listen(host, port)
                shown = host or "127.0.0.1"
                self.addresses.append(f"http://{f'[{shown}]' if ':' in shown else shown}:{bound}")
        except BaseException:
            await self.stop()
            raise
        for place in self._places.values():
            place.sampler.start()
        self._tell_key(self._entry.key)

    async def stop(self) -> None:
        """Stop serving, and let the clusters go."""
        if self._server is not None:
            await self._server.close()
        for place in self._places.values():
            await place.sampler.stop()
            await place.cluster.close()
        self._places.clear()

    # -- routes

    def _routes(self) -> list[Route | SocketRoute]:
        routes: list[Route | SocketRoute] = [
            Route("POST", "/api/login", self._login),
            Route("POST", "/api/logout", self._logout),
            Route("GET", "/api/session", self._session),
            Route("GET", "/api/openapi.json", self._openapi),
            SocketRoute("/api/c/{cluster}/live", self._live, admit=self._admit_socket),
        ]
        routes += [
            Route(each.method, f"/api/c/{{cluster}}{each.path}", self._guarded(each)) for each in self._endpoints
        ]
        routes += static_routes(files("ottla.console") / "static" / "assets", "/assets/")
        index = (files("ottla.console") / "static" / "index.html").read_bytes()

        async def page(request: Request) -> Reply:
            self._entry.check_host(request.headers.get("Host"))
            return Reply(index, "text/html; charset=utf-8", headers={"Cache-Control": "no-cache"})

        return [*routes, Route("GET", "/", page), Route("GET", "/c/{rest:.*}", page)]

    def _guarded(self, endpoint: Endpoint) -> Callable[[Request], Awaitable[Reply | StreamedReply]]:
        async def answer(request: Request) -> Reply | StreamedReply:
            session = self._admitted(request)
            if request.method not in SAFE:
                self._entry.check_change(session, request.headers)
            if endpoint.changes and self._settings.read_only:
                raise HttpError(403, "This console is read-only (ottla.console.read.only)", error_code=40301)
            try:
                return await endpoint.handle(self._place(request), request)
            except HttpError:
                raise
            except OttlaError as error:
                raise http_error(error) from error

        return answer

    def _admitted(self, request: Request) -> Session:
        self._entry.check_host(request.headers.get("Host"))
        return self._entry.session(request.cookies.get(self._cookie(request)))

    def _cookie(self, request: Request) -> str:
        """Cookies are kept by host alone, so that consoles on two ports would take each other's."""
        port = (request.headers.get("Host") or "").rpartition(":")[2]
        return f"{COOKIE}_{port}" if port.isdigit() else COOKIE

    def _place(self, request: Request) -> Place:
        name = request.match_info["cluster"]
        place = self._places.get(name)
        if place is None:
            raise HttpError(404, f"This console has no cluster {name}: it has {', '.join(self._places)}")
        return place

    async def _login(self, request: Request) -> Reply:
        self._entry.check_host(request.headers.get("Host"))
        self._entry.check_origin(request.headers)
        try:
            body = object_of(await request.json())
        except ValueError:
            raise HttpError(400, "The body is not JSON") from None
        cookie, session = self._entry.open(body.get("key"), request.remote or "")
        value = f"{self._cookie(request)}={cookie}; HttpOnly; SameSite=Strict; Path=/"
        return Reply(
            json_reply(self._told(session)).body,
            "application/json",
            headers={"Set-Cookie": value, "Cache-Control": "no-store"},
        )

    async def _logout(self, request: Request) -> Reply:
        self._entry.check_change(self._admitted(request), request.headers)
        self._entry.end(request.cookies.get(self._cookie(request)))
        return json_reply({})

    async def _session(self, request: Request) -> Reply:
        return json_reply(self._told(self._admitted(request)))

    def _told(self, session: Session) -> dict[str, object]:
        return {
            "token": session.token,
            "version": __version__,
            "read_only": self._settings.read_only,
            "anonymous": self._settings.allow_anonymous,
            "clusters": list(self._places),
        }

    async def _openapi(self, request: Request) -> Reply:
        self._admitted(request)
        return json_reply(openapi_document(self._endpoints, __version__))

    def _admit_socket(self, request: Request) -> None:
        self._admitted(request)
        self._entry.check_origin(request.headers)
        self._place(request)

    async def _live(self, request: Request, socket: Socket) -> None:
        place = self._place(request)
        live = Live(socket, place.sampler, lambda args: scan_frames(place, args))
        await live.run()


def _registry_values(settings: ConsoleSettings) -> RegistryValues | None:
    """Return what reads by a registry; its libraries are loaded only where one is named. Raises ConfigError."""
    if settings.registry is None:
        return None
    from ottla.console.registry_values import RegistryValues

    return RegistryValues(settings.registry)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
