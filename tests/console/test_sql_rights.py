"""What users may have a SQL server do, which works under its own principal: their own rights decide, and masks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, get_args

import pytest
from hypothesis import given

from ottla.console.api.sql_sight import Sight
from ottla.console.places import Place
from ottla.console.rights import Rights
from ottla.console.sql_statements import CHANGE, KINDS, OTHER, QUERY, READ, judged, needs_of
from ottla.security import CLUSTER_NAME, Operation, Resource
from ottla.sql import SqlError, single_statement, statement_text
from ottla.sql.tree import statements as s
from tests.console.running import RunningConsole
from tests.console.secured import console_with_logins, entry, give, password, properties, secured_server
from tests.console.test_console import opened
from tests.server import Server
from tests.sql import trees
from tests.sql_server.running import SqlProcess, running_sql
from tests.waiting import until

ALL = (
    "CREATE STREAM apples (id STRING KEY, price INT) WITH (kafka_topic='apples', value_format='JSON', partitions=1);",
    "CREATE STREAM pears (id STRING KEY, price INT) WITH (kafka_topic='pears', value_format='JSON', partitions=1);",
    "CREATE STREAM cards (id STRING KEY, no STRING) WITH (kafka_topic='acards', value_format='JSON', partitions=1);",
    "CREATE STREAM copied WITH (kafka_topic='acopied') AS SELECT id, no AS renamed FROM cards;",
    "CREATE STREAM twice WITH (kafka_topic='atwice') AS SELECT id, LEN(renamed) AS n FROM copied;",
    "CREATE STREAM poured (id STRING KEY, n STRING) WITH (kafka_topic='apoured', value_format='JSON', partitions=1);",
    "INSERT INTO poured SELECT id, no AS n FROM cards;",
    "CREATE STREAM over (id STRING KEY) WITH (kafka_topic='acopied', value_format='JSON');",
    "CREATE STREAM dear WITH (kafka_topic='adear') AS SELECT * FROM pears WHERE id = 'hush-hush';",
)
MASKS = [{"topics": "acards", "path": "value.no", "except": ["root"]}]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with secured_server(tmp_path_factory.mktemp("broker"), tokens=True) as found:
        described = [entry(user, Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME) for user in ("ann",)]
        with ThreadPoolExecutor(1) as thread:
            thread.submit(give, found, described).result()
        yield found


@pytest.fixture(scope="module")
def sql(server: Server) -> Iterator[SqlProcess]:
    settings = [f"{key}={value}" for key, value in properties("root").items()]
    with running_sql(server.bootstrap, overrides=settings) as found:
        for each in ALL:
            found.ksql(each)
        found.ksql("INSERT INTO apples (id, price) VALUES ('a', 1);")
        yield found


@pytest.fixture(scope="module")
def console(server: Server, sql: SqlProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningConsole]:
    folder = tmp_path_factory.mktemp("console")
    (folder / "masks.json").write_text(json.dumps(MASKS))
    more = [f"ottla.console.sql.url={sql.url}", f"ottla.console.masks.file={folder / 'masks.json'}"]
    options = [part for each in more for part in ("--override", each)]
    with console_with_logins(server, folder, *options) as found:
        yield found


@pytest.fixture(scope="module")
def ann(console: RunningConsole) -> RunningConsole:
    return console.as_user("ann", password("ann"))


@pytest.fixture(scope="module")
def bob(console: RunningConsole) -> RunningConsole:
    return console.as_user("bob", password("bob"))


@pytest.fixture(scope="module")
def root(console: RunningConsole) -> RunningConsole:
    return console.as_user("root", password("root"))


def asked(session: RunningConsole, statement: str) -> dict[str, Any]:
    """The first frame of a query: its columns, or why not."""

    async def first() -> dict[str, Any]:
        async with opened(session) as socket:
            args = {"statement": statement, "from": "earliest"}
            await socket.send_json({"sub": 1, "kind": "sql", "args": args})
            found: dict[str, Any] = await asyncio.wait_for(socket.receive_json(), 60)
            return found

    return asyncio.run(first())


def there_is(sql: SqlProcess) -> list[Any]:
    """All that a server knows of, and its topics."""
    told = sql.ksql("SHOW STREAMS; SHOW TABLES; SHOW ALL TOPICS; SHOW TYPES; SHOW PROPERTIES;")
    running = [each["id"] for each in sql.ksql("SHOW QUERIES;")[0]["queries"] if each["queryType"] == "PERSISTENT"]
    return [*told, sorted(running)]


HOSTILE = (
    "DROP STREAM dear DELETE TOPIC;",
    "SELECT * FROM apples EMIT CHANGES; DROP STREAM dear DELETE TOPIC;",
    "/* SELECT 1 */ DROP STREAM dear DELETE TOPIC;",
    "-- SELECT * FROM apples;\nDROP STREAM dear DELETE TOPIC",
    "EXPLAIN SELECT * FROM apples EMIT CHANGES; CREATE STREAM stolen AS SELECT * FROM pears;",
    "SHOW STREAMS; TERMINATE ALL;",
    "SELECT ';' FROM apples EMIT CHANGES; TERMINATE ALL; SELECT * FROM apples EMIT CHANGES;",
    "CREATE STREAM stolen AS SELECT * FROM pears;",
    "CREATE STREAM stolen (id STRING) WITH (kafka_topic='pears', value_format='JSON');",
    "INSERT INTO apples SELECT * FROM pears;",
    "INSERT INTO apples (id, price) VALUES ('b', 2);",
    "CREATE TYPE t AS STRUCT<a INT>;",
    "PAUSE ALL;",
    "ALTER SYSTEM 'ksql.streams.x'='y';",
    "SET 'auto.offset.reset'='earliest';",
    "DEFINE x = 'pears';",
    "CREATE SOURCE CONNECTOR c WITH ('connector.class'='x');",
    "ASSERT TOPIC pears;",
    "RUN SCRIPT '/etc/passwd';",
    "SHOW PROPERTIES;",
    "DESCRIBE apples EXTENDED;",
    "SHOW STREAMS EXTENDED;",
)


@pytest.mark.parametrize("who", ["ann", "bob"])
def test_who_may_not_changes_nothing_by_any_text_at_any_door(
    who: str, sql: SqlProcess, request: pytest.FixtureRequest
) -> None:
    session, before = request.getfixturevalue(who), there_is(sql)
    for text in HOSTILE:
        frame = asked(session, text)
        assert frame["type"] == "error" and frame["error_code"] in (400, 40300), (text, frame)
        read = session.post("/sql/read", {"statement": text})
        assert read.status in (400, 403), (text, read)
        plan = session.post("/plans", {"action": "sql-statement", "arguments": {"statement": text}})
        assert plan.status == 403 and "ALTER" in plan.body["message"], (text, plan)
    assert there_is(sql) == before


def test_a_query_needs_read_on_what_it_reads_and_no_more(ann: RunningConsole, bob: RunningConsole) -> None:
    assert asked(ann, "SELECT * FROM apples EMIT CHANGES;")["type"] == "columns"
    assert asked(ann, "select `ID` as x from APPLES a where a.price > 0 emit changes")["type"] == "columns"
    refused = asked(bob, "SELECT * FROM apples EMIT CHANGES;")
    assert refused["error_code"] == 40300 and "needs DESCRIBE on the cluster" in refused["message"]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM {} EMIT CHANGES;",
        "SELECT a.id FROM apples a JOIN {} b WITHIN 1 HOURS ON a.id = b.id EMIT CHANGES;",
        "/* SELECT * FROM apples -- */ SELECT * FROM {} EMIT CHANGES;",
        "SELECT '/*' FROM `{}` x EMIT CHANGES /* FROM apples */;",
    ],
)
def test_what_may_not_be_known_looks_like_what_is_not_there(ann: RunningConsole, text: str) -> None:
    hidden, missing = asked(ann, text.format("PEARS")), asked(ann, text.format("NOSUCH"))
    assert hidden == {**missing, "message": missing["message"].replace("NOSUCH", "PEARS")}, hidden
    assert "There is no stream or table" in hidden["message"]
    for words in ("EXPLAIN " + text,):
        hidden, missing = (ann.post("/sql/read", {"statement": words.format(each)}) for each in ("PEARS", "NOSUCH"))
        assert (hidden.status, hidden.body) == (404, {**missing.body, "message": "There is no stream or table PEARS"})
    assert ann.ask("GET", "/api/c/cluster/sql/sources/PEARS").status == 404
    described = [ann.post("/sql/read", {"statement": f"DESCRIBE {each};"}).status for each in ("pears", "nosuch")]
    assert described == [404, 404]


def test_lists_and_plans_tell_what_one_may_see_alone(ann: RunningConsole, root: RunningConsole) -> None:
    told = json.dumps(ann.get("/sql"))
    for words in ("SHOW STREAMS;", "SHOW TOPICS;", "SHOW QUERIES;", "DESCRIBE apples;", "LIST TABLES;"):
        told += json.dumps(ann.post("/sql/read", {"statement": words}).body)
    assert "apples" in told and "pears" not in told.lower() and "hush-hush" not in told, told
    ids = [each["id"] for each in root.get("/sql")["queries"]]
    assert len(ids) == 4 and "hush-hush" in json.dumps(root.get("/sql"))
    for each in ids:  # all of them read what is masked from ann, or what she may not see
        hidden, missing = (ann.post("/sql/read", {"statement": f"EXPLAIN {id_};"}) for id_ in (each, "NOSUCH_1"))
        assert (hidden.status, hidden.body["message"]) == (404, f"There is no query {each}"), hidden
        assert missing.status == 404
    [plan] = [id_ for id_ in ids if "DEAR" in id_]
    assert root.post("/sql/read", {"statement": f"EXPLAIN {plan};"}).body["answers"][0]["kind"] == "plan"


@pytest.mark.parametrize("name", ["cards", "copied", "twice", "poured", "over"])
def test_what_is_made_of_a_masked_topic_is_masked(ann: RunningConsole, root: RunningConsole, name: str) -> None:
    for text in (
        f"SELECT * FROM {name} EMIT CHANGES;",
        f"SELECT 1 AS one FROM {name} EMIT CHANGES;",
        f"SELECT 1 AS one FROM apples a JOIN {name} b WITHIN 1 HOURS ON a.id = b.id EMIT CHANGES;",
    ):
        frame = asked(ann, text)
        assert frame.get("error_code") == 40302 and "acards is masked" in frame["message"], frame
        assert ann.post("/sql/read", {"statement": f"EXPLAIN {text}"}).status == 403
    assert asked(root, f"SELECT * FROM {name} EMIT CHANGES;")["type"] == "columns"


def test_a_plan_has_one_statement_as_it_is_sent_and_no_secret(root: RunningConsole) -> None:
    plan = root.post("/plans", {"action": "sql-statement", "arguments": {"statement": "/* a */ drop stream over"}})
    assert plan.body["diff"][0]["after"] == "DROP STREAM OVER;", plan
    twice = root.post(
        "/plans", {"action": "sql-statement", "arguments": {"statement": "DROP STREAM a; DROP STREAM b;"}}
    )
    assert twice.status == 400 and "one statement" in twice.body["message"], twice
    secret = "CREATE SINK CONNECTOR c WITH ('connector.class'='x', 'db.password'='hush');"
    refused = root.post("/plans", {"action": "sql-statement", "arguments": {"statement": secret}})
    assert refused.status == 400 and "hush" not in json.dumps(refused.body), refused


def test_no_more_queries_run_than_one_user_may_have(ann: RunningConsole) -> None:
    async def run() -> list[dict[str, Any]]:
        found = []
        async with opened(ann) as first, opened(ann) as second:
            for number in range(8):
                args = {"statement": "SELECT * FROM apples EMIT CHANGES;"}
                await first.send_json({"sub": number, "kind": "sql", "args": args})
                found.append(await asyncio.wait_for(first.receive_json(), 60))
            await second.send_json({"sub": 1, "kind": "sql", "args": args})
            found.append(await asyncio.wait_for(second.receive_json(), 60))
        return found

    *most, last = asyncio.run(run())
    assert {each["type"] for each in most} == {"columns"}, most
    assert last["type"] == "error" and last["error_code"] == 429, last
    until(lambda: asked(ann, "SELECT * FROM apples EMIT CHANGES;")["type"] == "columns")


def test_every_kind_of_statement_says_what_it_needs() -> None:
    assert set(KINDS) == set(get_args(s.Statement)), "a kind that is not in the table is for nobody: say what it needs"


@given(trees.STATEMENTS)
def test_what_is_sent_is_what_was_judged(tree: s.Statement) -> None:
    needs = needs_of(tree) if not isinstance(tree, s.CreateSource | s.CreateAs) else None
    if needs is not None and needs.kind == OTHER:
        return
    try:
        found = judged(statement_text(tree))
    except SqlError:
        return  # of scripts of tests, or with two topics
    assert found.tree == tree == single_statement(found.text)
    assert found.needs.kind in (QUERY, READ, CHANGE) and found.needs.cluster


def test_who_may_alter_the_cluster_sees_no_query_and_no_offsets_of_topics_that_are_hidden() -> None:
    """Without masks, EXTENDED is for who may ALTER the cluster, whatever topics that one may see."""
    nothing: Any = None
    topics = {"APPLES": "apples", "PEARS": "pears", "RED": "red"}
    rights = Rights(frozenset({"DESCRIBE", "ALTER"}), {"apples": frozenset({"READ"}), "red": frozenset({"READ"})})
    sight = Sight(Place(nothing, nothing, nothing), rights, topics, {})

    def query(source: str) -> dict[str, Any]:
        text = f"CREATE STREAM RED AS SELECT * FROM {source} WHERE ID = '{source}';"
        return {"id": f"Q_{source}", "statementText": text, "sinks": ["RED"], "topology": f"Source: {source}"}

    answer = {
        "@type": "queryDescriptions",
        "statementText": "SHOW QUERIES EXTENDED;",
        "queryDescriptions": [query("APPLES"), query("PEARS")],
        "topicSummaries": [{"kafkaTopic": each, "offsets": []} for each in ("apples", "pears")],
    }
    [told] = asyncio.run(sight.told([answer]))
    assert told["queryDescriptions"] == [query("APPLES")]
    assert told["topicSummaries"] == [{"kafkaTopic": "apples", "offsets": []}]
    assert told["statementText"] == answer["statementText"]


def test_a_kind_that_is_not_known_is_for_nobody() -> None:
    class Made:
        pass

    assert needs_of(Made()).kind == OTHER  # type: ignore[arg-type]
