"""Functions of one's own: Python's, with SQL's signatures, known to every statement.

An installed package names modules under the entry point group `ottla.sql.functions`. They are imported when SQL meets a name
that it does not know, or is asked for all functions, and what they decorate is a function from then on: in the process that
plans a query, and in those that run it. A module that cannot be imported is told to the log and costs its own functions.

What such a function raises costs a value, as a failing function of SQL's does.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from importlib.metadata import entry_points
from typing import Any, Protocol, TypeVar

from ottla.sql.errors import EvaluationError
from ottla.sql.functions import registry
from ottla.sql.functions.aggregates import AGGREGATES, AggregateFunction, ResolvedAggregate
from ottla.sql.functions.signatures import ArgumentType, Bound, Signature, fit, made, signature
from ottla.sql.functions.tables import TABLE_FUNCTIONS, ResolvedTable, TableFunction
from ottla.sql.types import SqlType

GROUP = "ottla.sql.functions"
_log = logging.getLogger("ottla.sql")
C = TypeVar("C", bound=Callable[..., object])
A = TypeVar("A", bound="type[Aggregate]")


class Aggregate(Protocol):
    """What `aggregate_function` decorates: a class without state of its own.

    A state is plain values (numbers, texts, lists, dictionaries), since a store keeps it. `merge(one, other)` joins two
    states, which session windows need; `undo(state, *values)` takes a row out, which GROUP BY of a table needs. Without
    them such queries are refused.
    """

    def initial(self) -> Any:
        """The state before any row."""

    def add(self, state: Any, *values: Any) -> Any:
        """The state with a row's values."""

    def result(self, state: Any) -> Any:
        """What a state is worth."""


def scalar_function(name: str, *signatures: str, nulls: bool = False) -> Callable[[C], C]:
    """Make a Python function one of SQL's; its docstring describes it.

    A signature is text: `STRING, INTEGER -> STRING`; a letter is any type, `…` behind a parameter repeats it. Values are
    Python's: str, int, float, `decimal.Decimal`, bytes, list, dict; dates are days, times and timestamps milliseconds.
    With a null among the arguments the answer is null, unless `nulls` is set. Raises ValueError for a name that is taken.
    """
    _check_free(name)

    def register(call: C) -> C:
        guarded = _guarded(name, call, doc=call.__doc__)
        registry.scalar(name.upper(), *signatures, nulls=nulls)(guarded)
        return call

    return register


def table_function(name: str, *signatures: str) -> Callable[[C], C]:
    """Make a Python function that gives several values of one argument a table function; see `scalar_function`.

    What the signature returns is the type of one value. Null has no values.
    """
    _check_free(name)
    parsed = [signature(text) for text in signatures]

    def register(call: C) -> C:
        guarded = _guarded(name, call)

        def values(value: object) -> list[object]:
            found = None if value is None else guarded(value)
            return list(found) if isinstance(found, Iterable) else []

        def many(type_: ArgumentType) -> ResolvedTable | None:
            returns = _returned(parsed, [type_])
            return None if returns is None else ResolvedTable(returns, values)

        TABLE_FUNCTIONS[name.upper()] = TableFunction(name.upper(), (call.__doc__ or "").strip(), many)
        return call

    return register


def aggregate_function(name: str, *signatures: str, nulls: bool = False) -> Callable[[A], A]:
    """Make a class (`Aggregate`) an aggregate function; see `scalar_function`.

    Rows with a null among the values are left out, unless `nulls` is set. All signatures take as many columns.
    """
    _check_free(name)
    parsed = [signature(text) for text in signatures]
    counts = {len(each.parameters) for each in parsed}
    if len(counts) != 1:
        raise ValueError(f"the signatures of {name} take different numbers of columns")

    def register(kind: A) -> A:
        own = kind()
        add, result = _guarded(name, own.add), _guarded(name, own.result)
        merge, undo = getattr(own, "merge", None), getattr(own, "undo", None)

        def kept(change: Callable[..., object]) -> Callable[..., object]:
            return lambda state, *values: state if not nulls and None in values else change(state, *values)

        def make(types: Sequence[SqlType | None], literals: Sequence[object]) -> ResolvedAggregate | None:
            returns = None if literals else _returned(parsed, types)
            if returns is None:
                return None
            return ResolvedAggregate(
                returns,
                own.initial,
                kept(add),
                result,
                None if merge is None else _guarded(name, merge),
                None if undo is None else kept(_guarded(name, undo)),
            )

        AGGREGATES[name.upper()] = AggregateFunction(name.upper(), (kind.__doc__ or "").strip(), counts.pop(), make)
        return kind

    return register


def _returned(signatures: Sequence[Signature], types: Sequence[ArgumentType]) -> SqlType | None:
    """The type that the first signature returns which takes these types, None where none does."""
    for each in signatures:
        patterns = each.patterns(len(types))
        bound: Bound = {}
        if patterns is not None and all(fit(a, b, bound) is not None for a, b in zip(patterns, types, strict=True)):
            return made(each.returns, bound)
    return None


def _check_free(name: str) -> None:
    known = registry.known_scalars().keys() | AGGREGATES.keys() | TABLE_FUNCTIONS.keys()
    if name.upper() in known - _OWN:
        raise ValueError(f"SQL has a function {name.upper()}; choose another name")
    _OWN.add(name.upper())


_OWN: set[str] = set()
"""The names that users have taken: one may have several overloads."""


def _guarded(name: str, call: Callable[..., Any], doc: str | None = None) -> Callable[..., Any]:
    """The function, whose every failure is one of a value."""

    def guarded(*arguments: object) -> Any:
        try:
            return call(*arguments)
        except Exception as error:  # whatever a user's function raises costs a value and not the query
            raise EvaluationError(f"{name.upper()} failed: {type(error).__name__}: {error}") from error

    guarded.__doc__ = doc
    return guarded


@cache
def load_installed() -> tuple[str, ...]:
    """Import what installed packages name, once; return what could not be imported, and why."""
    failures = []
    for each in entry_points(group=GROUP):
        try:
            each.load()
        except Exception as error:  # one package's fault must not cost the others' functions
            failures.append(f"{each.name} ({each.value}): {type(error).__name__}: {error}")
            _log.warning("the functions of the entry point %s are not there: %s", each.name, error)
    return tuple(failures)
