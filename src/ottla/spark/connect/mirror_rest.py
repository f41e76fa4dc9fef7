"""A MirrorMaker's REST interface: one address, below which each flow's worker has its own, as `/east/west` (KIP-710)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ottla.base import ConfigError
from ottla.connect import ConnectError, Herder, WorkerConfig, rest
from ottla.http import HttpError, HttpServer, Reply, Route
from ottla.mirror import Flow
from ottla.spark.connect.worker import RestPlace, shown, why_not, with_ports

__all__ = ["MirrorRest"]

HERE = rest.Address("127.0.0.1", 0)
MARGIN_S = 5.0
"""How much longer the server waits than the interface, which knows what the worker is at."""


class MirrorRest:
    """Two doors to the workers of all flows.

    The whole interface is on this machine's loopback address alone. With `dedicated.mode.enable.internal.rest` there is
    what nodes ask each other at `listeners`, signed with the key that only they can read, and nothing else, as in Kafka;
    where `rest.extension.classes` asks for passwords there is the whole interface, too.
    """

    def __init__(self, config: WorkerConfig, *, is_internal: bool) -> None:
        """`config` is any flow's worker's, since all have the same interface; raises ConfigError for its addresses."""
        settings = rest.rest_settings(config.properties)
        if is_internal and not settings.listeners:
            raise ConfigError("listeners", "", "one address at least, such as http://host:8080")
        self._config, self._is_internal = config, is_internal
        self._settings = settings
        self._servers: list[HttpServer] = []
        self._told = ("", "")

    def prepare(self) -> None:
        """Choose the ports that are left to the system; raises OSError."""
        self._settings, told = with_ports(self._settings, self._config.advertised_scheme)
        here = replace(self._settings, listeners=(HERE,), tls=None)
        self._here = with_ports(here, "http")[1] if self._is_internal else told
        self._told = self._config.advertised(told.host, told.port)

    def place(self, flow: Flow) -> RestPlace:
        """Return where other nodes reach a flow's worker."""
        return RestPlace(*self._told, flow.path)

    def url(self, flow: Flow) -> str:
        """Return where a flow's worker is asked on this machine."""
        return f"http://{shown(self._here.host)}:{self._here.port}{flow.path}"

    async def listen(self, herders: Sequence[tuple[Flow, Herder]]) -> None:
        """Serve every flow; raises ConnectError where an address is taken."""
        settings, open_to_users = self._settings, self._settings.logins is not None
        forward = rest.forwarding(settings.asking)
        try:
            if self._is_internal:
                parts = ("main", "admin") if open_to_users else ("internal",)
                server = self._server(herders, settings, forward, parts)
                for each in settings.listeners:
                    await server.listen(each.host, each.port, settings.tls if each.is_secure else None)
            if self._is_internal and not open_to_users:
                forward = _refused
            await self._server(herders, settings, forward, ("main", "admin")).listen(self._here.host, self._here.port)
        except OSError as error:
            await self.close()
            raise ConnectError(why_not(error, settings, self._config.properties)) from error

    def _server(
        self,
        herders: Sequence[tuple[Flow, Herder]],
        settings: rest.RestSettings,
        forward: rest.Forward,
        parts: Sequence[str],
    ) -> HttpServer:
        routes: list[Route] = []
        for flow, herder in herders:
            routes += rest.service_routes(herder, settings, forward=forward, parts=parts, prefix=flow.path)
        admits = "everybody who reaches it" if settings.logins is None else "by a login"
        seconds_max = settings.request_seconds_max + MARGIN_S
        server = HttpServer(routes, request_seconds_max=seconds_max, admits=admits)
        self._servers.append(server)
        return server

    async def close(self) -> None:
        """Stop listening."""
        for each in self._servers:
            await each.close()


async def _refused(method: str, address: str, body: bytes, headers: Mapping[str, str]) -> Reply:
    place = address.partition("/connectors")[0]
    raise HttpError(
        409,
        f"The node that leads this flow is at {place}, and takes such requests at its own loopback address only. Ask it "
        "there, or have its listeners take them from users with passwords (rest.extension.classes).",
    )
