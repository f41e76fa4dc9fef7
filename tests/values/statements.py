"""Statements of every kind with hostile names and literals, and schemas with hostile texts: done, or refused by name."""

from __future__ import annotations

import json
from collections.abc import Iterator

from ottla.schemas import InvalidSchemaError, SchemaType, parse
from ottla.sql import SqlError, document_changes, document_condition, expression_text, parse_expression, quoted
from ottla.sql.testing import Refused, run_case
from tests.hostile_values import NAMES, NUMBERS, TEXTS
from tests.values.watched import Case, short

COLUMNS_MAX = 1000
SOURCE = "CREATE STREAM S (K STRING KEY, A BIGINT, D STRING) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');"
OF_NAMES = (
    "CREATE STREAM {0} (K STRING KEY, A INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');",
    "CREATE TABLE {0} ({0} STRING PRIMARY KEY, A INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');",
    SOURCE + "CREATE STREAM {0} AS SELECT K, A AS {0} FROM S;",
    SOURCE + "CREATE TABLE T AS SELECT D AS {0}, COUNT(*) AS C FROM S GROUP BY D;",
    SOURCE + "SELECT {0} FROM S EMIT CHANGES;",
    "CREATE TYPE {0} AS STRUCT<{0} INT>;",
    "DROP STREAM {0};",
    "DESCRIBE {0};",
    "TERMINATE {0};",
    "INSERT INTO {0} ({0}) VALUES (1);",
    SOURCE + "ALTER STREAM S ADD COLUMN {0} INT;",
    "DEFINE {0} = 'x';",
    "PRINT {0};",
)
OF_LITERALS = (
    "CREATE STREAM S (K STRING KEY, A INT) WITH (KAFKA_TOPIC={0}, VALUE_FORMAT='JSON');",
    "CREATE STREAM S (K STRING KEY, A INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT={0});",
    "CREATE STREAM S (K STRING KEY, A INT) WITH (KAFKA_TOPIC='s', FORMAT='DELIMITED', VALUE_DELIMITER={0});",
    "CREATE STREAM S (K STRING KEY, A INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON', PARTITIONS={0}, REPLICAS={0});",
    "CREATE STREAM S (A BIGINT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON', TIMESTAMP='A', TIMESTAMP_FORMAT={0});",
    SOURCE + "INSERT INTO S (K, D) VALUES ({0}, {0});",
    SOURCE + "INSERT INTO S (ROWTIME, K, A) VALUES ({0}, 'k', {0});",
    SOURCE + "CREATE STREAM O AS SELECT K, {0} AS X FROM S WHERE D = {0} OR A > {0};",
    SOURCE + "CREATE TABLE O AS SELECT K, COUNT(*) AS C FROM S WINDOW TUMBLING (SIZE {0} SECONDS) GROUP BY K;",
    "SET {0} = {0};",
    "SET 'auto.offset.reset' = {0};",
    "CREATE STREAM S (K STRING KEY, A DECIMAL({0}, {0})) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');",
    SOURCE + "CREATE STREAM O AS SELECT K, CAST({0} AS DECIMAL(5, 2)) AS X, CAST({0} AS DATE) AS Y FROM S;",
)
ERRORS = (SqlError, Refused)
REFUSED = (InvalidSchemaError,)


def cases(*rooms: str) -> Iterator[Case]:
    """All statements, conditions and schemas."""
    for text in (*NAMES, *(each for each in TEXTS if len(each) < 6000), ""):
        for statement in OF_NAMES:
            for name in {text, f"`{text}`", quoted(text)}:
                yield _carried_out(statement.replace("{0}", name))
    for literal in (
        *(f"'{each.replace(chr(39), chr(39) * 2)}'" for each in TEXTS),
        *NUMBERS,
        "NULL",
        "TRUE",
        "ARRAY[]",
        "MAP()",
    ):
        for statement in OF_LITERALS:
            yield _carried_out(statement.replace("{0}", literal))
        yield Case(f"text of {short(literal)}", lambda literal=literal: _again(literal), ERRORS)
        for make in (document_condition, document_changes):
            yield Case(
                f"asks {short(literal)}", lambda make=make, literal=literal: make(f"value.a = {literal}"), ERRORS
            )
    for text in _large():
        yield _carried_out(text)
    yield from _schemas()


def _carried_out(text: str) -> Case:
    return Case(f"{short(text[:200])} {len(text)}", lambda: run_case(text, []), ERRORS)


def _again(literal: str) -> None:
    tree = parse_expression(literal)
    text = expression_text(tree)
    assert len(text) <= 2 * len(literal) + 2_100
    assert expression_text(parse_expression(text)) == text


def _large() -> Iterator[str]:
    columns = ", ".join(f"C{at} INT" for at in range(COLUMNS_MAX))
    wide = f"CREATE STREAM S ({columns}) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');"
    yield wide
    yield wide + "CREATE STREAM O AS SELECT * FROM S;"
    for opening, closing in (
        ("(", ")"),
        ("ARRAY[", "]"),
        ("NOT ", ""),
        ("-", ""),
        ("STRUCT(A:=", ")"),
        ("CASE WHEN TRUE THEN ", " END"),
    ):
        yield f"{SOURCE}CREATE STREAM O AS SELECT K, {opening * 3000}A{closing * 3000} AS X FROM S;"
    for between in (" + ", " OR ", " AND ", " || ", " = "):
        yield f"{SOURCE}CREATE STREAM O AS SELECT K, {between.join(['A'] * 3000)} AS X FROM S;"
    yield f"CREATE STREAM S (A {'ARRAY<' * 3000}INT{'>' * 3000}) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');"
    yield f"CREATE STREAM S (A {'STRUCT<A ' * 3000}INT{'>' * 3000}) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');"


def _schemas() -> Iterator[Case]:
    record = '{"type":"record","name":%s,"fields":[{"name":%s,"type":%s,"default":%s}]}'
    for kind in SchemaType:
        for text in TEXTS:
            yield Case(f"{kind} {short(text)}", lambda kind=kind, text=text: parse(kind, text), REFUSED)
    for name in (*NAMES, *TEXTS[:17]):
        written = json.dumps(name)
        texts = [(SchemaType.AVRO, record % (written, written, '"int"', "1"))]
        texts.append(
            (SchemaType.JSON, f'{{"title":{written},"type":"object","properties":{{{written}:{{"type":"string"}}}}}}')
        )
        texts.append((SchemaType.PROTOBUF, f'syntax = "proto3"; message {name} {{ string {name} = 1; }}'))
        for kind, text in texts:
            yield Case(f"{kind} named {short(name)}", lambda kind=kind, text=text: parse(kind, text), REFUSED)
    for number in NUMBERS:
        texts = [(SchemaType.AVRO, record % ('"R"', '"a"', each, number)) for each in ('"int"', '"double"', '"string"')]
        decimal = f'{{"type":"bytes","logicalType":"decimal","precision":{number},"scale":{number}}}'
        texts.append((SchemaType.AVRO, record % ('"R"', '"a"', decimal, '"x"')))
        texts.append(
            (SchemaType.JSON, f'{{"type":"number","multipleOf":{number},"enum":[{number}],"maxLength":{number}}}')
        )
        texts.append(
            (SchemaType.PROTOBUF, f'syntax = "proto2"; message M {{ optional double a = 1 [default = {number}]; }}')
        )
        texts.append((SchemaType.PROTOBUF, f'syntax = "proto3"; message M {{ string a = {number}; }}'))
        for kind, text in texts:
            yield Case(
                f"{kind} with {short(number)} {short(text)}", lambda kind=kind, text=text: parse(kind, text), REFUSED
            )
