"""The room on the disk of the metadata log: what has found none is tried again, and said once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from ottla.base import ErrorCode, KafkaError, NodeId, NoSpaceError, Offload

__all__ = ["AGAIN_S", "Room"]

log = logging.getLogger(__name__)

AGAIN_S = 0.5
"""Before what found no room is tried again: soon enough for who makes room, seldom enough for a disk that stays full."""


@dataclass(slots=True)
class Room:
    """`missing` is why the last attempt failed; None once one has succeeded since."""

    missing: NoSpaceError | None = None

    def missed(self, error: NoSpaceError) -> None:
        """Note that something found no room."""
        if self.missing is None:
            log.error("The metadata log has no room, and goes on where it is until there is some: %s", error)
        self.missing = error

    def refusal(self, node: NodeId | None = None) -> KafkaError:
        """Return how is answered who asked for what found none; `node` is this one where it leads no more for that."""
        if node is not None:
            return KafkaError(ErrorCode.NOT_CONTROLLER, f"node {node} has no room for metadata, and leads no more")
        return KafkaError(
            ErrorCode.KAFKA_STORAGE_ERROR, "The controller's disk has no room for metadata. Nothing was changed."
        )

    def found(self) -> None:
        """Note that something was written."""
        if self.missing is not None:
            log.info("The metadata log has room again")
            self.missing = None

    async def on_thread(self, offload: Offload, work: Callable[[], object], *, stopped: Callable[[], bool]) -> bool:
        """Do this on a thread, again and again until there is room for it; False where `stopped` comes before that."""
        while True:
            try:
                await offload.thread(work)
            except NoSpaceError as error:
                self.missed(error)
                if stopped():
                    return False
                await asyncio.sleep(AGAIN_S)
            else:
                return True
