"""A decision in the making: records so far, and the group as it will be once they are applied."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ottla.groups.consumer.apply import apply
from ottla.groups.consumer.group import ConsumerGroup
from ottla.groups.decision import Decision, Record, Reply, Timer, TimerChange
from ottla.wire import Message

__all__ = ["JOIN", "REBALANCE", "SESSION", "SYNC", "Draft"]

SESSION, REBALANCE, JOIN, SYNC = "consumer session", "consumer rebalance", "consumer join", "consumer sync"
"""Kinds of timer: a member is silent, does not give partitions back, or (classic) does not join again or sync."""


class Draft:
    """Collects what a decision needs; every step sees the group with the records of the steps before it applied."""

    __slots__ = ("_records", "_timers", "group", "replies")

    def __init__(self, group: ConsumerGroup, before: Iterable[Record] = ()) -> None:
        self.group = group
        self.replies: list[Reply] = []
        self._records: list[Record] = list(before)
        self._timers: dict[Timer, int | None] = {}

    def add(self, *records: Record) -> None:
        """Write records and apply them."""
        self.extend(records)

    def extend(self, records: Iterable[Record]) -> None:
        """Write records and apply them; the group is not removed by any of them."""
        for record in records:
            after = apply(self.group, record)
            assert after is not None
            self.group = after
            self._records.append(record)

    def note_topics(self, version: int) -> None:
        """Note that the group's topics were compared with this version of the cluster's metadata."""
        if self.group.checked_version != version:
            self.group = replace(self.group, checked_version=version)

    def note_regexes(self, version: int, now_ms: int) -> None:
        """Note that the group's expressions were looked up in this version of the cluster's metadata."""
        self.group = replace(self.group, regexes_version=version, regexes_checked_ms=now_ms)

    def set_timer(self, kind: str, member_id: str, at_ms: int) -> None:
        """Set a member's deadline."""
        self._timers[Timer(self.group.group_id, kind, member_id)] = at_ms

    def ask_to_join(self, member_id: str, at_ms: int) -> None:
        """Give a classic member until then to join again, unless it was asked already."""
        if member_id not in self.group.asked_to_join:
            self.group = replace(self.group, asked_to_join=self.group.asked_to_join.set(member_id, at_ms))
            self.set_timer(JOIN, member_id, at_ms)

    def cancel(self, kind: str, member_id: str) -> None:
        """Take a member's deadline away."""
        if kind == JOIN and member_id in self.group.asked_to_join:
            self.group = replace(self.group, asked_to_join=self.group.asked_to_join.delete(member_id))
        self._timers[Timer(self.group.group_id, kind, member_id)] = None

    def cancel_all(self, member_id: str) -> None:
        """Take every deadline of a member away."""
        for kind in (SESSION, REBALANCE, JOIN, SYNC):
            self.cancel(kind, member_id)

    def decision(self, response: Message | None) -> Decision:
        """Return the finished decision."""
        return Decision(
            records=tuple(self._records),
            response=response,
            replies=tuple(self.replies),
            timers=tuple(TimerChange(timer, at_ms) for timer, at_ms in self._timers.items()),
            group=self.group,
        )
