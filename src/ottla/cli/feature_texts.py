"""Features on the command line: `name=level`, and what Kafka's tools print of releases and dependencies."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.admin import (
    KRAFT_VERSION_FROM,
    METADATA_VERSION,
    feature_dependency,
    metadata_version_name,
    metadata_version_of,
    release_levels,
)
from ottla.cli.options import UsageError, whole_number

__all__ = ["parse_feature", "parse_features", "print_dependencies", "print_mapping"]

MAPPED = (
    *("transaction.version", "group.version", "eligible.leader.replicas.version", "share.version", "streams.version"),
)
"""The features of a version mapping after `metadata.version` and `kraft.version`, in Kafka's order."""


def parse_features(texts: Iterable[str]) -> dict[str, int]:
    """Parse every `name=level`; the last of one name holds."""
    return dict(parse_feature(text) for text in texts)


def parse_feature(text: str) -> tuple[str, int]:
    """Parse `name=level`; raises UsageError for anything else."""
    name, equals, level = text.partition("=")
    if not equals:
        raise UsageError(f"Can't parse feature=level string {text}: equals sign not found.")
    try:
        return name.strip(), whole_number(level.strip())
    except ValueError:
        raise UsageError(f"Can't parse feature=level string {text}: unable to parse {level} as a short.") from None


def print_mapping(release: str | None) -> None:
    """Print the levels that belong to a release, or to the newest."""
    version = metadata_version_of(release)
    levels = release_levels(version)
    print(f"metadata.version={version} ({release or metadata_version_name(version)})")
    print(f"kraft.version={int(version >= KRAFT_VERSION_FROM)}")
    for name in MAPPED:
        print(f"{name}={levels.get(name, 0)}")


def print_dependencies(features: Iterable[str]) -> None:
    """Print what each `name=level` needs; raises for features and levels that there are not."""
    for text in features:
        name, level = parse_feature(text)
        needed = feature_dependency(name, level)
        shown = f"{name}={level}" + (f" ({metadata_version_name(level)})" if name == METADATA_VERSION else "")
        if needed is None:
            print(f"{shown} has no dependencies.")
        else:
            print(f"{shown} requires:\n    {needed[0]}={needed[1]} ({metadata_version_name(needed[1])})")
