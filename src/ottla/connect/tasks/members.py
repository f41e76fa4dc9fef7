"""A sink task as a member of its consumer group: librdkafka joins, beats and commits; it fetches nothing.

Which topics a regular expression means is decided here, by Java's rules, as Kafka's own consumer does; librdkafka is then
told their names.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaException
from confluent_kafka import KafkaError as LibraryError
from confluent_kafka import TopicPartition as Place

from ottla.base import KafkaError as OttlaKafkaError
from ottla.base import TopicPartition
from ottla.client import librdkafka_security
from ottla.connect import ConnectError
from ottla.connect.tasks.settings import ConsumerSettings
from ottla.connect.tasks.task_client import TaskClient
from ottla.java import JavaPattern

__all__ = ["Member"]

log = logging.getLogger(__name__)
COMMITTED_SECONDS_MAX = 30.0
REFRESH_MS_DEFAULT = 5_000
"""How often it is looked whether topics or partitions are new; Kafka's clients look every five minutes."""
PASSING = {
    LibraryError.UNKNOWN_TOPIC_OR_PART,
    LibraryError._PARTITION_EOF,
    LibraryError._ALL_BROKERS_DOWN,
    LibraryError._TRANSPORT,
    LibraryError._RESOLVE,
    LibraryError._TIMED_OUT,
    LibraryError._MAX_POLL_EXCEEDED,
    LibraryError.COORDINATOR_NOT_AVAILABLE,
    LibraryError.NOT_COORDINATOR,
    LibraryError.COORDINATOR_LOAD_IN_PROGRESS,
}
"""What librdkafka tells and mends itself."""

HOPELESS = {LibraryError._AUTHENTICATION, LibraryError._SSL}
"""What librdkafka would try again for ever, and Kafka's consumer fails at."""

Assigned = Callable[[list[TopicPartition]], None]
Revoked = Callable[[list[TopicPartition], bool], None]
Committed = Callable[[str | None, Mapping[TopicPartition, int]], None]


