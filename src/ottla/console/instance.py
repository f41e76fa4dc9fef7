"""A console that runs: its clusters' samplers, and what HTTP asks of it."""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from importlib.resources import files
from typing import TYPE_CHECKING
from urllib.parse import quote

from ottla import __version__, service
from ottla.admin import Worker
from ottla.background import end, keep_running, supervise
from ottla.base import OttlaError
from ottla.console.alerts.keeper import ALERT_CONFIGS, AlertKeeper
from ottla.console.alerts.notices import Notices
from ottla.console.api.endpoints import Endpoint, http_error, openapi_document
from ottla.console.api.sql import sql_frames
from ottla.console.api.table import Api, scan_frames
from ottla.console.audit import Audit
from ottla.console.audit_topic import AuditTopic
from ottla.console.clusters import Cluster
from ottla.console.entry import SECURITY_HEADERS, Entry, Session
from ottla.console.figures.history_topic import HistoryKeeper, HistoryTopic
from ottla.console.figures.sampler import PERIOD_SECONDS, Sampler
from ottla.console.first_page import FirstPage
from ottla.console.live import Live
from ottla.console.login_routes import SESSION, Handle, LoginRoutes
from ottla.console.own_topic import OwnTopic
from ottla.console.places import Place
from ottla.console.plans import Plans
from ottla.console.records.replay_jobs import JOB_CONFIGS, ReplayJobs
from ottla.console.records.scan_processes import ScanProcesses
from ottla.console.rights import KeptRights
from ottla.console.settings import ConsoleSettings
from ottla.http import (
    Guard,
    HttpError,
    HttpServer,
    Reply,
    Request,
    Route,
    Socket,
    SocketRoute,
    StreamedReply,
    Who,
    json_reply,
    known_hosts,
    static_routes,
)
from ottla.service import Dialect, routes_of, server_of, socket_route

if TYPE_CHECKING:
    from ottla.console.records.registry_values import RegistryValues

__all__ = ["Console"]

log = logging.getLogger(__name__)

