"""Columns are a faster way for the same records: both ways give the same records, dead letters, offsets and counts.

Random values, converters, chains of transformations, predicates and error policies, through a task's own loop in memory.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.base import Millis
from ottla.connect import Header, SinkConnector, SinkTask, SourceColumns, SourceConnector, SourceTask, data
from ottla.connect.plugins import discover
from ottla.connect.storage import State, TargetState
from ottla.connect.testing import Life, ModelCluster, World
from ottla.spark import run_on_model
from ottla.wire import Record, iter_records

KAFKA = "org.apache.kafka.connect"
PARTITION = {"of": "rows"}
EXAMPLES = 30
COUNTED = (
    *("source-record-poll-total", "source-record-write-total", "sink-record-read-total", "sink-record-send-total"),
    *("total-record-failures", "total-record-errors", "total-records-skipped", "total-retries", "total-errors-logged"),
    *("deadletterqueue-produce-requests", "deadletterqueue-produce-failures"),
)
CONVERTERS: tuple[dict[str, str], ...] = (
    {"": f"{KAFKA}.storage.StringConverter"},
    {"": f"{KAFKA}.converters.ByteArrayConverter"},
    {"": f"{KAFKA}.json.JsonConverter"},
    {"": f"{KAFKA}.json.JsonConverter", ".schemas.enable": "false"},
)
STAGES: tuple[dict[str, str], ...] = (
    {"type": "HoistField$Value", "field": "line"},
    {"type": "ValueToKey", "fields": "id"},
    {"type": "InsertHeader", "header": "h", "value.literal": "1"},
    {"type": "RegexRouter", "regex": "ro(.*)", "replacement": "else$1"},
    {"type": "Cast$Value", "spec": "int32"},
    {"type": "MaskField$Value", "fields": "line"},
    {"type": "Filter", "predicate": "tombstone"},
    {"type": "Filter", "predicate": "tombstone", "negate": "true"},
    {"type": "Filter", "predicate": "routed"},
    {"type": "HoistField$Value", "field": "kept", "predicate": "routed", "negate": "true"},
)
PREDICATES = {
    "predicates": "tombstone,routed",
    "predicates.tombstone.type": f"{KAFKA}.transforms.predicates.RecordIsTombstone",
    "predicates.routed.type": f"{KAFKA}.transforms.predicates.TopicNameMatches",
    "predicates.routed.pattern": "else.*",
}
TEXTS = st.sampled_from(["", "7", "a", "x" * 3000, "ü\u2028\x00", "2147483648", "null", '"q"', "-0", "nan"])
STRING = b'{"schema":{"type":"string","optional":true},"payload":'
BLOBS = TEXTS.map(str.encode) | st.sampled_from(
    [
        STRING + b'"a"}',
        STRING + b'"b\\u00e9"}',
        STRING + b"7}",
        b"\xff\xfe",
        b"{}",
        b'{"payload":1,"schema":null}',
        b'{"a":1}',
    ]
)


class Given:
    """What the tasks of one example read, and which way."""

    columns = True
    batches: Sequence[pa.Array] = ()
    schema: Any = None
    keys: Sequence[pa.Array] = ()
    key_schema: Any = None
    headers: tuple[Header, ...] = ()
    seen: Any = ()
    life: Life


class RowsTask(SourceTask):
    def start(self, props: Mapping[str, str]) -> None:
        self.next = int(self.context.offset(PARTITION).get("next", 0))

    def poll(self) -> Any:
        if self.next == len(Given.batches):
            Given.life.want(TargetState.STOPPED)
            return None
        values = Given.batches[self.next]
        self.next += 1
        columns = SourceColumns(
            topic="rows",
            values=values,
            schema=Given.schema,
            source_partition=PARTITION,
            source_offset={"next": self.next},
            key_schema=Given.key_schema,
            keys=Given.keys[self.next - 1] if Given.keys else None,
            headers=Given.headers,
        )
        return columns if Given.columns else list(columns.records())


class RowsConnector(SourceConnector):
    task_class = RowsTask
    java_name = "test.Rows"


class PutTask(SinkTask):
    def put(self, records: Any) -> None:
        Given.seen += [
            (
                *(each.topic, each.partition, each.offset, each.key_schema, each.key, each.value_schema, each.value),
                *(each.timestamp, each.timestamp_type, [(h.key, h.value, h.schema) for h in each.headers]),
            )
            for each in records
        ]


class PutColumnsTask(PutTask):
    def put_columns(self, columns: Any) -> None:
        self.put(columns.records())


class PutConnector(SinkConnector):
    task_class = PutTask
    java_name = "test.Put"


class PutColumnsConnector(SinkConnector):
    task_class = PutColumnsTask
    java_name = "test.PutColumns"


PLUGINS = discover(more=[RowsConnector, PutConnector, PutColumnsConnector])


@pytest.fixture(scope="module", autouse=True)
def no_log() -> Iterator[None]:
    """Examples fail by intent, thousands of times."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@st.composite
