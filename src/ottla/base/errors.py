"""The error tree.

::

    OttlaError
    ├── KafkaError        the peer's mistake or a state it must hear of: carries a protocol code, answered as such
    ├── WireError         bytes that are not a message: costs the connection
    ├── ConfigError       a key's value that is not allowed: stops the start, or answers INVALID_CONFIG
    └── StorageError      the disk refused or failed; `broker/replicas/failures.py` says what each kind costs
        ├── NoSpaceError      no bytes, inodes, quota or descriptors: nothing happened; costs one answer
        ├── CorruptionError   bytes on disk that are not what was written: costs the partition's answer
        └── MissingFileError  a file vanished: costs the partition

Our own mistakes are `assert` and crash; they are in no tree.
"""

from __future__ import annotations

from ottla.base.error_codes import RETRIABLE, ErrorCode

__all__ = [
    "FENCED",
    "ConfigError",
    "CorruptionError",
    "KafkaError",
    "MissingFileError",
    "NoSpaceError",
    "OttlaError",
    "StorageError",
    "UnwritableError",
    "WireError",
]

FENCED: frozenset[ErrorCode] = frozenset(
    {ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_ID_MAPPING}
)
"""Codes that say to a transactional producer that another one has taken its transactional id over (KIP-447, KIP-588)."""


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


class UnwritableError(ValueError):
    """A message has a value that its field cannot carry, such as a number that is too large: a mistake of who made it."""


class StorageError(OttlaError):
    """The disk refused an operation (EIO, EROFS, ...).

    `path` is the file or folder whose operation failed, "" where that is not one of a disk: by it the broker finds the
    log directory that failed, which need not be the one that was worked for.
    """

    def __init__(self, message: str, path: str = "") -> None:
        super().__init__(message)  # alone in `args`: pickling takes `path` along as an attribute
        self.path = path


class NoSpaceError(StorageError):
    """There is no room: no bytes, inodes, quota or descriptors. Nothing happened, or was put back; it may be asked again."""


class CorruptionError(StorageError):
    """A file holds bytes that its format does not allow."""


class MissingFileError(StorageError):
    """A file or folder that was there is gone."""
