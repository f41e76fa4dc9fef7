"""What the machine knows for sure: the workers' topics as they stand in the logs, and what every life of a task does.

`wrong` says what must not be, as soon as it is seen.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ottla.connect.storage import ConfigState, OffsetState, TargetState, TaskId, apply_config, apply_offset
from ottla.wire import Record

__all__ = ["Ledger", "Life"]

QUIET_SECONDS = 30.0
"""So long behind a pause, a stop or a deletion, with all workers in their group, a connector may still write: a round that
has begun stops what takes longest (a task 15 s, connectors 5 s, the words about them 5 s), and reads the topics."""

EXCUSED_SECONDS = 30.0
"""So long a worker that was cut off or frozen may need until it knows what it has."""


@dataclass(eq=False)
class Life:
    """A task from a start to its end."""

    number: int
    task: TaskId
    worker: str
    round: int
    now: Callable[[], float]
    began_s: float
    read_s: float | None = None
    """When it began to read its offsets."""
    ended_s: float | None = None
    is_excused: bool = False
    """Whether its worker was cut off, frozen or killed while it lived, and it is not fenced."""

    def reads(self) -> None:
        """Note that it reads its offsets now."""
        self.read_s = self.now()

    def ends(self) -> None:
        """Note that it has ended."""
        self.ended_s = self.now()


@dataclass(eq=False)
class Connector:
    """What is known of a connector by its name."""

    changed_s: float = 0.0
    """When its target, or whether it is there, has changed last."""
    reset_s: float = -1.0
    """When its offsets were altered or forgotten last by somebody who asked for it."""
    reads: dict[int, Life] = field(default_factory=dict)
    """By source partition, the life that has read it last."""
    committed: dict[int, int] = field(default_factory=dict)
    """By source partition, how far what is written goes."""
    written: dict[int, int] = field(default_factory=dict)
    """By source partition, how much was written."""
    written_s: float = -1.0
    """When the last of it was written; readers see it later, where an older transaction of somebody's is open."""
    history: list[tuple[float, TargetState | None, str | None]] = field(default_factory=list)
    """When it had which target, None where it was not there, and which configuration."""


