"""Errors as Kafka's tools print them: the Java exception's name before the words."""

from __future__ import annotations

from ottla.base import ErrorCode, KafkaError

__all__ = ["exception_text", "raise_code", "words"]

PACKAGE = "org.apache.kafka.common.errors."
NAMES = {
    ErrorCode.NON_EMPTY_GROUP: "GroupNotEmptyException",
    ErrorCode.REQUEST_TIMED_OUT: "TimeoutException",
    ErrorCode.NETWORK_EXCEPTION: "TimeoutException",
    ErrorCode.INVALID_CONFIG: "InvalidConfigurationException",
    ErrorCode.UNKNOWN_SERVER_ERROR: "UnknownServerException",
}
"""The exceptions that are not simply the code's own words."""
WORDS = {
    ErrorCode.GROUP_ID_NOT_FOUND: "The group id does not exist.",
    ErrorCode.NON_EMPTY_GROUP: "The group is not empty.",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "This server does not host this topic-partition.",
    ErrorCode.OFFSET_OUT_OF_RANGE: "The requested offset is not within the range of offsets maintained by the server.",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: (
        "Deleting offsets of a topic is forbidden while the consumer group is actively subscribed to it."
    ),
}
"""What Kafka's tools say of a code that comes without words, where people and scripts look for it."""


def words(code: ErrorCode, message: str | None = None) -> str:
    """Return the broker's words, or else what stands for the code."""
    return message or WORDS.get(code, code.name)


def exception_text(code: ErrorCode, message: str | None = None) -> str:
    """Return the exception's name and its words, as Java prints an exception."""
    name = NAMES.get(code) or "".join(part.capitalize() for part in code.name.split("_"))
    name = name if name.endswith("Exception") else f"{name}Exception"
    return f"{PACKAGE}{name}: {words(code, message)}"


def raise_code(error_code: int, message: str | None = None) -> None:
    """Raise KafkaError where an answer's code is one, in the broker's words."""
    if error_code:
        code = ErrorCode(error_code)
        raise KafkaError(code, words(code, message))
