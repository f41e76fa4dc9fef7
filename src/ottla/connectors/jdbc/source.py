"""The JDBC source's connector: it checks what can be checked before anything runs, and spreads tables over tasks."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from ottla.background import supervise_thread
from ottla.connect import ConfigValue, ConnectError, SourceConnector
from ottla.connectors.jdbc.checks import check_database
from ottla.connectors.jdbc.keys import typed
from ottla.connectors.jdbc.positions import position_of
from ottla.connectors.jdbc.source_keys import BOTH, BULK, INCREMENTING, TIMESTAMP, source_def
from ottla.connectors.jdbc.source_task import TABLES, JdbcSourceTask, packed_tables, plan_of, type_mapping
from ottla.connectors.jdbc.urls import require_sqlalchemy

if TYPE_CHECKING:
    from ottla.connectors.jdbc.database import Database
    from ottla.connectors.jdbc.tables import TableName

__all__ = ["JdbcSourceConnector"]

log = logging.getLogger(__name__)

TABLES_CHECKED_MAX = 50
"""How many tables' columns are looked at while a configuration is validated; the others are when their tasks start."""

_LISTS = ("table.whitelist", "table.blacklist", "table.include.list", "table.exclude.list")


class JdbcSourceConnector(SourceConnector):
    """Reads tables or a query of a database into topics, a row a record."""

    java_name = "io.confluent.connect.jdbc.JdbcSourceConnector"
    version = "1.0"
    config_def = source_def()
    task_class: ClassVar[type[Any]] = JdbcSourceTask
    aliases = ("JdbcSource", "ottla.connectors.jdbc.JdbcSourceConnector")

    def start(self, props: Mapping[str, str]) -> None:
        """Look for the tables, and go on looking every `table.poll.interval.ms`."""
        super().start(props)
        require_sqlalchemy()
        self._settings = typed(self.config_def, props)
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._found: list[TableName] = []
        self._watch: threading.Thread | None = None
        if not self._settings["query"].strip():
            self._found = self._tables()
            self._watch = supervise_thread(
                self._watching,
                name="jdbc-source-tables",
                serves="a connector",
                failed=lambda error: self.context.raise_error(error),
            )

    def stop(self) -> None:
        """End the watch over tables."""
        self._stopping.set()
        if self._watch is not None:
            self._watch.join(timeout=1.0)

    def task_configs(self, tasks_max: int) -> Sequence[Mapping[str, str]]:
        """Return one task for a query; else tasks that share the tables, neighbours in their order together."""
        if self._settings["query"].strip():
            return [self.props]
        with self._lock:
            tables = list(self._found)
        refuse_duplicates(tables)
        if not tables:
            log.warning("No table matches the configuration yet; looking again every table.poll.interval.ms")
        count = min(tasks_max, len(tables))
        share, rest = divmod(len(tables), count) if count else (0, 0)
        made, begin = [], 0
        for place in range(count):
            end = begin + share + (place < rest)
            made.append({**self.props, TABLES: packed_tables(tables[begin:end])})
            begin = end
        return made

    def _tables(self) -> list[TableName]:
        from ottla.connectors.jdbc.database import open_database
        from ottla.connectors.jdbc.tables import matching_tables

        database = open_database(self._settings)
        try:
            with database.connect(self._stopping.wait) as connection:
                return matching_tables(connection, database.dialect, self._settings)
        finally:
            database.close()

    def _watching(self) -> None:
        """Ask for other tasks where there are other tables; a database that is away for a while changes nothing."""
        from sqlalchemy.exc import SQLAlchemyError

        while not self._stopping.wait(self._settings["table.poll.interval.ms"] / 1000):
            try:
                found = self._tables()
                refuse_duplicates(found)
            except (ConnectError, SQLAlchemyError) as error:
                log.warning("Looking for tables failed: %s", error)
                continue
            with self._lock:
                changed = found != self._found
                self._found = found
            if changed and not self._stopping.is_set():
                log.info("The tables are now %s", ", ".join(map(str, found)) or "none")
                self.context.request_task_reconfiguration()

    # What is checked

    def validate(self, props: Mapping[str, str | None]) -> dict[str, ConfigValue]:
        """Return what is wrong: the keys, how they go together, and what the database says to them."""
        values = super().validate(props)
        _go_together(values)
        if all(not values[key].errors for key in self.config_def.keys):
            check_database(values, _check_tables)
        return values

    def exactly_once_support(self, props: Mapping[str, str]) -> bool | None:
        """Return whether each row has a place of its own: by number, and by time and number."""
        return props.get("mode", "").strip() in (INCREMENTING, BOTH)

    def alter_offsets(
        self, props: Mapping[str, str], offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any] | None]]
    ) -> bool:
        """Refuse what is no offset of a table or query."""
        for partition, offset in offsets:
            known = set(partition) in ({"protocol", "table"}, {"table"}) or partition == {"query": "query"}
            if not known:
                raise ConnectError(
                    'A partition of this connector is {"protocol": "1", "table": name} or {"query": "query"}, '
                    f"and {dict(partition)} is neither"
                )
            position_of(offset or {})
        return True


