"""A work's state from its topics: what is committed of its input, and its stores from their changelogs.

Changelogs are read to where they end when the restoring begins. Exactly once only what is committed is read, and the last
of it may be waited for: a host that committed and was answered has its markers written a moment later, and whoever took its
transactional id over has ended what it left open. A source topic that serves as a changelog is read to the committed offset.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import dataclass

from ottla.base import ErrorCode, KafkaError, Offset, TopicPartition
from ottla.client import EARLIEST, LATEST, Client, FetchPosition, Isolation, committed_offsets
from ottla.spark.continuous.columns import records_of
from ottla.spark.continuous.plan import ApplicationPlan
from ottla.spark.continuous.work import Place, Work, memory_of
from ottla.streams import Record, StoreChange, StreamsWork
from ottla.wire import ColumnDecoder, Columns

__all__ = ["place_of", "restore"]

FETCH_BYTES = 4 << 20
NO_END = 1 << 62
LOOK_SECONDS = 0.02
"""Between two looks whether the markers of transactions are written."""
SLACK_SECONDS = 30.0
"""How long the end of a changelog may take to become stable, beyond what transactions may last."""


async def place_of(client: Client, plan: ApplicationPlan, name: StreamsWork) -> Place:
    """Return where a work begins: at the group's offsets. Raises KafkaError where there are none, or not yet stable."""
    group = plan.of_group(name.sub_topology)
    partitions = group.partitions(name.partition, plan.counts)
    found = await committed_offsets(client, plan.application_id, partitions, require_stable=plan.exactly_once)
    missing = [str(each) for each in partitions if each not in found]
    if missing:
        words = f"group {plan.application_id} has no committed offset of {', '.join(missing)}"
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, words)
    whole = group.global_partitions(plan.counts)
    begin = await client.list_offsets(dict.fromkeys(whole, EARLIEST)) if whole else {}
    memory = memory_of(found[partitions[0]].metadata) if partitions else None
    return Place(
        {each: int(found[each].offset) for each in partitions},
        memory,
        {each: int(begin[each].offset) for each in whole},
    )


async def restore(client: Client, work: Work, place: Place) -> None:
    """Read a work's stores; raises KafkaError for what cannot be read."""
    stores: dict[TopicPartition, list[str]] = {}
    for store, topic in work.group.restored.items():
        if work.name.partition < work.plan.counts.get(topic, 0):
            stores.setdefault(TopicPartition(topic, work.name.partition), []).append(store)
    if stores:
        begin = await client.list_offsets(dict.fromkeys(stores, EARLIEST))
        end = await client.list_offsets(dict.fromkeys(stores, LATEST))
        ends = {each: min(int(end[each].offset), place.offsets.get(each, NO_END)) for each in stores}
        async for answer in _read(client, {each: int(begin[each].offset) for each in stores}, ends, work.plan):
            changes = list(_changes(answer, stores[answer.partition], ends[answer.partition]))
            work.counts.restored += len(changes)
            work.restore(changes)
    await _fill(client, work)
    work.restored()


async def _fill(client: Client, work: Work) -> None:
    """Read global tables to their ends, so that no record meets half a table."""
    queues = {each.partition: each for each in work.globals.queues.values()}
    if not queues:
        return
    end = await client.list_offsets(dict.fromkeys(queues, LATEST))
    begins = {each: queue.fetched for each, queue in queues.items()}
    async for answer in _read(client, begins, {each: int(end[each].offset) for each in queues}, work.plan):
        queues[answer.partition].add(answer.columns, answer.next_offset, 0)
        work.process_globals()


def _changes(answer: _Answer, stores: Iterable[str], end: int) -> Iterator[StoreChange]:
    """Yield what records say of the stores that their topic stands for."""
    for record in answer.records:
        if record.key is not None and record.offset < end:
            for store in stores:
                yield StoreChange(store, record.key, record.value, record.timestamp, record.headers)


@dataclass(frozen=True, slots=True)
class _Answer:
    partition: TopicPartition
    columns: list[Columns]
    next_offset: int

    @property
    def records(self) -> Iterator[Record]:
        """What it holds, one by one."""
        return (each for columns in self.columns for each in records_of(columns, *self.partition))


async def _read(
    client: Client, begins: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], plan: ApplicationPlan
) -> AsyncIterator[_Answer]:
    """Yield what partitions hold up to their ends; raises KafkaError where one does not come to its end."""
    isolation = Isolation.READ_COMMITTED if plan.exactly_once else Isolation.READ_UNCOMMITTED
    decoder, loop = ColumnDecoder(with_headers=True), asyncio.get_running_loop()
    patience_s = SLACK_SECONDS + plan.transaction_timeout_ms / 1000
    left = {each: offset for each, offset in begins.items() if offset < ends[each]}
    until_s = loop.time() + patience_s
    while left:
        positions = [FetchPosition(each, Offset(offset), FETCH_BYTES) for each, offset in left.items()]
        moved = False
        for fetched in await client.fetch(positions, max_wait_ms=0, isolation=isolation):
            fetched.check()
            decoded = decoder.decode(fetched.records, start=fetched.offset, aborted=fetched.aborted)
            if decoded.next_offset == fetched.offset:
                continue
            moved = True
            yield _Answer(fetched.partition, decoded.columns, int(decoded.next_offset))
            left[fetched.partition] = int(decoded.next_offset)
            if decoded.next_offset >= ends[fetched.partition]:
                del left[fetched.partition]
        if moved:
            until_s = loop.time() + patience_s
        elif loop.time() > until_s:
            place, offset = next(iter(left.items()))
            words = f"{place} does not become stable beyond offset {offset}, and ends at {ends[place]}"
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, words)
        else:
            await asyncio.sleep(LOOK_SECONDS)
