"""Which offset of the target cluster stands for one of the source cluster: the syncs that are written, kept and looked up.

Of each partition 64 syncs are kept, the newer the denser: slot `i` lies at most about `2**i` records behind the newest one
(KAFKA-12468, `OffsetSyncStore`). A group's offset translates to that of the nearest sync before it, or the one behind that:
a consumer that changes clusters may read some records again, and misses none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ottla.base import Offset, TopicPartition
from ottla.mirror.records import OffsetSync

__all__ = ["SLOTS", "OffsetSyncStore", "SyncPlan", "added", "translated"]

SLOTS = 64
LONG_MAX = (1 << 63) - 1
Slots = tuple[OffsetSync, ...]


def _within(newer: OffsetSync, older: OffsetSync, i: int, j: int) -> bool:
    """Whether the sync of slot `j` is near enough to that of slot `i` to be kept there."""
    bound = older.upstream + (1 << j) - (1 << i)
    return bound > LONG_MAX or newer.upstream <= bound


def _apart(newer: OffsetSync, older: OffsetSync, i: int) -> bool:
    """Whether the sync behind slot `i` is far enough from it to be worth a slot."""
    bound = older.upstream + (1 << max(i - 2, 0))
    return bound <= LONG_MAX and newer.upstream >= bound


def added(slots: Slots | None, sync: OffsetSync, *, alone: bool = False) -> Slots:
    """Return a partition's slots, the newest first, with one sync more; `alone` has it take the place of all."""
    if slots is None or alone or sync.upstream < slots[0].upstream:
        return (sync,) * SLOTS
    found = [sync, *slots[1:]]
    replacement, at = sync, 0
    for current in range(1, SLOTS):
        previous = current - 1
        while True:
            old = slots[at]
            is_recent = _within(found[previous], old, previous, current)
            is_apart = _apart(found[previous], old, previous)
            is_before_next = current + 1 >= SLOTS or _apart(old, found[current + 1], current)
            is_promoted = is_recent and is_apart and is_before_next
            if is_promoted:
                replacement = old
            is_repeated = at + 1 < SLOTS and old is slots[at + 1]
            is_skipped = is_promoted or is_repeated or not is_apart
            if is_skipped:
                at += 1
            if at >= current or not is_skipped or is_promoted:
                break
        if _within(found[previous], found[current], previous, current):
            break
        found[current] = replacement
    return tuple(found)


def translated(slots: Slots | None, upstream: int) -> Offset | None:
    """Return the target's offset for a source's; None where nothing is known, -1 where it is older than all that is kept."""
    if slots is None:
        return None
    sync = next((each for each in slots if each.upstream <= upstream), slots[-1])
    if sync.upstream > upstream:
        return Offset(-1)
    return Offset(sync.downstream + (1 if upstream > sync.upstream else 0))


@dataclass(slots=True)
class OffsetSyncStore:
    """What is known of all partitions; `read_to_end` is said once the topic was read as far as it went at the start."""

    keeps_history: bool = True
    """Whether checkpoints of an earlier life are known, so that older syncs cannot make a group go back."""
    _slots: dict[TopicPartition, Slots] = field(default_factory=dict)
    _is_read: bool = False

    def read_to_end(self) -> None:
        """Translate from now on."""
        self._is_read = True

    def add(self, sync: OffsetSync) -> None:
        """Take in a record of the topic, in its order."""
        alone = not self._is_read and not self.keeps_history
        self._slots[sync.partition] = added(self._slots.get(sync.partition), sync, alone=alone)

    def translate(self, partition: TopicPartition, upstream: int) -> Offset | None:
        """Return the target's offset; None where nothing can be said yet, -1 where it is too old."""
        return translated(self._slots.get(partition), upstream) if self._is_read else None

    def slots(self, partition: TopicPartition) -> Slots | None:
        """Return a partition's syncs, the newest first."""
        return self._slots.get(partition)


@dataclass(slots=True)
class _Written:
    upstream: int = -1
    downstream: int = -1
    synced_upstream: int = -1
    synced_downstream: int = -1


class SyncPlan:
    """Which of the records that have arrived are told as syncs: few, and never so few that a group falls far behind.

    `lag_max` is `offset.lag.max`: so many records may lie between two syncs. What need not be told at once is kept, the
    latest of each partition, until `take_pending`, which Connect's commits call for.
    """

    def __init__(self, lag_max: int) -> None:
        self._lag_max = lag_max
        self._known: dict[TopicPartition, _Written] = {}
        self._pending: dict[TopicPartition, OffsetSync] = {}

    def arrived(self, sync: OffsetSync) -> OffsetSync | None:
        """Take in that a record has arrived; returns it where it is to be told now."""
        known = self._known.setdefault(sync.partition, _Written())
        is_first = known.synced_downstream < 0
        is_far = sync.downstream - (known.synced_downstream + 1) >= self._lag_max
        has_gap = sync.upstream != known.upstream + 1
        went_back = sync.downstream < known.downstream
        known.upstream, known.downstream = sync.upstream, sync.downstream
        if is_first or is_far or has_gap or went_back:
            known.synced_upstream, known.synced_downstream = sync.upstream, sync.downstream
            self._pending.pop(sync.partition, None)
            return sync
        self._pending[sync.partition] = sync
        return None

    def arrived_batch(self, partition: TopicPartition, upstream: int, downstream: int, count: int) -> list[OffsetSync]:
        """Take in `count` records without gaps, on either side; returns those to be told, as `arrived` one by one would."""
        first = self.arrived(OffsetSync(partition, Offset(upstream), Offset(downstream)))
        found = [] if first is None else [first]
        known = self._known[partition]
        while (place := known.synced_downstream + 1 + self._lag_max) < downstream + count:
            place = max(place, downstream)  # a lag of 0 tells every record
            sync = OffsetSync(partition, Offset(upstream + place - downstream), Offset(place))
            known.synced_upstream, known.synced_downstream = sync.upstream, sync.downstream
            found.append(sync)
        known.upstream, known.downstream = upstream + count - 1, downstream + count - 1
        self._pending.pop(partition, None)
        if known.synced_downstream != known.downstream:
            self._pending[partition] = OffsetSync(partition, Offset(known.upstream), Offset(known.downstream))
        return found

    def take_pending(self) -> Mapping[TopicPartition, OffsetSync]:
        """Return what was kept back, and count it as told."""
        found, self._pending = self._pending, {}
        for place, sync in found.items():
            known = self._known[place]
            known.synced_upstream, known.synced_downstream = sync.upstream, sync.downstream
        return found


Translate = Callable[[TopicPartition, int], Offset | None]
"""How a source's offset is translated."""
