"""The fold: the only place where metadata changes, on the node that decided and on the one that replays alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from immutables import Map

from ottla.base import CorruptionError, LeaderEpoch, NodeId, Offset, ProducerId, Uuid
from ottla.metadata.acls import Acl
from ottla.metadata.image import (
    Broker,
    ConfigResource,
    Controller,
    DelegationToken,
    Endpoint,
    Image,
    QuotaEntity,
    ResourceType,
    Topic,
)
from ottla.metadata.partitions import PartitionRun, known_topic, uuids
from ottla.security import ScramCredential
from ottla.wire.messages.abort_transaction_record import AbortTransactionRecord
from ottla.wire.messages.access_control_entry_record import AccessControlEntryRecord
from ottla.wire.messages.begin_transaction_record import BeginTransactionRecord
from ottla.wire.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from ottla.wire.messages.clear_elr_record import ClearElrRecord
from ottla.wire.messages.client_quota_record import ClientQuotaRecord
from ottla.wire.messages.config_record import ConfigRecord
from ottla.wire.messages.delegation_token_record import DelegationTokenRecord
from ottla.wire.messages.end_transaction_record import EndTransactionRecord
from ottla.wire.messages.feature_level_record import FeatureLevelRecord
from ottla.wire.messages.fence_broker_record import FenceBrokerRecord
from ottla.wire.messages.no_op_record import NoOpRecord
from ottla.wire.messages.partition_change_record import PartitionChangeRecord
from ottla.wire.messages.partition_record import PartitionRecord
from ottla.wire.messages.producer_ids_record import ProducerIdsRecord
from ottla.wire.messages.register_broker_record import RegisterBrokerRecord
from ottla.wire.messages.register_controller_record import RegisterControllerRecord
from ottla.wire.messages.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from ottla.wire.messages.remove_delegation_token_record import RemoveDelegationTokenRecord
from ottla.wire.messages.remove_topic_record import RemoveTopicRecord
from ottla.wire.messages.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
from ottla.wire.messages.topic_record import TopicRecord
from ottla.wire.messages.unfence_broker_record import UnfenceBrokerRecord
from ottla.wire.messages.unregister_broker_record import UnregisterBrokerRecord
from ottla.wire.messages.user_scram_credential_record import UserScramCredentialRecord
from ottla.wire.messages.zk_migration_state_record import ZkMigrationStateRecord

__all__ = ["Record", "apply", "apply_all"]

Record = Any
"""One of KRaft's metadata records, as `ottla.wire.messages` defines them."""

FENCE, UNFENCE = 1, -1
"""A BrokerRegistrationChangeRecord's words for its boolean fields; 0 says nothing."""


def apply(image: Image, record: Record) -> Image:
    """Return the image after this record; raises CorruptionError for a record that cannot follow what came before."""
    rule = _RULES.get(type(record))
    if rule is None:
        raise CorruptionError(f"metadata record {type(record).__name__} is not known")
    return rule(image, record)


def apply_all(image: Image, records: Iterable[Record], offset: Offset, epoch: LeaderEpoch) -> Image:
    """Return the image after consecutive records of which the first has this offset."""
    run: PartitionRun | None = None
    for record in records:
        if isinstance(record, PartitionRecord | PartitionChangeRecord):
            if run is None:
                run = PartitionRun(image)
            run.take(record)
        else:
            if run is not None:
                image, run = run.finish(), None
            image = apply(image, record)
        offset = Offset(offset + 1)
    if run is not None:
        image = run.finish()
    return replace(image, offset=Offset(offset - 1), epoch=epoch)


def _known_broker(image: Image, broker_id: int, broker_epoch: int, record: Record) -> Broker:
    broker = image.brokers.get(broker_id)
    if broker is None or broker.epoch != broker_epoch:
        raise CorruptionError(
            f"{type(record).__name__} names broker {broker_id} of epoch {broker_epoch}, not registered"
        )
    return broker


def _with_topic(image: Image, topic: Topic) -> Image:
    return replace(image, topics=image.topics.set(topic.name, topic))


def _topic(image: Image, record: TopicRecord) -> Image:
    topic_id = Uuid(bytes(record.topic_id))
    if topic_id in image.topic_names or record.name in image.topics:
        raise CorruptionError(f"TopicRecord creates {record.name}, which exists")
    return replace(
        image,
        topics=image.topics.set(record.name, Topic(record.name, topic_id)),
        topic_names=image.topic_names.set(topic_id, record.name),
    )


def _remove_topic(image: Image, record: RemoveTopicRecord) -> Image:
    topic = known_topic(image, record.topic_id, record)
    return replace(
        image,
        topics=image.topics.delete(topic.name),
        topic_names=image.topic_names.delete(topic.id),
        configs=_without(image.configs, ConfigResource(ResourceType.TOPIC, topic.name)),
    )


