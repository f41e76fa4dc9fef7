"""Tables of MySQL and MariaDB as values: types, columns, keys, and their form in the schema history. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from ottla.connectors.cdc.catalog import TableId

__all__ = ["SqlColumn", "SqlTable", "SqlType", "Tables", "column_json", "id_text", "table_json", "table_of_json"]

TEXTS: Final = frozenset(("CHAR", "VARCHAR", "TINYTEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT"))
BYTES: Final = frozenset(("BINARY", "VARBINARY", "TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB"))
JDBC: Final[Mapping[str, int]] = {
    **dict.fromkeys(("TINYINT", "SMALLINT"), 5),
    **dict.fromkeys(("MEDIUMINT", "INT", "YEAR"), 4),
    "BIGINT": -5,
    "FLOAT": 6,
    "DOUBLE": 8,
    "DECIMAL": 3,
    "BIT": -7,
    "DATE": 91,
    "TIME": 92,
    "DATETIME": 93,
    "TIMESTAMP": 2014,
    "CHAR": 1,
    "ENUM": 1,
    "SET": 1,
    "BINARY": -2,
    "VARBINARY": -3,
    **dict.fromkeys(("VARCHAR", "TINYTEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT"), 12),
    **dict.fromkeys(("TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB"), 2004),
}
"""The numbers of `java.sql.Types` that Debezium writes; 1111 (other) for the rest."""
OTHER: Final = 1111


@dataclass(frozen=True, slots=True)
class SqlType:
    """A column's type, its name as `SHOW CREATE TABLE` has it, in capital letters."""

    name: str
    width: int | None = None
    """What stands in brackets first: characters, digits, digits of a second."""
    scale: int | None = None
    is_unsigned: bool = False
    is_zerofill: bool = False
    values: tuple[str, ...] = ()
    """Of an enum or a set."""
    charset: str | None = None

    @property
    def is_text(self) -> bool:
        """Whether its values are texts that can be hidden."""
        return self.name in TEXTS

    @property
    def is_bytes(self) -> bool:
        """Whether its values are bytes."""
        return self.name in BYTES

    @property
    def length(self) -> int:
        """Return the most characters of a text; not positive where that is not said."""
        return self.width or 0

    @property
    def expression(self) -> str:
        """Return its name as Debezium has it in the schema history."""
        return f"{self.name}{' UNSIGNED' if self.is_unsigned else ''}{' ZEROFILL' if self.is_zerofill else ''}"


@dataclass(frozen=True, slots=True)
class SqlColumn:
    """A column of a table."""

    name: str
    type: SqlType
    is_required: bool = False
    default: str | None = None
    """A constant as text, or `CURRENT_TIMESTAMP`; None where there is none, or one that the server computes."""
    is_auto: bool = False
    """Whether the server counts it up."""
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class SqlTable:
    """A table; `key` are the columns of its primary key, or of a unique one in its place."""

    id: TableId
    columns: tuple[SqlColumn, ...]
    primary: tuple[str, ...] = ()
    unique: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Names and columns of unique keys, in their order."""
    charset: str | None = None
    comment: str | None = None
    row_end: str | None = None
    """The column that says until when a row has been, of a system-versioned table that names it."""
    is_sequence: bool = False
    """Whether it is none: the binlog has a sequence's numbers as rows."""
    trouble: None = None
    """MariaDB and MySQL have all names in UTF-8."""

    @property
    def key(self) -> tuple[str, ...]:
        """Return the columns of its primary key, or of the first unique key that has no null.

        The end of a row's time, which servers add to keys, is one and the same for all rows of now.
        """
        end = (self.row_end or "").lower()
        return tuple(each for each in self._key if each.lower() != end)

    @property
    def _key(self) -> tuple[str, ...]:
        if self.primary:
            return self.primary
        required = {each.name.lower() for each in self.columns if each.is_required}
        return next((columns for _, columns in self.unique if all(each.lower() in required for each in columns)), ())

    def named(self, name: TableId) -> SqlTable:
        """Return the same table under another name."""
        return replace(self, id=name)


class Tables(dict[TableId, SqlTable]):
    """The tables that are known, by name."""

    def of_database(self, database: str) -> list[TableId]:
        """Return the names of a database's tables."""
        return [each for each in self if each.schema == database]


def id_text(table: TableId) -> str:
    """Return a table's name as the schema history has it."""
    return f'"{table.schema}"."{table.table}"'


