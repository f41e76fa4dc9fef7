"""Which topics, groups and configurations are mirrored: Kafka's filters, and what one's own inherit from (KIP-382)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from ottla.base import ConfigError
from ottla.connect import PatternError, compile_java

__all__ = [
    "CONFIG_PROPERTIES_EXCLUDE",
    "FILTERS",
    "GROUPS",
    "GROUPS_EXCLUDE",
    "TOPICS",
    "TOPICS_EXCLUDE",
    "ConfigPropertyFilter",
    "DefaultConfigPropertyFilter",
    "DefaultGroupFilter",
    "DefaultTopicFilter",
    "Filter",
    "GroupFilter",
    "TopicFilter",
]

PACKAGE = "org.apache.kafka.connect.mirror."
TOPICS, TOPICS_EXCLUDE = ".*", "mm2.*\\.internal,.*\\.replica,__.*"
GROUPS, GROUPS_EXCLUDE = ".*", "console-consumer-.*,connect-.*,__.*"
CONFIG_PROPERTIES_EXCLUDE = (
    "follower\\.replication\\.throttled\\.replicas,leader\\.replication\\.throttled\\.replicas,"
    "message\\.timestamp\\.difference\\.max\\.ms,message\\.timestamp\\.type,message\\.timestamp\\.before\\.max\\.ms,"
    "message\\.timestamp\\.after\\.max\\.ms,unclean\\.leader\\.election\\.enable,min\\.insync\\.replicas"
)


class Filter:
    """What all filters have: a constructor without arguments, settings, and an end."""

    def configure(self, props: Mapping[str, str]) -> None:
        """Take the connector's properties, before anything is asked; a ConfigError is told to who configures it."""

    def close(self) -> None:
        """Let go of what it holds; nothing is asked any more."""


class TopicFilter(Filter, ABC):
    """Which topics of the source are mirrored; internal ones never are, whatever it says."""

    @abstractmethod
    def should_replicate_topic(self, topic: str) -> bool:
        """Whether a topic is."""


class GroupFilter(Filter, ABC):
    """Which groups' offsets are translated."""

    @abstractmethod
    def should_replicate_group(self, group: str) -> bool:
        """Whether a group's are."""


class ConfigPropertyFilter(Filter, ABC):
    """Which configurations of topics are copied."""

    @abstractmethod
    def should_replicate_config_property(self, prop: str) -> bool:
        """Whether one is."""

    def should_replicate_source_default(self, prop: str) -> bool:
        """Whether one that is the source's default is set on the target, too; not if this says nothing else."""
        return False


class _Names:
    """Names by lists of regular expressions of whole names, as Java's; what is excluded is not included."""

    def __init__(self, included: str, excluded: str, *, setting: str) -> None:
        """Raises ConfigError for what is no expression."""
        self._included, self._excluded = _pattern(included, setting), _pattern(excluded, f"{setting}.exclude")

    def takes(self, name: str) -> bool:
        """Whether a name is chosen."""
        if self._excluded is not None and self._excluded.fullmatch(name):
            return False
        return self._included is not None and self._included.fullmatch(name) is not None


def _pattern(listed: str, setting: str) -> Any:
    parts: Sequence[str] = listed.split(",")
    text = "|".join(each.strip() for each in parts if each.strip())
    if not text:
        return None
    try:
        return compile_java(text)
    except PatternError as error:
        raise ConfigError(setting, text, "regular expressions", str(error)) from error


class DefaultTopicFilter(TopicFilter):
    """By `topics` and `topics.exclude`."""

    def configure(self, props: Mapping[str, str]) -> None:
        """Take the two lists; raises ConfigError."""
        excluded = props.get("topics.exclude", TOPICS_EXCLUDE)
        self._names = _Names(props.get("topics", TOPICS), excluded, setting="topics")

    def should_replicate_topic(self, topic: str) -> bool:
        """See `TopicFilter`."""
        return self._names.takes(topic)


class DefaultGroupFilter(GroupFilter):
    """By `groups` and `groups.exclude`."""

    def configure(self, props: Mapping[str, str]) -> None:
        """Take the two lists; raises ConfigError."""
        excluded = props.get("groups.exclude", GROUPS_EXCLUDE)
        self._names = _Names(props.get("groups", GROUPS), excluded, setting="groups")

    def should_replicate_group(self, group: str) -> bool:
        """See `GroupFilter`."""
        return self._names.takes(group)


class DefaultConfigPropertyFilter(ConfigPropertyFilter):
    """By `config.properties.exclude`, and `use.defaults.from`."""

    def configure(self, props: Mapping[str, str]) -> None:
        """Take the two; raises ConfigError."""
        excluded = props.get("config.properties.exclude", CONFIG_PROPERTIES_EXCLUDE)
        self._names = _Names(".*", excluded, setting="config.properties")
        self._with_defaults = props.get("use.defaults.from", "target").strip().lower() == "source"

    def should_replicate_config_property(self, prop: str) -> bool:
        """See `ConfigPropertyFilter`."""
        return self._names.takes(prop)

    def should_replicate_source_default(self, prop: str) -> bool:
        """See `ConfigPropertyFilter`."""
        return self._with_defaults


FILTERS: Mapping[str, type[Filter]] = {
    f"{PACKAGE}{each.__name__}": each for each in (DefaultTopicFilter, DefaultGroupFilter, DefaultConfigPropertyFilter)
}
"""Kafka's own, by their class names."""
