"""What the machine has shown, each by itself."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.client import GroupMember, JoinedMember
from ottla.connect import ConnectError, TaskStart
from ottla.connect.assignment import Assignment, GroupProtocol, WorkerState, decode_assignment, encode_worker_state
from ottla.connect.decisions import create_or_replace
from ottla.connect.distributed.config_store import ConfigStore
from ottla.connect.distributed.leading import Leading
from ottla.connect.distributed.local_work import LocalWork
from ottla.connect.distributed.status_store import StatusStore
from ottla.connect.distributed.stores_under_way import SECONDS_MAX, StoresUnderWay
from ottla.connect.storage import (
    ConfigState,
    ConnectorConfig,
    State,
    Status,
    TargetState,
    TargetStateChange,
    TaskConfig,
    TaskId,
    TasksCommit,
    apply_config,
    encode_config,
    encode_status,
)
from tests.connect.machine.cluster import Door, KafkaModel
from tests.connect.machine.ledger import Ledger
from tests.connect.machine.loop import own_clock
from tests.connect.machine.tasks import OUT
from tests.connect.machine.workers import SETTINGS, Place, Worker, ask
from tests.connect.machine.world import World
from tests.sim.loop import SimLoop

TASK = TaskId("a", 0)


def in_model(test: Any, loop: SimLoop | None = None) -> None:
    """Run a test in virtual time with a cluster that loses nothing."""
    loop = loop or SimLoop()
    asyncio.set_event_loop(loop)
    kafka = KafkaModel(loop, random.Random(1))
    kafka.is_troubled = False
    try:
        with own_clock(loop):
            loop.run_until_complete(test(kafka))
    finally:
        asyncio.set_event_loop(None)
        loop.close()


async def statuses(kafka: KafkaModel) -> StatusStore:
    """Return a worker's statuses, followed."""
    store = StatusStore(SETTINGS.status_topic, lambda _: Door(kafka, lambda: False), print)  # type: ignore[arg-type, return-value]
    await store.start()
    return store


@pytest.mark.parametrize(("late", "generation"), [(State.UNASSIGNED, -1), (State.UNASSIGNED, 9), (State.DESTROYED, -1)])
def test_what_a_worker_that_was_taken_for_dead_says_late_does_not_stand(late: State, generation: int) -> None:
    async def test(kafka: KafkaModel) -> None:
        mine, theirs = await statuses(kafka), await statuses(kafka)
        for of in ("a", TASK):
            mine.put(Status(of, State.PAUSED, "mine", 7))
        await mine.flush(5)
        theirs.put(Status("a", late, "theirs", generation))
        await theirs.flush(5)
        await asyncio.sleep(10)
        for store in (mine, theirs):
            found = store.state.statuses
            assert [(found[of].state, found[of].worker_id) for of in ("a", TASK)] == [(State.PAUSED, "mine")] * 2
        mine.put(Status("a", State.UNASSIGNED, "mine", 7))
        await mine.flush(5)
        theirs.put(Status("a", State.RUNNING, "theirs", 6))  # what was given up is not said again
        await theirs.flush(5)
        await asyncio.sleep(10)
        assert mine.state.statuses["a"].state is State.RUNNING
        await mine.close()
        await theirs.close()

    in_model(test)


def folded(*records: Any) -> ConfigState:
    state = ConfigState()
    for at, record in enumerate(records):
        key, value = encode_config(record)
        state, _ = apply_config(state, key, value, at)
    return state


def test_a_pause_that_has_crossed_a_deletion_does_not_pause_the_next_connector_of_that_name() -> None:
    state = folded(
        ConnectorConfig("a", {"x": "1"}),
        ConnectorConfig("a", None),
        TargetStateChange("a", None),
        TargetStateChange("a", TargetState.PAUSED),
    )
    change = create_or_replace(state, "a", {"x": "2"}, target=None, may_replace=True)
    assert change.created and change.records[0] == TargetStateChange("a", TargetState.STARTED)
    there = folded(ConnectorConfig("a", {"x": "1"}), TargetStateChange("a", TargetState.PAUSED))
    assert len(create_or_replace(there, "a", {"x": "2"}, target=None, may_replace=True).records) == 1


