"""What configuration a resource may have: its name, its keys, and what their values must be together."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ottla.base import ConfigError, ErrorCode, KafkaError
from ottla.config import (
    BROKER_KEYS,
    GROUP_KEYS,
    TOPIC_KEYS,
    BrokerConfig,
    ConfigKey,
    ConfigType,
    UpdateMode,
    validate_broker_configs,
    validate_topic_configs,
)
from ottla.java import PatternError, compile_java
from ottla.metadata.decide.names import validate_topic_name
from ottla.metadata.image import ConfigResource, Image, ResourceType

__all__ = ["CLIENT_METRICS_KEYS", "key_of", "validate_resource", "validate_values"]

CLIENT_METRICS_KEYS: Mapping[str, ConfigKey] = {
    key.name: key
    for key in (
        ConfigKey(
            *("interval.ms", ConfigType.INT, "300000", "[100,...,3600000]", "MEDIUM", UpdateMode.CLUSTER_WIDE),
            *(False, False, "How often clients push their metrics."),
        ),
        ConfigKey(
            *("match", ConfigType.LIST, "", None, "MEDIUM", UpdateMode.CLUSTER_WIDE),
            *(False, False, "Which clients: selector=regular expression, …"),
        ),
        ConfigKey(
            *("metrics", ConfigType.LIST, "", None, "MEDIUM", UpdateMode.CLUSTER_WIDE),
            *(False, False, "Prefixes of the metrics that clients push; `*` for all."),
        ),
    )
}
"""The keys of a client metrics subscription (KIP-714)."""

CLIENT_SELECTORS = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)

_KEYS: Mapping[int, Mapping[str, ConfigKey]] = {
    ResourceType.TOPIC: TOPIC_KEYS,
    ResourceType.BROKER: BROKER_KEYS,
    ResourceType.CLIENT_METRICS: CLIENT_METRICS_KEYS,
    ResourceType.GROUP: GROUP_KEYS,
}


def key_of(resource: ConfigResource, name: str) -> ConfigKey | None:
    """Return what is known of a key of this kind of resource."""
    return _KEYS[resource.type].get(name)


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


def validate_resource(image: Image, resource: ConfigResource) -> None:
    """Raise where configuration cannot hang on this resource: its kind, its name, or that there is none such."""
    name = resource.name
    match resource.type:
        case ResourceType.TOPIC:
            if not name:
                raise _invalid("Default topic resources are not allowed.")
            validate_topic_name(name)
            if name not in image.topics:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
        case ResourceType.BROKER:
            _validate_broker(image, name)
        case ResourceType.GROUP:
            if not name:
                raise _invalid("Default group resources are not allowed.")
        case ResourceType.CLIENT_METRICS:
            if not name:
                raise _invalid("Subscription name can't be empty")
        case _:
            raise _invalid(f"Unknown resource type {resource.type}")


def _validate_broker(image: Image, name: str) -> None:
    if not name:
        return
    if re.fullmatch(r"[+-]?[0-9]+", name, re.ASCII) is None:
        raise _invalid("Unable to parse broker name as a base 10 number.")
    if int(name) < 0:
        raise _invalid("Invalid negative broker ID.")
    if int(name) not in image.brokers:
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"No broker with id {name} found.")


def validate_values(
    resource: ConfigResource, values: Mapping[str, str], *, changed: Mapping[str, str], config: BrokerConfig
) -> None:
    """Raise where these values, of which some are `changed`, may not be a resource's configuration.

    The codes are Kafka's: INVALID_REQUEST for brokers, whose values it checks before it forwards them, INVALID_CONFIG else.
    """
    code = ErrorCode.INVALID_REQUEST if resource.type == ResourceType.BROKER else ErrorCode.INVALID_CONFIG
    try:
        match resource.type:
            case ResourceType.TOPIC:
                validate_topic_configs(values, config)
            case ResourceType.BROKER:
                validate_broker_configs(changed, per_broker=bool(resource.name))
            case ResourceType.GROUP:
                _validate_group(values, config)
            case _:
                _validate_subscription(values)
    except ConfigError as error:
        raise KafkaError(code, str(error)) from error


def _validate_group(values: Mapping[str, str], config: BrokerConfig) -> None:
    for name, text in values.items():
        key = GROUP_KEYS.get(name)
        if key is None:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Unknown group config name: {name}")
        value = key.parse(text)
        kind, _, rest = name.partition(".")
        low, high = f"group.{kind}.min.{rest}", f"group.{kind}.max.{rest}"
        if isinstance(value, int) and low in BROKER_KEYS and value < _broker_value(config, low):
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name} must be greater than or equal to {low}")
        if isinstance(value, int) and high in BROKER_KEYS and value > _broker_value(config, high):
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name} must be less than or equal to {high}")


def _broker_value(config: BrokerConfig, name: str) -> int:
    value = getattr(config.settings, name.replace(".", "_"))
    assert isinstance(value, int)
    return value


def _validate_subscription(values: Mapping[str, str]) -> None:
    for name, text in values.items():
        key = CLIENT_METRICS_KEYS.get(name)
        if key is None:
            raise _invalid(f"Unknown client metrics configuration: {name}")
        if name == "interval.ms":
            _validate_interval(text)
        key.parse(text)
    _validate_selectors(values.get("match", ""))


def _validate_interval(text: str) -> None:
    bounded = re.fullmatch(r"[0-9]{3,7}", text.strip(), re.ASCII) and 100 <= int(text) <= 3_600_000
    if not bounded:
        raise _invalid(f"Invalid value {text} for interval.ms, interval must be between 100 and 3600000 (1 hour)")


def _validate_selectors(text: str) -> None:
    for pair in filter(None, (each.strip() for each in text.split(","))):
        selector, equals, pattern = pair.partition("=")
        if not equals or selector not in CLIENT_SELECTORS:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Illegal client matching pattern: {pair}")
        try:
            compile_java(pattern)
        except PatternError as error:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Illegal client matching pattern: {pair}") from error
