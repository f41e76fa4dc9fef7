"""The Connect lines and files of a guide to Kafka, word for word, on a real worker with Spark: files, two connectors, S3.

Ports, and the folder that offsets are kept in, are this test's own; everything else stands as the guide has it.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.connectors.s3_server import CONFLUENT_SINK_FILE, running_s3
from tests.ports import free_port
from tests.server import running_server
from tests.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

WORKER = "connect-standalone.sh $KAFKA_HOME/config/connect-standalone.properties"
SOURCE = f"{WORKER} $KAFKA_HOME/config/connect-file-source.properties"
SINK = f"{WORKER} $KAFKA_HOME/config/connect-file-sink.properties"
BOTH = f"{SOURCE} $KAFKA_HOME/config/connect-file-sink.properties"
S3 = f"{WORKER} ./s3-sink.properties"
CREATE = """\
curl \\
localhost:8083/connectors \\
-H "Content-Type: application/json" \\
-X POST \\
--data-binary @- << EOF
{
"name": "file-source-connector",
"config": {
"connector.class": "FileStreamSource",
"tasks.max": "1",
"file": "test.txt",
"topic": "connect-test"
}
}
EOF
"""
SECONDS_MAX = 300.0
LINES = [f"line {number}" for number in range(9)]


class Guide:
    """A shell in which the guide's lines are typed."""

    def __init__(self, folder: Path, bootstrap: str) -> None:
        self.port, self.folder = free_port(), folder / "elsewhere"
        self.home = folder / "kafka"
        self.folder.mkdir()
        copy = [sys.executable, "-m", "ottla.cli.main", "home", "--copy", str(self.home)]
        subprocess.run(copy, check=True, capture_output=True)
        path = self.home / "config" / "connect-standalone.properties"
        text = path.read_text().replace("localhost:9092", bootstrap).replace("/tmp/", f"{folder}/")
        path.write_text(f"{text}\nrest.port={self.port}\n")
        kept = ("JAVA_HOME", "PYTHONPATH", "OTTLA_PURE")
        self.environment = {
            "KAFKA_HOME": str(self.home),
            "PATH": f"{self.home / 'bin'}:/usr/bin:/bin",
            "HOME": str(folder),
            **{name: os.environ[name] for name in kept if name in os.environ},
        }

    def begin(self, line: str) -> subprocess.Popen[str]:
        """Begin a line that goes on."""
        return subprocess.Popen(
            ["bash", "-c", f"exec {line}"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self.folder,
            env=self.environment,
        )

    @contextmanager
    def running(self, line: str) -> Iterator[subprocess.Popen[str]]:
        """Run a worker until the block ends; then Ctrl-C stops it in order."""
        process = self.begin(line)
        printed: list[str] = []
        try:
            assert process.stdout is not None
            for each in process.stdout:
                printed.append(each)
                if each.startswith("ready "):
                    break
            else:
                raise AssertionError("".join(printed))
            yield process
            process.send_signal(signal.SIGINT)
            out, _ = process.communicate(timeout=SECONDS_MAX)
            assert process.returncode == 130, "".join(printed) + out
        finally:
            process.kill()
            process.communicate()

    def curl(self, line: str) -> Any:
        """Run a curl line and return what it prints, read as JSON."""
        typed = line.replace(":8083", f":{self.port}").replace("curl", "curl --silent", 1)
        found = subprocess.run(["bash", "-c", typed], capture_output=True, text=True, timeout=60, check=True)
        return json.loads(found.stdout) if found.stdout else None


@pytest.fixture
def guide(tmp_path: Path) -> Iterator[Guide]:
    with running_server(tmp_path) as server:
        yield Guide(tmp_path, server.bootstrap)


def lines_of(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def test_files_go_through_a_topic_and_the_rest_interface_shows_them(guide: Guide) -> None:
    (guide.folder / "test.txt").write_text("".join(f"{each}\n" for each in LINES))
    with guide.running(SOURCE):
        refused = guide.begin(SINK)
        out, _ = refused.communicate(timeout=SECONDS_MAX)
        assert refused.returncode == 2, out
        assert re.search(rf"cannot listen on .*:{guide.port}.*listeners=\S+ or rest\.port=\d+", out), out
        assert guide.curl("curl localhost:8083")["version"] == "4.3.0"
        assert guide.curl("curl localhost:8083/connectors") == ["local-file-source"]
        shown = guide.curl("curl localhost:8083/connectors/local-file-source")
        assert shown["config"]["file"] == "test.txt" and shown["type"] == "source"
        tasks = guide.curl("curl localhost:8083/connectors/local-file-source/tasks/")
        assert tasks[0]["id"] == {"connector": "local-file-source", "task": 0}
        plugins = {each["class"] for each in guide.curl("curl localhost:8083/connector-plugins")}
        assert "org.apache.kafka.connect.file.FileStreamSourceConnector" in plugins
        topics = "curl localhost:8083/connectors/local-file-source/topics"
        until(lambda: guide.curl(topics)["local-file-source"]["topics"] == ["connect-test"], "the topic")
    with guide.running(BOTH):
        until(lambda: lines_of(guide.folder / "test.sink.txt") == LINES, "the sink's file")
        created = guide.curl(CREATE)
        assert created["name"] == "file-source-connector"
        assert guide.curl("curl -X DELETE http://localhost:8083/connectors/file-source-connector") is None
        assert "file-source-connector" not in guide.curl("curl localhost:8083/connectors")


def test_records_go_to_s3_with_the_guides_own_file(guide: Guide, tmp_path: Path) -> None:
    (guide.folder / "test.txt").write_text("".join(f"{each}\n" for each in LINES))
    (guide.folder / "s3-sink.properties").write_text(CONFLUENT_SINK_FILE)
    credentials = tmp_path / ".aws" / "credentials"
    credentials.parent.mkdir()
    credentials.write_text("[default]\naws_access_key_id = a\naws_secret_access_key = b\n")
    plugins = tmp_path / "connectors"
    plugins.mkdir()
    worker = guide.home / "config" / "connect-standalone.properties"
    worker.write_text(f"{worker.read_text()}plugin.path={plugins}\n")
    with running_s3() as s3:
        guide.environment["AWS_ENDPOINT_URL"] = s3.url
        bucket = s3.bucket("kafka-connect-s3-sink-example")
        with guide.running(f"{S3} $KAFKA_HOME/config/connect-file-source.properties"):
            until(lambda: len(s3.objects(bucket)) == 3, "three objects")
        found = s3.objects(bucket)
    names = [f"topics/connect-test/partition=0/connect-test+0+{first:010d}.json" for first in (0, 3, 6)]
    assert sorted(found) == names
    assert [json.loads(line) for name in names for line in found[name].decode().splitlines()] == LINES


def descendants(pid: int) -> set[int]:
    """Return the processes below a process."""
    parents = {}
    for each in Path("/proc").iterdir():
        if each.name.isdecimal():
            with suppress(OSError):
                parents[int(each.name)] = int((each / "stat").read_text().rpartition(")")[2].split()[1])
    found, todo = set[int](), [pid]
    while todo:
        above = todo.pop()
        below = {each for each, parent in parents.items() if parent == above}
        found |= below
        todo += below
    return found


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_killed_worker_leaves_no_process_and_its_successor_loses_nothing(guide: Guide) -> None:
    given, taken = guide.folder / "test.txt", guide.folder / "test.sink.txt"
    given.write_text("".join(f"{each}\n" for each in LINES))
    worker = guide.begin(BOTH)
    try:
        until(lambda: lines_of(taken) == LINES, "the sink's file")
        below = descendants(worker.pid)
        assert len(below) >= 3, "a JVM, Python's daemon, and two tasks"
    finally:
        worker.kill()
        worker.communicate()
    until(lambda: not any(map(is_alive, below)), "the end of what the worker had started")
    more = ["after", "the", "kill"]
    with given.open("a") as file:
        file.write("".join(f"{each}\n" for each in more))
    with guide.running(BOTH):
        until(lambda: set(lines_of(taken)) == {*LINES, *more}, "the lines behind the kill")
    found = lines_of(taken)
    assert list(dict.fromkeys(found)) == [*LINES, *more], "at least once, in order"