def refuse_duplicates(tables: Sequence[TableName]) -> None:
    """Raise ConnectError for tables that would share a topic."""
    from ottla.connectors.jdbc.tables import duplicated

    found = duplicated(tables)
    if found:
        raise ConnectError(
            "Topics are named after tables without their schemas, and these would share one: "
            f"{', '.join(map(str, found))}. Use schema.pattern, table.include.list or one connector for each"
        )


def _go_together(values: Mapping[str, ConfigValue]) -> None:
    """Add what keys say against each other."""
    mode, query = values["mode"].value, (values["query"].value or "").strip()
    named = [key for key in _LISTS if values[key].value]
    if query and named:
        for key in ("query", *named):
            values[key].errors.append(f"A query and tables cannot both be read: query and {', '.join(named)} are set")
    for one, other in (("table.whitelist", "table.blacklist"), ("table.include.list", "table.exclude.list")):
        if values[one].value and values[other].value and one == "table.whitelist":
            for key in (one, other):
                values[key].errors.append(f"{one} and {other} exclude each other, and both are set")
    if mode in (TIMESTAMP, BOTH) and not values["timestamp.column.name"].value:
        values["timestamp.column.name"].errors.append(f"mode={mode} needs the column of times: its name was expected")
    if query and mode in (INCREMENTING, BOTH) and not values["incrementing.column.name"].value:
        text = f"mode={mode} over a query needs the column of numbers: its name was expected"
        values["incrementing.column.name"].errors.append(text)
    if query and not values["topic.prefix"].value:
        values["topic.prefix"].errors.append("over a query this is the topic's whole name, and was expected")
    if mode == BULK:
        for key in ("incrementing.column.name", "timestamp.column.name"):
            values[key].visible = False


def _check_tables(
    values: dict[str, ConfigValue], settings: Mapping[str, Any], database: Database, connection: Any
) -> None:
    from sqlalchemy.exc import SQLAlchemyError

    from ottla.connectors.jdbc.database import reason_of
    from ottla.connectors.jdbc.readings import QueryOrigin, TableOrigin, column_trouble
    from ottla.connectors.jdbc.tables import matching_tables

    mapping, plan = type_mapping(settings, database.dialect), plan_of(settings)
    if settings["query"].strip():
        query = QueryOrigin(settings["query"], mapping, topic="", partition={})
        try:
            wrong = column_trouble(query.shape(connection), plan, query)
        except (SQLAlchemyError, ConnectError) as error:
            values["query"].errors.append(reason_of(error))
            return
    else:
        everything = matching_tables(connection, database.dialect, {**settings, **{key: [] for key in _LISTS}})
        for key in ("table.whitelist", "table.blacklist"):
            values[key].recommended = [str(each) for each in everything]
        known = {name for each in everything for name in (each.table, str(each))}
        for each in settings["table.whitelist"]:
            if each not in known:
                values["table.whitelist"].errors.append(f"There is no table {each} in {database.shown}")
        tables = matching_tables(connection, database.dialect, settings)
        try:
            refuse_duplicates(tables)
        except ConnectError as error:
            values["schema.pattern"].errors.append(str(error))
        wrong = []
        for name in tables[:TABLES_CHECKED_MAX]:
            table = TableOrigin(name, mapping, topic="", partition={})
            wrong += column_trouble(table.shape(connection), plan, table)
    for key, text in wrong:
        values[key].errors.append(text)
