"""The group coordinator: the shards of `__consumer_offsets`, and what is done for them by the clock and the image."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator

from ottla.base import Clock, KafkaError, Millis, Offload, Rng
from ottla.broker.configuration import Configuration
from ottla.broker.coordinator import Coordinator
from ottla.broker.group_cluster import GroupCluster
from ottla.broker.handler import Operation, RequestContext, Resource
from ottla.broker.partitions import Partitions
from ottla.broker.waits import Waits
from ottla.groups import TOPIC, Asker, Decision, Moment, Shard, consumer
from ottla.metadata import Delta, Image
from ottla.wire import Codec

__all__ = ["GroupCoordinator", "asker_of"]

log = logging.getLogger(__name__)

GROUPS_PER_SLICE = 200
"""Groups that housekeeping looks at before requests have their turn."""
INTERVAL_S_MAX = 86_400.0

Cleaning = Callable[[Shard, list[str]], Iterator[Decision]]


class GroupCoordinator(Coordinator[Shard]):
    """The groups of this broker."""

    def __init__(
        self,
        *,
        configuration: Configuration,
        partitions: Partitions,
        waits: Waits,
        clock: Clock,
        rng: Rng,
        offload: Offload,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        consumer.check_assignors(configuration.broker.settings)
        cluster = self.cluster = GroupCluster()

        def moment(now_ms: Millis) -> Moment:
            return Moment(now_ms, rng, configuration.broker.settings, cluster)

        super().__init__(
            TOPIC,
            make_shard=Shard,
            moment=moment,
            codec=lambda: Codec(configuration.broker.settings.offsets_topic_compression_codec),
            commit_timeout_ms=lambda settings: settings.offsets_commit_timeout_ms,
            settings=lambda: configuration.broker.settings,
            partitions=partitions,
            waits=waits,
            clock=clock,
            offload=offload,
            loop=loop,
        )
        self._configuration = configuration

    def start(self) -> None:
        """Begin to look for expired offsets, every `offsets.retention.check.interval.ms`."""
        self.run(self._expire_offsets())

    def image_changed(self, old: Image, image: Image, delta: Delta) -> None:
        """Follow leaderships and topics; what was committed for a deleted topic is removed."""
        self.cluster.image_changed(image, delta)
        super().image_changed(old, image, delta)
        deleted = frozenset(topic.name for topic in delta.topics_deleted)
        if deleted:
            self.run(self._clean(lambda shard, group_ids: shard.forget_topics(group_ids, deleted)))

    async def _expire_offsets(self) -> None:
        while True:
            interval_ms = self._configuration.broker.settings.offsets_retention_check_interval_ms
            await asyncio.sleep(min(interval_ms / 1000, INTERVAL_S_MAX))
            await self._clean(lambda shard, group_ids: shard.expire_offsets(group_ids, self.moment()))

    async def _clean(self, cleaning: Cleaning) -> None:
        """Perform a cleaning on every group of every shard in office, some at a time."""
        for shard in self.active_shards():
            for group_ids in _slices(sorted(shard.groups)):
                try:
                    self.perform(shard, cleaning(shard, group_ids))
                except KafkaError as error:
                    log.warning("Offsets are removed another time: %s", error)
                    break
                await asyncio.sleep(0)


def asker_of(context: RequestContext, token: int = -1) -> Asker:
    """Return who asks, as groups know it; `token` is the one under which the answer is parked."""
    host = f"/{context.connected.client_host}"
    return Asker(
        context.client_id or "",
        host,
        context.api_version,
        token,
        lambda topic: context.allows(Operation.DESCRIBE, Resource.TOPIC, topic),
    )


def _slices(group_ids: list[str]) -> Iterable[list[str]]:
    for start in range(0, len(group_ids), GROUPS_PER_SLICE):
        yield group_ids[start : start + GROUPS_PER_SLICE]
