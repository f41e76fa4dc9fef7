"""An application's settings: Kafka Streams' names, types, defaults and bounds, as one frozen value.

A name that nobody knows and a value that is not allowed are refused, by name. What has no meaning where Spark runs the plan
is accepted, so that a properties file from Kafka works, and said in `notices`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from typing import Any

from ottla.base import ConfigError
from ottla.config import (
    BROKER_KEYS,
    CONSUMER_KEYS,
    PRODUCER_KEYS,
    STREAMS_KEYS,
    ConfigKey,
    ConfigType,
    UpdateMode,
    parse_properties,
    parse_value,
)
from ottla.streams.setting_meanings import ALLOWED, OWN_KEYS, WITHOUT_MEANING

__all__ = ["ExceptionPolicy", "StreamsSettings"]

PREFIXES = ("main.consumer.", "restore.consumer.", "global.consumer.", "consumer.", "producer.", "admin.", "topic.")
"""Kafka Streams' prefixes for the settings of its clients, and of internal topics."""
PROTOCOL = "security.protocol"
SECURITY_PREFIXES = ("ssl.", "sasl.")
HTTP = "http.listener"
HTTP_TLS = "http.listener.ssl."
OLDER = {
    "cache.max.bytes.buffering": "statestore.cache.max.bytes",
    "default.deserialization.exception.handler": "deserialization.exception.handler",
    "default.production.exception.handler": "production.exception.handler",
}
"""Names that Kafka Streams still reads, and those that came in their place."""
COMMIT_INTERVAL_MS = 100
"""The default of `commit.interval.ms`: Kafka's under exactly once. Its other default, 30 s, would hold back every record
for that long, since a micro-batch writes and commits at once, where Kafka Streams forwards before it commits."""
APPLICATION_ID_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
_POLICIES = {
    "logandfailexceptionhandler": "fail",
    "logandfailprocessingexceptionhandler": "fail",
    "defaultproductionexceptionhandler": "fail",
    "logandcontinueexceptionhandler": "continue",
    "logandcontinueprocessingexceptionhandler": "continue",
    "fail": "fail",
    "continue": "continue",
}
_CLIENTS_APPLIED = {
    "auto.offset.reset",
    "session.timeout.ms",
    "bootstrap.servers",
    "client.id",
    "request.timeout.ms",
    "compression.type",
    "acks",
    "batch.size",
    "max.partition.fetch.bytes",
    "transaction.timeout.ms",
}
"""Settings of the consumer and the producer that are used; others are accepted with a notice."""
_CLIENTS_FIXED = {
    "enable.auto.commit": ("false", "progress is committed after each batch"),
    "group.id": (None, "the group is named after application.id"),
    "transactional.id": (None, "transactional ids are made from application.id"),
}


@dataclass(frozen=True, slots=True)
class ExceptionPolicy:
    """What happens with a record that cannot be read, processed or written: `fail` or `continue`, or what `decide` says."""

    action: str
    """`fail` stops the application, `continue` skips the record."""
    dead_letter_topic: str | None = None
    """Where a skipped record goes (KIP-1034); None: nowhere."""
    decide: Callable[..., str] | None = None
    """A function of one's own, (record, error) → `fail` or `continue`, in the place of `action`."""


