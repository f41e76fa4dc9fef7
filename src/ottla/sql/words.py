"""The language's words: which are keywords, and which of those are names, too (ksqlDB's grammar)."""

from __future__ import annotations

KEYWORDS = frozenset(
    (
        *("EMIT", "CHANGES", "FINAL", "SELECT", "FROM", "AS", "ALL", "DISTINCT", "WHERE", "WITHIN", "WINDOW"),
        *("GROUP", "BY", "HAVING", "LIMIT", "AT", "OR", "AND", "IN", "NOT", "EXISTS", "BETWEEN", "LIKE"),
        *("ESCAPE", "IS", "NULL", "TRUE", "FALSE", "INTEGER", "DATE", "TIME", "TIMESTAMP", "INTERVAL", "YEAR"),
        *("MONTH", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "YEARS", "MONTHS", "DAYS", "HOURS"),
        *("MINUTES", "SECONDS", "MILLISECONDS", "ZONE", "TUMBLING", "HOPPING", "SIZE", "ADVANCE", "RETENTION"),
        *("GRACE", "PERIOD", "CASE", "WHEN", "THEN", "ELSE", "END", "JOIN", "FULL", "OUTER", "INNER", "LEFT"),
        *("RIGHT", "ON", "PARTITION", "STRUCT", "WITH", "VALUES", "CREATE", "TABLE", "TOPIC", "STREAM"),
        *("STREAMS", "INSERT", "DELETE", "INTO", "DESCRIBE", "EXTENDED", "PRINT", "EXPLAIN", "ANALYZE", "TYPE"),
        *("TYPES", "CAST", "SHOW", "LIST", "TABLES", "TOPICS", "QUERY", "QUERIES", "TERMINATE", "LOAD"),
        *("COLUMNS", "COLUMN", "PARTITIONS", "FUNCTIONS", "FUNCTION", "DROP", "TO", "RENAME", "ARRAY", "MAP"),
        *("SET", "DEFINE", "UNDEFINE", "RESET", "SESSION", "SAMPLE", "EXPORT", "CATALOG", "PROPERTIES"),
        *("BEGINNING", "UNSET", "RUN", "SCRIPT", "DECIMAL", "KEY", "CONNECTOR", "CONNECTORS", "SINK", "SOURCE"),
        *("NAMESPACE", "MATERIALIZED", "VIEW", "PRIMARY", "REPLACE", "ASSERT", "ADD", "ALTER", "VARIABLES"),
        *("PLUGINS", "HEADERS", "HEADER", "SYSTEM", "TIMEOUT", "SCHEMA", "SUBJECT", "ID", "IF", "STRING"),
        *("PAUSE", "RESUME"),
    )
)

NAMES_TOO = frozenset(
    (
        *("SHOW", "TABLES", "COLUMNS", "COLUMN", "PARTITIONS", "FUNCTIONS", "FUNCTION", "SESSION", "STRUCT"),
        *("MAP", "ARRAY", "PARTITION", "INTEGER", "DATE", "TIME", "TIMESTAMP", "INTERVAL", "ZONE", "STRING"),
        *("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND", "EXPLAIN", "ANALYZE", "TYPE", "TYPES", "SET"),
        *("RESET", "IF", "SOURCE", "SINK", "PRIMARY", "KEY", "EMIT", "CHANGES", "FINAL", "ESCAPE", "REPLACE"),
        *("ASSERT", "ALTER", "ADD", "HEADER", "HEADERS", "GRACE", "PERIOD", "DEFINE", "UNDEFINE", "VARIABLES"),
        *("PLUGINS", "SYSTEM", "TIMEOUT", "SCHEMA", "SUBJECT", "ID", "PAUSE", "RESUME"),
    )
)
"""Keywords that may stand where a name may."""

RESERVED = KEYWORDS - NAMES_TOO

COMMANDS = (
    *("SELECT", "CREATE", "INSERT", "DESCRIBE", "PRINT", "EXPLAIN", "SHOW", "LIST", "TERMINATE", "PAUSE", "RESUME"),
    *("DROP", "SET", "DEFINE", "UNDEFINE", "UNSET", "ASSERT", "ALTER"),
)
"""The words that a statement begins with, in the order in which a mistyped one is looked for."""

TIME_UNITS = {
    "DAY": 86_400_000,
    "HOUR": 3_600_000,
    "MINUTE": 60_000,
    "SECOND": 1_000,
    "MILLISECOND": 1,
}
"""Unit -> milliseconds; each has a plural, too."""


def unit_name(word: str) -> str | None:
    """The plural name of a unit of time that this upper-case word is, as the language prints it, or None."""
    single = word.removesuffix("S")
    return f"{single}S" if single in TIME_UNITS else None
