"""A task that runs and does nothing says so; one without anything to tell is healthy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from immutables import Map

from ottla.admin import Worker, delete_topics
from ottla.base import Offset, TopicPartition
from ottla.cli.doctor.connect import judged_connectors, worker_checks
from ottla.cli.doctor.findings import Status
from ottla.client import BlockingClient, Isolation
from ottla.connect import ConnectError, discover
from ottla.connect.decisions import Progress, View, connector_status, progress_metrics, shown_progress, stalled
from ottla.connect.storage import ConfigState, State, StatusState, TaskId
from ottla.connect.storage import Status as TaskStatus
from ottla.connect.tasks.progress import POSITIONS_MAX, WARNINGS_MAX, HeldSince, TaskProgress
from ottla.connect.tasks.source_offsets import AtLeastOnce
from ottla.spark import ThreadJobs
from ottla.spark.connect.installed import INSTALLED
from ottla.spark.connect.query_progress import QueryProgress
from ottla.spark.connect.task_restarts import RestartPolicy, TaskRestarts
from tests.connect.test_metrics import page
from tests.connect.whole import WholeWorker, running_connect
from tests.server import Server, running_server
from tests.waiting import until

TEXT = "org.apache.kafka.connect.storage.StringConverter"
LIMIT_MS = 1_500
STUCK = """
import threading
from ottla.connect import (
    ConfigDef, RetriableError, SinkConnector, SinkTask, SourceConnector, SourceRecord, SourceState, SourceTask
)

class FullTask(SinkTask):
    def put(self, records):
        if records:
            raise RetriableError("the disk is full")

class FullSink(SinkConnector):
    version, config_def, task_class = "1", ConfigDef(), FullTask

class DeafTask(SourceTask):
    def start(self, props):
        self.ended = threading.Event()

    def poll(self):
        self.ended.wait()

    def stop(self):
        self.ended.set()

class DeafSource(SourceConnector):
    version, config_def, task_class = "1", ConfigDef(), DeafTask

class AwayTask(SourceTask):
    def poll(self):
        return None

    def source_state(self):
        return SourceState({"lsn": 7, "behind_bytes": 3}, trouble="the publication does not exist")

class AwaySource(SourceConnector):
    version, config_def, task_class = "1", ConfigDef(), AwayTask

class ChattyTask(SourceTask):
    def poll(self):
        return None

    def source_state(self):
        facts = {"lag": float("nan"), "key": b"ab", "at": object, 1: (2, {3})}
        return SourceState(facts, warnings="one table is refused")

class ChattySource(SourceConnector):
    version, config_def, task_class = "1", ConfigDef(), ChattyTask

class WrongTask(SourceTask):
    def poll(self):
        return None

    def source_state(self):
        return SourceState(waiting="many")

class WrongSource(SourceConnector):
    version, config_def, task_class = "1", ConfigDef(), WrongTask
"""


class Hours:
    """A clock that is set."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def watched() -> tuple[TaskProgress, Hours]:
    clock = Hours()
    return TaskProgress(clock, lambda: int(clock.now * 1000)), clock


def test_a_task_with_nothing_to_tell_is_healthy_for_ever() -> None:
    progress, clock = watched()
    for clock.now in range(0, 100_000, 1_000):
        assert stalled(progress.told(0), silent_ms=900, limit_ms=1_000) is None


def test_the_first_record_after_an_idle_day_is_no_alarm() -> None:
    progress, clock = watched()
    progress.told(0)
    clock.now = 86_400.0
    progress.told(0)
    clock.now += 1
    assert stalled(progress.told(1), silent_ms=0, limit_ms=10_000) is None


def test_what_waits_while_nothing_moves_is_said_and_movement_ends_it() -> None:
    progress, clock = watched()
    progress.told(5)
    clock.now = 11.0
    assert stalled(progress.told(5), silent_ms=0, limit_ms=10_000) == "5 records wait, and none has moved for 11 s"
    progress.moved(1)
    assert stalled(progress.told(4), silent_ms=0, limit_ms=10_000) is None


