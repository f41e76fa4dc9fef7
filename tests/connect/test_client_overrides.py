"""What a connector may set of its tasks' clients (KIP-458): by policy, by what clients can do, and where it reaches them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from ottla.base import ConfigError
from ottla.config import CONSUMER_KEYS, PRODUCER_KEYS, providers_of, resolved
from ottla.connect import ConnectError, WorkerConfig, WorkerMode, client_overrides, discover, task_clients
from ottla.connect.distributed.validation import further_errors
from ottla.connect.storage import State, TaskId
from ottla.connect.tasks.settings import admin_settings, consumer_settings, producer_settings
from ottla.connectors import CONNECTORS
from tests.connect.tasks.world import bench, task_start
from tests.connect.whole import WholeWorker, running_connect
from tests.server import running_server
from tests.waiting import until

POLICY, ALLOWLIST = client_overrides.POLICY, client_overrides.ALLOWLIST
PACKAGE = "org.apache.kafka.connect.connector.policy."
SOURCE = {"connector.class": "FileStreamSource", "tasks.max": "1", "file": "/not/there", "topic": "t"}
FORBIDDEN = "The 'None' policy does not allow 'acks' to be overridden in the connector configuration."


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_server(tmp_path_factory.mktemp("broker")) as server:
        yield server.bootstrap


def properties(**more: str) -> dict[str, str]:
    given = {"key.converter": "JsonConverter", "value.converter": "JsonConverter", "offset.storage.file.filename": "o"}
    return {"bootstrap.servers": "127.0.0.1:1", **given, **more}


@pytest.mark.parametrize("name", ["All", "None", "Principal", "Allowlist"])
def test_a_policy_is_known_by_its_short_name_its_class_and_its_package(name: str) -> None:
    simple = f"{name}ConnectorClientConfigOverridePolicy"
    found = {client_overrides.override_policy({POLICY: each}) for each in (name, simple, PACKAGE + simple)}
    assert len(found) == 1 and found.pop().name == name


@pytest.mark.parametrize(
    "name", ["none", "Some", PACKAGE + "None", "com.example.NoneConnectorClientConfigOverridePolicy"]
)
def test_another_policy_is_refused_at_start(name: str) -> None:
    with pytest.raises(ConfigError, match="one of All, None, Principal, Allowlist"):
        WorkerConfig.load(properties(**{POLICY: name}), WorkerMode.STANDALONE)


def test_a_list_without_its_policy_is_told() -> None:
    config = WorkerConfig.load(properties(**{ALLOWLIST: "acks"}), WorkerMode.STANDALONE)
    assert any(ALLOWLIST in each for each in config.warnings)
    allowed = WorkerConfig.load(properties(**{ALLOWLIST: "acks", POLICY: "Allowlist"}), WorkerMode.STANDALONE)
    assert not allowed.warnings


@pytest.mark.parametrize(
    "key", ["producer.interceptor.classes", "consumer.security.protocol", "admin.security.protocol"]
)
def test_what_a_worker_asks_of_clients_in_vain_is_refused_at_start_or_told(key: str) -> None:
    with pytest.raises(ConfigError, match=key):
        WorkerConfig.load(properties(**{key: "TLS"}), WorkerMode.STANDALONE)
    heard = {"producer.acks": "1", "consumer.max.poll.records": "7", "admin.request.timeout.ms": "100"}
    assert not WorkerConfig.load(properties(**heard), WorkerMode.STANDALONE).warnings
    config = WorkerConfig.load(properties(**{"producer.linger.ms": "5"}), WorkerMode.STANDALONE)
    assert config.warnings == ("producer.linger.ms has no effect on the clients of tasks",)


def test_what_a_policy_forbids_is_refused_by_validate_on_create_and_when_a_task_starts(
    broker: str, tmp_path: Path
) -> None:
    with running_connect(tmp_path, broker, **{POLICY: "None"}) as worker:
        config = {**SOURCE, "name": "s", "producer.override.acks": "1", "consumer.override.fetch.min.bytes": "1"}
        status, found = worker.ask("PUT", "/connector-plugins/FileStreamSource/config/validate", config)
        wrong = [each["value"] for each in found["configs"] if each["value"]["errors"]]
        assert status == 200 and found["error_count"] == 1
        assert [(each["name"], each["errors"]) for each in wrong] == [("producer.override.acks", [FORBIDDEN])]
        status, answer = worker.ask("POST", "/connectors", {"name": "s", "config": config})
        assert status == 400 and FORBIDDEN in answer["message"]
        assert worker.ask("GET", "/connectors") == (200, [])


def test_a_task_that_was_configured_under_another_policy_does_not_start() -> None:
    async def run() -> None:
        async with bench(**{POLICY: "None"}) as made:
            start = task_start(**{"connector.class": "FileStreamSource", "producer.override.acks": "1"})
            await made.runner.start([start])
            await made.until(State.FAILED)
            assert FORBIDDEN in str(made.owner.told[-1].trace)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("producer.override.security.protocol", "TLS", "one of PLAINTEXT, SSL"),
        ("producer.override.transactional.id", "x", "the worker's"),
        ("producer.override.linger.ms", "soon", "Not a number of type LONG"),
    ],
)
def test_what_clients_cannot_do_is_an_error_of_validate(key: str, value: str, words: str) -> None:
    policy = client_overrides.OverridePolicy("All")
    found = client_overrides.override_values({**SOURCE, key: value}, sink=False, policy=policy)
    assert [each.name for _, each in found] == [key]
    assert any(words in each for each in found[0][1].errors)


@pytest.mark.parametrize("policy", ["None", "Principal", "Allowlist", "All"])
def test_every_key_of_every_client_is_as_the_policy_says_and_nothing_in_it_is_looked_up(policy: str) -> None:
    """Whatever a connector's configuration holds: `${…}` is the worker's providers' alone, and it has none here."""
    worker = {POLICY: policy, ALLOWLIST: "acks", "bootstrap.servers": "a:1", "config.providers": ""}
    allowed = {"None": set(), "Principal": {"sasl.jaas.config", "sasl.mechanism", "security.protocol"}}
    rule, seen = client_overrides.override_policy(worker), 0
    for kind, keys in (("producer", PRODUCER_KEYS), ("consumer", CONSUMER_KEYS), ("admin", PRODUCER_KEYS)):
        more = {"topics": "t", "errors.deadletterqueue.topic.name": "d"} if kind == "consumer" else {}
        more |= {"topic.creation.default.partitions": "1"} if kind == "admin" else {}
        for name in keys:
            for value in ("${file:/etc/passwd:root}", "${env:PATH}", "${dir:/etc:hostname}"):
                config = {**more, f"{kind}.override.{name}": value}
                assert resolved(config, providers_of(worker).lookup) == config
                may = policy == "All" or name in allowed.get(policy, {"acks"})
                said = [
                    error
                    for _, each in client_overrides.override_values(
                        config, sink=kind == "consumer", policy=rule, worker=worker
                    )
                    for error in each.errors
                    if "policy does not allow" in error
                ]
                assert bool(said) is not may, (kind, name, said)
                seen += 1
    assert seen > 500


