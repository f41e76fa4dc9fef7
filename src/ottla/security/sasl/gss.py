"""The door to Kerberos: tickets and keytabs, by the system's library (MIT's or Heimdal's) under the package `gssapi`.

What is here may wait, for a KDC, a name server or a file: whoever runs a loop asks it from a thread. The library reads
what `KRB5_CONFIG` names (else /etc/krb5.conf) itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, TypeVar

from ottla.base import ConfigError, bring_extra
from ottla.security.kerberos_entry import KerberosEntry
from ottla.security.sasl.kerberos import GssContext, GssError, GssUnreachableError

__all__ = ["Acceptor", "Initiator", "check_installed", "default_realm"]

T = TypeVar("T")

INSTALL = f"apt-get install libkrb5-dev gcc python3-dev && {bring_extra('kerberos')}"
JAVAS_CONFIGURATION = "java.security.krb5.conf"
KDC_UNREACHABLE = 0x96C73A9C
"""KRB5_KDC_UNREACH, as an error's minor code."""
WORDS_MAX = 300
SAYS_NOTHING = ("", "Success", "Unknown error")
"""What the library says of a minor code where the major one says all."""


def check_installed(key: str, system_properties: Mapping[str, str]) -> None:
    """Raise ConfigError where the package, or the library under it, is not there.

    Where Java is told which configuration of Kerberos counts (KAFKA_OPTS), it counts here, too, unless KRB5_CONFIG does.
    """
    configuration = system_properties.get(JAVAS_CONFIGURATION)
    if configuration:
        os.environ.setdefault("KRB5_CONFIG", configuration)
    try:
        import gssapi  # noqa: F401
    except (ImportError, OSError) as error:
        text = f"{key}: GSSAPI, which is Kafka's default, needs Kerberos' library: {INSTALL}"
        raise ConfigError(key, "GSSAPI", text, f"{text} ({type(error).__name__})") from error


def default_realm() -> str:
    """Return the realm of names without one, nothing where the configuration of Kerberos has none."""
    import gssapi

    try:
        name = gssapi.Name("nobody", gssapi.NameType.kerberos_principal).canonicalize(gssapi.MechType.kerberos)
    except gssapi.exceptions.GSSError:
        return ""
    return str(name).rpartition("@")[2]


@dataclass(frozen=True, slots=True)
class Acceptor:
    """Takes tickets for the principal of a listener's entry."""

    entry: KerberosEntry

    def check(self) -> None:
        """Raise GssError where the keytab cannot be read, or has no key of the principal."""
        _asked(self._credentials)

    def accept(self) -> GssContext:
        """Begin a context; raises GssError."""
        import gssapi

        return _Context(_asked(lambda: gssapi.SecurityContext(creds=self._credentials(), usage="accept")), "")

    def _credentials(self) -> Any:
        return _with_keytab(self.entry)


class Initiator:
    """Has tickets for a client; what it asks a KDC for stays in memory, and is asked for anew in half of its lifetime.

    Clients of one entry share a cache: the library forgets none while the process runs, so there is one for each entry.
    """

    def __init__(self, entry: KerberosEntry) -> None:
        self._entry = entry
        self._cache = f"MEMORY:ottla-{sha256(repr(entry).encode()).hexdigest()[:16]}"

    def initiate(self, host: str) -> tuple[GssContext, bytes]:
        """Begin a login to the service on a host: the context, and its first token; raises GssError."""
        import gssapi

        flags = gssapi.RequirementFlag
        context = _Context(
            _asked(
                lambda: gssapi.SecurityContext(
                    name=gssapi.Name(f"{self._entry.service}@{host}", gssapi.NameType.hostbased_service),
                    creds=self._credentials(),
                    flags=(flags.mutual_authentication, flags.integrity),
                    mech=gssapi.MechType.kerberos,
                    usage="initiate",
                )
            ),
            f"no ticket for {self._entry.service}/{host}: ",
        )
        return context, context.step(None)

    def _credentials(self) -> Any:
        """Return those of the ticket cache, where the entry uses it and it has a ticket that holds, else of the keytab."""
        entry = self._entry
        if entry.uses_ticket_cache:
            try:
                return _asked(self._cached)
            except GssError:
                if not entry.uses_keytab:
                    raise
        _with_keytab(entry)  # its errors say what a keytab lacks; those below say that there is no ticket
        keytab = {"client_keytab": _path(entry.keytab)} if entry.keytab else {}
        return self._acquired({**keytab, "ccache": self._cache})

    def _cached(self) -> Any:
        """Return the credentials of the ticket cache; raises GssError where they have ended."""
        import gssapi

        cache = self._entry.ticket_cache
        found = self._acquired({"ccache": _path(cache)} if cache else None)
        try:
            if found.lifetime is None or found.lifetime > 0:
                return found
        except gssapi.exceptions.ExpiredCredentialsError:
            pass  # some versions say so in this way
        raise GssError(f"the ticket in the cache {cache or '(the default one)'} has ended: run kinit")

    def _acquired(self, store: dict[str, str] | None) -> Any:
        import gssapi

        return gssapi.Credentials(
            name=_principal(self._entry.principal) if self._entry.principal else None,
            usage="initiate",
            mechs=[gssapi.MechType.kerberos],
            store=store,
        )


