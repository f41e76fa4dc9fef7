"""The SQL page's interface over a real SQL server: what there is, statements as plans, rows as they come, and refusals."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.console.running import RunningConsole, running_console
from tests.console.test_console import frames_of, opened
from tests.console.visits import WCAG, Visit, needs_chromium, sideways
from tests.server import running_server
from tests.sql_server.running import SqlProcess, running_sql
from tests.waiting import until

ORDERS = """CREATE STREAM orders (id STRING KEY, amount DECIMAL(9, 2), tags ARRAY<STRING>)
  WITH (kafka_topic='orders', value_format='JSON', partitions=1);"""


@pytest.fixture(scope="module")
def sql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlProcess]:
    with running_server(tmp_path_factory.mktemp("broker")) as server, running_sql(server.bootstrap) as found:
        found.lines.append(f"brokers {server.bootstrap}")
        yield found


def brokers(sql: SqlProcess) -> str:
    return next(each.split()[1] for each in sql.lines if each.startswith("brokers "))


@pytest.fixture(scope="module")
def console(sql: SqlProcess) -> Iterator[RunningConsole]:
    with running_console(brokers(sql), "--override", f"ottla.console.sql.url={sql.url}") as found:
        assert found.run("sql-statement", statement=ORDERS).body["outcome"] == "done"
        yield found


def asked(console: RunningConsole, statement: str, **more: str) -> list[Any]:
    """The frames of a query, to its first rows, end or error."""

    async def frames() -> list[Any]:
        found = []
        async with opened(console) as socket:
            await socket.send_json({"sub": 1, "kind": "sql", "args": {"statement": statement, **more}})
            while not found or found[-1]["type"] == "columns":
                found.append(await asyncio.wait_for(socket.receive_json(), 60))
        return found

    return asyncio.run(frames())


def test_what_there_is_is_listed_with_columns_and_queries(console: RunningConsole, sql: SqlProcess) -> None:
    made = console.run("sql-statement", statement="CREATE STREAM large AS SELECT * FROM orders WHERE amount > 100;")
    assert made.body["outcome"] == "done", made
    found = console.get("/sql")
    assert (found["url"], found["error"]) == (sql.url, "")
    assert [(each["name"], each["topic"], each["value_format"]) for each in found["streams"]] == [
        ("LARGE", "LARGE", "JSON"),
        ("ORDERS", "orders", "JSON"),
    ]
    [query] = found["queries"]
    assert query["sinks"] == ["LARGE"] and query["state"] == "RUNNING"
    fields = console.get("/sql/sources/ORDERS")["fields"]
    assert [(each["name"], each["type"], each["key"]) for each in fields] == [
        ("ID", "STRING", True),
        ("AMOUNT", "DECIMAL(9, 2)", False),
        ("TAGS", "ARRAY<STRING>", False),
    ]
    assert console.ask("GET", "/api/c/cluster/sql/sources/nothing").status == 404
    newest = console.get("/audit")["items"][0]
    assert newest["action"] == "sql-statement" and "CREATE STREAM LARGE AS SELECT" in newest["diff"][0]["after"]


def test_a_scripts_statements_are_told_apart_and_an_error_has_its_place(console: RunningConsole) -> None:
    script = "SHOW STREAMS; SELECT * FROM orders EMIT CHANGES; DROP STREAM orders; SET 'a'='b'"
    found = console.post("/sql/parse", {"statement": script}).body
    assert [each["kind"] for each in found["statements"]] == ["read", "query", "change", "other"]
    broken = console.post("/sql/parse", {"statement": "SHOW STREAMS;\nSELECT * FORM orders;"}).body
    assert broken["statements"] == [] and broken["error"]["line"] == 2 and broken["error"]["message"]
    assert console.post("/sql/parse", {"statement": " "}).status == 400
    assert console.post("/sql/parse", {"statement": "x" * 100_001}).status == 413


def test_what_only_reads_is_answered_and_a_change_is_not_read(console: RunningConsole) -> None:
    [table] = console.post("/sql/read", {"statement": "SHOW STREAMS;"}).body["answers"]
    assert table["kind"] == "table" and "ORDERS" in [row[table["names"].index("name")] for row in table["rows"]]
    [plan] = console.post("/sql/read", {"statement": "EXPLAIN SELECT * FROM orders EMIT CHANGES;"}).body["answers"]
    assert plan["kind"] == "plan" and "topics: [orders]" in plan["topology"]
    refused = console.post("/sql/read", {"statement": "DROP STREAM orders;"})
    assert refused.status == 400 and "are read here" in refused.body["message"]
    wrong = console.post("/sql/read", {"statement": "DESCRIBE nothing;"})
    assert wrong.status == 422 and "nothing" in wrong.body["message"].lower()
    failed = console.post("/plans", {"action": "sql-statement", "arguments": {"statement": "DROP STREAM nothing;"}})
    ran = console.post(f"/plans/{failed.body['id']}/run", {"hash": failed.body["hash"], "typed": None})
    assert ran.status == 422 and "nothing" in json.dumps(ran.body).lower()


def test_rows_come_as_they_are_made_and_the_query_ends_with_its_tab(console: RunningConsole, sql: SqlProcess) -> None:
    insert = "INSERT INTO orders (id, amount, tags) VALUES ('a', 12.50, ARRAY['x', NULL]);"
    assert console.run("sql-statement", statement=insert).body["outcome"] == "done"
    columns, rows = asked(console, "SELECT id, amount, tags FROM orders EMIT CHANGES;", **{"from": "earliest"})
    assert (columns["names"], columns["types"][1]) == (["ID", "AMOUNT", "TAGS"], "DECIMAL(9, 2)")
    assert rows["rows"] == [["a", "12.50", ["x", None]]]

    def followed() -> list[str]:
        [answer] = sql.ksql("SHOW QUERIES;")
        return [each["id"] for each in answer["queries"] if each["queryType"] != "PERSISTENT"]

    until(lambda: not followed(), followed)


def test_queries_that_cannot_be_are_refused_in_words(console: RunningConsole) -> None:
    for statement, words in (
        ("SELECT * FROM nowhere EMIT CHANGES;", "NOWHERE"),
        ("DROP STREAM orders;", "one query is expected"),
        ("SELECT 1; SELECT 2;", "one query is expected"),
    ):
        [frame] = asked(console, statement)
        assert frame["type"] == "error" and words in frame["message"], frame
    [frame] = asyncio.run(frames_of(console, [{"sub": 1, "kind": "nothing"}], 1))
    assert frame["message"] == "kind is one of sample, scan, sql, args an object"


def test_a_server_that_is_away_is_told_and_without_one_nothing_is_asked(sql: SqlProcess) -> None:
    away = "ottla.console.sql.url=http://user:hush@127.0.0.1:1"
    with running_console(brokers(sql), "--override", away) as console:
        found = console.get("/sql")
        assert "no SQL server answers" in found["error"] and "hush" not in json.dumps(found)
    with running_console(brokers(sql)) as console:
        assert console.get("/sql")["url"] is None
        assert console.post("/sql/read", {"statement": "SHOW STREAMS;"}).status == 404


def test_no_query_goes_round_the_masks(console: RunningConsole, sql: SqlProcess, tmp_path: Path) -> None:
    masks = tmp_path / "masks.json"
    masks.write_text('[{"topics": "ord*", "path": "value.amount"}]')
    more = ("--override", f"ottla.console.sql.url={sql.url}", "--override", f"ottla.console.masks.file={masks}")
    with running_console(brokers(sql), *more) as masked:
        free = "CREATE STREAM free (id STRING) WITH (kafka_topic='free', value_format='JSON', partitions=1);"
        assert masked.run("sql-statement", statement=free).body["outcome"] == "done"
        assert masked.run("sql-statement", statement="INSERT INTO free (id) VALUES ('x');").body["outcome"] == "done"
        alias = "CREATE STREAM alias (id STRING KEY) WITH (kafka_topic='orders', value_format='JSON');"
        assert masked.run("sql-statement", statement=alias).body["outcome"] == "done"
        for statement in ("SELECT * FROM orders EMIT CHANGES;", "SELECT id FROM alias EMIT CHANGES;"):
            [frame] = asked(masked, statement)
            assert frame["type"] == "error" and "orders is masked here" in frame["message"]
        assert asked(masked, "SELECT * FROM free EMIT CHANGES LIMIT 1;", **{"from": "earliest"})[0]["type"] == "columns"
        copy = "CREATE STREAM copied AS SELECT * FROM orders;"
        refused = masked.post("/plans", {"action": "sql-statement", "arguments": {"statement": copy}})
        assert refused.status == 403 and "masked" in refused.body["message"]


@pytest.mark.slow  # Chromium and its start; make test-console
@needs_chromium
@pytest.mark.parametrize(("size", "theme"), [("desk", "light"), ("tablet", "dark"), ("phone", "light")])
def test_the_page_shows_rows_a_plan_and_errors_without_a_fault(
    browser: Any, console: RunningConsole, size: str, theme: str
) -> None:
    import axe_playwright_python

    axe = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text()
    console.run("sql-statement", statement="INSERT INTO orders (id, amount, tags) VALUES ('b', 1.00, ARRAY['<b>']);")
    visit = Visit(browser, console, size=size, theme=theme, bypass_csp=True)
    page = visit.go("/sql?from=earliest")
    page.fill("textarea", "SELECT id, amount, tags FROM orders\nEMIT CHANGES;")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("td:has-text('1.00')")
    if size == "desk":
        page.wait_for_selector(".plan >> text=orders")
        page.click("button.link:has-text('ORDERS')")
        page.wait_for_selector("text=DECIMAL(9, 2)")
    assert sideways(page) == []
    page.evaluate(axe)
    answer = page.evaluate(f"axe.run({{runOnly: {json.dumps(WCAG)}}})")
    assert [(each["id"], each["nodes"][0]["html"][:120]) for each in answer["violations"]] == []
    page.click("button:has-text('Stop')")
    page.fill("textarea", "SELECT *\nFORM orders;")
    page.click("button:has-text('Run')")
    page.wait_for_selector("[role=alert]")
    assert page.evaluate("document.querySelector('textarea').selectionStart") >= len("SELECT *")
    visit.close()
