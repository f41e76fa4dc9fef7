"""A query sink's records in Spark's tasks: raw rows of a topic are converted, transformed, and laid out as columns.

What a micro-batch's columns are has to be known before a task begins. The driver knows them from the batches before; a task
that finds more raises `NewColumnsError`, and the driver has the batch looked through once (`found_columns`) and done again.
"""

from __future__ import annotations

import logging
import pickle
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ottla.connect import ConnectError, PluginKind, Plugins, Shape, SinkRecord, chain_of, error_policy
from ottla.spark.connect.executor import plugins_of
from ottla.spark.connect.query_columns import inferred_type, kind_of, layout_of, merged, settled
from ottla.spark.connect.query_dead_letters import DeadLetters, RawRecord

if TYPE_CHECKING:
    from ottla.connect import Stage

__all__ = [
    "COLUMNS_FOUND",
    "NEW_COLUMNS",
    "Conversion",
    "NewColumnsError",
    "converted",
    "fixed_kind",
    "found_columns",
    "grown",
    "row_schema",
]

log = logging.getLogger(__name__)
NEW_COLUMNS = "a record has columns that are not known yet"
"""The text by which the driver knows a `NewColumnsError` in what Spark says of a failed job."""
COLUMNS_FOUND = "topic string, kind binary"
JSON_CONVERTER = "org.apache.kafka.connect.json.JsonConverter"
CREATE_TIME, LOG_APPEND_TIME = "CREATE_TIME", "LOG_APPEND_TIME"
Properties = Mapping[str, str | None]
Kinds = Mapping[str, pa.DataType]


class NewColumnsError(ConnectError):
    """A record that does not fit into the columns that the driver knows."""


@dataclass(frozen=True)
class Conversion:
    """What a task has to know to convert rows; a value that travels by pickle."""

    connector: str
    config: Properties
    """The connector's, placeholders resolved."""

    worker: Properties
    plugin_path: tuple[str, ...]
    archives: tuple[str, ...]
    """The names of what Spark has unpacked for the workers instead; empty where they see `plugin_path` themselves."""

    shape: Shape
    with_keys: bool
    bootstrap: str
    producer: Mapping[str, str]
    """For dead letters."""

    reports: bool = True
    """False where records that fail are reported by another pass over the same rows."""

    def plugins(self) -> Plugins:
        """Return the plugins of the process that the task runs in."""
        path = self.plugin_path
        if self.archives:
            from pyspark import SparkFiles

            path = tuple(SparkFiles.get(name) for name in self.archives)
        return plugins_of(path)

    @property
    def with_headers(self) -> bool:
        """Whether records' headers are needed: by transformations, or to be written with dead letters."""
        return bool(self.config.get("transforms") or self.config.get("errors.deadletterqueue.topic.name"))

    @property
    def tolerance(self) -> error_policy.Tolerance:
        """What is done about records that fail."""
        return error_policy.Tolerance(
            int(self.config.get("errors.retry.timeout") or 0),
            int(self.config.get("errors.retry.delay.max.ms") or 60_000),
            (self.config.get("errors.tolerance") or "none").strip().lower() == "all",
        )


def row_schema(kind: pa.DataType, *, with_keys: bool) -> pa.Schema:
    """Return the columns of a frame whose values are of a type."""
    fields = [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        *([("key", pa.string())] if with_keys else []),
        ("value", kind),
        ("kafka_topic", pa.string()),
        ("kafka_partition", pa.int32()),
        ("kafka_offset", pa.int64()),
    ]
    return pa.schema(fields)


def fixed_kind(shape: Shape) -> pa.DataType | None:
    """Return the type that all values have by the shape that was asked for; None where it is found out."""
    return {Shape.JSON: pa.string(), Shape.BYTES: pa.binary()}.get(shape)


