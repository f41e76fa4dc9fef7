"""Types and bounds say what Kafka says."""

from __future__ import annotations

import pytest

from ottla.base import ConfigError
from ottla.config import BROKER_KEYS, TOPIC_KEYS, ConfigType, Password, Value, value_text

SAID_BY_KAFKA = [
    (
        "cleanup.policy",
        "foo",
        "Invalid value foo for configuration cleanup.policy: String must be one of: compact, delete",
    ),
    (
        "cleanup.policy",
        "compact,none",
        "Invalid value none for configuration cleanup.policy: String must be one of: compact, delete",
    ),
    ("segment.bytes", "12", "Invalid value 12 for configuration segment.bytes: Value must be at least 1048576"),
    ("segment.bytes", "abc", "Invalid value abc for configuration segment.bytes: Not a number of type INT"),
    ("segment.bytes", "", "Invalid value  for configuration segment.bytes: Not a number of type INT"),
    (
        "segment.bytes",
        "99999999999",
        "Invalid value 99999999999 for configuration segment.bytes: Not a number of type INT",
    ),
    ("retention.ms", "-3", "Invalid value -3 for configuration retention.ms: Value must be at least -1"),
    (
        "compression.gzip.level",
        "0",
        "Invalid value 0 for configuration compression.gzip.level: Value must be between 1 and 9 or equal to -1",
    ),
    (
        "compression.type",
        "brotli",
        "Invalid value brotli for configuration compression.type: "
        "String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer",
    ),
    (
        "min.cleanable.dirty.ratio",
        "1.5",
        "Invalid value 1.5 for configuration min.cleanable.dirty.ratio: Value must be no more than 1",
    ),
    (
        "min.cleanable.dirty.ratio",
        "x",
        "Invalid value x for configuration min.cleanable.dirty.ratio: Not a number of type DOUBLE",
    ),
    (
        "preallocate",
        "yes",
        "Invalid value yes for configuration preallocate: Expected value to be either true or false",
    ),
    (
        "leader.replication.throttled.replicas",
        "*,1:2",
        "Invalid value [*, 1:2] for configuration leader.replication.throttled.replicas: "
        "leader.replication.throttled.replicas must be the literal '*' or a list of replicas in the following format: "
        "[partitionId]:[brokerId],[partitionId]:[brokerId],...",
    ),
    ("max.compaction.lag.ms", "0", "Invalid value 0 for configuration max.compaction.lag.ms: Value must be at least 1"),
    (
        "message.timestamp.type",
        "x",
        "Invalid value x for configuration message.timestamp.type: String must be one of: CreateTime, LogAppendTime",
    ),
    ("compression.lz4.level", "0", "Invalid value 0 for configuration compression.lz4.level: Value must be at least 1"),
]


@pytest.mark.parametrize(("name", "text", "said"), SAID_BY_KAFKA, ids=lambda each: each[:30])
def test_a_refused_topic_value_is_phrased_as_by_kafka(name: str, text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        TOPIC_KEYS[name].parse(text)
    assert str(caught.value) == said


LISTS_REFUSED_BY_KAFKA = [
    (
        "process.roles",
        "",
        "Configuration 'process.roles' must not be empty. Valid values include: [broker, controller]",
    ),
    ("listeners", "", "Configuration 'listeners' must not be empty. Valid values include: any non-empty value"),
    ("listeners", "PLAINTEXT://:1,,", "Configuration 'listeners' values must not be empty."),
    (
        "ssl.client.auth",
        "x",
        "Invalid value x for configuration ssl.client.auth: String must be one of: required, requested, none",
    ),
    (
        "group.consumer.migration.policy",
        "x",
        "Invalid value x for configuration group.consumer.migration.policy: "
        "String must be one of (case insensitive): DISABLED, DOWNGRADE, UPGRADE, BIDIRECTIONAL",
    ),
    (
        "remote.log.storage.manager.class.name",
        "",
        "Invalid value  for configuration remote.log.storage.manager.class.name: String must be non-empty",
    ),
]


@pytest.mark.parametrize(("name", "text", "said"), LISTS_REFUSED_BY_KAFKA, ids=lambda each: each[:30])
def test_a_refused_broker_value_is_phrased_as_by_kafka(name: str, text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        BROKER_KEYS[name].parse(text)
    assert str(caught.value) == said


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("cleanup.policy", " delete , compact ", ("delete", "compact")),
        ("cleanup.policy", "", ()),
        ("cleanup.policy", "delete,delete", ("delete",)),
        ("retention.ms", " +5 ", 5),
        ("retention.bytes", "-5", -5),
        ("compression.gzip.level", "-1", -1),
        ("preallocate", "TRUE", True),
        ("min.cleanable.dirty.ratio", ".5e0", 0.5),
        ("leader.replication.throttled.replicas", "*", ("*",)),
        ("leader.replication.throttled.replicas", "0:1,1:2", ("0:1", "1:2")),
    ],
)
def test_text_parses_to_the_keys_type(name: str, text: str, value: Value) -> None:
    assert TOPIC_KEYS[name].parse(text) == value


def test_every_default_parses_and_keeps_its_own_bound() -> None:
    required_elsewhere = {"controller.listener.names"}  # unset: the quorum is reached inside the process only
    for table in (BROKER_KEYS, TOPIC_KEYS):
        for key in table.values():
            if key.default is not None and key.name not in required_elsewhere:
                assert key.parse(key.default) == key.default_value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (0.5, "0.5"),
        (1e7, "1.0E7"),
        (1234567890.5, "1.2345678905E9"),
        (0.0001, "1.0E-4"),
        (-0.00025, "-2.5E-4"),
        (float("inf"), "Infinity"),
        (100.0, "100.0"),
    ],
)
def test_doubles_are_written_as_java_writes_them(value: float, text: str) -> None:
    assert value_text(value) == text


def test_a_password_is_never_shown() -> None:
    key = next(key for key in BROKER_KEYS.values() if key.type is ConfigType.PASSWORD)
    value = key.parse("s3cret")
    assert value == Password("s3cret")
    assert "s3cret" not in f"{value} {value!r}"
