"""Scalar functions by name, and which of a function's overloads given arguments mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar, cast

from ottla.sql.errors import EvaluationError, SqlError
from ottla.sql.functions.signatures import (
    ANY_TYPE,
    ArgumentType,
    Bound,
    LambdaType,
    Pattern,
    Signature,
    Unit,
    fit,
    has_letters,
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
    typed: bool = False
    """Whether `call` makes the function, of the types of its arguments."""

    @property
    def rank(self) -> tuple[int, int, int, int]:
        """Which of two overloads that both fit is meant: the greater."""
        of = self.signature
        letters = sum(has_letters(each) for each in of.parameters)
        repeated = -1 if of.repeated is None else of.repeated
        return int(of.repeated is None), len(of.parameters), -letters, repeated


_DECLARED = {
    **{each.upper(): each for each in ("Abs", "Ceil", "Chr", "Floor", "LPad", "Round", "RPad")},
    **{
        each: each
        for each in (
            *(
                "ARRAY_CONTAINS",
                "ARRAY_JOIN",
                "ARRAY_LENGTH",
                "AS_MAP",
                "AS_VALUE",
                "COALESCE",
                "ENTRIES",
                "GENERATE_SERIES",
                "IFNULL",
            ),
            *("IS_JSON_STRING", "JSON_ARRAY_CONTAINS", "JSON_ARRAY_LENGTH", "JSON_CONCAT", "JSON_ITEMS", "JSON_KEYS"),
            *("JSON_RECORDS", "NULLIF", "TO_JSON_STRING", "UUID"),
        )
    },
}


def declared(name: str) -> str:
    """How ksqlDB declares a function's name, which is how messages have it: in small letters, with a few exceptions."""
    return _DECLARED.get(name, name.lower())


@dataclass(slots=True)
class ScalarFunction:
    """A function of values, by all of its overloads."""

    name: str
    description: str
    overloads: list[Overload] = field(default_factory=list)

    def resolve(self, types: Sequence[ArgumentType]) -> Resolved:
        """The overload that arguments of these types mean; raises SqlError in ksqlDB's words.

        One that takes them as they are is taken before one that takes them as wider numbers; of several the one without
        repeated parameters, with more of them, with fewer letters. Where two are as good as each other, none is meant.
        """
        fitting = [each for overload in self.overloads if (each := _fitting(overload, types)) is not None]
        found = [each for each in fitting if not each.converts] or fitting
        if not found:
            raise SqlError(self._refusal(types))
        found.sort(key=lambda each: each.overload.rank)
        if len(found) > 1 and found[-1].overload.rank == found[-2].overload.rank:
            raise SqlError(self._ambiguity(types))
        overload, bound = found[-1].overload, found[-1].bound
        patterns = found[-1].patterns
        wanted = tuple(_wanted(pattern, given, bound) for pattern, given in zip(patterns, types, strict=True))
        returns = overload.returns(wanted) if overload.returns else made(overload.signature.returns, bound)
        return Resolved(returns, wanted, cast(Call, overload.call(wanted)) if overload.typed else overload.call)

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
        return (
            f"Function '{declared(self.name)}' does not accept parameters ({_shown(types)}).\n"
            f"Valid alternatives are:\n{self._valid()}\n{_MORE}"
        )

    def _ambiguity(self, types: Sequence[ArgumentType]) -> str:
        return (
            f"Function '{declared(self.name)}' cannot be resolved due to ambiguous method parameters ({_shown(types)}).\n"
            "Use CAST() to explicitly cast your parameters to one of the supported function calls.\n"
            f"Valid function calls are:\n{self._valid()}\n{_MORE}"
        )

    def _valid(self) -> str:
        return "\n".join(sorted(overload.signature.text(self.name) for overload in self.overloads))


_MORE = "For detailed information on a function run: DESCRIBE FUNCTION <Function-Name>;"


def _shown(types: Sequence[ArgumentType]) -> str:
    return ", ".join(
        "null" if each is None else str(each) if isinstance(each, LambdaType | Unit) else each.text(str)
        for each in types
    )


@dataclass(frozen=True, slots=True)
class _Fitting:
    """An overload that takes arguments: what its letters are, its parameters, and whether one becomes a wider number."""

    overload: Overload
    bound: Bound
    patterns: tuple[Pattern, ...]
    converts: bool


def _fitting(of: Overload, types: Sequence[ArgumentType]) -> _Fitting | None:
    patterns = of.signature.patterns(len(types))
    if patterns is None:
        return None
    bound: Bound = {}
    converts = False
    for pattern, given in zip(patterns, types, strict=True):
        found = fit(pattern, given, bound)
        if found is None:
            return None
        converts |= 0 < found < ANY_TYPE
    return _Fitting(of, bound, patterns, converts)


def _wanted(pattern: Pattern, given: ArgumentType, bound: Bound) -> ArgumentType:
    """What an argument is converted to: numbers to the wider type that the parameter is."""
    if pattern.name in PRIMITIVES:
        return PRIMITIVES[pattern.name]
    if pattern.name == "DECIMAL" and given is not None and not isinstance(given, LambdaType | DecimalType):
        return DecimalType(10, 0) if str(given) == "INTEGER" else DecimalType(19, 0)
    return bound.get(pattern.name, given) if len(pattern.name) == 1 else given


RESULT_MAX = 1 << 24
"""How many characters or bytes a function may make of a few: a record of Kafka's is no longer either."""
ELEMENTS_MAX = 1 << 20
"""How many elements an array may get of a few numbers, each of which takes forty bytes."""


ELEMENTS_MAX = 1 << 20
"""How many elements an array may have that a function makes of a text or of numbers: making it holds all threads."""


def check_size(name: str, size: int, most: int = RESULT_MAX) -> None:
    """Raise EvaluationError where a result would be too large."""
    if size > most:
        raise EvaluationError(f"{name} would make {size} elements; at most {most} are made")


def weight(value: object) -> int:
    """How much a value is, in elements: eight characters or bytes are one, and so is anything plain."""
    if isinstance(value, str | bytes):
        return 1 + len(value) // 8
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, list):
        return 1
    return len(value) + (sum(map(weight, value)) if any(isinstance(each, _SIZED) for each in value[:1]) else 0)


_SIZED = (str, bytes, list, dict)
_SCALARS: dict[str, ScalarFunction] = {}
OTHER_NAMES: dict[str, str] = {}


def known_scalars() -> dict[str, ScalarFunction]:
    """Every scalar function by its name in upper case."""
    return _SCALARS


def scalar(
    name: str, *signatures: str, nulls: bool = False, returns: Returns | None = None, typed: bool = False
) -> Callable[[F], F]:
    """Register a function under a name, with its signatures; its docstring is its description.

    Null arguments give null without a call, unless `nulls` is set. A `typed` one takes the types of its arguments and
    gives the function of their values, which sees nulls.
    """

    def register(call: F) -> F:
        function = _SCALARS.setdefault(name, ScalarFunction(name, (call.__doc__ or "").strip()))
        given = call if nulls or typed else _null_for_nulls(call)
        function.overloads.extend(Overload(signature(text), given, returns, typed) for text in signatures)
        return call

    return register


def _null_for_nulls(call: Call) -> Call:
    def guarded(*arguments: object) -> object:
        return None if None in arguments else call(*arguments)

    def guarded_one(argument: object) -> object:
        return None if argument is None else call(argument)

    code = getattr(call, "__code__", None)
    return guarded_one if code is not None and code.co_argcount == 1 and not code.co_flags & 4 else guarded
