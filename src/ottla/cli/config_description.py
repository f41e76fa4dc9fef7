"""Configurations of topics, brokers, loggers, groups and client metrics, as `ottla configs --describe` shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.admin import ConfigEntity, DescribedConfig, config_names, describe_config
from ottla.cli.output import Answer, print_answer

if TYPE_CHECKING:
    from argparse import Namespace

    from ottla.client import BlockingClient

__all__ = ["print_configs"]


def print_configs(client: BlockingClient, args: Namespace, entity: ConfigEntity) -> None:
    """Print an entity's configuration, or that of all of its type; without `--all` what was set for it."""
    if entity.name and not args.all and entity.name not in config_names(client, entity.type):
        if args.output == "text":
            print(f"The {entity.singular} '{entity.name}' doesn't exist and doesn't have dynamic config.")
        else:
            print_answer(args.output, answer([]))
        return
    names = [entity.name] if entity.name is not None else config_names(client, entity.type)
    rows: list[dict[str, Any]] = []
    for name in names:
        if args.output == "text":
            print(heading(entity, name, everything=args.all))
        for each in shown_configs(client, ConfigEntity(entity.type, name), everything=args.all):
            rows.append(row(entity.type, name, each))
            if args.output == "text":
                print(line(each))
    if args.output != "text":
        print_answer(args.output, answer(rows))


def shown_configs(client: BlockingClient, entity: ConfigEntity, *, everything: bool) -> list[DescribedConfig]:
    """Return an entity's values by name; of loggers, which are all set, every one."""
    kept = [
        each
        for each in describe_config(client, entity)
        if everything or entity.type == "broker-loggers" or each.is_set_for(entity)
    ]
    return sorted(kept, key=lambda each: each.name)


def heading(entity: ConfigEntity, name: str, *, everything: bool) -> str:
    """Return the line above an entity's values."""
    if not name:
        return f"Default configs for {entity.type} in the cluster are:"
    return f"{'All' if everything else 'Dynamic'} configs for {entity.singular} {name} are:"


def line(found: DescribedConfig) -> str:
    """Return Kafka's line of one value; a sensitive one is null."""
    synonyms = ", ".join(f"{each.source}:{each.name}={shown(each.value)}" for each in found.synonyms)
    sensitive = str(found.sensitive).lower()
    return f"  {found.name}={shown(found.value)} sensitive={sensitive} synonyms={{{synonyms}}}"


def shown(value: str | None) -> str:
    """Return a value as Java prints it."""
    return "null" if value is None else value


def row(kind: str, name: str, found: DescribedConfig) -> dict[str, Any]:
    """Return one value for every form but Kafka's own."""
    return {
        "entityType": kind,
        "entityName": name or None,
        "name": found.name,
        "value": found.value,
        "source": found.source,
        "readOnly": found.read_only,
        "sensitive": found.sensitive,
        "synonyms": [each._asdict() for each in found.synonyms],
    }


def answer(rows: list[dict[str, Any]]) -> Answer:
    """Return the rows for every form but Kafka's own."""
    columns = {"TYPE": "entityType", "ENTITY": "entityName", "NAME": "name", "VALUE": "value"}
    return Answer(rows, columns, {"SOURCE": "source", "READ-ONLY": "readOnly", "SENSITIVE": "sensitive"}, name="name")
