"""A server's settings, by ksqlDB's names in `ksql-server.properties`."""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ottla.base import ConfigError
from ottla.client import parse_bootstrap
from ottla.config import shown
from ottla.http import serving_context
from ottla.registry import Access, access_of
from ottla.service import NO_CORS, Cors, hosts_of
from ottla.sql_server.session_properties import STREAMS_PREFIX, STREAMS_PROPERTIES

__all__ = ["Address", "Limits", "LogSettings", "ServerSettings", "server_settings"]

BOOTSTRAP, SERVICE_ID, LISTENERS = "bootstrap.servers", "ksql.service.id", "listeners"
PREFIX = STREAMS_PREFIX
"""What stands before settings of the queries' Streams applications."""
PROCESSING = "ksql.logging.processing."
_LOG_TOPIC, _LOG_STREAM = f"{PROCESSING}topic.name", f"{PROCESSING}stream.name"
ENGINES = ("spark", "python")
_LISTENER = re.compile(r"(https?)://(\[[^\]]+\]|[^:/\[\]]*):([0-9]{1,5})/?", re.IGNORECASE)
_CLIENT = ("security.protocol", "sasl.", "ssl.")

_TEXTS: Mapping[str, str] = {
    LISTENERS: "http://localhost:8088",
    SERVICE_ID: "default_",
    "ksql.advertised.listener": "",
    "ksql.connect.url": "http://localhost:8083",
    "ksql.schema.registry.url": "",
    "ksql.queries.file": "",
    "ksql.internal.topic.replicas": "1",
    _LOG_TOPIC: "",
    _LOG_STREAM: "KSQL_PROCESSING_LOG",
    "ottla.sql.engine": "spark",
    "ottla.sql.spark.master": "local[*]",
}
_NUMBERS: Mapping[str, tuple[int, int]] = {
    "max.push.queries": (100, 0),
    "ksql.query.persistent.active.limit": (2_147_483_647, 0),
    "ksql.query.pull.max.concurrent.requests": (2_147_483_647, 1),
    "ksql.server.command.response.timeout.ms": (15_000, 1),
    "ksql.internal.topic.replicas": (1, 1),
    f"{PROCESSING}topic.partitions": (1, 1),
    f"{PROCESSING}topic.replication.factor": (1, 1),
    "ottla.sql.hosts": (1, 1),
    "ottla.sql.pull.rows.max": (100_000, 1),
    "ottla.sql.registry.timeout.ms": (10_000, 1),
    "ottla.sql.pull.timeout.ms": (10_000, 1),
    "ottla.sql.followed.tables.max": (100, 1),
    "ottla.sql.request.bytes.max": (4 << 20, 1024),
}
"""Whole numbers: default, and least."""
_FLAGS: Mapping[str, bool] = {
    "ksql.query.pull.table.scan.enabled": True,
    "ksql.pull.queries.enable": True,
    "ksql.create.or.replace.enabled": True,
    "ksql.cast.strings.preserve.nulls": True,
    "ksql.nested.error.set.null": True,
    "ksql.timestamp.throw.on.invalid": False,
    f"{PROCESSING}stream.auto.create": False,
    f"{PROCESSING}topic.auto.create": False,
    f"{PROCESSING}rows.include": False,
}
SETTINGS: Mapping[str, str] = {
    **_TEXTS,
    **{name: str(default) for name, (default, _) in _NUMBERS.items()},
    **{name: str(default).lower() for name, default in _FLAGS.items()},
}
"""Every setting that is read by its name, and its default."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen; an empty host is every interface."""

    host: str
    port: int
    scheme: str

    def __str__(self) -> str:
        shown = self.host or "localhost"
        return f"{self.scheme}://{f'[{shown}]' if ':' in shown else shown}:{self.port}"


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one server does for those who ask; errors name the setting."""

    push_queries: int = 100
    persistent_queries: int = 2_147_483_647
    pull_queries: int = 2_147_483_647
    pull_rows: int = 100_000
    """Rows that a pull query may hold to answer."""
    pull_timeout_s: float = 10.0
    followed_tables: int = 100
    request_bytes: int = 4 << 20


@dataclass(frozen=True, slots=True)
class LogSettings:
    """The processing log beside the lines of the server's own log: a topic, and a stream over it."""

    topic: str
    """Empty where lines go to no topic."""
    makes_topic: bool = False
    partitions: int = 1
    replicas: int = 1
    stream: str = ""
    """Empty where no stream is made."""
    includes_rows: bool = False
    """Whether a line has the bytes of what could not be read."""


