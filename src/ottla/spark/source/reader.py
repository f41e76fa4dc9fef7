"""The source: readers of topics in batch and streaming, and the loop that fetches one stretch of a partition."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from ottla.base import ZERO_UUID, ConfigError, ErrorCode, KafkaError, Millis, Offset, TopicPartition
from ottla.client import EARLIEST, LATEST, BlockingClient, Fetched, FetchPosition
from ottla.spark.source.client_pool import PooledClient, pooled_client
from ottla.spark.source.columns import SCHEMA, ColumnBuilder
from ottla.spark.source.options import ReadOptions
from ottla.spark.source.positions import (
    Multiples,
    Planned,
    Stretch,
    connect,
    ending_offsets,
    find_partitions,
    find_partitions_and_ids,
    has_been_made_again,
    limited,
    offsets_to_json,
    reset_position,
    split_ranges,
    starting_offsets,
)
from ottla.spark.streams.lowering.pushed import NAMES, shared_out, unpacked_steps
from ottla.streams import Origin, ProcessingFailed
from ottla.wire import ColumnDecoder, next_offset

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from ottla.wire import Columns

__all__ = ["OttlaReader", "OttlaStreamReader", "RangePartition", "read_range", "records"]

log = logging.getLogger(__name__)
FETCH_WAIT_MS = 500
SHRUNK_SECONDS = 5.0
"""How long a partition may end before the stretch that was planned until it counts as made again: a new leader's high
watermark may lag behind for a moment."""
STALL_SECONDS_MAX = 120.0
"""How long a range may bring nothing before it is given up (`kafkaConsumer.pollTimeoutMs` of Spark's connector)."""


class RangePartition(InputPartition):
    """One task's work: a stretch of a topic partition; None where there is nothing to read."""

    def __init__(self, offsets: Stretch | None, more: Sequence[Stretch] = ()) -> None:
        super().__init__(offsets)
        self.offsets = offsets
        self.more = tuple(more)
        """Further stretches of the same task."""


class OttlaReader(DataSourceReader):
    """Reads topics once, between two points that are fixed when the query is planned."""

    def __init__(self, schema: StructType, options: ReadOptions) -> None:
        self._schema = schema
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """Fix where each partition begins and ends; one task for each stretch."""
        with connect(self._options.connecting) as client:
            found = find_partitions(client, self._options.subscription)
            start = starting_offsets(client, found, self._options)
            end = ending_offsets(client, found, self._options)
        ranges = split_ranges((Stretch(each, start[each], end[each]) for each in found), self._options.partitions_min)
        return [RangePartition(each) for each in ranges] or [RangePartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one stretch, in a task."""
        return _read(partition, self._schema, self._options)


class OttlaStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads topics as they grow; the driver's half plans by offsets, the tasks' half reads."""

    def __init__(self, schema: StructType, options: ReadOptions) -> None:
        self._schema = schema
        self._options = options
        self._client: BlockingClient | None = None
        self._waits = Multiples(options.multiple, options.multiple_delay_ms)
        self._target: Planned | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Leave connections behind when a task's copy is made."""
        return {**self.__dict__, "_client": None}

    def initialOffset(self) -> dict[str, Any]:
        """Return where a new query begins."""
        partitions, ids = find_partitions_and_ids(self._connected(), self._options.subscription)
        offsets = starting_offsets(self._connected(), partitions, self._options)
        return self._told(offsets, {**ids, **self._options.starting_ids})

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return `maxOffsetsPerTrigger` as Spark's limit."""
        rows = self._options.max_offsets_per_trigger
        return ReadMaxRows(rows) if rows is not None else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """Fix the end of an `availableNow` query: what is there now."""
        self._target = self._latest()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return how far the next micro-batch goes; new partitions join at their beginning."""
        before, end = Planned.of_json(start), self._target if self._target is not None else self._latest()
        latest = dict(end.offsets)
        anew = self._made_again(before, end)
        begin = {**before.offsets, **anew}
        self._report_lost(begin, latest)
        new = [each for each in latest if each not in begin]
        if new:
            found = self._connected().list_offsets(dict.fromkeys(new, EARLIEST))
            anew.update({each: found[each].offset for each in new})
            begin.update(anew)
        begin = {each: self._within(each, offset, latest[each]) for each, offset in begin.items() if each in latest}
        if self._options.multiple is not None and self._target is None:
            rows_max = limit.max_rows if isinstance(limit, ReadMaxRows) else None
            ends = self._waits.ends(begin, latest, rows_max, time.monotonic())
        elif isinstance(limit, ReadMaxRows):
            ends = limited(begin, latest, limit.max_rows)
        else:
            ends = {each: Offset(max(latest[each], begin[each])) for each in latest}
        told = self._told(ends, end.ids, anew)
        return start if before.is_at(Planned.of_json(told)) else told

    def reportLatestOffset(self) -> dict[str, Any]:
        """Return the ends of all partitions, for the query's progress."""
        return offsets_to_json(self._latest().offsets)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return one task for each stretch of a micro-batch; of a topic that was made again since it was planned, too.

        Its tasks are the same whenever it is done. They read nothing of such a topic.
        """
        planned = Planned.of_json(end)
        begin, stop = dict(Planned.of_json(start).offsets), planned.offsets
        if start != end:  # else it was the batch before that began there
            begin.update(planned.begun)
        new = [each for each in stop if each not in begin]
        if new:
            found = self._connected().list_offsets(dict.fromkeys(new, EARLIEST))
            begin.update({each: found[each].offset for each in new})
        ranges = (
            Stretch(each, self._within(each, begin[each], stop[each]), stop[each], planned.ids.get(each.topic, ""))
            for each in sorted(stop)
        )
        if self._options.steps:
            return [RangePartition(first, more) for first, *more in shared_out(split_ranges(ranges, None))]
        return [RangePartition(each) for each in split_ranges(ranges, self._options.partitions_min)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one stretch, in a task."""
        return _read(partition, self._schema, self._options)

    def stop(self) -> None:
        """Close the driver's connections."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _within(self, partition: TopicPartition, begin: Offset, end: Offset) -> Offset:
        """Return where reading goes on in a partition whose end went back behind `begin`: its topic was made again."""
        if begin <= end or not self._options.reset:
            return begin
        why = f"{partition} ends at {end}, before offset {begin}"
        return reset_position(self._connected(), partition, self._options.reset, end, why)

    def _connected(self) -> BlockingClient:
        if self._client is None:
            self._client = connect(self._options.connecting)
        return self._client

    def _latest(self) -> Planned:
        """Return the ends of all partitions; ids first, so that offsets of a newer topic never pass for its."""
        client = self._connected()
        partitions, ids = find_partitions_and_ids(client, self._options.subscription)
        found = client.list_offsets(dict.fromkeys(partitions, LATEST), isolation=self._options.isolation)
        return Planned({each: found[each].offset for each in partitions}, ids)

    def _told(
        self, offsets: Mapping[TopicPartition, Offset], ids: Mapping[str, str], begun: Any = None
    ) -> dict[str, Any]:
        """Return offsets as Spark keeps them: with topics' ids where a reset policy says what follows a topic's end."""
        return Planned(offsets, ids, begun or {}).to_json() if self._options.reset else offsets_to_json(offsets)

    def _made_again(self, before: Planned, now: Planned) -> dict[TopicPartition, Offset]:
        """Return where reading begins in topics that were made again since the batch before: where the reset policy says."""
        found = {}
        for topic in sorted(name for name, known in before.ids.items() if now.ids.get(name, known) != known):
            if not has_been_made_again(self._connected(), topic, before.ids[topic]):
                why = f"brokers do not agree whether {topic} was made again"
                raise KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID, why)
            for each in (each for each in now.offsets if each.topic == topic):
                why, end = f"{topic} was made again", now.offsets[each]
                found[each] = reset_position(self._connected(), each, self._options.reset, end, why)
        return found

    def _report_lost(self, begin: dict[TopicPartition, Offset], latest: dict[TopicPartition, Offset]) -> None:
        gone = [str(each) for each in begin if each not in latest]
        back = [
            f"{each} from {begin[each]} to {latest[each]}"
            for each in begin
            if latest.get(each, begin[each]) < begin[each]
        ]
        if gone:
            _lost(self._options, f"partitions are gone: {', '.join(gone)}")
        if back:
            _lost(self._options, f"the ends of partitions went back: {', '.join(back)}")


def _lost(options: ReadOptions, what: str) -> None:
    """Fail the query over records that are gone, or warn where `failOnDataLoss` is false or a reset policy decides."""
    if options.reset:
        log.warning("%s", what)
        return
    if options.fail_on_data_loss:
        raise KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{what}. Records that were not read yet are lost; with the option failOnDataLoss=false the query goes on",
        )
    log.warning("%s; failOnDataLoss is false, so the query goes on", what)


def _read(partition: InputPartition, schema: StructType, options: ReadOptions) -> Iterator[pa.RecordBatch]:
    assert isinstance(partition, RangePartition)
    if options.steps and partition.offsets is not None:
        return unpacked_steps(options.steps)(records((partition.offsets, *partition.more), options))
    return iter(()) if partition.offsets is None else read_range(partition.offsets, schema, options)


def read_range(
    wanted: Stretch, schema: StructType, options: ReadOptions, skipped: Callable[[int], None] = lambda count: None
) -> Iterator[pa.RecordBatch]:
    """Yield Arrow batches of a stretch's records; the next Fetch is under way while one answer is decoded.

    `skipped` hears how many records are left out for their time.
    """
    decoder = ColumnDecoder(with_headers="headers" in schema.fieldNames())
    builder = ColumnBuilder(schema, *wanted.partition)
    with pooled_client(options.connecting, reading=True) as pooled:
        for fetched in _answers(pooled, wanted, options):
            decoded = decoder.decode(fetched.records, start=fetched.offset, end=wanted.end, aborted=fetched.aborted)
            for columns in decoded.columns:
                for valid in _valid_times(columns, wanted.partition, options.invalid_time, skipped):
                    yield from builder.batches(valid)


def records(
    stretches: Iterable[Stretch], options: ReadOptions, skipped: Callable[[int], None] = lambda count: None
) -> Iterator[pa.RecordBatch]:
    """Yield stretches' records as steps take them; `skipped` hears how many are left out for their time."""
    import numpy
    import pyarrow

    for stretch in stretches:
        for batch in read_range(stretch, _steps_schema(), options, skipped):
            columns = list(batch.columns)
            micros = columns[5].view(pyarrow.int64()).to_numpy()
            columns[5] = pyarrow.array(numpy.floor_divide(micros, 1000))
            yield pyarrow.RecordBatch.from_arrays(columns, NAMES)


def _steps_schema() -> Any:
    from pyspark.sql.types import StructType

    return StructType([field for field in SCHEMA.fields if field.name != "timestampType"])


def _valid_times(
    columns: Columns, place: TopicPartition, policy: str, skipped: Callable[[int], None]
) -> Iterator[Columns]:
    """Yield the records without those whose time is negative, as the policy says; raises ProcessingFailed for `fail`.

    With `tell` they are only told of: somebody else drops them.
    """
    if not policy or not len(columns) or columns.timestamps_ms.min() >= 0:
        yield columns
        return
    invalid = np.flatnonzero(columns.timestamps_ms < 0)
    first = int(invalid[0])
    if policy == "fail":
        words = (
            f"the timestamp {int(columns.timestamps_ms[first])} is negative; the timestamp extractor "
            "FailOnInvalidTimestamp stops there, and another one may take or drop the record"
        )
        raise ProcessingFailed("timestamp", Origin(*place, int(columns.offsets[first])), words)
    log.warning(
        "%d records of %s are skipped, from offset %d on: negative timestamps",
        len(invalid),
        place,
        columns.offsets[first],
    )
    if policy == "tell":
        yield columns
        return
    skipped(len(invalid))
    bounds = [-1, *invalid.tolist(), len(columns)]
    for before, behind in pairwise(bounds):
        if behind - before > 1:
            yield columns.rows(before + 1, behind)


def _answers(pooled: PooledClient, wanted: Stretch, options: ReadOptions) -> Iterator[Fetched]:
    """Yield Fetch answers with records until the stretch is covered."""
    client, topic = pooled.client, wanted.partition.topic

    def ask(offset: Offset) -> Any:
        size = pooled.sizes.wanted_bytes(topic, offsets=wanted.end - offset, bytes_max=options.fetch_bytes)
        position = FetchPosition(wanted.partition, offset, size)
        call = client.client.fetch([position], max_wait_ms=FETCH_WAIT_MS, isolation=options.isolation)
        return client.begin(call)

    position, moved = wanted.start, time.monotonic()
    if _is_gone(client, wanted, options):
        return
    pending = ask(position)
    while position < wanted.end:
        [fetched] = pending.result()
        if _has_another_id(client, wanted):  # it is the answer of that topic
            if _is_gone(client, wanted, options):
                return
            pending = ask(position)
            continue
        if fetched.error is ErrorCode.OFFSET_OUT_OF_RANGE:
            position = _beyond_loss(client, wanted, position, options)
            if position < wanted.end:
                pending = ask(position)
            continue
        following = next_offset(fetched.check().records, position)
        if following > position:
            pooled.sizes.saw(topic, offsets=following - position, size_bytes=len(fetched.records))
            position, moved = following, time.monotonic()
        elif _has_shrunk(fetched, wanted, options, time.monotonic() - moved):
            ends = f"{wanted.partition} ends at {fetched.high_watermark}, before offset {wanted.end} that was planned"
            reset_position(client, wanted.partition, options.reset, wanted.end, ends)
            return  # what comes is for the next micro-batch
        elif time.monotonic() - moved > STALL_SECONDS_MAX:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"{wanted.partition} brought nothing from offset {position} on for {STALL_SECONDS_MAX:.0f} s, "
                f"though {wanted.end} was its end",
            )
        if position < wanted.end:
            pending = ask(position)
        yield fetched


def _has_another_id(client: BlockingClient, wanted: Stretch) -> bool:
    """Whether the client takes another topic than the planned one for what has its name: Fetch asks by the topic's id."""
    known = client.client.cluster.topic_id(wanted.partition.topic)
    return bool(wanted.topic_id) and known != ZERO_UUID and known.hex() != wanted.topic_id


def _is_gone(client: BlockingClient, wanted: Stretch, options: ReadOptions) -> bool:
    """Whether a stretch is of a topic that is gone, and another has its name; says so.

    Raises ConfigError where the query cannot do without.
    """
    topic = wanted.partition.topic
    if wanted.topic_id and client.client.cluster.topic_id(topic) == ZERO_UUID:
        client.metadata([topic])
    if not _has_another_id(client, wanted) or not has_been_made_again(client, topic, wanted.topic_id):
        return False
    what = f"{topic} was made again while a batch of it was under way"
    if options.gone is not None and wanted.topic_id not in options.gone:
        words = f"{what}: what of the batch is in the state cannot be told here; start the application again"
        raise ConfigError("processing.guarantee", "exactly_once_v2", words)
    log.warning("%s: offsets %d to %d of %s are gone", what, wanted.start, wanted.end, wanted.partition)
    return True


def _has_shrunk(fetched: Fetched, wanted: Stretch, options: ReadOptions, idle_s: float) -> bool:
    """Whether a partition ends before what was planned of it, and a reset policy decides what follows."""
    return bool(options.reset) and fetched.high_watermark < wanted.end and idle_s >= SHRUNK_SECONDS


def _beyond_loss(client: BlockingClient, wanted: Stretch, position: Offset, options: ReadOptions) -> Offset:
    """Return the first offset behind lost records, or fail over them as the options say."""
    at: dict[TopicPartition, Millis] = {wanted.partition: EARLIEST}
    earliest = client.list_offsets(at)[wanted.partition].offset
    why = f"offset {position} of {wanted.partition} is not there (it now begins at {earliest})"
    if options.reset:
        found = reset_position(client, wanted.partition, options.reset, wanted.end, why)
        return found if found > position else wanted.end
    _lost(options, why)
    return earliest if earliest > position else wanted.end
