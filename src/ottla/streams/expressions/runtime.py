"""What evaluated expressions call: Spark's arithmetic, casts and text functions in ANSI mode, on Python's values.

None is handled by the caller. What Spark raises in ANSI mode raises EvaluationError here, with Spark's name of it.
"""

from __future__ import annotations

import math
import re
from ctypes import c_float
from datetime import UTC, datetime, timedelta, tzinfo
from decimal import ROUND_DOWN, ROUND_HALF_UP, Context, Decimal, localcontext
from typing import Any
from uuid import UUID

__all__ = ["EvaluationError"]

_WIDE = Context(prec=80)
_DIVIDE = Context(prec=39, rounding=ROUND_HALF_UP)
_BLANK = "".join(map(chr, (*range(33), 127)))
_WHOLE = re.compile(r"[+-]?[0-9]+")
_REAL = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[dDfF]?")
_INFINITE = {"inf": math.inf, "infinity": math.inf, "nan": math.nan}
_TRUE, _FALSE = frozenset({"t", "true", "y", "yes", "1"}), frozenset({"f", "false", "n", "no", "0"})
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TEXT_MAX = 1 << 28
"""How long a text may become by a function that repeats or fills it, in characters."""


class EvaluationError(ArithmeticError):
    """What Spark raises for a record in ANSI mode; the message begins with Spark's name of it."""


def fail(condition: str, said: object = "") -> Any:
    """Raise what Spark raises."""
    raise EvaluationError(f"[{condition}] {said}".rstrip())


# -- whole numbers


def _bounded(bits: int) -> Any:
    low, high = -(1 << bits), (1 << bits) - 1

    def bound(number: int) -> int:
        if low <= number <= high:
            return number
        raise EvaluationError(f"[ARITHMETIC_OVERFLOW] {number} is outside of {bits + 1} bits")

    return bound


tinyint, smallint, int_, bigint = _bounded(7), _bounded(15), _bounded(31), _bounded(63)
bounds = {"tinyint": tinyint, "smallint": smallint, "int": int_, "bigint": bigint}


def remainder(one: int, other: int) -> int:
    """Return what division leaves, with the dividend's sign."""
    if other == 0:
        fail("REMAINDER_BY_ZERO")
    found = abs(one) % abs(other)
    return -found if one < 0 else found


def quotient(one: int, other: int) -> int:
    """Return a quotient without its fraction."""
    if other == 0:
        fail("DIVIDE_BY_ZERO")
    found = abs(one) // abs(other)
    return bigint(found if (one < 0) == (other < 0) else -found)  # type: ignore[no-any-return]


def pmod(one: int, other: int) -> int:
    """Return the remainder that is not negative for a positive divisor, as Spark's."""
    found = remainder(one, other)
    return remainder(found + other, other) if found < 0 else found


# -- floating point


def single(number: float) -> float:
    """Round to 32 bits."""
    return c_float(number).value


def divided(one: float, other: float) -> float:
    """Divide; zero is an error."""
    if other == 0:
        fail("DIVIDE_BY_ZERO")
    return one / other


def real_remainder(one: float, other: float) -> float:
    """Return what division leaves, with the dividend's sign."""
    if other == 0:
        fail("REMAINDER_BY_ZERO")
    if math.isinf(one):
        return math.nan
    return math.fmod(one, other)


def same(one: float, other: float) -> bool:
    """Compare; NaN is equal to NaN."""
    return one == other or (one != one and other != other)


def below(one: float, other: float) -> bool:
    """Compare; NaN is above everything."""
    return one < other or (other != other and one == one)


def whole_of(number: float, name: str) -> int:
    """Return a floating-point number without its fraction as a whole number of a type."""
    bits = {"tinyint": 7, "smallint": 15, "int": 31, "bigint": 63}[name]
    if number != number or math.isinf(number):
        fail("CAST_OVERFLOW", number)
    high = (1 << bits) - 1
    limit = float(1 << 63) if bits == 63 else high
    if not (math.floor(number) <= limit and math.ceil(number) >= -(1 << bits)):
        fail("CAST_OVERFLOW", number)
    return min(int(number), high)


def ceiling(number: float) -> int:
    """Return the next whole number above; one that is no long is an overflow."""
    return _long_of(number, math.ceil)


def floor(number: float) -> int:
    """Return the next whole number below; one that is no long is an overflow."""
    return _long_of(number, math.floor)


def _long_of(number: float, made: Any) -> int:
    if number != number:
        return 0
    return whole_of(float(made(number)) if math.isfinite(number) else number, "bigint")


def root(number: float) -> float:
    """Return a square root; NaN for negative numbers."""
    return math.nan if number < 0 or number != number else math.sqrt(number)


# -- decimals


def scaled(number: Decimal, precision: int, scale: int) -> Decimal:
    """Round half up to a scale; more digits than the precision are an overflow."""
    unit = Decimal((0, (1,), -scale))
    with localcontext(_WIDE):
        found = number.quantize(unit, ROUND_HALF_UP)
    if len(found.as_tuple().digits) > precision and found != 0:
        fail("NUMERIC_VALUE_OUT_OF_RANGE", number)
    return found if found != 0 else Decimal((0, (0,), -scale))


def decimal_sum(one: Decimal, other: Decimal) -> Decimal:
    """Return an exact sum."""
    return _WIDE.add(one, other)


def decimal_difference(one: Decimal, other: Decimal) -> Decimal:
    """Return an exact difference."""
    return _WIDE.subtract(one, other)


def decimal_product(one: Decimal, other: Decimal) -> Decimal:
    """Return an exact product."""
    return _WIDE.multiply(one, other)


