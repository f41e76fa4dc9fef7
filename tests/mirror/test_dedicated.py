"""What an mm2.properties means: which flows there are, and what their workers and connectors are given."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ottla.base import ConfigError
from ottla.mirror import Flow, flows_of

TWO = {
    "clusters": "A, B",
    "A.bootstrap.servers": "a:9092",
    "B.bootstrap.servers": "b:9092",
    "A->B.enabled": "true",
}


def flow(given: dict[str, str], name: str = "A->B") -> Flow:
    return next(each for each in flows_of({**TWO, **given}) if str(each) == name)


def test_a_flow_back_is_there_for_its_heartbeats_until_they_are_turned_off() -> None:
    assert list(map(str, flows_of(TWO))) == ["A->B", "B->A"]
    assert list(map(str, flows_of({**TWO, "B->A.emit.heartbeats.enabled": "false"}))) == ["A->B"]
    assert list(map(str, flows_of({**TWO, "emit.heartbeats.enabled": "false"}))) == ["A->B"]
    assert list(map(str, flows_of(TWO, ["A"]))) == ["B->A"]
    back = flow({}, "B->A").connectors["MirrorSourceConnector"]
    assert (back["enabled"], flow({}).connectors["MirrorSourceConnector"]["enabled"]) == ("false", "true")


def test_a_worker_keeps_its_group_and_topics_on_the_target() -> None:
    worker = flow({"B.security.protocol": "SSL", "offset.storage.replication.factor": "1"}).worker
    assert worker["bootstrap.servers"] == "b:9092" and worker["group.id"] == "A-mm2"
    assert worker["offset.storage.topic"] == "mm2-offsets.A.internal"
    assert worker["config.storage.topic"] == "mm2-configs.A.internal"
    assert worker["status.storage.topic"] == "mm2-status.A.internal"
    assert worker["offset.storage.replication.factor"] == "1" and worker["security.protocol"] == "SSL"
    assert worker["producer.security.protocol"] == "SSL" and worker["client.id"] == "A->B"
    assert worker["key.converter"].endswith("ByteArrayConverter")
    assert worker["listeners"] == "http://127.0.0.1:0"


def test_plugins_and_classes_of_ones_own_are_given_once_for_all_flows() -> None:
    own = {"topic.filter.class": "acme.OfTenant", "forwarding.admin.class": "acme.Told", "A->B.tenant": "t"}
    found = flow({"plugin.path": "/plugins", **own})
    assert found.worker["plugin.path"] == "/plugins"
    for config in found.connectors.values():
        assert (config["topic.filter.class"], config["forwarding.admin.class"]) == ("acme.OfTenant", "acme.Told")
        assert config["tenant"] == "t"


def test_what_is_said_of_a_flow_wins_over_what_is_said_of_all() -> None:
    given = {"topics": "one", "A->B.topics": "two", "replication.factor": "1", "tasks.max": "4"}
    config = flow(given).connectors["MirrorSourceConnector"]
    assert (config["topics"], config["replication.factor"], config["tasks.max"]) == ("two", "1", "4")
    assert flow(given, "B->A").connectors["MirrorSourceConnector"]["topics"] == "one"
    assert (config["source.cluster.alias"], config["target.cluster.alias"]) == ("A", "B")
    assert config["connector.class"] == "org.apache.kafka.connect.mirror.MirrorSourceConnector"


def test_clusters_clients_get_what_is_said_of_their_cluster() -> None:
    given = {
        "A.consumer.isolation.level": "read_committed",
        "A.sasl.mechanism": "PLAIN",
        "ssl.truststore.location": "/trust",
        "B.ssl.truststore.location": "/own",
        "config.providers": "file",
    }
    config = flow(given).connectors["MirrorSourceConnector"]
    assert config["source.consumer.isolation.level"] == "read_committed"
    assert config["source.cluster.sasl.mechanism"] == config["source.admin.sasl.mechanism"] == "PLAIN"
    assert config["source.cluster.ssl.truststore.location"] == "/trust"
    assert (
        config["target.cluster.ssl.truststore.location"] == config["target.producer.ssl.truststore.location"] == "/own"
    )
    assert config["source.cluster.bootstrap.servers"] == "a:9092" and config["config.providers"] == "file"


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("http://localhost:8083", "http://localhost:8083"),
        ("http://127.0.0.1:8083,https://[::1]:8084", "http://127.0.0.1:8083,https://[::1]:8084"),
        ("http://mirror.example.org:8083", "http://127.0.0.1:0"),
        ("http://localhost:8083,http://:8084", "http://127.0.0.1:0"),
    ],
)
def test_users_ask_at_a_loopback_address_of_their_choice_and_at_no_other(asked: str, found: str) -> None:
    given = {**TWO, "east->west.enabled": "true", "listeners": asked}
    assert {each.worker["listeners"] for each in flows_of(given)} == {found}


def test_with_the_internal_rest_all_flows_have_one_address_and_a_path_each() -> None:
    given = {
        **TWO,
        "dedicated.mode.enable.internal.rest": "true",
        "listeners": "https://host:8080",
        "rest.advertised.host.name": "elsewhere",
        "ssl.keystore.location": "/store",
        "A.ssl.keystore.location": "/of-its-clients",
    }
    for each in flows_of(given):
        assert (each.worker["listeners"], each.worker["rest.advertised.host.name"]) == (
            "https://host:8080",
            "elsewhere",
        )
        assert each.worker["listeners.https.ssl.keystore.location"] == "/store"
    assert [each.path for each in flows_of(given)] == ["/A/B", "/B/A"]
    odd = {"clusters": "a/b,{c}", "a/b.bootstrap.servers": "a:1", "{c}.bootstrap.servers": "c:1"}
    assert [each.path for each in flows_of(odd)] == ["/a%2Fb/%7Bc%7D", "/%7Bc%7D/a%2Fb"]
    with pytest.raises(ConfigError, match="true or false"):
        flows_of({**given, "dedicated.mode.enable.internal.rest": "yes"})
    with pytest.raises(ConfigError, match="listeners"):
        flows_of({**given, "listeners": ""})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"clusters": ""}, "Missing required configuration"),
        ({"clusters": "A,A"}, "each cluster once"),
        ({"clusters": "A,C"}, "C.bootstrap.servers"),
        ({"A->B.enabled": "false", "emit.heartbeats.enabled": "false"}, "No source->target replication flows."),
    ],
)
def test_what_makes_no_flow_is_refused(given: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        flows_of({**TWO, **given})
    with pytest.raises(ConfigError, match="some of A, B"):
        flows_of(TWO, ["C"])


def test_the_command_says_what_is_wrong_and_ends_with_kafkas_code(tmp_path: Path) -> None:
    path = tmp_path / "mm2.properties"
    path.write_text("clusters=A\nA.bootstrap.servers=localhost:1\n")
    command = [sys.executable, "-m", "ottla.cli.main", "connect-mirror-maker", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 2 and "No source->target replication flows." in done.stderr
    assert "Traceback" not in done.stderr
