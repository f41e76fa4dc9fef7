"""Whether no controller can be in office, because nobody listens where the other voters do.

Then none can have begun to count a broker's silence, either: who leads the quorum later gives every broker a whole session
from then on. A port that refuses connections says so; one that cannot be reached says nothing.
"""

from __future__ import annotations

import asyncio

from ottla.base import NodeId
from ottla.broker.quorum.driver import Quorum
from ottla.metadata import Endpoint
from ottla.net import Network

__all__ = ["Vacancy", "refuses"]

PROBE_TIMEOUT_S = 1.0


class Vacancy:
    """Asks at the doors of the other voters."""

    def __init__(self, *, node_id: NodeId, quorum: Quorum, network: Network) -> None:
        self._node_id = node_id
        self._quorum = quorum
        self._network = network

    async def is_certain(self) -> bool:
        """Return whether each voter but this node, if it is one, refuses connections.

        This node may itself lead the quorum still: what it decides takes effect here first.
        """
        others = [NodeId(each) for each in self._quorum.voters.ids if each != self._node_id]
        endpoints = [self._quorum.controller_endpoint(each) for each in others]
        found = [each for each in endpoints if each is not None]
        if not others or len(found) < len(others):
            return False
        return all(await asyncio.gather(*(refuses(self._network, each) for each in found)))


async def refuses(network: Network, endpoint: Endpoint) -> bool:
    """Return whether the machine is there and nobody listens at this address."""
    try:
        async with asyncio.timeout(PROBE_TIMEOUT_S):
            transport, _ = await network.connect(endpoint.host, endpoint.port, asyncio.Protocol)
    except ConnectionRefusedError:
        return True
    except OSError:  # TimeoutError is one
        return False
    transport.abort()
    return False