def test_a_backlog_that_grows_while_records_move_is_no_alarm() -> None:
    progress, clock = watched()
    for waiting in range(1, 100):
        clock.now += 5
        progress.moved(1)
        assert stalled(progress.told(waiting), silent_ms=0, limit_ms=10_000) is None


def test_time_while_a_task_was_paused_does_not_count() -> None:
    progress, clock = watched()
    progress.told(5)
    progress.troubled("put", "no")
    clock.now = 3600.0
    progress.resumed()
    assert stalled(progress.told(5), silent_ms=0, limit_ms=10_000) is None


def test_what_fails_again_and_again_is_said_with_its_words_until_it_succeeds() -> None:
    progress, clock = watched()
    progress.troubled("source", "no publication")
    clock.now = 11.0
    progress.troubled("source", "still no publication")
    told = progress.told(0)
    assert stalled(told, silent_ms=0, limit_ms=10_000) == "it has tried in vain for 11 s: source: still no publication"
    progress.well("source")
    assert stalled(progress.told(0), silent_ms=0, limit_ms=10_000) is None


def test_a_task_that_does_not_come_back_from_a_call_is_said_to_be_in_it() -> None:
    assert stalled(Progress(), silent_ms=12_000, limit_ms=10_000) == "it has been in one call for 12 s"


def test_only_a_running_task_stands_still_and_a_limit_of_0_is_never() -> None:
    told = Progress(waiting=1, still_ms=60_000)
    assert shown_progress(told, silent_ms=0, limit_ms=1, runs=False)["stalled"] is None
    assert shown_progress(told, silent_ms=0, limit_ms=0, runs=True)["stalled"] is None
    assert shown_progress(told, silent_ms=0, limit_ms=1, runs=True)["stalled"]


def test_a_snapshot_that_reads_on_slowly_is_no_alarm_and_one_that_does_not_is() -> None:
    progress, clock = watched()
    for rows in range(100):
        clock.now += 9
        told = progress.told(1, mark=("snapshot", rows))
        assert stalled(told, silent_ms=0, limit_ms=10_000) is None
    clock.now += 11
    assert stalled(progress.told(1, mark=("snapshot", 99)), silent_ms=0, limit_ms=10_000)


def test_a_trouble_that_is_told_each_time_counts_from_the_first_and_ends_with_the_next_success() -> None:
    progress, clock = watched()
    for _ in range(5):
        progress.is_so("source", "away")
        clock.now += 3
    assert stalled(progress.told(0), silent_ms=0, limit_ms=10_000) == "it has tried in vain for 15 s: source: away"
    progress.is_so("source", None)
    progress.is_so("source", "away")
    assert stalled(progress.told(0), silent_ms=0, limit_ms=10_000) is None


def test_what_is_left_out_is_a_warning_and_no_standstill() -> None:
    progress, _ = watched()
    told = progress.told(0, warnings=["table a.b is refused", *["w" * 5_000] * WARNINGS_MAX])
    shown = shown_progress(told, silent_ms=0, limit_ms=1, runs=True, more=["it has failed 3 times in a row"])
    assert shown["stalled"] is None and shown["warnings"][0] == "table a.b is refused"
    assert (len(told.warnings), len(shown["warnings"])) == (WARNINGS_MAX, WARNINGS_MAX + 1)
    assert len(told.warnings[1]) == 1_000
    assert progress_metrics(shown, now_ms=0)["warnings"] == WARNINGS_MAX + 1
    runs = {"id": 0, "state": "RUNNING", "worker_id": "a:1"}
    status = {"name": "x", "connector": {"state": "RUNNING"}, "tasks": [runs], "progress": [{"task": 0, **shown}]}
    found = judged_connectors("http://a:1", [status])
    assert found[0].status is Status.WARN and found[0].said == "task 0 of x: table a.b is refused"


def test_the_doctor_does_not_call_tasks_well_that_other_workers_tell_of_until_those_are_named() -> None:
    running = {"state": "RUNNING", "worker_id": "b:2", "id": 0}
    here: dict[str, Any] = {"name": "x", "connector": running, "tasks": [running]}
    [finding] = judged_connectors("http://a:1", [here])
    assert finding.status is Status.WARN and "1 task of which" in finding.said and "b:2" in finding.said
    shown = shown_progress(Progress(), silent_ms=0, limit_ms=1, runs=True)
    [finding] = judged_connectors("http://a:1,http://b:2", [here, {**here, "progress": [{"task": 0, **shown}]}])
    assert finding.status is Status.OK and finding.said.startswith("1 connector")


