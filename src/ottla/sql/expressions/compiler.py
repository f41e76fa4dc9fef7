"""Expressions become closures over rows, with their types."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache

from ottla.sql import functions
from ottla.sql.errors import EvaluationError, SqlError
from ottla.sql.expressions import decimals, lists, operators
from ottla.sql.expressions.casts import INT_BITS, LONG_BITS, cast, coerce_value, wrapped
from ottla.sql.expressions.scope import Scope
from ottla.sql.functions.signatures import LambdaType
from ottla.sql.patience import look_of
from ottla.sql.tree import expressions as e
from ottla.sql.tree.changing import changed
from ottla.sql.tree.expression_text import expression_text
from ottla.sql.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INTEGER,
    STRING,
    ArrayType,
    DecimalType,
    MapType,
    SqlType,
    StructType,
    is_number,
)

Row = tuple[object, ...]
Evaluate = Callable[[Row], object]
OnError = Callable[[Exception], None]
Compare = Callable[[object, object], object]


class _Null(EvaluationError):
    """A null where Java would have failed: the whole expression is null."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """An expression's type (None: only ever null), and what it is of a row; `evaluate` may raise."""

    type: SqlType | None
    evaluate: Evaluate


KEPT_LETTERS_MAX = 1000
"""Of a pattern that is kept for the next row; a row's own text may be a longer one."""
FAILURES = (EvaluationError, ArithmeticError, ValueError, TypeError, AttributeError, LookupError, RecursionError)


def type_of(expression: e.Expression, scope: Scope) -> SqlType | None:
    """The type of an expression, None for NULL; raises SqlError for what has none."""
    return compiled(expression, scope).type


def compile_expression(expression: e.Expression, scope: Scope, on_error: OnError | None = None) -> Evaluate:
    """The function of a row that an expression is; what fails is told to `on_error` and is null. Raises SqlError."""
    evaluate = compiled(expression, scope.telling(on_error)).evaluate

    def value(row: Row) -> object:
        try:
            return evaluate(row)
        except FAILURES as error:
            if on_error is not None:
                on_error(error)
            return None

    return value


def compile_condition(expression: e.Expression, scope: Scope, on_error: OnError | None = None) -> Callable[[Row], bool]:
    """The function of a row that says whether a condition holds: null and what fails do not. Raises SqlError."""
    evaluate = compiled(expression, scope.telling(on_error)).evaluate

    def holds(row: Row) -> bool:
        try:
            return evaluate(row) is True
        except FAILURES as error:
            if on_error is not None:
                on_error(error)
            return False

    return holds


def _or_null(evaluate: Evaluate, scope: Scope) -> Evaluate:
    """A part of an expression that is null where it fails: ksqlDB goes on with the rest of a cast, a list or a call.

    Unless a rule says that the whole is null then.
    """
    if scope.rules.whole:
        return evaluate
    on_error = scope.on_error

    def value(row: Row) -> object:
        try:
            return evaluate(row)
        except FAILURES as error:
            if on_error is not None:
                on_error(error)
            return None

    return value


def compiled(expression: e.Expression, scope: Scope) -> Compiled:
    """An expression with its type; raises SqlError in ksqlDB's words.

    A part is compiled once, however often it is asked for: twice at each depth would be a thousand times at the tenth.
    """
    parts = scope.parts
    if parts is None:
        parts = {}
        scope = replace(scope, parts=parts)
    found: tuple[e.Expression, Compiled] | None = parts.get(id(expression))
    if found is None:
        for part in _left_parts(expression, parts):  # the innermost first, so that a long chain is no deep recursion
            parts[id(part)] = part, _compiled(part, scope)
        found = parts[id(expression)] = expression, _compiled(expression, scope)
    return found[1]


def _left_parts(expression: e.Expression, known: Collection[int]) -> list[e.Expression]:
    """Return what stands left in a chain such as `a + b + c`, the innermost first, without what is known already."""
    found: list[e.Expression] = []
    while isinstance(expression, e.Arithmetic | e.Logical) and id(expression.left) not in known:
        expression = expression.left
        found.append(expression)
    return found[::-1]


