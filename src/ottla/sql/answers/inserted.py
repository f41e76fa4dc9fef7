"""A JSON object of /inserts-stream as the record that is written; its rules are those of INSERT INTO … VALUES."""

from __future__ import annotations

import json
from collections.abc import Mapping

from ottla.sql.catalogue import Catalogue
from ottla.sql.errors import RegistryAwayError, SqlError
from ottla.sql.formats import FormatError
from ottla.sql.formats.json import compact_text, json_codec
from ottla.sql.inserting import (
    PSEUDO_NAMES,
    InsertedRecord,
    check_primary_key,
    check_time,
    record_of,
    writable_source,
)
from ottla.sql.schema import SqlColumn
from ottla.sql.types import BIGINT, SqlType, backticked


def inserted_fields(name: str, fields: Mapping[str, object], catalogue: Catalogue) -> InsertedRecord:
    """The record of a JSON object, its numbers with a point as DECIMALs; raises SqlError."""
    given = {
        key[1:-1] if len(key) > 1 and key[0] == key[-1] == "`" else key.upper(): each for key, each in fields.items()
    }
    source = writable_source(name, catalogue, tuple(given))
    types = {column.name: column.type for column in (*source.schema.key, *source.schema.value)}
    try:
        for each in given:
            if each not in types and each not in PSEUDO_NAMES:
                raise SqlError(f"Column name {backticked(each)} does not exist.")
            if each in PSEUDO_NAMES and each != "ROWTIME":
                raise SqlError(f"Inserting into column {backticked(each)} is not allowed.")
        found = {each: _parsed(each, {**types, "ROWTIME": BIGINT}[each], value) for each, value in given.items()}
        time = check_time(found.pop("ROWTIME", None))
        if source.kind == "TABLE":
            check_primary_key(found, source)
        return record_of(source, found, time)
    except RegistryAwayError:
        raise
    except SqlError as error:
        raise SqlError(f"Failed to insert values into '{source.name}'. {error}") from None


def _parsed(name: str, type_: SqlType, value: object) -> object:
    """A value of JSON as a column's."""
    try:
        column = SqlColumn(name, type_, "value")
        row = json_codec([column], wrapped=True).decode(compact_text({name: value}).encode(errors="replace"))
    except FormatError as error:
        raise SqlError(
            f"Can't coerce a field of type {json.dumps(type(value).__name__)} into {type_}: {error}"
        ) from None
    return None if row is None else row[0]
