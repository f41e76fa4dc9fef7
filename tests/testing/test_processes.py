"""The tests' processes and their handles hold in somebody else's run: interrupts, debuggers, threads, long logs, folders."""

from __future__ import annotations

import concurrent.futures
import os
import subprocess
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.testing import Kafka, clock, kafka, processes, running_faults
from ottla.testing.brokers import broker_folder
from ottla.testing.processes import ChildProcess
from ottla.testing.report import report_text
from tests.testing.project import run_project
from tests.waiting import until

TALKS = """
import sys, time
print("ready here", flush=True)
for number in range(int(sys.argv[1])):
    print(f"2026-01-01 WARNING {number}", flush=True)
sys.stdin.read()
"""


def talker(folder: Path, lines: int) -> ChildProcess:
    """Run a process that is ready and prints lines until its input ends."""
    (folder / "talks.py").write_text(TALKS)
    return ChildProcess("talks", [str(lines)], folder=folder, ready_seconds=60)


def test_what_a_test_has_its_broker_log_is_told_however_much_was_logged_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "LINES_MAX", 10)
    process = talker(tmp_path, 30)
    try:
        until(lambda: process.dropped + len(process.lines) == 31, "its lines")
        broker = Kafka("127.0.0.1:1", log_lines=lambda: process.lines, log_dropped=lambda: process.dropped)
        assert broker.log_position() == 31
        assert broker.logged_since(29) == ["2026-01-01 WARNING 28\n", "2026-01-01 WARNING 29\n"]
        assert len(broker.logged_since(0)) == 10
        assert "WARNING 29" in report_text(broker, log_from=29)
    finally:
        process.stop()


def test_an_interrupt_is_for_the_tests_and_not_for_their_broker(tmp_path: Path) -> None:
    process = talker(tmp_path, 0)
    try:
        assert os.getpgid(process.pid) != os.getpgrp()  # a terminal's Ctrl+C, within pdb, goes to a whole group
    finally:
        process.stop()


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[Any]]:
    """Return the processes that a test begins."""
    found: list[subprocess.Popen[Any]] = []

    class Kept(subprocess.Popen[Any]):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            found.append(self)

    monkeypatch.setattr("ottla.testing.processes.subprocess.Popen", Kept)
    return found


def test_a_broker_with_faults_that_has_ended_by_itself_can_be_started_again(
    begun: list[subprocess.Popen[Any]],
) -> None:
    with running_faults() as faults:
        (process,) = begun
        process.kill()
        process.wait()
        faults.start()
        assert faults.is_running and faults.kafka.topics() == []


def test_a_process_ends_where_the_wait_for_it_is_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begun: list[subprocess.Popen[Any]]
) -> None:
    class Interrupted(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            if timeout is not None:
                raise KeyboardInterrupt
            return super().wait()

    monkeypatch.setattr("ottla.testing.processes.threading.Event", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        talker(tmp_path, 0)
    assert [each.returncode for each in begun] == [-9]


def test_a_broker_under_a_clock_ends_where_the_wait_for_it_is_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted(concurrent.futures.Future[Any]):
        def result(self, timeout: float | None = None) -> Any:
            super().result(timeout)
            raise KeyboardInterrupt

    before = set(threading.enumerate())
    own = SimpleNamespace(Future=Interrupted, ThreadPoolExecutor=concurrent.futures.ThreadPoolExecutor)
    monkeypatch.setattr(clock, "concurrent", SimpleNamespace(futures=own))  # asyncio has the other one
    with pytest.raises(KeyboardInterrupt):
        clock.KafkaClock(tmp_path, {})
    assert not [each for each in set(threading.enumerate()) - before if "clock" in each.name]


def test_a_relative_folder_is_of_the_tests_own_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with broker_folder(Path("data")) as found:
        assert found == tmp_path / "data" and found.is_dir()


def test_threads_that_ask_at_once_share_one_client(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    all_ask = threading.Barrier(4)

    class Slow:
        calls: Any = None

        def __init__(self, *_: object) -> None:
            threading.Event().wait(0.05)
            made.append(self)

        def close(self) -> None:
            made.remove(self)

    monkeypatch.setattr(kafka, "OwnClient", Slow)
    broker = Kafka("127.0.0.1:1")

    def ask() -> None:
        all_ask.wait(10)
        assert broker.client is None

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(10)
    assert len(made) == 1
    broker.close()
    assert not made


@pytest.mark.parametrize("seconds", ["nan", "0", "-1", "inf", "soon"])
def test_seconds_that_are_none_are_refused_by_name(pytester: pytest.Pytester, seconds: str) -> None:
    result = run_project(pytester, "def test_it(kafka): pass", "-n0", "-o", f"ottla_start_seconds={seconds}")
    result.stdout.fnmatch_lines([f"*ottla_start_seconds is a number of seconds above 0, not '{seconds}'"])


def test_a_topics_marker_takes_nothing_without_a_name(pytester: pytest.Pytester) -> None:
    project = """
        import pytest

        @pytest.fixture
        def kafka():
            return None

        @pytest.mark.kafka_topic(3)
        def test_it(kafka_topic):
            pass
    """
    result = run_project(pytester, project, "-n0")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*the marker kafka_topic takes partitions=* by name, not (3,)*"])