def _compiled(expression: e.Expression, scope: Scope) -> Compiled:
    match expression:
        case (
            e.NullLiteral()
            | e.BooleanLiteral()
            | e.IntegerLiteral()
            | e.LongLiteral()
            | e.DoubleLiteral()
            | e.DecimalLiteral()
            | e.StringLiteral()
        ):
            return _literal(expression)
        case e.Column():
            place, type_ = scope.find(expression)
            return Compiled(type_, lambda row: row[place])
        case e.LambdaVariable(name):
            if name not in scope.variables:
                raise SqlError(f"Can't resolve the lambda variable {name}.")
            at, of = scope.variables[name]
            return Compiled(of, lambda row: row[at])
        case e.Arithmetic() | e.Sign():
            return _arithmetic(expression, scope) if isinstance(expression, e.Arithmetic) else _sign(expression, scope)
        case e.Comparison(operator, left, right):
            return _comparison(operator, left, right, scope)
        case e.Call(name, arguments):
            return _call(name, arguments, scope.under(expression.rules))
        case e.Cast(value, wanted):
            return _cast(value, wanted, scope.under(expression.rules))
        case e.Case():
            return _case(expression, scope)
        case e.Dereference() | e.Subscript():
            return _part(expression, scope)
        case e.MakeArray() | e.MakeMap() | e.MakeStruct():
            return _made(expression, scope.under(expression.rules))
        case e.Lambda() | e.TimeUnit():
            raise SqlError(f"{expression_text(expression)} is only an argument of a function")
        case _:
            return _condition(expression, scope)


def _shown(expression: e.Expression, scope: Scope) -> str:
    """An expression as messages about its types show it: columns by their names, of joined sources as `SOURCE_NAME`."""
    joined = len({source for source, _ in scope.columns} - {None}) > 1

    def change(part: e.Expression) -> e.Expression | None:
        if not isinstance(part, e.Column):
            return None
        owners = [source for source, name in scope.columns if name == part.name and part.source in (None, source)]
        return e.Column(f"{owners[0]}_{part.name}" if joined and owners and owners[0] is not None else part.name)

    return expression_text(changed(expression, change))


def _literal(literal: e.Literal) -> Compiled:
    if isinstance(literal, e.NullLiteral):
        return Compiled(None, lambda row: None)
    value = literal.value
    if isinstance(value, Decimal):
        return Compiled(decimals.type_of_value(value), lambda row: value)
    types: dict[type[object], SqlType] = {
        e.BooleanLiteral: BOOLEAN,
        e.IntegerLiteral: INTEGER,
        e.LongLiteral: BIGINT,
        e.DoubleLiteral: DOUBLE,
        e.StringLiteral: STRING,
    }
    return Compiled(types[type(literal)], lambda row: value)


def _arithmetic(node: e.Arithmetic, scope: Scope) -> Compiled:
    left, right = compiled(node.left, scope), compiled(node.right, scope)
    try:
        type_ = operators.arithmetic_type(node.operator, left.type, right.type)
    except SqlError as error:
        raise SqlError(f"Error processing expression: {_shown(node, scope)}. {error}") from None
    assert left.type is not None and right.type is not None, "they have a common type"
    calculate = operators.arithmetic(node.operator, left.type, right.type, type_)
    one, other = left.evaluate, right.evaluate
    if type_ == STRING:
        return Compiled(type_, lambda row: _text_of(one(row)) + _text_of(other(row)))

    def evaluate(row: Row) -> object:
        a, b = one(row), other(row)
        if a is None or b is None:
            raise _Null(f"null in {expression_text(node)}")
        return calculate(a, b)

    return Compiled(type_, evaluate)


def _text_of(value: object) -> str:
    """A text beside a `+`: as in Java, null is the text `null` there."""
    return "null" if value is None else str(value)


