"""Writes that the primary has to carry out: sent on to it once, and waited for where it is just being chosen."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
from yarl import URL

from ottla.http import Reply, Request
from ottla.registry.core.errors import forwarding_failed, unknown_leader
from ottla.registry.election import Election
from ottla.registry.identities import Identity
from ottla.registry.service import ElsewhereError, Registry

__all__ = ["FORWARDED", "Forwarding"]

FORWARDED = "X-Forward"
"""The header of a request that another instance has sent on: it is not sent on again."""
CHOOSING_SECONDS_MAX = 15.0
"""How long a write waits for a primary to be chosen."""
PAUSE_S = 0.1
PASSED_ON = ("Accept", "Authorization", "Content-Type", "Confluent-Accept-Unknown-Properties")
UNKNOWN_LEADER = 50004
REPEATABLE = ("POST", "PUT")
"""Registering and configuring come to the same when they are done twice; deleting twice is an error."""


class Forwarding:
    """Sends writes on to the primary."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close its connections."""
        if self._session is not None:
            await self._session.close()

    async def answered(self, request: Request, data: bytes, here: Callable[[], Awaitable[Reply]]) -> Reply:
        """Return the primary's answer, which may be this instance; raises RegistryError where there is none."""
        loop = asyncio.get_running_loop()
        until = loop.time() + min(CHOOSING_SECONDS_MAX, self._registry.settings.leader_wait_s)
        election = self._registry.election
        while True:
            reply = await self._tried(request, data, here, election)
            if reply is not None:
                return reply
            if FORWARDED in request.headers:
                raise unknown_leader("The request was sent on to an instance that is not the primary")
            if loop.time() >= until:
                raise unknown_leader("No instance is the primary; the request was not carried out")
            election.look()
            try:
                async with asyncio.timeout(PAUSE_S), election.changed:
                    await election.changed.wait()
            except TimeoutError:
                pass

    async def _tried(
        self, request: Request, data: bytes, here: Callable[[], Awaitable[Reply]], election: Election
    ) -> Reply | None:
        """Return an answer, None where it is worth another try: nothing was done."""
        if election.is_primary:
            try:
                return await here()
            except ElsewhereError:
                return None
        primary = election.primary
        if primary is None or primary == election.identity or FORWARDED in request.headers:
            return None
        reply = await self._sent(primary, request, data)
        if reply is not None and reply.status < 300:
            await self._registry.store.refresh()  # who has written through here reads it here
        return reply

    async def _sent(self, primary: Identity, request: Request, data: bytes) -> Reply | None:
        """Return the answer of an instance, None where it gave none and asking another changes nothing that was done."""
        headers = {name: request.headers[name] for name in PASSED_ON if name in request.headers}
        address = f"{primary.url}{request.rel_url.raw_path_qs}"
        asking = asyncio.ensure_future(self._ask(request.method, address, data, {**headers, FORWARDED: "true"}))
        replaced = asyncio.ensure_future(self._replaced(primary))
        try:
            await asyncio.wait((asking, replaced), return_when=asyncio.FIRST_COMPLETED)
            if asking.done():
                return asking.result()
            error: Exception = TimeoutError("it is not the primary any more, and has not answered")
        except aiohttp.ClientConnectorError:
            return None
        except (aiohttp.ClientError, TimeoutError, OSError) as found:
            error = found
        finally:
            for each in (asking, replaced):
                each.cancel()
            await asyncio.gather(asking, replaced, return_exceptions=True)
        if request.method in REPEATABLE:
            return None
        raise forwarding_failed(f"Unexpected error while forwarding the request to {primary.url}: {error}") from error

    async def _replaced(self, primary: Identity) -> None:
        """Return when another instance is the primary, who has taken from this one what it did not write until then."""
        election = self._registry.election
        async with election.changed:
            await election.changed.wait_for(lambda: election.primary not in (None, primary))

    async def _ask(self, method: str, address: str, data: bytes, headers: dict[str, str]) -> Reply | None:
        asking = self._registry.settings.asking
        given: dict[str, Any] = {"data": data or None, "headers": headers, "allow_redirects": False}
        given["ssl"] = True if asking is None else asking()
        async with self._opened().request(method, URL(address, encoded=True), **given) as answer:
            body = await answer.read()
            if answer.status == UNKNOWN_LEADER // 100 and f'"error_code":{UNKNOWN_LEADER}'.encode() in body:
                return None
            return Reply(body, answer.headers.get("Content-Type", "application/json"), answer.status)

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            settings = self._registry.settings
            limit = aiohttp.ClientTimeout(total=settings.leader_wait_s, connect=10.0)
            self._session = aiohttp.ClientSession(timeout=limit)
        return self._session
