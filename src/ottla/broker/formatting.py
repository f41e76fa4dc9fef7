"""Formatting: giving a node's log directories their identity, and the metadata log what its first start needs."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.base import Millis, Rng, Uuid
from ottla.broker.quorum_format import format_quorum
from ottla.config import BrokerConfig
from ottla.log import LogDir, MetaProperties
from ottla.metadata import DEFAULT_LEVELS
from ottla.raft import ReplicaKey

__all__ = ["format_directory"]

RESERVED_IDS = 100
"""Directory ids whose value is below this are KIP-858's own (lost, migrating, unassigned)."""


def format_directory(
    config: BrokerConfig,
    log_dir: LogDir,
    *,
    cluster_id: str,
    rng: Rng,
    now_ms: Millis,
    levels: Mapping[str, int] = DEFAULT_LEVELS,
) -> None:
    """Format one directory that is locked and new; durable on return. `levels` are the new cluster's features.

    Where it has the metadata log and no voters are configured, this node alone becomes the quorum, and what says so is
    written before the identity, without which nothing of it is read.
    """
    directory_id = Uuid(rng.randbytes(16))
    while int.from_bytes(directory_id, "big") < RESERVED_IDS:
        directory_id = Uuid(rng.randbytes(16))
    if log_dir.path == config.metadata_log_dir:
        voter = None if config.voters else ReplicaKey(config.node_id, directory_id)
        format_quorum(log_dir.disk, log_dir.path, voter=voter, levels=levels, now_ms=now_ms)
    log_dir.format(MetaProperties(cluster_id=cluster_id, node_id=config.node_id, directory_id=directory_id))
