"""Scalar functions by name, and which of a function's overloads given arguments mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from ottla.sql.errors import EvaluationError, SqlError
from ottla.sql.functions.signatures import (
    ArgumentType,
    Bound,
    LambdaType,
    Pattern,
    Signature,
    fit,
    made,
    signature,
)
from ottla.sql.types import PRIMITIVES, DecimalType, SqlType

Call = Callable[..., object]
F = TypeVar("F", bound=Call)
Returns = Callable[[Sequence[ArgumentType]], SqlType]
"""What a function returns, where its parameters alone do not say that."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """An overload that fits: what it returns, what each argument has to be, and the function itself."""

    returns: SqlType
    parameters: tuple[ArgumentType, ...]
    call: Call


@dataclass(frozen=True, slots=True)
class Overload:
    """A signature and its function; `returns` where the type depends on more than letters."""

    signature: Signature
    call: Call
    returns: Returns | None = None


@dataclass(slots=True)
class ScalarFunction:
    """A function of values, by all of its overloads."""

    name: str
    description: str
    overloads: list[Overload] = field(default_factory=list)

    def resolve(self, types: Sequence[ArgumentType]) -> Resolved:
        """The overload that arguments of these types mean, the nearest; raises SqlError in ksqlDB's words."""
        best: tuple[int, Overload, Bound, tuple[Pattern, ...]] | None = None
        for overload in self.overloads:
            found = _cost(overload.signature, types)
            if found is not None and (best is None or found[0] < best[0]):
                best = (found[0], overload, found[1], found[2])
        if best is None:
            raise SqlError(self._refusal(types))
        _, overload, bound, patterns = best
        wanted = tuple(_wanted(pattern, given, bound) for pattern, given in zip(patterns, types, strict=True))
        returns = overload.returns(wanted) if overload.returns else made(overload.signature.returns, bound)
        return Resolved(returns, wanted, overload.call)

    def lambda_parameters(self, place: int, types: Sequence[ArgumentType], count: int) -> tuple[SqlType | None, ...]:
        """The types of the parameters of the lambda at `place`, by the arguments before it; raises SqlError."""
        for overload in self.overloads:
            patterns = overload.signature.patterns(len(types))
            if patterns is None or patterns[place].name != "LAMBDA" or len(patterns[place].parts) != count + 1:
                continue
            bound: Bound = {}
            if all(fit(patterns[at], types[at], bound) is not None for at in range(place)):
                return tuple(made(part, bound) for part in patterns[place].parts[:-1])
        raise SqlError(self._refusal([*types[:place], LambdaType((None,) * count, None), *types[place + 1 :]]))

    def _refusal(self, types: Sequence[ArgumentType]) -> str:
        given = ", ".join("null" if each is None else str(each) for each in types)
        valid = "\n".join(sorted(overload.signature.text(self.name) for overload in self.overloads))
        return (
            f"Function '{self.name.lower()}' does not accept parameters ({given}).\nValid alternatives are:\n{valid}\n"
            "For detailed information on a function run: DESCRIBE FUNCTION <Function-Name>;"
        )


def _cost(of: Signature, types: Sequence[ArgumentType]) -> tuple[int, Bound, tuple[Pattern, ...]] | None:
    patterns = of.patterns(len(types))
    if patterns is None:
        return None
    bound: Bound = {}
    cost = 0 if of.repeated is None else 1
    for pattern, given in zip(patterns, types, strict=True):
        found = fit(pattern, given, bound)
        if found is None:
            return None
        cost += found * 2
    return cost, bound, patterns


def _wanted(pattern: Pattern, given: ArgumentType, bound: Bound) -> ArgumentType:
    """What an argument is converted to: numbers to the wider type that the parameter is."""
    if pattern.name in PRIMITIVES:
        return PRIMITIVES[pattern.name]
    if pattern.name == "DECIMAL" and given is not None and not isinstance(given, LambdaType | DecimalType):
        return DecimalType(10, 0) if str(given) == "INTEGER" else DecimalType(19, 0)
    return bound.get(pattern.name, given) if len(pattern.name) == 1 else given


RESULT_MAX = 1 << 24
"""How many characters, bytes or elements a function may make of a few: a record of Kafka's is no longer either."""


def check_size(name: str, size: int, most: int = RESULT_MAX) -> None:
    """Raise EvaluationError where a result would be too large."""
    if size > most:
        raise EvaluationError(f"{name} would make {size} elements; at most {most} are made")


_SCALARS: dict[str, ScalarFunction] = {}
OTHER_NAMES: dict[str, str] = {}


def known_scalars() -> dict[str, ScalarFunction]:
    """Every scalar function by its name in upper case."""
    return _SCALARS


def scalar(name: str, *signatures: str, nulls: bool = False, returns: Returns | None = None) -> Callable[[F], F]:
    """Register a function under a name, with its signatures; its docstring is its description.

    Null arguments give null without a call, unless `nulls` is set.
    """

    def register(call: F) -> F:
        function = _SCALARS.setdefault(name, ScalarFunction(name, (call.__doc__ or "").strip()))
        given = call if nulls else _null_for_nulls(call)
        function.overloads.extend(Overload(signature(text), given, returns) for text in signatures)
        return call

    return register


def _null_for_nulls(call: Call) -> Call:
    def guarded(*arguments: object) -> object:
        return None if None in arguments else call(*arguments)

    def guarded_one(argument: object) -> object:
        return None if argument is None else call(argument)

    code = getattr(call, "__code__", None)
    return guarded_one if code is not None and code.co_argcount == 1 and not code.co_flags & 4 else guarded