def _partition(image: Image, record: PartitionRecord | PartitionChangeRecord) -> Image:
    run = PartitionRun(image)
    run.take(record)
    return run.finish()


def _clear_elr(image: Image, record: ClearElrRecord) -> Image:
    names = [record.topic_name] if record.topic_name else sorted(image.topics)
    for name in names:
        topic = image.topics.get(name)
        if topic is None:
            raise CorruptionError(f"ClearElrRecord names topic {name}, which does not exist")
        for index, old in topic.in_order():
            if old.eligible_leader_replicas or old.last_known_elr:
                new = replace(old, eligible_leader_replicas=(), last_known_elr=())
                topic = replace(topic, partitions=topic.partitions.set(index, new))
        image = _with_topic(image, topic)
    return image


def _endpoints(record: RegisterBrokerRecord | RegisterControllerRecord) -> tuple[Endpoint, ...]:
    return tuple(Endpoint(each.name, each.host, each.port, each.security_protocol) for each in record.end_points)


def _features(record: RegisterBrokerRecord | RegisterControllerRecord) -> Map[str, tuple[int, int]]:
    return Map({each.name: (each.min_supported_version, each.max_supported_version) for each in record.features})


def _register_broker(image: Image, record: RegisterBrokerRecord) -> Image:
    broker = Broker(
        id=NodeId(record.broker_id),
        epoch=record.broker_epoch,
        incarnation_id=Uuid(bytes(record.incarnation_id)),
        endpoints=_endpoints(record),
        features=_features(record),
        rack=record.rack,
        fenced=record.fenced,
        in_controlled_shutdown=record.in_controlled_shutdown,
        log_dirs=uuids(record.log_dirs),
        cordoned_log_dirs=uuids(record.cordoned_log_dirs),
        is_migrating_zk_broker=record.is_migrating_zk_broker,
    )
    return replace(image, brokers=image.brokers.set(broker.id, broker))


def _unregister_broker(image: Image, record: UnregisterBrokerRecord) -> Image:
    broker = _known_broker(image, record.broker_id, record.broker_epoch, record)
    return replace(image, brokers=image.brokers.delete(broker.id))


def _broker_change(image: Image, record: BrokerRegistrationChangeRecord) -> Image:
    broker = _known_broker(image, record.broker_id, record.broker_epoch, record)
    changes: dict[str, Any] = {}
    if record.fenced:
        changes["fenced"] = record.fenced == FENCE
    if record.in_controlled_shutdown:
        changes["in_controlled_shutdown"] = record.in_controlled_shutdown == 1
    if record.log_dirs:
        changes["log_dirs"] = uuids(record.log_dirs)
    if record.cordoned_log_dirs is not None:
        changes["cordoned_log_dirs"] = uuids(record.cordoned_log_dirs)
    return replace(image, brokers=image.brokers.set(broker.id, replace(broker, **changes)))


def _fence_broker(image: Image, record: FenceBrokerRecord) -> Image:
    broker = _known_broker(image, record.id, record.epoch, record)
    return replace(image, brokers=image.brokers.set(broker.id, replace(broker, fenced=True)))


def _unfence_broker(image: Image, record: UnfenceBrokerRecord) -> Image:
    broker = _known_broker(image, record.id, record.epoch, record)
    return replace(image, brokers=image.brokers.set(broker.id, replace(broker, fenced=False)))


def _register_controller(image: Image, record: RegisterControllerRecord) -> Image:
    controller = Controller(
        id=NodeId(record.controller_id),
        incarnation_id=Uuid(bytes(record.incarnation_id)),
        endpoints=_endpoints(record),
        features=_features(record),
        zk_migration_ready=record.zk_migration_ready,
    )
    return replace(image, controllers=image.controllers.set(controller.id, controller))


def _config(image: Image, record: ConfigRecord) -> Image:
    resource = ConfigResource(record.resource_type, record.resource_name)
    values: Map[str, str] = image.configs.get(resource, Map())
    values = _without(values, record.name) if record.value is None else values.set(record.name, record.value)
    configs = image.configs.set(resource, values) if values else _without(image.configs, resource)
    return replace(image, configs=configs)


def _feature_level(image: Image, record: FeatureLevelRecord) -> Image:
    level = record.feature_level
    features = image.features.set(record.name, level) if level else _without(image.features, record.name)
    return replace(image, features=features)


def _producer_ids(image: Image, record: ProducerIdsRecord) -> Image:
    return replace(image, next_producer_id=ProducerId(record.next_producer_id))


