"""How long transactions have been open, by a clock that nobody sets.

A record says when its transaction began by the wall clock of the broker that wrote it. A coordinator counts from there by
its own steady clock, as far as it has seen the time pass itself: a clock that is set an hour ahead would else abort whatever
is open, and one that is set back would leave it open. What it finds when it takes over it has seen nothing of, and its clock
may be another machine's hour ahead: such a transaction has its whole time again.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.base import Millis
from ottla.transactions.transaction import Status, Transaction

__all__ = ["OpenTransactions"]


class OpenTransactions:
    """The open transactions of one shard, and since when each of them is, in steady time."""

    def __init__(self) -> None:
        self._since: dict[str, tuple[int, int]] = {}
        """By transactional id: when its record says that it began, and when it did."""
        self._met: dict[str, tuple[int, int]] = {}
        self._looked_ms: int | None = None
        self._began_ms = 0

    def begin_round(self, now_ms: Millis) -> None:
        """Begin to look at every transaction of the shard, in parts."""
        self._met, self._began_ms = {}, now_ms

    def timed_out(self, part: Iterable[Transaction], *, now_ms: Millis, wall_ms: Millis) -> list[Transaction]:
        """Return the open ones among these transactions whose time is over."""
        return [each for each in part if each.status is Status.ONGOING and self._is_late(each, now_ms, wall_ms)]

    def end_round(self) -> None:
        """Every transaction has been looked at: what was not met is open no more."""
        self._since, self._looked_ms = self._met, self._began_ms

    def _is_late(self, each: Transaction, now_ms: Millis, wall_ms: Millis) -> bool:
        known = self._since.get(each.transactional_id)
        if known is None or known[0] != each.started_ms:
            seen_ms = (
                0 if self._looked_ms is None else max(now_ms - self._looked_ms, 0)
            )  # not there in the round before
            age_ms = min(max(wall_ms - each.started_ms, 0), seen_ms)
            known = (each.started_ms, now_ms - age_ms)
        self._met[each.transactional_id] = known
        return known[1] + each.timeout_ms < now_ms
