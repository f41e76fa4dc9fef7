"""What a step does with a record: a column expression, a Python function of one record, or one of whole columns."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

__all__ = ["Function", "vectorised"]

_VECTORISED = "__ottla_vectorised__"
F = TypeVar("F", bound=Callable[..., Any])


def vectorised(function: F) -> F:
    """Mark a function as taking and returning whole Arrow arrays: `f(values)` or `f(keys, values)` → `pyarrow.Array`."""
    setattr(function, _VECTORISED, True)
    return function


@dataclass(frozen=True, slots=True)
class Function:
    """A step's function; exactly one of `expression` and `call` is set.

    `expression` is Spark SQL text (`"upper(value)"`) or a PySpark Column, over the columns key, value, timestamp, headers,
    topic, partition and offset. `call` takes (value) or (key, value), as `with_key` says; `vectorised` says that it takes
    Arrow arrays of many records at once.
    """

    expression: object | None = None
    call: Callable[..., Any] | None = None
    with_key: bool = False
    vectorised: bool = False

    @property
    def is_native(self) -> bool:
        """True where Spark's own operators compute it."""
        return self.expression is not None

    @classmethod
    def of(cls, given: object, *, values_only: bool = False) -> Function:
        """Wrap what the user gave; raises TypeError where it is none of the three.

        A callable with one positional parameter is called with the value, one with two with key and value.
        """
        if isinstance(given, Function):
            return given
        if callable(given) and not _is_column(given):
            return cls(
                call=given,
                with_key=not values_only and _positional(given) >= 2,
                vectorised=bool(getattr(given, _VECTORISED, False)),
            )
        if isinstance(given, str) or _is_column(given):
            return cls(expression=given)
        raise TypeError(f"expected a function, SQL text or a PySpark Column, got {type(given).__name__}")


def _is_column(given: object) -> bool:
    """True for PySpark's Column, classic or Connect, without importing it."""
    return any(each.__name__ == "Column" and each.__module__.startswith("pyspark.") for each in type(given).__mro__)


def _positional(call: Callable[..., Any]) -> int:
    """Return how many positional arguments a callable takes; 1 where it does not say (builtins)."""
    try:
        parameters = inspect.signature(call).parameters.values()
    except (TypeError, ValueError):
        return 1
    needed = [
        each
        for each in parameters
        if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD) and each.default is each.empty
    ]
    return len(needed) or 1
