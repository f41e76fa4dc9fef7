"""A decimal's bytes: the unscaled number, of any length and sign."""

from __future__ import annotations

from decimal import Decimal

import pytest

from ottla.connect.data import bytes_of_decimal, decimal_of_bytes, decimal_schema


@pytest.mark.parametrize(
    "unscaled",
    [0, 1, -1, 127, 128, -128, -129, 10**40, 10**5000, -(10**5000) + 1],
    ids=lambda n: f"{n.bit_length()}-bits-{n < 0}",
)
@pytest.mark.parametrize("scale", [-2, 0, 7])
def test_a_decimal_of_any_length_comes_back_from_its_bytes(unscaled: int, scale: int) -> None:
    schema = decimal_schema(scale)
    sign, digits, _ = Decimal(unscaled).as_tuple()
    value = Decimal((sign, digits, -scale))
    data = bytes_of_decimal(schema, value)
    assert int.from_bytes(data, "big", signed=True) == unscaled
    assert decimal_of_bytes(schema, data).as_tuple() == value.as_tuple()
