"""Brokers' lives: registration, heartbeats, fencing, shutting down (KIP-631)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ottla.base import ErrorCode, KafkaError, NodeId, Uuid, uuid_text
from ottla.config import BrokerConfig
from ottla.metadata.apply import Record, apply
from ottla.metadata.decide.decision import Decision
from ottla.metadata.decide.directories import DIRECTORIES_FROM, changes_of_directories
from ottla.metadata.decide.partition_change import Availability, changes_for_broker
from ottla.metadata.features import METADATA_VERSION, SUPPORTED_FEATURES
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
    features: Mapping[str, tuple[int, int]] = field(default_factory=lambda: SUPPORTED_FEATURES)
    """The lowest and highest level that it understands of every feature."""


@dataclass(frozen=True, slots=True)
class BrokerState:
    """What a heartbeat answers."""

    epoch: int
    fenced: bool
    should_shut_down: bool = False


CONTROLLERS_FROM = 15
"""From `metadata.version` 3.7-IV0 on controllers register (KIP-919)."""
RESERVED_DIRECTORY_IDS = 100
"""So many directory ids mean something else than a directory."""


def register_broker(
    image: Image, registration: Registration, *, supersede: bool, config: BrokerConfig | None = None
) -> Decision[int]:
    """Choose the records that register a broker, fenced, and return its epoch: the offset of the first of them.

    An older incarnation is replaced where it is fenced or shutting down, or where the caller knows that it is dead
    (`supersede`); else DUPLICATE_BROKER_REGISTRATION. Its leaderships end here; what it is in sync with ends too, unless
    it shut down cleanly. Raises UNSUPPORTED_VERSION from a broker that does not understand what the cluster has finalized.
    """
    old = image.brokers.get(registration.broker_id)
    if old is not None and old.incarnation_id == registration.incarnation_id:
        return Decision((), old.epoch)
    if old is not None and not old.fenced and not old.in_controlled_shutdown and not supersede:
        raise KafkaError(
            ErrorCode.DUPLICATE_BROKER_REGISTRATION,
            "Another broker is registered with that broker id. If the broker was recently restarted this should "
            "self-resolve once the heartbeat manager expires the broker's session.",
        )
    _check_directories(image, registration)
    if METADATA_VERSION not in registration.features:
        text = "Request features do not contain 'metadata.version'"
        raise KafkaError(ErrorCode.INVALID_REGISTRATION, text)
    _check_features(image, registration.features, "broker")
    epoch = image.offset + 1
    records: list[Record] = []
    if old is not None:
        lost = registration.previous_epoch != old.epoch
        records += changes_for_broker(image, Availability(registration.broker_id, active=False, lost_data=lost), config)
    records.append(_register_record(registration, epoch))
    return Decision(tuple(records), epoch)


def _check_directories(image: Image, registration: Registration) -> None:
    """Raise INVALID_REGISTRATION where the log directories cannot be this broker's alone."""
    if image.metadata_version < DIRECTORIES_FROM:
        return
    ids = registration.log_dirs
    if not ids:
        raise KafkaError(ErrorCode.INVALID_REGISTRATION, "No directories specified in request")
    if any(int.from_bytes(each, "big") < RESERVED_DIRECTORY_IDS for each in ids):
        raise KafkaError(ErrorCode.INVALID_REGISTRATION, "Reserved directory ID in request")
    if len(set(ids)) < len(ids):
        raise KafkaError(ErrorCode.INVALID_REGISTRATION, "Duplicate directory ID in request")
    for _, other in sorted(image.brokers.items()):
        if other.id != registration.broker_id:
            for each in ids:
                if each in other.log_dirs:
                    text = (
                        f"Broker {registration.broker_id} directory {uuid_text(each)} is already registered to "
                        f"broker {other.id}"
                    )
                    raise KafkaError(ErrorCode.INVALID_REGISTRATION, text)


def _check_features(image: Image, features: Mapping[str, tuple[int, int]], kind: str) -> None:
    """Raise UNSUPPORTED_VERSION where a node does not understand a level that the cluster has finalized."""
    for name, level in sorted(image.features.items()):
        lowest, highest = features.get(name, (0, 0))
        if level and not lowest <= level <= highest:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"Unable to register because the {kind} does not support finalized version {level} of {name}. The {kind} "
                f"wants a version between {lowest} and {highest}, inclusive.",
            )


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
            for name, (low, high) in sorted(registration.features.items())
        ],
        rack=registration.rack,
        fenced=True,
        log_dirs=list(registration.log_dirs),
    )


def register_controller(
    image: Image,
    node_id: NodeId,
    incarnation_id: Uuid,
    endpoints: tuple[Endpoint, ...],
    features: Mapping[str, tuple[int, int]] = SUPPORTED_FEATURES,
) -> Decision[None]:
    """Choose the record that registers a controller (KIP-919); none where it stands so already."""
    old: Controller | None = image.controllers.get(node_id)
    if old is not None and old.incarnation_id == incarnation_id and old.endpoints == endpoints:
        return Decision((), None)
    if image.metadata_version < CONTROLLERS_FROM:
        text = "The current MetadataVersion is too old to support controller registrations."
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, text)
    _check_features(image, features, "controller")
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
            for name, (low, high) in sorted(features.items())
        ],
    )
    return Decision((record,), None)


