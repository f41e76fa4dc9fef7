"""The levels of this process's loggers, in log4j's words, as `/admin/loggers` shows and sets them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from ottla.connect.errors import NotFoundError

__all__ = ["LoggerLevels"]

_LEVELS = {
    "ALL": 1,
    "TRACE": 5,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
    "OFF": logging.CRITICAL + 10,
}
_ROOT = "root"
NAMES_MAX = 10_000
"""Loggers live as long as the process: so many at most are made for clients that ask for names of their own."""


def _word(level: int) -> str:
    return next((word for word, lowest in reversed(_LEVELS.items()) if level >= lowest), "ALL")


class LoggerLevels:
    """Reads and sets levels; remembers when they were set, in ms of `now_ms`."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._modified: dict[str, int] = {}
        self.on_change: Callable[[Mapping[str, int]], object] = lambda levels: None
        """Called with the levels that were set, in numbers, by logger; the root's name is empty."""

    def level(self, name: str) -> dict[str, Any]:
        """Return a logger's level, the effective one where none is set; raises NotFoundError for an unknown logger."""
        found = _existing().get(_ROOT if name.lower() == _ROOT else name)
        if found is None:
            raise NotFoundError(f"Logger {name} not found.")
        return self._shown(found)

    def levels(self) -> dict[str, dict[str, Any]]:
        """Return all loggers that are not off, by name."""
        shown = {name: self._shown(found) for name, found in sorted(_existing().items())}
        return {name: each for name, each in shown.items() if each["level"] != "OFF"}

    def set(self, namespace: str, level: str) -> list[str]:
        """Set the level of a logger and all below it, and return the names of those that it changed."""
        word = self.checked(level)
        name = _ROOT if namespace.lower() == _ROOT else namespace
        known = _existing()
        if name not in known:
            if len(known) >= NAMES_MAX:
                raise NotFoundError(f"Logger {namespace} not found.")
            known[name] = logging.getLogger(name)
            fresh = {name}
        else:
            fresh = set()
        below = [each for each in known if name in (_ROOT, each) or each.startswith(f"{name}.")]
        changed = [each for each in below if each in fresh or _word(known[each].getEffectiveLevel()) != word]
        for each in below:
            known[each].setLevel(_LEVELS[word])
        self.on_change(
            {"" if each == _ROOT else each: _LEVELS[word] for each in below if each == name or each in fresh}
        )
        self._modified.update(dict.fromkeys(changed, self._now_ms()))
        return sorted(changed)

    @staticmethod
    def checked(level: str) -> str:
        """Return a level's name in capitals; raises NotFoundError, as Kafka does, for what is none."""
        word = level.upper()
        if word not in _LEVELS:
            raise NotFoundError(f"invalid log level '{level}'.")
        return word

    def _shown(self, found: logging.Logger) -> dict[str, Any]:
        name = _ROOT if found is logging.getLogger() else found.name
        return {"level": _word(found.getEffectiveLevel()), "last_modified": self._modified.get(name)}


def _existing() -> dict[str, logging.Logger]:
    made = logging.Logger.manager.loggerDict
    known = {name: each for name, each in list(made.items()) if isinstance(each, logging.Logger)}
    return {_ROOT: logging.getLogger(), **known}
