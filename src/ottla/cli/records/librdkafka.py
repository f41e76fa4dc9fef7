"""Settings of Java's clients in the words of librdkafka, the C library under `confluent_kafka`, and clients made of them.

The commands take Kafka's properties files as they are; what only Java's clients know is left out, with a line that says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from ottla.base import ConfigError, ErrorCode, KafkaError
from ottla.cli.options import warn

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message, Producer

__all__ = [
    "REQUEST_BYTES_MAX",
    "await_topic",
    "check_names",
    "check_reachable",
    "consumer_settings",
    "make_consumer",
    "make_producer",
    "patient",
    "producer_settings",
    "refused_topic",
    "taken",
    "whole_setting",
]

NAMES = {
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "max.in.flight.requests.per.connection": "max.in.flight",
    "max.request.size": "message.max.bytes",
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "compression.gzip.level": "compression.level",
    "compression.lz4.level": "compression.level",
    "compression.zstd.level": "compression.level",
}
"""Where the C library's name is not the Java clients'."""
OWN_BUSINESS = {
    "key.serializer",
    "value.serializer",
    "key.deserializer",
    "value.deserializer",
    "default.api.timeout.ms",
    "max.block.ms",
    "max.poll.records",
    "partitioner.class",
    "partitioner.ignore.keys",
    "partitioner.adaptive.partitioning.enable",
}
"""Java settings that the commands keep themselves, or that mean nothing where records are bytes."""
ASSIGNORS = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "StickyAssignor": "cooperative-sticky",
    "CooperativeStickyAssignor": "cooperative-sticky",
}
RESETS = {"earliest": "earliest", "latest": "latest", "none": "error"}
REFUSALS = ("_AUTHENTICATION", "_SSL", "SASL_AUTHENTICATION_FAILED")
TOLD = ("_TRANSPORT", "_RESOLVE")
"""Errors that are told; each is one address that does not answer."""
PROTECTION = ("security.", "ssl.", "sasl.")
"""How the keys begin that say how a connection is protected."""
NOT_YET = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE)
REFUSED_TOPICS = {
    ErrorCode.INVALID_TOPIC_EXCEPTION: "Invalid topics: [{}]",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Not authorized to access topics: [{}]",
}
"""Java's words for a topic that can be neither written to nor read."""
TOPIC_RETRY_SECONDS = 0.1
TOLD_AFTER_SECONDS = 1.0
REQUEST_BYTES_MAX = 1 << 20
"""`max.request.size` of Java's producer; the C library alone would refuse what is just below it."""
Client = TypeVar("Client")
SILENT = 0
"""The library's `log_level`: what goes wrong comes as errors, which the commands tell in their own words."""


