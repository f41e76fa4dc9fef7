"""From a database's columns to Connect's schemas and values: what the source reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal, InvalidOperation
from typing import Any

import sqlalchemy as sa
from sqlalchemy.types import TypeEngine

from ottla.base import decimal_of_text
from ottla.connect import DataError, Schema, SchemaBuilder, SchemaType, Struct, data
from ottla.connectors.jdbc.dialects import Dialect
from ottla.connectors.jdbc.far_values import LocalFar, date_of_text, local_of_text, microseconds_of, time_of_text

__all__ = ["Column", "NullFoundError", "RowReader", "TypeMapping", "literal_default"]

UNBOUNDED_SCALE = 38
"""Digits behind the point of a NUMERIC that was declared without any: more are refused, never rounded."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = 86_400_000_000
_INT64_MAX = (1 << 63) - 1
_EXACT = Context(prec=200_000)
"""More digits than any database's number has; texts of numbers have bounds of their own."""

_ANY_INTEGER = sa.BigInteger()
"""Of a number that only its first value is known of: later ones may be larger."""

Convert = Callable[[Any], Any] | None


@dataclass(frozen=True, slots=True)
class Column:
    """A column as it is read; `convert` makes Connect's value of the driver's, None where they are the same."""

    name: str
    schema: Schema
    convert: Convert


class NullFoundError(DataError):
    """A column that was not to be null is: its table has changed."""


