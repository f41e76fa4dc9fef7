"""Access, users, quotas, transactions, quorum and moves: planned, run, taken back, and seen by somebody else's client."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from tests.console.running import RunningConsole
from tests.console.secured import console_with_logins, librdkafka, password, properties, secured_server
from tests.server import Server
from tests.waiting import until

ANYTHING = AclBindingFilter(
    *(ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY)
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with secured_server(tmp_path_factory.mktemp("broker"), tokens=False) as found:
        asking = AdminClient(librdkafka(found, "root"))
        (made,) = asking.create_topics([NewTopic("orders", 2)]).values()
        made.result()
        yield found


@pytest.fixture(scope="module")
def console(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningConsole]:
    with console_with_logins(server, tmp_path_factory.mktemp("console")) as found:
        yield found.as_user("root", password("root"))


def entries(server: Server) -> set[str]:
    """The entries as librdkafka tells them."""
    asking = AdminClient(librdkafka(server, "root"))
    found = asking.describe_acls(ANYTHING).result()
    return {
        f"{each.principal} {each.operation.name} {each.restype.name} {each.name} {each.permission_type.name}"
        for each in found
    }


def taken_back(console: RunningConsole, done: Any) -> Any:
    plan = console.post(f"/audit/{done.body['id']}/undo", {})
    assert plan.status == 201, plan
    return console.post(f"/plans/{plan.body['id']}/run", {"hash": plan.body["hash"], "typed": plan.body["typed"]})


def ran_by_the_command_line(server: Server, cli: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run what a plan says that the command line would be."""
    given = folder / "root.properties"
    lines = [f"{key}={value.replace(chr(92), chr(92) * 2)}" for key, value in properties("root").items()]
    given.write_text("\n".join(lines))
    more = f"--bootstrap-server {server.bootstrap} --command-config {shlex.quote(str(given))}"
    line = " && ".join(f"{each} {more}" for each in cli.split(" && "))
    line = line.replace("ottla ", f"{sys.executable} -m ottla.cli.main ")
    return subprocess.run(["bash", "-c", line], cwd=folder, capture_output=True, text=True, timeout=60, check=False)


RIGHTS = [
    {"principal": "User:dora", "operation": each, "resource_type": "TOPIC", "resource": "orders", "pattern": "PREFIXED"}
    for each in ("READ", "DESCRIBE")
]


def test_rights_are_given_and_taken_back(server: Server, console: RunningConsole) -> None:
    before = entries(server)
    done = console.run("create-acls", entries=RIGHTS)
    assert done.body["outcome"] == "done", done
    given = {"User:dora READ TOPIC orders ALLOW", "User:dora DESCRIBE TOPIC orders ALLOW"}
    assert entries(server) == before | given
    shown = console.get("/access?q=dora")["items"]
    assert [(each["operation"], each["pattern"]) for each in shown] == [("READ", "PREFIXED"), ("DESCRIBE", "PREFIXED")]
    assert console.post("/plans", {"action": "create-acls", "arguments": {"entries": RIGHTS}}).body["diff"] == []
    assert taken_back(console, done).body["outcome"] == "done"
    assert entries(server) == before


def test_the_command_line_gives_the_same_rights(server: Server, console: RunningConsole, tmp_path: Path) -> None:
    plan = console.post("/plans", {"action": "create-acls", "arguments": {"entries": RIGHTS}}).body
    before = entries(server)
    ran = ran_by_the_command_line(server, plan["cli"], tmp_path)
    assert ran.returncode == 0, ran
    after = entries(server)
    moved = console.post(f"/plans/{plan['id']}/run", {"hash": plan["hash"]})
    assert moved.status == 409 and moved.body["plan"]["diff"] == []
    gone = console.run("delete-acls", entries=RIGHTS)
    assert gone.body["outcome"] == "done" and entries(server) == before != after


