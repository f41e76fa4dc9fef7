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
    "METADATA_VERSIONS",
    "METADATA_VERSION_LATEST",
    "METADATA_VERSION_OLDEST",
    "SCRAM_SINCE",
    "SUPPORTED_FEATURES",
    "TOKENS_SINCE",
    "UNSERVED_FEATURES",
]

METADATA_VERSION: Final = "metadata.version"
KRAFT_VERSION: Final = "kraft.version"
GROUP_VERSION: Final = "group.version"

METADATA_VERSION_OLDEST: Final = 7
"""3.3-IV3, the first that can run without ZooKeeper."""
METADATA_VERSION_LATEST: Final = 30
"""4.3-IV0."""

SCRAM_SINCE: Final = 11
"""3.5-IV2, from which users of SCRAM are kept in the metadata (KIP-900)."""
TOKENS_SINCE: Final = 14
"""3.6-IV2, from which delegation tokens are."""

METADATA_VERSIONS: Mapping[int, str] = {
    7: "3.3-IV3",
    8: "3.4-IV0",
    9: "3.5-IV0",
    10: "3.5-IV1",
    11: "3.5-IV2",
    12: "3.6-IV0",
    13: "3.6-IV1",
    14: "3.6-IV2",
    15: "3.7-IV0",
    16: "3.7-IV1",
    17: "3.7-IV2",
    18: "3.7-IV3",
    19: "3.7-IV4",
    20: "3.8-IV0",
    21: "3.9-IV0",
    22: "4.0-IV0",
    23: "4.0-IV1",
    24: "4.0-IV2",
    25: "4.0-IV3",
    26: "4.1-IV0",
    27: "4.1-IV1",
    28: "4.2-IV0",
    29: "4.2-IV1",
    30: "4.3-IV0",
}
"""The levels of `metadata.version`, and the release that each came with."""

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
    "transaction.version": 2,
}
"""What a new cluster finalizes, in the order in which it is written; `kraft.version` is the quorum's own record.

Kafka's of the same release finalizes those of `UNSERVED_FEATURES` as well.
"""

UNSERVED_FEATURES: frozenset[str] = frozenset({"share.version", "streams.version"})
"""Features of which a level is understood, so that a folder of Kafka's in which it is finalized opens and goes back, and
behind which there is no API yet: clients would be promised share groups (KIP-932) and streams groups (KIP-1071)."""
