"""Serdes: bytes of a topic ↔ Python values ↔ columns of Spark.

A serde has three faces: `serialize`/`deserialize` for Python functions and state, and `sql_type`, `sql_decode` and
`sql_encode` for column expressions. Serializers are compatible with Kafka's own of the same name.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

__all__ = ["Serde"]


@runtime_checkable
class Serde(Protocol):
    """How a key or a value is written in a topic. Instances are picklable and comparable."""

    @property
    def name(self) -> str:
        """A short name for plans and error messages: `string`, `long`, `json`, `Account`."""

    @property
    def sql_type(self) -> str | None:
        """The Spark SQL type (DDL text) of the decoded column, or None where only Python can decode it."""

    def serialize(self, value: Any) -> bytes | None:
        """Return a value's bytes; None stays None. Raises SerializationError."""

    def deserialize(self, data: bytes | None) -> Any:
        """Return the value of bytes; None stays None. Raises SerializationError, also for bytes that are no such value."""

    def sql_decode(self, column: str) -> str:
        """Return Spark SQL text that decodes a binary column to `sql_type`; bad bytes give null."""

    def sql_encode(self, column: str) -> str:
        """Return Spark SQL text that encodes a column of `sql_type` to binary."""
