"""What a console is told: where it listens, which clusters it shows, and what it may do."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ottla.base import ConfigError
from ottla.console.alerts.notices import Mail, Target, mail_settings, targets_of
from ottla.console.clusters import ClusterSettings
from ottla.console.figures.costs import Prices
from ottla.console.issuer import IssuerSettings
from ottla.console.logins import CERTIFICATE, MECHANISMS
from ottla.console.records.file_decoders import FileDecoder, file_decoders
from ottla.console.records.masks import Mask, mask_rules
from ottla.http import asking_context, is_loopback, serving_context
from ottla.security import SslRules

__all__ = ["LISTENER_DEFAULT", "ConsoleSettings", "console_settings"]

LISTENER_DEFAULT = "127.0.0.1:9180"
LISTENERS, READ_ONLY = "ottla.console.listeners", "ottla.console.read.only"
ANONYMOUS, HOSTS = "ottla.console.allow.anonymous", "ottla.console.hosts"
REGISTRY = "ottla.console.registry.url"
LOGIN = "ottla.console.login.mechanisms"
OIDC = "ottla.console.oidc."
ISSUER, CLIENT_ID, CLIENT_SECRET, SCOPE, CLAIM, REDIRECT = OIDC_KEYS = tuple(
    f"{OIDC}{each}" for each in ("issuer", "client.id", "client.secret", "scope", "user.claim", "redirect.url")
)
OIDC_TLS = f"{OIDC}ssl."
CONNECT = "ottla.console.connect.urls"
SQL = "ottla.console.sql.url"
STREAMS = "ottla.console.streams.urls"
STORED, WRITTEN, READ = (f"ottla.console.cost.{each}" for each in ("stored.gb.month", "written.gb", "read.gb"))
CURRENCY = "ottla.console.cost.currency"
AUDIT, AUDIT_DEFAULT = "ottla.console.audit.topic", "__ottla_console_audit"
HISTORY, HISTORY_DEFAULT = "ottla.console.history.topic", "__ottla_console_history"
ALERTS, ALERTS_DEFAULT = "ottla.console.alerts.topic", "__ottla_console_alerts"
DECODERS = "ottla.console.decoders.file"
JOBS, JOBS_DEFAULT = "ottla.console.jobs.topic", "__ottla_console_jobs"
TARGETS, SMTP, SENDER = (f"ottla.console.alerts.{each}" for each in ("targets", "smtp.url", "smtp.from"))
MASKS, MASKS_FILE = "ottla.console.masks", "ottla.console.masks.file"
KEYS = (
    *(LISTENERS, READ_ONLY, ANONYMOUS, HOSTS, REGISTRY, LOGIN, CONNECT, SQL, STREAMS, MASKS, MASKS_FILE, AUDIT),
    *(STORED, WRITTEN, READ, CURRENCY, HISTORY, ALERTS, TARGETS, SMTP, SENDER, JOBS, DECODERS),
    *OIDC_KEYS,
)
PREFIX = "ottla.console."
PRICE_MAX = 1e9
TLS = "ottla.console.ssl."


@dataclass(frozen=True, slots=True)
class ConsoleSettings:
    """A console's settings; the first cluster is the one that the page opens with."""

    clusters: tuple[ClusterSettings, ...]
    listeners: tuple[tuple[str, int], ...] = (("127.0.0.1", 9180),)
    tls: Callable[[], ssl.SSLContext] | None = None
    """What gives the context of the next connection, where it is served by HTTPS."""
    mechanisms: tuple[str, ...] = ()
    """By which mechanisms of SASL users of the cluster log in; empty where the link alone opens it."""
    read_only: bool = False
    allow_anonymous: bool = False
    hosts: frozenset[str] = field(default_factory=frozenset)
    """Names under which browsers may ask for it, beside the listeners' own and this machine's."""
    registry: Mapping[str, str] | None = None
    """Properties of the client of a schema registry, that of the first cluster."""
    workers: Mapping[str, str] = field(default_factory=dict)
    """Addresses of Connect's clusters of workers by their names, those of the first cluster."""
    audit_topic: str = AUDIT_DEFAULT
    """Where changes are kept; empty where only memory and log have them."""
    masks: tuple[Mask, ...] = ()
    """What of records is hidden."""
    sql: str | None = None
    """A SQL server's address, that of the first cluster."""
    streams: Mapping[str, str] = field(default_factory=dict)
    """Addresses of Streams' services and applications by their names, those of the first cluster."""
    prices: Prices = field(default_factory=Prices)
    """What bytes cost."""
    history_topic: str = HISTORY_DEFAULT
    """Where figures are kept; empty where only memory has them."""
    alerts_topic: str = ALERTS_DEFAULT
    """Where rules of alerts are kept; empty where there are none."""
    targets: tuple[Target, ...] = ()
    """Who can be told of an alert."""
    mail: Mail | None = None
    jobs_topic: str = JOBS_DEFAULT
    """Where replays are kept; empty where nothing is replayed."""
    decoders: tuple[FileDecoder, ...] = ()
    """Schemas in files by which topics are read, those of the first cluster."""
    issuer: IssuerSettings | None = None
    """Whose page users log in by, with OAUTHBEARER."""
    certificate_rules: SslRules = field(default_factory=SslRules)
    """Whom a certificate stands for, where users log in by theirs."""


