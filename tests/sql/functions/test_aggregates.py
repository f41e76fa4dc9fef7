"""Aggregates are what ksqlDB documents; a state is undone row by row, and two are merged, to the same result."""

from __future__ import annotations

import math
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.sql import SqlError, functions
from ottla.sql.errors import EvaluationError
from ottla.sql.functions import ResolvedAggregate
from ottla.sql.types import BIGINT, BOOLEAN, BYTES, DOUBLE, INTEGER, STRING, ArrayType, DecimalType, SqlType

INTEGERS = st.none() | st.integers(-1000, 1000)


def resolved(name: str, *types: SqlType, literals: tuple[object, ...] = ()) -> ResolvedAggregate:
    function = functions.aggregate(name)
    assert function is not None, name
    return function.resolve(types, literals)


def over(aggregate: ResolvedAggregate, rows: list[tuple[object, ...]]) -> object:
    state = aggregate.initial()
    for row in rows:
        state = aggregate.add(state, *row)
    return aggregate.result(state)


@pytest.mark.parametrize(
    ("name", "type_", "literals", "values", "result", "returns"),
    [
        ("COUNT", STRING, (), ["a", None, "b"], 2, "BIGINT"),
        ("COUNT_DISTINCT", INTEGER, (), [1, 1, None, 2], 2, "BIGINT"),
        ("SUM", INTEGER, (), [2147483647, 1], -2147483648, "INTEGER"),
        ("SUM", DecimalType(4, 2), (), [Decimal("1.10"), Decimal("2.20")], Decimal("3.30"), "DECIMAL(4, 2)"),
        ("SUM", DOUBLE, (), [], 0.0, "DOUBLE"),
        ("SUM_LIST", ArrayType(BIGINT), (), [[1, 2], None, [3, None]], 6, "BIGINT"),
        ("AVG", INTEGER, (), [1, 2, None], 1.5, "DOUBLE"),
        ("AVG", INTEGER, (), [None], 0.0, "DOUBLE"),
        ("MIN", STRING, (), ["b", "a", None], "a", "STRING"),
        ("MAX", BIGINT, (), [], None, "BIGINT"),
        ("MAX", DOUBLE, (), [1.0, math.nan, 2.0], math.nan, "DOUBLE"),
        ("MIN", DOUBLE, (), [math.nan, 2.0, 1.0], 1.0, "DOUBLE"),
        ("MIN", BYTES, (), [b"\x01", b"\xff"], b"\xff", "BYTES"),
        ("MAX", STRING, (), ["\N{HANGUL SYLLABLE GA}", "\ufb01", "\U0001f600"], "\ufb01", "STRING"),
        ("TOPK", DOUBLE, (2,), [1.0, math.nan, 3.0], [math.nan, 3.0], "ARRAY<DOUBLE>"),
        ("TOPKDISTINCT", DOUBLE, (3,), [math.nan, 3.0, -math.nan], [math.nan, 3.0], "ARRAY<DOUBLE>"),
        ("TOPK", BYTES, (1,), [b"\xff", b"\x01"], [b"\x01"], "ARRAY<BYTES>"),
        ("STDDEV_SAMP", INTEGER, (), [2, 4, 6], 4.0, "DOUBLE"),
        ("STDDEV_SAMPLE", INTEGER, (), [2, 4, 6], 2.0, "DOUBLE"),
        ("TOPK", INTEGER, (2,), [1, 3, 3, 2], [3, 3], "ARRAY<INTEGER>"),
        ("TOPKDISTINCT", INTEGER, (2,), [1, 3, 3, 2], [3, 2], "ARRAY<INTEGER>"),
        ("COLLECT_LIST", INTEGER, (), [1, None, 1], [1, None, 1], "ARRAY<INTEGER>"),
        ("COLLECT_SET", INTEGER, (), [1, None, 1], [1, None], "ARRAY<INTEGER>"),
        ("HISTOGRAM", STRING, (), ["a", "b", "a"], {"a": 2, "b": 1}, "MAP<STRING, BIGINT>"),
        ("ATTR", STRING, (), ["a", "a"], "a", "STRING"),
        ("ATTR", STRING, (), ["a", "b"], None, "STRING"),
        ("LATEST_BY_OFFSET", INTEGER, (), [1, 2, None], 2, "INTEGER"),
        ("LATEST_BY_OFFSET", INTEGER, (False,), [1, None], None, "INTEGER"),
        ("LATEST_BY_OFFSET", INTEGER, (2,), [1, 2, 3], [2, 3], "ARRAY<INTEGER>"),
        ("EARLIEST_BY_OFFSET", INTEGER, (), [None, 1, 2], 1, "INTEGER"),
    ],
)
def test_an_aggregate_is_worth(
    name: str, type_: SqlType, literals: tuple[object, ...], values: list[object], result: object, returns: str
) -> None:
    aggregate = resolved(name, type_, literals=literals)
    found = over(aggregate, [(value,) for value in values])
    assert (found == result or repr(found) == repr(result)) and str(aggregate.returns) == returns  # NaN is not itself