def _sign(node: e.Sign, scope: Scope) -> Compiled:
    inner = compiled(node.value, scope)
    if inner.type is None or not is_number(inner.type):
        raise SqlError(f"Unary {'minus' if node.sign == '-' else 'plus'} on unsupported type: {inner.type}")
    if node.sign == "+":
        return inner
    bits = {"INTEGER": INT_BITS, "BIGINT": LONG_BITS}.get(inner.type.base)
    of = inner.evaluate

    def evaluate(row: Row) -> object:
        value = of(row)
        if value is None:
            raise _Null(f"null in {expression_text(node)}")
        assert isinstance(value, int | float | Decimal), value
        return -value if bits is None else wrapped(-int(value), bits)

    return Compiled(inner.type, evaluate)


def _comparison(operator: str, left: e.Expression, right: e.Expression, scope: Scope) -> Compiled:
    compare, a, b = (
        _comparing(operator, left, right, scope),
        compiled(left, scope).evaluate,
        compiled(right, scope).evaluate,
    )
    return Compiled(BOOLEAN, lambda row: compare(a(row), b(row)))


def _comparing(operator: str, left: e.Expression, right: e.Expression, scope: Scope) -> Compare:
    """What compares the values of two expressions; raises SqlError for types that cannot be compared."""
    one, other = compiled(left, scope), compiled(right, scope)
    operators.check_comparison(operator, one.type, other.type, (_shown(left, scope), _shown(right, scope)))
    assert one.type is not None and other.type is not None, "they can be compared"
    return operators.comparison(operator, one.type, other.type)


def _between(node: e.Between, scope: Scope) -> Compiled:
    """Whether a value, computed once for each row, is between two others."""
    above, below = _comparing(">=", node.value, node.low, scope), _comparing("<=", node.value, node.high, scope)
    of, low, high = (compiled(each, scope).evaluate for each in (node.value, node.low, node.high))

    def evaluate(row: Row) -> bool:
        value = of(row)
        return bool(above(value, low(row))) and bool(below(value, high(row)))

    return Compiled(BOOLEAN, evaluate)


def _condition(node: e.Expression, scope: Scope) -> Compiled:
    match node:
        case e.Logical(operator, left, right):
            return _logical(operator == "AND", _truth(left, scope), _truth(right, scope))
        case e.Not(value):
            holds = _truth(value, scope)
            return Compiled(BOOLEAN, lambda row: not holds(row))
        case e.IsNull(value, negated):
            of = compiled(value, scope).evaluate
            if negated:
                return Compiled(BOOLEAN, lambda row: of(row) is not None)
            return Compiled(BOOLEAN, lambda row: of(row) is None)
        case e.Between():
            return _between(node, scope)
        case e.In(value, items):
            return _in(value, items, scope)
        case e.Like(value, pattern, escape):
            return _like(value, pattern, escape, scope)
        case _:
            raise AssertionError(f"not an expression: {node!r}")


def _truth(expression: e.Expression, scope: Scope) -> Evaluate:
    """A part of a condition, null of which makes the whole null."""
    inner = compiled(expression, scope)
    if isinstance(expression, e.Comparison | e.Logical | e.Not | e.IsNull | e.Between | e.In):
        return inner.evaluate  # never null
    of = inner.evaluate

    def evaluate(row: Row) -> object:
        value = of(row)
        if value is None:
            raise _Null(f"null in a condition: {expression_text(expression)}")
        return value

    return evaluate


def _logical(both: bool, left: Evaluate, right: Evaluate) -> Compiled:
    if both:
        return Compiled(BOOLEAN, lambda row: bool(left(row)) and bool(right(row)))
    return Compiled(BOOLEAN, lambda row: bool(left(row)) or bool(right(row)))