def console_settings(properties: Mapping[str, str], clusters: tuple[ClusterSettings, ...]) -> ConsoleSettings:
    """Read `ottla.console.*`; raises ConfigError for what is unknown, and for what would let strangers in."""
    for key in properties:
        if key.startswith(PREFIX) and key not in KEYS and not key.startswith((TLS, OIDC_TLS)):
            raise ConfigError(key, properties[key], f"there is no such setting; there are {', '.join(KEYS)}, {TLS}…")
    text = properties.get(LISTENERS) or LISTENER_DEFAULT
    found = [_listener(each) for each in _listed(text)]
    schemes = {scheme for scheme, _, _ in found}
    if len(schemes) > 1:
        raise ConfigError(LISTENERS, text, "all of http:// or all of https://")
    listeners = tuple((host, port) for _, host, port in found)
    anonymous, mechanisms = _flag(properties, ANONYMOUS), _mechanisms(properties, clusters)
    is_secure = schemes == {"https"}
    for host, _ in listeners:
        if is_loopback(host):
            continue
        if mechanisms and not is_secure:
            raise ConfigError(
                *(LISTENERS, text, "https://HOST:PORT, or an address of this machine alone"),
                f"{LISTENERS}: on {host or 'every interface'} passwords would go over the network in clear: begin it with "
                f"https:// and set {TLS}keystore.location",
            )
        if not mechanisms and not anonymous:
            raise ConfigError(
                *(LISTENERS, text, "an address of this machine alone, such as 127.0.0.1:9180"),
                f"{LISTENERS}: on {host or 'every interface'} whoever reaches it could do what this console may, since it "
                f"asks nobody who they are; {LOGIN} has the cluster's users log in, {ANONYMOUS}=true allows it",
            )
    return ConsoleSettings(
        clusters,
        listeners,
        _tls(properties) if is_secure else None,
        mechanisms,
        _flag(properties, READ_ONLY),
        anonymous and not mechanisms,
        frozenset(each.lower() for each in _listed(properties.get(HOSTS) or "")),
        _registry(properties),
        _workers(properties, CONNECT, "connect"),
        properties.get(AUDIT, AUDIT_DEFAULT).strip(),
        _masks(properties),
        _sql(properties),
        _workers(properties, STREAMS, "streams"),
        _prices(properties),
        properties.get(HISTORY, HISTORY_DEFAULT).strip(),
        properties.get(ALERTS, ALERTS_DEFAULT).strip(),
        targets_of(properties.get(TARGETS) or "", TARGETS),
        mail_settings(properties[SMTP], properties.get(SENDER) or "ottla@localhost", SMTP)
        if properties.get(SMTP)
        else None,
        properties.get(JOBS, JOBS_DEFAULT).strip(),
        file_decoders(properties[DECODERS], DECODERS) if properties.get(DECODERS) else (),
        _issuer(properties) if "OAUTHBEARER" in mechanisms else None,
        _certificate_rules(properties, is_secure) if CERTIFICATE in mechanisms else SslRules(),
    )


def _issuer(properties: Mapping[str, str]) -> IssuerSettings:
    """Return whose page users log in by; raises ConfigError."""
    url, client_id = (properties.get(ISSUER) or "").strip(), (properties.get(CLIENT_ID) or "").strip()
    if not url.startswith("https://"):
        raise ConfigError(ISSUER, url, f"https://… of the issuer, which {LOGIN}=OAUTHBEARER needs")
    if not client_id:
        raise ConfigError(CLIENT_ID, "", f"the name by which {url} knows this console")
    redirect = (properties.get(REDIRECT) or "").strip()
    if redirect and not redirect.startswith(("http://", "https://")):
        raise ConfigError(REDIRECT, redirect, "https://HOST/api/login/issuer/back by which browsers reach this console")
    tls = {"ssl." + key.removeprefix(OIDC_TLS): value for key, value in properties.items() if key.startswith(OIDC_TLS)}
    return IssuerSettings(
        *(url, client_id, properties.get(CLIENT_SECRET) or ""),
        (properties.get(SCOPE) or "openid").strip(),
        (properties.get(CLAIM) or "sub").strip(),
        redirect,
        asking_context(tls) if tls else None,
    )


