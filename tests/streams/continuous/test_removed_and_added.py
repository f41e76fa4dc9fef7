"""An application that is removed and added again under its name: nothing of the old one is taken for the new one."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from ottla.base import ErrorCode, KafkaError, Offset, TopicPartition
from ottla.client import Client, ConsumerGroupMetadata, NewTopic, commit_offsets, create_topics
from ottla.connect.tasks import Dial, RemotePort
from ottla.spark.continuous.host import STOP, Host, HostSpec, Orders
from ottla.spark.continuous.plan import ApplicationPlan, application_plan
from ottla.spark.continuous.service import HostService
from ottla.spark.private_api.workers import pickled
from ottla.streams import PartitionPlan, StreamsBuilder, StreamsSettings, StreamsWork
from ottla.wire import ApiKey
from tests.broker.node_client import run
from tests.streams.continuous.gates import Gate, node_behind_a_gate
from tests.streams.continuous.test_lane_orders import feed_into, results_of
from tests.waiting import until, until_async

APPLICATION, IN = "app", TopicPartition("in", 0)
WORK = StreamsWork(APPLICATION, 0, 0)
WRITER = f"{APPLICATION}-host-0-writer"


def plan_of(bootstrap: str, guarantee: str) -> ApplicationPlan:
    """An application that copies `in`, of one partition, to `out`."""
    builder = StreamsBuilder(default_key_serde="string", default_value_serde="string")
    builder.stream("in").map_values(str.upper).to("out")
    settings = {
        "application.id": APPLICATION,
        "bootstrap.servers": bootstrap,
        "processing.guarantee": guarantee,
        "commit.interval.ms": 20,
        "execution": "continuous",
    }
    counts = {"in": 1, "out": 2}
    return application_plan(builder.build(), StreamsSettings.of(settings), PartitionPlan({"in": 1}, {}), counts)


class HeardPort:
    """A `HostPort` that notes what a host tells."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Mapping[str, Any]]] = []

    def note(self, op: str, /, **facts: Any) -> None:
        """See `HostPort`."""
        self.told.append((op, facts))

    def confirm(self) -> None:
        """See `HostPort`."""

    def of(self, *kinds: str) -> list[tuple[str, int]]:
        """Return the notes of these kinds about the application, with its life."""
        return [(op, facts["lives"][APPLICATION]) for op, facts in self.told if op in kinds]


async def prepared(gate: Gate) -> tuple[Client, ApplicationPlan]:
    """Make the application's topics, commit that it begins at 0; return a client and its plan, both behind the gate."""
    address = f"127.0.0.1:{gate.port}"
    client = Client(address)
    await create_topics(client, [NewTopic("in", 1), NewTopic("out", 2)])
    await commit_offsets(client, APPLICATION, {IN: Offset(0)})
    return client, plan_of(address, "exactly_once_v2")


def order_of(plan: ApplicationPlan, life: int) -> dict[str, Any]:
    state = {"paused": False, "draining": False, "life": life}
    return {"order": "application", "name": APPLICATION, "plan": pickled(plan), "member": ["", -1], **state}


def test_the_new_one_begins_behind_what_the_old_one_was_committing(tmp_path: Path) -> None:
    """Its lane ends with the old one, and the new one's has the same transactional id."""

    async def test() -> None:
        async with node_behind_a_gate(tmp_path) as (_, gate):
            client, plan = await prepared(gate)
            port, orders = HeardPort(), Orders()
            host = asyncio.create_task(Host(HostSpec("service", 0), port, orders).run())
            try:
                for each in (order_of(plan, 1), {"order": "assign", "works": [list(WORK)], "number": 1}):
                    orders.put(each)
                await until_async(lambda: port.of("running") == [("running", 1)])
                gate.shut_for(int(ApiKey.TXN_OFFSET_COMMIT), WRITER)
                await feed_into(client, IN, b"a", b"b")
                await until_async(lambda: gate.waiting > 0)
                orders.put({"order": "forget", "application": APPLICATION})
                for each in (order_of(plan, 2), {"order": "assign", "works": [list(WORK)], "number": 2}):
                    orders.put(each)
                for _ in range(50):  # more turns of the broker than a work's beginning takes
                    await client.metadata()
                assert port.of("running") == [("running", 1)]
                gate.open()
                await until_async(lambda: port.of("running") == [("running", 1), ("running", 2)])
                await feed_into(client, IN, b"c")
                found: list[bytes] = []
                while len(found) < 3:
                    found = await results_of(client)
                orders.put({"order": "revoke", "works": [list(WORK)]})
                await until_async(lambda: port.of("released", "failed") == [("released", 2)])
                assert sorted(await results_of(client)) == [b"A", b"B", b"C"]
            finally:
                gate.open()
                orders.put(STOP)
                await host
                await client.close()

    run(test)


def test_one_that_comes_and_goes_and_comes_within_a_turn_of_its_host_runs(tmp_path: Path) -> None:
    """Two lanes have its transactional id then, of which neither has begun."""

    async def test() -> None:
        async with node_behind_a_gate(tmp_path) as (_, gate):
            client, plan = await prepared(gate)
            port, orders = HeardPort(), Orders()
            assign = {"order": "assign", "works": [list(WORK)], "number": 1}
            for each in (
                *(order_of(plan, 1), assign, {"order": "forget", "application": APPLICATION}),
                *(order_of(plan, 2), assign),
            ):
                orders.put(each)
            host = asyncio.create_task(Host(HostSpec("service", 0), port, orders).run())
            try:
                await until_async(lambda: port.of("running") == [("running", 2)])
            finally:
                orders.put(STOP)
                if port.of("running"):
                    await host
                await client.close()

    run(test)


