"""What clients of the fourth generation do: they wait long for records, and change how a topic's batches are compressed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from itertools import count

from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tests.sim.batches import values_of
from tests.sim.client import Connection, NoAnswer
from tests.sim.ledger import Violation
from tests.sim.workload import LATEST, RETRY_S, Clients, fetch_request, list_offset

__all__ = ["POLLED", "RECODED", "recode", "wake_up", "write_to_all"]

POLLED, RECODED = "polled", "recoded"
POLL_MS, HEARD_SECONDS_MAX = 30_000, 10.0
"""How long a poll waits, and when it has heard of a record at the latest: longer than messages are held, or tasks late."""
SHORT_POLL_MS_MAX = 200
POLLED_BYTES_MAX = 1 << 20
TURNS = 4
"""With one pair of connections."""
FETCH_VERSION = 12
"""The last version that names topics, which any client may ask in."""
CODECS = ("producer", "zstd", "producer", "lz4", "producer", "gzip")


async def wake_up(clients: Clients, broker: Callable[[], object], stop: asyncio.Event) -> None:
    """Poll for long, and write behind a short poll that ends without a record; who polls for long is to hear of it soon.

    `broker` returns which one there is: the next one has forgotten who waited.
    """
    for number in count():
        if stop.is_set():
            return
        try:
            sleeper = await clients.connect("sleeper")
            served_by = broker()
            waker = await clients.connect("waker")
            for turn in range(TURNS):
                if stop.is_set():
                    break
                unheard = await _wake_up_once(clients, sleeper, waker, TURNS * number + turn)
                if unheard and served_by is not None and broker() is served_by:
                    raise Violation(f"{unheard} for {HEARD_SECONDS_MAX:g} s")
                if unheard:
                    break
            sleeper.close()
            waker.close()
        except NoAnswer:
            await asyncio.sleep(RETRY_S)


async def _wake_up_once(clients: Clients, sleeper: Connection, waker: Connection, number: int) -> str:
    """Return what was not heard of, if anything was not."""
    topic = clients.ledger.topics[POLLED]
    end = await list_offset(waker, POLLED, 0, LATEST)
    if end is None:
        raise NoAnswer("the partition cannot be asked now")
    long = fetch_request(topic, 0, end, max_bytes=POLLED_BYTES_MAX, max_wait_ms=POLL_MS)
    polling = sleeper.send(long, FETCH_VERSION)
    await asyncio.sleep(0.1 * clients.rng.random())
    version, short_ms = waker.version_of(0), clients.rng.randrange(SHORT_POLL_MS_MAX)
    waker.cork()
    waker.send(fetch_request(topic, 0, end, max_bytes=1, max_wait_ms=short_ms), FETCH_VERSION)
    writing = asyncio.ensure_future(clients.plain_batch_for(waker, topic, 0, "waker", number, 1, version))
    await asyncio.sleep(0)  # both are sent
    waker.uncork()
    await writing
    await asyncio.wait((polling,), timeout=HEARD_SECONDS_MAX)
    return "" if polling.done() else f"who polls {POLLED}-0 at {end} has heard nothing of what was written"


async def write_to_all(clients: Clients, name: str, stop: asyncio.Event) -> None:
    """Write to every partition of the topic whose codec changes by one request, and none of them again."""
    numbers = count()
    while not stop.is_set():
        try:
            connection = await clients.connect(name)
            while not stop.is_set() and connection.is_open:
                await _write_to_all_once(clients, connection, name, numbers)
                await asyncio.sleep(0.1 * clients.rng.random())
        except NoAnswer:
            await asyncio.sleep(RETRY_S)


async def _write_to_all_once(clients: Clients, connection: Connection, name: str, numbers: Iterator[int]) -> None:
    topic = clients.ledger.topics[RECODED]
    facts = [clients.ledger.partitions.get((RECODED, index)) for index in range(topic.partitions)]
    values = [values_of(clients.rng, clients.style, name, next(numbers)) for _ in facts]
    batches = [
        PartitionProduceData(index=index, records=bytes(clients.batch(each))) for index, each in enumerate(values)
    ]
    data = TopicProduceData(name=RECODED, topic_id=topic.topic_id, partition_data=batches)
    request = ProduceRequest(acks=1, timeout_ms=3000, topic_data=[data])
    answer = await connection.ask(request, ProduceResponse)
    for each in answer.responses[0].partition_responses:
        clients.plain_answer(topic, facts[each.index], values[each.index], each)


async def recode(clients: Clients, stop: asyncio.Event) -> None:
    """Change a topic's codec, while others write to it."""
    while not stop.is_set():
        try:
            connection = await clients.connect("recoder")
            while not stop.is_set() and connection.is_open:
                topic = clients.ledger.topics[RECODED]
                await clients.configure(connection, topic, "compression.type", clients.rng.choice(CODECS))
                await asyncio.sleep(0.1 * clients.rng.random())
            connection.close()
        except NoAnswer:
            await asyncio.sleep(RETRY_S)