def _in(value: e.Expression, items: tuple[e.Expression, ...], scope: Scope) -> Compiled:
    every = (value, *items)
    wanted = lists.common_type_of(every, lambda item: type_of(item, scope))
    if wanted is None:
        return Compiled(BOOLEAN, lambda row: False)
    of, *others = (_converted(item, wanted, scope) for item in every)

    def evaluate(row: Row) -> bool:
        given = of(row)
        return given is not None and any(given == other(row) for other in others)

    return Compiled(BOOLEAN, evaluate)


def _like(value: e.Expression, pattern: e.Expression, escape: str | None, scope: Scope) -> Compiled:
    text, of = compiled(value, scope).evaluate, compiled(pattern, scope).evaluate
    known = lru_cache(64)(lambda given: operators.like_pattern(given, escape))

    def evaluate(row: Row) -> object:
        left, right = text(row), of(row)
        if left is None or right is None:
            raise _Null("null in LIKE")
        holds = known(right) if len(str(right)) <= KEPT_LETTERS_MAX else operators.like_pattern(str(right), escape)
        return holds(str(left))

    return Compiled(BOOLEAN, evaluate)


def _converted(expression: e.Expression, wanted: SqlType, scope: Scope) -> Evaluate:
    """An element of a list in the list's type; a literal that is none of it is refused."""
    inner = compiled(expression, scope)
    if inner.type is None or inner.type == wanted:
        return inner.evaluate
    if isinstance(expression, lists.LITERALS):
        convert = coerce_value(inner.type, wanted) or cast(inner.type, wanted)
        try:
            value = convert(inner.evaluate(()))
        except EvaluationError:
            raise SqlError(
                f"invalid input syntax for type {wanted.base}: {expression_text(expression)}.".replace("'", '"')
            ) from None
        return lambda row: value
    return _cast(expression, wanted, scope, made=True).evaluate


def _cast(value: e.Expression, wanted: SqlType, scope: Scope, *, made: bool = False) -> Compiled:
    if made and isinstance(value, e.MakeArray | e.MakeMap | e.MakeStruct):
        return _made(value, scope, wanted)
    inner = compiled(value, scope)
    convert = cast(inner.type, wanted, null_texts=scope.rules.null_texts)
    of = inner.evaluate
    return Compiled(wanted, _or_null(lambda row: convert(of(row)), scope))


def _case(node: e.Case, scope: Scope) -> Compiled:
    arms: list[tuple[Evaluate, Evaluate]] = []
    known: SqlType | None = None
    for when, then in node.whens:
        condition = when if node.operand is None else e.Comparison("=", node.operand, when)
        test, result = compiled(condition, scope), compiled(then, scope)
        if test.type != BOOLEAN:
            raise SqlError(
                f"WHEN operand type should be boolean.\nType for '{_shown(condition, scope)}' is {test.type}"
            )
        arms.append((_truth(condition, scope), result.evaluate))
        if result.type is None:
            continue
        if known not in (None, result.type):
            raise SqlError(
                "Invalid Case expression. Type for all 'THEN' clauses should be the same.\n"
                f"THEN expression 'WHEN {_shown(condition, scope)} THEN {_shown(then, scope)}' "
                f"has type: {result.type}.\nPrevious THEN expression(s) type: {known}."
            )
        known = result.type
    default = _case_default(node, known, scope)
    choose = (
        _first_arm(arms, default.evaluate)
        if node.operand is None
        else _first_equal(node.operand, node, default.evaluate, scope)
    )
    return Compiled(known or default.type, choose)


def _case_default(node: e.Case, known: SqlType | None, scope: Scope) -> Compiled:
    default = Compiled(None, lambda row: None) if node.default is None else compiled(node.default, scope)
    if known is not None and default.type not in (None, known):
        raise SqlError(
            "Invalid Case expression. Type for the default clause should be the same as for 'THEN' clauses.\n"
            f"THEN type: {known}.\nDEFAULT type: {default.type}."
        )
    if known is None and default.type is None:
        raise SqlError("Invalid Case expression. All case branches have NULL type")
    return default


