"""How long what statements say may go on: who evaluates says what is looked at, and what may be long looks at it.

Expressions are closures over rows, and a lambda in one may run for as long as somebody likes: a `REDUCE` of a million
elements within another. So each call of a lambda looks whether it may go on, where somebody has said what to look at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from ottla.sql.errors import SqlError

Look = Callable[[], None]
"""Returns where it may go on; raises TooLongError where it may not."""
_LOOK: ContextVar[Look | None] = ContextVar("look", default=None)


class TooLongError(SqlError):
    """What a statement says takes longer than it may; it is no EvaluationError, which would cost a value only."""


@contextmanager
def watched(look: Look) -> Iterator[None]:
    """Have what may be long look so in the block."""
    before = _LOOK.set(look)
    try:
        yield
    finally:
        _LOOK.reset(before)


def look_of() -> Look | None:
    """Return what has to be looked at here and now, None where nobody waits."""
    return _LOOK.get()
