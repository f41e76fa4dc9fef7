"""What changed between two images, so that a broker touches only what moved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ottla.metadata.acls import AclChanges
from ottla.metadata.image import ConfigResource, Image, Topic

__all__ = ["Delta", "delta_between"]


@dataclass(frozen=True, slots=True)
class Delta:
    """Names of what differs from one image to the next, sorted; a topic deleted and made again stands in both lists."""

    topics_changed: tuple[str, ...] = ()
    """Topics that exist now and did not, or have other partitions."""
    topics_deleted: tuple[Topic, ...] = ()
    """Topics that existed, under their old ids, and do not now."""
    brokers_changed: tuple[int, ...] = ()
    """Brokers registered, changed or gone."""
    configs_changed: tuple[ConfigResource, ...] = ()
    """Resources whose own configuration was set, changed or removed."""
    features_changed: tuple[str, ...] = ()
    security_changed: bool = False
    """True where ACLs, SCRAM credentials or delegation tokens differ."""
    quotas_changed: bool = False
    acls: AclChanges | None = None
    """What came and went of the access control entries; None where none did."""


def delta_between(old: Image, new: Image) -> Delta:
    """Return what differs; maps that are one and the same are not walked."""
    deleted = [
        topic
        for name, topic in _differing(old.topics, new.topics)
        if name not in new.topics or new.topics[name].id != topic.id
    ]
    return Delta(
        topics_changed=tuple(sorted(name for name, _ in _differing(new.topics, old.topics))),
        topics_deleted=tuple(sorted(deleted, key=lambda topic: topic.name)),
        brokers_changed=_names(old.brokers, new.brokers),
        configs_changed=_names(old.configs, new.configs),
        features_changed=_names(old.features, new.features),
        security_changed=(
            old.acls is not new.acls
            or old.scram_credentials is not new.scram_credentials
            or old.delegation_tokens is not new.delegation_tokens
        ),
        quotas_changed=old.client_quotas is not new.client_quotas,
        acls=None if old.acls is new.acls else new.acls.changes_since(old.acls),
    )


def _differing(left: Mapping[Any, Any], right: Mapping[Any, Any]) -> Iterable[tuple[Any, Any]]:
    """Yield what `left` has and `right` has not, or has otherwise."""
    if left is right:
        return
    for key, value in left.items():
        other = right.get(key)
        if other is not value and other != value:
            yield key, value


def _names(old: Mapping[Any, Any], new: Mapping[Any, Any]) -> tuple[Any, ...]:
    if old is new:
        return ()
    return tuple(sorted({key for key, _ in _differing(old, new)} | {key for key, _ in _differing(new, old)}))
