"""Persistent, pull and push queries against a broker, and rows that are inserted."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import aiohttp
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from tests.sql_server.running import SqlProcess
from tests.waiting import until


@contextmanager
def pushed(sql: SqlProcess, text: str, **properties: str) -> Iterator[tuple[dict[str, object], Iterator[str]]]:
    """A push query's metadata, and its further lines."""
    body = {"sql": text, "properties": {name.replace("_", "."): value for name, value in properties.items()}}
    request = urllib.request.Request(f"{sql.url}/query-stream", json.dumps(body).encode(), method="POST")
    with urllib.request.urlopen(request, timeout=60) as answer:
        lines = (line.decode().rstrip("\n") for line in answer)
        yield json.loads(next(lines)), lines


@pytest.fixture
def orders(sql: SqlProcess, name: str) -> str:
    sql.ksql(
        f"CREATE STREAM {name} (id STRING KEY, item STRING, qty INT, price DECIMAL(6, 2)) "
        f"WITH (kafka_topic='{name}', value_format='JSON', partitions=2);"
    )
    for number, (item, qty) in enumerate([("fig", 1), ("fig", 2), ("pear", 5)]):
        sql.ksql(f"INSERT INTO {name} VALUES ('o{number}', '{item}', {qty}, 1.50);")
    return name


def test_a_table_of_a_query_is_asked_by_key_range_and_scan(sql: SqlProcess, orders: str) -> None:
    table = f"{orders}_T"
    sql.ksql(f"CREATE TABLE {table} AS SELECT item, COUNT(*) AS n, SUM(qty) AS total FROM {orders} GROUP BY item;")
    sql.wait_rows(f"SELECT * FROM {table};", [["fig", 2, 3], ["pear", 1, 5]])
    assert sql.rows(f"SELECT total FROM {table} WHERE item = 'fig';") == [[3]]
    assert sql.rows(f"SELECT * FROM {table} WHERE item IN ('pear', 'none');") == [["pear", 1, 5]]
    assert sql.rows(f"SELECT item FROM {table} WHERE item > 'fig' AND item <= 'pear';") == [["pear"]]
    assert sql.rows(f"SELECT item FROM {table} WHERE n + 1 = 3;") == [["fig"]]
    assert len(sql.rows(f"SELECT item FROM {table} LIMIT 1;")) == 1
    assert sql.rows(f"SELECT item FROM {table} WHERE item = 'none';") == []


def test_a_pull_query_tells_its_columns_and_its_position(sql: SqlProcess, orders: str) -> None:
    found = sql.ask("POST", "/query", {"ksql": f"SELECT id, price FROM {orders} WHERE id = 'o2';"}).body
    assert found[0]["header"]["schema"] == "`ID` STRING, `PRICE` DECIMAL(6, 2)"
    assert sum(found[0]["header"]["position"][orders].values()) == 3
    assert found[1:] == [{"row": {"columns": ["o2", 1.5]}}, {"finalMessage": "Query Completed"}]


def test_an_insert_is_seen_by_a_query_that_asks_for_the_latest(sql: SqlProcess, name: str) -> None:
    sql.ksql(
        f"CREATE SOURCE TABLE {name}_r (id INT PRIMARY KEY, v STRING) "
        f"WITH (kafka_topic='{name}', value_format='JSON', partitions=1);"
        f"CREATE TABLE {name} (id INT PRIMARY KEY, v STRING) WITH (kafka_topic='{name}', value_format='JSON');"
    )
    assert sql.rows(f"SELECT * FROM {name};") == []
    for number in range(5):
        sql.ksql(f"INSERT INTO {name} VALUES (1, 'v{number}');")
        latest = {"ottla_sql_pull_consistency": "latest"}
        assert sql.rows(f"SELECT v FROM {name}_r WHERE id = 1;", **latest) == [[f"v{number}"]]
    assert "read-only" in sql.refused(f"INSERT INTO {name}_r VALUES (1, 'x');")[2]


