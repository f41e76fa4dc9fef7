"""What a fix of a record is, whoever reads its words: records are mended before they are sent again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from ottla.base import OttlaError

if TYPE_CHECKING:
    from ottla.wire import Record

__all__ = ["FixError", "Fixed", "Fixing", "Mended"]


class FixError(OttlaError):
    """A record that cannot be mended so."""


@dataclass(frozen=True, slots=True)
class Mended:
    """One thing that a fix has changed."""

    path: str
    before: object
    after: object


@dataclass(frozen=True, slots=True)
class Fixed:
    """A record as it is after a fix, and what that has changed."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    mended: tuple[Mended, ...]


class Fixing(Protocol):
    """A fix that was understood."""

    def apply(self, record: Record, headers: tuple[tuple[str, bytes | None], ...]) -> Fixed:
        """Return a record mended, with these headers for its own; raises FixError where it is not what that needs."""
        ...
