"""How often leaders were elected that were not in sync, counted by the active controller."""

from __future__ import annotations

from collections.abc import Callable

from ottla.broker.metrics import Metrics
from ottla.metadata import NO_LEADER, Delta, Image, Partition

__all__ = ["ElectionCounts"]


class ElectionCounts:
    """Counts from the changes of the image, while this node leads the quorum."""

    def __init__(self, metrics: Metrics, *, is_controller: Callable[[], bool]) -> None:
        self._is_controller = is_controller
        self._unclean = metrics.counter("ControllerStats.UncleanLeaderElectionsPerSec")
        self._eligible = metrics.counter("ControllerStats.ElectionFromEligibleLeaderReplicasPerSec")

    def image_changed(self, old: Image, image: Image, delta: Delta) -> None:
        """Count the elections between two images."""
        if not self._is_controller():
            return
        for name in delta.topics_changed:
            before, after = old.topics.get(name), image.topics[name]
            if before is None or before.id != after.id:
                continue
            for index, partition in before.partitions.items():
                new = after.partitions[index]
                if new is not partition and new.leader_epoch != partition.leader_epoch:
                    self._count(partition, new)

    def _count(self, old: Partition, new: Partition) -> None:
        if new.leader in (NO_LEADER, old.leader) or new.leader in old.isr:
            return
        if new.leader in old.eligible_leader_replicas:
            self._eligible.value += 1
        else:
            self._unclean.value += 1