@dataclass(frozen=True)
class ServerSettings:
    """The settings of one server."""

    listeners: tuple[Address, ...]
    bootstrap: str
    service_id: str = "default_"
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    """All that was given or is a default, for LIST PROPERTIES; secrets are not told."""
    client: Mapping[str, str] = field(default_factory=dict, repr=False)
    """How the cluster is reached: `security.protocol`, `sasl.…`, `ssl.…`."""
    streams: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Settings of every query: `ksql.streams.…` without its prefix, and those that need none."""
    engine: str = "spark"
    """Where queries run: in tasks of Spark, or in threads of this process."""
    spark_master: str = "local[*]"
    hosts: int = 1
    connect_url: str = ""
    registry_url: str = ""
    registry_timeout_s: float = 10.0
    queries_file: str = ""
    replicas: int = 1
    command_timeout_s: float = 15.0
    processing: LogSettings = LogSettings("")
    limits: Limits = field(default_factory=Limits)
    scans: bool = True
    pulls: bool = True
    access: Access = field(default_factory=Access)
    tls: Callable[[], ssl.SSLContext] | None = field(default=None, repr=False)
    advertised: str = ""
    """The URL by which others reach it."""
    host_names: tuple[str, ...] = ()
    """Further names under which it may be asked."""
    cors: Cors = NO_CORS
    warnings: tuple[str, ...] = ()

    @property
    def is_protected(self) -> bool:
        """Whether each address has a login or TLS."""
        return self.access.asks or all(each.scheme == "https" for each in self.listeners)

    @property
    def command_topic(self) -> str:
        """The topic that holds the commands."""
        return f"_confluent-ksql-{self.service_id}_command_topic"

    @property
    def is_headless(self) -> bool:
        """Whether the server runs the statements of a file, and takes none."""
        return bool(self.queries_file)

    def told(self) -> dict[str, str]:
        """The properties as they may be shown."""
        return {name: value or "" for name, value in shown(self.properties).items()}


def server_settings(properties: Mapping[str, str], environment: Mapping[str, str]) -> ServerSettings:
    """Return a server's settings; raises ConfigError for what cannot be honoured."""
    given = {name: value.strip() for name, value in properties.items()}
    text = {name: given.get(name) or default for name, default in _TEXTS.items()}
    number = {name: _number(given, name) for name in _NUMBERS}
    flag = {name: _flag(given, name) for name in _FLAGS}
    listeners = _addresses(text[LISTENERS])
    bootstrap = given.get(BOOTSTRAP) or given.get(f"{PREFIX}{BOOTSTRAP}", "")
    if not bootstrap:
        raise ConfigError(BOOTSTRAP, "", "the brokers: host:port,…")
    parse_bootstrap(bootstrap)
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,100}", text[SERVICE_ID]):
        raise ConfigError(
            SERVICE_ID, text[SERVICE_ID], "a name of letters, digits, '.', '_' and '-': topics begin with it"
        )
    if text["ottla.sql.engine"] not in ENGINES:
        raise ConfigError("ottla.sql.engine", text["ottla.sql.engine"], " or ".join(ENGINES))
    if text["ksql.queries.file"] and not Path(text["ksql.queries.file"]).is_file():
        raise ConfigError("ksql.queries.file", text["ksql.queries.file"], "a file of statements")
    streams = {name: given[name] for name in STREAMS_PROPERTIES if name in given}
    streams |= {name.removeprefix(PREFIX): value for name, value in given.items() if name.startswith(PREFIX)}
    client = {name: value for name, value in given.items() if name.startswith(_CLIENT)}
    client |= {name: value for name, value in streams.items() if name.startswith(_CLIENT)}
    told = {BOOTSTRAP: bootstrap, **text, **{name: str(value) for name, value in number.items()}}
    told |= {name: str(value).lower() for name, value in flag.items()} | given
    secure = any(each.scheme == "https" for each in listeners)
    return ServerSettings(
        listeners=listeners,
        bootstrap=bootstrap,
        service_id=text[SERVICE_ID],
        properties=told,
        client=client,
        streams=streams,
        engine=text["ottla.sql.engine"],
        spark_master=text["ottla.sql.spark.master"],
        hosts=number["ottla.sql.hosts"],
        connect_url=text["ksql.connect.url"].rstrip("/"),
        registry_url=text["ksql.schema.registry.url"],
        registry_timeout_s=number["ottla.sql.registry.timeout.ms"] / 1000,
        queries_file=text["ksql.queries.file"],
        replicas=number["ksql.internal.topic.replicas"],
        command_timeout_s=number["ksql.server.command.response.timeout.ms"] / 1000,
        processing=_processing(text, number, flag),
        limits=Limits(
            number["max.push.queries"],
            number["ksql.query.persistent.active.limit"],
            number["ksql.query.pull.max.concurrent.requests"],
            number["ottla.sql.pull.rows.max"],
            number["ottla.sql.pull.timeout.ms"] / 1000,
            number["ottla.sql.followed.tables.max"],
            number["ottla.sql.request.bytes.max"],
        ),
        scans=flag["ksql.query.pull.table.scan.enabled"],
        pulls=flag["ksql.pull.queries.enable"],
        access=_access(given, environment),
        tls=_tls(given) if secure else None,
        advertised=text["ksql.advertised.listener"],
        host_names=hosts_of(given),
        cors=Cors.of(given),
        warnings=tuple(_warnings(given)),
    )


