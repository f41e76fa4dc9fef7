"""What a client's properties say of Kerberos, and where it cannot be had; tests/compat logs in with real tickets."""

from __future__ import annotations

import sys

import pytest

from ottla.base import ConfigError
from ottla.client import ClientSecurity, librdkafka_security, unused_security

GIVEN = {"security.protocol": "SASL_SSL", "sasl.kerberos.service.name": "kafka"}
ENTRY = "com.sun.security.auth.module.Krb5LoginModule required"


@pytest.mark.parametrize("mechanism", [{}, {"sasl.mechanism": "GSSAPI"}])
def test_librdkafka_is_not_asked_for_kerberos_which_its_wheel_lacks(mechanism: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="Connect's sinks go by, knows no Kerberos"):
        librdkafka_security({**GIVEN, **mechanism, "sasl.jaas.config": f"{ENTRY} useTicketCache=true;"})


def test_what_is_wrong_is_said_before_a_connection_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    for given, says in (
        (GIVEN, "Kafka's default is GSSAPI"),
        (GIVEN | {"sasl.jaas.config": f"{ENTRY};"}, "useKeyTab=true"),
        (GIVEN | {"sasl.jaas.config": f"{ENTRY} useTicketCache=true;", "sasl.login.class": "a.B"}, "Java's classes"),
    ):
        with pytest.raises(ConfigError, match=says):
            ClientSecurity.of(given)
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(ConfigError, match="pip install"):
        ClientSecurity.of(GIVEN | {"sasl.jaas.config": f"{ENTRY} useTicketCache=true;"})


def test_keys_for_kafkas_kinit_are_named_as_without_effect() -> None:
    found = unused_security({**GIVEN, "sasl.kerberos.kinit.cmd": "/bin/x", "sasl.kerberos.ticket.renew.jitter": "0.1"})
    assert set(found) == {"sasl.kerberos.kinit.cmd", "sasl.kerberos.ticket.renew.jitter"}
