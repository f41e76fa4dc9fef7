"""The sink itself: each micro-batch becomes files, named by the offsets that they were made from, exactly once."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import ClassVar
from urllib.parse import unquote

from ottla.base import ConfigError, OffsetRange, TopicPartition
from ottla.connect import (
    ConfigDef,
    ConfigValue,
    ConnectError,
    QueryBatch,
    QueryFrame,
    QuerySink,
    Reading,
    Recovered,
    Shape,
    SinkConnector,
)
from ottla.connectors.filesystem.commits import Commits, Move
from ottla.connectors.filesystem.paths import Columns, quoted
from ottla.connectors.filesystem.settings import Settings, filesystem_def

__all__ = ["FilesystemSink", "FilesystemSinkConnector"]

EXTENSIONS = {"text": "txt"}
SUFFIXES = {"gzip": ".gz"}
"""Behind the extension of formats whose files are compressed as a whole."""
WHOLE = ("json", "csv", "text")
NESTED = ("struct", "array", "map")
TOPIC, PLACE, SLICE, FOLDER = "__t", "__p", "__s", "__d"
"""The columns by which Spark divides what it stages into one folder for each file."""
NOTHING = "__HIVE_DEFAULT_PARTITION__"


class FilesystemSinkConnector(SinkConnector):
    """Topics as files on any path that Spark writes; answers to the class names of the HDFS connectors, too."""

    java_name: ClassVar[str] = "ottla.connectors.FilesystemSinkConnector"
    aliases: ClassVar[tuple[str, ...]] = (
        "io.confluent.connect.hdfs.HdfsSinkConnector",
        "io.confluent.connect.hdfs3.Hdfs3SinkConnector",
        "HdfsSinkConnector",
        "HdfsSink",
        "Hdfs3SinkConnector",
        "Hdfs3Sink",
    )
    version: ClassVar[str] = "1.0"
    config_def: ClassVar[ConfigDef] = filesystem_def()

    def start(self, props: Mapping[str, str]) -> None:
        """Check the configuration; raises ConfigError."""
        super().start(props)
        Settings.of(props)

    def validate(self, props: Mapping[str, str | None]) -> dict[str, ConfigValue]:
        """Return what is wrong with a configuration, keys that contradict each other included."""
        found = super().validate(props)
        if not any(each.errors for each in found.values()):
            try:
                Settings.of({key: value for key, value in props.items() if value is not None})
            except ConfigError as error:
                found.setdefault(error.key, ConfigValue(error.key)).errors.append(str(error))
        return found


class FilesystemSink(QuerySink):
    """The one task of the connector: see `commits` for how a batch comes to be whole and single."""

    def start(self, props: Mapping[str, str]) -> Reading:
        """Look at the path; raises ConfigError where nothing can be written there or in that format."""
        super().start(props)
        self._settings = settings = Settings.of(props)
        self._files = self.context.files(settings.base, settings.hadoop)
        self._commits = Commits(self._files, f"{settings.logs}/{self.context.name}")
        if settings.format == "avro":
            self._check_avro()
        shape = Shape.JSON if settings.format == "json" else Shape.COLUMNS
        return Reading(
            shape,
            rows_per_partition=settings.flush_size,
            wait_ms_max=settings.rotate_ms if settings.flush_size is not None else None,
            interval_ms=0 if settings.flush_size is not None else settings.rotate_ms or 0,
            rows_max=settings.rows_max,
        )

    def _check_avro(self) -> None:
        try:
            self.context.session.read.format("avro").schema("a int").load([])
        except Exception as error:  # Spark's and Py4J's kinds, of another library
            name = "format.class" if self.props.get("format.class") else "format"
            why = "Spark writes Avro with org.apache.spark:spark-avro_2.13; name it in the worker's spark.jars.packages"
            raise ConfigError(name, "avro", why, f"Invalid value avro for configuration {name}: {why}") from error

    def recover(self) -> Recovered | None:
        """See `QuerySink`."""
        return self._commits.recover()

    def begin(self, token: str, positions: Mapping[TopicPartition, int]) -> None:
        """See `QuerySink`."""
        self._commits.begin(token, positions)

    def write(self, batch: QueryBatch) -> None:
        """Stage the files, decide the batch, rename."""
        folder = f"{self._commits.staging}/{batch.token[:8]}-{batch.number}"
        self._files.delete(folder)
        ranges = sorted(batch.ranges)
        now_ms = time.time_ns() // 1_000_000
        moves = []
        for number, frame in enumerate(batch.frames):
            self._stage(frame, f"{folder}/{number}", ranges, now_ms)
            moves += self._moves(f"{folder}/{number}", ranges)
        if self.context.stopping:
            raise ConnectError("the task is to end, and the batch is not decided yet")
        self._commits.commit(batch.token, ranges, moves)
        self._files.delete(folder)

    # -- what Spark writes

    def _stage(self, frame: QueryFrame, folder: str, ranges: Sequence[OffsetRange], now_ms: int) -> None:
        settings = self._settings
        rows = frame.rows
        value = rows.schema["value"].dataType
        is_struct = value.typeName() == "struct"
        kinds = {each.name: each.dataType.typeName() for each in value.fields} if is_struct else {}
        columns = Columns(settings.format == "json", kinds)
        rows = rows.where(_present(fail=settings.fail_on_null))
        folders = settings.by.folders(columns, now_ms)
        names = [TOPIC, PLACE, SLICE, *(f"{FOLDER}{number}" for number in range(len(folders)))]
        taken = [name for name in names if name in kinds]
        if taken:
            raise ConnectError(f"the field {taken[0]} has a name that the sink needs for itself")
        exprs = ["topic", _place_of(ranges), _slice_of(ranges, settings.flush_size), *folders]
        divided = rows.selectExpr(
            *(f"{expr} as {name}" for expr, name in zip(exprs, names, strict=True)),
            "kafka_offset as __o",
            *self._payload(kinds, is_struct=is_struct),
        )
        ordered = divided.sortWithinPartitions(*names, "__o").drop("__o")
        spark_format = "text" if settings.format == "json" else settings.format
        writer = ordered.write.format(spark_format).partitionBy(*names)
        writer = writer.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
        writer = writer.option("compression", settings.codec)
        if settings.format == "csv":
            writer = writer.option("header", str(settings.csv_header).lower())
        writer.save(folder)

    def _payload(self, kinds: Mapping[str, str], *, is_struct: bool) -> list[str]:
        """Return the columns that files have: a struct's fields, or the value as it is."""
        if self._settings.format == "text":
            return ["to_json(value) as value" if is_struct else "cast(value as string) as value"]
        if self._settings.format != "csv" or not is_struct:
            return ["value.*"] if is_struct else ["value"]
        found = []
        for name, kind in kinds.items():
            column = "value.`" + name.replace("`", "``") + "`"
            if kind in NESTED:
                column = f"to_json({column})"
            elif kind == "binary":
                column = f"base64({column})"
            found.append(f"{column} as `{name.replace('`', '``')}`")
        return found

    # -- where it goes

    def _moves(self, folder: str, ranges: Sequence[OffsetRange]) -> list[Move]:
        """Return the staged files with their final names; Spark has put each into folders that say what it is."""
        found = []
        taken: dict[str, int] = {}
        for staged, size in sorted(self._files.sizes(folder).items()):
            inside = staged[staged.index(folder.partition("://")[2]) + len(folder.partition("://")[2]) :].strip("/")
            *parts, last = inside.split("/")
            if last.startswith(("_", ".")):
                continue
            said = dict(part.split("=", 1) for part in parts)
            stem = self._stem({key: unquote(text) for key, text in said.items()}, ranges)
            count = taken[stem] = taken.get(stem, 0) + 1
            found.append(Move(staged, stem + (f"-{count}" if count > 1 else "") + self._extension(), size))
        return found

    def _stem(self, said: Mapping[str, str], ranges: Sequence[OffsetRange]) -> str:
        settings = self._settings
        (topic, partition), first, last = ranges[int(said[PLACE])]
        start, end = int(first), int(last)
        if settings.flush_size is not None:
            start += int(said[SLICE]) * settings.flush_size
            end = min(end, start + settings.flush_size)
        folders = [said[f"{FOLDER}{number}"] for number in range(len(said) - 3)]
        width = settings.pad_width
        name = f"{topic}+{partition}+{str(start).zfill(width)}+{str(end - 1).zfill(width)}"
        return "/".join((settings.topics, said[TOPIC], *(_safe(each) for each in folders), name))

    def _extension(self) -> str:
        settings = self._settings
        suffix = SUFFIXES.get(settings.codec, "") if settings.format in WHOLE else ""
        return f".{EXTENSIONS.get(settings.format, settings.format)}{suffix}"


