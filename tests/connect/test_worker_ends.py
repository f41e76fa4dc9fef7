"""How a worker's processes end: by SIGTERM while its Spark session starts, and by SIGKILL with tasks that run."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.connect.rest.asked import ask_once
from tests.connect.rest.calls import Call
from tests.ports import free_port
from tests.server import running_server
from tests.waiting import until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

WAIT_S = 120.0
WORKER = """
listeners=http://127.0.0.1:{port}
bootstrap.servers={bootstrap}
offset.storage.file.filename={folder}/offsets
plugin.path={folder}/plugins
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.storage.StringConverter
"""


@contextmanager
def worker(folder: Path, bootstrap: str, *connectors: str) -> Iterator[tuple[subprocess.Popen[bytes], int, Path]]:
    """Run `ottla connect-standalone`; yields it, its port and what it prints, when it takes requests."""
    port, path, output = free_port(), folder / "worker.properties", folder / "worker.out"
    path.write_text(WORKER.format(port=port, bootstrap=bootstrap, folder=folder))
    command = [sys.executable, "-m", "ottla.cli.main", "connect-standalone", str(path), *connectors]
    with output.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, cwd=folder)
    try:
        until(lambda: "ready " in output.read_text(), output.read_text)
        yield process, port, output
    finally:
        process.kill()
        process.wait()


def stat_of(pid: int) -> list[str]:
    """Return a process's state and parent; nothing where it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
    except OSError:
        return []


def lives(pid: int) -> bool:
    return stat_of(pid)[:1] not in ([], ["Z"])


def under(pid: int) -> list[int]:
    """Return all processes under one."""
    parents: dict[int, list[int]] = {}
    for each in Path("/proc").iterdir():
        if each.name.isdecimal() and lives(int(each.name)) and (stat := stat_of(int(each.name))):
            parents.setdefault(int(stat[1]), []).append(int(each.name))
    found, todo = [], [pid]
    while todo:
        more = parents.get(todo.pop(), [])
        found += more
        todo += more
    return found


def test_a_worker_that_is_stopped_while_spark_starts_does_not_wait_for_it(tmp_path: Path) -> None:
    with running_server(tmp_path) as server, worker(tmp_path, server.bootstrap) as (process, _, output):
        until(lambda: under(process.pid), output.read_text)  # the JVM is launched
        found = under(process.pid)
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT_S) == 143
        # Spark's script may have a JVM of its own, which only puts a command together and then ends
        until(lambda: not any(lives(each) for each in found), lambda: [each for each in found if lives(each)])
        assert "Spark is ready" not in output.read_text() and "Traceback" not in output.read_text()


@pytest.mark.slow
def test_a_killed_worker_leaves_no_process_behind_even_where_a_task_hangs(tmp_path: Path) -> None:
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "hangs.py").write_text(
        "import time\n"
        "from ottla.connect import SourceConnector, SourceTask\n"
        "class HangTask(SourceTask):\n"
        "    def start(self, props):\n"
        "        pass\n"
        "    def poll(self):\n"
        "        time.sleep(3600)\n"
        "class Hang(SourceConnector):\n"
        "    task_class = HangTask\n"
    )
    connector = tmp_path / "hang.properties"
    connector.write_text("name=hang\nconnector.class=Hang\ntopic=none\n")
    with (
        running_server(tmp_path) as server,
        worker(tmp_path, server.bootstrap, str(connector)) as (process, port, output),
    ):
        until(lambda: states(port) == ["RUNNING"], output.read_text)
        found = under(process.pid)
        assert len(found) >= 3  # the JVM, Spark's Python daemon, the task
        process.kill()
        process.wait()
        until(lambda: not any(lives(each) for each in found), lambda: [each for each in found if lives(each)])


def states(port: int) -> list[str]:
    body = ask_once(port, Call("GET", "/connectors/hang/status"))["body"]
    return [each["state"] for each in body["tasks"]]
