"""Records equal those that Debezium 3.7.0 writes at the same time for the same SQL, which was not recorded before."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests import peer
from tests.connectors.cdc.replay import as_facts, begun, connected, logical_server, masked, read_until_quiet, run_sql
from tests.peer import debezium
from tests.peer.connect.worker import running_worker
from tests.ports import free_port
from tests.waiting import until
from tools.postgres import PASSWORD, USER, PostgresServer
from tools.postgres import missing as no_postgres

pytestmark = [pytest.mark.peer, pytest.mark.slow, pytest.mark.timeout(400)]
SQL = Path(__file__).with_name("debezium_sql")
CASES: dict[str, dict[str, str]] = {
    "plain": {},
    "odd": {
        "decimal.handling.mode": "double",
        "time.precision.mode": "microseconds",
        "hstore.handling.mode": "map",
        "interval.handling.mode": "string",
        "binary.handling.mode": "hex",
        "include.unknown.datatypes": "true",
        "provide.transaction.metadata": "true",
        "skipped.operations": "none",
        "message.key.columns": "own.nokey:a;own.types_(texts|times):id",
        "unavailable.value.placeholder": "gone",
    },
    "iso": {
        "decimal.handling.mode": "string",
        "time.precision.mode": "isostring",
        "binary.handling.mode": "base64-url-safe",
        "schema.name.adjustment.mode": "avro",
        "field.name.adjustment.mode": "avro",
        "tombstones.on.delete": "false",
        "column.exclude.list": "own\\\\.types_texts\\\\.ci",
        "snapshot.mode": "no_data",
        "extended.headers.enabled": "false",
    },
    "nano": {
        "time.precision.mode": "nanoseconds",
        "money.fraction.digits": "3",
        "publish.via.partition.root": "true",
        "skipped.operations": "d",
    },
    "source": {"column.propagate.source.type": ".*", "interval.handling.mode": "string"},
    "few": {
        "datatype.propagate.source.type": ".+\\\\.(VARCHAR|numeric|_int4|color)",
        "skipped.operations": "u,t",
        "snapshot.mode": "no_data",
        "tombstones.on.delete": "false",
    },
}
SLIPS = (
    r"own\.wide \d+\.value\.after\.b: .* null",  # bytes as base64 that were not sent become null, another value
    r"parameters: .*NUMERIC.*source.column.length\": \"0\"",  # a numeric without a length, in the snapshot alone
    r"own\.changing.*source\.column\.type: \"INT4\" != \"INT8\"",  # a type of later, when the catalogue was asked
)
"""What Debezium does and we do not, or does at one time and not at another."""


@dataclass
class Beside:
    """A server, and Debezium in Kafka Connect beside it."""

    server: PostgresServer
    bootstrap: str
    rest: int
    folder: Path

    def settings(self, name: str, database: str, **more: str) -> dict[str, str]:
        return {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "tasks.max": "1",
            "database.hostname": "127.0.0.1",
            "database.port": str(self.server.port),
            "database.user": USER,
            "database.password": PASSWORD,
            "database.dbname": database,
            "plugin.name": "pgoutput",
            "topic.prefix": name,
            "slot.name": f"theirs_{name}",
            "publication.name": f"theirs_{name}",
            "poll.interval.ms": "50",
            **more,
        }

    def is_active(self, slot: str) -> bool:
        with connected(self.server, "postgres") as connection:
            query = "select active from pg_replication_slots where slot_name = %s"
            return bool((connection.execute(query, (slot,)).fetchone() or [False])[0])

    def words(self) -> str:
        return (self.folder / "worker.out").read_text(errors="replace")[-3000:]


@contextmanager
def beside(folder: Path) -> Iterator[Beside]:
    for reason in (debezium.missing(), no_postgres()):
        if reason is not None:
            pytest.skip(reason)
    port, rest = free_port(), free_port()
    lines = [f"plugin.path={debezium.plugins()}"]
    with (
        logical_server() as server,
        peer.running_broker(folder / "kafka", port),
        running_worker("standalone", folder, f"127.0.0.1:{port}", rest, properties=lines),
    ):
        yield Beside(server, f"127.0.0.1:{port}", rest, folder)


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    with beside(tmp_path_factory.mktemp("debezium")) as found:
        yield found


def read_topics(bootstrap: str, prefix: str, counts: dict[str, int]) -> dict[str, list[dict[str, Any]]]:
    """Return what stands in the topics that begin with a prefix, in the form of `as_facts`: so many records or more each."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "auto.offset.reset": "earliest"})
    found: dict[str, list[dict[str, Any]]] = {}

    def ends() -> dict[str, int]:
        names = [each for each in consumer.list_topics(timeout=30).topics if each.startswith(prefix)]
        return {each: consumer.get_watermark_offsets(TopicPartition(each, 0), timeout=30)[1] for each in names}

    try:
        with suppress(AssertionError):  # what is missing is told where all is compared
            until(lambda: all(ends().get(name, 0) >= count for name, count in counts.items()), seconds=15, every=0.2)
        wanted = ends()
        consumer.assign([TopicPartition(each, 0, 0) for each in wanted])

        def is_read() -> bool:
            for each in consumer.consume(500, 0.2):
                assert each.error() is None
                found.setdefault(each.topic() or "", []).append(_fact(each))
            return all(len(found.get(name, ())) >= count for name, count in wanted.items())

        until(is_read, "what stands in the topics")
    finally:
        consumer.close()
    return found


