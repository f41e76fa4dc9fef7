"""Topics that Kafka keeps for itself: coordinators' state, and the log of a cluster's metadata."""

from typing import Final

__all__ = ["INTERNAL_TOPICS", "METADATA_TOPIC", "OFFSETS_TOPIC", "SHARE_STATE_TOPIC", "TRANSACTIONS_TOPIC"]

OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTIONS_TOPIC: Final = "__transaction_state"
SHARE_STATE_TOPIC: Final = "__share_group_state"
INTERNAL_TOPICS: Final = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_STATE_TOPIC})
"""Topics that Metadata calls internal: only the coordinators write to them."""
METADATA_TOPIC: Final = "__cluster_metadata"
"""The controllers' log (KIP-595). It is no topic of the cluster: Metadata does not list it, and no
checkpoint of a log directory names it.
"""
