"""CREATE OR REPLACE: what of a stream or a table may change under those who read it, and what may not."""

from __future__ import annotations

from ottla.sql.catalogue import Source
from ottla.sql.errors import SqlError


def check_replacement(known: Source, made: Source) -> None:
    """Raise SqlError, in ksqlDB's words, where a definition cannot follow another: only columns may come, at the end."""
    begin = f"Cannot upgrade data source: DataSource '{known.name}'"
    if known.kind != made.kind:
        raise SqlError(f"{begin} has type = {known.kind} which is not upgradeable to {made.kind}")
    if known.topic != made.topic:
        raise SqlError(f"{begin} has topic = {known.topic} which is not upgradeable to {made.topic}")
    for what, before, after in (
        ("key format", known.layout.key_format, made.layout.key_format),
        ("value format", known.layout.value_format, made.layout.value_format),
        ("timestamp column", known.timestamp, made.timestamp),
    ):
        if before != after:
            raise SqlError(f"{begin} has {what} = {before} which is not upgradeable to {after}")
    if known.schema.key != made.schema.key:
        raise SqlError(f"{begin} has key columns {_listed(known)} which are not upgradeable to {_listed(made)}")
    kept = made.schema.value[: len(known.schema.value)]
    if kept != known.schema.value:
        lost = [str(each) for each in known.schema.value if each not in made.schema.value]
        raise SqlError(
            f"{begin} has schema = {known.schema} which is not upgradeable to {made.schema}. "
            f"(The following columns are changed, missing or reordered: [{', '.join(lost) or 'their order'}])"
        )


def _listed(source: Source) -> str:
    return ", ".join(map(str, source.schema.key)) or "none"
