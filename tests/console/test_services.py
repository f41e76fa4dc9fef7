"""Connect's workers and the schema registry by the console: what is shown, planned, run and taken back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.connect.decisions import Progress, shown_progress
from ottla.connect.storage import TaskId
from ottla.console.api.connect import root_cause
from tests.connect.rest.worker import FILE, Worker, running_worker
from tests.console.running import RunningConsole, running_console
from tests.registry.running import running_registry
from tests.server import running_server

SOURCE = {"connector.class": f"{FILE}SourceConnector", "topic": "lines", "file": "/nowhere", "tasks.max": "1"}
BEYOND_BROWSERS = (1 << 53) + 1
ORDER = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}


def with_field(name: str, **more: Any) -> str:
    return json.dumps({**ORDER, "fields": [*ORDER["fields"], {"name": name, "type": "string", **more}]})


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with running_worker() as found:
        yield found


@pytest.fixture(scope="module")
def console(worker: Worker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningConsole]:
    with running_server(tmp_path_factory.mktemp("broker")) as server, running_registry(server.bootstrap) as registry:
        urls = f"files=http://127.0.0.1:{worker.port},away=http://user:hush@127.0.0.1:1"
        options = ("--override", f"ottla.console.connect.urls={urls}", "--schema-registry", registry.url)
        with running_console(server.bootstrap, *options) as found:
            yield found


def undone(console: RunningConsole, done: Any) -> Any:
    plan = console.post(f"/audit/{done.body['id']}/undo", {})
    assert plan.status == 201, plan
    again = console.post(f"/plans/{plan.body['id']}/run", {"hash": plan.body["hash"], "typed": plan.body["typed"]})
    assert again.body["outcome"] == "done", again
    return again


def connector(console: RunningConsole, name: str) -> Any:
    return console.ask("GET", f"/api/c/cluster/connect/files/connectors/{name}")


def test_a_connector_is_made_changed_and_taken_back(console: RunningConsole) -> None:
    made = console.run("configure-connector", cluster="files", name="lines", config=SOURCE)
    assert made.body["outcome"] == "done", made
    files, away = console.get("/connect")["items"]
    assert [(each["worst"], each["type"]) for each in files["connectors"] if each["name"] == "lines"] == [
        ("RUNNING", "source")
    ]
    assert "no Connect worker answers" in away["error"] and "hush" not in json.dumps(away)
    changed = console.run("configure-connector", cluster="files", name="lines", config={**SOURCE, "batch.size": "7"})
    assert changed.body["diff"] == [{"path": "connector lines/batch.size", "before": None, "after": "7"}]
    assert connector(console, "lines").body["config"]["batch.size"] == "7"
    undone(console, changed)
    assert "batch.size" not in connector(console, "lines").body["config"]
    gone = console.run("delete-connector", cluster="files", name="lines")
    assert gone.body["outcome"] == "done" and connector(console, "lines").status == 404
    undone(console, gone)
    assert connector(console, "lines").body["config"]["topic"] == "lines"


def test_a_connector_is_paused_stopped_resumed_and_its_offsets_set(console: RunningConsole) -> None:
    console.run("configure-connector", cluster="files", name="turns", config=SOURCE)
    early = console.post("/plans", {"action": "connector-offsets", "arguments": {"cluster": "files", "name": "turns"}})
    assert early.status == 400 and "stop it first" in early.body["message"], early
    paused = console.run("connector-state", cluster="files", name="turns", to="paused")
    assert connector(console, "turns").body["state"] == "PAUSED", paused
    undone(console, paused)
    assert connector(console, "turns").body["state"] == "RUNNING"
    console.run("connector-state", cluster="files", name="turns", to="stopped")
    place = {"partition": {"filename": "/nowhere"}, "offset": {"position": BEYOND_BROWSERS}}
    wrong = {"cluster": "files", "name": "turns", "offsets": "[{"}
    refused = console.post("/plans", {"action": "connector-offsets", "arguments": wrong})
    assert refused.status == 400 and "offsets are no JSON" in refused.body["message"], refused
    moved = console.run("connector-offsets", cluster="files", name="turns", offsets=json.dumps([place]))
    assert moved.body["outcome"] == "done", moved
    found = connector(console, "turns").body
    assert json.loads(found["offsets_text"]) == [place], "what a page edits is text"
    [shown] = found["offsets"]
    assert shown == {key: json.dumps(value) for key, value in place.items()}, "and so is what it shows"
    reset = console.run("connector-offsets", cluster="files", name="turns")
    assert connector(console, "turns").body["offsets"] == [], reset
    undone(console, reset)
    assert json.loads(connector(console, "turns").body["offsets_text"]) == [place]


def test_a_state_that_there_is_not_is_refused(console: RunningConsole) -> None:
    console.run("configure-connector", cluster="files", name="states", config=SOURCE)
    asked = {"cluster": "files", "name": "states", "to": "x"}
    answer = console.post("/plans", {"action": "connector-state", "arguments": asked})
    assert answer.status == 400 and "to is one of" in answer.body["message"], answer


def test_secrets_are_shown_nowhere_and_stay_what_they_are(console: RunningConsole, worker: Worker) -> None:
    config = {"connector.class": "tests.Secretive", "key.of.door": "hush-hush", "db.password": "${env:DB}"}
    plan = console.post(
        "/plans", {"action": "configure-connector", "arguments": {"cluster": "files", "name": "door", "config": config}}
    )
    assert plan.status == 201 and "hush-hush" not in json.dumps(plan.body), plan
    done = console.post(f"/plans/{plan.body['id']}/run", {"hash": plan.body["hash"]})
    assert done.body["outcome"] == "done", done
    shown = connector(console, "door").body["config"]
    assert shown["db.password"] == "${env:DB}", shown
    shown |= {"tasks.max": "2"}
    again = console.run("configure-connector", cluster="files", name="door", config=shown)
    assert again.body["diff"] == [{"path": "connector door/tasks.max", "before": None, "after": "2"}]
    assert "hush-hush" not in json.dumps(console.get("/audit"))
    moved = {"cluster": "files", "name": "door", "config": {**shown, "proxy.host": "elsewhere"}}
    refused = console.post("/plans", {"action": "configure-connector", "arguments": moved})
    assert refused.status == 400 and "proxy.host may have them sent elsewhere" in json.dumps(refused.body), refused


def test_a_connector_that_fails_says_why_in_a_sentence(console: RunningConsole) -> None:
    console.run(
        "configure-connector", cluster="files", name="shut", config={"connector.class": "tests.Secretive", "fail": "1"}
    )
    row = next(each for each in console.get("/connect")["items"][0]["connectors"] if each["name"] == "shut")
    assert row["worst"] == "FAILED" and "the door is shut" in row["cause"], row
    state = connector(console, "shut").body["states"][0]
    assert "the door is shut" in state["cause"] and "Traceback" in state["trace"]
    plan = console.post("/plans", {"action": "restart-connector", "arguments": {"cluster": "files", "name": "shut"}})
    assert plan.body["diff"] == [{"path": "connector shut/connector", "before": "FAILED", "after": "RESTARTING"}]


def test_a_connector_that_stands_still_says_since_when_and_what_it_leaves_out(
    console: RunningConsole, worker: Worker
) -> None:
    console.run("configure-connector", cluster="files", name="still", config=SOURCE)
    row = next(each for each in console.get("/connect")["items"][0]["connectors"] if each["name"] == "still")
    assert (row["still"], row["cause"]) == (0, None)
    position = [{"partition": {}, "offset": {"n": 2**53 + 1}}]
    told = Progress(waiting=3, still_ms=60_000, position=position, warnings=["a.b is refused"])
    task = TaskId("still", 0)
    worker.runner.told[task] = shown_progress(told, silent_ms=0, limit_ms=1_000, runs=True)
    row = next(each for each in console.get("/connect")["items"][0]["connectors"] if each["name"] == "still")
    assert (row["state"], row["still"], row["cause"]) == ("RUNNING", 1, "3 records wait, and none has moved for 60 s")
    [found] = connector(console, "still").body["progress"]
    assert (found["task"], found["stalled"], found["warnings"]) == (0, row["cause"], ["a.b is refused"])
    assert found["position"] == ['{"n": 9007199254740993}']
    del worker.runner.told[task]
    assert connector(console, "still").body["progress"] == []


@pytest.mark.parametrize(
    ("trace", "cause"),
    [
        ("org.apache.X: a\n\tat b\nCaused by: java.io.IOException: disk is full\n\tat c", "IOException: disk is full"),
        ("Traceback (most recent call last):\n  File x\nValueError: not a number", "ValueError: not a number"),
        ("org.apache.kafka.connect.errors.ConnectException: no\n\tat b", "ConnectException: no"),
        ("", "It said nothing."),
    ],
)
def test_the_cause_of_a_trace_is_its_innermost(trace: str, cause: str) -> None:
    assert root_cause(trace) == cause


def test_a_plugin_says_what_it_needs(console: RunningConsole) -> None:
    assert SOURCE["connector.class"] in {each["class"] for each in console.get("/connect/files/plugins")["items"]}
    answer = console.post("/connect/files/validate", {"config": {"connector.class": SOURCE["connector.class"]}})
    topic = next(each for each in answer.body["fields"] if each["name"] == "topic")
    assert topic["required"] and topic["errors"], topic
    bad = {"cluster": "files", "name": "bad", "config": {"connector.class": SOURCE["connector.class"]}}
    refused = console.post("/plans", {"action": "configure-connector", "arguments": bad})
    assert refused.status == 400 and "topic" in refused.body["message"], refused


def test_a_schema_is_registered_followed_and_refused(console: RunningConsole) -> None:
    first = console.run("register-schema", subject="orders-value", schema=json.dumps(ORDER))
    assert first.body["outcome"] == "done", first
    may = console.post("/schemas/orders-value/check", {"schema": with_field("note", default="")})
    assert may.body == {"compatible": True, "messages": []}
    second = console.run("register-schema", subject="orders-value", schema=with_field("note", default=""))
    assert second.body["outcome"] == "done", second
    refused = console.post("/schemas/orders-value/check", {"schema": with_field("must")})
    assert refused.body["compatible"] is False and "must" in " ".join(refused.body["messages"]), refused
    planned = console.post(
        "/plans", {"action": "register-schema", "arguments": {"subject": "orders-value", "schema": with_field("must")}}
    )
    assert planned.status == 400 and "may not follow" in planned.body["message"], planned
    found = console.get("/schemas/orders-value")
    assert [each["version"] for each in found["versions"]] == [2, 1] and found["level"] == "BACKWARD"
    row = console.get("/schemas?q=ORDERS")["items"][0]
    assert (row["subject"], row["version"], row["type"]) == ("orders-value", 2, "AVRO")


def test_levels_and_modes_are_set_and_taken_back(console: RunningConsole) -> None:
    done = console.run("registry-level", subject="", compatibility="FULL")
    assert done.body["diff"] == [{"path": "all subjects/compatibility", "before": "BACKWARD", "after": "FULL"}]
    assert console.get("/schemas")["level"] == "FULL"
    undone(console, done)
    assert console.get("/schemas")["level"] == "BACKWARD"
    own = console.run("registry-level", subject="fresh-value", compatibility="NONE")
    assert own.body["outcome"] == "done", own
    undone(console, own)
    mode = console.run("registry-mode", subject="", mode="READONLY")
    assert console.get("/schemas")["mode"] == "READONLY", mode
    undone(console, mode)


def test_a_subject_is_deleted_by_its_name_typed(console: RunningConsole) -> None:
    console.run("register-schema", subject="gone-value", schema=json.dumps(ORDER))
    done = console.run("delete-schema", typed="gone-value", subject="gone-value")
    assert done.body["outcome"] == "done", done
    assert console.ask("GET", "/api/c/cluster/schemas/gone-value").status == 404
    for_good = console.run("delete-schema", typed="gone-value", subject="gone-value", permanent=True)
    assert for_good.body["outcome"] == "done", for_good


@pytest.mark.parametrize(
    ("action", "arguments", "words"),
    [
        ("configure-connector", {"cluster": "none", "name": "x", "config": SOURCE}, "There are no Connect workers"),
        ("configure-connector", {"cluster": "files", "name": "x", "config": {}}, "config maps"),
        ("configure-connector", {"cluster": "files", "name": "x", "config": {"a": "b"}}, "connector.class"),
        ("delete-connector", {"cluster": "files", "name": "nobody"}, "There is no connector nobody"),
        ("connector-state", {"cluster": "files", "name": "nobody", "to": "paused"}, "There is no connector nobody"),
        ("register-schema", {"subject": "x", "schema": "{"}, ""),
        ("register-schema", {"subject": "x", "schema": "{}", "schema_type": "XML"}, "schema_type is one of"),
        ("delete-schema", {"subject": "nobody"}, "There is no subject"),
        ("registry-level", {"compatibility": "SIDEWAYS"}, "compatibility is one of"),
        ("registry-level", {}, "compatibility is needed"),
    ],
)
def test_what_makes_no_sense_says_why(
    console: RunningConsole, action: str, arguments: dict[str, Any], words: str
) -> None:
    answer = console.post("/plans", {"action": action, "arguments": arguments})
    assert answer.status in (400, 404, 422) and words in answer.body["message"], answer
