"""Numbers for pages: a browser's have 53 bits, so what has more goes there as text."""

from __future__ import annotations

from typing import Any

__all__ = ["SAFE_MAX", "exact"]

SAFE_MAX = (1 << 53) - 1


def exact(value: Any) -> Any:
    """Return a JSON value whose whole numbers beyond 2^53 are texts."""
    if isinstance(value, int) and abs(value) > SAFE_MAX:
        return str(value)
    if isinstance(value, list):
        return [exact(each) for each in value]
    return {name: exact(each) for name, each in value.items()} if isinstance(value, dict) else value
