"""Lists of what is administered: partitions by their topics, and what stands in a list twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from ottla.base import TopicPartition

__all__ = ["by_topic", "duplicates"]


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    """Group partitions by their topics."""
    found: dict[str, list[TopicPartition]] = {}
    for each in partitions:
        found.setdefault(each.topic, []).append(each)
    return found


def duplicates(found: Sequence[Any]) -> list[Any]:
    """Return what stands more than once in a list, in order."""
    return sorted(each for each, count in Counter(found).items() if count > 1)