LOAD_TRIES_MAX = 100
SWEEP_SECONDS = 30.0
REST_SECONDS_MAX = 20.0
"""How long Connect's workers and the registry have for an answer."""
GIVEN_SECONDS_MAX = 0.2
"""How long a page waits for the figures that it is sent with: a user's rights may have to be asked for."""
UNQUOTED = "!'()*-._~"
"""What browsers leave as it is in a part of an address (encodeURIComponent)."""
NOT_LOGGED_IN = 40102
ADMITS = "by its link or a login"
"""Who may come in, in words for the log."""
SAFE = ("GET", "HEAD")
DIALECT = Dialect()


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
        self._hosts = known_hosts((host for host, _ in settings.listeners), settings.hosts, is_protected=False)
        self._entry = Entry(time.monotonic, new_key=self._tell_key, ended=self._ended)
        self._audit = Audit()
        plans = Plans(self._audit, now_s=time.monotonic, now_ms=_now_ms)
        self._api = Api(plans, now_ms=_now_ms)
        self._endpoints = self._api.endpoints()
        self._places: dict[str, Place] = {}
        self._logins = LoginRoutes(settings, self._entry, self._places)
        self._server: HttpServer | None = None
        self._sweeping: asyncio.Task[None] | None = None
        self._loading: list[asyncio.Task[None]] = []
        self._keepers: list[HistoryKeeper] = []
        self._secret = secrets.token_bytes(32)
        self._searches = ScanProcesses()
        self._closing: set[asyncio.Task[None]] = set()
        """Logins that are being closed."""
        self.addresses: list[str] = []
        """Where it is served, as `http://HOST:PORT`, once it has started."""

    def _tell_key(self, key: str) -> None:
        for address in self.addresses[:1]:
            self._new_link(f"{address}/" if self._settings.mechanisms else f"{address}/#key={key}")

    def _ended(self, session: Session) -> None:
        """Close what a session that is over has open."""

        async def close() -> None:
            places = list(session.places.values())
            session.places.clear()
            await asyncio.gather(
                *(each.close() for each in list(session.sockets)), *(self._logins.leave(each) for each in places)
            )

        task = supervise(close(), name="end a session", serves="sessions")
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _load_audit(self, place: Place) -> None:
        """Take in the changes from before, as soon as the cluster answers."""
        assert place.audit_topic is not None
        seen = 0
        for _ in range(LOAD_TRIES_MAX):
            seen = await place.sampler.next(seen)
            try:
                self._audit.take(await place.audit_topic.load())
            except OttlaError as error:
                log.warning("changes from before are not known yet: %s", error)
            else:
                return

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            self._entry.sweep()

    async def start(self) -> None:
        """Serve; raises OSError where an address is taken."""
        values, workers, schemas = _registry_values(self._settings), _workers(self._settings), _schemas(self._settings)
        for each in self._settings.clusters:
            cluster = Cluster(each)
            sampler = Sampler(cluster.client, period_s=self._period_s)
            place = Place(
                *(cluster, sampler, KeptRights(cluster.client)),
                audit_topic=AuditTopic(cluster.client, each.name, self._settings.audit_topic),
                masks=self._settings.masks,
                secret=self._secret,
                searches=self._searches,
                prices=self._settings.prices,
                alerts=self._alerts(cluster, sampler),
                replays=self._replays(cluster),
            )
            self._places[each.name] = (
                place
                if self._places
                else replace(
                    place,
                    registry=values,
                    workers=workers,
                    schemas=schemas,
                    sql=_sql_server(self._settings),
                    streams=_streams(self._settings),
                    registry_properties=self._settings.registry,
                    decoders=self._settings.decoders,
                )
            )
        guard = Guard(self._logins.admit, self._hosts, hosts_key="ottla.console.hosts")
        self._server = server_of(self._routes(), guard, DIALECT, headers=SECURITY_HEADERS, admits=ADMITS)
        try:
            for host, port in self._settings.listeners:
                bound = await self._server.listen(host, port, self._settings.tls)
                shown, scheme = host or "127.0.0.1", "http" if self._settings.tls is None else "https"
                self.addresses.append(f"{scheme}://{f'[{shown}]' if ':' in shown else shown}:{bound}")
        except BaseException:
            await self.stop()
            raise
        for place in self._places.values():
            place.sampler.start()
        await self._searches.start()
        self._loading = [
            keep_running(partial(self._load_audit, each), name="load changes", serves="the console's audit")
            for each in self._places.values()
        ]
        for place in self._places.values():
            if place.replays is not None:
                place.replays.start()
        self._loading += [
            keep_running(partial(self._load_replays, each), name="load replays", serves="replays")
            for each in self._places.values()
            if each.replays is not None
        ]
        self._keepers = [
            HistoryKeeper(place.sampler, HistoryTopic(place.cluster.client, self._settings.history_topic), _now_ms)
            for place in self._places.values()
        ]
        for keeper in self._keepers:
            keeper.start(writes=not self._settings.read_only)
        for place in self._places.values():
            if place.alerts is not None:
                place.alerts.start()
        self._sweeping = keep_running(self._sweep, name="sweep sessions", serves="sessions")
        self._tell_key(self._entry.key)

    async def stop(self) -> None:
        """Stop serving, and let the clusters go."""
        await end(self._sweeping, *self._loading)
        self._entry.end_all()
        await self._searches.stop()
        await asyncio.gather(*self._closing)
        if self._server is not None:
            await self._server.close()
        self._entry.end_all()  # a login may have begun one while the server closed
        await self._logins.close()
        await asyncio.gather(*self._closing)
        await asyncio.gather(*(keeper.stop() for keeper in self._keepers))
        alerts = [place.alerts for place in self._places.values() if place.alerts is not None]
        await asyncio.gather(*(each.stop() for each in alerts))
        jobs = [place.replays for place in self._places.values() if place.replays is not None]
        await asyncio.gather(*(each.stop() for each in jobs))
        for place in self._places.values():
            await place.sampler.stop()
            await place.cluster.close()
        self._places.clear()

    def _alerts(self, cluster: Cluster, sampler: Sampler) -> AlertKeeper:
        settings = self._settings
        targets = {each.name: each for each in settings.targets}
        return AlertKeeper(
            sampler,
            OwnTopic(cluster.client, settings.alerts_topic, ALERT_CONFIGS),
            Notices(cluster.client, targets, settings.mail),
            cluster=cluster.name,
            link=lambda: f"{self.addresses[0] if self.addresses else ''}/c/{quote(cluster.name, safe='')}",
            now_ms=_now_ms,
            acts=not settings.read_only,
        )

    def _replays(self, cluster: Cluster) -> ReplayJobs | None:
        settings = self._settings
        if not settings.jobs_topic:
            return None
        home = f"{socket.gethostname()} {' '.join(f'{host}:{port}' for host, port in settings.listeners)}"
        return ReplayJobs(OwnTopic(cluster.client, settings.jobs_topic, JOB_CONFIGS), home=home, now_ms=_now_ms)

    async def _load_replays(self, place: Place) -> None:
        """Take in the replays from before, and go on with them, as soon as the cluster answers."""
        assert place.replays is not None
        seen = 0
        for _ in range(LOAD_TRIES_MAX):
            seen = await place.sampler.next(seen)
            try:
                await place.replays.load()
            except OttlaError as error:
                log.warning("replays from before are not known yet: %s", error)
                continue
            if not self._settings.mechanisms and not self._settings.read_only:
                await place.replays.go_on(place)
            return

    # -- routes

    def endpoints(self) -> tuple[list[Endpoint], list[service.Endpoint[Handle]]]:
        """Return the addresses: those of clusters, below `/api/c/{cluster}`, and those beside them."""
        whole = [replace(each, path=f"/api/c/{{cluster}}{each.path}") for each in self._endpoints]
        index = FirstPage((files("ottla.console") / "static" / "index.html").read_bytes())

        async def page(request: Request) -> Reply:
            return Reply(index.with_answers(await self._given(request)), "text/html; charset=utf-8")

        described = "This interface in OpenAPI's words"
        return whole, [
            *self._logins.endpoints(),
            service.Endpoint("GET", "/api/openapi.json", described, self._openapi, Who.SESSION),
            service.Endpoint("GET", "/", "The first page", page, Who.ANYONE),
            service.Endpoint("GET", "/c/{rest:.*}", "A cluster's pages", page, Who.ANYONE),
        ]

    def socket(self) -> service.Endpoint[Callable[[Request, Socket], Awaitable[None]]]:
        """Return the address of the WebSocket."""
        return service.Endpoint("GET", "/api/c/{cluster}/live", "What changes, as it does", self._live, Who.SESSION)

    def _routes(self) -> list[Route | SocketRoute]:
        of_clusters, beside = self.endpoints()
        return [
            *routes_of(beside, DIALECT, lambda each: each.handle),
            socket_route(self.socket(), self._admit_socket),
            *routes_of(of_clusters, DIALECT, self._guarded),
            *static_routes(files("ottla.console") / "static" / "assets", "/assets/"),
        ]

    async def _given(self, request: Request) -> dict[str, object]:
        """Return what a page would ask first: its session, and the overview where it shows that.

        What cannot be answered now is left out: the page then asks for it, and shows why it is not answered.
        """
        try:
            session = self._logins.admitted(request)
        except HttpError:
            return {}
        found: dict[str, object] = {"/api/session": self._logins.told(session)}
        cluster, _, rest = request.match_info.get("rest", "").partition("/")
        cluster = cluster or next(iter(self._places), "")
        try:
            place = self._place(cluster, session)
            if not rest and place.sampler.newest is not None:
                async with asyncio.timeout(GIVEN_SECONDS_MAX):
                    found[f"/api/c/{quote(cluster, safe=UNQUOTED)}/overview"] = await self._api.overview(place)
        except (OttlaError, HttpError, TimeoutError) as error:
            log.debug("the overview of %s comes without figures: %s", cluster, error)
        return found

    def _guarded(self, endpoint: Endpoint) -> Callable[[Request], Awaitable[Reply | StreamedReply]]:
        async def answer(request: Request) -> Reply | StreamedReply:
            session = request[SESSION]
            if request.method not in SAFE:
                self._entry.check_change(session, request.headers)
            if endpoint.changes and self._settings.read_only:
                raise HttpError(403, "This console is read-only (ottla.console.read.only)", error_code=40301)
            try:
                reply = await endpoint.handle(self._place(request.match_info["cluster"], session), request)
                if isinstance(reply, StreamedReply):
                    return replace(reply, chunks=self._while_open(session, request, reply.chunks))
                return reply
            except HttpError:
                raise
            except OttlaError as error:
                raise http_error(error) from error

        return answer

    async def _while_open(
        self, session: Session, request: Request, chunks: AsyncGenerator[bytes, None]
    ) -> AsyncGenerator[bytes, None]:
        """Yield what is streamed as long as its session is open; then it breaks off, so that nobody takes it for whole."""
        async with aclosing(chunks):
            async for chunk in chunks:
                if not self._entry.holds(session):
                    if request.transport is not None:
                        request.transport.abort()
                    return
                yield chunk

    def _place(self, name: str, session: Session) -> Place:
        place = self._places.get(name)
        if place is None:
            raise HttpError(404, f"This console has no cluster {name}: it has {', '.join(self._logins.offered())}")
        if not self._settings.mechanisms:
            return place
        mine: Place | None = session.places.get(name)
        if mine is None:
            raise HttpError(401, f"Log in to {name}", error_code=NOT_LOGGED_IN)
        if mine.login is not None and time.monotonic() >= mine.login.until_s:
            raise HttpError(401, f"The access token has ended: log in to {name} again", error_code=NOT_LOGGED_IN)
        return mine

    async def _openapi(self, request: Request) -> Reply:
        return json_reply(openapi_document(self._endpoints, __version__, self._logins.offered()))

    def _admit_socket(self, request: Request) -> None:
        self._place(request.match_info["cluster"], request[SESSION])

    async def _live(self, request: Request, socket: Socket) -> None:
        session = self._logins.known(request)
        if session is None:
            return  # it has ended since it was admitted
        place = self._place(request.match_info["cluster"], session)
        session.sockets.add(socket)
        try:
            live = Live(
                *(socket, place.sampler, {"scan": partial(scan_frames, place), "sql": partial(sql_frames, place)}),
                lambda: self._entry.holds(session),
            )
            await live.run()
        finally:
            session.sockets.discard(socket)


