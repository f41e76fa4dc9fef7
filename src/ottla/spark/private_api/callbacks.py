"""The JVM calls Python's batch functions, however many files the process has open.

py4j's callback server waits by `select.select`, which knows no descriptor from 1024 on: where the port got such a one, its
thread ended without a word, and the first batch of every query waited for ever. PySpark's own waits use `poll` already.
Py4J has no setting for it, so its module gets another `select`.
"""

from __future__ import annotations

from collections.abc import Sequence
from selectors import EVENT_READ, PollSelector
from typing import Any

__all__ = ["answer_callbacks_by_poll"]


class _Poll:
    """What py4j uses of the module `select`."""

    @staticmethod
    def select(
        readers: Sequence[Any], writers: Sequence[Any], failed: Sequence[Any], timeout: float | None = None
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """Return those of `readers` that can be read, as `select.select` does; nobody asks for the other two."""
        assert not writers and not failed, "py4j asks for what can be read alone"
        with PollSelector() as selector:
            for reader in readers:
                selector.register(reader, EVENT_READ)
            return [key.fileobj for key, _ in selector.select(timeout)], [], []


def answer_callbacks_by_poll() -> None:
    """Have py4j's callback server wait by `poll`, in this process; needs to be called before the first batch function."""
    from py4j import java_gateway  # type: ignore[import-untyped]

    java_gateway.select = _Poll
