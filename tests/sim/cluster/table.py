"""A compacted topic in a cluster: whoever leads it and however far it is cleaned, the newest value of each key is there."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from ottla.base import ErrorCode, Millis
from ottla.wire import Record, build_batch, iter_batch_records, iter_batches
from ottla.wire.messages.produce import ProduceResponse
from tests.sim.client import NoAnswer
from tests.sim.cluster.client import MOVING, Application, Clients
from tests.sim.cluster.producers import produce_request
from tests.sim.cluster.readers import EARLIEST, fetch, list_offset
from tests.sim.ledger import Violation

__all__ = ["TABLE", "TABLE_CONFIGS", "Table", "look_at_the_table", "write_table"]

TABLE = "table"
KEY = (TABLE, 0)
TABLE_CONFIGS = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": "1500",
    "segment.index.bytes": "1024",
    "min.cleanable.dirty.ratio": "0.01",
    "file.delete.delay.ms": "500",
}
KEYS = 7
RECORDS_MAX = 6
RETRY_S = 0.15
LOOK_CHANCE = 0.15


@dataclass
class Table:
    """What was promised of each key: numbers only rise, so the newest is the highest."""

    acknowledged: dict[bytes, tuple[int, int]] = field(default_factory=dict)
    """(number, offset) that was acknowledged last."""
    sent: dict[bytes, int] = field(default_factory=dict)
    """The highest number that was ever sent."""

    def check(self, shown: dict[bytes, int], promised: dict[bytes, tuple[int, int]], below: int) -> None:
        """Hold what a reader found, from the start to the offset `below`, against what was promised before it began."""
        for key, (number, offset) in promised.items():
            found = shown.get(key, -1)
            if offset < below and found < number:
                raise Violation(f"{TABLE}: {key!r} is {found} below {below}, and {number} was acknowledged at {offset}")
        for key, number in shown.items():
            if number > self.sent.get(key, -1):
                raise Violation(f"{TABLE}: {key!r} is {number}, which nobody wrote")


async def write_table(clients: Clients, table: Table, stop: asyncio.Event) -> None:
    """Write keys again and again, each batch once, and look at the table now and then."""
    application, rng = Application(clients, "table writer"), clients.rng
    number = 0
    while not stop.is_set():
        keys = [b"key-%d" % rng.randrange(KEYS) for _ in range(1 + rng.randrange(RECORDS_MAX))]
        rows = [(key, number + at) for at, key in enumerate(keys)]
        number += len(keys)
        try:
            await _write(application, table, rows)
            if rng.random() < LOOK_CHANCE:
                await look_at_the_table(application, table)
        except NoAnswer:
            application.forget(*KEY)
            await asyncio.sleep(RETRY_S)
        await asyncio.sleep(0.15 * rng.random())
    application.close()


async def _write(application: Application, table: Table, rows: list[tuple[bytes, int]]) -> None:
    clients = application.clients
    link = await application.leader(*KEY)
    table.sent.update(rows)
    records = [
        Record(timestamp=Millis(clients.now_ms()), key=key, value=b"%d %s" % (number, b"v" * clients.rng.randrange(60)))
        for key, number in rows
    ]
    batch = bytes(build_batch(records, codec=clients.rng.choice(clients.style.codecs)))
    connection = link.connection
    answer = await application.ask(connection, produce_request(clients, *KEY, -1, batch), ProduceResponse)
    told = answer.responses[0].partition_responses[0]
    code = ErrorCode(told.error_code)
    if code in MOVING:
        raise NoAnswer(code.name)
    if code is not ErrorCode.NONE:
        raise Violation(f"a batch for {TABLE} was refused: {code.name}")
    for at, (key, number) in enumerate(rows):
        table.acknowledged[key] = (number, told.base_offset + at)
    clients.ledger.tally.records += len(rows)
    clients.trace.note(f"acked {TABLE} {told.base_offset} {len(rows)}")


async def look_at_the_table(application: Application, table: Table, *, is_over: bool = False) -> None:
    """Read it whole; in the end everything that was acknowledged lies below its end."""
    promised = dict(table.acknowledged)
    offset = await list_offset(application, KEY, EARLIEST)
    shown: dict[bytes, int] = {}
    while True:
        data = await fetch(application, KEY, offset, max_bytes=1 << 20)
        if data.error_code:
            raise NoAnswer(ErrorCode(data.error_code).name)
        before, content = offset, bytes(data.records or b"")
        for header, at in iter_batches(content):
            for record in iter_batch_records(content, at, header):
                if record.offset >= before:
                    assert record.key is not None
                    shown[record.key] = int((record.value or b"-1").split()[0])
            offset = max(offset, header.last_offset + 1)
        if offset == before:
            break
    if is_over and (lost := [key for key, (_, at) in promised.items() if at >= offset]):
        raise Violation(f"{TABLE} ends at {offset}; acknowledged beyond it: {lost}")
    table.check(shown, promised, offset)
