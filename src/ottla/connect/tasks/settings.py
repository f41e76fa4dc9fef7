"""What a task is configured with, read from its spec into typed values: errors, offsets, transactions, the clients.

Client properties have Kafka's names. What cannot be honoured is refused by name before the task starts; what has no meaning
here (buffers of sockets, metrics of Java) is taken and changes nothing, as a Java client would go on working with it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from ottla.base import ConfigError
from ottla.client import Isolation, security_of
from ottla.connect import client_overrides, error_policy
from ottla.connect.tasks.interface import TaskSpec
from ottla.wire import Codec

__all__ = [
    "AdminSettings",
    "Boundary",
    "ConsumerSettings",
    "ErrorSettings",
    "ProducerSettings",
    "Reset",
    "SourceSettings",
    "admin_settings",
    "boolean",
    "consumer_settings",
    "error_settings",
    "integer",
    "names",
    "producer_settings",
    "source_settings",
]

log = logging.getLogger(__name__)
ClientKind = client_overrides.ClientKind

Properties = Mapping[str, str | None]
INT_MAX = (1 << 31) - 1
FLUSH_INTERVAL_MS_DEFAULT = 60_000
FLUSH_TIMEOUT_MS_DEFAULT = 5_000
MAX_IN_FLIGHT = 5
"""Requests of one producer whose order a broker can tell by their sequences (KIP-98)."""
BATCH_BYTES_DEFAULT = 512 << 10
"""Larger than Kafka's 16 KiB: a batch's own cost in Python is many records' cost."""
FETCH_BYTES_DEFAULT = (4 << 20) - (64 << 10)
FETCH_WAIT_MS_DEFAULT = 500
POLL_RECORDS_DEFAULT = 500


def boolean(props: Properties, key: str, default: bool) -> bool:
    """Return a setting; raises ConfigError for what is neither true nor false."""
    text = (props.get(key) or str(default)).strip().lower()
    if text not in ("true", "false"):
        raise ConfigError(key, props[key], "Expected value to be either true or false")
    return text == "true"


def integer(props: Properties, key: str, default: int, *, least: int = 0) -> int:
    """Return a setting; raises ConfigError for what is no number, or one below `least`."""
    text = (props.get(key) or "").strip() or str(default)
    if not text.lstrip("+-").isdecimal() or int(text) < least:
        raise ConfigError(key, props.get(key), f"a number from {least} on is expected")
    return int(text)


def names(props: Properties, key: str) -> tuple[str, ...]:
    """Return a comma-separated list's entries, each once."""
    return tuple(dict.fromkeys(each.strip() for each in (props.get(key) or "").split(",") if each.strip()))


def _one_of(props: Properties, key: str, default: str, *allowed: str) -> str:
    text = (props.get(key) or default).strip().lower()
    if text not in allowed:
        raise ConfigError(key, props.get(key), f"one of {', '.join(allowed)} is expected")
    return text


@dataclass(frozen=True, slots=True)
class ErrorSettings:
    """The `errors.…` keys; a dead letter queue is for sinks in Kafka, and here for sources as well."""

    tolerance: error_policy.Tolerance
    logged: bool
    logged_with_record: bool
    dead_letters: str | None
    dead_letters_replication: int
    dead_letters_context: bool


def error_settings(props: Properties) -> ErrorSettings:
    """Read a connector's settings; raises ConfigError."""
    tolerance = error_policy.Tolerance(
        integer(props, "errors.retry.timeout", 0, least=-1),
        integer(props, "errors.retry.delay.max.ms", 60_000),
        _one_of(props, "errors.tolerance", "none", "none", "all") == "all",
    )
    queue = "errors.deadletterqueue."
    return ErrorSettings(
        tolerance,
        boolean(props, "errors.log.enable", False),
        boolean(props, "errors.log.include.messages", False),
        (props.get(f"{queue}topic.name") or "").strip() or None,
        integer(props, f"{queue}topic.replication.factor", 3, least=-1),
        boolean(props, f"{queue}context.headers.enable", False),
    )


class Boundary(Enum):
    """Where transactions end (`transaction.boundary`, KIP-618)."""

    POLL = "poll"
    INTERVAL = "interval"
    CONNECTOR = "connector"


@dataclass(frozen=True, slots=True)
class SourceSettings:
    """When a source's offsets are stored, and in which transactions."""

    flush_interval_ms: int
    flush_timeout_ms: int
    boundary: Boundary
    boundary_interval_ms: int
    creates_topics: bool


def source_settings(spec: TaskSpec) -> SourceSettings:
    """Read a source task's settings; raises ConfigError."""
    props, worker = spec.connector_config, spec.worker
    interval = integer(worker, "offset.flush.interval.ms", FLUSH_INTERVAL_MS_DEFAULT)
    return SourceSettings(
        interval,
        integer(worker, "offset.flush.timeout.ms", FLUSH_TIMEOUT_MS_DEFAULT),
        Boundary(_one_of(props, "transaction.boundary", "poll", *(each.value for each in Boundary))),
        integer(props, "transaction.boundary.interval.ms", interval),
        boolean(worker, "topic.creation.enable", True),
    )


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    """A producer's properties, of those that mean something here."""

    bootstrap: str
    client_id: str
    acks: int
    idempotent: bool
    in_flight_max: int
    codec: Codec
    batch_bytes: int
    buffer_bytes: int
    request_bytes_max: int
    delivery_timeout_ms: int
    request_timeout_ms: int
    transaction_timeout_ms: int
    security: Mapping[str, str]
    """`security.protocol`, `ssl.…` and `sasl.…`; so below."""


