"""Sinks that want columns: what a connector is written against whose task is a streaming query on Spark.

A `SinkConnector` whose `task_class` is a `QuerySink` gets each micro-batch as Spark DataFrames instead of records::

    class Counts(QuerySink):
        def write(self, batch):
            for frame in batch.frames:
                frame.rows.groupBy("topic").count().write.mode("append").parquet(self.props["path"])

It runs in the worker, not on an executor, and needs no import of PySpark. There is one query for a connector, so its
`task_configs` gives one task; `tasks.max` is how many of Spark's tasks may work on a micro-batch at once.

The group `connect-<name>` says where the query goes on. Offsets are committed when `write` has returned, so that every
record is written at least once. A sink that keeps the `token` and the `ends` of its last batch together with the data and
returns them from `recover` has each record exactly once: a batch that it has, and whose commit was lost, is not repeated.
With `begin` that holds beside a worker that was taken for dead, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from ottla.base import Offset, OffsetRange, TopicPartition

__all__ = [
    "Files",
    "QueryBatch",
    "QueryFrame",
    "QuerySink",
    "QuerySinkContext",
    "Reading",
    "Recovered",
    "Shape",
]


class Shape(Enum):
    """What a DataFrame's column `value` holds, besides Kafka's own columns."""

    COLUMNS = "columns"
    """Real columns: a struct with a field for each of a record's, or the plain value where a record is one."""

    JSON = "json"
    """Text: each value as JSON on one line, without its schema."""

    BYTES = "bytes"
    """What the converter makes of it must be bytes or a string."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How micro-batches are cut. Without any of this a batch begins as soon as records wait."""

    shape: Shape = Shape.COLUMNS
    keys: bool = False
    """Whether rows are to have the column `key`; without it keys are not converted, unless transformations need them."""

    rows_per_partition: int | None = None
    """A partition joins a batch with whole multiples of so many offsets only, until `wait_ms_max` is over."""

    wait_ms_max: int | None = None
    """How long records may wait for others to come; None for ever, where `rows_per_partition` is set."""

    interval_ms: int = 0
    """The least time from the beginning of one batch to the next."""

    rows_max: int | None = None
    """About how many records a batch has at most."""


@dataclass(frozen=True, slots=True)
class QueryFrame:
    """Records of a micro-batch whose values have the same columns.

    `rows` is a Spark DataFrame with `topic` (transformations may have changed it), `partition`, `timestamp` (null where the
    record has none), `key` (text, where `Reading.keys` asks for it), `value` of the shape asked for, and where the record
    came from: `kafka_topic`, `kafka_partition`, `kafka_offset`. It has one Spark partition for each topic partition, in the
    order of offsets, unless `tasks.max` is less: then some hold several, one behind the other.
    """

    rows: Any


@dataclass(frozen=True, slots=True)
class QueryBatch:
    """A micro-batch: its number since the query was started, its records, and how far it goes in each partition."""

    number: int
    frames: Sequence[QueryFrame]
    ranges: Sequence[OffsetRange]
    """Sorted by partition, one for each that has records."""
    token: str
    """To be kept with the batch, for `recover`."""

    @property
    def ends(self) -> dict[TopicPartition, int]:
        """Where each partition's reading goes on behind the batch."""
        return {each.partition: each.end for each in self.ranges}


@dataclass(frozen=True, slots=True)
class Recovered:
    """The last batch that a sink has, or the run that began last: its token, and where reading goes on behind it."""

    token: str
    ends: Mapping[TopicPartition, int]
    is_newest: bool = False
    """Whether no later run can have committed offsets: those under another token are of an older one, and came late."""

    def positions(self, committed: Mapping[TopicPartition, tuple[Offset, str | None]]) -> dict[TopicPartition, Offset]:
        """Return where reading goes on, of what the group has: offsets and the tokens they were committed under.

        None is for what was committed by somebody else, who is followed.
        """
        found = {}
        for partition, (offset, token) in committed.items():
            end = Offset(self.ends.get(partition, offset))
            if token == self.token:
                found[partition] = max(offset, end)
            else:
                found[partition] = end if self.is_newest and token is not None else offset
        return found


class Files(Protocol):
    """A file system that Spark reaches (`file:`, `hdfs:`, `s3a:`), by whole addresses. Raises OSError."""

    def sizes(self, folder: str) -> dict[str, int]:
        """Return the files below a folder, in all depths: address → bytes. Empty where there is no such folder."""
        ...

    def names(self, folder: str) -> list[str]:
        """Return the names of what stands in a folder, sorted. Empty where there is no such folder."""
        ...

    def size(self, file: str) -> int | None:
        """Return a file's bytes, None where it is not there."""
        ...

    def read(self, file: str) -> str:
        """Return a text file."""
        ...

    def create(self, file: str, text: str) -> None:
        """Write a text file that is not there yet; raises FileExistsError."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Give a file its final name; the folder is made. Readers see it whole or not at all."""
        ...

    def sync(self, files: Sequence[str]) -> None:
        """Return when files, and the folders that lead to them, outlast a power failure, as far as the store can say.

        On a machine's own disk that takes fsync; a store of objects, and HDFS with its copies, answer when they have them.
        """
        ...

    def delete(self, path: str) -> None:
        """Remove a file or folder, if it is there."""
        ...


class QuerySinkContext(Protocol):
    """What a query sink may ask of its worker."""

    @property
    def name(self) -> str:
        """The connector's name."""
        ...

    @property
    def session(self) -> Any:
        """The worker's SparkSession."""
        ...

    @property
    def stopping(self) -> bool:
        """Whether the task is to end or pause: a `write` that waits for something can give up by raising."""
        ...

    def files(self, address: str, settings: Mapping[str, str] | None = None) -> Files:
        """Return the file system of an address; `settings` are Hadoop's for it."""
        ...


class QuerySink:
    """A sink connector's work as a streaming query. `context` is set before `start`."""

    context: QuerySinkContext
    props: dict[str, str]

    def start(self, props: Mapping[str, str]) -> Reading:
        """Begin, and say how batches are wanted."""
        self.props = dict(props)
        return Reading()

    def recover(self) -> Recovered | None:
        """Return the last batch that is durable, after ending what was begun of it; None for a sink that cannot say."""
        return None

    def begin(self, token: str, positions: Mapping[TopicPartition, int]) -> None:
        """Begin a run, behind what `recover` returned, before any offset is committed under its token.

        A run that was replaced may go on where it stood still. A sink that refuses what such a one writes from here on,
        by raising ConnectError, and returns the token and the positions from `recover` until there is a batch, can say
        `is_newest` there.
        """

    def write(self, batch: QueryBatch) -> None:
        """Make a batch durable; offsets are committed when this has returned.

        RetriableError asks for the same batch again, and the worker asks by itself where the rows turn out to have columns
        that were not known before: what an earlier call has begun of the batch is to be thrown away.
        """
        raise NotImplementedError

    def stop(self) -> None:
        """End, and let go of everything."""
