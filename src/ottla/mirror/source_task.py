"""A share of a cluster's partitions: their records as they are, and where they have come to lie on the target."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ottla.base import ZERO_UUID, ErrorCode, KafkaError, Millis, Offset, OttlaError, ProducerId, TopicPartition, Uuid
from ottla.client import EARLIEST, LATEST, Appended, BlockingClient, Fetched, FetchPosition, Isolation, Pending
from ottla.client.arrow.batches import Placed, Rows, TopicRows, encode_placed
from ottla.client.arrow.gathering import Gatherer
from ottla.connect import ConnectError, Header, Measure, SourceBatch, SourceRecord, SourceState, SourceTask
from ottla.connect.data import OPTIONAL_BYTES
from ottla.mirror.clusters import connected
from ottla.mirror.metrics import SourceMetrics
from ottla.mirror.offset_syncs import SyncPlan
from ottla.mirror.offsets import read_topic_id, source_offset
from ottla.mirror.own_classes import policy_of
from ottla.mirror.records import OffsetSync
from ottla.mirror.settings import PACKAGE, SOURCE_DEF, client_properties
from ottla.wire import (
    BatchHeader,
    ColumnDecoder,
    Columns,
    Record,
    build_batch,
    crc_is_valid,
    iter_batches,
    records_payload,
)

__all__ = ["PARTITIONS", "MirrorSourceTask", "partition_named", "source_partition"]

log = logging.getLogger(__name__)
PARTITIONS = "task.assigned.partitions"
"""The partitions of a task, as Kafka's connector gives them to its own."""
FETCH_BYTES_DEFAULT = 1 << 20
ANSWER_BYTES = 8 << 20
RETRY_SECONDS = 1.0
LOOK_SECONDS = 5.0
"""After so long it is looked again for partitions without leaders."""
HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
DUE_MAX = 10_000
"""Syncs that wait to be told at most, the newest: where they cannot be told for long, the older ones matter least."""
BATCH_RECORDS_MIN = 8
"""From so many records on a batch costs less than its records do one by one."""
BATCH_BYTES_MIN, BATCH_BYTES = 64 << 10, 256 << 10
"""Smaller batches are joined into larger ones: each is a request of its own."""
Aborted = Sequence[tuple[ProducerId, Offset]]
Connect = Callable[[Mapping[str, str], str, str, str], BlockingClient]


def partition_named(text: str) -> TopicPartition:
    """Return the partition of a name like `orders-3`; raises ValueError."""
    topic, _, number = text.rpartition("-")
    return TopicPartition(topic, int(number))


def source_partition(alias: str, place: TopicPartition) -> dict[str, str | int]:
    """Return a partition's name among Connect's offsets, that of Kafka's connector."""
    return {"cluster": alias, "partition": place.partition, "topic": place.topic}


