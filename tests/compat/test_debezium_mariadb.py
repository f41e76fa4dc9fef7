"""Snapshots that signals ask for equal those that Debezium 3.5.0 makes on MariaDB at the same time; XA differs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ottla.connect import SourceRecord
from tests import peer
from tests.compat.test_debezium import differences, read_topics
from tests.connectors.cdc.mariadb_replay import begun, connected, run_sql
from tests.connectors.cdc.replay import as_facts, read_until_quiet
from tests.connectors.cdc.test_mariadb_recorded import in_form
from tests.peer import debezium
from tests.peer.connect.worker import running_worker
from tests.ports import free_port
from tests.waiting import until
from tools.mariadb import CAPTURED, PASSWORD, USER, MariaDbServer, private_server
from tools.mariadb import missing as no_mariadb

pytestmark = [pytest.mark.peer, pytest.mark.slow, pytest.mark.timeout(400)]
COLUMNS = "(id varchar(42) primary key, type varchar(32) not null, data varchar(2048))"
SETUP = f"""
create database d; use d; create table d.ours {COLUMNS}; create table d.theirs {COLUMNS};
create table d.a (id int primary key, v varchar(10), e enum('x','y'), t datetime(3), n decimal(9,3));
insert into d.a select seq, concat('v', seq), 'y', '2024-02-29 12:34:56.789', seq / 8 from seq_1_to_7;
create table d.b (t varchar(9), n int, f double, primary key (t, n)); insert into d.b values ('x', 1, 0.1), ('x', 2, null),
('y', 1, 1e300); create table d.nokey (v int, w text); insert into d.nokey values (1, 'a'), (2, 'b'), (3, 'c');
create table d.empty (id int primary key)
"""
TABLES = ("a", "b", "nokey", "empty")


@dataclass
class Both:
    """A server, our task and Debezium's connector on it, each with signals of its own."""

    server: MariaDbServer
    bootstrap: str
    task: Any
    folder: Path
    records: list[SourceRecord]

    def signal(self, type_: str, data: dict[str, Any]) -> None:
        for table in ("ours", "theirs"):
            with connected(self.server) as connection, connection.cursor() as cursor:
                query = f"insert into d.{table} select concat('s', count(*)), %s, %s from d.{table}"
                cursor.execute(query, (type_, json.dumps(data)))

    def settle(self) -> None:
        """Wait until Debezium has told as much of the tables as we have."""
        self.records += read_until_quiet(self.task)
        self.theirs(self.ours())

    def ours(self) -> dict[str, list[Any]]:
        return json.loads(json.dumps(as_facts(self.records)))

    def theirs(self, ours: dict[str, list[Any]]) -> dict[str, list[Any]]:
        counts = {name: len(rows) for name, rows in ours.items() if is_compared(name)}
        return read_topics(self.bootstrap, "told.", counts)


def is_compared(topic: str) -> bool:
    return topic.rpartition(".")[2] in (*TABLES, "notes")


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    for reason in (debezium.missing(debezium.MARIADB), no_mariadb()):
        if reason is not None:
            pytest.skip(reason)
    folder, port, rest = tmp_path_factory.mktemp("debezium"), free_port(), free_port()
    lines = [f"plugin.path={debezium.plugins(debezium.MARIADB)}"]
    with (
        private_server([*CAPTURED, "--binlog-row-metadata=FULL"]) as server,
        peer.running_broker(folder / "kafka", port),
        running_worker("standalone", folder, f"127.0.0.1:{port}", rest, properties=lines),
    ):
        run_sql(server, SETUP)
        settings = {
            "topic.prefix": "told",
            "table.include.list": r"d\.(a|b|nokey|empty)",
            "include.schema.changes": "false",
            "incremental.snapshot.chunk.size": "3",
            "notification.enabled.channels": "sink",
            "notification.sink.topic.name": "told.notes",
        }
        config = {
            **settings,
            "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
            "database.hostname": "127.0.0.1",
            "database.port": str(server.port),
            "database.user": USER,
            "database.password": PASSWORD,
            "database.server.id": "7777",
            "schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory",
            "schema.history.internal.file.filename": str(folder / "theirs"),
            "poll.interval.ms": "50",
            "signal.data.collection": "d.theirs",
        }
        debezium.create(rest, "told", config)
        task = begun(server, folder / "ours", None, **settings, **{"signal.data.collection": "d.ours"})
        found = Both(server, f"127.0.0.1:{port}", task, folder, [])
        found.settle()
        until(lambda: is_streaming(server), lambda: (folder / "worker.out").read_text(errors="replace")[-3000:])
        yield found
        task.stop()


