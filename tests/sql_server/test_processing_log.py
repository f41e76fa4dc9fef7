"""Lines of the processing log: how many of them there are, and where."""

from __future__ import annotations

import logging
import pickle

import pytest

from ottla.sql_server import processing_log
from ottla.sql_server.processing_log import ProcessingLog
from ottla.sql_server.settings import server_settings


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


def test_a_topic_that_is_asked_for_is_said_to_be_absent() -> None:
    asked = {"bootstrap.servers": "a:1", "ksql.logging.processing.topic.auto.create": "true"}
    (said,) = server_settings(asked, {}).warnings
    assert said.startswith("ksql.logging.processing.topic.auto.create has no effect")
    assert not server_settings({**asked, "ksql.logging.processing.topic.auto.create": "false"}, {}).warnings