@pytest.mark.parametrize("name", ["bootstrap.servers", "sasl.oauthbearer.token.endpoint.url"])
def test_a_workers_login_goes_to_no_address_that_a_connector_names(name: str) -> None:
    policy = client_overrides.OverridePolicy("All")
    worker = {"bootstrap.servers": "a:1,b:2", "producer.sasl.jaas.config": "the worker's"}
    config = {**SOURCE, f"producer.override.{name}": "stranger:1"}

    def errors(config: dict[str, str], worker: dict[str, str]) -> list[str]:
        found = client_overrides.override_values(config, sink=False, policy=policy, worker=worker)
        return [error for _, each in found for error in each.errors if "own login" in error]

    [said] = errors(config, worker)
    assert f"producer.override.{name}" in said and "give producer.override.sasl.jaas.config" in said
    with pytest.raises(ConnectError, match="own login"):
        client_overrides.refuse_overrides(config, sink=False, policy=policy, worker=worker)
    own = {**config, "producer.override.sasl.jaas.config": "the connector's"}
    same = {**SOURCE, "producer.override.bootstrap.servers": "b:2, a:1"}
    for each, of in ((own, worker), (same, worker), (config, {"bootstrap.servers": "a:1"})):
        assert not errors(each, of)
        client_overrides.refuse_overrides(each, sink=False, policy=policy, worker=of)


def test_an_exactly_once_source_writes_to_its_workers_cluster_only() -> None:
    def errors(servers: str, *, once: bool = True) -> dict[str, str]:
        config = {**SOURCE, "producer.override.bootstrap.servers": servers}
        more = {"group_id": "g", "exactly_once": once, "bootstrap": "a:1, b:2"}
        return further_errors(config, discover(more=CONNECTORS), is_sink=False, **more)  # type: ignore[arg-type]

    assert list(errors("c:3")) == ["producer.override.bootstrap.servers"]
    assert not errors("b:2,a:1") and not errors("c:3", once=False)