def _fact(message: Any) -> dict[str, Any]:
    headers = [[name, None if value is None else value.decode()] for name, value in message.headers() or ()]
    row: dict[str, Any] = {"headers": headers}
    for name, data in (("key", message.key()), ("value", message.value())):
        parsed = None if data is None else json.loads(data)
        row[name] = None if parsed is None else parsed["payload"]
        row[f"{name}_schema"] = None if parsed is None else parsed["schema"]
    return row


@pytest.mark.parametrize("case", CASES)
def test_records_equal_debeziums_for_sql_of_our_own(theirs: Beside, case: str) -> None:
    database = theirs.server.new_database()
    run_sql(theirs.server, database, (SQL / "setup.sql").read_text())
    settings = CASES[case]
    debezium.create(theirs.rest, case, theirs.settings(case, database, **settings))
    task = begun(theirs.server, database, None, **{"topic.prefix": case, **settings})
    records = read_until_quiet(task, None, 0.5)
    until(lambda: theirs.is_active(f"theirs_{case}"), theirs.words)
    run_sql(theirs.server, database, (SQL / "stream.sql").read_text())
    records += read_until_quiet(task, None)
    task.stop()
    ours = json.loads(json.dumps(as_facts(records)))
    found = read_topics(theirs.bootstrap, f"{case}.", {name: len(rows) for name, rows in ours.items()})
    wrong = [f"topic {each}" for each in sorted({*ours} ^ {*found})]
    for topic in sorted({*ours} & {*found}):
        mine, other = ([masked(topic, each) for each in given] for given in (ours[topic], found[topic]))
        if len(mine) != len(other):
            wrong.append(f"{topic}: {len(mine)} records, and Debezium has {len(other)}")
        for at, (one, two) in enumerate(zip(mine, other, strict=False)):
            wrong += [f"{topic} {at}{each}" for each in differences(settled(one), settled(two))]
    wrong = [each for each in wrong if not any(re.search(slip, each) for slip in SLIPS)]
    assert not wrong, "\n".join(wrong)


def signal(beside: Beside, database: str, *signals: tuple[str, dict[str, Any]]) -> None:
    """Write signals, all in one transaction."""
    with connected(beside.server, database) as connection, connection.transaction():
        for type_, data in signals:
            connection.execute(
                "insert into signals select 's' || count(*), %s, %s from signals", (type_, json.dumps(data))
            )


