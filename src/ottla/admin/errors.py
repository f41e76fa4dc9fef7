"""What went wrong while a cluster was administered: the broker's own words, or Kafka's for its code."""

from __future__ import annotations

from ottla.base import ErrorCode, KafkaError, OttlaError

__all__ = ["AdminError", "invalid_request", "raise_code", "words"]

WORDS = {
    ErrorCode.GROUP_ID_NOT_FOUND: "The group id does not exist.",
    ErrorCode.NON_EMPTY_GROUP: "The group is not empty.",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "This server does not host this topic-partition.",
    ErrorCode.OFFSET_OUT_OF_RANGE: "The requested offset is not within the range of offsets maintained by the server.",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: (
        "Deleting offsets of a topic is forbidden while the consumer group is actively subscribed to it."
    ),
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: "Delegation Token feature is not enabled.",
    ErrorCode.DELEGATION_TOKEN_NOT_FOUND: "Delegation Token is not found on server.",
    ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH: "Specified Principal is not valid Owner/Renewer.",
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: (
        "Delegation Token requests are not allowed on PLAINTEXT/1-way SSL channels and on delegation token "
        "authenticated channels."
    ),
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: "Delegation Token authorization failed.",
    ErrorCode.DELEGATION_TOKEN_EXPIRED: "Delegation Token is expired.",
    ErrorCode.INVALID_PRINCIPAL_TYPE: "Supplied principalType is not supported.",
}
"""What Kafka's tools say of a code that comes without words, where people and scripts look for it."""


def words(code: ErrorCode, message: str | None = None) -> str:
    """Return the broker's words, or else what stands for the code."""
    return message or WORDS.get(code, code.name)


class AdminError(OttlaError):
    """What was asked for makes no sense, whatever the cluster is like; nothing was sent to it. The text is Kafka's."""


def invalid_request(message: str) -> KafkaError:
    """Return the error of what cannot be carried out on this cluster, which a tool finds before the cluster is asked."""
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


def raise_code(error_code: int, message: str | None = None) -> None:
    """Raise KafkaError where an answer's code is one, in the broker's words."""
    if error_code:
        code = ErrorCode(error_code)
        raise KafkaError(code, words(code, message))
