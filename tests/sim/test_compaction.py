"""Worlds with one compacted topic: whatever befalls the broker while it cleans, the newest value of each key is there."""

from __future__ import annotations

import asyncio

import pytest

from ottla.base import Millis
from ottla.wire import Codec, Record, build_batch, iter_batch_records, iter_batches
from ottla.wire.messages.produce import ProduceResponse
from tests.sim.client import Connection, NoAnswer
from tests.sim.ledger import Violation
from tests.sim.workload import fetch
from tests.sim.world import BROKER, World, run_seed

SEEDS = 20
SEEDS_PER_TEST = 5
KEYS = 9
CLEANING_S = 17.0
"""The cleaner rests for 15 seconds when nothing is due."""
TABLE = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": "1500",
    "min.cleanable.dirty.ratio": "0.05",
    "delete.retention.ms": "20000",
    "file.delete.delay.ms": "500",
    "flush.messages": "1",
}


class TableWorld(World):
    """A writer, faults while the broker cleans, and a reader after each start."""

    newest: dict[bytes, bytes | None]
    """What was acknowledged last of each key."""
    doubtful: dict[bytes, list[bytes | None]]
    """What was sent after it and never acknowledged."""
    cleaned = 0

    async def live(self) -> None:
        """Write, let the broker be killed while it cleans, and look; again and again."""
        self.newest, self.doubtful, self.number = {}, {}, 0
        await self.boot()
        self.open()
        admin = await self.connect("admin")
        await self.clients.create_topic(admin, "table", 1, TABLE)
        admin.close()
        for _ in range(5):
            await self.write(20)
            await self.suffer()
            await self.look()
        assert self.process is not None and self.disk is not None
        self.disk.crash_at = None
        await self.write(30)
        await asyncio.sleep(2 * CLEANING_S)
        await self.look()
        self.count_cleaned()
        if not self.cleaned:
            raise Violation("nothing was ever compacted")
        await self.stop_cleanly()

    def count_cleaned(self) -> None:
        held = self.node._partitions.get("table", 0) if self.node is not None else None
        self.cleaned = max(self.cleaned, held.log.cleaned_to if held is not None else 0)

    async def write(self, batches: int) -> None:
        """Send batches one by one; what happened to the one without an answer nobody knows."""
        connection = await self.connect("writer")
        try:
            for _ in range(batches):
                await self.write_one(connection)
        except NoAnswer:
            pass
        connection.close()

    async def write_one(self, connection: Connection) -> None:
        rng = self.rng
        self.number += 1
        value = b"%d %s" % (self.number, b"x" * rng.randrange(60))
        pairs = [(b"k%d" % rng.randrange(KEYS), None if rng.random() < 0.2 else value) for _ in range(3)]
        for key, each in pairs:
            self.doubtful.setdefault(key, []).append(each)
        now = self.clock.now_ms()
        records = [Record(timestamp=Millis(now), key=key, value=each) for key, each in pairs]
        data = build_batch(records, codec=rng.choice(list(Codec)))
        request = self.clients._produce_request(self.ledger.topics["table"], 0, -1, data)
        answer = await connection.ask(request, ProduceResponse)
        if answer.responses[0].partition_responses[0].error_code == 0:
            for key, each in pairs:
                self.newest[key] = each
                self.doubtful.pop(key, None)

    async def suffer(self) -> None:
        """Wait until the cleaner comes, perhaps with a crash in one of the changes that it makes."""
        assert self.disk is not None and self.process is not None
        kind = self.rng.randrange(4)
        if kind < 3:
            await asyncio.sleep(CLEANING_S * self.rng.random())
            self.disk.crash_at = self.disk.changes + 1 + self.rng.randrange(90)
            self.faults.append("killed in a write")
        await asyncio.wait((self.process.died,), timeout=CLEANING_S)
        self.count_cleaned()
        if kind == 0:
            await self.come_again(lost_power=True)
        elif kind < 3 or not self.process.alive:
            await self.come_again(lost_power=False)

    async def come_again(self, *, lost_power: bool) -> None:
        self.crash()
        if lost_power:
            self.faults.append("power loss")
            self.lose_power()
        await asyncio.sleep(0.5)
        self.fabric.power_on(BROKER)
        await self.boot()
        self.open()

    async def look(self) -> None:
        """Read the table, as a reader that begins at the beginning does."""
        connection = await self.connect("reader")
        found: dict[bytes, bytes | None] = {}
        topic, offset = self.ledger.topics["table"], 0
        while True:
            data = await fetch(connection, topic, 0, offset, max_bytes=1 << 20)
            if data.error_code:
                raise Violation(f"a fetch at {offset} brought error {data.error_code}")
            before = offset
            for header, at in iter_batches(data.records or b""):
                for record in iter_batch_records(data.records or b"", at, header):
                    if record.offset >= offset:
                        found[record.key or b""] = record.value
                offset = max(offset, header.next_offset)
            if offset == before:
                break
        connection.close()
        for key in {*found, *self.newest}:
            allowed = [self.newest.get(key), *self.doubtful.get(key, [])]
            if found.get(key) not in allowed:
                raise Violation(f"{key!r} is {found.get(key)!r}, and should be one of {allowed}")
            self.newest[key] = found.get(key)
        self.doubtful.clear()


@pytest.mark.parametrize("first", range(0, SEEDS, SEEDS_PER_TEST))
def test_the_newest_value_of_each_key_survives_whatever_befalls_a_cleaning(first: int) -> None:
    for seed in range(first, first + SEEDS_PER_TEST):
        outcome = run_seed(seed, kind=TableWorld)
        if outcome.error:
            events = "\n".join(outcome.recent)
            raise AssertionError(f"seed {seed}, faults {outcome.faults}:\n{events}\n{outcome.error}")
