"""Formatting the metadata log's folder as Kafka's `storage format` does: who votes, and what the first leader writes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ottla.base import ConfigError, Millis, NodeId, parse_uuid
from ottla.broker.quorum.log import METADATA_PARTITION
from ottla.broker.quorum.snapshot import BOOTSTRAP_FILE, FORMAT_SNAPSHOT, snapshot_chunks, snapshot_name
from ottla.log import Disk, join, replace_file
from ottla.metadata import DEFAULT_LEVELS, Record, decide
from ottla.raft import ReplicaKey, Voter, VoterEndpoint, VoterHistory, VoterSet

__all__ = ["format_quorum", "parse_initial_controllers"]

METADATA_VERSION = "metadata.version"
_CONTROLLER = re.compile(r"(?P<id>\d+)@(?P<host>\[[^]]+\]|[^:@]+):(?P<port>\d+):(?P<directory>[\w-]{22})")


def format_quorum(
    disk: Disk,
    metadata_log_dir: str,
    *,
    voter: ReplicaKey | None = None,
    endpoints: Iterable[VoterEndpoint] = (),
    voters: VoterSet | None = None,
    levels: Mapping[str, int] = DEFAULT_LEVELS,
    users: Iterable[Record] = (),
    now_ms: Millis,
) -> None:
    """Write what a new cluster's first start needs, with these feature levels, and the records of its first users.

    The caller writes `meta.properties` after it, which says "formatted".
    With `voter`, that replica alone is the quorum, as `--standalone` makes it (KIP-853), and with `voters` all of them, as
    `--initial-controllers` does; without, the voters are those of `controller.quorum.voters`, or the node finds a quorum
    that is there already. Writing it twice does no harm: nothing here is read before `meta.properties` is there.
    """
    folder = join(metadata_log_dir, str(METADATA_PARTITION))
    disk.mkdir(folder)
    metadata_version = levels[METADATA_VERSION]
    records = (*decide.bootstrap_records(levels), *users)
    bootstrap = snapshot_chunks(records, metadata_version=metadata_version, voters=None, timestamp=0, written_at=now_ms)
    replace_file(disk, join(metadata_log_dir, BOOTSTRAP_FILE), b"".join(bootstrap), durable=False)
    if voter is not None:
        voters = VoterSet.of([Voter(voter, tuple(endpoints))])
    if voters:
        history = VoterHistory.starting(voters, kraft_version=1)
        chunks = snapshot_chunks(
            (), metadata_version=metadata_version, voters=history, timestamp=now_ms, written_at=now_ms
        )
        replace_file(disk, join(folder, snapshot_name(FORMAT_SNAPSHOT)), b"".join(chunks))
    disk.fsync_dir(metadata_log_dir)


def parse_initial_controllers(text: str, listener: str) -> VoterSet:
    """Read `id@host:port:directory-id,…` as `--initial-controllers` has it; raises ConfigError on anything else."""
    voters: dict[int, Voter] = {}
    for entry in text.split(","):
        match = _CONTROLLER.fullmatch(entry.strip())
        if match is None:
            raise ConfigError("--initial-controllers", entry, "each entry should be id@host:port:directory-id")
        node_id, port = NodeId(int(match["id"])), int(match["port"])
        try:
            directory_id = parse_uuid(match["directory"])
        except ValueError as error:
            raise ConfigError("--initial-controllers", entry, f"its directory id: {error}") from error
        if node_id in voters or not 0 < port < 65536:
            raise ConfigError("--initial-controllers", entry, "every id once, with a port from 1 to 65535")
        host = match["host"].removeprefix("[").removesuffix("]")
        voters[node_id] = Voter(ReplicaKey(node_id, directory_id), (VoterEndpoint(listener, host, port),))
    return VoterSet.of(voters.values())
