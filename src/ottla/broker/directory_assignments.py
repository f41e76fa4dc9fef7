"""Telling the controller in which log directory each replica of this broker lies (KIP-858).

It has to know, so that it can tell which leaderships a failed directory costs. Told is what differs from the image: one
request at a time, which names all of it up to a bound, and again until the image agrees.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from ottla.base import ErrorCode, KafkaError, NodeId, TopicPartition, Uuid
from ottla.broker.controller_channel import ControllerChannel
from ottla.broker.hosted_partition import HostedPartition
from ottla.broker.partitions import Partitions
from ottla.metadata import Delta, Image, Topic
from ottla.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    RequestDirectoryData,
    RequestPartitionData,
    RequestTopicData,
)

__all__ = ["DirectoryAssignments"]

log = logging.getLogger(__name__)

DIRECTORIES_FROM = 17
"""The metadata knows of directories from `metadata.version` 3.7-IV2 on."""
ASSIGNMENTS_MAX = 2250
"""Replicas in one request, as Kafka's brokers send: their records fit one batch of the metadata log."""
BACKOFF_S = 0.5
"""Between two requests where the first has not made the image right yet."""


class DirectoryAssignments:
    """Keeps the image's directories of this broker's replicas true."""

    def __init__(
        self,
        node_id: NodeId,
        *,
        partitions: Partitions,
        channel: ControllerChannel,
        image: Callable[[], Image],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._node_id = node_id
        self._partitions = partitions
        self._channel = channel
        self._image = image
        self._loop = loop
        self._wrong: dict[TopicPartition, HostedPartition] = {}
        self._wanted: dict[TopicPartition, Uuid] = {}
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    def image_changed(self, old: Image, image: Image, delta: Delta) -> None:
        """Look at what changed; to be called after `Partitions` has taken it in."""
        if image.metadata_version < DIRECTORIES_FROM:
            return
        for name in delta.topics_changed:
            topic, before = image.topics[name], old.topics.get(name)
            for index, state in topic.partitions.items():
                if before is None or before.partitions.get(index) is not state:
                    self._look(topic, index)

    def moved(self, held: HostedPartition) -> None:
        """Hear that a replica lies elsewhere now."""
        topic = self._image().topics.get(held.key.topic)
        if topic is not None:
            self._look(topic, held.key.partition)

    def announce(self, held: HostedPartition, directory_id: Uuid) -> bool:
        """Tell that a replica is going to lie in a directory, until `withdraw`; return whether the image says so yet."""
        self._wanted[held.key] = directory_id
        self.moved(held)
        return held.key not in self._wrong

    def withdraw(self, held: HostedPartition) -> None:
        """Tell again where a replica lies in fact: it has moved, or is not going to."""
        if self._wanted.pop(held.key, None) is not None:
            self.moved(held)

    async def close(self) -> None:
        """Tell nothing more."""
        self._closed = True
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait((task,))

    def _look(self, topic: Topic, index: int) -> None:
        held = self._partitions.get(topic.name, index)
        state = topic.partitions.get(index)
        if held is None or held.topic_id != topic.id or state is None or self._node_id not in state.replicas:
            return
        if state.directory_of(self._node_id) != self._directory_of(held):
            self._wrong[held.key] = held
            if self._task is None and not self._closed:
                self._task = self._loop.create_task(self._tell())
        else:
            self._wrong.pop(held.key, None)

    def _directory_of(self, held: HostedPartition) -> Uuid:
        wanted = self._wanted.get(held.key)
        if wanted is not None:
            return wanted
        assert held.log_dir.meta is not None
        return held.log_dir.meta.directory_id

    async def _tell(self) -> None:
        """Tell until nothing is wrong."""
        try:
            while self._wrong:
                partitions = list(self._wrong.values())[:ASSIGNMENTS_MAX]
                if not await self._ask(partitions) or self._wrong:
                    await asyncio.sleep(BACKOFF_S)  # the image may show it in a moment
        finally:
            self._task = None

    async def _ask(self, partitions: list[HostedPartition]) -> bool:
        """Send one request; return True where all of it was taken in."""
        broker = self._image().brokers.get(self._node_id)
        if broker is None:
            return False
        request = AssignReplicasToDirsRequest(
            broker_id=self._node_id, broker_epoch=broker.epoch, directories=self._named(partitions)
        )
        try:
            response = await self._channel.ask(request)
            if response.error_code:
                raise KafkaError(ErrorCode(response.error_code))
        except KafkaError as error:
            log.info("The controller does not take in where replicas lie: %s", error)
            return False
        codes = {
            (bytes(topic.topic_id), each.partition_index): each.error_code
            for directory in response.directories
            for topic in directory.topics
            for each in topic.partitions
        }
        taken = True
        for held in partitions:
            code = codes.get((held.topic_id, held.key.partition), int(ErrorCode.UNKNOWN_SERVER_ERROR))
            taken = taken and code == ErrorCode.NONE
            if self._partitions.get(*held.key) is not held:
                self._wrong.pop(held.key, None)
            else:
                self.moved(held)  # the image may show it by now
        return taken

    def _named(self, partitions: list[HostedPartition]) -> list[RequestDirectoryData]:
        directories: dict[Uuid, dict[Uuid, list[RequestPartitionData]]] = {}
        for held in partitions:
            topics = directories.setdefault(self._directory_of(held), {})
            topics.setdefault(held.topic_id, []).append(RequestPartitionData(partition_index=held.key.partition))
        return [
            RequestDirectoryData(
                id=directory_id,
                topics=[RequestTopicData(topic_id=topic_id, partitions=found) for topic_id, found in topics.items()],
            )
            for directory_id, topics in directories.items()
        ]
