"""Whether the node lives, is ready for clients, and is well; each with the reasons why not.

- alive: the event loop answers, and the node has not failed for good. Who kills what is not alive asks this.
- ready: clients can be served: registered and not fenced, logs open, coordinators loaded. Who routes clients asks this. A
  controller that is no broker is ready once it has started.
- well: nothing needs a person: no failed log directory, no partition without a leader or with a copy that is behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum

from ottla.base import KafkaError, NodeId
from ottla.broker.parts import HealthParts
from ottla.broker.replicas.storage import Storage

__all__ = ["Check", "Health", "Stage"]


class Stage(IntEnum):
    """How far the node has come: Kafka's codes of a broker's state."""

    STARTING = 1
    RECOVERY = 2
    RUNNING = 3
    STOPPING = 6
    FAILED = 7


STAGE_TEXTS = {
    Stage.STARTING: "the node is starting",
    Stage.RECOVERY: "logs are being loaded and the metadata is being replayed",
    Stage.STOPPING: "the node is stopping",
    Stage.FAILED: "the node has failed and is about to stop",
}


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that has to be so, and where it is not, why not."""

    name: str
    reason: str = ""

    @property
    def is_ok(self) -> bool:
        """True where nothing is wrong."""
        return not self.reason


class Health:
    """Looks at the parts when it is asked; before they exist, the stage is all there is to say."""

    def __init__(
        self,
        node_id: NodeId,
        *,
        stage: Callable[[], Stage],
        storage: Callable[[], Storage | None],
        services: Callable[[], HealthParts | None],
    ) -> None:
        self._node_id = node_id
        self._stage = stage
        self._storage = storage
        self._services = services

    def alive(self) -> list[Check]:
        """Return what has to be so for the process to be kept."""
        stage = self._stage()
        return [Check("node", STAGE_TEXTS[stage] if stage is Stage.FAILED else "")]

    def ready(self) -> list[Check]:
        """Return what has to be so for clients to be sent here."""
        checks = [Check("stage", STAGE_TEXTS.get(self._stage(), ""))]
        services = self._services()
        if services is not None and "broker" in services.configuration.broker.roles:
            checks += [self._registration(services), self._log_dirs(services), *_coordinators(services)]
        return checks

    def well(self) -> list[Check]:
        """Return everything."""
        checks = [*self.alive(), *self.ready()]
        services = self._services()
        if services is not None:
            checks += [_quorum(services), self._failed_log_dirs(), *_partitions(services)]
        return checks

    def _registration(self, services: HealthParts) -> Check:
        broker = services.quorum.image.brokers.get(self._node_id)
        if broker is None:
            return Check("registration", "the broker is not registered")
        return Check("registration", "the broker is fenced" if broker.fenced else "")

    def _log_dirs(self, services: HealthParts) -> Check:
        return Check("log-dirs", "" if services.storage.online else "every log directory is offline")

    def _failed_log_dirs(self) -> Check:
        storage = self._storage()
        failed = {} if storage is None else storage.offline
        return Check("failed-log-dirs", "; ".join(f"{path}: {error}" for path, error in sorted(failed.items())))


def _coordinators(services: HealthParts) -> Iterator[Check]:
    coordinators = (
        ("groups", services.groups, "groups and their offsets are being loaded"),
        ("transactions", services.transactions, "transactions are being loaded"),
    )
    for name, coordinator, loading in coordinators:
        try:
            coordinator.committed_states()
        except KafkaError:
            yield Check(name, loading)
        else:
            yield Check(name)


def _quorum(services: HealthParts) -> Check:
    leader = services.quorum.status.leader_id
    return Check("quorum", "the metadata quorum has no leader" if leader < 0 else "")


def _partitions(services: HealthParts) -> Iterator[Check]:
    offline, behind, leaderless = len(services.partitions.unopened), 0, 0
    for partition in services.partitions:
        offline += partition.is_offline
        behind += partition.replica.is_leader and len(partition.replica.isr) < len(partition.replica.replicas)
    for topic in services.quorum.image.topics.values():
        leaderless += sum(each.leader < 0 for each in topic.partitions.values())
    yield Check(
        "offline-replicas",
        f"{offline} partitions are in a failed log directory, or could not be opened" if offline else "",
    )
    yield Check("under-replicated", f"{behind} partitions have a copy that is not in sync" if behind else "")
    yield Check("leaderless", f"{leaderless} partitions of the cluster have no leader" if leaderless else "")
