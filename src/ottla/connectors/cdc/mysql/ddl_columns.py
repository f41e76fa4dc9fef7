"""Definitions of columns and keys in `CREATE TABLE` and `ALTER TABLE`. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from ottla.connectors.cdc.mysql.ddl_words import DdlError, Words
from ottla.connectors.cdc.mysql.tables import SqlColumn, SqlType

__all__ = [
    "ColumnDefinition",
    "KeyDefinition",
    "charset_of_collation",
    "column_definition",
    "column_name",
    "converted",
    "key_definition",
    "settled",
]

_SYNONYMS: Final[Mapping[str, str]] = {
    "INTEGER": "INT",
    "INT1": "TINYINT",
    "INT2": "SMALLINT",
    "INT3": "MEDIUMINT",
    "MIDDLEINT": "MEDIUMINT",
    "INT4": "INT",
    "INT8": "BIGINT",
    "DEC": "DECIMAL",
    "NUMERIC": "DECIMAL",
    "FIXED": "DECIMAL",
    "NUMBER": "DECIMAL",
    "REAL": "DOUBLE",
    "FLOAT4": "FLOAT",
    "FLOAT8": "DOUBLE",
    "CHARACTER": "CHAR",
    "VARCHARACTER": "VARCHAR",
    "VARCHAR2": "VARCHAR",
    "NCHAR": "CHAR",
    "NVARCHAR": "VARCHAR",
    "CLOB": "LONGTEXT",
    "RAW": "VARBINARY",
    "GEOMCOLLECTION": "GEOMETRYCOLLECTION",
}
_NATIONAL: Final = ("NCHAR", "NVARCHAR")
_BINARY: Final[Mapping[str, str]] = {
    "CHAR": "BINARY",
    "VARCHAR": "VARBINARY",
    "TINYTEXT": "TINYBLOB",
    "TEXT": "BLOB",
    "MEDIUMTEXT": "MEDIUMBLOB",
    "LONGTEXT": "LONGBLOB",
}
_SIZES: Final = ((0xFF, "TINY"), (0xFFFF, ""), (0xFFFFFF, "MEDIUM"), (0xFFFFFFFF, "LONG"))
_CHARSET_BYTES: Final[Mapping[str, int]] = {
    **dict.fromkeys(("utf8mb4", "utf16", "utf16le", "utf32", "gb18030"), 4),
    **dict.fromkeys(("utf8", "utf8mb3", "ujis", "eucjpms"), 3),
    **dict.fromkeys(("ucs2", "sjis", "cp932", "big5", "gbk", "gb2312", "euckr"), 2),
}
"""Bytes of a character at most; one in other sets."""
_FLOAT_DIGITS: Final = 24
"""FLOAT(n) with more bits than these is a DOUBLE."""
_NOW: Final = (
    "CURRENT_TIMESTAMP",
    "NOW",
    "LOCALTIME",
    "LOCALTIMESTAMP",
    "CURRENT_DATE",
    "CURDATE",
    "CURRENT_TIME",
    "CURTIME",
)
_KEYS: Final = ("PRIMARY", "UNIQUE", "INDEX", "KEY", "FULLTEXT", "SPATIAL", "FOREIGN", "CHECK", "CONSTRAINT", "PERIOD")


@dataclass(frozen=True, slots=True)
class KeyDefinition:
    """A key: what kind, its name, and its columns, none where it has expressions."""

    kind: str
    """PRIMARY, UNIQUE, PERIOD (of a system-versioned table) or OTHER."""
    name: str = ""
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ColumnDefinition:
    """A column, the keys that its definition names, and where `ALTER TABLE` puts it."""

    column: SqlColumn
    is_primary: bool = False
    is_unique: bool = False
    is_first: bool = False
    after: str | None = None

    @property
    def keys(self) -> tuple[KeyDefinition, ...]:
        """Return the keys that it names."""
        name = self.column.name
        primary = (KeyDefinition("PRIMARY", "", (name,)),) if self.is_primary else ()
        return (*primary, KeyDefinition("UNIQUE", name, (name,))) if self.is_unique else primary


def charset_of_collation(collation: str) -> str | None:
    """Return the character set of a collation, None of one that is of any."""
    found = collation.lower().partition("_")[0]
    return None if found in ("uca1400", "default") else found


def charset_clause(words: Words) -> str | None:
    """Take `CHARACTER SET x`, `CHARSET x` or `COLLATE x` where it comes next; returns the character set.

    `default` is the database's; '' is said by a collation that is of any.
    """
    if words.takes("CHARACTER", "SET") or words.takes("CHARSET"):
        words.takes("=")
        return words.name().lower()
    if words.takes("COLLATE"):
        words.takes("=")
        return charset_of_collation(words.name()) or ""
    return None


def key_definition(words: Words) -> KeyDefinition | None:
    """Take a key, or a constraint, where one comes next; None where a column does."""
    if not any(words.sees(each) for each in _KEYS) or (words.sees("PERIOD") and not words.sees("PERIOD", "FOR")):
        return None
    constraint = ""
    if words.takes("CONSTRAINT") and not any(words.sees(each) for each in _KEYS):
        constraint = words.name()
    if words.takes("PRIMARY", "KEY"):
        kind = "PRIMARY"
    elif words.takes("UNIQUE"):
        kind = "UNIQUE"
        words.takes_any("INDEX", "KEY")
    elif words.takes("PERIOD", "FOR"):
        is_system = words.name().upper() in ("SYSTEM_TIME", "SYSTEM")
        return KeyDefinition("PERIOD", "", key_columns(words) if is_system else ())
    else:
        skip_clause(words)
        return KeyDefinition("OTHER", constraint)
    name = _index_name(words) or constraint
    columns = key_columns(words)
    skip_clause(words)
    return KeyDefinition(kind, name or (columns[0] if columns else ""), columns)


def _index_name(words: Words) -> str:
    words.takes("IF", "NOT", "EXISTS")
    name = "" if words.sees("(") or words.sees("USING") else words.name()
    if words.takes("USING"):
        words.next()
    return name


def key_columns(words: Words) -> tuple[str, ...]:
    """Take a key's columns in brackets; none where one of them is an expression."""
    words.expect("(")
    found: list[str] = []
    is_plain = True
    while not words.takes(")"):
        if words.sees("("):
            words.skip_brackets()
            is_plain = False
        else:
            found.append(words.name())
            words.skip_brackets()
        words.takes_any("ASC", "DESC")
        if not words.takes(",") and not words.sees(")"):
            raise DdlError(f"A key has {words.peek().text!r}, which is no column")
    return tuple(found) if is_plain else ()


