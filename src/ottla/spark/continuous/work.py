"""One work on its host: an executor for a partition of a sub-topology, what waits for it, and where it stands."""

from __future__ import annotations

import base64
import logging
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter

from ottla.base import TopicPartition
from ottla.spark.continuous.arrivals import Arrivals, Queue
from ottla.spark.continuous.columns import block_of, records_of
from ottla.spark.continuous.meters import TopicMeter
from ottla.spark.continuous.plan import ApplicationPlan, GroupPlan
from ottla.spark.streams.progress import OWN_WORDS
from ottla.streams import (
    ChangeColumns,
    Executor,
    Output,
    OutputColumns,
    Progress,
    Record,
    ResidentState,
    StoreChange,
    StreamsWork,
    kept_memory,
    memory_over,
)
from ottla.wire import Columns

__all__ = ["Made", "Note", "Place", "Work", "WorkCounts", "by_topic", "note_of", "words_of"]

log = logging.getLogger(__name__)
WORDS_BYTES_MAX = 3500
"""Of the 4096 that a coordinator takes beside an offset (`offset.metadata.max.bytes`)."""
MEMORY_BYTES_MAX = 16 << 20
"""Of a task's memory unpacked: what words hold is at most a thousandfold."""
HELD_RECORDS_MAX = 200_000
"""After so many records what they have made leaves, however many more there are to come."""
TOPIC_ID_BYTES = 16


@dataclass(frozen=True, slots=True)
class Made:
    """What a work has made since it was asked last."""

    outputs: list[Output | OutputColumns]
    changes: list[StoreChange | ChangeColumns]


@dataclass(slots=True)
class WorkCounts:
    """What a work has counted since its host began."""

    processed: int = 0
    late: int = 0
    null_keys: int = 0
    poison: int = 0
    restored: int = 0
    turns: int = 0
    process_s: float = 0.0
    process_s_max: float = 0.0
    stream_time: int = -1
    commits: int = 0
    sent: int = 0

    def add(self, progress: Progress) -> None:
        """Take in what an executor has counted."""
        self.processed += progress.processed
        self.late += progress.dropped_late
        self.null_keys += progress.dropped_null_key
        self.poison += progress.skipped_poison
        self.stream_time = progress.stream_time


@dataclass(slots=True)
class Place:
    """Where a work begins: offsets of what it reads, and what it remembers."""

    offsets: Mapping[TopicPartition, int]
    memory: bytes | None = None
    global_offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    """Of which topics these offsets are, in hexadecimal: one that is made again has the name, and not the offsets."""


@dataclass(frozen=True, slots=True)
class Note:
    """What continuous mode leaves beside an offset."""

    memory: bytes | None = None
    """What the task remembers, beside its first partition's offset."""
    topic_id: str = ""
    """Of which topic the offset is, in hexadecimal; empty where that was not noted."""


