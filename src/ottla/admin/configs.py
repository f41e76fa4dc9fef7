"""Configurations of topics, brokers, loggers, groups and client metrics: described, and changed by a plan."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.admin.errors import AdminError, raise_code
from ottla.base import ErrorCode, KafkaError, NodeId

if TYPE_CHECKING:
    from ottla.client import BlockingClient

__all__ = [
    "ConfigChange",
    "ConfigEntity",
    "ConfigSynonym",
    "DescribedConfig",
    "alter_config",
    "broker_ids",
    "config_names",
    "describe_config",
    "describe_configs",
    "plan_config_change",
]

RESOURCE_TYPES = {"topics": 2, "brokers": 4, "broker-loggers": 8, "client-metrics": 16, "groups": 32}
DYNAMIC_SOURCES = {"topics": 1, "brokers": 2, "broker-loggers": 6, "client-metrics": 7, "groups": 8}
"""Which source of a value means that it was set for this entity (`ConfigSource` in DescribeConfigs)."""
DYNAMIC_DEFAULT_BROKER = 3
SOURCES = (
    *("UNKNOWN", "DYNAMIC_TOPIC_CONFIG", "DYNAMIC_BROKER_CONFIG", "DYNAMIC_DEFAULT_BROKER_CONFIG"),
    *("STATIC_BROKER_CONFIG", "DEFAULT_CONFIG", "DYNAMIC_BROKER_LOGGER_CONFIG", "DYNAMIC_CLIENT_METRICS_CONFIG"),
    "DYNAMIC_GROUP_CONFIG",
)
SET, DELETE = 0, 1


@dataclass(frozen=True, order=True)
class ConfigEntity:
    """What has configuration or quotas: a type as Kafka's tools write it (`topics`, `brokers`, …), and a name.

    The name "" is the type's default entity; None stands for all of the type, where that may be asked for.
    """

    type: str
    name: str | None

    @property
    def singular(self) -> str:
        """The type as Kafka's texts say it of one."""
        return self.type.removesuffix("s")


class ConfigSynonym(NamedTuple):
    """One place where a value, or one that it falls back to, is set; `source` is Kafka's word, as `DEFAULT_CONFIG`."""

    name: str
    value: str | None
    source: str


@dataclass(frozen=True)
class DescribedConfig:
    """One value of an entity; None for what is not set and for secrets. The strongest of the synonyms stands first."""

    name: str
    value: str | None
    source: str
    read_only: bool
    sensitive: bool
    synonyms: tuple[ConfigSynonym, ...]

    @property
    def is_default(self) -> bool:
        """True where nobody has set it, not in a file either."""
        return self.source == "DEFAULT_CONFIG"

    def is_set_for(self, entity: ConfigEntity) -> bool:
        """True where the value was set for this entity, while the cluster ran."""
        of_all_brokers = entity.type == "brokers" and not entity.name
        source = DYNAMIC_DEFAULT_BROKER if of_all_brokers else DYNAMIC_SOURCES[entity.type]
        return self.source == SOURCES[source]


@dataclass(frozen=True)
class ConfigChange:
    """Values of one entity that `alter_config` sets, and names that it drops, all or none."""

    entity: ConfigEntity
    added: Mapping[str, str] = field(default_factory=dict)
    deleted: tuple[str, ...] = ()


def config_names(client: BlockingClient, kind: str) -> list[str]:
    """Return all names of a type of entity, "" for the default of brokers; of groups those with configuration too."""
    match kind:
        case "topics":
            return sorted(client.metadata().topics)
        case "brokers" | "broker-loggers":
            return [*(str(node) for node in broker_ids(client)), ""]
        case "groups":
            return sorted({*_configured(client, kind), *_groups(client)})
    return sorted(_configured(client, kind))


def _groups(client: BlockingClient) -> list[str]:
    """Return the groups that there are; none where the brokers have no groups at all."""
    from ottla.admin.groups import list_groups

    try:
        return [each.group for each in list_groups(client)]
    except KafkaError as error:
        if error.code is ErrorCode.UNSUPPORTED_VERSION:
            return []
        raise


def broker_ids(client: BlockingClient) -> list[int]:
    """Return the ids of the cluster's brokers, of controllers too where it is controllers that are asked (KIP-919)."""
    if not client.client.of_controllers:
        return sorted(client.metadata(()).nodes)
    from ottla.wire.messages.describe_cluster import DescribeClusterRequest

    response = client.request(DescribeClusterRequest(endpoint_type=2), lowest=1)
    return sorted(each.broker_id for each in response.brokers)


