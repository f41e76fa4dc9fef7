"""The registry's settings, under Confluent's names: where it listens, which cluster keeps its schemas, its defaults."""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ottla.base import ConfigError
from ottla.client import ClientSecurity, parse_bootstrap, unused_security
from ottla.http import LoginsTo, asking_context, logins_to, serving_context
from ottla.registry.access import Access, access_of
from ottla.registry.core import LEVELS
from ottla.service import NO_CORS, Cors, hosts_of

__all__ = ["INSTANCE_HOSTS", "Address", "RegistrySettings", "own_host", "registry_settings"]

PORT = 8081
INSTANCE_HOSTS = "ottla.inter.instance.hosts"
STORE = "kafkastore."
_LISTENER = re.compile(r"(https?)://\[?([0-9a-zA-Z\-%._:]*?)\]?:([0-9]{1,5})", re.IGNORECASE)
_SECURITY = ("security.protocol", "ssl.", "sasl.")
_NUMBERS: Mapping[str, tuple[int, int]] = {
    "kafkastore.topic.replication.factor": (3, 1),
    "kafkastore.timeout.ms": (10_000, 100),
    "kafkastore.init.timeout.ms": (60_000, 100),
    "kafkagroup.session.timeout.ms": (6_000, 1),
    "kafkagroup.heartbeat.interval.ms": (300, 1),
    "kafkagroup.rebalance.timeout.ms": (10_000, 1),
    "leader.read.timeout.ms": (60_000, 100),
    "leader.connect.timeout.ms": (60_000, 100),
    "schema.search.default.limit": (1_000, 1),
    "schema.search.max.limit": (1_000, 1),
    "ottla.request.body.bytes.max": (4 << 20, 1024),
}
"""Whole numbers: their defaults, and the least that they may be."""
_TEXTS: Mapping[str, str] = {
    "listeners": f"http://localhost:{PORT}",
    "kafkastore.bootstrap.servers": "",
    "kafkastore.topic": "_schemas",
    "schema.registry.group.id": "schema-registry",
    "schema.compatibility.level": "backward",
    "mode.mutability": "true",
    "leader.eligibility": "true",
    "host.name": "",
    "inter.instance.protocol": "",
    "inter.instance.listener.name": "",
    "ottla.http.hosts": "",
    "access.control.allow.origin": "",
    "access.control.allow.methods": "",
    INSTANCE_HOSTS: "",
}
SETTINGS: Mapping[str, str] = {**_TEXTS, **{name: str(default) for name, (default, _) in _NUMBERS.items()}}
"""Every setting that is read by its name, and its default."""
_WITHOUT_EFFECT = {
    "leader.connect.timeout.ms": "leader.read.timeout.ms bounds a request to the primary, connecting included",
    "inter.instance.listener.name": "listeners have no names here; inter.instance.protocol chooses one",
}
_OLD = {
    "master.eligibility": "leader.eligibility",
    "avro.compatibility.level": "schema.compatibility.level",
    "kafkastore.group.id": "schema.registry.group.id",
    "schema.registry.inter.instance.protocol": "inter.instance.protocol",
    "port": "listeners=http://0.0.0.0:PORT",
}
"""Names that Confluent's registry had before, and what they are called now."""
_PREFIXES = (
    *("kafkastore.", "ssl.", "sasl.", "authentication.", "oauthbearer.", "java.security."),
    *(
        "auth.ssl.",
        "confluent.schema.registry.authorizer.",
        "confluent.topic.acl.",
        "schema.registry.resource.extension.",
    ),
    "resource.extension.class",
)


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen; an empty host is every interface."""

    host: str
    port: int
    scheme: str

    def __str__(self) -> str:
        shown = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{shown}:{self.port}"


@dataclass(frozen=True)
class RegistrySettings:
    """The settings of one instance."""

    listeners: tuple[Address, ...]
    bootstrap: str
    topic: str = "_schemas"
    replication_factor: int = 3
    group: str = "schema-registry"
    level: str = "BACKWARD"
    is_mutable: bool = True
    is_eligible: bool = True
    host_name: str = ""
    inter_instance_scheme: str = ""
    timeout_s: float = 10.0
    """How long a write, or a read that has to be up to date, may take (`kafkastore.timeout.ms`)."""
    init_timeout_s: float = 60.0
    session_timeout_ms: int = 6_000
    heartbeat_interval_ms: int = 300
    rebalance_timeout_ms: int = 10_000
    leader_wait_s: float = 60.0
    """How long the primary is waited for where another one has to answer."""
    search_limit: int = 1_000
    body_bytes_max: int = 4 << 20
    store_properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    """How the cluster is reached: `kafkastore.*` without its prefix."""
    access: Access = field(default_factory=Access)
    tls: Callable[[], ssl.SSLContext] | None = field(default=None, repr=False)
    asking: Callable[[], ssl.SSLContext] | None = field(default=None, repr=False)
    """The context of the next request to another instance."""
    hosts: tuple[str, ...] = ()
    """Further names under which it may be asked."""
    cors: Cors = NO_CORS
    logins_to: LoginsTo = field(default_factory=LoginsTo)
    """The other instances that clients' logins may be sent to: whoever joins the group says where those are."""
    warnings: tuple[str, ...] = ()

    @property
    def is_protected(self) -> bool:
        """Whether each address has a login or TLS."""
        return self.access.asks or all(each.scheme == "https" for each in self.listeners)

    @property
    def transactional_id(self) -> str:
        """The id by which one primary is fenced from writing when there is another."""
        return f"schema-registry-{self.group}"


