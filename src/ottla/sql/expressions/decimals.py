"""DECIMAL: types of results (SQL Server's rules of precision, as in ksqlDB), and arithmetic that is exact or fails."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation

from ottla.base import NumberError, decimal_of_text, plain_text
from ottla.sql.errors import EvaluationError, SqlError
from ottla.sql.types import DecimalType, SqlType

INTEGER_AS_DECIMAL = DecimalType(10, 0)
BIGINT_AS_DECIMAL = DecimalType(19, 0)
SCALE_OF_QUOTIENT_MIN = 6
WIDE = Context(prec=2000, Emax=999_999, Emin=-999_999)
"""Wide enough that nothing is rounded unseen."""


def as_decimal(type_: SqlType) -> DecimalType:
    """The DECIMAL that holds every value of a type; raises SqlError for what is no exact number."""
    if isinstance(type_, DecimalType):
        return type_
    if type_.base == "INTEGER":
        return INTEGER_AS_DECIMAL
    if type_.base == "BIGINT":
        return BIGINT_AS_DECIMAL
    raise SqlError(f"Cannot convert {type_.base} to DECIMAL.")


def result_type(operator: str, left: DecimalType, right: DecimalType) -> DecimalType:
    """The type of `left operator right`."""
    scale = max(left.scale, right.scale)
    whole_left, whole_right = left.precision - left.scale, right.precision - right.scale
    if operator in "+-":
        return DecimalType(scale + max(whole_left, whole_right) + 1, scale)
    if operator == "*":
        return DecimalType(left.precision + right.precision + 1, left.scale + right.scale)
    if operator == "/":
        scale = max(SCALE_OF_QUOTIENT_MIN, left.scale + right.precision + 1)
        return DecimalType(whole_left + right.scale + scale, scale)
    return DecimalType(min(whole_left, whole_right) + scale, scale)


def widened(one: SqlType, other: SqlType) -> DecimalType:
    """The DECIMAL that holds the values of both."""
    left, right = as_decimal(one), as_decimal(other)
    scale = max(left.scale, right.scale)
    return DecimalType(max(left.precision - left.scale, right.precision - right.scale) + scale, scale)


def type_of_value(value: Decimal) -> DecimalType:
    """The type of a literal."""
    exponent = value.as_tuple().exponent
    assert isinstance(exponent, int), "literals are finite"
    scale = max(0, -exponent)
    if not value:
        return DecimalType(scale + 1, scale)
    return DecimalType(max(len(value.as_tuple().digits) + max(0, exponent), scale), scale)


def rounded(value: Decimal, type_: DecimalType) -> Decimal:
    """A value in a type's scale, halves away from zero; raises EvaluationError where it has too many digits."""
    digits = type_.precision - type_.scale
    if value and value.adjusted() >= digits:
        raise EvaluationError(
            f"Numeric field overflow: A field with precision {type_.precision} and scale {type_.scale} "
            f"must round to an absolute value less than 10^{digits}. Got {plain_text(value)}"
        )
    return in_scale(value, type_.scale)


def in_scale(value: Decimal, scale: int) -> Decimal:
    """A value in a scale, halves away from zero; raises EvaluationError where it has more digits than are calculated."""
    try:
        return one_zero(value.quantize(_unit(scale), ROUND_HALF_UP, WIDE))
    except InvalidOperation:
        raise EvaluationError(f"A number in the scale {scale} has more than {WIDE.prec} digits") from None


def one_zero(value: Decimal) -> Decimal:
    """A value, whose zero has no sign: Java's decimals have one zero, and so one group of it."""
    return value if value else value.copy_abs()


def _unit(scale: int) -> Decimal:
    return Decimal((0, (1,), -scale))


def calculated(operator: str, left: Decimal, right: Decimal, type_: DecimalType) -> Decimal:
    """`left operator right` in a type's scale; raises EvaluationError where that is not exact."""
    if operator == "+":
        value = WIDE.add(left, right)
    elif operator == "-":
        value = WIDE.subtract(left, right)
    elif operator == "*":
        value = WIDE.multiply(left, right)
    elif not right:
        raise EvaluationError("Division by zero" if left else "Division undefined")
    elif operator == "/":
        value = Context(prec=type_.precision + 10, Emax=999_999, Emin=-999_999).divide(left, right)
    else:
        value = WIDE.remainder(left, right)
    unit = in_scale(value, type_.scale)
    if unit != value:
        raise EvaluationError("Rounding necessary")
    return unit


def parsed(text: str) -> Decimal:
    """The number that a text says; raises EvaluationError where it says none."""
    try:
        return decimal_of_text(text.strip())
    except NumberError:
        raise EvaluationError(f"Cannot convert '{text:.1000}' to a number.") from None
