"""The metadata image as groups see it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.base import Uuid
from ottla.groups import TopicFacts
from ottla.metadata import EMPTY_IMAGE, Delta, Image, ResourceType, Topic

__all__ = ["GroupCluster"]


class GroupCluster:
    """The `Cluster` of groups' decisions; what is worked out for a topic is kept until the topics change."""

    def __init__(self) -> None:
        self.version = 0
        self._image: Image = EMPTY_IMAGE
        self._facts: dict[str, TopicFacts] = {}

    def image_changed(self, image: Image, delta: Delta) -> None:
        """Follow the image."""
        self._image = image
        if delta.topics_changed or delta.topics_deleted or delta.brokers_changed:
            self.version += 1
            self._facts.clear()

    def topic(self, name: str) -> TopicFacts | None:
        """Return a topic by name."""
        found = self._facts.get(name)
        if found is None:
            topic = self._image.topic(name)
            if topic is None:
                return None
            found = self._facts[name] = self._describe(topic)
        return found

    def topic_by_id(self, topic_id: bytes) -> TopicFacts | None:
        """Return a topic by id."""
        name = self._image.topic_names.get(Uuid(bytes(topic_id)))
        return None if name is None else self.topic(name)

    def topic_names(self) -> Iterable[str]:
        """Return every topic's name, in no order."""
        return self._image.topics

    def group_config(self, group_id: str) -> Mapping[str, str]:
        """Return what was set on a group."""
        return self._image.config(ResourceType.GROUP, group_id)

    def _describe(self, topic: Topic) -> TopicFacts:
        racks: list[frozenset[str]] = []
        for _, partition in topic.in_order():
            brokers = (self._image.brokers.get(each) for each in partition.replicas)
            racks.append(frozenset(each.rack for each in brokers if each is not None and each.rack is not None))
        return TopicFacts(topic.name, topic.id, len(topic.partitions), tuple(racks))
