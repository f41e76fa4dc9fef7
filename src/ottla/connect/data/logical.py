"""Logical types: decimals, dates, times of day and timestamps, and the plain values that carry them.

Kafka has one class for the last three; here each is Python's own, in UTC, to the millisecond. Years before 1 and after
9999, which `datetime` has not, come from sources as values of `far_times`; made of a number they are refused with a
DataError.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from ottla.base import NumberError, decimal_of_unscaled
from ottla.connect.data.builder import SchemaBuilder
from ottla.connect.data.far_times import EndOfDay, FarDate, FarTimestamp
from ottla.connect.data.java_text import java_class
from ottla.connect.data.schema import Schema
from ottla.connect.data.struct import DATE, DECIMAL, TIME, TIMESTAMP
from ottla.connect.errors import DataError

__all__ = [
    "DATE_SCHEMA",
    "MS_PER_DAY",
    "TIMESTAMP_SCHEMA",
    "TIME_SCHEMA",
    "any_date_of_days",
    "any_timestamp_of_ms",
    "bytes_of_decimal",
    "date_of_days",
    "days_of",
    "decimal_of",
    "decimal_of_bytes",
    "decimal_schema",
    "epoch_ms",
    "ms_of_day",
    "ms_of_timestamp",
    "scale_of",
    "schema_scale",
    "time_of_ms",
    "timestamp_of_ms",
]

MS_PER_DAY = 86_400_000
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

DATE_SCHEMA = SchemaBuilder.int32().name(DATE).version(1).build()
TIME_SCHEMA = SchemaBuilder.int32().name(TIME).version(1).build()
TIMESTAMP_SCHEMA = SchemaBuilder.int64().name(TIMESTAMP).version(1).build()


def decimal_schema(scale: int, *, optional: bool = False) -> Schema:
    """Return the schema of decimals with that many digits behind the point."""
    builder = SchemaBuilder.bytes_().name(DECIMAL).parameter("scale", str(scale)).version(1)
    return (builder.optional() if optional else builder).build()


def decimal_of(unscaled: int, scale: int) -> Decimal:
    """Return unscaled × 10^-scale exactly, with that scale, whatever the context's precision."""
    sign, digits, _ = Decimal(unscaled).as_tuple()
    return Decimal((sign, digits, -scale))


def scale_of(value: Decimal) -> int:
    """Return how many digits stand behind the point; raises DataError for NaN and infinities."""
    exponent = value.as_tuple().exponent
    if not isinstance(exponent, int):
        raise DataError(f"{value} is no decimal that Connect knows")
    return -exponent


def schema_scale(schema: Schema) -> int:
    """Return how many digits a decimal schema has behind the point; raises DataError where it does not say."""
    text = schema.parameter("scale")
    if text is None:
        raise DataError("Invalid Decimal schema: scale parameter not found.")
    try:
        return int(text)
    except ValueError as error:
        raise DataError("Invalid scale parameter found in Decimal schema: ") from error


def bytes_of_decimal(schema: Schema, value: Decimal) -> bytes:
    """Return the unscaled value, big-endian in two's complement; raises DataError where the scales differ."""
    scale, expected = scale_of(value), schema_scale(schema)
    if scale != expected:
        raise DataError(
            "Decimal value has mismatching scale for given Decimal schema. "
            f"Schema has scale {expected}, value has scale {scale}."
        )
    sign, digits, _ = value.as_tuple()
    unscaled = int(Decimal((sign, digits, 0)))  # of any length, which int of a text refuses
    size = (unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1
    return unscaled.to_bytes(size, "big", signed=True)


def decimal_of_bytes(schema: Schema, data: bytes) -> Decimal:
    """Return the decimal of an unscaled value; raises DataError for no bytes at all."""
    if not data:
        raise DataError("Zero length BigInteger")
    try:
        return decimal_of_unscaled(data, schema_scale(schema))
    except NumberError as error:
        raise DataError(f"This is no decimal that is read: {error}") from error


def days_of(value: date | FarDate) -> int:
    """Return a date's days since 1970-01-01."""
    if isinstance(value, FarDate):
        return value.days
    return value.toordinal() - _EPOCH_DAY


def date_of_days(days: int) -> date:
    """Return the date of days since 1970-01-01; raises DataError beyond the years 1 to 9999."""
    try:
        return date.fromordinal(days + _EPOCH_DAY)
    except (ValueError, OverflowError) as error:
        raise DataError(f"Date {days} days from 1970-01-01 is outside the years 1 to 9999") from error


def any_date_of_days(days: int) -> date | FarDate:
    """Return the date of days since 1970-01-01, of any year."""
    try:
        return date_of_days(days)
    except DataError:
        return FarDate(days)


def ms_of_day(value: time | EndOfDay) -> int:
    """Return a time of day in milliseconds."""
    if isinstance(value, EndOfDay):
        return value.ms
    return ((value.hour * 60 + value.minute) * 60 + value.second) * 1000 + value.microsecond // 1000


def time_of_ms(ms: int) -> time | EndOfDay:
    """Return the time of day at a millisecond, 24:00 included; raises DataError outside of a day."""
    if not 0 <= ms <= MS_PER_DAY:
        raise DataError("Time values must use number of milliseconds greater than 0 and less than 86400000")
    if ms == MS_PER_DAY:
        return EndOfDay()
    seconds, rest = divmod(ms, 1000)
    return time(seconds // 3600, seconds // 60 % 60, seconds % 60, rest * 1000)


def ms_of_timestamp(value: datetime | FarTimestamp) -> int:
    """Return a timestamp's milliseconds since 1970; one without a zone is taken as UTC."""
    if isinstance(value, FarTimestamp):
        return value.ms
    aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(milliseconds=1)


def timestamp_of_ms(ms: int) -> datetime:
    """Return the timestamp at milliseconds since 1970, in UTC; raises DataError beyond the years 1 to 9999."""
    try:
        return _EPOCH + timedelta(milliseconds=ms)
    except OverflowError as error:
        raise DataError(f"Timestamp {ms} ms from 1970-01-01 is outside the years 1 to 9999") from error


def any_timestamp_of_ms(ms: int) -> datetime | FarTimestamp:
    """Return the timestamp at milliseconds since 1970, in UTC, of any year."""
    try:
        return timestamp_of_ms(ms)
    except DataError:
        return FarTimestamp(ms * 1000)


def epoch_ms(value: Any) -> int:
    """Return the milliseconds since 1970 of a timestamp, a date or a time of day."""
    match value:
        case datetime() | FarTimestamp():
            return ms_of_timestamp(value)
        case date() | FarDate():
            return days_of(value) * MS_PER_DAY
        case time() | EndOfDay():
            return ms_of_day(value)
    raise DataError(f"Expected a timestamp, date or time but found {java_class(value)}")
