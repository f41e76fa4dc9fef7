"""Kerberos tickets as logins of one listener (GSSAPI): whose key they are checked by, and whom a principal stands for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ottla.base import Clock, ConfigError
from ottla.security import KerberosEntry, KerberosRules
from ottla.security.sasl import GssapiServer, GssError

__all__ = ["Tickets"]

ENABLED = "sasl.enabled.mechanisms"
PRINCIPAL_CHARACTERS_MAX = 1024


class Tickets:
    """What one listener takes for a ticket."""

    def __init__(
        self,
        entry: KerberosEntry,
        rules: Sequence[str],
        *,
        key: str,
        system_properties: Mapping[str, str],
        clock: Clock,
    ) -> None:
        """`entry` stands at `key`; raises ConfigError where Kerberos' library is not there, or for what is no rule."""
        from ottla.security.sasl.gss import Acceptor, check_installed, default_realm  # it imports that library

        check_installed(ENABLED, system_properties)
        self._key = key
        self._clock = clock
        self._service = entry.service
        self._acceptor = Acceptor(entry)
        self._rules = KerberosRules(rules, realm=default_realm())

    def check(self) -> None:
        """Raise ConfigError where the keytab cannot be read, or has no key of the principal."""
        try:
            self._acceptor.check()
        except GssError as error:
            raise ConfigError(self._key, "[hidden]", "", f"{self._key}: the keytab cannot be used: {error}") from error

    def begin(self) -> GssapiServer:
        """Begin an exchange."""
        return GssapiServer(
            self._acceptor.accept, user=self.user, service=self._service, now_ms=lambda: int(self._clock.now_ms())
        )

    def user(self, principal: str) -> str:
        """Return a principal's name in ACLs; raises NoRuleError, and GssError for what rules could read as another."""
        if len(principal) > PRINCIPAL_CHARACTERS_MAX:
            raise GssError(f"the principal has {len(principal)} characters, more than {PRINCIPAL_CHARACTERS_MAX}")
        if "\\" in principal or not principal.isprintable():
            raise GssError(f"the principal {principal!a} has a sign in it that rules could take for another")
        found = self._rules.user(principal)
        if not found:
            raise GssError(f"the rules make an empty name of the principal {principal}")
        return found
