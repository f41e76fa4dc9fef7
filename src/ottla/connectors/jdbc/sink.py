"""The JDBC sink's connector: it checks what can be checked before anything runs, and gives each task the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from ottla.connect import ConfigValue, ConnectError, SinkConnector
from ottla.connectors.jdbc.checks import check_database
from ottla.connectors.jdbc.sink_keys import sink_def
from ottla.connectors.jdbc.sink_shapes import KAFKA_COLUMNS
from ottla.connectors.jdbc.sink_task import JdbcSinkTask

if TYPE_CHECKING:
    from ottla.connectors.jdbc.database import Database

__all__ = ["JdbcSinkConnector"]


class JdbcSinkConnector(SinkConnector):
    """Writes topics into tables, a record a row."""

    java_name = "io.confluent.connect.jdbc.JdbcSinkConnector"
    version = "1.0"
    config_def = sink_def()
    task_class: ClassVar[type[Any]] = JdbcSinkTask
    aliases = ("JdbcSink", "ottla.connectors.jdbc.JdbcSinkConnector")

    def task_configs(self, tasks_max: int) -> Sequence[Mapping[str, str]]:
        """Return as many tasks as are allowed: partitions are spread over them."""
        return [self.props for _ in range(tasks_max)]

    def validate(self, props: Mapping[str, str | None]) -> dict[str, ConfigValue]:
        """Return what is wrong: the keys, how they go together, and what the database says to them."""
        values = super().validate(props)
        if all(not values[key].errors for key in self.config_def.keys):
            _go_together(values)
        if all(not values[key].errors for key in self.config_def.keys):
            topics = [each.strip() for each in (props.get("topics") or "").split(",") if each.strip()]
            if (props.get("transforms") or "").strip():
                topics = []  # they may give records other topics

            def check(
                values: dict[str, ConfigValue], settings: Mapping[str, Any], db: Database, connection: Any
            ) -> None:
                _check_tables(values, settings, db, connection, topics)

            check_database(values, check)
        return values


def _go_together(values: Mapping[str, ConfigValue]) -> None:
    """Add what keys say against each other."""
    mode, pk = values["insert.mode"].value.lower(), values["pk.mode"].value.lower()
    fields = values["pk.fields"].value
    if mode != "insert" and pk == "none":
        text = f"insert.mode={mode} needs a primary key: pk.mode is none, and kafka, record_key or record_value was expected"
        values["pk.mode"].errors.append(text)
    if mode == "update" and pk == "kafka":
        values["pk.mode"].errors.append("insert.mode=update never finds a row by topic, partition and offset")
    if values["delete.enabled"].value and pk != "record_key":
        text = f"delete.enabled=true needs pk.mode=record_key, for a record without a value has a key only; it is {pk}"
        for key in ("delete.enabled", "pk.mode"):
            values[key].errors.append(text)
    if pk == "kafka" and fields and len(fields) != len(KAFKA_COLUMNS):
        text = f"pk.mode=kafka needs three names, for topic, partition and offset, or none; there are {len(fields)}"
        values["pk.fields"].errors.append(text)
    if pk == "none":
        values["pk.fields"].visible = False


def _check_tables(
    values: dict[str, ConfigValue],
    settings: Mapping[str, Any],
    database: Database,
    connection: Any,
    topics: Sequence[str],
) -> None:
    """Say which topics have no table's name, and whose tables are missing where they may not be created."""
    from ottla.connectors.jdbc.sink_tables import SinkTables, parse_table_name

    tables = SinkTables(database.dialect, create=False, evolve=False, types=settings["table.types"])
    for topic in topics:
        try:
            name = parse_table_name(settings["table.name.format"].replace("${topic}", topic), database.dialect)
        except ConnectError as error:
            values["table.name.format"].errors.append(str(error))
            continue
        if not settings["auto.create"] and tables.find(connection, name) is None:
            values["auto.create"].errors.append(
                f"There is no table {name} in {database.shown} for topic {topic}: create it, or set auto.create=true"
            )
