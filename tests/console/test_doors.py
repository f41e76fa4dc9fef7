"""Every address of the console and every action, asked by who may not: nothing happens, and nothing is told.

A new endpoint is walked by itself; one whose address or body has a name that is not known here has to say what it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.admin import describe_acls
from ottla.admin.actions import ACTIONS
from ottla.console.api.table import Api
from ottla.security import AclFilter, Operation, PatternType, Resource
from tests.console.running import Answer, RunningConsole
from tests.console.secured import admin, console_with_logins, entry, give, librdkafka, password, secured_server
from tests.server import Server
from tests.waiting import until

HIDDEN, MISSING = "pears", "qears"
"""A topic with a group of which only root may know, and the same name where nothing is."""
ENDPOINTS = Api(None, now_ms=lambda: 0).endpoints()  # type: ignore[arg-type]
NAMES = {
    "topic": "{name}",
    "group": "{name}-readers",
    "partition": "0",
    "offset": "0",
    "part": "value",
    "broker": "1",
    "plan": "{plan}",
    "entry": "{entry}",
    "replay": "{replay}",
    "alert": "{name}",
    "worker": "{name}",
    "connector": "{name}",
    "subject": "{name}",
    "source": "{name}",
    "service": "{name}",
    "application": "{name}",
    "store": "{name}",
}
QUERIES = {
    "/history": ["?series=in/{name}", "?series=lag/{name}-readers", "?series=consumed/{name}-readers"],
    "/lineage": ["?topic={name}", "?q={name}&internal=true"],
    "/cost": ["?topic={name}", "?internal=true"],
    "/hanging": ["?topic={name}"],
    "/access/check": ["?principal=User:ann&type=TOPIC&operation=READ&name={name}"],
    "/topics": ["?q={name}&internal=true", "?internal=true"],
    "/groups": ["?q={name}"],
}
GIVEN = {
    "action": "delete-topic",
    "arguments": {"topic": "{name}"},
    "hash": "{hash}",
    "typed": "{name}",
    "topic": "{name}",
    "from": "oldest",
    "statement": "DESCRIBE {name};",
    "condition": "lag('{name}-readers') >= 0",
    "config": {"connector.class": "x"},
    "schema": '"string"',
    "schema_type": "AVRO",
    "references": [],
    "format": "jsonl",
    "value": "x",
    "partition": 0,
}
LEFT = {"key", "headers", "at", "where", "hits", "cursor", "partitions", "key_decoder", "value_decoder", "uncommitted"}
"""Names of bodies that may be left out."""
LEFT |= {"everywhere"}
TOPIC, GROUP = {"topic": "{name}"}, {"group": "{name}-readers"}
CONNECTOR = {"cluster": "{name}", "name": "{name}"}
ENTRY = {"principal": "User:bob", "resource_type": "TOPIC", "resource_name": "{name}", "pattern_type": "LITERAL"}
ENTRY |= {"host": "*", "operation": "READ", "permission": "ALLOW"}
ACTS: dict[str, dict[str, Any]] = {
    "abort-transaction": {**TOPIC, "partition": 0, "start_offset": 0},
    "add-partitions": {**TOPIC, "partitions": 9},
    "alter-config": {"type": "topics", "name": "{name}", "set": {"retention.ms": "1"}},
    "alter-quotas": {"entity": {"user": "bob"}, "set": {"producer_byte_rate": 1}},
    "cancel-reassignment": {"topics": ["{name}"]},
    "configure-connector": {**CONNECTOR, "config": {"connector.class": "x"}},
    "connector-offsets": CONNECTOR,
    "connector-state": {**CONNECTOR, "to": "paused"},
    "create-acls": {"entries": [ENTRY]},
    "create-topic": {"topic": "{name}-new", "partitions": 1},
    "delete-acls": {"entries": [ENTRY | {"principal": "User:ann"}]},
    "delete-alert": {"name": "{name}"},
    "delete-connector": CONNECTOR,
    "delete-group": GROUP,
    "delete-password": {"user": "ann", "mechanism": "SCRAM-SHA-512"},
    "delete-schema": {"subject": "{name}"},
    "delete-topic": TOPIC,
    "elect-preferred": {"topics": ["{name}"]},
    "empty-topic": TOPIC,
    "forget-topic": {**GROUP, **TOPIC},
    "promote-streams": {"service": "{name}", "to": "batch", "name": "{name}"},
    "reassign": {"topics": ["{name}"], "brokers": [1]},
    "redrive": TOPIC,
    "register-schema": {"subject": "{name}", "schema": '"string"'},
    "registry-level": {"compatibility": "NONE"},
    "registry-mode": {"mode": "READONLY"},
    "remove-throttle": {"topics": ["{name}"]},
    "remove-voter": {"node": 1, "directory_id": "AAAAAAAAAAAAAAAAAAAAAQ"},
    "replay": {"source": "{name}", "target": "{name}-to", "from": "oldest"},
    "reset-offsets": {**GROUP, **TOPIC, "to": "earliest"},
    "restart-connector": CONNECTOR,
    "restore-offsets": {**GROUP, **TOPIC, "offsets": {"0": 0}},
    "set-alert": {"name": "{name}", "condition": "lag() > 1"},
    "set-password": {"user": "ann", "password": "stolen"},
    "silence-alert": {"name": "{name}", "minutes": 5},
    "sql-statement": {"statement": "DROP STREAM {name} DELETE TOPIC;"},
    "streams-state": {"service": "{name}", "name": "{name}", "to": "paused"},
    "terminate-transaction": {"transactional_id": "{name}"},
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with secured_server(tmp_path_factory.mktemp("broker"), tokens=True) as found:
        made = AdminClient(librdkafka(found, "root"))
        for each in made.create_topics([NewTopic(name, 1) for name in (HIDDEN, f"{HIDDEN}-to", "pear")]).values():
            each.result()
        producer = Producer(librdkafka(found, "root"))
        producer.produce(HIDDEN, key="k", value="hush-hush")
        producer.flush()
        for name in (HIDDEN, "pear"):
            reader = Consumer(librdkafka(found, "root") | {"group.id": f"{name}-readers"})
            reader.commit(offsets=[TopicPartition(name, 0, 1)], asynchronous=False)
            reader.close()
        neighbours = [
            entry("ann", operation, kind, name)
            for operation in (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER)
            for kind, name in ((Resource.TOPIC, "pear"), (Resource.GROUP, "pear-readers"), (Resource.GROUP, "pear"))
            if kind is Resource.TOPIC or operation in (Operation.READ, Operation.DELETE)
        ]
        own = [
            entry("console", operation, Resource.TOPIC, "__ottla_console", PatternType.PREFIXED)
            for operation in (Operation.CREATE, Operation.READ, Operation.WRITE)
        ]
        with ThreadPoolExecutor(1) as thread:
            thread.submit(give, found, [*neighbours, *own]).result()
        yield found


@pytest.fixture(scope="module")
def console(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningConsole]:
    with console_with_logins(server, tmp_path_factory.mktemp("console")) as found:
        yield found


@pytest.fixture(scope="module")
def root(console: RunningConsole) -> RunningConsole:
    return console.as_user("root", password("root"))


@pytest.fixture(scope="module")
def theirs(root: RunningConsole) -> dict[str, str]:
    """A plan, a change and a replay of root's."""
    moved = root.run("replay", source=HIDDEN, target=f"{HIDDEN}-to", **{"from": "oldest"})
    assert moved.body["outcome"] == "done", moved
    plan = root.post("/plans", {"action": "delete-topic", "arguments": {"topic": HIDDEN}}).body
    until(lambda: root.get("/replays")["items"][0]["state"] == "done")
    [replay] = root.get("/replays")["items"]
    return {"plan": plan["id"], "hash": plan["hash"], "entry": str(moved.body["id"]), "replay": str(replay["id"])}


