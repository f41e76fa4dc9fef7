"""Features and their levels: what a cluster has finalized, what a release finalizes, and updates (KIP-584, KIP-1022)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.admin.errors import words
from ottla.base import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.client import BlockingClient

__all__ = [
    "KRAFT_VERSION_FROM",
    "METADATA_VERSION",
    "METADATA_VERSIONS",
    "FeatureUpdate",
    "FeatureVersions",
    "describe_features",
    "feature_dependency",
    "feature_levels",
    "formatted_levels",
    "metadata_version_name",
    "metadata_version_of",
    "plan_feature_update",
    "release_levels",
    "update_features",
]

METADATA_VERSION = "metadata.version"
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
"""`upgrade_type` of UpdateFeatures (KIP-778)."""
TIMEOUT_MS = 60_000
INCREMENTS = {
    "3.3": range(3, 4),
    "3.4": range(1),
    "3.5": range(3),
    "3.6": range(3),
    "3.7": range(5),
    "3.8": range(1),
    "3.9": range(1),
    "4.0": range(4),
    "4.1": range(2),
    "4.2": range(2),
    "4.3": range(1),
}
"""Release -> the numbers of its metadata versions; the last of each is what the release formats."""
METADATA_VERSIONS = [f"{release}-IV{number}" for release, numbers in INCREMENTS.items() for number in numbers]
LOWEST_METADATA_VERSION = 7
"""The level of the first of these names; each next one is the next level."""
KRAFT_VERSION_FROM = 21
"""The `metadata.version` from which a quorum may change its voters (KIP-853)."""
DEPENDENCIES = {("eligible.leader.replicas.version", 1): ("metadata.version", 23)}
FEATURES_FROM = {
    "eligible.leader.replicas.version": (1, 26),
    "group.version": (1, 22),
    "share.version": (1, 28),
    "streams.version": (1, 29),
    "transaction.version": (2, 24),
}
"""Feature -> its level that a new cluster gets, and the `metadata.version` from which it does (KIP-1022)."""


@dataclass(frozen=True)
class FeatureVersions:
    """A feature as one node knows it: the levels that it supports, and the one that the cluster has finalized."""

    name: str
    lowest: int
    highest: int
    finalized: int
    """0 is a feature that is off."""
    epoch: int
    """Grows with each change of what is finalized."""


@dataclass(frozen=True)
class FeatureUpdate:
    """The levels that `update_features` asks for, all or none, and which way; `unsafe` also where metadata would be lost."""

    levels: Mapping[str, int]
    is_upgrade: bool
    unsafe: bool = False


def describe_features(client: BlockingClient) -> list[FeatureVersions]:
    """Return the features that a node supports or the cluster has finalized, by name: ApiVersions carries them."""
    from ottla import __version__
    from ottla.wire.messages.api_versions import ApiVersionsRequest

    message = ApiVersionsRequest(client_software_name="ottla", client_software_version=__version__)
    found = client.request(message, lowest=3)
    finalized = {each.name: each.max_version_level for each in found.finalized_features}
    supported = {each.name: (each.min_version, each.max_version) for each in found.supported_features}
    return [
        FeatureVersions(name, *supported.get(name, (0, 0)), finalized.get(name, 0), found.finalized_features_epoch)
        for name in sorted({*supported, *finalized})
    ]


def plan_feature_update(levels: Mapping[str, int], *, is_upgrade: bool, unsafe: bool = False) -> FeatureUpdate:
    """Return an update of some features, in order of their names; the controller judges it."""
    return FeatureUpdate(dict(sorted(levels.items())), is_upgrade, unsafe)


def update_features(
    client: BlockingClient, update: FeatureUpdate, *, validate_only: bool = False
) -> dict[str, KafkaError | None]:
    """Ask for new levels, or have them checked; returns what became of each feature: None, or why it was refused."""
    from ottla.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

    kind = UPGRADE if update.is_upgrade else UNSAFE_DOWNGRADE if update.unsafe else SAFE_DOWNGRADE
    keys = [
        FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
        for name, level in update.levels.items()
    ]
    message = UpdateFeaturesRequest(timeout_ms=TIMEOUT_MS, feature_updates=keys, validate_only=validate_only)
    response = client.request(message, lowest=1)
    errors = {each.feature: each for each in response.results if each.error_code}
    found: dict[str, KafkaError | None] = {}
    for name in update.levels:
        failed = errors.get(name, response if response.error_code else None)
        code = ErrorCode.NONE if failed is None else ErrorCode(failed.error_code)
        found[name] = None if failed is None else KafkaError(code, words(code, failed.error_message))
    return found


def formatted_levels(release: str | None, asked: Mapping[str, int]) -> Mapping[str, int]:
    """Return the levels of a new folder: the release's but for what nothing serves yet, unless that is asked for.

    Raises KafkaError as `feature_levels` does.
    """
    from ottla.metadata import UNSERVED_FEATURES

    levels = feature_levels(release, asked)
    return {name: level for name, level in levels.items() if name not in UNSERVED_FEATURES or name in asked}


def feature_levels(release: str | None, asked: Mapping[str, int]) -> Mapping[str, int]:
    """Return the levels of a release of Kafka's, or the newest, with single ones changed; zeroes are left out.

    `metadata.version` among those that are asked for stands for its release. Raises INVALID_REQUEST for releases,
    features and levels that there are not.
    """
    if METADATA_VERSION in asked:
        rest = {name: level for name, level in asked.items() if name != METADATA_VERSION}
        return feature_levels(metadata_version_name(asked[METADATA_VERSION]), rest)
    levels = release_levels(metadata_version_of(release))
    levels |= {name: checked_level(name, level) for name, level in asked.items()}
    return {name: level for name, level in levels.items() if level}


def release_levels(metadata_version: int) -> dict[str, int]:
    """Return the levels that a new cluster gets of what depends on a `metadata.version`, without `kraft.version`."""
    levels = {METADATA_VERSION: metadata_version}
    return levels | {name: level for name, (level, since) in FEATURES_FROM.items() if metadata_version >= since}


def checked_level(name: str, level: int) -> int:
    """Return a feature's level; raises KafkaError for what this version does not know."""
    from ottla.metadata import SUPPORTED_FEATURES

    if name not in (*FEATURES_FROM, "kraft.version"):
        known = ", ".join(sorted((*FEATURES_FROM, "kraft.version")))
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unsupported feature: {name}. Supported features are: {known}")
    low, high = SUPPORTED_FEATURES[name]
    if not low <= level <= high:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"No feature:{name} with feature level {level}")
    return level


