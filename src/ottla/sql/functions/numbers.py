"""Functions of numbers, as Java's Math answers."""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Sequence
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, Decimal

from ottla.sql.errors import EvaluationError
from ottla.sql.expressions.casts import INT_BITS, LONG_BITS, wrapped
from ottla.sql.expressions.decimals import WIDE, one_zero
from ottla.sql.functions import java_math
from ottla.sql.functions.registry import ELEMENTS_MAX, check_size, scalar
from ottla.sql.functions.signatures import ArgumentType
from ottla.sql.types import DecimalType, SqlType

WHOLE_AND_DOUBLE = ("INTEGER -> INTEGER", "BIGINT -> BIGINT", "DOUBLE -> DOUBLE")
LONG_MAX = (1 << 63) - 1
OF_NUMBER = tuple(f"{each} -> DOUBLE" for each in ("INTEGER", "BIGINT", "DOUBLE"))
OF_TWO_NUMBERS = tuple(f"{each}, {each} -> DOUBLE" for each in ("INTEGER", "BIGINT", "DOUBLE"))


def _same(types: Sequence[ArgumentType]) -> SqlType:
    assert isinstance(types[0], DecimalType), types
    return types[0]


def _without_fraction(types: Sequence[ArgumentType]) -> SqlType:
    given = types[0]
    assert isinstance(given, DecimalType), types
    return DecimalType(max(given.precision - given.scale, 1), 0)


@scalar("ABS", "DOUBLE -> DOUBLE")
@scalar("ABS", "DECIMAL -> DECIMAL", returns=_same)
def absolute(value: float) -> float:
    """The value without its sign."""
    return abs(value)


@scalar("ABS", "INTEGER -> INTEGER")
def absolute_integer(value: int) -> int:
    """The value without its sign; the least INTEGER has no other."""
    return wrapped(abs(value), INT_BITS)


@scalar("ABS", "BIGINT -> BIGINT")
def absolute_bigint(value: int) -> int:
    """The value without its sign; the least BIGINT has no other."""
    return wrapped(abs(value), LONG_BITS)


@scalar("CEIL", *WHOLE_AND_DOUBLE)
@scalar("CEIL", "DECIMAL -> DECIMAL", returns=_same)
def ceiling(value: float | Decimal) -> object:
    """The next whole number that is not less."""
    return _integral(value, ROUND_CEILING, math.ceil)


@scalar("FLOOR", *WHOLE_AND_DOUBLE)
@scalar("FLOOR", "DECIMAL -> DECIMAL", returns=_same)
def floor(value: float | Decimal) -> object:
    """The next whole number that is not greater."""
    return _integral(value, ROUND_FLOOR, math.floor)


def _integral(value: float | Decimal, rounding: str, of_double: Callable[[float], int]) -> object:
    if isinstance(value, Decimal):
        return one_zero(value.to_integral_value(rounding).quantize(value, context=WIDE))
    if isinstance(value, int):
        return value
    return math.copysign(float(of_double(value)), value) if math.isfinite(value) else value


@scalar("ROUND", "BIGINT -> BIGINT", "INTEGER -> BIGINT", "DOUBLE -> BIGINT")
def rounded(value: float) -> int:
    """The nearest whole number, halves up."""
    if isinstance(value, int):
        return value
    if math.isnan(value):
        return 0
    if not math.isfinite(value):
        return _limit(value)
    below = math.floor(value)
    return max(-LONG_MAX - 1, min(LONG_MAX, below + (value - below >= 0.5)))


def _limit(value: float) -> int:
    return LONG_MAX if value > 0 else -LONG_MAX - 1


@scalar("ROUND", "DECIMAL -> DECIMAL", returns=_without_fraction)
def rounded_decimal(value: Decimal) -> Decimal:
    """The nearest whole number, halves towards +∞."""
    return _halves_up(value, 0)


@scalar("ROUND", "DOUBLE, INTEGER -> DOUBLE")
def rounded_to(value: float, places: int) -> float:
    """The value in so many places behind the point."""
    return float(_halves_up(Decimal(repr(value)), _within(places))) if math.isfinite(value) else value


PLACES_MAX = 400
"""More places than a DOUBLE has on either side of the point, so that one more changes nothing."""


def _within(places: int) -> int:
    return max(-PLACES_MAX, min(PLACES_MAX, places))


