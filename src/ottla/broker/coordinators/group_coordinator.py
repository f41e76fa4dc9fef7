"""The group coordinator: the shards of `__consumer_offsets`, and what is done for them by the clock and the image."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator

from ottla.base import OFFSETS_TOPIC, ZERO_UUID, Clock, KafkaError, Millis, Offload, Rng
from ottla.broker.configuration import Configuration
from ottla.broker.coordinators.coordinator import Coordinator
from ottla.broker.coordinators.group_cluster import GroupCluster
from ottla.broker.coordinators.rounds import rounds
from ottla.broker.replicas.partitions import Partitions
from ottla.broker.replicas.purgatory import Purgatory
from ottla.groups import Committed, Decision, DecisionContext, Shard, consumer
from ottla.metadata import Delta, Image
from ottla.wire import Codec

__all__ = ["GroupCoordinator"]

log = logging.getLogger(__name__)

GROUPS_PER_SLICE = 200
"""Groups that housekeeping looks at before requests have their turn."""
FORGET_RETRY_S = 1.0
"""Before offsets of a deleted topic that could not be removed are removed again."""

Cleaning = Callable[[Shard, list[str]], Iterator[Decision]]


class GroupCoordinator(Coordinator[Shard]):
    """The groups of this broker."""

    def __init__(
        self,
        *,
        configuration: Configuration,
        partitions: Partitions,
        purgatory: Purgatory,
        clock: Clock,
        rng: Rng,
        offload: Offload,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        consumer.check_assignors(configuration.broker.settings)
        cluster = self.cluster = GroupCluster()

        def decision_context(now_ms: Millis, wall_ms: Millis) -> DecisionContext:
            return DecisionContext(now_ms, rng, configuration.broker.settings, cluster, wall_ms)

        super().__init__(
            OFFSETS_TOPIC,
            make_shard=Shard,
            make_context=decision_context,
            codec=lambda: Codec(configuration.broker.settings.offsets_topic_compression_codec),
            commit_timeout_ms=lambda settings: settings.offsets_commit_timeout_ms,
            settings=lambda: configuration.broker.settings,
            partitions=partitions,
            purgatory=purgatory,
            clock=clock,
            offload=offload,
            loop=loop,
        )
        self._configuration = configuration

    def start(self) -> None:
        """Begin to look for expired offsets, every `offsets.retention.check.interval.ms`."""
        self.run(
            rounds(
                "The expiry of offsets",
                lambda: self._configuration.broker.settings.offsets_retention_check_interval_ms,
                self._expire_offsets,
            )
        )

    def image_changed(self, old: Image, image: Image, delta: Delta) -> None:
        """Follow leaderships and topics; what was committed for a deleted topic is removed."""
        self.cluster.image_changed(image, delta)
        super().image_changed(old, image, delta)
        deleted = frozenset(topic.name for topic in delta.topics_deleted)
        if deleted:
            for shard in self.active_shards():
                self.run(self._forget(shard, deleted))

    def activated(self, shard: Shard) -> None:
        """Look for offsets of topics that were deleted while nobody was in office, or could not write that down."""
        self.run(self._forget(shard))

    async def _forget(self, shard: Shard, deleted: frozenset[str] = frozenset()) -> None:
        """Remove a shard's offsets of topics that are gone, as often as it takes, while it is in office.

        A topic that is made anew must not be read from where its namesake was left. `deleted` names topics of which what has
        been committed up to now goes, though it may not say of which topic of that name it is.
        """
        before = self.end_of(shard)

        def is_gone(topic: str, committed: Committed) -> bool:
            found = self.cluster.topic(topic)
            if found is None or (topic in deleted and committed.record_offset < before):
                return True
            return committed.topic_id not in (ZERO_UUID, found.id)

        while before >= 0:
            if await self._clean_shard(shard, lambda each, group_ids: each.forget_gone(group_ids, is_gone)):
                return
            await asyncio.sleep(FORGET_RETRY_S)
            if self.end_of(shard) < 0:
                return  # the next coordinator looks for itself

    async def _expire_offsets(self) -> None:
        await self._clean(lambda shard, group_ids: shard.expire_offsets(group_ids, self.decision_context()))

    async def _clean(self, cleaning: Cleaning) -> None:
        """Perform a cleaning on every group of every shard in office, some at a time."""
        for shard in self.active_shards():
            await self._clean_shard(shard, cleaning)

    async def _clean_shard(self, shard: Shard, cleaning: Cleaning) -> bool:
        """Perform a cleaning on every group of a shard; False where it could not be written down."""
        for group_ids in _slices(sorted(shard.groups)):
            try:
                self.perform(shard, cleaning(shard, group_ids))
            except KafkaError as error:
                log.warning("Offsets are removed another time: %s", error)
                return False
            await asyncio.sleep(0)
        return True


def _slices(group_ids: list[str]) -> Iterable[list[str]]:
    for start in range(0, len(group_ids), GROUPS_PER_SLICE):
        yield group_ids[start : start + GROUPS_PER_SLICE]
