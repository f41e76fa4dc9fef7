"""Expressions have ksqlDB's types and values: Java's arithmetic, its texts, and what null is."""

from __future__ import annotations

from decimal import Decimal

import pytest

from ottla.sql import SqlError, parse_expression
from ottla.sql.expressions import Scope, compile_condition
from ottla.sql.types import BOOLEAN, INTEGER
from tests.sql.evaluation import ROW, SCOPE, type_text, value_of


@pytest.mark.parametrize(
    ("text", "type_", "value"),
    [
        ("I + 1", "INTEGER", 8),
        ("I + B", "BIGINT", (1 << 40) + 7),
        ("2147483647 + I", "INTEGER", -2147483642),
        ("-I / 2", "INTEGER", -3),
        ("-I % 4", "INTEGER", -3),
        ("I + F", "DOUBLE", 9.5),
        ("F / 0", "DOUBLE", float("inf")),
        ("D + I", "DECIMAL(13, 2)", Decimal("19.34")),
        ("D * D", "DECIMAL(9, 4)", Decimal("152.2756")),
        ("D / 2", "DECIMAL(15, 13)", Decimal("6.1700000000000")),
        ("D % 5", "DECIMAL(4, 2)", Decimal("2.34")),
        ("D + F", "DOUBLE", 14.84),
        ("S + ' you'", "STRING", "hello you"),
        ("A[1]", "INTEGER", 3),
        ("A[-1]", "INTEGER", 2),
        ("A[0]", "INTEGER", None),
        ("A[9]", "INTEGER", None),
        ("M['a']", "INTEGER", 1),
        ("M['z']", "INTEGER", None),
        ("ST->P", "INTEGER", 4),
        ("CASE WHEN I > 5 THEN 'big' ELSE 'small' END", "STRING", "big"),
        ("CASE I WHEN 1 THEN 'one' END", "STRING", None),
        ("CASE WHEN I > 9 THEN 1 ELSE NULL END", "INTEGER", None),
        ("ARRAY[1, 2.5, '3']", "ARRAY<DECIMAL(11, 1)>", [Decimal("1.0"), Decimal("2.5"), Decimal("3.0")]),
        ("ARRAY[I, B]", "ARRAY<BIGINT>", [7, 1 << 40]),
        ("MAP('k' := I)", "MAP<STRING, INTEGER>", {"k": 7}),
        ("STRUCT(P := I, Q := S)", "STRUCT<`P` INTEGER, `Q` STRING>", {"P": 7, "Q": "hello"}),
        ("TRANSFORM(A, x => x * I)", "ARRAY<INTEGER>", [21, 7, 14]),
        ("REDUCE(A, 0, (s, x) => s + x)", "INTEGER", 6),
        ("TRANSFORM(A, x => REDUCE(A, x, (s, y) => s + y))", "ARRAY<INTEGER>", [9, 7, 8]),
        ("FILTER(M, (k, v) => v > 1)", "MAP<STRING, INTEGER>", {"b": 2}),
    ],
)
def test_an_expression_has_a_type_and_a_value(text: str, type_: str, value: object) -> None:
    assert type_text(text) == type_
    found = value_of(text)
    assert str(found) == str(value) if isinstance(value, Decimal) else found == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("-0.00", "0.00"),
        ("CAST('-0.00' AS DECIMAL(4, 2))", "0.00"),
        ("CAST('-0.001' AS DECIMAL(4, 2))", "0.00"),
        ("CAST(-0.001e0 AS DECIMAL(4, 2))", "0.00"),
        ("(D - D) * -1.0", "0.000"),
        ("(D - D) / -1.0", "0.000000"),
        ("(D - D) % -5", "0.00"),
        ("-(D - D)", "0.00"),
        ("CEIL(-0.4)", "0.0"),
        ("ROUND(-0.4)", "0"),
        ("ROUND(-0.04, 1)", "0.00"),
        ("TRUNC(-0.4)", "0"),
        ("TRUNC(-0.04, 1)", "0.00"),
        ("ABS(-0.0)", "0.0"),
    ],
)
def test_decimals_have_one_zero_without_a_sign(text: str, value: str) -> None:
    assert str(value_of(text)) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("CAST(F AS STRING)", "2.5"),
        ("CAST(1E10 AS STRING)", "1.0E10"),
        ("CAST(1.25E-5 AS STRING)", "1.25E-5"),
        ("CAST(1E6 AS STRING)", "1000000.0"),
        ("CAST(D AS STRING)", "12.34"),
        ("CAST(T AS STRING)", "true"),
        ("CAST(TS AS STRING)", "2020-01-01T00:00:00.123"),
        ("CAST(DT AS STRING)", "2020-01-01"),
        ("CAST(TM AS STRING)", "10:10:10"),
        ("CAST(A AS STRING)", "[3, 1, 2]"),
        ("CAST(M AS STRING)", "{a=1, b=2}"),
        ("CAST(ST AS STRING)", "Struct{P=4}"),
        ("CAST(D AS INTEGER)", 12),
        ("CAST(-2.9E0 AS INTEGER)", -2),
        ("CAST(1E20 AS INTEGER)", 2147483647),
        ("CAST(B AS INTEGER)", 0),
        ("CAST(' 42 ' AS BIGINT)", 42),
        ("CAST('4x' AS BIGINT)", None),
        ("CAST('yes' AS BOOLEAN)", True),
        ("CAST('what' AS BOOLEAN)", False),
        ("CAST('12.345' AS DECIMAL(4, 2))", Decimal("12.35")),
        ("CAST(12345 AS DECIMAL(4, 2))", None),
        ("CAST('2020-01-01T00:00:00.123' AS TIMESTAMP)", 1_577_836_800_123),
        ("CAST('2020-01-01T02:00:00+02:00' AS TIMESTAMP)", 1_577_836_800_000),
        ("CAST('2020-01' AS DATE)", 18_262),
        ("CAST(TS AS DATE)", 18_262),
        ("CAST(TS AS TIME)", 123),
        ("CAST(A AS ARRAY<STRING>)", ["3", "1", "2"]),
        ("CAST(N AS STRING)", None),
    ],
)
def test_a_cast_converts_as_java_does(text: str, value: object) -> None:
    assert value_of(text) == value


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("N = 1", False),
        ("N <> 1", False),
        ("NOT (N = 1)", True),
        ("N IS DISTINCT FROM I", True),
        ("N IS NULL AND I IS NOT NULL", True),
        ("I BETWEEN 7 AND 9", True),
        ("I NOT BETWEEN 7 AND 9", False),
        ("I IN (1, '7')", True),
        ("N IN (1)", False),
        ("S LIKE 'h_l%'", True),
        ("S LIKE 'h!%%' ESCAPE '!'", False),
        ("I = 7.0", True),
        ("D > 12.3", True),
        ("TS > '2020-01-01'", True),
        ("'2020-01-01' = DT", True),
        ("TS >= DT", True),
        ("A = ARRAY[3, 1, 2]", True),
        ("I / 0 = 1 OR T", False),
        ("T OR I / 0 = 1", True),
    ],
)
def test_a_condition_holds_or_does_not(condition: str, holds: bool) -> None:
    assert compile_condition(parse_expression(condition), SCOPE)(ROW) is holds


