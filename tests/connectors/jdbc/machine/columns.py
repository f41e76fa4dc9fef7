"""Types of columns in the words of each database, values of them, and which type may become which."""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

__all__ = ["ADDED", "NEXT", "WIDER", "Typed", "canonical", "declared", "same", "value_of"]

Typed = tuple[str, Any]
"""A value by its kind: `n` a number, `s` one of 24 bits, `t` text, `b` bytes, `d` a day, `m` a moment, `c` a time of day."""

_WORDS = {
    "bool": ("BOOLEAN", "BOOLEAN", "BOOLEAN"),
    "small": ("SMALLINT", "SMALLINT", "SMALLINT"),
    "int": ("INTEGER", "INTEGER", "INTEGER"),
    "big": ("BIGINT", "BIGINT", "BIGINT"),
    "unsigned": ("BIGINT", "INT UNSIGNED", "BIGINT"),
    "num2": ("NUMERIC(12,2)", "DECIMAL(12,2)", "NUMERIC(12,2)"),
    "num5": ("NUMERIC(15,5)", "DECIMAL(15,5)", "NUMERIC(15,5)"),
    "real": ("REAL", "FLOAT", "REAL"),
    "double": ("DOUBLE PRECISION", "DOUBLE", "DOUBLE PRECISION"),
    "text": ("TEXT", "TEXT", "TEXT"),
    "short": ("VARCHAR(20)", "VARCHAR(20)", "VARCHAR(20)"),
    "date": ("DATE", "DATE", "DATE"),
    "stamp": ("TIMESTAMP(3)", "DATETIME(3)", "TIMESTAMP"),
    "zoned": ("TIMESTAMPTZ(3)", "TIMESTAMP(3) NULL", "TIMESTAMP"),
    "time": ("TIME(3)", "TIME(3)", "TIME"),
    "bytes": ("BYTEA", "BLOB", "BLOB"),
}
_NUMBERS = ("small", "int", "big", "num2", "num5", "double", "text", "short")
NEXT = {
    **dict.fromkeys(("small", "int", "big", "unsigned", "num2", "num5", "real", "double"), _NUMBERS),
    "bool": ("text", "short", "int"),
    "text": ("short", "int", "num5", "bool", "date"),
    "short": ("text", "int", "num2", "bool"),
    "date": ("text", "short"),
    "stamp": ("zoned", "text"),
    "zoned": ("stamp",),
    "time": ("text",),
    "bytes": (),
}
"""What a type may become at the source; a statement that the database refuses is left out."""

ADDED = tuple(_WORDS)
WIDER = {
    "postgresql": {
        "smallint": "BIGINT",
        "integer": "BIGINT",
        "bigint": "NUMERIC",
        "real": "DOUBLE PRECISION",
        "numeric": "NUMERIC",
        "timestamp without time zone": "TIMESTAMPTZ",
        "date": "TEXT",
        "boolean": "TEXT",
    },
    "mariadb": {
        "smallint": "BIGINT",
        "int": "BIGINT",
        "bigint": "DECIMAL(40,10)",
        "datetime": "TIMESTAMP(6) NULL",
        "date": "VARCHAR(30)",
        "text": "LONGTEXT",
    },
    "sqlite": {},
}
"""What a column of the sink's table may become, so that it loses nothing, by the type that the server tells."""


def declared(kind: str, dialect: str) -> str:
    """Return a type in a database's words."""
    return _WORDS[kind][("postgresql", "mariadb", "sqlite").index(dialect)]


def value_of(kind: str, rng: Random, zone: ZoneInfo) -> Any:
    """Return a value of a type as its driver takes it, at its edges more often than not."""
    if rng.random() < 0.1:
        return None
    return _VALUES[kind](rng, zone)


def _moment(rng: Random) -> datetime:
    """Return a moment that is one in every zone's clock: no clock is put back then."""
    begin = datetime(2024, rng.choice((1, 2, 6, 7, 12)), rng.randint(10, 20), tzinfo=UTC)
    return begin + timedelta(milliseconds=rng.randrange(86_400_000))


def _text(rng: Random) -> str:
    return rng.choice(
        ("", "false", "true", "1", "0", "007", "-12", "1.5", "2024-01-03", "a b ", "ä€", "x" * 20, "'\\%")
    )


