"""The S3 source: objects back into topics, those of the sink or any others, each record once where the worker is so set.

For each object the place behind its last record is stored, so that a task goes on inside an object, and new objects are
found whenever the bucket is listed.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import chain, islice
from typing import IO, Any

from ottla.base import ConfigError
from ottla.config import ConfigType
from ottla.connect import (
    REQUIRED,
    ConfigDef,
    ConfigValue,
    ConnectError,
    DataError,
    Header,
    Importance,
    RetriableError,
    Schema,
    SourceColumns,
    SourceConnector,
    SourceRecord,
    SourceState,
    SourceTask,
    data,
    validators,
)
from ottla.connectors.s3.client import client_keys, made_client
from ottla.connectors.s3.objects import Layout, Prefix, ReadObject, SinkLayout, listed, mine, settled
from ottla.connectors.s3.readers import GoneError, fetched, pieces, separator_of, values_of
from ottla.connectors.s3.sink import checked_together
from ottla.connectors.storage import Key, Part, define, file_format, format_name, format_rule, names_of
from ottla.java import PatternError, compile_java

__all__ = ["S3SourceConnector", "S3SourceTask"]

log = logging.getLogger(__name__)

TASK, TASKS = "s3.source.task", "s3.source.tasks"
WAIT_SECONDS_MAX = 0.5
ROWS_MAX = 8192
"""How many lines are handed over at once."""

HIGH, MEDIUM, LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
AVRO = "io.confluent.connect.s3.format.avro.AvroFormat"


def _topics(name: str, value: Any) -> None:
    for each in value or ():
        topic, found, pattern = str(each).partition(":")
        try:
            compile_java(pattern)
        except PatternError as error:
            raise ConfigError(name, each, f"no regular expression stands behind the topic: {error}") from error
        if not (topic and found):
            raise ConfigError(
                name, each, "expected topic:expression pairs with commas between them, such as logs:\\.log$"
            )


_KEYS = (
    Key("format.class", ConfigType.CLASS, REQUIRED, HIGH, "The format of the objects.", format_rule),
    Key(
        "mode",
        ConfigType.STRING,
        "RESTORE_BACKUP",
        HIGH,
        "RESTORE_BACKUP for objects that the sink has written, whose names say topic and partition; GENERIC for any.",
        validators.ValidString("RESTORE_BACKUP", "GENERIC"),
    ),
    Key("topics.dir", ConfigType.STRING, "topics", MEDIUM, "The directory, or prefix, that objects are looked for in."),
    Key(
        "topic.regex.list",
        ConfigType.LIST,
        [],
        MEDIUM,
        "In mode GENERIC, topic:expression pairs: the first whose expression finds itself in an object's name takes it.",
        validators.Lambda(_topics, "topic:expression pairs"),
    ),
    Key("directory.delim", ConfigType.STRING, "/", LOW, "What stands between directories in names."),
    Key("file.delim", ConfigType.STRING, "+", LOW, "What stands between topic, partition and offset in names."),
    Key(
        "s3.poll.interval.ms",
        ConfigType.LONG,
        60_000,
        MEDIUM,
        "How often the bucket is listed for new objects.",
        validators.Range(1, (1 << 63) - 1),
    ),
    Key(
        "s3.settle.ms",
        ConfigType.LONG,
        2_000,
        LOW,
        "How old an object is before it is read, so that none is read before an earlier one that is still being stored.",
        validators.Range(0, (1 << 31) - 1),
    ),
    Key(
        "record.batch.max.size",
        ConfigType.INT,
        2_000,
        LOW,
        "How many records are handed over at once.",
        validators.Range(1, (1 << 31) - 1),
    ),
    Key("keep.partitions", ConfigType.BOOLEAN, True, LOW, "Whether records go to the partition that the name says."),
    Key("store.kafka.keys", ConfigType.BOOLEAN, False, LOW, "Whether the sink has written keys, which are read then."),
    Key("keys.format.class", ConfigType.CLASS, AVRO, LOW, "The format of objects of keys.", format_rule),
    Key("store.kafka.headers", ConfigType.BOOLEAN, False, LOW, "Whether the sink has written headers."),
    Key("headers.format.class", ConfigType.CLASS, AVRO, LOW, "The format of objects of headers.", format_rule),
    Key("tombstone.encoded.partition", ConfigType.STRING, "tombstone", LOW, "The directory of keys without a value."),
    Key("format.bytearray.separator", ConfigType.STRING, None, LOW, "What stands behind each record of bytes or text."),
    Key(
        "connect.meta.data",
        ConfigType.BOOLEAN,
        True,
        LOW,
        "Whether what Avro schemas say of Connect's (names, versions, parameters) is taken up.",
    ),
    Key(
        "enhanced.avro.schema.support",
        ConfigType.BOOLEAN,
        False,
        LOW,
        "Whether the fields of a union's struct have their types' full names.",
    ),
    Key(
        "behavior.on.error",
        ConfigType.STRING,
        "fail",
        MEDIUM,
        "What is done with an object that is not of its format: fail, or log and go on with the next.",
        validators.CaseInsensitiveValidString("fail", "ignore", "log"),
    ),
)


def _definition() -> ConfigDef:
    found = ConfigDef()
    define(found, "Source", _KEYS)
    return client_keys(found)


def _layout(settings: Mapping[str, Any]) -> Layout:
    """Return how objects are told apart; raises ConfigError, and ConnectError for a library that is missing."""
    for key, wanted in (("format.class", True), ("keys.format.class", settings["store.kafka.keys"])):
        if wanted:
            file_format(settings[key], {})
    keys, headers = settings["store.kafka.keys"], settings["store.kafka.headers"]
    if settings["mode"] == "RESTORE_BACKUP":
        tombstones = settings["tombstone.encoded.partition"]
        return SinkLayout(names_of(settings), keys=keys, headers=headers, tombstones=tombstones)
    if keys or headers:
        wrong = "store.kafka.keys" if keys else "store.kafka.headers"
        raise ConfigError(wrong, True, "keys and headers are read in mode RESTORE_BACKUP only")
    if not settings["topic.regex.list"]:
        raise ConfigError("topic.regex.list", "", "mode GENERIC needs topic:expression pairs, such as logs:.*")
    pairs = [each.partition(":")[::2] for each in settings["topic.regex.list"]]
    delimiter = settings["directory.delim"]
    prefix = settings["topics.dir"].strip(delimiter)
    return Prefix(
        prefix + delimiter if prefix else "", [(topic, compile_java(text)) for topic, text in pairs], delimiter
    )


Row = tuple[tuple[Schema | None, Any], tuple[Schema | None, Any], tuple[Header, ...]]
"""Key, value and headers of a record."""


class S3SourceTask(SourceTask):
    """Reads the objects whose groups are this task's."""

    def start(self, props: Mapping[str, str]) -> None:
        """Begin; raises ConfigError."""
        self.props = dict(props)
        self._settings = settings = S3SourceConnector.config_def.parse(props)
        self._task, self._tasks = int(props.get(TASK, 0)), int(props.get(TASKS, 1))
        self._layout = _layout(settings)
        self._client = made_client(settings)
        self._bucket: str = settings["s3.bucket.name"]
        self._stopping = threading.Event()
        self._done: set[str] = set()
        self._waiting: deque[ReadObject] = deque()
        self._next_listing = 0.0
        self._batches: Iterator[list[SourceRecord] | SourceColumns] = iter(())
        self._files: list[IO[bytes]] = []
        self._current: ReadObject | None = None
        self._trouble: str | None = None

    def stop(self) -> None:
        """End; `poll` returns soon."""
        self._stopping.set()

    def poll(self) -> Any:
        """Return the next records, None where there are none now."""
        try:
            while not self._stopping.is_set():
                batch = next(self._batches, None)
                if batch is not None:
                    self._trouble = None
                    return batch
                if not self._begin_object():
                    return None
        except RetriableError as error:
            log.warning("%s; trying again", error)
            self._trouble = str(error)
            self._batches = iter(())
            if self._current is not None:  # an object is fetched before its first record, so that none was handed over
                self._waiting.appendleft(self._current)
            self._stopping.wait(WAIT_SECONDS_MAX)
        return None

    def source_state(self) -> SourceState:
        """Return which object is read, how many are listed and to be read, and why one cannot be."""
        current = self._current
        facts = {"object": None if current is None else current.name, "objects_waiting": len(self._waiting)}
        return SourceState(facts, waiting=len(self._waiting), trouble=self._trouble, moved=facts)

    def _begin_object(self) -> bool:
        """Turn to the next object; False where none is there now, after a little while."""
        for file in self._files:
            file.close()
        self._files, self._current = [], None
        if not self._waiting and not self._list():
            return False
        each = self._current = self._waiting.popleft()
        offset = self.context.offset(self._source_partition(each))
        if offset.get("done"):
            self._done.add(each.name)
        else:
            self._batches = self._read(each, int(offset.get("record", 0)))
        return True

    def _list(self) -> bool:
        wait = self._next_listing - time.monotonic()
        if wait > 0:
            self._stopping.wait(min(wait, WAIT_SECONDS_MAX))
            return False
        arranged = self._layout.arranged(listed(self._client, self._bucket, self._layout.prefix))
        own = mine(arranged, self._task, self._tasks)
        settle_ms = self._settings["s3.settle.ms"]
        ready = settled(own, timedelta(milliseconds=settle_ms), self._done.__contains__)
        self._waiting.extend(each for each in ready if each.name not in self._done)
        pause_ms = self._settings["s3.poll.interval.ms"]
        if len(ready) < len(own):
            pause_ms = min(pause_ms, settle_ms)
        self._next_listing = time.monotonic() + pause_ms / 1000
        if self._current is None:
            self._trouble = None
        return bool(self._waiting)

    def _source_partition(self, each: ReadObject) -> dict[str, Any]:
        return {"bucket": self._bucket, "key": each.name}

    def _read(self, each: ReadObject, begin: int) -> Iterator[list[SourceRecord] | SourceColumns]:
        """Yield an object's records from a place on; marks it as read behind them."""
        try:
            yield from self._lines(each, begin) if self._is_lines(each) else self._records(each, begin)
        except GoneError as error:
            log.warning("%s; it was deleted since it was listed, and is left out", error)
            return
        except DataError as error:
            text = f"s3://{self._bucket}/{each.name} cannot be read as {self._settings['format.class']}: {error}"
            if self._settings["behavior.on.error"].lower() == "fail":
                raise ConnectError(text) from error
            log.error("%s; it is left out", text)
        self._done.add(each.name)

    def _is_lines(self, each: ReadObject) -> bool:
        return format_name(self._settings["format.class"]) in ("String", "ByteArray") and list(each.keys) == [
            Part.VALUE
        ]

    def _open(self, key: str) -> IO[bytes]:
        file = fetched(self._client, self._bucket, key)
        self._files.append(file)
        return file

    def _partition(self, each: ReadObject) -> int | None:
        return each.partition if self._settings["keep.partitions"] else None

    def _lines(self, each: ReadObject, begin: int) -> Iterator[SourceColumns]:
        """Yield lines as columns, in the same portions whenever they are read."""
        import pyarrow as pa

        text = format_name(self._settings["format.class"]) == "String"
        portions = pieces(self._open(each.name), separator_of(self._settings))
        count = 0
        for portion, last in _with_last(_cut(portions, ROWS_MAX)):
            first, count = count, count + len(portion)
            if count <= begin:
                continue
            values = pa.array(portion[max(0, begin - first) :], pa.binary())
            try:
                values = values.cast(pa.string()) if text else values
            except pa.ArrowInvalid as error:
                raise DataError(f"This is no UTF-8 text: {error}") from error
            yield SourceColumns(
                topic=each.topic,
                values=values,
                schema=data.STRING if text else data.BYTES,
                source_partition=self._source_partition(each),
                source_offset=_offset(count, done=last),
                partition=self._partition(each),
            )

    def _records(self, each: ReadObject, begin: int) -> Iterator[list[SourceRecord]]:
        partition = self._source_partition(each)
        rows = enumerate(_with_last(self._rows(each, begin)), begin + 1)
        while batch := list(islice(rows, self._settings["record.batch.max.size"])):
            yield [
                SourceRecord(
                    topic=each.topic,
                    partition=self._partition(each),
                    key_schema=key[0],
                    key=key[1],
                    value_schema=value[0],
                    value=value[1],
                    headers=headers,
                    source_partition=partition,
                    source_offset=_offset(number, done=last),
                )
                for number, ((key, value, headers), last) in batch
            ]

    def _rows(self, each: ReadObject, begin: int) -> Iterator[Row]:
        """Yield key, value and headers from a place on; raises DataError where the objects' numbers of records differ."""
        settings = self._settings
        nothing = (None, None)
        columns: list[Iterator[tuple[Schema | None, Any]]] = []
        for part, form in ((Part.KEYS, "keys."), (Part.VALUE, ""), (Part.HEADERS, "headers.")):
            key = each.keys.get(part)
            if key is not None:
                columns.append(values_of(self._open(key), settings[f"{form}format.class"], settings, begin=begin))
        for row in _in_step(columns):
            found = iter(row)
            key_of = next(found) if Part.KEYS in each.keys else nothing
            value_of = next(found) if Part.VALUE in each.keys else nothing
            headers = _headers(next(found)[1]) if Part.HEADERS in each.keys else ()
            yield key_of, value_of, headers


