"""When a query that failed is started again: exponential back-off with a limit, and failures that no restart mends."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

__all__ = ["Failure", "Restarts", "failure_of"]

FATAL = (
    "AnalysisException",
    "ConfigError",
    "DeserializationError",
    "ProcessingError",
    "ProcessingFailed",
    "RecordTooLargeError",
    "SerializationError",
    "StateMismatch",
    "TopologyError",
    "UnsupportedPlan",
    "UpgradeError",
    "ParseException",
)
"""Errors that come again with the same record or the same plan: by the class's name, as Spark reports it from a worker."""
REASON_LETTERS_MAX = 500
_RAISED = re.compile(
    r"^(?:[A-Za-z_][\w.]*\.)?([A-Z]\w*(?:Error|Exception|Failed|Mismatch|Plan))(?::|$)\s*(.*)$", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a query ended: one line for people, and whether a restart is no use."""

    reason: str
    fatal: bool
    details: str = ""


def failure_of(text: str) -> Failure:
    """Read what Spark says of a failed query: the error of the Python worker is in it, under the JVM's own words.

    The last Python error of the traceback is the one that a person looks for.
    """
    found = [match for match in _RAISED.finditer(text) if not match[1].startswith(("Spark", "StreamingQuery"))]
    python = [match for match in found if "Traceback" in text[: match.start()]]
    chosen = (python or found)[-1] if (python or found) else None
    reason = (
        f"{chosen[1]}: {chosen[2]}".rstrip(": ") if chosen else (text.strip().splitlines() or ["no reason given"])[0]
    )
    fatal = any(match[1] in FATAL for match in found)
    return Failure(reason[:REASON_LETTERS_MAX], fatal, text)


@dataclass
class Restarts:
    """One query's failures in a row; times in seconds."""

    attempts_max: int
    backoff_s: float
    backoff_max_s: float
    in_a_row: int = 0
    total: int = 0
    last: Failure | None = field(default=None)

    def progressed(self) -> None:
        """Forget earlier failures: a batch was finished."""
        self.in_a_row = 0

    def after(self, failure: Failure) -> float | None:
        """Note a failure; return how long to wait before the restart, or None where there is to be none."""
        self.last = failure
        if failure.fatal or self.in_a_row >= self.attempts_max:
            return None
        wait = min(self.backoff_max_s, self.backoff_s * 2.0**self.in_a_row)
        self.in_a_row += 1
        self.total += 1
        return wait
