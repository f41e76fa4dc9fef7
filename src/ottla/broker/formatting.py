"""Formatting: giving a node's log directories their identity, and the metadata log what its first start needs."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Mapping

from ottla.base import Millis, Rng, Uuid, random_uuid
from ottla.broker.quorum.formatting import format_quorum
from ottla.config import BrokerConfig
from ottla.log import LogDir, MetaProperties
from ottla.metadata import DEFAULT_LEVELS, Record
from ottla.raft import ReplicaKey, Voter, VoterEndpoint, VoterSet

__all__ = ["format_directory", "is_standalone", "standalone"]

WILDCARD_HOSTS = ("", "0.0.0.0", "::")


def format_directory(
    config: BrokerConfig,
    log_dir: LogDir,
    *,
    cluster_id: str,
    rng: Rng,
    now_ms: Millis,
    levels: Mapping[str, int] = DEFAULT_LEVELS,
    voters: VoterSet | None = None,
    users: Iterable[Record] = (),
) -> None:
    """Format one directory that is locked and new; durable on return.

    `levels` are the new cluster's features, `users` the records of its first users (`--add-scram`).

    Where it has the metadata log, what says who votes is written before the identity, without which nothing of it is
    read: the `voters` (`--initial-controllers`; an empty set for `--no-initial-controllers`), or without them this node
    alone where neither voters nor an existing quorum's servers are configured (`--standalone`).
    """
    directory_id = random_uuid(rng)
    if log_dir.path == config.metadata_log_dir:
        own = None if voters is None else voters.get(config.node_id)
        if own is not None:
            directory_id = own.key.directory_id
        if voters is None and is_standalone(config):
            voters = standalone(config, directory_id)
        format_quorum(log_dir.disk, log_dir.path, voters=voters, levels=levels, users=users, now_ms=now_ms)
    log_dir.format(MetaProperties(cluster_id=cluster_id, node_id=config.node_id, directory_id=directory_id))


def is_standalone(config: BrokerConfig) -> bool:
    """True where a node without further word is a quorum of its own: no voters and no quorum to find are configured."""
    return config.is_quorum_of_one and not config.voters and not config.settings.controller_quorum_bootstrap_servers


def standalone(config: BrokerConfig, directory_id: Uuid) -> VoterSet:
    """Return the quorum that this node alone is; where its listener's port is not fixed, the first start says which."""
    endpoints = tuple(
        VoterEndpoint(each.name, each.host if each.host not in WILDCARD_HOSTS else socket.getfqdn(), each.port)
        for each in config.listeners
        if each.name in config.controller_listener_names and each.port
    )
    return VoterSet.of([Voter(ReplicaKey(config.node_id, directory_id), endpoints)])
