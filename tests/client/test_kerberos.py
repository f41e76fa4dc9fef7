"""What a client's properties say of Kerberos, and where it cannot be had; tests/compat logs in with real tickets."""

from __future__ import annotations

import asyncio
import sys
import threading
from types import ModuleType, SimpleNamespace
from typing import NoReturn

import pytest

from ottla.base import ConfigError, ErrorCode, KafkaError
from ottla.client import ClientSecurity, librdkafka_security, unused_security
from ottla.client.tickets import Tickets

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


class Silent:
    """The library, while no KDC answers, and every cache that it was asked for."""

    def __init__(self, caches: list[str], release: threading.Event) -> None:
        self._caches, self._release = caches, release

    def module(self) -> ModuleType:
        found = ModuleType("gssapi")
        attributes = {
            "Name": lambda *arguments: arguments,
            "NameType": SimpleNamespace(kerberos_principal=0, hostbased_service=1),
            "MechType": SimpleNamespace(kerberos=0),
            "RequirementFlag": SimpleNamespace(mutual_authentication=1, integrity=2),
            "Credentials": self._credentials,
            "SecurityContext": self._context,
            "exceptions": SimpleNamespace(GSSError=ZeroDivisionError),
        }
        for name, value in attributes.items():
            setattr(found, name, value)
        return found

    def _credentials(self, *, store: dict[str, str] | None = None, **other: object) -> None:
        if store and "ccache" in store:
            self._caches.append(store["ccache"])

    def _context(self, **arguments: object) -> NoReturn:
        self._release.wait(60)
        raise ZeroDivisionError


def test_a_login_waits_for_a_ticket_so_long_and_clients_of_one_entry_share_a_cache(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caches: list[str] = []
    release = threading.Event()
    monkeypatch.setitem(sys.modules, "gssapi", Silent(caches, release).module())
    monkeypatch.setattr("ottla.client.tickets.TICKET_SECONDS_MAX", 0.2)
    entries = [{"useKeyTab": "true", "keyTab": f"/{name}", "principal": "ann@X"} for name in "aab"]

    async def test() -> None:
        for each in entries:
            with pytest.raises(KafkaError, match=r"no ticket for broker within 0\.2 s") as told:
                await Tickets({"sasl.kerberos.service.name": "kafka"}, each).begin("broker")
            assert told.value.code is ErrorCode.NETWORK_EXCEPTION
        release.set()

    try:
        asyncio.run(test())
    finally:
        release.set()
    assert caches[0] == caches[1] != caches[2] and caches[0].startswith("MEMORY:")
