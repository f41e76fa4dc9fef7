"""Writes that the primary has to carry out: sent on to it once, and waited for where it is just being chosen."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from ottla.background import awaited, end
from ottla.http import Asker, AskError, Reply, Request
from ottla.registry.core.errors import forwarding_failed, unknown_leader
from ottla.registry.identities import Identity
from ottla.registry.service import ElsewhereError, Registry
from ottla.registry.settings import INSTANCE_HOSTS
from ottla.service import Office

__all__ = ["FORWARDED", "Forwarding"]

FORWARDED = "X-Forward"
"""The header of a request that another instance has sent on: it is not sent on again."""
CHOOSING_SECONDS_MAX = 15.0
"""How long a write waits for a primary to be chosen."""
PAUSE_S = 0.1
PASSED_ON = ("Accept", "Authorization", "Content-Type", "Confluent-Accept-Unknown-Properties")
ANSWERED = (
    *("application/vnd.schemaregistry.v1+json", "application/vnd.schemaregistry+json", "application/json"),
    "application/octet-stream",
)
ANSWER_BYTES_MAX = 32 << 20
UNKNOWN_LEADER = 50004
REPEATABLE = ("POST", "PUT")
"""Registering and configuring come to the same when they are done twice; deleting twice is an error."""


class Forwarding:
    """Sends writes on to the primary."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._asker: Asker | None = None

    async def close(self) -> None:
        """Close its connections."""
        if self._asker is not None:
            await self._asker.close()

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
        self, request: Request, data: bytes, here: Callable[[], Awaitable[Reply]], election: Office[Identity]
    ) -> Reply | None:
        """Return an answer, None where it is worth another try: nothing was done."""
        if election.is_held:
            try:
                return await here()
            except ElsewhereError:
                return None
        primary = election.holder
        if primary is None or primary == self._registry.identity or FORWARDED in request.headers:
            return None
        reply = await self._sent(primary, request, data)
        if reply is not None and reply.status < 300:
            await self._registry.store.refresh()  # who has written through here reads it here
        return reply

    async def _sent(self, primary: Identity, request: Request, data: bytes) -> Reply | None:
        """Return the answer of an instance, None where it gave none and asking another changes nothing that was done."""
        headers = {name: request.headers[name] for name in PASSED_ON if name in request.headers}
        if "Authorization" in headers and not self._registry.settings.logins_to.takes(primary.url):
            raise forwarding_failed(
                f"The request has a login, and {primary.url} is not known as an instance that logins are sent to: ask it "
                f"there, or list its host in {INSTANCE_HOSTS} of every instance"
            )
        address = f"{primary.url}{request.rel_url.raw_path_qs}"
        asking = awaited(self._ask(request.method, address, data, {**headers, FORWARDED: "true"}))
        replaced = awaited(self._replaced(primary))
        try:
            await asyncio.wait((asking, replaced), return_when=asyncio.FIRST_COMPLETED)
            if asking.done():
                return asking.result()
            error: Exception = TimeoutError("it is not the primary any more, and has not answered")
        except AskError as found:
            if found.is_unreached:
                return None
            error = found
        except TimeoutError as found:
            error = found
        finally:
            await end(asking, replaced)
        if request.method in REPEATABLE:
            return None
        raise forwarding_failed(f"Unexpected error while forwarding the request to {primary.url}: {error}") from error

    async def _replaced(self, primary: Identity) -> None:
        """Return when another instance is the primary, who has taken from this one what it did not write until then."""
        election = self._registry.election
        async with election.changed:
            await election.changed.wait_for(lambda: election.holder not in (None, primary))

    async def _ask(self, method: str, address: str, data: bytes, headers: dict[str, str]) -> Reply | None:
        asking = self._registry.settings.asking
        answer = await self._opened().ask(
            method, address, data=data or None, headers=headers, tls=True if asking is None else asking()
        )
        if answer.status == UNKNOWN_LEADER // 100 and f'"error_code":{UNKNOWN_LEADER}'.encode() in answer.body:
            return None
        kind = answer.content_type.partition(";")[0].strip().lower()
        if 300 <= answer.status < 400 or (answer.body and kind not in ANSWERED):
            raise AskError(f"it answers {answer.status} with {kind[:100] or 'no type of content'}, as no registry does")
        return Reply(answer.body, kind or ANSWERED[0], answer.status)

    def _opened(self) -> Asker:
        if self._asker is None:
            self._asker = Asker(self._registry.settings.leader_wait_s, bytes_max=ANSWER_BYTES_MAX)
        return self._asker