def _certificate_rules(properties: Mapping[str, str], is_secure: bool) -> SslRules:
    """Return whom certificates stand for; raises ConfigError where none can be shown."""
    asked = (properties.get(f"{TLS}client.auth") or "none").strip().lower()
    if not is_secure or asked not in ("requested", "required"):
        raise ConfigError(
            *(LOGIN, CERTIFICATE, f"a listener of https:// with {TLS}client.auth=requested"),
            f"{LOGIN}: nobody can show a certificate: it needs https://, {TLS}client.auth=requested and "
            f"{TLS}truststore.location with the authority that signs users' certificates",
        )
    return SslRules(properties.get(f"{TLS}principal.mapping.rules") or "DEFAULT")


def _prices(properties: Mapping[str, str]) -> Prices:
    found = {}
    for key in (STORED, WRITTEN, READ):
        text = (properties.get(key) or "0").strip()
        try:
            found[key] = float(text)
        except ValueError:
            found[key] = -1.0
        if not 0 <= found[key] < PRICE_MAX:
            raise ConfigError(key, text, "a price, such as 0.10")
    return Prices(found[STORED], found[WRITTEN], found[READ], (properties.get(CURRENCY) or "").strip()[:10])


def _sql(properties: Mapping[str, str]) -> str | None:
    url = (properties.get(SQL) or "").strip()
    if url and not url.startswith(("http://", "https://")):
        raise ConfigError(SQL, "[hidden]", "http://HOST:PORT or https://HOST:PORT of a SQL server")
    return url or None


def _masks(properties: Mapping[str, str]) -> tuple[Mask, ...]:
    """Return the rules of the setting and of the file that another names; raises ConfigError."""
    found = mask_rules(properties[MASKS], MASKS) if properties.get(MASKS) else ()
    path = properties.get(MASKS_FILE)
    if not path:
        return found
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(MASKS_FILE, path, f"a file with a JSON list of rules: {error}") from None
    return found + mask_rules(text, MASKS_FILE)


def _workers(properties: Mapping[str, str], key: str, alone: str) -> dict[str, str]:
    """Return addresses by name of `NAME=URL,…`, or of a URL alone; raises ConfigError."""
    found: dict[str, str] = {}
    for each in _listed(properties.get(key) or ""):
        name, equals, url = each.partition("=")
        if "://" in name or not equals:
            name, url = alone, each
        if not url.startswith(("http://", "https://")) or name in found or "/" in name:
            raise ConfigError(key, "[hidden]", "NAME=http://HOST:PORT,… with a name of its own for each")
        found[name] = url
    return found


def _mechanisms(properties: Mapping[str, str], clusters: tuple[ClusterSettings, ...]) -> tuple[str, ...]:
    """Return the mechanisms of logins; raises ConfigError for one that is unknown, or for a cluster without any."""
    text = properties.get(LOGIN) or ""
    found = tuple(dict.fromkeys(_listed(text)))
    if unknown := [each for each in found if each not in MECHANISMS]:
        raise ConfigError(LOGIN, unknown[0], f"some of {', '.join(MECHANISMS)}")
    if found and not any(each.takes_logins for each in clusters):
        raise ConfigError(
            *(LOGIN, text, "a cluster with security.protocol=SASL_SSL or SASL_PLAINTEXT"),
            f"{LOGIN}: nobody can log in to {', '.join(each.name for each in clusters)}: its security.protocol "
            "(--command-config) is neither SASL_SSL nor SASL_PLAINTEXT",
        )
    return found


def _tls(properties: Mapping[str, str]) -> Callable[[], ssl.SSLContext]:
    given = {"ssl." + key.removeprefix(TLS): value for key, value in properties.items() if key.startswith(TLS)}
    try:
        return serving_context(given)
    except ConfigError as error:
        raise ConfigError(LISTENERS, "https://", error.allowed, f"HTTPS cannot be served: {error}") from error


def _registry(properties: Mapping[str, str]) -> dict[str, str] | None:
    """Return a registry's properties, `schema.registry.…` and `basic.auth.…` of the same file among them."""
    url = properties.get(REGISTRY)
    if not url:
        return None
    own = {key: value for key, value in properties.items() if key.startswith(("schema.registry.", "basic.auth."))}
    return {**own, "schema.registry.url": url}


def _listed(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]


def _listener(text: str) -> tuple[str, str, int]:
    scheme, separator, place = text.rpartition("://")
    host, colon, port = place.rpartition(":")
    if (separator and scheme.lower() not in ("http", "https")) or not colon or not port.isdigit() or int(port) > 65535:
        raise ConfigError(LISTENERS, text, "HOST:PORT, or https://HOST:PORT, is expected")
    return scheme.lower() or "http", host.strip("[]"), int(port)


def _flag(properties: Mapping[str, str], key: str) -> bool:
    value = (properties.get(key) or "false").strip().lower()
    if value not in ("true", "false"):
        raise ConfigError(key, value, "true or false is expected")
    return value == "true"
