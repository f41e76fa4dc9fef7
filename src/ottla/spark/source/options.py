"""The options of `format("ottla")`: those of Spark's Kafka connector, read into values.

Names are case-insensitive, as all of Spark's. A wrong option raises ConfigError, which names it and what is allowed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ottla.base import ConfigError, TopicPartition
from ottla.client import Address, Isolation, parse_bootstrap
from ottla.java import PatternError, compile_java
from ottla.wire import Codec

__all__ = ["Connecting", "OffsetChoice", "ReadOptions", "Subscription", "WriteOptions", "read_options", "write_options"]

EARLIEST, LATEST = -2, -1
"""In an offsets JSON: the partition's beginning and end."""
OffsetsByPartition = Mapping[TopicPartition, int]

CONNECT_KEYS = {"kafka.bootstrap.servers", "bootstrap.servers", "kafka.client.id", "kafka.request.timeout.ms"}
SUBSCRIBE_KEYS = {"assign", "subscribe", "subscribepattern"}
READ_KEYS = {
    *CONNECT_KEYS,
    *SUBSCRIBE_KEYS,
    *("startingoffsets", "startingtimestamp", "startingoffsetsbytimestamp", "startingoffsetsbytimestampstrategy"),
    *("endingoffsets", "endingtimestamp", "endingoffsetsbytimestamp"),
    *("maxoffsetspertrigger", "minpartitions", "failondataloss", "includeheaders"),
    *("kafka.isolation.level", "kafka.max.partition.fetch.bytes"),
    *("offsetmultiple", "offsetmultipledelayms"),
    "ottla.steps",  # our own: what a plan does where it fetches (`pushed`)
    "ottla.reset",  # our own: `auto.offset.reset`, where an offset is not in the log any more
    "ottla.ids",  # our own: ids of the topics that the starting offsets are of, by name
    "ottla.gone",  # our own: ids of topics that are gone with what was planned of them; of others it is an error
    "ottla.invalidtimestamp",  # our own: what becomes of records with a negative time
}
WRITE_KEYS = {
    *CONNECT_KEYS,
    *("topic", "includeheaders"),
    *("kafka.acks", "kafka.compression.type", "kafka.batch.size", "kafka.enable.idempotence"),
}
SPARK_KEYS = {"path", "checkpointlocation", "queryname", "outputmode", "triggerinterval"}
"""Options that Spark itself puts among a source's or sink's."""
KAFKA = "kafka."
SECURITY_KEYS = (f"{KAFKA}security.protocol", f"{KAFKA}sasl.", f"{KAFKA}ssl.")
FETCH_BYTES_DEFAULT = (4 << 20) - (64 << 10)
"""So much that a fetch's own cost is lost in it, and, answer included, no more than a connection keeps room for."""
BATCH_BYTES_DEFAULT = 512 << 10
REQUEST_TIMEOUT_MS_DEFAULT = 30_000


@dataclass(frozen=True)
class Connecting:
    """How the cluster is reached."""

    bootstrap: tuple[Address, ...]
    client_id: str = "ottla-spark"
    request_timeout_ms: int = REQUEST_TIMEOUT_MS_DEFAULT
    security: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """`security.protocol`, `ssl.…` and `sasl.…`, in the order of their names; values may be `${env:…}` and the like."""


@dataclass(frozen=True)
class Subscription:
    """Which partitions are read: those assigned, or all of some topics by name or by pattern."""

    assigned: tuple[TopicPartition, ...] = ()
    topics: tuple[str, ...] = ()
    pattern: str = ""


@dataclass(frozen=True)
class OffsetChoice:
    """Where reading begins or ends: at one end of the log, at offsets, or at times, of all partitions or one by one."""

    kind: Literal["earliest", "latest", "offsets", "timestamp", "timestamps"]
    by_partition: OffsetsByPartition = field(default_factory=dict)
    timestamp_ms: int = 0
    option: str = ""
    latest_when_later: bool = False
    """Whether a time after the last record means the end, or an error."""


@dataclass(frozen=True)
class ReadOptions:
    """The options of a source."""

    connecting: Connecting
    subscription: Subscription
    starting: OffsetChoice
    ending: OffsetChoice
    max_offsets_per_trigger: int | None = None
    partitions_min: int | None = None
    fail_on_data_loss: bool = True
    include_headers: bool = False
    isolation: Isolation = Isolation.READ_UNCOMMITTED
    fetch_bytes: int = FETCH_BYTES_DEFAULT
    multiple: int | None = None
    """A partition joins a micro-batch with whole multiples of so many offsets only, until the delay is over."""
    multiple_delay_ms: int | None = None
    """How long a partition's records wait for others to come; None for ever."""
    invalid_time: str = ""
    """What becomes of records with a negative time: `fail`, `skip`, `tell` or empty to take them as they are."""
    reset: str = ""
    """Where reading goes on when an offset is not in the log: earliest, latest, none, by_duration:…; empty: it fails."""
    starting_ids: Mapping[str, str] = field(default_factory=dict)
    """Ids of the topics that starting offsets are of, by name; empty where nobody says."""
    gone: frozenset[str] | None = None
    """Ids of topics whose records may be gone when they are read; None: all may, which only is said."""
    steps: str = field(default="", repr=False)
    """What is done with the records where they are fetched (`pushed`); the schema is that of the results."""


