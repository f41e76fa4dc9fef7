"""The configuration of groups and of client metrics subscriptions, as DescribeConfigs reports it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ottla.config import GROUP_KEYS, BrokerConfig, ConfigEntry, ConfigKey, ConfigSource, Synonym
from ottla.metadata import decide

__all__ = ["client_metrics_entries", "group_entries"]


def client_metrics_entries(given: Mapping[str, str], names: Sequence[str] | None) -> list[ConfigEntry]:
    """Return the keys of a subscription (KIP-714), set or default."""
    source = ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG
    wanted = None if names is None else set(names)
    return [
        _entry(key, given.get(name), key.default, source, synonyms=())
        for name, key in decide.CLIENT_METRICS_KEYS.items()
        if wanted is None or name in wanted
    ]


def group_entries(given: Mapping[str, str], broker: BrokerConfig, names: Sequence[str] | None) -> list[ConfigEntry]:
    """Return the keys of a group, set or the broker's value of that key."""
    source = ConfigSource.DYNAMIC_GROUP_CONFIG
    entries = []
    wanted = None if names is None else set(names)
    for name, key in GROUP_KEYS.items():
        if wanted is not None and name not in wanted:
            continue
        own = broker.entries([f"group.{name}"])
        default = own[0].value if own else key.default
        synonyms = own[0].synonyms if own else (Synonym(name, default, ConfigSource.DEFAULT_CONFIG),)
        entries.append(_entry(key, given.get(name), default, source, synonyms=synonyms))
    return entries


def _entry(
    key: ConfigKey, given: str | None, default: str | None, source: ConfigSource, *, synonyms: tuple[Synonym, ...]
) -> ConfigEntry:
    chain = synonyms if given is None else (Synonym(key.name, given, source), *synonyms)
    return ConfigEntry(
        name=key.name,
        value=default if given is None else given,
        source=chain[0].source if chain else ConfigSource.DEFAULT_CONFIG,
        synonyms=chain,
        type=key.type,
        read_only=False,
        sensitive=key.sensitive,
        doc=key.doc,
    )
