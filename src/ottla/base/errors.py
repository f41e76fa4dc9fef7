"""The error tree.

::

    OttlaError
    ├── KafkaError        the peer's mistake or a state it must hear of: carries a protocol code, answered as such
    ├── WireError         bytes that are not a message: costs the connection
    ├── ConfigError       a key's value that is not allowed: stops the start, or answers INVALID_CONFIG
    └── StorageError      the disk failed: the partition, or its log directory, goes offline
        └── CorruptionError   bytes on disk that are not what was written

Our own mistakes are `assert` and crash; they are in no tree.
"""

from __future__ import annotations

from ottla.base.error_codes import RETRIABLE, ErrorCode

__all__ = ["ConfigError", "CorruptionError", "KafkaError", "OttlaError", "StorageError", "WireError"]


class OttlaError(Exception):
    """Root of every error that Ottla raises on purpose."""


class KafkaError(OttlaError):
    """A condition that is answered to the client as a Kafka protocol error.

    `code` is the protocol code; `message` the text for `ErrorMessage` fields and logs.
    """

    def __init__(self, code: ErrorCode, message: str = "") -> None:
        super().__init__(message or code.name)
        self.code = code
        self.message = message or code.name

    def __reduce__(self) -> tuple[type[KafkaError], tuple[object, ...]]:
        return type(self), (self.code, self.message)  # as the constructor takes it, to come back from a worker process

    @property
    def retriable(self) -> bool:
        """True where a client may send the same request again."""
        return self.code in RETRIABLE


class WireError(OttlaError):
    """Bytes from a peer that are not a well-formed message; the connection is closed with one log line."""


class ConfigError(OttlaError):
    """A configuration value that is not allowed: names the key, the value and what is allowed."""

    def __init__(self, key: str, value: object, allowed: str, message: str = "") -> None:
        """Phrase it as Kafka does, since clients see it; `message` is for what Kafka phrases in its own way."""
        super().__init__(message or f"Invalid value {value} for configuration {key}: {allowed}")
        self.key = key
        self.value = value
        self.allowed = allowed


class StorageError(OttlaError):
    """The disk refused an operation (EIO, ENOSPC, ...); what depends on it goes offline."""


class CorruptionError(StorageError):
    """A file holds bytes that its format does not allow."""
