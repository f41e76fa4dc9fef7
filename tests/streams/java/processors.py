"""The processors of one's own that a case may name; `Processors.java` has the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["supplier"]


def supplier(step: dict[str, Any]) -> Callable[[], Any]:
    """Return what makes a step's processor."""
    raise NotImplementedError