def _registered(image: Image, broker_id: int, broker_epoch: int) -> Broker:
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise KafkaError(ErrorCode.STALE_BROKER_EPOCH, f"No broker registration found for broker id {broker_id}")
    if broker.epoch != broker_epoch:
        raise KafkaError(
            ErrorCode.STALE_BROKER_EPOCH, f"Expected broker epoch {broker.epoch}, but got broker epoch {broker_epoch}"
        )
    return broker


def heartbeat(
    image: Image,
    broker_id: NodeId,
    broker_epoch: int,
    *,
    caught_up: bool,
    want_fence: bool,
    want_shut_down: bool,
    offline_log_dirs: tuple[Uuid, ...] = (),
    cordoned_log_dirs: tuple[Uuid, ...] | None = None,
    others_follow: bool = True,
    config: BrokerConfig | None = None,
) -> Decision[BrokerState]:
    """Choose the records that a heartbeat calls for: unfencing once caught up, fencing by wish, and shutting down.

    A broker that shuts down keeps no leadership that another can take; it may go once it leads nothing, and once every
    other broker knows who leads instead (`others_follow`). What lies in a directory that has gone offline is led, and in
    sync, elsewhere.
    """
    broker = _registered(image, broker_id, broker_epoch)
    directories = changes_of_directories(image, broker, offline_log_dirs, cordoned_log_dirs, config)
    for record in directories:
        image = apply(image, record)
    broker = image.brokers[broker_id]
    decided = _next_state(
        image,
        broker,
        caught_up=caught_up,
        want_fence=want_fence,
        want_shut_down=want_shut_down,
        others_follow=others_follow,
        config=config,
    )
    return Decision((*directories, *decided.records), decided.response) if directories else decided


def _next_state(
    image: Image,
    broker: Broker,
    *,
    caught_up: bool,
    want_fence: bool,
    want_shut_down: bool,
    others_follow: bool,
    config: BrokerConfig | None,
) -> Decision[BrokerState]:
    if want_shut_down or (broker.in_controlled_shutdown and not broker.fenced):
        return _shut_down(image, broker, config, others_follow=others_follow)
    if want_fence and not broker.fenced:
        return Decision(_moved(image, broker, config, fenced=True), BrokerState(broker.epoch, fenced=True))
    if not want_fence and broker.fenced and caught_up:
        return Decision(_moved(image, broker, config, fenced=False), BrokerState(broker.epoch, fenced=False))
    return Decision((), BrokerState(broker.epoch, broker.fenced))


def _moved(image: Image, broker: Broker, config: BrokerConfig | None, *, fenced: bool) -> tuple[Record, ...]:
    change = BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, fenced=1 if fenced else -1)
    after = apply(image, change)
    active = after.brokers[broker.id].active
    return (change, *changes_for_broker(after, Availability(broker.id, active=active), config))


def _shut_down(
    image: Image, broker: Broker, config: BrokerConfig | None, *, others_follow: bool
) -> Decision[BrokerState]:
    """Move leaderships away at the first heartbeat, and let the broker go at one after that others know of it."""
    if broker.fenced:
        return Decision((), BrokerState(broker.epoch, fenced=True, should_shut_down=True))
    leads = _leads(image, broker.id)
    if not broker.in_controlled_shutdown and not leads:
        return Decision(
            _moved(image, broker, config, fenced=True), BrokerState(broker.epoch, fenced=True, should_shut_down=True)
        )
    records: tuple[Record, ...] = ()
    waits = leads or not others_follow
    if not broker.in_controlled_shutdown:
        change = BrokerRegistrationChangeRecord(
            broker_id=broker.id, broker_epoch=broker.epoch, in_controlled_shutdown=1
        )
        image = apply(image, change)
        records = (change, *changes_for_broker(image, Availability(broker.id, active=False), config))
        for record in records[1:]:
            image = apply(image, record)
        others = any(each.active for each in image.brokers.values() if each.id != broker.id)
        waits = others or _leads(image, broker.id)
    if waits:
        return Decision(records, BrokerState(broker.epoch, fenced=False))
    shutting_down = replace(broker, in_controlled_shutdown=True)
    records = (*records, *_moved(image, shutting_down, config, fenced=True))
    return Decision(records, BrokerState(broker.epoch, fenced=True, should_shut_down=True))


def _leads(image: Image, broker_id: int) -> bool:
    return any(
        partition.leader == broker_id for topic in image.topics.values() for partition in topic.partitions.values()
    )


def fence_broker(
    image: Image, broker_id: NodeId, broker_epoch: int | None = None, *, config: BrokerConfig | None = None
) -> Decision[None]:
    """Choose the records that fence a broker whose session has ended; nothing where it is fenced, gone, or a new one."""
    broker = image.brokers.get(broker_id)
    if broker is None or broker.fenced or broker_epoch not in (None, broker.epoch):
        return Decision((), None)
    return Decision(_moved(image, broker, config, fenced=True), None)


def unregister_broker(image: Image, broker_id: int, *, config: BrokerConfig | None = None) -> Decision[None]:
    """Choose the records that forget a broker; raises BROKER_ID_NOT_REGISTERED where there is none."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker ID {broker_id} is not currently registered")
    gone = changes_for_broker(image, Availability(broker.id, active=False), config)
    return Decision((*gone, UnregisterBrokerRecord(broker_id=broker.id, broker_epoch=broker.epoch)), None)
