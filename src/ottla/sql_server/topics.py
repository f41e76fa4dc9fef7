"""Topics as the server needs them: listed, made where a statement wishes for them, deleted with what a query has left."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.base import ErrorCode, KafkaError
from ottla.client import Client, NewTopic, create_topics
from ottla.sql import SqlError
from ottla.sql.answers import query_of_topic
from ottla.sql.commands import TopicWish
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState

__all__ = ["delete_topics", "internal_topics", "make_topic", "replicas_of", "topic_partitions"]

TIMEOUT_MS = 30_000


async def topic_partitions(client: Client, topic: str) -> int | None:
    """Return how many partitions a topic has, None where it is not there."""
    found = (await client.metadata([topic])).topics.get(topic)
    return None if found is None or found.error else len(found.partitions)


async def replicas_of(client: Client, topic: str) -> list[int]:
    """Return the number of copies of each of a topic's partitions; none where it is not there."""
    found = (await client.metadata([topic])).topics.get(topic)
    return [] if found is None or found.error else [len(each.replicas) for each in found.partitions.values()]


async def internal_topics(client: Client, service_id: str) -> dict[str, list[str]]:
    """Return the internal topics of a service's queries that are there, in order, by the query's id."""
    found: dict[str, list[str]] = {}
    for name in sorted((await client.metadata()).topics):
        if (query := query_of_topic(service_id, name)) is not None:
            found.setdefault(query, []).append(name)
    return found


async def delete_topics(client: Client, names: Iterable[str]) -> None:
    """Delete topics with all their records; raises KafkaError for the first that is not deleted."""
    wanted = list(names)
    if not wanted:
        return
    message = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=each) for each in wanted], topic_names=wanted, timeout_ms=TIMEOUT_MS
    )
    for each in (await client.request(message, controller=True, lowest=1)).responses:
        if each.error_code and ErrorCode(each.error_code) is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise KafkaError(ErrorCode(each.error_code), f"topic {each.name} is not deleted: {each.error_message}")


async def make_topic(client: Client, wish: TopicWish, sources: Iterable[str], *, kind: str) -> None:
    """Make a topic that a statement wishes for where it is missing, or check it; raises SqlError in ksqlDB's words.

    A result's topic has as many partitions and copies as the topic of its first source, unless the statement says it.
    """
    there = await topic_partitions(client, wish.name)
    if there is not None:
        _check(wish, there)
        return
    partitions, replicas = wish.partitions, wish.replicas
    for source in sources:
        found = await replicas_of(client, source)
        if found:
            partitions = partitions or len(found)
            replicas = replicas or max(found)
            break
    if partitions is None:
        raise SqlError(
            f"Topic '{wish.name}' does not exist. If you want to create a new topic for the {kind.lower()} please re-run "
            "the statement providing the required 'PARTITIONS' configuration in the WITH clause (and optionally "
            "'REPLICAS'). For example: "
            f"CREATE {kind} … WITH (KAFKA_TOPIC='{wish.name}', PARTITIONS=1, …)."
        )
    wanted = NewTopic(wish.name, partitions, replicas or -1, wish.configs)
    error = (await create_topics(client, [wanted])).get(wish.name)
    if error is not None and error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
        raise SqlError(f"Could not create topic {wish.name}: {error.message or error.code.name}")


def _check(wish: TopicWish, partitions: int) -> None:
    if wish.partitions is not None and wish.partitions != partitions:
        raise SqlError(
            f"A Kafka topic with the name '{wish.name}' already exists, with different partition/replica configuration "
            f"than required. KSQL expects {wish.partitions} partitions (topic has {partitions})"
        )
