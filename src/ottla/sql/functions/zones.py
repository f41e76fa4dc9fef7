"""Zones of java.time: their ids, what they are called, and how far from UTC they are."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from ottla.sql.errors import EvaluationError

OFFSET_HOURS_MAX = 18
_OFFSET = re.compile(r"([+-])(?:(\d{1,2})|(\d{2}):?(\d{2})(?::?(\d{2}))?)")
_DAYS_OF_DATETIME = range(-719_000, 2_932_000)
"""The days since 1970 that Python's dates hold, but for a few at their ends."""
_DAY_MS, _CYCLE_DAYS = 86_400_000, 146_097
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Zone:
    """A `ZoneId`: its id, and what knows its offsets. An offset alone (`fixed`) has its text as id."""

    id: str
    info: tzinfo
    fixed: bool = False

    def offset_seconds(self, utc_ms: int) -> int:
        """The offset at a moment."""
        return _seconds((_EPOCH + timedelta(milliseconds=_within(utc_ms))).astimezone(self.info))

    def name(self, utc_ms: int) -> str:
        """What the zone is called at a moment, as `EST`."""
        if self.fixed:
            return self.id
        found = (_EPOCH + timedelta(milliseconds=_within(utc_ms))).astimezone(self.info)
        return found.tzname() or self.id

    def utc_ms(self, local_ms: int) -> int:
        """The moment at which the zone's clocks show a time: the earlier of two, and of none that of the offset before."""
        local = (_EPOCH + timedelta(milliseconds=_within(local_ms))).replace(tzinfo=self.info)
        return local_ms - _seconds(local) * 1000


def _within(ms: int) -> int:
    """A moment in the years that Python has dates of: the same one of another 400 years, which have the same calendar."""
    day = ms // _DAY_MS
    if day in _DAYS_OF_DATETIME:
        return ms
    cycles = (
        -(-(day - _DAYS_OF_DATETIME[-1]) // _CYCLE_DAYS) if day > 0 else (day - _DAYS_OF_DATETIME[0]) // _CYCLE_DAYS
    )
    return ms - cycles * _CYCLE_DAYS * _DAY_MS


def _seconds(at: datetime) -> int:
    return int((at.utcoffset() or timedelta()).total_seconds())


UTC_ZONE: Final = Zone("UTC", UTC)
GMT_ZONE: Final = Zone("GMT", UTC)


def offset_text(seconds: int) -> str:
    """An offset as `ZoneOffset.getId` has it: `Z`, `+01:00`, `-00:30:15`."""
    if not seconds:
        return "Z"
    sign, rest = "-" if seconds < 0 else "+", abs(seconds)
    text = f"{sign}{rest // 3600:02}:{rest // 60 % 60:02}"
    return f"{text}:{rest % 60:02}" if rest % 60 else text


def offset_zone(seconds: int) -> Zone:
    """The zone that is an offset; raises EvaluationError for one of more than 18 hours."""
    if abs(seconds) > OFFSET_HOURS_MAX * 3600:
        raise EvaluationError("Zone offset not in valid range: -18:00 to +18:00")
    return Zone(offset_text(seconds), timezone(timedelta(seconds=seconds)), fixed=True)


@lru_cache(256)
def zone_of(name: str) -> Zone:
    """What `ZoneId.of` makes of a name; raises EvaluationError where there is none."""
    if name == "Z":
        return offset_zone(0)
    if name[:1] in "+-" and name:
        return offset_zone(_parsed_offset(name))
    prefix = next((each for each in ("UTC", "GMT", "UT") if name.startswith(each)), None)
    if prefix is not None and name == prefix:
        return Zone(prefix, UTC)
    if prefix is not None and name[len(prefix)] in "+-" and name != "GMT0":
        seconds = _parsed_offset(name[len(prefix) :])
        return Zone(prefix + (offset_text(seconds) if seconds else ""), timezone(timedelta(seconds=seconds)))
    try:
        return Zone(name, ZoneInfo(name))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise EvaluationError(f"Unknown time-zone ID: {name}") from None


def _parsed_offset(text: str) -> int:
    found = _OFFSET.fullmatch(text)
    if found is None:
        raise EvaluationError(f"Invalid ID for ZoneOffset, invalid format: {text}")
    hours, minutes, seconds = int(found[2] or found[3]), int(found[4] or 0), int(found[5] or 0)
    if minutes > 59 or seconds > 59:
        raise EvaluationError(f"Zone offset minutes and seconds are not in valid range: {text}")
    total = (hours * 60 + minutes) * 60 + seconds
    return -total if found[1] == "-" else total


ABBREVIATIONS: Final = {
    "UTC": "UTC",
    "GMT": "GMT",
    "Z": "UTC",
    "EST": "America/New_York",
    "EDT": "America/New_York",
    "ET": "America/New_York",
    "CST": "America/Chicago",
    "CDT": "America/Chicago",
    "MST": "America/Denver",
    "MDT": "America/Denver",
    "PST": "America/Los_Angeles",
    "PDT": "America/Los_Angeles",
    "CET": "Europe/Paris",
    "CEST": "Europe/Paris",
    "EET": "Europe/Bucharest",
    "EEST": "Europe/Bucharest",
    "WET": "Europe/Lisbon",
    "BST": "Europe/London",
    "JST": "Asia/Tokyo",
    "KST": "Asia/Seoul",
    "IST": "Asia/Kolkata",
    "HKT": "Asia/Hong_Kong",
    "SGT": "Asia/Singapore",
    "MSK": "Europe/Moscow",
    "AEST": "Australia/Sydney",
    "AEDT": "Australia/Sydney",
    "NZST": "Pacific/Auckland",
    "NZDT": "Pacific/Auckland",
    "HST": "Pacific/Honolulu",
    "AKST": "America/Anchorage",
    "AKDT": "America/Anchorage",
}
"""Zones that texts name by their short names."""

LONG_NAMES: Final = {
    "UTC": "Coordinated Universal Time",
    "GMT": "Greenwich Mean Time",
    "EST": "Eastern Standard Time",
    "EDT": "Eastern Daylight Time",
    "CST": "Central Standard Time",
    "CDT": "Central Daylight Time",
    "MST": "Mountain Standard Time",
    "MDT": "Mountain Daylight Time",
    "PST": "Pacific Standard Time",
    "PDT": "Pacific Daylight Time",
    "CET": "Central European Standard Time",
    "CEST": "Central European Summer Time",
    "EET": "Eastern European Standard Time",
    "EEST": "Eastern European Summer Time",
    "WET": "Western European Standard Time",
    "WEST": "Western European Summer Time",
    "BST": "British Summer Time",
    "JST": "Japan Standard Time",
    "IST": "India Standard Time",
}
"""What zones are called in full, by their short names."""
