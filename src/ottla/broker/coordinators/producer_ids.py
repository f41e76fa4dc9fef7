"""Producer ids for idempotent and transactional producers, from blocks that the controller gives out (KIP-730)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from ottla.base import ErrorCode, KafkaError, NodeId, ProducerId
from ottla.broker.controller.channel import ControllerChannel
from ottla.broker.quorum.driver import Quorum
from ottla.metadata import decide
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest

__all__ = ["ProducerIds", "allocate_from"]

AllocateBlock = Callable[[], Awaitable[decide.ProducerIdBlock]]

PATIENCE_MS = 5000
"""How long a producer is kept waiting for the controller before it is told to ask again."""


def allocate_from(controller: ControllerChannel, quorum: Quorum, node_id: NodeId) -> AllocateBlock:
    """Return what asks the controller for a block of ids for this broker."""

    async def allocate() -> decide.ProducerIdBlock:
        broker = quorum.image.brokers.get(node_id)
        epoch = -1 if broker is None else broker.epoch
        request = AllocateProducerIdsRequest(broker_id=node_id, broker_epoch=epoch)
        code, reason = ErrorCode.NONE, ""
        try:
            response = await controller.ask(request, timeout_ms=PATIENCE_MS)
        except KafkaError as error:
            code, reason = error.code, error.message
        else:
            code = ErrorCode(response.error_code)
        if code is ErrorCode.UNKNOWN_SERVER_ERROR:
            raise KafkaError(code, reason or code.name)
        if code is not ErrorCode.NONE:  # to have no id yet is a reason to ask again, and no fault of the producer
            text = f"The controller gives no producer ids now: {reason or code.name}"
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, text)
        return decide.ProducerIdBlock(ProducerId(response.producer_id_start), response.producer_id_len)

    return allocate


class ProducerIds:
    """Hands out each id once; who finds the block used up waits, with all others, for one new block."""

    def __init__(self) -> None:
        self._next = 0
        self._left = 0
        self._refill: asyncio.Lock | None = None

    async def take(self, allocate: AllocateBlock) -> ProducerId:
        """Return an id that nobody else gets; raises what `allocate` raises."""
        while True:
            found = self.take_at_hand()
            if found is not None:
                return found
            await self.refill(allocate)

    def take_at_hand(self) -> ProducerId | None:
        """Return an id that nobody else gets; None where the block is used up."""
        if not self._left:
            return None
        self._left -= 1
        self._next += 1
        return ProducerId(self._next - 1)

    @property
    def are_at_hand(self) -> bool:
        """True where an id can be taken without asking the controller."""
        return self._left > 0

    async def refill(self, allocate: AllocateBlock) -> None:
        """Get a new block where this one is used up; raises what `allocate` raises."""
        if self._refill is None:
            self._refill = asyncio.Lock()
        async with self._refill:
            if not self._left:
                block = await allocate()
                self._next, self._left = block.first, block.size
