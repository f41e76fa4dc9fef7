"""How one configuration becomes that of several brokers on one machine: a node id, a port and folders for each shard.

Shard I of a configuration whose node is K is node K+I and listens I ports above. What lies below the configured folders is
each shard's own, and `broker.rack` is the machine's name where none is configured, so that a partition's copies are spread
over machines and not over the shards of one. The shards that `controller.quorum.voters` names are controllers; where no
voters are configured, the first shard alone is the metadata quorum.

The listener that shards then have for their controller is made here. Where anything of the configuration is protected it
asks for a login, whose secret is made with the folder and stands in a file of this user's alone.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ottla.base import ConfigError
from ottla.cli.local.cluster import free_ports
from ottla.cli.local.ports import LOOPBACK
from ottla.cli.local.shard_folders import known_shards, refuse_hiding, shard_folder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.config import BrokerConfig, HttpListener, Listener

At = TypeVar("At", "Listener", "HttpListener")

__all__ = ["SHARDS_MAX", "Shard", "shards_of"]

SHARDS_MAX = 64
SHARDS_FILE = "shards.json"
"""In the first log directory: what the shards of a machine that is its own quorum have agreed on."""
LOCK_FILE = "shards.lock"
SECRET_FILE = "shards-login.properties"
"""Beside it: the login of the shards' own controller listener, in a file that only this user reads."""
CONTROLLER = "CONTROLLER"
PROVIDER = "ottla-shards"
PROVIDER_CLASS = "org.apache.kafka.common.config.provider.FileConfigProvider"
JAAS = "sasl.jaas.config"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


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
    login: Mapping[str, str] = field(default_factory=dict)
    """What protects the listener, where it was made here."""


def shards_of(config: BrokerConfig, count: int) -> list[Shard]:
    """Return the shards of a configuration; raises ConfigError for what several brokers cannot share.

    Raises it, too, where the folders hold data that they would not show (`shard_folders`).
    """
    if not 1 <= count <= SHARDS_MAX:
        raise ConfigError("--shards", count, f"must be between 1 and {SHARDS_MAX}")
    ids = range(config.node_id, config.node_id + count)
    refuse_hiding(config, ids, first=_first_of(config))
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
        "log.dirs": ",".join(shard_folder(each, node_id) for each in config.log_dirs),
        "broker.rack": settings.broker_rack or socket.gethostname(),
        "controller.listener.names": quorum.listener_name,
        **quorum.login,
    }
    if quorum.voters:
        changed["controller.quorum.voters"] = quorum.voters
    if settings.advertised_listeners is not None:
        changed["advertised.listeners"] = _joined(_above(each, index) for each in config.advertised_listeners)
    if settings.metadata_log_dir:
        changed["metadata.log.dir"] = shard_folder(settings.metadata_log_dir, node_id)
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
        if name not in configured and _is_protected(config) and not _mapped(config, name):
            text = "name the controllers' listener there, with a protocol of its own: it would ask nobody for a login"
            raise ConfigError("listeners", ",".join(config.settings.listeners), text)
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
    own, login = configured.get(name), {}
    if own is None:
        own = replace(config.listeners[0], name=name, host=LOOPBACK, port=int(agreed["controller_port"]))
        login = _login_of(config, own)
    return _Quorum(f"{ids[0]}@{own.host or LOOPBACK}:{own.port}", name, {ids[0]: own}, agreed["cluster_id"], login)


def _is_protected(config: BrokerConfig) -> bool:
    """Return whether anybody is kept out by anything."""
    return any(each.protocol for each in config.listeners) or bool(config.settings.authorizer_class_name)


def _mapped(config: BrokerConfig, name: str) -> int:
    """Return how the configuration protects a listener by its name alone; 0 where it does not."""
    from ottla.config import parse_protocol_map

    return parse_protocol_map(config.settings.listener_security_protocol_map).get(name, 0)


