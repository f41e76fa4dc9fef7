"""MySQL's and MariaDB's changes into topics: the connectors, which check a configuration and have one task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ottla.connect import ConfigValue, ConnectError, SourceConnector
from ottla.connectors.cdc.channels import check_channels
from ottla.connectors.cdc.column_masks import column_rules
from ottla.connectors.cdc.mysql.gtids import GtidFilter
from ottla.connectors.cdc.mysql.history import history_store
from ottla.connectors.cdc.mysql.positions import Position
from ottla.connectors.cdc.mysql.server import MODES, opened_server
from ottla.connectors.cdc.mysql.settings import BINLOG_DEF
from ottla.connectors.cdc.mysql.source_task import BinlogSourceTask, MariaDbSourceTask, MySqlSourceTask
from ottla.connectors.cdc.server import plain_settings

__all__ = ["MariaDbConnector", "MySqlConnector"]


class BinlogConnector(SourceConnector):
    """What both connectors have in common."""

    version = "1.0"
    config_def = BINLOG_DEF
    task_class: ClassVar[type[BinlogSourceTask]]

    def task_configs(self, tasks_max: int) -> Sequence[Mapping[str, str]]:
        """Return one task: a binlog is one sequence."""
        return [self.props]

    def validate(self, props: Mapping[str, str | None]) -> dict[str, ConfigValue]:
        """Return what is wrong with a configuration, and whether the server takes it."""
        values = super().validate(props)
        try:
            column_rules(props)
        except ConnectError as error:
            values["column.exclude.list"].errors.append(str(error))
        mode = values["database.ssl.mode"]
        if not mode.errors and mode.value not in MODES:
            mode.errors.append(f"{mode.value} is none of {', '.join(MODES)}")
        check_channels(values)
        if any(each.errors for each in values.values()):
            return values
        settings = plain_settings({name: each.value for name, each in values.items()})
        try:
            GtidFilter(settings)
        except ConnectError as error:
            values["gtid.source.includes"].errors.append(str(error))
        try:
            history_store(settings, {name: value for name, value in props.items() if value is not None}).close()
        except ConnectError as error:
            values["schema.history.internal.kafka.topic"].errors.append(str(error))
        try:
            opened_server(settings, wants_mariadb=self.task_class.flavour == "mariadb").close()
        except ConnectError as error:
            values["database.hostname"].errors.append(str(error))
        return values

    def exactly_once_support(self, props: Mapping[str, str]) -> bool | None:
        """Return true: a transaction's place and the count of events and rows behind it say exactly where to go on."""
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


class MySqlConnector(BinlogConnector):
    """Captures what is committed in a MySQL server, under the name and with the settings of Debezium's connector."""

    java_name = "io.debezium.connector.mysql.MySqlConnector"
    task_class = MySqlSourceTask
    aliases = ("ottla.connectors.cdc.MySqlConnector",)


class MariaDbConnector(BinlogConnector):
    """Captures what is committed in a MariaDB server, under the name and with the settings of Debezium's connector."""

    java_name = "io.debezium.connector.mariadb.MariaDbConnector"
    task_class = MariaDbSourceTask
    aliases = ("ottla.connectors.cdc.MariaDbConnector",)
