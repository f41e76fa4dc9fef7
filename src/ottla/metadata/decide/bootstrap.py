"""The first records of a new cluster."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.metadata.apply import Record
from ottla.metadata.decide.decision import Decision
from ottla.metadata.features import DEFAULT_LEVELS
from ottla.metadata.image import Image, ResourceType
from ottla.wire.messages.begin_transaction_record import BeginTransactionRecord
from ottla.wire.messages.config_record import ConfigRecord
from ottla.wire.messages.end_transaction_record import EndTransactionRecord
from ottla.wire.messages.feature_level_record import FeatureLevelRecord

__all__ = ["bootstrap", "bootstrap_records"]

_TRANSACTIONS = 14
"""`metadata.version` 3.6-IV2, from which records form transactions (KIP-868)."""


def bootstrap_records(levels: Mapping[str, int] = DEFAULT_LEVELS) -> tuple[FeatureLevelRecord, ...]:
    """Return what formatting leaves in `bootstrap.checkpoint`: the levels that the first leader finalizes."""
    return tuple(FeatureLevelRecord(name=name, feature_level=level) for name, level in levels.items() if level)


def bootstrap(image: Image, formatted: tuple[Record, ...], *, min_insync_replicas: int) -> Decision[None]:
    """Choose the records with which the first leader opens an empty log; nothing where the cluster exists.

    They form one metadata transaction. Under eligible leader replicas, `min.insync.replicas` must be one value for all
    brokers (KIP-966), so it is written down at birth.
    """
    if image.metadata_version:
        return Decision((), None)
    levels = {each.name: each.feature_level for each in formatted if isinstance(each, FeatureLevelRecord)}
    records = list(formatted)
    if levels.get("eligible.leader.replicas.version"):
        records.append(
            ConfigRecord(
                resource_type=ResourceType.BROKER,
                resource_name="",
                name="min.insync.replicas",
                value=str(min_insync_replicas),
            )
        )
    if levels.get("metadata.version", 0) < _TRANSACTIONS:
        return Decision(tuple(records), None)
    return Decision((BeginTransactionRecord(name="Bootstrap records"), *records, EndTransactionRecord()), None)
