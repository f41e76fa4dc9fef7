"""The one sampler of a cluster, whatever tabs are open: it keeps the newest two samples and the history, and says when."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from ottla.background import end, keep_running, note_failure
from ottla.base import OttlaError
from ottla.client import Client
from ottla.console.figures.history import History, Mark
from ottla.console.figures.offset_times import OffsetTimes
from ottla.console.figures.partition_lags import PartitionLags
from ottla.console.figures.samples import Sample, group_lags, topic_rates
from ottla.console.figures.sampling import Sampling
from ottla.console.figures.views import KeptSummary, Seen

__all__ = ["Sampler"]


PERIOD_SECONDS = 5.0
PERIOD_SECONDS_MAX = 160.0
HURRY_SECONDS_MIN = 2.0
"""Between two looks that somebody waits for."""
GROUPS_AT_ONCE = 500
"""Groups that are added to the history before others have their turn."""
SHARE_MAX = 0.2
"""A sample that takes more than this share of the period doubles it; one that takes a quarter of that halves it again."""


class Sampler:
    """Samples a cluster for as long as it runs."""

    def __init__(
        self, client: Client, *, period_s: float = PERIOD_SECONDS, now_ms: Callable[[], int] | None = None
    ) -> None:
        self._sampling = Sampling(client)
        self._least_s = period_s
        self._now_ms = now_ms or (lambda: time.time_ns() // 1_000_000)
        self.period_s = period_s
        """How often it looks now; longer where looking takes long."""
        self.history = History()
        self.times = OffsetTimes()
        self.partition_lags = PartitionLags()
        self.summary = KeptSummary()
        """The first page's figures, made with each sample, so that nobody waits for them."""
        self.newest: Sample | None = None
        self.before: Sample | None = None
        self.error: str | None = None
        """Why the last try brought nothing; the newest sample is then as old as it says."""
        self.count = 0
        """Tries so far."""
        self._begun = 0
        self._hurried_s = float("-inf")
        self._changed = asyncio.Condition()
        self._wanted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to look."""
        self._task = keep_running(self._run, name="sample", serves="all figures", reset=self._wanted.set)

    async def stop(self) -> None:
        """Look no more."""
        await end(self._task)

    def look_now(self) -> None:
        """Look soon, at everything: something has been changed."""
        self._sampling.look_again()
        self._wanted.set()

    async def look_again(self) -> None:
        """Wait for a look at everything that begins after this call."""
        wanted = self._begun + 1
        self.look_now()
        async with self._changed:
            await self._changed.wait_for(lambda: self.count >= wanted)

    async def next(self, after: int) -> int:
        """Wait for a try that is later than the given one; returns its number."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.count > after)
            return self.count

    async def seen(self) -> Seen:
        """Return what is known, after the first try at the earliest; raises OttlaError where no try has brought anything."""
        if self.count == 0:
            await self.next(0)
        if self.newest is None:
            raise OttlaError(self.error or "the cluster was not looked at yet")
        return self._seen(self.newest)

    def _seen(self, newest: Sample) -> Seen:
        return Seen(newest, self.before, self.history, self.times, self.period_s, self.partition_lags)

    async def seen_with(self, holds: Callable[[Sample], bool]) -> Seen:
        """Return what is known; where something of it is missing, after one more look, unless it has just looked."""
        seen = await self.seen()
        now_s = asyncio.get_running_loop().time()
        if not holds(seen.sample) and now_s - self._hurried_s >= HURRY_SECONDS_MIN:
            self._hurried_s = now_s
            await self.look_again()
            seen = await self.seen()
        return seen

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            began_s = loop.time()
            await self._look()
            took_s = loop.time() - began_s
            self.period_s = _period(self.period_s, took_s, self._least_s)
            try:
                async with asyncio.timeout(max(0.0, self.period_s - took_s)):
                    await self._wanted.wait()
            except TimeoutError:
                pass
            self._wanted.clear()

    async def _look(self) -> None:
        self._begun += 1
        try:
            sample = await self._sampling.take(self._now_ms())
            await self._remember(sample, self.newest)  # whoever sees a sample finds its figures in the history
            self.before, self.newest = self.newest, sample
            self.summary.of(self._seen(sample))
        except OttlaError as error:
            self.error = str(error)
            self._sampling.look_again()
        except Exception as error:  # a mistake of ours costs one sample, and is said
            note_failure("all figures", "a sample", error, consequence="the next one is taken in its time")
            self.error = "The console has failed to look; its log says why."
        else:
            self.error = None
        async with self._changed:
            self.count += 1
            self._changed.notify_all()

    async def _remember(self, sample: Sample, before: Sample | None) -> None:
        """Add a sample to what is kept, in steps between which others have their turn: thousands of groups take a while."""
        at = sample.at_ms
        self.times.add(at, sample.ends())
        await asyncio.sleep(0)
        rates = topic_rates(sample, before)
        if rates:
            self.history.add("in", at, sum(rates.values()))
            for name, rate in rates.items():
                if name not in sample.internal:
                    self.history.add(f"in/{name}", at, rate)
        for node, broker in sample.brokers.items():
            if broker.total_bytes > 0:
                self.history.add(f"disk/{node}", at, broker.usable_bytes)
        await asyncio.sleep(0)
        by_group = {name: group_lags(sample, group) for name, group in sample.groups.items()}
        self.partition_lags.add(at, by_group)
        for count, (name, found) in enumerate(by_group.items()):
            if count % GROUPS_AT_ONCE == 0:
                await asyncio.sleep(0)
            lags = [lag for lag in found.values() if lag is not None]
            if lags:
                self.history.add(f"lag/{name}", at, sum(lags))
            if (consumed := _consumed(name, sample, before)) is not None:
                self.history.add(f"consumed/{name}", at, consumed)
            self._mark_state(name, sample, before)
        await asyncio.sleep(0)

    def _mark_state(self, name: str, sample: Sample, before: Sample | None) -> None:
        old = before.groups.get(name) if before is not None else None
        new = sample.groups[name]
        if old is not None and old.state != new.state:
            self.history.mark(f"lag/{name}", Mark(sample.at_ms, "state", f"{old.state} → {new.state}"))


def _period(period_s: float, took_s: float, least_s: float) -> float:
    if took_s > SHARE_MAX * period_s:
        return min(2 * period_s, PERIOD_SECONDS_MAX)
    return max(least_s, period_s / 2) if took_s < SHARE_MAX * period_s / 4 else period_s


def _consumed(name: str, sample: Sample, before: Sample | None) -> float | None:
    """Records a second that a group has consumed since the sample before; None where that is not known."""
    if before is None or sample.at_ms <= before.at_ms:
        return None
    old, group = before.groups.get(name), sample.groups[name]
    if old is None or not group.committed:
        return None
    moved = sum(max(0, offset - old.committed.get(each, offset)) for each, offset in group.committed.items())
    return moved * 1000 / (sample.at_ms - before.at_ms)
