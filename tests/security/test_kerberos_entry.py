"""What is read of Krb5LoginModule's options, and what is refused with a sentence that helps."""

from __future__ import annotations

import os
import re
import sys
from types import ModuleType

import pytest

from ottla.base import ConfigError, bring_extra
from ottla.security import KerberosEntry, parse_jaas_file, server_entry
from ottla.security.sasl.gss import check_installed

KEYTAB = {"useKeyTab": "true", "keyTab": "/etc/kafka.keytab", "principal": "kafka/host@REALM"}


def test_an_entry_of_kafkas_documentation_is_read() -> None:
    text = """KafkaServer {
        com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true
        keyTab="/etc/security/keytabs/kafka_server.keytab" principal="kafka/kafka1.hostname.com@EXAMPLE.COM";
    };"""
    options = server_entry(None, parse_jaas_file(text), listener="X", mechanism="GSSAPI").options
    found = KerberosEntry.of(options, "kafka")
    found.check_server()
    assert found.principal == "kafka/kafka1.hostname.com@EXAMPLE.COM" and found.service == "kafka"
    assert found.uses_keytab and found.keytab == "/etc/security/keytabs/kafka_server.keytab"
    assert not found.uses_ticket_cache


def test_the_service_comes_from_either_and_never_from_two_that_differ() -> None:
    assert KerberosEntry.of({**KEYTAB, "serviceName": "kafka"}, None).service == "kafka"
    assert KerberosEntry.of({**KEYTAB, "serviceName": "kafka"}, "kafka").service == "kafka"
    with pytest.raises(ConfigError, match="Conflicting serviceName values found in JAAS and Kafka configs"):
        KerberosEntry.of({**KEYTAB, "serviceName": "kafka"}, "other")
    with pytest.raises(ConfigError, match="No serviceName defined in either JAAS or Kafka config"):
        KerberosEntry.of(KEYTAB, None)
    with pytest.raises(ConfigError, match="first part"):
        KerberosEntry.of(KEYTAB, "kafka/host")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "useKeyTab=true"),
        ({"useKeyTab": "false", "useTicketCache": "FALSE"}, "useKeyTab=true"),
        ({"useKeyTab": "yes"}, "useKeyTab must be true or false"),
        ({"useKeyTab": "true"}, "principal is needed"),
        ({**KEYTAB, "useKeyTab": "false", "useTicketCache": "true"}, "keyTab counts with"),
        ({**KEYTAB, "ticketCache": "/tmp/x"}, "ticketCache counts with"),
        ({**KEYTAB, "keytab": "/x"}, r"\(keyTab is one\)"),
        ({**KEYTAB, "password": "s3cret"}, "an option is none of"),
        ({**KEYTAB, "principal": "a@b@c"}, "principal must be"),
        ({**KEYTAB, "principal": "a b"}, "principal must be"),
        ({**KEYTAB, "keyTab": "/x\0y"}, "NUL"),
    ],
)
def test_what_could_not_be_meant_is_refused(options: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=says) as found:
        KerberosEntry.of(options, "kafka")
    assert "s3cret" not in str(found.value)


@pytest.mark.parametrize("principal", ["kafka", "kafka@REALM", "kafka/a/b@REALM"])
def test_a_listener_has_a_service_and_a_host(principal: str) -> None:
    with pytest.raises(ConfigError, match="unexpected format"):
        KerberosEntry.of({**KEYTAB, "principal": principal}, "kafka").check_server()


def test_where_the_library_is_not_there_the_error_says_how_to_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(ConfigError, match=f"libkrb5-dev gcc python3-dev && {re.escape(bring_extra('kerberos'))}"):
        check_installed("sasl.enabled.mechanisms", {})


def test_the_configuration_that_java_is_told_counts_unless_kerberos_is_told_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", ModuleType("gssapi"))
    javas = {"java.security.krb5.conf": "/etc/kafka/krb5.conf"}
    for name, counts in (("", "/etc/kafka/krb5.conf"), ("/etc/mine.conf", "/etc/mine.conf")):
        with monkeypatch.context() as patched:
            patched.setenv("KRB5_CONFIG", name)
            if not name:
                patched.delenv("KRB5_CONFIG")
            check_installed("sasl.mechanism", javas)
            assert os.environ["KRB5_CONFIG"] == counts
            patched.delenv("KRB5_CONFIG")
