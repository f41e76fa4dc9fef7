"""Asking the other brokers of the cluster, through the listener that brokers use among themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.base import ErrorCode, KafkaError, NodeId
from ottla.client import Client, Limits
from ottla.metadata import Image
from ottla.net import Network

__all__ = ["Peers"]

LIMITS = Limits(connect_s=5.0, request_s=10.0, call_s=10.0, unreachable_s=1.0)
"""Short of patience: whoever asks goes on asking, and looks at the newest image each time."""


class Peers:
    """One client per broker, made when it is first asked."""

    def __init__(self, *, image: Callable[[], Image], listener: str, network: Network) -> None:
        self._image = image
        self._listener = listener
        self._network = network
        self._clients: dict[tuple[NodeId, str, int], Client] = {}

    async def ask(self, node: NodeId, message: Any, *, lowest: int = 0) -> Any:
        """Return a broker's answer; raises KafkaError, BROKER_NOT_AVAILABLE where the image knows no such broker."""
        broker = self._image().brokers.get(node)
        endpoint = None if broker is None else broker.endpoint(self._listener)
        if endpoint is None:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"broker {node} has no listener {self._listener}")
        key = (node, endpoint.host, endpoint.port)
        client = self._clients.get(key)
        if client is None:
            for old in [each for each in self._clients if each[0] == node]:
                await self._clients.pop(old).close()
            host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
            client = Client(f"{host}:{endpoint.port}", client_id="broker", limits=LIMITS, network=self._network)
            self._clients[key] = client
        return await client.request(message, lowest=lowest)  # of whoever is at that address: no metadata is asked for

    async def close(self) -> None:
        """Hang up on everyone."""
        clients = list(self._clients.values())
        self._clients.clear()
        for each in clients:
            await each.close()
