"""How the nodes of a cluster on this machine stand: their processes, and what each says of the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.base import METADATA_TOPIC, OttlaError
from ottla.cli.local.cluster import LocalCluster
from ottla.cli.local.node_process import pid_of, state_of

if TYPE_CHECKING:
    from ottla.client import BlockingClient

__all__ = ["Watchers", "standing"]

ANSWER_SECONDS = 2.0


class Watchers:
    """Asks each node for itself, over a connection of its own; one that does not answer is no error."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self._clients: dict[int, BlockingClient] = {}

    def __enter__(self) -> Watchers:
        return self

    def __exit__(self, *error: object) -> None:
        for client in self._clients.values():
            client.close()

    def _ask(self, number: int, message: Any, *, lowest: int = 0) -> Any:
        """Return a node's own answer, or None where it gives none."""
        from ottla.client import BlockingClient, Limits

        if number not in self._clients:
            limits = Limits(
                connect_s=ANSWER_SECONDS, request_s=ANSWER_SECONDS, call_s=ANSWER_SECONDS, unreachable_s=0.0
            )
            self._clients[number] = BlockingClient(self._cluster.address(number), limits=limits)
        try:
            return self._clients[number].request(message, lowest=lowest)
        except OttlaError:
            return None

    def brokers_at(self, number: int) -> dict[int, bool]:
        """Return the brokers that a node knows, with whether each is fenced; none where it does not answer."""
        from ottla.wire.messages.describe_cluster import DescribeClusterRequest

        answer = self._ask(number, DescribeClusterRequest(include_fenced_brokers=True), lowest=2)
        return {} if answer is None else {each.broker_id: each.is_fenced for each in answer.brokers}

    def unfenced_at(self, number: int) -> set[int]:
        """Return the brokers that a node knows as unfenced."""
        return {each for each, fenced in self.brokers_at(number).items() if not fenced}

    def quorum_leader_at(self, number: int) -> int | None:
        """Return who leads the metadata quorum, as a node says."""
        from ottla.wire.messages.describe_quorum import DescribeQuorumRequest, RequestPartitionData, RequestTopicData

        topic = RequestTopicData(topic_name=METADATA_TOPIC, partitions=[RequestPartitionData(partition_index=0)])
        answer = self._ask(number, DescribeQuorumRequest(topics=[topic]))
        if answer is None or answer.error_code or not answer.topics:
            return None
        leader: int = answer.topics[0].partitions[0].leader_id
        return leader if leader >= 0 else None


def standing(cluster: LocalCluster) -> list[dict[str, object]]:
    """Return a row per node: its process, where it serves, and what the cluster says of it."""
    pids = {node.id: pid_of(node) for node in cluster.nodes}
    running = [number for number, pid in pids.items() if pid is not None and state_of(pid) == "running"]
    with Watchers(cluster) as watchers:
        known: dict[int, bool] = {}
        leader = None
        for number in running:
            known = known or watchers.brokers_at(number)
            leader = leader or watchers.quorum_leader_at(number)
    rows: list[dict[str, object]] = []
    for number, pid in pids.items():
        fenced = known.get(number)
        role = "leader" if number == leader else "voter" if cluster.is_controller(number) else "observer"
        rows.append(
            {
                "node": number,
                "process": "stopped" if pid is None else state_of(pid),
                "pid": pid,
                "listener": cluster.address(number),
                "broker": "unknown" if fenced is None else "fenced" if fenced else "unfenced",
                "quorum": role,
            }
        )
    return rows
