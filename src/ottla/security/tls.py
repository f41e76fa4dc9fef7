"""TLS contexts for both sides, made of Kafka's `ssl.*`, and renewed when the stores change.

A store that is refused leaves the old one in place, and connections keep the context with which they began.
"""

from __future__ import annotations

import ssl
from base64 import encodebytes
from collections.abc import Callable
from dataclasses import dataclass, field

from ottla.base import ConfigError, ErrorCode, KafkaError
from ottla.security.distinguished_names import name_text
from ottla.security.key_file import file_of, read_file
from ottla.security.keystores import KeyEntry, Store, StoreError, need_cryptography, open_pem, open_store
from ottla.security.tls_settings import TLS_13_CIPHERS, StoreSettings, TlsSettings, openssl_cipher

__all__ = ["PemStores", "Renewal", "Tls", "certificate_name", "handshake", "pem_stores"]

HANDSHAKE_STEPS_MAX = 20


@dataclass(frozen=True, slots=True)
class _Stores:
    """What was read: the bytes, by which a change is seen, and what they hold."""

    key_data: bytes | None
    trust_data: bytes | None
    keys: Store
    trusted: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class PemStores:
    """What a client's stores hold, as PEM; empty where there is none."""

    key: str = field(repr=False)
    chain: str
    trusted: str


def pem_stores(settings: TlsSettings, read: Callable[[str], bytes] = read_file) -> PemStores:
    """Open the stores of a client whose library reads nothing but PEM; raises ConfigError."""
    need_cryptography()
    stores = _opened(settings, read)
    key, chain = "", ""
    if stores.keys.keys:
        first = stores.keys.keys[0]
        key, chain = _pem("PRIVATE KEY", first.key).decode(), _certificates(first.chain)
    return PemStores(key, chain, _certificates(stores.trusted))


def _certificates(each_der: tuple[bytes, ...]) -> str:
    return b"".join(_pem("CERTIFICATE", each) for each in each_der).decode()


@dataclass(frozen=True, slots=True)
class Renewal:
    """What other settings, or other files, lead to: read and found good, and not in use yet."""

    settings: TlsSettings
    stores: _Stores = field(repr=False)
    context: ssl.SSLContext
    before: _Stores = field(repr=False)
    """What it was compared with."""


class Tls:
    """The one owner of a listener's, or a client's, context. `context` is what the next connection uses."""

    def __init__(self, settings: TlsSettings, *, server: bool, read: Callable[[str], bytes] = read_file) -> None:
        """Raises ConfigError where something cannot be honoured."""
        if server and settings.key_store is None:
            text = "a TLS listener needs a key store"
            raise ConfigError("ssl.keystore.location", "", text, f"ssl.keystore.location is not set: {text}")
        need_cryptography()
        self._server = server
        self._read = read
        self._settings = settings
        self._stores = _opened(settings, read)
        self.context = _context(settings, self._stores, server=server)

    @property
    def certificates(self) -> tuple[bytes, ...]:
        """The leaf certificates that this side shows, in DER."""
        return tuple(each.chain[0] for each in self._stores.keys.keys)

    @property
    def ends_s(self) -> float:
        """When the first of its certificates ends, those above the leaf too, in seconds since 1970; inf without any."""
        ends = [certificate_end_s(each) for entry in self._stores.keys.keys for each in entry.chain]
        return min(ends, default=float("inf"))

    def check(self, settings: TlsSettings, *, must_meet_itself: bool = False) -> None:
        """Raise INVALID_REQUEST where `reload` would refuse these settings; changes nothing."""
        self.renewal(settings, must_meet_itself=must_meet_itself)

    def reload(self, settings: TlsSettings | None = None, *, must_meet_itself: bool = False) -> bool:
        """Read the stores again, or those of new settings; returns whether anything has changed.

        With `must_meet_itself`, which is for the brokers' own listener, old and new must be able to shake hands. Raises
        INVALID_REQUEST, and leaves everything as it was, where the new stores are refused.
        """
        return self.take(self.renewal(settings, must_meet_itself=must_meet_itself))

    def renewal(self, settings: TlsSettings | None = None, *, must_meet_itself: bool = False) -> Renewal:
        """Read the stores of these settings, or the same ones again, as `reload` does, and change nothing.

        May run on a thread. Raises INVALID_REQUEST where they are refused.
        """
        settings, before, context = settings or self._settings, self._stores, self.context
        try:
            stores = _opened(settings, self._read)
            if (stores, settings) != (before, self._settings):
                self._check_change(settings, stores)
                context = _context(settings, stores, server=self._server)
                if must_meet_itself:
                    self._check_meeting(settings, stores)
        except ConfigError as error:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"Validation of dynamic config update of SSLFactory failed: {error}"
            ) from error
        return Renewal(settings, stores, context, before)

    def take(self, renewal: Renewal) -> bool:
        """Use what was read from the next connection on; returns whether that is anything else.

        Raises INVALID_REQUEST where other stores are in use by now than those that it was compared with.
        """
        if renewal.before is not self._stores:
            text = "the stores have been changed by another request meanwhile: try again"
            raise KafkaError(ErrorCode.INVALID_REQUEST, text)
        if renewal.context is self.context:
            return False
        self._settings, self._stores, self.context = renewal.settings, renewal.stores, renewal.context
        return True

    def _check_change(self, settings: TlsSettings, stores: _Stores) -> None:
        for what, before, now in (
            ("keystore", self._settings.key_store, settings.key_store),
            ("truststore", self._settings.trust_store, settings.trust_store),
        ):
            if before is None and now is not None:
                raise _refused(f"Cannot add SSL {what} to an existing listener for which no {what} was configured.")
            if before is not None and now is None:
                raise _refused(
                    f"Cannot remove the SSL {what} from an existing listener for which a {what} was configured."
                )
        old, new = (sorted(each.keys.keys, key=lambda entry: entry.alias) for each in (self._stores, stores))
        if len(old) != len(new):
            raise _refused(f"Keystore entries do not match, existing store contains {len(old)} entries, new {len(new)}")
        for before_entry, after_entry in zip(old, new, strict=True):
            _check_entry(settings, before_entry, after_entry)

    def _check_meeting(self, settings: TlsSettings, stores: _Stores) -> None:
        """Raise ConfigError where brokers with the old and the new stores could not talk."""
        old, new = (self._settings, self._stores), (settings, stores)
        for serving, asking in ((old, new), (new, old), (new, new)):
            server = _context(*serving, server=True)
            client = _context(*asking, server=False)
            client.check_hostname = False  # there is no host here; the names in the store were compared before
            handshake(client, server)


