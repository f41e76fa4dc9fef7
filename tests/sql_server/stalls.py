"""A SQL server whose loop is watched, asked for every kind of statement with expressions that cost much.

`python -m tests.sql_server.stalls BOOTSTRAP REPORT` is a process of its own, since modules are rewritten there to count
their work (`tests/cost/work.py`). For each text the report says how it was answered, the most work of the loop between two
looks at its other connections, and the most of one call of C in any other thread, which holds all of them.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from tests.cost import work
from tests.cost.stretches import Stretches

__all__ = ["CHEAP", "TEXTS"]

ELEMENTS = 2000
COSTLY = f"REDUCE(GENERATE_SERIES(1, {ELEMENTS}), 0, (s, x) => s + x * 2)"
"""Some 40,000 units of work."""
TEXT = f"CAST({COSTLY} AS STRING)"
LIKE = f"LPAD('', {ELEMENTS}, 'ab') LIKE '%a%a%b%c'"
PATTERN = f"REGEXP_REPLACE(LPAD('', {ELEMENTS}, 'ab'), '(a|b)+?', 'x')"
WIDE = ", ".join(f"C{at} INT" for at in range(600))
SETUP = (
    "CREATE STREAM S (K STRING KEY, V BIGINT, A ARRAY<INT>) WITH (KAFKA_TOPIC='s', FORMAT='JSON', PARTITIONS=1);",
    "CREATE TABLE T (K STRING PRIMARY KEY, V BIGINT) WITH (KAFKA_TOPIC='t', FORMAT='JSON', PARTITIONS=1);",
    f"CREATE STREAM W (K INT KEY, {WIDE}) WITH (KAFKA_TOPIC='w', FORMAT='JSON', PARTITIONS=1);",
    *(f"INSERT INTO S (K, V) VALUES ('k{at}', {at});" for at in range(20)),
    "INSERT INTO W (K, C0) VALUES (1, 1);",
    *(f"INSERT INTO T (K, V) VALUES ('k{at}', {at});" for at in range(20)),
)
KSQL, QUERY = "/ksql", "/query"
TEXTS: dict[str, tuple[str, str]] = {
    "CreateSource": (KSQL, f"CREATE STREAM W2 ({WIDE}) WITH (KAFKA_TOPIC='w', VALUE_FORMAT='JSON', PARTITIONS=1);"),
    "CreateAs": (KSQL, f"CREATE STREAM R AS SELECT K, {COSTLY} AS X FROM S WHERE V < 0 AND ({LIKE} OR {COSTLY} > 1);"),
    "CreateAs of many columns": (KSQL, "CREATE STREAM RW AS SELECT * FROM W WHERE K < 0;"),
    "InsertInto": (KSQL, f"INSERT INTO S SELECT K, {COSTLY} AS V, A FROM S WHERE V < 0;"),
    "InsertValues": (KSQL, f"INSERT INTO S (K, V) VALUES ({TEXT}, {COSTLY});"),
    "Explain": (KSQL, f"EXPLAIN SELECT {COSTLY} AS X FROM S WHERE {LIKE} EMIT CHANGES;"),
    "Explain of many columns": (KSQL, "EXPLAIN SELECT * FROM W EMIT CHANGES;"),
    "pull: a key": (QUERY, f"SELECT * FROM T WHERE K = {TEXT};"),
    "pull: keys": (QUERY, f"SELECT * FROM T WHERE K IN ({TEXT}, CONCAT('k', {TEXT}));"),
    "pull: a range": (QUERY, f"SELECT * FROM T WHERE K > {TEXT} AND K < 'l';"),
    "pull: a scan": (QUERY, f"SELECT K, {COSTLY} AS X FROM T WHERE {COSTLY} > 1 LIMIT 5;"),
    "pull: LIKE": (QUERY, f"SELECT K FROM T WHERE {LIKE};"),
    "pull: a pattern": (QUERY, f"SELECT {PATTERN} AS X FROM T LIMIT 3;"),
    "pull: a stream": (QUERY, f"SELECT K, {COSTLY} AS X FROM S WHERE {COSTLY} > 1 LIMIT 5;"),
    "pull: a join": (QUERY, f"SELECT A.K, {COSTLY} AS X FROM T A JOIN T B ON A.K = B.K WHERE {COSTLY} > 1 LIMIT 3;"),
    "pull: groups": (QUERY, f"SELECT V, SUM({COSTLY}) AS X FROM T GROUP BY V ORDER BY X LIMIT 5;"),
    "push": (QUERY, f"SELECT K, {COSTLY} AS X FROM S WHERE {COSTLY} > 1 EMIT CHANGES LIMIT 3;"),
    "push: groups": (QUERY, f"SELECT K, SUM({COSTLY}) AS X FROM S GROUP BY K EMIT CHANGES LIMIT 2;"),
    "push: many columns": (QUERY, "SELECT * FROM W EMIT CHANGES LIMIT 1;"),
    "PrintTopic": (QUERY, "PRINT 's' FROM BEGINNING LIMIT 20;"),
    "Show": (KSQL, "SHOW QUERIES EXTENDED;"),
    "Show of sources": (KSQL, "SHOW STREAMS EXTENDED;"),
    "Describe": (KSQL, "DESCRIBE W EXTENDED;"),
    "DropSource": (KSQL, "DROP STREAM W2;"),
    "AlterSource": (KSQL, "ALTER STREAM W ADD COLUMN D INT;"),
    "CreateType": (KSQL, f"CREATE TYPE Y AS STRUCT<{WIDE}>;"),
    "DropType": (KSQL, "DROP TYPE Y;"),
    "session": (KSQL, "SET 'auto.offset.reset'='earliest';" * 300 + "UNSET 'auto.offset.reset';"),
    "variables": (KSQL, "DEFINE A='b';" * 300 + "UNDEFINE A;"),
    "long": (KSQL, "SELECT " + ", ".join(f"V + {at} AS X{at}" for at in range(2000)) + " FROM S EMIT CHANGES;"),
    "AssertTopic": (KSQL, "ASSERT TOPIC s WITH (PARTITIONS=1);"),
    "Control": (KSQL, "PAUSE ALL; RESUME ALL; TERMINATE ALL;"),
    "endless: INSERT": (KSQL, f"INSERT INTO S (V) VALUES ({COSTLY.replace(str(ELEMENTS), '1000000')});"),
    "endless: pull": (QUERY, f"SELECT {COSTLY.replace(str(ELEMENTS), '1000000')} AS X FROM T;"),
    "endless: push": (QUERY, f"SELECT {COSTLY.replace(str(ELEMENTS), '1000000')} AS X FROM S EMIT CHANGES;"),
}
CHEAP = {
    "CreateConnector": "asks Connect",
    "DropConnector": "asks Connect",
    "AssertSchema": "asks the registry",
    "QueryStatement": "pull and push",
    "SetProperty": "session",
    "UnsetProperty": "session",
    "DefineVariable": "variables",
    "UndefineVariable": "variables",
    "AssertValues": "the test runner's",
    "AssertSource": "the test runner's",
    "RunScript": "the command line's",
    "ColumnDefinition": "a part of a statement",
}
"""Kinds of statements that are not among the texts by their names, and why."""
SECONDS_MAX = 1.0
"""Of evaluating, instead of ten."""


class _OfLoop(list[int]):
    """Counts in the thread of the loop; of other threads it keeps the longest addition, which no switch can divide."""

    def __init__(self) -> None:
        super().__init__([0])
        self._thread = threading.get_ident()
        self.longest_call = 0

    def __getitem__(self, at: Any) -> Any:
        return super().__getitem__(at) if threading.get_ident() == self._thread else 0

    def __setitem__(self, at: Any, value: Any) -> None:
        if threading.get_ident() == self._thread:
            super().__setitem__(at, value)
        else:
            self.longest_call = max(self.longest_call, value)


def _ask(url: str, path: str, text: str) -> tuple[int, str]:
    body = json.dumps({"ksql": text, "streamsProperties": {"auto.offset.reset": "earliest"}}).encode()
    request = urllib.request.Request(url + path, body, {"Accept": "application/vnd.ksql.v1+json"})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except (OSError, http.client.HTTPException) as error:
        return 0, str(error)


async def _measured(bootstrap: str, only: str) -> dict[str, Any]:
    counted = _OfLoop()
    work.count_in(counted)
    work.install()
    from ottla.sql_server import schemas, turns
    from ottla.sql_server.rest.instance import Instance
    from ottla.sql_server.settings import server_settings

    turns.EVALUATING_SECONDS_MAX = schemas.PLANNING_SECONDS_MAX = SECONDS_MAX
    stretches = Stretches()
    given = {"bootstrap.servers": bootstrap, "listeners": "http://127.0.0.1:0", "ottla.sql.engine": "python"}
    instance = Instance(server_settings(given, {}))
    await instance.start()
    url = f"http://127.0.0.1:{instance.addresses[0].port}"
    try:
        for text in SETUP:
            status, answer = await asyncio.to_thread(_ask, url, KSQL, text)
            assert status == 200, answer
        found = {}
        for name, (path, text) in TEXTS.items():
            if only not in name:
                continue
            stretches.begin()
            counted.longest_call = 0
            begun_s = time.monotonic()
            status, answer = await asyncio.to_thread(_ask, url, path, text)
            found[name] = {
                "status": status,
                "answer": answer[:2000],
                "stretch": stretches.longest,
                "call": counted.longest_call,
                "seconds": round(time.monotonic() - begun_s, 2),
            }
        return found
    finally:
        await instance.stop()


def main() -> None:
    """Measure, and write the report."""
    bootstrap, report, *only = sys.argv[1:]
    if only:
        work.watch_places()
    found = asyncio.run(_measured(bootstrap, *only or [""]))
    Path(report).write_text(json.dumps(found, indent=1))
    if only:
        print("\n".join(map(str, work.places())))


if __name__ == "__main__":
    main()
