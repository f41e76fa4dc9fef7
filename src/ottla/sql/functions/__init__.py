"""ksqlDB's functions: by name, with their signatures, as Python functions of values.

`scalar(name)` finds one; it resolves types of arguments to the overload that they mean. Null for a null argument is the
rule, and a function that is asked to see nulls says so where it is registered.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

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
from ottla.sql.functions.registry import Resolved, ScalarFunction, check_size, known_scalars
from ottla.sql.functions.signatures import UNIT, ArgumentType, LambdaType, Unit
from ottla.sql.functions.tables import TABLE_FUNCTIONS, ResolvedTable, TableFunction
from ottla.sql.functions.users import (
    Aggregate,
    aggregate_function,
    load_installed,
    scalar_function,
    table_function,
)

__all__ = [
    "UNIT",
    "Aggregate",
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
    "aggregate_function",
    "catalogue",
    "check_size",
    "scalar",
    "scalar_function",
    "table",
    "table_function",
]


Found = TypeVar("Found")


def _found(known: Mapping[str, Found], name: str) -> Found | None:
    """What is known by a name, in any case of letters, that of installed packages among it."""
    found = known.get(name.upper())
    if found is None:
        load_installed()
        found = known.get(name.upper())
    return found


def scalar(name: str) -> ScalarFunction | None:
    """The scalar function of a name, in any case of letters; None where there is none."""
    return _found(known_scalars(), name)


def catalogue() -> tuple[ScalarFunction, ...]:
    """Every scalar function, by name."""
    load_installed()
    return tuple(function for _, function in sorted(known_scalars().items()))


def aggregate(name: str) -> AggregateFunction | None:
    """The aggregate function of a name, in any case of letters; None where there is none."""
    return _found(AGGREGATES, name)


def table(name: str) -> TableFunction | None:
    """The table function of a name, in any case of letters; None where there is none."""
    return _found(TABLE_FUNCTIONS, name)