class Ledger:
    """See the module's description."""

    def __init__(self, now: Callable[[], float], *, exactly_once: bool, offsets_topic: str, out: str) -> None:
        self._now, self.exactly_once = now, exactly_once
        self._offsets_topic, self._out = offsets_topic, out
        self.config, self.offsets, self._read = ConfigState(), OffsetState(), 0
        self.lives: list[Life] = []
        self.connectors: dict[str, Connector] = {}
        self.counts: dict[tuple[str, int], int] = {}
        """How many tasks a connector has, by its name and the round that its configuration carries."""
        self._excused: dict[str, float] = {}
        self.wrong: list[str] = []
        self.disturbed_s = 0.0
        """When something has happened last that keeps workers from being a group."""

    def begin(self, task: TaskId, worker: str, round_: int) -> Life:
        """Note that a task begins."""
        life = Life(len(self.lives), task, worker, round_, self._now, self._now())
        life.is_excused = not self.exactly_once and self._now() < self._excused.get(worker, 0.0)
        self.lives.append(life)
        return life

    def excuse(self, worker: str, seconds: float) -> None:
        """Note that a worker is cut off for so long: what its tasks store counts, where nobody fences them."""
        self._excused[worker] = self._now() + seconds + EXCUSED_SECONDS
        for each in self.lives:
            if each.worker == worker and each.ended_s is None and not self.exactly_once:
                each.is_excused = True

    def connector(self, name: str) -> Connector:
        """Return what is known of a connector."""
        return self.connectors.setdefault(name, Connector())

    def target(self, name: str) -> TargetState | None:
        """Return a connector's target, None where it is not there."""
        if name not in self.config.configs:
            return None
        return self.config.target_state(name) or TargetState.STARTED

    def told(self, topic: str, record: Record, at_s: float) -> None:
        """Take a record in that readers see from now on, and that was written then."""
        key = bytes(record.key or b"")
        value = None if record.value is None else bytes(record.value)
        if topic == "connect-config":
            self._note_config(key.decode(), value)
        elif topic == self._offsets_topic:
            self._note_offset(key, value)
        elif topic == self._out:
            self._note_written(key, value or b"", at_s)

    def _note_config(self, key: str, value: bytes | None) -> None:
        before = {name: self.target(name) for name in self.connectors}
        self.config, _ = apply_config(self.config, key, value, self._read)
        self._read += 1
        for name in {*before, *self.config.configs}:
            known, now = self.connector(name), self.target(name)
            if before.get(name) is not now:
                known.changed_s = self._now()
            config = self.config.configs.get(name)
            shown = None if config is None else json.dumps(dict(config), sort_keys=True)
            if config is not None:
                self.counts[name, int(config["round"] or 0)] = int(config["tasks"] or 0)
            if not known.history or known.history[-1][1:] != (now, shown):
                known.history.append((self._now(), now, shown))

    # -- offsets

    def _note_offset(self, key: bytes, value: bytes | None) -> None:
        name, partition = json.loads(key)
        known, number = self.connector(name), int(partition["p"])
        found = None if value is None else json.loads(value)
        if found is None or "life" not in found:
            known.reset_s = self._now()
            known.committed[number] = 0 if found is None else int(found["at"])
        else:
            life = self.lives[int(found["life"])]
            self._check_stored(known, life, number, int(found["at"]))
        self.offsets, _ = apply_offset(self.offsets, key, value)

    def _check_stored(self, known: Connector, life: Life, number: int, at: int) -> None:
        if self.exactly_once:
            if at != known.committed.get(number, 0) + 1:
                self.say(f"{self._words(life)} has committed {at} of {number} behind {known.committed.get(number, 0)}")
            known.committed[number] = at
            return
        if life.is_excused:
            return
        assert life.read_s is not None
        if life.read_s < known.reset_s:
            self.say(f"{self._words(life)} has stored {at} of {number} behind offsets that were altered meanwhile")
        newer = self._reader(life.task.connector, number, life)
        if newer is not None:
            self.say(f"{self._words(life)} has stored {at} of {number} when {self._words(newer)} had read it")

    def _reader(self, name: str, number: int, life: Life) -> Life | None:
        """Return a later life that has read a source partition already."""
        for each in reversed(self.lives):
            if each is life:
                return None
            if each.task.connector == name and not each.is_excused and each.read_s is not None and each.round >= 0:
                count = self._count_of(each)
                if number % count == each.task.task and life.read_s is not None and each.read_s > life.read_s:
                    return each
        return None

    def _count_of(self, life: Life) -> int:
        return self.counts[life.task.connector, life.round]

    # -- what is written

    def _note_written(self, key: bytes, value: bytes, now: float) -> None:
        name, number = json.loads(key)
        life = self.lives[int(json.loads(value)["life"])]
        known = self.connector(name)
        known.written[number] = known.written.get(number, 0) + 1
        known.written_s = max(known.written_s, now)
        target = self.target(name)
        quiet_s = now - max(known.changed_s, self.disturbed_s)
        if target is not TargetState.STARTED and quiet_s > QUIET_SECONDS and not life.is_excused:
            words = "deleted" if target is None else target.value
            self.say(f"{self._words(life)} writes, and {name} is {words} for {now - known.changed_s:.1f} s")

    # -- words

    def say(self, words: str) -> None:
        """Note what must not be."""
        self.wrong.append(f"{self._now():.3f} {words}")

    def _words(self, life: Life) -> str:
        return f"life {life.number} ({life.task} round {life.round} at {life.worker} from {life.began_s:.3f})"

    def held(self, name: str, since_s: float, wanted: Callable[[TargetState | None, str | None], Any]) -> bool:
        """Return whether a connector was as wanted at some moment since."""
        history = self.connector(name).history
        last = next((each for each in reversed(history) if each[0] <= since_s), (0.0, None, None))
        return any(wanted(target, config) for _, target, config in (last, *(h for h in history if h[0] > since_s)))
