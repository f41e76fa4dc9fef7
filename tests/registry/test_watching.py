"""Metrics and health, HTTPS with clients' certificates, and a topic that another registry has written."""

from __future__ import annotations

import json
import ssl
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from ottla.base import TopicPartition
from ottla.client import BlockingClient, batch_of
from tests.registry.running import RegistryProcess, record, running_registry
from tests.security.authority import authority, signed
from tests.security.tls_files import key_properties, trust_properties
from tests.server import Server
from tests.waiting import until


def test_health_and_metrics_tell_of_the_instance(registry: RegistryProcess, subject: str) -> None:
    registry.register(subject, record("Watched"))
    found = registry.ask("GET", "/health")
    assert found.status == 200 and found.body["is_primary"] and found.body["primary_known"]
    assert registry.url not in str(found.body), "who asks without a login learns no address"
    assert registry.get("/master_available") == {"master_available": True}
    page = registry.get("/metrics")
    assert "ottla_registry_primary 1" in page and 'ottla_registry_versions{type="AVRO",deleted="false"} 1' in page
    assert 'ottla_registry_answers_total{method="POST",status="200"} 1' in page
    assert "ottla_registry_elections_total 1" in page


CONFLUENTS = [
    ('{"keytype":"NOOP","magic":0}', None),
    ('{"keytype":"CONFIG","subject":"t","magic":0}', '{"subject":"t","compatibilityLevel":"NONE"}'),
    *(
        (
            f'{{"keytype":"SCHEMA","subject":"t","version":{number},"magic":1}}',
            json.dumps({"subject": "t", "version": number, "id": number, "schema": record(name), "deleted": gone}),
        )
        for number, name, gone in ((1, "A", False), (2, "B", False), (1, "A", True))
    ),
    ('{"keytype":"SCHEMA","subject":"t","version":1,"magic":1}', None),
    (
        '{"keytype":"SCHEMA","subject":"d","version":1,"magic":1}',
        json.dumps({"subject": "d", "version": 1, "id": 3, "schema": record("A"), "deleted": False}),
    ),
    ('{"keytype":"DELETE_SUBJECT","subject":"d","magic":0}', '{"subject":"d","version":1}'),
    ('{"keytype":"MODE","subject":"r","magic":0}', '{"subject":"r","mode":"READONLY"}'),
    ('{"keytype":"ASSOC","tenant":"default","resourceName":"x","magic":0}', "{}"),
]
"""What a registry of Confluent's, version 7.4, writes for such a course of requests, and a kind of record of version 8."""


def test_a_topic_of_confluents_registry_is_taken_over(broker: Server) -> None:
    overrides = ["kafkastore.topic=_theirs", "schema.registry.group.id=theirs"]
    command = [sys.executable, "-m", "ottla.cli.main", "topics", "--bootstrap-server", broker.bootstrap, "--create"]
    more = ["--topic", "_theirs", "--partitions", "1", "--config", "cleanup.policy=compact"]
    subprocess.run([*command, *more], check=True, capture_output=True, timeout=100)
    with BlockingClient(broker.bootstrap) as client:
        entries = [(key.encode(), None if value is None else value.encode()) for key, value in CONFLUENTS]
        client.produce({TopicPartition("_theirs", 0): batch_of(entries)})
    with running_registry(broker.bootstrap, overrides=overrides) as registry:
        assert registry.get("/subjects") == ["t"]
        assert registry.get("/subjects?deleted=true") == ["d", "t"]
        assert registry.get("/subjects/t/versions") == [2]
        assert registry.get("/schemas/ids/3")["schema"] == record("A")
        assert registry.get("/config/t") == {"compatibilityLevel": "NONE"}
        assert registry.error("POST", "/subjects/r/versions", {"schema": record("A")})[1] == 42205
        assert registry.register("next", record("C")) == 4
        until(lambda: "is passed over" in registry.said(), registry.said)


def test_https_is_served_to_clients_with_certificates(broker: Server, tmp_path: Path) -> None:
    trusted = authority()
    own = signed(trusted, "registry")
    stores = key_properties(tmp_path, own, "own") | trust_properties(tmp_path, trusted)
    overrides = [
        *("listeners=https://127.0.0.1:0", "kafkastore.topic=_https", "schema.registry.group.id=https"),
        *("ssl.client.authentication=REQUIRED", *(f"{key}={value}" for key, value in stores.items())),
    ]
    with running_registry(broker.bootstrap, overrides=overrides) as registry:
        context = ssl.create_default_context(cafile=str(tmp_path / "trusted.pem"))
        with pytest.raises(OSError):
            urllib.request.urlopen(f"{registry.url}/subjects", context=context, timeout=30)
        context.load_cert_chain(tmp_path / "own.pem")
        with urllib.request.urlopen(f"{registry.url}/subjects", context=context, timeout=30) as answer:
            assert json.load(answer) == []
