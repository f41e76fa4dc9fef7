"""Clusters of the third generation: producers write several requests at once, which a leader appends together and answers
when the copies have them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any

from tests.sim.cluster.busy_world import BusyLonelyWorld, BusyWorld
from tests.sim.cluster.producers import produce_in_bursts

__all__ = ["BurstLonelyWorld", "BurstWorld"]

WRITERS = 3


class BurstWorld(BusyWorld):
    """A cluster of the third generation: as the second, with more writers, of which each sends the same beginnings."""

    def work(self, stop: asyncio.Event) -> Iterator[Coroutine[Any, Any, None]]:
        """Yield what the second generation does, and what it did not."""
        yield from super().work(stop)
        keys = [("flushed", 0), ("flushed", 1), ("moved", 0)]
        for number in range(WRITERS):
            yield produce_in_bursts(self.clients, f"burst-{number}", keys, stop)


class BurstLonelyWorld(BurstWorld, BusyLonelyWorld):
    """The same where leaders are left alone."""
