"""What expressions of SQL are worth: their types, refused in ksqlDB's words, and closures over rows.

A row is a tuple; a `Scope` says which of its places a column is. `compile_expression` gives a function of a row; what fails
in it is told to `on_error` and gives null: one value is lost, never a record. Comparisons with null are false and
everything else of null is null, as in the Java that ksqlDB generates.
"""

from __future__ import annotations

from ottla.sql.expressions.casts import cast, coerce_value
from ottla.sql.expressions.compiler import (
    Compiled,
    OnError,
    Row,
    compile_condition,
    compile_expression,
    type_of,
)
from ottla.sql.expressions.scope import Scope

__all__ = [
    "Compiled",
    "OnError",
    "Row",
    "Scope",
    "cast",
    "coerce_value",
    "compile_condition",
    "compile_expression",
    "type_of",
]
