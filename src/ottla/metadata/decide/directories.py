"""Log directories of a broker that go offline while it lives (KIP-858), or take nothing new (KIP-1066)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ottla.base import NodeId, Uuid
from ottla.config import BrokerConfig
from ottla.metadata.apply import Record, apply
from ottla.metadata.decide.partition_change import Election, Wanted, change_partition, unclean_allowed
from ottla.metadata.image import Broker, Image
from ottla.wire.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from ottla.wire.messages.partition_change_record import PartitionChangeRecord

__all__ = ["CORDONED_FROM", "DIRECTORIES_FROM", "changes_of_directories"]

DIRECTORIES_FROM = 17
"""From `metadata.version` 3.7-IV2 on brokers register their log directories (KIP-858)."""
CORDONED_FROM = 30
"""From `metadata.version` 4.3-IV0 on the directories that take nothing new are known (KIP-1066)."""


def changes_of_directories(
    image: Image,
    broker: Broker,
    offline: Iterable[Uuid],
    cordoned: Iterable[Uuid] | None,
    config: BrokerConfig | None = None,
) -> tuple[Record, ...]:
    """Return the records that take note of what a broker says of its directories; none where that is known already.

    What a failed directory held leaves every ISR, and is led elsewhere.
    """
    records: list[Record] = []
    if image.metadata_version >= DIRECTORIES_FROM:
        failed = {Uuid(bytes(each)) for each in offline} & set(broker.log_dirs)
        if failed:
            left = [each for each in broker.log_dirs if each not in failed]
            change = BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, log_dirs=left)
            records += [change, *_without(apply(image, change), broker.id, failed, config)]
    if cordoned is not None and image.metadata_version >= CORDONED_FROM:
        wanted = tuple(sorted(Uuid(bytes(each)) for each in cordoned))
        if wanted != tuple(sorted(broker.cordoned_log_dirs)):
            records.append(
                BrokerRegistrationChangeRecord(
                    broker_id=broker.id, broker_epoch=broker.epoch, cordoned_log_dirs=list(wanted)
                )
            )
    return tuple(records)


def _without(
    image: Image, broker_id: NodeId, failed: set[Uuid], config: BrokerConfig | None
) -> Iterator[PartitionChangeRecord]:
    """Yield the change of every partition that a broker held in these directories."""
    for _, topic in sorted(image.topics.items()):
        election = Election.UNCLEAN if unclean_allowed(image, topic, config) else Election.ONLINE
        for index, partition in topic.in_order():
            if broker_id in partition.replicas and partition.directory_of(broker_id) in failed:
                wanted = Wanted(isr=tuple(each for each in partition.isr if each != broker_id), election=election)
                record = change_partition(image, topic, index, wanted, config=config)
                if record is not None:
                    yield record
