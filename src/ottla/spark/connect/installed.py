"""The connectors and transformations that are installed with Ottla, for workers and executors alike."""

from __future__ import annotations

from typing import Any

from ottla.connectors import CONNECTORS
from ottla.mirror import MIRROR_CONNECTORS

__all__ = ["INSTALLED"]

INSTALLED: tuple[type[Any], ...] = (*CONNECTORS, *MIRROR_CONNECTORS)
"""Their classes."""