def configs(draw: Any) -> dict[str, str]:
    """Draw a converter, a chain and an error policy."""
    converter = draw(st.sampled_from(CONVERTERS))
    stages = draw(st.just([]) | st.lists(st.sampled_from(STAGES), max_size=3))
    tolerance = draw(st.sampled_from(["none", "all"]))
    found = {
        "name": "both",
        "tasks.max": "1",
        "errors.tolerance": tolerance,
        "key.converter": f"{KAFKA}.storage.StringConverter",
        **{f"value.converter{key}": value for key, value in converter.items()},
    }
    if draw(st.booleans()):
        found |= {
            "errors.deadletterqueue.topic.name": "letters",
            "errors.deadletterqueue.topic.replication.factor": "1",
        }
    if stages:
        found["transforms"] = ",".join(f"s{number}" for number in range(len(stages)))
        found |= PREDICATES
        for number, stage in enumerate(stages):
            named = {**stage, "type": f"{KAFKA}.transforms.{stage['type']}"}
            found |= {f"transforms.s{number}.{key}": value for key, value in named.items()}
    return found


@st.composite
def records(draw: Any) -> Record:
    """Draw a record of a topic; most have neither key nor headers, so that many blocks go as columns."""
    plain = st.none() | BLOBS
    is_plain = draw(st.integers(0, 3)) > 0
    key = None if is_plain else draw(plain)
    headers = () if is_plain or draw(st.booleans()) else (("h", draw(plain)),)
    return Record(timestamp=Millis(draw(st.sampled_from([0, 7, 1 << 40]))), key=key, value=draw(plain), headers=headers)


def outcome(config: dict[str, str], *, columns: bool, exactly_once: bool, topic: list[list[Record]]) -> Any:
    """Run a task and return everything that can be seen of it."""
    world = World()
    cluster = ModelCluster(world)
    life = Given.life = Life(world)
    Given.columns, Given.seen = columns, []
    if topic:
        cluster.add_topic("rows")
        for part in topic:
            cluster.write_records("rows", part)
        idle = iter(range(20))
        cluster.on_idle = lambda: None if next(idle, 99) < 10 else life.want(TargetState.STOPPED)
    worker = {"offset.flush.interval.ms": "1"}
    state = run_on_model(config, worker=worker, life=life, cluster=cluster, plugins=PLUGINS, exactly_once=exactly_once)
    written = {
        name: [
            (bytes(each.value) if each.value is not None else None, each.key and bytes(each.key), each.headers)
            for place, log in cluster.logs.items()
            if place.topic == name
            for header, batch in log.batches
            if not header.is_control
            for each in iter_records(batch)
        ]
        for name in sorted(cluster.topics)
        if name != "connect-offsets"
    }
    committed = {name: cluster.committed(name) for name in sorted(cluster.topics)}
    trace = life.states[-1][1] or ""
    counts = {name: life.metrics[name] for name in COUNTED if name in life.metrics}
    why = trace.strip().splitlines()[-1] if state is State.FAILED else ""
    if exactly_once and state is State.FAILED:
        written = {}  # what is aborted may have been sent or not
    return state, why, written, committed, world.stored, cluster.groups, Given.seen, counts