FilesystemSinkConnector.task_class = FilesystemSink


def _safe(folder: str) -> str:
    """Return a folder's name without what would lead elsewhere, escaped as Hive does."""
    escaped = "".join(
        f"%{ord(each):02X}" if each in "/\\%\"'*?:<>|{}[]^#" or ord(each) < 32 else each for each in folder
    )
    return escaped if escaped.strip(".") else "%2E" * len(escaped) or NOTHING


def _present(*, fail: bool) -> str:
    """Return the condition that leaves out records without value, or fails over them."""
    if not fail:
        return "value is not null"
    place = "concat(kafka_topic, '-', kafka_partition, ', offset ', kafka_offset)"
    words = "a record without value (behavior.on.null.values=ignore leaves such out): "
    return f"if(value is null, cast(raise_error(concat({quoted(words)}, {place})) as boolean), true)"


def _table(ranges: Sequence[OffsetRange], numbers: Sequence[int]) -> str:
    """Return an expression that looks a number up by a row's topic and partition."""
    pairs = ", ".join(f"{quoted(str(each.partition))}, {number}L" for each, number in zip(ranges, numbers, strict=True))
    return f"element_at(map({pairs}), concat(kafka_topic, '-', kafka_partition))"


def _place_of(ranges: Sequence[OffsetRange]) -> str:
    return _table(ranges, range(len(ranges)))


def _slice_of(ranges: Sequence[OffsetRange], flush_size: int | None) -> str:
    if flush_size is None:
        return "0L"
    return f"(kafka_offset - {_table(ranges, [each.start for each in ranges])}) div {flush_size}"
