"""Lag by group and partition, a point a minute for an hour, within a bound of memory. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from ottla.base import TopicPartition

__all__ = ["MINUTE_MS", "PAIRS_MAX", "PartitionLags"]

MINUTE_MS = 60_000
POINTS = 60
PAIRS_MAX = 20_000
"""Pairs of group and partition: 60 numbers each, some 15 MB all of them; further ones have no history."""


class PartitionLags:
    """The last hour's lag of each partition of each group."""

    def __init__(self) -> None:
        self._minute = -1
        self._kept: dict[str, dict[TopicPartition, deque[int]]] = {}

    def add(self, at_ms: int, lags: Mapping[str, Mapping[TopicPartition, int | None]]) -> None:
        """Take in what each group's partitions have to read; within the same minute nothing is added."""
        minute = at_ms // MINUTE_MS
        if minute <= self._minute:
            return
        self._minute = minute
        kept, pairs = {}, 0
        for group, partitions in lags.items():
            before = self._kept.get(group, {})
            mine: dict[TopicPartition, deque[int]] = {}
            for partition, lag in partitions.items():
                if lag is None or pairs >= PAIRS_MAX:
                    continue
                pairs += 1
                points = mine[partition] = before.get(partition) or deque(maxlen=POINTS)
                points.append(lag)
            kept[group] = mine
        self._kept = kept

    def of(self, group: str, partition: TopicPartition) -> list[int]:
        """Return the points of a partition, the newest last."""
        return list(self._kept.get(group, {}).get(partition, ()))