class _Runner:
    def __init__(self) -> None:
        self.started: list[TaskStart] = []

    async def start(self, tasks: Sequence[TaskStart]) -> None:
        self.started += tasks

    async def stop(self, tasks: Collection[TaskId]) -> None: ...

    async def pause_or_resume(self, tasks: Collection[TaskId], target: TargetState) -> None: ...


ONE_TASK = (ConnectorConfig("a", {"x": "1"}), TaskConfig(TASK, {"n": "1"}), TasksCommit("a", 1))


def local_work(
    runner: _Runner,
    told: list[Status],
    fence: Any,
    current: Callable[[], ConfigState],
    storing: StoresUnderWay | None = None,
) -> LocalWork:

    async def remove(name: str) -> None: ...

    hosting: Any = SimpleNamespace(
        connectors=SimpleNamespace(remove=remove),
        is_sink=lambda config: False,
        task_starts=lambda state, tasks, generation: [
            TaskStart(each, {}, {}, TargetState.STARTED, generation) for each in tasks
        ],
    )

    return LocalWork(
        replace(SETTINGS, exactly_once="enabled"),
        hosting,
        runner,
        worker_id="mine",
        current=current,
        tell=told.append,
        fence=fence,
        started=lambda name: None,
        offsets_topic=lambda state, name: "offsets",
        stored=(storing or StoresUnderWay()).ended,
    )


def test_a_task_whose_leader_goes_while_it_is_asked_for_a_fence_starts_behind_the_next_one() -> None:
    async def test(kafka: KafkaModel) -> None:
        asked: list[str] = []
        told: list[Status] = []

        async def fence(name: str) -> None:
            asked.append(name)
            if len(asked) < 3:
                raise ConnectError("The leader at http://w2:80/ cannot be asked: refused")

        runner = _Runner()
        work = local_work(runner, told, fence, lambda: folded(*ONE_TASK))
        await work.start_tasks([TASK], 1)
        await asyncio.sleep(30)
        assert [each.task for each in runner.started] == [TASK] and len(asked) == 3
        assert [(each.state, "cannot be asked" in (each.trace or "")) for each in told] == [(State.FAILED, True)] * 2

    in_model(test)


def test_a_task_that_is_stopped_between_two_fences_asks_for_none_and_does_not_start() -> None:
    async def test(kafka: KafkaModel) -> None:
        asked: list[str] = []

        async def fence(name: str) -> None:
            asked.append(name)
            raise ConnectError("nobody answers")

        runner = _Runner()
        work = local_work(runner, [], fence, lambda: folded(*ONE_TASK))
        await work.start_tasks([TASK], 1)
        await asyncio.sleep(1)
        await work.stop_tasks([TASK])
        count = len(asked)
        await asyncio.sleep(100)
        assert not runner.started and len(asked) == count

    in_model(test)


def test_a_configuration_topic_that_is_not_read_in_time_is_told_as_that() -> None:
    async def test(kafka: KafkaModel) -> None:
        cut: list[bool] = []
        configs = ConfigStore(SETTINGS, lambda _: Door(kafka, lambda: bool(cut)), lambda change: None, print)  # type: ignore[arg-type, return-value]
        await configs.start()
        await configs.read(3, before="modifying offsets")
        cut.append(True)
        with pytest.raises(ConnectError, match="Failed to read to end of config topic before modifying offsets: timed"):
            await configs.read(3, before="modifying offsets")
        await configs.close()

    in_model(test)


def test_a_connector_that_is_deleted_before_it_starts_is_begun_when_it_is_made_again() -> None:
    """It was taken for one that runs: the next one of its name had a connector that was never asked for tasks."""

    async def test(kafka: KafkaModel) -> None:
        told: list[Status] = []

        async def fence(name: str) -> None: ...

        work = local_work(_Runner(), told, fence, lambda: folded(*ONE_TASK))
        await work.launch("gone", 3)
        assert not work.connectors
        assert told == [Status("gone", State.UNASSIGNED, "mine", 3)]

    in_model(test)