@settings(max_examples=EXAMPLES, deadline=None)
@given(
    config=configs(),
    values=st.lists(st.lists(st.none() | TEXTS, min_size=1, max_size=4), min_size=1, max_size=3),
    kind=st.sampled_from([pa.string(), pa.binary()]),
    schema=st.sampled_from([None, data.OPTIONAL_STRING, data.STRING, data.OPTIONAL_BYTES]),
    exactly_once=st.booleans(),
)
def test_a_source_of_columns_is_one_of_rows(
    config: dict[str, str], values: list[list[str | None]], kind: Any, schema: Any, exactly_once: bool
) -> None:
    Given.batches = [pa.array(each, pa.string()).cast(kind) for each in values]
    Given.schema, Given.keys, Given.key_schema, Given.headers = schema, (), None, ()
    config = {**config, "connector.class": "test.Rows"}
    first, second = (outcome(config, columns=way, exactly_once=exactly_once, topic=[]) for way in (True, False))
    assert first == second


ROW = data.SchemaBuilder.struct().name("row").field("id", data.INT64).field("line", data.OPTIONAL_STRING).build()
ROW_TYPE = pa.struct([("id", pa.int64()), ("line", pa.string())])
KEYS: dict[str, tuple[Any, Any]] = {
    "none": (None, None),
    "text": (data.STRING, lambda number: str(number)),
    "struct": (data.SchemaBuilder.struct().field("id", data.INT64).build(), lambda number: {"id": number}),
}


@settings(max_examples=EXAMPLES, deadline=None)
@given(
    config=configs(),
    values=st.lists(st.lists(st.tuples(st.integers(0, 9), st.none() | TEXTS), min_size=1, max_size=30), min_size=1),
    kind=st.sampled_from(sorted(KEYS)),
    key_converter=st.sampled_from([f"{KAFKA}.storage.StringConverter", f"{KAFKA}.json.JsonConverter"]),
    partitions=st.integers(1, 4),
    has_headers=st.booleans(),
    exactly_once=st.booleans(),
)
def test_rows_with_keys_and_headers_go_where_single_records_do(
    config: dict[str, str],
    values: list[list[tuple[int, str | None]]],
    kind: str,
    key_converter: str,
    partitions: int,
    has_headers: bool,
    exactly_once: bool,
) -> None:
    schema, key_of = KEYS[kind]
    Given.batches = [pa.array([{"id": number, "line": line} for number, line in each], ROW_TYPE) for each in values]
    Given.schema, Given.key_schema = ROW, schema
    Given.keys = () if key_of is None else [pa.array([key_of(number) for number, _ in each]) for each in values]
    Given.headers = (Header("h", "x", data.STRING), Header("n", 1, data.INT32)) if has_headers else ()
    made = {"topic.creation.default.partitions": str(partitions), "topic.creation.default.replication.factor": "1"}
    config = {**config, **made, "connector.class": "test.Rows", "key.converter": key_converter}
    if kind == "none" and partitions > 1:  # without keys rows of a column go to one partition
        return
    first, second = (outcome(config, columns=way, exactly_once=exactly_once, topic=[]) for way in (True, False))
    assert first == second


@settings(max_examples=EXAMPLES, deadline=None)
@given(config=configs(), values=st.lists(st.lists(records(), min_size=1, max_size=4), min_size=1, max_size=3))
def test_a_sink_of_columns_is_one_of_rows(config: dict[str, str], values: list[list[Record]]) -> None:
    config = {**config, "topics": "rows"}
    first, second = (
        outcome({**config, "connector.class": name}, columns=True, exactly_once=False, topic=values)
        for name in ("test.PutColumns", "test.Put")
    )
    assert first == second
