"""What hot paths count with: numbers to which is added where something happens, without a lookup, a lock or an object."""

from __future__ import annotations

from typing import Final

__all__ = [
    "CLIENTS_MAX",
    "CLIENT_ID_CHARACTERS_MAX",
    "LATENCY_BUCKETS",
    "ClientTraffic",
    "Counter",
    "Latency",
    "RequestTimes",
    "TopicTraffic",
    "Traffic",
    "bucket_limit_us",
]

STEP_BITS: Final = 2
"""Four buckets per power of two of microseconds: a quantile is off by less than a fifth."""
LATENCY_BUCKETS: Final = 31 << STEP_BITS
"""Up to half an hour; what takes longer is in the last."""

CLIENTS_MAX: Final = 1000
"""Clients of topics that are counted apart; of more, those that have moved least lately are counted together."""
CLIENTS_KEPT: Final = CLIENTS_MAX * 7 // 8
CLIENT_ID_CHARACTERS_MAX: Final = 255
"""Longer client ids are told apart by their beginning."""


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


class Traffic:
    """What goes in and out, topic by topic, and what the topics that are gone have counted (`BrokerTopicMetrics`)."""

    def __init__(self) -> None:
        self.by_topic: dict[str, TopicTraffic] = {}
        self.elsewhere = TopicTraffic()
        """Of topics that are gone, or that never were here."""

        self.replication_bytes_out = 0
        self.folded = ClientTraffic()
        """Of clients that are not counted apart any more, their topics gone or too many others busier."""
        self._clients = 0

    def of(self, topic: str) -> TopicTraffic:
        """Return a topic's counters, made on first use."""
        return self.by_topic.setdefault(topic, TopicTraffic())

    def forget(self, topic: str) -> None:
        """Stop counting a topic that is gone; what it has counted stays in the sum."""
        found = self.by_topic.pop(topic, None)
        if found is not None:
            self.elsewhere.add(found)
            for client in found.clients.values():
                self._fold(client)
            self._clients -= len(found.clients)
            found.clients.clear()

    def client(self, topic: TopicTraffic, client_id: str, principal: str) -> ClientTraffic:
        """Return what counts a client of a topic, made where there is none yet."""
        try:  # for each request: the subscript is quicker than `get`
            return topic.clients[client_id, principal]
        except KeyError:
            return self._begun(topic, client_id[:CLIENT_ID_CHARACTERS_MAX], principal)

    def _begun(self, topic: TopicTraffic, client_id: str, principal: str) -> ClientTraffic:
        """Begin to count a client, but for one that is known by the beginning of its long id."""
        key = client_id, principal
        found = topic.clients.get(key)
        if found is None:
            if self._clients >= CLIENTS_MAX:
                self._forget_idle()
            topic.clients[key] = found = ClientTraffic()
            self._clients += 1
        return found

    def _fold(self, client: ClientTraffic) -> None:
        self.folded.bytes_in += client.bytes_in
        self.folded.bytes_out += client.bytes_out
        self.folded.messages_in += client.messages_in

    def _forget_idle(self) -> None:
        """Count an eighth of all clients together from now on: those that have moved least since this was last done."""
        found = [(topic, key, each) for topic in self.by_topic.values() for key, each in topic.clients.items()]
        found.sort(key=lambda each: each[2].bytes_in + each[2].bytes_out - each[2].moved_before, reverse=True)
        for topic, key, each in found[CLIENTS_KEPT:]:
            self._fold(each)
            del topic.clients[key]
        for _, _, each in found[:CLIENTS_KEPT]:
            each.moved_before = each.bytes_in + each.bytes_out
        self._clients = min(len(found), CLIENTS_KEPT)

    def sum(self) -> TopicTraffic:
        """Return what was counted in all."""
        total = TopicTraffic()
        for each in (self.elsewhere, *self.by_topic.values()):
            total.add(each)
        return total
