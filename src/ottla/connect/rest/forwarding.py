"""Requests that another worker has to answer: sent on to it, twice at most (`?forward`)."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import aiohttp

from ottla.connect.herder import ElsewhereError
from ottla.http import HttpError, Reply, Request

__all__ = ["Forward", "forward_by_http", "forwarded", "forwarding"]

Forward = Callable[[str, str, bytes, Mapping[str, str]], Awaitable[Reply]]
"""Sends method, address, body and headers, and returns the answer, whatever its status."""

ANSWER_SECONDS_MAX = 90.0


async def forwarded(request: Request, error: ElsewhereError, forward: Forward) -> Reply:
    """Return the answer of the worker that an error names; raises HttpError 409 where there is none to be asked.

    A client's request carries no flag and may take two hops: to a worker that this one takes for the leader, and from it to
    the real one. After that a rebalance has taken place, and the client asks again.
    """
    flag = request.query.get("forward")
    if flag is not None and flag.lower() != "true":
        raise HttpError(409, "Cannot complete request because of a conflicting operation (e.g. worker rebalance)")
    if error.url is None:
        raise HttpError(
            409,
            "Cannot complete request momentarily due to no known leader URL, likely because a rebalance was underway.",
        )
    query = {**request.query, "forward": "true" if flag is None else "false"}
    address = str(request.url.with_query(query).relative())
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    if "Authorization" in request.headers:
        headers["Authorization"] = request.headers["Authorization"]
    return await forward(request.method, error.url.rstrip("/") + address, await request.read(), headers)


def forwarding(context: Callable[[], ssl.SSLContext] | None = None) -> Forward:
    """Return what asks another worker: by HTTPS with the context of that moment, or the system's authorities.

    It raises HttpError 500 where the other cannot be reached.
    """

    async def forward(method: str, address: str, body: bytes, headers: Mapping[str, str]) -> Reply:
        limit = aiohttp.ClientTimeout(total=ANSWER_SECONDS_MAX)
        tls: ssl.SSLContext | bool = True if context is None else context()
        given: dict[str, Any] = {"data": body or None, "headers": dict(headers), "allow_redirects": False, "ssl": tls}
        try:
            async with (
                aiohttp.ClientSession(timeout=limit) as session,
                session.request(method, address, **given) as answer,
            ):
                kept = {"Location": answer.headers["Location"]} if "Location" in answer.headers else {}
                return Reply(await answer.read(), answer.content_type or "application/json", answer.status, kept)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise HttpError(500, f"IO Error trying to forward REST request: {error}") from error

    return forward


forward_by_http = forwarding()
"""Asks another worker in the clear, or by the system's authorities."""
