"""The JDBC source's keys: Confluent's names, so that existing configurations run."""

from __future__ import annotations

from typing import Any

from ottla.base import ConfigError
from ottla.config import ConfigType
from ottla.connect import REQUIRED, ConfigDef, Importance, Width, validators
from ottla.connectors.jdbc.keys import Key, adder, connection_keys

__all__ = ["GRANULARITIES", "MODES", "NUMERIC_MAPPINGS", "source_def"]

BULK, INCREMENTING, TIMESTAMP, BOTH = "bulk", "incrementing", "timestamp", "timestamp+incrementing"
MODES = (BULK, INCREMENTING, TIMESTAMP, BOTH)
NUMERIC_MAPPINGS = ("none", "precision_only", "best_fit", "best_fit_eager_double")
GRANULARITIES = (
    "connect_logical",
    "micros_long",
    "micros_string",
    "micros_iso_datetime_string",
    "nanos_long",
    "nanos_string",
    "nanos_iso_datetime_string",
)
ISOLATION = ("DEFAULT", "READ_UNCOMMITTED", "READ_COMMITTED", "REPEATABLE_READ", "SERIALIZABLE")


def source_def() -> ConfigDef:
    """Return the source's keys."""
    found = ConfigDef()
    connection_keys(found, REQUIRED)
    _tables(found)
    _modes(found)
    _connector(found)
    return found


def _tables(found: ConfigDef) -> None:
    add = adder(found, "Tables")
    listed = "Names of tables, with or without their schema, separated by commas. "
    matched = "Regular expressions, separated by commas, that a table's name or `schema.name` matches as a whole. "
    add(
        "table.whitelist",
        ConfigType.LIST,
        "",
        listed + "Only these are copied.",
        title="Table whitelist",
        width=Width.LONG,
    )
    add(
        "table.blacklist",
        ConfigType.LIST,
        "",
        listed + "These are not copied.",
        title="Table blacklist",
        width=Width.LONG,
    )
    regex = validators.Lambda(_expressions, "regular expressions")
    title = "Table include list"
    doc = matched + "Only these tables are copied."
    add("table.include.list", ConfigType.LIST, "", doc, title=title, width=Width.LONG, validator=regex)
    title, doc = "Table exclude list", matched + "These tables are not copied."
    add("table.exclude.list", ConfigType.LIST, "", doc, title=title, width=Width.LONG, validator=regex)
    add(
        "table.types",
        ConfigType.LIST,
        "TABLE",
        "What counts as a table: TABLE, VIEW, or both.",
        title="Table types",
        importance=Importance.LOW,
        validator=validators.Lambda(_table_types, "TABLE, VIEW"),
    )
    add(
        "schema.pattern",
        ConfigType.STRING,
        None,
        "The schemas to look for tables in, with SQL's wildcards % and _; the connection's default schema where nothing "
        "is given, every schema of users' tables with %.",
        title="Schema pattern",
    )
    add(
        "catalog.pattern",
        ConfigType.STRING,
        None,
        "The database to look for tables in; it must be the one of the URL.",
        title="Catalog pattern",
    )
    add(
        "table.poll.interval.ms",
        ConfigType.LONG,
        60_000,
        "How often to look for new and dropped tables, in milliseconds; tasks are then divided anew.",
        title="Metadata change monitoring interval",
        importance=Importance.LOW,
        validator=validators.Range(least=1),
    )


def _modes(found: ConfigDef) -> None:
    add = adder(found, "Mode")
    add(
        "mode",
        ConfigType.STRING,
        REQUIRED,
        "What is read at each poll. bulk: every row, each time. incrementing: rows with a larger number than any before. "
        "timestamp: rows with a later time than any before, so changes too. timestamp+incrementing: both, which tells "
        "rows of the same time apart.",
        title="Table loading mode",
        importance=Importance.HIGH,
        validator=validators.ValidString(*MODES),
    )
    add(
        "incrementing.column.name",
        ConfigType.STRING,
        "",
        "The column of numbers that only grow; where it is empty, the one that the database counts up by itself.",
        title="Incrementing column name",
    )
    add(
        "timestamp.column.name",
        ConfigType.LIST,
        "",
        "The column of times of change. Of several the first that is not null counts.",
        title="Timestamp column name",
    )
    add(
        "timestamp.initial",
        ConfigType.LONG,
        None,
        "Where reading by time begins, in milliseconds since 1970, where no offset is stored; -1 begins now.",
        title="Unix time value of initial timestamp",
        importance=Importance.LOW,
        validator=validators.Lambda(_initial, "null, -1 or more"),
    )
    add(
        "timestamp.delay.interval.ms",
        ConfigType.LONG,
        0,
        "How old a row's time must be before it is read, so that transactions that began earlier can end.",
        title="Delay interval (ms)",
        validator=validators.Range(least=0),
    )
    add(
        "timestamp.granularity",
        ConfigType.STRING,
        GRANULARITIES[0],
        "What timestamps become: Connect's type of milliseconds, or numbers and texts of microseconds or nanoseconds.",
        title="Timestamp granularity for timestamp columns",
        importance=Importance.LOW,
        validator=validators.ValidString(*GRANULARITIES),
    )
    _queries(add)


