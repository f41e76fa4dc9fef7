"""A step's `Function` as a Python callable of (key, value), whichever of its three kinds it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.streams.engine.interface import EngineSettings
    from ottla.streams.functions import Function

__all__ = ["callable_of"]


def callable_of(function: Function, step: str, settings: EngineSettings) -> Callable[[Any, Any], Any]:
    """Return `call(key, value)`; raises TypeError for an expression that nobody can evaluate here."""
    if function.call is None:
        if settings.expressions is None:
            raise TypeError(
                f"{step}: a column expression ({function.expression!r}) stands behind a stateful step in Python; "
                "expected a Python function there"
            )
        return settings.expressions(function)
    call = function.call
    if function.vectorised:
        return _one_by_one(call, with_key=function.with_key)
    if function.with_key:
        return call
    return lambda key, value: call(value)


def _one_by_one(call: Callable[..., Any], *, with_key: bool) -> Callable[[Any, Any], Any]:
    """Return a vectorised function for single records: arrays of one."""

    def one(key: Any, value: Any) -> Any:
        import pyarrow

        columns = [pyarrow.array([key]), pyarrow.array([value])] if with_key else [pyarrow.array([value])]
        result = call(*columns)
        if isinstance(result, tuple):
            return tuple(pyarrow.array(each)[0].as_py() for each in result)
        return pyarrow.array(result)[0].as_py() if not hasattr(result, "to_pylist") else result.to_pylist()[0]

    return one
