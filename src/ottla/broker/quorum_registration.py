"""A combined node's own broker in the cluster's metadata: registered and unfenced as it starts, fenced as it stops."""

from __future__ import annotations

import asyncio
import logging

from ottla.base import KafkaError, NodeId
from ottla.broker.quorum import Quorum
from ottla.metadata import Endpoint, decide

__all__ = ["leave", "register", "unfence"]

log = logging.getLogger(__name__)


async def register(
    quorum: Quorum, registration: decide.Registration, *, controller_endpoints: tuple[Endpoint, ...] = ()
) -> int:
    """Register this node as controller and as a fenced broker, in one commit; return its broker epoch.

    An earlier incarnation is superseded at once: it used the folders that this process has locked, so it is gone.
    """
    controller = quorum.submit(
        lambda image: decide.register_controller(
            image, registration.broker_id, registration.incarnation_id, controller_endpoints
        )
    )
    broker = quorum.submit(lambda image: decide.register_broker(image, registration, supersede=True))
    _, epoch = await asyncio.gather(controller, broker)
    return epoch


async def unfence(quorum: Quorum, broker_id: NodeId, broker_epoch: int) -> None:
    """Let the broker serve: what it alone can lead, it leads from this commit on."""
    await quorum.submit(
        lambda image: decide.heartbeat(
            image, broker_id, broker_epoch, caught_up=True, want_fence=False, want_shut_down=False
        )
    )


async def leave(quorum: Quorum, broker_id: NodeId, broker_epoch: int) -> None:
    """Hand over leaderships and fence the broker, so that its next start need not doubt what it has.

    Where that cannot be committed the node stops all the same, and its next start takes it for a crash.
    """
    try:
        await quorum.submit(
            lambda image: decide.heartbeat(
                image, broker_id, broker_epoch, caught_up=True, want_fence=False, want_shut_down=True
            )
        )
    except KafkaError as error:
        log.warning("Broker %s leaves without telling the cluster: %s", broker_id, error)
