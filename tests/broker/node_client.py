"""A node in this process and a plain client of its listener, which writes and reads with the codec."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from random import SystemRandom
from typing import Any, TypeVar

from ottla.base import Millis, Offset
from ottla.broker import Node, SystemClock, ThreadsAndProcess
from ottla.broker.services import Services
from ottla.config import BrokerConfig
from ottla.log import OsDisk
from ottla.net import TcpNetwork
from ottla.wire import APIS, Codec, Message, Record, build_batch, encode_request, read_response
from ottla.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.waiting import until_async

__all__ = ["NOW_MS", "NodeClient", "batch", "logs_made", "parts", "run", "running_node", "start_node"]

M = TypeVar("M", bound=Message)
NOW_MS = 1_700_000_000_000


def run(test: Callable[[], Coroutine[Any, Any, None]], seconds: float = 100) -> None:
    """Run a test, at most so long."""
    asyncio.run(asyncio.wait_for(test(), seconds))


async def start_node(
    folder: Path,
    *settings: str,
    disk: Any = None,
    clock: Any = None,
    offload: Any = None,
    environment: Mapping[str, str] | None = None,
) -> Node:
    """Start a node with its data in `folder`, on a free port; `disk`, `clock` and `offload` in place of the machine's."""
    config = BrokerConfig.load(
        overrides=["listeners=PLAINTEXT://127.0.0.1:0", f"log.dirs={folder}", *settings], environment=environment or {}
    )
    offload = offload or ThreadsAndProcess()
    node = Node(config, disk or OsDisk(), TcpNetwork(), clock or SystemClock(), SystemRandom(), offload)
    await node.start()
    return node


def parts(node: Node) -> Services:
    """Return the parts of a node that has started: here alone do tests look into one."""
    services = node._services
    assert services is not None, "the node has not started"
    return services


async def logs_made(node: Node) -> None:
    """Wait until all logs are there: those of a large new topic are made beside other work.

    A Fetch that asks for many of them before is answered at once, with an error for those that are not there yet.
    """
    await until_async(lambda: parts(node).partitions.unmade == 0)


@asynccontextmanager
async def running_node(
    folder: Path, *settings: str, disk: Any = None, clock: Any = None, offload: Any = None
) -> AsyncIterator[NodeClient]:
    """Start a node, connect to it, and stop it cleanly at the end."""
    node = await start_node(folder, *settings, disk=disk, clock=clock, offload=offload)
    try:
        client = await NodeClient.connect(node)
        yield client
        client.close()
    finally:
        await node.stop()


async def delete_topic(client: NodeClient, topic: str = "t") -> None:
    """Delete a topic, and forget its id."""
    answer = await client.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=10_000))
    assert answer.responses[0].error_code == 0
    client.topic_ids.pop(topic, None)


def batch(*values: bytes | None, codec: Codec = Codec.NONE, timestamp: int = NOW_MS, **fields: Any) -> bytes:
    """Build a record batch of these values, without keys."""
    records = [
        Record(offset=Offset(at), timestamp=Millis(timestamp + at), key=None, value=value, headers=())
        for at, value in enumerate(values)
    ]
    return bytes(build_batch(records, codec=codec, **fields))


