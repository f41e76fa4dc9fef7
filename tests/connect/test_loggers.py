"""Levels of loggers are set for a logger and those below it, and for no other."""

from __future__ import annotations

import logging

from ottla.connect.logger_levels import LoggerLevels


def test_a_logger_that_only_begins_like_another_keeps_its_level() -> None:
    names = ["ottla.alike", "ottla.alike.below", "ottla.alikeness"]
    found = [logging.getLogger(each) for each in names]
    try:
        assert LoggerLevels(lambda: 0).set("ottla.alike", "ERROR") == names[:2]
        assert [each.level for each in found] == [logging.ERROR, logging.ERROR, logging.NOTSET]
    finally:
        for each in found:
            each.setLevel(logging.NOTSET)
