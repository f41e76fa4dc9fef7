"""What `ottla reassign-partitions` says of partitions and replicas on the move, in the words of Kafka's tool."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.admin import OngoingReassignment, ReassignmentState, ReplicaLogDir, TopicPartitionReplica
from ottla.base import TopicPartition

__all__ = ["log_dir_text", "ongoing_text", "state_text"]


def ongoing_text(moving: OngoingReassignment, partition: TopicPartition) -> str:
    """Return Kafka's line."""
    words = [f"{partition}: replicas: {_listed(moving.replicas)}."]
    words += [f"adding: {_listed(moving.adding)}."] if moving.adding else []
    words += [f"removing: {_listed(moving.removing)}."] if moving.removing else []
    return " ".join(words)


def state_text(state: ReassignmentState, partition: TopicPartition) -> str:
    """Return Kafka's line."""
    if not state.done:
        return f"Reassignment of partition {partition} is still in progress."
    if state.word == "completed":
        return f"Reassignment of partition {partition} is completed."
    return (
        f"There is no active reassignment of partition {partition}, but replica set is {_listed(state.current)} "
        f"rather than {_listed(state.target)}."
    )


def log_dir_text(lying: ReplicaLogDir, replica: TopicPartitionReplica, target: str) -> str:
    """Return Kafka's line."""
    name, broker = f"Partition {replica.topic}-{replica.partition}", replica.broker
    if lying.current is None:
        return (
            f"{name} is not found in any live log dir on broker {broker}. "
            "There is likely an offline log directory on the broker."
        )
    if lying.future is None and lying.current == target:
        return f"Reassignment of replica {replica} completed successfully."
    if lying.future is None:
        return f"{name} on broker {broker} is not being moved from log dir {lying.current} to {target}."
    if lying.future == target:
        return f"Reassignment of replica {replica} is still in progress."
    return f"{name} on broker {broker} is being moved to log dir {lying.future} instead of {target}."


def _listed(nodes: Iterable[int]) -> str:
    return ",".join(map(str, nodes))
