"""Topics that tasks make: a source's by `topic.creation.…` groups (KIP-158), dead letter queues, offsets topics."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ottla.base import ConfigError, ErrorCode, KafkaError
from ottla.client import NewTopic, create_topics
from ottla.connect import ConnectError, JavaPattern, PatternError, compile_java
from ottla.connect.tasks.settings import integer, names
from ottla.connect.tasks.task_client import TaskClient

__all__ = ["CreationGroup", "TopicCreator", "create_topic", "creation_groups"]

log = logging.getLogger(__name__)
PREFIX = "topic.creation."
DEFAULT_GROUP = "default"


def create_topic(task_client: TaskClient, topic: NewTopic) -> bool:
    """Create a topic; returns False where it exists. Raises KafkaError."""
    error = task_client.run(create_topics(task_client.client, [topic])).get(topic.name)
    if error is None:
        return True
    if error.code is ErrorCode.TOPIC_ALREADY_EXISTS:
        return False
    raise KafkaError(error.code, f"topic {topic.name} cannot be made: {error}")


def topic_exists(task_client: TaskClient, topic: str) -> bool:
    """Return whether there is such a topic; raises KafkaError where nobody can tell."""
    found = task_client.run(task_client.client.metadata([topic])).topics.get(topic)
    if found is not None and found.error not in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
        raise KafkaError(found.error, f"topic {topic}: {found.error.name}")
    return found is not None and not found.error


@dataclass(frozen=True, slots=True)
class CreationGroup:
    """Which topics are made how."""

    name: str
    included: JavaPattern | None
    """None for the group of all topics that no other is for."""

    excluded: JavaPattern | None
    partitions: int
    replication: int
    configs: Mapping[str, str]

    def matches(self, topic: str) -> bool:
        """Return whether the group is for a topic."""
        if self.included is None:
            return True
        excluded = self.excluded is not None and self.excluded.fullmatch(topic)
        return not excluded and self.included.fullmatch(topic) is not None


def creation_groups(props: Mapping[str, str | None]) -> tuple[CreationGroup, ...]:
    """Return a source's groups in their order, the default one last; none where topics are left to the broker.

    Raises ConfigError.
    """
    if not any(key.startswith(PREFIX) for key in props):
        return ()
    below = f"{PREFIX}{DEFAULT_GROUP}."
    for key in (f"{below}replication.factor", f"{below}partitions"):
        if not props.get(key):
            raise ConfigError(key, None, "", f'Missing required configuration "{key}" which has no default value.')
    last = _group(props, DEFAULT_GROUP, 1, 1)
    listed = [each for each in names(props, f"{PREFIX}groups") if each != DEFAULT_GROUP]
    return (*(_group(props, each, last.partitions, last.replication) for each in listed), last)


def _group(props: Mapping[str, str | None], name: str, partitions: int, replication: int) -> CreationGroup:
    below = f"{PREFIX}{name}."
    own = {key[len(below) :]: value for key, value in props.items() if key.startswith(below) and value is not None}
    known = ("include", "exclude", "partitions", "replication.factor")
    partitions = _count(props, f"{below}partitions", partitions)
    replication = _count(props, f"{below}replication.factor", replication)
    if name != DEFAULT_GROUP and not own.get("include"):
        raise ConfigError(f"{below}include", None, "regular expressions of topics' names are expected")
    return CreationGroup(
        name,
        None if name == DEFAULT_GROUP else _any_of(props, f"{below}include"),
        None if name == DEFAULT_GROUP or not own.get("exclude") else _any_of(props, f"{below}exclude"),
        partitions,
        replication,
        {key: value for key, value in own.items() if key not in known},
    )


def _count(props: Mapping[str, str | None], key: str, default: int) -> int:
    found = integer(props, key, default, least=-1)
    if found == 0:
        raise ConfigError(key, "0", "at least 1, or -1 for the broker's default, is expected")
    return found


def _any_of(props: Mapping[str, str | None], key: str) -> JavaPattern:
    try:
        return compile_java("|".join(names(props, key)))
    except PatternError as error:
        raise ConfigError(key, props.get(key), f"regular expressions are expected ({error})") from error


class TopicCreator:
    """Makes a source's topics before their first record; without groups that is left to the broker."""

    def __init__(self, task_client: Callable[[], TaskClient], groups: tuple[CreationGroup, ...]) -> None:
        self._task_client, self._groups = task_client, groups
        self._known: set[str] = set()

    def ensure(self, topic: str) -> None:
        """Make a topic unless it is there; raises ConnectError where it cannot be made."""
        if not self._groups or topic in self._known:
            return
        try:
            if not topic_exists(self._task_client(), topic):
                group = next(each for each in self._groups if each.matches(topic))
                wanted = NewTopic(topic, group.partitions, group.replication, group.configs)
                if create_topic(self._task_client(), wanted):
                    log.info("Created topic %s using creation group %s", wanted, group.name)
        except KafkaError as error:
            if error.retriable:
                raise
            raise ConnectError(
                f"Task failed to create new topic {topic}: {error}. Ensure that the task is authorized to create topics or "
                "that the topic exists and restart the task"
            ) from error
        self._known.add(topic)
