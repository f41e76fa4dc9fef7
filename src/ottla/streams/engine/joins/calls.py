"""A joiner as a callable of (key, left, right), whichever kind of function it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.streams.plan.evaluation import Evaluated

if TYPE_CHECKING:
    from ottla.streams.engine.task import Node
    from ottla.streams.functions import Function

__all__ = ["Joiner", "joiner_of"]

Joiner = Callable[[Any, Any, Any], Any]


def joiner_of(node: Node, function: Function) -> Joiner:
    """Return `join(key, left, right)`; raises TypeError for an expression that nobody has made a function of."""
    call = function.call
    if call is None:
        raise TypeError(
            f"{node.name}: the joiner is a column expression ({function.expression!r}); expected a plan that was evaluated"
        )
    if isinstance(call, Evaluated):
        return call.bound(lambda: node.task.record)
    if function.vectorised:
        return _one_by_one(call, with_key=function.with_key)
    if function.with_key:
        return call
    return lambda key, left, right: call(left, right)


def _one_by_one(call: Callable[..., Any], *, with_key: bool) -> Joiner:
    """Return a vectorised joiner for single rows: arrays of one."""

    def one(key: Any, left: Any, right: Any) -> Any:
        import pyarrow

        columns = [pyarrow.array([each]) for each in ((key, left, right) if with_key else (left, right))]
        return call(*columns).to_pylist()[0]

    return one
