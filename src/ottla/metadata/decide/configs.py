"""Altering configuration, by single operations (KIP-339) or as a whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum

from ottla.base import ErrorCode, KafkaError
from ottla.config import BrokerConfig, ConfigType
from ottla.metadata.apply import Record, apply
from ottla.metadata.decide.decision import Decision
from ottla.metadata.decide.elections import elect_unclean_leaders
from ottla.metadata.decide.partition_change import elr_enabled
from ottla.metadata.decide.resources import key_of, validate_resource, validate_values
from ottla.metadata.image import ConfigResource, Image, ResourceType
from ottla.metadata.policies import ConfigPolicy, ProposedConfig, held_against
from ottla.wire.messages.alter_configs import AlterConfigsRequest
from ottla.wire.messages.clear_elr_record import ClearElrRecord
from ottla.wire.messages.config_record import ConfigRecord
from ottla.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest

__all__ = ["AlteredConfig", "ConfigOperation", "alter_configs", "replace_configs"]

UNCLEAN = "unclean.leader.election.enable"
VALUE_BYTES_MAX = 32767
"""Kafka's bound on a stored value."""


class ConfigOperation(IntEnum):
    """What an incremental change does to one key."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class AlteredConfig:
    """What became of one resource's changes."""

    resource: ConfigResource
    error: KafkaError | None = None


Operations = list[tuple[str, int, str | None]]
"""Key, `ConfigOperation` and value, as requested."""


def alter_configs(
    image: Image,
    request: IncrementalAlterConfigsRequest,
    *,
    config: BrokerConfig,
    policy: ConfigPolicy | None = None,
) -> Decision[list[AlteredConfig]]:
    """Choose the records for these operations; each resource changes as a whole, or fails by itself."""
    asked: list[tuple[ConfigResource, Operations]] = []
    for each in request.resources:
        operations: Operations = []
        for entry in each.configs:
            operations.append((entry.name, entry.config_operation, entry.value))
        asked.append((ConfigResource(each.resource_type, each.resource_name), operations))
    return _decide(image, asked, config, whole=False, validate_only=request.validate_only, policy=policy)


def replace_configs(
    image: Image, request: AlterConfigsRequest, *, config: BrokerConfig, policy: ConfigPolicy | None = None
) -> Decision[list[AlteredConfig]]:
    """Choose the records that leave each resource with exactly these values; what is not named is removed."""
    asked: list[tuple[ConfigResource, Operations]] = [
        (
            ConfigResource(each.resource_type, each.resource_name),
            [(entry.name, ConfigOperation.SET, entry.value) for entry in each.configs],
        )
        for each in request.resources
    ]
    return _decide(image, asked, config, whole=True, validate_only=request.validate_only, policy=policy)


def _decide(
    image: Image,
    asked: Iterable[tuple[ConfigResource, Operations]],
    config: BrokerConfig,
    *,
    whole: bool,
    validate_only: bool,
    policy: ConfigPolicy | None,
) -> Decision[list[AlteredConfig]]:
    asked = list(asked)
    doubled = {resource for resource, count in Counter(resource for resource, _ in asked).items() if count > 1}
    records: list[Record] = []
    results: list[AlteredConfig] = []
    told: set[ConfigResource] = set()
    for resource, operations in asked:
        if resource in doubled:
            if resource not in told:
                told.add(resource)
                error = KafkaError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
                results.append(AlteredConfig(resource, error))
            continue
        try:
            changes = _resource_records(image, resource, operations, config, whole=whole)
            if policy is not None:
                held_against(policy, _proposed(resource, changes))
            records += changes
            results.append(AlteredConfig(resource))
        except KafkaError as error:
            results.append(AlteredConfig(resource, error))
    if validate_only:
        return Decision((), results)
    records += _elr_cleared(image, records)
    return Decision((*records, *_now_led(image, records, config)), results)


def _proposed(resource: ConfigResource, changes: Iterable[ConfigRecord]) -> ProposedConfig:
    values = {each.name: each.value for each in changes if each.value is not None}
    return ProposedConfig(ResourceType(resource.type).name, resource.name, values)


