"""What else strangers send at length: the registry's rules and schemas, and SQL of every kind; each a size and a text."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from ottla.registry.rest.bodies import wanted_of
from ottla.schemas import Level, SchemaType, check, parse
from ottla.sql import SqlError, parse_statement, split_statements, statement_text
from ottla.sql.catalogue import Catalogue
from ottla.sql.definitions import define
from ottla.sql.planning import plan_create_as
from ottla.sql.testing.topics import LazyRegistry
from ottla.sql.tree import statements as s
from tests.cost.growth import Growth, grows_linearly

__all__ = ["KINDS", "measured_texts"]

Kind = tuple[Callable[[int], Any], Callable[[Any], object]]
COLUMNS = 400
"""Columns of the stream that queries read."""


# ---------------------------------------------------------------- the registry


def _rules(count: int, name: Callable[[int], str]) -> dict[str, Any]:
    rules = [{"name": name(at), "type": "CEL", "tags": [f"t{at}"], "params": {f"p{at}": "x"}} for at in range(count)]
    return {"schema": "{}", "ruleSet": {"domainRules": rules}}


def _metadata(count: int) -> dict[str, Any]:
    tags = {f"f{at}": ["PII", f"x{at}"] for at in range(count)}
    return {"metadata": {"tags": tags, "properties": {f"p{at}": "x" for at in range(count)}, "sensitive": list(tags)}}


def _read(body: dict[str, Any]) -> None:
    """Read a body as the registry does; one that is refused has been looked at, too."""
    from ottla.registry.core import RegistryError

    try:
        wanted_of(body)
    except RegistryError:
        return


def _record(count: int, kind: Any = "string") -> str:
    fields = [{"name": f"f{at}", "type": kind, "default": "" if kind == "string" else None} for at in range(count)]
    return json.dumps({"type": "record", "name": "R", "fields": fields})


def _enum(count: int) -> str:
    return json.dumps({"type": "enum", "name": "E", "symbols": [f"S{at}" for at in range(count)]})


def _union(count: int) -> str:
    members = [{"type": "record", "name": f"R{at}", "fields": [{"name": "a", "type": "int"}]} for at in range(count)]
    return json.dumps(members)


def _deep(count: int) -> str:
    kind: Any = "string"
    for _ in range(min(count, 90)):  # deeper ones are refused
        kind = {"type": "array", "items": kind}
    return json.dumps(kind)


def _properties(count: int) -> str:
    properties = {f"f{at}": {"type": "string"} for at in range(count)}
    return json.dumps({"type": "object", "properties": properties, "required": list(properties)})


def _one_of(count: int) -> str:
    parts = [{"type": "object", "properties": {f"f{at}": {"type": "string"}}} for at in range(count)]
    return json.dumps({"oneOf": parts})


def _follows(kind: SchemaType) -> Callable[[str], object]:
    def run(text: str) -> object:
        schema = parse(kind, text)
        return check(Level.FULL_TRANSITIVE, schema, [(1, schema)])

    return run


# ---------------------------------------------------------------- SQL


def _columns(count: int, kind: str = "INT") -> str:
    return ", ".join(f"C{at} {kind}" for at in range(count))


def _source(count: int, kind: str = "INT") -> str:
    return f"CREATE STREAM S (K INT KEY, {_columns(count, kind)}) WITH (KAFKA_TOPIC='s', FORMAT='JSON');"


def _known() -> Catalogue:
    return _defined(_source(COLUMNS))


def _defined(text: str) -> Catalogue:
    known = Catalogue(registry=LazyRegistry(()))
    for each in split_statements(text):
        statement = each.parse({})
        statement_text(statement)
        assert isinstance(statement, s.CreateSource)
        known = define(statement, known, {})
    return known


def _planned(text: str) -> object:
    """Parse, print and plan; what is refused has been looked at, too."""
    try:
        statement = parse_statement(text)
        statement_text(statement)
        return plan_create_as(statement, _CATALOGUE[0], {}, 3) if isinstance(statement, s.CreateAs) else None
    except SqlError:
        return None


_CATALOGUE: list[Catalogue] = []


def _query(what: Callable[[int], str]) -> Callable[[int], str]:
    return lambda count: f"CREATE STREAM R AS SELECT {what(count)} EMIT CHANGES;"


def _of(count: int, each: Callable[[int], str], between: str) -> str:
    return between.join(each(at) for at in range(count))


KINDS: dict[str, Kind] = {
    "registry: rules": (lambda n: _rules(n, lambda at: f"r{at}"), _read),
    "registry: rules of one name": (lambda n: _rules(n, lambda at: "r"), _read),
    "registry: rules of one name at the end": (lambda n: _rules(n, lambda at: f"r{min(at, n - 2)}"), _read),
    "registry: metadata": (_metadata, _read),
    "Avro: fields": (_record, _follows(SchemaType.AVRO)),
    "Avro: unions in fields": (lambda n: _record(n, ["null", "string"]), _follows(SchemaType.AVRO)),
    "Avro: symbols": (_enum, _follows(SchemaType.AVRO)),
    "Avro: records of a union": (_union, _follows(SchemaType.AVRO)),
    "Avro: depth": (_deep, _follows(SchemaType.AVRO)),
    "JSON Schema: properties": (_properties, _follows(SchemaType.JSON)),
    "JSON Schema: oneOf": (_one_of, _follows(SchemaType.JSON)),
    "SQL: columns": (_source, _defined),
    "SQL: structs": (lambda n: _source(1, f"STRUCT<{_columns(n)}>"), _defined),
    "SQL: statements": (lambda n: _of(n, lambda at: f"DROP STREAM S{at};", "\n"), split_statements),
    "SQL: comments": (lambda n: "/* - */ -- x\n" * n + "SHOW STREAMS;", split_statements),
    "SQL: items": (_query(lambda n: _of(n, lambda at: f"C{at} AS D{at}", ", ") + " FROM S"), _planned),
    "SQL: equal items": (_query(lambda n: _of(n, lambda at: f"C1 + 1 AS D{at}", ", ") + " FROM S"), _planned),
    "SQL: conditions": (_query(lambda n: "C1 FROM S WHERE " + _of(n, lambda at: f"C{at} = 1", " AND ")), _planned),
    "SQL: IN": (_query(lambda n: f"C1 FROM S WHERE C1 IN ({_of(n, str, ', ')})"), _planned),
    "SQL: CASE": (
        _query(lambda n: "CASE " + _of(n, lambda at: f"WHEN C1 = {at} THEN C2", " ") + " END AS X FROM S"),
        _planned,
    ),
    "SQL: sums": (_query(lambda n: _of(n, lambda at: f"C{at}", " + ") + " AS X FROM S"), _planned),
    "SQL: brackets": (_query(lambda n: "(" * n + "C1" + ")" * n + " AS X FROM S"), _planned),
    "SQL: calls in calls": (_query(lambda n: "ABS(" * n + "C1" + ")" * n + " AS X FROM S"), _planned),
    "SQL: text": (_query(lambda n: f"'{'a' * 64 * n}' AS X FROM S"), _planned),
    "SQL: arrays": (_query(lambda n: f"ARRAY[{_of(n, str, ', ')}] AS X FROM S"), _planned),
    "SQL: maps": (_query(lambda n: "MAP(" + _of(n, lambda at: f"'k{at}' := {at}", ", ") + ") AS X FROM S"), _planned),
    "SQL: groups": (
        lambda n: (
            f"CREATE TABLE R AS SELECT COUNT(*), {_of(n, lambda at: f'C{at}', ', ')} FROM S "
            f"GROUP BY {_of(n, lambda at: f'C{at}', ', ')} EMIT CHANGES;"
        ),
        _planned,
    ),
    "SQL: aggregates": (
        lambda n: (
            f"CREATE TABLE R AS SELECT K, {_of(n, lambda at: f'SUM(C{at})', ', ')} FROM S GROUP BY K EMIT CHANGES;"
        ),
        _planned,
    ),
    "SQL: rows": (
        lambda n: f"INSERT INTO S ({_of(n, lambda at: f'C{at}', ', ')}) VALUES ({_of(n, str, ', ')});",
        _planned,
    ),
    "SQL: settings": (
        lambda n: "CREATE STREAM Q (K INT KEY) WITH (" + _of(n, lambda at: f"P{at}='x'", ", ") + ");",
        _planned,
    ),
}


def measured_texts(n: int, only: str = "") -> list[tuple[str, Growth]]:
    """Return how the cost of each kind grows."""
    _CATALOGUE[:] = [_known()]
    return [(name, grows_linearly(*kind, n)) for name, kind in KINDS.items() if only.lower() in name.lower()]