def _first_arm(arms: list[tuple[Evaluate, Evaluate]], default: Evaluate) -> Evaluate:
    def evaluate(row: Row) -> object:
        for holds, result in arms:
            if holds(row):
                return result(row)
        return default(row)

    return evaluate


def _first_equal(operand: e.Expression, node: e.Case, default: Evaluate, scope: Scope) -> Evaluate:
    """The arms whose value is compared with an operand, which is computed once for each row."""
    of = compiled(operand, scope).evaluate
    arms = [
        (_comparing("=", operand, when, scope), compiled(when, scope).evaluate, compiled(then, scope).evaluate)
        for when, then in node.whens
    ]

    def evaluate(row: Row) -> object:
        value = of(row)
        for compare, other, result in arms:
            if compare(value, other(row)):
                return result(row)
        return default(row)

    return evaluate


def _part(node: e.Dereference | e.Subscript, scope: Scope) -> Compiled:
    base = compiled(node.base, scope)
    of = base.evaluate
    if isinstance(node, e.Dereference):
        if not isinstance(base.type, StructType):
            raise SqlError(f"Expected STRUCT type, got: {base.type}")
        field = base.type.field(node.name)
        if field is None:
            raise SqlError(f"Could not find field '{node.name}' in '{_shown(node.base, scope)}'.")
        name = node.name
        return Compiled(field, lambda row: None if (value := of(row)) is None else value.get(name))  # type: ignore[attr-defined]
    index = compiled(node.index, scope).evaluate
    if isinstance(base.type, ArrayType):
        return Compiled(base.type.item, lambda row: _item(of(row), index(row)))
    if isinstance(base.type, MapType):
        return Compiled(base.type.value, lambda row: None if (value := of(row)) is None else value.get(index(row)))  # type: ignore[attr-defined]
    hint = ""
    if isinstance(base.type, StructType):
        name = expression_text(node.index).strip("'")
        hint = f" Use the dereference operator for STRUCTS: {_shown(e.Dereference(node.base, name), scope)}"
    raise SqlError(f"Subscript expression ({_shown(node, scope)}) do not apply to {base.type}.{hint}")


def _item(values: object, index: object) -> object:
    if values is None or index is None:
        return None
    assert isinstance(values, list) and isinstance(index, int), (values, index)
    place = index - 1 if index >= 0 else len(values) + index
    return values[place] if 0 <= place < len(values) else None


_EMPTY = "{} constructor cannot be empty. Please supply at least one {} (see https://github.com/confluentinc/ksql/issues/4239)."
_ALL_NULL = (
    "Cannot construct {} with all NULL {} (see https://github.com/confluentinc/ksql/issues/4239). "
    "As a workaround, you may cast a NULL {} to the desired type."
)


def _made(node: e.MakeArray | e.MakeMap | e.MakeStruct, scope: Scope, wanted: SqlType | None = None) -> Compiled:
    if isinstance(node, e.MakeStruct):
        return _made_struct(node, scope, wanted)

    def of(items: list[e.Expression], what: tuple[str, str, str]) -> SqlType:
        found = lists.common_type_of(items, lambda item: type_of(item, scope))
        if found is None:
            raise SqlError(_ALL_NULL.format(*what))
        return found

    if isinstance(node, e.MakeArray):
        if not node.items:
            raise SqlError(_EMPTY.format("Array", "element"))
        item = wanted.item if isinstance(wanted, ArrayType) else of([*node.items], ("an array", "elements", "value"))
        parts = [_or_null(_converted(each, item, scope), scope) for each in node.items]
        return Compiled(ArrayType(item), lambda row: [part(row) for part in parts])
    if not node.entries:
        raise SqlError(_EMPTY.format("Map", "key value pair"))
    names, values = [name for name, _ in node.entries], [value for _, value in node.entries]
    known = wanted if isinstance(wanted, MapType) else None
    key = known.key if known else of(names, ("a map", "keys", "key"))
    value = known.value if known else of(values, ("a map", "values", "value"))
    pairs = [
        (_or_null(_converted(a, key, scope), scope), _or_null(_converted(b, value, scope), scope))
        for a, b in zip(names, values, strict=True)
    ]
    return Compiled(MapType(key, value), lambda row: {a(row): b(row) for a, b in pairs})


