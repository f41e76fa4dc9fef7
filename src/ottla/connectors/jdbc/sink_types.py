"""From Connect's schemas and values to a database's columns: what the sink creates and binds."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import sqlalchemy as sa
from sqlalchemy.dialects import mysql
from sqlalchemy.types import TypeEngine

from ottla.connect import ConnectError, DataError, Schema, SchemaType, Struct, data
from ottla.connectors.jdbc.far_values import far_bound
from ottla.connectors.jdbc.sink_exact import BYTES_OF, exact_check, text_of_bytes
from ottla.connectors.jdbc.sink_times import guess_check

__all__ = ["Binders", "column_type", "default_clause"]

DATE, TIME, TIMESTAMP = (each.name for each in (data.DATE_SCHEMA, data.TIME_SCHEMA, data.TIMESTAMP_SCHEMA))
DECIMAL = data.decimal_schema(0).name
WHOLE_DIGITS = 38
"""Digits before the point that a decimal's column has room for."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MYSQL_DIGITS_MAX = 65
_MYSQL_KEY_LENGTH = 191
_MYSQL_SECOND_DIGITS = 6
"""Of its times, which have none unless told; and its `TIMESTAMP` holds no year but 1970 to 2038."""

_UTC_NAMES = ("UTC", "Etc/UTC", "Z", "GMT")

Bind = Callable[[Any], Any] | None

_PLAIN: dict[SchemaType, type[TypeEngine[Any]]] = {
    SchemaType.INT8: sa.SmallInteger,
    SchemaType.INT16: sa.SmallInteger,
    SchemaType.INT32: sa.Integer,
    SchemaType.INT64: sa.BigInteger,
    SchemaType.FLOAT32: sa.REAL,
    SchemaType.FLOAT64: sa.Double,
    SchemaType.BOOLEAN: sa.Boolean,
    SchemaType.BYTES: sa.LargeBinary,
}


def column_type(schema: Schema, dialect: str, *, is_key: bool) -> TypeEngine[Any]:
    """Return the type of the column that is created for a schema."""
    is_mysql = dialect in ("mysql", "mariadb")
    if schema.name == DECIMAL:
        scale = int(schema.parameter("scale") or 0)
        digits = WHOLE_DIGITS + max(scale, 0)
        return sa.Numeric(min(digits, _MYSQL_DIGITS_MAX) if is_mysql else digits, max(scale, 0))
    if schema.name == DATE:
        return sa.Date()
    if schema.name == TIME:
        return mysql.TIME(fsp=_MYSQL_SECOND_DIGITS) if is_mysql else sa.Time()
    if schema.name == TIMESTAMP:
        return mysql.DATETIME(fsp=_MYSQL_SECOND_DIGITS) if is_mysql else sa.TIMESTAMP()
    if schema.type is SchemaType.STRING:
        return sa.String(_MYSQL_KEY_LENGTH) if is_key and is_mysql else sa.Text()
    plain = _PLAIN.get(schema.type)
    if plain is not None:
        return plain()
    if schema.type is SchemaType.ARRAY and dialect == "postgresql" and schema.value_schema is not None:
        element = schema.value_schema
        if element.type.primitive:
            return sa.ARRAY(column_type(element, dialect, is_key=False))
    if dialect == "postgresql":
        from sqlalchemy.dialects.postgresql import JSONB

        return JSONB()
    return sa.Text()


def default_clause(schema: Schema, dialect: str) -> Any:
    """Return the DEFAULT of a column for a schema's default, None where there is none or it is no plain value."""
    value = schema.default
    match value:
        case None:
            return None
        case bool():
            return sa.text(str(value).lower() if dialect == "postgresql" else str(int(value)))
        case int() | float() | Decimal():
            return sa.text(str(value))
        case str():
            return value
        case datetime():
            return value.astimezone(UTC).replace(tzinfo=None).isoformat(" ")
        case date() | time():
            return value.isoformat()
    return None


