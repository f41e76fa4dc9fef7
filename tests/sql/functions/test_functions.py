"""Functions answer as ksqlDB documents them, nulls and refusals included."""

from __future__ import annotations

from decimal import Decimal

import pytest

from ottla.sql import functions
from tests.sql.evaluation import type_text, value_of


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("ABS(-3)", 3),
        ("CEIL(1.2E0)", 2.0),
        ("FLOOR(-1.2)", Decimal("-2.0")),
        ("ROUND(-2.5E0)", -2),
        ("ROUND(2.5)", Decimal(3)),
        ("ROUND(-1.25, 1)", Decimal("-1.20")),
        ("TRUNC(1.28, 1)", Decimal("1.20")),
        ("SIGN(-4)", -1),
        ("LOG(2E0, 8E0)", 3.0),
        ("GENERATE_SERIES(3, 1)", [3, 2, 1]),
        ("GENERATE_SERIES(1, 9, -1)", None),
        ("GREATEST(1, NULL, 3)", 3),
        ("GREATEST(I, F)", 7.0),
        ("LEAST('b', 'a')", "a"),
        ("COALESCE(NULL, N, I)", 7),
        ("IFNULL(NS, 'x')", "x"),
        ("NULLIF(I, 7)", None),
        ("UCASE(S)", "HELLO"),
        ("UCASE(NS)", None),
        ("INITCAP('the wORLD')", "The World"),
        ("LEN(X)", 2),
        ("CONCAT('a', NULL, 'b')", "ab"),
        ("CONCAT_WS('-', 'a', NULL, 'b')", "a-b"),
        ("SUBSTRING(S, 2)", "ello"),
        ("SUBSTRING(S, -3, 2)", "ll"),
        ("SUBSTRING(S, 9)", ""),
        ("INSTR('corporate floor', 'or')", 2),
        ("INSTR('corporate floor', 'or', 3)", 5),
        ("INSTR('corporate floor', 'or', 3, 2)", 14),
        ("INSTR('corporate floor', 'or', -3)", 5),
        ("INSTR('corporate floor', 'or', -3, 2)", 2),
        ("LPAD('Foo', 7, 'Bar')", "BarBFoo"),
        ("RPAD('Foo', 2, 'Bar')", "Fo"),
        ("LPAD('Foo', 7, '')", None),
        ("SPLIT('a,,b', ',')", ["a", "", "b"]),
        ("SPLIT('abc', '')", ["a", "b", "c"]),
        ("SPLIT_TO_MAP('a=1;b=2;c', ';', '=')", {"a": "1", "b": "2"}),
        ("MASK('My Test $123')", "Xx-Xxxx--nnn"),
        ("MASK_LEFT('My Test $123', 4)", "Xx-Xest $123"),
        ("MASK_KEEP_RIGHT('My Test $123', 4)", "Xx-Xxxx-$123"),
        ("REGEXP_EXTRACT('(.*) (.*)', 'hello there', 2)", "there"),
        ("REGEXP_EXTRACT('x', 'hello')", None),
        ("REGEXP_EXTRACT_ALL('[a-z]+', 'ab 1 cd')", ["ab", "cd"]),
        ("REGEXP_REPLACE('a1b22', '([0-9]+)', '<$1>')", "a<1>b<22>"),
        ("REGEXP_SPLIT_TO_ARRAY('a1b22c', '[0-9]+')", ["a", "b", "c"]),
        ("CHR(75)", "K"),
        ("MD5('x')", "9dd4e461268c8034f5c8564e155c67a6"),
        ("ARRAY_LENGTH(A)", 3),
        ("ARRAY_CONTAINS(NA, 1)", False),
        ("ARRAY_SORT(ARRAY[3, NULL, 1], 'DESC')", [3, 1, None]),
        ("ARRAY_JOIN(ARRAY['a', NULL], '-')", "a-null"),
        ("ARRAY_EXCEPT(A, ARRAY[1])", [3, 2]),
        ("ARRAY_MAX(ARRAY[1, NULL, 4])", 4),
        ("SLICE(A, 2, 3)", [1, 2]),
        ("ELT(2, 'a', 'b')", "b"),
        ("FIELD('b', 'a', 'b')", 2),
        ("AS_MAP(ARRAY['a', 'b'], ARRAY[1, 2])", {"a": 1, "b": 2}),
        ("ENTRIES(M, TRUE)", [{"K": "a", "V": 1}, {"K": "b", "V": 2}]),
        ("TRANSFORM(M, (k, v) => UCASE(k), (k, v) => v + 1)", {"B": 3, "A": 2}),
        ("REDUCE(NA, 5, (s, x) => s + x)", 5),
        ("GEO_DISTANCE(37.4133, -122.1162, 37.4133, -122.1162)", 0.0),
    ],
)
def test_a_function_answers(text: str, value: object) -> None:
    found = value_of(text)
    assert str(found) == str(value) if isinstance(value, Decimal) else found == value


def test_the_nearest_overload_is_taken() -> None:
    assert type_text("ROUND(F)") == "BIGINT"
    assert type_text("ABS(B)") == "BIGINT"
    assert type_text("SQRT(I)") == "DOUBLE"
    assert type_text("ABS(D)") == "DECIMAL(4, 2)"
    assert type_text("ROUND(D)") == "DECIMAL(2, 0)"


def test_every_function_says_what_it_does_and_what_it_takes() -> None:
    for function in functions.catalogue():
        assert function.description and function.overloads, function.name
