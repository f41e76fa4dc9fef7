"""What a decision is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from ottla.metadata.apply import Record

__all__ = ["Decision"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Decision(Generic[T]):
    """The records to append, all or none of them in one batch, and the response to give once they are committed."""

    records: tuple[Record, ...]
    response: T
