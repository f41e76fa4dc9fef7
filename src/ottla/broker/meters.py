"""What hot paths count with: numbers to which is added where something happens, without a lookup, a lock or an object."""

from __future__ import annotations

from typing import Final

__all__ = ["LATENCY_BUCKETS", "ClientTraffic", "Counter", "Latency", "RequestTimes", "TopicTraffic", "bucket_limit_us"]

STEP_BITS: Final = 2
"""Four buckets per power of two of microseconds: a quantile is off by less than a fifth."""
LATENCY_BUCKETS: Final = 31 << STEP_BITS
"""Up to half an hour; what takes longer is in the last."""


class Counter:
    """A number that grows; Kafka's meters derive their rates from it."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0


class Latency:
    """A distribution of times in fixed buckets, which exist as soon as something is recorded."""

    __slots__ = ("buckets", "total_us")

    def __init__(self) -> None:
        self.buckets: list[int] = []
        self.total_us = 0

    def record_ns(self, nanoseconds: int) -> None:
        """Count one time."""
        self.record_times(nanoseconds, 1)

    def record_times(self, nanoseconds: int, times: int) -> None:
        """Count one time so many times."""
        microseconds = nanoseconds // 1000
        bits = microseconds.bit_length()
        if bits > STEP_BITS:
            octave = bits - STEP_BITS - 1
            index = (octave << STEP_BITS) + (microseconds >> octave)
            if index >= LATENCY_BUCKETS:
                index = LATENCY_BUCKETS - 1
        else:
            index = microseconds
        buckets = self.buckets
        if not buckets:
            buckets.extend([0] * LATENCY_BUCKETS)
        buckets[index] += times
        self.total_us += microseconds * times


def bucket_limit_us(index: int) -> int:
    """Return the first number of microseconds that is too large for a bucket."""
    steps = 1 << STEP_BITS
    if index < steps:
        return index + 1
    octave, step = divmod(index - steps, steps)
    return (steps + step + 1) << octave


class RequestTimes:
    """How long one kind of request takes, where the time goes, and what goes wrong."""

    __slots__ = ("errors", "immediate", "queued", "remote", "throttled", "waited", "waited_local")

    def __init__(self) -> None:
        self.immediate = Latency()
        """Requests that were answered as they came: their whole time is local."""
        self.waited = Latency()
        """The whole time of those whose answer came later."""
        self.waited_local = Latency()
        """The part of it until they began to wait."""
        self.remote = Latency()
        """The rest of it."""
        self.queued = Latency()
        """How long those were held back that had to let an earlier answer leave first."""
        self.throttled = Latency()
        """How long quotas kept clients waiting."""
        self.errors: dict[int, int] = {}
        """Answers by error code, of partitions where there are some."""


class ClientTraffic:
    """What one client has written to a topic and read from it here: bytes of batches, as they are stored."""

    __slots__ = ("bytes_in", "bytes_out", "messages_in", "moved_before")

    def __init__(self) -> None:
        self.bytes_in = 0
        self.bytes_out = 0
        self.messages_in = 0
        self.moved_before = 0
        """Bytes in and out when it was last asked who moves little."""


class TopicTraffic:
    """What goes in and out of a topic here (Kafka's `BrokerTopicMetrics`)."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "clients",
        "failed_fetches",
        "failed_produces",
        "fetches",
        "messages_in",
        "produces",
    )

    def __init__(self) -> None:
        self.clients: dict[tuple[str, str], ClientTraffic] = {}
        """By client id and principal."""
        self.bytes_in = 0
        self.bytes_out = 0
        self.messages_in = 0
        self.produces = 0
        self.fetches = 0
        self.failed_produces = 0
        self.failed_fetches = 0

    def add(self, other: TopicTraffic) -> None:
        """Count what another has counted."""
        self.bytes_in += other.bytes_in
        self.bytes_out += other.bytes_out
        self.messages_in += other.messages_in
        self.produces += other.produces
        self.fetches += other.fetches
        self.failed_produces += other.failed_produces
        self.failed_fetches += other.failed_fetches
