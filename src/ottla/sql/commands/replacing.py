"""CREATE OR REPLACE: what of a stream or a table may change under those who read it, and what may not."""

from __future__ import annotations

from ottla.sql.catalogue import Source
from ottla.sql.errors import SqlError
from ottla.sql.schema import SqlColumn
from ottla.sql.types import backticked

REPLACES = "ksql.create.or.replace.enabled"
"""Whether CREATE OR REPLACE … AS SELECT may take the place of a query."""


def check_replacement(known: Source, made: Source) -> None:
    """Raise SqlError, in ksqlDB's words, where a definition cannot follow another: only columns may come, at the end."""
    begin = f"Cannot upgrade data source: DataSource '{backticked(known.name)}'"
    for what, before, after in (
        ("type", f"K{known.kind}", f"K{made.kind}"),
        ("topic", known.topic, made.topic),
        ("key format", known.layout.key_format, made.layout.key_format),
        ("value format", known.layout.value_format, made.layout.value_format),
        ("timestamp column", known.timestamp, made.timestamp),
    ):
        if before != after:
            raise SqlError(f"{begin} has {what} = {before} which is not upgradeable to {after}")
    why = _changed(known.schema.key, made.schema.key, "key ")
    if why is not None or len(known.schema.key) != len(made.schema.key):
        why = f"(Key columns must be identical. {why or 'There are more of them.'})"
    elif (found := _changed(known.schema.columns, made.schema.columns, "")) is not None:
        why = f"({found})"
    if why is not None:
        raise SqlError(f"{begin} has schema = {known.schema} which is not upgradeable to {made.schema}. {why}")


def _changed(before: tuple[SqlColumn, ...], after: tuple[SqlColumn, ...], what: str) -> str | None:
    """Which columns are not where they were, in words; None where all are."""
    lost = [str(column) for at, column in enumerate(before) if at >= len(after) or after[at] != column]
    return f"The following {what}columns are changed, missing or reordered: [{', '.join(lost)}]" if lost else None
