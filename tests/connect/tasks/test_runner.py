"""`SparkTaskRunner` over threads: what tasks are told, what they tell, and what happens when they fail or do not end."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from ottla.connect import ConnectError
from ottla.connect.storage import State, TargetState, TaskId
from ottla.connect.tasks.interface import TaskPort, TaskSpec
from ottla.connect.tasks.port import RemotePort
from tests.connect.tasks.world import Bench, Work, bench, obedient, task_start
from tests.waiting import until_async

FAST = {"task.restart.backoff.ms": "1", "task.restart.backoff.max.ms": "2"}


def run(story: Callable[[Bench], Awaitable[None]], work: Work = obedient, *, slots: int = 8, **worker: str) -> None:
    async def whole() -> None:
        async with bench(work, slots=slots, **worker) as made:
            await story(made)

    asyncio.run(whole())


def test_a_task_runs_pauses_resumes_and_stops_as_its_worker_says() -> None:
    async def story(made: Bench) -> None:
        await made.runner.start([task_start()])
        await made.until(State.RUNNING)
        await made.runner.pause_or_resume([TaskId("lines", 0)], TargetState.PAUSED)
        await made.until(State.RUNNING, State.PAUSED)
        await made.runner.pause_or_resume([TaskId("lines", 0)], TargetState.STARTED)
        await made.until(State.PAUSED, State.RUNNING)
        await made.runner.stop([TaskId("lines", 0)])
        assert made.owner.states()[-2:] == [State.RUNNING, State.UNASSIGNED]
        assert {each.generation for each in made.owner.told} == {3}

    run(story)


def test_a_task_that_starts_paused_never_says_that_it_runs() -> None:
    async def story(made: Bench) -> None:
        await made.runner.start([task_start(target=TargetState.PAUSED)])
        await made.until(State.PAUSED)
        assert State.RUNNING not in made.owner.states()

    run(story)


def test_offsets_stored_by_a_task_are_read_back_and_bytes_survive() -> None:
    found = []

    def work(spec: TaskSpec, port: TaskPort) -> None:
        port.tell(State.RUNNING)
        port.store_offsets([({"file": "a"}, {"position": 12}), ({"file": "b"}, {"position": 1})])
        port.store_offsets([({"file": "b"}, None)])
        found.extend(port.offsets([{"file": "a"}, {"file": "b"}]))
        port.used("topic")
        obedient(spec, port)

    async def story(made: Bench) -> None:
        await made.runner.start([task_start()])
        await until_async(lambda: bool(made.owner.topics))
        assert found == [{"position": 12}, None]
        assert made.owner.topics[0].topic == "topic" and made.owner.topics[0].connector == "lines"

    run(story, work)


def test_offsets_that_cannot_be_stored_are_an_error_of_the_task() -> None:
    def work(spec: TaskSpec, port: TaskPort) -> None:
        for ask in (lambda: port.store_offsets([({"a": 1}, {"b": 2})]), port.confirm):
            with pytest.raises(ConnectError, match=r"full|not yours"):
                ask()
        obedient(spec, port)

    async def story(made: Bench) -> None:
        made.owner.refuses = True
        await made.runner.start([task_start()])
        await made.until(State.RUNNING)

    run(story, work)


def test_a_failed_task_starts_again_by_itself_and_says_how_often() -> None:
    runs = []

    def work(spec: TaskSpec, port: TaskPort) -> None:
        runs.append(1)
        if len(runs) < 4:
            port.tell(State.RUNNING)
            port.tell(State.FAILED, "it broke")
            return
        obedient(spec, port)

    async def story(made: Bench) -> None:
        await made.runner.start([task_start()])
        await until_async(lambda: len(runs) == 4)
        await made.until(State.RUNNING)
        traces = [each.trace for each in made.owner.told if each.state is State.FAILED]
        assert [each and each.splitlines()[0] for each in traces] == [
            f"Automatic restart {number} of 10 in {0.001 * min(number, 2):g} s." for number in (1, 2, 3)
        ]
        assert all(each and each.endswith("it broke") for each in traces)
        assert made.runner.metrics()[TaskId("lines", 0)]["automatic-restart-total"] == 3

    run(story, work, **FAST)


@pytest.mark.parametrize(("limit", "runs_expected"), [("0", 1), ("2", 3)])
def test_a_task_that_fails_too_often_stays_failed(limit: str, runs_expected: int) -> None:
    runs = []

    def work(spec: TaskSpec, port: TaskPort) -> None:
        runs.append(1)
        raise RuntimeError("out of the loop")

    async def story(made: Bench) -> None:
        await made.runner.start([task_start()])
        await until_async(lambda: made.owner.states().count(State.FAILED) == runs_expected)
        assert made.runner._running[TaskId("lines", 0)]._done is not None
        await made.runner._running[TaskId("lines", 0)]._done
        assert len(runs) == runs_expected
        last = made.owner.told[-1].trace or ""
        assert "out of the loop" in last and ("Not restarted again" in last) == (limit != "0")

    run(story, work, **FAST, **{"task.restart.max": limit})


def test_a_connector_has_restart_settings_of_its_own() -> None:
    async def story(made: Bench) -> None:
        await made.runner.start([task_start(**{"task.restart.max": "0"})])
        await made.until(State.FAILED)

    def work(spec: TaskSpec, port: TaskPort) -> None:
        port.tell(State.FAILED, "at once")

    run(story, work)


def test_a_task_without_a_slot_is_failed_with_the_number_and_the_setting() -> None:
    async def story(made: Bench) -> None:
        await made.runner.start([task_start(each) for each in range(3)])
        await made.until(State.FAILED, task=2)
        trace = made.owner.told[-1].trace or next(each.trace for each in made.owner.told if each.trace) or ""
        assert "all 2 of this worker's slots" in trace and "tasks.slots" in trace
        await made.runner.stop([TaskId("lines", 0)])
        await made.until(State.FAILED, State.RUNNING, task=2)
        assert made.runner.metrics()[TaskId("lines", 2)]["automatic-restart-total"] == 0

    run(story, slots=2)


def test_a_task_waits_for_no_slot_where_failed_tasks_stay_failed() -> None:
    async def story(made: Bench) -> None:
        await made.runner.start([task_start(each) for each in range(2)])
        await made.until(State.FAILED, task=1)
        await made.runner.stop([TaskId("lines", 0)])
        await made.runner.stop([TaskId("lines", 1)])
        assert State.RUNNING not in made.owner.states(1)

    run(story, slots=1, **{"task.restart.max": "0"})


def test_a_task_that_does_not_end_in_time_is_cancelled() -> None:
    held = threading.Event()

    def work(spec: TaskSpec, port: TaskPort) -> None:
        port.tell(State.RUNNING)
        held.wait(20)

    async def story(made: Bench) -> None:
        await made.runner.start([task_start()])
        await made.until(State.RUNNING)
        await made.runner.stop([TaskId("lines", 0)])
        assert made.owner.states()[-1] is State.UNASSIGNED and len(made.jobs.given_up) == 1
        held.set()

    run(story, work, **{"task.shutdown.graceful.timeout.ms": "50"})


def test_a_task_whose_connection_is_lost_is_told_to_stop_and_starts_again() -> None:
    seen = []

    def work(spec: TaskSpec, port: TaskPort) -> None:
        assert isinstance(port, RemotePort)
        if not seen:
            port.tell(State.RUNNING)
            port._channel.shut()
            port.wait(20)
            seen.append(port.target)
            with pytest.raises(ConnectionError):
                port.store_offsets([({"a": 1}, {"b": 2})])
            return
        obedient(spec, port)

    async def story(made: Bench) -> None:
        await made.runner.start([task_start()])
        await made.until(State.FAILED, State.RUNNING)
        assert seen == [TargetState.STOPPED]

    run(story, work, **FAST)


def test_a_stranger_is_not_listened_to() -> None:
    async def story(made: Bench) -> None:
        await made.runner.start([task_start()])
        await made.until(State.RUNNING)
        supervised = made.runner._running[TaskId("lines", 0)]
        assert supervised._attempt is not None
        known = supervised._attempt.dial
        unknown, wrong = replace(known, attempt="0" * 16), replace(known, token="guessed")
        for dial in (unknown, wrong, known):  # the last one is taken: a run connects once
            with pytest.raises(ConnectionError):
                await asyncio.to_thread(RemotePort, dial)
        assert known.token not in repr(known)

    run(story)


def test_what_a_task_logs_reaches_the_workers_log_with_its_context(caplog: pytest.LogCaptureFixture) -> None:
    def work(spec: TaskSpec, port: TaskPort) -> None:
        assert isinstance(port, RemotePort)
        port.log(logging.WARNING, "my.connector", "the file is gone")
        obedient(spec, port)

    async def story(made: Bench) -> None:
        await made.runner.start([task_start()])
        await made.until(State.RUNNING)

    with caplog.at_level(logging.INFO):
        run(story, work)
    [record] = [each for each in caplog.records if each.name == "my.connector"]
    assert record.getMessage() == "[lines|task-0] the file is gone" and record.levelname == "WARNING"