def _within_scale(places: int, value: Decimal) -> int:
    """No more places than a decimal has, and no fewer than leave nothing of it."""
    exponent = value.as_tuple().exponent
    assert isinstance(exponent, int), "columns hold finite numbers"
    return max(-value.adjusted() - 2, min(places, -exponent))


@scalar("ROUND", "DECIMAL, INTEGER -> DECIMAL", returns=_same)
def rounded_decimal_to(value: Decimal, places: int) -> Decimal:
    """The value in so many places behind the point, in the scale that it has."""
    return _halves_up(value, _within_scale(places, value)).quantize(value, context=WIDE)


def _halves_up(value: Decimal, places: int) -> Decimal:
    unit = Decimal((0, (1,), -places))
    floor_ = value.quantize(unit, ROUND_FLOOR, WIDE)
    return one_zero(WIDE.add(floor_, unit) if WIDE.subtract(value, floor_) * 2 >= unit else floor_)


@scalar("TRUNC", "BIGINT -> BIGINT", "INTEGER -> BIGINT", "DOUBLE -> BIGINT")
def truncated(value: float) -> int:
    """The value without its fraction."""
    if isinstance(value, int) or math.isfinite(value):
        return max(-LONG_MAX - 1, min(LONG_MAX, int(value)))
    return 0 if math.isnan(value) else _limit(value)


@scalar("TRUNC", "DECIMAL -> DECIMAL", returns=_without_fraction)
def truncated_decimal(value: Decimal) -> Decimal:
    """The value without its fraction."""
    return one_zero(value.to_integral_value(ROUND_DOWN))


@scalar("TRUNC", "DOUBLE, INTEGER -> DOUBLE")
def truncated_to(value: float, places: int) -> float:
    """The value with so many places behind the point."""
    if not math.isfinite(value):
        return value
    return float(one_zero(Decimal(repr(value)).quantize(Decimal((0, (1,), -_within(places))), ROUND_DOWN, WIDE)))


@scalar("TRUNC", "DECIMAL, INTEGER -> DECIMAL", returns=_same)
def truncated_decimal_to(value: Decimal, places: int) -> Decimal:
    """The value with so many places behind the point, in the scale that it has."""
    unit = Decimal((0, (1,), -_within_scale(places, value)))
    return one_zero(value.quantize(unit, ROUND_DOWN, WIDE).quantize(value, context=WIDE))


@scalar("SIGN", "INTEGER -> INTEGER", "BIGINT -> INTEGER", "DOUBLE -> INTEGER")
def sign(value: float) -> int:
    """-1, 0 or 1."""
    return (value > 0) - (value < 0)


def _of_double(name: str, description: str, call: Callable[[float], float]) -> None:
    def answer(value: float) -> float:
        try:
            return call(float(value))
        except OverflowError:
            return math.inf if value > 0 or name != "SINH" else -math.inf
        except ValueError:
            return math.nan

    answer.__doc__ = description
    scalar(name, *OF_NUMBER)(answer)


def _logarithm(value: float) -> float:
    return -math.inf if value == 0 else math.log(value)


def _cotangent(value: float) -> float:
    return math.copysign(math.inf, value) if value == 0 else 1.0 / math.tan(value)


for _name, _description, _call in (
    ("ACOS", "The arc cosine, in radians.", java_math.acos),
    ("ASIN", "The arc sine, in radians.", java_math.asin),
    ("ATAN", "The arc tangent, in radians.", math.atan),
    ("CBRT", "The cube root.", math.cbrt),
    ("COS", "The cosine of an angle in radians.", math.cos),
    ("COSH", "The hyperbolic cosine.", math.cosh),
    ("COT", "The cotangent of an angle in radians.", _cotangent),
    ("DEGREES", "Radians as degrees.", math.degrees),
    ("EXP", "e raised to a power.", math.exp),
    ("LN", "The natural logarithm.", _logarithm),
    ("RADIANS", "Degrees as radians.", math.radians),
    ("SIN", "The sine of an angle in radians.", math.sin),
    ("SINH", "The hyperbolic sine.", math.sinh),
    ("SQRT", "The square root.", math.sqrt),
    ("TAN", "The tangent of an angle in radians.", math.tan),
    ("TANH", "The hyperbolic tangent.", math.tanh),
):
    _of_double(_name, _description, _call)


@scalar("LOG", *OF_NUMBER)
def log(value: float) -> float:
    """The natural logarithm."""
    return math.nan if value < 0 else _logarithm(value)


