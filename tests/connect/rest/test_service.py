"""What Ottla's REST interface does beyond Kafka's answers: secrets, forwarding, disabled parts, other origins, OpenAPI."""

from __future__ import annotations

import asyncio
import http.client
import json
import re
import socket
from pathlib import Path
from typing import Any

import pytest
import yaml

from ottla.base import ConfigError, TopicPartition
from ottla.connect import RebalanceNeededError
from ottla.connect.herder import ElsewhereError
from ottla.connect.rest import RestService, RestSettings, rest_settings
from ottla.connect.rest.settings import Address
from ottla.connect.storage import State, TaskId, TopicUse
from tests.connect.rest.asked import ask_once
from tests.connect.rest.calls import SINK, SOURCE, Call
from tests.connect.rest.worker import Worker, running_worker

LOOPBACK = (Address("127.0.0.1", 0),)


def ask(worker: Worker, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    answer = ask_once(worker.port, Call(method, path, body))
    return answer["status"], answer["body"]


def headers_of(port: int, method: str, path: str, headers: dict[str, str]) -> dict[str, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request(method, path, headers=headers)
    found = dict(connection.getresponse().headers)
    connection.close()
    return found


SECRET = {"connector.class": "tests.Secretive", "key.of.door": "open sesame", "db.password": "hunter2"}


def test_secrets_are_shown_nowhere_and_survive_being_put_back() -> None:
    with running_worker() as worker:
        assert ask(worker, "POST", "/connectors", {"name": "door", "config": SECRET})[0] == 201
        for path in ("", "/config", "/tasks", "/status"):
            text = json.dumps(ask(worker, "GET", f"/connectors/door{path}")[1])
            assert "sesame" not in text and "hunter2" not in text
        assert "sesame" not in json.dumps(ask(worker, "GET", "/connectors?expand=info")[1])
        shown = ask(worker, "GET", "/connectors/door/config")[1]
        assert shown["key.of.door"] == shown["db.password"] == "[hidden]"
        assert ask(worker, "PUT", "/connectors/door/config", {**shown, "more": "1"})[0] == 200
        [task] = worker.runner.tasks.values()
        assert task.config["key.of.door"] == "open sesame" and task.connector_config["db.password"] == "hunter2"


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_another_class_does_not_bring_a_stored_secret_to_light(method: str) -> None:
    with running_worker() as worker:
        assert ask(worker, "POST", "/connectors", {"name": "door", "config": SECRET})[0] == 201
        shown = ask(worker, "GET", "/connectors/door/config")[1]
        other = {"connector.class": "FileStreamSource", "topic": "t", "file": "f"}
        given = {**shown, **other} if method == "PUT" else other
        status, body = ask(worker, method, "/connectors/door/config", given)
        assert status == 400 and "key.of.door" in body["message"] and "sesame" not in json.dumps(body)
        assert "sesame" not in json.dumps(ask(worker, "GET", "/connectors/door/config")[1])
        anew = {**given, "key.of.door": "another", "db.password": "another"}
        assert ask(worker, method, "/connectors/door/config", anew)[0] == 200


LOGINS = {**SECRET, "connection.url": "jdbc:x://me:hunter2@here/db", "basic.auth.user.info": "me:hunter2", "other": "1"}


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_a_stored_secret_does_not_go_to_another_address_than_it_was_given_for(method: str) -> None:
    with running_worker() as worker:
        assert ask(worker, "POST", "/connectors", {"name": "door", "config": LOGINS})[0] == 201
        shown = ask(worker, "GET", "/connectors/door/config")[1]
        assert "hunter2" not in json.dumps(shown) and shown["connection.url"] == "jdbc:x://me:[hidden]@here/db"
        for change in (
            *({"schema.registry.url": "http://evil"}, {"proxy.host": "evil"}, {"connection.url": "jdbc:x://evil/db"}),
            *({"connection.url": "jdbc:x://me:[hidden]@evil/db"}, {"odd": "evil:9092"}, {"new.password": "[hidden]"}),
        ):
            given = {**shown, **change} if method == "PUT" else change
            status, body = ask(worker, method, "/connectors/door/config", given)
            assert status == 400, change
            assert "[hidden]" in body["message"] or "may have them sent elsewhere" in body["message"]
            assert ask(worker, "GET", "/connectors/door/config")[1] == shown
        tuned = {**shown, "other": "2"} if method == "PUT" else {"other": "2"}
        assert ask(worker, method, "/connectors/door/config", tuned)[0] == 200
        [task] = worker.runner.tasks.values()
        assert task.connector_config["connection.url"] == LOGINS["connection.url"]
        anew = {**LOGINS, "connection.url": "jdbc:x://me:other@there/db"}
        assert ask(worker, method, "/connectors/door/config", anew)[0] == 200


def test_patches_that_come_at_once_are_all_kept() -> None:
    async def at_once(herder: Any) -> None:
        await asyncio.gather(*(herder.patch_connector("lines", {f"note.{at}": "kept"}) for at in range(4)))

    with running_worker() as worker:
        config = {"connector.class": "FileStreamSource", "file": "/none", "topic": "lines"}
        assert ask(worker, "PUT", "/connectors/lines/config", config)[0] == 201
        worker.call(at_once(worker.herder))
        _, found = ask(worker, "GET", "/connectors/lines/config")
        assert [found.get(f"note.{at}") for at in range(4)] == ["kept"] * 4


def test_a_mark_of_something_hidden_is_no_value_of_a_new_connector() -> None:
    with running_worker() as worker:
        status, body = ask(
            worker, "POST", "/connectors", {"name": "b", "config": {**SECRET, "db.password": "[hidden]"}}
        )
        assert status == 400 and "db.password: [hidden] does not stand for what is stored" in body["message"]


def test_a_validation_shows_neither_secrets_nor_what_a_placeholder_stands_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTTLA_TEST_DOOR", "looked up")
    given = {**LOGINS, "name": "n", "topic": "${env:OTTLA_TEST_DOOR}", "tasks.max": "${env:OTTLA_TEST_DOOR}"}
    with running_worker() as worker:
        status, found = ask(worker, "PUT", "/connector-plugins/tests.Secretive/config/validate", given)
        assert status == 200 and found["error_count"]
        for each in ("hunter2", "sesame", "looked up"):
            assert each not in json.dumps(found), each
        values = {each["value"]["name"]: each["value"] for each in found["configs"]}
        assert "${env:OTTLA_TEST_DOOR}" in values["tasks.max"]["errors"][0]


def test_a_connector_that_cannot_start_is_failed_with_its_trace() -> None:
    with running_worker() as worker:
        status, body = ask(worker, "POST", "/connectors", {"name": "door", "config": {**SECRET, "fail": "yes"}})
        assert (status, body["message"]) == (500, "Failed to transition connector door to state STARTED")
        found = ask(worker, "GET", "/connectors/door/status")[1]
        assert found["connector"]["state"] == "FAILED" and "the door is shut" in found["connector"]["trace"]
        assert found["tasks"] == []


def test_more_tasks_than_allowed_are_refused() -> None:
    with running_worker() as worker:
        status, body = ask(worker, "POST", "/connectors", {"name": "door", "config": {**SECRET, "tasks": "3"}})
        assert status == 500 and "has generated 3 tasks, which is greater than 1" in body["message"]


def test_only_failed_tasks_are_restarted_where_that_is_asked() -> None:
    with running_worker() as worker:
        config = {**SECRET, "tasks": "2", "tasks.max": "2"}
        assert ask(worker, "POST", "/connectors", {"name": "door", "config": config})[0] == 201

        async def fail() -> None:
            worker.runner.say(TaskId("door", 1), State.FAILED, "it broke")

        worker.call(fail())
        status, body = ask(worker, "POST", "/connectors/door/restart?includeTasks=true&onlyFailed=true")
        assert status == 202 and body["connector"]["state"] == "RUNNING"
        assert [each["state"] for each in body["tasks"]] == ["RUNNING", "RESTARTING"]


def test_a_busy_group_refuses_other_offsets_and_says_what_to_do() -> None:
    with running_worker() as worker:
        config = {"connector.class": SINK, "topics": "t", "tasks.max": "1"}
        ask(worker, "POST", "/connectors", {"name": "out", "config": config, "initial_state": "stopped"})
        worker.groups.topics.add("t")
        pairs = {"offsets": [{"partition": {"kafka_topic": "t", "kafka_partition": 0}, "offset": {"kafka_offset": 7}}]}
        assert ask(worker, "PATCH", "/connectors/out/offsets", pairs)[0] == 200
        assert worker.groups.offsets["connect-out"] == {TopicPartition("t", 0): 7}
        assert ask(worker, "GET", "/connectors/out/offsets") == (200, pairs)
        worker.groups.busy.add("connect-out")
        status, body = ask(worker, "DELETE", "/connectors/out/offsets")
        assert status == 500 and "its tasks haven't stopped completely yet" in body["message"]


def test_source_offsets_are_in_the_file_for_the_next_worker(tmp_path: Path) -> None:
    source = {"name": "lines", "config": {"connector.class": SOURCE, "topic": "t"}, "initial_state": "STOPPED"}
    pairs = {"offsets": [{"partition": {"filename": "f"}, "offset": {"position": 12}}]}
    for first in (True, False):
        with running_worker(offsets=tmp_path / "offsets") as worker:
            assert ask(worker, "POST", "/connectors", source)[0] == 201
            if first:
                assert ask(worker, "PATCH", "/connectors/lines/offsets", pairs)[0] == 200
            assert ask(worker, "GET", "/connectors/lines/offsets") == (200, pairs)


def test_topics_are_listed_until_they_are_reset() -> None:
    with running_worker() as worker:
        ask(worker, "POST", "/connectors", {"name": "lines", "config": {"connector.class": SOURCE, "topic": "t"}})

        async def use() -> None:
            worker.herder.on_topic(TopicUse("t", "lines", 0, 1))

        worker.call(use())
        assert ask(worker, "GET", "/connectors/lines/topics") == (200, {"lines": {"topics": ["t"]}})
        assert ask(worker, "PUT", "/connectors/lines/topics/reset")[0] == 202
        assert ask(worker, "GET", "/connectors/lines/topics") == (200, {"lines": {"topics": []}})


def test_a_slash_at_the_end_of_a_path_changes_nothing() -> None:
    with running_worker() as worker:
        ask(worker, "POST", "/connectors/", {"name": "lines", "config": {"connector.class": SOURCE, "topic": "t"}})
        for path in ("/connectors", "/connectors/lines", "/connectors/lines/tasks", "/connector-plugins"):
            assert ask(worker, "GET", f"{path}/") == ask(worker, "GET", path)
            assert ask(worker, "GET", path)[0] == 200


def test_disabled_tracking_is_forbidden() -> None:
    with running_worker(topic_tracking=False) as worker:
        message = {"error_code": 403, "message": "Topic tracking is disabled."}
        assert ask(worker, "GET", "/connectors/a/topics") == (403, message)
    with running_worker(topic_reset=False) as worker:
        assert ask(worker, "PUT", "/connectors/a/topics/reset")[1]["message"] == "Topic tracking reset is disabled."


def test_loggers_show_when_they_were_set() -> None:
    with running_worker() as worker:
        status, changed = ask(worker, "PUT", "/admin/loggers/ottla.tests.rest", {"level": "error"})
        assert (status, changed) == (200, ["ottla.tests.rest"])
        status, found = ask(worker, "GET", "/admin/loggers/ottla.tests.rest")
        assert found["level"] == "ERROR" and found["last_modified"] > 0
        assert ask(worker, "PUT", "/admin/loggers/ottla.tests.rest", {"level": "ERROR"}) == (200, [])
        assert ask(worker, "GET", "/admin/loggers")[1]["root"]["level"]


def test_admin_has_ports_of_its_own_or_none() -> None:
    with running_worker(admin_listeners=LOOPBACK) as worker:
        assert ask(worker, "GET", "/admin/loggers")[0] == 404
        assert ask_once(worker.ports[1], Call("GET", "/admin/loggers"))["status"] == 200
        assert ask_once(worker.ports[1], Call("GET", "/connectors"))["status"] == 404
    with running_worker(admin_listeners=()) as worker:
        assert ask(worker, "GET", "/admin/loggers")[0] == 404 and len(worker.ports) == 1


def test_other_origins_and_own_headers_are_answered_as_configured() -> None:
    settings = rest_settings(
        {
            "access.control.allow.origin": "http://ui",
            "access.control.allow.methods": "GET,PUT",
            "response.http.headers.config": 'add X-One: a, "add Cache-Control: no-cache, no-store"',
        }
    )
    shown = {"allowed_origins": settings.allowed_origins, "allowed_methods": settings.allowed_methods}
    with running_worker(**shown, headers=settings.headers) as worker:
        found = headers_of(
            worker.port, "OPTIONS", "/connectors", {"Origin": "http://ui", "Access-Control-Request-Method": "PUT"}
        )
        assert found["Access-Control-Allow-Origin"] == "http://ui"
        assert found["Access-Control-Allow-Methods"] == "GET,PUT"
        assert (found["Access-Control-Allow-Headers"], found["Access-Control-Max-Age"]) == ("Content-Type", "60")
        found = headers_of(worker.port, "OPTIONS", "/connectors", {"Origin": "http://other"})
        assert "Access-Control-Allow-Methods" not in found and found["Vary"] == "Origin"
        found = headers_of(worker.port, "GET", "/nothing", {"Origin": "http://other"})
        assert "Access-Control-Allow-Origin" not in found and found["X-One"] == "a"
        assert found["Cache-Control"] == "no-cache, no-store"


def test_a_request_for_another_worker_takes_two_hops_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    with running_worker() as leader, running_worker() as other:

        async def elsewhere(name: str) -> None:
            raise ElsewhereError("Only the leader may", f"http://127.0.0.1:{leader.port}")

        monkeypatch.setattr(other.herder, "delete_connector", elsewhere)
        ask(leader, "POST", "/connectors", {"name": "lines", "config": {"connector.class": SOURCE, "topic": "t"}})
        assert ask(other, "DELETE", "/connectors/lines?forward=false")[0] == 409
        assert ask(other, "DELETE", "/connectors/nobody") == (
            404,
            {"error_code": 404, "message": "Connector nobody not found"},
        )
        assert ask(other, "DELETE", "/connectors/lines")[0] == 204
        assert ask(leader, "GET", "/connectors") == (200, [])


def test_no_leader_and_a_stale_configuration_are_conflicts(monkeypatch: pytest.MonkeyPatch) -> None:
    with running_worker() as worker:

        async def nobody(name: str) -> None:
            raise ElsewhereError("Only the leader may", None)

        async def stale(name: str) -> None:
            raise RebalanceNeededError("")

        monkeypatch.setattr(worker.herder, "delete_connector", nobody)
        assert "no known leader URL" in ask(worker, "DELETE", "/connectors/a")[1]["message"]
        monkeypatch.setattr(worker.herder, "delete_connector", stale)
        assert ask(worker, "DELETE", "/connectors/a")[0] == 409


def test_a_worker_that_has_not_started_says_so() -> None:
    with running_worker() as worker:
        worker.herder.ready = False
        status, body = ask(worker, "GET", "/health")
        assert status == 503 and body["status"] == "starting"
        worker.herder.ready = True


def test_the_document_describes_every_path_and_refers_to_what_it_has() -> None:
    with running_worker() as worker:
        texts = []
        for path in ("/openapi.json", "/openapi.yaml"):
            connection = http.client.HTTPConnection("127.0.0.1", worker.port, timeout=20)
            connection.request("GET", path)
            texts.append(connection.getresponse().read())
            connection.close()
    document = json.loads(texts[0])
    assert yaml.safe_load(texts[1]) == document
    assert len(document["paths"]) == 21
    references = set(re.findall(r"#/components/schemas/(\w+)", json.dumps(document)))
    assert references <= document["components"]["schemas"].keys()
    operations = [each["operationId"] for path in document["paths"].values() for each in path.values()]
    assert len(operations) == len(set(operations)) == 28


def test_the_documented_paths_never_answer_with_our_own_mistake() -> None:
    bodies: list[Any] = [None, {}, [], 1, "x", {"config": None}, {"name": 3}, {"offsets": [3]}, {"a": {"b": 1}}]
    with running_worker() as worker:
        document = ask(worker, "GET", "/openapi.json")[1]
        for path, methods in document["paths"].items():
            for method in methods:
                for body in bodies if method in ("post", "put", "patch") else [None]:
                    asked = re.sub(r"{\w+}", "no%2Fbody%00", path)
                    status, answer = ask(worker, method.upper(), asked, body)
                    assert status < 500, (method, asked, body, answer)


def test_what_is_no_text_or_no_number_in_a_body_is_the_clients_mistake() -> None:
    with running_worker() as worker:
        stopped = {"name": "lines", "config": {"connector.class": SOURCE, "topic": "t"}, "initial_state": "STOPPED"}
        assert ask(worker, "POST", "/connectors", stopped)[0] == 201
        for value in ('"\\ud800"', "NaN", "1e999", "[1]", "{}", "1" * 30):
            text = f'{{"offsets": [{{"partition": {{"a": {value}}}, "offset": {{"position": 3}}}}]}}'
            answer = ask_once(worker.port, Call("PATCH", "/connectors/lines/offsets", text=text))
            assert answer["status"] == 400, (value, answer)
        for value in ('"\\ud800"', "NaN", "[1]"):
            text = f'{{"name": "a", "config": {{"connector.class": "{SOURCE}", "topic": {value}}}}}'
            assert ask_once(worker.port, Call("POST", "/connectors", text=text))["status"] == 400, value
        assert ask(worker, "GET", "/connectors") == (200, ["lines"])


def test_numbers_of_a_configuration_stay_as_they_are_written() -> None:
    text = f'{{"connector.class": "{SOURCE}", "topic": "t", "a": 1.50, "b": 1E5, "c": {"9" * 5000}, "d": true}}'
    with running_worker() as worker:
        answer = ask_once(worker.port, Call("PUT", "/connectors/lines/config", text=text))
        assert answer["status"] == 201
        kept = answer["body"]["config"]
        assert (kept["a"], kept["b"], kept["c"], kept["d"]) == ("1.50", "1E5", "9" * 5000, "true")


def test_a_task_that_is_no_number_is_not_found() -> None:
    with running_worker() as worker:
        for task in ("--1", "-", "1-", "99999999999", "%D9%A1"):
            assert ask(worker, "GET", f"/connectors/lines/tasks/{task}/status")[0] == 404, task


def test_listeners_have_kafkas_form_and_a_taken_port_is_told() -> None:
    assert rest_settings({}).listeners == (Address("localhost", 8083),)  # Kafka's is every interface
    assert rest_settings({"listeners": "http://127.0.0.1:0,http://[::1]:81"}).listeners[1] == Address("::1", 81)
    assert rest_settings({"admin.listeners": ""}).admin_listeners == ()
    with pytest.raises(ConfigError, match="listeners"):
        rest_settings({"listeners": "localhost:8083"})
    with socket.create_server(("127.0.0.1", 0)) as taken, running_worker() as worker:
        settings = RestSettings(listeners=(Address("127.0.0.1", taken.getsockname()[1]),))
        with pytest.raises(OSError):
            worker.call(RestService(worker.herder, settings).listen())
