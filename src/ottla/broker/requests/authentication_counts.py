"""How often somebody has shown who he is, by certificate or by login, and how often not."""

from __future__ import annotations

from collections import Counter

from ottla.broker.metrics import Histogram

__all__ = ["AuthenticationCounts"]


class AuthenticationCounts:
    """Counts by listener since the start, as Kafka's `socket-server-metrics` do."""

    def __init__(self) -> None:
        self.succeeded: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()
        self.renewed: Counter[str] = Counter()
        """Logins that were renewed on their connection (KIP-368)."""
        self.not_renewed: Counter[str] = Counter()
        self.renewal_ms = Histogram()
        self.expired_killed = 0
        """Connections that were closed because their login had ended and they went on without renewing it."""
        self.pending = 0
        """Connections that have yet to log in."""
        self.pushed_out = 0
        """Connections that were closed before their login because there were too many such."""