def is_streaming(server: MariaDbServer) -> bool:
    """Whether both read the binlog."""
    with connected(server) as connection, connection.cursor() as cursor:
        cursor.execute("select count(*) from information_schema.processlist where command = 'Binlog Dump'")
        return (cursor.fetchone() or (0,))[0] == 2


def test_what_signals_ask_for_equals_debeziums(both: Both) -> None:
    names = "data-collections"
    for data in (
        {names: ["d.a", "d.b"]},
        {names: ["d.(a|empty)"], "additional-conditions": [{"data-collection": "d.a", "filter": "id % 2 = 0"}]},
        {names: ["d.nokey"]},
        {names: ["d.nokey"], "surrogate-key": "v"},
        {names: ["d.b"], "type": "blocking"},
    ):
        both.signal("execute-snapshot", data)
        both.settle()
        run_sql(both.server, "update d.a set v = concat(v, '!') where id = 3; update d.b set f = f + 1 where n = 1")
        both.settle()
    ours = both.ours()
    theirs = both.theirs(ours)
    wrong = []
    for topic in sorted(each for each in {*ours, *theirs} if is_compared(each)):
        mine, other = ([in_form(topic, each) for each in given.get(topic, ())] for given in (ours, theirs))
        if topic.endswith("notes"):
            wrong += [f"note: {each}" for each in sorted(notes(mine) ^ notes(other))]
            continue
        if topic.endswith("nokey"):  # Debezium keeps the last row of a chunk alone of a table that has no key
            assert [each["value"]["after"]["v"] for each in mine] == [1, 2, 3] * 2
            assert [each["value"]["after"]["v"] for each in other] == [1, 2, 3, 3]
            continue
        if len(mine) != len(other):
            wrong.append(f"{topic}: {len(mine)} records, and Debezium has {len(other)}")
        for at, (one, two) in enumerate(zip(mine, other, strict=False)):
            wrong += [f"{topic} {at}{each}" for each in differences(one, two)]
    assert not wrong, "\n".join(wrong[:40])


def notes(rows: list[Any]) -> set[str]:
    """Return what notifications of incremental snapshots say in both versions; 3.7.0 says more, as we do."""
    found = set()
    for each in rows:
        value = each["value"]
        if value["aggregate_type"] == "Incremental Snapshot" and value["type"] != "DATA_COLLECTIONS_RESOLVED":
            data = value["additional_data"]
            kept = ("scanned_collection", "status", "total_rows_scanned", "last_processed_key", "maximum_key")
            found.add(json.dumps([value["type"], {name: data[name] for name in kept if name in data}]))
    return found


def test_debezium_tells_xa_transactions_that_are_rolled_back_and_we_do_not(both: Both) -> None:
    before = len(both.records)
    for id_, end in ((100, "commit"), (101, "rollback")):
        run_sql(both.server, f"xa start 'q'; insert into d.a (id) values ({id_}); xa end 'q'; xa prepare 'q'")
        run_sql(both.server, f"xa {end} 'q'")
    run_sql(both.server, "insert into d.a (id) values (102)")
    both.settle()
    told = [each.value["after"]["id"] for each in both.records[before:] if str(each.topic).endswith("d.a")]
    assert told == [100, 102]
    theirs: list[Any] = []

    def has_come() -> bool:
        theirs[:] = [each["value"]["after"]["id"] for each in both.theirs({})["told.d.a"]]
        return 102 in theirs

    until(has_come, "Debezium's last")
    assert theirs[-3:] == [100, 101, 102]
