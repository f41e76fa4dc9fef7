"""A state and the log that it is the fold of; the log is compacted as brokers do, for good, and read anew."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from ottla.registry.core import Decision, State, Unreadable, decode, encode

__all__ = ["Book", "Entry", "compacted", "folded", "seen"]

Entry = tuple[bytes, bytes | None]


def compacted(log: Sequence[Entry], *, before: int, keeps_tombstones: bool) -> list[Entry]:
    """Return a log whose part before a place is compacted: of each key the newest entry there."""
    newest = {key: at for at, (key, _) in enumerate(log[:before])}
    kept = [log[at] for at in sorted(newest.values())]
    return [*(each for each in kept if keeps_tombstones or each[1] is not None), *log[before:]]


def folded(log: Sequence[Entry]) -> State:
    """Return the state of somebody who reads a log from its beginning."""
    state = State()
    for entry in log:
        record = decode(*entry)
        assert not isinstance(record, Unreadable), (record, entry)
        state.apply(record)
    return state


def seen(state: State) -> Mapping[str, Any]:
    """Return all that a state says."""
    return {
        "versions": [(each, each.deleted) for each in state.schemas()],
        "configs": state.configs,
        "modes": state.modes,
        "contexts": state.contexts(),
        "largest ids": state.max_ids,
        "ids of what is gone": state.retired,
    }


class Book:
    """The registry's topic, and the instance that writes to it."""

    def __init__(self) -> None:
        self.state = State()
        self.log: list[Entry] = []

    def do(self, decision: Decision) -> Any:
        """Carry a decision out, through its records' bytes; returns its answer."""
        for each in decision.records:
            entry = encode(each)
            self.log.append(entry)
            record = decode(*entry)
            assert not isinstance(record, Unreadable), (record, entry)
            self.state.apply(record)
        return decision.answer

    def compact(self, rng: random.Random) -> None:
        """Compact the log up to some place."""
        before = len(self.log) if rng.random() < 0.5 else rng.randint(0, len(self.log))
        self.log = compacted(self.log, before=before, keeps_tombstones=rng.random() < 0.5)

    def restart(self) -> None:
        """Go on with what the log says."""
        self.state = folded(self.log)