def test_every_key_that_is_said_to_be_heard_is_read_and_every_other_is_told() -> None:
    class Noting(dict[str, str]):
        """Remembers what was asked for."""

        def __init__(self) -> None:
            super().__init__()
            self.asked: set[str] = set()

        def get(self, key: str, default: object = None) -> object:  # type: ignore[override]
            self.asked.add(key)
            return super().get(key, default)

    kinds = client_overrides.ClientKind
    for kind, read in (
        (kinds.PRODUCER, producer_settings),
        (kinds.CONSUMER, consumer_settings),
        (kinds.ADMIN, admin_settings),
    ):
        noting = Noting()
        read(noting, "127.0.0.1:1", "x")
        asked = noting.asked | ({"group.id"} if kind is kinds.CONSUMER else set())
        given = {**dict.fromkeys(asked, "1"), "no.such.key": "1"}
        assert client_overrides.ineffective_keys(kind, given) == ["no.such.key"]
        assert client_overrides.effective_keys(kind) == asked


def test_overrides_without_effect_are_named_once_when_the_connector_starts(
    broker: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    given = {"producer.override.linger.ms": "5", "consumer.override.group.id": "g", "producer.override.acks": "1"}
    with caplog.at_level(logging.WARNING), running_connect(tmp_path, broker) as worker:
        worker.create("told", {**SOURCE, "file": str(tmp_path / "in"), **given})
        worker.until("told", "RUNNING", "RUNNING")
    lines = [each.getMessage() for each in caplog.records if "has no effect" in each.getMessage()]
    assert len(lines) == 2
    assert "producer.override.linger.ms" in lines[0] and "consumer.override.group.id" in lines[1]


def partitions_of(bootstrap: str, topic: str) -> int:
    topics = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=20).topics
    return len(topics[topic].partitions) if topic in topics else 0


def test_overrides_reach_producers_consumers_topic_makers_and_dead_letters(
    broker: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    text = "org.apache.kafka.connect.storage.StringConverter"
    given, taken = tmp_path / "in", tmp_path / "out"
    given.write_text('{"a":1}\nno JSON\n')
    quickly = ("group.initial.rebalance.delay.ms=0",)
    with (
        running_server(tmp_path_factory.mktemp("other"), overrides=quickly) as other,
        running_connect(tmp_path, broker) as worker,
    ):
        there = {f"{kind}.override.bootstrap.servers": other.bootstrap for kind in ("producer", "consumer", "admin")}
        made = {"topic.creation.default.partitions": "1", "topic.creation.default.replication.factor": "1"}
        source = {**SOURCE, "file": str(given), "topic": "away", "value.converter": text, **made}
        worker.create("in", {**source, **{key: there[key] for key in there if not key.startswith("consumer")}})
        until(lambda: partitions_of(other.bootstrap, "away") == 1)
        dead_letters = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "dead"}
        dead_letters["errors.deadletterqueue.topic.replication.factor"] = "1"
        sink = {"connector.class": "FileStreamSink", "file": str(taken), "topics": "away", **dead_letters, **there}
        json = {"value.converter": "JsonConverter", "value.converter.schemas.enable": "false"}
        worker.create("out", {**sink, **json})
        until(lambda: offsets_of(worker, "out") == [2], lambda: worker.ask("GET", "/connectors/out/status"))
        assert taken.read_text() == "{a=1}\n"
        assert values(other.bootstrap, "dead") == [b"no JSON"]
        assert partitions_of(broker, "away") == partitions_of(broker, "dead") == 0


def offsets_of(worker: WholeWorker, connector: str) -> list[int]:
    _, body = worker.ask("GET", f"/connectors/{connector}/offsets")
    return [each["offset"]["kafka_offset"] for each in body["offsets"]]


def values(bootstrap: str, topic: str) -> list[bytes | None]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = []
    try:
        while (message := consumer.poll(20)) is not None and message.error() is None:
            found.append(message.value())
    finally:
        consumer.close()
    return found


def test_clients_of_dead_letters_have_names_of_their_own() -> None:
    task = TaskId("c", 0)
    assert task_clients.producer_properties({}, {}, task)["client.id"] == "connector-producer-c-0"
    assert task_clients.producer_properties({}, {}, task, sink=True)["client.id"] == "connector-dlq-producer-c-0"
    assert task_clients.admin_properties({}, {}, task, sink=True)["client.id"] == "connector-dlq-adminclient-c-0"