def _elr_cleared(image: Image, records: Iterable[Record]) -> Iterator[Record]:
    """Yield what forgets eligible replicas where another `min.insync.replicas` holds now: they met the old one (KIP-966)."""
    if not elr_enabled(image):
        return
    for record in records:
        if isinstance(record, ConfigRecord) and record.name == "min.insync.replicas":
            of_topic = record.resource_type == ResourceType.TOPIC
            yield ClearElrRecord(topic_name=record.resource_name if of_topic else "")


def _now_led(image: Image, records: Iterable[Record], config: BrokerConfig) -> Iterator[Record]:
    """Yield what gives a leader to partitions without one where that has just been allowed at the cost of records."""
    if any(isinstance(each, ConfigRecord) and each.name == UNCLEAN and each.value == "true" for each in records):
        for record in records:
            image = apply(image, record)
        yield from elect_unclean_leaders(image, config=config).records


def _resource_records(
    image: Image, resource: ConfigResource, operations: Operations, config: BrokerConfig, *, whole: bool
) -> list[ConfigRecord]:
    validate_resource(image, resource)
    _validate_operations(operations)
    old = dict(image.config(resource.type, resource.name))
    new = {} if whole else dict(old)
    for name, operation, value in operations:
        _operate(resource, new, name, ConfigOperation(operation), value)
    changed = {name: new.get(name) for name in sorted(old.keys() | new.keys()) if old.get(name) != new.get(name)}
    _validate_min_insync_replicas(image, resource, changed)
    given = {name: value for name, value in changed.items() if value is not None}
    validate_values(
        resource, new, changed=given | {name: new[name] for name, *_ in operations if name in new}, config=config
    )
    return [
        ConfigRecord(resource_type=resource.type, resource_name=resource.name, name=name, value=value)
        for name, value in changed.items()
    ]


def _validate_operations(operations: Operations) -> None:
    unknown = [code for _, code, _ in operations if code not in list(ConfigOperation)]
    if unknown:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown configuration operation {unknown[0]}")
    names = Counter(name for name, _, _ in operations)
    doubled = sorted(name for name, count in names.items() if count > 1)
    if doubled:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    without = [name for name, operation, value in operations if value is None and operation != ConfigOperation.DELETE]
    if without:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {','.join(without)}")


def _operate(
    resource: ConfigResource, values: dict[str, str], name: str, operation: ConfigOperation, value: str | None
) -> None:
    if operation is ConfigOperation.DELETE:
        values.pop(name, None)
        return
    assert value is not None, "checked before"
    if operation is not ConfigOperation.SET:
        value = _changed_list(resource, values.get(name), name, operation, value)
    if len(value.encode()) > VALUE_BYTES_MAX:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            "The configuration value cannot be added because it exceeds the maximum value size of "
            f"{VALUE_BYTES_MAX} bytes.",
        )
    values[name] = value


def _changed_list(resource: ConfigResource, old: str | None, name: str, operation: ConfigOperation, value: str) -> str:
    key = key_of(resource, name)
    if key is None or key.type is not ConfigType.LIST:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"Can't {operation.name} to key {name} because its type is not LIST."
        )
    parts = _parts(old if old is not None else key.default or "")
    given = _parts(value)
    if operation is ConfigOperation.APPEND:
        return ",".join([*parts, *(each for each in dict.fromkeys(given) if each not in parts)])
    return ",".join(each for each in parts if each not in given)


def _parts(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]


def _validate_min_insync_replicas(image: Image, resource: ConfigResource, changed: Mapping[str, str | None]) -> None:
    """Eligible leader replicas (KIP-966) hold only under one cluster-wide value."""
    if not elr_enabled(image) or resource.type != ResourceType.BROKER or "min.insync.replicas" not in changed:
        return
    if resource.name:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, "Broker-level min.insync.replicas cannot be altered while ELR is enabled."
        )
    if changed["min.insync.replicas"] is None:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, "Cluster-level min.insync.replicas cannot be removed while ELR is enabled."
        )