def skip_clause(words: Words) -> None:
    """Pass over what is left up to the next comma, or the bracket that closes."""
    while not words.is_over and not words.sees(",") and not words.sees(")"):
        if words.sees("("):
            words.skip_brackets()
        else:
            words.next()


def column_name(words: Words) -> str:
    """Take a column's name, its table's in front of it or not."""
    found = words.name()
    while words.takes("."):
        found = words.name()
    return found


def column_definition(words: Words) -> ColumnDefinition:
    """Take a column's definition, which is `settled` once its table's character set is known. Raises DdlError."""
    name = column_name(words)
    type_, is_serial = _type(words)
    column = SqlColumn(name, type_, is_required=is_serial, is_auto=is_serial)
    return _attributes(words, ColumnDefinition(column, is_unique=is_serial))


def _type(words: Words) -> tuple[SqlType, bool]:
    """A type, and whether it is SERIAL, which says more."""
    word = words.next()
    if word.kind not in ("word", "name"):
        raise DdlError(f"A type was expected in the place of {word.text!r}")
    name = (word.value or word.text).upper()
    if name == "NATIONAL":
        name = "N" + words.next().text.upper().replace("CHARACTER", "CHAR")
    charset = "utf8" if name in _NATIONAL else None
    name = _SYNONYMS.get(name, name)
    if name == "CHAR" and words.takes("VARYING"):
        name = "VARCHAR"
    if name == "CHAR" and words.takes("BYTE"):
        name = "BINARY"
    if name == "DOUBLE":
        words.takes("PRECISION")
    if name == "LONG":
        name = {"VARBINARY": "MEDIUMBLOB"}.get(
            words.takes_any("VARCHAR", "VARBINARY", "VARCHARACTER") or "", "MEDIUMTEXT"
        )
    if name in ("BOOL", "BOOLEAN"):
        return SqlType("TINYINT", 1), False
    if name == "SERIAL":
        return SqlType("BIGINT", 20, is_unsigned=True), True
    if name in ("ENUM", "SET"):
        return SqlType(name, values=_values(words)), False
    width, scale = _size(words)
    if name == "FLOAT" and width is not None and scale is None:
        name, width = ("DOUBLE" if width > _FLOAT_DIGITS else "FLOAT"), None
    if name == "DECIMAL" and width is None:
        width = 10
    if name in ("CHAR", "BINARY", "BIT") and width is None:
        width = 1
    return SqlType(name, width, scale, charset=charset), False


def _values(words: Words) -> tuple[str, ...]:
    words.expect("(")
    found = []
    while not words.takes(")"):
        word = words.next()
        if word.kind not in ("text", "hex"):
            raise DdlError(f"A value was expected in the place of {word.text!r}")
        found.append(word.value)
        words.takes(",")
    return tuple(found)


