"""An image as records again: what a snapshot holds, in an order that is always the same, and each record's version."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.metadata.apply import Record
from ottla.metadata.features import METADATA_VERSION
from ottla.metadata.image import Broker, ConfigResource, Controller, Image, Partition, Topic
from ottla.wire.messages.access_control_entry_record import AccessControlEntryRecord
from ottla.wire.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from ottla.wire.messages.client_quota_record import ClientQuotaRecord, EntityData
from ottla.wire.messages.config_record import ConfigRecord
from ottla.wire.messages.delegation_token_record import DelegationTokenRecord
from ottla.wire.messages.feature_level_record import FeatureLevelRecord
from ottla.wire.messages.partition_change_record import PartitionChangeRecord
from ottla.wire.messages.partition_record import PartitionRecord
from ottla.wire.messages.producer_ids_record import ProducerIdsRecord
from ottla.wire.messages.register_broker_record import BrokerEndpoint, BrokerFeature, RegisterBrokerRecord
from ottla.wire.messages.register_controller_record import (
    ControllerEndpoint,
    ControllerFeature,
    RegisterControllerRecord,
)
from ottla.wire.messages.topic_record import TopicRecord
from ottla.wire.messages.user_scram_credential_record import UserScramCredentialRecord

__all__ = ["lowered", "partition_record", "record_version", "snapshot_records"]

_IN_CONTROLLED_SHUTDOWN = 7  # 3.3-IV3
_ZK_MIGRATION = 8  # 3.4-IV0
_DIRECTORIES = 17  # 3.7-IV2, KIP-858
_ELR = 23  # 4.0-IV1, KIP-966
_CORDONED_LOG_DIRS = 30  # 4.3-IV0, KIP-1066


def record_version(record: Record, metadata_version: int) -> int:
    """Return the version in which this record is written while the cluster is at this `metadata.version`."""
    match record:
        case RegisterBrokerRecord():
            levels = (_IN_CONTROLLED_SHUTDOWN, _ZK_MIGRATION, _DIRECTORIES, _CORDONED_LOG_DIRS)
            return sum(metadata_version >= level for level in levels)
        case PartitionRecord() | PartitionChangeRecord():
            return sum(metadata_version >= level for level in (_DIRECTORIES, _ELR))
        case BrokerRegistrationChangeRecord():
            if record.cordoned_log_dirs is not None and metadata_version >= _CORDONED_LOG_DIRS:
                return 3
            if record.log_dirs:
                return 2
            return 1 if record.in_controlled_shutdown else 0
        case _:
            return 0


def lowered(record: Record, metadata_version: int) -> tuple[Record, int]:
    """Return the record as this `metadata.version` can hold it, without what came later, and the version to write it in."""
    version = record_version(record, metadata_version)
    match record:
        case PartitionRecord() if version < 1:
            record = record.replace(directories=())
        case PartitionChangeRecord() if version < 1:
            record = record.replace(directories=None)
        case RegisterBrokerRecord() if version < 4:
            log_dirs = record.log_dirs if version == 3 else ()
            shutting_down = record.in_controlled_shutdown and version >= 1
            record = record.replace(log_dirs=log_dirs, cordoned_log_dirs=None, in_controlled_shutdown=shutting_down)
        case _:
            pass
    return record, version


def snapshot_records(image: Image) -> Iterator[Record]:
    """Yield the records that rebuild this image from the empty one, in an order that is the same in every process."""
    assert not image.in_transaction, "a snapshot holds committed state only"
    yield from _feature_records(image)
    for _, broker in sorted(image.brokers.items()):
        yield _broker_record(broker)
    for _, controller in sorted(image.controllers.items()):
        yield _controller_record(controller)
    for _, topic in sorted(image.topics.items()):
        yield from _topic_records(topic)
    yield from _config_records(image)
    yield from _quota_records(image)
    if image.next_producer_id:
        yield ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=image.next_producer_id)
    yield from _security_records(image)


def _feature_records(image: Image) -> Iterator[FeatureLevelRecord]:
    names = sorted(image.features, key=lambda name: (name != METADATA_VERSION, name))
    for name in names:  # metadata.version leads, since it says how the rest is to be read
        yield FeatureLevelRecord(name=name, feature_level=image.features[name])


def _broker_record(broker: Broker) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker.id,
        is_migrating_zk_broker=broker.is_migrating_zk_broker,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=[
            BrokerEndpoint(name=each.name, host=each.host, port=each.port, security_protocol=each.security_protocol)
            for each in broker.endpoints
        ],
        features=[
            BrokerFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in sorted(broker.features.items())
        ],
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=list(broker.log_dirs),
        cordoned_log_dirs=list(broker.cordoned_log_dirs),
    )


def _controller_record(controller: Controller) -> RegisterControllerRecord:
    return RegisterControllerRecord(
        controller_id=controller.id,
        incarnation_id=controller.incarnation_id,
        zk_migration_ready=controller.zk_migration_ready,
        end_points=[
            ControllerEndpoint(name=each.name, host=each.host, port=each.port, security_protocol=each.security_protocol)
            for each in controller.endpoints
        ],
        features=[
            ControllerFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in sorted(controller.features.items())
        ],
    )


def _topic_records(topic: Topic) -> Iterator[Record]:
    yield TopicRecord(name=topic.name, topic_id=topic.id)
    for index, partition in topic.in_order():
        yield partition_record(topic.id, index, partition)


def partition_record(topic_id: bytes, index: int, partition: Partition) -> PartitionRecord:
    """Return the record that creates a partition in exactly this state."""
    return PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=list(partition.replicas),
        isr=list(partition.isr),
        removing_replicas=list(partition.removing_replicas),
        adding_replicas=list(partition.adding_replicas),
        leader=partition.leader,
        leader_recovery_state=partition.leader_recovery_state,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=list(partition.directories),
        eligible_leader_replicas=list(partition.eligible_leader_replicas) or None,
        last_known_elr=list(partition.last_known_elr) or None,
    )


def _config_records(image: Image) -> Iterator[ConfigRecord]:
    resources: list[ConfigResource] = sorted(image.configs)
    for resource in resources:
        for name, value in sorted(image.configs[resource].items()):
            yield ConfigRecord(resource_type=resource.type, resource_name=resource.name, name=name, value=value)


def _quota_records(image: Image) -> Iterator[ClientQuotaRecord]:
    for entity, values in sorted(image.client_quotas.items(), key=lambda item: [(k, v or "") for k, v in item[0]]):
        parts = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
        for key, value in sorted(values.items()):
            yield ClientQuotaRecord(entity=parts, key=key, value=value, remove=False)


def _security_records(image: Image) -> Iterator[Record]:
    for acl_id, acl in sorted(image.acls.items()):
        yield AccessControlEntryRecord(
            id=acl_id,
            resource_type=acl.resource_type,
            resource_name=acl.resource_name,
            pattern_type=acl.pattern_type,
            principal=acl.principal,
            host=acl.host,
            operation=acl.operation,
            permission_type=acl.permission_type,
        )
    for (name, mechanism), credential in sorted(image.scram_credentials.items()):
        yield UserScramCredentialRecord(
            name=name,
            mechanism=mechanism,
            salt=credential.salt,
            stored_key=credential.stored_key,
            server_key=credential.server_key,
            iterations=credential.iterations,
        )
    for token_id, token in sorted(image.delegation_tokens.items()):
        yield DelegationTokenRecord(
            owner=token.owner,
            requester=token.requester,
            renewers=list(token.renewers),
            issue_timestamp=token.issue_timestamp,
            max_timestamp=token.max_timestamp,
            expiration_timestamp=token.expiration_timestamp,
            token_id=token_id,
        )