_VALUES: dict[str, Callable[[Random, ZoneInfo], Any]] = {
    "bool": lambda rng, _: rng.random() < 0.5,
    "small": lambda rng, _: rng.choice((0, 1, -1, 32767, -32768, rng.randrange(1000))),
    "int": lambda rng, _: rng.choice((0, 2, 2**31 - 1, -(2**31), rng.randrange(1 << 20))),
    "big": lambda rng, _: rng.choice((0, 3_000_000_000, 2**53 + 1, 2**63 - 1, -(2**63))),
    "unsigned": lambda rng, _: rng.choice((0, 3_000_000_000, 2**32 - 1)),
    "num2": lambda rng, _: Decimal(rng.choice((0, 1, 125, -999_999_999, rng.randrange(10**9)))).scaleb(-2),
    "num5": lambda rng, _: Decimal(rng.choice((0, 1, 199_900, -1, rng.randrange(10**14)))).scaleb(-5),
    "real": lambda rng, _: struct.unpack("f", struct.pack("f", rng.choice((0.5, 0.1, 16777215.0, rng.random()))))[0],
    "double": lambda rng, _: rng.choice((0.1, 1.5, -0.30000000000000004, 2.0**53, 1e300, rng.random())),
    "text": lambda rng, _: _text(rng),
    "short": lambda rng, _: _text(rng),
    "date": lambda rng, _: date(rng.choice((1970, 2024, 1066, 9999)), rng.randint(1, 12), rng.randint(1, 28)),
    "stamp": lambda rng, zone: _moment(rng).astimezone(zone).replace(tzinfo=None),
    "zoned": lambda rng, _: _moment(rng),
    "time": lambda rng, _: time(rng.randrange(24), rng.randrange(60), rng.randrange(60), rng.randrange(1000) * 1000),
    "bytes": lambda rng, _: rng.randbytes(rng.choice((0, 1, 9))),
}


def canonical(value: Any, type_: str, zone: ZoneInfo) -> Typed | None:
    """Return what a driver gave of a column of a type, as the server tells that, in a form that can be compared."""
    if value is None:
        return None
    if isinstance(value, bytes | memoryview | bytearray):
        return "b", bytes(value)
    if isinstance(value, datetime):
        if value.tzinfo is None:
            value = value.replace(tzinfo=UTC if type_ == "mariadb timestamp" else zone)
        return "m", value.astimezone(UTC)
    if isinstance(value, date):
        return "d", value
    if isinstance(value, time):
        return "c", value
    if isinstance(value, timedelta):
        return "c", (datetime(1970, 1, 1) + value).time()
    if isinstance(value, str):
        return _of_text(value, type_, zone)
    if type_ == "postgresql real":
        return "s", _single(value)  # of which the driver gives the shortest text
    return "n", Decimal(repr(value)) if isinstance(value, float) else Decimal(value)


def _of_text(value: str, type_: str, zone: ZoneInfo) -> Typed:
    """Return a text as what it stands for: SQLite's times are texts, and any text may stand in their columns."""
    try:
        match type_.partition("(")[0].lower():
            case "sqlite timestamp":
                return "m", _moment_of(value, zone)
            case "sqlite date":
                return "d", date.fromisoformat(value)
            case "sqlite time":
                return "c", time.fromisoformat(value)
    except ValueError:
        pass
    return "t", value


def _moment_of(text: str, zone: ZoneInfo) -> datetime:
    moment = datetime.fromisoformat(text)
    return (moment.replace(tzinfo=zone) if moment.tzinfo is None else moment).astimezone(UTC)


def same(told: Typed | None, kept: Typed | None, zone: ZoneInfo) -> bool:
    """Return whether a value is the same in another column, which may keep it as a text."""
    if told is None or kept is None or told[0] == kept[0]:
        return told == kept
    if "s" in told[0] + kept[0]:
        numbers = [_numbers(str(each[1])) for each in (told, kept)]
        return None not in numbers and len({_single(each) for each in numbers}) == 1
    kinds = told[0] + kept[0]
    if kinds in ("nt", "tn"):
        return _numbers(str(told[1])) == _numbers(str(kept[1])) is not None
    if kinds in ("mt", "tm"):
        text, moment = (kept[1], told[1]) if kept[0] == "t" else (told[1], kept[1])
        return _moment_of(text, zone) == moment
    if "t" in kinds and {"d", "c"} & {*kinds}:
        return _iso(told[1]) == _iso(kept[1])
    return kinds == "dm" and kept[1].astimezone(zone) == datetime.combine(told[1], time(), zone)


def _single(value: Any) -> Decimal:
    return Decimal(struct.unpack("f", struct.pack("f", value))[0])


def _iso(value: Any) -> str:
    text = value if isinstance(value, str) else value.isoformat()
    return str(text).rstrip("0").rstrip(".") if "." in text else str(text)


def _numbers(text: str) -> Decimal | None:
    words = {"true": 1, "t": 1, "false": 0, "f": 0}
    try:
        return Decimal(words.get(text.lower(), text))
    except ArithmeticError:
        return None
