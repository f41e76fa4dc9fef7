"""What each process that serves does around its event loop: which loop, how many descriptors, and how signals end it."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine

__all__ = ["is_started", "loop_factory", "raise_descriptor_limit", "stop_signals"]


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return uvloop's factory where it is installed; asyncio's own loop serves as well."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def raise_descriptor_limit() -> None:
    """Use as many file descriptors as the system allows this process: every open segment and connection takes one."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def stop_signals() -> asyncio.Event:
    """Return what the first signal sets; a second one ends the process at once."""
    import asyncio

    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()

    def stop(number: int) -> None:
        if stopping.is_set():
            os._exit(128 + number)
        stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number)
    return stopping


async def is_started(start: Coroutine[Any, Any, None], stopping: asyncio.Event) -> bool:
    """Start; False where a signal came first, for a node of a cluster may wait for others for long."""
    import asyncio

    starting = asyncio.ensure_future(start)
    signalled = asyncio.ensure_future(stopping.wait())
    await asyncio.wait((starting, signalled), return_when=asyncio.FIRST_COMPLETED)
    signalled.cancel()
    if not starting.done():
        starting.cancel()
        with suppress(asyncio.CancelledError):
            await starting
        return False
    starting.result()
    return True
