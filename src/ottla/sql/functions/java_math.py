"""Arcs as Java's Math has them, to the last digit.

`Math.asin` and `Math.acos` are by contract those of FDLIBM (Sun Microsystems, 1993): a quotient of two polynomials, with
the argument brought near 0 by a square root. The C library of another machine rounds about a value in twelve otherwise.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence

_HALF_PI, _HALF_PI_REST = 1.57079632679489655800e00, 6.12323399573676603587e-17
"""π/2 as two DOUBLEs: what the first one lacks is the second."""
_QUARTER_PI = 7.85398163397448278999e-01
_ABOVE = (
    *(1.66666666666666657415e-01, -3.25565818622400915405e-01, 2.01212532134862925881e-01),
    *(-4.00555345006794114027e-02, 7.91534994289814532176e-04, 3.47933107596021167570e-05),
)
_BELOW = (
    *(1.0, -2.40339491173441421878e00, 2.02094576023350569471e00),
    *(-6.88283971605453293030e-01, 7.70381505559019352791e-02),
)
_LINEAR, _NEAR_ONE = 2.0**-27, 0.975
"""Below the first the arc is the argument; from (about) the second on, halves of a DOUBLE are not told apart."""


def _polynomial(factors: Sequence[float], at: float) -> float:
    found = factors[-1]
    for each in reversed(factors[:-1]):
        found = each + at * found
    return found


def _quotient(square: float) -> float:
    return square * _polynomial(_ABOVE, square) / _polynomial(_BELOW, square)


def _upper_half(value: float) -> float:
    """A DOUBLE with its lower 32 bits cleared."""
    return float(struct.unpack(">d", struct.pack(">d", value)[:4] + b"\0\0\0\0")[0])


def asin(value: float) -> float:
    """The arc sine in radians, NaN for what is no sine."""
    size = abs(value)
    if not size <= 1:
        return math.nan
    if size == 1:
        return value * _HALF_PI + value * _HALF_PI_REST
    if size < 0.5:
        return value if size < _LINEAR else value + value * _quotient(value * value)
    half = (1 - size) * 0.5
    root, rest = math.sqrt(half), _quotient(half)
    if size >= _NEAR_ONE:
        found = _HALF_PI - (2 * (root + root * rest) - _HALF_PI_REST)
    else:
        upper = _upper_half(root)
        lower = (half - upper * upper) / (root + upper)
        found = _QUARTER_PI - (2 * root * rest - (_HALF_PI_REST - 2 * lower) - (_QUARTER_PI - 2 * upper))
    return math.copysign(found, value)


def acos(value: float) -> float:
    """The arc cosine in radians, NaN for what is no cosine."""
    if not abs(value) <= 1:
        return math.nan
    if value == 1:
        return 0.0
    if value == -1:
        return math.pi
    if abs(value) < 0.5:
        return _HALF_PI - (value - (_HALF_PI_REST - value * _quotient(value * value)))
    half = (1 - abs(value)) * 0.5
    root, rest = math.sqrt(half), _quotient(half)
    if value < 0:
        return math.pi - 2 * (root + (rest * root - _HALF_PI_REST))
    upper = _upper_half(root)
    return 2 * (upper + (rest * root + (half - upper * upper) / (root + upper)))