def test_a_task_that_fails_again_and_again_says_so_also_while_it_runs() -> None:
    restarts = TaskRestarts(RestartPolicy())
    restarts.failed(100)
    assert restarts.warning(100) is None  # once is no habit
    restarts.failed(100)
    assert restarts.warning(1_000) == "it has failed 2 times in a row, and was started again 1 s ago"
    assert restarts.warning(60_001) is None


def test_a_query_between_two_batches_is_well_and_one_whose_batch_does_not_go_on_is_not() -> None:
    clock = Hours()
    progress = QueryProgress(clock)
    place = TopicPartition("t", 0)
    ends: Any = SimpleNamespace(list_offsets=lambda *_, **__: {place: SimpleNamespace(offset=Offset(8))})
    positions = {place: Offset(6)}
    progress.look(ends, positions, Isolation.READ_COMMITTED)

    def said(*, is_active: bool, mark: int = 0) -> str | None:
        told = progress.told(positions, positions, is_active=is_active, mark=mark)
        assert told.waiting == 2
        return stalled(told, silent_ms=0, limit_ms=10_000)

    for clock.now in range(0, 1_000, 20):  # two records wait for a file to be full
        assert said(is_active=False) is None
    for clock.now in range(1_000, 2_000, 9):  # a large batch goes on, task by task
        assert said(is_active=True, mark=int(clock.now)) is None
    last = int(clock.now)
    clock.now += 11
    assert said(is_active=True, mark=last) == "2 records wait, and none has moved for 11 s"
    progress.records = 2
    assert said(is_active=True, mark=last) is None


def test_positions_of_a_source_are_the_last_ones_and_bounded() -> None:
    progress, _ = watched()
    for number in range(3 * POSITIONS_MAX):
        progress.at({"file": number}, {"byte": 1})
    progress.at({"file": 3 * POSITIONS_MAX - 1}, {"byte": 2})
    position = progress.told(0).position
    assert len(position) == POSITIONS_MAX
    assert position[-1] == {"partition": {"file": 3 * POSITIONS_MAX - 1}, "offset": {"byte": 2}}


def test_progress_survives_the_control_channel() -> None:
    told = Progress(
        3, 5, 1, 2, 4, "put: no", 6, [{"partition": {}, "offset": {"n": 1}}], {"lsn": 9}, ["a.b is refused"]
    )
    assert Progress.of_message(told.to_message()) == told