def _made_struct(node: e.MakeStruct, scope: Scope, wanted: SqlType | None) -> Compiled:
    given = dict(node.fields)
    if isinstance(wanted, StructType):
        makers: list[tuple[str, Evaluate]] = [
            (name, _or_null(_converted(given[name], type_, scope), scope) if name in given else lambda row: None)
            for name, type_ in wanted.fields
        ]
        return Compiled(wanted, lambda row: {name: make(row) for name, make in makers})
    inner = [(name, compiled(value, scope)) for name, value in node.fields]
    untyped = [name for name, part in inner if part.type is None]
    if untyped:
        raise SqlError(f"The field {untyped[0]} of a STRUCT is NULL: cast it to the type that it is to have.")
    type_ = StructType(tuple((name, part.type) for name, part in inner if part.type is not None))
    made = [(name, _or_null(part.evaluate, scope)) for name, part in inner]
    return Compiled(type_, lambda row: {name: make(row) for name, make in made})


def _call(name: str, arguments: tuple[e.Expression, ...], scope: Scope) -> Compiled:
    function = functions.scalar(name)
    if function is None:
        raise SqlError(f"Can't find any functions with the name '{name}'")
    types: list[functions.ArgumentType] = [
        functions.UNIT if isinstance(each, e.TimeUnit) else None if isinstance(each, e.Lambda) else type_of(each, scope)
        for each in arguments
    ]
    scopes = [scope for _ in arguments]
    for place, each in enumerate(arguments):
        if isinstance(each, e.Lambda):
            parameters = function.lambda_parameters(place, types, len(each.parameters))
            scopes[place] = scope.with_variables(zip(each.parameters, parameters, strict=True))
            types[place] = LambdaType(tuple(parameters), type_of(each.body, scopes[place]))
    resolved = function.resolve(types)
    parts = [_argument(each, resolved.parameters[place], scopes[place], scope) for place, each in enumerate(arguments)]
    call = resolved.call
    if len(parts) == 1:
        only = parts[0]
        return Compiled(resolved.returns, lambda row: call(only(row)))
    return Compiled(resolved.returns, lambda row: call(*[part(row) for part in parts]))


def _argument(node: e.Expression, wanted: functions.ArgumentType, inner: Scope, scope: Scope) -> Evaluate:
    """The function of a row that an argument is; `inner` is the scope of a lambda's body."""
    if isinstance(node, e.TimeUnit):
        unit = node.name
        return lambda row: unit
    if isinstance(node, e.Lambda):
        body, missing = compiled(node.body, inner).evaluate, scope.width

        def made(row: Row) -> object:
            held, look = row[:missing], look_of()

            def call(*values: object) -> object:
                if look is not None:
                    look()
                found = body((*held, *values))
                if isinstance(found, str | bytes | list | dict):  # REDUCE may double what it has, again and again
                    functions.check_size("a lambda", len(found))
                return found

            return call

        return made
    of = compiled(node, scope)
    if of.type is None or of.type == wanted or not isinstance(wanted, DecimalType | type(DOUBLE)):
        return _of_call(node, of.evaluate, scope)
    if of.type.base == wanted.base:
        return _of_call(node, of.evaluate, scope)
    convert, evaluate = cast(of.type, wanted), of.evaluate
    return _or_null(lambda row: convert(evaluate(row)), scope)


def _of_call(node: e.Expression, evaluate: Evaluate, scope: Scope) -> Evaluate:
    """An argument: a call, or a field of a struct, that fails is a null argument."""
    return _or_null(evaluate, scope) if isinstance(node, e.Call | e.Dereference) else evaluate
