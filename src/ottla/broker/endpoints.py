"""Where the brokers that a client is sent to are reached, through the listener that it came by."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.broker.parts import ImageParts
from ottla.broker.requests.handler import RequestContext

__all__ = ["leader_endpoints"]


def leader_endpoints(
    context: RequestContext[ImageParts], node_ids: Iterable[int]
) -> list[tuple[int, str, int, str | None]]:
    """Return (node id, host, port, rack) of the brokers that have the client's listener (KIP-951)."""
    found = []
    brokers = context.services.image.brokers
    for node_id in sorted(node_ids):
        broker = brokers.get(node_id)
        endpoint = broker.endpoint(context.connected.listener) if broker is not None else None
        if broker is not None and endpoint is not None:
            found.append((node_id, endpoint.host, endpoint.port, broker.rack))
    return found
