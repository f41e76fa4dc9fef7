"""Changing the levels of features (KIP-584, KIP-778): all of a request's, or none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum

from ottla.base import ErrorCode, KafkaError
from ottla.metadata.apply import Record
from ottla.metadata.decide.brokers import CONTROLLERS_FROM
from ottla.metadata.decide.decision import Decision
from ottla.metadata.features import (
    KRAFT_VERSION,
    METADATA_VERSION,
    METADATA_VERSION_LATEST,
    METADATA_VERSION_OLDEST,
    SUPPORTED_FEATURES,
)
from ottla.metadata.image import Image, ResourceType
from ottla.wire.messages.config_record import ConfigRecord
from ottla.wire.messages.feature_level_record import FeatureLevelRecord

__all__ = ["FeatureUpdate", "UpgradeType", "update_features"]

ELR_VERSION = "eligible.leader.replicas.version"
MIN_INSYNC_REPLICAS = "min.insync.replicas"
DEPENDENCIES: Mapping[tuple[str, int], tuple[str, int]] = {(ELR_VERSION, 1): (METADATA_VERSION, 23)}
"""What a level of a feature needs of another feature."""
METADATA_CHANGED = frozenset({7, 8, 11, 13, 14, 15, 17, 23, 30})
"""The levels of `metadata.version` that brought new records or fields: from there nothing leads back."""


class UpgradeType(IntEnum):
    """What a client allows to happen to a level."""

    UNKNOWN = 0
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


@dataclass(frozen=True, slots=True)
class FeatureUpdate:
    """The level that a feature is to have; 0 is none."""

    name: str
    level: int
    upgrade_type: int = UpgradeType.UPGRADE


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cluster:
    """Who has to understand a level."""

    image: Image
    node_id: int
    voters: tuple[int, ...]
    kraft_version: int
    min_insync_replicas: int


def update_features(
    image: Image,
    updates: Iterable[FeatureUpdate],
    *,
    node_id: int,
    voters: Iterable[int],
    kraft_version: int,
    min_insync_replicas: int,
) -> Decision[None]:
    """Choose the records that give features their new levels; raises INVALID_UPDATE_VERSION for the first that cannot be.

    `kraft.version` is checked here and recorded by the quorum itself, whose records are no part of the image.
    """
    cluster = _Cluster(
        image=image,
        node_id=node_id,
        voters=tuple(sorted(voters)),
        kraft_version=kraft_version,
        min_insync_replicas=min_insync_replicas,
    )
    wanted = {each.name: each for each in updates}
    proposed = {**image.features, **{name: each.level for name, each in wanted.items()}}
    records: list[Record] = []
    for each in wanted.values():
        _check(cluster, each, proposed)
        if each.name != KRAFT_VERSION:
            records.append(FeatureLevelRecord(name=each.name, feature_level=each.level))
    if ELR_VERSION in wanted and wanted[ELR_VERSION].level > 0:
        records += _one_min_insync_replicas(cluster)
    return Decision(tuple(records), None)


def _check(cluster: _Cluster, update: FeatureUpdate, proposed: Mapping[str, int]) -> None:
    """Raise INVALID_UPDATE_VERSION where a feature may not have this level, in Kafka's order and words."""
    name, level, kind = update.name, update.level, update.upgrade_type
    current = cluster.kraft_version if name == KRAFT_VERSION else cluster.image.features.get(name, 0)
    if kind not in tuple(UpgradeType) or kind == UpgradeType.UNKNOWN:
        raise _invalid(name, level, "The controller does not support the given upgrade type.")
    if level < 0:
        raise _invalid(name, level, "A feature version cannot be less than 0.")
    reason = next(_not_understood(cluster, name, level), None)
    if reason is not None:
        raise _invalid(name, level, reason)
    if level < current and kind == UpgradeType.UPGRADE:
        raise _invalid(
            name,
            level,
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
            "downgrade.",
        )
    if level > current and kind != UpgradeType.UPGRADE:
        raise _invalid(name, level, "Can't downgrade to a newer version.")
    if name == METADATA_VERSION:
        _check_metadata_version(current, level, unsafe=kind == UpgradeType.UNSAFE_DOWNGRADE)
    elif name == KRAFT_VERSION:
        if kind != UpgradeType.UPGRADE:
            raise _invalid(name, level, "Can't downgrade the version of this feature.")
    elif (name, level) in DEPENDENCIES:
        other, least = DEPENDENCIES[name, level]
        if proposed.get(other, 0) < least:
            raise _invalid(
                name, level, f"{name} could not be set to {level} because it depends on {other} level {least}"
            )


def _not_understood(cluster: _Cluster, name: str, level: int) -> Iterator[str]:
    """Yield who of the cluster does not understand a level, and why: this controller first."""
    yield from _out_of_range(f"Local controller {cluster.node_id}", SUPPORTED_FEATURES, name, level)
    for _, broker in sorted(cluster.image.brokers.items()):
        yield from _out_of_range(f"Broker {broker.id}", broker.features, name, level)
    if cluster.image.metadata_version < CONTROLLERS_FROM:
        return
    for _, controller in sorted(cluster.image.controllers.items()):
        if controller.id != cluster.node_id:
            yield from _out_of_range(f"Controller {controller.id}", controller.features, name, level)
    for voter in cluster.voters:
        if voter != cluster.node_id and voter not in cluster.image.controllers:
            yield f"controller {voter} has not registered, and may not support this feature"


def _out_of_range(who: str, supported: Mapping[str, tuple[int, int]], name: str, level: int) -> Iterator[str]:
    lowest, highest = supported.get(name, (0, 0))
    if lowest <= level <= highest:
        return
    if highest == 0:
        yield f"{who} does not support this feature."
    else:
        yield f"{who} only supports versions {lowest if lowest == highest else f'{lowest}-{highest}'}"


def _check_metadata_version(current: int, level: int, *, unsafe: bool) -> None:
    if not METADATA_VERSION_OLDEST <= level <= METADATA_VERSION_LATEST:
        text = f"Valid versions are from {METADATA_VERSION_OLDEST} to {METADATA_VERSION_LATEST}."
        raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION, f"Invalid metadata.version {level}. {text}")
    if level >= current or not any(level < each <= current for each in METADATA_CHANGED):
        return
    reason = (
        "Unsafe metadata downgrade is not supported in this version."
        if unsafe
        else "Refusing to perform the requested downgrade because it might delete metadata information."
    )
    change = f"Unsupported metadata.version downgrade from {current} to {level}."
    raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION, f"{change} {reason}")


def _invalid(name: str, level: int, reason: str) -> KafkaError:
    text = f"Invalid update version {level} for feature {name}. {reason}"
    return KafkaError(ErrorCode.INVALID_UPDATE_VERSION, text)


def _one_min_insync_replicas(cluster: _Cluster) -> Iterator[ConfigRecord]:
    """Yield what makes `min.insync.replicas` one value for all brokers, as eligible leader replicas need it (KIP-966)."""
    image = cluster.image
    if MIN_INSYNC_REPLICAS not in image.default_broker_config():
        yield _broker_config("", str(cluster.min_insync_replicas))
    names = {each.name for each in image.configs if each.type == ResourceType.BROKER and each.name}
    for name in sorted(names):
        if MIN_INSYNC_REPLICAS in image.config(ResourceType.BROKER, name):
            yield _broker_config(name, None)


def _broker_config(broker: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(resource_type=ResourceType.BROKER, resource_name=broker, name=MIN_INSYNC_REPLICAS, value=value)