def converted(
    conversion: Conversion, kinds: Kinds, kind: pa.DataType, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield a frame's rows: those of the topics whose columns are of this type. Raises NewColumnsError."""
    rows = _Rows(conversion)
    lay = layout_of(kind)
    fits = _Fits(kinds) if fixed_kind(conversion.shape) is None else None
    schema = row_schema(kind, with_keys=conversion.with_keys)
    for batch in batches:
        chosen = [each for each in rows.records(batch) if fits is None or fits.columns(each) == kind]
        yield _batch(chosen, lay, schema, with_keys=conversion.with_keys)
    rows.finish()


def found_columns(conversion: Conversion, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the kinds of values that a task's rows have, by topic; dead letters are left to the pass that follows."""
    rows = _Rows(replace(conversion, reports=False))
    found: dict[tuple[str, Any], None] = {}
    for batch in batches:
        for each in rows.records(batch):
            found[str(each.topic), _kind(each)] = None
    names = [topic for topic, _ in found]
    kinds = [pickle.dumps(kind) for _, kind in found]
    yield pa.RecordBatch.from_arrays([pa.array(names, pa.string()), pa.array(kinds, pa.binary())], ["topic", "kind"])


def _kind(record: SinkRecord) -> Any:
    return record.value_schema if record.value_schema is not None else kind_of(record.value)


def grown(kinds: Kinds, found: Iterable[tuple[str, bytes]]) -> dict[str, pa.DataType]:
    """Return the columns of topics with what a pass has found; raises DataError for schemas that contradict each other."""
    known = dict(kinds)
    for topic, pickled in found:
        kind = pickle.loads(pickled)
        before = known.get(topic, pa.null())
        known[topic] = merged(before, inferred_type(kind), "", loose=not _is_schema(kind))
    return known


def _is_schema(kind: Any) -> bool:
    return hasattr(kind, "struct_fields")


class _Fits:
    """Knows of each kind of value whether its topic's columns hold it."""

    def __init__(self, kinds: Kinds) -> None:
        self._kinds = kinds
        self._seen: dict[tuple[str, Any], pa.DataType] = {}

    def columns(self, record: SinkRecord) -> pa.DataType:
        """Return the columns of the record's topic; raises NewColumnsError where they do not hold its value."""
        topic = str(record.topic)
        key = (topic, _kind(record))
        kind = self._seen.get(key)
        if kind is not None:
            return kind
        known, found = self._kinds.get(topic), inferred_type(key[1])
        if known is None or merged(known, found, "") != known:
            raise NewColumnsError(f"{NEW_COLUMNS}: topic {topic}, {found}")
        kind = self._seen[key] = settled(known)
        return kind


def _batch(
    records: list[SinkRecord], lay: Callable[[Any], Any], schema: pa.Schema, *, with_keys: bool
) -> pa.RecordBatch:
    columns: list[Any] = [
        [each.topic for each in records],
        [each.partition for each in records],
        pa.array([None if each.timestamp is None else each.timestamp * 1000 for each in records], pa.int64()),
    ]
    if with_keys:
        columns.append([None if each.key is None else str(each.key) for each in records])
    columns += [
        [lay(each.value) for each in records],
        [each.original_topic for each in records],
        [each.original_partition for each in records],
        [each.original_offset for each in records],
    ]
    arrays = [
        column.view(field.type) if isinstance(column, pa.Array) else pa.array(column, field.type)
        for column, field in zip(columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


class _Rows:
    """Makes records of raw rows, with the connector's converters, transformations and tolerance."""

    def __init__(self, conversion: Conversion) -> None:
        plugins = conversion.plugins()
        config = conversion.config
        self._conversion = conversion
        self._value = _converter("value.converter", config, conversion.worker, plugins)
        self._chain: list[Stage] = chain_of(
            config,
            lambda name: plugins.find(PluginKind.TRANSFORMATION, name),
            lambda name: plugins.find(PluginKind.PREDICATE, name),
        )
        needed = bool(self._chain) or conversion.with_keys
        self._key = _converter("key.converter", config, conversion.worker, plugins) if needed else None
        self._header = _header_converter(config, conversion.worker, plugins) if self._chain else None
        self._json: Any = _json_writer(plugins) if conversion.shape is Shape.JSON else None
        self._tolerance = conversion.tolerance
        self._dead_letters = DeadLetters(config, conversion.connector, conversion.bootstrap, conversion.producer)

    def records(self, batch: pa.RecordBatch) -> Iterator[SinkRecord]:
        """Yield what a batch's rows become; those that fail and are tolerated are left out and reported."""
        for raw in _raw_records(batch):
            made = self._made(raw)
            if made is not None:
                yield made

    def finish(self) -> None:
        """Wait until dead letters are written."""
        self._dead_letters.finish()

    def _made(self, raw: RawRecord) -> SinkRecord | None:
        at = error_policy.Processing
        key: Any = (None, None)
        if self._key is not None:
            key = self._tried(raw, at.KEY_CONVERTER, self._key, self._key.to_connect, raw.topic, raw.key)
        value = None if key is None else self._tried(raw, at.VALUE_CONVERTER, self._value, self._read, raw)
        headers: Any = ()
        if self._header is not None and value is not None:
            headers = self._tried(raw, at.HEADER_CONVERTER, self._header, self._headers, raw)
        if value is None or headers is None:
            return None
        record: Any = SinkRecord(
            topic=raw.topic,
            partition=raw.partition,
            key_schema=key[0],
            key=key[1],
            value_schema=value[0],
            value=value[1],
            timestamp=raw.timestamp,
            headers=headers,
            offset=raw.offset,
            timestamp_type=LOG_APPEND_TIME if raw.log_append else CREATE_TIME,
        )
        for stage in self._chain:
            record = self._tried(raw, at.TRANSFORMATION, stage.transformation, stage.apply, record)
            if record is None:
                return None
        if self._json is not None:
            return self._tried(raw, at.TASK_PUT, self._json, self._as_json, record)  # type: ignore[no-any-return]
        return record  # type: ignore[no-any-return]

    def _read(self, raw: RawRecord) -> Any:
        return self._value.to_connect(raw.topic, raw.value)

    def _as_json(self, record: SinkRecord) -> SinkRecord:
        data = (
            None if record.value is None else self._json.from_connect(record.topic, record.value_schema, record.value)
        )
        made: SinkRecord = record.replace(value_schema=None, value=None if data is None else data.decode())
        return made

    def _headers(self, raw: RawRecord) -> tuple[Any, ...]:
        from ottla.connect import Header

        assert self._header is not None
        found = []
        for key, data in raw.headers:
            schema, value = self._header.to_header(raw.topic, key, data)
            found.append(Header(key, value, schema))
        return tuple(found)

    def _tried(
        self, raw: RawRecord, stage: error_policy.Processing, by: Any, work: Callable[..., Any], *arguments: Any
    ) -> Any:
        """Do something to a record as `errors.…` say; None where it failed and that is tolerated."""
        attempt, began = 1, time.time_ns() // 1_000_000
        while True:
            try:
                return work(*arguments)
            except Exception as error:  # a plugin may raise anything
                decision = self._tolerance.decide(
                    error,
                    stage=stage,
                    attempt=attempt,
                    started_ms=began,
                    now_ms=time.time_ns() // 1_000_000,
                    below=random.randrange,
                )
                if isinstance(decision, error_policy.Retry):
                    time.sleep(decision.delay_ms / 1000)
                    attempt += 1
                    continue
                self._report(raw, stage, by, error)
                if isinstance(decision, error_policy.Fail):
                    raise ConnectError(f"{decision.message}: {raw}: {error}") from error
                return None

    def _report(self, raw: RawRecord, stage: error_policy.Processing, by: Any, error: Exception) -> None:
        if not self._conversion.reports:
            return
        executing = getattr(by, "java_name", type(by).__qualname__)
        context = error_policy.ErrorContext(
            self._conversion.connector, 0, stage, executing, error, raw.topic, raw.partition, raw.offset
        )
        self._dead_letters.report(raw, context)


def _raw_records(batch: pa.RecordBatch) -> Iterator[RawRecord]:
    names = batch.schema.names
    given = {name: batch.column(name) for name in names}
    millis = given["timestamp"].cast(pa.timestamp("ms", tz="UTC"), safe=False).cast(pa.int64()).to_pylist()
    absent = [None] * batch.num_rows
    rows = zip(
        given["topic"].to_pylist(),
        given["partition"].to_pylist(),
        given["offset"].to_pylist(),
        millis,
        given["timestampType"].to_pylist(),
        given["key"].to_pylist() if "key" in given else absent,
        given["value"].to_pylist(),
        given["headers"].to_pylist() if "headers" in given else absent,
        strict=True,
    )
    for topic, partition, offset, timestamp, kind, key, value, headers in rows:
        pairs = tuple((each["key"], each["value"]) for each in headers or ())
        moment = None if timestamp is None or timestamp < 0 else timestamp
        yield RawRecord(topic, partition, offset, moment, bool(kind), key, value, pairs)


def _settings(prefix: str, config: Properties, worker: Properties) -> tuple[str, dict[str, str | None]]:
    """Return a converter's class and settings: the connector's where it names one, else the worker's."""
    chosen = config if config.get(prefix) else worker
    name = chosen.get(prefix) or ""
    below = {key[len(prefix) + 1 :]: value for key, value in chosen.items() if key.startswith(prefix + ".")}
    return name.strip(), below


def _converter(prefix: str, config: Properties, worker: Properties, plugins: Plugins) -> Any:
    name, settings = _settings(prefix, config, worker)
    made = plugins.require(PluginKind.CONVERTER, name)()
    made.configure(settings, is_key=prefix.startswith("key"))
    return made


def _header_converter(config: Properties, worker: Properties, plugins: Plugins) -> Any:
    name, settings = _settings("header.converter", config, worker)
    made = plugins.require(PluginKind.HEADER_CONVERTER, name or "SimpleHeaderConverter")()
    made.configure_header({**settings, "converter.type": "header"})
    return made


def _json_writer(plugins: Plugins) -> Any:
    made = plugins.require(PluginKind.CONVERTER, JSON_CONVERTER)()
    made.configure({"schemas.enable": "false", "decimal.format": "NUMERIC"}, is_key=False)
    return made
