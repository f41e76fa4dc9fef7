"""Lines of the processing log: how many of them there are, and where."""

from __future__ import annotations

import logging
import pickle

import pytest

from ottla.base import ConfigError
from ottla.sql_server import processing_log
from ottla.sql_server.processing_log import LogTopic, ProcessingLog, log_of
from ottla.sql_server.settings import server_settings
from tests.server import Server
from tests.sql_server.running import running_sql
from tests.waiting import until


def test_lines_of_a_query_are_few_and_the_others_are_counted(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(processing_log.time, "monotonic", lambda: now[0])
    told = ProcessingLog("CSAS_A_1")
    with caplog.at_level(logging.ERROR):
        for _ in range(25):
            told("a record was left out: x\n" + "y" * 1000)
        now[0] = 61.0
        told("z")
    words = [each.getMessage() for each in caplog.records]
    assert len(words) == 12
    assert words[0].startswith("processing.CSAS_A_1: a record was left out: x y")
    assert max(map(len, words)) < 600
    assert words[10:] == ["processing.CSAS_A_1: 15 lines were left out before this one", "processing.CSAS_A_1: z"]


def test_it_travels_with_its_query() -> None:
    told = ProcessingLog("CSAS_A_1")
    told("x")
    assert pickle.loads(pickle.dumps(told)) == told
    assert hash(told) == hash(ProcessingLog("CSAS_A_1"))


ASKED = {"bootstrap.servers": "a:1", "ksql.logging.processing.topic.auto.create": "true"}


def test_lines_go_to_a_topic_that_is_made_or_named() -> None:
    assert server_settings(ASKED, {}).processing.topic == "default_ksql_processing_log"
    named = {"bootstrap.servers": "a:1", "ksql.logging.processing.topic.name": "mine"}
    assert log_of(server_settings(named, {}), ["a"]) == LogTopic("mine", "a:1")
    assert log_of(server_settings({"bootstrap.servers": "a:1"}, {}), ["a"]) is None


def test_a_query_over_the_log_adds_nothing_to_it() -> None:
    assert log_of(server_settings(ASKED, {}), ["a", "default_ksql_processing_log"]) is None


def test_a_stream_without_a_topic_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"topic\.auto\.create"):
        server_settings({"bootstrap.servers": "a:1", "ksql.logging.processing.stream.auto.create": "true"}, {})


def test_what_queries_lose_can_be_asked_of_a_stream(broker: Server, name: str) -> None:
    made = "ksql.logging.processing"
    overrides = (
        "ksql.service.id=logs_",
        f"{made}.topic.auto.create=true",
        f"{made}.stream.auto.create=true",
        f"{made}.rows.include=true",
    )
    with running_sql(broker.bootstrap, overrides=overrides) as sql:
        sql.ksql(
            f"CREATE STREAM {name}_raw (v STRING) WITH (kafka_topic='{name}', value_format='KAFKA', partitions=1);"
            f"CREATE STREAM {name} (v INT) WITH (kafka_topic='{name}', value_format='JSON');"
        )
        (query,) = sql.ksql(f"CREATE STREAM {name}_x AS SELECT 10 / v AS w FROM {name};")
        sql.ksql(f"INSERT INTO {name}_raw VALUES ('no json'); INSERT INTO {name} VALUES (0);")
        until(lambda: "KSQL_PROCESSING_LOG" in str(sql.ksql("LIST STREAMS;")), "the log's stream")
        found: list[list[object]] = []

        def both() -> bool:
            found[:] = sql.rows(
                "SELECT logger, message->type, message->deserializationError->target, "
                "message->deserializationError->recordB64, message->recordProcessingError->errorMessage "
                "FROM KSQL_PROCESSING_LOG;"
            )
            return len(found) >= 2

        until(both, lambda: f"two records: {found}; {sql.said()}")
    logger = f"processing.{query['commandStatus']['queryId']}"
    assert found[0] == [f"{logger}.KsqlTopic.Source.deserializer", 0, "value", "bm8ganNvbg==", None]
    assert (found[1][:2], "by zero" in str(found[1][4])) == ([logger, 1], True), found


def test_a_cluster_that_is_away_costs_lines_and_nothing_else() -> None:
    told = ProcessingLog("CSAS_A_1", LogTopic("t", "127.0.0.1:1"))
    for _ in range(3000):
        told("x")
