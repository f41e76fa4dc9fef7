"""The real clock."""

from __future__ import annotations

import time

from ottla.base import Millis

__all__ = ["SystemClock"]


class SystemClock:
    """The machine's wall clock."""

    def now_ms(self) -> Millis:
        """Return milliseconds since the Unix epoch."""
        return Millis(time.time_ns() // 1_000_000)
