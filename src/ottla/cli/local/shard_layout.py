"""How one configuration becomes that of several brokers on one machine: a node id, a port and folders for each shard.

Shard I of a configuration whose node is K is node K+I and listens I ports above. What lies below the configured folders is
each shard's own, and `broker.rack` is the machine's name where none is configured, so that a partition's copies are spread
over machines and not over the shards of one. The shards that `controller.quorum.voters` names are controllers; where no
voters are configured, the first shard alone is the metadata quorum.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ottla.base import ConfigError
from ottla.cli.local.cluster import LOOPBACK, free_ports

if TYPE_CHECKING:
    from ottla.config import BrokerConfig, HttpListener, Listener

At = TypeVar("At", "Listener", "HttpListener")

__all__ = ["SHARDS_MAX", "Shard", "shards_of"]

SHARDS_MAX = 64
SHARDS_FILE = "shards.json"
"""In the first log directory: what the shards of a machine that is its own quorum have agreed on."""
CONTROLLER = "CONTROLLER"


@dataclass(frozen=True)
class Shard:
    """One of the brokers: what its configuration has in place of the machine's."""

    node_id: int
    overrides: tuple[str, ...]
    is_controller: bool
    cluster_id: str | None = None
    """The identity to format its folders with; None where whoever set up the quorum has to do it."""


@dataclass(frozen=True)
class _Quorum:
    """The voters as text, the controllers' listener by node id, and the cluster's id where this machine is all of it."""

    voters: str
    listener_name: str
    listeners: dict[int, Listener]
    cluster_id: str | None


def shards_of(config: BrokerConfig, count: int) -> list[Shard]:
    """Return the shards of a configuration; raises ConfigError for what several brokers cannot share."""
    if not 1 <= count <= SHARDS_MAX:
        raise ConfigError("--shards", count, f"must be between 1 and {SHARDS_MAX}")
    ids = range(config.node_id, config.node_id + count)
    quorum = _quorum_of(config, ids)
    taken = {each.port + index for each in config.client_listeners if each.port for index in range(count)}
    for number, listener in quorum.listeners.items():
        if listener.port in taken:
            allowed = f"the controller's port of node {number} lies among those of the {count} shards' own listeners"
            raise ConfigError("listeners", listener, allowed)
    return [_shard(config, index, quorum) for index in range(count)]


def _shard(config: BrokerConfig, index: int, quorum: _Quorum) -> Shard:
    node_id = config.node_id + index
    own = quorum.listeners.get(node_id)
    settings = config.settings
    listeners = [_above(each, index) for each in config.client_listeners]
    changed: dict[str, object] = {
        "node.id": node_id,
        "broker.id": node_id,
        "process.roles": "controller,broker" if own is not None else "broker",
        "listeners": _joined([*listeners, *([own] if own is not None else [])]),
        "log.dirs": ",".join(_below(each, node_id) for each in config.log_dirs),
        "broker.rack": settings.broker_rack or socket.gethostname(),
        "controller.listener.names": quorum.listener_name,
    }
    if quorum.voters:
        changed["controller.quorum.voters"] = quorum.voters
    if settings.advertised_listeners is not None:
        changed["advertised.listeners"] = _joined(_above(each, index) for each in config.advertised_listeners)
    if settings.metadata_log_dir:
        changed["metadata.log.dir"] = _below(settings.metadata_log_dir, node_id)
    if index and config.settings.ottla_registry_listeners:
        changed["ottla.registry.listeners"] = ""
    if config.http_listeners:
        changed["ottla.http.listeners"] = _joined(_above(each, index) for each in config.http_listeners)
    overrides = tuple(f"{key}={value}" for key, value in changed.items())
    return Shard(node_id, overrides, own is not None, quorum.cluster_id)


def _quorum_of(config: BrokerConfig, ids: range) -> _Quorum:
    """Return the configured quorum, or that of the machine's first shard alone."""
    configured = {each.name: each for each in config.listeners if each.name in config.controller_listener_names}
    name = config.controller_listener_names[0] if config.controller_listener_names else CONTROLLER
    if config.voters:
        by_id = {voter.node_id: voter for voter in config.voters if voter.node_id in ids}
        found = {}
        for voter in by_id.values():
            at = configured.get(name, config.listeners[0])
            found[int(voter.node_id)] = replace(at, name=name, port=voter.port)
        text = ",".join(config.settings.controller_quorum_voters)
        alone = _agreed(config)["cluster_id"] if len(by_id) == len(config.voters) else None
        return _Quorum(text, name, found, alone)
    if config.settings.controller_quorum_bootstrap_servers:
        is_controller = "controller" in config.roles and name in configured
        return _Quorum("", name, {ids[0]: configured[name]} if is_controller else {}, None)
    agreed = _agreed(config)
    own = configured.get(name)
    if own is None:
        own = replace(config.listeners[0], name=name, host=LOOPBACK, port=int(agreed["controller_port"]))
    return _Quorum(f"{ids[0]}@{own.host or LOOPBACK}:{own.port}", name, {ids[0]: own}, agreed["cluster_id"])


def _agreed(config: BrokerConfig) -> dict[str, str]:
    """Return the cluster's id and the controller's port, as the first start chose them."""
    path = Path(config.log_dirs[0]) / SHARDS_FILE
    try:
        found: dict[str, str] = json.loads(path.read_text())
    except FileNotFoundError:
        from ottla.cli.local.storage_format import new_id

        (port,) = free_ports(1, port=config.client_listeners[0].port or 9092)
        found = {"cluster_id": new_id(), "controller_port": str(port)}
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(found) + "\n")
    return found


def _above(listener: At, index: int) -> At:
    return replace(listener, port=listener.port + index) if listener.port else listener


def _below(folder: str, node_id: int) -> str:
    return f"{folder.rstrip('/')}/node-{node_id}"


def _joined(listeners: Iterable[object]) -> str:
    return ",".join(map(str, listeners))
