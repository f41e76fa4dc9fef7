"""An answer that waits for its turn, because too many lie unread: see `AnswerMemory`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ottla.broker.parts import AnswerParts
from ottla.broker.requests.answers import Answer, Deferred
from ottla.broker.requests.handler import RequestContext

__all__ = ["in_turn"]


def in_turn(context: RequestContext[AnswerParts], size: int, answer: Callable[[], Answer]) -> Answer:
    """Return what `answer` makes: now where it is small (about `size` bytes) or there is room, else when there is."""
    memory = context.services.answer_memory
    if context.connected.is_controller or not memory.must_wait(size, is_follower=False):
        return answer()
    deferred: Deferred[Answer] = Deferred()

    def go() -> None:
        context.has_room = True
        try:
            made = answer()
        except Exception as error:  # the router renders it, as it does what a handler raises
            deferred.fail(error)
        else:
            deferred.resolve(made)

    deferred.on_give_up = partial(memory.give_up, memory.wait(go))
    return deferred
