"""The services' doors on loopback: their own declarations, dialects and guards; handlers that only count."""

from __future__ import annotations

import asyncio
import base64
import importlib.util
import re
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from ottla.connect.rest.service import rest_server
from ottla.connect.rest.settings import RestSettings
from ottla.console import ClusterSettings, console_settings
from ottla.console.entry import Entry
from ottla.console.login_routes import LoginRoutes
from ottla.http import BasicLogins, Guard, Reply, Request, Socket, everybody, json_reply
from ottla.registry import Access, Logins
from ottla.registry.rest.serving import registry_admission
from ottla.service import Endpoint, guard_of, routes_of, server_of, socket_route
from ottla.spark.streams.web_door import Door
from ottla.spark.streams.web_server import streams_guard
from ottla.sql_server.rest.serving import admission

TOOLS = Path(__file__).resolve().parents[2] / "tools"
LOGINS = BasicLogins({"ann": "secret"})
ACCESS = Access(LOGINS, "Props")
RIGHT = f"Basic {base64.b64encode(b'ann:secret').decode()}"
WRONG = f"Basic {base64.b64encode(b'ann:wrong').decode()}"


class _Counted:
    """What a registry's admission counts by."""

    def count(self, method: str, status: int) -> None:
        pass


def _console() -> Guard:
    settings = console_settings({}, (ClusterSettings("c", "127.0.0.1:1", {}),))
    return Guard(LoginRoutes(settings, Entry(time.monotonic), {}).admit, frozenset({"localhost"}))


def _guard(admit: Callable[[Request], Reply | None]) -> Guard:
    return guard_of(admit, listeners=["localhost"], is_protected=False)


GUARDS: dict[str, Callable[[], Guard]] = {
    "Broker: metrics and health": lambda: _guard(everybody),
    "Schema registry": lambda: _guard(registry_admission(Logins(ACCESS), _Counted())),  # type: ignore[arg-type]
    "SQL server": lambda: _guard(admission(Logins(ACCESS))),
    "Connect": lambda: rest_server([], RestSettings(logins=LOGINS, hosts=("localhost",))).guard,
    "Connect: metrics and health": lambda: _guard(everybody),
    "Streams application": lambda: streams_guard(Door("127.0.0.1", 0, None, LOGINS, ("localhost",))),
    "Streams service": lambda: streams_guard(Door("127.0.0.1", 0, None, LOGINS, ("localhost",))),
    "Console": _console,
}
"""By service, its own guard, with logins where it has any."""
OPEN = {"Broker: metrics and health", "Connect: metrics and health"}
"""Services without logins."""
NAMES = sorted(GUARDS)


@cache
def all_doors() -> dict[str, Any]:
    """Return the doors of the generated page, by service."""
    sys.path.insert(0, str(TOOLS))
    try:
        spec = importlib.util.spec_from_file_location("doors", TOOLS / "doors.py")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["doors"] = module
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(TOOLS))

    async def found() -> dict[str, Any]:
        return {each.name: each for each in module.services()}

    return asyncio.run(found())


@dataclass
class Walked:
    """A service that is asked; `calls` counts what reached a handler, by method and path."""

    doors: Any
    port: int
    calls: Counter[tuple[str, str]] = field(default_factory=Counter)

    @property
    def endpoints(self) -> list[Endpoint[Any]]:
        """All that are asked, WebSockets too."""
        return [*self.doors.endpoints, *self.doors.sockets]

    async def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, bytes, dict[str, str]]:
        """Send a request as it stands, and return status, body and headers of the answer."""
        named = {"Host": f"localhost:{self.port}", "Connection": "close", "Content-Length": str(len(body))}
        named |= {name.replace("_", "-"): value for name, value in headers.items()}
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in named.items()), "", ""]
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write("\r\n".join(lines).encode() + body)
            data = await asyncio.wait_for(reader.read(), 20)
        finally:
            writer.close()
        head, _, rest = data.partition(b"\r\n\r\n")
        status, *fields = head.decode("latin-1").split("\r\n")
        found = dict(each.split(": ", 1) for each in fields)
        return int(status.split()[1]), rest, found


def place(endpoint: Endpoint[Any]) -> str:
    """Return a path of an endpoint."""
    return re.sub(r"{\w+(:[^{}]*)?}", "x", endpoint.path)


@asynccontextmanager
async def walking(name: str, **more: Any) -> AsyncIterator[Walked]:
    """Serve a service's doors; `more` are fields of its guard that differ."""
    doors = all_doors()[name]
    walked = Walked(doors, 0)

    def counting(endpoint: Endpoint[Any]) -> Any:
        async def answer(_request: Request) -> Reply:
            walked.calls[endpoint.method, endpoint.path] += 1
            return json_reply({})

        return answer

    async def opened(_request: Request, _socket: Socket) -> None:
        walked.calls["GET", doors.sockets[0].path] += 1

    routes = [
        *(socket_route(replace(each, handle=opened)) for each in doors.sockets),
        *routes_of(doors.endpoints, doors.dialect, counting),
    ]
    server = server_of(routes, replace(GUARDS[name](), **more), doors.dialect)
    walked.port = await server.listen("127.0.0.1", 0)
    try:
        yield walked
    finally:
        await server.close()


__all__ = ["NAMES", "OPEN", "RIGHT", "WRONG", "Walked", "all_doors", "place", "walking"]
