"""Decimals as formats hold them: never rounded."""

from __future__ import annotations

from decimal import Decimal

from ottla.base import plain_text
from ottla.sql.expressions.decimals import rounded
from ottla.sql.formats.codec import FormatError
from ottla.sql.types import DecimalType


def fitted(value: Decimal, type_: DecimalType) -> Decimal:
    """A number in its column's scale; raises FormatError where that would round it, EvaluationError where it is too big."""
    if not value.is_finite():
        raise FormatError(f"{value} is no number of {type_}")
    found = rounded(value, type_)
    if found != value:
        digits, exponent = value.as_tuple()[1:]
        assert isinstance(exponent, int), "it is finite"
        raise FormatError(
            f"Cannot fit decimal '{plain_text(value)}' into {type_} without rounding. (Requires {len(digits)},{-exponent})"
        )
    return found
