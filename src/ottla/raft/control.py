"""The quorum's own records in the log, and reading them back: leader changes, `kraft.version`, voter sets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from ottla.base import LeaderEpoch, Millis, NodeId, Offset, Uuid
from ottla.raft.voters import ReplicaKey, Voter, VoterEndpoint, VoterSet
from ottla.wire import (
    BatchHeader,
    Buffer,
    ControlType,
    Record,
    build_batch,
    control_record,
    control_type,
    decode,
    encode,
    iter_batch_records,
    validate_batches,
)
from ottla.wire.messages.k_raft_version_record import KRaftVersionRecord
from ottla.wire.messages.leader_change_message import LeaderChangeMessage
from ottla.wire.messages.leader_change_message import Voter as VoterId
from ottla.wire.messages.voters_record import Endpoint, KRaftVersionFeature, VotersRecord
from ottla.wire.messages.voters_record import Voter as VoterEntry

__all__ = [
    "ControlRecord",
    "ReplicatedBatch",
    "VoterHistory",
    "control_batch",
    "kraft_version_change",
    "leader_change",
    "observed",
    "read_batches",
    "record_batch",
    "voters_change",
]

ControlRecord = tuple[ControlType, bytes]
"""A control record's kind and its encoded message."""


@dataclass(frozen=True, slots=True)
class _Era:
    offset: int
    kraft_version: int
    voters: VoterSet


@dataclass(frozen=True, slots=True)
class VoterHistory:
    """The voter sets and `kraft.version` levels that the log names, oldest first: a truncation goes back to one.

    The first is static configuration or a snapshot's, and has an offset before the log's start.
    """

    eras: tuple[_Era, ...] = (_Era(-1, 0, VoterSet()),)

    @classmethod
    def starting(cls, voters: VoterSet, *, kraft_version: int, offset: int = -1) -> VoterHistory:
        """Return the history that begins with this set; offset -1 says that the log does not hold it yet."""
        return cls((_Era(offset, kraft_version, voters),))

    @property
    def latest(self) -> VoterSet:
        """The set that holds now."""
        return self.eras[-1].voters

    @property
    def kraft_version(self) -> int:
        """0 under static voters, 1 where voters are records (KIP-853)."""
        return self.eras[-1].kraft_version

    @property
    def last_offset(self) -> int:
        """Where the newest set stands in the log."""
        return self.eras[-1].offset

    def changed(self, offset: int, *, voters: VoterSet | None = None, kraft_version: int | None = None) -> VoterHistory:
        """Return the history after a record at this offset."""
        last = self.eras[-1]
        era = replace(
            last,
            offset=offset,
            voters=last.voters if voters is None else voters,
            kraft_version=last.kraft_version if kraft_version is None else kraft_version,
        )
        return VoterHistory((*self.eras, era))

    def truncated(self, offset: int) -> VoterHistory:
        """Return the history without what the log holds from this offset on."""
        kept = tuple(era for era in self.eras if era.offset < offset)
        return VoterHistory(kept or self.eras[:1])

    def at(self, offset: int) -> VoterHistory:
        """Return what held for the records before this offset, as the first era: what a snapshot there says."""
        return VoterHistory(self.truncated(offset).eras[-1:])

    def as_records(self) -> list[ControlRecord]:
        """Return the newest set as records: for a snapshot's head, and for the first leader's first batch."""
        if self.kraft_version == 0:
            return []
        return [kraft_version_change(self.kraft_version), voters_change(self.latest)]


def leader_change(leader: ReplicaKey, voters: VoterSet, granting: Iterable[NodeId]) -> ControlRecord:
    """Return the record with which a leader begins its epoch (version 0, as Kafka 4.3 writes it: no directories)."""
    granted = frozenset(granting)
    message = LeaderChangeMessage(
        version=0,
        leader_id=leader.id,
        voters=[VoterId(voter_id=each) for each in voters.ids],
        granting_voters=[VoterId(voter_id=each) for each in voters.ids if each in granted],
    )
    return ControlType.LEADER_CHANGE, encode(message, 0)


def kraft_version_change(kraft_version: int) -> ControlRecord:
    """Return the record that sets `kraft.version`."""
    return ControlType.KRAFT_VERSION, encode(KRaftVersionRecord(version=0, k_raft_version=kraft_version), 0)


def voters_change(voters: VoterSet) -> ControlRecord:
    """Return the record that names the voters from here on."""
    entries = [
        VoterEntry(
            voter_id=voter.key.id,
            voter_directory_id=voter.key.directory_id,
            endpoints=[Endpoint(name=each.name, host=each.host, port=each.port) for each in voter.endpoints],
            k_raft_version_feature=KRaftVersionFeature(
                min_supported_version=voter.kraft_version_min, max_supported_version=voter.kraft_version_max
            ),
        )
        for voter in voters
    ]
    return ControlType.KRAFT_VOTERS, encode(VotersRecord(version=0, voters=entries), 0)


def _voters(record: VotersRecord) -> VoterSet:
    return VoterSet.of(
        Voter(
            ReplicaKey(NodeId(each.voter_id), Uuid(bytes(each.voter_directory_id))),
            tuple(VoterEndpoint(point.name, point.host, point.port) for point in each.endpoints),
            each.k_raft_version_feature.min_supported_version,
            each.k_raft_version_feature.max_supported_version,
        )
        for each in record.voters
    )


def control_batch(records: Sequence[ControlRecord], base_offset: int, epoch: int, timestamp: int) -> bytes:
    """Return one control batch of these records."""
    built = (control_record(kind, value, timestamp=timestamp) for kind, value in records)
    return bytes(build_batch(built, base_offset=base_offset, leader_epoch=epoch, control=True))


def record_batch(values: Sequence[bytes], base_offset: int, epoch: int, timestamp: int) -> bytes:
    """Return one batch of records without keys, as metadata records are."""
    time = Millis(timestamp)
    built = (Record(Offset(0), time, None, value) for value in values)
    return bytes(build_batch(built, base_offset=base_offset, leader_epoch=epoch))


@dataclass(frozen=True, slots=True)
class ReplicatedBatch:
    """One batch as it came from a leader or stands in a log."""

    header: BatchHeader
    data: memoryview

    @property
    def count(self) -> int:
        """How many offsets the batch takes."""
        return self.header.last_offset_delta + 1

    @property
    def epoch(self) -> LeaderEpoch:
        """The epoch of the leader that wrote it."""
        return self.header.partition_leader_epoch


def read_batches(data: Buffer) -> Iterator[ReplicatedBatch]:
    """Yield the batches of a run of whole ones, once all are checked; raises CORRUPT_MESSAGE before the first."""
    view = memoryview(data)
    for header, position in validate_batches(view):
        yield ReplicatedBatch(header, view[position : position + header.size])


def observed(history: VoterHistory, batch: ReplicatedBatch) -> VoterHistory:
    """Return the voters after a batch of the log: only control batches can change them."""
    if not batch.header.is_control:
        return history
    for record in iter_batch_records(batch.data, 0, batch.header):
        kind = control_type(record.key)
        if kind == ControlType.KRAFT_VERSION:
            level, _ = decode(KRaftVersionRecord, record.value or b"", 0)
            history = history.changed(record.offset, kraft_version=level.k_raft_version)
        elif kind == ControlType.KRAFT_VOTERS:
            voters, _ = decode(VotersRecord, record.value or b"", 0)
            history = history.changed(record.offset, voters=_voters(voters))
    return history