class _Context:
    """The library's context, with errors in our words; `begins` is how those of a client's begin."""

    def __init__(self, context: Any, begins: str) -> None:
        context.__DEFER_STEP_ERRORS__ = False  # it would keep an error for later, where there is a token that tells it
        self._context = context
        self._begins = begins

    @property
    def complete(self) -> bool:
        return bool(self._context.complete)

    @property
    def peer(self) -> str:
        try:
            return _asked(lambda: str(self._context.initiator_name))
        except UnicodeDecodeError:
            raise GssError("the client's principal is not UTF-8") from None

    @property
    def lifetime_ms(self) -> int | None:
        found = _asked(lambda: self._context.lifetime)
        return None if found is None else int(found) * 1000

    def step(self, token: bytes | None) -> bytes:
        answer = _asked(lambda: self._context.step(token), self._begins)
        if self.complete:
            self._check()
        return answer or b""

    def _check(self) -> None:
        """Raise GssError where the context that stands is not what was asked for."""
        import gssapi

        context, flags = self._context, gssapi.RequirementFlag
        if context.mech != gssapi.MechType.kerberos:
            raise GssError("the token is of another mechanism than Kerberos")
        if flags.integrity not in context.actual_flags:
            raise GssError("the context does not protect the choice of a layer")
        if context.usage == "initiate" and flags.mutual_authentication not in context.actual_flags:
            raise GssError("the server has not shown who it is")
        if context.usage == "accept" and flags.anonymity in context.actual_flags:
            raise GssError("the client does not say who it is")

    def wrap(self, text: bytes) -> bytes:
        return _asked(lambda: bytes(self._context.wrap(text, False).message))

    def unwrap(self, token: bytes) -> bytes:
        return _asked(lambda: bytes(self._context.unwrap(token).message))


def _with_keytab(entry: KerberosEntry) -> Any:
    """Return credentials that take tickets with a keytab's key of the principal."""
    import gssapi

    store = {"keytab": _path(entry.keytab)} if entry.keytab else None
    kerberos = [gssapi.MechType.kerberos]
    return gssapi.Credentials(name=_principal(entry.principal), usage="accept", mechs=kerberos, store=store)


def _principal(name: str) -> Any:
    import gssapi

    return gssapi.Name(name, gssapi.NameType.kerberos_principal)


def _path(name: str) -> str:
    """Return where a file is, in the library's words: Java's `file:` before it means nothing there."""
    return name.removeprefix("file:") if name.startswith("file:") else name


def _asked(call: Callable[[], T], begins: str = "") -> T:
    """Return what the library gives; raises GssError in words that hold no secret."""
    import gssapi

    try:
        return call()
    except gssapi.exceptions.GSSError as error:
        words = begins + _words(error)
        if error.min_code & 0xFFFFFFFF == KDC_UNREACHABLE:
            raise GssUnreachableError(words) from None
        raise GssError(words) from None


def _words(error: Any) -> str:
    """Return what the library says of an error: of its two codes the one that tells more."""
    minor = "; ".join(each for each in error.get_all_statuses(error.min_code, False) if each not in SAYS_NOTHING)
    major = "; ".join(each for each in error.get_all_statuses(error.maj_code, True) if each)
    words = (minor or major)[:WORDS_MAX]
    return "".join(each if each.isprintable() else "?" for each in words)  # a token's names are in some
