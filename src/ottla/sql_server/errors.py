"""What a server refuses, with ksqlDB's error codes: the first three digits are the HTTP status."""

from __future__ import annotations

from typing import Any

from ottla.base import OttlaError

__all__ = [
    "BAD_REQUEST",
    "BAD_STATEMENT",
    "COMMAND_TIMEOUT",
    "FAILED_ASSERTION",
    "FORBIDDEN_KAFKA",
    "NOT_FOUND",
    "PUSH_LIMIT",
    "QUERY_ENDPOINT",
    "SERVER_ERROR",
    "SHUTTING_DOWN",
    "TOO_MANY",
    "UNAUTHORIZED",
    "StatementError",
]

BAD_REQUEST, BAD_STATEMENT, QUERY_ENDPOINT, PUSH_LIMIT = 40000, 40001, 40002, 40003
UNAUTHORIZED, FORBIDDEN_KAFKA, NOT_FOUND, FAILED_ASSERTION, TOO_MANY = 40100, 40301, 40400, 41700, 42900
SERVER_ERROR, COMMAND_TIMEOUT, SHUTTING_DOWN = 50000, 50301, 50303


class StatementError(OttlaError):
    """A statement, or a request, that is refused."""

    def __init__(self, code: int, message: str, statement: str | None = None, entities: Any = ()) -> None:
        super().__init__(message)
        self.code, self.message, self.statement = code, message, statement
        self.entities = list(entities)
        """Answers to the statements before it."""

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self.code // 100

    def body(self) -> dict[str, Any]:
        """Return what clients read."""
        if self.statement is None:
            return {"@type": "generic_error", "error_code": self.code, "message": self.message}
        return {
            "@type": "statement_error",
            "error_code": self.code,
            "message": self.message,
            "statementText": self.statement,
            "entities": self.entities,
        }
