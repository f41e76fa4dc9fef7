"""What each process that serves does around its event loop, and what it says of an address that it cannot have."""

from __future__ import annotations

import errno
import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine

__all__ = [
    "end_by_input",
    "is_started",
    "look_for_cycles_seldom",
    "loop_factory",
    "raise_descriptor_limit",
    "stop_signals",
    "stop_with_input",
    "take_signals",
    "why_not_listening",
]

CYCLES = (10_000, 5, 100)
"""New objects, or looks of the kind before, until Python looks among young, older and all objects for cycles."""


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
    take_signals(lambda _: stopping.set(), stopping.is_set)
    return stopping


def stop_with_input(stopping: asyncio.Event) -> None:
    """Stop when standard input ends, too: who holds its other end is gone, or asks for that.

    Nobody holds the other end of a file, nor of /dev/null: there it stops at once, as where there is no standard input.
    """
    import asyncio
    import sys

    if sys.stdin is None:
        stopping.set()
        return
    loop, number = asyncio.get_running_loop(), sys.stdin.fileno()

    def readable() -> None:
        if not _has_more(number):
            loop.remove_reader(number)
            stopping.set()

    try:
        loop.add_reader(number, readable)
    except PermissionError:  # epoll takes neither files nor /dev/null
        stopping.set()


async def end_by_input(process: asyncio.subprocess.Process, *, seconds: float) -> None:
    """Ask a process that stops with its input to stop, by the end of that, and kill it where it has not after so long."""
    import asyncio

    if process.stdin is not None:
        process.stdin.close()
    try:
        async with asyncio.timeout(seconds):
            await process.wait()
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def _has_more(number: int) -> bool:
    try:
        return bool(os.read(number, 4096))
    except BlockingIOError:
        return True
    except OSError:  # a terminal that hung up
        return False


def take_signals(stop: Callable[[int], None], is_stopping: Callable[[], bool]) -> None:
    """Have a signal call `stop` with its number; where the process is stopping already, it ends at once.

    SIGHUP, of a terminal that was closed, counts unless it is ignored (`nohup`). It comes from the shell and from the
    system, so that a second one says nothing new.
    """
    import asyncio

    def signalled(number: int) -> None:
        if not is_stopping():
            stop(number)
        elif number != signal.SIGHUP:
            os._exit(128 + number)

    taken = [signal.SIGTERM, signal.SIGINT]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        taken.append(signal.SIGHUP)
    for number in taken:
        asyncio.get_running_loop().add_signal_handler(number, signalled, number)


def look_for_cycles_seldom() -> None:
    """Let Python look for cycles among objects less often than by itself, for a process of many objects that stay.

    A look through all of them stops the process: measured, 0.3 to 0.45 s with ten thousand partitions.
    """
    import gc

    gc.set_threshold(*CYCLES)


async def is_started(start: Coroutine[Any, Any, None], stopping: asyncio.Event) -> bool:
    """Start; False where a signal came first, for a node of a cluster may wait for others for long."""
    import asyncio

    from ottla.background import awaited

    starting = awaited(start)
    signalled = awaited(stopping.wait())
    await asyncio.wait((starting, signalled), return_when=asyncio.FIRST_COMPLETED)
    signalled.cancel()
    if not starting.done():
        starting.cancel()
        with suppress(asyncio.CancelledError):
            await starting
        return False
    starting.result()
    return True


def why_not_listening(error: OSError, *, example: str, told_by: str) -> str:
    """Return why an address could not be listened on, and what to do about it.

    `example` is a listener of this process's kind, and `told_by` the setting with the address that others are told.
    """
    import socket

    if isinstance(error, socket.gaierror):
        return f"{error.strerror}; choose a name or an address of this machine"
    remedies = {
        errno.EADDRINUSE: f"stop what listens there, or choose another with --override listeners={example}",
        errno.EADDRNOTAVAIL: f"listen on an address of this machine; what others use goes into {told_by}",
        errno.EACCES: "ports below 1024 are for root, as a rule; choose a higher one",
    }
    number = error.errno or 0
    words = os.strerror(number) if number > 0 else str(error)
    return f"{words}; {remedies.get(number, 'choose another address')}"
