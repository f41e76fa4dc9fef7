"""The report of a failed test says what stands in its broker, whatever has become of that."""

from __future__ import annotations

import pytest

from ottla.testing import Kafka
from ottla.testing.report import report_text
from tests.testing.project import run_project

PROJECT = """
    from confluent_kafka import Consumer, TopicPartition

    def test_orders(kafka, kafka_topic):
        kafka.produce(kafka_topic, "a", "b", "c")
        consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": "orders"})
        consumer.commit(offsets=[TopicPartition(kafka_topic, 0, 1)], asynchronous=False)
        consumer.close()
        assert kafka.lag("orders", kafka_topic) == 0

    def test_without_kafka():
        assert 1 == 2
"""


def test_a_failed_test_shows_ends_groups_and_lag(pytester: pytest.Pytester) -> None:
    result = run_project(pytester, PROJECT, "-n0")
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(
        [
            "*assert 2 == 0*",
            "*- Kafka at 127.0.0.1:* -*",
            "broker 127.0.0.1:*",
            "topics:",
            "  test_orders-1-0: offsets 0 to 3",
            "groups:",
            "  orders: Empty, 0 members, lag 2",
            "    test_orders-1-0: committed 1 of 3, lag 2",
        ]
    )
    assert result.stdout.str().count("- Kafka at ") == 1, "a test without Kafka says nothing of it"


def test_a_broker_that_is_gone_is_said_with_its_last_lines() -> None:
    text = report_text(Kafka("127.0.0.1:1", log_lines=lambda: ["one\n", "two\n"]))
    assert text.splitlines()[0] == "broker 127.0.0.1:1"
    assert text.splitlines()[1].startswith("it does not answer: ")
    assert text.splitlines()[2:] == ["it has logged:", "  one", "  two"]
