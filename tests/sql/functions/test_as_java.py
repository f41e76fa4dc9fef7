"""Functions answer as Java does, whose answers are recorded (`python -m tests.sql.facts`); a refusal is an error or null."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from decimal import Decimal

import pytest

from ottla.java import double_text, hash_ordered
from ottla.sql.errors import SqlError
from ottla.sql.expressions.casts import cast
from ottla.sql.functions import dates, encodings, numbers, scalar, strings, urls
from ottla.sql.types import DOUBLE, INTEGER, STRING, DecimalType
from tests.sql.facts import FACTS

_ROUGH = 1e-14
"""How far Java's own Math may be from the C library's, relatively; ksqlDB's cases allow 1e-6."""


def _uri(text: str) -> str:
    port = urls.url_port(text)
    parts = (
        *(urls.url_protocol(text), urls.url_host(text), -1 if port is None else port, urls.url_path(text)),
        *(urls.url_query(text), urls.url_fragment(text)),
    )
    return "|".join("null" if each is None else str(each) for each in parts)


def _math(name: str, x: str, y: str) -> float:
    function = scalar(name)
    assert function is not None
    both = name in ("ATAN2", "POWER")
    call = function.resolve([DOUBLE] * (2 if both else 1)).call
    return call(float(x), float(y)) if both else call(float(x))  # type: ignore[return-value]


def _decimal(text: str, precision: str, scale: str) -> object:
    return f"{cast(DOUBLE, DecimalType(int(precision), int(scale)))(float(text)):f}"


_ANSWERS: dict[str, Callable[..., object]] = {
    "format timestamp": lambda ms, pattern, zone: dates.format_timestamp_in(int(ms), pattern, zone),
    "format date": lambda day, pattern: dates.format_date(int(day), pattern),
    "format time": lambda ms, pattern: dates.format_time(int(ms), pattern),
    "parse timestamp": dates.parse_timestamp_in,
    "parse time": dates.parse_time,
    "parse date": dates.string_to_date,
    "uri": _uri,
    "url encode": urls.url_encode,
    "url decode": urls.url_decode,
    "double text": lambda text: double_text(float(text)),
    "math": _math,
    "abs int": lambda text: numbers.absolute_integer(int(text)),
    "abs long": lambda text: numbers.absolute_bigint(int(text)),
    "round": lambda text: numbers.rounded(float(text)),
    "round decimal": lambda text, places: f"{numbers.rounded_decimal_to(Decimal(text), int(places)):f}",
    "decimal of double": _decimal,
    "upper": strings.upper,
    "lower": strings.lower,
    "trim": strings.trimmed,
    "base64": lambda text: encodings.to_bytes(text, "base64").hex(),
    "parse int": lambda text: cast(STRING, INTEGER)(text),
    "parse double": lambda text: cast(STRING, DOUBLE)(text),
    "hash order": lambda size, *keys: ",".join(hash_ordered(dict.fromkeys(keys), int(size) if size else None)),
}

TRIMMED = frozenset(("parse int", "parse double"))
"""ksqlDB takes spaces away before Java sees the text."""


def _facts() -> dict[str, list[tuple[list[str], str | None]]]:
    found: dict[str, list[tuple[list[str], str | None]]] = {}
    for (kind, *given), answer in json.loads(FACTS.read_text()):
        found.setdefault(kind, []).append((given, answer))
    return found


def _same(found: object, wanted: str | None, kind: str) -> bool:
    if found is None or wanted is None:
        return found is None and wanted is None
    if kind in ("math", "parse double"):
        assert isinstance(found, float)
        other = float(wanted)
        if math.isnan(other) or math.isinf(other) or not other:
            return double_text(found) == wanted
        return math.isclose(found, other, rel_tol=_ROUGH)
    return str(found) == wanted


@pytest.mark.parametrize(("kind", "facts"), _facts().items())
def test_answers_are_javas(kind: str, facts: list[tuple[list[str], str | None]]) -> None:
    different = []
    for given, wanted in facts:
        if kind in TRIMMED and given[0] != given[0].strip():
            continue
        try:
            found = _ANSWERS[kind](*given)
        except (SqlError, ArithmeticError, ValueError):
            found = None
        if not _same(found, wanted, kind):
            different.append(f"{given}: Java says {wanted!r}, not {found!r}")
    assert not different, "\n".join(different)