def test_a_new_leader_takes_away_what_was_deleted_while_the_one_before_went() -> None:
    """It knew nothing of what others had been given: the connector, or a task of one that has fewer now, ran on for ever."""
    theirs = Assignment("gone", "http://gone/", 3, ("a", "b"), (TASK, TaskId("a", 1), TaskId("b", 0)))
    states = {"new": WorkerState("http://new/", 9), "other": WorkerState("http://other/", 9, theirs)}
    state = folded(*ONE_TASK)
    found = Leading(0).assignments(
        GroupProtocol.SESSIONED,
        [JoinedMember(each, encode_worker_state(states[each], GroupProtocol.SESSIONED)) for each in states],
        replace(state, offset=9),
        leader="new",
        last_generation=-1,
        generation=8,
        now_ms=0,
    )
    given = {member: decode_assignment(each) for member, each in found.items()}
    assert given["other"] is not None and given["new"] is not None
    assert given["other"].revoked_connectors == ("b",)
    assert set(given["other"].revoked_tasks) == {TaskId("a", 1), TaskId("b", 0)}
    assert not (given["new"].revoked_connectors or given["new"].revoked_tasks)


@pytest.mark.parametrize("is_fenced", [False, True])
def test_a_task_that_has_not_begun_and_is_configured_no_more_is_told_as_unassigned(is_fenced: bool) -> None:
    """Its runner did not know it and told nothing: it was shown as RESTARTING, or FAILED, for ever."""

    async def test(kafka: KafkaModel) -> None:
        told: list[Status] = []
        states = [folded(*ONE_TASK)]

        async def fence(name: str) -> None:
            if not is_fenced:
                await asyncio.sleep(100)

        class Full(_Runner):
            async def start(self, tasks: Sequence[TaskStart]) -> None:
                raise ConnectError("no slot")

        work = local_work(Full(), told, fence, lambda: states[-1])
        await work.start_tasks([TASK], 1)
        await asyncio.sleep(1)
        states.append(folded(*ONE_TASK, TaskConfig(TASK, {"n": "2"}), TasksCommit("a", 1), TasksCommit("a", 0)))
        await work.stop_stale({"a"}, 2)
        assert not work.tasks and told[-1] == Status(TASK, State.UNASSIGNED, "mine", 2)
        await work.close()

    in_model(test)


