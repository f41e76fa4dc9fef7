"""What a step does with a record: a column expression, a Python function of one record, or one of whole columns."""

from __future__ import annotations

import inspect
import typing
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
    topic, partition and offset; a joiner's is over key, left and right. `call` takes (value) or (key, value), as `with_key`
    says, and a joiner's (left, right) or (key, left, right); `vectorised` says that it takes Arrow arrays of many records.
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
    def of(cls, given: object, *, values_only: bool = False, arguments: int = 1) -> Function:
        """Wrap what the user gave; raises TypeError where it is none of the three.

        A callable that needs more than `arguments` positional ones is called with the key first: by default (value) or
        (key, value); with `arguments=2`, as a joiner, (left, right) or (key, left, right).
        """
        if isinstance(given, Function):
            return given
        if callable(given) and not _is_column(given):
            return cls(
                call=given,
                with_key=not values_only and positional(given, arguments) > arguments,
                vectorised=bool(getattr(given, _VECTORISED, False)),
            )
        if isinstance(given, str) or _is_column(given):
            return cls(expression=given)
        raise TypeError(f"expected a function, SQL text or a PySpark Column, got {type(given).__name__}")

    @property
    def returns(self) -> object | None:
        """The return annotation of a Python function of one record, or None where there is none."""
        if self.call is None or self.vectorised:
            return None
        return return_annotation(self.call)


def return_annotation(call: Callable[..., Any]) -> object | None:
    """Return a callable's resolved return annotation; None where it has none or it cannot be resolved."""
    if isinstance(call, type):
        return call
    target = call if inspect.isroutine(call) else getattr(call, "__call__", call)  # noqa: B004
    try:
        found = typing.get_type_hints(target).get("return", inspect.Signature.empty)
    except (NameError, TypeError, AttributeError):
        return None
    return None if found in (inspect.Signature.empty, Any) else found


def positional(call: Callable[..., Any], unknown: int = 1) -> int:
    """Return how many positional arguments a callable needs; `unknown` where it does not say (builtins)."""
    try:
        parameters = inspect.signature(call).parameters.values()
    except (TypeError, ValueError):
        return unknown
    needed = [
        each
        for each in parameters
        if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD) and each.default is each.empty
    ]
    return len(needed) or unknown


def _is_column(given: object) -> bool:
    """True for PySpark's Column, classic or Connect, without importing it."""
    return any(each.__name__ == "Column" and each.__module__.startswith("pyspark.") for each in type(given).__mro__)
