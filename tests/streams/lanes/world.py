"""One world of lanes: hosts and a driver, records that come, and what is done to them; the same for a seed each time.

In the end nothing goes wrong any more, and the ledger says what there has to be: exactly once each result once, at least
once no result less; no offset committed behind a record of which nothing was sent; and each work with one host.
"""

from __future__ import annotations

import asyncio
import logging
import random

from ottla.base import TopicPartition
from ottla.spark.continuous.plan import works_of
from ottla.streams import StreamsWork
from tests.streams.lanes.applications import ARMED, NAMES, PARTITIONS
from tests.streams.lanes.cluster import CHANGELOG, COPIED, COUNTED, IN, LaneCluster
from tests.streams.lanes.driver import Driver, HostLife
from tests.streams.lanes.loop import LaneLoop
from tests.streams.lanes.themes import Theme, theme_of

__all__ = ["World", "run_world"]

END_SECONDS_MAX = 120.0


class World:
    """See the module's description."""

    def __init__(self, seed: int, theme: Theme | None = None) -> None:
        """`theme` is drawn where none is given."""
        self.seed, self.rng = seed, random.Random(seed)
        drawn = theme_of(self.rng)
        self.theme = theme or drawn
        self.exactly_once = self.rng.random() < 0.6
        self.loop = LaneLoop(self.rng, self.theme.late, self.rng.choice(self.theme.late_s))
        self.cluster = LaneCluster(
            self.rng, exactly_once=self.exactly_once, slow=self.rng.choice(self.theme.slow_requests)
        )
        self.told: list[str] = []
        """What was done to it."""

    def run(self) -> None:
        """Run it; raises AssertionError that says what was wrong."""
        ARMED.clear()
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_until_complete(self._run())
        finally:
            asyncio.set_event_loop(None)
            self.loop.close()

    async def _run(self) -> None:
        self.cluster.add_topic(IN, PARTITIONS)
        for name in (COPIED, COUNTED, CHANGELOG):
            self.cluster.add_topic(name, PARTITIONS)
        slow = self.rng.choice(self.theme.slow_messages)
        driver = Driver(self.loop, self.rng, self.cluster, exactly_once=self.exactly_once, slow=slow)
        try:
            for name in NAMES:
                driver.add(name)
            driver.spawn(self._feed())
            for _ in range(self.theme.steps):
                self.cluster.feed(self.rng.randint(1, 4))
                await asyncio.sleep(self.rng.choice(self.theme.pauses_s))
                await self._happen(self.rng.choice(self.theme.stories), driver)
                self._check_ledger()
            await self._settle(driver)
            self._check_end()
        finally:
            await driver.close()

    async def _feed(self) -> None:
        """Have records come all the time, so that there is always something to commit."""
        while self.cluster.is_troubled:
            self.cluster.feed(2)
            await asyncio.sleep(self.rng.choice((0.03, 0.1, 0.1, 0.5)))

    async def _happen(self, story: str, driver: Driver) -> None:
        self.told.append(f"{self.loop.time():.3f} {story}")
        name, rng = self.rng.choice(NAMES), self.rng
        hosts = [driver.hosts[each] for each in sorted(driver.hosts)]
        match story:
            case "feed":
                self.cluster.feed(rng.randint(1, 20))
            case "kill" if hosts:
                rng.choice(hosts).kill()
            case "cut off" if hosts:
                self._cut_off(rng.choice(hosts), driver)
            case "move":
                driver.move_something()
            case "fail everywhere":
                await self._fail_everywhere(name, hosts, driver)
            case "fail to restore":
                self.cluster.failing_restores += 1
                driver.move_something()
            case "pause":
                driver.pause(name, paused=True)
                await asyncio.sleep(rng.uniform(0.0, 0.3))
                driver.pause(name, paused=False)
            case "fail":
                ARMED.append((name, ""))
            case "remove and add" | "drain":
                if story == "drain":
                    driver.drain(name)
                await driver.remove(name, rng.choice((0.0, 0.05, 5.0)))
                await asyncio.sleep(rng.choice((0.0, 0.001, 0.05)))
                driver.add(name)
            case "rejoin":
                driver.rejoin(name)
                self.cluster.feed(3)  # hosts that have not heard of it go back
                await asyncio.sleep(rng.uniform(0.0, 0.3))
                if rng.random() < 0.5:
                    driver.move_something()
                elif hosts:
                    self._cut_off(rng.choice(hosts), driver)
            case "retention":
                self.cluster.cut(IN)
            case "refuse":
                self.cluster.feed(6)
                self.cluster.failing_fetches += 1
            case "retention ahead":
                self.cluster.feed(rng.randint(1, 20))
                await asyncio.sleep(rng.uniform(0.0, 0.02))
                self.cluster.cut(IN, whole=True)
            case "made again":
                self.cluster.make_again(IN)

    async def _fail_everywhere(self, name: str, hosts: list[HostLife], driver: Driver) -> None:
        """Have an application fail once on each host, and works be weighed anew while it begins again."""
        ARMED.extend((name, host.process.name) for host in hosts)
        self.cluster.feed(6)
        for _ in range(self.rng.randint(1, 4)):
            await asyncio.sleep(self.rng.uniform(0.1, 0.6))
            driver.move_something()
        ARMED.clear()

    def _cut_off(self, host: HostLife, driver: Driver) -> None:
        host.cut(self.rng.uniform(0.05, 8.0))
        driver.at(self.loop.time() + self.rng.uniform(0.001, 0.1), lambda: driver.host_gone(host))

    async def _settle(self, driver: Driver) -> None:
        """Have nothing go wrong any more, and wait until all is done; what is under way arrives first."""
        self.cluster.is_troubled = False
        await asyncio.sleep(driver.under_way_s())
        self.cluster.feed(6)
        until_s = self.loop.time() + END_SECONDS_MAX
        while not (self._is_done() and self._is_owned_once(driver)):
            self._check_ledger()
            if self.loop.time() > until_s:
                ends = {place: log.end for place, log in self.cluster.logs.items() if place.topic == IN}
                words = f"not all is done: {self.cluster.offsets} of {ends}"
                raise AssertionError(self._said(f"{words}; {self._owners(driver)} {driver.ends}"))
            await asyncio.sleep(0.5)

    def _is_done(self) -> bool:
        ends = {TopicPartition(IN, part): self.cluster.logs[TopicPartition(IN, part)].end for part in range(PARTITIONS)}
        return all(
            self.cluster.offsets.get(name, {}).get(place, (-1, ""))[0] == end
            for name in NAMES
            for place, end in ends.items()
        )

    def _owners(self, driver: Driver) -> dict[StreamsWork, list[str]]:
        found: dict[StreamsWork, list[str]] = {}
        for host in driver.everyone:
            if host.process.alive and not host.task.done():
                for work in host.works:
                    found.setdefault(work, []).append(f"{host.process.name} of {id(host)}")
        return found

    def _is_owned_once(self, driver: Driver) -> bool:
        owners = self._owners(driver)
        wanted = {work for each in driver.applications.values() for work in works_of(each.plan)}
        return owners.keys() == wanted and all(len(each) == 1 for each in owners.values())

    def _check_ledger(self) -> None:
        if self.cluster.wrong:
            raise AssertionError(self._said(self.cluster.wrong[0]))
        if self.loop.errors:
            raise AssertionError(self._said(self.loop.errors[0]))

    def _check_end(self) -> None:
        self._check_ledger()
        cluster = self.cluster
        sure = {value for found in cluster.sure.values() for value in found.values()}
        missing = sorted(value for value in sure if not cluster.copied[value])
        if missing:
            raise AssertionError(self._said(f"not copied: {missing}"))
        for key in set(cluster.sent.values()) - cluster.set_back:
            least = sum(cluster.sent[value] == key for value in sure)
            most = sum(each == key for each in cluster.sent.values())
            last = max(cluster.counted[key], default=0)
            if last < least or (self.exactly_once and last > most):
                raise AssertionError(self._said(f"{key!r} is counted to {last}, of {least} to {most}"))

    def _said(self, words: str) -> str:
        kind = "exactly once" if self.exactly_once else "at least once"
        return f"seed {self.seed} ({self.theme.name}, {kind}): {words}\n  " + "\n  ".join(self.told)


def run_world(seed: int, theme: Theme | None = None) -> None:
    """Run the world of a seed, whose theme is drawn where none is given; raises AssertionError that says what was wrong."""
    logging.disable(logging.ERROR)
    try:
        World(seed, theme).run()
    finally:
        logging.disable(logging.NOTSET)
