"""Tables that are followed: rows that nobody thought of cost themselves, and a follower that ends is not passed over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from ottla.background import failure_counts
from ottla.base import TopicPartition
from ottla.client import BlockingClient, batch_of
from ottla.sql import parse_statement
from ottla.sql.tree.statements import QueryStatement
from ottla.sql_server.errors import PUSH_LIMIT, StatementError
from ottla.sql_server.rest.instance import Instance
from ottla.sql_server.settings import server_settings
from tests.background.killing import kill, named
from tests.server import Server
from tests.sql_server.running import Asked, SqlProcess

Entry = tuple[bytes | None, bytes | None]


def write(broker: Server, topic: str, *records: Entry) -> None:
    with BlockingClient(broker.bootstrap) as client:
        client.metadata([topic])
        client.run(client.client.produce({TopicPartition(topic, 0): batch_of(records)}))


def make_table(sql: SqlProcess, name: str, columns: str) -> None:
    sql.ksql(f"CREATE TABLE {name} ({columns}) WITH (kafka_topic='{name}', format='JSON', partitions=1);")


def test_a_key_of_half_a_character_costs_no_row_of_a_table(broker: Server, sql: SqlProcess, name: str) -> None:
    make_table(sql, name, "k STRING PRIMARY KEY, v INT")
    write(broker, name, (b'"a"', b'{"V":1}'), (b'"\\ud800"', b'{"V":2}'), (b'"b"', b'{"V":3}'))
    sql.wait_rows(f"SELECT v FROM {name} WHERE k >= 'a' AND k <= 'b';", [[1], [3]])
    write(broker, name, (b'"a"', b'{"V":4}'))
    sql.wait_rows(f"SELECT v FROM {name} WHERE k = 'a';", [[4]])
    sql.wait_rows(f"SELECT v FROM {name};", [[4], [2], [3]])
    assert sql.ask("GET", "/healthcheck").status == 200


def test_a_far_date_is_told_and_so_are_the_other_rows(broker: Server, sql: SqlProcess, name: str) -> None:
    make_table(sql, name, "k STRING PRIMARY KEY, d DATE, t TIMESTAMP")
    far = (b'"far"', b'{"D":10000000,"T":100000000000000000}')
    write(broker, name, (b'"a"', b'{"D":0,"T":0}'), far, (b'"b"', b'{"D":-1000000,"T":-1000000000000000}'))
    rows = [
        ["a", "1970-01-01", "1970-01-01T00:00:00.000"],
        ["far", "+29349-01-26", "+3170843-11-07T09:46:40.000"],
        ["b", "-0768-02-04", "-29719-04-05T22:13:20.000"],
    ]
    sql.wait_rows(f"SELECT * FROM {name};", rows)


def test_a_row_whose_place_no_table_has_is_told_and_the_others_are_kept(
    broker: Server, sql: SqlProcess, name: str
) -> None:
    columns = "k STRING PRIMARY KEY, v INT"
    window = "window_type='TUMBLING', window_size='1 SECONDS'"
    sql.ksql(f"CREATE TABLE {name} ({columns}) WITH (kafka_topic='{name}', format='JSON', partitions=1, {window});")
    last = (2**63 - 1).to_bytes(8, "big")
    write(broker, name, (b'"a"' + last, b'{"V":1}'), (b'"a"' + bytes(8), b'{"V":2}'))
    sql.wait_rows(f"SELECT v FROM {name};", [[2]])
    assert f"a row of table {name}, offset 0 of partition 0 of {name}, cannot be kept" in sql.said()


@asynccontextmanager
async def instance(
    bootstrap: str, service: str, **more: str
) -> AsyncIterator[tuple[Instance, Callable[..., Awaitable[Asked]]]]:
    """An SQL server in this process, and what asks it."""
    properties = {
        "bootstrap.servers": bootstrap,
        "listeners": "http://127.0.0.1:0",
        "ksql.service.id": service,
        "ottla.sql.engine": "python",
        **{name.replace("_", "."): value for name, value in more.items()},
    }
    found = Instance(server_settings(properties, {}))
    await found.start()
    client = SqlProcess(None, f"http://127.0.0.1:{found.addresses[0].port}")  # type: ignore[arg-type]

    async def ask(*args: object) -> Asked:
        return await asyncio.to_thread(client.ask, *args)  # type: ignore[arg-type]

    try:
        yield found, ask
    finally:
        await found.stop()


def test_a_table_whose_follower_has_ended_answers_nobody_until_it_is_read_anew(broker: Server) -> None:
    async def story() -> None:
        async with instance(broker.bootstrap, "followers_") as (_, ask):
            made = "CREATE TABLE f (k STRING PRIMARY KEY, v INT) WITH (kafka_topic='f', format='JSON', partitions=1);"
            assert (await ask("POST", "/ksql", {"ksql": made})).status == 200
            query = {"sql": "SELECT v FROM f;"}
            assert (await ask("POST", "/query-stream", query)).body
            assert (await ask("GET", "/healthcheck")).status == 200
            [follower] = named("follow F")
            kill(follower)
            await asyncio.wait([follower])
            sick = await ask("GET", "/healthcheck")
            assert (sick.status, sick.body["details"]["pullQueries"]["tables"]) == (503, ["F"])
            await asyncio.to_thread(write, broker, "f", (b'"a"', b'{"V":7}'))
            latest = {**query, "properties": {"ottla.sql.pull.consistency": "latest"}}
            assert "[7]" in str((await ask("POST", "/query-stream", latest)).body)
            assert (await ask("GET", "/healthcheck")).status == 200
            [again] = named("follow F")
            assert again is not follower

    asyncio.run(story())
    assert failure_counts()["table F"] == 1


def test_a_query_that_waits_for_rows_hears_that_their_follower_has_ended(broker: Server) -> None:
    async def story() -> None:
        async with instance(broker.bootstrap, "waiting_") as (found, ask):
            made = "CREATE TABLE w (k STRING PRIMARY KEY, v INT) WITH (kafka_topic='w', format='JSON', partitions=1);"
            assert (await ask("POST", "/ksql", {"ksql": made})).status == 200
            assert (await ask("POST", "/query-stream", {"sql": "SELECT v FROM w;"})).status == 200
            position = '{"w":{"0":5}}'
            asked = {"sql": "SELECT v FROM w;", "properties": {"ottla.sql.pull.position": position}}
            waiting = asyncio.ensure_future(ask("POST", "/query-stream", asked))
            await asyncio.wait([waiting], timeout=0.5)
            assert not waiting.done(), waiting.result()
            kill(named("follow W")[0])
            answer = await waiting
            assert answer.status == 500
            assert "Table W is not followed any more" in answer.body["message"]
            assert found.server.pulling.failed == ["W"]

    asyncio.run(story())


def test_the_rows_of_tables_are_counted_as_they_change(broker: Server) -> None:
    async def story() -> None:
        async with instance(broker.bootstrap, "counting_") as (found, ask):
            made = "CREATE TABLE n (k STRING PRIMARY KEY, v INT) WITH (kafka_topic='n', format='JSON', partitions=1);"
            assert (await ask("POST", "/ksql", {"ksql": made})).status == 200
            a, b = b'"a"', b'"b"'
            written = ((a, b'{"V":1}'), (a, b'{"V":2}'), (b, b'{"V":3}'), (b'"c"', None), (b, None), (b, None))
            query = {"sql": "SELECT k, v FROM n;", "properties": {"ottla.sql.pull.consistency": "latest"}}
            counts = []
            for each in written:
                await asyncio.to_thread(write, broker, "n", each)
                assert (await ask("POST", "/query-stream", query)).status == 200
                counts.append(found.server.pulling.rows)
            assert counts == [1, 1, 2, 2, 1, 1]
            assert "ottla_sql_followed_rows 1\n" in (await ask("GET", "/metrics")).body

    asyncio.run(story())


def test_a_table_that_begins_or_is_waited_for_makes_no_room_for_another(broker: Server) -> None:
    """One may be followed; whoever asks for another meanwhile is refused, and the first one has its answer."""

    async def story() -> None:
        async with instance(broker.bootstrap, "room_", ottla_sql_followed_tables_max="1") as (found, ask):
            for name in ("r1", "r2"):
                columns = "(k STRING PRIMARY KEY, v INT)"
                made = f"CREATE TABLE {name} {columns} WITH (kafka_topic='{name}', format='JSON', partitions=1);"
                assert (await ask("POST", "/ksql", {"ksql": made})).status == 200
            position = {"ottla.sql.pull.position": '{"r1":{"0":1}}'}
            first = asyncio.ensure_future(
                ask("POST", "/query-stream", {"sql": "SELECT v FROM r1;", "properties": position})
            )
            while not (found.server.pulling.followed and named("follow R1")):
                await asyncio.wait([first], timeout=0.01)
            second = await ask("POST", "/query-stream", {"sql": "SELECT v FROM r2;"})
            assert (second.status, second.body["error_code"]) == (429, 42900), second
            assert "ottla.sql.followed.tables.max" in second.body["message"]
            await asyncio.to_thread(write, broker, "r1", (b'"a"', b'{"V":7}'))
            answer = await first
            assert answer.status == 200 and "[7]" in str(answer.body), answer
            assert (await ask("POST", "/query-stream", {"sql": "SELECT v FROM r2;"})).status == 200

    asyncio.run(story())


def test_push_queries_that_are_planned_at_the_same_time_keep_to_their_limit(broker: Server) -> None:
    async def story() -> None:
        async with instance(broker.bootstrap, "pushes_", max_push_queries="2") as (found, ask):
            made = "CREATE STREAM p (v INT) WITH (kafka_topic='p', value_format='JSON', partitions=1);"
            assert (await ask("POST", "/ksql", {"ksql": made})).status == 200
            begin = found.server.pushing.begin
            statement = parse_statement("SELECT v FROM p EMIT CHANGES;")
            assert isinstance(statement, QueryStatement)
            begun = await asyncio.gather(
                *(begin(statement.query, "SELECT", {}) for _ in range(8)), return_exceptions=True
            )
            refused = [each for each in begun if isinstance(each, StatementError)]
            assert [each.code for each in refused] == [PUSH_LIMIT] * 6, begun
            assert len(found.server.pushing.queries) == 2

    asyncio.run(story())