@dataclass(frozen=True)
class StreamsSettings:
    """Typed settings; `values` has every key of Kafka Streams' and of Ottla's own, `given` only what was set.

    Make one with `of` or `from_properties`.
    """

    values: Mapping[str, Any]
    given: Mapping[str, Any]
    clients: Mapping[str, Mapping[str, str]]
    """Settings of clients by prefix without its dot: `consumer`, `producer`, `admin`, `topic`, …"""
    spark: Mapping[str, str]
    """What goes to the Spark session as it is."""
    notices: tuple[str, ...] = ()
    """One sentence for each setting that was accepted and has no effect here."""

    @classmethod
    def of(cls, given: Mapping[str, Any] | None = None, **keywords: Any) -> StreamsSettings:
        """Check settings by Kafka's names, as a mapping or as keywords with `_` for `.`; keywords win.

        Raises ConfigError for the first that is unknown, wrong or missing.
        """
        if isinstance(given, StreamsSettings):
            given = given.given
        merged = {**(given or {}), **{name.replace("_", "."): value for name, value in keywords.items()}}
        return _Reader({name: value for name, value in merged.items() if value is not None}).read()

    @classmethod
    def from_properties(cls, text: str, overrides: Mapping[str, Any] | None = None) -> StreamsSettings:
        """Check the text of a properties file; `overrides` win."""
        return cls.of({**parse_properties(text), **(overrides or {})})

    def __getitem__(self, name: str) -> Any:
        """Return a setting's typed value; raises KeyError for a name that is none."""
        return self.values[OLDER.get(name, name)]

    def __iter__(self) -> Iterator[str]:
        return iter(self.values)

    @property
    def application_id(self) -> str:
        """`application.id`: the consumer group, and the start of every internal topic's name."""
        return str(self["application.id"])

    @property
    def bootstrap_servers(self) -> str:
        """`bootstrap.servers`, with commas."""
        return ",".join(self["bootstrap.servers"])

    @property
    def exactly_once(self) -> bool:
        """Whether `processing.guarantee` is exactly once."""
        return bool(self["processing.guarantee"] == "exactly_once_v2")

    @property
    def commit_interval_ms(self) -> int:
        """`commit.interval.ms`: the micro-batches' interval, at which results are written and committed; 0: no pause."""
        return int(self["commit.interval.ms"])

    @property
    def cache(self) -> bool:
        """Whether updates of a key are coalesced in a batch: false where `statestore.cache.max.bytes` is 0."""
        return bool(self["statestore.cache.max.bytes"] > 0)

    @property
    def replication_factor(self) -> int:
        """`replication.factor` of internal topics; -1 leaves it to the broker."""
        return int(self["replication.factor"])

    @property
    def auto_offset_reset(self) -> str:
        """`auto.offset.reset` where no offset is committed: earliest (Streams' default), latest, none or by_duration:…."""
        return self._of_consumer("auto.offset.reset") or "earliest"

    @property
    def session_timeout_ms(self) -> int | None:
        """`session.timeout.ms`: how long after a driver's last sign another may take over; None where it is not given."""
        found = self._of_consumer("session.timeout.ms")
        return None if found is None else int(found)

    def _of_consumer(self, name: str) -> str | None:
        """Return a setting of the main consumer: Kafka Streams' prefixes come before the plain name."""
        for prefix in ("main.consumer", "consumer", ""):
            found = self.clients.get(prefix, {}).get(name)
            if found is not None:
                return found
        return None

    @property
    def state_dir(self) -> str | None:
        """`state.dir`: where checkpoints are, a folder or a URI that Spark can write; None: the user's state folder."""
        found = self.given.get("state.dir")
        return None if found is None else str(found)

    @cached_property
    def deserialization(self) -> ExceptionPolicy:
        """`deserialization.exception.handler`."""
        return self._policy("deserialization.exception.handler")

    @cached_property
    def processing(self) -> ExceptionPolicy:
        """`processing.exception.handler`."""
        return self._policy("processing.exception.handler")

    @cached_property
    def production(self) -> ExceptionPolicy:
        """`production.exception.handler`."""
        return self._policy("production.exception.handler")

    def _policy(self, name: str) -> ExceptionPolicy:
        value = self[name]
        topic = self["errors.dead.letter.queue.topic.name"]
        if callable(value):
            return ExceptionPolicy("fail", topic, value)
        return ExceptionPolicy(policy_name(name, value), topic)

    @cached_property
    def security(self) -> dict[str, str]:
        """`security.protocol`, `ssl.…` and `sasl.…`, which hold for all clients of the application."""
        found = {name: text for name, text in self.clients.get("", {}).items() if name.startswith(SECURITY_PREFIXES)}
        return {PROTOCOL: str(self[PROTOCOL]).strip().upper(), **found}

    @property
    def http_tls(self) -> dict[str, str]:
        """The `ssl.…` of HTTPS: those under `http.listener.` where there are any, and the application's own else."""
        own = self.clients.get(HTTP)
        return dict(own or {name: text for name, text in self.security.items() if name.startswith("ssl.")})

    def topic_config(self) -> dict[str, str]:
        """Return what `topic.…` sets for internal topics."""
        return dict(self.clients.get("topic", {}))