class Member:
    """One member; its callbacks come out of `poll`, `close` and synchronous commits, in the caller's thread."""

    def __init__(
        self,
        settings: ConsumerSettings,
        group: str,
        *,
        assigned: Assigned,
        revoked: Revoked,
        committed: Committed,
    ) -> None:
        """`revoked` is told whether the partitions are another's already; `committed` what was wrong, if anything."""
        self._assigned, self._revoked, self._committed = assigned, revoked, committed
        self._incremental = (
            "cooperative-sticky" in settings.member.get("partition.assignment.strategy", "")
            or settings.member.get("group.protocol") == "consumer"
        )
        self._refresh_ms = int(settings.member.get("topic.metadata.refresh.interval.ms", REFRESH_MS_DEFAULT))
        self._error: BaseException | None = None
        self._pattern: JavaPattern | None = None
        self._topics: list[str] = []
        self._look_again = 0.0
        self._consumer = Consumer(
            {
                "bootstrap.servers": settings.bootstrap,
                "client.id": settings.client_id,
                "group.id": group,
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "allow.auto.create.topics": True,
                "partition.assignment.strategy": "range",
                "topic.metadata.refresh.interval.ms": self._refresh_ms,
                "on_commit": self._on_commit,
                "error_cb": self._on_error,
                **librdkafka_security(settings.security),
                **{key: value for key, value in settings.member.items() if not _is_foreign(key, settings.member)},
            },
            logger=log,
        )

    # -- what it reads

    def subscribe(self, topics: Sequence[str], pattern: JavaPattern | None) -> None:
        """Read topics by name or by pattern."""
        self._pattern = pattern
        if pattern is None:
            self._subscribe(list(topics))

    def _subscribe(self, topics: list[str]) -> None:
        self._topics = topics
        self._consumer.subscribe(topics, on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost)

    def refresh(self, task_client: TaskClient) -> None:
        """Look, now and then, which topics the pattern means; raises KafkaError where nobody will ever say."""
        if self._pattern is None or time.monotonic() < self._look_again:
            return
        self._look_again = time.monotonic() + self._refresh_ms / 1000
        try:
            found = task_client.run(task_client.client.metadata())
        except OttlaKafkaError as error:
            if not error.retriable:
                raise
            log.warning("It is not known now which topics there are: %s", error)
            return
        names = sorted(
            name for name, topic in found.topics.items() if not topic.is_internal and self._pattern.fullmatch(name)
        )
        if names != self._topics:
            if names:
                self._subscribe(names)
            else:
                self._topics = []
                self._consumer.unsubscribe()

    def _on_error(self, error: LibraryError) -> None:
        if error.code() in HOPELESS and self._error is None:
            self._error = ConnectError(f"The consumer group cannot be joined: {error.str()}")

    # -- its membership

    def poll(self) -> None:
        """Let rebalances and commits be told; raises what a callback raised, and ConnectError where it cannot go on."""
        message = self._consumer.poll(0)
        self._raise()
        error = message.error() if message is not None else None
        if error is not None:
            if error.code() in PASSING or error.retriable():
                log.warning("The consumer group's member: %s", error.str())
            else:
                raise ConnectError(f"The consumer group cannot be joined: {error.str()}")

    def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the group's offsets, of partitions that have one; raises ConnectError."""
        places = [Place(each.topic, each.partition) for each in partitions]
        try:
            found = self._consumer.committed(places, timeout=COMMITTED_SECONDS_MAX)
        except KafkaException as error:
            raise ConnectError(f"The group's offsets cannot be read: {error}") from error
        for each in found:
            if each.error is not None:
                raise ConnectError(f"The group's offset of {each.topic}-{each.partition} cannot be read: {each.error}")
        return {TopicPartition(each.topic, each.partition): each.offset for each in found if each.offset >= 0}

    def commit(self, offsets: Mapping[TopicPartition, int], *, wait: bool) -> None:
        """Commit; `committed` is called with the result, before this returns where it waits."""
        places = [Place(each.topic, each.partition, offset) for each, offset in offsets.items()]
        try:
            if wait:
                for each in self._consumer.commit(offsets=places, asynchronous=False) or ():
                    if each.error is not None:
                        raise KafkaException(each.error)
                self._committed(None, offsets)
            else:
                self._consumer.commit(offsets=places, asynchronous=True)
        except KafkaException as error:
            self._committed(str(error), offsets)

    def close(self) -> None:
        """Leave the group."""
        self._consumer.close()

    # -- librdkafka's callbacks

    def _on_assign(self, consumer: Any, places: list[Any]) -> None:
        partitions = _partitions(places)
        try:
            if self._incremental:
                consumer.incremental_assign(places)
            else:
                consumer.assign(places)
            consumer.pause(places)
            self._assigned(partitions)
        except Exception as error:  # librdkafka swallows what its callbacks raise; `poll` raises it
            self._error = self._error or error

    def _on_revoke(self, consumer: Any, places: list[Any]) -> None:
        self._leave(consumer, places, lost=False)

    def _on_lost(self, consumer: Any, places: list[Any]) -> None:
        self._leave(consumer, places, lost=True)

    def _leave(self, consumer: Any, places: list[Any], *, lost: bool) -> None:
        try:
            self._revoked(_partitions(places), lost)
        except Exception as error:  # librdkafka swallows what its callbacks raise; `poll` raises it
            self._error = self._error or error
        if self._incremental:
            consumer.incremental_unassign(places)
        else:
            consumer.unassign()

    def _on_commit(self, error: Any, places: list[Any]) -> None:
        wrong = error or next((each.error for each in places if each.error is not None), None)
        offsets = {TopicPartition(each.topic, each.partition): each.offset for each in places}
        self._committed(None if wrong is None else str(wrong), offsets)

    def _raise(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error


def _partitions(places: Iterable[Any]) -> list[TopicPartition]:
    return [TopicPartition(each.topic, each.partition) for each in places]


def _is_foreign(key: str, member: Mapping[str, str]) -> bool:
    """Return whether a property has no place under the next generation's group protocol (KIP-848)."""
    return member.get("group.protocol") == "consumer" and key in ("session.timeout.ms", "heartbeat.interval.ms")
