"""Where shards keep their data below the configured folders, and what refuses to start where data would not be seen.

A shard's folder has a name that no partition's log can have (`shard.2`), because a partition's is TOPIC-NUMBER. Ottla called
it `node-2` once, which is the log of partition 2 of a topic `node`, too: such a folder gets its new name, in one rename, at
the next start. A rename that did not come to be because the process ended is done by the start after it.

A server without shards and one with them keep their data in different places of the same folder, and so do two numbers of
shards. Where a start would leave data out of sight it is refused, and says what is there and how it is served.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection
from typing import TYPE_CHECKING

from ottla.base import ConfigError, StorageError
from ottla.cli.options import warn

if TYPE_CHECKING:
    from ottla.config import BrokerConfig
    from ottla.log import Disk, FileLock

__all__ = ["known_shards", "refuse_hiding", "refuse_hiding_shards", "rename_old_folders", "shard_folder"]

NAME = re.compile(r"shard\.(\d+)")
OLD_NAME = re.compile(r"node-(\d+)")
LOCK_FILE = ".lock"
RENAMED_SECONDS_MAX, LOOK_SECONDS = 2.0, 0.05
"""How long another start may take for a rename, and how often this one looks."""


def shard_folder(folder: str, node_id: int) -> str:
    """Return where the shard of this node id keeps what belongs into a configured folder."""
    return f"{folder.rstrip('/')}/shard.{node_id}"


def known_shards(config: BrokerConfig) -> set[int]:
    """Return the node ids of the shards that have data below the configured folders, under either name.

    Raises StorageError.
    """
    from ottla.log import OsDisk

    disk = OsDisk()
    return {each for folder in _folders(config) for each in (*_shards_in(disk, folder), *_old_in(disk, folder))}


def refuse_hiding(config: BrokerConfig, ids: Collection[int], *, first: int | None) -> None:
    """Refuse a start with shards of these ids where it would leave data out of sight, or below another shard's quorum.

    `first` is the shard that is the quorum by itself, None where none is known. Raises ConfigError and StorageError.
    """
    from ottla.log import OsDisk

    disk = OsDisk()
    known = known_shards(config)
    for folder in _folders(config):
        if not _is_formatted(disk, folder):
            continue
        if not known:
            text = "it holds the data of a server without shards: start it without --shards, or name an empty folder"
            raise ConfigError(
                "log.dirs", folder, f"{text} (--shards keeps its data elsewhere, and would not show these)"
            )
        warn(f"ottla server: {folder} holds data of a server without shards, too, which --shards does not show")
    if known and first is not None and first not in ids:
        said = f"these shards are {_listed(known)}, and node {first} is their controller: set node.id={first}"
        raise ConfigError("node.id", config.node_id, said)
    voters = {int(each.node_id) for each in config.voters}
    left = sorted(each for each in known - set(ids) if each in voters or _has_logs(disk, config, each))
    if left:
        raise ConfigError("--shards", len(ids), _why_too_few(config, known, left))


def refuse_hiding_shards(config: BrokerConfig) -> None:
    """Refuse a server without shards where it would begin in a folder of shards; raises ConfigError and StorageError.

    Where such a folder is a server's already, which earlier versions allowed, it is said which data is not shown, and the
    shards' folders get names that no topic can have.
    """
    from ottla.log import OsDisk

    disk = OsDisk()
    for folder in _folders(config):
        found = {*_shards_in(disk, folder), *_old_in(disk, folder)}
        if not found:
            continue
        if not _is_formatted(disk, folder):
            raise ConfigError("log.dirs", folder, _with_shards(config, found))
        rename_old_folders(folder)
        warn(f"ottla server: {folder} holds data of shards too, {_listed(found)}, which is shown with --shards only")


def rename_old_folders(folder: str) -> None:
    """Give shards' folders of earlier versions their new names, durably; each is renamed whole or not at all.

    Raises StorageError where a process uses one, or where the new name is taken.
    """
    from ottla.log import OsDisk

    disk = OsDisk()
    for node_id, old in sorted(_old_in(disk, folder).items()):
        new = shard_folder(folder, node_id)
        lock = _locked(disk, old, new)
        if lock is None:
            continue  # another start has renamed it since it was found
        try:
            if node_id not in _old_in(disk, folder):
                continue  # the same, while its lock was opened
            if disk.exists(new):
                said = f"{old} and {new} both hold data of node {node_id}"
                raise StorageError(f"{said}: keep one, and move the other away")
            disk.rename(old, new)
            disk.fsync_dir(folder)
        finally:
            lock.release()


def _locked(disk: Disk, old: str, new: str) -> FileLock | None:
    """Return the lock of a folder, None where it is gone; another start has it for a moment only.

    Raises StorageError where a process keeps it.
    """
    until_s = time.monotonic() + RENAMED_SECONDS_MAX
    while True:
        try:
            lock = disk.lock(f"{old}/{LOCK_FILE}")
        except StorageError:
            if disk.exists(old):
                raise
            return None
        if lock is not None:
            return lock
        if time.monotonic() >= until_s:
            raise StorageError(f"{old} is in use by another process: stop that, so that the folder can become {new}")
        time.sleep(LOOK_SECONDS)


def _folders(config: BrokerConfig) -> list[str]:
    return list(dict.fromkeys((*config.log_dirs, config.metadata_log_dir)))


def _shards_in(disk: Disk, folder: str) -> dict[int, str]:
    """Return the shards' folders in a folder by their node ids."""
    names = [(NAME.fullmatch(entry.name), entry) for entry in disk.scan(folder) if entry.is_folder]
    found = {int(match[1]): f"{folder}/{entry.name}" for match, entry in names if match is not None}
    return {node_id: path for node_id, path in found.items() if _is_formatted(disk, path)}