def decimal_quotient(one: Decimal, other: Decimal) -> Decimal:
    """Return a quotient of 39 digits, as Spark's Decimal divides."""
    if other == 0:
        fail("DIVIDE_BY_ZERO")
    return _DIVIDE.divide(one, other)


def decimal_whole(number: Decimal, name: str) -> int:
    """Return a decimal without its fraction as a whole number of a type."""
    bits = {"tinyint": 7, "smallint": 15, "int": 31, "bigint": 63}[name]
    found = int(number.to_integral_value(ROUND_DOWN))
    return found if -(1 << bits) <= found < 1 << bits else fail("CAST_OVERFLOW", number)


def decimal_text(number: Decimal) -> str:
    """Return a decimal's digits with its whole scale."""
    return format(number, "f")


# -- text to values


def whole_in(text: str, name: str) -> int:
    """Return the whole number that a text says."""
    found = text.strip(_BLANK)
    if not _WHOLE.fullmatch(found) or len(found) > 40:
        fail("CAST_INVALID_INPUT", repr(text))
    number = int(found)
    bits = {"tinyint": 7, "smallint": 15, "int": 31, "bigint": 63}[name]
    return number if -(1 << bits) <= number < 1 << bits else fail("CAST_INVALID_INPUT", repr(text))


def real_in(text: str) -> float:
    """Return the floating-point number that a text says."""
    found = text.strip(_BLANK)
    if _REAL.fullmatch(found):
        return float(found.rstrip("dDfF"))
    sign, word = (found[0], found[1:]) if found[:1] in ("+", "-") else ("", found)
    number = _INFINITE.get(word.lower())
    if number is None or (
        number != number and sign and word != "NaN"
    ):  # which Java reads with a sign, in these letters
        fail("CAST_INVALID_INPUT", repr(text))
    assert number is not None
    return -number if sign == "-" else number


def truth_in(text: str) -> bool:
    """Return the truth value that a text says."""
    found = text.strip(_BLANK).lower()
    if found in _TRUE:
        return True
    return False if found in _FALSE else fail("CAST_INVALID_INPUT", repr(text))


def tried(call: Any, *arguments: Any) -> Any:
    """Call; None for what Spark would raise."""
    try:
        return call(*arguments)
    except EvaluationError:
        return None


# -- text


def part(text: str, place: int, length: int) -> str:
    """Return a part of a text by its place from 1, or from the end where that is negative."""
    start = place - 1 if place > 0 else len(text) + place if place < 0 else 0
    return text[max(0, start) : max(0, start + length)]


def rest(text: str, place: int) -> str:
    """Return what is in a text from a place."""
    start = place - 1 if place > 0 else len(text) + place if place < 0 else 0
    return text[max(0, start) :]


def first(text: str, length: int) -> str:
    """Return the first characters."""
    return text[: max(0, length)]


def last(text: str, length: int) -> str:
    """Return the last characters."""
    return text[max(0, len(text) - length) :] if length > 0 else ""


def filled_left(text: str, length: int, fill: str) -> str:
    """Return text of a length, filled in front."""
    return _fill(text, length, fill) + text if len(text) < length else text[: max(0, length)]


def filled_right(text: str, length: int, fill: str) -> str:
    """Return text of a length, filled behind."""
    return text + _fill(text, length, fill) if len(text) < length else text[: max(0, length)]


def _fill(text: str, length: int, fill: str) -> str:
    if not fill:
        return ""
    missing = length - len(text)
    if length > TEXT_MAX:
        fail("TEXT_TOO_LONG", length)
    return (fill * (missing // len(fill) + 1))[:missing]


def repeated(text: str, times: int) -> str:
    """Return text several times."""
    if times * len(text) > TEXT_MAX:
        fail("TEXT_TOO_LONG", times)
    return text * times


def replaced(text: str, old: str, new: str) -> str:
    """Return text with another in the place of one; nothing is replaced for an empty one."""
    return text.replace(old, new) if old else text


def joined(separator: str | None, *parts: Any) -> str | None:
    """Join texts and lists of texts that are not null; without a separator they are computed all the same, as in Spark."""
    if separator is None:
        return None
    found: list[str] = []
    for each in parts:
        if isinstance(each, list):
            found.extend(item for item in each if item is not None)
        elif each is not None:
            found.append(each)
    return separator.join(found)


def truth_text(value: bool) -> str:
    """Return a truth value's text."""
    return "true" if value else "false"


# -- values from elsewhere


def of_datetime(value: datetime) -> int:
    """Return a moment in microseconds; one without zone is in UTC, as JSON has it."""
    moment = value if value.tzinfo else value.replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(microseconds=1)


def of_uuid(value: UUID) -> str:
    """Return a UUID's text."""
    return str(value)


def item(values: list[Any], place: int) -> Any:
    """Return an element by its place from 0."""
    return values[place] if 0 <= place < len(values) else fail("INVALID_ARRAY_INDEX", place)


# -- time


def local(micros: int, zone: tzinfo) -> datetime:
    """Return a moment as the clocks of a zone show it."""
    return (_EPOCH + timedelta(microseconds=micros)).astimezone(zone)


def moment_text(micros: int, zone: tzinfo) -> str:
    """Return a moment's text, its fraction without zeros at the end."""
    found = local(micros, zone)
    text = found.strftime("%H:%M:%S")
    fraction = f".{found.microsecond:06d}".rstrip("0") if found.microsecond else ""
    return f"{found.year:04d}-{found.month:02d}-{found.day:02d} {text}{fraction}"


def millis_to_moment(millis: int) -> int:
    """Return milliseconds as a moment."""
    return bigint(millis * 1000)  # type: ignore[no-any-return]