def _refused(message: str) -> ConfigError:
    return ConfigError("ssl.keystore.location", "", message, message)


def _check_entry(settings: TlsSettings, before: KeyEntry, after: KeyEntry) -> None:
    if not settings.allows_other_name and certificate_name(before.chain[0]) != certificate_name(after.chain[0]):
        raise _refused(
            f"Keystore DistinguishedName does not match: existing={{alias={before.alias}, "
            f"DN={certificate_name(before.chain[0])}}}, new={{alias={after.alias}, DN={certificate_name(after.chain[0])}}}"
        )
    missing = _hosts(before.chain[0]) - _hosts(after.chain[0])
    if not settings.allows_fewer_hosts and missing:
        raise _refused(f"Keystore SubjectAltNames do not match: {', '.join(sorted(missing))} would be missing")


def certificate_name(certificate: bytes) -> str:
    """Return whose certificate it is, as Java writes names; raises ConfigError where it is none."""
    from cryptography import x509

    try:
        return name_text(x509.load_der_x509_certificate(certificate).subject.public_bytes())
    except ValueError as error:
        raise _refused("a certificate of the key store is damaged") from error


def certificate_end_s(certificate: bytes) -> float:
    """Return when a certificate ends, in seconds since 1970; raises ConfigError where it is none."""
    from cryptography import x509

    try:
        return x509.load_der_x509_certificate(certificate).not_valid_after_utc.timestamp()
    except ValueError as error:
        raise _refused("a certificate of the key store is damaged") from error


def _hosts(certificate: bytes) -> set[str]:
    from cryptography import x509

    try:
        extensions = x509.load_der_x509_certificate(certificate).extensions
        names = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return set()
    return {f"{type(each).__name__}={each.value}" for each in names}


def _opened(settings: TlsSettings, read: Callable[[str], bytes]) -> _Stores:
    key_data, keys = _store(settings.key_store, read)
    trust_data, trust = _store(settings.trust_store, read)
    if settings.key_store is not None and not all(each.chain for each in keys.keys):
        raise _wrong(settings.key_store, "a key of it has no certificate")
    if settings.trust_store is not None and not all(each.chain for each in trust.keys):
        raise _wrong(settings.trust_store, "a key of it has no certificate")
    if settings.key_store is not None and not keys.keys:
        raise _wrong(settings.key_store, "it holds no private key")
    trusted = (*trust.trusted, *(each.chain[0] for each in trust.keys))  # Java trusts what it has a key of, too
    if settings.trust_store is not None and not trusted:
        raise _wrong(settings.trust_store, "it holds no trusted certificate")
    return _Stores(key_data, trust_data, keys, trusted)


def _store(settings: StoreSettings | None, read: Callable[[str], bytes]) -> tuple[bytes | None, Store]:
    if settings is None:
        return None, Store()
    try:
        if settings.inline is not None:
            return settings.inline.encode(), open_pem(settings.inline, key_password=settings.key_password)
        assert settings.location is not None
        data = read(settings.location)
        found = open_store(data, kind=settings.kind, password=settings.password, key_password=settings.key_password)
    except OSError as error:
        raise _wrong(settings, error.strerror or str(error)) from error
    except StoreError as error:
        raise _wrong(settings, str(error)) from error
    return data, found