class TypeMapping:
    """How a source's settings map types."""

    def __init__(self, dialect: Dialect, *, numeric: str = "none", granularity: str = "connect_logical") -> None:
        self.dialect, self.numeric, self.granularity = dialect, numeric, granularity

    def column(self, name: str, type_: TypeEngine[Any], *, optional: bool, default: str | None = None) -> Column:
        """Return a column of a type; `default` is the database's own text of the default."""
        builder, convert = self._kind(type_)
        if optional:
            builder = builder.optional()
        elif default is not None:
            value = literal_default(default, type_, convert)
            if value is not None:
                builder = builder.default(value)
        return Column(name, builder.build(), _named(name, convert))

    def of_value(self, name: str, value: Any) -> Column:
        """Return a column of which only a value is known."""
        kinds: tuple[tuple[type, TypeEngine[Any]], ...] = (
            (bool, sa.Boolean()),
            (int, _ANY_INTEGER),
            (float, sa.Double()),
            (Decimal, sa.Numeric()),
            (bytes, sa.LargeBinary()),
            (datetime, sa.DateTime()),
            (date, sa.Date()),
            (time, sa.Time()),
        )
        found = next((type_ for kind, type_ in kinds if isinstance(value, kind)), sa.String())
        return self.column(name, found, optional=True)

    def _kind(self, type_: TypeEngine[Any]) -> tuple[SchemaBuilder, Convert]:
        match type_:
            case sa.Boolean():
                return SchemaBuilder.boolean(), boolean_of
            case sa.Integer():
                return self._integer(type_)
            case sa.Float():
                return (
                    (SchemaBuilder.float32() if isinstance(type_, sa.REAL) and self._has_reals else _double()),
                    double_of,
                )
            case sa.Numeric():
                return self._numeric(type_)
            case sa.DateTime():
                return self._timestamp(type_)
            case sa.Date():
                return _like(data.DATE_SCHEMA), self._date
            case sa.Time() if not type_.timezone:
                return _like(data.TIME_SCHEMA), time_of
            case sa.LargeBinary():
                return SchemaBuilder.bytes_(), bytes_of
            case sa.String():
                return SchemaBuilder.string(), _characters
            case sa.ARRAY() if (type_.dimensions or 1) == 1:
                element = self.column("element", type_.item_type, optional=True)
                return SchemaBuilder.array(element.schema), _each(element.convert)
        return SchemaBuilder.string(), _text

    def _integer(self, type_: sa.Integer) -> tuple[SchemaBuilder, Convert]:
        """Return the integer that holds every value of a column; MySQL has some without a sign, which are one wider."""
        if self.dialect.integer_holds_64_bits and not isinstance(type_, sa.SmallInteger):
            return SchemaBuilder.int64(), _whole(64)
        sizes = {"TINYINT": 8, "MEDIUMINT": 24}
        bits = 16 if isinstance(type_, sa.SmallInteger) else 64 if isinstance(type_, sa.BigInteger) else 32
        bits = sizes.get(type(type_).__name__, bits)
        unsigned = bool(getattr(type_, "unsigned", False))
        bits += unsigned
        held = next((each for each in (8, 16, 32) if bits <= each), 64)
        kept = self.dialect.keeps_types and type_ is not _ANY_INTEGER and not (unsigned and held < bits)
        return SchemaBuilder(SchemaType[f"INT{held}"]), None if kept else _whole(held)

    @property
    def _has_reals(self) -> bool:
        return not self.dialect.integer_holds_64_bits  # SQLite's REAL is a double

    def _numeric(self, type_: sa.Numeric[Any]) -> tuple[SchemaBuilder, Convert]:
        precision, scale = type_.precision, type_.scale
        if precision is None:
            if self.numeric == "best_fit_eager_double":
                return _double(), float
            scale = UNBOUNDED_SCALE if scale is None else scale
            return _like(data.decimal_schema(scale)), _decimal(scale)
        scale = scale or 0
        best = self.numeric in ("best_fit", "best_fit_eager_double")
        whole = scale == 0 if self.numeric == "precision_only" else scale < 1 and scale >= -84
        if (self.numeric == "precision_only" or best) and whole and precision - scale < 19:
            digits = precision - scale
            return _integer(digits), _whole(64)
        if best and scale > 0 and (precision < 16 or self.numeric == "best_fit_eager_double"):
            return _double(), float
        return _like(data.decimal_schema(scale)), _decimal(scale)

    def _timestamp(self, type_: TypeEngine[Any]) -> tuple[SchemaBuilder, Convert]:
        read = self._moment_in_utc if self.dialect.is_zoned(type_) else self._moment
        unit, _, form = self.granularity.partition("_")
        if self.granularity == "connect_logical":
            return _like(data.TIMESTAMP_SCHEMA), read
        zeros = 1000 if unit == "nanos" else 1

        def number(value: Any) -> int:
            return max(-_INT64_MAX - 1, min(microseconds_of(read(value)) * zeros, _INT64_MAX))  # as Java converts units

        if form == "long":
            return SchemaBuilder.int64(), number
        if form == "string":
            return SchemaBuilder.string(), lambda value: str(number(value))
        digits = "" if unit == "micros" else "000"
        return SchemaBuilder.string(), lambda value: f"{data.FarTimestamp(microseconds_of(read(value)))}{digits}"

    def _moment_in_utc(self, value: Any) -> datetime | data.FarTimestamp:
        """Return a moment, which the driver may give as what a clock in UTC shows."""
        if isinstance(value, datetime) and value.tzinfo is None:
            return value.replace(tzinfo=UTC)
        return self._moment(value)

    def _moment(self, value: Any) -> datetime | data.FarTimestamp:
        """Return a timestamp in UTC; SQLite has texts and numbers of milliseconds."""
        if isinstance(value, datetime | date | LocalFar | data.FarTimestamp | data.FarDate):
            return self.dialect.utc(value)
        if isinstance(value, str):
            try:
                return self.dialect.utc(datetime.fromisoformat(value.strip()))
            except ValueError:
                return self.dialect.utc(local_of_text(value.strip()))
        if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
            raise DataError("a time was expected")
        microseconds = int(Decimal(str(value)).scaleb(3))
        try:
            return _EPOCH + timedelta(microseconds=microseconds)
        except OverflowError:
            return data.FarTimestamp(microseconds)

    def _date(self, value: Any) -> date | data.FarDate:
        """Return a day; raises DataError for a time of a day, which would be lost."""
        if isinstance(value, data.FarDate) or (isinstance(value, date) and not isinstance(value, datetime)):
            return value
        if isinstance(value, str):
            return _date_of_text(value.strip())
        moment = value.replace(tzinfo=UTC) if isinstance(value, datetime) else self._moment(value)
        days, rest = divmod(microseconds_of(moment), _DAY)
        if rest:
            raise DataError("it has a time of day, which a date would lose")
        return data.date_of_days(days)