class _LateLoop(SimLoop):
    """Calls in threads take a moment; what a connector of the first round says of its tasks comes five seconds late."""

    def run_in_executor(self, executor: object, func: Any, *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        answer: asyncio.Future[Any] = self.create_future()
        called = func.args[0] if func.args else None
        is_late = getattr(called, "__name__", "") == "task_configs" and called.__self__.props["round"] == "1"
        found = func(*args)
        self.call_later(5 if is_late else 0.001, answer.set_result, found)
        return answer


def test_what_a_connector_has_said_first_of_its_tasks_is_not_written_last() -> None:
    """Its old tasks came back behind those of its new configuration, and stayed."""

    async def test(kafka: KafkaModel) -> None:
        loop = kafka.loop
        ledger = Ledger(loop.time, exactly_once=False, offsets_topic=SETTINGS.offset_topic.name, out=OUT)
        kafka.told = ledger.told
        kafka.add_topic(OUT)
        place = Place(loop, kafka, ledger)
        worker = Worker(place, "w1", SETTINGS)
        place.workers[worker.worker_id] = worker
        worker.process.spawn(worker.start())
        await asyncio.sleep(10)
        config = {"connector.class": "tests.Numbers", "tasks.max": "2", "tasks": "1"}
        for round_ in ("1", "2"):
            answer = await ask(place, worker, "PUT", "/connectors/a/config", {**config, "round": round_})
            assert answer is not None and answer.status < 300, answer
            await asyncio.sleep(1)
        for _ in range(2):
            assert [each["round"] for each in ledger.config.task_configs.values()] == ["2"]
            await asyncio.sleep(10)
        worker.kill()
        worker.process.bury()

    in_model(test, _LateLoop())


@pytest.mark.parametrize("is_troubled", [True, False])
def test_the_tasks_of_a_worker_that_lost_all_heartbeats_of_a_session_are_excused(is_troubled: bool) -> None:
    """The group gives them to others before it can know; where no request is lost that would be a fault."""
    world = World(1)
    world.ledger.exactly_once, world.kafka.is_troubled = False, is_troubled
    for name in ("w1", "w2"):
        group = SimpleNamespace(member=SimpleNamespace(member_id=f"member of {name}"))
        alive: Any = SimpleNamespace(
            name=name, worker_id=f"{name}:80", process=SimpleNamespace(alive=True), herder=SimpleNamespace(group=group)
        )
        world.place.workers[alive.worker_id] = alive
    lives = [world.ledger.begin(TaskId("a", number), f"w{number}:80", 1) for number in (1, 2)]
    world.kafka.expelled("member of w1")
    assert [each.is_excused for each in lives] == [is_troubled, False]
    world.loop.close()


def test_the_model_tells_whose_session_is_over() -> None:
    async def test(kafka: KafkaModel) -> None:
        expelled: list[str] = []
        kafka.expelled = expelled.append
        door: Any = Door(kafka, lambda: False)
        member = GroupMember(
            door,
            "connect-cluster",
            protocol_type="connect",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=60_000,
            heartbeat_interval_ms=3_000,
        )
        while await member.join([("p", b"")], lambda *_: {}) is None:
            continue
        await asyncio.sleep(9)
        assert not expelled
        await asyncio.sleep(2)
        assert expelled == [member.member_id]
        await member.close(leave=False)

    in_model(test)


@pytest.mark.parametrize("seconds", [4.0, 100.0])
def test_a_task_that_is_ended_while_it_stores_is_stopped_when_that_is_stored(seconds: float) -> None:
    """What was sent cannot be taken back: it came behind offsets that were reset, or that the next task had read."""

    async def test(kafka: KafkaModel) -> None:
        stored: list[float] = []
        storing = StoresUnderWay()

        async def fence(name: str) -> None: ...

        async def store() -> None:
            await asyncio.sleep(seconds)
            stored.append(kafka.loop.time())

        class Ending(_Runner):
            async def stop(self, tasks: Collection[TaskId]) -> None:
                asking.cancel()

        work = local_work(Ending(), [], fence, lambda: folded(*ONE_TASK), storing)
        await work.start_tasks([TASK], 1)
        asking = kafka.loop.create_task(storing.run("a", store()))
        await asyncio.sleep(1)
        began_s = kafka.loop.time()
        await work.stop_tasks([TASK])
        assert asking.cancelled()
        assert stored or kafka.loop.time() - began_s >= SECONDS_MAX, (
            "a broker that does not answer holds up nobody for long"
        )
        assert len(stored) == (seconds < SECONDS_MAX)
        await asyncio.sleep(100)
        await work.close()

    in_model(test)


def test_a_store_that_fails_is_told_to_whoever_asked_for_it() -> None:
    async def test(kafka: KafkaModel) -> None:
        async def store() -> None:
            await asyncio.sleep(1)
            raise ConnectError("no room")

        storing = StoresUnderWay()
        with pytest.raises(ConnectError, match="no room"):
            await storing.run("a", store())
        await storing.ended(["a"])

    in_model(test)


def test_what_was_written_before_and_is_seen_late_is_not_taken_for_going_on() -> None:
    """An older transaction of somebody's holds up what readers see, for as long as it may last."""
    ledger = Ledger(lambda: 181.0, exactly_once=True, offsets_topic=SETTINGS.offset_topic.name, out=OUT)
    life = ledger.begin(TASK, "w1:80", 1)
    record: Any = SimpleNamespace(key=b'["a", 0]', value=b'{"at": 1, "life": %d}' % life.number)
    ledger.told(OUT, record, 121.0)
    assert ledger.connector("a").written_s == 121.0 and ledger.connector("a").written == {0: 1}


def test_a_connector_that_was_given_up_is_forgotten_when_its_last_task_is_gone() -> None:
    """Its worker looked once, before it had read that: the state of what was deleted stood until the next rebalance."""

    async def test(kafka: KafkaModel) -> None:
        store = await statuses(kafka)
        looked: list[list[str | TaskId]] = []
        store.gone = lambda: looked.append(store.left_alone())
        key, value = encode_status(Status(TASK, State.RUNNING, "other", 3))
        store.apply(key.encode(), value, 0)
        store.put(Status("a", State.UNASSIGNED, "mine", -1))
        assert store.left_alone() == [] and not looked
        store.apply(key.encode(), None, 1)
        assert looked == [["a"]]
        await store.close()

    in_model(test)
