"""How often somebody has shown who he is, by certificate or by login, and how often not."""

from __future__ import annotations

from collections import Counter

__all__ = ["AuthenticationCounts"]


class AuthenticationCounts:
    """Counts by listener since the start, as Kafka's `socket-server-metrics` do."""

    def __init__(self) -> None:
        self.succeeded: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()