def _quota_entity(record: ClientQuotaRecord) -> QuotaEntity:
    return tuple(sorted(((each.entity_type, each.entity_name) for each in record.entity), key=lambda pair: pair[0]))


def _client_quota(image: Image, record: ClientQuotaRecord) -> Image:
    entity = _quota_entity(record)
    values: Map[str, float] = image.client_quotas.get(entity, Map())
    values = _without(values, record.key) if record.remove else values.set(record.key, record.value)
    quotas = image.client_quotas.set(entity, values) if values else _without(image.client_quotas, entity)
    return replace(image, client_quotas=quotas)


def _acl(image: Image, record: AccessControlEntryRecord) -> Image:
    acl = Acl(
        resource_type=record.resource_type,
        resource_name=record.resource_name,
        pattern_type=record.pattern_type,
        principal=record.principal,
        host=record.host,
        operation=record.operation,
        permission_type=record.permission_type,
    )
    return replace(image, acls=image.acls.with_acl(Uuid(bytes(record.id)), acl))


def _remove_acl(image: Image, record: RemoveAccessControlEntryRecord) -> Image:
    acl_id = Uuid(bytes(record.id))
    if acl_id not in image.acls:
        raise CorruptionError(f"RemoveAccessControlEntryRecord names {acl_id.hex()}, which does not exist")
    return replace(image, acls=image.acls.without(acl_id))


def _scram(image: Image, record: UserScramCredentialRecord) -> Image:
    credential = ScramCredential(
        bytes(record.salt), bytes(record.stored_key), bytes(record.server_key), record.iterations
    )
    key = (record.name, record.mechanism)
    return replace(image, scram_credentials=image.scram_credentials.set(key, credential))


def _remove_scram(image: Image, record: RemoveUserScramCredentialRecord) -> Image:
    key = (record.name, record.mechanism)
    return replace(image, scram_credentials=_without(image.scram_credentials, key))


def _delegation_token(image: Image, record: DelegationTokenRecord) -> Image:
    token = DelegationToken(
        owner=record.owner,
        requester=record.requester,
        renewers=tuple(record.renewers),
        issue_timestamp=record.issue_timestamp,
        max_timestamp=record.max_timestamp,
        expiration_timestamp=record.expiration_timestamp,
    )
    return replace(image, delegation_tokens=image.delegation_tokens.set(record.token_id, token))


def _remove_delegation_token(image: Image, record: RemoveDelegationTokenRecord) -> Image:
    return replace(image, delegation_tokens=_without(image.delegation_tokens, record.token_id))


def _begin_transaction(image: Image, record: BeginTransactionRecord) -> Image:
    if image.rollback is not None:
        raise CorruptionError("BeginTransactionRecord inside a metadata transaction")
    return replace(image, rollback=image)


def _end_transaction(image: Image, record: EndTransactionRecord) -> Image:
    if image.rollback is None:
        raise CorruptionError("EndTransactionRecord outside a metadata transaction")
    return replace(image, rollback=None)


def _abort_transaction(image: Image, record: AbortTransactionRecord) -> Image:
    if image.rollback is None:
        raise CorruptionError("AbortTransactionRecord outside a metadata transaction")
    return image.rollback


def _nothing(image: Image, record: Record) -> Image:
    return image


def _without(entries: Map[Any, Any], key: object) -> Map[Any, Any]:
    return entries.delete(key) if key in entries else entries


_RULES: Mapping[type, Callable[[Image, Any], Image]] = {
    AbortTransactionRecord: _abort_transaction,
    AccessControlEntryRecord: _acl,
    BeginTransactionRecord: _begin_transaction,
    BrokerRegistrationChangeRecord: _broker_change,
    ClearElrRecord: _clear_elr,
    ClientQuotaRecord: _client_quota,
    ConfigRecord: _config,
    DelegationTokenRecord: _delegation_token,
    EndTransactionRecord: _end_transaction,
    FeatureLevelRecord: _feature_level,
    FenceBrokerRecord: _fence_broker,
    NoOpRecord: _nothing,
    PartitionChangeRecord: _partition,
    PartitionRecord: _partition,
    ProducerIdsRecord: _producer_ids,
    RegisterBrokerRecord: _register_broker,
    RegisterControllerRecord: _register_controller,
    RemoveAccessControlEntryRecord: _remove_acl,
    RemoveDelegationTokenRecord: _remove_delegation_token,
    RemoveTopicRecord: _remove_topic,
    RemoveUserScramCredentialRecord: _remove_scram,
    TopicRecord: _topic,
    UnfenceBrokerRecord: _unfence_broker,
    UnregisterBrokerRecord: _unregister_broker,
    UserScramCredentialRecord: _scram,
    ZkMigrationStateRecord: _nothing,
}
