"""What the Raft core asks to be done with the log and with fetched snapshots; who finds no room has done nothing."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ottla.base import KafkaError, Millis, NodeId, NoSpaceError, Offset, StorageError
from ottla.broker.quorum.images import Images
from ottla.broker.quorum.log import MetadataLog
from ottla.broker.quorum.room import Room
from ottla.broker.quorum.waiters import Waiters
from ottla.raft import Append, Envelope, EpochRefused, Raft, SnapshotWrite

__all__ = ["LogEffects"]

log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class LogEffects:
    """Changes the log, and with it the images and those who wait for what is appended."""

    node_id: NodeId
    raft: Raft
    log: MetadataLog
    images: Images
    waiters: Waiters
    room: Room

    def truncate(self, offset: Offset | None) -> None:
        """Cut the log where that is asked for."""
        if offset is not None:
            self.log.truncate_to(offset)
            self.images.truncated(offset)

    def append(self, appends: Sequence[Append], now: Millis) -> None:
        """Append these; where one finds no room it has not happened, nor has a part of a decision before it."""
        for append in appends:
            try:
                self.log.append(append, decides=self.raft.is_leader)
            except NoSpaceError as error:
                self.room.missed(error)
                start = appends[0].base_offset if self.raft.is_leader else append.base_offset
                if start < append.base_offset:
                    self.log.truncate_to(start)
                self.images.truncated(start)
                self.raft.refused(start, now)
                self.waiters.refused(start, self.no_room())
                return
            self.images.appended(append)
        if appends:
            self.room.found()

    def no_room(self) -> KafkaError:
        """Return how is answered who asked for what found no room."""
        return self.room.refusal(None if self.raft.is_leader else self.node_id)

    def write_part(self, write: SnapshotWrite, now: Millis) -> bool:
        """Write a piece of a snapshot that is being fetched; False where it found no room, and all of it is given up."""
        try:
            self.log.write_snapshot_part(write.snapshot, write.position, bytes(write.data))
        except NoSpaceError as error:
            self.room.missed(error)
            self.log.discard_part(write.snapshot)
            self.raft.not_downloaded(write.snapshot, now)
            return False
        return True

    def filled(self, envelope: Envelope) -> Envelope:
        """Return a message with the bytes that it names; the asker tries again where they were cleaned away meanwhile."""
        try:
            return self.log.filled(envelope)
        except (KafkaError, StorageError) as error:
            log.warning("Node %d cannot be sent what it asks for: %s", envelope.to, error)
            return replace(envelope, message=EpochRefused(self.raft.epoch, self.node_id))
