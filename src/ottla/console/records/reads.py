"""A record that a schema registry has helped to read. Pure."""

from __future__ import annotations

from typing import NamedTuple

from ottla.base import Millis, Offset

__all__ = ["Read"]


class Read(NamedTuple):
    """A record with its key and value as JSON where a schema says what they are, and then by what, and of how many bytes."""

    offset: Offset
    timestamp: Millis
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    key_by: str | None = None
    value_by: str | None = None
    key_bytes: int | None = None
    value_bytes: int | None = None
    header_bytes: tuple[int, ...] | None = None
    """How large its headers are, where they are cut."""
    headers_left_out: int = 0
