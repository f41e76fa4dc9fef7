"""When what is ready runs: an order of a seed's choice, within what an event loop may do. For simulated and real loops.

asyncio runs callbacks in the order in which they were scheduled, and how many turns lie between two of them says how many
`await`s and futures stand between: another `await` in a function, or a loop that is busy, and the order is another one. A
schedule draws such orders:

- a task's step after what it awaited is there comes some turns late, as if there were one more `await` in it, and now and
  then much later, as if that had waited for something;
- a task's first step, or the one after it let others run, comes some turns late, as if the loop had much to do; in the
  order in which the tasks were made;
- a future's callbacks come some turns late, as if the loop had much to do, and in the order in which they were added: what
  was added behind one of them, a task that awaits the future too, does not run before it;
- the loop is held for a while, and all that falls due meanwhile is ready at once (simulated loops; real ones are held).

Everything else keeps its order: timers that of their times, what transports tell a protocol that in which it happened, and
what code itself schedules by `call_soon` that in which it did so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any, Final

__all__ = ["Schedule", "is_step"]

TURNS: Final = ((0.0, 1), (0.05, 1), (0.1, 3), (0.3, 2), (0.3, 8), (0.7, 4))
"""How often something comes turns late, and how many at most: few worlds keep the order of a quiet loop."""
WAITS: Final = ((0.0, 0.0), (0.02, 0.02), (0.01, 0.1), (0.003, 0.5), (0.0008, 3.0))
"""How often a task's step comes much later, and by how many seconds at most."""
HOLDS: Final = ((0.0, 0.0), (0.1, 0.02), (0.3, 0.002), (0.5, 0.0005), (0.02, 0.2))
"""How often the loop is held before the next thing that falls due, and for how many seconds at most."""


def is_step(callback: Callable[..., object]) -> bool:
    """Return whether a callback is the next step of a task."""
    return isinstance(getattr(callback, "__self__", None), asyncio.Task)


class Schedule:
    """Draws how late each thing comes; one for each loop."""

    def __init__(
        self,
        rng: Random,
        *,
        turns: tuple[float, int] = (0.0, 1),
        waits: tuple[float, float] = (0.0, 0.0),
        holds: tuple[float, float] = (0.0, 0.0),
    ) -> None:
        self._random = rng.random
        self._turns_chance, self._turns_max = turns
        self._wait_chance, self._wait_s_max = waits
        self._hold_chance, self._hold_s_max = holds
        self._future: object = None
        """Whose callbacks were scheduled last."""
        self._behind = 0
        """How many turns late the last of them comes that is no task's step."""
        self._begun = 0
        """In which turn the last step comes that waits for nothing."""

    @classmethod
    def drawn(cls, rng: Random) -> Schedule:
        """Draw what kind of schedule it is, too."""
        return cls(rng, turns=rng.choice(TURNS), waits=rng.choice(WAITS), holds=rng.choice(HOLDS))

    def turns(self, args: tuple[Any, ...], *, is_step: bool, now: int) -> int:
        """Draw how many turns late a task's step, or a future's callback, comes; 0 for everything else.

        `args` are what it is called with, and `now` is the number of the loop's turn.
        """
        if not is_step and not (len(args) == 1 and isinstance(args[0], asyncio.Future)):
            return 0
        turns = 0
        if self._random() < self._turns_chance:
            turns = 1 + int(self._random() * self._turns_max)
        if not args:
            self._begun = max(self._begun, now + turns)
            return self._begun - now
        if args[0] is not self._future:
            self._future, self._behind = args[0], 0
        turns = max(turns, self._behind)
        if not is_step:
            self._behind = turns
        return turns

    def wait_s(self, args: tuple[Any, ...]) -> float:
        """Draw for how many seconds a task's step that is called with these waits, most often none."""
        if not args:
            return 0.0
        return self._random() * self._wait_s_max if self._random() < self._wait_chance else 0.0

    def hold_s(self) -> float:
        """Draw for how many seconds the loop is held, most often none."""
        return self._random() * self._hold_s_max if self._random() < self._hold_chance else 0.0
