"""Numbers out of strangers' texts and bytes: looked at before they are converted, everywhere by the same bounds."""

from __future__ import annotations

from decimal import Decimal

import pytest

from ottla.base import (
    ExactDecoder,
    NumberError,
    decimal_of_text,
    decimal_of_unscaled,
    java_hash,
    low_bits,
    plain_text,
    truncated,
)
from ottla.connect import DataError, converters, data
from ottla.sql.formats import FormatError, codec
from ottla.sql.schema import SqlColumn
from ottla.sql.types import BIGINT, DOUBLE, STRING, DecimalType, SqlType
from ottla.streams.errors import SerializationError
from ottla.streams.serdes.choice import serde_of
from tests.hostile_values import NUMBERS

TOO_LARGE = "1,000 digits, or an exponent beyond 1,000"
WITHIN = (
    "9" * 1000,
    "-0",
    "-0.00",
    "1E+20",
    "1e1000",
    "1e-1000",
    "0e1000",
    "1." + "0" * 998,
    "9" * 500 + "." + "9" * 500,
)


def test_a_number_within_the_bounds_keeps_each_digit_and_its_scale() -> None:
    for text in WITHIN:
        found = decimal_of_text(text)
        assert str(found) == str(Decimal(text)) and len(plain_text(found)) < 2100


def test_a_number_out_of_the_bounds_is_refused_and_not_rounded() -> None:
    for text in ("1e1001", "1e-1001", "0e9999", "9" * 1001, "1." + "0" * 1000, "1e99999999999999999999", "-1e1000000"):
        with pytest.raises(NumberError, match=TOO_LARGE):
            decimal_of_text(text)
        if not text.isdigit():
            with pytest.raises(NumberError, match=TOO_LARGE):
                ExactDecoder().decode(f'{{"a": [{text}]}}')


def test_words_and_underscores_are_no_numbers() -> None:
    for text in ("NaN", "Infinity", "sNaN", "1_000", "", "1e", "x" * 10_000):
        with pytest.raises(NumberError, match="is no number"):
            decimal_of_text(text)


def test_all_that_a_decoder_raises_is_a_value_error() -> None:
    for text in ("", "[" * 100_000, "NaN", "1e9999", "9" * 5000, '{"a":' * 5000):
        with pytest.raises(ValueError, match=r"\w"):
            ExactDecoder().decode(text)


def test_the_bits_of_a_number_are_java_s_whatever_its_exponent() -> None:
    assert low_bits(Decimal("1E+1000000000"), 64) == 0
    assert low_bits(Decimal("1E-1000000000"), 64) == 0
    assert low_bits(Decimal("18446744073709551617.9"), 64) == 1
    assert low_bits(Decimal("-2147483649"), 32) == 2147483647
    assert low_bits(Decimal("1E+63"), 64) == -9223372036854775808
    with pytest.raises(NumberError):
        low_bits(Decimal("NaN"), 64)
    with pytest.raises(NumberError):
        truncated(Decimal("1E+100000"))
    assert truncated(Decimal("-1.9")) == -1


def test_a_number_that_had_to_be_padded_too_far_is_written_with_its_exponent() -> None:
    assert plain_text(Decimal("1E+300000000")) == "1E+300000000"
    assert plain_text(Decimal("1E-300000000")) == "1E-300000000"
    assert plain_text(Decimal("1E+3")) == "1000"


def test_unscaled_bytes_have_a_bound_which_postgresql_s_largest_number_fits() -> None:
    largest = 10**147_455 - 1
    assert (
        decimal_of_unscaled(largest.to_bytes(largest.bit_length() // 8 + 1, "big", signed=True), 16_383).adjusted()
        == 131_071
    )
    with pytest.raises(NumberError, match="at most 65536"):
        decimal_of_unscaled(bytes(65_537), 0)
    with pytest.raises(NumberError, match="at most 100000"):
        decimal_of_unscaled(b"\1", 2_147_483_647)
    with pytest.raises(DataError, match="scale 2147483647"):
        data.decimal_of_bytes(data.decimal_schema(2_147_483_647), b"\1")


def test_a_hash_is_java_s_for_every_length() -> None:
    def told(text: str) -> int:
        found = 0
        encoded = text.encode("utf-16-be", "surrogatepass")
        for at in range(0, len(encoded), 2):
            found = (found * 31 + int.from_bytes(encoded[at : at + 2], "big")) & 0xFFFFFFFF
        return found

    for size in (0, 1, 255, 256, 257, 1000):
        for letter in ("a", "é", "😀", "\ud800"):
            assert java_hash(letter * size) == told(letter * size)


@pytest.mark.parametrize("format_", ["JSON", "DELIMITED"])
@pytest.mark.parametrize("type_", [BIGINT, DOUBLE, DecimalType(38, 10), STRING], ids=str)
def test_a_row_with_any_number_is_read_or_refused_soon(format_: str, type_: SqlType) -> None:
    made = codec(format_, [SqlColumn("V", type_)])
    for text in NUMBERS:
        for row in (text, f'{{"V": {text}}}', f'{{"V": "{text}"}}'):
            try:
                found = made.decode(row.encode())
            except FormatError as error:
                assert 0 < len(str(error)) < 3_000
            else:
                assert found is None or made.encode(found) is not None


def test_a_huge_exponent_under_a_bigint_is_told_to_the_processing_log() -> None:
    with pytest.raises(FormatError, match=TOO_LARGE):
        codec("JSON", [SqlColumn("V", BIGINT)]).decode(b'{"V": 1e1000000}')
    with pytest.raises(FormatError, match=TOO_LARGE):
        codec("DELIMITED", [SqlColumn("V", DecimalType(4, 2))]).decode(b"1e1000000")
    with pytest.raises(FormatError, match="is no number"):
        codec("DELIMITED", [SqlColumn("V", DecimalType(4, 2))]).decode(b"abc")


def test_a_decimal_of_more_digits_than_are_calculated_is_refused() -> None:
    with pytest.raises(FormatError, match="more than 2000 digits"):
        codec("JSON", [SqlColumn("V", DecimalType(5000, 3000))]).decode(b'{"V": 1.5}')


def test_connect_s_json_refuses_what_is_out_of_bounds_by_name() -> None:
    converter = converters.JsonConverter()
    converter.configure({"schemas.enable": "false"}, is_key=False)
    with pytest.raises(DataError, match=TOO_LARGE):
        converter.to_connect("t", b'{"a": 1e1000000}')
    assert converter.to_connect("t", b"1e400").value == float("inf")


def test_numbers_become_others_of_connect_s_types_or_are_refused() -> None:
    assert data.convert_to(data.INT64, None, Decimal("1E+1000000000")) == 0
    assert data.convert_to(data.INT32, None, Decimal("-1E-1000000000")) == 0
    assert data.convert_to(data.FLOAT64, None, 10**400) == float("inf")
    for value in (float("inf"), float("nan"), 10**400, "1e1000000"):
        with pytest.raises(DataError):
            data.convert_to(data.decimal_schema(2), None, value)


def test_a_streams_serde_reads_decimals_within_the_bounds_and_writes_no_gigabytes() -> None:
    serde = serde_of(Decimal)
    assert serde.deserialize(serde.serialize(Decimal("1.50"))) == Decimal("1.50")
    assert len(serde.serialize(Decimal("1E+300000000")) or b"") < 100
    with pytest.raises(SerializationError, match=TOO_LARGE):
        serde.deserialize(b'"1e1000000"')
