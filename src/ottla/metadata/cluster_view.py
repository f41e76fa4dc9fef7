"""The cluster as a plugin sees it: its brokers, topics, and who leads."""

from __future__ import annotations

from ottla.metadata.image import Image

__all__ = ["ClusterView"]


class ClusterView:
    """The brokers and topics of one moment; nothing is computed before it is asked for."""

    def __init__(self, image: Image) -> None:
        self._image = image

    @property
    def brokers(self) -> tuple[int, ...]:
        """The ids of the brokers that are in service."""
        return tuple(sorted(number for number, broker in self._image.brokers.items() if not broker.fenced))

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics' names."""
        return tuple(sorted(self._image.topics))

    def leaders(self, topic: str) -> tuple[int, ...]:
        """Return who leads each partition of a topic, -1 where nobody does; nothing for a topic that is not there."""
        found = self._image.topic(topic)
        return () if found is None else tuple(each.leader for _, each in sorted(found.partitions.items()))
