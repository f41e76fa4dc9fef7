"""Topics without a broker: files of Arrow in a folder, one partition each, read as a stream by `format("ottla-local")`.

What `TopologyTestDriver` puts in the place of a cluster. Whoever owns the folder appends; queries read as they read topics.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from ottla.java import compile_java

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from ottla.spark.streams.lowering.topics import TopicRead

__all__ = ["FORMAT", "LocalRecord", "LocalTopics", "LocalTopicsSource"]

FORMAT = "ottla-local"
HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])
COLUMNS = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("headers", pa.list_(HEADER)),
    ]
)
SCHEMA = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    "headers array<struct<key: string, value: binary>>"
)


class LocalRecord(NamedTuple):
    """A record of a local topic; `timestamp` in milliseconds."""

    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: tuple[tuple[str, bytes | None], ...] = ()


@dataclass
class LocalTopics:
    """Topics in a folder, by full name; the `Topics` that `plan_query` wants. Without a folder they are in memory alone."""

    folder: Path | None
    names: frozenset[str]
    """Every topic that the plan may name: each has one partition."""
    records: dict[str, list[LocalRecord]] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """How many records there are in all topics."""
        return sum(map(len, self.records.values()))

    def append(self, topic: str, records: Sequence[LocalRecord]) -> None:
        """Add records to a topic's end; a file appears whole."""
        kept = self.records.setdefault(topic, [])
        first = len(kept)
        kept.extend(records)
        if self.folder is None:
            return
        folder = self.folder / topic
        folder.mkdir(parents=True, exist_ok=True)
        table = _table(topic, first, records)
        hidden, path = folder / ".new", folder / f"{first:020}-{first + len(records):020}.arrow"
        with pa.OSFile(str(hidden), "wb") as file, pa.ipc.new_file(file, COLUMNS) as writer:
            writer.write(table)
        hidden.rename(path)

    def read(self, spark: SparkSession, wanted: TopicRead) -> DataFrame:
        """Return topics' records as a stream, from their beginning."""
        topics = (
            sorted(name for name in self.names if compile_java(wanted.pattern).fullmatch(name))
            if wanted.pattern is not None
            else wanted.topics
        )
        options = {"folder": str(self.folder), "topics": ",".join(topics)}
        return spark.readStream.format(FORMAT).schema(SCHEMA).options(**options).load()

    def partition_counts(self) -> Mapping[str, int]:
        """Return one for each topic."""
        return dict.fromkeys(self.names, 1)

    def topic_ids(self) -> Mapping[str, str]:
        """Return none: nothing is noted."""
        return {}


class LocalTopicsSource(DataSource):
    """`format("ottla-local")`: options `folder` and `topics` (comma)."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format`."""
        return FORMAT

    def schema(self) -> str:
        """Return Kafka's columns."""
        return SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the reader."""
        return LocalReader(Path(self.options["folder"]), tuple(self.options["topics"].split(",")))


class FilesPartition(InputPartition):
    """One task's work: files of a topic."""

    def __init__(self, files: tuple[str, ...]) -> None:
        super().__init__(files)
        self.files = files


class LocalReader(DataSourceStreamReader):
    """Reads what files are there; an offset is the end of a topic's last file."""

    def __init__(self, folder: Path, topics: tuple[str, ...]) -> None:
        self._folder = folder
        self._topics = topics

    def initialOffset(self) -> dict[str, int]:
        """Return the beginning."""
        return dict.fromkeys(self._topics, 0)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        """Return the ends."""
        return {topic: max((end for _, end, _ in self._files(topic)), default=0) for topic in self._topics}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Return one task for each topic with something new; files are never split, since batches end where files do."""
        found = []
        for topic in self._topics:
            begin, stop = start.get(topic, 0), end.get(topic, 0)
            if files := tuple(path for first, last, path in self._files(topic) if first >= begin and last <= stop):
                found.append(FilesPartition(files))
        return found or [FilesPartition(())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read files, in a task."""
        assert isinstance(partition, FilesPartition)
        for path in partition.files:
            with pa.OSFile(path, "rb") as file:
                yield from pa.ipc.open_file(file).read_all().to_batches()

    def _files(self, topic: str) -> list[tuple[int, int, str]]:
        """Return (first offset, end offset, path) of a topic's files, in order."""
        folder = self._folder / topic
        if not folder.is_dir():
            return []
        names = sorted(name for name in os.listdir(folder) if name.endswith(".arrow"))
        spans = ((name.removesuffix(".arrow").split("-"), name) for name in names)
        return [(int(first), int(end), str(folder / name)) for (first, end), name in spans]


def _table(topic: str, first: int, records: Sequence[LocalRecord]) -> pa.RecordBatch:
    columns: list[Any] = [
        [each.key for each in records],
        [each.value for each in records],
        [topic] * len(records),
        [0] * len(records),
        list(range(first, first + len(records))),
        [each.timestamp * 1000 for each in records],
        [[{"key": key, "value": value} for key, value in each.headers] for each in records],
    ]
    return pa.RecordBatch.from_arrays(
        [pa.array(column, type=kind.type) for column, kind in zip(columns, COLUMNS, strict=True)], schema=COLUMNS
    )
