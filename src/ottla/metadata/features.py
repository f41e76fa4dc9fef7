"""Feature levels: what this version of the platform supports, and what a new cluster finalizes.

The levels and their names are Kafka 4.3's (its `storage version-mapping` lists them).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = [
    "DEFAULT_LEVELS",
    "GROUP_VERSION",
    "KRAFT_VERSION",
    "METADATA_VERSION",
    "METADATA_VERSION_LATEST",
    "METADATA_VERSION_OLDEST",
    "SUPPORTED_FEATURES",
]

METADATA_VERSION: Final = "metadata.version"
KRAFT_VERSION: Final = "kraft.version"
GROUP_VERSION: Final = "group.version"

METADATA_VERSION_OLDEST: Final = 7
"""3.3-IV3, the first that can run without ZooKeeper."""
METADATA_VERSION_LATEST: Final = 30
"""4.3-IV0."""

SUPPORTED_FEATURES: Mapping[str, tuple[int, int]] = {
    "eligible.leader.replicas.version": (0, 1),
    "group.version": (0, 1),
    "kraft.version": (0, 1),
    "metadata.version": (METADATA_VERSION_OLDEST, METADATA_VERSION_LATEST),
    "share.version": (0, 1),
    "streams.version": (0, 1),
    "transaction.version": (0, 2),
}
"""Feature -> lowest and highest level that this node understands; a broker and a controller register these."""

DEFAULT_LEVELS: Mapping[str, int] = {
    "metadata.version": METADATA_VERSION_LATEST,
    "eligible.leader.replicas.version": 1,
    "group.version": 1,
    "share.version": 1,
    "streams.version": 1,
    "transaction.version": 2,
}
"""What a new cluster finalizes, in the order in which it is written; `kraft.version` is the quorum's own record."""
