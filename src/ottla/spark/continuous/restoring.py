"""A work's state from its topics: what is committed of its input, and its stores from their changelogs.

Changelogs are read to where they end when the restoring begins. Exactly once only what is committed is read, and the last
of it may be waited for: a host that committed and was answered has its markers written a moment later, and whoever took its
transactional id over has ended what it left open. A source topic that serves as a changelog is read to the committed offset.

At least once a changelog may be ahead of the committed offsets, and what was made of the same records lost. Up to where the
input ends now its steps are told that they may have processed a record before (`Work.replay`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from ottla.base import ZERO_UUID, ErrorCode, KafkaError, Offset, TopicPartition
from ottla.client import EARLIEST, LATEST, Client, Fetched, FetchPosition, Isolation, committed_offsets
from ottla.spark.continuous.columns import records_of
from ottla.spark.continuous.plan import ApplicationPlan, GroupPlan
from ottla.spark.continuous.work import Note, Place, Work, note_of
from ottla.spark.source.positions import ids_of
from ottla.streams import Bounds, ChangelogPosition, Record, StateCheckpoint, StoreChange, StreamsWork, why_unusable
from ottla.wire import ColumnDecoder, Columns

__all__ = [
    "NO_END",
    "Stretch",
    "begin_work",
    "bounds_of",
    "changelogs_of",
    "changes_of",
    "place_of",
    "read_stretch",
    "why_not",
]

log = logging.getLogger(__name__)
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
    notes = {each: note_of(found[each].metadata) for each in partitions}
    return Place(
        {each: int(found[each].offset) for each in partitions},
        notes[partitions[0]].memory if partitions else None,
        {each: int(begin[each].offset) for each in whole},
        await _ids_of_offsets(client, notes),
    )


async def _ids_of_offsets(client: Client, notes: Mapping[TopicPartition, Note]) -> dict[str, str]:
    """Return of which topics offsets are; raises KafkaError where a topic was made again since they were committed."""
    topics = {each.topic for each in notes}
    known = ids_of(client.cluster)
    if any(known.get(each.topic, "") != note.topic_id for each, note in notes.items()):
        known = ids_of(await client.metadata(topics))
    for place, note in notes.items():
        _check_same(place, note.topic_id, known.get(place.topic, ""))
    return {each: known[each] for each in topics if each in known}


def _check_same(place: TopicPartition, wanted: str, found: str) -> None:
    """Raise KafkaError where offsets are of another topic than the one that has their name; an id may not be known."""
    if wanted and found and wanted != found:
        words = f"{place}: the topic was made again since its offset was committed"
        raise KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID, words)


async def begin_work(
    client: Client,
    plan: ApplicationPlan,
    name: StreamsWork,
    now_ms: int,
    saved: StateCheckpoint | None,
    *,
    is_followed: bool = False,
) -> Work:
    """Return a work at its committed place, its stores read; raises KafkaError for what cannot be read.

    It begins with the saved state where that may be used, which is logged where not, and reads what is behind it. State
    that `is_followed` was read of the changelogs alone: it is behind whatever is committed, and knows no global tables.
    """
    place = await place_of(client, plan, name)
    group = plan.of_group(name.sub_topology)
    logs = changelogs_of(plan, group, name.partition)
    bounds = await bounds_of(client, (*logs, *place.global_offsets), place)
    if saved is not None and is_followed:
        whole = {each: ChangelogPosition(bounds[each].topic_id, bounds[each].begin) for each in place.global_offsets}
        saved = replace(saved, positions=dict(place.offsets), changelogs={**saved.changelogs, **whole})
    ids = {each.topic: found.topic_id for each, found in bounds.items()}
    place.topic_ids = {**ids, **place.topic_ids}
    place.global_offsets = {each: bounds[each].begin for each in place.global_offsets}
    blobs: dict[str, bytes] | None = None
    if saved is not None and (why := why_not(saved, plan, name, place, bounds, now_ms)):
        log.warning("the checkpoint of %s is not used, the changelog is read: %s", name, why)
    elif saved is not None:
        blobs = _blobs(saved, group, place, plan)
        begins = {each: found.offset for each, found in saved.changelogs.items()}
        place.global_offsets = {each: begins[each] for each in place.global_offsets}
    if blobs is None:
        begins = {each: found.begin for each, found in bounds.items()}
    work = Work(plan, group, name, place, now_ms, blobs)
    ends = {each: bounds[each].end for each in logs}
    async for answer in read_stretch(client, {each: begins[each] for each in logs}, ends, plan, ids):
        changes = list(changes_of(answer, logs[answer.partition], ends[answer.partition]))
        work.counts.restored += len(changes)
        work.restore(changes)
    work.restored_ends = {each: max(begins[each], end) for each, end in ends.items()}
    work.topic_ids = ids
    await _fill(client, work)
    work.restored()
    if not plan.exactly_once and (place.memory is not None or blobs or work.counts.restored):
        tails = await client.list_offsets(dict.fromkeys(place.offsets, LATEST))
        work.replay({each: int(found.offset) for each, found in tails.items()})
    return work


def why_not(
    saved: StateCheckpoint,
    plan: ApplicationPlan,
    name: StreamsWork,
    place: Place,
    bounds: Mapping[TopicPartition, Bounds],
    now_ms: int,
) -> str | None:
    """Return why a work cannot begin with what was saved of it; None where it can."""
    return why_unusable(
        saved,
        plan.identity(name),
        committed=place.offsets,
        changelogs=bounds,
        now_ms=now_ms,
        age_ms_max=plan.checkpoints.age_ms_max,
    )


def changelogs_of(plan: ApplicationPlan, group: GroupPlan, task: int) -> dict[TopicPartition, list[str]]:
    """Return what a task's stores are restored from, with the stores."""
    found: dict[TopicPartition, list[str]] = {}
    for store, topic in group.restored.items():
        if task < plan.counts.get(topic, 0):
            found.setdefault(TopicPartition(topic, task), []).append(store)
    return found


