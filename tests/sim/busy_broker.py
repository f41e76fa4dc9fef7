"""One broker, second generation: many faults close together, single calls of its disk that fail, topics made again.

Records carry hostile bytes. A name that was deleted is often created again at once, while its checkpoints are still warm.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from tests.sim.batches import Style
from tests.sim.disk import CallFailure, SimDisk
from tests.sim.world import CORE_TOPICS, World

__all__ = ["BusyBrokerWorld"]

CALLS_AHEAD_MAX, CALLS_AHEAD_IN_START_MAX = 40, 60
SPELL_CHANCE = 0.7
"""How often another call fails after one did."""
IN_START_CHANCE = 0.2
SPELL_S_MAX = 1.5
BATCH_RECORDS_MAX = 24
SEGMENT_BYTES = 32_000
LARGER = {"internal.segment.bytes": str(SEGMENT_BYTES), "retention.bytes": str(3 * SEGMENT_BYTES)}
"""Room for the largest batch."""


class BusyBrokerWorld(World):
    """A broker of the second generation."""

    core_topics = tuple(
        (name, count, {key: LARGER.get(key, value) for key, value in configs.items()})
        for name, count, configs in CORE_TOPICS
    )
    faults_min, faults_spread = 8, 10
    pause_s_min, pause_s = 0.1, 0.7
    lasting = 0.3
    counted_by_themselves = frozenset({"calls fail"})
    rebirth_chance = 0.7

    def style(self) -> Style:
        """As ever, with bytes that no text has."""
        style = super().style()
        style.records_max = BATCH_RECORDS_MAX
        style.is_hostile = style.has_headers = True
        style.segment_bytes = SEGMENT_BYTES
        style.slices = (1 << 20, 700)
        return style

    def kinds(self) -> tuple[Callable[[], Coroutine[Any, Any, None]], ...]:
        """As ever, and calls that fail."""
        return (*super().kinds(), *(self._calls_fail,) * 5)

    def prepare(self, disk: SimDisk) -> None:
        """Let a call of a recovery fail now and then; who crashes on the way has enough with that."""
        if disk.crash_at is None and self.is_recovering and self.rng.random() < IN_START_CHANCE:
            disk.fail_in = (self.rng.randrange(CALLS_AHEAD_IN_START_MAX), self._some_failure())

    def _some_failure(self) -> CallFailure:
        return self.rng.choice(list(CallFailure))

    async def _calls_fail(self) -> None:
        """One call fails, and then perhaps another; what the broker has made of it goes on, or is killed."""
        assert self.disk is not None and self.process is not None
        disk = self.disk
        self.disk_failed = True
        self._arm(disk)
        await asyncio.wait((self.process.died,), timeout=SPELL_S_MAX * self.rng.random())
        disk.fail_in, disk.at_failure = None, None
        if self._must_end() or self.rng.random() < 0.5:
            await self._end_and_come_back()

    def _arm(self, disk: SimDisk) -> None:
        def failed(failure: CallFailure) -> None:
            self.faults.append("one call fails")
            if self.rng.random() < SPELL_CHANCE:
                self._arm(disk)

        disk.at_failure = failed
        disk.fail_in = (self.rng.randrange(CALLS_AHEAD_MAX), self._some_failure())

    def _must_end(self) -> bool:
        """True where the broker serves no more, or its page cache shows what the device does not have."""
        assert self.disk is not None and self.process is not None
        failed = None if self.node is None else self.node.failed
        return self.disk.sync_failed or not self.process.alive or (failed is not None and failed.done())

    async def _end_and_come_back(self) -> None:
        assert self.disk is not None
        if self.disk.sync_failed or self.rng.random() < 0.3:
            await self.power_lost()
        else:
            await self.killed()

    async def stopped(self) -> None:
        """A clean stop, but not of a broker that may be without some of its partitions."""
        if self.disk_failed:
            await self._end_and_come_back()
        else:
            await super().stopped()

    async def settle(self) -> None:
        """Start once more, on a disk that is well, a broker that may be without some of its partitions."""
        if self.disk_failed:
            await self._end_and_come_back()
