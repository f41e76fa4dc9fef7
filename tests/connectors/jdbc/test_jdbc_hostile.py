"""Hostile values and names through a real database: into tables by the sink, and out of them by the source."""

from __future__ import annotations

import json
from struct import pack
from typing import Any

from ottla.connect import Schema, SchemaBuilder, SchemaType, Struct, data
from tests.connectors.jdbc.conftest import TestDatabase
from tests.connectors.jdbc.worker import Reporter, record, sink, source_tasks
from tests.hostile_values import HOSTILE, NAMES, same

NESTED = (SchemaType.ARRAY, SchemaType.MAP, SchemaType.STRUCT)

NOT_HELD = {
    "decimal: 1000 digits",
    "decimal: infinite",
    "decimal: no number",
    "decimal: of another scale",
    "decimal: with an exponent",
    "int64 huge",
    "int64 too large",
    "text: half a surrogate pair",
}
NOT_IN_POSTGRES = {"decimal: 39 digits", "decimal: 65 digits"}
NOT_IN_POSTGRES |= {"float: too large", "int16 too large", "int32 too large", "text: NUL"}
"""Its `smallint` holds what is too large for 8 bits."""

NOT_IN_SQLITE = {"decimal: 38 digits", "decimal: cents", "double: NaN", "float: NaN"}
NOT_IN_SQLITE |= {f"time: a {what} {when}" for what in ("day", "moment") for when in ("BC", "of the year 10000")}
NOT_IN_SQLITE |= {"int16 too large", "time: 24:00", "time: infinite", "time: no day any more"}


def by_schema() -> dict[Schema, list[tuple[int, str, Any]]]:
    """Return the values that one table can hold, with numbers for rows."""
    found: dict[Schema, list[tuple[int, str, Any]]] = {}
    for number, (label, schema, value) in enumerate(HOSTILE):
        found.setdefault(schema, []).append((number, label, value))
    return found


def test_each_value_comes_back_from_its_table_or_is_a_dead_letter(database: TestDatabase) -> None:
    tables = by_schema()
    reporter = Reporter()
    task = sink({**database.props, "auto.create": "true"}, reporter)
    for place, (kind, rows) in enumerate(tables.items()):
        schema = SchemaBuilder.struct().field("id", data.INT64).field("v", kind).build()
        records = []
        for number, _, value in rows:
            struct = Struct(schema, id=number)
            struct.values[1] = value
            records.append(record(struct, topic=f"t{place}", offset=number))
        task.put(records)
    refused = {HOSTILE[each.offset][0] for each, _ in reporter.reported}
    for _, error in reporter.reported:
        assert type(error).__name__ == "ConnectError" and "Traceback" not in str(error), error
    changed = []
    for place, (kind, rows) in enumerate(tables.items()):
        given = {**database.props, "mode": "bulk", "table.include.list": f"(public[.])?t{place}"}
        [source] = source_tasks(given)
        back = {each.value["id"]: each.value["v"] for each in source.poll() or []}
        for number, label, value in rows:
            if (label in refused) != (number not in back):
                changed.append((label, "is neither there nor a dead letter, or both"))
            elif label not in refused and not came_back(kind, value, back[number], database.kind):
                changed.append((label, repr(value)[:40], repr(back[number])[:40]))
    assert not changed
    assert refused == NOT_HELD | (NOT_IN_POSTGRES if database.has_schemas else NOT_IN_SQLITE)


def came_back(schema: Schema, value: Any, back: Any, kind: str) -> bool:
    if value is None or back is None:
        return value is back
    if schema.type in NESTED and isinstance(back, str):
        return bool(json.loads(back) == (value.to_dict() if isinstance(value, Struct) else value))
    if kind != "postgresql" and isinstance(value, float) and value == back == 0:
        return True  # it has no zero below zero
    if schema.type is SchemaType.FLOAT32:
        form = ">f" if kind == "postgresql" else ">d"
        return pack(form, value) == pack(form, back)
    return same(value, back)


def test_odd_names_are_names_of_tables_and_columns_or_refused(database: TestDatabase) -> None:
    upper = [each for each in NAMES if each.isupper()]  # databases may take no notice of case
    for names in ([each for each in NAMES if each not in upper], upper):
        builder = SchemaBuilder.struct().field("id", data.INT64)
        for name in names:
            builder = builder.field(name, data.STRING)
        schema = builder.build()
        table = f"t{len(names)}"
        task = sink(
            {
                **database.props,
                "auto.create": "true",
                "insert.mode": "upsert",
                "pk.mode": "record_value",
                "pk.fields": "id",
            }
        )
        value = Struct(schema, {"id": 1, **{name: f"of {name}" for name in names}})
        task.put([record(value, topic=table), record(value, topic=table)])
        [source] = source_tasks({**database.props, "mode": "bulk", "table.include.list": f"(public[.])?{table}"})
        [back] = read_once(source)
        assert back.value.to_dict() == value.to_dict()


def read_once(task: Any) -> list[Any]:
    return list(task.poll())
