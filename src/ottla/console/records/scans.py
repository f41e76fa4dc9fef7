"""Searching a topic: from the newest backwards, from a place forwards, or what comes from now on.

A scan yields frames, each a mapping with a `type`: `rows`, `progress`, and at the end `done` with the reason and a cursor
from which another goes on. It reads with a client of its own, so that who closes it ends its reading at once. The loop is
shared: between slices of a few milliseconds others have their turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ottla.base import ErrorCode, KafkaError, Offset, TopicPartition
from ottla.client import EARLIEST, LATEST, Client, FetchPosition, Isolation
from ottla.console.records.masks import Masks
from ottla.console.records.reads import Read
from ottla.console.records.rows import Decoders, document_of, held_bytes, row_of, shortened
from ottla.console.records.scan_plan import Limits, Progress, Window, newest_first, reason_to_end, windows_backwards
from ottla.console.records.tails import Feed, Tail, Tails
from ottla.sql import Condition
from ottla.wire import AbortedTransactions, BatchHeader, Record, iter_batch_records, iter_batches, records_payload

if TYPE_CHECKING:
    from ottla.console.records.file_decoders import Values

__all__ = ["Frame", "Scan", "ScanRequest", "scan"]

Frame = Mapping[str, object]
Follow = Callable[[], AbstractAsyncContextManager[Feed]]
FETCH_BYTES = 8 << 20
PARTITION_BYTES = 1 << 20
FRAME_BYTES = 16 << 20
"""Of hits that are told at once; a batch more at most."""
LIVE_WAIT_SECONDS = 0.25
PROGRESS_SECONDS = 0.25
SLICE_SECONDS = 0.004
ROWS_PER_SECOND_MAX = 200
"""Of a live view; what is more is counted as skipped."""


@dataclass(frozen=True, slots=True)
class ScanRequest:
    """What somebody looks for; `positions` is the cursor of a scan before, in the same direction."""

    topic: str
    direction: str = "newest"
    """`newest` goes backwards, `forward` from `positions`, `live` takes what comes."""
    positions: Mapping[int, int] = field(default_factory=dict)
    partitions: tuple[int, ...] | None = None
    condition: Condition | None = None
    key: bytes | None = None
    """Where it is there, records with exactly this key alone."""
    decoders: Decoders = field(default_factory=Decoders)
    isolation: Isolation = Isolation.READ_COMMITTED
    limits: Limits = field(default_factory=Limits)


def scan(
    client: Client,
    request: ScanRequest,
    values: Values | None = None,
    masks: Masks | None = None,
    follow: Follow | None = None,
) -> AsyncGenerator[Frame, None]:
    """Return the frames of a search; `client` is its own and is closed at its end. Raises KafkaError when first asked.

    What `masks` hide is hidden before the condition looks. `follow` gives what comes from now on where others see it too.
    """
    return Scan(client, request, values, masks, follow).frames()


class Scan:
    """One search under way."""

    def __init__(
        self,
        client: Client,
        request: ScanRequest,
        values: Values | None = None,
        masks: Masks | None = None,
        follow: Follow | None = None,
    ) -> None:
        self._client = client
        self._values = values
        self._masks = masks
        self._request = request
        self._follow = follow or self._alone
        self._progress = Progress()
        self._loop = asyncio.get_running_loop()
        self._began_s = self._loop.time()
        self._told_s = self._began_s
        self._slice_s = self._began_s
        self._ends: dict[int, int] = {}
        self._starts: dict[int, int] = {}

    async def frames(self) -> AsyncGenerator[Frame, None]:
        """Yield frames until the search is over."""
        try:
            if self._request.direction == "live":
                async with self._follow() as feed:
                    await self._find_bounds()
                    async for frame in self._live(feed):
                        yield frame
                return
            await self._find_bounds()
            frames = self._backwards() if self._request.direction == "newest" else self._forwards()
            async for frame in frames:
                yield frame
        finally:
            await self._client.close()

    def _alone(self) -> AbstractAsyncContextManager[Feed]:
        """Follow a topic for this search only."""
        request = self._request
        return Tails().followed(None, lambda: Tail(self._client, request.topic, request.isolation, self._values))

    async def _find_bounds(self) -> None:
        topic = self._request.topic
        await self._client.metadata([topic])
        known = self._client.cluster.topics.get(topic)
        if known is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {topic}")
        wanted = sorted(known.partitions) if self._request.partitions is None else self._request.partitions
        if unknown := sorted(set(wanted) - set(known.partitions)):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic} has no partition {unknown[0]}")
        places = [TopicPartition(topic, index) for index in wanted]
        starts = await self._client.list_offsets(dict.fromkeys(places, EARLIEST))
        ends = await self._client.list_offsets(dict.fromkeys(places, LATEST), isolation=self._request.isolation)
        self._starts = {each.partition: int(found.offset) for each, found in starts.items()}
        self._ends = {each.partition: int(found.offset) for each, found in ends.items()}

    # -- directions

    async def _backwards(self) -> AsyncGenerator[Frame, None]:
        """Windows from the ends backwards; the rows of each turn newest first, by time."""
        given = self._request.positions
        until = {index: min(end, given.get(index, end)) for index, end in self._ends.items()}
        turn = 0
        while windows := windows_backwards(self._starts, until, wanted=self._request.limits.hits, turn=turn):
            turn += 1
            rows: dict[int, list[Record | Read]] = {index: [] for index in windows}
            positions = {index: window.start for index, window in windows.items()}
            async for found in self._read(positions, {index: window.end for index, window in windows.items()}):
                for index, record in found:
                    rows[index].append(record)
                if self._is_time_to_tell():
                    yield self._told()
            whole = {index for index, window in windows.items() if positions[index] >= window.end}
            room = self._request.limits.hits - self._progress.hits
            shown, left_out = newest_first({index: rows[index] for index in whole}, room)
            self._progress.hits += len(shown)
            if shown:
                yield self._rows(shown)
            for index in whole:  # a search that goes on takes what was left out first, and looks at half a window again
                until[index] = windows[index].start if index not in left_out else left_out[index] + 1
                self._looked(index, until[index], windows[index].end)
            yield self._told()
            if reason := self._reason():
                yield self._done(reason, until)
                return
            self._progress.held = 0
        yield self._done("beginning", until)

    async def _forwards(self) -> AsyncGenerator[Frame, None]:
        """From the positions to where the partitions ended when the search began."""
        given = self._request.positions
        positions = {index: max(start, given.get(index, start)) for index, start in self._starts.items()}
        first = dict(positions)
        async for found in self._read(positions, self._ends, hits_end=True):
            if found:
                yield self._rows(found)
            self._progress.held = 0
            for index in positions:
                self._looked(index, first[index], positions[index])
            if self._is_time_to_tell():
                yield self._told()
            if reason := self._reason():
                yield self._done(reason, positions)
                return
        yield self._told()
        yield self._done("end", positions)

    async def _live(self, feed: Feed) -> AsyncGenerator[Frame, None]:
        """What comes from now on, at most so many rows a second, of more the newest; never ends by itself."""
        positions = dict(self._ends)
        allowed, since_s, skipped, dropped = ROWS_PER_SECOND_MAX, self._loop.time(), 0, 0
        held: list[tuple[int, Record | Read]] = []
        yield self._told()
        while True:
            found: list[tuple[int, Record | Read]] = []
            for index, records in await feed.next(LIVE_WAIT_SECONDS):
                if index in positions:
                    found += await self._hits(index, records, positions[index], None)
            self._progress.held = 0
            now_s = self._loop.time()
            if now_s - since_s >= 1.0:
                allowed, since_s = ROWS_PER_SECOND_MAX, now_s
            held += found
            kept = held[-allowed:] if allowed else held[-ROWS_PER_SECOND_MAX:]
            skipped += len(held) - len(kept) + feed.dropped - dropped
            dropped = feed.dropped
            self._progress.hits += len(found)
            held = [] if allowed else kept
            if allowed and kept:
                allowed -= len(kept)
                yield {**self._rows(kept), "skipped": skipped}
                skipped = 0
            elif self._is_time_to_tell():
                yield {**self._told(), "skipped": skipped}
                skipped = 0

    # -- reading

    async def _read(
        self, positions: dict[int, int], ends: Mapping[int, int], *, hits_end: bool = False
    ) -> AsyncGenerator[list[tuple[int, Record | Read]], None]:
        """Yield hits between positions and ends, an answer's at a time; positions move along. A limit of time ends it."""
        while any(positions[index] < ends[index] for index in positions):
            found = await self._fetched(positions, ends, 100)
            if hits_end:
                room = self._request.limits.hits - self._progress.hits
                for index, record in found[room:]:
                    positions[index] = min(positions[index], int(record.offset))
                found = found[:room]
                self._progress.hits += len(found)
            yield found
            if reason_to_end(self._progress, self._request.limits, self._loop.time() - self._began_s):
                return

    async def _fetched(
        self, positions: dict[int, int], ends: Mapping[int, int], wait_ms: int
    ) -> list[tuple[int, Record | Read]]:
        """Fetch once from every partition that is not at its end; returns the hits, and moves the positions."""
        topic = self._request.topic
        asked = [
            FetchPosition(TopicPartition(topic, index), Offset(at), PARTITION_BYTES)
            for index, at in positions.items()
            if at < ends[index]
        ]
        answers = await self._client.fetch(
            asked, max_wait_ms=wait_ms, max_bytes=FETCH_BYTES, isolation=self._request.isolation
        )
        hits: list[tuple[int, Record | Read]] = []
        full = self._progress.held + FRAME_BYTES
        for answer in answers:
            if self._progress.held >= full:
                break  # what is left is fetched again
            index = answer.partition.partition
            if answer.error is ErrorCode.OFFSET_OUT_OF_RANGE:  # retention went by
                positions[index] = max(int(answer.log_start_offset), positions[index] + 1)
                continue
            records = answer.check().records
            end = ends[index]
            aborted = AbortedTransactions(answer.aborted)
            is_committed = self._request.isolation is Isolation.READ_COMMITTED
            for header, at in iter_batches(records):
                hidden = aborted.hides(header) if is_committed else header.is_control
                if not hidden and header.next_offset > positions[index]:
                    if self._values is not None:
                        read = await self._values.read(iter_batch_records(records, at, header))
                        hits += await self._hits(index, read, positions[index], end)
                    elif self._masks is not None or _may_hold(self._request, records, at, header):
                        hits += await self._hits(index, iter_batch_records(records, at, header), positions[index], end)
                    else:
                        self._progress.records += header.record_count
                    await self._pause()
                positions[index] = max(positions[index], int(header.next_offset))
                if self._progress.held >= full:
                    break
            positions[index] = min(positions[index], end)
            self._progress.bytes += len(records)
        return hits

    async def _hits(
        self, index: int, records: Iterable[Record | Read], start: int, end: int | None
    ) -> list[tuple[int, Record | Read]]:
        condition = self._request.condition
        found: list[tuple[int, Record | Read]] = []
        for record in records:
            if record.offset < start or (end is not None and record.offset >= end):
                continue
            self._progress.records += 1
            is_key = self._request.key is None or record.key == self._request.key
            seen = record if self._masks is None else self._masks.masked(record)
            if is_key and (condition is None or _holds(condition, self._request.topic, index, seen)):
                kept = shortened(seen)
                self._progress.held += held_bytes(kept)
                found.append((index, kept))
            if self._progress.records % 64 == 0:
                await self._pause()
        return found

    async def _pause(self) -> None:
        """Let others have their turn, where a slice is over."""
        if self._loop.time() - self._slice_s > SLICE_SECONDS:
            await asyncio.sleep(0)
            self._slice_s = self._loop.time()

    # -- what is told

    def _looked(self, index: int, start: int, end: int) -> None:
        known = self._progress.looked.get(index)
        if known is not None:
            start, end = min(known.start, start), max(known.end, end)
        self._progress.looked[index] = Window(start, end)

    def _reason(self) -> str | None:
        return reason_to_end(self._progress, self._request.limits, self._loop.time() - self._began_s)

    def _is_time_to_tell(self) -> bool:
        now_s = self._loop.time()
        if now_s - self._told_s < PROGRESS_SECONDS:
            return False
        self._told_s = now_s
        return True

    def _rows(self, found: Sequence[tuple[int, Record | Read]]) -> Frame:
        return {"type": "rows", "rows": [row_of(index, record, self._request.decoders) for index, record in found]}

    def _told(self) -> Frame:
        took_s = max(self._loop.time() - self._began_s, 1e-6)
        return {
            "type": "progress",
            "hits": self._progress.hits,
            "records": self._progress.records,
            "bytes": self._progress.bytes,
            "per_s": round(self._progress.records / took_s),
            "rails": [
                {
                    "partition": index,
                    "start": self._starts[index],
                    "end": self._ends[index],
                    "looked": None
                    if (window := self._progress.looked.get(index)) is None
                    else [window.start, window.end],
                }
                for index in sorted(self._ends)
            ],
        }

    def _done(self, reason: str, cursor: Mapping[int, int]) -> Frame:
        is_whole = reason in ("beginning", "end")
        return {
            "type": "done",
            "reason": reason if is_whole else "limit",
            "limit": None if is_whole else reason,
            "cursor": {str(index): at for index, at in cursor.items()},
        }


def _may_hold(request: ScanRequest, records: memoryview, at: int, header: BatchHeader) -> bool:
    """Whether a batch may hold a hit: most do not have the texts of a rare one, and need not be walked."""
    condition = request.condition
    wanted = () if condition is None else condition.must_contain
    if not wanted and not request.key:
        return True
    data = records_payload(records, at, header)
    if request.key and request.key not in data:
        return False
    return b"\\" in data or all(text in data for text in wanted)


def _holds(condition: Condition, topic: str, partition: int, record: Record | Read) -> bool:
    value = record.value
    if value is not None and b"\\" not in value and any(text not in value for text in condition.must_contain):
        return False
    return condition.holds(document_of(topic, partition, record))