def test_metrics_say_the_age_of_the_oldest_record_that_waits() -> None:
    shown = shown_progress(Progress(waiting=2, oldest_waiting_ms=1_000), silent_ms=7, limit_ms=0, runs=True)
    found = progress_metrics(shown, now_ms=61_000)
    assert (found["waiting-records"], found["oldest-waiting-age-ms"], found["stalled"]) == (2.0, 60_000.0, 0.0)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The broker of the worker."""
    overrides = ["group.initial.rebalance.delay.ms=0"]
    with running_server(tmp_path_factory.mktemp("broker"), overrides=overrides) as running:
        yield running


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory, server: Server) -> Iterator[WholeWorker]:
    """A worker that warns early, with connectors that do nothing and two that do what they should."""
    folder = tmp_path_factory.mktemp("worker")
    (folder / "stuck_plugins.py").write_text(STUCK)
    (folder / "stuck_tasks.py").write_text(
        STUCK
    )  # the threads of tasks are in this process, where a name is taken once
    (folder / "in").write_text("one\ntwo\n")
    settings = {
        "ottla.http.listeners": "http://127.0.0.1:0",
        "plugin.path": str(folder / "stuck_plugins.py"),
        "ottla.task.stall.ms": str(LIMIT_MS),
        "value.converter": TEXT,
        "task.shutdown.graceful.timeout.ms": "3000",
    }
    jobs = ThreadJobs(plugins=discover([folder / "stuck_tasks.py"], more=INSTALLED))
    with running_connect(folder, server.bootstrap, jobs=jobs, **settings) as running:
        file = {"tasks.max": "1", "file": str(folder / "in")}
        running.create("idle", {**file, "connector.class": "FileStreamSource", "topic": "lines"})
        until(lambda: told(running, "idle").get("records") == 2, lambda: told(running, "idle"))
        sink = {"tasks.max": "1", "connector.class": "FileStreamSink", "file": str(folder / "out"), "topics": "lines"}
        running.create("well", sink)
        running.create("full", {"tasks.max": "1", "connector.class": "FullSink", "topics": "lines"})
        running.create("deaf", {"tasks.max": "1", "connector.class": "DeafSource"})
        running.create("away", {"tasks.max": "1", "connector.class": "AwaySource"})
        yield running


def told(worker: WholeWorker, name: str) -> dict[str, Any]:
    status, body = worker.ask("GET", f"/connectors/{name}/status")
    return dict(next(iter(body.get("progress", ())), {})) if status == 200 else {}


@pytest.mark.parametrize(
    ("name", "words"),
    [("full", "put: the disk is full"), ("deaf", "in one call"), ("away", "source: the publication does not exist")],
)
def test_a_running_connector_that_does_nothing_says_so_in_its_status_and_metrics(
    worker: WholeWorker, name: str, words: str
) -> None:
    until(lambda: words in (told(worker, name).get("stalled") or ""), lambda: told(worker, name))
    assert worker.states(name) == ("RUNNING", "RUNNING")
    assert f'kafka_connect_connector_task_stalled{{connector="{name}",task="0"}} 1.0' in page(worker)


def test_a_sink_says_what_waits_how_old_it_is_and_what_it_has_committed(worker: WholeWorker) -> None:
    until(lambda: told(worker, "full").get("waiting") == 2, lambda: told(worker, "full"))
    assert told(worker, "full")["oldest_waiting_ms"] > 1_600_000_000_000
    until(lambda: told(worker, "well").get("records") == 2, lambda: told(worker, "well"))
    place = {"kafka_topic": "lines", "kafka_partition": 0}
    behind = [{"partition": place, "offset": {"kafka_offset": 2}}]
    until(lambda: told(worker, "well")["position"] == behind, lambda: told(worker, "well"))
    assert told(worker, "well")["waiting"] == 0


def test_a_source_says_where_it_is_and_stays_healthy_with_nothing_to_tell(worker: WholeWorker) -> None:
    until(lambda: told(worker, "idle").get("records") == 2, lambda: told(worker, "idle"))
    until(lambda: words_of(worker, "full"))  # more than the limit has passed, for everybody
    found = told(worker, "idle")
    assert [each["offset"] for each in found["position"]] == [{"position": 8}]
    assert (found["waiting"], found["stalled"], told(worker, "well")["stalled"]) == (0, None, None)
    assert told(worker, "away")["source"] == {"lsn": 7, "behind_bytes": 3}


def words_of(worker: WholeWorker, name: str) -> str | None:
    found = told(worker, name).get("stalled")
    return None if found is None else str(found)


def test_the_doctor_names_each_task_that_stands_still_and_no_other(worker: WholeWorker) -> None:
    for name in ("full", "deaf", "away"):
        until(lambda name=name: words_of(worker, name), lambda name=name: told(worker, name))
    found = worker_checks([Worker(worker.url)])
    assert {each.status for each in found} == {Status.WARN}
    assert sorted(each.said.split()[3] for each in found) == ["away", "deaf", "full"]


def test_the_doctor_says_failed_connectors_and_a_worker_that_is_not_there() -> None:
    state = {"state": "FAILED", "worker_id": "a:1"}
    [finding] = judged_connectors("http://a:1", [{"name": "x", "connector": state, "tasks": []}])
    assert finding.status is Status.FAIL
    [finding] = worker_checks([Worker("http://127.0.0.1:1")])
    assert "does not answer" in finding.said


def test_what_a_source_says_in_no_json_is_told_as_text_and_is_not_the_end_of_its_task(worker: WholeWorker) -> None:
    worker.create("chatty", {"tasks.max": "1", "connector.class": "ChattySource"})
    worker.create("wrong", {"tasks.max": "1", "connector.class": "WrongSource"})
    for name in ("chatty", "wrong"):
        worker.until(name, "RUNNING", "RUNNING")
        until(lambda name=name: told(worker, name), lambda name=name: worker.ask("GET", f"/connectors/{name}/status"))
    found = told(worker, "chatty")
    assert found["warnings"] == ["one table is refused"]
    assert found["source"] == {"lag": "nan", "key": "b'ab'", "at": "<class 'object'>", "1": [2, "{3}"]}
    assert told(worker, "wrong")["source"] == {}
    for name in ("chatty", "wrong"):
        worker.ask("DELETE", f"/connectors/{name}")


def test_a_paused_connector_does_not_stand_still(worker: WholeWorker) -> None:
    worker.create("rests", {"tasks.max": "1", "connector.class": "AwaySource"})
    until(lambda: words_of(worker, "rests"), lambda: told(worker, "rests"))
    assert worker.ask("PUT", "/connectors/rests/pause")[0] == 202
    worker.until("rests", "PAUSED", "PAUSED")
    assert told(worker, "rests")["stalled"] is None
    worker.ask("DELETE", "/connectors/rests")


def test_no_login_is_shown_of_what_a_task_tells() -> None:
    """Who may see a status is not who may see the configuration's passwords; traces are without them, too."""
    login = "postgresql://u:hunter2@h/db"
    said = Progress(trouble=f"poll: {login} password=hunter2", trouble_ms=9_000, source={"of": [{"url": login}]})
    said = replace(said, warnings=[f"{login} refuses"], position=[{"partition": {"at": login}, "offset": {"n": 1}}])
    task = TaskId("x", 0)
    state = StatusState(Map({each: TaskStatus(each, State.RUNNING, "a:1", 1) for each in ("x", task)}))
    more = ["runs again: password=hunter2"]
    view = View(ConfigState(), state, {task: shown_progress(said, silent_ms=0, limit_ms=1, runs=True, more=more)})
    shown = connector_status(view, "x", discover([]))["progress"][0]
    assert "hunter2" not in str(shown)
    assert shown["stalled"].startswith("it has tried in vain for 9 s: poll: postgresql://")
    assert (shown["position"][0]["offset"], shown["told_ms_ago"]) == ({"n": 1}, 0)