async def bounds_of(client: Client, places: Iterable[TopicPartition], place: Place) -> dict[TopicPartition, Bounds]:
    """Return what there is of changelogs; of a source topic that serves as one, up to what is committed."""
    wanted = list(places)
    if not wanted:
        return {}
    ids = ids_of(await client.metadata({each.topic for each in wanted}))
    for each in wanted:
        _check_same(each, place.topic_ids.get(each.topic, ""), ids.get(each.topic, ""))
    begin = await client.list_offsets(dict.fromkeys(wanted, EARLIEST))
    end = await client.list_offsets(dict.fromkeys(wanted, LATEST))
    return {
        each: Bounds(
            ids.get(each.topic, ""),
            int(begin[each].offset),
            min(int(end[each].offset), place.offsets.get(each, NO_END)),
        )
        for each in wanted
    }


def _blobs(saved: StateCheckpoint, group: GroupPlan, place: Place, plan: ApplicationPlan) -> dict[str, bytes]:
    """Return a checkpoint's blobs, without those of stores that no changelog brings up to date."""
    if saved.positions == place.offsets:
        return dict(saved.blobs)
    stores = (plan.topology.stores[each] for each in group.group.stores)
    stale = {each.name for each in stores if each.name not in group.restored and not each.is_global}
    return {
        name: blob for name, blob in saved.blobs.items() if name.rpartition("/")[0].removesuffix("~times") not in stale
    }


async def _fill(client: Client, work: Work) -> None:
    """Read global tables to their ends, so that no record meets half a table."""
    queues = {each.partition: each for each in work.globals.queues.values()}
    if not queues:
        return
    end = await client.list_offsets(dict.fromkeys(queues, LATEST))
    begins = {each: queue.fetched for each, queue in queues.items()}
    ends = {each: int(found.offset) for each, found in end.items()}
    ids = {each.topic: queue.topic_id for each, queue in queues.items()}
    async for answer in read_stretch(client, begins, ends, work.plan, ids):
        queues[answer.partition].add(answer.columns, answer.next_offset, 0)
        work.process_globals()


def changes_of(answer: Stretch, stores: Iterable[str], end: int) -> Iterator[StoreChange]:
    """Yield what records say of the stores that their topic stands for."""
    for record in answer.records:
        if record.key is not None and record.offset < end:
            for store in stores:
                yield StoreChange(store, record.key, record.value, record.timestamp, record.headers)


@dataclass(frozen=True, slots=True)
class Stretch:
    """What one answer holds of a partition."""

    partition: TopicPartition
    columns: list[Columns]
    next_offset: int

    @property
    def records(self) -> Iterator[Record]:
        """What it holds, one by one."""
        return (each for columns in self.columns for each in records_of(columns, *self.partition))


async def read_stretch(
    client: Client,
    begins: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    plan: ApplicationPlan,
    topic_ids: Mapping[str, str],
    *,
    waits: bool = True,
) -> AsyncIterator[Stretch]:
    """Yield what partitions hold up to their ends; raises KafkaError where one does not come to its end.

    `topic_ids` say of which topics the offsets are: one that was made again meanwhile is such an error, too. Where it does
    not wait it ends where nothing more can be read now.
    """
    isolation = Isolation.READ_COMMITTED if plan.exactly_once else Isolation.READ_UNCOMMITTED
    decoder, loop = ColumnDecoder(with_headers=True), asyncio.get_running_loop()
    patience_s = SLACK_SECONDS + plan.transaction_timeout_ms / 1000
    left = {each: offset for each, offset in begins.items() if offset < ends[each]}
    until_s = loop.time() + patience_s
    while left:
        positions = [FetchPosition(each, Offset(offset), FETCH_BYTES) for each, offset in left.items()]
        moved = False
        for fetched in await client.fetch(positions, max_wait_ms=0, isolation=isolation):
            _check_same(fetched.partition, topic_ids.get(fetched.partition.topic, ""), _id_of(fetched))
            fetched.check()
            decoded = decoder.decode(fetched.records, start=fetched.offset, aborted=fetched.aborted)
            if decoded.next_offset == fetched.offset:
                continue
            moved = True
            yield Stretch(fetched.partition, decoded.columns, int(decoded.next_offset))
            left[fetched.partition] = int(decoded.next_offset)
            if decoded.next_offset >= ends[fetched.partition]:
                del left[fetched.partition]
        if not moved and not waits:
            return
        if moved:
            until_s = loop.time() + patience_s
        elif loop.time() > until_s:
            place, offset = next(iter(left.items()))
            words = f"{place} does not become stable beyond offset {offset}, and ends at {ends[place]}"
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, words)
        else:
            await asyncio.sleep(LOOK_SECONDS)


def _id_of(fetched: Fetched) -> str:
    return "" if fetched.topic_id == ZERO_UUID else fetched.topic_id.hex()
