"""Telling the controller in which log directory each replica of this broker lies (KIP-858), and which ones are lost.

It has to know, so that it can tell which leaderships a failed directory costs. A replica whose own files are damaged beyond
use, or gone, in a directory that is well, lies in `DIRECTORY_LOST` until it can be opened again: so another copy leads. Told
is what differs from the image: one request at a time, which names all of it up to a bound, and again until the image agrees.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from ottla.background import keep_running
from ottla.base import ErrorCode, KafkaError, NodeId, TopicPartition, Uuid
from ottla.broker.controller.channel import ControllerChannel
from ottla.broker.replicas.local_partition import LocalPartition
from ottla.broker.replicas.partitions import Partitions
from ottla.metadata import DIRECTORY_LOST, Delta, Image, Topic
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
        self._wrong: dict[TopicPartition, tuple[Uuid, Uuid]] = {}
        """What is to be told: the topic's id, and the directory."""
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

    def moved(self, partition: LocalPartition) -> None:
        """Called when a replica lies elsewhere now."""
        self.look_at(partition.key)

    def look_at(self, key: TopicPartition) -> None:
        """Called when a replica is lost, or may lie elsewhere now."""
        image = self._image()
        topic = image.topics.get(key.topic)
        if topic is None or image.metadata_version < DIRECTORIES_FROM:
            self._wrong.pop(key, None)
        else:
            self._look(topic, key.partition)

    def announce(self, partition: LocalPartition, directory_id: Uuid) -> bool:
        """Tell that a replica is going to lie in a directory, until `withdraw`; return whether the image says so yet."""
        self._wanted[partition.key] = directory_id
        self.moved(partition)
        return partition.key not in self._wrong

    def withdraw(self, partition: LocalPartition) -> None:
        """Tell again where a replica lies in fact: it has moved, or is not going to."""
        if self._wanted.pop(partition.key, None) is not None:
            self.moved(partition)

    async def close(self) -> None:
        """Tell nothing more."""
        self._closed = True
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait((task,))

    def _look(self, topic: Topic, index: int) -> None:
        key = TopicPartition(topic.name, index)
        state = topic.partitions.get(index)
        directory = self._directory_of(topic, key)
        is_right = state is None or directory is None or self._node_id not in state.replicas
        if is_right or (state is not None and state.directory_of(self._node_id) == directory):
            self._wrong.pop(key, None)
            return
        assert directory is not None
        self._wrong[key] = topic.id, directory
        if self._task is None and not self._closed:
            name, serves = "tell where replicas lie", "replicas that have moved"
            self._task = keep_running(self._tell, name=name, serves=serves, loop=self._loop)
            self._task.add_done_callback(self._told)

    def _directory_of(self, topic: Topic, key: TopicPartition) -> Uuid | None:
        """Return where a replica lies; None where that is not known."""
        if self._partitions.is_lost(key):
            return DIRECTORY_LOST
        partition = self._partitions.held(*key)
        if partition is None or partition.topic_id != topic.id:
            return None
        wanted = self._wanted.get(key)
        if wanted is not None:
            return wanted
        assert partition.log_dir.meta is not None
        return partition.log_dir.meta.directory_id

    async def _tell(self) -> None:
        """Tell until nothing is wrong."""
        while self._wrong:
            wrong = dict(list(self._wrong.items())[:ASSIGNMENTS_MAX])
            if not await self._ask(wrong) or self._wrong:
                await asyncio.sleep(BACKOFF_S)  # the image may show it in a moment

    def _told(self, done: asyncio.Task[None]) -> None:
        self._task = None
        if self._wrong and not self._closed:
            self.look_at(next(iter(self._wrong)))  # found between the last look and the end of the task

    async def _ask(self, wrong: dict[TopicPartition, tuple[Uuid, Uuid]]) -> bool:
        """Send one request; return True where all of it was taken in."""
        broker = self._image().brokers.get(self._node_id)
        if broker is None:
            return False
        request = AssignReplicasToDirsRequest(
            broker_id=self._node_id, broker_epoch=broker.epoch, directories=_named(wrong)
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
        for key, (topic_id, _) in wrong.items():
            code = codes.get((topic_id, key.partition), int(ErrorCode.UNKNOWN_SERVER_ERROR))
            taken = taken and code == ErrorCode.NONE
            self.look_at(key)  # the image may show it by now, or the topic is gone
        return taken


def _named(wrong: dict[TopicPartition, tuple[Uuid, Uuid]]) -> list[RequestDirectoryData]:
    directories: dict[Uuid, dict[Uuid, list[RequestPartitionData]]] = {}
    for key, (topic_id, directory_id) in wrong.items():
        topics = directories.setdefault(directory_id, {})
        topics.setdefault(topic_id, []).append(RequestPartitionData(partition_index=key.partition))
    return [
        RequestDirectoryData(
            id=directory_id,
            topics=[RequestTopicData(topic_id=topic_id, partitions=found) for topic_id, found in topics.items()],
        )
        for directory_id, topics in directories.items()
    ]
