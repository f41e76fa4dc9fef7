"""Where a worker stands in its group, what it has yet to do, what is measured of it: the values that its loop changes."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field, replace

from ottla.connect.assignment import Assignment
from ottla.connect.storage import (
    ConfigState,
    ConnectorRemoved,
    ConnectorUpdated,
    RestartRequest,
    TargetStateChanged,
    TasksUpdated,
)
from ottla.connect.storage.config_state import Change

__all__ = ["SYNC_RETRIES_MAX", "GroupPosition", "PendingChanges", "RebalanceMeasures"]

SYNC_RETRIES_MAX = 5
NOTHING = Assignment("", "", 0)


@dataclass
class GroupPosition:
    """What this worker has to do, and how far it has come with it. Times are those of `time.monotonic`, in seconds."""

    known: ConfigState = field(default_factory=ConfigState)
    """The configurations that it has acted on; never ahead of those that it has read."""
    held: Assignment | None = None
    """What its group has given it; None before it has joined, and behind a session without answers."""
    is_resolved: bool = True
    """Whether the work of the last generation has begun."""
    is_behind: bool = False
    """Whether it left its group because the configuration topic could not be read to its end."""
    is_lost: bool = False
    """Whether no broker has answered for a whole session, so that others may have its work."""
    is_fenced: bool = False
    """Whether another worker has written as the leader since this one claimed that."""
    rejoin_at_s: float = math.inf
    """When it joins again because its leader has held work back for workers that may return."""
    sync_retries: int = SYNC_RETRIES_MAX
    """How often it may yet fail to read the topic before it gives up what it holds."""

    @property
    def assignment(self) -> Assignment:
        """What this worker has to do; nothing where its group has given it nothing."""
        return self.held or NOTHING

    def take(self, assignment: Assignment, *, keeps: bool) -> None:
        """Have a new generation's assignment, beside what is kept of the last one where a worker `keeps` work."""
        self.held = merged(assignment, self.held) if keeps else assignment
        delay_s = assignment.delay_ms / 1000
        self.rejoin_at_s = time.monotonic() + delay_s if delay_s > 0 else math.inf
        self.is_resolved = False

    def synced(self, known: ConfigState) -> None:
        """Have read the configuration topic to its end."""
        self.known, self.is_behind, self.sync_retries = known, False, SYNC_RETRIES_MAX


def merged(found: Assignment, held: Assignment | None) -> Assignment:
    """Return what a worker has to do when what it keeps is added to what it gets."""
    if held is None:
        return found
    gone, gone_tasks = set(found.revoked_connectors), set(found.revoked_tasks)
    kept = [each for each in held.connectors if each not in gone]
    kept_tasks = [each for each in held.tasks if each not in gone_tasks]
    return replace(
        found,
        connectors=tuple(dict.fromkeys((*found.connectors, *kept))),
        tasks=tuple(dict.fromkeys((*found.tasks, *kept_tasks))),
    )


@dataclass
class PendingChanges:
    """What the configuration topic has said since the last round, gathered until the next one does it."""

    rebalance: bool = False
    """Whether connectors or tasks have come or gone, so that work has to be divided anew."""
    updated: set[str] = field(default_factory=set)
    """Connectors whose configurations have changed."""
    targets: set[str] = field(default_factory=set)
    """Connectors whose target states have changed."""
    reconfigured: set[str] = field(default_factory=set)
    """Connectors whose tasks have other configurations."""
    restarts: dict[str, RestartRequest] = field(default_factory=dict)
    """The restart that touches most, by connector."""

    def __bool__(self) -> bool:
        """Whether there is anything to follow; restarts are carried out before and need no round of their own."""
        return bool(self.rebalance or self.updated or self.targets or self.reconfigured)

    def add(self, change: Change, known: ConfigState) -> None:
        """Take a change in, beside the configurations that the worker has acted on."""
        match change:
            case ConnectorRemoved(name):
                self._add_connector(name, is_other=name in known.configs)
            case ConnectorUpdated(name):
                self._add_connector(name, is_other=name not in known.configs)
                self.updated.add(name)  # whoever still has one of that name that was deleted has to begin this one
            case TasksUpdated(name, tasks):
                self.rebalance = True
                if tasks:
                    self.reconfigured.add(name)
            case TargetStateChanged(name):
                self.targets.add(name)
            case RestartRequest():
                waiting = self.restarts.get(change.connector)
                if waiting is None or _impact(change) > _impact(waiting):
                    self.restarts[change.connector] = change

    def _add_connector(self, name: str, *, is_other: bool) -> None:
        """Note a connector: one that comes or goes `is_other` work to divide, else it is the same one changed."""
        if is_other:
            self.rebalance = True
        else:
            self.updated.add(name)

    def take(self) -> PendingChanges:
        """Return what is to be followed and forget it; restarts stay."""
        taken = PendingChanges(self.rebalance, self.updated, self.targets, self.reconfigured)
        self.rebalance, self.updated, self.targets, self.reconfigured = False, set(), set(), set()
        return taken

    def take_restarts(self) -> list[RestartRequest]:
        """Return the restarts that were asked for, and forget them."""
        asked, self.restarts = list(self.restarts.values()), {}
        return asked


def _impact(request: RestartRequest) -> int:
    """Return how much a restart touches: of several that wait, the largest is carried out."""
    return 2 * (not request.only_failed) + request.include_tasks


class RebalanceMeasures:
    """Kafka's connect-worker-rebalance-metrics and connect-coordinator-metrics."""

    def __init__(self) -> None:
        self._begun_s: float | None = None
        self._ended_s = math.nan
        self._count = 0
        self._sum_s = self._max_s = 0.0

    def begin(self) -> None:
        """Count from now, unless a rebalance is under way already."""
        if self._begun_s is None:
            self._begun_s = time.monotonic()

    def end(self) -> None:
        """Count a rebalance that has come to its end; it took no time where none had begun."""
        now_s = time.monotonic()
        took_s = now_s - (self._begun_s if self._begun_s is not None else now_s)
        self._begun_s, self._ended_s = None, now_s
        self._count += 1
        self._sum_s += took_s
        self._max_s = max(self._max_s, took_s)

    def values(self, assignment: Assignment, generation: int) -> dict[str, float]:
        """Return the metrics, by group and name."""
        done, since_s = max(self._count, 1), time.monotonic() - self._ended_s
        return {
            "worker-rebalance-epoch": generation,
            "worker-rebalance-rebalancing": float(self._begun_s is not None),
            "worker-rebalance-completed-rebalances-total": self._count,
            "worker-rebalance-rebalance-avg-time-ms": 1000 * self._sum_s / done,
            "worker-rebalance-rebalance-max-time-ms": 1000 * self._max_s,
            "worker-rebalance-time-since-last-rebalance-ms": 1000 * since_s,
            "coordinator-assigned-connectors": len(assignment.connectors),
            "coordinator-assigned-tasks": len(assignment.tasks),
            "coordinator-rebalance-total": self._count,
            "coordinator-rebalance-latency-total": 1000 * self._sum_s,
            "coordinator-rebalance-latency-avg": 1000 * self._sum_s / done,
            "coordinator-rebalance-latency-max": 1000 * self._max_s,
            "coordinator-last-rebalance-seconds-ago": since_s,
        }