def test_a_connector_that_goes_on_after_a_pause_does_not_stand_still_at_once(worker: WholeWorker) -> None:
    worker.create("pauses", {"tasks.max": "1", "connector.class": "AwaySource"})
    until(lambda: words_of(worker, "pauses"), lambda: told(worker, "pauses"))
    assert worker.ask("PUT", "/connectors/pauses/pause")[0] == 202
    worker.until("pauses", "PAUSED", "PAUSED")
    assert worker.ask("PUT", "/connectors/pauses/resume")[0] == 202
    worker.until("pauses", "RUNNING", "RUNNING")
    assert words_of(worker, "pauses") is None
    worker.ask("DELETE", "/connectors/pauses")


def test_a_sink_whose_partitions_are_gone_does_not_try_in_vain_any_more(worker: WholeWorker, server: Server) -> None:
    file = {"tasks.max": "1", "file": str(Path(__file__)), "topic": "passing"}
    worker.create("fills", {**file, "connector.class": "FileStreamSource"})
    until(lambda: told(worker, "fills").get("records"), lambda: told(worker, "fills"))
    worker.ask("DELETE", "/connectors/fills")
    soon = {"consumer.override.metadata.max.age.ms": "200"}
    worker.create("passes", {"tasks.max": "1", "connector.class": "FullSink", "topics": "passing", **soon})
    until(lambda: told(worker, "passes").get("trouble"), lambda: told(worker, "passes"))
    with BlockingClient(server.bootstrap, client_id="deletes") as client:
        assert delete_topics(client, ["passing"]) == {"passing": None}
    until(lambda: told(worker, "passes")["trouble"] is None, lambda: told(worker, "passes"))
    worker.ask("DELETE", "/connectors/passes")