def producer_settings(props: Mapping[str, str], bootstrap: str, client_id: str) -> ProducerSettings:
    """Read a producer's properties; raises ConfigError for what cannot be honoured, which names the key."""
    _refuse(ClientKind.PRODUCER, props)
    acks = _one_of(props, "acks", "all", "all", "-1", "0", "1")
    idempotent = boolean(props, "enable.idempotence", acks in ("all", "-1"))
    if idempotent and acks not in ("all", "-1"):
        raise ConfigError("acks", acks, "must be all where enable.idempotence is true")
    codec = _one_of(props, "compression.type", "none", *(each.name.lower() for each in Codec))
    in_flight = integer(props, "max.in.flight.requests.per.connection", MAX_IN_FLIGHT, least=1)
    return ProducerSettings(
        props.get("bootstrap.servers") or bootstrap,
        props.get("client.id") or client_id,
        -1 if acks == "all" else int(acks),
        idempotent,
        min(in_flight, MAX_IN_FLIGHT) if idempotent else 1,
        Codec[codec.upper()],
        max(integer(props, "batch.size", BATCH_BYTES_DEFAULT), 1),
        integer(props, "buffer.memory", 32 << 20, least=1),
        integer(props, "max.request.size", 1 << 20, least=1),
        integer(props, "delivery.timeout.ms", INT_MAX),
        integer(props, "request.timeout.ms", 30_000, least=1),
        integer(props, "transaction.timeout.ms", 60_000, least=1),
        security_of(props),
    )


class Reset(Enum):
    """Where reading begins without a committed offset (`auto.offset.reset`)."""

    EARLIEST = "earliest"
    LATEST = "latest"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class ConsumerSettings:
    """A consumer's properties, of those that mean something here."""

    bootstrap: str
    client_id: str
    isolation: Isolation
    reset: Reset
    poll_records: int
    fetch_bytes: int
    fetch_bytes_max: int
    fetch_bytes_min: int
    fetch_wait_ms: int
    request_timeout_ms: int
    member: Mapping[str, str]
    """What the group's member is configured with, by the names of librdkafka."""

    security: Mapping[str, str]


_MEMBER = {
    "group.instance.id": "group.instance.id",
    "session.timeout.ms": "session.timeout.ms",
    "heartbeat.interval.ms": "heartbeat.interval.ms",
    "max.poll.interval.ms": "max.poll.interval.ms",
    "metadata.max.age.ms": "topic.metadata.refresh.interval.ms",
    "client.rack": "client.rack",
    "group.protocol": "group.protocol",
    "group.remote.assignor": "group.remote.assignor",
}
_ASSIGNORS = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "CooperativeStickyAssignor": "cooperative-sticky",
}


def consumer_settings(props: Mapping[str, str], bootstrap: str, client_id: str) -> ConsumerSettings:
    """Read a consumer's properties; raises ConfigError for what cannot be honoured, which names the key."""
    _refuse(ClientKind.CONSUMER, props)
    isolation = _one_of(props, "isolation.level", "read_committed", "read_committed", "read_uncommitted")
    member = {name: props[key] for key, name in _MEMBER.items() if props.get(key)}
    strategies = names(props, "partition.assignment.strategy")
    if strategies:
        member["partition.assignment.strategy"] = ",".join(_assignor(each) for each in strategies)
    return ConsumerSettings(
        props.get("bootstrap.servers") or bootstrap,
        props.get("client.id") or client_id,
        Isolation[isolation.upper()],
        Reset(_one_of(props, "auto.offset.reset", "earliest", *(each.value for each in Reset))),
        integer(props, "max.poll.records", POLL_RECORDS_DEFAULT, least=1),
        integer(props, "max.partition.fetch.bytes", FETCH_BYTES_DEFAULT, least=1),
        integer(props, "fetch.max.bytes", 50 << 20, least=1),
        integer(props, "fetch.min.bytes", 1),
        integer(props, "fetch.max.wait.ms", FETCH_WAIT_MS_DEFAULT),
        integer(props, "request.timeout.ms", 30_000, least=1),
        member,
        security_of(props),
    )


def _assignor(name: str) -> str:
    found = _ASSIGNORS.get(name.rpartition(".")[2])
    if found is None:
        raise ConfigError("partition.assignment.strategy", name, f"one of {', '.join(_ASSIGNORS)} is expected")
    return found


@dataclass(frozen=True, slots=True)
class AdminSettings:
    """The properties of the client that makes topics, of those that mean something here."""

    bootstrap: str
    client_id: str
    request_timeout_ms: int
    security: Mapping[str, str]


def admin_settings(props: Mapping[str, str], bootstrap: str, client_id: str) -> AdminSettings:
    """Read an admin client's properties; raises ConfigError for what cannot be honoured, which names the key."""
    _refuse(ClientKind.ADMIN, props)
    return AdminSettings(
        props.get("bootstrap.servers") or bootstrap,
        props.get("client.id") or client_id,
        integer(props, "request.timeout.ms", 30_000, least=1),
        security_of(props),
    )


def _refuse(kind: ClientKind, props: Mapping[str, str]) -> None:
    for key, why in client_overrides.unsupported(kind, props):
        raise ConfigError(key, props[key], "", why)
