"""What functions make of little is bounded, and so is what they hold all threads for."""

from __future__ import annotations

import tracemalloc

import pytest

from ottla.sql import EvaluationError, parse_expression
from ottla.sql.expressions import Scope, compile_expression
from ottla.sql.expressions.compiler import compiled
from ottla.sql.functions.collections import array_distinct, array_except, array_intersect, array_sort_by, array_union
from ottla.sql.types import STRING

BIG = "LPAD('', 16000000, 'a')"


def value(text: str) -> object:
    return compiled(parse_expression(text), Scope.of(())).evaluate(())


@pytest.mark.parametrize(
    "text",
    [
        f"REPLACE({BIG}, 'a', 'bbb')",
        "REGEXP_REPLACE(LPAD('', 6000, 'a'), 'a', LPAD('', 6000, 'b'))",
        f"CONCAT({BIG}, {BIG})",
        f"CONCAT_WS({BIG}, 'a', 'b', 'c')",
        f"ARRAY_JOIN(ARRAY['a', 'b', 'c'], {BIG})",
        "REDUCE(GENERATE_SERIES(1, 60), 'a', (s, x) => s + s)",
        "REDUCE(GENERATE_SERIES(1, 60), ARRAY['a'], (s, x) => ARRAY_CONCAT(s, s))",
        "TRANSFORM(GENERATE_SERIES(1, 100000), x => GENERATE_SERIES(1, 100000))",
        "TRANSFORM(GENERATE_SERIES(1, 300), x => TRANSFORM(GENERATE_SERIES(1, 300), y => GENERATE_SERIES(1, 300)))",
        "GENERATE_SERIES(1, 100000000)",
        f"SPLIT({BIG}, 'a')",
    ],
)
def test_a_result_that_is_too_large_is_refused_before_it_is_made(text: str) -> None:
    with pytest.raises(EvaluationError, match="at most"):
        value(text)


def test_equal_elements_are_found_whatever_they_are_and_the_first_stays() -> None:
    structs: list[object] = [{"A": 1, "B": [1, None]}, {"B": [1, None], "A": 1}, {"A": 2}, None, None]
    assert array_distinct(structs) == [structs[0], structs[2], None]
    assert array_except(structs, [{"A": 2}]) == [structs[0], None]
    assert array_intersect([[1], [2], [1]], [[1], [3]]) == [[1]]
    assert array_union([1, 2, 1], [3, 2]) == [1, 2, 3]


@pytest.mark.parametrize("order", ["ASC", "DESC"])
def test_many_elements_are_sorted_as_few_are(order: str) -> None:
    items: list[object] = [(each * 7919) % 120_001 for each in range(120_000)]
    assert array_sort_by([*items, None], order) == [*sorted(items, reverse=order == "DESC"), None]  # type: ignore[type-var]


@pytest.mark.parametrize(
    "text",
    [
        "EXTRACTJSONFIELD('{}', CONCAT('$.', V))",
        "REGEXP_REPLACE('b', 'a|b', V)",
        "'abc' LIKE V",
        "PARSE_DATE(V, 'yyyy-MM-dd')",
        "REGEXP_EXTRACT(V, 'b')",
    ],
)
def test_texts_of_rows_are_not_kept_for_rows_that_may_come(text: str) -> None:
    evaluate = compile_expression(parse_expression(text), Scope.of([(None, "V", STRING)]))
    evaluate(("a",))
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for each in range(100):
            evaluate((f"{each}" + "a" * 100_000,))
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 2_000_000, "100 texts of 100,000 letters are ten million"
