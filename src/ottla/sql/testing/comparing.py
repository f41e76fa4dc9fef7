"""What was expected beside what came, as ksqlDB's test runner compares them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal

from ottla.sql.formats.json import compact_text
from ottla.sql.testing.runner import CaseRecord

DOUBLES_MAX_APART = 1e-6


def difference(expected: Sequence[Mapping[str, object]], found: Sequence[CaseRecord]) -> str | None:
    """The first difference of topics that something is expected of, None where there is none.

    Counts and orders of each topic are exact, DOUBLEs may be a millionth apart, a timestamp counts where one is expected.
    """
    for topic in dict.fromkeys(str(each["topic"]) for each in expected):
        wanted = [each for each in expected if each["topic"] == topic]
        came = [each for each in found if each.topic == topic]
        for at, (one, other) in enumerate(zip(wanted, came, strict=False)):
            if (text := _differs(one, other)) is not None:
                return f"topic {topic}, record {at}: {text}"
        if len(wanted) != len(came):
            return f"topic {topic}: expected {len(wanted)} records, but there are {len(came)}"
    return None


def _differs(wanted: Mapping[str, object], found: CaseRecord) -> str | None:
    for part, came in (("key", found.key), ("value", found.value)):
        if not _same(wanted.get(part), came):
            return f"expected the {part} {compact_text(wanted.get(part))}, but it is {compact_text(came)}"
    expected = wanted.get("timestamp")
    if isinstance(expected, int) and expected != found.timestamp:
        return f"expected the timestamp {expected}, but it is {found.timestamp}"
    return None


def _same(wanted: object, found: object) -> bool:
    if isinstance(wanted, dict) and isinstance(found, dict):
        upper = {str(name).upper(): value for name, value in wanted.items()}
        return all(_same(wanted.get(name, upper.get(str(name).upper())), value) for name, value in found.items()) and (
            {str(name).upper() for name in wanted} <= {str(name).upper() for name in found}
        )
    if isinstance(wanted, list) and isinstance(found, list):
        return len(wanted) == len(found) and all(map(_same, wanted, found))
    if isinstance(wanted, bool) or isinstance(found, bool):
        return wanted is found
    if isinstance(wanted, int | float | Decimal) and isinstance(found, int | float | Decimal):
        return wanted == found or abs(float(wanted) - float(found)) < DOUBLES_MAX_APART
    return wanted == found
