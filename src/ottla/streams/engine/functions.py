"""A step's `Function` as a Python callable of (key, value), whichever of its three kinds it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.streams.plan.evaluation import Evaluated

if TYPE_CHECKING:
    from ottla.streams.functions import Function

__all__ = ["callable_of"]


def callable_of(
    function: Function, step: str, record: Callable[[], Any], type_of: Callable[[str], Any] = lambda side: None
) -> Callable[[Any, Any], Any]:
    """Return `call(key, value)`; `record()` is the record that came in last.

    `type_of` returns the Arrow type of keys or values, None where it is not known: a vectorised function gets arrays of it.
    Raises TypeError for an expression that nobody has made a function of.
    """
    if function.call is None:
        raise TypeError(
            f"{step}: a column expression ({function.expression!r}) is no function here: expected a plan that was evaluated"
        )
    if isinstance(function.call, Evaluated):
        return function.call.bound(record)
    call = function.call
    if function.vectorised:
        return _one_by_one(call, with_key=function.with_key, type_of=type_of)
    if function.with_key:
        return call
    return lambda key, value: call(value)


def _one_by_one(
    call: Callable[..., Any], *, with_key: bool, type_of: Callable[[str], Any]
) -> Callable[[Any, Any], Any]:
    """Return a vectorised function for single records: arrays of one."""
    key_type, value_type = type_of("key") if with_key else None, type_of("value")

    def one(key: Any, value: Any) -> Any:
        import pyarrow

        columns = [pyarrow.array([value], value_type)]
        if with_key:
            columns.insert(0, pyarrow.array([key], key_type))
        result = call(*columns)
        if isinstance(result, tuple):
            return tuple(pyarrow.array(each)[0].as_py() for each in result)
        return pyarrow.array(result)[0].as_py() if not hasattr(result, "to_pylist") else result.to_pylist()[0]

    return one