def test_what_fails_is_null_and_is_told() -> None:
    errors: list[Exception] = []
    assert value_of("I / (I - 7)", errors) is None
    assert value_of("N + 1", errors) is None
    assert [str(error) for error in errors] == ["/ by zero", "null in (N + 1)"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("I = S", "Cannot compare I (INTEGER) to S (STRING) with EQUAL."),
        ("T < T", "Cannot compare T (BOOLEAN) to T (BOOLEAN) with LESS_THAN."),
        ("I = NULL", "Comparison with NULL not supported: INTEGER = NULL\nUse 'IS NULL' or 'IS NOT NULL' instead."),
        ("I + S", "Error processing expression: (I + S). Unsupported arithmetic types. INTEGER STRING"),
        ("CAST(T AS INTEGER)", "Cast of BOOLEAN to INTEGER is not supported"),
        ("S[1]", "Subscript expression (S[1]) do not apply to STRING."),
        ("ST['P']", "Use the dereference operator for STRUCTS: ST->P"),
        ("ST->Z", "Could not find field 'Z' in 'ST'."),
        ("NOWHERE", "Unknown column NOWHERE."),
        ("ARRAY[NULL]", "Cannot construct an array with all NULL elements"),
        ("ARRAY[1, S]", "operator does not exist: INTEGER = STRING (S)"),
        ("I IN (1, 'x')", 'invalid input syntax for type INTEGER: "x".'),
        ("CASE WHEN I THEN 1 END", "WHEN operand type should be boolean.\nType for 'I' is INTEGER"),
        ("CASE WHEN T THEN 1 ELSE 'a' END", "Type for the default clause should be the same as for 'THEN' clauses."),
        ("NOPE(I)", "Can't find any functions with the name 'NOPE'"),
        ("UCASE(I)", "Function 'ucase' does not accept parameters (INTEGER).\nValid alternatives are:\nUCASE(VARCHAR)"),
    ],
)
def test_what_has_no_meaning_is_refused_in_ksqldbs_words(text: str, message: str) -> None:
    with pytest.raises(SqlError) as refused:
        type_text(text)
    assert message in str(refused.value)