@dataclass(frozen=True)
class WriteOptions:
    """The options of a sink."""

    connecting: Connecting
    topic: str | None = None
    acks: int = -1
    codec: Codec = Codec.NONE
    batch_bytes: int = BATCH_BYTES_DEFAULT
    idempotent: bool = True


def read_options(options: Mapping[str, str], *, streaming: bool) -> ReadOptions:
    """Read a source's options; the starting point defaults to the end when streaming, else to the beginning."""
    given = {key.lower(): str(value) for key, value in options.items()}
    _refuse_unknown(given, READ_KEYS)
    starting = _choice(given, "starting", default="latest" if streaming else "earliest")
    ending = _choice(given, "ending", default="latest")
    if not streaming:
        _refuse_batch_ends(starting, ending)
    else:
        for name in ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"):
            if name.lower() in given:
                raise ConfigError(name, given[name.lower()], "a streaming query has no end; use it in batch reading")
    return ReadOptions(
        _connecting(given),
        _subscription(given),
        starting,
        ending,
        _positive(given, "maxOffsetsPerTrigger"),
        _positive(given, "minPartitions"),
        _boolean(given, "failOnDataLoss", True),
        _boolean(given, "includeHeaders", False),
        _isolation(given),
        _positive(given, "kafka.max.partition.fetch.bytes") or FETCH_BYTES_DEFAULT,
        _positive(given, "offsetMultiple"),
        _positive(given, "offsetMultipleDelayMs"),
        given.get("ottla.invalidtimestamp", ""),
        given.get("ottla.reset", ""),
        json.loads(given.get("ottla.ids", "{}")),
        frozenset(given["ottla.gone"].split(",")) if "ottla.gone" in given else None,
        given.get("ottla.steps", "") if streaming else "",
    )


def write_options(options: Mapping[str, str]) -> WriteOptions:
    """Read a sink's options."""
    given = {key.lower(): str(value) for key, value in options.items()}
    _refuse_unknown(given, WRITE_KEYS)
    acks = given.get("kafka.acks", "all")
    if acks not in ("all", "-1", "0", "1"):
        raise ConfigError("kafka.acks", acks, "all, -1, 0 or 1 is expected")
    codec = given.get("kafka.compression.type", "none")
    if codec.upper() not in Codec.__members__:
        raise ConfigError("kafka.compression.type", codec, "none, gzip, snappy, lz4 or zstd is expected")
    idempotent = _boolean(given, "kafka.enable.idempotence", acks in ("all", "-1"))
    if idempotent and acks not in ("all", "-1"):
        raise ConfigError("kafka.acks", acks, "must be all where kafka.enable.idempotence is true")
    return WriteOptions(
        _connecting(given),
        given.get("topic"),
        -1 if acks == "all" else int(acks),
        Codec[codec.upper()],
        _positive(given, "kafka.batch.size") or BATCH_BYTES_DEFAULT,
        idempotent,
    )


def _refuse_unknown(given: Mapping[str, str], known: set[str]) -> None:
    for key, value in given.items():
        if key in known or key in SPARK_KEYS or key.startswith(SECURITY_KEYS):
            continue
        raise ConfigError(key, value, f"no such option; there are {', '.join(sorted(known))}")


def _connecting(given: Mapping[str, str]) -> Connecting:
    servers = given.get("kafka.bootstrap.servers") or given.get("bootstrap.servers")
    if not servers:
        raise ConfigError("kafka.bootstrap.servers", servers, "host:port of at least one broker is needed")
    return Connecting(
        parse_bootstrap(servers),
        given.get("kafka.client.id", "ottla-spark"),
        _positive(given, "kafka.request.timeout.ms") or REQUEST_TIMEOUT_MS_DEFAULT,
        tuple(
            sorted((key.removeprefix(KAFKA), value) for key, value in given.items() if key.startswith(SECURITY_KEYS))
        ),
    )


def _subscription(given: Mapping[str, str]) -> Subscription:
    chosen = [key for key in ("assign", "subscribe", "subscribepattern") if key in given]
    if len(chosen) != 1:
        text = ", ".join(chosen) or None
        raise ConfigError("subscribe", text, "exactly one of subscribe, subscribePattern and assign is needed")
    value = given[chosen[0]]
    if chosen == ["subscribe"]:
        topics = tuple(dict.fromkeys(topic.strip() for topic in value.split(",") if topic.strip()))
        if not topics:
            raise ConfigError("subscribe", value, "a comma-separated list of topics is expected")
        return Subscription(topics=topics)
    if chosen == ["assign"]:
        return Subscription(assigned=_assigned(value))
    try:
        compile_java(value)
    except PatternError as error:
        raise ConfigError("subscribePattern", value, f"a regular expression is expected ({error})") from error
    if not value.strip():
        raise ConfigError("subscribePattern", value, "a regular expression is expected")
    return Subscription(pattern=value)