class SaidJobs:
    """Hosts that say what the test has them say, and do nothing (`HostJobs`)."""

    def __init__(self) -> None:
        self.is_local, self.slots = True, 4
        self.orders: list[Mapping[str, Any]] = []
        self.ports: list[RemotePort[HostSpec]] = []
        self._ended = threading.Event()

    def run(self, dial: Dial, name: str) -> str | None:
        """Be a host that takes orders until it is cancelled, or told to stop."""

        def heard(order: Mapping[str, Any]) -> None:
            self.orders.append(order)
            if order["order"] == "stop":
                self._ended.set()

        self._ended = ended = threading.Event()
        port = RemotePort(dial, read_spec=HostSpec.of_message, on_order=heard)
        self.ports.append(port)
        port.note("ready", {"pid": os.getpid()})
        ended.wait()
        port.close()
        return None

    def cancel(self, dial: Dial | None = None) -> None:
        """End it."""
        self._ended.set()

    def lives(self) -> list[int]:
        """Return the lives of the application that were told."""
        return [each["life"] for each in self.orders if each["order"] == "application"]

    def assigned(self) -> list[list[Any]]:
        """Return the works that were given, one list for each order."""
        return [each["works"] for each in self.orders if each["order"] == "assign"]


@pytest.fixture
def service() -> Iterator[tuple[HostService, SaidJobs]]:
    jobs = SaidJobs()
    made = HostService("service", jobs)
    made.start()
    yield made, jobs
    made.close()


def told(jobs: SaidJobs, op: str, life: int, *, given: int, **more: Any) -> None:
    """Have the host say something about its work, as it was given by an order."""
    facts = {"works": [list(WORK)], "given": [given], "lives": {APPLICATION: life}, **more}
    jobs.ports[0].note(op, facts)


def test_what_a_host_says_late_about_the_old_one_is_not_taken_for_the_new_one(
    service: tuple[HostService, SaidJobs],
) -> None:
    hosts, jobs = service
    plan = plan_of("127.0.0.1:1", "at_least_once")
    member = ConsumerGroupMetadata(APPLICATION, "", -1)
    hosts.add(plan, member)
    until(lambda: len(jobs.assigned()) == 1)
    assert not hosts.remove(APPLICATION, 0.0)
    hosts.add(plan, member)
    until(lambda: len(jobs.assigned()) == 2)
    old, new = jobs.lives()
    told(jobs, "released", old, given=1)
    told(jobs, "failed", old, given=1, application=APPLICATION, details="of the old one")
    told(jobs, "running", new, given=2)
    until(lambda: hosts.fate(APPLICATION).works[WORK].is_running)
    fate = hosts.fate(APPLICATION)
    assert not fate.is_parked and not fate.failures and len(jobs.assigned()) == 2


def test_a_work_that_was_given_again_is_not_let_go_by_a_note_from_before(
    service: tuple[HostService, SaidJobs],
) -> None:
    hosts, jobs = service
    hosts.add(plan_of("127.0.0.1:1", "at_least_once"), ConsumerGroupMetadata(APPLICATION, "", -1))
    until(lambda: len(jobs.assigned()) == 1)
    [life] = jobs.lives()
    told(jobs, "failed", life, given=1, application=APPLICATION, details="it failed, and then was told to let go")
    until(lambda: hosts.fate(APPLICATION).is_parked and hosts.has_let_go(APPLICATION))
    hosts.resume(APPLICATION)
    until(lambda: len(jobs.assigned()) == 2)
    told(jobs, "released", life, given=1)
    told(jobs, "running", life, given=2)
    until(lambda: hosts.fate(APPLICATION).works[WORK].is_running)
    assert len(jobs.assigned()) == 2 and not hosts.has_let_go(APPLICATION)


class Renewals:
    """A driver's place in its group, which has as many generations as are asked for."""

    def __init__(self, *answers: KafkaError | None) -> None:
        self.generation, self._answers = 1, list(answers)

    async def __call__(self) -> ConsumerGroupMetadata:
        """Begin another, or raise what was given."""
        if (error := self._answers.pop(0) if self._answers else None) is not None:
            raise error
        self.generation += 1
        return ConsumerGroupMetadata(APPLICATION, "driver", self.generation)


def test_what_a_lost_host_had_is_given_on_under_another_generation_of_the_driver(
    service: tuple[HostService, SaidJobs], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.spark.continuous.fencing.BETWEEN_SECONDS", 0.0)
    hosts, jobs = service
    renew = Renewals(KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the group's coordinator is away"))
    plan = plan_of("127.0.0.1:1", "at_least_once")
    hosts.add(plan, ConsumerGroupMetadata(APPLICATION, "driver", 1), renew)
    until(lambda: len(jobs.assigned()) == 1)
    jobs.cancel()  # the line is cut: the host itself may live on
    until(lambda: len(jobs.assigned()) == 2)
    members = [each["member"] for each in jobs.orders if each["order"] == "application"]
    assert members == [["driver", 1], ["driver", 2]] and renew.generation == 2


def test_a_host_that_comes_back_hears_that_an_application_is_drained(service: tuple[HostService, SaidJobs]) -> None:
    hosts, jobs = service
    hosts.add(plan_of("127.0.0.1:1", "at_least_once"), ConsumerGroupMetadata(APPLICATION, "", -1))
    until(lambda: len(jobs.assigned()) == 1)
    hosts.drain(APPLICATION)
    until(lambda: jobs.orders[-1]["order"] == "drain")
    jobs.ports[0].note("ready", {"pid": os.getpid()})  # another life of the host, as the driver sees it
    until(lambda: len(jobs.assigned()) == 2)
    assert [each["draining"] for each in jobs.orders if each["order"] == "application"] == [False, True]