class Binders:
    """Makes values that a driver takes, for one database and its time zones."""

    def __init__(
        self,
        dialect: str,
        *,
        zone: ZoneInfo,
        date_zone: ZoneInfo,
        number_times: Mapping[str, str] | None = None,
    ) -> None:
        """`number_times`: fields of numbers that are times, with their unit."""
        self.dialect, self.zone, self.date_zone = dialect, zone, date_zone
        self.number_times = dict(number_times or {})
        self._texts = dialect == "sqlite"

    def of(self, name: str, schema: Schema, type_: TypeEngine[Any] | None, *, cast: str = "") -> Bind:
        """Return how a field's values become a column's, None where they are the same.

        `cast` is PostgreSQL's name of the type, which says more of those that are texts.
        """
        type_ = getattr(type_, "data_type", type_)  # what a domain is made of
        if schema.type is SchemaType.STRING and cast in BYTES_OF:
            return text_of_bytes(BYTES_OF[cast], cast)
        if schema.type is SchemaType.ARRAY and schema.value_schema is not None and isinstance(type_, sa.ARRAY):
            inner = schema.value_schema
            return _each(self.of(name, inner, type_ if inner.type is SchemaType.ARRAY else type_.item_type))
        bind = self._plain(name, schema, type_)
        if type_ is None or name in self.number_times:
            return bind
        utc = str(self.zone) in _UTC_NAMES
        for check in (
            exact_check(schema, type_, self.dialect),
            guess_check(schema, type_, self.dialect, utc=utc),
        ):
            bind = check if bind is None else bind if check is None else self._then(check, bind)
        return bind

    def _plain(self, name: str, schema: Schema, type_: TypeEngine[Any] | None) -> Bind:
        if name in self.number_times:
            return self._then(self._of_number(self.number_times[name]), self._timestamp(type_))
        if schema.name == TIMESTAMP:
            return self._or_far(self._timestamp(type_), type_)
        if schema.name in (DATE, TIME):
            return self._or_far(self._text_of_iso if self._texts or _is_text(type_) else lambda value: value, type_)
        if schema.name == DECIMAL:
            return _decimal(schema, as_text=self._texts or _is_text(type_), doubles=self._texts and not _is_text(type_))
        if schema.type is SchemaType.BYTES:
            return bytes
        if schema.type in (SchemaType.FLOAT32, SchemaType.FLOAT64) and self._texts:
            return _number
        if schema.type in (SchemaType.ARRAY, SchemaType.MAP, SchemaType.STRUCT):
            return None if isinstance(type_, sa.ARRAY) else _json
        return None

    def _of_number(self, unit: str) -> Callable[[Any], datetime]:
        per_microsecond = 1000 if unit == "nanoseconds" else 1

        def moment(value: Any) -> datetime:
            if isinstance(value, datetime):
                return value
            return _EPOCH + timedelta(microseconds=int(value) // per_microsecond)

        return moment

    def _timestamp(self, type_: TypeEngine[Any] | None) -> Callable[[Any], Any]:
        """Return how a time in UTC becomes what the column keeps: with its zone, without, or the day alone."""
        zone = self.zone
        if isinstance(type_, sa.Date) and not isinstance(type_, sa.DateTime):
            day = self.date_zone
            return self._as_text(lambda value: _aware(value).astimezone(day).date())
        if isinstance(type_, sa.Time):
            return self._as_text(lambda value: _aware(value).astimezone(zone).time())
        if isinstance(type_, sa.Integer):
            return lambda value: (_aware(value) - _EPOCH) // timedelta(milliseconds=1)
        if getattr(type_, "timezone", False) and not self._texts:
            return _aware
        if isinstance(type_, sa.TIMESTAMP) and self.dialect in ("mysql", "mariadb"):
            return lambda value: _aware(value).astimezone(UTC).replace(tzinfo=None)  # a moment, in the session's zone
        if _is_text(type_) and not self._texts:
            return lambda value: _aware(value).astimezone(zone).isoformat()
        return self._as_text(lambda value: _aware(value).astimezone(zone).replace(tzinfo=None))

    def _or_far(self, near: Callable[[Any], Any], type_: TypeEngine[Any] | None) -> Callable[[Any], Any]:
        """Return how times are bound of which some are none of Python's: PostgreSQL reads those as texts."""
        is_date = isinstance(type_, sa.Date) and not isinstance(type_, sa.DateTime)
        kinds: tuple[type, ...] = ()
        if self.dialect == "postgresql":
            kinds = (data.FarDate,) if is_date else (data.EndOfDay,) if isinstance(type_, sa.Time) else ()
            kinds = (data.FarTimestamp,) if isinstance(type_, sa.DateTime) else kinds
        zone = None if getattr(type_, "timezone", False) else self.zone

        def bound(value: Any) -> Any:
            if not isinstance(value, data.FarDate | data.FarTimestamp | data.EndOfDay):
                return near(value)
            if not isinstance(value, kinds):
                raise DataError(
                    "A column of this type cannot hold a time that is before year 1, after year 9999, or 24:00"
                )
            return far_bound(value, zone)

        return bound

    def _as_text(self, make: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return self._then(make, self._text_of_iso) if self._texts else make

    @staticmethod
    def _then(first: Callable[[Any], Any], second: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda value: second(first(value))

    @staticmethod
    def _text_of_iso(value: Any) -> str:
        if isinstance(value, datetime):
            return value.isoformat(" ", "microseconds")
        text: str = value.isoformat()
        return text


def _number(value: float) -> float:
    """Refuse NaN, of which SQLite would make a null."""
    if value != value:
        raise DataError("SQLite has no NaN, and would keep a null")
    return value


def _decimal(schema: Schema, *, as_text: bool, doubles: bool) -> Callable[[Any], Any]:
    """Return what refuses a decimal that is not its schema's: a database would round it, or keep what nobody can read.

    `doubles` says that the column makes a double of what is no integer of 64 bits, as SQLite's do.
    """
    scale = int(schema.parameter("scale") or 0)

    def bound(value: Decimal) -> Any:
        if value.as_tuple().exponent != -scale:
            raise DataError(f"A decimal of {scale} digits behind the point was expected")
        if doubles and (scale or not -(1 << 63) <= value < 1 << 63) and Decimal(repr(float(value))) != value:
            raise DataError("SQLite would round a decimal of so many digits")
        return str(value) if as_text else value

    return bound


def _each(bind: Bind) -> Bind:
    """Return how a list's elements are bound, each as a value of its own."""
    if bind is None:
        return None
    return lambda value: [None if each is None else bind(each) for each in value]


def _aware(value: datetime) -> datetime:
    return value if value.tzinfo is not None else value.replace(tzinfo=UTC)


def _is_text(type_: TypeEngine[Any] | None) -> bool:
    return isinstance(type_, sa.String)


def _json(value: Any) -> str:
    return json.dumps(_plain(value), ensure_ascii=False)


def _plain(value: Any) -> Any:
    """Return what JSON can say of a nested value."""
    match value:
        case Struct():
            return {field.name: _plain(value.at(field)) for field in value.schema.fields}
        case Mapping():
            return {str(key): _plain(each) for key, each in value.items()}
        case list() | tuple():
            return [_plain(each) for each in value]
        case bytes() | bytearray() | memoryview():
            return data.to_text(value)
        case datetime() | date() | time():
            return value.isoformat()
        case Decimal():
            return str(value)
        case None | bool() | int() | float() | str():
            return value
    raise ConnectError(f"A value of {type(value).__name__} cannot be written as JSON")