def _registry_values(settings: ConsoleSettings) -> RegistryValues | None:
    """Return what reads by a registry; its libraries are loaded only where one is named. Raises ConfigError."""
    if settings.registry is None:
        return None
    from ottla.console.records.registry_values import RegistryValues

    return RegistryValues(settings.registry)


def _workers(settings: ConsoleSettings) -> dict[str, Worker]:
    return {
        name: Worker(url, settings.clusters[0].properties, answer_s=REST_SECONDS_MAX)
        for name, url in settings.workers.items()
    }


def _streams(settings: ConsoleSettings) -> dict[str, Worker]:
    properties = settings.clusters[0].properties
    return {
        name: Worker(url, properties, what="Streams service", answer_s=REST_SECONDS_MAX)
        for name, url in settings.streams.items()
    }


def _sql_server(settings: ConsoleSettings) -> Worker | None:
    if settings.sql is None:
        return None
    return Worker(settings.sql, settings.clusters[0].properties, what="SQL server", answer_s=REST_SECONDS_MAX)


def _schemas(settings: ConsoleSettings) -> Worker | None:
    """Return the registry's own interface, with the login of its client; raises ConfigError."""
    if settings.registry is None:
        return None
    url = settings.registry["schema.registry.url"].split(",")[0].strip()
    login = settings.registry.get("basic.auth.user.info") or settings.registry.get(
        "schema.registry.basic.auth.user.info"
    )
    if login and "@" not in url:
        scheme, _, place = url.partition("://")
        user, _, password = login.partition(":")
        url = f"{scheme}://{quote(user, safe='')}:{quote(password, safe='')}@{place}"
    stores = {key.removeprefix("schema.registry."): value for key, value in settings.registry.items()}
    return Worker(url, stores, what="schema registry", answer_s=REST_SECONDS_MAX)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
