"""The doors: for each what of size n may come, and the call that reads it. A new door is one more entry of `DOORS`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ottla.schemas import InvalidSchemaError, SchemaType, parse
from ottla.sql import SqlError, split_statements
from ottla.sql.commands import ServerState, decide
from ottla.sql_server.errors import StatementError
from ottla.sql_server.rest.bodies import statement_body

__all__ = ["DOORS", "REFUSALS", "Door", "read_or_refused"]

REFUSALS = (SqlError, StatementError, InvalidSchemaError, RecursionError)
"""How a door refuses; the servers answer 400 and 422 to each."""


@dataclass(frozen=True)
class Door:
    """What may come, by kind, of a size; and what reads it."""

    read: Callable[[str], object]
    kinds: Mapping[str, Callable[[int], str]]
    sizes: tuple[int, int] = (40, 160)
    """Between which growth is measured."""


def read_or_refused(door: Door, text: str) -> bool:
    """Return whether a text was read; False for a refusal. Lets through everything else, which is a mistake of ours."""
    try:
        door.read(text)
    except REFUSALS:
        return False
    return True


def _statements(text: str) -> object:
    return [each.parse({}, {"V": "x" * 100}) for each in split_statements(text)]


def _body(text: str) -> object:
    return statement_body(text.encode(errors="replace"), "ksql", "streamsProperties")


def _plan(text: str) -> object:
    state = ServerState()
    for each in split_statements(text):
        made = decide(each.parse(state.catalogue.types), each.text, state, properties={}, settings={}, number=1)
        assert made.expected is not None
        state = made.expected.state
    return state


def _columns(count: int) -> str:
    columns = ", ".join(f"c{each} INT" for each in range(count))
    return f"CREATE STREAM s (k STRING KEY, {columns}) WITH (kafka_topic='t', value_format='JSON', partitions=1);"


def _select(items: str, more: str = "") -> Callable[[int], str]:
    """A query that selects an item of each of n columns."""

    def made(count: int) -> str:
        listed = ", ".join(items.replace("#", str(each)) for each in range(count))
        return f"{_columns(count)} CREATE STREAM x AS SELECT k, {listed} FROM s {more} EMIT CHANGES;"

    return made


def _repeated(before: str, each: str, after: str, between: str = "") -> Callable[[int], str]:
    """A text with a part n times; `#` in it is its number."""

    def made(count: int) -> str:
        return before + between.join(each.replace("#", str(at)) for at in range(count)) + after

    return made


def _nested(opening: str, inner: str, closing: str) -> Callable[[int], str]:
    return lambda count: opening * count + inner + closing * count


def _avro(count: int) -> str:
    fields = [{"name": f"f{each}", "type": ["null", "string"], "default": None} for each in range(count)]
    return json.dumps({"type": "record", "name": "R", "fields": fields})


def _avro_deep(count: int) -> str:
    found: object = "int"
    for _ in range(count):
        found = {"type": "array", "items": found}
    return json.dumps(found)


def _in_sql(deep: Callable[[int], str], before: str = "SELECT ", after: str = " FROM s;") -> Callable[[int], str]:
    return lambda count: f"{before}{deep(count)}{after}"


DOORS: dict[str, Door] = {
    "sql-statements": Door(
        _statements,
        {
            "brackets": _in_sql(_nested("(", "1", ")")),
            "open brackets": _in_sql(_nested("(", "1", "")),
            "structs": _in_sql(_nested("STRUCT<a ", "INT", ">"), "CREATE STREAM s (v ", ");"),
            "maps": _in_sql(_nested("MAP<STRING, ", "INT", ">"), "CREATE STREAM s (v ", ");"),
            "case": _repeated("SELECT CASE ", "WHEN a = # THEN # ", "END FROM s;"),
            "nested case": _in_sql(_nested("CASE WHEN a THEN ", "1", " END")),
            "not": _in_sql(_nested("NOT ", "a", "")),
            "signs": _in_sql(_nested("- ", "1", "")),
            "sums": _repeated("SELECT ", "a", " FROM s;", " + "),
            "and": _repeated("SELECT * FROM s WHERE ", "a = #", ";", " AND "),
            "in": _repeated("SELECT * FROM s WHERE a IN (", "#", ");", ", "),
            "columns": _repeated("CREATE STREAM s (", "c# INT", ") WITH (kafka_topic='t');", ", "),
            "one column": _repeated("CREATE STREAM s (", "c INT", ") WITH (kafka_topic='t');", ", "),
            "properties": _repeated("CREATE STREAM s (a INT) WITH (", "'p#'='#'", ");", ", "),
            "calls": _in_sql(_nested("f(", "1", ")")),
            "lambdas": _in_sql(_nested("f(a => ", "1", ")")),
            "subscripts": _repeated("SELECT a", "[#]", " FROM s;"),
            "arrows": _repeated("SELECT a", "->b", " FROM s;"),
            "joins": _repeated("SELECT * FROM s ", "JOIN t# ON s.a = t#.a ", "EMIT CHANGES;"),
            "statements": _repeated("", "LIST STREAMS; ", ""),
            "defines": _repeated("", "DEFINE a# = '#'; ", ""),
            "variables": _repeated("SELECT '", "${v}", "' FROM s;"),
            "semicolons": _repeated("", ";", ""),
            "comments": _repeated("", "/* # */ -- #\n", "LIST STREAMS;"),
            "open comments": _repeated("LIST STREAMS; ", "/* ", ""),
            "quotes": _repeated("SELECT '", "''", "' FROM s;"),
            "open quote": _repeated("SELECT '", "a ", ""),
            "open backticks": _repeated("SELECT ", "`a", ""),
            "long name": _repeated("SELECT ", "a", " FROM s;"),
            "long number": _repeated("SELECT ", "9", " FROM s;"),
            "zeros": _repeated("SELECT 1 FROM s", "\0", ";"),
            "halves": _repeated("SELECT '", "\ud800", "' FROM s;"),
            "spaces": _repeated("LIST", " \n\t", "STREAMS;"),
            "insert": _repeated("INSERT INTO s VALUES (", "#", ");", ", "),
        },
        (60, 240),
    ),
    "sql-plan": Door(
        _plan,
        {
            "columns": _select("c# + 1 AS d#"),
            "unnamed": _select("c# + 1"),
            "all of it": lambda count: f"{_columns(count)} CREATE STREAM x AS SELECT * FROM s EMIT CHANGES;",
            "one column": _select("c0 AS d#"),
            "case": _repeated(
                f"{_columns(1)} CREATE STREAM x AS SELECT k, CASE ", "WHEN c0 = # THEN # ", "END FROM s EMIT CHANGES;"
            ),
            "aggregates": lambda count: (
                _columns(count)
                + "CREATE TABLE x AS SELECT k, "
                + ", ".join(f"SUM(c{each}) AS d{each}" for each in range(count))
                + " FROM s GROUP BY k EMIT CHANGES;"
            ),
            "joined": lambda count: (
                _columns(count)
                + _columns(count).replace("STREAM s", "STREAM r")
                + "CREATE STREAM x AS SELECT * FROM s JOIN r WITHIN 1 HOURS ON s.k = r.k EMIT CHANGES;"
            ),
        },
    ),
    "sql-body": Door(
        _body,
        {
            "arrays": _nested("[", "", "]"),
            "objects": _nested('{"a":', "1", "}"),
            "properties": _repeated('{"ksql":"LIST STREAMS;","streamsProperties":{', '"p#":"#"', "}}", ","),
            "one property": _repeated(
                '{"ksql":"LIST STREAMS;","streamsProperties":{', '"auto.offset.reset":"latest"', "}}", ","
            ),
            "variables": _repeated('{"ksql":"LIST STREAMS;","sessionVariables":{', '"v#":"#"', "}}", ","),
            "long number": _repeated('{"ksql":"LIST STREAMS;","commandSequenceNumber":', "9", "}"),
            "open text": _repeated('{"ksql":"', "a\\u0000\\ud800", ""),
        },
    ),
    "avro": Door(lambda text: parse(SchemaType.AVRO, text), {"fields": _avro, "deep": _avro_deep}),
    "json-schema": Door(
        lambda text: parse(SchemaType.JSON, text),
        {
            "properties": _repeated('{"type":"object","properties":{', '"p#":{"type":"string"}', "}}", ","),
            "deep": _nested('{"items":', "{}", "}"),
            "any of": _repeated('{"anyOf":[', '{"const":#}', "]}", ","),
        },
    ),
    "protobuf": Door(
        lambda text: parse(SchemaType.PROTOBUF, text),
        {
            "fields": lambda count: (
                'syntax = "proto3"; message M { '
                + " ".join(f"string f{each} = {each + 1};" for each in range(count))
                + " }"
            ),
            "messages": _repeated('syntax = "proto3"; ', "message M# { string f = 1; } ", ""),
            "deep": lambda count: (
                'syntax = "proto3"; ' + "".join(f"message M{each} {{ " for each in range(count)) + "}" * count
            ),
        },
    ),
}