def metadata_version_of(release: str | None) -> int:
    """Return the level of `4.3-IV0`, `4.3` or `4.3.0`; the newest where none is named."""
    if release is None:
        return LOWEST_METADATA_VERSION + len(METADATA_VERSIONS) - 1
    short = ".".join(release.split(".")[:2])
    named = [name for name in METADATA_VERSIONS if name == release or name.partition("-")[0] == short]
    if not named:
        known = ", ".join(METADATA_VERSIONS)
        message = f"Unknown metadata.version '{release}'. Supported metadata.version are: {known}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    return LOWEST_METADATA_VERSION + METADATA_VERSIONS.index(named[-1])


def metadata_version_name(metadata_version: int) -> str:
    """Return the name of a level; raises KafkaError for one that is not supported."""
    index = metadata_version - LOWEST_METADATA_VERSION
    if not 0 <= index < len(METADATA_VERSIONS):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"No feature:metadata.version with feature level {metadata_version}"
        )
    return METADATA_VERSIONS[index]


def feature_dependency(name: str, level: int) -> tuple[str, int] | None:
    """Return the feature and level that a level needs, None for nothing; raises INVALID_REQUEST for what there is not."""
    if name == METADATA_VERSION:
        try:
            metadata_version_name(level)
        except KafkaError:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown metadata.version {level}") from None
    elif name not in (*FEATURES_FROM, "kraft.version"):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown feature: {name}")
    else:
        checked_level(name, level)
    return DEPENDENCIES.get((name, level))