def test_windowed_tables_are_asked_with_their_bounds(sql: SqlProcess, name: str) -> None:
    sql.ksql(
        f"CREATE STREAM {name} (id STRING KEY, v INT) WITH (kafka_topic='{name}', value_format='JSON', partitions=1);"
        f"CREATE TABLE {name}_w AS SELECT id, COUNT(*) AS n FROM {name} WINDOW TUMBLING (SIZE 10 SECONDS) GROUP BY id;"
        f"CREATE TABLE {name}_s AS SELECT id, COUNT(*) AS n FROM {name} WINDOW SESSION (5 SECONDS) GROUP BY id;"
    )
    for time in (1000, 2000, 12_000):
        sql.ksql(f"INSERT INTO {name} (rowtime, id, v) VALUES ({time}, 'a', 1);")
    sql.wait_rows(f"SELECT * FROM {name}_w WHERE id = 'a';", [["a", 0, 10_000, 2], ["a", 10_000, 20_000, 1]])
    assert sql.rows(f"SELECT n FROM {name}_w WHERE id = 'a' AND windowstart >= 10000;") == [[1]]
    sql.wait_rows(f"SELECT * FROM {name}_s WHERE id = 'a';", [["a", 1000, 2000, 2], ["a", 12_000, 12_000, 1]])


def test_a_push_query_gives_rows_as_they_come_until_its_limit(sql: SqlProcess, orders: str) -> None:
    with pushed(sql, f"SELECT id, qty * 2 AS dbl FROM {orders} WHERE qty > 1 EMIT CHANGES LIMIT 2;") as (head, lines):
        assert head["columnNames"] == ["ID", "DBL"]
        sql.ksql(f"INSERT INTO {orders} (id, qty) VALUES ('p1', 7);")
        assert next(lines) == '["p1",14]'
        sql.ksql(f"INSERT INTO {orders} (id, qty) VALUES ('p2', 1); INSERT INTO {orders} (id, qty) VALUES ('p3', 4);")
        assert list(lines) == ['["p3",8]']


def test_a_push_query_with_state_tells_every_change(sql: SqlProcess, orders: str) -> None:
    text = f"SELECT item, SUM(qty) AS total FROM {orders} GROUP BY item EMIT CHANGES LIMIT 3;"
    assert sorted(sql.rows(text)) in ([["fig", 1], ["fig", 3], ["pear", 5]], [["fig", 2], ["fig", 3], ["pear", 5]])


def test_a_push_query_ends_when_it_is_closed_or_its_client_is_gone(sql: SqlProcess, orders: str) -> None:
    def ids() -> list[str]:
        (told,) = sql.ksql("LIST QUERIES;")
        return [each["id"] for each in told["queries"] if each["queryType"] == "PUSH"]

    with pushed(sql, f"SELECT * FROM {orders} EMIT CHANGES;") as (head, lines):
        assert head["queryId"] in ids()
        ended = threading.Thread(target=lambda: list(lines))
        ended.start()
        assert sql.ask("POST", "/close-query", {"queryId": head["queryId"]}).status == 200
        ended.join(30)
        assert not ended.is_alive()
    with pushed(sql, f"SELECT * FROM {orders} EMIT CHANGES;") as (head, _):
        assert head["queryId"] in ids()
    until(lambda: head["queryId"] not in ids(), "the end of a query without a client")
    assert sql.ask("POST", "/close-query", {"queryId": "nothing"}).status == 400


def test_a_topic_is_printed(sql: SqlProcess, orders: str) -> None:
    found = sql.ask("POST", "/query", {"ksql": f"PRINT {orders} FROM BEGINNING LIMIT 3;"}).body.splitlines()
    assert found[:2] == ["Key format: KAFKA_STRING", "Value format: JSON"]
    assert any('key: o2, value: {"ITEM":"pear","QTY":5,"PRICE":1.50}, partition: ' in line for line in found[2:])
    assert len(found) == 5


