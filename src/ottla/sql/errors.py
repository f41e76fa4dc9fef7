"""What SQL refuses, in ksqlDB's words.

::

    OttlaError
    └── SqlError            a statement that is refused: the message says what, where and what to do
        ├── ParseError      the text is no statement: has a line and a column
        ├── RegistryAwayError the schema registry gave no answer; the same statement may do later
        ├── EvaluationError one record's value could not be computed; costs a column, never the query
        ├── TooLongError    what a statement says takes longer than it may (`patience`)
        └── UnsupportedError a statement that ksqlDB knows and Ottla does not run yet; the message names the feature
"""

from __future__ import annotations

from ottla.base import OttlaError

MESSAGE_MAX = 2_000
"""Characters of a message about a record's value."""


class SqlError(OttlaError):
    """A statement that is refused for what it means."""


class RegistryAwayError(SqlError):
    """A statement that needs the schema registry, which gave no answer, or none that counts: it may do so later."""


class ParseError(SqlError):
    """A text that is no statement of the language.

    `line` and `column` count from 1 and name the first character that cannot be read on; `details` is the message
    without them.
    """

    def __init__(self, details: str, line: int, column: int) -> None:
        super().__init__(f"line {line}:{column}: {details}")
        self.details = details
        self.line = line
        self.column = column

    def __reduce__(self) -> tuple[type[ParseError], tuple[object, ...]]:
        return type(self), (self.details, self.line, self.column)


class ValueRefused(SqlError):
    """A record's value that is refused. Its message is cut: a value of a megabyte is not told whole, once per record."""

    def __init__(self, message: str) -> None:
        super().__init__(message if len(message) <= MESSAGE_MAX else f"{message[:MESSAGE_MAX]}…")


class EvaluationError(ValueRefused):
    """A value that cannot be computed from this record."""


class UnsupportedError(SqlError):
    """A statement that is good SQL and does not run here yet; the message names the feature."""