def test_notifications_equal_debeziums(theirs: Beside) -> None:
    database = theirs.server.new_database()
    run_sql(
        theirs.server,
        database,
        "create table signals (id varchar(42) primary key, type varchar(32) not null, data varchar(2048)); "
        "create table a (id int primary key); insert into a select generate_series(1, 7); "
        "create table b (t text, n numeric(5,2), primary key (n, t)); insert into b values ('x', 1), ('y, z', 2.5); "
        "create table empty (id int primary key); create table nokey (v int); insert into nokey values (1)",
    )
    settings = {
        "notification.enabled.channels": "sink,log",
        "notification.sink.topic.name": "told.notes",
        "signal.data.collection": "public.signals",
        "incremental.snapshot.chunk.size": "3",
    }
    debezium.create(theirs.rest, "told", theirs.settings("told", database, **settings))
    until(lambda: theirs.is_active("theirs_told"), theirs.words)
    task = begun(theirs.server, database, None, **{"topic.prefix": "told", **settings})
    records = read_until_quiet(task, None)
    both, tables = ["public.a", "public.b"], "data-collections"
    for given in (
        [("execute-snapshot", {tables: both})],
        [("execute-snapshot", {tables: ["public.empty", "public.nokey"]})],
        [("execute-snapshot", {tables: ["public.a"], "additional-conditions": [
            {"data-collection": "public.a", "filter": "id % 2 = 0"}]})],
        [("execute-snapshot", {tables: both}), ("stop-snapshot", {tables: ["public.b"]})],
        [("execute-snapshot", {tables: ["public.(a|b)"]}), ("pause-snapshot", {})],
        [("resume-snapshot", {})],
        [("execute-snapshot", {tables: ["public.b"], "type": "blocking"})],
    ):  # fmt: skip
        signal(theirs, database, *given)
        records += read_until_quiet(task, None)
    task.stop()
    ours = json.loads(json.dumps(as_facts(records)))["told.notes"]
    found = read_topics(theirs.bootstrap, "told.notes", {"told.notes": len(ours)})["told.notes"]
    assert [each["value_schema"] for each in ours] == [each["value_schema"] for each in found]
    assert [each["key_schema"] for each in ours] == [each["key_schema"] for each in found]
    assert [each["headers"] for each in ours] == [each["headers"] for each in found]
    mine, other = (in_turn([of_note(each["value"]) for each in given]) for given in (ours, found))
    assert mine == other, "\n".join(map(str, [*zip(mine, other, strict=False)]))


def in_turn(notes: list[Any]) -> list[Any]:
    """Return notifications by snapshot: Debezium reads a first chunk before it looks at the next signal."""
    return sorted(
        notes, key=lambda each: (each[0] != "uuid", str(each[0]), each[1] in ("PAUSED", "RESUMED", "ABORTED"))
    )


def of_note(value: dict[str, Any]) -> Any:
    """Return what a notification says, but for its time, and ids that are new each time."""
    data = dict(value["additional_data"])
    if "data_collections" in data:  # the signals' table is among those that are resolved, and is not read
        data["data_collections"] = sorted({*data["data_collections"].split(",")} - {"public.signals"})
    id_ = value["id"] if len(value["id"]) < 10 else "uuid"
    if value["type"] == "IN_PROGRESS" and id_ != "uuid":
        data.pop("data_collections")  # behind a stop, or before it
    return id_, value["type"], value["aggregate_type"], data


def settled(row: Any) -> Any:
    """Return a row without what differs between two runs of Debezium.

    The tables of a transaction's end stand in the order of Java's hashes; whether a first record without a snapshot knows of
    a commit before it depends on what the server has told by then.
    """
    value = row["value"] or {}
    if value.get("data_collections"):
        value["data_collections"] = sorted(value["data_collections"], key=lambda each: str(each["data_collection"]))
    if value.get("op") in ("c", "u", "d") and value["source"]["sequence"]:
        value["source"]["sequence"] = value["source"]["sequence"].replace("null", '"0"')
    return row


def differences(one: Any, two: Any, path: str = "") -> Iterator[str]:
    """Say where two values of JSON differ, ours first."""
    if isinstance(one, dict) and isinstance(two, dict) and list(one) == list(two):
        for name, value in one.items():
            yield from differences(value, two[name], f"{path}.{name}")
    elif isinstance(one, list) and isinstance(two, list) and len(one) == len(two):
        for at, (value, other) in enumerate(zip(one, two, strict=True)):
            name = value.get("field", at) if isinstance(value, dict) else at
            yield from differences(value, other, f"{path}[{name}]")
    elif one != two:
        yield f"{path}: {json.dumps(one)[:900]} != {json.dumps(two)[:900]}"