def policy_name(name: str, value: object) -> str:
    """Return `fail` or `continue` for what names a handler, Java's classes too; raises ConfigError for anything else."""
    text = str(value).rpartition(".")[2].rpartition("$")[2].lower()
    if text not in _POLICIES:
        allowed = "fail, continue, one of Kafka's handlers (LogAndFail…, LogAndContinue…) or a function"
        raise ConfigError(name, value, f"{allowed} is expected")
    return _POLICIES[text]


class _Reader:
    """Reads settings once; every method looks at one kind of them."""

    def __init__(self, given: dict[str, Any]) -> None:
        self._given = given
        self._values: dict[str, Any] = {}
        self._clients: dict[str, dict[str, str]] = {}
        self._spark: dict[str, str] = {}
        self._notices: list[str] = []

    def read(self) -> StreamsSettings:
        """Read all; raises ConfigError."""
        for name, value in self._given.items():
            self._one(name, value)
        self._fill()
        self._check()
        return StreamsSettings(self._values, self._given, self._clients, self._spark, tuple(self._notices))

    def _one(self, name: str, value: Any) -> None:
        if name in STREAMS_KEYS or name in OWN_KEYS:
            self._values[OLDER.get(name, name)] = _typed(name, value)
            if name in WITHOUT_MEANING:
                self._notices.append(f"{name} has no effect: {WITHOUT_MEANING[name]}.")
            return
        if name.startswith("spark."):
            self._spark[name] = _text(value)
            return
        if name.startswith(HTTP_TLS):
            self._http(name, _text(value))
            return
        prefix = next((each for each in PREFIXES if name.startswith(each)), "")
        self._client(prefix, name.removeprefix(prefix), value)

    def _http(self, name: str, text: str) -> None:
        """Read what HTTPS is served with: the `ssl.…` of a listener, under a prefix."""
        plain = name.removeprefix(f"{HTTP}.")
        if plain not in BROKER_KEYS:
            raise _unknown(name)
        parse_value(BROKER_KEYS[plain]._replace(name=name), text)
        self._clients.setdefault(HTTP, {})[plain] = text

    def _client(self, prefix: str, name: str, value: Any) -> None:
        """Read a setting of the consumer's or the producer's; without prefix it is for whichever knows it."""
        tables = {
            "producer.": (PRODUCER_KEYS,),
            "topic.": (),
            "": (CONSUMER_KEYS, PRODUCER_KEYS),
        }.get(prefix, (CONSUMER_KEYS,))
        key = next((table[name] for table in tables if name in table), None)
        if key is None and tables:
            raise _unknown(prefix + name)
        text = _text(value)
        if prefix and prefix != "topic." and name.startswith((PROTOCOL, *SECURITY_PREFIXES)):
            allowed = f"give {name} without {prefix}: all clients of an application are protected alike"
            raise ConfigError(prefix + name, "[hidden]", "", f"{prefix}{name}: {allowed}")
        if key is not None:
            if (name, text) != ("auto.offset.reset", "none"):
                parse_value(key._replace(name=prefix + name), text)
            self._notice_client(prefix + name, name, text)
        self._clients.setdefault(prefix.removesuffix("."), {})[name] = text

    def _notice_client(self, full: str, name: str, text: str) -> None:
        if name in _CLIENTS_FIXED:
            only, reason = _CLIENTS_FIXED[name]
            if text != only:
                self._notices.append(f"{full} has no effect: {reason}.")
        elif name not in _CLIENTS_APPLIED and not name.startswith(SECURITY_PREFIXES):
            self._notices.append(f"{full} has no effect: {_SOURCES_AND_SINKS}.")

    def _fill(self) -> None:
        for name, key in STREAMS_KEYS.items():
            if name not in OLDER:
                self._values.setdefault(name, key.default_value)
        for name in OWN_KEYS:
            self._values.setdefault(name, _own_key(name).default_value)
        if "commit.interval.ms" not in self._given:
            self._values["commit.interval.ms"] = COMMIT_INTERVAL_MS
        if "state.dir" not in self._given:
            self._values["state.dir"] = None

    def _check(self) -> None:
        for name in ("application.id", "bootstrap.servers"):
            if not self._values[name]:
                raise ConfigError(
                    name, None, "needed", f'Missing required configuration "{name}" which has no default value.'
                )
        identity = self._values["application.id"]
        wrong = sorted(set(identity) - APPLICATION_ID_LETTERS)
        if wrong or len(identity) > 200:
            allowed = "letters, digits, '.', '_' and '-' are allowed, since topics are named after it (200 at most)"
            raise ConfigError("application.id", identity, allowed)
        for name, allowed_values in ALLOWED.items():
            value = self._given.get(name)
            text = _text(value).upper() if value is not None else ""
            if text and text not in (each.upper() for each in allowed_values):
                choice = " or ".join(allowed_values) or "nothing"
                raise ConfigError(name, value, f"only {choice} is supported so far")
        for kind in ("deserialization", "processing", "production"):
            name = f"{kind}.exception.handler"
            if not callable(self._values[name]):
                policy_name(name, self._values[name])


