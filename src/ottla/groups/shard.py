"""A shard: the groups and offsets of one partition of `__consumer_offsets`, as a fold over its records.

`Shard.state` is what every record so far says, with what only the coordinator in office knows; it is one immutable value, so
that whoever drives the shard can keep what is committed beside what is decided. Timers stand beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from immutables import Map

from ottla.base import OFFSETS_TOPIC, ProducerId, WireError
from ottla.groups import classic, consumer
from ottla.groups.classic import ClassicGroup
from ottla.groups.committing import expire_offsets, gone_offsets
from ottla.groups.decision import (
    NOTHING,
    Committed,
    Decision,
    DecisionContext,
    Group,
    Record,
    Timer,
    TimerChange,
    encode_records,
)
from ottla.groups.offsets import NO_OFFSETS, NO_PRODUCER, Offsets
from ottla.groups.timers import Timers
from ottla.wire import Record as LogRecord
from ottla.wire import decode_coordinator_key, decode_coordinator_value
from ottla.wire.messages.group_metadata_value import GroupMetadataValue

__all__ = ["EMPTY_STATE", "Shard", "ShardState"]

OFFSET_KEYS = frozenset({0, 1})
GROUP_KEY = 2
LOADED = "loaded"
"""The timer of a group about which nothing could be appended when it was loaded."""
RECORDS_MAX = 1000
"""Records that one decision of housekeeping appends, so that no batch grows past what a fetch carries."""


@dataclass(frozen=True, slots=True)
class ShardState:
    """Groups by id, and their offsets."""

    groups: Map[str, Group] = field(default_factory=Map)
    offsets: Offsets = NO_OFFSETS

    def apply(self, record: Record, record_offset: int = -1, producer_id: ProducerId = NO_PRODUCER) -> ShardState:
        """Return the state after a record, the same when it is replayed as when it was decided."""
        kind = record.key.API_KEY
        if kind in OFFSET_KEYS:
            offsets = self.offsets.apply(record, record_offset, producer_id)
            groups = self.groups
            group_id = record.key.group  # type: ignore[attr-defined]
            if record.value is not None and group_id not in groups:
                groups = groups.set(group_id, ClassicGroup(group_id))
            return ShardState(groups, offsets)
        if kind == GROUP_KEY:
            return ShardState(_apply_classic(self.groups, record), self.offsets)
        if kind in consumer.KEYS:
            return ShardState(consumer.apply(self.groups, record), self.offsets)
        return self  # of a kind that a later version writes

    def end_transaction(self, producer_id: ProducerId, *, commit: bool) -> ShardState:
        """Return the state after a transaction marker."""
        return ShardState(self.groups, self.offsets.end_transaction(producer_id, commit=commit))

    def with_group(self, group: Group) -> ShardState:
        """Return the state with a group as the coordinator in office knows it."""
        return ShardState(self.groups.set(group.group_id, group), self.offsets)


EMPTY_STATE = ShardState()


def _apply_classic(groups: Map[str, Group], record: Record) -> Map[str, Group]:
    group_id = record.key.group  # type: ignore[attr-defined]
    if record.value is not None:
        assert isinstance(record.value, GroupMetadataValue)
        return groups.set(group_id, classic.group_from_record(group_id, record.value))
    found = groups.get(group_id)
    # The tombstone of a classic group may follow the first record of the consumer group that it became.
    return groups.delete(group_id) if isinstance(found, ClassicGroup) else groups


class Shard:
    """The state of one partition and its timers; `applied` is the only way in."""

    def __init__(self, state: ShardState = EMPTY_STATE) -> None:
        self.state = state
        self.timers = Timers()
        self._deciding: Timer | None = None
        """What the decision that was yielded last is about, by the timer that would ask for it again."""

    @property
    def groups(self) -> Map[str, Group]:
        """The groups by id."""
        return self.state.groups

    @property
    def offsets(self) -> Offsets:
        """The groups' offsets."""
        return self.state.offsets

    def classic(self, group_id: str) -> ClassicGroup | None:
        """Return a group of the classic protocol; None where it does not exist or is of another kind."""
        found = self.state.groups.get(group_id)
        return found if isinstance(found, ClassicGroup) else None

    def applied(self, decision: Decision, base_offset: int) -> None:
        """Take over a decision whose records have been appended at `base_offset`."""
        state = self.state
        producer_id = NO_PRODUCER if decision.producer is None else decision.producer[0]
        for index, record in enumerate(decision.records):
            state = state.apply(record, base_offset + index, producer_id)
        if decision.group is not None:
            state = state.with_group(decision.group)
        self.state = state
        self.timers.change(decision.timers)

    def replay(self, record: LogRecord, producer_id: int) -> None:
        """Apply a record as it is stored; raises WireError where it is malformed."""
        if record.key is None:
            raise WireError(f"a record of {OFFSETS_TOPIC} at offset {record.offset} has no key")
        key = decode_coordinator_key(OFFSETS_TOPIC, record.key)
        if key is None:
            return  # of a kind that a later version writes
        value = None if record.value is None else decode_coordinator_value(OFFSETS_TOPIC, key, record.value)
        decoded = Record(key, None if value is None else value[0])
        self.state = self.state.apply(decoded, record.offset, ProducerId(producer_id))

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """Apply a transaction marker."""
        self.state = self.state.end_transaction(ProducerId(producer_id), commit=commit)

    def encode(self, decision: Decision) -> list[tuple[bytes, bytes | None]]:
        """Return the (key, value) bytes of a decision's records."""
        return encode_records(decision.records)

    def loaded(self, context: DecisionContext) -> Iterator[Decision]:
        """Yield what has to be decided once every record has been replayed: sessions begin now."""
        for group_id in sorted(self.state.groups):
            self._deciding = Timer(group_id, LOADED)
            yield self._loaded(self.state.groups[group_id], context)
        self._deciding = None

    def expire(self, context: DecisionContext) -> Iterator[Decision]:
        """Yield a decision for each timer that has come; each is to be applied before the next is asked for."""
        while (timer := self.timers.take(context.now_ms)) is not None:
            self._deciding = timer
            yield self._expired(timer, context)
        self._deciding = None

    def postpone(self, until_ms: int) -> None:
        """Let what could not be appended be decided about again: nobody else would ever end what it ends."""
        timer, self._deciding = self._deciding, None
        if timer is not None and self.timers.due_ms(timer) is None:
            self.timers.change([TimerChange(timer, until_ms)])

    def next_deadline(self) -> int | None:
        """Return a time before which no timer comes, in milliseconds of the wall clock; None where none is set."""
        return self.timers.next_ms()

    def _expired(self, timer: Timer, context: DecisionContext) -> Decision:
        group = self.state.groups.get(timer.group_id)
        if group is None:
            return NOTHING
        if timer.kind == LOADED:
            return self._loaded(group, context)
        if isinstance(group, ClassicGroup):
            return classic.expired(group, timer, context)
        return consumer.expired(group, timer, context) if isinstance(group, consumer.ConsumerGroup) else NOTHING

    def _loaded(self, group: Group, context: DecisionContext) -> Decision:
        """Decide about a group that was just loaded: its members' sessions begin."""
        if isinstance(group, ClassicGroup):
            return classic.loaded(group, context)
        if isinstance(group, consumer.ConsumerGroup):
            return Decision(timers=tuple(consumer.loaded(group, context)))
        return NOTHING

    # -- housekeeping

    def expire_offsets(self, group_ids: Sequence[str], context: DecisionContext) -> Iterator[Decision]:
        """Yield decisions that remove offsets whose time is over, and groups of which nothing is left (KIP-211)."""
        retention_ms = context.settings.offsets_retention_minutes * 60_000
        return self._clean(
            group_ids,
            lambda group: expire_offsets(group, self.offsets, now_ms=context.wall_ms, retention_ms=retention_ms),
        )

    def forget_gone(self, group_ids: Sequence[str], is_gone: Callable[[str, Committed], bool]) -> Iterator[Decision]:
        """Yield decisions that remove what was committed for topics that are gone: asked by their name, and the commit."""
        return self._clean(group_ids, lambda group: gone_offsets(self.offsets, group.group_id, is_gone))

    def _clean(self, group_ids: Sequence[str], removed: Callable[[Group], Sequence[Record]]) -> Iterator[Decision]:
        """Yield the records that remove something of each group, in decisions of a bounded size."""
        records: list[Record] = []
        for group_id in group_ids:
            group = self.state.groups.get(group_id)
            if group is not None:
                records += removed(group)
            while len(records) >= RECORDS_MAX:
                yield Decision(tuple(records[:RECORDS_MAX]))
                del records[:RECORDS_MAX]
        if records:
            yield Decision(tuple(records))
