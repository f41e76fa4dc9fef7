"""PostgreSQL's dates and timestamps as it prints them, for every year that it has; infinities are for the caller. Pure.

The calendar is PostgreSQL's: Gregorian at all times.
"""

from __future__ import annotations

import re
from datetime import date

__all__ = ["days_and_us"]

_EPOCH_DAY = date(1970, 1, 1).toordinal()
_CYCLE = 400, 146_097
_ZONE = r"(?:Z|([+-])(\d\d)(?::?(\d\d))?(?::(\d\d))?)?"
_FORM = re.compile(rf"(\d{{4,}})-(\d\d)-(\d\d)(?:[ T](\d\d):(\d\d):(\d\d)(?:\.(\d{{1,6}}))?{_ZONE})?( BC)?")


def days_and_us(text: str) -> tuple[int, int, int] | None:
    """Return days from 1970 and microseconds of a text's local time, and the microseconds that its zone is ahead.

    None for what is no date or timestamp; raises ValueError for a day that no calendar has.
    """
    found = _FORM.fullmatch(text.strip())
    if found is None:
        return None
    year = int(found[1]) if found[12] is None else 1 - int(found[1])
    cycles, near = divmod(year - 1, _CYCLE[0])
    days = date(near + 1, int(found[2]), int(found[3])).toordinal() + cycles * _CYCLE[1] - _EPOCH_DAY
    seconds = (int(found[4] or 0) * 60 + int(found[5] or 0)) * 60 + int(found[6] or 0)
    ahead = (int(found[9] or 0) * 60 + int(found[10] or 0)) * 60 + int(found[11] or 0)
    fraction = int((found[7] or "0").ljust(6, "0"))
    return days, seconds * 1_000_000 + fraction, (-ahead if found[8] == "-" else ahead) * 1_000_000
