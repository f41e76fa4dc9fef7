"""`ottla streams run` as a process: it tells its state, serves HTTP, and stops gracefully at a signal."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from ottla.base import TopicPartition
from ottla.client import BlockingClient
from ottla.wire import Record, build_batch
from tests.server import running_server
from tests.spark.conftest import create_topic

WAIT_SECONDS_MAX = 100

APPLICATION = """
from ottla.streams import StreamsBuilder

from shouting import louder

builder = StreamsBuilder()
text = builder.stream("text", key_serde="string", value_serde="string")
words = text.map_values(louder, value_serde="string").group_by(
    lambda key, word: word, key_serde="string", value_serde="string"
)
words.count(materialized="counts").to_stream().to("counts-out", key_serde="string", value_serde="long")
"""


@pytest.mark.spark
@pytest.mark.timeout(2 * WAIT_SECONDS_MAX)
def test_an_application_runs_is_looked_at_and_stops_at_a_signal(tmp_path: Path) -> None:
    (tmp_path / "words.py").write_text(APPLICATION)
    (tmp_path / "shouting.py").write_text("def louder(text):\n    return text.upper()\n")
    with running_server(tmp_path) as server, BlockingClient(server.bootstrap) as client:
        create_topic(client, "text", 2)
        create_topic(client, "counts-out", 2)
        for index, word in enumerate((b"a", b"b", b"a")):
            client.produce({TopicPartition("text", index % 2): bytes(build_batch([Record(0, 1, None, word, ())]))})
        command = [sys.executable, "-u", "-m", "ottla.cli.main", "streams", "run", str(tmp_path / "words.py")]
        command += ["--bootstrap-server", server.bootstrap, "--master", "local[2]", "--http", "0"]
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")},
        )
        try:
            seen = read_until(process, "REBALANCING → RUNNING")
            assert "starting Spark, which takes some seconds" in seen[0] and "Spark is there after" in "".join(seen)
            port = next(line for line in seen if "serving http" in line).rpartition(":")[2].partition("/")[0]
            read_until(process, "the first batch is done after")
            read_until(process, " 6 rows, ")  # three lines, and their words from the repartition topic
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/status", timeout=30) as answer:
                assert json.load(answer)["lag"] == 0
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/stores/counts/keys/A", timeout=30) as answer:
                assert json.load(answer)["value"] == 2
            process.send_signal(signal.SIGTERM)
            rest = process.communicate(timeout=WAIT_SECONDS_MAX)[0]
        finally:
            process.kill()
        assert process.returncode == 0 and "PENDING_SHUTDOWN → NOT_RUNNING" in rest, rest
        found = client.committed_offsets("words")
        committed = {each: offset.offset for each, offset in found.items() if each.topic == "text"}
        assert committed == {TopicPartition("text", 0): 2, TopicPartition("text", 1): 1}


FAILING = """
from ottla.streams import StreamsBuilder

builder = StreamsBuilder()
text = builder.stream("text", key_serde="string", value_serde="string")


def length(word):
    return {"a": 1}[word]


text.map_values(length, value_serde="long").to("counts-out", key_serde="string", value_serde="long")
"""


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(2 * WAIT_SECONDS_MAX)
@pytest.mark.parametrize(
    ("execution", "words"),
    [
        ("micro-batch", "failed with record text-0@1, in length at {}: KeyError: 'b'"),
        ("auto", "cannot process the record at text-0, offset 1, in length at {}: KeyError('b')"),
    ],
)
def test_a_function_that_raises_is_named_with_its_file_line_and_record(
    tmp_path: Path, execution: str, words: str
) -> None:
    (tmp_path / "failing.py").write_text(FAILING)
    with running_server(tmp_path) as server, BlockingClient(server.bootstrap) as client:
        create_topic(client, "text", 1)
        create_topic(client, "counts-out", 1)
        for word in (b"a", b"b"):
            client.produce({TopicPartition("text", 0): bytes(build_batch([Record(0, 1, None, word, ())]))})
        command = [sys.executable, "-u", "-m", "ottla.cli.main", "streams", "run", str(tmp_path / "failing.py")]
        done = subprocess.run(
            [*command, "--bootstrap-server", server.bootstrap, "--property", f"execution={execution}"],
            capture_output=True,
            text=True,
            env={**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")},
            timeout=WAIT_SECONDS_MAX,
            check=False,
        )
    line = FAILING.splitlines().index('    return {"a": 1}[word]') + 1
    assert done.returncode == 1
    assert words.format(f"{tmp_path / 'failing.py'}:{line}") in done.stderr


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(2 * WAIT_SECONDS_MAX)
def test_a_start_that_the_cluster_stands_against_ends_with_its_reason_and_its_session(tmp_path: Path) -> None:
    (tmp_path / "failing.py").write_text(FAILING)
    with running_server(tmp_path) as server:
        command = [sys.executable, "-u", "-m", "ottla.cli.main", "streams", "run", str(tmp_path / "failing.py")]
        process = subprocess.Popen(
            [*command, "--bootstrap-server", server.bootstrap, "--master", "local[2]"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")},
            start_new_session=True,
        )
        said = process.communicate(timeout=WAIT_SECONDS_MAX)[1]
    assert process.returncode == 1 and "Missing source topics: text" in said
    until = time.monotonic() + WAIT_SECONDS_MAX
    with pytest.raises(ProcessLookupError):  # the JVM ends when its parent has, in a moment
        while time.monotonic() < until:
            os.killpg(process.pid, 0)
            time.sleep(0.05)


def read_until(process: subprocess.Popen[str], words: str) -> list[str]:
    """Return the lines up to the one with these words."""
    assert process.stdout is not None
    lines: list[str] = []
    for line in process.stdout:
        lines.append(line)
        if words in line:
            return lines
    raise AssertionError("it ended without them:\n" + "".join(lines))
