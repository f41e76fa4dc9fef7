"""Features and their levels by name: what a release finalizes, and what `-f name=level` asks for (KIP-584, KIP-1022)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.base import ErrorCode, KafkaError
from ottla.cli.options import UsageError, whole_number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "KRAFT_VERSION_FROM",
    "LOWEST_METADATA_VERSION",
    "METADATA_VERSIONS",
    "feature_levels",
    "formatted_levels",
    "metadata_version_of",
    "name_of",
    "parse_feature",
    "print_dependencies",
    "print_mapping",
]

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
MAPPED = (
    *("transaction.version", "group.version", "eligible.leader.replicas.version", "share.version", "streams.version"),
)
"""The features of a version mapping after `metadata.version` and `kraft.version`, in Kafka's order."""
DEPENDENCIES = {("eligible.leader.replicas.version", 1): ("metadata.version", 23)}
FEATURES_FROM = {
    "eligible.leader.replicas.version": (1, 26),
    "group.version": (1, 22),
    "share.version": (1, 28),
    "streams.version": (1, 29),
    "transaction.version": (2, 24),
}
"""Feature -> its level that a new cluster gets, and the `metadata.version` from which it does (KIP-1022)."""


def formatted_levels(release: str | None, features: list[str]) -> Mapping[str, int]:
    """Return the levels of a new folder: the release's but for what nothing serves yet, unless that is asked for."""
    from ottla.metadata import UNSERVED_FEATURES

    levels = feature_levels(release, features)
    asked = {parse_feature(text)[0] for text in features}
    return {name: level for name, level in levels.items() if name not in UNSERVED_FEATURES or name in asked}


def feature_levels(release: str | None, features: list[str]) -> Mapping[str, int]:
    """Return the levels of a release of Kafka's, with single ones changed; zeroes are left out."""
    metadata_version = metadata_version_of(release)
    levels = {"metadata.version": metadata_version}
    levels |= {name: level for name, (level, since) in FEATURES_FROM.items() if metadata_version >= since}
    for text in features:
        name, asked = parse_feature(text)
        if name == "metadata.version":
            if release is not None:
                raise UsageError("Use --release-version instead of --feature metadata.version=X to avoid ambiguity.")
            return feature_levels(name_of(asked), [each for each in features if each != text])
        levels[name] = checked_level(name, asked)
    return {name: level for name, level in levels.items() if level}


def parse_feature(text: str) -> tuple[str, int]:
    """Parse `name=level`; raises UsageError for anything else."""
    name, equals, level = text.partition("=")
    if not equals:
        raise UsageError(f"Can't parse feature=level string {text}: equals sign not found.")
    try:
        return name.strip(), whole_number(level.strip())
    except ValueError:
        raise UsageError(f"Can't parse feature=level string {text}: unable to parse {level} as a short.") from None


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


def name_of(metadata_version: int) -> str:
    """Return the name of a level; raises KafkaError for one that is not supported."""
    index = metadata_version - LOWEST_METADATA_VERSION
    if not 0 <= index < len(METADATA_VERSIONS):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"No feature:metadata.version with feature level {metadata_version}"
        )
    return METADATA_VERSIONS[index]


def print_mapping(release: str | None) -> None:
    """Print the levels that belong to a release, or to the newest."""
    version = metadata_version_of(release)
    print(f"metadata.version={version} ({release or name_of(version)})")
    print(f"kraft.version={int(version >= KRAFT_VERSION_FROM)}")
    for name in MAPPED:
        level, since = FEATURES_FROM[name]
        print(f"{name}={level if version >= since else 0}")


def print_dependencies(features: Sequence[str]) -> None:
    """Print what each `name=level` needs; raises for features and levels that there are not."""
    for text in features:
        name, level = parse_feature(text)
        shown = f"{name}={level}"
        if name == "metadata.version":
            try:
                shown += f" ({name_of(level)})"
            except KafkaError:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown metadata.version {level}") from None
        elif name not in (*FEATURES_FROM, "kraft.version"):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown feature: {name}")
        else:
            checked_level(name, level)
        needed = DEPENDENCIES.get((name, level))
        if needed is None:
            print(f"{shown} has no dependencies.")
        else:
            print(f"{shown} requires:\n    {needed[0]}={needed[1]} ({name_of(needed[1])})")