def test_lines_are_inserted_and_acknowledged_one_by_one(sql: SqlProcess, orders: str) -> None:
    lines = [{"target": orders}, {"id": "l1", "qty": 3, "price": 2.75}, {"id": "l2", "qty": "many"}, {"id": "l3"}]
    found = sql.ask("POST", "/inserts-stream", "\n".join(map(json.dumps, lines)).encode())
    acks = [json.loads(line) for line in found.body.splitlines()]
    assert acks[0] == {"status": "ok", "seq": 0}
    assert (acks[1]["status"], acks[1]["seq"], acks[1]["error_code"]) == ("error", 1, 40001)
    assert len(acks) == 2
    assert sql.rows(f"SELECT id, price FROM {orders} WHERE id = 'l1';") == [["l1", 2.75]]


def test_what_cannot_be_asked_is_told_with_its_way_out(sql: SqlProcess, orders: str) -> None:
    assert "push query" in sql.refused(f"SELECT item, COUNT(*) FROM {orders} GROUP BY item;", "/query")[2]
    assert "NOTHING does not exist" in sql.refused("SELECT * FROM nothing;", "/query")[2]


def test_dates_bytes_and_collections_are_told_as_json(sql: SqlProcess, name: str) -> None:
    sql.ksql(
        f"CREATE STREAM {name} (d DATE, t TIMESTAMP, b BYTES, m MAP<STRING, DOUBLE>, s STRUCT<a INT>, l ARRAY<BIGINT>) "
        f"WITH (kafka_topic='{name}', value_format='JSON', partitions=1);"
        f"INSERT INTO {name} VALUES ('2024-02-29', '2024-02-29T01:02:03.004', TO_BYTES('hi', 'utf8'), "
        "MAP('k' := 1.5), STRUCT(a := 1), ARRAY[1, 2]);"
    )
    assert sql.rows(f"SELECT * FROM {name};") == [
        ["2024-02-29", "2024-02-29T01:02:03.004", "aGk=", {"k": 1.5}, {"A": 1}, [1, 2]]
    ]


def test_rows_and_values_that_are_lost_are_lines_of_the_servers_log_few_at_a_time(sql: SqlProcess, name: str) -> None:
    sql.ksql(
        f"CREATE STREAM {name}_raw (v STRING) WITH (kafka_topic='{name}', value_format='KAFKA', partitions=1);"
        f"CREATE STREAM {name} (v INT) WITH (kafka_topic='{name}', value_format='JSON');"
    )
    (made,) = sql.ksql(f"CREATE STREAM {name}_x AS SELECT 10 / v AS w FROM {name};")
    sql.ksql("".join(f"INSERT INTO {name}_raw VALUES ('no json');" for _ in range(20)))
    sql.ksql(f"INSERT INTO {name} VALUES (5);")
    sql.wait_rows(f"SELECT * FROM {name}_x;", [[2]])
    told = [line for line in sql.lines if f"processing.{made['commandStatus']['queryId']}: " in line]
    assert len(told) == 10
    assert all("a record was left out" in line for line in told)


def test_rows_are_protobuf_messages_where_that_is_accepted(sql: SqlProcess, orders: str) -> None:
    accept = {"Accept": "application/vnd.ksql.v1+protobuf"}
    text = f"SELECT id, qty, qty * 1.5E0 AS d, ARRAY[item] AS l FROM {orders} WHERE id = 'o2';"
    for path, name in (("/query", "ksql"), ("/query-stream", "sql")):
        found = sql.ask("POST", path, {name: text}, **accept)
        assert found.headers["Content-Type"] == accept["Accept"]
        header, row, end = found.body
        assert header["header"]["protoSchema"].splitlines() == [
            'syntax = "proto3";',
            "message ConnectDefault1 {",
            "  string ID = 1;",
            "  int32 QTY = 2;",
            "  double D = 3;",
            "  repeated string L = 4;",
            "}",
        ]
        read = _message().FromString(base64.b64decode(row["row"]["protobufBytes"]))
        assert (read.ID, read.QTY, read.D, list(read.L)) == ("o2", 5, 7.5, ["pear"])
        assert end == {"finalMessage": "Query Completed"}