_SOURCES_AND_SINKS = "Ottla's own source and sink read and write the topics"


def _typed(name: str, value: Any) -> Any:
    """Return a value of its key's type; objects stand for Java's classes (serdes, extractors, handlers)."""
    key = STREAMS_KEYS.get(name) or _own_key(name)
    if key.type is ConfigType.CLASS and not isinstance(value, str):
        return value
    if key.type is ConfigType.LIST and not isinstance(value, str):
        value = ",".join(map(str, value))
    if name in ("default.key.serde", "default.value.serde"):
        return serde_name(name, _text(value))
    if name == "processing.guarantee":
        value = _GUARANTEES.get(_text(value).lower(), value)
    return parse_value(key, _text(value))


def serde_name(name: str, text: str) -> str:
    """Return the name of a serde, also where one of Kafka's classes names it; raises ConfigError for another class.

    `org.apache.kafka.common.serialization.Serdes$LongSerde` is `long`.
    """
    word = re.split(r"[.$]", text.strip())[-1]
    short = word.removesuffix("Serde").lower() if word.endswith("Serde") else word.lower()
    short = _SERDES.get(short, short)
    if short not in _SERDE_NAMES:
        allowed = f"a serde, one of {', '.join(sorted(_SERDE_NAMES))}, or Kafka's class of one of them is expected"
        raise ConfigError(name, text, allowed)
    return short


_SERDES = {"integer": "int", "bytearray": "bytes", "bytebuffer": "bytes", "str": "string"}
_SERDE_NAMES = frozenset(
    {"string", "bytes", "short", "int", "long", "float", "double", "boolean", "uuid", "void", "json"}
)

_GUARANTEES = {"exactly_once": "exactly_once_v2"}
"""A word that people try; Kafka's own is exactly_once_v2."""


def _own_key(name: str) -> ConfigKey:
    own = OWN_KEYS[name]
    kind = ConfigType[own.type]
    return ConfigKey(name, kind, own.default, own.bound, "MEDIUM", UpdateMode.READ_ONLY, False, False, own.doc)


def _text(value: Any) -> str:
    """Return a value as a properties file would hold it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _unknown(name: str) -> ConfigError:
    known = [*STREAMS_KEYS, *OWN_KEYS, *CONSUMER_KEYS, *PRODUCER_KEYS]
    near = get_close_matches(name, known, 1)
    hint = f"; did you mean {near[0]}?" if near else ""
    message = f"Unknown setting {name}{hint} (Spark's own begin with spark., those of internal topics with topic.)"
    return ConfigError(name, None, "unknown", message)
