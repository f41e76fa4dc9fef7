"""Configurations of topics, brokers, loggers, groups and client metrics, as `ottla configs` shows and alters them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.admin import raise_code
from ottla.base import ErrorCode, KafkaError, NodeId, OttlaError
from ottla.cli.options import UsageError
from ottla.cli.output import Answer, print_answer

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable, Mapping

    from ottla.cli.config_entities import Entity
    from ottla.client import BlockingClient

__all__ = ["alter_resource", "describe_resources"]

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


def describe_resources(client: BlockingClient, args: Namespace, entity: Entity) -> None:
    """Print an entity's configuration, or that of all of its type."""
    if entity.name and not args.all and not exists(client, args, entity):
        if args.output == "text":
            print(f"The {entity.singular} '{entity.name}' doesn't exist and doesn't have dynamic config.")
        else:
            print_answer(args.output, answer([]))
        return
    names = [entity.name] if entity.name is not None else names_of(client, args, entity.type)
    rows: list[dict[str, Any]] = []
    for name in names:
        if args.output == "text":
            print(heading(entity, name, everything=args.all))
        for entry in entries(client, args, entity.type, name):
            row = {"entityType": entity.type, "entityName": name or None, **entry}
            rows.append(row)
            if args.output == "text":
                print(line(entry))
    if args.output != "text":
        print_answer(args.output, answer(rows))


def heading(entity: Entity, name: str, *, everything: bool) -> str:
    """Return the line above an entity's values."""
    if not name:
        return f"Default configs for {entity.type} in the cluster are:"
    return f"{'All' if everything else 'Dynamic'} configs for {entity.singular} {name} are:"


def line(entry: Mapping[str, Any]) -> str:
    """Return Kafka's line of one value; a sensitive one is null."""
    synonyms = ", ".join(f"{each['source']}:{each['name']}={shown(each['value'])}" for each in entry["synonyms"])
    sensitive = str(entry["sensitive"]).lower()
    return f"  {entry['name']}={shown(entry['value'])} sensitive={sensitive} synonyms={{{synonyms}}}"


def shown(value: str | None) -> str:
    """Return a value as Java prints it."""
    return "null" if value is None else value


def answer(rows: list[dict[str, Any]]) -> Answer:
    """Return the rows for every form but Kafka's own."""
    columns = {"TYPE": "entityType", "ENTITY": "entityName", "NAME": "name", "VALUE": "value"}
    return Answer(rows, columns, {"SOURCE": "source", "READ-ONLY": "readOnly", "SENSITIVE": "sensitive"}, name="name")


def exists(client: BlockingClient, args: Namespace, entity: Entity) -> bool:
    """Return whether there is an entity of this name, or configuration set for it."""
    return entity.name in names_of(client, args, entity.type)


def names_of(client: BlockingClient, args: Namespace, kind: str) -> list[str]:
    """Return all names of a type; of brokers the default too, as ""."""
    match kind:
        case "topics":
            return sorted(client.metadata().topics)
        case "brokers" | "broker-loggers":
            return [*(str(node) for node in broker_ids(client, args)), ""]
        case "groups":
            from ottla.admin import list_groups

            return sorted({*configured(client, kind), *_listed(lambda: [each.group for each in list_groups(client)])})
    return sorted(configured(client, kind))


def _listed(ask: Any) -> list[str]:
    """Return the groups that there are; none where the brokers have no groups at all."""
    try:
        found: list[str] = ask()
    except OttlaError as error:
        if isinstance(error, KafkaError) and error.code is ErrorCode.UNSUPPORTED_VERSION:
            return []
        raise
    return found


def broker_ids(client: BlockingClient, args: Namespace) -> list[int]:
    """Return the ids of the cluster's brokers."""
    if args.bootstrap_controller is None:
        return sorted(client.metadata(()).nodes)
    from ottla.wire.messages.describe_cluster import DescribeClusterRequest

    response = client.request(DescribeClusterRequest(endpoint_type=2), lowest=1)
    return sorted(each.broker_id for each in response.brokers)


def configured(client: BlockingClient, kind: str) -> list[str]:
    """Return the names for which something is set (KIP-1142)."""
    from ottla.wire.messages.list_config_resources import ListConfigResourcesRequest

    wanted = RESOURCE_TYPES[kind]
    response = client.request(ListConfigResourcesRequest(resource_types=[wanted]), lowest=1)
    raise_code(response.error_code)
    return [each.resource_name for each in response.config_resources if each.resource_type == wanted]


def entries(client: BlockingClient, args: Namespace, kind: str, name: str) -> list[dict[str, Any]]:
    """Return one entity's values by name; without `--all` those that were set for it."""
    from ottla.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

    resource = DescribeConfigsResource(resource_type=RESOURCE_TYPES[kind], resource_name=name, configuration_keys=None)
    message = DescribeConfigsRequest(resources=[resource], include_synonyms=True)
    (result,) = client.request(message, node=node_for(args, kind, name), lowest=1).results
    raise_code(result.error_code, result.error_message)
    source = DYNAMIC_SOURCES[kind] if name or kind != "brokers" else DYNAMIC_DEFAULT_BROKER
    kept = [each for each in result.configs if args.all or kind == "broker-loggers" or each.config_source == source]
    return sorted((_entry(each) for each in kept), key=lambda each: str(each["name"]))


def _entry(found: Any) -> dict[str, Any]:
    return {
        "name": found.name,
        "value": found.value,
        "source": source_name(found.config_source),
        "readOnly": found.read_only,
        "sensitive": found.is_sensitive,
        "synonyms": [
            {"name": each.name, "value": each.value, "source": source_name(each.source)} for each in found.synonyms
        ],
    }


def source_name(number: int) -> str:
    """Return Kafka's word for where a value comes from."""
    return SOURCES[number] if 0 <= number < len(SOURCES) else SOURCES[0]


def node_for(args: Namespace, kind: str, name: str) -> NodeId | None:
    """Return which node alone knows: its own configuration and loggers; the active controller alters any broker's."""
    own = kind in ("brokers", "broker-loggers") and name
    by_controller = args.alter and kind == "brokers" and args.bootstrap_controller is not None
    return NodeId(int(name)) if own and not by_controller else None


def alter_resource(
    client: BlockingClient, args: Namespace, entity: Entity, added: Mapping[str, str], deleted: Iterable[str]
) -> None:
    """Set some values and drop others, all or none; raises KafkaError in the broker's words."""
    from ottla.wire.messages.incremental_alter_configs import (
        AlterableConfig,
        AlterConfigsResource,
        IncrementalAlterConfigsRequest,
    )

    name = entity.name or ""
    if entity.type == "broker-loggers":
        check_loggers(client, args, name, [*added, *deleted])
    configs = [AlterableConfig(name=key, config_operation=SET, value=value) for key, value in added.items()]
    configs += [AlterableConfig(name=key, config_operation=DELETE, value="") for key in deleted]
    resource = AlterConfigsResource(resource_type=RESOURCE_TYPES[entity.type], resource_name=name, configs=configs)
    message = IncrementalAlterConfigsRequest(resources=[resource], validate_only=args.dry_run)
    (result,) = client.request(message, node=node_for(args, entity.type, name)).responses
    raise_code(result.error_code, result.error_message)


def check_loggers(client: BlockingClient, args: Namespace, broker: str, names: Iterable[str]) -> None:
    """Raise UsageError for loggers that a broker does not have."""
    known = {entry["name"] for entry in entries(client, args, "broker-loggers", broker)}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise UsageError(f"Invalid broker logger(s): {','.join(unknown)}")
