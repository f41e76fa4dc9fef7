"""What an entry of Java's Krb5LoginModule says: whose tickets, of which keytab or cache, and for which service."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ottla.base import ConfigError

__all__ = ["KerberosEntry"]

KEY, SERVICE = "sasl.jaas.config", "sasl.kerberos.service.name"
USED = ("useKeyTab", "keyTab", "principal", "useTicketCache", "ticketCache", "serviceName")
UNUSED = frozenset(
    {
        *("storeKey", "doNotPrompt", "renewTGT", "refreshKrb5Config", "isInitiator", "debug"),
        *("useFirstPass", "tryFirstPass", "storePass", "clearPass"),
    }
)
"""How Java's module works inside, or asks somebody at a keyboard."""
_NAME = re.compile(r"[^/@\s\0]+(?:/[^/@\s\0]+)*(?:@[^/@\s\0]+)?")
_SERVICE = re.compile(r"[^/@\s\0]+")
PARTS_OF_SERVICE = 2


@dataclass(frozen=True, slots=True)
class KerberosEntry:
    """The entry of one login; a keytab or a cache without a name is the library's own."""

    principal: str
    service: str
    """The first part of the brokers' principals."""
    uses_keytab: bool = False
    keytab: str = ""
    uses_ticket_cache: bool = False
    ticket_cache: str = ""

    @classmethod
    def of(cls, options: Mapping[str, str], service: str | None) -> KerberosEntry:
        """Read an entry's options, and `sasl.kerberos.service.name`; raises ConfigError."""
        for name in options:
            if name not in USED and name not in UNUSED:
                near = next((each for each in USED if each.lower() == name.lower()), None)
                meant = f" ({near} is one)" if near else ""
                raise _wrong(f"an option is none of Krb5LoginModule's{meant}; these are used: {', '.join(USED)}")
        found = cls(
            principal=options.get("principal", ""),
            service=_service(options.get("serviceName"), service),
            uses_keytab=_is_true(options, "useKeyTab"),
            keytab=options.get("keyTab", ""),
            uses_ticket_cache=_is_true(options, "useTicketCache"),
            ticket_cache=options.get("ticketCache", ""),
        )
        if not found.uses_keytab and not found.uses_ticket_cache:
            raise _wrong("useKeyTab=true (with keyTab and principal) or useTicketCache=true is needed: nobody is asked")
        if found.keytab and not found.uses_keytab:
            raise _wrong("keyTab counts with useKeyTab=true only")
        if "\0" in found.keytab + found.ticket_cache:
            raise _wrong("keyTab or ticketCache holds a NUL")
        if found.ticket_cache and not found.uses_ticket_cache:
            raise _wrong("ticketCache counts with useTicketCache=true only")
        if found.uses_keytab and not found.principal:
            raise _wrong("principal is needed with useKeyTab=true: a keytab may have keys of several")
        if found.principal and not _NAME.fullmatch(found.principal):
            raise _wrong("principal must be a name as in ann@REALM or kafka/host@REALM")
        return found

    def check_server(self) -> None:
        """Raise ConfigError where a listener cannot take tickets by it."""
        if not self.uses_keytab:
            raise _wrong("a listener needs useKeyTab=true: tickets are checked by the key of its principal")
        if len(self.principal.partition("@")[0].split("/")) != PARTS_OF_SERVICE:
            raise _wrong("Principal has name with unexpected format: a listener's is service/host@REALM")


def _service(in_entry: str | None, in_properties: str | None) -> str:
    """Return the brokers' service, as Kafka does."""
    if in_entry and in_properties and in_entry != in_properties:
        raise _wrong(
            f"Conflicting serviceName values found in JAAS and Kafka configs value in JAAS file {in_entry}, "
            f"value in Kafka config {in_properties}"
        )
    found = in_entry or in_properties
    if not found:
        text = f"No serviceName defined in either JAAS or Kafka config: set {SERVICE}, mostly to kafka"
        raise ConfigError(SERVICE, "", text, text)
    if not _SERVICE.fullmatch(found):
        raise ConfigError(
            SERVICE, found, "must be the first part of the brokers' principals: kafka of kafka/host@REALM"
        )
    return found


def _is_true(options: Mapping[str, str], name: str) -> bool:
    text = options.get(name, "false").lower()
    if text not in ("true", "false"):
        raise _wrong(f"{name} must be true or false")
    return text == "true"


def _wrong(message: str) -> ConfigError:
    return ConfigError(KEY, "[hidden]", message, f"{KEY}: {message}")
