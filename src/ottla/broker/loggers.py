"""The process's loggers as configuration: their levels can be asked for and changed live (KIP-412)."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from ottla.base import ErrorCode, KafkaError
from ottla.config import ConfigEntry, ConfigSource, ConfigType, Synonym
from ottla.metadata import decide

__all__ = ["ROOT", "change_levels", "logger_entries"]

ROOT = "root"
LEVELS = {
    "TRACE": 5,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}
"""Kafka's names of levels, and Python's numbers."""


def _names() -> list[str]:
    known = logging.Logger.manager.loggerDict
    return [ROOT, *sorted(name for name, each in known.items() if isinstance(each, logging.Logger))]


def _level_name(logger: logging.Logger) -> str:
    level = logger.getEffectiveLevel()
    return next((name for name, number in LEVELS.items() if level <= number), "FATAL")


def logger_entries(names: Sequence[str] | None) -> list[ConfigEntry]:
    """Return every logger, or those named, with the level in effect."""
    wanted = None if names is None else set(names)
    return [_entry(name) for name in _names() if wanted is None or name in wanted]


def _entry(name: str) -> ConfigEntry:
    level = _level_name(logging.getLogger(None if name == ROOT else name))
    source = ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG
    return ConfigEntry(
        name=name,
        value=level,
        source=source,
        synonyms=(Synonym(name, level, source),),
        type=ConfigType.STRING,
        read_only=False,
        sensitive=False,
        doc="",
    )


def change_levels(operations: Iterable[tuple[str, int, str | None]], *, validate_only: bool) -> None:
    """Set levels (SET), or let loggers follow those above them (DELETE): all of them, or none where one is wrong."""
    known = set(_names())
    operations = list(operations)
    for name, operation, value in operations:
        if name not in known:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Logger {name} does not exist!")
        if operation == decide.ConfigOperation.SET and value not in LEVELS:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"Cannot set the log level of {name} to {value} as it is not a supported log level. "
                f"Valid log levels are {', '.join(LEVELS)}",
            )
        if operation == decide.ConfigOperation.DELETE and name == ROOT:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Removing the log level of the {ROOT} logger is not allowed")
        if operation not in (decide.ConfigOperation.SET, decide.ConfigOperation.DELETE):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"{decide.ConfigOperation(operation).name} operation is not allowed for the BROKER_LOGGER resource",
            )
    if not validate_only:
        for name, operation, value in operations:
            level = LEVELS[value or ""] if operation == decide.ConfigOperation.SET else logging.NOTSET
            logging.getLogger(None if name == ROOT else name).setLevel(level)
