"""Threads: begun, named, watched."""

from __future__ import annotations

import threading
from collections.abc import Callable

from ottla.background.failures import note_failure
from ottla.background.tasks import Failed

__all__ = ["supervise_thread"]


def supervise_thread(
    work: Callable[[], object], *, name: str, serves: str, failed: Failed | None = None
) -> threading.Thread:
    """Begin a thread that keeps no process from its end, and return it.

    Where it ends by an exception, that is logged, counted, and told to its owner by `failed`, from that thread.
    """

    def run() -> None:
        try:
            work()
        except Exception as error:  # nobody waits for it, so it is said here
            consequence = "it runs no more" if failed is None else "its owner is told"
            note_failure(serves, name, error, consequence=consequence)
            if failed is not None:
                failed(error)

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    return thread
