"""Formatting the metadata log's folder as Kafka's `storage format` does: who votes, and what the first leader writes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.base import Millis
from ottla.broker.quorum_log import METADATA_PARTITION
from ottla.broker.quorum_snapshot import BOOTSTRAP_FILE, FORMAT_SNAPSHOT, snapshot_chunks, snapshot_name
from ottla.log import Disk, join, replace_file
from ottla.metadata import DEFAULT_LEVELS, decide
from ottla.raft import ReplicaKey, Voter, VoterEndpoint, VoterHistory, VoterSet

__all__ = ["format_quorum"]

METADATA_VERSION = "metadata.version"


def format_quorum(
    disk: Disk,
    metadata_log_dir: str,
    *,
    voter: ReplicaKey | None,
    endpoints: Iterable[VoterEndpoint] = (),
    levels: Mapping[str, int] = DEFAULT_LEVELS,
    now_ms: Millis,
) -> None:
    """Write what a new cluster's first start needs, with these feature levels.

    The caller writes `meta.properties` after it, which says "formatted".
    With `voter`, that replica alone is the quorum, as `--standalone` makes it (KIP-853); without, the voters are those of
    `controller.quorum.voters`. Writing it twice does no harm: nothing here is read before `meta.properties` is there.
    """
    folder = join(metadata_log_dir, str(METADATA_PARTITION))
    disk.mkdir(folder)
    metadata_version = levels[METADATA_VERSION]
    records = decide.bootstrap_records(levels)
    bootstrap = snapshot_chunks(records, metadata_version=metadata_version, voters=None, timestamp=0, written_at=now_ms)
    replace_file(disk, join(metadata_log_dir, BOOTSTRAP_FILE), b"".join(bootstrap), durable=False)
    if voter is not None:
        voters = VoterSet.of([Voter(voter, tuple(endpoints))])
        history = VoterHistory.starting(voters, kraft_version=1)
        chunks = snapshot_chunks(
            (), metadata_version=metadata_version, voters=history, timestamp=now_ms, written_at=now_ms
        )
        replace_file(disk, join(folder, snapshot_name(FORMAT_SNAPSHOT)), b"".join(chunks))
    disk.fsync_dir(metadata_log_dir)
