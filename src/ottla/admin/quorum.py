"""Who votes in the metadata's quorum (KIP-853)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.admin.errors import raise_code
from ottla.base import METADATA_TOPIC, Uuid

if TYPE_CHECKING:
    from ottla.client import BlockingClient

__all__ = ["ControllerEndpoint", "ControllerToAdd", "add_voter", "describe_quorum", "remove_voter"]

TIMEOUT_MS = 60_000


class ControllerEndpoint(NamedTuple):
    """Where a controller listens."""

    listener: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.listener}://{host}:{self.port}"


@dataclass(frozen=True)
class ControllerToAdd:
    """A controller that follows the quorum already and shall vote: its node, its metadata folder, where it listens."""

    node_id: int
    directory_id: Uuid
    endpoints: tuple[ControllerEndpoint, ...]


def describe_quorum(client: BlockingClient) -> tuple[Any, Any]:
    """Return the metadata partition's answer and the whole one (KIP-595); raises KafkaError in the broker's words."""
    from ottla.wire.messages.describe_quorum import DescribeQuorumRequest, RequestPartitionData, RequestTopicData

    topic = RequestTopicData(topic_name=METADATA_TOPIC, partitions=[RequestPartitionData(partition_index=0)])
    response = client.request(DescribeQuorumRequest(topics=[topic]))
    raise_code(response.error_code, response.error_message)
    ((partition,),) = [topic.partitions for topic in response.topics]
    raise_code(partition.error_code, partition.error_message)
    return partition, response


def add_voter(client: BlockingClient, controller: ControllerToAdd) -> None:
    """Let a controller vote; returns when that is committed. Raises DUPLICATE_VOTER for one that votes already.

    Any other KafkaError is the leader's too: REQUEST_TIMED_OUT after a minute, as for one that does not catch up.
    """
    from ottla.wire.messages.add_raft_voter import AddRaftVoterRequest, Listener

    message = AddRaftVoterRequest(
        cluster_id=None,
        timeout_ms=TIMEOUT_MS,
        voter_id=controller.node_id,
        voter_directory_id=controller.directory_id,
        listeners=[Listener(name=each.listener, host=each.host, port=each.port) for each in controller.endpoints],
        ack_when_committed=True,
    )
    response = client.request(message)
    raise_code(response.error_code, response.error_message)


def remove_voter(client: BlockingClient, node_id: int, directory_id: Uuid) -> None:
    """Let a controller vote no more; it goes on to follow until it is stopped. Raises VOTER_NOT_FOUND for another."""
    from ottla.wire.messages.remove_raft_voter import RemoveRaftVoterRequest

    message = RemoveRaftVoterRequest(cluster_id=None, voter_id=node_id, voter_directory_id=directory_id)
    response = client.request(message)
    raise_code(response.error_code, response.error_message)