def test_collections_are_bounded_where_a_limit_is_set() -> None:
    collect, histogram = functions.aggregate("COLLECT_LIST"), resolved("HISTOGRAM", STRING)
    assert collect is not None
    many = [(at,) for at in range(1500)]
    for limit, size in ((None, 1500), (-1, 1500), (1000, 1000), (0, 0)):
        assert len(over(collect.resolve([INTEGER], (), limit), many)) == size  # type: ignore[arg-type]
    assert len(over(histogram, [(str(at),) for at in range(1500)])) == 1000  # type: ignore[arg-type]


def test_of_merged_sessions_the_value_counts_that_came_first_or_last_and_not_the_earlier_session() -> None:
    def state(aggregate: functions.ResolvedAggregate, *values: object) -> object:
        found = aggregate.initial()
        for value in values:
            found = aggregate.add(found, value)
        return found

    for name, literals, wanted in (
        ("EARLIEST_BY_OFFSET", (), 1),
        ("LATEST_BY_OFFSET", (), 4),
        ("EARLIEST_BY_OFFSET", (3,), [1, 2, 3]),
        ("LATEST_BY_OFFSET", (3,), [1, 2, 3]),  # as ksqlDB has it
    ):
        function = functions.aggregate(name)
        assert function is not None
        aggregate = function.resolve([INTEGER], literals)
        early, late = state(aggregate, 1, 2), state(aggregate, 3, 4)
        assert aggregate.merge is not None
        assert aggregate.result(aggregate.merge(late, early)) == wanted
        assert aggregate.result(aggregate.merge(aggregate.initial(), late)) == aggregate.result(late)


def test_sums_of_an_average_overflow_as_those_of_their_type_do() -> None:
    assert over(resolved("AVG", INTEGER), [(2**31 - 1,), (1,)]) == -(2.0**30)
    assert over(resolved("AVG", BIGINT), [(2**31 - 1,), (1,)]) == 2.0**30


def test_a_correlation_of_what_lies_on_a_line_is_one() -> None:
    line = over(resolved("CORRELATION", INTEGER, DOUBLE), [(x, 2.0 * x + 1) for x in range(5)])
    assert isinstance(line, float) and math.isclose(line, 1.0)


@pytest.mark.parametrize(
    ("rows", "answer"),
    [
        ([(1, 1.5), (2, 3.25), (3, 3.75), (7, 1.1)], -0.41538355058344634),
        ([(1, 2.0)], math.nan),
        ([], math.nan),
        ([(1, 2.0), (1, 3.0)], math.nan),
    ],
)
def test_a_correlation_has_javas_last_digits(rows: list[tuple[object, ...]], answer: float) -> None:
    """The root is that of the product: Java's own answers (`CorrelationUdaf`'s formula, JDK 17)."""
    found = over(resolved("CORRELATION", INTEGER, DOUBLE), rows)
    assert isinstance(found, float) and (found == answer or (math.isnan(found) and math.isnan(answer)))


UNDONE = ("COUNT", "SUM", "AVG", "COLLECT_LIST", "ATTR", "STDDEV_SAMP", "STDDEV_SAMPLE")
MERGED = (*UNDONE, "MIN", "MAX", "COLLECT_SET", "COUNT_DISTINCT", "LATEST_BY_OFFSET", "EARLIEST_BY_OFFSET")


@given(st.sampled_from(UNDONE), st.lists(INTEGERS, max_size=8), st.lists(INTEGERS, max_size=4))
def test_what_was_added_and_undone_leaves_nothing(name: str, kept: list[int | None], gone: list[int | None]) -> None:
    aggregate = resolved(name, INTEGER)
    assert aggregate.undo is not None
    state = aggregate.initial()
    for value in [*kept, *gone]:
        state = aggregate.add(state, value)
    for value in reversed(gone):
        state = aggregate.undo(state, value)
    wanted = over(aggregate, [(value,) for value in kept])
    found = aggregate.result(state)
    if isinstance(found, float) and isinstance(wanted, float):
        assert math.isclose(found, wanted, abs_tol=1e-4), (
            "a deviation is a root, also of what rounding leaves of 1000 squared"
        )
    else:
        assert found == wanted