def registry_settings(given: Mapping[str, str], environment: Mapping[str, str]) -> RegistrySettings:
    """Return the settings of a properties file; raises ConfigError."""
    properties = {key: value.strip() for key, value in given.items()}
    for old, new in _OLD.items():
        if old in properties and "=" not in new:
            properties.setdefault(new, properties[old])
    text = {key: properties.get(key, default) or default for key, default in _TEXTS.items()}
    number = {key: _number(properties, key) for key in _NUMBERS}
    if number["kafkagroup.heartbeat.interval.ms"] >= number["kafkagroup.session.timeout.ms"]:
        raise ConfigError(
            "kafkagroup.heartbeat.interval.ms",
            number["kafkagroup.heartbeat.interval.ms"],
            "less than kafkagroup.session.timeout.ms",
        )
    listeners = _addresses(text["listeners"])
    store = {key.removeprefix(STORE): value for key, value in properties.items() if key.startswith(STORE)}
    store = {key: value for key, value in store.items() if key.startswith(_SECURITY)}
    ClientSecurity.of(store)
    tls: dict[str, str | None] = {key: value for key, value in properties.items() if key.startswith("ssl.")}
    if properties.get("ssl.client.authentication") and not properties.get("ssl.client.auth"):
        tls["ssl.client.auth"] = properties["ssl.client.authentication"].lower()
    elif properties.get("ssl.client.auth", "").lower() in ("true", "false"):
        tls["ssl.client.auth"] = "required" if properties["ssl.client.auth"].lower() == "true" else "none"
    tls.pop("ssl.client.authentication", None)
    secure = any(each.scheme == "https" for each in listeners)
    if not secure and (tls.get("ssl.client.auth") or "none") != "none":
        value = properties.get("ssl.client.authentication") or properties.get("ssl.client.auth")
        raise ConfigError("ssl.client.auth", value, "an https listener, where clients show certificates")
    scheme = _inter_instance(text, listeners)
    sends = logins_to(INSTANCE_HOSTS, text[INSTANCE_HOSTS], scheme=scheme, tls=tls)
    return RegistrySettings(
        listeners=listeners,
        bootstrap=_bootstrap(text["kafkastore.bootstrap.servers"]),
        topic=text["kafkastore.topic"],
        replication_factor=number["kafkastore.topic.replication.factor"],
        group=text["schema.registry.group.id"],
        level=_level(text["schema.compatibility.level"]),
        is_mutable=_flag("mode.mutability", text["mode.mutability"]),
        is_eligible=_flag("leader.eligibility", text["leader.eligibility"]),
        host_name=text["host.name"],
        inter_instance_scheme=scheme,
        timeout_s=number["kafkastore.timeout.ms"] / 1000,
        init_timeout_s=number["kafkastore.init.timeout.ms"] / 1000,
        session_timeout_ms=number["kafkagroup.session.timeout.ms"],
        heartbeat_interval_ms=number["kafkagroup.heartbeat.interval.ms"],
        rebalance_timeout_ms=number["kafkagroup.rebalance.timeout.ms"],
        leader_wait_s=number["leader.read.timeout.ms"] / 1000,
        search_limit=min(number["schema.search.default.limit"], number["schema.search.max.limit"]),
        body_bytes_max=number["ottla.request.body.bytes.max"],
        store_properties=store,
        access=access_of(properties, environment),
        tls=_served(tls) if secure else None,
        asking=asking_context(tls) if secure else None,
        hosts=hosts_of(properties),
        cors=Cors.of(properties),
        logins_to=sends,
        warnings=tuple(_warnings(properties, store, secure=secure, sends=sends)),
    )


