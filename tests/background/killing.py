"""Kills a background task: what it waits for fails, as if its own code had a mistake at that place."""

from __future__ import annotations

import asyncio
from typing import Any

from ottla.background import running

__all__ = ["Mistake", "kill", "named"]


class Mistake(Exception):
    """An error that nobody foresaw."""


def kill(task: asyncio.Task[Any]) -> None:
    """Have a task's innermost wait raise `Mistake`."""
    inner: Any = task
    while isinstance(inner, asyncio.Task):
        inner = inner._fut_waiter  # type: ignore[attr-defined]
    assert inner is not None, f"{task.get_name()} waits for nothing now"
    mistake = Mistake(f"a mistake in {task.get_name()}")
    if inner.done():  # and the task is about to go on: the mistake meets it at its next wait
        inner.get_loop().call_soon(kill, task)
    else:
        inner.set_exception(mistake)


def named(name: str) -> list[asyncio.Task[Any]]:
    """Return this loop's supervised tasks of a name."""
    return [each for each in running() if each.get_name() == name]
