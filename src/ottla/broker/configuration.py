"""Configuration as it is now: the broker's static values, the cluster's dynamic ones, and a topic's over these."""

from __future__ import annotations

from ottla.config import BrokerConfig, TopicConfig
from ottla.log import LogConfig
from ottla.metadata import EMPTY_IMAGE, Delta, Image, ResourceType

__all__ = ["Configuration"]


class Configuration:
    """Holds the current `BrokerConfig` and makes topics' effective configuration from it; follows the image."""

    def __init__(self, static: BrokerConfig) -> None:
        self.broker = static
        self._topics: dict[str, TopicConfig] = {}
        self._without_overrides: TopicConfig | None = None
        self._image: Image = EMPTY_IMAGE

    def topic(self, name: str) -> TopicConfig:
        """Return a topic's effective configuration."""
        found = self._topics.get(name)
        if found is None:
            overrides = self._image.topic_config(name)
            found = TopicConfig(overrides, self.broker) if overrides else self._plain()
            self._topics[name] = found
        return found

    def _plain(self) -> TopicConfig:
        """Return the one value of all topics that override nothing."""
        if self._without_overrides is None or self._without_overrides.broker is not self.broker:
            self._without_overrides = TopicConfig({}, self.broker)
        return self._without_overrides

    def log_config(self, name: str) -> LogConfig:
        """Return what a topic's configuration says to its logs."""
        return LogConfig.of(
            self.topic(name).settings, producer_id_expiration_ms=self.broker.settings.producer_id_expiration_ms
        )

    def image_changed(self, image: Image, delta: Delta) -> bool:
        """Take in the image's configuration; return True where the broker's values changed, and so every topic's."""
        self._image = image
        changed = False
        for resource in delta.configs_changed:
            if resource.type == ResourceType.TOPIC:
                self._topics.pop(resource.name, None)
            elif resource.type == ResourceType.BROKER and resource.name in ("", str(self.broker.node_id)):
                changed = True
        for topic in delta.topics_deleted:
            self._topics.pop(topic.name, None)
        if changed:
            self.broker = self.broker.with_dynamic(
                default=image.default_broker_config(), own=image.broker_config(self.broker.node_id)
            )
            self._topics.clear()
        return changed
