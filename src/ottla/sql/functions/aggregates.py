"""Aggregate functions: a state that rows are added to, and what it is worth.

A state is plain values, so that a store can hold it. `undo` takes a row out again, as a table's GROUP BY has to; functions
that cannot do that have none. `merge` joins the states of two sessions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

from ottla.sql.errors import SqlError
from ottla.sql.expressions.casts import INT_BITS, LONG_BITS, wrapped
from ottla.sql.expressions.decimals import WIDE, rounded
from ottla.sql.functions.java_order import KEYS
from ottla.sql.types import (
    BIGINT,
    DOUBLE,
    INTEGER,
    STRING,
    ArrayType,
    DecimalType,
    MapType,
    SqlType,
    StructType,
    is_number,
    is_time,
)

State = object
COUNTED_MAX = 1000
"""How many texts a HISTOGRAM counts."""
MANY = -1


@dataclass(frozen=True, slots=True)
class ResolvedAggregate:
    """An aggregate for some types. `add`, `undo` take the state and the values of a row; all return a new state."""

    returns: SqlType
    initial: Callable[[], State]
    add: Callable[..., State]
    result: Callable[..., object]
    merge: Callable[..., State] | None = None
    undo: Callable[..., State] | None = None


Make = Callable[[Sequence[SqlType | None], Sequence[object]], ResolvedAggregate | None]


_IN_SMALL_LETTERS = frozenset(("AVG", "COLLECT_LIST", "COLLECT_SET", "CORRELATION", "HISTOGRAM", "SUM_LIST"))
"""Functions whose names ksqlDB declares, and shows in messages, in small letters."""


@dataclass(frozen=True, slots=True)
class AggregateFunction:
    """An aggregate by its name; `columns` is how many arguments are columns, before the literal ones.

    Where it is `MANY`, all are but the last.
    """

    name: str
    description: str
    columns: int
    make: Make
    takes: tuple[str, ...] = ()
    """The arguments that it takes, as messages show them: `INT`, or `DOUBLE, DOUBLE`."""

    def resolve(
        self, types: Sequence[SqlType | None], literals: Sequence[object] = (), limit: int | None = None
    ) -> ResolvedAggregate:
        """The aggregate for columns of these types and literals behind them; raises SqlError in ksqlDB's words.

        `limit` is how many values one that collects them holds, negative for all.
        """
        make = self.make if limit is None or self.name not in _LIMITED else _collect(_LIMITED[self.name], limit)
        found = make(types, literals) if len(types) == self.columns or (self.columns == MANY and types) else None
        if found is None:
            given = ", ".join("null" if each is None else str(each) for each in types)
            shown = self.name.lower() if self.name in _IN_SMALL_LETTERS else self.name
            valid = "\n".join(sorted(f"{self.name}({each})" for each in self.takes))
            raise SqlError(
                f"Function '{shown}' does not accept parameters ({given}).\n"
                f"{f'Valid alternatives are:{chr(10)}{valid}{chr(10)}' if valid else ''}"
                "For detailed information on a function run: DESCRIBE FUNCTION <Function-Name>;"
            )
        return found


def _same(state: object) -> object:
    return state


# -- counts and sums


def _count(types: Sequence[SqlType | None], literals: Sequence[object]) -> ResolvedAggregate:
    def add(state: int, value: object) -> int:
        return state if value is None else state + 1

    def undo(state: int, value: object) -> int:
        return state if value is None else state - 1

    return ResolvedAggregate(BIGINT, lambda: 0, add, _same, lambda one, other: one + other, undo)


def _count_distinct(types: Sequence[SqlType | None], literals: Sequence[object]) -> ResolvedAggregate:
    def add(state: list[object], value: object) -> list[object]:
        return state if value is None or value in state else [*state, value]

    def merge(one: list[object], other: list[object]) -> list[object]:
        return [*one, *(value for value in other if value not in one)]

    return ResolvedAggregate(BIGINT, list, add, len, merge)


def _summed_type(type_: SqlType | None) -> SqlType | None:
    return type_ if type_ is not None and is_number(type_) else None


def _adder(type_: SqlType, *, bounded: bool = True) -> Callable[..., object]:
    """How values are added; without a bound the sum of decimals may have more digits than its type."""
    if isinstance(type_, DecimalType):
        exact = Context(prec=type_.precision, rounding=ROUND_HALF_UP)
        scale = Decimal((0, (1,), -type_.scale))
        if bounded:
            return lambda one, other: rounded(exact.add(one, other), type_)
        return lambda one, other: exact.add(one, other).quantize(scale, ROUND_HALF_UP, WIDE)
    if type_ == DOUBLE:
        return lambda one, other: one + other
    bits = INT_BITS if type_ == INTEGER else LONG_BITS
    return lambda one, other: wrapped(one + other, bits)


def _zero(type_: SqlType) -> object:
    if isinstance(type_, DecimalType):
        return Decimal((0, (0,), -type_.scale))
    return 0.0 if type_ == DOUBLE else 0


def _sum(types: Sequence[SqlType | None], literals: Sequence[object]) -> ResolvedAggregate | None:
    type_ = _summed_type(types[0])
    if type_ is None:
        return None
    plus, beside, zero = _adder(type_), _adder(type_, bounded=False), _zero(type_)

    def add(state: object, value: object) -> object:
        return state if value is None else plus(state, value)

    def undo(state: object, value: Decimal | None) -> object:
        return state if value is None else beside(state, -value)

    return ResolvedAggregate(type_, lambda: zero, add, _same, beside, undo)


def _sum_list(types: Sequence[SqlType | None], literals: Sequence[object]) -> ResolvedAggregate | None:
    of = types[0]
    inner = _sum([of.item], ()) if isinstance(of, ArrayType) else None
    if inner is None or inner.undo is None:
        return None
    plus, minus = inner.add, inner.undo

    def add(state: object, values: list[object] | None) -> object:
        for value in values or ():
            state = plus(state, value)
        return state

    def undo(state: object, values: list[object] | None) -> object:
        for value in values or ():
            state = minus(state, value)
        return state

    return ResolvedAggregate(inner.returns, inner.initial, add, _same, inner.merge, undo)


def _average(types: Sequence[SqlType | None], literals: Sequence[object]) -> ResolvedAggregate | None:
    if types[0] is None or not is_number(types[0]):
        return None

    whole = types[0] in (INTEGER, BIGINT)
    summed = types[0] if whole else DOUBLE
    plus, zero = _adder(summed), _zero(summed)
    read: Callable[..., Any] = _same if whole else float

    def add(state: list[Any], value: object) -> list[Any]:
        return state if value is None else [plus(state[0], read(value)), state[1] + 1]

    def undo(state: list[Any], value: object) -> list[Any]:
        return state if value is None else [plus(state[0], -read(value)), state[1] - 1]

    def merge(one: list[Any], other: list[Any]) -> list[Any]:
        return [plus(one[0], other[0]), one[1] + other[1]]

    def result(state: list[float]) -> float:
        return state[0] / state[1] if state[1] else 0.0

    return ResolvedAggregate(DOUBLE, lambda: [zero, 0], add, result, merge, undo)


# -- the spread of numbers


def _spread(root: bool) -> Make:
    """Variance or deviation by Youngs and Cramer's way: a count, a sum, and the squares of what is beside the mean.

    Sums of whole numbers are those of their type, as ksqlDB's are; so are the means that it takes of two sessions for the
    variance, and not for the deviation.
    """

    def make(types: Sequence[SqlType | None], literals: Sequence[object]) -> ResolvedAggregate | None:
        type_ = types[0]
        if type_ is None or not is_number(type_):
            return None
        whole = type_ in (INTEGER, BIGINT)
        read: Callable[..., Any] = int if whole else float
        plus: Callable[..., Any] = _adder(type_ if whole else DOUBLE)

        def moved(sign: int) -> Callable[..., list[float]]:
            def move(state: list[float], value: float | None) -> list[float]:
                if value is None:
                    return state
                count, total, more = state[0] + max(sign, 0), read(state[1]), read(value)
                after = plus(total, more) if sign > 0 else total
                far = more * count - after
                beside = 0.0 if count < 2 else float(wrapped(far, LONG_BITS) if whole else far)
                squares = 0.0 if count < 2 else beside * beside / (count * (count - 1))
                return [state[0] + sign, plus(total, sign * more), state[2] + sign * squares]

            return move

        def merge(one: list[float], other: list[float]) -> list[float]:
            count, squares = one[0] + other[0], one[2] + other[2]
            if one[0] and other[0]:
                apart = mean(one) - mean(other)
                squares += one[0] * other[0] * apart * apart / count
            return [count, plus(read(one[1]), read(other[1])), squares]

        def mean(state: list[float]) -> float:
            exact = state[1] / state[0]
            return exact if root or not whole else float(_towards_zero(int(state[1]), int(state[0])))

        def result(state: list[float]) -> float:
            count, _, squares = state
            variance = squares / (count - 1) if count > 1 else 0.0
            return math.sqrt(max(variance, 0.0)) if root else variance

        return ResolvedAggregate(DOUBLE, lambda: [0, read(0), 0.0], moved(1), result, merge, moved(-1))

    return make


def _towards_zero(number: int, by: int) -> int:
    """A whole quotient, as Java's."""
    return -(-number // by) if number < 0 else number // by


def _pairwise(one: list[float], other: list[float]) -> list[float]:
    return [a + b for a, b in zip(one, other, strict=True)]


def _correlation(types: Sequence[SqlType | None], literals: Sequence[object]) -> ResolvedAggregate | None:
    if any(each is None or not is_number(each) for each in types):
        return None

    def moved(sign: int) -> Callable[..., list[float]]:
        def add(state: list[float], x: float | None, y: float | None) -> list[float]:
            if x is None or y is None:
                return state
            a, b = float(x), float(y)
            return [old + sign * new for old, new in zip(state, (1, a, b, a * a, b * b, a * b), strict=True)]

        return add

    def result(state: list[float]) -> float:
        """As Java: the root of the product, NaN for 0 / 0 and for the root of what rounding has made negative."""
        count, x, y, xx, yy, xy = state
        above, product = count * xy - x * y, (count * xx - x * x) * (count * yy - y * y)
        below = math.sqrt(product) if product >= 0 else math.nan
        if below:
            return above / below
        return math.nan if math.isnan(above) or not above else math.copysign(math.inf, above)

    return ResolvedAggregate(DOUBLE, lambda: [0.0] * 6, moved(1), result, _pairwise, moved(-1))


# -- the greatest and the least


def _extreme(better: Callable[..., object]) -> Make:
    def make(types: Sequence[SqlType | None], literals: Sequence[object]) -> ResolvedAggregate | None:
        type_ = types[0]
        if type_ is None or not (is_number(type_) or is_time(type_) or type_.base in ("STRING", "BYTES")):
            return None
        key = KEYS.get(type_.base)

        def add(state: object, value: object) -> object:
            return value if state is None else state if value is None else better(state, value, key=key)

        return ResolvedAggregate(type_, lambda: None, add, _same, add)

    return make


def _top(distinct: bool) -> Make:
    def make(types: Sequence[SqlType | None], literals: Sequence[object]) -> ResolvedAggregate | None:
        type_ = types[0]
        if type_ is None or not (is_number(type_) or is_time(type_) or type_.base in ("STRING", "BYTES")):
            return None
        if len(literals) != 1 or not isinstance(literals[0], int):
            return None
        most, key = literals[0], KEYS.get(type_.base)

        def best(values: list[Any]) -> list[object]:
            kept = list({key(value) if key else value: value for value in values}.values()) if distinct else values
            return sorted(kept, key=key, reverse=True)[:most]

        def add(state: list[object], value: object) -> list[object]:
            return state if value is None else best([*state, value])

        return ResolvedAggregate(ArrayType(type_), list, add, _same, lambda one, other: best([*one, *other]))

    return make


def _top_rows(types: Sequence[SqlType | None], literals: Sequence[object]) -> ResolvedAggregate | None:
    """TOPK: of one column the greatest values, of several the rows with the greatest values of the first."""
    if len(types) == 1:
        return _top(False)(types, literals)
    single = _top(False)(types[:1], literals)
    rest = [each for each in types[1:] if each is not None]
    if single is None or types[0] is None or len(rest) < len(types) - 1:
        return None
    most = literals[0]
    assert isinstance(most, int), "TOPK of one column has looked at it"
    names = ("sort_col", *(f"col{at}" for at in range(len(rest))))
    returns = ArrayType(StructType(tuple(zip(names, (types[0], *rest), strict=True))))

    key = KEYS.get(types[0].base)

    def best(rows: list[list[object]]) -> list[list[object]]:
        by = (lambda row: row[0]) if key is None else (lambda row: key(row[0]))
        return sorted(rows, key=by, reverse=True)[:most]

    def add(state: list[list[object]], *values: object) -> list[list[object]]:
        return state if values[0] is None else best([*state, list(values)])

    def result(state: list[list[object]]) -> list[dict[str, object]]:
        return [dict(zip(names, row, strict=True)) for row in state]

    return ResolvedAggregate(returns, list, add, result, lambda one, other: best([*one, *other]))


# -- collections


_LIMITED = {"COLLECT_LIST": False, "COLLECT_SET": True}
"""What collects values, and whether different ones only."""


def _collect(distinct: bool, limit: int = -1) -> Make:
    most = limit if limit >= 0 else 1 << 31

    def make(types: Sequence[SqlType | None], literals: Sequence[object]) -> ResolvedAggregate | None:
        if types[0] is None:
            return None

        def add(state: list[object], value: object) -> list[object]:
            if len(state) >= most or (distinct and value in state):
                return state
            return [*state, value]

        def merge(one: list[object], other: list[object]) -> list[object]:
            for value in other:
                one = add(one, value)
            return one

        def undo(state: list[object], value: object) -> list[object]:
            if value not in state:
                return state
            at = len(state) - 1 - state[::-1].index(value)
            return [*state[:at], *state[at + 1 :]]

        return ResolvedAggregate(ArrayType(types[0]), list, add, _same, merge, None if distinct else undo)

    return make


def _histogram(types: Sequence[SqlType | None], literals: Sequence[object]) -> ResolvedAggregate | None:
    if types[0] != STRING:
        return None

    def moved(sign: int) -> Callable[..., dict[str, int]]:
        def add(state: dict[str, int], value: str | None) -> dict[str, int]:
            if value is None or (value not in state and (len(state) >= COUNTED_MAX or sign < 0)):
                return state
            count = state.get(value, 0) + sign
            rest = {key: each for key, each in state.items() if key != value or count > 0}
            return {**rest, value: count} if count > 0 else rest

        return add

    def merge(one: dict[str, int], other: dict[str, int]) -> dict[str, int]:
        found = dict(one)
        for value, count in other.items():
            if value in found or len(found) < COUNTED_MAX:
                found[value] = found.get(value, 0) + count
        return found

    return ResolvedAggregate(MapType(STRING, BIGINT), dict, moved(1), _same, merge, moved(-1))


def _attr(types: Sequence[SqlType | None], literals: Sequence[object]) -> ResolvedAggregate | None:
    if types[0] is None:
        return None

    def moved(sign: int) -> Callable[..., list[object]]:
        def add(state: list[list[object]], value: object) -> list[list[object]]:
            found = [[each, count + sign if each == value else count] for each, count in state]  # type: ignore[operator]
            if sign > 0 and all(each != value for each, _ in state):
                found.append([value, 1])
            return [pair for pair in found if pair[1]]

        return add  # type: ignore[return-value]

    def merge(one: list[list[object]], other: list[list[object]]) -> list[list[object]]:
        found = [list(pair) for pair in one]
        for value, count in other:
            held = next((pair for pair in found if pair[0] == value), None)
            if held is None:
                found.append([value, count])
            else:
                held[1] = held[1] + count  # type: ignore[operator]
        return found

    def result(state: list[list[object]]) -> object:
        return state[0][0] if len(state) == 1 else None

    return ResolvedAggregate(types[0], list, moved(1), result, merge, moved(-1))


# -- by the order of records


class _Sequence:
    """Numbers values in the order in which they come; it goes on behind the greatest number that a state has shown."""

    def __init__(self) -> None:
        self._last = 0

    def next_after(self, state: Sequence[Sequence[Any]]) -> int:
        self._last = max(self._last, *(number for number, _ in state), 0) + 1 if state else self._last + 1
        return self._last


_sequence = _Sequence()


def _by_offset(latest: bool) -> Make:
    """The last or the first values; literals are how many (an array then) and whether nulls are left out.

    A state is values with the numbers that say when each came: of two sessions that become one the value counts that came
    first or last, wherever its time is. Of the last so many ksqlDB keeps those that came first.
    """

    def make(types: Sequence[SqlType | None], literals: Sequence[object]) -> ResolvedAggregate | None:
        numbers = [each for each in literals if isinstance(each, int) and not isinstance(each, bool)]
        flags = [each for each in literals if isinstance(each, bool)]
        if types[0] is None or len(numbers) > 1 or len(flags) > 1 or len(literals) != len(numbers) + len(flags):
            return None
        count = numbers[0] if numbers else 1
        ignores = flags[0] if flags else True
        if count < 1:
            raise SqlError(f"{'latest' if latest else 'earliest'}N must be 1 or greater")

        def add(state: list[list[Any]], value: object) -> list[list[Any]]:
            if (value is None and ignores) or (not latest and len(state) >= count):
                return state
            return [*state, [_sequence.next_after(state), value]][-count:]

        def merge(one: list[list[Any]], other: list[list[Any]]) -> list[list[Any]]:
            both = sorted([*one, *other], key=lambda each: each[0])
            return both[-1:] if latest and not numbers else both[:count]

        def result(state: list[list[Any]]) -> object:
            return [each for _, each in state] if numbers else state[0][1] if state else None

        returns = ArrayType(types[0]) if numbers else types[0]
        return ResolvedAggregate(returns, list, add, result, merge)

    return make


_NUMBERS = ("BIGINT", "DECIMAL", "DOUBLE", "INT")
_ORDERED = (*_NUMBERS, "BYTES", "DATE", "TIME", "TIMESTAMP", "VARCHAR")
_ANY = ("T",)
_SPREAD = ("BIGINT", "DOUBLE", "INT")
_BY_OFFSET = ("T", "T, BOOLEAN", "T, INT", "T, INT, BOOLEAN")

AGGREGATES = {
    each.name: each
    for each in (
        AggregateFunction("ATTR", "The one value that all rows have, null where they differ.", 1, _attr, _ANY),
        AggregateFunction("AVG", "The mean.", 1, _average, _SPREAD),
        AggregateFunction("COLLECT_LIST", "All values.", 1, _collect(False), _ANY),
        AggregateFunction("COLLECT_SET", "All different values.", 1, _collect(True), _ANY),
        AggregateFunction(
            "CORRELATION",
            "Pearson's coefficient of two columns.",
            2,
            _correlation,
            tuple(f"{each}, {each}" for each in _SPREAD),
        ),
        AggregateFunction("COUNT", "How many rows have a value.", 1, _count, _ANY),
        AggregateFunction("COUNT_DISTINCT", "How many different values there are.", 1, _count_distinct, _ANY),
        AggregateFunction(
            "EARLIEST_BY_OFFSET", "The first value, or the first so many.", 1, _by_offset(False), _BY_OFFSET
        ),
        AggregateFunction("HISTOGRAM", "How often each text came, up to a thousand.", 1, _histogram, ("VARCHAR",)),
        AggregateFunction("LATEST_BY_OFFSET", "The last value, or the last so many.", 1, _by_offset(True), _BY_OFFSET),
        AggregateFunction("MAX", "The greatest value.", 1, _extreme(max), _ORDERED),
        AggregateFunction("MIN", "The least value.", 1, _extreme(min), _ORDERED),
        AggregateFunction(
            "STDDEV_SAMP", "The sample's variance, as ksqlDB computes it under this name.", 1, _spread(False), _SPREAD
        ),
        AggregateFunction("STDDEV_SAMPLE", "The sample's standard deviation.", 1, _spread(True), _SPREAD),
        AggregateFunction("SUM", "The sum.", 1, _sum, _NUMBERS),
        AggregateFunction(
            "SUM_LIST", "The sum of all elements of arrays.", 1, _sum_list, tuple(f"ARRAY<{each}>" for each in _NUMBERS)
        ),
        AggregateFunction(
            "TOPK",
            "The greatest so many values, or rows by the first of several columns.",
            MANY,
            _top_rows,
            tuple(f"{each}, INT" for each in (*_ORDERED, "T, T...")),
        ),
        AggregateFunction(
            "TOPKDISTINCT",
            "The greatest so many different values.",
            1,
            _top(True),
            tuple(f"{each}, INT" for each in _ORDERED),
        ),
    )
}