@pytest.mark.parametrize(
    ("principal", "operation", "name", "allowed", "words"),
    [
        ("User:ann", "READ", "apples", True, "This entry decides."),
        ("User:ann", "DESCRIBE", "apples", True, "This entry decides."),
        ("User:ann", "WRITE", "apples", False, "No entry allows it."),
        ("User:root", "WRITE", "anything", False, "No entry allows it."),
        ("User:bob", "READ", "pears", False, "No entry allows it."),
    ],
)
def test_may_somebody_do_something(
    console: RunningConsole, principal: str, operation: str, name: str, allowed: bool, words: str
) -> None:
    found = console.get(f"/access/check?principal={principal}&operation={operation}&type=TOPIC&name={name}")
    assert found["allowed"] is allowed and words in found["rule"], found
    assert allowed or "super user" in found["warnings"][0]


def test_a_password_is_set_and_logs_in_and_stands_nowhere(server: Server, console: RunningConsole) -> None:
    secret = "a new 'secret' of dora"
    plan = console.post("/plans", {"action": "set-password", "arguments": {"user": "dora", "password": secret}})
    assert plan.status == 201 and secret not in str(plan.body), plan
    done = console.post(f"/plans/{plan.body['id']}/run", {"hash": plan.body["hash"]})
    assert done.body["outcome"] == "done" and secret not in str(console.get("/audit"))
    assert console.get("/users")["items"] == [
        {"user": "ann", "mechanisms": {"SCRAM-SHA-512": 4096}},
        {"user": "dora", "mechanisms": {"SCRAM-SHA-512": 4096}},
    ]
    assert console.as_user("dora", secret, "SCRAM-SHA-512").ask("GET", "/api/session").status == 200
    foreign = librdkafka(server, "root") | {
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "dora",
        "sasl.password": secret,
    }
    assert AdminClient(foreign).list_topics(timeout=20).brokers
    assert secret not in "".join(console.lines)
    assert (
        console.run("delete-password", typed="dora", user="dora", mechanism="SCRAM-SHA-512").body["outcome"] == "done"
    )
    assert [each["user"] for each in console.get("/users")["items"]] == ["ann"]


def test_a_quota_is_set_changed_and_taken_back(console: RunningConsole) -> None:
    first = console.run("alter-quotas", entity={"user": "ann"}, set={"producer_byte_rate": 1_000_000})
    assert first.body["outcome"] == "done", first
    second = console.run(
        "alter-quotas", entity={"user": "ann"}, set={"producer_byte_rate": 5000.0, "request_percentage": 50}
    )
    assert second.body["diff"][0] == {"path": "user ann/producer_byte_rate", "before": 1_000_000.0, "after": 5000.0}
    shown = {"entity": {"user": "ann"}, "values": {"producer_byte_rate": 5000.0, "request_percentage": 50.0}}
    assert console.get("/quotas")["items"] == [shown]
    assert taken_back(console, second).body["outcome"] == "done"
    assert console.get("/quotas")["items"] == [
        {"entity": {"user": "ann"}, "values": {"producer_byte_rate": 1_000_000.0}}
    ]
    assert taken_back(console, first).body["outcome"] == "done"
    assert console.get("/quotas")["items"] == []


def test_an_open_transaction_is_shown_and_its_producer_fenced(server: Server, console: RunningConsole) -> None:
    producer = Producer(librdkafka(server, "root") | {"transactional.id": "writer-1"})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce("orders", "x", partition=0)
    producer.flush(20)
    (row,) = console.get("/transactions")["items"]
    assert (row["id"], row["state"], row["partitions"]) == ("writer-1", "Ongoing", ["orders-0"])
    assert any(each["start_offset"] == 0 for each in console.get("/topics/orders/producers")["items"])
    assert console.get("/hanging?topic=orders")["items"] == []
    done = console.run("terminate-transaction", typed="writer-1", transactional_id="writer-1")
    assert done.body["outcome"] == "done", done
    with pytest.raises(KafkaException):
        producer.commit_transaction(20)
    until(lambda: console.get("/transactions")["items"][0]["state"] in ("CompleteAbort", "Empty"))


