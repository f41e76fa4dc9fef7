"""Rounds of kills: each kills one thing, at a time of chance or at a named place, and ends when results come again."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ottla.admin import delete_topics
from ottla.base import OttlaError
from ottla.client import LATEST, BlockingClient, Isolation, Limits, delete_records
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.ports import free_port
from tests.server import Server, start_server
from tests.streams.kills.counting import UNREAD, Feeder, differences, feed_plainly, inputs
from tests.streams.kills.processes import Driver, Placed
from tests.waiting import until

__all__ = ["KINDS", "PLACES", "Rounds", "kills"]

PLACES = {"during init": "pid", "before EndTxn": "pid", "after EndTxn": "pid", "before Spark's own commit": "group"}
RETENTION, MADE_AGAIN = "retention", "input made again"
KINDS = ("worker", "executor", "driver", "broker", *PLACES, RETENTION, MADE_AGAIN)
WEIGHTS = (28, 8, 6, 15, 13, 13, 12, 5, 8, 8)
"""A driver that is killed takes many seconds to be there again: few of them leave time for the others."""
LOCAL, CLUSTER = "local[2,8]", "local-cluster[2,1,700]"
GO_ON_SECONDS_MAX = SETTLE_SECONDS_MAX = 180.0
TOPICS = ("in", "copied", "counted")


class Rounds:
    """An application, its broker, and what was killed so far."""

    def __init__(self, folder: Path, rng: random.Random, masters: Sequence[str], state: str) -> None:
        self._folder = folder
        self._rng = rng
        self._masters = masters
        self._state = state
        self._port = free_port()
        self._placed = Placed(folder / "failpoints")
        self.killed: Counter[str] = Counter()
        self.worst_s = 0.0
        self._broker = self._start_broker()
        self.bootstrap = self._broker.bootstrap
        self._feeder = Feeder(self.bootstrap)
        with BlockingClient(self.bootstrap) as client:
            make_topics(client, TOPICS)
        self._lost_inputs: list[tuple[str, str]] = []
        """Records that were read, and are gone from `in`."""
        self._feeder.start()
        self._driver = self._start_driver()

    def _start_broker(self) -> Server:
        quick = (
            "group.initial.rebalance.delay.ms=0",
            "group.min.session.timeout.ms=1000",
            "transaction.state.log.num.partitions=4",
            "offsets.topic.num.partitions=4",
        )
        return start_server(self._folder, port=self._port, overrides=quick)

    def _start_driver(self) -> Driver:
        driver = Driver(self.bootstrap, self._folder, self._placed, self._rng.choice(self._masters), self._state)
        try:
            driver.await_running()
        except BaseException:
            driver.end()
            raise
        return driver

    def kill(self, kind: str) -> None:
        """Kill something, start it again where nobody else does, and wait until results come."""
        if not self._driver.is_alive:
            self._driver = self._start_driver()
        self._await_results()
        if kind == "executor" and not self._driver.executors():
            kind = "worker"
        time.sleep(self._rng.random() * 0.5)
        began = time.monotonic()
        if kind in PLACES:
            self._kill_at(kind)
        else:
            self._act(kind)
        self.killed[kind] += 1
        if not self._driver.is_alive:
            self._driver = self._start_driver()
        self._await_results()
        self.worst_s = max(self.worst_s, time.monotonic() - began)

    def _lose_input(self, kind: str) -> None:
        """Take records away that were read, and with chance some that were not: the driver is dead while these come."""
        self._feeder.stop()
        self._await_even()
        self._lost_inputs += inputs(self.bootstrap)
        with BlockingClient(self.bootstrap) as client:
            if self._rng.random() < 0.7:
                self._driver.kill()
                feed_plainly(self.bootstrap, UNREAD, {each: self._rng.randint(1, 9) for each in (0, 1)})
            places = client.metadata(["in"]).partitions_of("in")
            ends = {each: found.offset for each, found in client.list_offsets(dict.fromkeys(places, LATEST)).items()}
            if kind == RETENTION:
                client.run(delete_records(client.client, ends))
            else:
                assert delete_topics(client, ["in"]) == {"in": None}
                until(lambda: "in" not in client.metadata().topics, "the topic's end", seconds=GO_ON_SECONDS_MAX)
                make_topics(client, ["in"])
                more = {place.partition: int(end) + 3 for place, end in ends.items()}  # so that the old offset is there
                feed_plainly(self.bootstrap, "again", more)
        self._feeder = Feeder(self.bootstrap, self._feeder.sent)
        self._feeder.start()

    def _act(self, kind: str) -> None:
        driver = self._driver
        if kind in (RETENTION, MADE_AGAIN):
            self._lose_input(kind)
        elif kind == "driver":
            driver.kill()
        elif kind == "broker":
            self._broker.kill()
            time.sleep(self._rng.random())
            self._broker = self._start_broker()
        else:
            find = driver.executors if kind == "executor" else driver.workers
            self._until(lambda: driver.kill_one(find(), self._rng), f"there is no {kind}")

    def _kill_at(self, place: str) -> None:
        self._placed.arm(place, PLACES[place])
        self._until(lambda: not self._placed.is_armed(place), f"nobody passes {place}")
        if PLACES[place] == "group":
            self._until(lambda: not self._driver.is_alive, "the driver lives")
            self._driver.kill()

    def _await_results(self) -> None:
        """Return when both outputs have grown."""
        before = self._ends()
        self._until(lambda: all(now > then for now, then in zip(self._ends(), before, strict=True)), "no results come")

    def _ends(self) -> tuple[int, ...]:
        try:
            with BlockingClient(self.bootstrap, limits=Limits(unreachable_s=20)) as client:
                found = []
                for topic in TOPICS[1:]:
                    partitions = client.metadata([topic]).partitions_of(topic)
                    wanted = dict.fromkeys(partitions, LATEST)
                    listed = client.list_offsets(wanted, isolation=Isolation.READ_COMMITTED)
                    found.append(sum(each.offset for each in listed.values()))
                return tuple(found)
        except OttlaError:
            return (0,) * (len(TOPICS) - 1)

    def _until(self, done: Callable[[], bool], otherwise: str) -> None:
        until = time.monotonic() + GO_ON_SECONDS_MAX
        while not done():
            if not self._driver.is_alive:  # an earlier kill that the driver did not survive
                if done():
                    return
                self._driver = self._start_driver()
            assert time.monotonic() < until, f"{otherwise}; killed so far: {dict(self.killed)}"
            time.sleep(0.05)

    def check(self) -> int:
        """Stop feeding, wait until nothing is left to do, and count; returns the input's records."""
        self._feeder.stop()
        self._placed.disarm()
        records = self._await_even()
        self._await_quiet()
        return records

    def _await_even(self) -> int:
        """Wait until every record is in the results, once; returns how many there are. Nothing is fed meanwhile."""
        until_s = time.monotonic() + SETTLE_SECONDS_MAX
        while True:
            records, wrong = differences(self.bootstrap, self._lost_inputs)
            if not wrong:
                return records
            assert time.monotonic() < until_s, f"{len(wrong)} of {records}: " + "; ".join(wrong[:20])
            if not self._driver.is_alive:
                self._driver = self._start_driver()
            time.sleep(0.5)

    def _await_quiet(self) -> None:
        """Let what might still come too much come, and look again."""
        before = self._ends()
        time.sleep(1)
        assert self._ends() == before
        records, wrong = differences(self.bootstrap, self._lost_inputs)
        assert not wrong, f"{len(wrong)} of {records}: " + "; ".join(wrong[:20])

    def close(self) -> None:
        """End everything."""
        self._feeder.stop()
        self._driver.end()
        self._broker.kill()


def make_topics(client: BlockingClient, names: Iterable[str]) -> None:
    """Make topics of two partitions; raises AssertionError where one cannot be made."""
    wanted = [CreatableTopic(name=name, num_partitions=2, replication_factor=1) for name in names]
    answer = client.request(CreateTopicsRequest(topics=wanted, timeout_ms=10_000))
    assert not any(each.error_code for each in answer.topics), answer


@contextmanager
def kills(folder: Path, seed: int, *, masters: Sequence[str] = (LOCAL,), state: str = "stateful") -> Iterator[Rounds]:
    """Run an application under kills until the block ends; `state` says who counts, Spark (`native`) or a stage."""
    rounds = Rounds(folder, random.Random(seed), masters, state)
    try:
        yield rounds
    finally:
        rounds.close()
