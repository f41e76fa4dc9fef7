"""The JDBC connectors and a real MariaDB, by its own URL and by MySQL's: values, upserts, TLS, and what passes by itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from ottla.connect import ConnectError, SchemaBuilder, Struct, data
from ottla.connectors.jdbc import JdbcSourceConnector
from ottla.connectors.jdbc.database import of_another_table, passes_by_itself
from tests.connectors.jdbc import worker
from tests.connectors.jdbc.conftest import TestDatabase
from tests.connectors.jdbc.mariadb_server import DRIVER, PASSWORD, USER, missing, running_mariadb
from tests.connectors.jdbc.test_jdbc_hostile import NOT_HELD, by_schema, came_back
from tests.connectors.jdbc.worker import Reporter, record, sink, source_tasks
from tests.hostile_values import HOSTILE, NAMES

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
NOT_HERE = {"double: NaN", "double: infinity", "double: minus infinity", "float: NaN", "float: infinity"}
NOT_HERE |= {"decimal: 39 digits", "decimal: 65 digits", "int16 too large", "int32 too large"}
NOT_HERE |= {f"time: a {what} {when}" for what in ("day", "moment") for when in ("BC", "of the year 10000")}
NOT_HERE |= {"time: 24:00", "time: infinite", "time: no day any more", "text: 1 MiB", "bytes: 1 MiB"}
"""Its text and bytes hold 64 KiB where the sink makes the table."""
ORDER = SchemaBuilder.struct().field("id", data.INT64).field("item", data.OPTIONAL_STRING).build()
UPSERT = {"auto.create": "true", "insert.mode": "upsert", "pk.mode": "record_value", "pk.fields": "id"}


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    if (reason := missing()) is not None:
        pytest.skip(reason)
    with running_mariadb(tmp_path_factory.mktemp("mariadb")) as found:
        yield found


@pytest.fixture(params=["mariadb", "mysql"])
def database(request: pytest.FixtureRequest, port: int) -> Iterator[TestDatabase]:
    where = f"127.0.0.1:{port}/test"
    props = {
        "connection.url": f"jdbc:{request.param}://{where}",
        "connection.user": USER,
        "connection.password": PASSWORD,
        "connection.backoff.ms": "100",
    }
    engine = sa.create_engine(f"mariadb+{DRIVER}://{USER}:{PASSWORD}@{where}", poolclass=sa.NullPool)
    made = TestDatabase("mariadb", engine, props)
    yield made
    worker.stop_all()
    for (name,) in made.run("SHOW TABLES"):
        made.run(f"DROP TABLE `{name}`")
    engine.dispose()


def rows_of(database: TestDatabase, table: str, **more: str) -> list[Any]:
    [source] = source_tasks({**database.props, "mode": "bulk", "table.include.list": f"(test[.])?{table}", **more})
    return list(source.poll() or [])


def test_each_value_comes_back_from_its_table_or_is_a_dead_letter(database: TestDatabase) -> None:
    reporter = Reporter()
    task = sink({**database.props, "auto.create": "true"}, reporter)
    for place, (kind, rows) in enumerate(by_schema().items()):
        schema = SchemaBuilder.struct().field("id", data.INT64).field("v", kind).build()
        records = []
        for number, _, value in rows:
            struct = Struct(schema, id=number)
            struct.values[1] = value
            records.append(record(struct, topic=f"t{place}", offset=number))
        task.put(records)
    refused = {HOSTILE[each.offset][0] for each, _ in reporter.reported}
    assert refused == NOT_HELD | NOT_HERE
    for place, (kind, rows) in enumerate(by_schema().items()):
        back = {each.value["id"]: each.value["v"] for each in rows_of(database, f"t{place}")}
        for number, label, value in rows:
            assert (label in refused) == (number not in back), label
            assert label in refused or came_back(kind, value, back[number], database.kind), (label, back[number])


def test_odd_names_are_names_of_columns(database: TestDatabase) -> None:
    names = [each for each in NAMES if each.isascii() and not each.isupper() and not {"`", "%"} & {*each}]
    builder = SchemaBuilder.struct().field("id", data.INT64)
    for name in names:
        builder = builder.field(name, data.STRING)
    value = Struct(builder.build(), {"id": 1, **{name: f"of {name}" for name in names}})
    sink({**database.props, **UPSERT}).put([record(value, topic="odd"), record(value, topic="odd", offset=1)])
    [back] = rows_of(database, "odd")
    assert back.value.to_dict() == value.to_dict()


def test_a_name_that_the_driver_reads_back_as_another_is_refused(database: TestDatabase) -> None:
    schema = SchemaBuilder.struct().field("id", data.INT64).field("a`b", data.STRING).build()
    with pytest.raises(ConnectError, match="Table odd has no column a`b"):
        sink({**database.props, **UPSERT}).put([record(Struct(schema, {"id": 1, "a`b": "x"}), topic="odd")])


def test_an_upsert_changes_the_row_that_is_there(database: TestDatabase) -> None:
    task = sink({**database.props, **UPSERT})
    for offset, (key, item) in enumerate([(1, "one"), (2, "two"), (1, "changed"), (2, None)]):
        task.put([record(Struct(ORDER, id=key, item=item), topic="orders", offset=offset)])
    assert sorted(database.run("SELECT * FROM orders")) == [(1, "changed"), (2, None)]


def test_new_rows_are_read_by_their_numbers(database: TestDatabase) -> None:
    database.run("CREATE TABLE grown (id INT AUTO_INCREMENT PRIMARY KEY, item TEXT)")
    database.run("INSERT INTO grown (item) VALUES ('a'), ('b')")
    given = {"mode": "incrementing", "incrementing.column.name": "id", "poll.interval.ms": "1"}
    [source] = source_tasks({**database.props, **given, "table.include.list": "(test[.])?grown"})
    found = [each.value["item"] for each in source.poll() or []]
    database.run("INSERT INTO grown (item) VALUES ('c')")
    while len(found) < 3:
        found += [each.value["item"] for each in source.poll() or []]
    assert found == ["a", "b", "c"]


def test_tls_is_refused_where_it_cannot_be_promised_and_left_where_it_need_not_be(database: TestDatabase) -> None:
    url = database.props["connection.url"]
    database.run("CREATE TABLE plain (id INT PRIMARY KEY)")
    database.run("INSERT INTO plain VALUES (1)")
    for question in ("sslMode=DISABLED", "sslMode=PREFERRED", "useSSL=false", "useSSL=true"):
        assert len(rows_of(database, "plain", **{"connection.url": f"{url}?{question}"})) == 1
    for question in ("sslMode=REQUIRED", "sslMode=verify-full", "useSSL=true&verifyServerCertificate=true"):
        props = {**database.props, "mode": "bulk", "topic.prefix": "", "connection.url": f"{url}?{question}"}
        [wrong] = worker.errors(JdbcSourceConnector(), props)["connection.url"]
        assert "cannot be promised here" in wrong


def test_locks_and_lost_connections_pass_by_themselves_and_faults_of_rows_and_users_do_not(
    database: TestDatabase, tmp_path: Path
) -> None:
    database.run("CREATE TABLE busy (id INT PRIMARY KEY, v SMALLINT NOT NULL)")
    database.run("INSERT INTO busy VALUES (1, 1)")
    found: dict[str, sa.exc.DBAPIError] = {}

    def fails(name: str, connection: sa.Connection, sql: str) -> None:
        with pytest.raises(sa.exc.DBAPIError) as caught:
            connection.exec_driver_sql(sql)
        found[name] = caught.value

    with database.engine.connect() as one, database.engine.connect() as other:
        one.exec_driver_sql("UPDATE busy SET v = 2")
        other.exec_driver_sql("SET innodb_lock_wait_timeout = 1")
        fails("lock", other, "UPDATE busy SET v = 3")
        one.rollback()
        other.rollback()
        number = other.exec_driver_sql("SELECT CONNECTION_ID()").scalar()
        one.exec_driver_sql(f"KILL {number}")
        fails("lost", other, "SELECT 1")
        fails("range", one, "INSERT INTO busy VALUES (2, 100000)")
        fails("null", one, "INSERT INTO busy VALUES (2, NULL)")
        fails("twice", one, "INSERT INTO busy VALUES (1, 1)")
        fails("column", one, "INSERT INTO busy (w) VALUES (1)")
        fails("table", one, "INSERT INTO gone VALUES (1)")
    wrong = sa.create_engine(database.engine.url.set(password="wrong"), poolclass=sa.NullPool)
    with pytest.raises(sa.exc.DBAPIError) as caught:
        wrong.connect()
    found["user"] = caught.value
    assert {name for name, error in found.items() if passes_by_itself(error)} == {"lock", "lost"}
    assert {name for name, error in found.items() if of_another_table(error)} == {"column", "table"}