def _queries(add: Key) -> None:
    add(
        "validate.non.null",
        ConfigType.BOOLEAN,
        True,
        "Refuse an incrementing or timestamp column that may be null: such rows would never be read.",
        title="Validate non null",
        importance=Importance.LOW,
    )
    add(
        "query",
        ConfigType.STRING,
        "",
        "A query to read instead of tables; it stands in parentheses, so it may have conditions of its own.",
        title="Query",
        width=Width.LONG,
    )
    add(
        "query.suffix",
        ConfigType.STRING,
        "",
        "What is written behind each statement, such as FOR SHARE.",
        title="Query suffix",
        importance=Importance.LOW,
    )
    add(
        "query.retry.attempts",
        ConfigType.INT,
        -1,
        "How many polls in a row may fail for want of a connection before the task fails; -1 for any number.",
        title="Query retry attempts",
        importance=Importance.LOW,
        validator=validators.Range(least=-1),
    )


def _connector(found: ConfigDef) -> None:
    add = adder(found, "Connector")
    add(
        "topic.prefix",
        ConfigType.STRING,
        REQUIRED,
        "What stands before a table's name in its topic's name; the whole name where a query is read.",
        title="Topic prefix",
        importance=Importance.HIGH,
        validator=validators.Lambda(_prefix, "letters, digits, '.', '_' and '-'"),
    )
    add(
        "poll.interval.ms",
        ConfigType.INT,
        5000,
        "How long to wait before a table is read again, in milliseconds.",
        title="Poll interval (ms)",
        importance=Importance.HIGH,
        validator=validators.Range(least=0),
    )
    add(
        "batch.max.rows",
        ConfigType.INT,
        100,
        "How many rows one poll returns at most.",
        title="Max rows per batch",
        importance=Importance.LOW,
        validator=validators.Range(least=1),
    )
    add(
        "numeric.mapping",
        ConfigType.STRING,
        None,
        "What NUMERIC columns become. none: Decimal. precision_only: integers where the scale is 0. best_fit: also floats "
        "where the precision allows. best_fit_eager_double: floats wherever there is a scale.",
        title="Map numeric values, integer or decimal, to primitive types",
        importance=Importance.LOW,
        validator=validators.Lambda(_numeric, ", ".join(NUMERIC_MAPPINGS)),
    )
    add(
        "numeric.precision.mapping",
        ConfigType.BOOLEAN,
        False,
        "The older way to say numeric.mapping=precision_only.",
        title="Map numeric values by precision",
        importance=Importance.LOW,
    )
    add(
        "transaction.isolation.mode",
        ConfigType.STRING,
        "DEFAULT",
        "How reading is isolated from others' transactions.",
        title="Transaction isolation mode",
        importance=Importance.LOW,
        validator=validators.CaseInsensitiveValidString(*ISOLATION),
    )


def _expressions(name: str, value: Any) -> None:
    for each in value or []:
        validators.Regex()(name, each)


def _table_types(name: str, value: Any) -> None:
    for each in value or [""]:
        if each.upper() not in ("TABLE", "VIEW"):
            raise ConfigError(name, each, "TABLE, VIEW or both, separated by a comma")


def _initial(name: str, value: Any) -> None:
    if value is not None and value < -1:
        raise ConfigError(name, value, "milliseconds since 1970, or -1 for the current time")


def _prefix(name: str, value: Any) -> None:
    text = value or ""
    if not all(each.isascii() and (each.isalnum() or each in "._-") for each in text) or len(text) > 249:
        raise ConfigError(name, value, "up to 249 letters, digits, '.', '_' and '-', as topics' names are")


def _numeric(name: str, value: Any) -> None:
    if value is not None and value.lower() not in NUMERIC_MAPPINGS:
        raise ConfigError(name, value, "one of " + ", ".join(NUMERIC_MAPPINGS))