class MirrorSourceTask(SourceTask):
    """See the module's description. `stop` may come from another thread than the other calls."""

    java_name = f"{PACKAGE}MirrorSourceTask"
    version = "1.0"

    def __init__(self, connect: Connect = connected) -> None:
        """`connect` makes clients of the two clusters, as `ottla.mirror.clusters.connected` does."""
        self._connect = connect
        self._stopping = threading.Event()
        self._turn = threading.Lock()
        """Held by whoever uses the clients."""
        self._reading: BlockingClient | None = None
        self._telling: BlockingClient | None = None
        self._positions: dict[TopicPartition, Offset] = {}
        self._ids: dict[TopicPartition, Uuid] = {}
        """Of which topic a partition's position is; zero, or nothing, where nobody knows."""
        self._new: set[TopicPartition] = set()
        """Partitions that nothing was read of yet: where they begin is not known."""
        self._absent: set[TopicPartition] = set()
        """Partitions that have no leader, and are not asked for."""
        self._ends: dict[TopicPartition, Offset] = {}
        """Behind the last records that may be read, as the latest answers had them."""
        self._away: str | None = None
        self._troubles: dict[TopicPartition, str] = {}
        """Why partitions cannot be read now."""
        self._look_after = 0.0
        self._due: list[OffsetSync] = []
        """Syncs that are to be told."""
        self._told: tuple[list[OffsetSync], Pending[list[Appended]]] | None = None
        """Those that are on their way."""

    def start(self, props: Mapping[str, str]) -> None:
        """Look where reading goes on; raises ConnectError for a partition that has no offset where it must have one."""
        super().start(props)
        settings = SOURCE_DEF.parse(props)
        self._alias, self._target = settings["source.cluster.alias"], settings["target.cluster.alias"]
        self._policy = policy_of(props)
        self._metrics = SourceMetrics(self._alias, self._target)
        consumer = client_properties(props, "source", "consumer")
        committed = consumer.get("isolation.level", "").lower() == "read_committed"
        self._isolation = Isolation.READ_COMMITTED if committed else Isolation.READ_UNCOMMITTED
        self._reset = consumer.get("auto.offset.reset", "earliest").lower()
        self._fetch_bytes = int(consumer.get("max.partition.fetch.bytes", FETCH_BYTES_DEFAULT))
        self._wait_ms = int(settings["consumer.poll.timeout.ms"])
        self._decoder, self._gatherer = ColumnDecoder(with_headers=True), Gatherer()
        number = props.get("task.index", "0")
        self._reading = self._connect(
            props, "source", "consumer", f"{number}|MirrorSourceConnector|replication-consumer"
        )
        if settings["emit.offset-syncs.enabled"]:
            where = settings["offset-syncs.topic.location"]
            self._syncs = SyncPlan(settings["offset.lag.max"])
            other = self._target if where == "source" else self._alias
            self._sync_place = TopicPartition(self._policy.offset_syncs_topic(other), 0)
            self._telling = self._connect(
                props, where, "producer", f"{number}|MirrorSourceConnector|offset-syncs-producer"
            )
        places = [partition_named(each) for each in props[PARTITIONS].split(",") if each]
        self._begin(places)

    def _begin(self, places: Sequence[TopicPartition]) -> None:
        for place in places:
            stored = self.context.offset(source_partition(self._alias, place))
            if stored.get("offset") is None:
                self._new.add(place)
            else:
                self._positions[place] = Offset(int(stored["offset"]) + 1)
                self._ids[place] = read_topic_id(stored)
        self._refuse_no_reset(self._new)
        log.info("%d partitions of %s, %d of them from the start", len(places), self._alias, len(self._new))

    def _refuse_no_reset(self, places: Iterable[TopicPartition]) -> None:
        if self._reset not in ("earliest", "latest"):
            for each in sorted(places):
                raise ConnectError(f"{each} has no offset to go on from, and auto.offset.reset={self._reset}")

    def _go_to_reset(self, places: Sequence[TopicPartition]) -> None:
        """Go on where `auto.offset.reset` says; raises ConnectError where it says that nothing may, and KafkaError."""
        assert self._reading is not None
        self._refuse_no_reset(places)
        names = sorted({each.topic for each in places})
        # ids first: where a topic is made again in between, answers show that it is another one
        topics = self._reading.metadata(names).topics
        for name in names:
            if name not in topics or topics[name].error:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name} is not there")
        when = EARLIEST if self._reset == "earliest" else LATEST
        found = self._reading.list_offsets(dict.fromkeys(places, when), isolation=self._isolation)
        self._positions |= {place: each.offset for place, each in found.items()}
        self._ids |= {place: topics[place.topic].topic_id for place in places}
        self._new -= found.keys()
        for place in found:
            self._troubles.pop(place, None)

    # -- polling

    def poll(self) -> list[SourceRecord | SourceBatch] | None:
        """Return records of several partitions; None where there were none in `consumer.poll.timeout.ms`."""
        with self._turn:
            if self._stopping.is_set() or self._reading is None:
                return None
            self._tell()
            try:
                found = self._fetched()
                self._away = None
                self._metrics.polled(found)
                return found or None
            except (KafkaError, OSError) as error:
                log.warning("%s cannot be read now, and is asked again: %s", self._alias, error)
                self._away = f"{self._alias} cannot be read: {error}"
        self._stopping.wait(RETRY_SECONDS)
        return None

    def _fetched(self) -> list[SourceRecord | SourceBatch]:
        assert self._reading is not None
        asked = self._asked()
        if not asked:
            self._stopping.wait(self._wait_ms / 1000)
            return []
        found: list[SourceRecord | SourceBatch] = []
        try:
            answers = self._reading.fetch(
                asked, max_wait_ms=min(self._wait_ms, 500), max_bytes=ANSWER_BYTES, isolation=self._isolation
            )
        except (KafkaError, OSError):
            self._look()
            raise
        failed = False
        for answer in answers:
            taken = self._answered(answer)
            failed |= taken is None
            found += taken or ()
        # the first asked are answered first where there is more than fits; so each comes to be the first
        place = asked[0].partition
        self._positions[place] = self._positions.pop(place)
        if failed and not found:
            self._stopping.wait(RETRY_SECONDS)
        return found

    def _asked(self) -> list[FetchPosition]:
        """Return what to ask for: all but partitions that nobody has now."""
        if (self._absent or self._new) and time.monotonic() >= self._look_after:
            self._look()
        places = self._positions.items()
        return [FetchPosition(each, offset, self._fetch_bytes) for each, offset in places if each not in self._absent]

    def _look(self) -> None:
        """Leave out partitions without a leader for a while, as one would keep all others waiting, and begin new ones.

        Raises KafkaError and OSError where nothing can be said.
        """
        assert self._reading is not None
        places = {*self._positions, *self._new}
        topics = self._reading.metadata(sorted({each.topic for each in places}))
        absent = {each for each in places if topics.leader_of(each) is None}
        for each in self._absent - absent:
            self._troubles.pop(each, None)
        for each in sorted(absent - self._absent):
            log.warning("%s has no leader on %s now; the others are read on", each, self._alias)
            self._troubles[each] = f"{each} has no leader on {self._alias}"
        self._absent, self._look_after = absent, time.monotonic() + LOOK_SECONDS
        new = sorted(self._new - absent)
        if not new:
            return
        try:
            self._go_to_reset(new)
        except (KafkaError, OSError) as error:  # one of them would keep all others waiting
            log.info("%d new partitions of %s are begun topic by topic: %s", len(new), self._alias, error)
            for name in sorted({each.topic for each in new}):
                self._begin_topic([each for each in new if each.topic == name])

    def _begin_topic(self, new: Sequence[TopicPartition]) -> None:
        try:
            self._go_to_reset(new)
        except (KafkaError, OSError) as error:
            log.warning("topic %s of %s cannot be begun now, and is later: %s", new[0].topic, self._alias, error)
            self._troubles |= {each: f"{each} of {self._alias} cannot be begun: {error}" for each in new}

    def _answered(self, answer: Fetched) -> list[SourceRecord | SourceBatch] | None:
        """Return what a partition's answer has; None where it cannot be read now, and is asked for again from there."""
        place, before = answer.partition, self._positions[answer.partition]
        try:
            if self._is_made_again(answer):
                log.warning("%s was deleted and made again on %s; it is read as a new one", place.topic, self._alias)
                self._go_to_reset([place])
                return []
            if answer.error is ErrorCode.OFFSET_OUT_OF_RANGE:
                self._go_to_reset([place])
                log.warning("%s has no offset %d; going on from %d", place, answer.offset, self._positions[place])
                return []
            taken = list(self._taken(answer.check()))
            committed = self._isolation is Isolation.READ_COMMITTED
            self._ends[place] = answer.last_stable_offset if committed else answer.high_watermark
            self._troubles.pop(place, None)
            return taken
        except (KafkaError, OSError) as error:  # of this partition; what others have brought is returned
            self._positions[place] = before  # what was made of its beginning is not returned either
            log.warning("%s cannot be read now: %s", place, error)
            self._troubles[place] = f"{place} of {self._alias} cannot be read: {error}"
            return None

    def source_state(self) -> SourceState:
        """Return how many records the source has beyond those that were read, and what of it cannot be read."""
        positions = self._positions
        behind = sum(max(self._ends[each] - at, 0) for each, at in positions.items() if each in self._ends)
        facts = {"partitions": len(positions) + len(self._new), "behind_records": behind, "not_begun": len(self._new)}
        trouble = self._away or next(iter(self._troubles.values()), None)
        if trouble is not None and len(self._troubles) > 1:
            trouble += f" ({len(self._troubles)} partitions in all)"
        return SourceState(facts, waiting=behind, trouble=trouble, moved=sum(positions.values()))

    def _is_made_again(self, answer: Fetched) -> bool:
        """Whether a topic is another one than the position is of: its offsets mean other records there."""
        if answer.error and answer.error is not ErrorCode.OFFSET_OUT_OF_RANGE:
            return False  # nobody says of which topic that is
        now = answer.topic_id
        known = self._ids.get(answer.partition, ZERO_UUID)
        if known == ZERO_UUID:
            self._ids[answer.partition] = known = now
        return now not in (known, ZERO_UUID)

    def _taken(self, answer: Fetched) -> Iterator[SourceRecord | SourceBatch]:
        """Yield what an answer has, in its order: large batches whole, and what is between them in batches of ours."""
        place, data = answer.partition, answer.records
        begun, start = 0, answer.offset
        for header, at in iter_batches(data) if not answer.aborted else ():
            if not _is_whole(header, start if at == begun else None):
                continue
            if not crc_is_valid(data, at, header):
                raise KafkaError(
                    ErrorCode.CORRUPT_MESSAGE, f"{place} has a damaged batch at offset {header.base_offset}"
                )
            yield from self._between(place, data[begun:at], start, ())
            yield self._whole(place, data, at, header)
            begun, start = at + header.size, header.next_offset
            self._positions[place] = start
        yield from self._between(place, data[begun:], start, answer.aborted)

    def _whole(self, place: TopicPartition, data: memoryview, at: int, header: BatchHeader) -> SourceBatch:
        whole, topic_id = bytes(data[at : at + header.size]), self._ids.get(place, ZERO_UUID)

        def records() -> list[SourceRecord]:
            decoded = ColumnDecoder(with_headers=True).decode(whole, start=header.base_offset)
            return [record for columns in decoded.columns for record in self._records(place, columns, topic_id)]

        payload = memoryview(records_payload(whole, 0, header))
        times = header.base_timestamp, header.max_timestamp
        looked = _looked_into(whole, header) if self._metrics.looks_into(self._remote(place), place.partition) else None
        return self._batch(place, payload, header.record_count, times, header.last_offset, records, looked)

    def _between(
        self, place: TopicPartition, data: memoryview, start: Offset, aborted: Aborted
    ) -> Iterator[SourceRecord | SourceBatch]:
        if not len(data):
            return
        decoded = self._decoder.decode(data, start=start, aborted=aborted)
        self._positions[place] = Offset(int(max(decoded.next_offset, start)))
        for columns in decoded.columns:
            bounds = [0, *(np.flatnonzero(np.diff(columns.offsets) != 1) + 1).tolist(), len(columns)]
            for first, last in pairwise(bounds):
                yield from self._encoded(place, columns.rows(first, last))

    def _encoded(self, place: TopicPartition, columns: Columns) -> Iterator[SourceRecord | SourceBatch]:
        """Yield records without gaps in batches; few ones, and such without times, one by one."""
        topic_id = self._ids.get(place, ZERO_UUID)
        if len(columns) < BATCH_RECORDS_MIN or bool((columns.timestamps_ms < 0).any()):
            yield from self._records(place, columns, topic_id)
            return
        target = TopicRows(place.topic, 1, place.partition)
        first = 0
        for each in encode_placed(Placed(_arrow(columns, self._gatherer), None, None), target, batch_bytes=BATCH_BYTES):
            mine = columns.rows(first, first + each.count)
            assert each.timestamp_ms is not None and each.max_timestamp_ms is not None, "rows with times were given"
            times, last = (each.timestamp_ms, each.max_timestamp_ms), int(mine.offsets[-1])
            looked = mine.timestamps_ms, _value_bytes(mine)
            records = partial(self._records, place, mine, topic_id)
            yield self._batch(place, each.records, each.count, times, last, records, looked)
            first += each.count

    def _batch(
        self,
        place: TopicPartition,
        data: memoryview,
        count: int,
        times: tuple[int, int],
        last_offset: int,
        make_records: Callable[[], Sequence[SourceRecord]],
        looked: tuple[NDArray[np.int64], int] | None,
    ) -> SourceBatch:
        return SourceBatch(
            topic=self._remote(place),
            partition=place.partition,
            data=data,
            count=count,
            timestamp_ms=times[0],
            max_timestamp_ms=times[1],
            has_headers=True,  # nobody has looked
            source_partition=source_partition(self._alias, place),
            source_offset=source_offset(last_offset, self._ids.get(place, ZERO_UUID)),
            make_records=make_records,
            timestamps_ms=None if looked is None else looked[0],
            value_bytes=None if looked is None else looked[1],
        )

    def _remote(self, place: TopicPartition) -> str:
        return self._policy.format_remote_topic(self._alias, place.topic)

    def _records(self, place: TopicPartition, columns: Columns, topic_id: Uuid) -> list[SourceRecord]:
        partition, topic = source_partition(self._alias, place), self._remote(place)
        return [
            SourceRecord(
                topic=topic,
                partition=place.partition,
                key_schema=OPTIONAL_BYTES,
                key=key,
                value_schema=OPTIONAL_BYTES,
                value=value,
                timestamp=time_ms,
                headers=headers,
                source_partition=partition,
                source_offset=source_offset(offset, topic_id),
            )
            for offset, time_ms, key, value, headers in _rows(columns)
        ]

    # -- where records have come to lie

    def commit_record(self, record: SourceRecord, offset: int | None) -> None:
        """Note where a record lies on the target."""
        if offset is not None:
            self._metrics.arrived(record)
        if self._telling is None or offset is None or offset < 0 or record.source_offset is None:
            return
        place = TopicPartition(str(record.source_partition["topic"]), int(record.source_partition["partition"]))
        sync = self._syncs.arrived(OffsetSync(place, Offset(record.source_offset["offset"]), Offset(offset)))
        if sync is not None:
            self._due.append(sync)

    def commit_batch(self, batch: SourceBatch, first: int, count: int, offset: int | None) -> None:
        """Note where records of a batch lie on the target."""
        if offset is not None:
            self._metrics.arrived(batch, first, count)
        if self._telling is None or offset is None or offset < 0:
            return
        place = TopicPartition(str(batch.source_partition["topic"]), int(batch.source_partition["partition"]))
        upstream = int(batch.source_offset["offset"]) - batch.count + 1 + first
        self._due += self._syncs.arrived_batch(place, upstream, offset, count)

    def measures(self) -> list[Measure]:
        """Return ages, latencies, records and bytes by partition of the target."""
        return self._metrics.measures()

    def commit(self) -> None:
        """Tell what was kept back."""
        with self._turn:
            if self._telling is not None and not self._stopping.is_set():
                self._due += self._syncs.take_pending().values()
                self._tell()

    def _tell(self) -> None:
        """Send syncs that are due, one request at a time; what does not arrive is told again."""
        client = self._telling
        if client is None:
            return
        if self._told is not None:
            syncs, pending = self._told
            self._told = None
            try:
                pending.result()
            except (OttlaError, OSError) as error:
                log.warning("Where records lie cannot be told now, and is told later: %s", error)
                self._due = (syncs + self._due)[-DUE_MAX:]
        if not self._due:
            return
        syncs, self._due = self._due, []
        now = Millis(time.time_ns() // 1_000_000)
        batch = bytes(build_batch([Record(Offset(0), now, each.key(), each.value(), ()) for each in syncs]))
        self._told = syncs, client.begin(client.client.produce({self._sync_place: batch}))

    def stop(self) -> None:
        """End."""
        self._stopping.set()
        with self._turn:
            if self._telling is not None:
                self._due += self._syncs.take_pending().values()
                self._tell()
                if self._told is not None:
                    try:
                        self._told[1].result()
                    except (OttlaError, OSError) as error:
                        log.warning("Where the last records lie is not told: %s", error)
            for client in (self._reading, self._telling):
                if client is not None:
                    client.close()
            self._reading = self._telling = None


def _arrow(columns: Columns, gatherer: Gatherer) -> Rows:
    """Return columns as Arrow arrays, with times and headers."""
    data = pa.py_buffer(columns.data)
    values = gatherer.gather(data, columns.value_bounds, columns.value_nulls)
    keys = gatherer.gather(data, columns.key_bounds, columns.key_nulls)
    has_keys = keys.null_count < len(keys)
    headers = None
    found = columns.header_pairs()
    if found is not None:
        pairs = [[{"key": name, "value": value} for name, value in each] for each in found]
        headers = pa.array(pairs, HEADERS)
    return Rows(values, keys if has_keys else None, headers, None, pa.array(columns.timestamps_ms))


def _value_bytes(columns: Columns) -> int:
    bounds = columns.value_bounds
    return int(bounds[1::2].sum(dtype=np.int64) - bounds[::2].sum(dtype=np.int64))


def _looked_into(batch: bytes, header: BatchHeader) -> tuple[NDArray[np.int64], int] | None:
    """Return the records' times, and how many bytes their values have; None where the batch cannot be read."""
    try:
        found = ColumnDecoder().decode(batch, start=header.base_offset).columns
    except OttlaError:  # it travels as it is, and whoever reads it there learns of it
        return None
    return np.concatenate([each.timestamps_ms for each in found]), sum(map(_value_bytes, found))


def _is_whole(header: BatchHeader, start: Offset | None) -> bool:
    """Whether a batch that does not begin before `start` may travel as it is: large, without gaps, with its own times."""
    return (
        header.batch_length >= BATCH_BYTES_MIN
        and header.record_count >= BATCH_RECORDS_MIN
        and header.record_count == header.last_offset_delta + 1
        and not (header.is_control or header.is_log_append_time)
        and (start is None or header.base_offset >= start)
    )


def _rows(columns: Columns) -> Iterable[tuple[int, int, bytes | None, bytes | None, tuple[Header, ...]]]:
    times, offsets = columns.timestamps_ms.tolist(), columns.offsets.tolist()
    found = columns.header_pairs()
    headers: Iterable[tuple[Header, ...]] = (
        [()] * len(columns)
        if found is None
        else (tuple(Header(name, value, OPTIONAL_BYTES) for name, value in pairs) for pairs in found)
    )
    return zip(offsets, times, columns.keys(), columns.values(), headers, strict=True)
