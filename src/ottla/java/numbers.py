"""Numbers as Java writes them: `Double.toString` and `Float.toString` since JDK 19 (JDK-4511638: the shortest decimals).

Of all decimals that are read back as the number, Java writes one of the fewest digits, two at least, and of those the
nearest; with an exponent below 0.001 and from 10,000,000 on.
"""

from __future__ import annotations

import struct
from decimal import Context, Decimal
from math import copysign, isfinite
from typing import Final

__all__ = ["double_text", "float32", "float_text"]

_FLOAT: Final = struct.Struct("<f")
_FLOAT_DIGITS_MAX: Final = 9
"""As many digits tell any two floats of 32 bits apart."""


def double_text(value: float) -> str:
    """Return a double as `Double.toString`: 1.0, 1.0E10, 1.0E-5, -0.0, NaN, Infinity, 4.9E-324."""
    text = float.__repr__(value)
    if 1e-3 <= abs(value) < 1e7 or value == 0:
        return text  # Python's shortest decimal is Java's, and so is its form
    if not isfinite(value):
        return _not_finite(value)
    if "." not in text and "e" in text and len(text.partition("e")[0].lstrip("-")) == 1:
        text = f"{value:.1e}"  # one digit would do, and of two another may be nearer
    return _scientific(Decimal(text))


def float_text(value: float) -> str:
    """Return a number, rounded to a float of 32 bits, as `Float.toString`: 0.1, 1.4E-45."""
    exact = float32(value)
    if not isfinite(exact):
        return _not_finite(exact)
    if exact == 0:
        return "-0.0" if copysign(1.0, exact) < 0 else "0.0"
    found = _shortest(exact)
    if 1e-3 <= abs(exact) < 1e7:
        plain = format(found.normalize(), "f")
        return plain if "." in plain else f"{plain}.0"
    return _scientific(found)


def _not_finite(value: float) -> str:
    return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"


def float32(value: float) -> float:
    """Return the nearest float of 32 bits; what is too large becomes infinite, as Java's `(float)` has it."""
    try:
        return float(_FLOAT.unpack(_FLOAT.pack(value))[0])
    except OverflowError:
        return copysign(float("inf"), value)


def _shortest(exact: float) -> Decimal:
    """Return the decimal of the fewest digits that is read as this float of 32 bits.

    The nearest one of so many digits may miss it below a power of two, where floats lie closer than above: then the next
    one away from zero is tried, too.
    """
    for digits in range(2, _FLOAT_DIGITS_MAX):
        nearest = Decimal(f"{exact:.{digits - 1}e}")
        if float32(float(nearest)) == exact:
            return nearest
        farther = nearest + Decimal((int(exact < 0), (1,), nearest.adjusted() - digits + 1))
        if abs(nearest) < abs(exact) and float32(float(farther)) == exact:
            return farther
    return Context(prec=_FLOAT_DIGITS_MAX).create_decimal_from_float(exact)


def _scientific(number: Decimal) -> str:
    sign, digits, _ = number.as_tuple()
    written = "".join(map(str, digits))
    rest = written[1:].rstrip("0") or "0"
    return f"{'-' if sign else ''}{written[0]}.{rest}E{number.adjusted()}"