def _date_of_text(text: str) -> date | data.FarDate:
    try:
        return date.fromisoformat(text)
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return date_of_text(text)
    if moment.timetz() != time():
        raise DataError("it has a time of day, which a date would lose")
    return moment.date()


def time_of(value: Any) -> time | data.EndOfDay:
    """Return a time of day; raises DataError for a span that is none, or a time with a zone, which would be lost."""
    if isinstance(value, str):
        value = time_of_text(value.strip())
    if isinstance(value, time):
        if value.tzinfo is not None:
            raise DataError("it has a zone, which a time of day would lose")
        return value
    if isinstance(value, data.EndOfDay):
        return data.EndOfDay()
    if isinstance(value, bool) or not isinstance(value, timedelta | int | float | Decimal):
        raise DataError("a time of day was expected")
    if not isinstance(value, timedelta):
        value = timedelta(microseconds=int(Decimal(str(value)).scaleb(3)))
    if value == timedelta(days=1):
        return data.EndOfDay()
    if not timedelta() <= value < timedelta(days=1):  # MySQL's go from -838 to 838 hours
        raise DataError(f"{value} is no time of a day")
    of_day: time = (_EPOCH + value).time()
    return of_day


def boolean_of(value: Any) -> bool:
    """Return a truth value, of which some databases have 0 and 1; raises DataError for anything else."""
    if value is True or value is False:
        return bool(value)
    if isinstance(value, int) and value in (0, 1):
        return value == 1
    raise DataError("true or false was expected, or 0 or 1")


def double_of(value: Any) -> float:
    """Return a number as a double; raises DataError for what a double does not hold."""
    if isinstance(value, float):
        return value
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        found = float(value)
        if Decimal(repr(found)) == value:
            return found
        raise DataError(f"{value} has more digits than a double")
    raise DataError("a number was expected")


def bytes_of(value: Any) -> bytes:
    """Return bytes; raises DataError for anything else, of which a number would make so many zeros."""
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise DataError("bytes were expected")


def _whole(bits: int) -> Callable[[Any], int]:
    least, most = -(1 << (bits - 1)), (1 << (bits - 1)) - 1

    def convert(value: Any) -> int:
        found: int = value
        if not isinstance(value, int):
            if not isinstance(value, float | Decimal) or value != value or value % 1:
                raise DataError("a whole number was expected")
            found = int(value)
        if isinstance(value, bool) or not least <= found <= most:
            raise DataError(f"a whole number of {bits} bits was expected")
        return found

    return convert


