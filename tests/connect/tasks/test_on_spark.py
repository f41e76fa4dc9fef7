"""Tasks on a real Spark session: they run in processes of Spark's, fail when those are killed, and start again."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.spark import SparkJobs
from tests.connect.whole import WholeWorker, running_connect
from tests.processes import below, command_of, python_workers
from tests.server import running_server
from tests.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

START_S = 300.0
SOURCE = {"connector.class": "FileStreamSource", "tasks.max": "1"}
PLUGIN = """
import logging, os
from ottla.connect import SourceConnector, SourceRecord, SourceTask

class SayTask(SourceTask):
    def start(self, props):
        logging.getLogger("say").warning("I am process %d", os.getpid())
        self.said = False
    def poll(self):
        if self.said:
            return None
        self.said = True
        return [SourceRecord(topic="said", value="hello", source_partition={}, source_offset={"n": 1})]

class Say(SourceConnector):
    task_class = SayTask
"""


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WholeWorker]:
    folder = tmp_path_factory.mktemp("worker")
    plugins = folder / "plugins"
    plugins.mkdir()
    (plugins / "say.py").write_text(PLUGIN)
    settings = {
        "tasks.slots": "2",
        "task.restart.backoff.ms": "100",
        "consumer.session.timeout.ms": "6000",
        "plugin.path": str(plugins),
    }
    with running_server(folder) as server:
        jobs = SparkJobs({"tasks.slots": "2"})
        with running_connect(folder, server.bootstrap, jobs=jobs, **settings) as running:
            asyncio.run_coroutine_threadsafe(running.worker.runner.ready(), running.loop).result(START_S)
            yield running


def test_a_task_whose_process_is_killed_starts_again_and_goes_on(worker: WholeWorker, tmp_path: Path) -> None:
    given, taken = tmp_path / "in.txt", tmp_path / "out.txt"
    given.write_text("one\n")
    worker.create("in", {**SOURCE, "file": str(given), "topic": "killed"})
    worker.create("out", {"connector.class": "FileStreamSink", "file": str(taken), "topics": "killed"})
    until(lambda: taken.exists() and taken.read_text() == "one\n")
    for pid in python_workers(below(os.getpid())):
        os.kill(pid, signal.SIGKILL)
    with given.open("a") as file:
        file.write("two\n")
    until(lambda: taken.read_text().endswith("two\n"))
    for name in ("in", "out"):
        worker.until(name, "RUNNING", "RUNNING")
        assert worker.ask("GET", f"/connectors/{name}/status")[1]["tasks"][0]["restarts"] >= 1
        assert worker.ask("DELETE", f"/connectors/{name}")[0] == 204


def test_tasks_go_on_in_another_session_when_sparks_jvm_is_killed(worker: WholeWorker, tmp_path: Path) -> None:
    given, taken = tmp_path / "in.txt", tmp_path / "out.txt"
    given.write_text("one\n")
    worker.create("in2", {**SOURCE, "file": str(given), "topic": "machine"})
    worker.create("out2", {"connector.class": "FileStreamSink", "file": str(taken), "topics": "machine"})
    until(lambda: taken.exists() and taken.read_text() == "one\n")
    [machine] = [pid for pid in below(os.getpid()) if "SparkSubmit" in command_of(pid)]
    os.kill(machine, signal.SIGKILL)
    with given.open("a") as file:
        file.write("two\n")
    until(lambda: taken.read_text().endswith("two\n"))
    for name in ("in2", "out2"):
        worker.until(name, "RUNNING", "RUNNING")
        assert worker.ask("DELETE", f"/connectors/{name}")[0] == 204


def test_slots_run_out_with_a_number_and_free_ones_are_taken(worker: WholeWorker, tmp_path: Path) -> None:
    for number in range(3):
        worker.create(f"slot{number}", {**SOURCE, "file": str(tmp_path / "none"), "topic": "slots"})
    worker.until("slot2", "RUNNING", "FAILED")
    trace = worker.ask("GET", "/connectors/slot2/status")[1]["tasks"][0]["trace"]
    assert "all 2 of this worker's slots" in trace and "set tasks.slots" in trace
    worker.ask("DELETE", "/connectors/slot0")
    worker.until("slot2", "RUNNING", "RUNNING")
    for number in (1, 2):
        worker.ask("DELETE", f"/connectors/slot{number}")


def test_plugins_run_in_sparks_processes_and_log_with_their_context(
    worker: WholeWorker, caplog: pytest.LogCaptureFixture
) -> None:
    worker.create("speaker", {"connector.class": "Say", "topic": "said"})
    until(lambda: worker.ask("GET", "/connectors/speaker/topics")[1] == {"speaker": {"topics": ["said"]}})
    [record] = [each for each in caplog.records if each.name == "say"]
    text = record.getMessage()
    assert text.startswith("[speaker|task-0] I am process ") and int(text.split()[-1]) in python_workers(
        below(os.getpid())
    )
    worker.ask("DELETE", "/connectors/speaker")
