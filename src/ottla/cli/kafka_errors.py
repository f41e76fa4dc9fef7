"""Errors as Kafka's tools print them: the Java exception's name before the words."""

from __future__ import annotations

from ottla.admin import words
from ottla.base import ErrorCode

__all__ = ["exception_text"]

PACKAGE = "org.apache.kafka.common.errors."
NAMES = {
    ErrorCode.NON_EMPTY_GROUP: "GroupNotEmptyException",
    ErrorCode.REQUEST_TIMED_OUT: "TimeoutException",
    ErrorCode.NETWORK_EXCEPTION: "TimeoutException",
    ErrorCode.INVALID_CONFIG: "InvalidConfigurationException",
    ErrorCode.UNKNOWN_SERVER_ERROR: "UnknownServerException",
}
"""The exceptions that are not simply the code's own words."""


def exception_text(code: ErrorCode, message: str | None = None) -> str:
    """Return the exception's name and its words, as Java prints an exception."""
    name = NAMES.get(code) or "".join(part.capitalize() for part in code.name.split("_"))
    name = name if name.endswith("Exception") else f"{name}Exception"
    return f"{PACKAGE}{name}: {words(code, message)}"
