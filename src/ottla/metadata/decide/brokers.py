"""Brokers' lives: registration, heartbeats, fencing, shutting down (KIP-631)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ottla.base import ErrorCode, KafkaError, NodeId, Uuid
from ottla.metadata.apply import Record, apply
from ottla.metadata.decide.decision import Decision
from ottla.metadata.decide.partition_change import Availability, changes_for_broker
from ottla.metadata.features import SUPPORTED_FEATURES
from ottla.metadata.image import Broker, Controller, Endpoint, Image
from ottla.wire.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from ottla.wire.messages.register_broker_record import BrokerEndpoint, BrokerFeature, RegisterBrokerRecord
from ottla.wire.messages.register_controller_record import (
    ControllerEndpoint,
    ControllerFeature,
    RegisterControllerRecord,
)
from ottla.wire.messages.unregister_broker_record import UnregisterBrokerRecord

__all__ = [
    "BrokerState",
    "Registration",
    "fence_broker",
    "heartbeat",
    "register_broker",
    "register_controller",
    "unregister_broker",
]


@dataclass(frozen=True, slots=True)
class Registration:
    """What a broker says of itself when it registers."""

    broker_id: NodeId
    incarnation_id: Uuid
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    log_dirs: tuple[Uuid, ...] = ()
    previous_epoch: int = -1
    """The epoch that its clean shutdown recorded, -1 after any other: then what it had in memory is lost."""


@dataclass(frozen=True, slots=True)
class BrokerState:
    """What a heartbeat answers."""

    epoch: int
    fenced: bool
    should_shut_down: bool = False


def register_broker(image: Image, registration: Registration, *, supersede: bool) -> Decision[int]:
    """Choose the records that register a broker, fenced, and return its epoch: the offset of the first of them.

    An older incarnation is replaced where it is fenced, or where the caller knows that it is dead (`supersede`); else
    DUPLICATE_BROKER_REGISTRATION. Its leaderships end here; what it is in sync with ends too, unless it shut down
    cleanly.
    """
    old = image.brokers.get(registration.broker_id)
    if old is not None and old.incarnation_id == registration.incarnation_id:
        return Decision((), old.epoch)
    if old is not None and not old.fenced and not supersede:
        raise KafkaError(
            ErrorCode.DUPLICATE_BROKER_REGISTRATION,
            "Another broker is registered with that broker id. If the broker was recently restarted this should "
            "self-resolve once the heartbeat manager expires the broker's session.",
        )
    epoch = image.offset + 1
    records: list[Record] = []
    if old is not None:
        lost = registration.previous_epoch != old.epoch
        records += changes_for_broker(image, Availability(registration.broker_id, active=False, lost_data=lost))
    records.append(_register_record(registration, epoch))
    return Decision(tuple(records), epoch)


def _register_record(registration: Registration, epoch: int) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=registration.broker_id,
        incarnation_id=registration.incarnation_id,
        broker_epoch=epoch,
        end_points=[
            BrokerEndpoint(name=each.name, host=each.host, port=each.port, security_protocol=each.security_protocol)
            for each in registration.endpoints
        ],
        features=[
            BrokerFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in sorted(SUPPORTED_FEATURES.items())
        ],
        rack=registration.rack,
        fenced=True,
        log_dirs=list(registration.log_dirs),
    )


def register_controller(
    image: Image, node_id: NodeId, incarnation_id: Uuid, endpoints: tuple[Endpoint, ...]
) -> Decision[None]:
    """Choose the record that registers a controller (KIP-919); none where it stands so already."""
    old: Controller | None = image.controllers.get(node_id)
    if old is not None and old.incarnation_id == incarnation_id and old.endpoints == endpoints:
        return Decision((), None)
    record = RegisterControllerRecord(
        controller_id=node_id,
        incarnation_id=incarnation_id,
        zk_migration_ready=False,
        end_points=[
            ControllerEndpoint(name=each.name, host=each.host, port=each.port, security_protocol=each.security_protocol)
            for each in endpoints
        ],
        features=[
            ControllerFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in sorted(SUPPORTED_FEATURES.items())
        ],
    )
    return Decision((record,), None)


def _registered(image: Image, broker_id: int, broker_epoch: int) -> Broker:
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"No broker registration found for broker id {broker_id}")
    if broker.epoch != broker_epoch:
        raise KafkaError(
            ErrorCode.STALE_BROKER_EPOCH, f"Expected broker epoch {broker.epoch}, but got broker epoch {broker_epoch}"
        )
    return broker


def heartbeat(
    image: Image, broker_id: NodeId, broker_epoch: int, *, caught_up: bool, want_fence: bool, want_shut_down: bool
) -> Decision[BrokerState]:
    """Choose the records that a heartbeat calls for: unfencing once caught up, fencing by wish, and shutting down.

    A broker that shuts down keeps no leadership that another can take; it may go once it leads nothing.
    """
    broker = _registered(image, broker_id, broker_epoch)
    if want_shut_down:
        return _shut_down(image, broker)
    if want_fence and not broker.fenced:
        return Decision(_moved(image, broker, fenced=True), BrokerState(broker.epoch, fenced=True))
    if not want_fence and broker.fenced and caught_up:
        return Decision(_moved(image, broker, fenced=False), BrokerState(broker.epoch, fenced=False))
    return Decision((), BrokerState(broker.epoch, broker.fenced))


def _moved(image: Image, broker: Broker, *, fenced: bool) -> tuple[Record, ...]:
    change = BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, fenced=1 if fenced else -1)
    after = apply(image, change)
    active = after.brokers[broker.id].active
    return (change, *changes_for_broker(after, Availability(broker.id, active=active)))


def _shut_down(image: Image, broker: Broker) -> Decision[BrokerState]:
    records: tuple[Record, ...] = ()
    if not broker.in_controlled_shutdown and not broker.fenced:
        change = BrokerRegistrationChangeRecord(
            broker_id=broker.id, broker_epoch=broker.epoch, in_controlled_shutdown=1
        )
        image = apply(image, change)
        records = (change, *changes_for_broker(image, Availability(broker.id, active=False)))
        for record in records[1:]:
            image = apply(image, record)
    leads = any(
        partition.leader == broker.id for topic in image.topics.values() for partition in topic.partitions.values()
    )
    if leads:
        return Decision(records, BrokerState(broker.epoch, broker.fenced))
    if not broker.fenced:
        shutting_down = replace(broker, in_controlled_shutdown=True)
        records = (*records, *_moved(image, shutting_down, fenced=True))
    return Decision(records, BrokerState(broker.epoch, fenced=True, should_shut_down=True))


def fence_broker(image: Image, broker_id: NodeId) -> Decision[None]:
    """Choose the records that fence a broker whose session has ended; nothing where it is fenced or gone."""
    broker = image.brokers.get(broker_id)
    if broker is None or broker.fenced:
        return Decision((), None)
    return Decision(_moved(image, broker, fenced=True), None)


def unregister_broker(image: Image, broker_id: int) -> Decision[None]:
    """Choose the records that forget a broker; raises BROKER_ID_NOT_REGISTERED where there is none."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker ID {broker_id} is not currently registered")
    gone = changes_for_broker(image, Availability(broker.id, active=False))
    return Decision((*gone, UnregisterBrokerRecord(broker_id=broker.id, broker_epoch=broker.epoch)), None)
