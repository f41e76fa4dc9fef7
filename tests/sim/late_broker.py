"""One broker, fourth generation: what is ready runs in an order of the seed's choice, and late.

Clients poll for long, a topic's codec changes while it is written to, and several write to one that is flushed each time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from random import Random
from typing import Any

from tests.schedules import Schedule
from tests.sim.batches import Style
from tests.sim.burst_broker import BurstBrokerWorld
from tests.sim.late_clients import POLLED, RECODED, recode, wake_up, write_to_all

__all__ = ["LateBrokerWorld"]

SESSION_BYTES = 30_000


class LateBrokerWorld(BurstBrokerWorld):
    """A broker of the fourth generation."""

    core_topics = (
        *BurstBrokerWorld.core_topics[:3],
        (POLLED, 1, {}),
        (RECODED, 3, {"compression.type": "lz4"}),
        BurstBrokerWorld.core_topics[3],
    )
    kept_apart = frozenset((POLLED,))

    def schedule(self, seed: int) -> Schedule | None:
        """Draw when what is ready runs."""
        return Schedule.drawn(Random(f"{seed} schedule"))

    def style(self) -> Style:
        """As ever, and readers in sessions keep up with more writers."""
        style = super().style()
        style.session_bytes = SESSION_BYTES
        return style

    def _work(self, stop: asyncio.Event) -> Iterator[Coroutine[Any, Any, None]]:
        yield from super()._work(stop)
        yield wake_up(self.clients, lambda: self.process if self._open.is_set() else None, stop)
        yield recode(self.clients, stop)
        for number in range(2):
            yield write_to_all(self.clients, f"recoded-{number}", stop)
            yield self.clients.burst_producer(f"flushing-{number}", "flushed", stop)
