"""Things that a connector does again and again, each at its interval, in a thread of its own."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ottla.background import count_failure, supervise_thread
from ottla.base import OttlaError

__all__ = ["POLL_SECONDS_MAX", "Round", "Rounds"]

log = logging.getLogger(__name__)
POLL_SECONDS_MAX = 5.0
"""How long a poll waits of a task that tells at intervals: who is in one call for long does not seem to live."""


@dataclass(frozen=True, slots=True)
class Round:
    """What is done, how it is called in the log, and how often; at most once where `interval_s` is 0 or below."""

    name: str
    interval_s: float
    do: Callable[[], None]


class Rounds:
    """Runs them one at a time until `stop`; a failure is logged, and the next try comes at its time."""

    def __init__(
        self, rounds: Sequence[Round], *, name: str, end: Callable[[], None], first: Sequence[Round] = ()
    ) -> None:
        """`end` is called in the thread when it ends; what is in `first` is done at once, too."""
        self._first = first
        self._rounds = [each for each in rounds if each.interval_s > 0]
        self._stopping, self._end = threading.Event(), end
        self._thread = supervise_thread(self._run, name=name, serves="a mirror")

    def stop(self) -> None:
        """End, and wait until what is under way has come to an end."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            for each in self._first:
                if not self._stopping.is_set():
                    self._do(each)
            due = {each.name: time.monotonic() + each.interval_s for each in self._rounds}
            while not self._stopping.wait(
                max(0.0, min(due.values(), default=time.monotonic() + 3600) - time.monotonic())
            ):
                for each in self._rounds:
                    if time.monotonic() >= due[each.name] and not self._stopping.is_set():
                        self._do(each)
                        due[each.name] = time.monotonic() + each.interval_s
        finally:
            self._end()

    def _do(self, each: Round) -> None:
        try:
            each.do()
        except (OttlaError, OSError) as error:
            log.warning("%s failed, and is tried again in %g s: %s", each.name, each.interval_s, error)
        except Exception:  # our own mistake; the others go on
            log.exception("%s failed, and is tried again in %g s", each.name, each.interval_s)
            count_failure("mirroring")
