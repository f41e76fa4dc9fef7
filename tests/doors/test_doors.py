"""Each door of each service refuses who may not ask, in its service's own form, and no handler runs."""

from __future__ import annotations

import ast
import asyncio
import json
import re
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from ottla.http import FORM, JSON, Who
from ottla.service import Endpoint
from tests.doors.walking import NAMES, OPEN, RIGHT, WRONG, Walked, all_doors, place, walking

SOURCE = Path(__file__).resolve().parents[2] / "src" / "ottla"
MAKERS = {"Route", "SocketRoute", "HttpServer", "AppRunner", "Application"}
ROOMS = {"http", "service"}
FOREIGN_TYPES = ("text/plain", "multipart/form-data; boundary=x", "application/xml", FORM)
CLOSED = (Who.LOGGED_IN, Who.SESSION)
"""Written out here: the guard is what is tested."""
ODD_VERBS = ("TRACE", "CONNECT", "OPTIONS", "get", "BREW", "PROPFIND")
STRANGERS: tuple[dict[str, str], ...] = (
    {},
    {"Authorization": WRONG},
    {"Authorization": "Bearer x"},
    {"Cookie": "ottla_console=x"},
)
STATUSES = {200, 400, 401, 403, 404, 405, 414, 415, 421, 426}


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    all_doors()  # outside of the loop, since it runs one of its own
    asyncio.run(asyncio.wait_for(test(), 100))


def asked(walked: Walked) -> list[tuple[Endpoint[Any], str]]:
    return [(each, place(each)) for each in walked.endpoints]


def told(status: int, body: bytes, service: str) -> None:
    """Assert that a refusal has the service's form."""
    if service == "Connect" and status == 401:
        assert body == b"User cannot access the resource."
        return
    found = json.loads(body)
    assert found["message"] and str(found["error_code"]).startswith(str(status)), found
    if service == "SQL server":
        assert found["@type"] == "generic_error"


def test_a_door_is_made_from_a_declaration_alone() -> None:
    wrong = []
    for path in sorted(SOURCE.rglob("*.py")):
        if path.relative_to(SOURCE).parts[0] in ROOMS:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                if name in MAKERS:
                    wrong.append(f"{path.relative_to(SOURCE)}:{node.lineno} makes a {name}")
    assert not wrong, "\n".join(wrong)


def test_every_service_that_makes_a_server_is_walked() -> None:
    made = [
        path
        for path in SOURCE.rglob("*.py")
        if re.search(r"(?<!_)server_of\(", path.read_text()) and path.parent.name != "service"
    ]
    assert sorted(str(each.relative_to(SOURCE)) for each in made) == [
        "broker/monitoring/http_service.py",
        "connect/rest/service.py",
        "console/instance.py",
        "registry/rest/instance.py",
        "spark/connect/worker_metrics.py",
        "spark/streams/web_server.py",
        "sql_server/rest/instance.py",
    ], "a new service has its line in tools/doors.py and in tests/doors/walking.py"
    assert sorted(all_doors()) == NAMES


def test_what_is_open_to_anyone_is_health_and_the_login_page() -> None:
    found = {
        (name, each.path) for name, doors in all_doors().items() for each in doors.endpoints if each.who is Who.ANYONE
    }
    words = ("health", "livez", "readyz", "chc", "master_available")
    entries = {"/api/door", "/api/login", "/", "/c/{rest:.*}"}
    assert {path for name, path in found if name == "Console"} == entries
    others = [(name, path) for name, path in found if name != "Console" and not any(each in path for each in words)]
    assert not others
    assert not [
        each for doors in all_doors().values() for each in doors.endpoints if each.changes and each.who is Who.ANYONE
    ]


@pytest.mark.parametrize("name", NAMES)
def test_who_has_no_login_or_a_wrong_one_is_refused_everywhere_twice(name: str) -> None:
    async def test() -> None:
        async with walking(name) as walked:
            for each, path in asked(walked):
                for headers in STRANGERS * 2:
                    status, body, _ = await walked.ask(each.method, path, **headers)
                    if each.who in CLOSED and name not in OPEN:
                        assert status == 401, (each, headers)
                        told(status, body, name)
            closed = {key for key in walked.calls if _who(walked, key) in CLOSED}
            assert name in OPEN or not closed

    run(test)


def _who(walked: Walked, key: tuple[str, str]) -> Who:
    return next(each.who for each in walked.endpoints if (each.method, each.path) == key)


@pytest.mark.parametrize("name", NAMES)
def test_a_foreign_page_and_a_foreign_name_reach_no_door(name: str) -> None:
    async def test() -> None:
        async with walking(name) as walked:
            for each, path in asked(walked):
                for origin in ("https://evil.example", "null"):
                    status, body, headers = await walked.ask(each.method, path, Origin=origin, Authorization=RIGHT)
                    assert status == 403 and "Access-Control-Allow-Origin" not in headers, each
                    told(status, body, name)
                for host in ("evil.example", "localhost.evil.example:80"):
                    status, body, _ = await walked.ask(each.method, path, Host=host, Authorization=RIGHT)
                    assert status == 421, each
                    told(status, body, name)
            assert not walked.calls

    run(test)


