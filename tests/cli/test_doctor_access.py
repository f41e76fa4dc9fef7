"""The doctor on who may do what: open listeners, entries that never hold, brokers that differ."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ottla.base import NodeId
from ottla.cli.doctor.access import acl_findings, listener_findings
from ottla.cli.doctor.findings import Status
from ottla.security import Acl, Operation, PatternType, PermissionType, Resource
from tests.cli.conftest import Run
from tests.cli.test_acls import AUTHORIZER
from tests.server import running_server

MAP = "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL,OUTSIDE:SASL_PLAINTEXT"
ENTRY = Acl(Resource.TOPIC, "t", PatternType.LITERAL, "User:a", "*", Operation.READ, PermissionType.ALLOW)


@pytest.mark.parametrize(
    ("listener", "authorizer", "status", "said"),
    [
        ("PLAINTEXT://0.0.0.0:9092", "", Status.WARN, "everyone, for everything; what travels can be read"),
        ("PLAINTEXT://127.0.0.1:9092", "", Status.OK, "from this machine only"),
        ("PLAINTEXT://:9092", "StandardAuthorizer", Status.WARN, "User:ANONYMOUS, as far as ACLs allow"),
        ("SSL://:9093", "", Status.OK, "who has a certificate, for everything"),
        ("SASL_SSL://:9094", "StandardAuthorizer", Status.OK, "who logs in, as far as ACLs allow; encrypted"),
        ("OUTSIDE://:9095", "", Status.WARN, "who logs in, for everything; what travels can be read"),
    ],
)
def test_each_listener_is_said_to_be_open_to_somebody(
    listener: str, authorizer: str, status: Status, said: str
) -> None:
    settings = {
        "listeners": listener,
        "listener.security.protocol.map": MAP,
        "authorizer.class.name": authorizer,
        "ssl.client.auth": "required",
    }
    [finding] = listener_findings(NodeId(1), settings)
    assert finding.status is status and said in finding.said


def test_what_holds_for_one_listener_alone_is_stronger() -> None:
    settings = {
        "listeners": "SSL://:9093",
        "listener.security.protocol.map": MAP,
        "authorizer.class.name": "",
        "listener.name.ssl.ssl.client.auth": "required",
        "ssl.client.auth": "none",
    }
    [finding] = listener_findings(NodeId(1), settings)
    assert "who has a certificate" in finding.said


def test_entries_that_never_hold_and_entries_for_everybody_are_named() -> None:
    entries = [ENTRY, replace(ENTRY, host="10.0.0.0/8"), replace(ENTRY, principal="User:*", operation=Operation.ALL)]
    never, everybody, count = acl_findings(entries)
    assert never.status is everybody.status is Status.WARN
    assert "10.0.0.0/8" in never.said and "ALL on TOPIC t" in everybody.said
    assert "super users only" in count.said


def test_a_broker_with_an_authorizer_is_examined(run: Run, tmp_path_factory: pytest.TempPathFactory) -> None:
    with running_server(tmp_path_factory.mktemp("broker"), overrides=AUTHORIZER) as server:
        out = run(f"doctor --bootstrap-server {server.bootstrap}").out
    assert "StandardAuthorizer" in out and "0 entries" in out
    assert "open to User:ANONYMOUS, as far as ACLs allow" in out
