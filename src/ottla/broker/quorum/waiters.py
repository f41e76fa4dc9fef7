"""The answers that wait for a commit of the metadata quorum."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field

from ottla.base import ErrorCode, KafkaError, LeaderEpoch, Offset

__all__ = ["Waiters"]


@dataclass(frozen=True, slots=True)
class _Waiter:
    """An answer that leaves once everything up to `offset` is committed in the epoch it was decided in."""

    offset: Offset
    epoch: LeaderEpoch
    future: asyncio.Future[None]


@dataclass(slots=True)
class Waiters:
    """In the order of their offsets."""

    _waiting: deque[_Waiter] = field(default_factory=deque)

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, offset: Offset, epoch: LeaderEpoch) -> asyncio.Future[None]:
        """Return what is done once everything up to this offset is committed in this epoch."""
        assert not self._waiting or self._waiting[-1].offset <= offset, "decisions are appended in order"
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiter(offset, epoch, future))
        return future

    def committed(self, high_watermark: Offset) -> None:
        """Answer for what is committed."""
        while self._waiting and self._waiting[0].offset < high_watermark:
            waiter = self._waiting.popleft()
            if not waiter.future.done():
                waiter.future.set_result(None)

    def refused(self, start: Offset, error: KafkaError) -> None:
        """Fail the answers for what was not appended, from this offset on."""
        while self._waiting and self._waiting[-1].offset >= start:
            waiter = self._waiting.pop()
            if not waiter.future.done():
                waiter.future.set_exception(error)

    def led(self, epoch: LeaderEpoch | None) -> None:
        """Fail the answers whose epoch is over, where this node now leads that one, or none.

        Another leader may or may not have their records.
        """
        if self._waiting and self._waiting[0].epoch != epoch:
            self.release(KafkaError(ErrorCode.NOT_CONTROLLER, "the metadata quorum has a new leader"))

    def release(self, error: KafkaError) -> None:
        """Fail them all."""
        self.refused(Offset(0), error)
