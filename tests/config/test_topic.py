"""A topic's overrides over the broker's values."""

from __future__ import annotations

import pytest

from ottla.base import ConfigError
from ottla.config import BrokerConfig, ConfigSource, TopicConfig, validate_topic_configs


@pytest.mark.parametrize(
    ("text", "retention_ms", "segment_ms"),
    [
        ("", 604_800_000, 604_800_000),
        ("log.retention.hours=1\nlog.roll.hours=2", 3_600_000, 7_200_000),
        ("log.retention.hours=1\nlog.retention.minutes=3", 180_000, 604_800_000),
        ("log.retention.hours=1\nlog.retention.minutes=3\nlog.retention.ms=9\nlog.roll.ms=8", 9, 8),
        ("log.retention.hours=-1", -1, 604_800_000),
        ("log.retention.ms=-1", -1, 604_800_000),
    ],
)
def test_the_finest_unit_wins(text: str, retention_ms: int, segment_ms: int) -> None:
    settings = TopicConfig({}, BrokerConfig.load(text)).settings
    assert (settings.retention_ms, settings.segment_ms) == (retention_ms, segment_ms)


def test_a_topics_own_value_wins_over_the_brokers_live_and_static_ones() -> None:
    broker = BrokerConfig.load("log.segment.bytes=3000000").with_dynamic(
        default={"log.segment.bytes": "4000000"}, own={"log.segment.bytes": "5000000"}
    )
    assert TopicConfig({}, broker).settings.segment_bytes == 5_000_000
    topic = TopicConfig({"segment.bytes": "6000000"}, broker)
    assert topic.settings.segment_bytes == 6_000_000
    (entry,) = topic.entries(["segment.bytes"])
    assert [(each.name, each.value, each.source) for each in entry.synonyms] == [
        ("segment.bytes", "6000000", ConfigSource.DYNAMIC_TOPIC_CONFIG),
        ("log.segment.bytes", "5000000", ConfigSource.DYNAMIC_BROKER_CONFIG),
        ("log.segment.bytes", "4000000", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
        ("log.segment.bytes", "3000000", ConfigSource.STATIC_BROKER_CONFIG),
        ("log.segment.bytes", "1073741824", ConfigSource.DEFAULT_CONFIG),
    ]


def test_a_fallback_in_another_unit_is_no_synonym_of_its_own() -> None:
    """Kafka 4.3.0 reports retention.ms from log.retention.hours with an empty chain; so do we."""
    (entry,) = TopicConfig({}, BrokerConfig.load("log.retention.hours=1")).entries(["retention.ms"])
    assert (entry.value, entry.source, entry.synonyms) == ("3600000", ConfigSource.DEFAULT_CONFIG, ())


def test_internal_keys_are_reported_only_where_set() -> None:
    broker = BrokerConfig.load()
    assert "internal.segment.bytes" not in {entry.name for entry in TopicConfig({}, broker).entries()}
    topic = TopicConfig({"internal.segment.bytes": "1000"}, broker)
    assert topic.settings.internal_segment_bytes == 1000
    assert "internal.segment.bytes" in {entry.name for entry in topic.entries()}


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ({"foo": "bar"}, "Unknown topic config name: foo"),
        (
            {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"},
            "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (5)",
        ),
        (
            {"remote.storage.enable": "true"},
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage.",
        ),
    ],
)
def test_a_refused_topic_configuration_is_phrased_as_by_kafka(overrides: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        validate_topic_configs(overrides, BrokerConfig.load())
    assert str(caught.value) == said


def test_what_kafka_accepts_is_accepted() -> None:
    validate_topic_configs({"cleanup.policy": "compact,delete", "retention.bytes": "-5"}, BrokerConfig.load())
