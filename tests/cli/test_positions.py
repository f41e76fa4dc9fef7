"""Positions and times in people's words."""

from __future__ import annotations

import pytest

from ottla.base import Millis
from ottla.cli.records.positions import Kind, Position, parse_moment, parse_position

NOW = Millis(1_800_000_000_000)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("-1h", NOW - 3_600_000),
        ("@-1h30m", NOW - 5_400_000),
        ("-2d12h", NOW - 216_000_000),
        ("-500ms", NOW - 500),
        ("@1700000000", 1_700_000_000_000),
        ("@1700000000123", 1_700_000_000_123),
        ("@2026-01-01", 1_767_225_600_000),
        ("@2026-01-01T00:00", 1_767_225_600_000),
        ("@2026-01-01T00:00:00.250Z", 1_767_225_600_250),
        ("@2026-01-01T02:00+02:00", 1_767_225_600_000),
        ("@1960-01-01", 0),
        ("-99999w", 0),
    ],
)
def test_times_are_understood(text: str, moment: int) -> None:
    assert parse_moment(text, NOW) == moment


@pytest.mark.parametrize("text", ["", "@", "@yesterday", "-1y", "1h", "-h", "@2026-13-01", "--1h", "-1h x"])
def test_what_is_no_time_is_none(text: str) -> None:
    assert parse_moment(text, NOW) is None


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("earliest", Position(Kind.FROM_START, 0)),
        ("start", Position(Kind.FROM_START, 0)),
        ("end", Position(Kind.FROM_END, 0)),
        ("47", Position(Kind.OFFSET, 47)),
        ("+2", Position(Kind.FROM_START, 2)),
        ("-3", Position(Kind.FROM_END, 3)),
        ("-3s", Position(Kind.TIME, NOW - 3000)),
    ],
)
def test_positions_are_understood(text: str, position: Position) -> None:
    assert parse_position(text, NOW) == position


@pytest.mark.parametrize("text", ["foo", "4.5", "٤", "1e3", "9" * 19])
def test_what_is_no_position_is_none(text: str) -> None:
    assert parse_position(text, NOW) is None
