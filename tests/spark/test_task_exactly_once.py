"""Sources exactly once: transactions' bounds, offsets within them, tasks that take over, and processes that are killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, ClassVar

import pytest

from ottla.connect import ConnectError, SourceRecord
from ottla.connect.storage import State
from tests.server import running_server
from tests.spark.running import Port, await_true, committed_records, records_of, running, spec_of
from tests.spark.test_task_source import Counting, CountingTask, config

PARTITION = {"range": "all"}


def seen(broker: str, topic: str) -> list[int]:
    return sorted(int(value or b"") for _, value in committed_records(broker, topic))


def stored(broker: str, name: str) -> list[bytes | None]:
    key = f'["{name}",{{"range":"all"}}]'.encode()
    return [value for each, value in committed_records(broker, "connect-offsets") if each == key]


def test_each_poll_is_a_transaction_with_its_offset(broker: str) -> None:
    port = Port()
    with running(spec_of(broker, config("polls", end="30"), exactly_once=True), Counting, port=port):
        await_true(lambda: seen(broker, "polls") == list(range(30)))
    assert stored(broker, "polls") == [b'{"n":10}', b'{"n":20}', b'{"n":30}']
    assert port.metrics["transaction-size-max"] == 10
    assert port.metrics["source-record-write-total"] == 30, "offsets are none of the source's records"
    assert not port.stored, "nothing goes through the worker"
    with running(spec_of(broker, config("polls", end="35"), exactly_once=True), Counting):
        await_true(lambda: seen(broker, "polls") == list(range(35)))


def test_transactions_of_an_interval_end_with_it_and_with_the_task(broker: str) -> None:
    settings = config("intervals", end="50", transaction_boundary="interval")
    long = {**settings, "transaction.boundary.interval.ms": "600000"}
    with running(spec_of(broker, long, exactly_once=True), Counting) as task:
        await_true(lambda: len(records_of(broker, "intervals")) == 50)
        assert seen(broker, "intervals") == []
        task.stop()
        assert seen(broker, "intervals") == list(range(50))
    short = {**settings, "end": "90", "transaction.boundary.interval.ms": "50"}
    with running(spec_of(broker, short, exactly_once=True), Counting):
        await_true(lambda: seen(broker, "intervals") == list(range(90)))


class BoundingTask(CountingTask):
    """Ends its transactions behind records that say so."""

    def record(self, n: int) -> SourceRecord:
        made = super().record(n)
        assert self.context.transaction is not None
        if n in (4, 24):
            self.context.transaction.commit(made)
        if n == 14:
            self.context.transaction.abort(made)
        return made


class Bounding(Counting):
    task_class = BoundingTask


def test_a_connector_bounds_its_transactions_and_what_it_aborts_is_not_read_again(broker: str) -> None:
    settings = {**config("bounds", end="30", transaction_boundary="connector"), "connector.class": "Bounding"}
    with running(spec_of(broker, settings, exactly_once=True), Bounding) as task:
        await_true(lambda: seen(broker, "bounds") == [*range(5), *range(15, 25)])
        await_true(lambda: any(each.value == b"29" for each in records_of(broker, "bounds")))
        task.stop()
    assert stored(broker, "bounds") == [b'{"n":5}', b'{"n":15}', b'{"n":25}']
    with running(spec_of(broker, settings, exactly_once=True), Bounding):
        await_true(lambda: CountingTask.live["bounds"].next == 30)
    assert seen(broker, "bounds") == [*range(5), *range(15, 25)], "what no bound followed was aborted"


class SlowTask(CountingTask):
    """Goes on for ever, one number at a time."""

    alive: ClassVar[list[int]] = []

    def poll(self) -> Any:
        time.sleep(0.005)
        return super().poll()


class Slow(Counting):
    task_class = SlowTask


def test_a_task_whose_place_was_taken_ends_and_nothing_is_there_twice(broker: str) -> None:
    settings = {**config("taken", end="1000000", batch="1"), "connector.class": "Slow"}
    made = spec_of(broker, settings, exactly_once=True)
    first = Port()
    with running(made, Slow, port=first) as old:
        await_true(lambda: len(seen(broker, "taken")) > 5)
        with running(made, Slow) as new:
            assert old.ended() is State.FAILED
            before = len(seen(broker, "taken"))
            await_true(lambda: len(seen(broker, "taken")) > before + 5)
            assert new.stop() is State.UNASSIGNED
    assert "has taken its transactional id over" in first.trace
    found = seen(broker, "taken")
    assert found == list(range(len(found)))


def test_a_task_that_is_another_workers_fences_nobody(broker: str) -> None:
    port = Port()
    port.not_mine = ConnectError("the task was given to another worker")
    made = spec_of(broker, config("mine", end="10"), exactly_once=True)
    with running(made, Counting, port=port) as task:
        assert task.ended() is State.FAILED
    assert "given to another worker" in port.trace


KILLED = """
import sys
from tests.spark.running import Port, Running, spec_of
from tests.spark.test_task_source import Counting, config
from ottla.connect import discover
settings = config("killed", end=sys.argv[2], batch="7", **{"transaction_boundary": sys.argv[3]})
settings["transaction.boundary.interval.ms"] = "30"
task = Running(spec_of(sys.argv[1], settings, exactly_once=True), Port(), discover(more=[Counting]))
print("up", flush=True)
task._thread.join()
"""


def run_and_kill(broker: str, end: int, boundary: str, after_s: float, folder: Path) -> None:
    """Run the task in a process, and kill that some time after it is up."""
    root = Path(__file__).resolve().parents[2]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root / "src"), str(root)])}
    command = [sys.executable, "-c", KILLED, broker, str(end), boundary]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env, cwd=folder)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        time.sleep(after_s)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("boundary", ["poll", "interval"])
def test_a_killed_task_leaves_each_record_once(tmp_path: Path, boundary: str) -> None:
    seed = int(os.environ.get("SEED", "0")) or random.SystemRandom().randrange(1 << 32)
    print(f"SEED={seed}")
    chance, end = random.Random(seed), 20_000
    with running_server(tmp_path) as server:
        kills = 0
        while kills < 12:
            run_and_kill(server.bootstrap, end, boundary, chance.uniform(0.05, 0.8), tmp_path)
            kills += 1
        settings = config("killed", end=str(end), batch="500", transaction_boundary=boundary)
        with running(spec_of(server.bootstrap, settings, exactly_once=True), Counting):
            await_true(lambda: len(seen(server.bootstrap, "killed")) >= end, seconds=120)
        found = seen(server.bootstrap, "killed")
        assert found == list(range(end)), f"SEED={seed}"
