"""Settings of a Streams application: Kafka's names, defaults and refusals."""

from __future__ import annotations

import pytest

from ottla.base import ConfigError
from ottla.streams import StreamsSettings

NEEDED = {"application.id": "app", "bootstrap.servers": "localhost:9092"}


def test_defaults_are_kafka_streams_own_except_that_batches_do_not_wait() -> None:
    settings = StreamsSettings.of(NEEDED)
    assert settings.commit_interval_ms == 100
    assert settings["statestore.cache.max.bytes"] == 10 << 20
    assert settings["windowstore.changelog.additional.retention.ms"] == 86_400_000
    assert settings.replication_factor == -1
    assert not settings.exactly_once and settings.cache
    assert settings.auto_offset_reset == "earliest"
    assert settings.deserialization.action == "fail"
    assert settings.notices == ()


def test_exactly_once_is_kafkas_word_and_the_shorter_one() -> None:
    assert StreamsSettings.of(NEEDED, processing_guarantee="exactly_once_v2").exactly_once
    given = StreamsSettings.of(NEEDED, processing_guarantee="exactly_once", commit_interval_ms=5000)
    assert given.exactly_once and given.commit_interval_ms == 5000


@pytest.mark.parametrize("missing", ["application.id", "bootstrap.servers"])
def test_a_missing_required_setting_is_named_in_kafkas_words(missing: str) -> None:
    given = {name: value for name, value in NEEDED.items() if name != missing}
    with pytest.raises(ConfigError, match=f'Missing required configuration "{missing}" which has no default value'):
        StreamsSettings.of(given)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("commit.intervall.ms", "1", "did you mean commit.interval.ms"),
        ("commit.interval.ms", "soon", "Not a number of type LONG"),
        ("commit.interval.ms", "-1", "at least 0"),
        ("processing.guarantee", "at_most_once", "at_least_once, exactly_once_v2"),
        ("application.id", "my app", "letters, digits"),
        ("security.protocol", "TLS", "must be one of"),
        ("deserialization.exception.handler", "com.acme.Mine", "LogAndContinue"),
        ("consumer.auto.offset.reset", "newest", "must be latest, earliest"),
        ("consumer.nothing", "x", "Unknown setting consumer.nothing"),
        ("default.key.serde", "com.acme.Serde", "Kafka's class"),
        ("stream.time", "wall", "auto, partition"),
    ],
)
def test_what_is_unknown_or_wrong_is_refused_by_name(name: str, value: str, words: str) -> None:
    with pytest.raises(ConfigError) as error:
        StreamsSettings.of({**NEEDED, name: value})
    assert name in str(error.value) and words in str(error.value)


def test_what_has_no_meaning_on_spark_is_accepted_with_a_notice() -> None:
    settings = StreamsSettings.of(NEEDED, num_stream_threads=4, **{"consumer.max.poll.records": 10})
    assert settings["num.stream.threads"] == 4
    assert [notice.split()[0] for notice in settings.notices] == ["num.stream.threads", "consumer.max.poll.records"]


def test_a_properties_file_of_kafka_streams_is_read_as_it_is() -> None:
    text = """
    application.id = wordcount
    bootstrap.servers = one:9092, two:9092
    cache.max.bytes.buffering=0
    auto.offset.reset=latest
    default.deserialization.exception.handler=org.apache.kafka.streams.errors.LogAndContinueExceptionHandler
    errors.dead.letter.queue.topic.name=dead
    topic.segment.bytes=1048576
    spark.sql.shuffle.partitions=4
    """
    settings = StreamsSettings.from_properties(text, {"state.dir": "checkpoints"})
    assert settings.bootstrap_servers == "one:9092,two:9092"
    assert not settings.cache
    assert settings.auto_offset_reset == "latest"
    assert (settings.deserialization.action, settings.deserialization.dead_letter_topic) == ("continue", "dead")
    assert settings.topic_config() == {"segment.bytes": "1048576"}
    assert settings.spark == {"spark.sql.shuffle.partitions": "4"}
    assert settings.state_dir == "checkpoints"


def test_an_older_name_stands_for_the_newer_one() -> None:
    settings = StreamsSettings.of(NEEDED, cache_max_bytes_buffering=0)
    assert settings["statestore.cache.max.bytes"] == settings["cache.max.bytes.buffering"] == 0


def test_a_handler_of_ones_own_decides_record_by_record() -> None:
    settings = StreamsSettings.of(NEEDED, processing_exception_handler=lambda record, error: "continue")
    assert settings.processing.decide is not None and settings.processing.decide(None, None) == "continue"


def test_serdes_are_named_in_kafkas_way_or_in_short() -> None:
    package = "org.apache.kafka.common.serialization.Serdes"
    settings = StreamsSettings.of(NEEDED, default_key_serde=f"{package}$StringSerde", default_value_serde="Integer")
    assert (settings["default.key.serde"], settings["default.value.serde"]) == ("string", "int")
