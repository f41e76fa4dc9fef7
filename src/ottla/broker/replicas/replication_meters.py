"""What a broker's fetchers count."""

from __future__ import annotations

__all__ = ["ReplicationMeters"]


class ReplicationMeters:
    """Numbers that only grow (`BrokerTopicMetrics`, `FetcherStats`)."""

    __slots__ = ("bytes_in", "requests")

    def __init__(self) -> None:
        self.bytes_in = 0
        self.requests = 0
