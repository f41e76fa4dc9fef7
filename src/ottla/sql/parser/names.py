"""Names of streams and tables, which have to be names of topics and stores, too."""

from __future__ import annotations

import re

from ottla.sql.errors import SqlError
from ottla.sql.parser.cursor import Cursor

_SOURCE_NAME = re.compile(r"[a-zA-Z0-9_-]*|\$\{[A-Za-z_][A-Za-z0-9_@]*\}")


def source_name(cursor: Cursor, *, is_known: bool = False) -> str:
    """Read the name of a stream or table. Raises `SqlError` for one that a topic could not have.

    One that `is_known` may be empty, as earlier versions have taken such names.
    """
    line, column = cursor.place()
    name = cursor.name(may_be_blank=is_known)
    if not _SOURCE_NAME.fullmatch(name):
        raise SqlError(
            f"Illegal argument at Line: {line}, Col: {column}. Source names may only contain alphanumeric values, '_'"
            f" or '-'. Got: '{name}'"
        )
    return name