def _wrong(settings: StoreSettings, message: str) -> ConfigError:
    where = settings.location or "(inline)"
    return ConfigError(settings.name, where, message, f"{settings.name} {where}: {message}")


def _context(settings: TlsSettings, stores: _Stores, *, server: bool) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # Java trusts what a trust store holds, be it a root or not
    if server:
        context.verify_mode = settings.client_auth
    else:
        context.check_hostname = settings.checks_host
        context.verify_mode = ssl.CERT_REQUIRED
    _choose_ciphers(context, settings)
    _trust(context, settings, stores, server=server)
    kinds: set[str] = set()
    for entry in stores.keys.keys:
        kind = _key_kind(entry)
        if kind not in kinds:  # OpenSSL shows one certificate for each kind of key
            kinds.add(kind)
            _show(context, settings, entry)
    return context


def _choose_ciphers(context: ssl.SSLContext, settings: TlsSettings) -> None:
    """Set versions and ciphers; a version for which no cipher is named is not spoken, as in Java."""
    versions, newer = set(settings.versions), TLS_13_CIPHERS.intersection(settings.ciphers)
    older = [openssl_cipher(each) for each in settings.ciphers if each not in TLS_13_CIPHERS]
    if settings.ciphers:
        versions -= set() if newer else {ssl.TLSVersion.TLSv1_3}
        versions -= set() if older else {ssl.TLSVersion.TLSv1_2}
        if not versions:
            raise ConfigError(
                "ssl.cipher.suites", ",".join(settings.ciphers), "none of them fits ssl.enabled.protocols"
            )
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    if older:
        try:
            context.set_ciphers(":".join(older))
        except ssl.SSLError as error:
            raise ConfigError("ssl.cipher.suites", ",".join(older), "OpenSSL knows none of them") from error
        known = {each["name"] for each in context.get_ciphers()}
        unknown = [each for each in older if each not in known]
        if unknown:
            raise ConfigError("ssl.cipher.suites", ",".join(unknown), "must be known to OpenSSL")
    if newer and ssl.TLSVersion.TLSv1_3 in versions and newer != TLS_13_CIPHERS:
        choose = getattr(context, "set_ciphersuites", None)  # Python 3.15
        if choose is None:
            raise ConfigError(
                "ssl.cipher.suites",
                ",".join(sorted(newer)),
                f"this Python cannot choose among TLS 1.3's: name all of {', '.join(sorted(TLS_13_CIPHERS))}, or none",
            )
        choose(":".join(each for each in settings.ciphers if each in newer))


def _trust(context: ssl.SSLContext, settings: TlsSettings, stores: _Stores, *, server: bool) -> None:
    if settings.trust_store is None:
        context.load_default_certs(ssl.Purpose.CLIENT_AUTH if server else ssl.Purpose.SERVER_AUTH)
        return
    try:
        context.load_verify_locations(cadata=b"".join(stores.trusted))
    except ssl.SSLError as error:
        raise _wrong(settings.trust_store, f"OpenSSL refuses a certificate: {error.reason or error}") from error


def _key_kind(entry: KeyEntry) -> str:
    from cryptography.hazmat.primitives.serialization import load_der_private_key

    try:
        return type(load_der_private_key(entry.key, None)).__name__
    except (ValueError, TypeError) as error:
        raise _refused(f"the private key of {entry.alias} cannot be read") from error


def _show(context: ssl.SSLContext, settings: TlsSettings, entry: KeyEntry) -> None:
    assert settings.key_store is not None
    pem = _pem("PRIVATE KEY", entry.key) + b"".join(_pem("CERTIFICATE", each) for each in entry.chain)
    with file_of(pem) as path:
        try:
            context.load_cert_chain(path)
        except ssl.SSLError as error:
            raise _wrong(settings.key_store, f"OpenSSL refuses {entry.alias}: {error.reason or error}") from error


def _pem(label: str, data: bytes) -> bytes:
    return b"-----BEGIN %b-----\n%b-----END %b-----\n" % (label.encode(), encodebytes(data), label.encode())


def handshake(client: ssl.SSLContext, server: ssl.SSLContext) -> None:
    """Shake hands in memory; raises ConfigError where the two do not come together."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [client.wrap_bio(to_client, to_server), server.wrap_bio(to_server, to_client, server_side=True)]
    for _ in range(HANDSHAKE_STEPS_MAX):
        for side in list(sides):
            try:
                side.do_handshake()
                sides.remove(side)
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLError as error:
                raise _refused(
                    "A client SSLEngine created with the provided settings can't connect to a server SSLEngine created with "
                    f"those settings: {error.reason or error}"
                ) from error
        if not sides:
            return
    raise _refused("The handshake with the provided settings does not end")
