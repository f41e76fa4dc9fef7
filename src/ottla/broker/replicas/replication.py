"""The partitions that this broker follows: from whom and in which epoch, as the metadata image says.

Partitions of one leader are shared out among `num.replica.fetchers` fetchers, each with one connection. A change of leader,
a deletion or a reassignment takes effect between two answers, because the image changes on the loop as answers do.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from zlib import crc32

from ottla.base import Clock, NodeId, Offload, Uuid
from ottla.broker.configuration import Configuration
from ottla.broker.controller.peers import Peers
from ottla.broker.metrics import Metrics
from ottla.broker.replicas.fetcher import Fetcher, Following
from ottla.broker.replicas.followed_partition import FollowedPartition
from ottla.broker.replicas.follower_recovery import FollowerRecovery
from ottla.broker.replicas.local_partition import LocalPartition
from ottla.broker.replicas.partitions import Partitions
from ottla.broker.replicas.replication_meters import ReplicationMeters
from ottla.broker.replicas.storage import Storage
from ottla.broker.replicas.throttles import ReplicationThrottle
from ottla.metadata import Delta, Image, Topic
from ottla.net import Network, ReceiveBuffer
from ottla.replica import FollowedKey, Role

__all__ = ["Replication"]

log = logging.getLogger(__name__)


class Replication:
    """Every fetcher of this broker."""

    def __init__(
        self,
        node_id: NodeId,
        *,
        partitions: Partitions,
        storage: Storage,
        configuration: Configuration,
        image: Callable[[], Image],
        broker_epoch: Callable[[], int],
        listener: str,
        throttle: ReplicationThrottle,
        network: Network,
        clock: Clock,
        offload: Offload,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._node_id = node_id
        self._partitions = partitions
        self._configuration = configuration
        self._peers = Peers(image=image, listener=listener, network=network)
        self.meters = ReplicationMeters()
        self._repairs = repairs = FollowerRecovery(
            node_id=node_id, storage=storage, offload=offload, peers=self._peers, failed=partitions.failures.met
        )
        self._following = Following(
            node_id=node_id,
            loop=loop,
            clock=clock,
            network=network,
            listener=listener,
            configuration=configuration,
            image=image,
            broker_epoch=broker_epoch,
            repairs=repairs,
            meters=self.meters,
            throttle=throttle,
            buffer=ReceiveBuffer(),
        )
        self._fetchers: dict[tuple[NodeId, int], Fetcher] = {}
        self._where: dict[FollowedKey, Fetcher] = {}
        self._followed: dict[FollowedKey, FollowedPartition] = {}
        self._fetcher_count = configuration.broker.settings.num_replica_fetchers
        self._closed = False
        partitions.went_offline = self._drop_offline

    def __len__(self) -> int:
        return len(self._followed)

    def __iter__(self) -> Iterator[FollowedPartition]:
        return iter(self._followed.values())

    @property
    def fetchers(self) -> tuple[Fetcher, ...]:
        """Every fetcher that has a partition."""
        return tuple(each for each in self._fetchers.values() if len(each))

    # -- following the image

    def image_changed(self, old: Image, image: Image, delta: Delta) -> None:
        """Follow what the image says this broker follows; to be called after `Partitions` has taken it in."""
        if self._closed:
            return
        for topic in delta.topics_deleted:
            self._forget_topic(topic)
        for name in delta.topics_changed:
            self._follow_topic(image.topics[name], old.topics.get(name))
        if delta.brokers_changed:
            for fetcher in self._fetchers.values():
                if fetcher.leader in delta.brokers_changed:
                    fetcher.broker_changed()
        if delta.configs_changed:
            self._share_out(image)

    def _follow_topic(self, topic: Topic, before: Topic | None) -> None:
        known = before.partitions if before is not None and before.id == topic.id else None
        for index, state in topic.in_order():
            if known is None or known.get(index) is not state:
                self._follow(topic.id, index, self._partitions.held(topic.name, index))

    def _follow(self, topic_id: Uuid, index: int, partition: LocalPartition | None) -> None:
        """Bring one partition's fetching to what its replica says."""
        key = (topic_id, index)
        followed = self._followed.get(key)
        replica = (
            None if partition is None or partition.topic_id != topic_id or partition.is_offline else partition.replica
        )
        if replica is None or replica.role is not Role.FOLLOWER:
            self._forget(key)
            return
        assert partition is not None
        if (
            followed is not None
            and followed.partition is partition
            and followed.leader_epoch == replica.leader_epoch
            and self._where[key].leader == replica.leader
        ):
            return
        self._forget(key)
        followed = FollowedPartition(partition, replica.leader_epoch)
        fetcher = self._fetcher(replica.leader, partition)
        self._followed[key] = followed
        self._where[key] = fetcher
        fetcher.add(followed)

    def _fetcher(self, leader: NodeId, partition: LocalPartition) -> Fetcher:
        index = (31 * crc32(partition.key.topic.encode()) + partition.key.partition) % self._fetcher_count
        found = self._fetchers.get((leader, index))
        if found is None:
            found = self._fetchers[leader, index] = Fetcher(leader, index, self._following)
        return found

    def _forget(self, key: FollowedKey) -> None:
        fetcher = self._where.pop(key, None)
        if fetcher is not None:
            del self._followed[key]
            fetcher.remove(key)
            if not len(fetcher):
                self._fetchers.pop((fetcher.leader, fetcher.index), None)

    def _drop_offline(self) -> None:
        """Fetch no more what nothing can be appended to, or its leader would take it for a copy that keeps up."""
        for followed in list(self._followed.values()):
            if followed.partition.is_offline:
                self._forget(followed.key)

    def _forget_topic(self, topic: Topic) -> None:
        for index in topic.partitions:
            self._forget((topic.id, index))

    def _share_out(self, image: Image) -> None:
        """Share the partitions out anew where `num.replica.fetchers` was changed."""
        count = self._configuration.broker.settings.num_replica_fetchers
        if count == self._fetcher_count:
            return
        self._fetcher_count = count
        for followed in list(self._followed.values()):
            self._forget(followed.key)
            self._follow(followed.partition.topic_id, followed.partition.key.partition, followed.partition)

    async def close(self) -> None:
        """Follow nobody any more."""
        self._closed = True
        fetchers = list(self._fetchers.values())
        self._fetchers.clear()
        self._where.clear()
        self._followed.clear()
        for fetcher in fetchers:
            fetcher.end()
        self._repairs.close()
        await self._peers.close()
        if self._following.tasks:  # what is being stored is stored before the directories are closed
            await asyncio.wait(tuple(self._following.tasks))

    # -- looking

    def lag_of(self, partition: LocalPartition) -> int:
        """Return how many committed records of a followed partition are not here yet, as its leader last said."""
        followed = self._followed.get((partition.topic_id, partition.key.partition))
        return 0 if followed is None else followed.lag

    def name_gauges(self, metrics: Metrics) -> None:
        """Offer the numbers that operators watch, under Kafka's names."""
        manager = "ReplicaFetcherManager"
        metrics.gauge(f"{manager}.MaxLag", lambda: max((each.lag for each in self), default=0))
        metrics.gauge(f"{manager}.FailedPartitionsCount", lambda: sum(each.failed for each in self))
        metrics.gauge(f"{manager}.DeadThreadCount", lambda: 0)
        metrics.gauge("BrokerTopicMetrics.ReplicationBytesInPerSec", lambda: self.meters.bytes_in)
        metrics.gauge(
            "BrokerTopicMetrics.ReplicationBytesOutPerSec", lambda: self._partitions.traffic.replication_bytes_out
        )
