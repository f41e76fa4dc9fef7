"""One broker, third generation: producers write several requests at once, which the broker appends and answers together."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any

from tests.sim.batches import Style
from tests.sim.busy_broker import BusyBrokerWorld

__all__ = ["BurstBrokerWorld"]

IN_FLIGHT_MAX = 12


class BurstBrokerWorld(BusyBrokerWorld):
    """A broker of the third generation: as the second, with more writers, of which each sends the same beginnings."""

    def style(self) -> Style:
        """As ever, and what is sent at a time is one write."""
        style = super().style()
        style.in_flight_max, style.sends_together = IN_FLIGHT_MAX, True
        return style

    def _work(self, stop: asyncio.Event) -> Iterator[Coroutine[Any, Any, None]]:
        yield from super()._work(stop)
        yield self.clients.idempotent_producer("idempotent-3", "plain", stop)
        for at, topic in enumerate(("plain", "plain", "bounded")):
            yield self.clients.burst_producer(f"burst-{at}", topic, stop)
