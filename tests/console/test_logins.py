"""Users log in to the console as to the brokers: the brokers know who asks, and nobody is shown what is not theirs."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.base import ConfigError
from ottla.console import ClusterSettings, Console, console_settings
from tests.console.running import RunningConsole, running_console
from tests.console.secured import console_with_logins, librdkafka, password, properties, secured_server
from tests.security.authority import authority, signed
from tests.security.tls_files import key_properties
from tests.server import Server
from tests.waiting import until

TOPICS = ("apples", "pears")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with secured_server(tmp_path_factory.mktemp("broker"), tokens=True) as found:
        admin = AdminClient(librdkafka(found, "root"))
        for each in admin.create_topics([NewTopic(name, 2) for name in TOPICS]).values():
            each.result()
        producer = Producer(librdkafka(found, "root"))
        for name in TOPICS:
            producer.produce(name, key="k", value=json.dumps({"of": name}))
        producer.flush()
        for name in TOPICS:
            reader = Consumer(librdkafka(found, "root") | {"group.id": f"{name}-readers"})
            reader.commit(offsets=[TopicPartition(name, 0, 0)], asynchronous=False)
            reader.close()
        yield found


@pytest.fixture(scope="module")
def console(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningConsole]:
    with console_with_logins(server, tmp_path_factory.mktemp("console")) as found:
        yield found


@pytest.fixture(scope="module")
def ann(console: RunningConsole) -> RunningConsole:
    return console.as_user("ann", password("ann"), "SCRAM-SHA-512")


@pytest.fixture(scope="module")
def root(console: RunningConsole) -> RunningConsole:
    return console.as_user("root", password("root"))


@pytest.mark.parametrize(("user", "mechanism"), [("ann", "PLAIN"), ("ann", "SCRAM-SHA-512"), ("root", "PLAIN")])
def test_who_logs_in_is_that_user_at_the_broker(console: RunningConsole, user: str, mechanism: str) -> None:
    session = console.as_user(user, password(user), mechanism)
    said = session.ask("GET", "/api/session").body
    assert said["users"] == {"cluster": {"user": user, "kept": "token"}}
    plan = session.post("/plans", {"action": "create-topic", "arguments": {"topic": "plums", "partitions": 1}})
    assert plan.status == (201 if user == "root" else 403), plan


def test_a_wrong_password_is_refused_and_the_sixth_try_waits(console: RunningConsole) -> None:
    tries = [
        console.ask("POST", "/api/login", {"user": "cy", "password": f"no{n}", "mechanism": "PLAIN"}) for n in range(6)
    ]
    assert [each.status for each in tries[:5]] == [401] * 5, tries
    assert tries[5].status == 429 and "Wait" in tries[5].body["message"], tries[5]
    until(
        lambda: (
            console.ask("POST", "/api/login", {"user": "ann", "password": password("ann"), "mechanism": "PLAIN"}).status
            == 200
        )
    )


def test_nobody_comes_in_without_a_login(console: RunningConsole) -> None:
    stranger = RunningConsole(console.process, console.lines, base=console.base)
    assert stranger.ask("GET", "/api/door").body == {"mechanisms": ["PLAIN", "SCRAM-SHA-512"], "clusters": ["cluster"]}
    assert stranger.ask("GET", "/api/session").status == 401
    assert stranger.ask("POST", "/api/login", {"key": "x"}).status == 400
    assert stranger.ask("POST", "/api/login", {"user": "ann", "password": "x", "mechanism": "GSSAPI"}).status == 400
    for user, secret in (("\ud800", "x"), ("ann", "\ud800")):
        asked = {"user": user, "password": secret, "mechanism": "PLAIN"}
        assert stranger.ask("POST", "/api/login", asked).status == 400


def names(answer: Any) -> set[str]:
    return {name for name in (*TOPICS, *(f"{each}-readers" for each in TOPICS)) if name in json.dumps(answer)}


def test_a_user_is_shown_nothing_that_the_brokers_would_not_tell(ann: RunningConsole, root: RunningConsole) -> None:
    paths = ("/topics?internal=true", "/groups", "/overview", "/findings", "/topics?q=p", "/groups?q=pears", "/audit")
    for path in paths:
        assert names(ann.get(path)) <= {"apples", "apples-readers"}, path
    given = ann.given()
    assert names(given) <= {"apples", "apples-readers"} and given["/api/c/cluster/overview"]["topics"] == 1, given
    assert root.given()["/api/c/cluster/overview"]["topics"] > 1
    assert [each["name"] for each in ann.get("/topics")["items"]] == ["apples"]
    assert {each["name"] for each in root.get("/topics")["items"]} == set(TOPICS)
    assert [each["name"] for each in ann.get("/groups")["items"]] == ["apples-readers"]
    assert ann.get("/topics/apples")["operations"] == ["DESCRIBE", "READ"]
    for path in ("/topics/pears", "/groups/pears-readers"):
        answer = ann.ask("GET", f"/api/c/cluster{path}")
        assert answer.status == 404, answer
    for series in ("in/pears", "lag/pears-readers", "consumed/pears-readers", "in"):
        answer = ann.ask("GET", f"/api/c/cluster/history?series={series}")
        assert answer.status == 403, answer
    assert ann.ask("GET", "/api/c/cluster/history?series=lag/apples-readers").status == 200


def test_a_user_reads_what_may_be_read_and_nothing_else(ann: RunningConsole) -> None:
    assert any(frame["type"] == "rows" for frame in ann.scan(topic="apples"))
    for answer in (
        ann.post("/scans", {"topic": "pears"}),
        ann.ask("GET", "/api/c/cluster/topics/pears/records/0/0"),
        ann.post("/topics/apples/records", {"value": "x"}),
        ann.post("/plans", {"action": "delete-topic", "arguments": {"topic": "pears"}}),
    ):
        assert "pears-" not in json.dumps(answer.body) and 'type":"rows' not in json.dumps(answer.body), answer
        assert answer.status in (403, 404) or '"error"' in json.dumps(answer.body), answer


def test_a_plan_is_run_by_who_has_made_it_alone(ann: RunningConsole, root: RunningConsole) -> None:
    plan = root.post("/plans", {"action": "create-topic", "arguments": {"topic": "plums", "partitions": 1}}).body
    assert ann.post(f"/plans/{plan['id']}/run", {"hash": plan["hash"]}).status == 404
    done = root.post(f"/plans/{plan['id']}/run", {"hash": plan["hash"]})
    assert done.body["who"] == "root" and done.body["outcome"] == "done"
    assert ann.get("/audit")["items"] == [] and root.get("/audit")["items"][0]["action"] == "create-topic"
    assert ann.post(f"/audit/{done.body['id']}/undo", {}).status == 404


def test_logging_out_ends_the_session(console: RunningConsole) -> None:
    session = console.as_user("ann", password("ann"))
    assert session.ask("POST", "/api/logout", {}).status == 200
    assert session.ask("GET", "/api/c/cluster/topics").status == 401


LOG_IN = """
import http.client, json, os
connection = http.client.HTTPConnection("127.0.0.1", int(os.environ["PORT"]))
body = {"user": "ann", "password": os.environ["PASSWORD"], "mechanism": os.environ["MECHANISM"]}
connection.request("POST", "/api/login", json.dumps(body), {"Content-Type": "application/json"})
answer = connection.getresponse()
print(answer.status, answer.read().decode())
"""


@pytest.mark.parametrize(
    ("tokens", "mechanism", "kept"),
    [(True, "PLAIN", "token"), (True, "SCRAM-SHA-512", "token"), (False, "SCRAM-SHA-512", "secret")],
)
@pytest.mark.slow  # brokers or a console of its own; make test-console
def test_no_object_holds_the_password_after_the_login(
    tmp_path: Path, server: Server, tokens: bool, mechanism: str, kept: str
) -> None:
    """The password is known here only backwards, and goes to the console from another process."""
    backwards = password("ann")[::-1]

    async def log_in(bootstrap: str) -> None:
        settings = console_settings(
            {"ottla.console.listeners": "127.0.0.1:0", "ottla.console.login.mechanisms": mechanism},
            (ClusterSettings("cluster", bootstrap, properties("console")),),
        )
        console = Console(settings)
        await console.start()
        before = holders(backwards).keys()  # what has started the broker
        try:
            environment = {
                **os.environ,
                "PORT": console.addresses[0].rpartition(":")[2],
                "MECHANISM": mechanism,
                "PASSWORD": "".join(reversed(backwards)),
            }
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-c", LOG_IN), env=environment, stdout=subprocess.PIPE
            )
            del environment
            said, _ = await process.communicate()
            assert said.startswith(b"200") and json.loads(said[4:])["users"]["cluster"]["kept"] == kept, said
            del process
            assert [each for held, each in holders(backwards).items() if held not in before] == []
        finally:
            await console.stop()

    if tokens:
        asyncio.run(log_in(server.bootstrap))
    else:
        with secured_server(tmp_path, tokens=False) as without:
            asyncio.run(log_in(without.bootstrap))


def holders(backwards: str) -> dict[int, str]:
    """Return the texts and bytes that hold the password, by identity: what kind of object has each."""
    gc.collect()
    wanted = backwards[::-1]
    as_bytes, in_json = wanted.encode(), json.dumps(wanted)[1:-1]
    own = {id(wanted), id(as_bytes), id(in_json)}
    found = {}
    for each in gc.get_objects():
        for held in gc.get_referents(each):
            if id(held) in own:
                continue
            if isinstance(held, str):
                if wanted in held or in_json in held:
                    found[id(held)] = f"{type(each)}: str"
            elif isinstance(held, bytes | bytearray) and (as_bytes in held or in_json.encode() in held):
                found[id(held)] = f"{type(each)}: bytes"
    return found


@pytest.mark.slow  # brokers or a console of its own; make test-console
def test_https_keeps_the_cookie_to_itself(tmp_path: Path) -> None:
    ca = authority()
    stores = key_properties(tmp_path, signed(ca, "console"), "console")
    (tmp_path / "ca.pem").write_text(ca.chain_pem())
    overrides = [part for key, value in stores.items() for part in ("--override", f"ottla.console.{key}={value}")]
    running = running_console("127.0.0.1:1", *overrides, log_in=False, listen="https://127.0.0.1:0")
    with running as console:
        assert console.base.startswith("https://127.0.0.1:")
        console.tls = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
        console.log_in()
        assert console.cookie.startswith("__Host-ottla_console")
        assert console.ask("GET", "/api/session").body["clusters"] == ["cluster"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"ottla.console.login.mechanisms": "GSSAPI"}, "GSSAPI"),
        ({"ottla.console.login.mechanisms": "PLAIN", "ottla.console.listeners": "0.0.0.0:1"}, "in clear"),
        ({"ottla.console.listeners": "https://127.0.0.1:1"}, "keystore"),
        ({"ottla.console.listeners": "http://127.0.0.1:1,https://127.0.0.1:2"}, "all of"),
        ({"ottla.console.listeners": "ftp://127.0.0.1:1"}, "HOST:PORT"),
    ],
)
def test_what_would_let_strangers_in_is_refused_at_the_start(given: dict[str, str], words: str) -> None:
    secured = ClusterSettings("c", "127.0.0.1:9092", properties("console"))
    with pytest.raises(ConfigError) as refused:
        console_settings(given, (secured,))
    assert words in str(refused.value)


def test_logins_need_a_cluster_that_takes_them() -> None:
    with pytest.raises(ConfigError) as refused:
        console_settings({"ottla.console.login.mechanisms": "PLAIN"}, (ClusterSettings("c", "127.0.0.1:9092", {}),))
    assert "nobody can log in to c" in str(refused.value)