def producer_settings(properties: Mapping[str, str]) -> dict[str, Any]:
    """Return a producer's settings, with the Java producer's partitioning and idempotence."""
    settled = properties.get("acks", "all") in ("all", "-1") and properties.get("retries") != "0"
    found: dict[str, Any] = {"partitioner": "murmur2_random", "enable.idempotence": settled, "log_level": SILENT}
    found["message.max.bytes"] = REQUEST_BYTES_MAX
    for key, value in properties.items():
        if key == "buffer.memory":
            found["queue.buffering.max.kbytes"] = max(1, _number(key, value) // 1024)
        elif key == "batch.size":
            found[key] = max(1, _not_negative(key, value))
        elif key == "linger.ms":
            found[key] = _not_negative(key, value)
        else:
            _translate(key, value, found)
    _protect(properties, found)
    return found


def consumer_settings(properties: Mapping[str, str]) -> dict[str, Any]:
    """Return a consumer's settings; raises ConfigError for a value that the Java consumer would refuse too.

    Java's consumer reads what is not committed unless it is told otherwise; the C library's does not.
    """
    found: dict[str, Any] = {"isolation.level": "read_uncommitted", "log_level": SILENT}
    for key, value in properties.items():
        match key:
            case "auto.offset.reset":
                if value not in RESETS:
                    raise ConfigError(key, value, f"String must be one of: {', '.join(RESETS)}")
                found[key] = RESETS[value]
            case "group.protocol":
                found[key] = value.lower()
            case "partition.assignment.strategy":
                found[key] = ",".join(_assignor(each.strip()) for each in value.split(","))
            case "request.timeout.ms":
                found["socket.timeout.ms"] = max(10, _number(key, value))
            case _:
                _translate(key, value, found)
    _protect(properties, found)
    return found


def _translate(key: str, value: str, found: dict[str, Any]) -> None:
    if key in OWN_BUSINESS or key.startswith(PROTECTION):
        return
    if key.endswith(".buffer.bytes"):
        found[NAMES[key]] = max(0, _number(key, value))  # -1 is Java's word for what the system chooses
    else:
        found[NAMES.get(key, key)] = value


def _number(key: str, value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise ConfigError(key, value, "Not a number of type INT") from None


def _not_negative(key: str, value: str) -> int:
    found = _number(key, value)
    if found < 0:
        raise ConfigError(key, value, "Value must be at least 0")
    return found


def whole_setting(properties: Mapping[str, str], key: str, default: int) -> int:
    """Return a setting that is a number; raises ConfigError for one that is none."""
    return _number(key, properties[key]) if key in properties else default


def _assignor(name: str) -> str:
    short = name.rpartition(".")[2]
    if short not in ASSIGNORS:
        raise ConfigError("partition.assignment.strategy", name, f"one of these is built in: {', '.join(ASSIGNORS)}")
    return ASSIGNORS[short]


def _protect(properties: Mapping[str, str], found: dict[str, Any]) -> None:
    """Translate what protects a connection."""
    from ottla.client import librdkafka_security

    found |= librdkafka_security(properties)


def make_producer(settings: dict[str, Any], noun: str) -> Producer:
    """Return a producer; settings that only Java's client knows are left out with a line that says so."""
    from confluent_kafka import Producer

    return _made(Producer, settings, noun)


def make_consumer(settings: dict[str, Any], noun: str) -> Consumer:
    """Return a consumer, as `make_producer` does."""
    from confluent_kafka import Consumer

    if not settings.get("group.id", "none"):  # which would end the process in the C library
        raise KafkaError(ErrorCode.INVALID_GROUP_ID, "the group's name must not be empty")
    return _made(Consumer, settings, noun)


def check_names(topics: Iterable[str]) -> None:
    """Raise KafkaError for a topic without a name, which the library refuses without saying what is wrong."""
    if not all(topics):
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, "the topic's name must not be empty")


def taken(consumer: Consumer, count: int, seconds: float) -> list[Message]:
    """Return what has come, at most `count`, after waiting for the first at most so long.

    The library's own call for several waits until all have come.
    """
    first = consumer.poll(seconds)
    return [] if first is None else [first, *consumer.consume(count - 1, 0)]


def _raise_if_hopeless(error: Any) -> None:
    text = error.str()
    if error.name() in REFUSALS or "SSL handshake failed" in text:
        raise KafkaError(ErrorCode.NETWORK_EXCEPTION, text)


class Troubles:
    """Is called with the library's errors: what does not pass by itself is raised, all else is told once and tried again."""

    def __init__(self, noun: str) -> None:
        self._noun = noun
        self._told: set[tuple[str, str]] = set()

    def __call__(self, error: Any) -> None:
        """Raise KafkaError where the library would try for ever without hope."""
        _raise_if_hopeless(error)
        text = error.str()
        where = text.partition(": ")[0]
        if error.name() in TOLD and (error.name(), where) not in self._told:
            self._told.add((error.name(), where))
            warn(f"ottla {self._noun}: {text}; trying again")


def _made(cls: Callable[[dict[str, Any]], Client], settings: dict[str, Any], noun: str) -> Client:
    from confluent_kafka import KafkaException

    settings.setdefault("error_cb", Troubles(noun))
    while True:
        try:
            return cls(settings)
        except KafkaException as error:
            said = error.args[0].str()
            unknown = said.removeprefix('No such configuration property: "').rstrip('"')
            if unknown == said or unknown not in settings:
                raise KafkaError(ErrorCode.INVALID_CONFIG, said) from error
            warn(f"ottla {noun}: {unknown} has no effect here")
            del settings[unknown]


def check_reachable(properties: Mapping[str, str], *, timeout_ms: str, topics: list[str]) -> None:
    """Ask the cluster for the topics, so that brokers that do not answer are an error, and topics are made where that is on.

    The C library would wait silently, for as long as a record may live, for brokers that are not there. Raises OttlaError
    with what is wrong.
    """
    from ottla.cli.options import open_client

    with open_client(properties["bootstrap.servers"], patient(properties, timeout_ms)) as client:
        client.metadata(topics, allow_auto_topic_creation=True)


def await_topic(properties: Mapping[str, str], topic: str, *, timeout_ms: str, noun: str) -> None:
    """Return when the cluster knows the topic, as Java's producer waits before its first record.

    Raises KafkaError, in Java's words, where it does not within the time, or says that it never will.
    """
    from ottla.cli.options import open_client

    deadline_s = time.monotonic() + int(timeout_ms) / 1000
    told = False
    with open_client(properties["bootstrap.servers"], patient(properties, timeout_ms)) as client:
        while True:
            found = client.metadata([topic], allow_auto_topic_creation=True).topics.get(topic)
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if found is None else found.error
            if error not in NOT_YET:
                break
            if time.monotonic() >= deadline_s:
                raise KafkaError(error, f"Topic {topic} not present in metadata after {timeout_ms} ms.")
            if not told and time.monotonic() >= deadline_s - int(timeout_ms) / 1000 + TOLD_AFTER_SECONDS:
                warn(f"ottla {noun}: topic {topic} is not there yet; waiting for it")
                told = True
            time.sleep(TOPIC_RETRY_SECONDS)
    if error:
        raise KafkaError(error, refused_topic(topic, error) or f"{topic}: {error.name}")


def refused_topic(topic: str, error: ErrorCode) -> str | None:
    """Return what Java's clients say of a topic that waiting does not help; None for other errors."""
    return REFUSED_TOPICS[error].format(topic) if error in REFUSED_TOPICS else None


def patient(properties: Mapping[str, str], timeout_ms: str) -> dict[str, str]:
    """Return what a client of our own is told: how it is protected, and how long it may try."""
    from ottla.client import security_of

    return security_of(properties) | {"default.api.timeout.ms": timeout_ms}