@pytest.mark.parametrize("name", NAMES)
def test_a_body_of_another_type_reaches_no_door(name: str) -> None:
    async def test() -> None:
        async with walking(name, admit=lambda request: None) as walked:
            for each, path in asked(walked):
                if each.method == "GET":
                    continue
                takes = each.takes or walked.doors.dialect.content_types
                for kind in FOREIGN_TYPES:
                    if kind not in takes:
                        status, body, _ = await walked.ask(each.method, path, b"{}", Content_Type=kind)
                        assert status == 415, (each, kind)
                        told(status, body, name)
                for kind in ("text/plain", FORM, ""):
                    typed = {"Content_Type": kind} if kind else {}
                    origin = f"http://localhost:{walked.port}"
                    status, body, _ = await walked.ask(each.method, path, b"{}", Origin=origin, **typed)
                    assert status == 415, (each, kind, "no browser sends that")
                status, _, _ = await walked.ask(each.method, path, b"{}", Content_Type=JSON, Content_Encoding="gzip")
                assert status == 415
            assert not walked.calls

    run(test)


def odd_paths(path: str) -> list[str]:
    """Return a path as those write it who want to get past a guard."""
    cut = path.rpartition("/")
    return [
        *(
            f"/{path}",
            f"/.{path}",
            f"/x/..{path}",
            f"/x/%2e%2e{path}",
            f"/%2e{path}",
            f"{path}/",
            f"{path}//",
            f"{path}/.",
        ),
        *(f"{path}%00", f"{path}%2f", f"{cut[0]}%2f{cut[2]}", path.upper(), f"{path};a=b", f"{path}?{'q' * 2000}"),
        *(f"{path}%20", f"{path}\\", f"//evil.example{path}", f"http://evil.example{path}", path + "x" * 8192, "*"),
    ]


async def walk_odd(name: str, step: int) -> None:
    async with walking(name) as walked:
        for each, path in asked(walked)[::step]:
            for odd in odd_paths(path):
                status, _, _ = await walked.ask(each.method, odd)
                assert status in STATUSES, (each.method, odd, status)
            for verb in ODD_VERBS:
                status, _, headers = await walked.ask(verb, path)
                assert status in STATUSES, (verb, path, status)
                assert "TRACE" not in headers.get("Allow", "")
        assert name in OPEN or not {key for key in walked.calls if _who(walked, key) in CLOSED}


@pytest.mark.parametrize("name", NAMES)
def test_odd_paths_and_verbs_get_past_no_guard_and_break_nothing(name: str) -> None:
    run(lambda: walk_odd(name, 7))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_door_stands_odd_paths_and_verbs(name: str) -> None:
    run(lambda: walk_odd(name, 1))


@pytest.mark.parametrize("name", NAMES)
def test_who_may_ask_is_answered_at_every_door(name: str) -> None:
    async def test() -> None:
        more = {"admit": lambda request: None} if name == "Console" else {}
        async with walking(name, **more) as walked:
            for each, path in asked(walked):
                status, _, _ = await walked.ask(each.method, path, Authorization=RIGHT)
                assert status == (426 if each in walked.doors.sockets else 200), each
            assert {(each.method, each.path) for each in walked.doors.endpoints} == set(walked.calls)

    run(test)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in OPEN and name != "Connect"])
def test_an_address_that_is_none_looks_alike_for_all_of_a_kind(name: str) -> None:
    """Where a stranger is told 404, a name that exists and one that does not are answered alike."""

    async def test() -> None:
        async with walking(name) as walked:
            found = {
                (await walked.ask("GET", f"{place(each).rpartition('/')[0]}/{tail}"))[0]
                for each in walked.endpoints
                if each.path.endswith("}") and each.method == "GET" and each.who in CLOSED
                for tail in ("a", "b")
            }
            assert found <= {401}

    run(test)


STATEMENTS = (
    *("SHOW STREAMS;", "LIST TOPICS;", "DESCRIBE s EXTENDED;", "EXPLAIN q;", "SHOW PROPERTIES;", "PRINT t LIMIT 1;"),
    *("CREATE STREAM s (v INT) WITH (kafka_topic='t', value_format='JSON');", "CREATE TABLE t AS SELECT 1 FROM s;"),
    *("INSERT INTO s VALUES (1);", "INSERT INTO s SELECT * FROM o;", "DROP STREAM s DELETE TOPIC;", "TERMINATE ALL;"),
    *("SET 'a' = 'b';", "UNSET 'a';", "DEFINE a = 'b';", "UNDEFINE a;", "RUN SCRIPT 'x';", "PAUSE q;", "RESUME q;"),
    *("CREATE SOURCE CONNECTOR c WITH ('a'='b');", "DROP CONNECTOR c;", "DESCRIBE CONNECTOR c;", "SHOW CONNECTORS;"),
    *(
        "CREATE TYPE t AS INT;",
        "DROP TYPE t;",
        "SELECT * FROM s EMIT CHANGES;",
        "ASSERT TOPIC t;",
        "ALTER STREAM s ADD v INT;",
    ),
)


@pytest.mark.parametrize("path", ["/ksql", "/query", "/query-stream"])
def test_no_statement_of_any_kind_is_carried_out_for_who_has_no_login(path: str) -> None:
    async def test() -> None:
        async with walking("SQL server") as walked:
            for statement in STATEMENTS:
                for headers in ({}, {"Authorization": WRONG}):
                    body = json.dumps({"ksql": statement, "sql": statement, "streamsProperties": {}}).encode()
                    status, answer, _ = await walked.ask("POST", path, body, Content_Type=JSON, **headers)
                    assert status == 401, statement
                    told(status, answer, "SQL server")
            assert not walked.calls

    run(test)