def _size(words: Words) -> tuple[int | None, int | None]:
    if not words.takes("("):
        return None, None
    numbers = []
    while not words.takes(")"):
        word = words.next()
        if word.kind == "number":
            numbers.append(int(float(word.text)))
        elif word.text != ",":
            raise DdlError(f"A size was expected in the place of {word.text!r}")
    return (numbers[0] if numbers else None), (numbers[1] if len(numbers) > 1 else None)


def _attributes(words: Words, found: ColumnDefinition) -> ColumnDefinition:
    column = found.column
    while not (words.is_over or words.sees(",") or words.sees(")")):
        if words.takes("NOT", "NULL"):
            column = replace(column, is_required=True)
        elif words.takes("NULL"):
            column = replace(column, is_required=False)
        elif words.takes("DEFAULT"):
            column = replace(column, default=default_value(words))
        elif words.takes("ON", "UPDATE"):
            words.next()
            words.skip_brackets()
        elif words.takes("AUTO_INCREMENT"):
            column = replace(column, is_auto=True)
        elif words.takes("PRIMARY", "KEY") or words.takes("PRIMARY") or words.takes("KEY"):
            found, column = replace(found, is_primary=True), replace(column, is_required=True)
        elif words.takes("UNIQUE", "KEY") or words.takes("UNIQUE"):
            found = replace(found, is_unique=True)
        elif words.takes("COMMENT"):
            column = replace(column, comment=words.next().value)
        elif (sign := words.takes_any("UNSIGNED", "ZEROFILL")) is not None:
            is_zerofill = column.type.is_zerofill or sign == "ZEROFILL"
            column = replace(column, type=replace(column.type, is_unsigned=True, is_zerofill=is_zerofill))
        elif (own := charset_clause(words)) is not None:
            if own and own != "default":
                column = replace(column, type=replace(column.type, charset=own))
        elif (short := words.takes_any(*_SHORT)) is not None:
            column = replace(column, type=replace(column.type, charset=_SHORT[short]))
        elif words.takes("FIRST"):
            found = replace(found, is_first=True)
        elif words.takes("AFTER"):
            found = replace(found, after=column_name(words))
        elif words.sees("("):
            words.skip_brackets()
        else:
            words.next()
    return replace(found, column=column)


_SHORT: Final[Mapping[str, str]] = {"ASCII": "latin1", "UNICODE": "ucs2", "BYTE": "binary"}


def settled(found: ColumnDefinition, charset: str | None) -> ColumnDefinition:
    """Return a definition whose type is as it is in a table of a character set."""
    return replace(found, column=replace(found.column, type=_settled(found.column.type, charset)))


def converted(type_: SqlType, charset: str) -> SqlType:
    """Return a text's type in another character set, in which it has room for as many characters."""
    if type_.values:
        return replace(type_, charset=charset)
    if not type_.is_text:
        return type_
    before = _CHARSET_BYTES.get(type_.charset or "", 1)
    if type_.name.endswith("TEXT"):
        most = next(most for most, prefix in _SIZES if type_.name == f"{prefix}TEXT")
        type_ = replace(type_, name="TEXT", width=most // before * (before if charset == "binary" else 1))
    elif charset == "binary":
        type_ = replace(type_, width=(type_.width or 1) * before)
    return _settled(replace(type_, charset=charset), charset)


def _settled(type_: SqlType, charset: str | None) -> SqlType:
    """Return a type with its character set, and the name that it has by its length."""
    if type_.is_text or type_.values:
        type_ = replace(type_, charset=type_.charset or charset)
    if type_.charset == "binary" and type_.name in _BINARY:
        type_ = replace(type_, name=_BINARY[type_.name], charset=None)
    if type_.name in ("TEXT", "BLOB") and type_.width is not None:
        size = type_.width * _CHARSET_BYTES.get(type_.charset or "", 1)
        prefix = next(prefix for most, prefix in _SIZES if size <= most)
        type_ = replace(type_, name=f"{prefix}{type_.name}", width=None)
    return type_


def default_value(words: Words) -> str | None:
    """Take what stands behind `DEFAULT`: a constant as text, `CURRENT_TIMESTAMP`; None for null and what is computed."""
    sign = "-" if words.takes("-") else ""
    words.takes("+")
    if words.sees("("):
        words.skip_brackets()
        return None
    word = words.next()
    if word.kind in ("number", "bits", "text"):
        while word.kind == "text" and words.peek().kind == "text":  # 'a' 'b' is one text
            word = replace(word, value=word.value + words.next().value)
        return sign + word.value
    if word.kind == "hex":
        return bytes.fromhex(word.value.rjust(len(word.value) + len(word.value) % 2, "0")).decode("latin-1")
    upper = word.text.upper()
    is_call = words.sees("(")
    words.skip_brackets()
    if upper in _NOW:
        return "CURRENT_TIMESTAMP"
    if upper in ("TRUE", "FALSE") and not is_call:
        return "1" if upper == "TRUE" else "0"
    return None