def _processing(text: Mapping[str, str], number: Mapping[str, int], flag: Mapping[str, bool]) -> LogSettings:
    """Lines go to the topic that is to be made, or that is named; raises ConfigError for a stream without a topic."""
    makes = flag[f"{PROCESSING}topic.auto.create"]
    topic = text[_LOG_TOPIC] or (f"{text[SERVICE_ID]}ksql_processing_log" if makes else "")
    if flag[f"{PROCESSING}stream.auto.create"] and not topic:
        raise ConfigError(
            f"{PROCESSING}stream.auto.create", "true", f"{PROCESSING}topic.auto.create=true, or {_LOG_TOPIC}, beside it"
        )
    stream = text[_LOG_STREAM] if flag[f"{PROCESSING}stream.auto.create"] else ""
    if stream and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", stream):
        raise ConfigError(_LOG_STREAM, stream, "a name of letters, digits and '_'")
    return LogSettings(
        topic,
        makes,
        number[f"{PROCESSING}topic.partitions"],
        number[f"{PROCESSING}topic.replication.factor"],
        stream.upper(),
        flag[f"{PROCESSING}rows.include"],
    )


def _access(given: Mapping[str, str], environment: Mapping[str, str]) -> Access:
    """Who may ask, by the settings that the schema registry has, too; the JAAS file also by `KSQL_OPTS`."""
    known = {**given, "authentication.realm": given.get("authentication.realm", "KsqlServer-Props")}
    return access_of(known, {"SCHEMA_REGISTRY_OPTS": environment.get("KSQL_OPTS", "")})


def _tls(given: Mapping[str, str]) -> Callable[[], ssl.SSLContext]:
    found = {name: value for name, value in given.items() if name.startswith("ssl.")}
    try:
        return serving_context(found)
    except ConfigError as error:
        raise ConfigError(LISTENERS, "https://", error.allowed, f"HTTPS cannot be served: {error}") from error


def _addresses(text: str) -> tuple[Address, ...]:
    found = []
    for each in text.split(","):
        match = _LISTENER.fullmatch(each.strip())
        if match is None or int(match[3]) > 65535:
            raise ConfigError(LISTENERS, each.strip(), "http://host:port or https://host:port")
        host = "" if match[2] in ("0.0.0.0", "::", "[::]") else match[2].strip("[]")
        found.append(Address(host, int(match[3]), match[1].lower()))
    return tuple(found)


def _number(given: Mapping[str, str], name: str) -> int:
    default, least = _NUMBERS[name]
    text = given.get(name) or str(default)
    if not re.fullmatch(r"[+-]?[0-9]{1,12}", text) or int(text) < least:
        raise ConfigError(name, text, f"a whole number, {least} or more")
    return int(text)


def _flag(given: Mapping[str, str], name: str) -> bool:
    text = (given.get(name) or str(_FLAGS[name])).lower()
    if text not in ("true", "false"):
        raise ConfigError(name, text, "true or false")
    return text == "true"


def _warnings(given: Mapping[str, str]) -> list[str]:
    known = (*_TEXTS, *_NUMBERS, *_FLAGS, BOOTSTRAP, "ksql.persistence.", "authentication.", "oauthbearer.", PREFIX)
    known += (*_CLIENT, "auth.ssl.", "java.security.auth.login.config", "ksql.internal.", *STREAMS_PROPERTIES)
    known += ("ksql.functions.", "ksql.output.topic.name.prefix", "ksql.query.pull.enable.standby.reads")
    known += ("ottla.http.hosts", "access.control.allow.origin", "access.control.allow.methods")
    unknown = [each for each in given if not each.startswith(known)]
    return [f"{each} is not a setting of this server; it has no effect" for each in unknown]
