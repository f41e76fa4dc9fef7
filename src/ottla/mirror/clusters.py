"""A cluster as MirrorMaker asks it: its topics, groups and entries of access, and its internal topics read to their ends."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from ottla.base import ErrorCode, KafkaError, Offset, TopicPartition
from ottla.client import (
    EARLIEST,
    LATEST,
    BlockingClient,
    FetchPosition,
    Isolation,
    Limits,
    NewTopic,
    client_network,
)
from ottla.mirror.forwarding_admin import ForwardingAdmin
from ottla.mirror.own_classes import admin_of
from ottla.mirror.settings import client_properties
from ottla.wire import ColumnDecoder

__all__ = ["CompactedTopic", "administered", "connected", "make_compacted_topic", "topic_partitions"]

log = logging.getLogger(__name__)


def connected(props: Mapping[str, str], cluster: str, kind: str, role: str) -> BlockingClient:
    """Return a client of `cluster`, `source` or `target`; raises ConfigError for settings that cannot be honoured."""
    given = client_properties(props, cluster, kind)
    flow = f"{props.get('source.cluster.alias')}->{props.get('target.cluster.alias', 'target')}"
    name = given.get("client.id") or f"{flow}|{role}"
    seconds = int(props.get("admin.timeout.ms") or 60_000) / 1000
    limits = Limits(request_s=min(seconds, 30.0), call_s=seconds, unreachable_s=min(seconds, 30.0))
    return BlockingClient(given["bootstrap.servers"], client_id=name, limits=limits, network=client_network(given))


@contextmanager
def administered(props: Mapping[str, str], cluster: str, role: str) -> Iterator[ForwardingAdmin]:
    """Have a cluster administered by what `forwarding.admin.class` names; raises ConfigError."""
    with connected(props, cluster, "admin", role) as client:
        admin = admin_of(props, client_properties(props, cluster, "admin"), client)
        try:
            yield admin
        finally:
            admin.close()


def topic_partitions(client: BlockingClient) -> dict[str, int]:
    """Return how many partitions each topic has."""
    topics = client.metadata().topics
    return {name: len(topic.partitions) for name, topic in topics.items() if not topic.error}


def make_compacted_topic(admin: ForwardingAdmin, name: str, copies: int) -> None:
    """Make a topic of one partition that is compacted, where it is not there; raises KafkaError."""
    if admin.client.metadata([name]).partitions_of(name):
        return
    wanted = NewTopic(name, 1, copies, {"cleanup.policy": "compact"})
    for error in admin.create_topics([wanted]).values():
        if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise KafkaError(error.code, f"topic {name} cannot be made: {error.message}")


class CompactedTopic:
    """A topic of one partition, followed by whoever calls `read`."""

    def __init__(self, client: BlockingClient, topic: str) -> None:
        self._client, self._place = client, TopicPartition(topic, 0)
        self._next: Offset | None = None
        self._decoder = ColumnDecoder()

    def read(self) -> Iterator[tuple[bytes | None, bytes | None]]:
        """Yield keys and values of what is new, up to where the topic ends now; raises KafkaError."""
        end = self._client.list_offsets({self._place: LATEST})[self._place].offset
        if self._next is None:
            self._next = self._client.list_offsets({self._place: EARLIEST})[self._place].offset
        while self._next < end:
            isolation = Isolation.READ_COMMITTED
            [found] = self._client.fetch([FetchPosition(self._place, self._next)], max_wait_ms=100, isolation=isolation)
            if found.error is ErrorCode.OFFSET_OUT_OF_RANGE:
                self._next = self._client.list_offsets({self._place: EARLIEST})[self._place].offset
                continue
            decoded = self._decoder.decode(found.check().records, start=self._next, aborted=found.aborted)
            for columns in decoded.columns:
                yield from zip(columns.keys(), columns.values(), strict=True)
            if decoded.next_offset <= self._next and found.last_stable_offset < end:
                return  # a transaction is open: what is behind it comes later
            self._next = Offset(int(decoded.next_offset))