def _assigned(text: str) -> tuple[TopicPartition, ...]:
    expected = 'JSON such as {"topic":[0,1]} is expected'
    found = _json_object("assign", text, expected)
    pairs: list[TopicPartition] = []
    for topic, partitions in found.items():
        if not isinstance(partitions, list) or not all(_is_count(each) for each in partitions):
            raise ConfigError("assign", text, expected)
        pairs += [TopicPartition(topic, partition) for partition in partitions]
    if not pairs:
        raise ConfigError("assign", text, expected)
    return tuple(dict.fromkeys(pairs))


def _choice(given: Mapping[str, str], side: Literal["starting", "ending"], default: str) -> OffsetChoice:
    """Read one side; a time for all comes before times one by one, and those before offsets."""
    strategy = given.get("startingoffsetsbytimestampstrategy", "error").lower()
    if strategy not in ("error", "latest"):
        raise ConfigError("startingOffsetsByTimestampStrategy", strategy, "error or latest is expected")
    latest = side == "ending" or strategy == "latest"
    name = f"{side}Timestamp"
    if (text := given.get(name.lower())) is not None:
        if not text.strip().isdecimal():
            raise ConfigError(name, text, "milliseconds since 1970 are expected")
        return OffsetChoice("timestamp", {}, int(text), name, latest)
    name = f"{side}OffsetsByTimestamp"
    if (text := given.get(name.lower())) is not None:
        return OffsetChoice("timestamps", _by_partition(name, text, lowest=0), 0, name, latest)
    name = f"{side}Offsets"
    text = given.get(name.lower(), default).strip()
    if text.lower() == "earliest":
        return OffsetChoice("earliest", option=name)
    if text.lower() == "latest":
        return OffsetChoice("latest", option=name)
    return OffsetChoice("offsets", _by_partition(name, text, lowest=EARLIEST), 0, name)


def _refuse_batch_ends(starting: OffsetChoice, ending: OffsetChoice) -> None:
    """Refuse what a batch cannot mean, as Spark's Kafka connector does."""
    if starting.kind == "latest":
        raise ConfigError(starting.option, "latest", "a batch cannot begin at the end")
    if starting.kind == "offsets" and LATEST in starting.by_partition.values():
        raise ConfigError(starting.option, LATEST, "a batch cannot begin at the end (-1)")
    if ending.kind == "earliest":
        raise ConfigError(ending.option, "earliest", "a batch cannot end at the beginning")
    if ending.kind == "offsets" and EARLIEST in ending.by_partition.values():
        raise ConfigError(ending.option, EARLIEST, "a batch cannot end at the beginning (-2)")


def _by_partition(name: str, text: str, *, lowest: int) -> dict[TopicPartition, int]:
    expected = 'earliest, latest or JSON such as {"topic":{"0":23,"1":-2}} is expected'
    if lowest == 0:
        expected = 'JSON such as {"topic":{"0":1700000000000}} is expected'
    pairs: dict[TopicPartition, int] = {}
    for topic, offsets in _json_object(name, text, expected).items():
        if not isinstance(offsets, dict):
            raise ConfigError(name, text, expected)
        for partition, offset in offsets.items():
            if not partition.isdecimal() or not isinstance(offset, int) or isinstance(offset, bool) or offset < lowest:
                raise ConfigError(name, text, expected)
            pairs[TopicPartition(topic, int(partition))] = offset
    return pairs


def _json_object(name: str, text: str, expected: str) -> dict[str, object]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(name, text, expected) from error
    if not isinstance(found, dict):
        raise ConfigError(name, text, expected)
    return found


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _positive(given: Mapping[str, str], name: str) -> int | None:
    text = given.get(name.lower())
    if text is None:
        return None
    if not text.strip().isdecimal() or int(text) < 1:
        raise ConfigError(name, text, "a number from 1 on is expected")
    return int(text)


def _boolean(given: Mapping[str, str], name: str, default: bool) -> bool:
    text = given.get(name.lower(), str(default)).strip().lower()
    if text not in ("true", "false"):
        raise ConfigError(name, text, "true or false is expected")
    return text == "true"


def _isolation(given: Mapping[str, str]) -> Isolation:
    text = given.get("kafka.isolation.level", "read_uncommitted")
    if text.upper() not in Isolation.__members__:
        raise ConfigError("kafka.isolation.level", text, "read_uncommitted or read_committed is expected")
    return Isolation[text.upper()]
