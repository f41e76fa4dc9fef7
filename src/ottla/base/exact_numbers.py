"""Numbers of strangers' texts and bytes, looked at before they are converted.

A few letters can say a number that takes hours or gigabytes to write out: `int(Decimal("1e10000000"))` holds a core for an
hour, and `f"{Decimal('1e300000000'):f}"` is 300 MB. So whatever reads numbers that may have a fraction or an exponent reads
them here, and whatever writes them out in full writes them here.

Bounds: `DIGITS_MAX` digits are what Jackson reads of a number (`StreamReadConstraints`), which Kafka Connect and ksqlDB read
JSON with; `EXPONENT_MAX` lies three times beyond the greatest DOUBLE; `SCALE_MAX` is Jackson's for a BigDecimal, and
`UNSCALED_BYTES_MAX` holds the longest NUMERIC of PostgreSQL (147,455 digits). Whole numbers without a point or an exponent
have Python's own bound of 4,300 digits.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Clamped, Context, Decimal, InvalidOperation, Overflow, Rounded, Subnormal
from typing import Any, Final

__all__ = [
    "DIGITS_MAX",
    "EXPONENT_MAX",
    "SCALE_MAX",
    "UNSCALED_BYTES_MAX",
    "ExactDecoder",
    "NumberError",
    "decimal_of_text",
    "decimal_of_unscaled",
    "low_bits",
    "plain_text",
    "truncated",
]

DIGITS_MAX: Final = 1_000
EXPONENT_MAX: Final = 1_000
SCALE_MAX: Final = 100_000
UNSCALED_BYTES_MAX: Final = 1 << 16
_PADDING_MAX: Final = DIGITS_MAX + EXPONENT_MAX
_SIGNALS = [Clamped, InvalidOperation, Overflow, Rounded, Subnormal]
_BOUNDED = Context(prec=DIGITS_MAX, Emax=EXPONENT_MAX, Emin=-EXPONENT_MAX, traps=_SIGNALS)
"""Makes decimals in C, as quickly as `Decimal` does, and raises where one would not be exact within the bounds."""
_REFUSAL = f"a number has more than {DIGITS_MAX:,} digits, or an exponent beyond {EXPONENT_MAX:,}"


class NumberError(ValueError):
    """A number that is out of bounds, or a text that is none."""


def decimal_of_text(text: str) -> Decimal:
    """Return the decimal of a text with its digits and scale; raises NumberError for none, and for one out of bounds.

    Words (`NaN`, `Infinity`) and underscores, which Python takes and Java does not, are no numbers.
    """
    try:
        found = _BOUNDED.create_decimal(text)
    except InvalidOperation:
        found = Decimal("NaN")
    except ArithmeticError:
        raise NumberError(_REFUSAL) from None
    if not found.is_finite() or "_" in text:
        raise NumberError(f"{_short(text)} is no number")
    return found


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:60]}…")


class ExactDecoder(json.JSONDecoder):
    """A decoder of JSON whose fractions are decimals; all that it raises is a ValueError.

    Out of bounds is a NumberError, and brackets nested deeper than the interpreter goes are a ValueError that says so.
    `constant` makes the values of `NaN`, `Infinity` and `-Infinity`; without it they are refused, as they are no JSON.
    """

    def __init__(self, constant: Callable[[str], Any] | None = None) -> None:
        super().__init__(parse_float=_BOUNDED.create_decimal, parse_constant=constant or _no_constant)

    def raw_decode(self, s: str, idx: int = 0) -> tuple[Any, int]:
        """Return the value that begins at a place of a text, and where it ends."""
        try:
            found: tuple[Any, int] = self.scan_once(s, idx)  # type: ignore[attr-defined]
        except StopIteration as error:
            raise json.JSONDecodeError("no value", s, error.value) from None
        except ArithmeticError:
            raise NumberError(_REFUSAL) from None
        except RecursionError:
            raise ValueError("brackets are nested too deep") from None
        return found

    def of_bytes(self, data: bytes) -> Any:
        """Return the value of a text in UTF-8, UTF-16 or UTF-32."""
        return self.decode(data.decode(json.detect_encoding(data), "surrogatepass"))


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def decimal_of_unscaled(data: bytes, scale: int) -> Decimal:
    """Return the decimal of an unscaled value in two's complement, its first byte the greatest, with a scale.

    No bytes are 0. Raises NumberError for more than `UNSCALED_BYTES_MAX` bytes, and a scale beyond `SCALE_MAX`.
    """
    if len(data) > UNSCALED_BYTES_MAX:
        raise NumberError(f"a decimal has {len(data)} bytes; at most {UNSCALED_BYTES_MAX} are read")
    if abs(scale) > SCALE_MAX:
        raise NumberError(f"a decimal has the scale {scale}; at most {SCALE_MAX} are read")
    sign, digits, _ = Decimal(int.from_bytes(data, "big", signed=True)).as_tuple()
    return Decimal((sign, digits, -scale))


def truncated(value: Decimal) -> int:
    """Return a decimal without its fraction; raises NumberError where that has more than 2,000 digits more than it has."""
    exponent = value.as_tuple().exponent
    if not isinstance(exponent, int):
        raise NumberError(f"{value} is no number")
    if exponent > _PADDING_MAX:
        raise NumberError(_REFUSAL)
    return int(value)


def low_bits(value: Decimal, bits: int) -> int:
    """Return a decimal's whole part in so many bits of two's complement, as Java's `BigDecimal.longValue` overflows.

    Raises NumberError for NaN and infinities.
    """
    exponent = value.as_tuple().exponent
    if not isinstance(exponent, int):
        raise NumberError(f"{value} is no number")
    if exponent >= bits or value.adjusted() < 0:
        return 0  # 10^n has n factors of 2; or it is all fraction
    whole, half = int(value), 1 << (bits - 1)
    return whole if -half <= whole < half else (whole + half) % (1 << bits) - half


def plain_text(value: Decimal) -> str:
    """Return a decimal without an exponent, as `BigDecimal.toPlainString`; with one where it had to be padded too far.

    Too far is more than 2,000 zeros, which no number within the bounds needs.
    """
    exponent = value.as_tuple().exponent
    if isinstance(exponent, int) and (exponent > _PADDING_MAX or value.adjusted() < -_PADDING_MAX):
        return str(value)
    return f"{value:f}"