def _characters(value: Any) -> str:
    if isinstance(value, bytes | bytearray | memoryview):
        raise DataError("a text was expected, and it is bytes")
    return _text(value)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, dict | list):
        import json

        return json.dumps(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    return str(value)


def _double() -> SchemaBuilder:
    return SchemaBuilder.float64()


def _integer(digits: int) -> SchemaBuilder:
    """Return the narrowest integer that holds so many digits."""
    if digits < 3:
        return SchemaBuilder.int8()
    if digits < 5:
        return SchemaBuilder.int16()
    return SchemaBuilder.int32() if digits < 10 else SchemaBuilder.int64()


def _like(schema: Schema) -> SchemaBuilder:
    """Return a builder of a logical type's schema."""
    builder = SchemaBuilder(schema.type).name(schema.name).version(schema.version)
    return builder.parameters(schema.parameters)


def _decimal(scale: int) -> Callable[[Any], Decimal]:
    step = Decimal(1).scaleb(-scale)

    def convert(value: Any) -> Decimal:
        exact = value if isinstance(value, Decimal) else decimal_of_text(str(value))
        if not exact.is_finite():
            raise DataError(f"{exact} is no decimal that Connect knows")
        try:
            scaled = exact.quantize(step, context=_EXACT)
        except InvalidOperation:
            raise DataError(f"{exact:.10e} has more than {_EXACT.prec:,} digits") from None
        if scaled != exact:
            raise DataError(
                f"{exact} has more than the {scale} digits behind the point that its column was taken to have"
            )
        return scaled

    return convert


def _each(convert: Convert) -> Callable[[Any], list[Any]]:
    if convert is None:
        return list
    return lambda values: [None if each is None else convert(each) for each in values]


def _named(name: str, convert: Convert) -> Convert:
    """Return a conversion whose errors name the column; a row's reader names those of the quick ones."""
    if convert is None or convert in _QUICK:
        return convert
    return _wrapped(name, convert)


def _wrapped(name: str, convert: Convert) -> Convert:
    assert convert is not None

    def named(value: Any) -> Any:
        try:
            return convert(value)
        except (ValueError, TypeError, ArithmeticError, DataError) as error:
            raise DataError(f"Column {name} holds a value that its type does not: {error}") from error

    return named


_QUICK: tuple[Convert, ...] = (boolean_of, double_of, bytes_of, float, _text, _characters)


def literal_default(text: str, type_: TypeEngine[Any], convert: Convert) -> Any:
    """Return the value of a default that is a plain literal, None for an expression such as `now()`."""
    plain = text.strip()
    while plain.startswith("(") and plain.endswith(")"):
        plain = plain[1:-1].strip()
    plain, _, cast = plain.partition("::")
    quoted = len(plain) > 1 and plain[0] == plain[-1] == "'"
    value: Any = plain[1:-1].replace("''", "'") if quoted else plain
    if "(" in cast.replace("(", "", 1) or ("'" in value and not quoted) or value.upper() == "NULL":
        return None
    try:
        match type_:
            case sa.Boolean():
                return {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}.get(value.lower())
            case sa.Integer():
                return int(value)
            case sa.Float():
                return float(value)
            case sa.Numeric():
                return None if convert is None else convert(decimal_of_text(value))
            case sa.String() if quoted:
                return value
    except (ValueError, ArithmeticError, DataError):
        return None
    return None


class RowReader:
    """Makes structs of rows. `name` becomes the schema's."""

    def __init__(self, name: str | None, columns: Sequence[Column]) -> None:
        builder = SchemaBuilder.struct()
        if name is not None:
            builder = builder.name(name)
        for column in columns:
            builder = builder.field(column.name, column.schema)
        self.schema = builder.build()
        self.names = tuple(each.name for each in columns)
        self._converts = tuple(each.convert for each in columns)
        self._required = [place for place, each in enumerate(columns) if not each.schema.optional]

    def struct(self, row: Sequence[Any]) -> Struct:
        """Return the struct of a row, which may have more at its end; raises DataError."""
        made = Struct(self.schema)
        try:
            values = made.values = [
                value if convert is None or value is None else convert(value)
                for convert, value in zip(self._converts, row, strict=False)
            ]
        except (ValueError, TypeError, ArithmeticError, DataError):
            self._name_the_wrong(row)
            raise
        for place in self._required:
            if values[place] is None:
                raise NullFoundError(f"Column {self.names[place]} is null, which its table does not allow")
        return made

    def _name_the_wrong(self, row: Sequence[Any]) -> None:
        """Raise DataError for the first column of a row whose value is none of its type."""
        for name, convert, value in zip(self.names, self._converts, row, strict=False):
            named = _wrapped(name, convert) if convert in _QUICK else convert
            if named is not None and value is not None:
                named(value)
