"""Clusters of the second generation: more faults and more work in less time, and work that the first knew nothing of.

Topics are deleted and created again, replicas move between two directories, a topic is compacted, records carry hostile
bytes, and single calls of disks fail. Names of worlds say the generation: `cluster2:17`, `lonely2:17`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any

from ottla.base import ErrorCode
from tests.sim.client import NoAnswer
from tests.sim.cluster.busy_faults import BusyFaults
from tests.sim.cluster.client import Application
from tests.sim.cluster.directories import move_between_directories
from tests.sim.cluster.faults import Faults
from tests.sim.cluster.host import DATA
from tests.sim.cluster.producers import produce_idempotently
from tests.sim.cluster.reborn import TOPIC as REBORN
from tests.sim.cluster.reborn import live_again_and_again
from tests.sim.cluster.table import TABLE, TABLE_CONFIGS, Table, look_at_the_table, write_table
from tests.sim.cluster.world import CORE_TOPICS, DEFAULTS, ClusterWorld, LonelyWorld
from tests.sim.ledger import Violation

__all__ = ["BusyLonelyWorld", "BusyWorld"]

SECOND_DATA = "/data2"
SEGMENTS = {"internal.segment.bytes": "40000", "segment.index.bytes": "2048"}
"""Room for the largest batch."""
SLICE_BYTES = 700
"""So few that most aborted transactions are no business of one answer."""
LOOKS_MAX = 60
LONELY_PAUSE_S, LONELY_TURNS_CHANCE = 0.6, 0.5
BATCH_RECORDS_MAX, THINKING_S = 40, 0.04


class BusyWorld(ClusterWorld):
    """A cluster of the second generation."""

    defaults = {  # noqa: RUF012
        **DEFAULTS,
        "broker.heartbeat.interval.ms": "300",
        "broker.session.timeout.ms": "1800",
        "log.cleaner.enable": "true",
        "log.flush.offset.checkpoint.interval.ms": "1000",
        "log.cleaner.backoff.ms": "700",
        "log.cleaner.dedupe.buffer.size": "1048576",
    }
    data_dirs = (DATA, SECOND_DATA)
    core_topics = (
        *((name, count, configs | SEGMENTS if configs else configs) for name, count, configs in CORE_TOPICS),
        (TABLE, 1, TABLE_CONFIGS),
    )
    compacted = (TABLE, "__consumer_offsets", "__transaction_state")

    def __init__(self, seed: int, **options: Any) -> None:
        self.table = Table()
        super().__init__(seed, **options)
        self.clients.style.records_max = BATCH_RECORDS_MAX
        self.clients.style.thinking_s = THINKING_S
        self.clients.style.slices = (1 << 20, 1 << 20, SLICE_BYTES)
        self.clients.style.is_hostile = self.clients.style.has_headers = True

    def _faults(self) -> Faults:
        return BusyFaults(self)

    def work(self, stop: asyncio.Event) -> Iterator[Coroutine[Any, Any, None]]:
        """Yield what the first generation does, and what it did not."""
        yield from super().work(stop)
        yield produce_idempotently(self.clients, "idempotent-3", "flushed", 1, stop)
        yield live_again_and_again(self.clients, stop)
        yield write_table(self.clients, self.table, stop)
        moving = [(name, index) for name, partitions, _ in self.core_topics for index in range(partitions)]
        moving += [(REBORN, 0), ("__consumer_offsets", 0)]
        yield move_between_directories(self.clients, moving, self.shape.brokers, self.data_dirs, stop)

    async def last_look(self) -> None:
        """The table too is as it was promised."""
        application = Application(self.clients, "last table reader")
        for _ in range(LOOKS_MAX):
            try:
                await look_at_the_table(application, self.table, is_over=True)
                break
            except NoAnswer:
                application.forget(TABLE, 0)
                await asyncio.sleep(0.5)
        else:
            raise Violation(f"{TABLE} cannot be read: {ErrorCode.NOT_LEADER_OR_FOLLOWER.name}; {self.why_not()}")
        application.close()
        await super().last_look()


class BusyLonelyWorld(BusyWorld, LonelyWorld):
    """Leaders deserted, left alone and then lost, or deposed and back before a client has heard of it."""

    def __init__(self, seed: int, **options: Any) -> None:
        super().__init__(seed, **options)
        faults = self.faults
        assert isinstance(faults, BusyFaults)
        faults.pause_s = LONELY_PAUSE_S
        faults.turns_chance = LONELY_TURNS_CHANCE
        faults.kinds += (faults.calls_fail,) * 4
