"""The common type of lists that a user writes, as in `IN (…)`, `ARRAY[…]` and `MAP(…)`, literals taken for more."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ottla.sql.errors import EvaluationError, SqlError
from ottla.sql.expressions import decimals
from ottla.sql.expressions.casts import boolean_of, common_type, type_of_number_text
from ottla.sql.tree import expressions as e
from ottla.sql.tree.expression_text import expression_text
from ottla.sql.types import DOUBLE, ArrayType, MapType, SqlType, StructType, is_number

TypeOf = Callable[[e.Expression], SqlType | None]
LITERALS = (
    *(e.NullLiteral, e.BooleanLiteral, e.IntegerLiteral, e.LongLiteral, e.DoubleLiteral, e.DecimalLiteral),
    e.StringLiteral,
)


def common_type_of(items: Sequence[e.Expression], type_of: TypeOf) -> SqlType | None:
    """The widest type of a list, None where all are NULL; raises SqlError where they have none in common."""
    found: SqlType | None = None
    for item in items:
        found = _with(item, type_of(item), found, type_of)
    return found


def _with(item: e.Expression, type_: SqlType | None, found: SqlType | None, type_of: TypeOf) -> SqlType | None:
    if found is None or type_ is None:
        return found or type_
    match item:
        case e.MakeArray(items) if isinstance(found, ArrayType):
            return _array_with(items, found, type_of)
        case e.MakeMap(entries) if isinstance(found, MapType):
            key = _elements([key for key, _ in entries], found.key, type_of)
            value = _elements([value for _, value in entries], found.value, type_of)
            return MapType(key, value)
        case e.MakeStruct(fields) if isinstance(found, StructType):
            return _struct_with(fields, found, type_of)
        case e.MakeArray() | e.MakeMap() | e.MakeStruct():
            raise _no_common_type(item, type_, found)
        case e.StringLiteral(text) if is_number(found):
            return _number_with(text, found)
        case e.StringLiteral(text) if found.base == "BOOLEAN":
            if boolean_of(text) is None:
                raise _no_such_value(text, found)
            return found
    is_literal = isinstance(item, LITERALS)
    both = common_type(type_, found, literal=is_literal) or common_type(found, type_, literal=is_literal)
    if both is None:
        raise _no_common_type(item, type_, found)
    return both


def _elements(items: Sequence[e.Expression], wanted: SqlType, type_of: TypeOf) -> SqlType:
    found: SqlType | None = wanted
    for item in items:
        found = _with(item, type_of(item), found, type_of)
    assert found is not None, "it begins with a type"
    return found


def _array_with(items: Sequence[e.Expression], found: ArrayType, type_of: TypeOf) -> SqlType:
    return ArrayType(_elements(items, found.item, type_of))


def _struct_with(fields: Sequence[tuple[str, e.Expression]], found: StructType, type_of: TypeOf) -> SqlType:
    result: list[tuple[str, SqlType]] = []
    given = dict(fields)
    for name in [*given, *(name for name, _ in found.fields if name not in given)]:
        wanted = found.field(name)
        if name not in given:
            assert wanted is not None, name
            result.append((name, wanted))
            continue
        type_ = type_of(given[name])
        both = type_ if wanted is None else _with(given[name], type_, wanted, type_of)
        assert both is not None, name
        result.append((name, both))
    return StructType(tuple(result))


def _number_with(text: str, found: SqlType) -> SqlType:
    try:
        type_ = type_of_number_text(text)
    except EvaluationError:
        raise _no_such_value(text, found) from None
    if DOUBLE in (type_, found):
        return DOUBLE
    if "DECIMAL" in (type_.base, found.base):
        return decimals.widened(type_, found)
    return found if type_.base == "INTEGER" else type_


def _no_such_value(text: str, wanted: SqlType) -> SqlError:
    return SqlError(f'invalid input syntax for type {wanted.base}: "{text}".')


def _no_common_type(item: e.Expression, type_: SqlType | None, wanted: SqlType) -> SqlError:
    return SqlError(
        f"operator does not exist: {wanted} = {type_} ({expression_text(item)})\n"
        "Hint: You might need to add explicit type casts."
    )
