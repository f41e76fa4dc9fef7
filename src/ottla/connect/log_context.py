"""Which connector a line of the log belongs to: `[name|worker]` in front of it, as Kafka's `connector.context` has it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["ContextFilter", "connector_context"]

_CONTEXT: ContextVar[str] = ContextVar("connector", default="")


@contextmanager
def connector_context(connector: str, part: str = "worker") -> Iterator[None]:
    """Mark what is logged meanwhile as a connector's, in threads that are begun with `asyncio.to_thread`, too."""
    token = _CONTEXT.set(f"[{connector}|{part}] ")
    try:
        yield
    finally:
        _CONTEXT.reset(token)


class ContextFilter(logging.Filter):
    """Puts the connector in front of messages; for a handler."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Change the record's message where it belongs to a connector."""
        context = _CONTEXT.get()
        if context:
            record.msg, record.args = context + record.getMessage(), ()
        return True
