"""What changes while the SQL server waits: bounds hold for those who come at once, a name that is taken again is kept."""

from __future__ import annotations

import asyncio
from typing import Any

from ottla.sql import parse_statement
from ottla.sql.tree import statements as s
from ottla.sql_server.errors import StatementError
from ottla.sql_server.rest.instance import Instance
from tests.server import Server
from tests.sql_server.test_tables import instance, write
from tests.waiting import until_async


def table(name: str) -> dict[str, Any]:
    columns = "k STRING PRIMARY KEY, v INT"
    return {"ksql": f"CREATE TABLE {name} ({columns}) WITH (kafka_topic='{name}', format='JSON', partitions=1);"}


async def rows(found: Instance, text: str) -> list[Any]:
    """Ask a pull query without a connection; returns its rows."""
    statement = parse_statement(text)
    assert isinstance(statement, s.QueryStatement)
    answer = await found.server.pulling.answer(statement.query, text, {})
    return [row for batch in [each async for each in answer.rows] for row in batch]


def test_a_table_that_is_being_read_does_not_make_room_for_another(broker: Server) -> None:
    async def story() -> None:
        async with instance(broker.bootstrap, "room_", ottla_sql_followed_tables_max="1") as (found, ask):
            for name in ("room1", "room2"):
                assert (await ask("POST", "/ksql", table(name))).status == 200
                await asyncio.to_thread(write, broker, name, (b'"a"', b'{"V":1}'))
            for _ in range(5):
                asked = [rows(found, f"SELECT v FROM {name};") for name in ("room1", "room2")]
                answers = await asyncio.gather(*asked, return_exceptions=True)
                refused = [each for each in answers if isinstance(each, BaseException)]
                assert all("as many as this server follows" in str(each) for each in refused), refused
                read = [each for each in answers if not isinstance(each, BaseException)]
                assert read and all(len(each) == 1 for each in read), answers
            assert found.server.pulling.followed == 1

    asyncio.run(story())


def test_push_queries_that_come_at_once_are_no_more_than_are_allowed(broker: Server) -> None:
    async def story() -> None:
        async with instance(broker.bootstrap, "most_", max_push_queries="2") as (found, ask):
            made = "CREATE STREAM most (v INT) WITH (kafka_topic='most', format='JSON', partitions=1);"
            assert (await ask("POST", "/ksql", {"ksql": made})).status == 200
            text = "SELECT v FROM most EMIT CHANGES;"
            query = parse_statement(text)
            assert isinstance(query, s.QueryStatement)
            pushing = found.server.pushing
            begun = await asyncio.gather(
                *(pushing.begin(query.query, text, {}) for _ in range(5)), return_exceptions=True
            )
            refused = [each for each in begun if isinstance(each, BaseException)]
            assert len(refused) == 3 and all(isinstance(each, StatementError) for each in refused)
            assert len(pushing.queries) == 2

    asyncio.run(story())


def test_a_query_with_the_name_of_one_that_is_ending_runs_and_ends(broker: Server) -> None:
    async def story() -> None:
        async with instance(broker.bootstrap, "again_") as (found, ask):
            for name in ("again1", "again2"):
                made = f"CREATE STREAM {name} (v INT) WITH (kafka_topic='{name}', format='JSON', partitions=1);"
                assert (await ask("POST", "/ksql", {"ksql": made})).status == 200
            hosts = found.server.hosts
            begin = {"ksql": "INSERT INTO again2 WITH (query_id='again') SELECT v FROM again1;"}
            await until_async(lambda: hosts.has_office)
            for _ in range(3):
                answer = await ask("POST", "/ksql", begin)
                assert answer.status == 200, answer.body
                await until_async(lambda: hosts.is_running("AGAIN"))
                assert (await ask("POST", "/ksql", {"ksql": "TERMINATE again;"})).status == 200
            assert (await ask("POST", "/ksql", begin)).status == 200
            await hosts.settled()
            await until_async(lambda: hosts.is_running("AGAIN"))
            await asyncio.to_thread(write, broker, "again1", (None, b'{"V":1}'))
            await until_async(lambda: hosts.facts("AGAIN") != {})

    asyncio.run(story())
