"""Readers of a simulated cluster: what they are shown stays, and no deposed leader tells them less than a newer one has."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from ottla.base import ErrorCode
from ottla.wire import iter_records
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from tests.sim.client import NoAnswer
from tests.sim.cluster.client import MOVING, Application, Clients, Link
from tests.sim.hostile import check_headers
from tests.sim.ledger import Row, Violation
from tests.sim.workload import rows_of

__all__ = ["EARLIEST", "LATEST", "fetch", "list_offset", "read_all", "read_on"]

Key = tuple[str, int]
EARLIEST, LATEST = -2, -1
RETRY_S = 0.1


async def list_offset(application: Application, key: Key, timestamp: int, *, isolation: int = 0) -> int:
    """Return a partition's first or last offset; raises NoAnswer where its leader is not there now."""
    clients = application.clients
    link = await application.leader(*key)
    partition = ListOffsetsPartition(partition_index=key[1], timestamp=timestamp)
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation,
        topics=[ListOffsetsTopic(name=key[0], partitions=[partition])],
    )
    promised = clients.ledger.partitions[key].end if key in clients.ledger.partitions else 0
    version = link.connection.version_of(2) if not isolation else 7
    answer = await application.ask(link.connection, request, ListOffsetsResponse, version)
    found = answer.topics[0].partitions[0]
    _judge(application, key, found.error_code, f"offset of {key} at {timestamp}")
    if timestamp == LATEST and not isolation and found.offset < promised:
        raise Violation(f"node {link.node} says that {key} ends at {found.offset}, and {promised} had been promised")
    return found.offset


async def fetch(
    application: Application, key: Key, offset: int, *, max_bytes: int, max_wait_ms: int = 0
) -> PartitionData:
    """Fetch one partition from its leader; raises NoAnswer where it is not there now."""
    clients = application.clients
    link = await application.leader(*key)
    topic = clients.ledger.topics[key[0]]
    partition = FetchPartition(partition=key[1], fetch_offset=offset, partition_max_bytes=max_bytes)
    request = FetchRequest(
        replica_id=-1,
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=max_bytes,
        session_epoch=-1,
        topics=[FetchTopic(topic=topic.name, topic_id=topic.topic_id, partitions=[partition])],
    )
    newest, led_in = clients.newest(*key), clients.leads(link.node, *key)
    answer = await application.ask(link.connection, request, FetchResponse)
    if answer.error_code:
        raise Violation(f"fetch of {key}: {ErrorCode(answer.error_code).name}")
    data = answer.responses[0].partitions[0]
    if data.error_code != ErrorCode.OFFSET_OUT_OF_RANGE:
        _judge(application, key, data.error_code, f"fetch of {key} at {offset}")
    if 0 <= led_in == clients.leads(link.node, *key):  # followers may answer, with what they have (KIP-392)
        _check_deposed(key, link, data, newest, led_in)
    return data


def _check_deposed(key: Key, link: Link, data: PartitionData, newest: tuple[int, int, int] | None, led_in: int) -> None:
    """`newest` is from before the request: an older leader that did not know of it must not have answered."""
    if newest is None or data.error_code or data.high_watermark < 0:
        return
    epoch, node, high_watermark = newest
    if led_in < epoch and data.high_watermark < high_watermark:
        raise Violation(
            f"node {link.node}, deposed, shows {key} to {data.high_watermark}; "
            f"node {node}, which leads it in epoch {epoch}, had passed {high_watermark}"
        )


def _judge(application: Application, key: Key, code: int, what: str) -> None:
    if code in MOVING:
        application.forget(*key)
        raise NoAnswer(ErrorCode(code).name)
    if code:
        raise Violation(f"{what}: {ErrorCode(code).name}")


async def read_on(clients: Clients, name: str, keys: Sequence[Key], stop: asyncio.Event) -> None:
    """Follow a partition from its start, and now and then change to another; look at its end meanwhile."""
    application = Application(clients, name)
    while not stop.is_set():
        key = clients.rng.choice(keys)
        try:
            offset = await list_offset(application, key, EARLIEST)
            if clients.rng.random() < 0.5:  # near the end, where things move
                offset = max(offset, clients.ledger.partitions[key].end - clients.rng.randrange(20))
            for _ in range(3 + clients.rng.randrange(10)):
                if clients.rng.random() < 0.3:
                    await list_offset(application, key, LATEST)
                offset = await _read_once(application, key, offset)
                await asyncio.sleep(0.2 * clients.rng.random())
        except NoAnswer:
            application.forget(*key)
            await asyncio.sleep(RETRY_S)
    application.close()


async def _read_once(application: Application, key: Key, offset: int) -> int:
    rng = application.clients.rng
    data = await fetch(
        application, key, offset, max_bytes=rng.choice((1, 2000, 1 << 20)), max_wait_ms=rng.choice((0, 100, 500))
    )
    if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
        return await list_offset(application, key, EARLIEST)
    rows = rows_of(data, offset)
    _check_rows(key, rows, offset, data)
    if application.clients.style.has_headers:
        for record in iter_records(data.records or b""):
            check_headers(record)
    application.clients.ledger.partitions[key].observe(rows)
    return offset + len(rows)


def _check_rows(key: Key, rows: list[Row], offset: int, data: PartitionData) -> None:
    if rows and rows[-1][0] >= data.high_watermark:
        raise Violation(f"{key}: {rows[-1][0]} was shown beyond the high watermark {data.high_watermark}")
    if rows and [row[0] for row in rows] != list(range(offset, offset + len(rows))):
        raise Violation(f"{key}: a fetch at {offset} brought offsets {[row[0] for row in rows]}")


async def read_all(application: Application, key: Key) -> tuple[int, int, list[Row]]:
    """Return (start, end, every record) of a partition."""
    start = await list_offset(application, key, EARLIEST)
    end = await list_offset(application, key, LATEST)
    rows: list[Row] = []
    while (at := start + len(rows)) < end:
        data = await fetch(application, key, at, max_bytes=1 << 20)
        more = rows_of(data, at)
        if data.error_code:
            raise Violation(f"{key}: a fetch at {at} of {end} brought {ErrorCode(data.error_code).name}")
        if not more:
            raise NoAnswer(f"{key}: nothing at {at} of {end} yet")
        rows += more
    return start, end, rows[: end - start]
