"""Times in the patterns of Java's SimpleDateFormat, which Kafka's tools take for theirs."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime

from ottla.cli.options import UsageError

__all__ = ["format_java_date"]

PARTS = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+")
FIELDS: dict[str, Callable[[datetime], int]] = {
    "d": lambda at: at.day,
    "D": lambda at: at.timetuple().tm_yday,
    "H": lambda at: at.hour,
    "k": lambda at: at.hour or 24,
    "K": lambda at: at.hour % 12,
    "h": lambda at: at.hour % 12 or 12,
    "m": lambda at: at.minute,
    "s": lambda at: at.second,
    "S": lambda at: at.microsecond // 1000,
    "u": lambda at: at.isoweekday(),
}
"""Letters whose number is filled with zeros to the number of letters."""


def format_java_date(at: datetime, pattern: str) -> str:
    """Return a time as `yyyy-MM-dd HH:mm:ss:SSS` and the like ask for; raises UsageError for an unknown letter."""
    return "".join(_part(at, match) for match in PARTS.finditer(pattern))


def _part(at: datetime, match: re.Match[str]) -> str:
    text, letter, length = match[0], match[2], len(match[0])
    if letter is None:
        return text if not text.startswith("'") else (match[1] or "'").replace("''", "'")
    if letter in FIELDS:
        return f"{FIELDS[letter](at):0{length}}"
    match letter:
        case "y" | "Y":
            return f"{at.year % 100:02}" if length == 2 else f"{at.year:0{length}}"
        case "M" | "L":
            return f"{at.month:0{length}}" if length < 3 else at.strftime("%b" if length == 3 else "%B")
        case "E":
            return at.strftime("%a" if length < 4 else "%A")
        case "a":
            return at.strftime("%p")
        case "z":
            return at.astimezone().strftime("%Z")
        case "Z":
            return at.astimezone().strftime("%z")
    raise UsageError(f"Illegal pattern character '{letter}' in the date format")
