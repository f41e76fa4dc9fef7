"""Small clusters as images, built by the decisions themselves."""

from __future__ import annotations

from random import Random
from typing import Any

from ottla.base import LeaderEpoch, NodeId, Offset, Uuid
from ottla.config import BrokerConfig
from ottla.metadata import EMPTY_IMAGE, Endpoint, Image, apply_all, decide
from ottla.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)

CONFIG = BrokerConfig.load("")
LATEST_EPOCH = LeaderEpoch(1)


def uuid(number: int) -> Uuid:
    return Uuid(number.to_bytes(16, "big"))


def after(image: Image, decision: decide.Decision[Any]) -> Image:
    """Return the image once the decision's records are applied."""
    if not decision.records:
        return image
    return apply_all(image, decision.records, Offset(image.offset + 1), LATEST_EPOCH)


def registration(
    broker_id: int, *, rack: str | None = None, incarnation: int = 0, epoch: int = -1
) -> decide.Registration:
    return decide.Registration(
        broker_id=NodeId(broker_id),
        incarnation_id=uuid(1000 * broker_id + incarnation),
        endpoints=(Endpoint("PLAINTEXT", "127.0.0.1", 9000 + broker_id),),
        rack=rack,
        log_dirs=(uuid(500 + broker_id),),
        previous_epoch=epoch,
    )


def started(image: Image, broker_id: int, *, rack: str | None = None) -> Image:
    """Return the image with one more broker, unfenced."""
    decision = decide.register_broker(image, registration(broker_id, rack=rack), supersede=False)
    image = after(image, decision)
    beat = decide.heartbeat(
        image, NodeId(broker_id), decision.response, caught_up=True, want_fence=False, want_shut_down=False
    )
    return after(image, beat)


def cluster(*brokers: int, racks: dict[int, str] | None = None) -> Image:
    image = after(EMPTY_IMAGE, decide.bootstrap(EMPTY_IMAGE, decide.bootstrap_records(), min_insync_replicas=1))
    for broker in brokers:
        image = started(image, broker, rack=(racks or {}).get(broker))
    return image


def topic(
    name: str,
    partitions: int = 1,
    replicas: int = 1,
    *,
    assignments: dict[int, list[int]] | None = None,
    configs: dict[str, str | None] | None = None,
) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=-1 if assignments else partitions,
        replication_factor=-1 if assignments else replicas,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
            for index, brokers in (assignments or {}).items()
        ],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
    )


def create(image: Image, *topics: CreatableTopic, validate_only: bool = False) -> decide.Decision[Any]:
    request = CreateTopicsRequest(topics=list(topics), validate_only=validate_only)
    return decide.create_topics(image, request, config=CONFIG, rng=Random(image.offset))


def with_topics(image: Image, *topics: CreatableTopic) -> Image:
    decision = create(image, *topics)
    assert all(each.error_code == 0 for each in decision.response.topics), decision.response
    return after(image, decision)
