"""Settings of Java's clients in librdkafka's words, and connections that cannot be."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.base import ConfigError
from ottla.cli.records.librdkafka import consumer_settings, producer_settings
from tests.cli.conftest import Run
from tests.security.authority import PASSWORD, authority, signed
from tests.security.tls_files import trust_properties
from tests.server import running_server

LOGIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p;q";'


@pytest.fixture(scope="module")
def at(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_server(tmp_path_factory.mktemp("ottla")) as server:
        yield server.bootstrap


def test_a_producer_partitions_and_repeats_as_javas() -> None:
    assert producer_settings({})["partitioner"] == "murmur2_random"
    assert producer_settings({})["enable.idempotence"] is True
    assert producer_settings({"acks": "1"})["enable.idempotence"] is False
    assert producer_settings({"retries": "0"})["enable.idempotence"] is False
    assert producer_settings({"buffer.memory": "33554432", "batch.size": "0"}).items() >= {
        ("queue.buffering.max.kbytes", 32768),
        ("batch.size", 1),
    }


def test_a_consumers_settings_mean_what_they_mean_in_java() -> None:
    found = consumer_settings(
        {
            "auto.offset.reset": "none",
            "group.protocol": "CONSUMER",
            "partition.assignment.strategy": "org.apache.kafka.clients.consumer.RangeAssignor, RoundRobinAssignor",
            "fetch.max.wait.ms": "100",
            "receive.buffer.bytes": "-1",
            "key.deserializer": "org.apache.kafka.common.serialization.LongDeserializer",
            "max.poll.records": "10",
        }
    )
    assert found == {
        "isolation.level": "read_uncommitted",
        "log_level": 0,
        "auto.offset.reset": "error",
        "group.protocol": "consumer",
        "partition.assignment.strategy": "range,roundrobin",
        "fetch.wait.max.ms": "100",
        "socket.receive.buffer.bytes": 0,
    }


def test_protection_is_translated_and_never_dropped(tmp_path: Path) -> None:
    trusted, own = authority(), signed(authority(), "client")
    (tmp_path / "client.p12").write_bytes(own.p12())
    found = consumer_settings(
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": LOGIN,
            **trust_properties(tmp_path, trusted),
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(tmp_path / "client.p12"),
            "ssl.keystore.password": PASSWORD,
            "ssl.cipher.suites": "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
            "ssl.endpoint.identification.algorithm": "",
        }
    )
    assert found.pop("ssl.key.pem").startswith("-----BEGIN PRIVATE KEY-----")
    assert found.pop("ssl.certificate.pem").count("BEGIN CERTIFICATE") == len(own.chain)
    assert found.pop("ssl.ca.pem").count("BEGIN CERTIFICATE") == 1
    assert found | {"isolation.level": "", "log_level": 0} == {
        "isolation.level": "",
        "log_level": 0,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "u",
        "sasl.password": "p;q",
        "ssl.cipher.suites": "ECDHE-ECDSA-AES256-GCM-SHA384",
        "ssl.endpoint.identification.algorithm": "none",
    }


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"ssl.enabled.protocols": "TLSv1.3"}, "one version of TLS"),
        ({"ssl.truststore.location": "/store.jks"}, "No such file"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}, "'KafkaClient'"),
        (
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "SCRAM-SHA-256",
                "sasl.jaas.config": LOGIN.replace("plain.Plain", "scram.Scram").rstrip(";") + ' tokenauth="true";',
            },
            "its SCRAM does not send the extension tokenauth",
        ),
    ],
)
def test_protection_that_the_library_cannot_give_is_refused(properties: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(words)):
        consumer_settings({"security.protocol": "SSL"} | properties)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("auto.offset.reset", "first"),
        ("partition.assignment.strategy", "com.example.Own"),
        ("request.timeout.ms", "soon"),
    ],
)
def test_a_value_that_has_no_meaning_here_is_refused(key: str, value: str) -> None:
    with pytest.raises(ConfigError):
        consumer_settings({key: value})


@pytest.mark.parametrize(("protocol", "said"), [("SSL", "SSL handshake failed"), ("SASL_PLAINTEXT", "SASL")])
@pytest.mark.parametrize("noun", ["console-producer", "console-consumer --group g"])
def test_the_wrong_listener_is_named_at_once(
    run: Run, at: str, protocol: str, said: str, noun: str, tmp_path: Path
) -> None:
    config = tmp_path / "client.properties"
    config.write_text(f"security.protocol={protocol}\nsasl.mechanism=PLAIN\nsasl.jaas.config={LOGIN}\n")
    found = run(f"{noun} --bootstrap-server {at} --topic t --command-config {config}")
    assert (found.code, found.out) == (1, "")
    assert said in found.err and "Traceback" not in found.err and found.err.count("\n") == 1


@pytest.mark.parametrize("noun", ["console-producer", "console-consumer --group g"])
def test_a_protected_broker_that_is_not_there_is_named_within_the_time_given(run: Run, noun: str) -> None:
    pairs = "--command-property security.protocol=SSL --command-property max.block.ms=200"
    found = run(
        f"{noun} --bootstrap-server 127.0.0.1:1 --topic t {pairs} --command-property default.api.timeout.ms=200"
    )
    assert (found.code, found.out) == (1, "")
    assert "no broker answers" in found.err and "127.0.0.1:1" in found.err and found.err.count("\n") == 1


def test_a_topic_that_never_comes_is_named_in_javas_words(run: Run, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("strict")
    with running_server(folder, overrides=["auto.create.topics.enable=false"]) as server:
        found = run(f"console-producer --bootstrap-server {server.bootstrap} --topic t --max-block-ms 100", stdin="x\n")
        assert found.code == 1
        assert found.err == "ottla console-producer: Topic t not present in metadata after 100 ms.\n"


def test_a_topic_that_cannot_be_is_named_at_once(run: Run, at: str) -> None:
    found = run(f"console-producer --bootstrap-server {at} --topic bad%topic", stdin="x\n")
    assert (found.code, found.err) == (1, "ottla console-producer: Invalid topics: [bad%topic]\n")