class Work:
    """See the module's description. After an error it must be thrown away."""

    def __init__(
        self,
        plan: ApplicationPlan,
        group: GroupPlan,
        name: StreamsWork,
        place: Place,
        now_ms: int,
        blobs: Mapping[str, bytes] | None = None,
    ) -> None:
        """`blobs` are those of a checkpoint of its state. Raises TypeError for a step that nobody can run here."""
        self.name, self.plan, self.group = name, plan, group
        self.state = ResidentState(memory_over(blobs or {}, place.memory), blobs)
        self.executor = Executor(
            plan.topology,
            group.group.nodes,
            self.state,
            task=name.partition,
            settings=plan.engine,
            application_id=plan.application_id,
            wall_clock_ms=now_ms,
        )
        if blobs:
            self.executor.forget_told()
        self.restored_ends: dict[TopicPartition, int] = {}
        """How far each changelog was read, or would have been."""
        self.topic_ids: dict[str, str] = {}
        """Of what it was restored from."""
        ids = place.topic_ids
        own = [
            Queue(each, group.topics[each.topic], offset, ids.get(each.topic, ""))
            for each, offset in place.offsets.items()
        ]
        self.arrivals = Arrivals(own, waits=plan.idle_ms >= 0)
        self.globals = Arrivals(
            [
                Queue(each, group.global_topics[each.topic], offset, ids.get(each.topic, ""))
                for each, offset in place.global_offsets.items()
            ],
            waits=False,
        )
        self.counts = WorkCounts()
        self.produced: dict[tuple[str, str], TopicMeter] = {}
        """What was sent, by sink and topic."""
        self.is_dirty = False
        """Whether something was done that is not committed."""
        self._is_unfinished = False
        self._held = 0
        """Records since what they have made was asked for."""
        self._committed = {each.partition: each.position for each in own}
        self._replayed: Mapping[TopicPartition, int] = {}
        """Up to where records may have been processed before; empty behind that."""

    @property
    def queues(self) -> Iterable[Queue]:
        """Everything that it reads."""
        return (*self.globals.queues.values(), *self.arrivals.queues.values())

    @property
    def store_entries(self) -> dict[str, int]:
        """Return how many keys each store holds, those that were not read from a checkpoint yet left out."""
        return {name: self.state.entries(name) for name in self.group.group.stores}

    def restore(self, changes: Iterable[StoreChange]) -> None:
        """Take in records of changelogs, in the order of their topics."""
        self.executor.restore(changes)

    def restored(self) -> None:
        """Have what was restored be what was there; nothing of it is written again."""
        self.executor.finish_batch()

    def replay(self, ends: Mapping[TopicPartition, int]) -> None:
        """Say that records in front of these offsets may have been processed before, as at least once they may."""
        self._replayed = ends
        self.executor.replay(is_replaying=True)
        self._look_at_replay()

    def _look_at_replay(self) -> None:
        queues = self.arrivals.queues
        if all(queues[place].position >= end for place, end in self._replayed.items()):
            self._replayed = {}
            self.executor.replay(is_replaying=False)

    # -- a turn

    @property
    def has_work(self) -> bool:
        """Whether records could be processed now."""
        return self.globals.waiting or self.arrivals.waiting

    def due_ms(self) -> int | None:
        """When the wall clock has something to do for it next."""
        return self.executor.wall_clock_due_ms

    @property
    def holds_back(self) -> bool:
        """Whether more is on its way than has come, so that what it has made may wait and be told together."""
        return self._held < HELD_RECORDS_MAX and (self.has_work or self.arrivals.is_behind)

    def process(self) -> int:
        """Process what may go now, global tables first; returns how many records. Raises ProcessingError."""
        count = self.process_globals()
        entries = self.arrivals.take()
        if len(entries) == 1:
            for source, pieces in entries.items():
                for partition, columns in pieces:
                    self._enter(source, partition, columns)
        elif entries:
            self.executor.process_merged({source: _records(pieces) for source, pieces in entries.items()})
        count += sum(len(columns) for pieces in entries.values() for _, columns in pieces)
        if count:
            self.is_dirty = self._is_unfinished = True
            self._held += count
        return count

    def process_globals(self) -> int:
        """Process what has come of topics that every task reads whole; returns how many records."""
        found = self.globals.take()
        for source, pieces in found.items():
            self.executor.process(source, _records(pieces))
        return sum(len(columns) for pieces in found.values() for _, columns in pieces)

    def _enter(self, source: str, partition: TopicPartition, columns: Columns) -> None:
        if len(columns) < self.plan.engine.column_rows_min or not self.plan.engine.column_rows_min:
            self.executor.process(source, records_of(columns, *partition))
        else:
            self.executor.process_block(source, block_of(columns, partition))

    def advance(self, now_ms: int) -> None:
        """Let the wall clock's schedules that are due act. Raises ProcessingError."""
        self.executor.advance_wall_clock(now_ms)
        self.is_dirty = self._is_unfinished = True

    def made(self) -> Made | None:
        """Return what it has made since the last call, None where it did nothing; raises ProcessingError."""
        if not self._is_unfinished:
            return None
        outputs, changes, progress = self.executor.finish_batch()
        self._is_unfinished, self._held = False, 0
        if self._replayed:
            self._look_at_replay()
        self.counts.add(progress)
        self.counts.sent += sum(len(each) if isinstance(each, OutputColumns) else 1 for each in outputs)
        return Made(outputs, changes)

    # -- commits

    def moved(self) -> dict[TopicPartition, int]:
        """Return what is to be committed: positions that have moved, and the first one's wherever anything was done."""
        found = {
            place: queue.position
            for place, queue in self.arrivals.queues.items()
            if queue.position != self._committed.get(place)
        }
        if self.is_dirty or found:
            first = next(iter(self.arrivals.queues.values()), None)
            if first is not None:
                found[first.partition] = first.position
        return found

    def words(self) -> dict[TopicPartition, str]:
        """Return what is to stand beside the offsets: of which topics they are, and what it remembers beside the first."""
        first = next(iter(self.arrivals.queues), None)
        return {
            place: words_of(Note(self.state.memory if place == first else None, queue.topic_id))
            for place, queue in self.arrivals.queues.items()
        }

    @property
    def offsets_committed(self) -> Mapping[TopicPartition, int]:
        """What is committed of its input."""
        return self._committed

    def committed(self, positions: Mapping[TopicPartition, int]) -> None:
        """Note what was committed, of everything that was done."""
        self._committed.update(positions)
        self.is_dirty = False
        self.counts.commits += 1


def words_of(note: Note) -> str:
    """Return a note as words beside an offset; without the task's memory where it is too much for that.

    The topic's id stands behind the packed memory, where readers that know nothing of it pass over it.
    """
    packed = zlib.compress(b"" if note.memory is None else kept_memory(note.memory))
    words = base64.b64encode(packed + bytes.fromhex(note.topic_id)).decode()
    if len(words) > WORDS_BYTES_MAX:
        log.warning("a task remembers too much to keep it beside its offsets: %d bytes", len(words))
        return words_of(Note(None, note.topic_id))
    return f"{OWN_WORDS} {words}"


def note_of(words: str) -> Note:
    """Return what `words_of` has packed; nothing where somebody else has committed the offset, or micro-batches have."""
    first, _, packed = words.partition(" ")
    if first != OWN_WORDS or not packed:
        return Note()
    unpacking = zlib.decompressobj()
    try:
        memory = unpacking.decompress(base64.b64decode(packed, validate=True), MEMORY_BYTES_MAX)
        if memory:
            kept_memory(memory)
    except (ValueError, zlib.error):
        log.warning("what stands beside an offset is no task's memory; the task remembers nothing: %.80s", words)
        return Note()
    rest = unpacking.unused_data
    return Note(memory or None, rest.hex() if len(rest) == TOPIC_ID_BYTES else "")


def _records(pieces: Iterable[tuple[TopicPartition, Columns]]) -> list[Record]:
    return [each for partition, columns in pieces for each in records_of(columns, *partition)]


def by_topic(outputs: list[Output | OutputColumns]) -> Iterable[tuple[str, list[Output | OutputColumns]]]:
    """Yield outputs by topic, each topic's in their order."""
    ordered = sorted(outputs, key=attrgetter("topic"))
    return ((topic, list(found)) for topic, found in groupby(ordered, key=attrgetter("topic")))
