"""A key's effective value with where it came from, as DescribeConfigs reports it (KIP-133, KIP-226)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum

from ottla.config.types import ConfigType

__all__ = ["ConfigEntry", "ConfigSource", "Layer", "Synonym", "synonym_chain"]


class ConfigSource(IntEnum):
    """Where a value comes from; the number is the one of DescribeConfigs answers."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8


@dataclass(frozen=True, slots=True)
class Synonym:
    """One place where a key, or one that it falls back to, is set; the strongest stands first in a chain."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One line of a DescribeConfigs answer; `value` is None for what is not set and for secrets."""

    name: str
    value: str | None
    source: ConfigSource
    synonyms: tuple[Synonym, ...]
    type: ConfigType | None
    read_only: bool
    sensitive: bool
    doc: str


Layer = tuple[ConfigSource, Mapping[str, str | None]]
"""Values of one source, as text by key."""


def synonym_chain(name: str, names: Iterable[str], layers: Iterable[Layer], *, sensitive: bool) -> tuple[Synonym, ...]:
    """Return where any of `names` is set, source by source, from the first place that sets `name` itself.

    Kafka leaves out what stands above that place, so that `log.retention.ms` alone is not said to come from
    `log.retention.hours`.
    """
    names = tuple(names)
    found = [
        Synonym(each, None if sensitive else values[each], source)
        for source, values in layers
        for each in names
        if values.get(each) is not None
    ]
    start = next((index for index, synonym in enumerate(found) if synonym.name == name), len(found))
    return tuple(found[start:])
