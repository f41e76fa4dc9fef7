"""What a server would guess at: texts and numbers in columns of times, and numbers in those of symbols. Pure.

MariaDB reads '007' as seven seconds, '10:00:00' as a day of 2010 and 7 as the year 2007; PostgreSQL reads 'today' and
'1/2/2024', and leaves a zone out of a text where a column has none. Such a value is refused: a text has to be in the form of
ISO 8601 that says all that the column keeps, and nothing that it does not keep.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import mysql, postgresql
from sqlalchemy.types import TypeEngine

from ottla.connect import DataError, Schema, SchemaType, data

__all__ = ["guess_check"]

Check = Callable[[Any], Any]

MYSQL = ("mysql", "mariadb")
YEARS = range(1901, 2156)
"""Of MySQL's YEAR, which also has 0; smaller numbers it takes for years of this century or the last."""

_WHOLE = (SchemaType.INT8, SchemaType.INT16, SchemaType.INT32, SchemaType.INT64)
_NUMBERS = (*_WHOLE, SchemaType.FLOAT32, SchemaType.FLOAT64, SchemaType.BOOLEAN, SchemaType.BYTES)
_DECIMAL = data.decimal_schema(0).name
_TIME = data.TIME_SCHEMA.name

_CLOCK = r"[0-2]\d:[0-5]\d(:[0-5]\d(\.\d+)?)?"
_SPAN = r"-?\d{2,3}:[0-5]\d(:[0-5]\d(\.\d+)?)?"
_DAY = r"\d{4,7}-\d\d-\d\d"
_MIDNIGHT = r"([ T]00:00(:00(\.0+)?)?)?"
_ZONE = r"(Z| ?[+-]\d\d(:?\d\d(:\d\d)?)?)?"
_UTC = r"(Z| ?[+-]00(:?00(:00)?)?)?"
_BOUND = r"|-?infinity"
_BC = r"( BC)?"


def guess_check(schema: Schema, type_: TypeEngine[Any], dialect: str, *, utc: bool) -> Check | None:
    """Return what hands a schema's values on to a column, or raises DataError for one that the server would guess at.

    `utc` says that times without a zone are in UTC, so that a text that says so itself loses nothing. None where nothing is
    guessed.
    """
    if dialect not in (*MYSQL, "postgresql"):
        return None
    if schema.type is SchemaType.STRING:
        return _of_texts(type_, dialect, utc=utc)
    if dialect not in MYSQL:
        return None  # it takes no number for a time
    if schema.name == _TIME and isinstance(type_, sa.Date | sa.DateTime | mysql.YEAR):
        return _never("A time of day is no day", type_)
    if schema.type not in _NUMBERS or schema.name not in (None, _DECIMAL):
        return None
    if isinstance(type_, mysql.YEAR) and schema.type in _WHOLE:
        return _year(type_)
    if isinstance(type_, sa.Date | sa.DateTime | sa.Time | mysql.YEAR):
        return _never("A number is no time, unless timestamp.fields.list names its field", type_)
    if isinstance(type_, mysql.ENUM | mysql.SET) and schema.type is not SchemaType.BYTES:
        return _never("A number is no symbol", type_)
    return None


def _of_texts(type_: TypeEngine[Any], dialect: str, *, utc: bool) -> Check | None:
    if dialect in MYSQL:
        return _of_texts_of_mysql(type_)
    zoned = bool(getattr(type_, "timezone", False))
    match type_:
        case sa.DateTime():
            zone, form = (_ZONE if zoned else _UTC if utc else ""), "YYYY-MM-DD HH:MM:SS"
            more = " and a zone" if zoned else ", without a zone"
            return _matching(rf"{_DAY}([ T]{_CLOCK}{zone})?{_BC}{_BOUND}", form + more, type_)
        case sa.Time():
            return _matching(
                _CLOCK + (_ZONE if zoned else ""), "HH:MM:SS" + ("" if zoned else ", without a zone"), type_
            )
        case sa.Date():
            return _matching(rf"{_DAY}{_MIDNIGHT}{_BC}{_BOUND}", "YYYY-MM-DD", type_)
        case sa.Interval() | postgresql.INTERVAL():
            return _matching(r"(?!\s*[-+]?[\d.]+\s*$).*", "a number and its unit", type_)
    return None


def _of_texts_of_mysql(type_: TypeEngine[Any]) -> Check | None:
    match type_:
        case sa.DateTime():
            return _matching(rf"{_DAY}([ T]{_CLOCK})?", "YYYY-MM-DD HH:MM:SS, without a zone", type_)
        case sa.Time():
            return _matching(_SPAN, "HH:MM:SS, without a zone", type_)
        case sa.Date():
            return _matching(_DAY + _MIDNIGHT, "YYYY-MM-DD", type_)
        case mysql.YEAR():
            return _matching(r"\d{4}", "YYYY", type_)
        case mysql.ENUM():
            return _symbol(frozenset(type_.enums), type_)
        case mysql.SET():
            return _symbol(frozenset(type_.values), type_)
    return None


def _matching(pattern: str, form: str, type_: TypeEngine[Any]) -> Check:
    matches = re.compile(pattern, re.ASCII | re.DOTALL).fullmatch

    def check(value: str) -> str:
        if matches(value) is None:
            raise DataError(f"A column of type {_named(type_)} expects texts as {form}, and would guess at this one")
        return value

    return check


def _symbol(symbols: frozenset[str], type_: TypeEngine[Any]) -> Check:
    """Return a check of texts that the server would take for a symbol's place: numbers that are no symbol themselves."""
    place = re.compile(r"\s*[-+]?[\d.]+(e[-+]?\d+)?\s*", re.ASCII | re.IGNORECASE).fullmatch

    def check(value: str) -> str:
        if value not in symbols and place(value) is not None:
            raise DataError(
                f"A column of type {_named(type_)} has no such symbol, and would take the text for its place"
            )
        return value

    return check


def _year(type_: TypeEngine[Any]) -> Check:
    def check(value: int) -> int:
        if value not in YEARS:
            raise DataError(f"A column of type {_named(type_)} has the years 1901 to 2155, and would guess at this one")
        return value

    return check


def _never(what: str, type_: TypeEngine[Any]) -> Check:
    def check(value: Any) -> Any:
        raise DataError(f"{what}, and a column of type {_named(type_)} would guess at it")

    return check


def _named(type_: TypeEngine[Any]) -> str:
    return str(type_.__visit_name__)