def test_a_source_whose_offsets_are_not_stored_says_so_until_they_are() -> None:
    def store(_: object) -> None:
        if refusals:
            raise ConnectError(refusals.pop())

    refusals, calls = (
        ["the topic is not writable"],
        SimpleNamespace(take_outcomes=lambda: None, commit=lambda: None, commit_record=None, now=Hours()),
    )
    port, metrics = SimpleNamespace(store_offsets=store), SimpleNamespace(committed=lambda *_, **__: None)
    settings = SimpleNamespace(flush_interval_ms=1_000)
    offsets = AtLeastOnce(port, SimpleNamespace(), settings, metrics, calls)  # type: ignore[arg-type]
    offsets.submit(None, {"file": "a"}, {"position": 1}, count=0)
    offsets.commit()
    assert offsets.trouble == "the topic is not writable"
    offsets.commit()
    assert offsets.trouble is None


def test_the_statuses_of_all_connectors_look_through_the_tasks_once() -> None:
    """Each looked through all: 5,000 connectors held the worker's loop, and so its heartbeats, for six seconds."""

    class Counted(dict[str | TaskId, TaskStatus]):
        looked = 0

        def items(self) -> Any:
            self.looked += 1
            return super().items()

    of = [each for name in "abc" for each in (name, TaskId(name, 1), TaskId(name, 0))]
    counted = Counted({each: TaskStatus(each, State.RUNNING, "a:1", 1) for each in of})
    view = View(ConfigState(), StatusState(counted))  # type: ignore[arg-type]
    shown = [connector_status(view, name, discover([])) for name in "abc"]
    assert [[task["id"] for task in each["tasks"]] for each in shown] == [[0, 1]] * 3
    assert counted.looked == 1


def test_the_doctor_does_not_call_connectors_well_that_nobody_runs_or_that_have_no_task() -> None:
    def status(name: str, state: str, *tasks: str) -> dict[str, Any]:
        of = [{"id": number, "state": each, "worker_id": "a:1"} for number, each in enumerate(tasks)]
        told = [{"task": number} for number in range(len(tasks))]
        return {"name": name, "connector": {"state": state, "worker_id": "a:1"}, "tasks": of, "progress": told}

    gone = [status("a", "RUNNING", "RUNNING", "UNASSIGNED"), status("b", "UNASSIGNED"), status("c", "RUNNING")]
    rests = [status("d", "STOPPED"), status("e", "PAUSED", "PAUSED"), status("f", "RUNNING", "RUNNING")]
    nobody, without = judged_connectors("http://a:1", [*gone, *rests], ["a", "z"])
    assert nobody.said == "3 connectors of which a part is run by nobody: a, b, z"
    assert without.said == "1 connector without a task, so that nothing moves: c"
    assert [each.status for each in judged_connectors("http://a:1", rests)] == [Status.OK]
    silent = {**status("g", "RUNNING"), "no_tasks": "enabled is false"}
    elsewhere = status("g", "RUNNING")  # what a worker says that has not got it
    for told in ([silent], [elsewhere, silent], [silent, elsewhere]):
        well, idle = judged_connectors("http://a:1", told)
        assert (well.status, idle.status) == (Status.OK, Status.OK)
        assert idle.said == "g has no task, and needs none: enabled is false"
    assert judged_connectors("http://a:1", [elsewhere])[0].status is Status.WARN


def test_the_age_of_what_waits_is_that_of_the_oldest_that_is_not_settled_also_where_something_always_waits() -> None:
    """It was counted from the last moment in which nothing was held: a busy source's grew for ever."""
    held = HeldSince()
    assert held.oldest_ms(0) is None
    for poll in range(1, 100):
        held.polled(1_000 * poll)
        held.sent(10 * poll, 10 * poll - 15)
        assert held.oldest_ms(10 * poll - 15) == 1_000 * max(poll - 1, 1)
    held.polled(100_000)
    assert (held.oldest_ms(985), held.oldest_ms(990)) == (99_000, 100_000)