NOBODYS = {"plan": "x" * 16, "hash": "0" * 64, "entry": "99", "replay": "0" * 12}


def filled(given: Any, names: dict[str, str]) -> Any:
    """What is asked, with its names in place."""
    if isinstance(given, str):
        return re.sub(r"\{(\w+)\}", lambda found: names.get(found[1], found[0]), given)
    if isinstance(given, dict):
        return {filled(name, names): filled(each, names) for name, each in given.items()}
    return [filled(each, names) for each in given] if isinstance(given, list) else given


def asked(endpoint: Any) -> list[tuple[str, str, Any]]:
    """Method, address and body of what is asked of an endpoint."""
    path = re.sub(r"\{(\w+)\}", lambda found: NAMES[found[1]], endpoint.path)
    body = None
    if endpoint.method != "GET":
        body = {name: GIVEN[name] for name in endpoint.body or {} if name not in LEFT}
    return [(endpoint.method, f"/api/c/cluster{path}{query}", body) for query in QUERIES.get(endpoint.path, [""])]


EVERY = [each for endpoint in ENDPOINTS for each in asked(endpoint)]


def world(server: Server) -> Any:
    """What there is at the cluster, but for what the console keeps for itself."""
    client = AdminClient(librdkafka(server, "root"))
    reader = Consumer(librdkafka(server, "root") | {"group.id": "counts"})
    topics = {name: each for name, each in client.list_topics(timeout=30).topics.items() if not name.startswith("__")}
    ends = {
        f"{name}-{index}": reader.get_watermark_offsets(TopicPartition(name, index), timeout=30)
        for name, each in topics.items()
        for index in each.partitions
    }
    reader.close()
    groups = sorted(each.group_id for each in client.list_consumer_groups().result().valid)
    with admin(server) as asking:
        entries = sorted(map(str, describe_acls(asking, AclFilter())))
    return sorted(topics), ends, groups, entries


