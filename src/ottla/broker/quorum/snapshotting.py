"""When the quorum writes a snapshot of its own, and drops what that replaces."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from ottla.base import Millis, NoSpaceError, Offload, Offset
from ottla.broker.quorum.log import MetadataLog
from ottla.broker.quorum.room import Room
from ottla.broker.quorum.settings import QuorumSettings
from ottla.metadata import Image
from ottla.raft import SnapshotId, VoterHistory

__all__ = ["Snapshotting"]

AGAIN_MS = 10_000
"""Before a snapshot, or a cleaning, that found no room is tried again: it is large, and room is wanted for other things."""


@dataclass(slots=True)
class Snapshotting:
    """One at a time. One that finds no room leaves nothing behind; old snapshots and segments go nevertheless."""

    settings: QuorumSettings
    log: MetadataLog
    room: Room
    is_busy: bool = False
    again_ms: int | None = None
    """When to try again what found no room."""

    def is_due(self, committed: Image, now: int) -> bool:
        """Return whether to write one of this image."""
        if self.is_busy or committed.in_transaction or not committed.metadata_version:
            return False
        if self.again_ms is not None:
            return now >= self.again_ms
        if committed.offset + 1 <= self.log.view.snapshot.end_offset:
            return False
        age = now - self.log.snapshot_at_ms
        is_old = age >= self.settings.snapshot_interval_ms > 0
        return self.log.bytes_since_snapshot >= self.settings.snapshot_bytes or is_old

    async def write(
        self,
        image: Image,
        voters: VoterHistory,
        now: Millis,
        offload: Offload,
        *,
        moved: Callable[[SnapshotId, Offset], None],
    ) -> None:
        """Write an image beside the log, in slices so that the loop goes on, and drop what it replaces.

        `moved` hears which snapshot is the newest and where the log starts. Raises StorageError where the disk fails.
        """
        self.is_busy = True
        self.again_ms = None
        try:
            snapshot = SnapshotId(Offset(image.offset + 1), image.epoch)
            if snapshot > self.log.view.snapshot:
                await self._unless_full(now, lambda: self.log.write_snapshot(snapshot, image, voters, now, offload))
            settings, newest = self.settings, self.log.view.snapshot
            await self._unless_full(
                now,
                lambda: self.log.clean(
                    now,
                    settings.retention_bytes,
                    settings.retention_ms,
                    offload,
                    moved=lambda start: moved(newest, start),
                ),
            )
        finally:
            self.is_busy = False

    async def _unless_full(self, now: int, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except NoSpaceError as error:
            self.room.missed(error)
            self.again_ms = now + AGAIN_MS