def _offset(record: int, *, done: bool) -> dict[str, Any]:
    return {"record": record, "done": True} if done else {"record": record}


def _in_step(columns: Sequence[Iterator[Any]]) -> Iterator[tuple[Any, ...]]:
    try:
        yield from zip(*columns, strict=True)
    except ValueError as error:
        raise DataError("the objects of values, keys and headers have different numbers of records") from error


def _headers(value: Any) -> tuple[Header, ...]:
    """Return headers from a list of structs or of maps, their values read from text."""
    return tuple(_header(each["key"], each["value"]) for each in value or ())


def _header(key: str, text: str | None) -> Header:
    found = data.parse_value(text)
    return Header(key, found.value, found.schema)


def _with_last(items: Iterable[Any]) -> Iterator[tuple[Any, bool]]:
    """Yield each item with whether it is the last."""
    rest = iter(items)
    try:
        held = next(rest)
    except StopIteration:
        return
    for each in rest:
        yield held, False
        held = each
    yield held, True


def _cut(portions: Iterator[list[bytes]], size: int) -> Iterator[list[bytes]]:
    """Yield the same lines in lists of `size`."""
    lines = chain.from_iterable(portions)
    while found := list(islice(lines, size)):
        yield found


class S3SourceConnector(SourceConnector):
    """Reads objects of a bucket into topics: JSON, Avro, Parquet, bytes or lines of text."""

    java_name = "io.confluent.connect.s3.source.S3SourceConnector"
    aliases = ("S3Source",)
    version = "1.0"
    config_def = _definition()
    task_class = S3SourceTask

    def validate(self, props: Mapping[str, str | None]) -> dict[str, ConfigValue]:
        """Return what is wrong with a configuration, keys that need one another and missing libraries included."""
        return checked_together(self.config_def, props, _layout)

    def task_configs(self, tasks_max: int) -> Sequence[Mapping[str, str]]:
        """Return one configuration for each task: groups of objects are divided among them by a hash."""
        return [{**self.props, TASK: str(task), TASKS: str(tasks_max)} for task in range(tasks_max)]

    def exactly_once_support(self, props: Mapping[str, str]) -> bool | None:
        """Return True: each record says where reading goes on behind it."""
        return True

    def alter_offsets(
        self, props: Mapping[str, str], offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any] | None]]
    ) -> bool:
        """Check offsets that an operator wants stored: how many records of an object are read; raises ConnectError."""
        for partition, offset in offsets:
            if set(partition) != {"bucket", "key"}:
                raise ConnectError(f"A partition of the S3 source has the keys bucket and key, not {sorted(partition)}")
            record = None if offset is None else offset.get("record")
            if offset is not None and (not isinstance(record, int) or record < 0):
                raise ConnectError(f"An offset of the S3 source has the key record, a number of records, not {offset}")
        return True