def without_times(answer: Answer) -> tuple[int, Any]:
    body = answer.body
    if isinstance(body, dict):
        body = {name: each for name, each in body.items() if name not in ("sampled_at", "now_ms", "id", "error")}
    return answer.status, json.loads(json.dumps(body).replace(MISSING, HIDDEN))


def with_names(theirs: dict[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    return {**theirs, "name": HIDDEN}, {**NOBODYS, "name": MISSING}


@pytest.mark.parametrize("who", ["bob", "ann"])
def test_what_one_may_not_know_looks_like_what_is_not_there(
    who: str, console: RunningConsole, server: Server, theirs: dict[str, str]
) -> None:
    session, before = console.as_user(who, password(who)), world(server)
    there, missing = with_names(theirs)
    wrong = []
    for method, path, body in EVERY * 2:  # twice
        answers = [session.ask(method, filled(path, names), filled(body, names)) for names in (there, missing)]
        hidden, none = map(without_times, answers)
        for name, each in missing.items():
            none = none[0], json.loads(json.dumps(none[1]).replace(each, there[name]))
        told = json.dumps(answers[0].body)
        echoes = any(each in path for each in ("q=", "/scans", "/export", "/sql/parse"))  # what was asked comes back
        is_told = "hush-hush" in told or (HIDDEN in told and answers[0].status == 200 and not echoes)
        if hidden != none or is_told:
            wrong.append((method, path, answers[0].status, answers[0].body, answers[1].status, answers[1].body))
    assert not wrong, "\n".join(map(str, wrong))
    assert world(server) == before


@pytest.mark.parametrize("who", ["bob", "ann"])
def test_no_action_is_planned_for_who_may_not_do_it(who: str, console: RunningConsole, server: Server) -> None:
    assert set(ACTS) == set(ACTIONS), "say of each action what it is asked with"
    session, before = console.as_user(who, password(who)), world(server)
    wrong = []
    for action, arguments in ACTS.items():
        answers = [
            session.post("/plans", {"action": action, "arguments": filled(arguments, {"name": name})})
            for name in (HIDDEN, MISSING)
        ]
        hidden, none = map(without_times, answers)
        ran = answers[0]
        if answers[0].status == 201:  # what the brokers refuse only when it is run
            ran = session.post(
                f"/plans/{answers[0].body['id']}/run",
                {"hash": answers[0].body["hash"], "typed": answers[0].body["typed"]},
            )
        if ran.status not in (400, 403, 404, 422) or (hidden != none and hidden[0] != 201):
            wrong.append((action, answers[0].status, answers[0].body, answers[1].status, answers[1].body, ran.body))
    assert not wrong, "\n".join(map(str, wrong))
    assert world(server) == before


def test_nobody_is_told_anything(console: RunningConsole, server: Server, theirs: dict[str, str]) -> None:
    nobody, before = replace(console), world(server)
    there, _ = with_names(theirs)
    for method, path, body in EVERY:
        answer = nobody.ask(method, filled(path, there), filled(body, there))
        assert answer.status == 401 and HIDDEN not in json.dumps(answer.body), (method, path, answer)
    for path in ("/api/openapi.json", "/api/session"):
        assert nobody.ask("GET", path).status == 401
    assert world(server) == before


FOREIGN = {
    "another origin": ({"Origin": "https://evil.example"}, 403),
    "no origin that is": ({"Origin": "null"}, 403),
    "another host": ({"Host": "evil.example"}, 421),
    "a form": ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
    "a text": ({"Content-Type": "text/plain"}, 415),
    "a text that looks like JSON": ({"Content-Type": "text/plain; a=application/json"}, 415),
    "no token": ({"X-Ottla-Token": ""}, 403),
    "a wrong token": ({"X-Ottla-Token": "x" * 43}, 403),
}


@pytest.mark.parametrize("how", FOREIGN)
def test_what_does_not_come_from_a_page_of_the_console_does_nothing(
    how: str, console: RunningConsole, server: Server, theirs: dict[str, str]
) -> None:
    headers, status = FOREIGN[how]
    session, before = console.as_user("root", password("root")), world(server)
    there, _ = with_names(theirs)
    for method, path, body in EVERY:
        if method == "GET" and status != 421:
            continue  # it changes nothing, and the browser gives its answer to no other page
        answer = session.ask(method, filled(path, there), filled(body, there), **headers)
        assert answer.status == status and "hush-hush" not in str(answer.body), (method, path, answer)
    assert world(server) == before


def test_no_answer_may_be_read_by_another_page(console: RunningConsole, theirs: dict[str, str]) -> None:
    session = console.as_user("root", password("root"))
    there, _ = with_names(theirs)
    for method, path, _ in EVERY:
        if method == "GET":
            answer = session.ask(method, filled(path, there), Origin="https://evil.example")
            assert answer.headers["Access-Control-Allow-Origin"] is None, path
            assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin", path


def test_another_clusters_name_leads_nowhere(console: RunningConsole, theirs: dict[str, str]) -> None:
    session = console.as_user("root", password("root"))
    there, _ = with_names(theirs)
    for method, path, body in EVERY:
        for name in ("other", "Cluster", "cluster%2f..", "cluster%00"):
            elsewhere = filled(path, there).replace("/api/c/cluster/", f"/api/c/{name}/", 1)
            answer = session.ask(method, elsewhere, filled(body, there))
            assert answer.status == 404, (method, elsewhere, answer)


def test_a_console_that_only_reads_changes_nothing(
    server: Server, tmp_path_factory: pytest.TempPathFactory, theirs: dict[str, str]
) -> None:
    before = world(server)
    with ExitStack() as stack:
        reading = stack.enter_context(
            console_with_logins(server, tmp_path_factory.mktemp("reading"), "--read-only")
        ).as_user("root", password("root"))
        there, _ = with_names(theirs)
        for endpoint in ENDPOINTS:
            for method, path, body in asked(endpoint) if endpoint.changes else ():
                answer = reading.ask(method, filled(path, there), filled(body, there))
                assert answer.status == 403 and "read-only" in answer.body["message"], (method, path, answer)
    assert world(server) == before


def test_what_changes_something_is_no_get() -> None:
    assert not [each.path for each in ENDPOINTS if each.changes and each.method == "GET"]


def test_who_may_know_is_told_so_that_the_walk_means_something(root: RunningConsole, theirs: dict[str, str]) -> None:
    there, missing = with_names(theirs)
    told = {
        path
        for method, path, _ in EVERY
        if method == "GET"
        and without_times(root.ask(method, filled(path, there)))
        != without_times(root.ask(method, filled(path, missing)))
    }
    assert len(told) >= 12 and any("/records/" in each for each in told), told