def _configured(client: BlockingClient, kind: str) -> list[str]:
    """Return the names for which something is set (KIP-1142)."""
    from ottla.wire.messages.list_config_resources import ListConfigResourcesRequest

    wanted = RESOURCE_TYPES[kind]
    response = client.request(ListConfigResourcesRequest(resource_types=[wanted]), lowest=1)
    raise_code(response.error_code)
    return [each.resource_name for each in response.config_resources if each.resource_type == wanted]


def describe_config(client: BlockingClient, entity: ConfigEntity) -> list[DescribedConfig]:
    """Return all values of one entity; a broker's own, and its loggers, are asked of itself. See `describe_configs`."""
    return describe_configs(client, [entity])[entity]


def describe_configs(
    client: BlockingClient,
    entities: Iterable[ConfigEntity],
    *,
    keys: Collection[str] | None = None,
    synonyms: bool = True,
) -> dict[ConfigEntity, list[DescribedConfig]]:
    """Return the values of entities, or only some keys of them, in the broker's order; synonyms cost most (KIP-226).

    Raises the first entity's KafkaError, UNKNOWN_TOPIC_OR_PARTITION for a topic that is not there.
    """
    from ottla.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

    by_node: dict[NodeId | None, list[ConfigEntity]] = {}
    for entity in entities:
        by_node.setdefault(_own_node(entity), []).append(entity)
    found: dict[ConfigEntity, list[DescribedConfig]] = {}
    for node, mine in by_node.items():
        resources = [
            DescribeConfigsResource(
                resource_type=RESOURCE_TYPES[each.type],
                resource_name=each.name or "",
                configuration_keys=None if keys is None else list(keys),
            )
            for each in mine
        ]
        message = DescribeConfigsRequest(resources=resources, include_synonyms=synonyms)
        asked = {(RESOURCE_TYPES[each.type], each.name or ""): each for each in mine}
        for result in client.request(message, node=node, lowest=1).results:
            raise_code(result.error_code, result.error_message)
            values = [_described(each) for each in result.configs]
            found[asked[result.resource_type, result.resource_name]] = values
    return found


def _own_node(entity: ConfigEntity) -> NodeId | None:
    """Return which node alone knows an entity: a broker its own configuration and loggers."""
    return NodeId(int(entity.name)) if entity.type in ("brokers", "broker-loggers") and entity.name else None


def _described(found: Any) -> DescribedConfig:
    return DescribedConfig(
        name=found.name,
        value=found.value,
        source=_source_name(found.config_source),
        read_only=found.read_only,
        sensitive=found.is_sensitive,
        synonyms=tuple(ConfigSynonym(each.name, each.value, _source_name(each.source)) for each in found.synonyms),
    )


def _source_name(number: int) -> str:
    return SOURCES[number] if 0 <= number < len(SOURCES) else SOURCES[0]


def plan_config_change(
    client: BlockingClient, entity: ConfigEntity, added: Mapping[str, str], deleted: Sequence[str]
) -> ConfigChange:
    """Return a change of one entity; raises AdminError for loggers that a broker does not have.

    Other names and values are judged by the broker: `alter_config` with `validate_only` asks it.
    """
    if entity.type == "broker-loggers":
        known = {each.name for each in describe_config(client, entity)}
        if unknown := [name for name in (*added, *deleted) if name not in known]:
            raise AdminError(f"Invalid broker logger(s): {','.join(unknown)}")
    return ConfigChange(entity, added, tuple(deleted))


def alter_config(client: BlockingClient, change: ConfigChange, *, validate_only: bool = False) -> None:
    """Set and drop an entity's values, all or none (KIP-339), or have them checked; raises KafkaError in the broker's words.

    A broker's own are altered by itself, or by the active controller where that is who is asked.
    """
    from ottla.wire.messages.incremental_alter_configs import (
        AlterableConfig,
        AlterConfigsResource,
        IncrementalAlterConfigsRequest,
    )

    entity = change.entity
    configs = [AlterableConfig(name=key, config_operation=SET, value=value) for key, value in change.added.items()]
    configs += [AlterableConfig(name=key, config_operation=DELETE, value="") for key in change.deleted]
    resource = AlterConfigsResource(
        resource_type=RESOURCE_TYPES[entity.type], resource_name=entity.name or "", configs=configs
    )
    message = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    by_controller = entity.type == "brokers" and client.client.of_controllers
    (result,) = client.request(message, node=None if by_controller else _own_node(entity)).responses
    raise_code(result.error_code, result.error_message)
