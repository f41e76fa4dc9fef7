"""ksqlDB's functions: by name, with their signatures, as Python functions of values.

`scalar(name)` finds one; it resolves types of arguments to the overload that they mean. Null for a null argument is the
rule, and a function that is asked to see nulls says so where it is registered.
"""

from __future__ import annotations

from ottla.sql.functions import (  # noqa: F401 - they register what they hold
    collections,
    dates,
    encodings,
    json_texts,
    numbers,
    strings,
    urls,
    values,
)
from ottla.sql.functions.aggregates import AGGREGATES, AggregateFunction, ResolvedAggregate
from ottla.sql.functions.registry import Resolved, ScalarFunction, known_scalars
from ottla.sql.functions.signatures import UNIT, ArgumentType, LambdaType, Unit
from ottla.sql.functions.tables import TABLE_FUNCTIONS, ResolvedTable, TableFunction

__all__ = [
    "UNIT",
    "AggregateFunction",
    "ArgumentType",
    "LambdaType",
    "Resolved",
    "ResolvedAggregate",
    "ResolvedTable",
    "ScalarFunction",
    "TableFunction",
    "Unit",
    "aggregate",
    "catalogue",
    "scalar",
    "table",
]


def scalar(name: str) -> ScalarFunction | None:
    """The scalar function of a name, in any case of letters; None where there is none."""
    return known_scalars().get(name.upper())


def catalogue() -> tuple[ScalarFunction, ...]:
    """Every scalar function, by name."""
    return tuple(function for _, function in sorted(known_scalars().items()))


def aggregate(name: str) -> AggregateFunction | None:
    """The aggregate function of a name, in any case of letters; None where there is none."""
    return AGGREGATES.get(name.upper())


def table(name: str) -> TableFunction | None:
    """The table function of a name, in any case of letters; None where there is none."""
    return TABLE_FUNCTIONS.get(name.upper())
