"""Requests that another worker has to answer: sent on to it, twice at most (`?forward`)."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Mapping

from ottla.connect.herder import ElsewhereError
from ottla.connect.rest.settings import WORKER_HOSTS
from ottla.http import Asker, AskError, HttpError, LoginsTo, Reply, Request

__all__ = ["Forward", "forward_by_http", "forwarded", "forwarding"]

Forward = Callable[[str, str, bytes, Mapping[str, str]], Awaitable[Reply]]
"""Sends method, address, body and headers, and returns the answer, whatever its status."""

ANSWER_SECONDS_MAX = 90.0


async def forwarded(request: Request, error: ElsewhereError, forward: Forward, sends_to: LoginsTo) -> Reply:
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
        if not sends_to.takes(error.url):
            raise HttpError(
                409,
                f"The request has a login, and the leader at {error.url} is not known as a worker that logins are sent to: "
                f"ask it there, or list its host in {WORKER_HOSTS} of every worker",
            )
        headers["Authorization"] = request.headers["Authorization"]
    return await forward(request.method, error.url.rstrip("/") + address, await request.read(), headers)


def forwarding(
    context: Callable[[], ssl.SSLContext] | None = None, *, seconds_max: float = ANSWER_SECONDS_MAX
) -> Forward:
    """Return what asks another worker: by HTTPS with the context of that moment, or the system's authorities.

    It raises HttpError 500 where the other cannot be reached.
    """

    async def forward(method: str, address: str, body: bytes, headers: Mapping[str, str]) -> Reply:
        tls: ssl.SSLContext | bool = True if context is None else context()
        asker = Asker(seconds_max)
        try:
            answer = await asker.ask(method, address, data=body or None, headers=headers, tls=tls)
        except AskError as error:
            raise HttpError(500, f"IO Error trying to forward REST request: {error}") from error
        finally:
            await asker.close()
        kept = {"Location": answer.headers["Location"]} if "Location" in answer.headers else {}
        return Reply(answer.body, answer.content_type or "application/json", answer.status, kept)

    return forward


forward_by_http = forwarding()
"""Asks another worker in the clear, or by the system's authorities."""
