"""Effects: what a step of the core wants done, as values."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.base import LeaderEpoch, Offset
from ottla.raft.election_state import ElectionState
from ottla.raft.log_view import SnapshotId
from ottla.raft.messages import Envelope

__all__ = ["Append", "Ready", "SnapshotWrite"]


@dataclass(frozen=True, slots=True)
class Append:
    """One or more whole record batches that go to the end of the log as they are."""

    base_offset: Offset
    count: int
    epoch: LeaderEpoch
    batches: bytes
    control: bool
    """True for batches of the quorum's own records, of which the state machine above sees nothing."""


@dataclass(frozen=True, slots=True)
class SnapshotWrite:
    """A piece of a snapshot that is being fetched; after the `last` one the driver loads it and calls `installed`."""

    snapshot: SnapshotId
    position: int
    data: bytes | memoryview
    last: bool


@dataclass(frozen=True, slots=True)
class Ready:
    """What to do now, in this order: persist → truncate → append → send → apply.

    1. `election`: write `quorum-state` and make it durable; no message below may leave before, or a vote could be given
       twice.
    2. `truncate_to`: remove the log from this offset on.
    3. `appends`: append them, and begin to make them durable; report it with `flushed(end_offset)`, at any later time
       and for many appends at once. The core itself holds back what must wait for that: a leader's own share in the
       high watermark and a follower's next Fetch. Where the disk has no room for one, go back to before it, report it
       with `refused(offset)`, and go on; of `messages`, no BeginEpoch may leave if this replica leads no more.
    4. `snapshot_writes`: write them beside the log.
    5. `messages`: send them; a `LogRange` or `SnapshotRange` in one is replaced by the bytes that it names.
    6. `committed`: everything before this offset is held by a majority for good: apply it and answer for it.
    """

    election: ElectionState | None = None
    truncate_to: Offset | None = None
    appends: tuple[Append, ...] = ()
    snapshot_writes: tuple[SnapshotWrite, ...] = ()
    messages: tuple[Envelope, ...] = ()
    committed: Offset | None = None

    def __bool__(self) -> bool:
        return self != NOTHING


NOTHING = Ready()