def _login_of(config: BrokerConfig, own: Listener) -> dict[str, str]:
    """Return the settings by which a listener that is made here asks for a login; none where nothing is protected.

    One that the configuration itself protects, by its name in `listener.security.protocol.map`, has what stands there.
    """
    if _mapped(config, own.name) or not _is_protected(config):
        return {}
    path = (Path(config.log_dirs[0]) / SECRET_FILE).absolute()
    if set(str(path)) & set(":}"):
        raise ConfigError(
            "log.dirs", config.log_dirs[0], f"may have no ':' and no '}}' with --shards: {SECRET_FILE} is in it"
        )
    with _alone_in(path.parent):
        user = _secret_user(path)
    pairs = [each.strip() for each in config.settings.listener_security_protocol_map.split(",") if each.strip()]
    kept = [each for each in pairs if not each.upper().startswith(f"{own.name}:")]
    providers = [each for each in config.static.get("config.providers", "").split(",") if each.strip()]
    login = {
        "listener.security.protocol.map": ",".join([*kept, f"{own.name}:SASL_PLAINTEXT"]),
        "sasl.mechanism.controller.protocol": "PLAIN",
        f"{own.own_prefix}sasl.enabled.mechanisms": "PLAIN",
        f"{own.own_prefix}plain.{JAAS}": f"${{{PROVIDER}:{path}:{JAAS}}}",
        "config.providers": ",".join([*providers, PROVIDER]),
        f"config.providers.{PROVIDER}.class": PROVIDER_CLASS,
    }
    if config.settings.authorizer_class_name:
        others = [config.authorization.super_users] if config.authorization.super_users else []
        login["super.users"] = ";".join([*others, f"User:{user}"])
    return login


def _secret_user(path: Path) -> str:
    """Return the user of the login in a file, which is made where it is not there or not whole; nobody else reads it."""
    from ottla.config import parse_properties

    try:
        found = parse_properties(path.read_text())
    except (FileNotFoundError, ValueError, ConfigError):  # not there, or damaged
        found = {}
    if found.get("user") and found.get(JAAS):
        return found["user"]
    user, password = f"shards-{secrets.token_hex(8)}", secrets.token_hex(32)
    jaas = f'{PLAIN} required username="{user}" password="{password}" user_{user}="{password}";'
    _write_whole(path, f"user={user}\n{JAAS}={jaas}\n")
    return user


def _first_of(config: BrokerConfig) -> int | None:
    """Return the shard that is the quorum by itself, where the folders say so; None where nothing is agreed on yet."""
    own = not config.voters and not config.settings.controller_quorum_bootstrap_servers
    if not own or not (Path(config.log_dirs[0]) / SHARDS_FILE).exists():
        return None
    said = _agreed(config).get("controller")
    return int(said) if said is not None and str(said).isdigit() else min(known_shards(config), default=None)


def _agreed(config: BrokerConfig) -> dict[str, str]:
    """Return what `_agreement` says, which one process at a time may make."""
    path = Path(config.log_dirs[0]) / SHARDS_FILE
    with _alone_in(path.parent):
        return _agreement(config, path)


def _agreement(config: BrokerConfig, path: Path) -> dict[str, str]:
    """Return the cluster's id, the controller's port and which shard it is, as the first start chose them."""
    try:
        found = json.loads(path.read_text())
    except FileNotFoundError:
        from ottla.cli.local.storage_format import new_id

        (port,) = free_ports(1, port=config.client_listeners[0].port or 9092)
        found = {"cluster_id": new_id(), "controller_port": str(port), "controller": str(config.node_id)}
        _write_whole(path, json.dumps(found) + "\n")
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not found.get("cluster_id") or not str(found.get("controller_port")).isdigit():
        wanted = '{"cluster_id": "…", "controller_port": "…"}'
        text = (
            f"is damaged; it holds {wanted}: any free port, and the cluster.id of meta.properties in the nodes' folders"
        )
        raise ConfigError("log.dirs", path, text)
    return found


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Let one process at a time make what is to be made once: two first starts must not each go on with their own."""
    folder.mkdir(parents=True, exist_ok=True)  # the folder is as open as the umask says: data come into it
    with open(os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600), "r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _write_whole(path: Path, text: str) -> None:
    """Write a file of this user's alone, which is there whole or not at all whenever anything ends."""
    from ottla.config import write_whole

    path.parent.mkdir(parents=True, exist_ok=True)  # the folder is as open as the umask says: data come into it
    write_whole(path, [text.encode()])


def _above(listener: At, index: int) -> At:
    return replace(listener, port=listener.port + index) if listener.port else listener


def _joined(listeners: Iterable[object]) -> str:
    return ",".join(map(str, listeners))
