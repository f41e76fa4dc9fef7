"""Expressions as values of columns, as INSERT VALUES takes them: without columns, and with no conversion but to wider types.

A text becomes a date, a time, a timestamp, or bytes that it says in base64; it never becomes a number, nor a number a text.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, cast

from ottla.sql.errors import EvaluationError, SqlError
from ottla.sql.expressions import decimals, times
from ottla.sql.expressions.compiler import FAILURES, compiled
from ottla.sql.expressions.scope import Scope
from ottla.sql.expressions.texts import value_text
from ottla.sql.tree import expressions as e
from ottla.sql.tree.expression_text import expression_text
from ottla.sql.types import ArrayType, DecimalType, MapType, SqlType, StructType, backticked


def _raise(error: Exception) -> None:
    raise error


_NOTHING = Scope.of(()).telling(_raise)
_WIDER = {"INTEGER": ("BIGINT", "DOUBLE"), "BIGINT": ("DOUBLE",), "DECIMAL": ("DOUBLE",)}
_EXACT = ("INTEGER", "BIGINT", "DECIMAL")
_FORMS = {
    "TIMESTAMP": ". Timestamp format must be yyyy-mm-ddThh:mm:ss[.S]",
    "TIME": ". Time format must be hh:mm:ss[.S]",
    "DATE": ". Date format must be yyyy-mm-dd",
}


class _Unfit(Exception):
    """A value that is none of the type that is wanted."""


def strict_value(expression: e.Expression, name: str, type_: SqlType, operation: str = "insert value") -> object:
    """What an expression is worth as a value of a column; raises SqlError in ksqlDB's words."""
    if next(_columns(expression), None) is not None:
        raise SqlError(f"Unsupported column reference in {operation}: {expression_text(expression)}")
    found = compiled(expression, _NOTHING)
    if found.type is None:
        return None
    try:
        value = found.evaluate(())
    except FAILURES as error:
        raise SqlError(str(error)) from None
    try:
        return _coerced(value, found.type, type_)
    except _Unfit:
        hint = _FORMS.get(type_.base, "") if found.type.base == "STRING" else ""
        raise SqlError(
            f"Expected type {type_} for field {backticked(name)} but got "
            f"{found.type.base}({value_text(value, found.type)}){hint}"
        ) from None


def _columns(tree: object) -> Iterator[e.Column]:
    if isinstance(tree, e.Column):
        yield tree
    elif isinstance(tree, e.Lambda):
        yield from (each for each in _columns(tree.body) if each.source is not None or each.name not in tree.parameters)
    elif isinstance(tree, tuple):
        for item in tree:
            yield from _columns(item)
    else:
        for name in getattr(type(tree), "__dataclass_fields__", ()):
            yield from _columns(getattr(tree, name))


def _coerced(value: object, of: SqlType, to: SqlType) -> object:
    if value is None or of == to:
        return value
    if isinstance(to, DecimalType) and of.base in _EXACT:
        return _decimal(cast(Any, value), to)
    if to.base in _WIDER.get(of.base, ()):
        return float(cast(Any, value)) if to.base == "DOUBLE" else value
    if of.base == "STRING":
        return _of_text(str(value).strip(), to)
    if isinstance(of, ArrayType) and isinstance(to, ArrayType):
        return [_coerced(each, of.item, to.item) for each in cast(list[object], value)]
    if isinstance(of, MapType) and isinstance(to, MapType):
        entries = cast(dict[object, object], value).items()
        return {_coerced(key, of.key, to.key): _coerced(each, of.value, to.value) for key, each in entries}
    if isinstance(of, StructType) and isinstance(to, StructType):
        given = cast(dict[str, object], value)
        return {
            name: None if (inner := of.field(name)) is None else _coerced(given.get(name), inner, wanted)
            for name, wanted in to.fields
        }
    raise _Unfit


def _decimal(value: int | Decimal, to: DecimalType) -> Decimal:
    given = Decimal(value)
    try:
        found = decimals.rounded(given, to)
    except EvaluationError:
        raise _Unfit from None
    if found != given:
        raise _Unfit
    return found


def _of_text(text: str, to: SqlType) -> object:
    parse = {"TIMESTAMP": times.parse_timestamp, "TIME": times.parse_time, "DATE": times.parse_date}.get(to.base)
    try:
        if parse is not None:
            return parse(text)
        if to.base == "BYTES":
            return base64.b64decode(text, validate=True)
    except (EvaluationError, binascii.Error, ValueError):
        pass
    raise _Unfit
