"""Values at the edges on a real PostgreSQL: snapshots, runs and chunks tell what the table has, or say why not."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import pytest

from ottla.connect import SourceRecord
from ottla.connectors.cdc import chunks, replication, scan
from ottla.connectors.cdc.catalog import Catalog
from ottla.connectors.cdc.chunks import Chunks
from tests.connectors.cdc.replay import as_facts, begun, read_until_quiet, run_sql
from tests.connectors.cdc.test_signals import SIGNALS, begun_with_signals, rows, signal
from tests.connectors.contexts import SourceContext, polled
from tests.waiting import until
from tools.postgres import PostgresServer

pytestmark = pytest.mark.timeout(180)
RUN = 40
"""Rows that a poll makes in columns."""


def told(server: PostgresServer, database: str, create: str, insert: str, **settings: str) -> list[Any]:
    """The column `v` of rows that a snapshot has read, and of a run of the stream, which are the same."""
    run_sql(server, database, f"create table t (id serial primary key, v {create})")
    run_sql(server, database, insert)
    task = begun(server, database, None, **{"topic.prefix": f"values_{database}", **settings})
    found = [each.value["after"]["v"] for each in read_until_quiet(task, None, 0.2)]
    run_sql(server, database, insert)
    streamed = [each.value["after"]["v"] for each in read_until_quiet(task, None, 0.3)]
    task.stop()
    assert streamed == found
    return found


@pytest.mark.parametrize("number", [340282366920938463463374607431768211455, -(10**78 - 1), 10**38, 10**38 - 1])
def test_a_number_of_more_digits_than_arrow_has_is_told_as_it_is(
    server: PostgresServer, database: str, number: int
) -> None:
    insert = f"insert into t (v) select {number} from generate_series(1, {RUN})"
    assert told(server, database, "numeric(78,0)", insert) == [Decimal(number)] * RUN


def test_texts_keep_a_byte_order_mark_at_their_beginning(server: PostgresServer, database: str) -> None:
    made = "U&'\\FEFF' || case when g % 2 = 0 then '' else 'x' end"
    insert = f"insert into t (v) select {made} from generate_series(1, {RUN}) g"
    run_sql(server, database, f"create table t (v text); alter table t replica identity full; {insert}")
    task = begun(server, database, None, **{"topic.prefix": f"bom_{database}", "snapshot.fetch.size": "1"})
    found = [each.value["after"]["v"] for each in read_until_quiet(task, None, 0.2)]
    task.stop()
    assert found == ["\ufeffx", "\ufeff"] * (RUN // 2)


def test_elements_of_texts_keep_white_space_that_is_not_ascii(server: PostgresServer, database: str) -> None:
    element = ["\u00a0", "\u2003x\u2003", "\x1c", "\x1cy", "\x85", " plain ", "", "NULL", "\ufeff", "a b"]
    listed = ", ".join("U&'" + "".join(f"\\{ord(each):04x}" for each in text) + "'" for text in element)
    found = told(server, database, "text[]", f"insert into t (v) select array[{listed}] from generate_series(1, {RUN})")
    assert found == [element] * RUN


def test_arrays_of_boxes_and_vectors_of_numbers_are_told(server: PostgresServer, database: str) -> None:
    run_sql(
        server,
        database,
        "create table t (id int primary key, b box[], o oidvector, i int2vector, p point[], l lseg[]); "
        "insert into t values (1, array[box '(3,4),(1,2)', box '(1,1),(0,0)'], '16 17', '1 -2', "
        "array[point '(1,2)', null], array[lseg '[(0,0),(1,1)]'])",
    )
    task = begun(server, database, None, **{"topic.prefix": f"boxes_{database}"})
    records = read_until_quiet(task, None, 0.2)
    run_sql(server, database, "update t set id = 2")
    records += [each for each in read_until_quiet(task, None, 0.3) if each.value is not None]
    task.stop()
    for each in (records[0].value["after"], records[-1].value["after"]):
        assert [box["extensions"] for box in each["b"]] == [{"type": "box"}] * 2
        assert (each["o"], each["i"], len(each["p"]), len(each["l"])) == ([16, 17], [1, -2], 2, 1)


@pytest.mark.parametrize(("mode", "text"), [("adaptive", "294276-12-31 23:59:59"), ("nanoseconds", "2300-01-01")])
def test_a_timestamp_beyond_64_bits_is_refused_by_name_and_is_no_infinity(
    server: PostgresServer, database: str, mode: str, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    run_sql(server, database, f"create table t (id int primary key, v timestamp); insert into t values (1, '{text}')")
    settings = {"topic.prefix": f"far_{database}", "time.precision.mode": mode}
    task = begun(server, database, None, **settings)
    assert read_until_quiet(task, None, 0.2) == []
    task.stop()
    assert re.search(r"Column public.t.v cannot be written: .* is beyond 64 bits .*isostring", caplog.text)
    task = begun(server, database, None, **{**settings, "time.precision.mode": "isostring"})
    [record] = read_until_quiet(task, None, 0.2)
    assert record.value["after"]["v"].lstrip("+").startswith(text[:4])
    task.stop()


@pytest.mark.parametrize("full", [False, True])
def test_a_large_key_that_was_not_changed_is_the_key_of_its_update(
    server: PostgresServer, database: str, full: bool
) -> None:
    run_sql(
        server,
        database,
        "create table t (k text primary key, v int); alter table t alter column k set storage external; "
        f"alter table t replica identity {'full' if full else 'default'}; insert into t values (repeat('k', 2500), 1)",
    )
    task = begun(server, database, None, **{"topic.prefix": f"toast_{database}"})
    records = read_until_quiet(task, None, 0.2)
    run_sql(server, database, "update t set v = 2; update t set k = k || 'x'; update t set v = 3; delete from t")
    records += read_until_quiet(task, None, 0.3)
    task.stop()
    key = "k" * 2500
    assert [(None if each.value is None else each.value["op"], each.key["k"]) for each in records] == [
        ("r", key),
        ("u", key),
        ("d", key),
        (None, key),
        ("c", key + "x"),
        ("u", key + "x"),
        ("d", key + "x"),
        (None, key + "x"),
    ]
    assert records[1].value["after"]["k"] == key


def test_a_key_that_was_not_sent_refuses_its_table_and_is_no_placeholder(
    server: PostgresServer, database: str, caplog: pytest.LogCaptureFixture
) -> None:
    run_sql(
        server,
        database,
        "create table t (id int primary key, k text); alter table t alter column k set storage external; "
        "insert into t values (1, repeat('k', 2500))",
    )
    settings = {"topic.prefix": f"unsent_{database}", "message.key.columns": "public.t:k"}
    task = begun(server, database, None, **settings)
    assert len(read_until_quiet(task, None, 0.2)) == 1
    run_sql(server, database, "update t set id = 1")
    assert read_until_quiet(task, None, 0.3) == []
    task.stop()
    words = r"Table public.t is refused.*key of a row of public.t is not known: column k .*REPLICA IDENTITY FULL"
    assert re.search(words, caplog.text)


# -- incremental snapshots

KEYS = {
    "numeric": "g + 0.50",
    "numeric(60,2)": "g + 10::numeric ^ 50",
    "float8": "g / 8.0::float8",
    "float4": "g / 8.0::float4",
    "bytea": "decode(lpad(to_hex(g), 8, '0'), 'hex')",
    "timestamptz": "'2026-11-30'::timestamptz + g * interval '1 ms'",
    "timestamp": "'2026-11-30'::timestamp + g * interval '1 ms'",
    "date": "'2026-11-30'::date + g",
    "time": "'00:00'::time + g * interval '1 s'",
    "timetz": "'00:00+02'::timetz + g * interval '1 s'",
    "interval": "g * interval '1 day'",
    "uuid": "lpad(to_hex(g), 32, '0')::uuid",
    "text": "'k' || g",
    "char(5)": "'k' || g",
    "inet": "'10.0.0.0'::inet + g",
    "money": "g::money",
    "bit(8)": "g::bit(8)",
    "int[]": "array[g, g]",
    "numeric[]": "array[g + 0.5]",
    "jsonb": "jsonb_build_object('k', g)",
    "int8range": "int8range(g, g + 1)",
}


@pytest.mark.parametrize("type_", KEYS)
def test_one_change_beside_a_chunk_leaves_the_others_rows_of_any_type_of_key(
    server: PostgresServer, database: str, monkeypatch: pytest.MonkeyPatch, type_: str
) -> None:
    run_sql(
        server,
        database,
        f"{SIGNALS}; create table later (k {type_} primary key, v int); "
        f"insert into later select {KEYS[type_]}, g from generate_series(1, 20) g",
    )
    task = begun_with_signals(server, database, **{"incremental.snapshot.chunk.size": "100"})
    mark = Chunks.mark

    def marked(chunks: Chunks, id_: str, type_: str, data: Any) -> None:
        if type_ == "snapshot-window-close":
            run_sql(server, database, "update later set v = -1 where v = 7")
        mark(chunks, id_, type_, data)

    monkeypatch.setattr(Chunks, "mark", marked)
    signal(server, database, "execute-snapshot", data_collections=["public.later"])
    found = read_until_quiet(task, None, 0.4)
    task.stop()
    assert sorted(row[1] for row in final(found)) == sorted([-1, *(g for g in range(1, 21) if g != 7)])
    assert sorted(row[1] for op, _, row in rows(found) if op == "r") == [g for g in range(1, 21) if g != 7]


def final(records: list[SourceRecord]) -> list[Any]:
    """The rows that a reader of the topic has at the end."""
    found: dict[str, Any] = {}
    for each in as_facts([each for each in records if (each.topic or "").endswith(".later")]).popitem()[1]:
        if each["value"] is None or each["value"]["after"] is None:
            found.pop(str(each["key"]), None)
        else:
            found[str(each["key"])] = list(each["value"]["after"].values())
    return [*found.values()]


# -- memory


@pytest.mark.parametrize("in_columns", [True, False])
def test_large_rows_are_read_by_their_bytes_and_not_by_their_number(
    server: PostgresServer, database: str, in_columns: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SourceContext, "takes_columns", in_columns)
    size = 1 << 20
    run_sql(
        server,
        database,
        f"create table t (id int primary key, v text); insert into t select g, repeat('x', {size}) "
        "from generate_series(1, 24) g",
    )
    task = begun(server, database, None, **{"topic.prefix": f"large_{database}"})
    lines: list[int] = []
    copied = Catalog.copied

    def watched(catalog: Catalog, query: str, rows_max: int) -> Any:
        for each in copied(catalog, query, rows_max):
            lines.append(sum(map(len, each)))
            yield each

    monkeypatch.setattr(Catalog, "copied", watched)
    found = read_until_quiet(task, None, 0.3)
    assert len(found) == 24 and len(lines) >= 5 and max(lines) < 6 * size
    run_sql(server, database, "insert into t select id + 100, v from t")
    count = replication.READ_BYTES_MAX // size
    first: list[SourceRecord] = []
    until(lambda: first or first.extend(polled(task)), "a poll", every=0)
    assert 1 <= len(first) <= count + 1
    first += read_until_quiet(task, None, 0.3)
    assert len(first) == 24
    task.stop()


@pytest.mark.parametrize("surrogate", ["", "s"])
def test_large_rows_are_read_in_smaller_chunks_and_none_is_left_out(
    server: PostgresServer, database: str, surrogate: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    size, count = 100_000, 40
    run_sql(
        server,
        database,
        f"{SIGNALS}; create table later (id int primary key, s int, v text); insert into later "
        f"select g, case when g <= 12 then 1 else g / 2 end, repeat('x', {size}) from generate_series(1, {count}) g",
    )
    monkeypatch.setattr(chunks, "CHUNK_BYTES_MAX", 8 * size)
    task = begun_with_signals(server, database, **{"incremental.snapshot.chunk.size": "1000"})
    lengths: list[int] = []
    read = Chunks.read

    def watched(given: Chunks, *args: Any) -> Any:
        found = read(given, *args)
        lengths.append(len(found.rows))
        return found

    monkeypatch.setattr(Chunks, "read", watched)
    more = {"surrogate-key": surrogate} if surrogate else {}
    signal(server, database, "execute-snapshot", **{"data-collections": ["public.later"], **more})
    found: list[SourceRecord] = []
    until(lambda: found.extend(polled(task)) or len(rows(found)) >= count, "all rows", every=0)
    task.stop()
    assert sorted(row[0] for _, _, row in rows(found)) == [*range(1, count + 1)]
    assert len(lengths) >= 3
    if not surrogate:
        assert max(lengths) <= 15


def test_a_poll_of_large_rows_of_a_snapshot_takes_them_by_their_bytes(
    server: PostgresServer, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SourceContext, "takes_columns", False)
    monkeypatch.setattr(scan, "TAKEN_BYTES_MAX", 1 << 20)
    run_sql(server, database, "create table t (id int primary key, v text)")
    run_sql(server, database, "insert into t select g, repeat('x', 1 << 18) from generate_series(1, 20) g")
    task = begun(server, database, None, **{"topic.prefix": f"poll_{database}"})
    polls = [len(polled(task)) for _ in range(5)]
    task.stop()
    assert polls == [4] * 5
