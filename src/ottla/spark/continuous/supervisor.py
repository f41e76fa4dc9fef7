"""One application in continuous mode, as `StreamsApplication` watches it: its works through a `HostService`.

It is to hosts what the other `Supervisor` is to queries: `step` does what is due and returns.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from ottla.base import Offset, OttlaError, TopicPartition
from ottla.client import ConsumerGroupMetadata
from ottla.spark.continuous.fencing import Renew
from ottla.spark.continuous.metrics import Metric, ShownWork, streams_metrics
from ottla.spark.continuous.plan import ApplicationPlan, GroupPlan, works_of
from ottla.spark.continuous.service import HostFacts, HostService, WorkFacts
from ottla.spark.streams.restarts import Failure, Restarts, failure_of
from ottla.spark.streams.states import State, StateMachine
from ottla.spark.streams.supervisor import ErrorHandler, OnError
from ottla.streams import StreamsSettings, StreamsWork

__all__ = ["ContinuousSupervisor", "GroupStatus", "host_facts"]

log = logging.getLogger(__name__)
RATE_SECONDS = 10.0
WELL_SECONDS = 10.0
"""An application that has run for so long has made progress: its failures count anew."""


class GroupStatus:
    """A sub-topology, as status pages show it."""

    def __init__(self, group: GroupPlan, restarts: Restarts) -> None:
        self.group = group
        self._restarts = restarts
        self._seen: deque[tuple[float, int]] = deque()
        self._before: dict[str, int] = {}
        self._last: dict[StreamsWork, dict[str, int]] = {}
        self.start_at_s: float | None = None

    def facts_of(self, works: Mapping[StreamsWork, WorkFacts], now_s: float) -> dict[str, Any]:
        """Return what status pages show."""
        own = {name: each for name, each in works.items() if name.sub_topology == self.group.group.number}
        rows = self._total(own, "processed")
        while self._seen and self._seen[0][0] < now_s - RATE_SECONDS:
            self._seen.popleft()
        self._seen.append((now_s, rows))
        since_s, before = self._seen[0]
        last = self._restarts.last
        turns = self._total(own, "turns")
        spent_s = sum(float(each.counts.get("process_s", 0.0)) for each in own.values())
        commits = self._total(own, "commits")
        return {
            "name": self.group.group.name,
            "kind": "stateful" if self.group.group.is_stateful else "stateless",
            "active": bool(own) and all(each.is_running for each in own.values()),
            "restart_in_s": None if self.start_at_s is None else max(0.0, round(self.start_at_s - now_s, 1)),
            "restarts": self._restarts.total,
            "last_error": None if last is None else last.reason,
            "batch": commits,
            "batches": commits,
            "batch_seconds": round(spent_s / turns, 6) if turns else 0.0,
            "rows": rows,
            "rows_per_second": round((rows - before) / max(now_s - since_s, 1.0), 1),
            "lag": sum(each.lag for each in own.values()),
            "late": self._total(own, "late"),
            "dropped": self._total(own, "null_keys"),
            "skipped": self._total(own, "poison"),
            "works": [_work_facts(name, each) for name, each in sorted(own.items())],
        }

    def _total(self, works: Mapping[StreamsWork, WorkFacts], count: str) -> int:
        """Return a count over all lives of the works: a work that is restored counts from nothing."""
        for name, each in works.items():
            now, last = int(each.counts.get(count, 0)), self._last.setdefault(name, {})
            before = last.get(count, 0)
            self._before[count] = self._before.get(count, 0) + (now - before if now >= before else now)
            last[count] = now
        return self._before.get(count, 0)


def _work_facts(name: StreamsWork, facts: WorkFacts) -> dict[str, Any]:
    return {
        "task": f"{name.sub_topology}_{name.partition}",
        "host": facts.host,
        "running": facts.is_running,
        "lag": facts.lag,
        "standbys": {str(host): lag for host, (lag, _) in sorted(facts.standbys.items())},
        "standby_updates": {str(host): read for host, (_, read) in sorted(facts.standbys.items())},
        **{key: facts.counts.get(key, 0) for key in ("processed", "restored", "commits", "turns", "sent")},
        "stream_time": facts.counts.get("stream_time", -1),
        "process_seconds": facts.counts.get("process_s", 0.0),
        "process_seconds_max": facts.counts.get("process_s_max", 0.0),
    }


class ContinuousSupervisor:
    """Keeps the works of one application running on a service's hosts."""

    def __init__(
        self,
        plan: ApplicationPlan,
        service: HostService,
        machine: StateMachine,
        settings: StreamsSettings,
        *,
        member: Callable[[], ConsumerGroupMetadata | None],
        renew: Renew | None = None,
        begin: Callable[[], None] = lambda: None,
        on_error: ErrorHandler | None = None,
    ) -> None:
        """`begin` is done again before works are started again after a failure: it looks after offsets.

        `renew` is what `HostService.add` takes; `member` is None while the driver has not joined its group: then works run
        and commit nothing.
        """
        self._plan, self._service, self._machine = plan, service, machine
        self._member, self._renew, self._begin, self._on_error = member, renew, begin, on_error
        self._told: ConsumerGroupMetadata | None = None
        """The member that hosts know."""
        self._restarts = Restarts(
            settings["restart.attempts.max"],
            settings["restart.backoff.ms"] / 1000,
            settings["restart.backoff.max.ms"] / 1000,
        )
        self.groups = [GroupStatus(each, self._restarts) for each in plan.groups]
        self.failed: Failure | None = None
        """Why the application gave up."""
        self._is_added = self._is_paused = False
        self._seen = -1
        """The version of the application's fate that was looked at last."""
        self._start_at_s: float | None = None
        self._running_since_s: float | None = None

    @property
    def queries(self) -> list[_Shown]:
        """One for each sub-topology."""
        works = self._service.fate(self._plan.application_id).works if self._is_added else {}
        return [_Shown(each, dict(works)) for each in self.groups]

    def is_due(self, now_s: float) -> bool:
        """Whether `step` has anything to do now."""
        if not self._is_added or self._service.fate(self._plan.application_id).version != self._seen:
            return True
        if self._start_at_s is not None:
            return now_s >= self._start_at_s
        if self._member() != self._told:
            return True
        return self._restarts.in_a_row > 0

    def step(self, now_s: float) -> bool:
        """Do what is due; returns false when the application has failed and its works are stopped."""
        if not self._is_added:
            self._told = self._member()
            self._service.add(self._plan, self._told, self._renew)
            self._is_added = True
            if self._is_paused:
                self._service.pause(self._plan.application_id, paused=True)
        fate = self._service.fate(self._plan.application_id)
        self._seen = fate.version
        if (member := self._member()) != self._told and member is not None:
            self._service.set_member(member)
            self._told = member
        if fate.failures:
            found, fate.failures[:] = list(fate.failures), []
            self._failed(failure_of(found[0]), now_s)
            if self.failed is not None:
                return False
        has_let_go = self._service.has_let_go(self._plan.application_id)
        if self._start_at_s is not None and now_s >= self._start_at_s and has_let_go:
            self._restart(now_s)  # not sooner: hosts that still commit would do so over the offsets that it chooses
        works = fate.works
        is_running = all(name in works and works[name].is_running for name in works_of(self._plan))
        if is_running and not fate.is_parked:
            self._running_since_s = now_s if self._running_since_s is None else self._running_since_s
            if now_s > self._running_since_s + WELL_SECONDS:
                self._restarts.progressed()
        else:
            self._running_since_s = None
        self._machine.to(State.RUNNING if is_running and not fate.is_parked else State.REBALANCING)
        return True

    def _restart(self, now_s: float) -> None:
        try:
            self._begin()
        except (OttlaError, OSError) as error:
            self._failed(failure_of(f"{type(error).__name__}: {error}"), now_s)
            return
        self._start_at_s = None
        for each in self.groups:
            each.start_at_s = None
        self._service.resume(self._plan.application_id)

    def _failed(self, failure: Failure, now_s: float) -> None:
        wanted = self._on_error(failure) if self._on_error is not None else OnError.REPLACE_THREAD
        wait_s = self._restarts.after(failure)
        name = self._plan.application_id
        if wanted is OnError.REPLACE_THREAD and wait_s is not None:
            self._start_at_s = now_s + wait_s
            for each in self.groups:
                each.start_at_s = self._start_at_s
            log.warning("application %s failed and starts again in %.1f s: %s", name, wait_s, failure.reason)
            self._machine.to(State.REBALANCING)
            return
        log.error("application %s failed: %s", name, failure.reason)
        self.give_up(failure)

    def pause(self, *, paused: bool) -> None:
        """Have the works stay where they are and process nothing, or go on; after a failure, too."""
        self._is_paused = paused
        self._service.pause(self._plan.application_id, paused=paused)

    def drain(self) -> None:
        """Have the works process what is in the repartition topics, and read nothing else any more; `stop` follows."""
        if self._is_added:
            self._service.drain(self._plan.application_id)

    def stop(self, patience_s: float) -> None:
        """Have every work commit and end."""
        if self._is_added:
            self._service.remove(self._plan.application_id, patience_s)
            self._is_added = False

    def give_up(self, failure: Failure) -> None:
        """End every work and be in state ERROR."""
        self.failed = failure
        self._machine.to(State.PENDING_ERROR)
        self.stop(0.0)
        self._machine.to(State.ERROR)

    def processed(self) -> dict[TopicPartition, Offset]:
        """Return how far each partition is committed: by the slowest of the works that read it."""
        found: dict[TopicPartition, Offset] = {}
        works = self._service.fate(self._plan.application_id).works if self._is_added else {}
        for facts in list(works.values()):
            for place, offset in facts.committed.items():
                found[place] = min(Offset(offset), found.get(place, Offset(offset)))
        return found

    def metrics(self, state: str, now_s: float) -> list[Metric]:
        """Return Kafka Streams' metrics; `now_s` is of the monotonic clock."""
        name = self._plan.application_id
        works = self._service.fate(name).works if self._is_added else {}
        shown = [
            ShownWork(work, each.host, each.is_running, each.details) for work, each in sorted(dict(works).items())
        ]
        windows = self._service.windows
        return list(streams_metrics(name, self._plan.client_id, state, windows, shown, now_s=now_s))

    def hosts(self) -> list[dict[str, Any]]:
        """Return how the hosts stand, fit for JSON."""
        return [host_facts(each) for each in self._service.hosts()]


def host_facts(host: HostFacts) -> dict[str, Any]:
    """Return what status pages show of a host."""
    return {
        "host": host.number,
        "ready": host.is_ready,
        "pid": host.pid,
        "restarts": host.restarts,
        "last_error": host.last_error,
        "cpu_seconds": round(host.cpu_s, 3),
        "memory_bytes": host.rss_kib * 1024,
        "lanes": [dict(lane) for lane in host.lanes],
    }


class _Shown:
    """A sub-topology with its works as they are now."""

    def __init__(self, group: GroupStatus, works: Mapping[StreamsWork, WorkFacts]) -> None:
        self._group, self._works = group, works

    def facts(self, now_s: float) -> dict[str, Any]:
        """Return what status pages show."""
        return self._group.facts_of(self._works, now_s)
