"""Rounds of kills: each kills one thing, at a time of chance or at a named place, and ends when results come again."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ottla.base import OttlaError
from ottla.client import LATEST, BlockingClient, Isolation, Limits
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.ports import free_port
from tests.server import Server, start_server
from tests.streams.kills.counting import CHANGELOG, Feeder, differences
from tests.streams.kills.processes import Driver, Placed

__all__ = ["KINDS", "PLACES", "Rounds", "kills"]

PLACES = {"during init": "pid", "before EndTxn": "pid", "after EndTxn": "pid", "before Spark's own commit": "group"}
KINDS = ("worker", "executor", "driver", "broker", *PLACES)
WEIGHTS = (28, 8, 6, 15, 13, 13, 12, 5)
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
            names = (*TOPICS, CHANGELOG)
            wanted = [CreatableTopic(name=name, num_partitions=2, replication_factor=1) for name in names]
            client.request(CreateTopicsRequest(topics=wanted, timeout_ms=10_000))
        self._feeder.start()
        self._driver = self._start_driver()

    def _start_broker(self) -> Server:
        quick = ("transaction.state.log.num.partitions=4", "offsets.topic.num.partitions=4")
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

    def _act(self, kind: str) -> None:
        driver = self._driver
        if kind == "driver":
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
        wrong: list[str] = []

        def is_even() -> bool:
            nonlocal wrong, records
            records, wrong = differences(self.bootstrap)
            return not wrong

        records, until = 0, time.monotonic() + SETTLE_SECONDS_MAX
        while not is_even() and time.monotonic() < until:
            if not self._driver.is_alive:
                self._driver = self._start_driver()
            time.sleep(0.5)
        assert not wrong, f"{len(wrong)} of {records}: " + "; ".join(wrong[:20])
        self._await_quiet()
        return records

    def _await_quiet(self) -> None:
        """Let what might still come too much come, and look again."""
        before = self._ends()
        time.sleep(1)
        assert self._ends() == before
        records, wrong = differences(self.bootstrap)
        assert not wrong, f"{len(wrong)} of {records}: " + "; ".join(wrong[:20])

    def close(self) -> None:
        """End everything."""
        self._feeder.stop()
        self._driver.end()
        self._broker.kill()


@contextmanager
def kills(folder: Path, seed: int, *, masters: Sequence[str] = (LOCAL,), state: str = "stateful") -> Iterator[Rounds]:
    """Run an application under kills until the block ends; `state` says who counts, Spark (`native`) or a stage."""
    rounds = Rounds(folder, random.Random(seed), masters, state)
    try:
        yield rounds
    finally:
        rounds.close()