def _old_in(disk: Disk, folder: str) -> dict[int, str]:
    """Return the folders that earlier versions made for shards: what `node-I` says is what its identity says."""
    from ottla.log import read_meta

    found = {}
    for entry in disk.scan(folder):
        match = OLD_NAME.fullmatch(entry.name)
        path = f"{folder}/{entry.name}"
        if match is None or not entry.is_folder:
            continue
        meta = read_meta(disk, path)
        if meta is not None and meta.node_id == int(match[1]):
            found[int(meta.node_id)] = path
    return found


def _is_formatted(disk: Disk, folder: str) -> bool:
    from ottla.log import is_log_dir

    return is_log_dir(disk, folder)


def _has_logs(disk: Disk, config: BrokerConfig, node_id: int) -> bool:
    """Return whether a shard has any partition, without which a cluster misses nothing of it."""
    from ottla.log import partition_folders

    paths = [
        each[node_id]
        for folder in _folders(config)
        for each in (_shards_in(disk, folder), _old_in(disk, folder))
        if node_id in each
    ]
    return any(partition_folders(disk, path) for path in paths)


def _with_shards(config: BrokerConfig, found: Collection[int]) -> str:
    count = max(found) - config.node_id + 1
    start = f"start it with --shards {count}" if count >= 1 else f"start it with node.id={min(found)} and --shards"
    return f"it holds the data of shards ({_listed(found)}): {start}, or name an empty folder"


def _why_too_few(config: BrokerConfig, known: Collection[int], left: Collection[int]) -> str:
    lowest = min(config.node_id, *known)
    count = max(*known, config.node_id) - lowest + 1
    again = f"start with --shards {count}" if lowest == config.node_id else f"set node.id={lowest} and --shards {count}"
    moved = "move their partitions to other nodes first (`ottla reassign-partitions`)"
    return f"{_listed(left)} {'hold' if len(left) > 1 else 'holds'} data that would not be served: {again}, or {moved}"


def _listed(ids: Collection[int]) -> str:
    return f"node{'s' if len(ids) > 1 else ''} {', '.join(map(str, sorted(ids)))}"
