"""ksqlDB's SQL: its grammar, its types, its functions and what expressions of it are worth.

Pure: texts become statements (`split_statements`), statements print themselves again (`statement_text`), and whatever is
refused is a `SqlError` in ksqlDB's words. `ottla.sql.testing` runs statements over records. Needs no Spark and no broker.
"""

from __future__ import annotations

from ottla.sql.documents import (
    Change,
    Condition,
    Measure,
    Measured,
    document_changes,
    document_condition,
    document_path,
    measured_condition,
)
from ottla.sql.errors import EvaluationError, ParseError, RegistryAwayError, SqlError, UnsupportedError
from ottla.sql.parser.texts import (
    StatementText,
    parse_expression,
    parse_statement,
    parse_type_text,
    single_statement,
    split_statements,
    substituted,
)
from ottla.sql.patience import TooLongError, watched
from ottla.sql.tree.expression_text import expression_text, quoted
from ottla.sql.tree.statement_text import statement_text

__all__ = [
    "Change",
    "Condition",
    "EvaluationError",
    "Measure",
    "Measured",
    "ParseError",
    "RegistryAwayError",
    "SqlError",
    "StatementText",
    "TooLongError",
    "UnsupportedError",
    "document_changes",
    "document_condition",
    "document_path",
    "expression_text",
    "measured_condition",
    "parse_expression",
    "parse_statement",
    "parse_type_text",
    "quoted",
    "single_statement",
    "split_statements",
    "statement_text",
    "substituted",
    "watched",
]
