"""A topic's configuration: its own overrides over the broker's values, live, each value with where it came from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from ottla.base import ConfigError
from ottla.config.broker import BrokerConfig
from ottla.config.entries import ConfigEntry, ConfigSource, Synonym, synonym_chain
from ottla.config.synonyms import BROKER_SYNONYMS, TOPIC_SYNONYMS
from ottla.config.topic_keys import TOPIC_KEYS
from ottla.config.topic_settings import TopicSettings
from ottla.config.types import Value, value_text

__all__ = ["TopicConfig", "validate_topic_configs"]


@dataclass(frozen=True)
class TopicConfig:
    """A topic's effective configuration, from its overrides and the broker's configuration as it is now."""

    overrides: Mapping[str, str]
    broker: BrokerConfig

    @cached_property
    def settings(self) -> TopicSettings:
        """Every key's typed value; an override that no longer parses falls back, since it comes from a replayed log."""
        return TopicSettings({name: self._value(name) for name in TOPIC_KEYS})

    def _value(self, name: str) -> Value:
        text = self.overrides.get(name)
        if text is not None:
            try:
                return TOPIC_KEYS[name].parse(text)
            except ConfigError:
                pass  # the broker's value stands; the decision that stored this one checked it by other bounds
        return _broker_value(name, self.broker)

    def entries(self, names: Iterable[str] | None = None) -> list[ConfigEntry]:
        """Return every key, or those named, as DescribeConfigs reports the topic."""
        entries = self._entries
        wanted = entries if names is None else set(names)
        return [entry for name, entry in entries.items() if name in wanted]

    @cached_property
    def _entries(self) -> Mapping[str, ConfigEntry]:
        """The entry of every key that is told of."""
        return {
            name: self._entry(name) for name, key in TOPIC_KEYS.items() if not key.internal or name in self.overrides
        }

    def _entry(self, name: str) -> ConfigEntry:
        key = TOPIC_KEYS[name]
        text = value_text(getattr(self.settings, key.field))
        chain: tuple[Synonym, ...] = ()
        sensitive = key.sensitive
        if name in TOPIC_SYNONYMS:
            broker_name = TOPIC_SYNONYMS[name][0][0]
            names = BROKER_SYNONYMS.get(broker_name, (broker_name,))
            shown = self.broker.is_shown(broker_name)
            sensitive = not shown and name not in self.overrides
            chain = synonym_chain(broker_name, names, self.broker.layers, sensitive=not shown)
        if name in self.overrides:
            chain = (Synonym(name, text, ConfigSource.DYNAMIC_TOPIC_CONFIG), *chain)
        return ConfigEntry(
            name=name,
            value=None if sensitive else text,
            source=chain[0].source if chain else ConfigSource.DEFAULT_CONFIG,
            synonyms=chain,
            type=key.type,
            read_only=False,
            sensitive=sensitive,
            doc=key.doc,
        )


def _broker_value(name: str, broker: BrokerConfig) -> Value:
    """Return what the topic key is when the topic does not set it."""
    for broker_name, factor in TOPIC_SYNONYMS.get(name, ()):
        value = getattr(broker.settings, broker_name.replace(".", "_"))
        if value is not None:
            if factor > 1 or name == "retention.ms":
                return -1 if value < 0 else int(value) * factor
            return value  # type: ignore[no-any-return]
    return TOPIC_KEYS[name].default_value


def validate_topic_configs(overrides: Mapping[str, str], broker: BrokerConfig | None = None) -> None:
    """Raise ConfigError for the first override that is unknown or not allowed, alone or beside the others.

    With `broker`, the broker's values are what the overrides are held against where the topic sets none.
    """
    values: dict[str, Value] = {}
    for name, text in overrides.items():
        if name not in TOPIC_KEYS:
            raise ConfigError(name, text, "unknown", f"Unknown topic config name: {name}")
        values[name] = TOPIC_KEYS[name].parse(text)

    def value(name: str) -> Value:
        if name in values:
            return values[name]
        return _broker_value(name, broker) if broker else TOPIC_KEYS[name].default_value

    low, high = value("min.compaction.lag.ms"), value("max.compaction.lag.ms")
    assert isinstance(low, int) and isinstance(high, int)
    if low > high:
        conflict = f"conflict topic config setting min.compaction.lag.ms ({low}) > max.compaction.lag.ms ({high})"
        raise ConfigError("min.compaction.lag.ms", low, conflict, conflict)
    if values.get("remote.storage.enable") is True and not (
        broker and broker.settings.remote_log_storage_system_enable
    ):
        refused = (
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )
        raise ConfigError("remote.storage.enable", "true", refused, refused)
