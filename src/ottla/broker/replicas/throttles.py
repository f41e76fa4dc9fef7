"""How fast replicas may be copied (KIP-73, KIP-113): between brokers, and between log directories of this one.

A limit holds for the replicas that a topic's configuration names, and only while they are out of sync: whoever keeps up is
never held back. Where nothing is limited, nothing is measured.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ottla.broker.configuration import Configuration
from ottla.security import SampledRate, Windows

__all__ = ["ReplicationThrottle", "ReplicationThrottles"]

UNLIMITED = (1 << 63) - 1
WAIT_S_MAX = 1.0
"""A limit may be raised at any time: who waits looks again so often."""


class ReplicationThrottle:
    """One limit, and what was copied under it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, windows: Windows, bound: Callable[[], int]) -> None:
        self._loop = loop
        self._bound = bound
        self._rate = SampledRate(windows)

    def record(self, size: int) -> None:
        """Count what was copied of a replica that the limit is for."""
        self._rate.record(size, self._now_ms())

    def wait_s(self) -> float:
        """Return how long nothing more may be copied; 0 where more may be."""
        bound = self._bound()
        if bound >= UNLIMITED:
            return 0.0
        wait_ms = self._rate.throttle_ms(max(bound, 1), self._now_ms())
        return min(wait_ms / 1000, WAIT_S_MAX)

    def bytes_per_second(self) -> float:
        """Return the rate that was measured."""
        return self._rate.per_second(self._now_ms())

    def _now_ms(self) -> int:
        return int(self._loop.time() * 1000)


class ReplicationThrottles:
    """The limits of one broker."""

    def __init__(self, loop: asyncio.AbstractEventLoop, configuration: Configuration) -> None:
        settings = configuration.broker.settings
        windows = Windows(settings.replication_quota_window_num, settings.replication_quota_window_size_seconds * 1000)
        moving = Windows(
            settings.alter_log_dirs_replication_quota_window_num,
            settings.alter_log_dirs_replication_quota_window_size_seconds * 1000,
        )
        self.leader = ReplicationThrottle(
            loop, windows, lambda: configuration.broker.settings.leader_replication_throttled_rate
        )
        """`leader.replication.throttled.rate`: what this broker sends."""
        self.follower = ReplicationThrottle(
            loop, windows, lambda: configuration.broker.settings.follower_replication_throttled_rate
        )
        """`follower.replication.throttled.rate`: what this broker fetches."""
        self.log_dirs = ReplicationThrottle(
            loop, moving, lambda: configuration.broker.settings.replica_alter_log_dirs_io_max_bytes_per_second
        )
        """`replica.alter.log.dirs.io.max.bytes.per.second`: what is moved between log directories."""
