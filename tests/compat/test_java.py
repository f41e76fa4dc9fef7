"""Kafka's own Java tools use the broker as it is."""

from __future__ import annotations

import pytest

from tests import peer

pytestmark = [pytest.mark.compat, pytest.mark.peer]


def run(name: str, *args: str, stdin: str | None = None) -> str:
    result = peer.tool(name, *args, stdin=stdin)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.mark.slow  # each tool is a JVM; the next test asks the same broker with two of them in every run
def test_topics_are_created_and_described(bootstrap: str, topic: str) -> None:
    at = ("--bootstrap-server", bootstrap)
    run("topics", *at, "--create", "--topic", topic, "--partitions", "2", "--config", "retention.ms=5000000")
    text = run("topics", *at, "--describe", "--topic", topic)
    assert "PartitionCount: 2" in text and "retention.ms=5000000" in text and "Isr:" in text
    assert topic in run("topics", *at, "--list").split()


def test_the_console_producers_lines_reach_a_java_consumer_by_offset(bootstrap: str, topic: str) -> None:
    at = ("--bootstrap-server", bootstrap)
    run("topics", *at, "--create", "--topic", topic)
    run("console-producer", *at, "--topic", topic, "--compression-codec", "zstd", stdin="one\ntwo\nthree\n")
    read = ("--partition", "0", "--offset", "earliest", "--max-messages", "3", "--timeout-ms", "20000")
    assert run("console-consumer", *at, "--topic", topic, *read).split() == ["one", "two", "three"]


@pytest.mark.slow  # each tool is a JVM; what it sends is sent by a Java client above in every run
def test_offsets_and_log_dirs_and_versions_are_answered(bootstrap: str, topic: str) -> None:
    at = ("--bootstrap-server", bootstrap)
    run("topics", *at, "--create", "--topic", topic)
    run("console-producer", *at, "--topic", topic, stdin="a\nb\n")
    assert run("get-offsets", *at, "--topic", topic).strip() == f"{topic}:0:2"
    assert f'"{topic}-0"' in run("log-dirs", *at, "--describe", "--topic-list", topic)
    assert "Fetch(1): 4 to 18 [usable: 18]" in run("api-versions", *at)


@pytest.mark.slow  # each tool is a JVM; what it sends is sent by a Java client above in every run
def test_producer_perf_writes_what_it_says(bootstrap: str, topic: str) -> None:
    run("topics", "--bootstrap-server", bootstrap, "--create", "--topic", topic)
    options = ("--num-records", "20000", "--record-size", "100", "--throughput", "-1")
    text = run("producer-perf", "--topic", topic, *options, "--producer-props", f"bootstrap.servers={bootstrap}")
    assert "20000 records sent" in text
    assert run("get-offsets", "--bootstrap-server", bootstrap, "--topic", topic).strip() == f"{topic}:0:20000"