@scalar("LOG", *OF_TWO_NUMBERS)
def log_of_base(base: float, value: float) -> float:
    """The logarithm of a value to a base."""
    if base <= 0 or base == 1 or value < 0:
        return math.nan
    return -math.inf if value == 0 else math.log(value) / math.log(base)


@scalar("ATAN2", *OF_TWO_NUMBERS)
def atan2(y: float, x: float) -> float:
    """The angle of the point (x, y), in radians."""
    return math.atan2(y, x)


@scalar("POWER", *OF_TWO_NUMBERS)
def power(base: float, exponent: float) -> float:
    """A base raised to a power."""
    if math.isnan(exponent) or (abs(base) == 1 and math.isinf(exponent)):
        return math.nan
    negative = (base < 0 or math.copysign(1, base) < 0) and exponent % 2 == 1
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return -math.inf if negative else math.inf
    except ValueError:
        return math.nan if base else -math.inf if negative else math.inf


@scalar("PI", "-> DOUBLE")
def pi() -> float:
    """The ratio of a circle's circumference to its diameter."""
    return math.pi


@scalar("RANDOM", "-> DOUBLE")
def random_number() -> float:
    """A number from 0 up to 1."""
    return (uuid.uuid4().int >> 75) / (1 << 53)


@scalar("GENERATE_SERIES", "INTEGER, INTEGER -> ARRAY<INTEGER>", "BIGINT, BIGINT -> ARRAY<BIGINT>")
def series(first: int, last: int) -> list[int]:
    """The whole numbers from one to another, both included, up or down."""
    check_size("GENERATE_SERIES", abs(last - first) + 1, ELEMENTS_MAX)
    step = 1 if last >= first else -1
    return list(range(first, last + step, step))


@scalar("GENERATE_SERIES", "INTEGER, INTEGER, INTEGER -> ARRAY<INTEGER>", "BIGINT, BIGINT, INTEGER -> ARRAY<BIGINT>")
def series_by(first: int, last: int, step: int) -> list[int]:
    """The whole numbers from one to another by a step."""
    if not step:
        raise EvaluationError("GENERATE_SERIES step cannot be zero")
    check_size("GENERATE_SERIES", abs(last - first) // abs(step) + 1, ELEMENTS_MAX)
    if (last - first) * step < 0:
        raise EvaluationError("GENERATE_SERIES step has wrong sign")
    return list(range(first, last + (1 if step > 0 else -1), step))


EARTH_KM, EARTH_MILES = 6371.0, 3959.0
_RADII = {
    **dict.fromkeys(("mi", "mile", "miles"), EARTH_MILES),
    **dict.fromkeys(("km", "kilometer", "kilometers", "kilometre", "kilometres"), EARTH_KM),
}


@scalar("GEO_DISTANCE", "DOUBLE, DOUBLE, DOUBLE, DOUBLE -> DOUBLE")
def distance(lat: float, lon: float, lat2: float, lon2: float) -> float:
    """The distance of two points on Earth by latitude and longitude, in kilometres."""
    return _arc(lat, lon, lat2, lon2) * EARTH_KM


@scalar("GEO_DISTANCE", "DOUBLE, DOUBLE, DOUBLE, DOUBLE, STRING -> DOUBLE", nulls=True)
def distance_in(
    lat: float | None, lon: float | None, lat2: float | None, lon2: float | None, unit: str | None
) -> float | None:
    """The distance of two points on Earth by latitude and longitude, in kilometres or miles."""
    if lat is None or lon is None or lat2 is None or lon2 is None:
        return None
    arc, name = _arc(lat, lon, lat2, lon2), (unit or "").strip().lower() or "km"
    if name not in _RADII:
        raise EvaluationError(
            f"GeoDistance function units parameter must be one of {', '.join(_RADII)}. Values are case-insensitive."
        )
    return arc * _RADII[name]


def _arc(lat: float, lon: float, lat2: float, lon2: float) -> float:
    """The angle between two points as Earth's centre sees it, by haversines, in radians and in Java's order of steps."""
    for both, what, most in (((lat, lat2), "latitude", 90), ((lon, lon2), "longitude", 180)):
        if any(abs(each) > most for each in both):
            raise EvaluationError(
                f"valid {what} values for GeoDistance function are in the range of -{most} to {most} decimal degrees"
            )
    up, aside = math.sin(math.radians(lat2 - lat) / 2), math.sin(math.radians(lon2 - lon) / 2)
    squared = up * up + aside * aside * math.cos(math.radians(lat)) * math.cos(math.radians(lat2))
    return 2 * java_math.asin(math.sqrt(squared))