@given(st.sampled_from(MERGED), st.lists(INTEGERS, max_size=6), st.lists(INTEGERS, max_size=6))
def test_two_merged_states_are_that_of_all_rows(name: str, one: list[int | None], other: list[int | None]) -> None:
    aggregate = resolved(name, DOUBLE if name == "STDDEV_SAMP" else INTEGER)
    assert aggregate.merge is not None
    states = []
    for values in (one, other):
        state = aggregate.initial()
        for value in values:
            state = aggregate.add(state, value)
        states.append(state)
    found, wanted = aggregate.result(aggregate.merge(*states)), over(aggregate, [(value,) for value in [*one, *other]])
    assert found == wanted or (isinstance(found, float) and math.isclose(found, wanted, rel_tol=1e-9))  # type: ignore[arg-type]


def test_a_sum_of_decimals_that_its_type_cannot_hold_is_an_error_and_one_that_is_taken_back_is_not() -> None:
    total = resolved("SUM", DecimalType(3, 1))
    assert total.undo is not None and total.merge is not None
    held = total.add(total.add(total.initial(), Decimal("99.9")), Decimal("-0.4"))
    assert str(held) == "99.5"
    with pytest.raises(EvaluationError, match=r"precision 3 and scale 1 .* less than 10\^2\. Got 100$"):
        total.add(held, Decimal("0.6"))
    assert total.undo(held, Decimal("-0.6")) == total.merge(held, Decimal("0.6")) == Decimal("100")


def test_an_aggregate_refuses_types_that_it_does_not_take() -> None:
    words = r"Function 'SUM' does not accept parameters \(BOOLEAN\)\.\nValid alternatives are:\nSUM\(BIGINT\)\nSUM\(DEC"
    with pytest.raises(SqlError, match=words):
        resolved("SUM", BOOLEAN)
    with pytest.raises(SqlError, match="latestN must be 1 or greater"):
        resolved("LATEST_BY_OFFSET", INTEGER, literals=(0,))


def test_a_table_function_makes_rows_of_an_array() -> None:
    explode, cube = functions.table("explode"), functions.table("CUBE_EXPLODE")
    assert explode is not None and cube is not None
    assert explode.resolve([ArrayType(INTEGER)]).call([1, None]) == [1, None]
    assert explode.resolve([ArrayType(INTEGER)]).call(None) == []
    assert cube.resolve([ArrayType(INTEGER)]).call([1, 2]) == [[None, None], [None, 2], [1, None], [1, 2]]
    with pytest.raises(SqlError, match=r"Function 'explode' does not accept parameters \(INTEGER\)"):
        explode.resolve([INTEGER])


def test_a_sum_that_its_decimal_cannot_hold_fails() -> None:
    with pytest.raises(EvaluationError, match="must round to an absolute value less than 10"):
        over(resolved("SUM", DecimalType(4, 2)), [(Decimal("99.99"),), (Decimal("0.01"),)])


@pytest.mark.parametrize(
    ("name", "type_", "one", "other", "worth"),
    [
        ("STDDEV_SAMP", INTEGER, [1, 2], [4, 4], 9.5 / 3),
        ("STDDEV_SAMP", BIGINT, [-1, -2], [0], (0.5 + 2 / 3) / 2),
        ("STDDEV_SAMP", DOUBLE, [1.0, 2.0], [4.0, 4.0], 6.75 / 3),
        ("STDDEV_SAMPLE", INTEGER, [1, 2], [4, 4], math.sqrt(6.75 / 3)),
        ("STDDEV_SAMP", INTEGER, [], [4, 6], 2.0),
    ],
)
def test_two_sessions_spread_is_told_of_the_means_that_ksqldb_takes_of_their_type(
    name: str, type_: SqlType, one: list[object], other: list[object], worth: float
) -> None:
    """ksqlDB's variance of whole numbers takes whole means of two sessions, towards 0."""
    aggregate = resolved(name, type_)
    assert aggregate.merge is not None
    states = []
    for values in (one, other):
        state = aggregate.initial()
        for value in values:
            state = aggregate.add(state, value)
        states.append(state)
    found = aggregate.result(aggregate.merge(*states))
    assert isinstance(found, float) and math.isclose(found, worth)


def test_a_spread_goes_on_from_a_state_whose_sum_is_of_floats_as_earlier_versions_kept_it() -> None:
    aggregate = resolved("STDDEV_SAMP", BIGINT)
    assert aggregate.result(aggregate.add([2, 10.0, 2.0], 8)) == 4.0


def test_a_spread_of_large_whole_numbers_is_exact_where_a_float_is_not() -> None:
    far = 2**60
    assert over(resolved("STDDEV_SAMP", BIGINT), [(far + 1,), (far + 3,)]) == 2.0
