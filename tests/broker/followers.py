"""Brokers that a single node takes for its peers: they are in the metadata only, and a test plays their part."""

from __future__ import annotations

from typing import Any

from ottla.base import NodeId
from ottla.broker import Node
from ottla.metadata import decide
from ottla.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from tests.broker.node_client import NodeClient
from tests.metadata.clusters import registration

__all__ = ["FakeFollower", "create_replicated", "image_of"]


def image_of(node: Node) -> Any:
    return node.quorum.image


class FakeFollower:
    """A broker that is registered and unfenced, and fetches when it is told to, through a connection of its own."""

    def __init__(self, client: NodeClient, broker_id: int, epoch: int) -> None:
        self.client, self.id, self.epoch = client, broker_id, epoch
        self.session: tuple[int, int] | None = None

    @classmethod
    async def register(cls, node: Node, broker_id: int, *, rack: str | None = None) -> FakeFollower:
        quorum = node.quorum
        made = registration(broker_id, rack=rack)
        epoch = await quorum.submit(lambda image: decide.register_broker(image, made, supersede=True))
        follower = cls(await NodeClient.connect(node), broker_id, epoch)
        await follower.beat()
        return follower

    async def beat(self, *, fence: bool = False) -> None:
        await self.client.node.quorum.submit(
            lambda image: decide.heartbeat(
                image, NodeId(self.id), self.epoch, caught_up=True, want_fence=fence, want_shut_down=False
            )
        )

    async def send_fetch(
        self,
        topic: str,
        offset: int,
        *,
        max_wait_ms: int = 0,
        leader_epoch: int = 0,
        last_fetched_epoch: int = -1,
        epoch: int | None = None,
        log_start_offset: int = 0,
        high_watermark: int | None = None,
    ) -> FetchRequest:
        known = {} if high_watermark is None else {"high_watermark": high_watermark}
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=self.id, replica_epoch=self.epoch if epoch is None else epoch),
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=1 << 20,
            session_id=0,
            session_epoch=-1,
            topics=[
                FetchTopic(
                    topic_id=await self.client.topic_id(topic),
                    partitions=[
                        FetchPartition(
                            partition=0,
                            fetch_offset=offset,
                            log_start_offset=log_start_offset,
                            partition_max_bytes=1 << 20,
                            current_leader_epoch=leader_epoch,
                            last_fetched_epoch=last_fetched_epoch,
                            **known,
                        )
                    ],
                )
            ],
        )
        self.client.send(request, 18)
        return request

    async def fetch(self, topic: str, offset: int, **wanted: Any) -> Any:
        """Fetch from partition 0 and return its answer."""
        request = await self.send_fetch(topic, offset, **wanted)
        return (await self.client.receive(request, 18)).responses[0].partitions[0]


async def create_replicated(client: NodeClient, topic: str, *replicas: int, **configs: str) -> None:
    """Create a topic of one partition on these brokers."""
    answer = await client.ask(
        CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name=topic,
                    num_partitions=-1,
                    replication_factor=-1,
                    assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=replicas)],
                    configs=[
                        CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()
                    ],
                )
            ],
            timeout_ms=10_000,
        )
    )
    assert answer.topics[0].error_code == 0, answer.topics[0].error_message
    client.topic_ids[topic] = bytes(answer.topics[0].topic_id)