def _id_of(text: str) -> TableId:
    schema, _, table = text.strip('"').partition('"."')
    return TableId(schema, table)


def column_json(column: SqlColumn, position: int) -> dict[str, Any]:
    """Return a column as the schema history has it, nulls left out where Debezium leaves them out."""
    type_ = column.type
    found: dict[str, Any] = {
        "name": column.name,
        "jdbcType": JDBC.get(type_.name, OTHER),
        "typeName": type_.expression,
        "typeExpression": type_.expression,
        "charsetName": type_.charset if type_.is_text or type_.values or type_.name == "JSON" else None,
        **({} if (length := _length(type_)) is None else {"length": length}),
        **({} if type_.scale is None else {"scale": type_.scale}),
        "position": position,
        "optional": not column.is_required,
        "autoIncremented": column.is_auto,
        "generated": column.is_auto,
        "comment": column.comment,
        "hasDefaultValue": column.default is not None or not column.is_required,
    }
    if column.default is not None:
        found["defaultValueExpression"] = _told_default(column)
    escaped = [each.replace("'", "''") for each in type_.values]
    found["enumValues"] = [f"'{each}'" for each in escaped]
    return found


def _told_default(column: SqlColumn) -> str:
    assert column.default is not None
    if column.default == "CURRENT_TIMESTAMP":
        return "1970-01-01 00:00:00"
    if column.type.name == "BIT" and column.default.isdigit():
        return format(int(column.default), "b")
    return column.default


def _length(type_: SqlType) -> int | None:
    if type_.name == "ENUM":
        return 1
    if type_.name == "SET":
        return max(0, 2 * len(type_.values) - 1)
    return type_.width


def table_json(table: SqlTable) -> dict[str, Any]:
    """Return a table as the schema history has it."""
    found: dict[str, Any] = {
        "defaultCharsetName": table.charset,
        "primaryKeyColumnNames": list(table.key),
        "columns": [column_json(each, at) for at, each in enumerate(table.columns, 1)],
        "attributes": [{"name": name, "value": json.dumps(value)} for name, value in _attributes(table).items()],
    }
    return found


_ATTRIBUTE: Final = "ottla.table"
"""What the history keeps of a table beside what Debezium does."""


def _attributes(table: SqlTable) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    if table.unique:
        kept |= {"primary": table.primary, "unique": table.unique}
    if table.is_sequence:
        kept["is_sequence"] = True
    if table.row_end is not None:
        kept["row_end"] = table.row_end
    return {_ATTRIBUTE: kept} if kept else {}


def table_of_json(id_: str, table: Mapping[str, Any]) -> SqlTable:
    """Return a table of the schema history, Debezium's own too."""
    columns = tuple(_column_of(each) for each in table["columns"])
    kept = _kept(table)
    primary = tuple(kept.get("primary", table.get("primaryKeyColumnNames") or ()))
    unique = tuple((name, tuple(names)) for name, names in kept.get("unique", ()))
    charset = table.get("defaultCharsetName")
    return SqlTable(
        _id_of(id_),
        columns,
        primary,
        unique,
        charset,
        row_end=kept.get("row_end"),
        is_sequence=bool(kept.get("is_sequence")),
    )


def _kept(table: Mapping[str, Any]) -> dict[str, Any]:
    for each in table.get("attributes") or ():
        if each.get("name") == _ATTRIBUTE:
            found: dict[str, Any] = json.loads(each["value"])
            return found
    return {}


def _column_of(found: Mapping[str, Any]) -> SqlColumn:
    words = str(found["typeName"]).upper().split()
    values = tuple(_unquoted(each) for each in found.get("enumValues") or ())
    length = None if values else found.get("length")
    type_ = SqlType(
        words[0],
        length,
        found.get("scale"),
        "UNSIGNED" in words or "ZEROFILL" in words,
        "ZEROFILL" in words,
        values,
        found.get("charsetName"),
    )
    default = found.get("defaultValueExpression")
    if type_.name == "BIT" and default and not set(default) - {"0", "1"}:
        default = str(int(default, 2))
    return SqlColumn(
        found["name"],
        type_,
        not found.get("optional", True),
        None if default is None else str(default),
        bool(found.get("autoIncremented")),
        found.get("comment"),
    )


def _unquoted(text: str) -> str:
    return text[1:-1].replace("''", "'") if len(text) > 1 and text[0] == text[-1] == "'" else text
