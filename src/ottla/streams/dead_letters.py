"""What goes with a record that could not be read, processed or written: its place, and Kafka's headers (KIP-1034)."""

from __future__ import annotations

import traceback
from dataclasses import dataclass

from ottla.streams.user_code import raised_in

__all__ = ["Origin", "ProcessingFailed", "dead_letter_headers"]

PREFIX = "__streams.errors."
MESSAGE_LENGTH_MAX = 8_000
"""Characters of a message or a stack trace in a header."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a record stood in its source topic."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}@{self.offset}"


class ProcessingFailed(RuntimeError):
    """A step failed with a record and the application's handler says that this stops it."""

    def __init__(self, step: str, origin: Origin, error: BaseException | str, place: str | None = None) -> None:
        what = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
        if isinstance(error, BaseException):
            place = raised_in(error)
        super().__init__(f"step {step} failed with record {origin}{', ' + place if place else ''}: {what}")
        self.step = step
        self.origin = origin
        self.place = place
        """Where in the user's own code it was, as `raised_in` says it."""
        self._what = what

    def __reduce__(self) -> tuple[type[RuntimeError], tuple[object, ...]]:
        return ProcessingFailed, (self.step, self.origin, self._what, self.place)


def dead_letter_headers(error: BaseException, origin: Origin) -> list[tuple[str, bytes | None]]:
    """Return the headers of a dead letter: the error, and where the record that caused it stands."""
    trace = "".join(traceback.format_exception(error))
    found = {
        "exception": f"{type(error).__module__}.{type(error).__qualname__}",
        "message": str(error)[:MESSAGE_LENGTH_MAX],
        "stacktrace": trace[-MESSAGE_LENGTH_MAX:],
        "topic": origin.topic,
        "partition": str(origin.partition),
        "offset": str(origin.offset),
    }
    return [(PREFIX + name, value.encode("utf-8", "replace")) for name, value in found.items()]
