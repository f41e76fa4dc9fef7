"""PostgreSQL's changes into topics: the connector, which checks a configuration and has one task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ottla.connect import ConfigValue, ConnectError, SourceConnector
from ottla.connectors.cdc.channels import check_channels
from ottla.connectors.cdc.column_masks import column_rules
from ottla.connectors.cdc.positions import Position
from ottla.connectors.cdc.server import opened_catalog, plain_settings
from ottla.connectors.cdc.settings import POSTGRES_DEF
from ottla.connectors.cdc.source_task import PostgresSourceTask

__all__ = ["PostgresConnector"]


class PostgresConnector(SourceConnector):
    """Captures what is committed in a PostgreSQL database, under the name and with the settings of Debezium's connector."""

    java_name = "io.debezium.connector.postgresql.PostgresConnector"
    version = "1.0"
    config_def = POSTGRES_DEF
    task_class: ClassVar[type[Any]] = PostgresSourceTask
    aliases = ("ottla.connectors.cdc.PostgresConnector",)

    def task_configs(self, tasks_max: int) -> Sequence[Mapping[str, str]]:
        """Return one task: a slot has one reader."""
        return [self.props]

    def validate(self, props: Mapping[str, str | None]) -> dict[str, ConfigValue]:
        """Return what is wrong with a configuration, and whether the server takes it."""
        values = super().validate(props)
        plugin = values["plugin.name"]
        if not plugin.errors and plugin.value != "pgoutput":
            plugin.errors.append("Set plugin.name=pgoutput: it is the output plugin that is read here")
        try:
            column_rules(props)
        except ConnectError as error:
            values["column.exclude.list"].errors.append(str(error))
        check_channels(values)
        if all(not each.errors for each in values.values()):
            try:
                settings = plain_settings({name: each.value for name, each in values.items()})
                opened_catalog(settings).close()
            except ConnectError as error:
                values["database.hostname"].errors.append(str(error))
        return values

    def exactly_once_support(self, props: Mapping[str, str]) -> bool | None:
        """Return true: a commit's place and the count of changes behind it say exactly where to go on."""
        return True

    def can_define_transactions(self, props: Mapping[str, str]) -> bool:
        """Return true: with `transaction.boundary=connector` a snapshot is one transaction, and each poll behind it."""
        return True

    def alter_offsets(
        self, props: Mapping[str, str], offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any] | None]]
    ) -> bool:
        """Refuse what is no offset of this connector."""
        for partition, offset in offsets:
            if set(partition) != {"server"}:
                raise ConnectError(
                    f'A partition of this connector is {{"server": topic.prefix}}, and {dict(partition)} is not'
                )
            if offset is not None:
                Position.of(offset)
        return True