def test_a_column_of_two_sources_has_to_be_told_apart() -> None:
    scope = Scope.of([("L", "ID", INTEGER), ("R", "ID", INTEGER), ("R", "OK", BOOLEAN)])
    assert compile_condition(parse_expression("L.ID = 1 AND R.ID = 2 AND OK"), scope)((1, 2, True))
    with pytest.raises(SqlError, match="Column 'ID' is ambiguous"):
        compile_condition(parse_expression("ID = 1"), scope)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("ARRAY[CAST(S AS INT), I / 0, 5]", [None, None, 5]),
        ("STRUCT(A := I / 0, B := 5)", {"A": None, "B": 5}),
        ("MAP('a' := I / 0, 'b' := 5)", {"a": None, "b": 5}),
        ("COALESCE(CAST(S AS INT), 5)", 5),
        ("CAST(S AS INT) IS NULL", True),
        ("CAST(I / 0 AS STRING) IS NULL", True),
        ("COALESCE(PARSE_TIME(S, 'HH'), PARSE_TIME('10', 'HH'))", 36_000_000),
        ("IFNULL(REGEXP_EXTRACT('(', S), 'x')", "x"),
        ("COALESCE(I / 0, 5)", None),
        ("(I / 0) IS NULL", None),
        ("1 + CAST(S AS INT)", None),
    ],
)
def test_a_cast_an_element_or_an_argument_that_fails_is_null_and_the_rest_goes_on(text: str, value: object) -> None:
    errors: list[Exception] = []
    assert value_of(text, errors) == value and errors


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("NS + 'x'", "nullx"),
        ("'x' + NS", "xnull"),
        ("CAST('NaN' AS DOUBLE) <> 1E0", False),
        ("CAST('NaN' AS DOUBLE) IS DISTINCT FROM CAST('NaN' AS DOUBLE)", False),
        ("1E0 <> 2E0", True),
        ("0.1 = 1E-1", True),
        ("F = 2.50", True),
        ("9007199254740993 = 9007199254740992E0", True),
        ("CAST('NaN' AS DOUBLE) = 1.5", None),
        ("CONCAT('a', CHR(10), 'b') LIKE 'a%b'", False),
        ("'a%b' LIKE 'a!%_' ESCAPE '!'", True),
        ("'a' LIKE 'a!' ESCAPE '!'", None),
    ],
)
def test_operators_do_as_javas_do(text: str, value: object) -> None:
    assert value_of(text) == value