def test_the_quorum_and_features_are_told(console: RunningConsole) -> None:
    found = console.get("/quorum")
    assert found["leader"] == 1 and [each["id"] for each in found["voters"]] == [1] and found["voters"][0]["lag"] == 0
    assert "metadata.version" in {each["name"] for each in found["features"]}


def test_a_move_that_moves_nothing_says_so(console: RunningConsole) -> None:
    assert console.get("/reassignments")["items"] == []
    for action, arguments, words in (
        ("reassign", {"topics": ["orders"]}, "nothing has to move"),
        ("reassign", {"topics": ["orders"], "brokers": [7]}, "no broker 7"),
        ("reassign", {"topics": ["nothing"]}, "not found"),
        ("cancel-reassignment", {}, "Nothing of that"),
        ("remove-throttle", {}, "no throttle"),
        ("elect-preferred", {"topics": ["orders"]}, "its first copy"),
    ):
        answer = console.post("/plans", {"action": action, "arguments": arguments})
        assert answer.status in (400, 404) and words in answer.body["message"], answer


@pytest.mark.parametrize(
    ("action", "arguments", "words"),
    [
        ("create-acls", {}, "entries is a list"),
        ("create-acls", {"entries": [{"principal": "ann"}]}, "resource_type is one of"),
        ("create-acls", {"entries": [RIGHTS[0] | {"principal": "ann"}]}, "TYPE:NAME"),
        ("delete-acls", {"entries": RIGHTS}, "no such entries"),
        ("set-password", {"user": "x"}, "password is needed"),
        ("set-password", {"user": "x", "password": "y", "mechanism": "PLAIN"}, "mechanism is one of"),
        ("set-password", {"user": "x", "password": "y", "iterations": 1}, "minimum 4096"),
        ("delete-password", {"user": "x", "mechanism": "SCRAM-SHA-512"}, "has no password"),
        ("alter-quotas", {"entity": {"user": "x"}}, "one of them is needed"),
        ("alter-quotas", {"entity": {"color": "x"}, "set": {"a": 1}}, "entity maps"),
        ("alter-quotas", {"entity": {"user": "x"}, "set": {"producer_byte_rate": -1}}, "above 0"),
        ("alter-quotas", {"entity": {"user": "x"}, "set": {"speed": 1}}, "no quota"),
        ("abort-transaction", {"topic": "orders"}, "are needed"),
        ("abort-transaction", {"topic": "orders", "partition": 0, "start_offset": 99}, "Could not find any open"),
        ("terminate-transaction", {"transactional_id": "nobody"}, ""),
        ("remove-voter", {"node": 1, "directory_id": "x"}, "UUID"),
    ],
)
def test_what_makes_no_sense_says_why(
    console: RunningConsole, action: str, arguments: dict[str, Any], words: str
) -> None:
    answer = console.post("/plans", {"action": action, "arguments": arguments})
    assert answer.status in (400, 404, 422) and words in answer.body["message"], answer


def test_who_may_not_is_told_so(console: RunningConsole) -> None:
    ann = console.as_user("ann", password("ann"))
    for path in ("/access", "/quotas", "/quorum"):
        answer = ann.ask("GET", f"/api/c/cluster{path}")
        assert answer.status == 403, answer
    assert ann.get("/transactions")["items"] == []
    assert ann.post("/plans", {"action": "create-acls", "arguments": {"entries": RIGHTS}}).status == 403
    for path in ("/connect", "/schemas"):
        answer = ann.ask("GET", f"/api/c/cluster{path}")
        assert answer.status == 403 and "needs DESCRIBE" in answer.body["message"], answer
    changed = ann.post("/plans", {"action": "registry-level", "arguments": {"compatibility": "NONE"}})
    assert changed.status == 403 and "needs ALTER" in changed.body["message"], changed
