"""The server-side assignors of KIP-848: `uniform` and `range`, balanced and sticky.

Both are functions of who asks for what, and of the target so far, so that every coordinator computes the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ottla.groups.consumer.assign_range import assign_range
from ottla.groups.consumer.assign_uniform import assign_uniform
from ottla.groups.consumer.assignment import Assignment, Subscriptions

__all__ = ["ASSIGNORS", "Assignor"]

Assignor = Callable[[Subscriptions], Assignment]
ASSIGNORS: Mapping[str, Assignor] = {"uniform": assign_uniform, "range": assign_range}
"""Assignors by the names that `group.consumer.assignors` and members use."""
