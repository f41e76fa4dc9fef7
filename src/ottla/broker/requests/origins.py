"""Who has sent a request, as the groups know it."""

from __future__ import annotations

from ottla.broker.requests.handler import AccessParts, RequestContext
from ottla.groups import RequestOrigin
from ottla.security import Operation, Resource

__all__ = ["origin_of"]


def origin_of(context: RequestContext[AccessParts], token: int = -1) -> RequestOrigin:
    """Return who asks; `token` is the one under which the answer is parked."""
    host = f"/{context.connected.client_host}"
    return RequestOrigin(
        context.client_id or "",
        host,
        context.api_version,
        token,
        lambda topic: context.would_allow(Operation.DESCRIBE, Resource.TOPIC, topic),
    )
