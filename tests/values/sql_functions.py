"""Every scalar, aggregate and table function of SQL, over every hostile value of what it takes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from ottla.sql import parse_expression
from ottla.sql.errors import EvaluationError, SqlError
from ottla.sql.expressions import Scope, compile_expression
from ottla.sql.functions import catalogue
from ottla.sql.functions.aggregates import AGGREGATES
from ottla.sql.functions.signatures import Pattern
from ottla.sql.functions.tables import TABLE_FUNCTIONS
from ottla.sql.types import BIGINT, DOUBLE, INTEGER, PRIMITIVES, STRING, ArrayType, MapType, SqlType, StructType
from tests.values.sql_values import PLAIN, WIDE, values_of
from tests.values.watched import Case, short

LETTERS: tuple[SqlType, ...] = (STRING, BIGINT, WIDE, DOUBLE, ArrayType(STRING))
UNITS = ("MILLISECONDS", "DAYS", "MINUTES")
CALLS_MAX = 400
REPEATED = 3
LAMBDA_BODIES = {"BOOLEAN": "{0} IS NULL"}


def cases() -> Iterator[Case]:
    """Every function."""
    chance = random.Random(7)
    for function in sorted(catalogue(), key=lambda each: each.name):
        for number, overload in enumerate(function.overloads):
            count = len(overload.signature.parameters) + (
                REPEATED - 1 if overload.signature.repeated is not None else 0
            )
            patterns = overload.signature.patterns(count)
            assert patterns is not None
            for letter in LETTERS if any(map(_has_letter, patterns)) else LETTERS[:1]:
                yield from _calls(f"{function.name}#{number}", function.name, patterns, letter, chance)
    yield from _aggregates()
    for name, table in TABLE_FUNCTIONS.items():
        for type_ in map(ArrayType, (*PLAIN, ArrayType(STRING))):
            call = table.resolve([type_]).call
            for value in values_of(type_):
                yield Case(f"{name}({type_}) {short(value)}", lambda call=call, value=value: call(value), (SqlError,))


def _has_letter(pattern: Pattern) -> bool:
    return pattern.name == "ANY" or len(pattern.name) == 1 or any(map(_has_letter, pattern.parts))


def _type(pattern: Pattern, letter: SqlType) -> SqlType:
    if pattern.name in PRIMITIVES:
        return PRIMITIVES[pattern.name]
    parts = [_type(each, letter) for each in pattern.parts]
    match pattern.name:
        case "ARRAY":
            return ArrayType(parts[0] if parts else letter)
        case "MAP":
            key = parts[0] if parts and not isinstance(parts[0], ArrayType) else STRING
            return MapType(key, parts[1] if parts else letter)
        case "STRUCT":
            return StructType(tuple(zip(pattern.fields, parts, strict=True)) or (("A", letter),))
        case "DECIMAL":
            return WIDE
    return letter


def _calls(
    label: str, name: str, patterns: tuple[Pattern, ...], letter: SqlType, chance: random.Random
) -> Iterator[Case]:
    arguments, columns, values = [], [], []
    for at, pattern in enumerate(patterns):
        if pattern.name == "UNIT":
            arguments.append(chance.choice(UNITS))
            continue
        if pattern.name == "LAMBDA":
            names = [f"L{at}{chr(97 + place)}" for place in range(len(pattern.parts) - 1)]
            body = f"{names[0]} IS NULL" if pattern.parts[-1].name == "BOOLEAN" else names[0]
            arguments.append(f"({', '.join(names)}) => {body}" if len(names) > 1 else f"{names[0]} => {body}")
            continue
        type_ = _type(pattern, letter)
        arguments.append(f"C{at}")
        columns.append((None, f"C{at}", type_))
        values.append(values_of(type_))
    text = f"{name}({', '.join(arguments)})"
    errors: list[Exception] = []
    try:
        evaluate = compile_expression(parse_expression(text), Scope.of(columns), errors.append)
    except SqlError as error:
        if "ambiguous" in str(error) or "does not accept" in str(error) or "lambda" in str(error).lower():
            return  # another overload of the same function takes these
        raise

    def call(row: tuple[object, ...]) -> Callable[[], object]:
        def evaluated() -> object:
            errors.clear()
            found = evaluate(row)
            unnamed = next((each for each in errors if not isinstance(each, EvaluationError)), None)
            if unnamed is not None:
                raise unnamed
            return found

        return evaluated

    types = ", ".join(str(each[2]) for each in columns)
    for row in _rows(values, chance):
        yield Case(f"{label} {text} of {types} over {short(row)}", call(row), (EvaluationError,))


def _rows(values: list[list[object]], chance: random.Random) -> Iterator[tuple[object, ...]]:
    """All combinations where there are few; else every value once with others by chance, and more by chance."""
    if not values:
        yield ()
        return
    most = max(map(len, values))
    orders = [chance.sample(of, len(of)) for of in values]
    rounds = max(1, min(CALLS_MAX // most, 8)) if len(values) > 1 else 1
    for turn in range(rounds):
        for at in range(most):
            yield tuple(of[(at + turn * (place * 7 + 1)) % len(of)] for place, of in enumerate(orders))


def _aggregates() -> Iterator[Case]:
    for name, function in AGGREGATES.items():
        for types, literals in _aggregate_arguments(name):
            try:
                made = function.resolve(types, literals)
            except SqlError:
                continue
            columns = [values_of(each) for each in types]
            longest = max(map(len, columns))
            rows = [tuple(of[at % len(of)] for of in columns) for at in range(longest)]

            def folded(made=made, rows=rows) -> None:
                state = other = made.initial()
                for row in rows:
                    try:
                        state = made.add(state, *row)
                        made.result(state)
                        if made.merge is not None:
                            made.merge(state, other)
                        if made.undo is not None:
                            made.undo(state, *row)
                    except EvaluationError as error:
                        assert str(error)

            yield Case(f"{name}({', '.join(map(str, types))}; {literals})", folded, (EvaluationError,))


def _aggregate_arguments(name: str) -> Iterator[tuple[tuple[SqlType, ...], tuple[object, ...]]]:
    for type_ in (*PLAIN, ArrayType(BIGINT), ArrayType(WIDE), MapType(STRING, INTEGER), StructType((("A", STRING),))):
        for literals in ((), (3,), (True,), (2, False)):
            yield (type_,), literals
    yield (DOUBLE, DOUBLE), ()
    yield (BIGINT, STRING), (2,)
