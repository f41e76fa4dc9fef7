"""A flood of bad connections fills no disk with lines about them."""

from __future__ import annotations

import logging

from ottla.broker.requests.line_rate import LineRate


def record(created_s: float, text: str = "from %s") -> logging.LogRecord:
    found = logging.LogRecord("any", logging.WARNING, __file__, 1, text, ("here",), None)
    found.created = created_s
    return found


def test_so_many_lines_of_a_second_are_written_and_then_how_many_were_not() -> None:
    rate = LineRate(3)
    assert [rate.filter(record(10 + at / 100)) for at in range(6)] == [True, True, True, False, False, False]
    later = record(11.0)
    assert rate.filter(later)
    assert later.getMessage() == "from here (3 more like it were not written)"
    after = record(11.1)
    assert rate.filter(after) and after.getMessage() == "from here"
