"""Pull queries over several tables, and waiting for positions, against a server."""

from __future__ import annotations

import json

import pytest

from tests.server import Server
from tests.sql_server.running import SqlProcess, running_sql


@pytest.fixture
def shop(sql: SqlProcess, name: str) -> str:
    """A stream of orders, a table of what was sold, made through a repartition topic, and one of items."""
    sql.ksql(
        f"CREATE STREAM {name} (id STRING KEY, item STRING, qty INT) WITH (kafka_topic='{name}', value_format='JSON', "
        "partitions=2);"
        f"CREATE TABLE {name}_items (item STRING PRIMARY KEY, price DECIMAL(6, 2)) WITH (kafka_topic='{name}_items', "
        "value_format='JSON', partitions=1);"
        f"CREATE TABLE {name}_sold AS SELECT item, SUM(qty) AS n FROM {name} GROUP BY item;"
        f"INSERT INTO {name}_items VALUES ('fig', 0.5); INSERT INTO {name}_items VALUES ('pear', 2.25);"
    )
    for number, (item, qty) in enumerate([("fig", 1), ("fig", 2), ("pear", 5), ("lime", 1)]):
        sql.ksql(f"INSERT INTO {name} VALUES ('o{number}', '{item}', {qty});")
    return name


def test_tables_are_joined_grouped_and_ordered(sql: SqlProcess, shop: str) -> None:
    joined = f"FROM {shop}_sold s LEFT JOIN {shop}_items i ON s.item = i.item"
    sql.wait_rows(
        f"SELECT s.item, n, n * price AS paid {joined};", [["fig", 3, 1.5], ["pear", 5, 11.25], ["lime", 1, None]]
    )
    assert sql.rows(f"SELECT s.item {joined} ORDER BY n DESC LIMIT 2;") == [["pear"], ["fig"]]
    assert sql.rows(f"SELECT COUNT(*), SUM(n) {joined} WHERE price IS NOT NULL;") == [[2, 8]]
    found = sql.ask("POST", "/query", {"ksql": f"SELECT s.item {joined} WHERE s.item = 'fig';"}).body
    assert set(found[0]["header"]["position"]) == {f"{shop.upper()}_SOLD", f"{shop}_items"}


def test_a_query_waits_for_what_was_written_to_the_topic_behind_a_table(sql: SqlProcess, shop: str) -> None:
    for number in range(3):
        sql.ksql(f"INSERT INTO {shop} VALUES ('again', 'kiwi', 1);")
        place = sql.rows(f"SELECT rowpartition, rowoffset FROM {shop} WHERE id = 'again';")[-1]
        position = {shop: {str(place[0]): place[1] + 1}}
        given = {"ottla_sql_pull_position": json.dumps(position)}
        assert sql.rows(f"SELECT n FROM {shop}_sold WHERE item = 'kiwi';", **given) == [[number + 1]]


def test_a_query_waits_for_the_position_of_another_answer(sql: SqlProcess, shop: str) -> None:
    text = f"SELECT price FROM {shop}_items WHERE item = 'fig';"
    latest = {"ksql": text, "streamsProperties": {"ottla.sql.pull.consistency": "latest"}}
    for price in (1.25, 1.5):
        sql.ksql(f"INSERT INTO {shop}_items VALUES ('fig', {price});")
        position = sql.ask("POST", "/query", latest).body[0]["header"]["position"]
        assert sql.rows(text, ottla_sql_pull_position=json.dumps(position)) == [[price]]


@pytest.mark.parametrize(
    ("position", "said"),
    [("1", "has to be an object"), ('{"other": {"0": 1}}', "not read for"), ('{"TOPIC": {"7": 1}}', "has not")],
)
def test_a_position_that_says_nothing_is_refused(sql: SqlProcess, shop: str, position: str, said: str) -> None:
    body = {
        "ksql": f"SELECT * FROM {shop}_items;",
        "streamsProperties": {"ottla.sql.pull.position": position.replace("TOPIC", f"{shop}_items")},
    }
    found = sql.ask("POST", "/query", body)
    assert (found.status, said in found.body["message"]) == (400, True), found


def test_bounds_are_named_where_they_are_met(broker: Server, sql: SqlProcess, shop: str) -> None:
    limits = ("ksql.service.id=bounds_", "ottla.sql.pull.rows.max=5", "ottla.sql.followed.tables.max=1")
    with running_sql(broker.bootstrap, overrides=limits) as small:
        small.ksql(
            f"CREATE TABLE i (item STRING PRIMARY KEY, price DECIMAL(6, 2)) WITH (kafka_topic='{shop}_items', "
            f"value_format='JSON'); CREATE TABLE s (item STRING PRIMARY KEY, n INT) WITH (kafka_topic='{shop}_items', "
            "value_format='JSON');"
        )
        assert (
            "ottla.sql.followed.tables.max"
            in small.refused("SELECT i.item FROM i JOIN s ON i.item = s.item;", "/query")[2]
        )
        assert len(small.rows("SELECT item FROM i ORDER BY item;")) == 2
        for number in range(4):
            small.ksql(f"INSERT INTO i VALUES ('x{number}', 1.00);")
        latest = {"ottla_sql_pull_consistency": "latest"}
        assert len(small.rows("SELECT item FROM i WHERE item = 'x1' ORDER BY item;", **latest)) == 1
        status, _, said = small.refused("SELECT item FROM i ORDER BY item;", "/query")
        assert (status, "ottla.sql.pull.rows.max" in said) == (400, True)