def _warnings(properties: Mapping[str, str], store: Mapping[str, str], *, secure: bool, sends: LoginsTo) -> list[str]:
    found = []
    asks = properties.get("authentication.method", "NONE").upper() not in ("", "NONE")
    if asks and not sends.is_anywhere:
        found.append(
            f"writes with a login are carried out by the primary only, and not sent on to it: {INSTANCE_HOSTS} names the "
            "instances that logins may be sent to"
        )
    unused = unused_security({"security.protocol": "PLAINTEXT", **store})
    for key in properties:
        if key in _WITHOUT_EFFECT:
            found.append(f"{key} has no effect: {_WITHOUT_EFFECT[key]}")
        elif key in _OLD:
            found.append(f"{key} is called {_OLD[key]} now")
        elif key.removeprefix(STORE) in unused and key.startswith(STORE):
            found.append(f"{key} has no effect: {unused[key.removeprefix(STORE)]}")
        elif key.startswith("ssl.") and not secure:
            found.append(f"{key} has no effect: nothing is served by HTTPS")
        elif key not in _TEXTS and key not in _NUMBERS and not key.startswith(_PREFIXES):
            found.append(f"{key} is not a setting of this registry; it has no effect")
    return found


def _number(properties: Mapping[str, str], key: str) -> int:
    default, least = _NUMBERS[key]
    text = properties.get(key, "") or str(default)
    if not re.fullmatch(r"[+-]?[0-9]{1,12}", text) or int(text) < least:
        raise ConfigError(key, text, f"a whole number, {least} or more")
    return int(text)


def _flag(key: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ConfigError(key, text, "true or false")
    return text.lower() == "true"


def _level(text: str) -> str:
    if text.upper() not in LEVELS:
        raise ConfigError("schema.compatibility.level", text, f"one of {', '.join(LEVELS)}")
    return text.upper()


def _bootstrap(text: str) -> str:
    plain = ",".join(re.sub(r"^[A-Za-z_]+://", "", each.strip()) for each in text.split(",") if each.strip())
    if not plain:
        raise ConfigError("kafkastore.bootstrap.servers", text, "the brokers that keep the schemas: host:port,…")
    parse_bootstrap(plain)
    return plain


def _addresses(text: str) -> tuple[Address, ...]:
    found = []
    for each in text.split(","):
        match = _LISTENER.fullmatch(each.strip())
        if match is None or int(match[3]) > 65535:
            raise ConfigError("listeners", each.strip(), "http://host:port or https://host:port")
        host = "" if match[2] in ("0.0.0.0", "::") else match[2]
        found.append(Address(host, int(match[3]), match[1].lower()))
    return tuple(found)


def _inter_instance(text: Mapping[str, str], listeners: tuple[Address, ...]) -> str:
    schemes = [each.scheme for each in listeners]
    wanted = text["inter.instance.protocol"].lower() or ("http" if "http" in schemes else schemes[0])
    if wanted not in schemes:
        raise ConfigError("inter.instance.protocol", wanted, f"one that is served: {', '.join(schemes)}")
    return wanted


def _served(tls: Mapping[str, str | None]) -> Callable[[], ssl.SSLContext]:
    try:
        return serving_context(tls)
    except ConfigError as error:
        raise ConfigError("listeners", "https://", error.allowed, f"HTTPS cannot be served: {error}") from error


def own_host() -> str:
    """Return a name of this machine that others find it by; loopback where it has none."""
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError:
        return "127.0.0.1"
