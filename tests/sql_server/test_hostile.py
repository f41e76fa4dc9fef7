"""What nobody means well by: statements too deep, too long and of half a character, clients that take nothing and vanish."""

from __future__ import annotations

import json
import socket
import threading
import urllib.parse

import pytest

from tests.sql_server.running import SqlProcess
from tests.waiting import until

LARGE = "Statement is too large to parse"
HOSTILE = {
    "deep brackets": ("SELECT " + "(" * 5000 + "1" + ")" * 5000 + " FROM {name};", LARGE),
    "many conditions": ("SELECT * FROM {name} WHERE " + " AND ".join(["k = 'a'"] * 5000) + ";", LARGE),
    "a long sum": ("SELECT " + "+".join(["1"] * 5000) + " FROM {name};", LARGE),
    "many keys": (
        "SELECT * FROM {name} WHERE k IN (" + ",".join(f"'{each}'" for each in range(10_001)) + ");",
        "10000",
    ),
    "many joins": (
        "SELECT A.k FROM {name} A " + "".join(f"JOIN {{name}} A{n} ON A.k=A{n}.k " for n in range(17)) + ";",
        "16",
    ),
    "many orders": ("SELECT * FROM {name} ORDER BY " + ",".join(["k"] * 65) + ";", "64"),
}


@pytest.fixture
def table(sql: SqlProcess, name: str) -> str:
    sql.ksql(
        f"CREATE TABLE {name} (k STRING PRIMARY KEY, v INT) WITH (kafka_topic='{name}', format='JSON', partitions=1);"
    )
    return name


@pytest.mark.parametrize("what", HOSTILE)
def test_what_no_stack_holds_is_refused_and_said(sql: SqlProcess, table: str, what: str) -> None:
    text, said = HOSTILE[what]
    status, code, message = sql.refused(text.format(name=table), "/query")
    assert (status, code, said in message) == (400, 40001, True), message


def test_a_command_that_no_stack_holds_is_refused_and_written_nowhere(sql: SqlProcess, name: str) -> None:
    sql.ksql(f"CREATE STREAM {name} (v INT) WITH (kafka_topic='{name}', value_format='JSON', partitions=1);")
    made = f"CREATE STREAM {name}_x AS SELECT {'+'.join(['v'] * 5000)} AS w FROM {name};"
    status, code, message = sql.refused(made)
    assert (status, code, LARGE in message) == (400, 40001, True), message
    assert sql.ask("GET", "/info").body["KsqlServerInfo"]["serverStatus"] == "RUNNING"


def test_half_a_character_is_no_mistake_of_ours(sql: SqlProcess, table: str) -> None:
    body = json.dumps({"ksql": f"SELECT '\ud800' AS x FROM {table}; \x00"}).encode()
    assert sql.ask("POST", "/ksql", body).status == 400
    assert sql.ask("POST", "/query", json.dumps({"ksql": "SELECT '\ud800' FROM nothing;"}).encode()).status == 400


def test_a_long_statement_holds_nobody_up(sql: SqlProcess, table: str) -> None:
    """Others are answered while it is read."""
    long = json.dumps({"ksql": f"SELECT * FROM {table} WHERE " + " OR ".join(["k = 'a'"] * 20_000) + ";"}).encode()
    answers: list[int] = []
    asking = threading.Thread(target=lambda: answers.append(sql.ask("POST", "/query", long).status))
    asking.start()
    others = 0
    while asking.is_alive():
        others += sql.ask("GET", "/info").status == 200
    assert others > 1
    assert answers == [400]


def test_a_client_that_takes_nothing_is_waited_for_and_forgotten_when_it_goes(sql: SqlProcess, name: str) -> None:
    sql.ksql(f"CREATE STREAM {name} (v STRING) WITH (kafka_topic='{name}', value_format='JSON', partitions=1);")
    row = f"INSERT INTO {name} VALUES ('{'x' * 400_000}');"
    for _ in range(30):
        sql.ksql(row)
    place = urllib.parse.urlsplit(sql.url)
    assert place.port is not None
    body = json.dumps(
        {"sql": f"SELECT * FROM {name} EMIT CHANGES;", "properties": {"auto.offset.reset": "earliest"}}
    ).encode()
    head = f"POST /query-stream HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    before = _rows_given(sql)
    with socket.create_connection(("127.0.0.1", place.port)) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.sendall(head + body)
        assert client.recv(10)
        until(lambda: "transient" in str(sql.ksql("LIST QUERIES;")), "the query")
        assert _rows_given(sql) - before < 30, "what a client does not take is not read"
    until(lambda: f"transient_{name.upper()}_" not in str(sql.ksql("LIST QUERIES;")), "the end of the query")


def _rows_given(sql: SqlProcess) -> int:
    lines = sql.ask("GET", "/metrics").body.splitlines()
    return int(next(line for line in lines if line.startswith("ottla_sql_push_rows_total")).split()[1])


def test_a_like_that_backtracks_elsewhere_answers_and_keeps_nobody_waiting(sql: SqlProcess, name: str) -> None:
    sql.ksql(f"CREATE STREAM {name} (v STRING) WITH (kafka_topic='{name}', value_format='JSON', partitions=1);")
    sql.ksql(f"INSERT INTO {name} VALUES ('{'a' * 300}'); INSERT INTO {name} VALUES ('{'a' * 300}b');")
    like = "v LIKE '%a%a%a%ab'"
    sql.wait_rows(f"SELECT LEN(v) AS n FROM {name} WHERE {like};", [[301]])
    earliest = {"auto.offset.reset": "earliest"}
    rows = sql.rows(f"SELECT LEN(v) AS n FROM {name} WHERE {like} EMIT CHANGES LIMIT 1;", **earliest)
    assert rows == [[301]]
    pattern = "REGEXP_EXTRACT('(a+)+$', v)"
    assert sql.rows(f"SELECT LEN({pattern}) AS n FROM {name};") == [[300], [None]]


def test_a_pattern_of_terminate_that_takes_too_long_ends_nothing(sql: SqlProcess, name: str) -> None:
    topic = "a" * 80 + name
    sql.ksql(f"CREATE STREAM {name} (v INT) WITH (kafka_topic='{topic}', value_format='JSON', partitions=1);")
    body = json.dumps({"deleteTopicList": ["(?=a)(a|aa)+!"]}).encode()
    refused = sql.ask("POST", "/ksql/terminate", body)
    assert (refused.status, "look-ahead" in refused.body["message"]) == (400, True), refused.body
    assert name in str(sql.ksql("LIST STREAMS;"))