def _message() -> type[Any]:
    """The message as Google's library reads it."""
    proto = descriptor_pb2.FileDescriptorProto(name="rows.proto", syntax="proto3")
    message = proto.message_type.add(name="ConnectDefault1")
    field = descriptor_pb2.FieldDescriptorProto
    for number, (name, type_) in enumerate([("ID", 9), ("QTY", 5), ("D", 1), ("L", 9)], 1):
        label = field.LABEL_REPEATED if name == "L" else field.LABEL_OPTIONAL
        message.field.add(name=name, number=number, type=type_, label=label)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(proto)
    made: type[Any] = message_factory.GetMessageClass(pool.FindMessageTypeByName("ConnectDefault1"))
    return made


def socket_texts(sql: SqlProcess, text: str, most: int) -> list[Any]:
    """The first messages of a query over a WebSocket, as aiohttp's client reads them."""

    async def asked() -> list[Any]:
        found: list[Any] = []
        given = {"request": json.dumps({"ksql": text, "streamsProperties": {"auto.offset.reset": "earliest"}})}
        async with (
            aiohttp.ClientSession() as session,
            session.ws_connect(f"{sql.url}/ws/query", params=given) as socket,
        ):
            async for message in socket:
                found.append(message.data)
                if len(found) == most:
                    break
        return found

    return asyncio.run(asked())


def test_a_socket_gives_the_columns_and_then_the_rows(sql: SqlProcess, orders: str) -> None:
    head, *rows = map(json.loads, socket_texts(sql, f"SELECT id, qty FROM {orders} WHERE qty > 1 EMIT CHANGES;", 3))
    plain = {"fields": None, "memberSchema": None}
    assert head == [
        {"name": "ID", "schema": {"type": "STRING", **plain}},
        {"name": "QTY", "schema": {"type": "INTEGER", **plain}},
    ]
    assert sorted(each["row"]["columns"] for each in rows) == [["o1", 2], ["o2", 5]]
    until(lambda: "transient" not in str(sql.ksql("LIST QUERIES;")), "the end of a query whose socket is closed")
    assert len(socket_texts(sql, f"SELECT id FROM {orders};", 9)) == 4
    assert "o0" in "".join(socket_texts(sql, f"PRINT {orders} FROM BEGINNING;", 4))


def test_a_page_of_another_server_gets_no_socket(sql: SqlProcess) -> None:
    given = {"Upgrade": "websocket", "Connection": "Upgrade"}
    assert sql.ask("GET", "/ws/query", Origin="http://elsewhere.example", **given).status == 403


def test_a_socket_tells_what_is_refused(sql: SqlProcess) -> None:
    (told,) = map(json.loads, socket_texts(sql, "SELECT * FROM nothing EMIT CHANGES;", 5))
    assert (told["error_code"], "NOTHING does not exist" in told["message"]) == (40001, True)


def test_metrics_have_names_meanings_and_a_histogram_of_pull_queries(sql: SqlProcess, orders: str) -> None:
    sql.rows(f"SELECT * FROM {orders};")
    text = sql.ask("GET", "/metrics").body
    assert "# TYPE ottla_sql_pull_seconds histogram\n" in text
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert values['ottla_sql_pull_seconds_bucket{le="+Inf"}'] == values["ottla_sql_pull_seconds_count"] != "0"
    assert values["ottla_sql_runs_queries"] == "1"
    assert int(values["ottla_sql_command_offset"]) > 0
