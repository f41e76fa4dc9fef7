"""Texts become statements, statements become texts, and what is neither is refused in ksqlDB's words."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given

from ottla.sql import (
    ParseError,
    SqlError,
    expression_text,
    parse_expression,
    parse_statement,
    parse_type_text,
    quoted,
    split_statements,
    statement_text,
    substituted,
)
from ottla.sql import types as t
from ottla.sql.tree import expressions as e
from ottla.sql.tree import queries as q
from ottla.sql.tree import statements as s
from tests.sql import trees


@given(trees.EXPRESSIONS)
def test_an_expression_prints_as_what_parses_to_it(expression: e.Expression) -> None:
    assert parse_expression(expression_text(expression, quoted)) == expression


@given(trees.STATEMENTS)
def test_a_statement_prints_as_what_parses_to_it(statement: s.Statement) -> None:
    assert parse_statement(statement_text(statement), testing=True) == statement


@given(trees.TYPES)
def test_a_type_prints_as_what_parses_to_it(type_: t.SqlType) -> None:
    assert parse_type_text(str(type_)) == type_


@pytest.mark.parametrize(
    ("sql", "canonical"),
    [
        ("1 + 2 * 3", "(1 + (2 * 3))"),
        ("1 - 5 - -5", "((1 - 5) - -5)"),
        ("- - 5", "- -5"),
        ("-a * b % c / d", "(((-A * B) % C) / D)"),
        ("a || 'x' || b + c", "CONCAT(CONCAT(A, 'x'), (B + C))"),
        ("not a = 1 and b or c", "(((NOT (A = 1)) AND B) OR C)"),
        ("a != 1", "(A <> 1)"),
        ("a not between 1 and 2 and b not in (1) and c not like 'x'", None),
        ("a is not distinct from b", "(NOT (A IS DISTINCT FROM B))"),
        ("s->a->b[1]['k']", "S->A->B[1]['k']"),
        ('`s`->"a b"', "s->a b"),
        ("1.20", "1.20"),
        (".5 + 5.", "(0.5 + 5)"),
        ("1e0 + 12.50E-3 + 0e5", "((1E0 + 1.25E-2) + 0E0)"),
        ("2147483648", "2147483648"),
        ("DECIMAL", None),
        ("cast(null as int array)", "CAST(null AS ARRAY<INTEGER>)"),
        ("cast(a as varchar(10))", "CAST(A AS STRING)"),
        ("count(*)", "COUNT(*)"),
        ("f(x => x, 1)", "F((X) => X, 1)"),
        ("f((x, y) => x + y + z)", "F((X, Y) => ((X + Y) + Z))"),
        ("dateadd(hour, 1)", "DATEADD(HOUR, 1)"),
        ("dateadd(hours, 1)", "DATEADD(HOURS, 1)"),
        ("case a when 1 then 2 end", "(CASE A WHEN 1 THEN 2 END)"),
        ("map('a' := 1, 'b':=2)", "MAP('a':=1, 'b':=2)"),
        ("1st + 2_b", "(1ST + 2_B)"),
        ("'it''s' -- comment\n || /* and \n more */ 'x'", "CONCAT('it''s', 'x')"),
    ],
)
def test_expressions_are_bracketed_by_precedence(sql: str, canonical: str | None) -> None:
    if sql == "DECIMAL":
        with pytest.raises(ParseError, match="at or near 'DECIMAL'"):
            parse_expression(sql)
    elif canonical is None:
        assert expression_text(parse_expression(sql)).count("NOT") == 3
    else:
        assert expression_text(parse_expression(sql)) == canonical


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELEC * FROM x;", "line 1:1: Syntax Error\nUnknown statement 'SELEC'\nDid you mean 'SELECT'?"),
        ("RUN SCRIPT 'x';", "Unknown statement 'RUN'"),
        ("SELECT * FROM x", "missing ';' at '<EOF>'"),
        ("SELECT a\n  FROM x WHERE ,;", "line 2:16: Syntax Error\nSyntax error at or near ',' at line 2:16"),
        ("SELECT f(a[1, 2]) FROM x;", "missing ']' at ','"),
        ("CREATE STREAM x (a VARCHAR(foo)) WITH (a='b');", "Expecting {'STRING', INTEGER_VALUE}"),
        ("CREATE STREAM table (a INT);", '"table" is a reserved keyword and it can\'t be used as an identifier'),
        ("SELECT * FROM a JOIN b;", "Expecting {'WITHIN', 'ON'}"),
        ("SELECT a = b = c FROM x;", "line 1:14"),
        ("SELECT * FROM x GROUP BY a, (b, c);", "line 1:31"),
        ("SELECT * FROM x GROUP BY a AND b;", "line 1:28"),
        ("SELECT 'open FROM x;", "at or near ''' at line 1:8"),
        ("SELECT 99999999999999999999 FROM x;", "Invalid numeric literal: 99999999999999999999"),
        ("SELECT 1e999 FROM x;", "Number overflows DOUBLE: 1e999"),
        ("SELECT * FROM x LIMIT 1.5;", "Value must be integer for command: LIMIT"),
        ("SELECT y.a FROM x;", "'Y' is not a valid stream/table name or alias."),
        ("SELECT y.* FROM x;", "'Y' is not a valid stream/table name or alias."),
        ("SELECT a FROM `x.y`;", "Source names may only contain alphanumeric values, '_' or '-'. Got: 'x.y'"),
        ("CREATE TYPE t AS nope;", "Cannot resolve unknown type: NOPE"),
        ("CREATE TYPE t AS DECIMAL(2, 3);", "DECIMAL precision must be >= scale: DECIMAL(2,3)"),
        ("CREATE TYPE t AS STRUCT<a INT, A INT>;", "Duplicate field names found in STRUCT: `A`"),
        ("SELECT a LIKE 'x' ESCAPE '12' FROM x;", "Expected single character escape but got: 12"),
        ("SELECT " + "(" * 5000 + "1" + ")" * 5000 + " FROM x;", "Statement is too large to parse"),
        ("CREATE TYPE t AS " + "ARRAY<" * 5000 + "INT;", "Statement is too large to parse"),
        ("SELECT " + "NOT " * 5000 + "a FROM x;", "Statement is too large to parse"),
        ("SELECT " + "+" * 5000 + "a FROM x;", "Statement is too large to parse"),
        ("EXPLAIN " * 5000 + "SHOW TYPES;", "Statement is too large to parse"),
    ],
)
def test_what_is_no_statement_is_refused_with_its_place(sql: str, message: str) -> None:
    with pytest.raises(SqlError) as refused:
        parse_statement(sql) if sql.endswith(";") else split_statements(sql)
    assert message in str(refused.value)


def test_a_long_chain_of_operators_is_read_and_printed() -> None:
    chain = " OR ".join(f"a = {number}" for number in range(2000))
    text = expression_text(parse_expression(chain))
    assert text.startswith("(((") and text.endswith("OR (A = 1999))")


def test_statements_are_found_one_by_one_and_parsed_when_their_types_are_known() -> None:
    script = "CREATE TYPE point AS STRUCT<x INT>;\n-- next;\nCREATE STREAM s (p point, q 'x');"
    with pytest.raises(ParseError, match="line 3:29"):
        split_statements(script)
    first, second = split_statements(script.replace(", q 'x'", ""))
    created = first.parse({})
    assert isinstance(created, s.CreateType)
    stream = second.parse({"POINT": created.type})
    assert isinstance(stream, s.CreateSource) and stream.columns[0].type == t.StructType((("X", t.INTEGER),))
    assert second.text == "CREATE STREAM s (p point);"


def test_a_persistent_query_emits_changes_unless_it_says_otherwise() -> None:
    created = parse_statement("CREATE TABLE t AS SELECT a FROM s EMIT EMIT FINAL")
    assert isinstance(created, s.CreateAs) and created.query.emit == "FINAL" and created.query.source.alias == "EMIT"
    plain = parse_statement("INSERT INTO t SELECT a FROM s")
    assert isinstance(plain, s.InsertInto) and plain.query.emit == "CHANGES"
    pull = parse_statement("SELECT a FROM s")
    assert isinstance(pull, s.QueryStatement) and pull.query.pull


def test_units_of_time_are_known_in_both_numbers() -> None:
    assert q.Duration(2, "HOURS").ms == 7_200_000
    statement = parse_statement("SELECT a FROM l JOIN r WITHIN (1 DAY, 30 SECONDS) GRACE PERIOD 5 MINUTES ON l.a = r.a")
    assert isinstance(statement, s.QueryStatement)
    within = statement.query.joins[0].within
    assert within is not None and within.grace is not None
    assert (within.before.ms, within.after.ms, within.grace.ms) == (86_400_000, 30_000, 300_000)


@pytest.mark.parametrize(
    ("statement", "variables", "expected"),
    [
        ("SELECT * FROM ${s} WHERE a = ${v};", {"s": "t", "v": "'x'"}, "SELECT * FROM t WHERE a = 'x';"),
        ("SELECT '${v}' FROM s;", {"V": "it's"}, "SELECT 'it''s' FROM s;"),
        ("SELECT '${unknown}' FROM s; -- ${v}", {"v": "1"}, "SELECT '${unknown}' FROM s; -- ${v}"),
        ("SET '${k}' = '${v}';", {"k": "a", "v": "b"}, "SET 'a' = 'b';"),
    ],
)
def test_variables_are_replaced(statement: str, variables: dict[str, str], expected: str) -> None:
    assert substituted(statement, variables) == expected


@pytest.mark.parametrize("value", ["s; DROP STREAM s", "s WHERE a", "a.b", "'", "''' OR 1"])
def test_a_variables_value_cannot_become_more_than_a_name_or_a_literal(value: str) -> None:
    with pytest.raises(ParseError, match="Illegal argument at Line: 1, Col: 15"):
        substituted("SELECT * FROM ${s};", {"s": value})
    with pytest.raises(ParseError, match="Illegal argument"):
        substituted("SELECT * FROM s WHERE a = ${v};", {"v": value})


def test_a_parse_error_comes_whole_from_another_process() -> None:
    with pytest.raises(ParseError) as refused:
        parse_expression("1 +")
    again = pickle.loads(pickle.dumps(refused.value))
    assert (str(again), again.line, again.column) == (str(refused.value), 1, 4)
