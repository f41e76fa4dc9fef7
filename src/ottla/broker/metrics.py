"""Counters and distributions under Kafka's metric names; they are read by whoever exposes them.

Hot paths keep a reference to their counter and add to its `value`: no lookup, no lock (there is one loop), no
allocation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ottla.broker.meters import ClientTraffic, Counter, RequestTimes, TopicTraffic

__all__ = ["Counter", "Histogram", "Metrics", "Traffic"]

CLIENTS_MAX = 1000
"""Clients of topics that are counted apart; of more, those that have moved least lately are counted together."""
CLIENTS_KEPT = CLIENTS_MAX * 7 // 8
CLIENT_ID_CHARACTERS_MAX = 255
"""Longer client ids are told apart by their beginning."""
BUCKET_BITS = 3
"""Eight buckets per power of two: a quantile is off by less than an eighth."""


class Histogram:
    """A distribution of non-negative integers in logarithmic buckets."""

    __slots__ = ("buckets", "count", "largest", "total")

    def __init__(self) -> None:
        self.buckets: dict[int, int] = {}
        self.count = 0
        self.total = 0
        self.largest = 0

    def record(self, value: int) -> None:
        """Count one value."""
        shift = max(0, value.bit_length() - BUCKET_BITS - 1)
        bucket = (value >> shift) << shift
        self.buckets[bucket] = self.buckets.get(bucket, 0) + 1
        self.count += 1
        self.total += value
        if value > self.largest:
            self.largest = value

    def quantile(self, fraction: float) -> int:
        """Return the lower bound of the bucket in which that fraction of all values is reached."""
        wanted = fraction * self.count
        seen = 0
        for bucket in sorted(self.buckets):
            seen += self.buckets[bucket]
            if seen >= wanted:
                return bucket
        return 0


class Metrics:
    """Every metric of one broker by its name (Kafka's MBean name: `type.name` and sorted tags)."""

    def __init__(self) -> None:
        self._counters: dict[str, Counter] = {}
        self._histograms: dict[str, Histogram] = {}
        self._gauges: dict[str, Callable[[], float]] = {}
        self.requests: dict[str, RequestTimes] = {}
        """Every kind of request by its API's name; Fetch by who asks: `FetchConsumer` and `FetchFollower`."""

    def counter(self, name: str) -> Counter:
        """Return the counter of that name, made on first use."""
        return self._counters.setdefault(name, Counter())

    def histogram(self, name: str) -> Histogram:
        """Return the distribution of that name, made on first use."""
        return self._histograms.setdefault(name, Histogram())

    def request(self, name: str) -> RequestTimes:
        """Return the times of one kind of request, made on first use."""
        return self.requests.setdefault(name, RequestTimes())

    def gauge(self, name: str, read: Callable[[], float]) -> None:
        """Say how a value that is looked up when asked for is read."""
        self._gauges[name] = read

    def values(self) -> Iterator[tuple[str, float]]:
        """Yield (name, value) of everything, by name; a distribution gives its count, mean and quantiles."""
        found: dict[str, float] = {name: counter.value for name, counter in self._counters.items()}
        found |= {name: read() for name, read in self._gauges.items()}
        for name, each in self._histograms.items():
            found[f"{name}.Count"] = each.count
            found[f"{name}.Mean"] = each.total / each.count if each.count else 0.0
            found[f"{name}.Max"] = each.largest
            for percent in (50, 95, 99):
                found[f"{name}.{percent}thPercentile"] = each.quantile(percent / 100)
        yield from sorted(found.items())


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
