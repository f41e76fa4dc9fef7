"""Taking a copy away from a broker only when it knows that it does not lead: so that no two brokers answer for a partition.

A leader that stays in sync while another replaces it holds the new one's high watermark back until it has fetched, so
until it knows. One whose copy goes in the same record holds back nothing: cut off from the controllers, and not from its
clients, it would go on answering for as long as its lease lasts, while others commit what it does not have. Such a
decision is taken in two steps: first another leads, and the copy stays; once the broker knows that, the copy goes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from ottla.base import LeaderEpoch, NodeId, Offset, Uuid
from ottla.config import BrokerConfig
from ottla.metadata.apply import Record, apply_all
from ottla.metadata.decide.decision import Decision
from ottla.metadata.decide.partition_change import Wanted, change_partition
from ottla.metadata.image import Image, Topic
from ottla.wire.messages.partition_change_record import PartitionChangeRecord

__all__ = ["Departure", "HandOver", "hand_over"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Departure:
    """An in-sync replica that is to be taken away from a broker that serves and does not lead it in this leader epoch."""

    topic_id: Uuid
    index: int
    broker_id: NodeId
    leader_epoch: LeaderEpoch


@dataclass(frozen=True, slots=True)
class HandOver:
    """Who has to have the metadata up to this offset before the decision can be taken."""

    departures: frozenset[Departure]
    offset: Offset


def hand_over(
    image: Image,
    decided: Decision[T],
    may_go: Callable[[Departure, Offset], bool],
    *,
    knowing: NodeId | None = None,
    config: BrokerConfig | None = None,
) -> Decision[T | HandOver]:
    """Return the decision, or in its place the elections that have to come first and who has to hear of them.

    `may_go` says whether a broker is known to have the metadata up to an offset, or cannot be answering any more;
    `knowing` is one that asks for the decision, by the partition's epoch that takes its copy away.
    """
    touched = dict.fromkeys(
        (Uuid(bytes(each.topic_id)), each.partition_id)
        for each in decided.records
        if isinstance(each, PartitionChangeRecord)
    )
    if not touched:
        return Decision(decided.records, decided.response)
    after = apply_all(image, decided.records, Offset(image.offset + 1), image.epoch)
    elections: list[Record] = []
    departures: set[Departure] = set()
    for topic_id, index in touched:
        topic, new_topic = image.topic_by_id(topic_id), after.topic_by_id(topic_id)
        if topic is None or new_topic is None or index not in topic.partitions:
            continue
        old, new = topic.partitions[index], new_topic.partitions[index]
        for node in old.isr:
            stays = node in new.replicas and node in after.brokers
            if stays or node == knowing or not _serves(image, node):
                continue
            if node == old.leader:
                elections.append(_election(image, topic, index, new.leader, config))
                departures.add(Departure(topic_id, index, node, LeaderEpoch(old.leader_epoch + 1)))
            else:
                departure = Departure(topic_id, index, node, old.leader_epoch)
                if not may_go(departure, image.offset):
                    departures.add(departure)
    if not departures:
        return Decision(decided.records, decided.response)
    return Decision(tuple(elections), HandOver(frozenset(departures), Offset(image.offset + len(elections))))


def _election(image: Image, topic: Topic, index: int, leader: NodeId, config: BrokerConfig | None) -> Record:
    """Return the record by which this broker leads, and nobody where it cannot before the old leader's copy is gone."""

    def able(broker_id: int) -> bool:
        return broker_id == leader

    record = change_partition(image, topic, index, Wanted(), able=able, config=config)
    assert record is not None, "a leader was replaced, and nothing has changed"
    return record


def _serves(image: Image, node: NodeId) -> bool:
    """Return whether a broker may be answering: one that is fenced or leaves has lost its lease by then."""
    broker = image.brokers.get(node)
    return broker is not None and broker.active
