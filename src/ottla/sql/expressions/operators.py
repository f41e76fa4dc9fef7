"""Operators on values: Java's arithmetic, ksqlDB's comparisons."""

from __future__ import annotations

import math
import operator as op
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from ottla.java import PatternError, Wildcards
from ottla.sql.errors import EvaluationError, SqlError
from ottla.sql.expressions import decimals, times
from ottla.sql.expressions.casts import INT_BITS, LONG_BITS, cast, wrapped
from ottla.sql.types import DOUBLE, NUMBERS, STRING, DecimalType, SqlType, is_number, is_time

Binary = Callable[..., object]
EQUALITY = ("=", "<>", "IS DISTINCT FROM")
OPERATOR_NAMES = {
    "=": "EQUAL",
    "<>": "NOT_EQUAL",
    "<": "LESS_THAN",
    "<=": "LESS_THAN_OR_EQUAL",
    ">": "GREATER_THAN",
    ">=": "GREATER_THAN_OR_EQUAL",
    "IS DISTINCT FROM": "IS_DISTINCT_FROM",
}
_COMPARE: dict[str, Binary] = {"=": op.eq, "<>": op.ne, "<": op.lt, "<=": op.le, ">": op.gt, ">=": op.ge}


def arithmetic_type(operator: str, left: SqlType | None, right: SqlType | None) -> SqlType:
    """The type of `left operator right`; raises SqlError where there is none."""
    if left == right == STRING and operator == "+":
        return STRING
    if left is None or right is None or not (is_number(left) and is_number(right)):
        names = " ".join("NULL" if each is None else each.base for each in (left, right))
        raise SqlError(f"Unsupported arithmetic types. {names}")
    wider = left if NUMBERS.index(left.base) > NUMBERS.index(right.base) else right
    if wider.base != "DECIMAL":
        return wider
    return decimals.result_type(operator, decimals.as_decimal(left), decimals.as_decimal(right))


def arithmetic(operator: str, left: SqlType, right: SqlType, result: SqlType) -> Binary:
    """The function of two values, neither of them null, that `operator` is; it raises EvaluationError."""
    if result == STRING:
        return op.add
    if isinstance(result, DecimalType):
        return lambda a, b: decimals.calculated(operator, Decimal(a), Decimal(b), result)
    if result == DOUBLE:
        return _of_doubles(operator)
    return _of_integers(operator, INT_BITS if result.base == "INTEGER" else LONG_BITS)


def _of_integers(operator: str, bits: int) -> Binary:
    if operator in "+-*":
        plain = {"+": op.add, "-": op.sub, "*": op.mul}[operator]
        half = 1 << (bits - 1)

        def calculate(a: int, b: int) -> int:
            value: int = plain(a, b)
            return value if -half <= value < half else wrapped(value, bits)

        return calculate

    def divide(a: int, b: int) -> int:
        if not b:
            raise EvaluationError("/ by zero")
        quotient = abs(a) // abs(b)
        if (a < 0) != (b < 0):
            quotient = -quotient
        return wrapped(quotient, bits) if operator == "/" else a - b * quotient

    return divide


def _of_doubles(operator: str) -> Binary:
    if operator in "+-*":
        plain = {"+": op.add, "-": op.sub, "*": op.mul}[operator]
        return lambda a, b: plain(float(a), float(b))
    return _divided if operator == "/" else _remainder


def _divided(a: float, b: float) -> float:
    a, b = float(a), float(b)
    if b:
        return a / b
    if not a or math.isnan(a):
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1, b)


def _remainder(a: float, b: float) -> float:
    a, b = float(a), float(b)
    return math.nan if not b or math.isinf(a) else math.fmod(a, b)


def check_comparison(operator: str, left: SqlType | None, right: SqlType | None, texts: tuple[str, str]) -> None:
    """Raise SqlError in ksqlDB's words where two types cannot be compared so; `texts` are the two expressions."""
    if left is None or right is None:
        names = [("NULL" if each is None else each.base) for each in (left, right)]
        raise SqlError(
            f"Comparison with NULL not supported: {names[0]} {operator} {names[1]}\n"
            "Use 'IS NULL' or 'IS NOT NULL' instead."
        )
    if not _comparable(operator, left, right):
        raise SqlError(f"Cannot compare {texts[0]} ({left}) to {texts[1]} ({right}) with {OPERATOR_NAMES[operator]}.")


def _comparable(operator: str, left: SqlType, right: SqlType) -> bool:
    if is_number(left):
        return is_number(right)
    if left == STRING:
        return right == STRING or is_time(right)
    if left.base == "TIME":
        return right.base in ("TIME", "STRING")
    if is_time(left):
        return right.base in ("DATE", "TIMESTAMP", "STRING")
    if left.base == "BYTES":
        return right.base == "BYTES"
    return left.base == right.base and operator in EQUALITY


def comparison(operator: str, left: SqlType, right: SqlType) -> Binary:
    """The function of two values that may be null: false where one of them is, but for IS DISTINCT FROM."""
    one, other = _comparing(left, right), _comparing(right, left)
    if left == DOUBLE and is_number(right) and operator in ("<>", "IS DISTINCT FROM"):
        return _unlike_doubles(operator, one, other)
    if operator == "IS DISTINCT FROM":

        def distinct(a: object, b: object) -> bool:
            return (a is None) != (b is None) if a is None or b is None else one(a) != other(b)

        return distinct
    compare = _COMPARE[operator]
    if left.base == right.base or {left.base, right.base} <= _WHOLE:
        return lambda a, b: a is not None and b is not None and compare(a, b)
    return lambda a, b: a is not None and b is not None and compare(one(a), other(b))


_WHOLE = {"INTEGER", "BIGINT", "DECIMAL"}


def _unlike_doubles(operator: str, one: Callable[..., Any], other: Callable[..., Any]) -> Binary:
    """`<>`, as Java has it for doubles: NaN is neither less nor greater than anything, and so not unlike it."""

    def unlike(a: object, b: object) -> bool:
        if a is None or b is None:
            return operator == "IS DISTINCT FROM" and (a is None) != (b is None)
        left, right = one(a), other(b)
        return bool(left < right or left > right)

    return unlike


def _exact(value: float) -> Decimal:
    """A DOUBLE beside a DECIMAL: the number that its text says."""
    if not math.isfinite(value):
        raise EvaluationError("Infinite or NaN")
    return Decimal(repr(value))


def _comparing(of: SqlType, beside: SqlType) -> Callable[..., object]:
    """What of a value is compared: text beside a time is read as one, a DATE beside a TIMESTAMP is its midnight.

    A DOUBLE beside a DECIMAL is what its text says, and a whole number beside a DOUBLE is one.
    """
    if of == DOUBLE and beside.base == "DECIMAL":
        return _exact
    if beside == DOUBLE and of.base in ("INTEGER", "BIGINT"):
        return float
    if of == STRING and is_time(beside):
        return cast(of, beside)
    if of.base == "DATE" and beside.base == "TIMESTAMP":
        return lambda days: days * times.DAY_MS
    return lambda value: value


def like_pattern(pattern: str, escape: str | None) -> Callable[[str], bool]:
    """What says whether a text is like a pattern; its wildcards stand for characters of one line, as Java's dot does."""
    try:
        found = Wildcards(pattern, escape, in_line=True)
    except PatternError as error:
        raise EvaluationError(f"LIKE pattern: {error}") from None

    def is_like(text: str) -> bool:
        try:
            return found.matches(text)
        except PatternError as error:
            raise EvaluationError(str(error)) from None

    return is_like
