"""How a server logs: one line per event on standard error, as text or as JSON."""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import TextIO

__all__ = ["FORMATS", "LEVELS", "log_to_stderr", "log_to_stream"]

FORMATS = ("text", "json")
LEVELS = ("debug", "info", "warning", "error")
LINE_JOINT = " | "
"""What stands for the line breaks of a stack, so that an event stays one line."""


class TextFormatter(logging.Formatter):
    """`2026-01-31 12:00:00,123 INFO message (logger)`."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s (%(name)s)")

    def format(self, record: logging.LogRecord) -> str:
        """Return the event's line."""
        return LINE_JOINT.join(super().format(record).splitlines())


class JsonFormatter(logging.Formatter):
    """An object with `time` (RFC 3339, UTC), `level`, `logger`, `message`, and `stack` where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the event's line."""
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        event = {
            "time": f"{seconds}.{int(record.msecs):03d}Z",
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            event["stack"] = self.formatException(record.exc_info)
        return json.dumps(event, ensure_ascii=False)


def log_to_stderr(format_name: str, level: str) -> None:
    """Log events from this level on, in one of `FORMATS`, from now on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if format_name == "json" else TextFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


def log_to_stream(stream: TextIO, level: str) -> None:
    """Log events from this level on as text to one place more."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(TextFormatter())
    handler.setLevel(level.upper())
    logging.getLogger().addHandler(handler)
