"""An application's states, those of `KafkaStreams`, and who is told of them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from enum import StrEnum

from ottla.base import ErrorCode, KafkaError

__all__ = ["State", "StateListener", "StateMachine"]

log = logging.getLogger(__name__)


class State(StrEnum):
    """`KafkaStreams.State`; REBALANCING is also the time in which queries start or are started again."""

    CREATED = "CREATED"
    REBALANCING = "REBALANCING"
    RUNNING = "RUNNING"
    PENDING_SHUTDOWN = "PENDING_SHUTDOWN"
    NOT_RUNNING = "NOT_RUNNING"
    PENDING_ERROR = "PENDING_ERROR"
    ERROR = "ERROR"

    @property
    def is_final(self) -> bool:
        """True for the two in which nothing runs any more."""
        return self in (State.NOT_RUNNING, State.ERROR)

    @property
    def is_running_or_rebalancing(self) -> bool:
        """True while queries run or are about to."""
        return self in (State.RUNNING, State.REBALANCING)


_NEXT: dict[State, frozenset[State]] = {
    State.CREATED: frozenset({State.REBALANCING, State.PENDING_SHUTDOWN}),
    State.REBALANCING: frozenset({State.RUNNING, State.PENDING_SHUTDOWN, State.PENDING_ERROR}),
    State.RUNNING: frozenset({State.REBALANCING, State.PENDING_SHUTDOWN, State.PENDING_ERROR}),
    State.PENDING_SHUTDOWN: frozenset({State.NOT_RUNNING}),
    State.NOT_RUNNING: frozenset(),
    State.PENDING_ERROR: frozenset({State.ERROR}),
    State.ERROR: frozenset(),
}
"""The transitions of `KafkaStreams`."""

StateListener = Callable[[State, State], None]
"""Called with the new state and the old one."""


class StateMachine:
    """Holds the state; threads may ask, change and wait."""

    def __init__(self) -> None:
        self._state = State.CREATED
        self._changed = threading.Condition()
        self._listeners: list[StateListener] = []

    @property
    def state(self) -> State:
        """The state now."""
        return self._state

    def listen(self, listener: StateListener) -> None:
        """Have a listener told of every change; it must return soon and its errors are logged."""
        self._listeners.append(listener)

    def to(self, new: State) -> bool:
        """Change the state and tell the listeners; false where that change is none or not allowed."""
        with self._changed:
            old = self._state
            if new not in _NEXT[old]:
                return False
            self._state = new
            self._changed.notify_all()
        for listener in self._listeners:
            try:
                listener(new, old)
            except Exception:  # a user's function may raise anything
                log.exception("a state listener failed at %s → %s", old, new)
        return True

    def require(self, new: State, words: str) -> None:
        """Change the state, or raise KafkaError with these words."""
        if not self.to(new):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{words} (state: {self._state})")

    def wait(self, reached: Callable[[State], bool], timeout_s: float | None = None) -> bool:
        """Wait for a state; false where the time was over first."""
        with self._changed:
            return self._changed.wait_for(lambda: reached(self._state), timeout_s)