class NodeClient:
    """One connection; every request waits for its answer unless it is sent with `send`."""

    def __init__(self, node: Node, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.node, self.reader, self.writer = node, reader, writer
        self.topic_ids: dict[str, bytes] = {}
        self._correlation_id = 0

    @classmethod
    async def connect(cls, node: Node) -> NodeClient:
        """Open a connection to the node's first listener."""
        listener = node.listeners[0]
        return cls(node, *await asyncio.open_connection(listener.host, listener.port))

    def close(self) -> None:
        """Hang up."""
        self.writer.close()

    def send(self, request: Message, version: int) -> int:
        """Send a request and return its correlation id."""
        self._correlation_id += 1
        self.writer.write(encode_request(request, version, self._correlation_id, "test"))
        return self._correlation_id

    async def frame(self) -> bytes:
        """Return the next answer's frame; raises IncompleteReadError where the broker hung up."""
        (size,) = struct.unpack(">i", await self.reader.readexactly(4))
        return await self.reader.readexactly(size)

    async def receive(self, request: Message, version: int) -> Any:
        """Return the next answer, which must be to this kind of request."""
        assert request.API_KEY is not None
        _, message = read_response(APIS[request.API_KEY].response, await self.frame(), request.API_KEY, version)
        return message

    async def ask(self, request: Message, version: int | None = None) -> Any:
        """Send a request in its highest version, or the one given, and return the answer."""
        version = request.VERSIONS[1] if version is None else version
        sent = self.send(request, version)
        assert sent == self._correlation_id
        return await self.receive(request, version)

    async def create(self, topic: str, partitions: int = 1, **configs: str) -> None:
        """Create a topic; `max_message_bytes="100"` sets `max.message.bytes`."""
        answer = await self.ask(
            CreateTopicsRequest(
                topics=[
                    CreatableTopic(
                        name=topic,
                        num_partitions=partitions,
                        replication_factor=1,
                        configs=[
                            CreatableTopicConfig(name=key.replace("_", "."), value=value)
                            for key, value in configs.items()
                        ],
                    )
                ],
                timeout_ms=10_000,
            )
        )
        assert answer.topics[0].error_code == 0, answer.topics[0].error_message
        self.topic_ids[topic] = bytes(answer.topics[0].topic_id)

    async def topic_id(self, topic: str) -> bytes:
        """Return a topic's id."""
        if topic not in self.topic_ids:
            answer = await self.ask(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]))
            self.topic_ids[topic] = bytes(answer.topics[0].topic_id)
        return self.topic_ids[topic]

    def produce_request(
        self, topic: str, records: bytes | None, *, index: int = 0, acks: int = -1, timeout_ms: int = 10_000
    ) -> ProduceRequest:
        """Return a Produce request of one batch that fits every version."""
        return ProduceRequest(
            acks=acks,
            timeout_ms=timeout_ms,
            topic_data=[
                TopicProduceData(
                    name=topic,
                    topic_id=self.topic_ids.get(topic, bytes(16)),
                    partition_data=[PartitionProduceData(index=index, records=records)],
                )
            ],
        )

    async def produce(
        self, topic: str, records: bytes | None, *, version: int = 13, index: int = 0, acks: int = -1
    ) -> Any:
        """Produce one batch and return the partition's answer."""
        await self.topic_id(topic)
        answer = await self.ask(self.produce_request(topic, records, index=index, acks=acks), version)
        return answer.responses[0].partition_responses[0]

    def fetch_request(
        self,
        topic: str,
        offset: int,
        *,
        index: int = 0,
        max_wait_ms: int = 0,
        min_bytes: int = 1,
        max_bytes: int = 1 << 20,
        partition_max_bytes: int = 1 << 20,
        leader_epoch: int = -1,
        last_fetched_epoch: int = -1,
        session_id: int = 0,
        session_epoch: int = -1,
        isolation_level: int = 0,
    ) -> FetchRequest:
        """Return a Fetch request of one partition that fits every version."""
        return FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            isolation_level=isolation_level,
            session_id=session_id,
            session_epoch=session_epoch,
            topics=[
                FetchTopic(
                    topic=topic,
                    topic_id=self.topic_ids.get(topic, bytes(16)),
                    partitions=[
                        FetchPartition(
                            partition=index,
                            fetch_offset=offset,
                            partition_max_bytes=partition_max_bytes,
                            current_leader_epoch=leader_epoch,
                            last_fetched_epoch=last_fetched_epoch,
                        )
                    ],
                )
            ],
        )

    async def fetch(self, topic: str, offset: int, *, version: int = 18, **wanted: Any) -> Any:
        """Fetch from one partition and return its answer."""
        await self.topic_id(topic)
        answer = await self.ask(self.fetch_request(topic, offset, **wanted), version)
        assert answer.error_code == 0
        return answer.responses[0].partitions[0]
