"""Retry, skip or fail: what `errors.retry.timeout`, `errors.retry.delay.max.ms` and `errors.tolerance` ask for.

Kafka's RetryWithToleranceOperator as decisions: time and chance are arguments. A RetriableError is tried again until the
timeout; then, as any other error, it is skipped where errors are tolerated at its stage, and fails the task elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from ottla.connect.errors import RetriableError

__all__ = ["Decision", "Fail", "Processing", "Retry", "Skip", "Tolerance", "restart_delay_ms"]

RETRY_DELAY_MIN_MS = 300
DOUBLINGS_MAX = 30


class Processing(Enum):
    """Where in a record's way an error happened."""

    TASK_POLL = "TASK_POLL"
    TASK_PUT = "TASK_PUT"
    TRANSFORMATION = "TRANSFORMATION"
    KEY_CONVERTER = "KEY_CONVERTER"
    VALUE_CONVERTER = "VALUE_CONVERTER"
    HEADER_CONVERTER = "HEADER_CONVERTER"
    KAFKA_PRODUCE = "KAFKA_PRODUCE"
    KAFKA_CONSUME = "KAFKA_CONSUME"


_ANY_ERROR = {
    Processing.TRANSFORMATION,
    Processing.KEY_CONVERTER,
    Processing.VALUE_CONVERTER,
    Processing.HEADER_CONVERTER,
}
"""The stages whose errors are the record's; elsewhere only retriable ones can be tolerated."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Do the same once more, after this time."""

    delay_ms: int


@dataclass(frozen=True, slots=True)
class Skip:
    """Leave the record out, and report it."""


@dataclass(frozen=True, slots=True)
class Fail:
    """End the task with this text, and the error as its cause."""

    message: str


Decision = Retry | Skip | Fail


@dataclass(frozen=True, slots=True)
class Tolerance:
    """A connector's settings."""

    retry_timeout_ms: int = 0
    """How long to retry; negative for ever."""

    retry_delay_ms_max: int = 60_000
    all: bool = False

    def decide(
        self,
        error: BaseException,
        *,
        stage: Processing,
        attempt: int,
        started_ms: int,
        now_ms: int,
        below: Callable[[int], int],
    ) -> Decision:
        """Return what to do after the `attempt`-th failure (from 1); `below(n)` is a random int from 0 to n - 1."""
        retriable = isinstance(error, RetriableError)
        deadline = started_ms + self.retry_timeout_ms if self.retry_timeout_ms >= 0 else None
        if retriable and (deadline is None or now_ms < deadline):
            return Retry(self._delay(attempt, deadline, now_ms, below))
        if not retriable and stage not in _ANY_ERROR:
            return Fail("Unhandled exception in error handler")
        return Skip() if self.all else Fail("Tolerance exceeded in error handler")

    def _delay(self, attempt: int, deadline: int | None, now_ms: int, below: Callable[[int], int]) -> int:
        delay = RETRY_DELAY_MIN_MS << min(attempt - 1, DOUBLINGS_MAX)
        if delay > self.retry_delay_ms_max:
            delay = below(max(self.retry_delay_ms_max, 1))
        return delay if deadline is None else max(0, min(delay, deadline - now_ms))


def restart_delay_ms(restarts: int, *, first_ms: int, most_ms: int, restarts_max: int) -> int | None:
    """Return after how long a failed task is started again the next time; None once it has been tried often enough.

    Kafka leaves failed tasks failed. `restarts` counts those since the task last ran for longer than `most_ms`.
    """
    if restarts >= restarts_max:
        return None
    return min(first_ms << min(restarts, DOUBLINGS_MAX), most_ms)
