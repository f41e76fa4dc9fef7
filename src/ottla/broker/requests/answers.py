"""What a handler answers with: a message, bytes that are made already, or what comes later."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, TypeVar, final

from ottla.wire import Message

__all__ = ["Answer", "Deferred", "Encoded", "Reply", "reply_of"]

A = TypeVar("A")
B = TypeVar("B")


@final
class Encoded:
    """An answer that is bytes already: `parts` in order, the length and the response header among them.

    A part may be a `FilePart`, which the connection sends from the file in its turn; then `has_files` is set. Where the
    answer tells the client to wait, `throttle_time_ms` says the same to the connection; without parts it is no answer.
    """

    __slots__ = ("has_files", "parts", "throttle_time_ms")

    def __init__(self, parts: Sequence[Any], *, has_files: bool = False, throttle_time_ms: int = 0) -> None:
        self.parts = parts
        self.has_files = has_files
        self.throttle_time_ms = throttle_time_ms


class Deferred(Generic[A]):
    """An answer that comes later without a task: whoever holds it calls `resolve` or `fail`, once, on the event loop.

    An awaitable costs a task and two turns of the loop; the paths that wait for a high watermark use this.
    """

    __slots__ = ("_answer", "_error", "_kept", "_listener", "is_done", "on_give_up")

    def __init__(self) -> None:
        self.is_done = False
        self._answer: A | None = None
        self._error: Exception | None = None
        self._listener: Callable[[A | None, Exception | None], None] | None = None
        self._kept: object = None
        self.on_give_up: Callable[[], None] | None = None
        """Called where whoever asked is gone before there is an answer; then none has to come."""

    def give_up(self) -> None:
        """Say that nobody waits for the answer any more."""
        if self.on_give_up is not None and not self.is_done:
            self.on_give_up()

    def keep(self, task: object) -> None:
        """Hold on to whatever works on the answer, so that it is not collected before it is done."""
        self._kept = task

    def resolve(self, answer: A) -> None:
        """Give the answer."""
        assert not self.is_done
        self.is_done = True
        self._answer = answer
        if self._listener is not None:
            self._listener(answer, None)

    def fail(self, error: Exception) -> None:
        """Give an error in place of the answer."""
        assert not self.is_done
        self.is_done = True
        self._error = error
        if self._listener is not None:
            self._listener(None, error)

    def fail_late(self, error: BaseException) -> None:
        """Give the error of whoever was to give the answer, unless it is given."""
        if not self.is_done:
            self.fail(error if isinstance(error, Exception) else RuntimeError(repr(error)))

    def listen(self, listener: Callable[[Any, Exception | None], None]) -> None:
        """Call this with (answer, error) once there is one, at once where there is already."""
        self._listener = listener
        if self.is_done:
            listener(self._answer, self._error)

    def then(self, change: Callable[[A], B]) -> Deferred[B]:
        """Return the answer that `change` makes of this one when it comes."""
        changed: Deferred[B] = Deferred()
        changed.keep(self)
        self.listen(lambda answer, error: changed.resolve(change(answer)) if error is None else changed.fail(error))
        return changed

    async def wait(self) -> A:
        """Return the answer, for a coroutine that needs it."""
        future: asyncio.Future[A] = asyncio.get_running_loop().create_future()

        def listener(answer: Any, error: Exception | None) -> None:
            if not future.done():
                if error is not None:
                    future.set_exception(error)
                else:
                    future.set_result(answer)

        self.listen(listener)
        try:
            return await future
        except asyncio.CancelledError:
            self.give_up()
            raise


Reply = Message | Encoded | None
"""What is sent: a response message, bytes, or nothing at all."""

Answer = Reply | Deferred[Any] | Awaitable[Reply]
"""What a handler returns: a reply, or what has one later."""


async def reply_of(answer: Answer) -> Reply:
    """Return the reply that an answer is, or has later."""
    if isinstance(answer, Deferred):
        found: Answer = await answer.wait()
        return await reply_of(found)  # what had to wait for its turn may go on in slices
    return await answer if isinstance(answer, Awaitable) else answer
