"""The word count as a command: what it needs, and that it counts until it is told to stop."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.cli.commands import word_count
from tests.cli.conftest import Run
from tests.server import running_server

DEMO = "org.apache.kafka.streams.examples.wordcount.WordCountDemo"
LONG = "org.apache.kafka.common.serialization.LongDeserializer"


@pytest.fixture
def at(tmp_path: Path) -> Iterator[str]:
    with running_server(tmp_path) as server:
        yield f"--bootstrap-server {server.bootstrap}"


def test_a_missing_topic_is_named_with_the_command_that_makes_it(run: Run, at: str) -> None:
    found = run(f"run-class {DEMO} {at}")
    assert (found.code, found.out) == (1, "")
    assert "topic streams-plaintext-input is not there; make it first: kafka-topics.sh --create" in found.err


def test_a_client_file_says_how_topics_are_looked_for_and_words_counted(
    run: Run, at: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "client").write_text("security.protocol=SSL\nssl.endpoint.identification.algorithm=\n")
    found = run(f"word-count {at} --command-config {tmp_path / 'client'}")
    assert found.code == 1 and "make it first" not in found.err, "the broker speaks no TLS, and is not asked without"
    settings: dict[str, str] = {}
    monkeypatch.setattr(word_count, "check_topics", lambda *_: None)
    monkeypatch.setattr(word_count, "count", lambda _, given: settings.update(given) or 0)
    assert run(f"word-count {at} --command-config {tmp_path / 'client'}").code == 0
    assert settings["security.protocol"] == "SSL"


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(400)
def test_words_are_counted_until_a_signal_comes(run: Run, at: str, tmp_path: Path) -> None:
    for topic in ("streams-plaintext-input", "streams-wordcount-output"):
        assert run(f"topics {at} --create --topic {topic}").code == 0
    assert (
        run(f"console-producer {at} --topic streams-plaintext-input", stdin="all streams\nlead to streams\n").code == 0
    )
    command = [sys.executable, "-m", "ottla.cli.main", "run-class", DEMO, *at.split()]
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
    counting = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    try:
        read = run(
            f"console-consumer {at} --topic streams-wordcount-output --from-beginning --max-messages 4 "
            f"--timeout-ms 300000 --formatter-property print.key=true --value-deserializer {LONG}"
        )
    finally:
        counting.send_signal(signal.SIGINT)
        code = counting.wait(60)
    assert sorted(read.out.splitlines()) == ["all\t1", "lead\t1", "streams\t2", "to\t1"]
    assert code == 0
