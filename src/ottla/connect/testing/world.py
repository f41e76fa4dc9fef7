"""The machine's time: every step that a task takes between its plugins and the outside, and one failure at one of them.

A step has a name (`poll`, `produce topic`, `end`…) and its number among those of that name, so that a second run can fail at
the very step that a first one has shown. A task that is killed lives on in this process, but nothing that it does from then
on reaches anybody: its steps raise `Killed`, or `KafkaError` in its clients.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ottla.base import ErrorCode, KafkaError
from ottla.connect import decisions
from ottla.connect.errors import ConnectError, RetriableError
from ottla.connect.storage import State, TargetState
from ottla.connect.testing.words import Fault, partition_name

__all__ = ["Injected", "Killed", "Life", "World", "with_pairs"]

log = logging.getLogger(__name__)
STEPS_MAX = 20_000
"""A task that takes more steps does not end; a healthy one takes some tens."""
STEP_SECONDS = 0.001
"""What a step takes."""
SECONDS_MAX = 60.0
"""A task that lives for longer, in the model's time, does not end."""
WAIT_SECONDS_MAX = 0.001
"""How long `wait` waits at most: nothing that a task waits for takes longer here."""


class Killed(BaseException):
    """The task's process is gone."""


@dataclass(frozen=True, slots=True)
class Injected:
    """One failure: at the `number`-th step (from 1) of a name."""

    step: str
    number: int
    fault: Fault

    def __str__(self) -> str:
        return f"{self.fault.value} at {self.step} {self.number}"


class World:
    """What outlives a task: source offsets that a worker has stored, the steps taken so far, and the failure to come."""

    def __init__(self, injected: Injected | None = None) -> None:
        self.injected = injected
        self.happened = False
        self.stuck: str | None = None
        """Why the task does not end, once that is known."""
        self.now_s = 0.0
        """The time that tasks and the cluster live in; only steps and waits make it pass."""
        self.taken: list[tuple[str, frozenset[Fault]]] = []
        """Every step's name, in their order, and what may fail there."""
        self.stored: dict[str, Mapping[str, Any] | None] = {}
        self.on_fenced: Callable[[], None] = lambda: None
        """Let somebody else take over what the task has."""
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def pass_time(self, seconds: float) -> None:
        """Let time pass; raises AssertionError where too much has."""
        self.now_s += seconds
        if self.now_s > SECONDS_MAX:
            raise self.hangs(f"it has lived for {SECONDS_MAX} s")

    def hangs(self, why: str) -> AssertionError:
        """Note that the task does not end, whoever swallows the error that is returned to be raised."""
        self.stuck = self.stuck or f"it hangs behind {[name for name, _ in self.taken[-5:]]}: {why}"
        return AssertionError(self.stuck)

    def step(self, name: str, life: Life, *, kinds: frozenset[Fault]) -> Fault | None:
        """Take a step; returns what its caller is to do besides: fail before it (`kinds` says as what), or behind it."""
        with self._lock:
            self._counts[name] += 1
            self.taken.append((name, kinds))
            self.pass_time(STEP_SECONDS)
            if sum(self._counts.values()) > STEPS_MAX:
                life.dead = True
                raise self.hangs(f"{self._counts.most_common(5)}")
            wanted = self.injected
            if wanted is None or self.happened or (wanted.step, wanted.number) != (name, self._counts[name]):
                return None
            if wanted.fault not in with_pairs(kinds):
                return None
            self.happened = True
        if wanted.fault in PAIRS:
            life.want(PAIRS[wanted.fault])
            return Fault.RETRIABLE
        if wanted.fault is Fault.STOP:
            life.want(TargetState.STOPPED)
            return None
        if wanted.fault is Fault.PAUSE:
            life.want(TargetState.PAUSED)
            return None
        if wanted.fault in (Fault.REVOKED, Fault.LOST):
            life.rebalance = wanted.fault
            return None
        if wanted.fault is Fault.FENCED:
            self.on_fenced()
            return None
        return wanted.fault


class Life:
    """One start of a task, and its port to the worker (see the runtime's `TaskPort`)."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.dead = False
        self.states: list[tuple[State, str | None]] = []
        self.metrics: dict[str, float] = {}
        self.rebalance: Fault | None = None
        """What the sink's group does to the task next."""
        self.sleep: Callable[[float], None] = lambda seconds: None
        """Lets time pass in the runtime."""
        self.look: Callable[[], None] = lambda: None
        """Lets the runtime do what it does beside the task, while the task looks what its worker wants."""
        self.is_beside: Callable[[], bool] = lambda: False
        """Whether a part of the runtime runs that is not the task's own."""
        self._target = TargetState.STARTED
        self._left: list[Callable[[], None]] = []

    # -- of the machine

    def want(self, target: TargetState) -> None:
        """Ask the task for another state."""
        self._target = target

    def kill(self) -> None:
        """End the process, as far as anybody else can see."""
        self.dead = True
        self.want(TargetState.STOPPED)

    def stop(self, work: Callable[[], None]) -> None:
        """Stop a plugin: now, or, where its process is gone, when nobody looks any more at what it leaves behind."""
        if self.dead:
            self._left.append(work)
        else:
            work()

    def give_back(self) -> None:
        """Close what a killed task held: a process that dies gives back its files and connections."""
        while self._left:
            try:
                self._left.pop()()
            except Exception:  # of a task that was interrupted anywhere
                log.debug("A killed task does not stop", exc_info=True)

    def check(self) -> None:
        """Raise Killed in a task that has no process any more."""
        if self.dead:
            raise Killed

    def plugin_step(
        self, name: str, work: Callable[[], Any] = lambda: None, kinds: frozenset[Fault] | None = None
    ) -> Any:
        """Take a step of a plugin around its work; raises what was injected."""
        self.check()
        found = self.world.step(name, self, kinds=PLUGIN_FAULTS if kinds is None else kinds)
        if found is Fault.RETRIABLE:
            raise RetriableError(f"injected at {name}")
        if found is Fault.FATAL:
            raise ValueError(f"injected at {name}")
        if found is Fault.KILL_BEFORE:
            self.kill()
        self.check()
        made = work()
        if found is Fault.KILL_AFTER:
            self.kill()
        self.check()
        return made

    def client_error(self) -> KafkaError:
        """Return what a dead task's clients are answered."""
        return KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "the process is gone")

    # -- of the port

    def tell(self, state: State, trace: str | None = None) -> None:
        """See `TaskPort`."""
        self.check()
        self.states.append((state, trace))

    @property
    def target(self) -> TargetState:
        """See `TaskPort`; what runs beside the task gets an error once the worker is gone."""
        if self.dead and self.is_beside():
            raise ConnectionError("the process is gone")
        self.check()
        self.look()
        self.check()
        return self._target

    def wait(self, seconds: float) -> None:
        """See `TaskPort`."""
        self.sleep(min(seconds, WAIT_SECONDS_MAX))
        if self._target is TargetState.PAUSED and self.states[-1:] == [(State.PAUSED, None)]:
            self.want(TargetState.STARTED)

    def offsets(self, partitions: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any] | None]:
        """See `TaskPort`."""
        self.check()
        return [self.world.stored.get(partition_name(each)) for each in partitions]

    def store_offsets(self, offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any] | None]]) -> None:
        """See `TaskPort`."""
        self.check()
        found = self.world.step("store offsets", self, kinds=STORE_FAULTS)
        if found is Fault.RETRIABLE:
            raise ConnectError("injected: the offsets cannot be stored now")
        if found is Fault.KILL_BEFORE:
            self.kill()
        self.check()
        for partition, offset in offsets:
            self.world.stored[partition_name(partition)] = offset
        if found is Fault.KILL_AFTER:
            self.kill()
        self.check()

    def confirm(self) -> None:
        """See `TaskPort`."""
        self.check()

    def used(self, topic: str) -> None:
        """See `TaskPort`."""

    def report(self, metrics: Mapping[str, float]) -> None:
        """See `TaskPort`."""
        self.metrics = dict(metrics)

    def progress(self, told: decisions.Progress) -> None:
        """See `TaskPort`."""
        self.told = told


PAIRS = {Fault.RETRIABLE_STOP: TargetState.STOPPED, Fault.RETRIABLE_PAUSE: TargetState.PAUSED}
"""Two failures as one: what is half done when the first of them happens is what the second must not store."""


def with_pairs(kinds: frozenset[Fault]) -> frozenset[Fault]:
    """Return what may happen at a step that may fail so: two failures, too."""
    return kinds | PAIRS.keys() if Fault.RETRIABLE in kinds else kinds


PLUGIN_FAULTS = frozenset({Fault.RETRIABLE, Fault.FATAL, Fault.STOP, Fault.PAUSE, Fault.KILL_BEFORE, Fault.KILL_AFTER})
SINK_FAULTS = PLUGIN_FAULTS | {Fault.REVOKED, Fault.LOST}
PURE_FAULTS = PLUGIN_FAULTS - {Fault.KILL_AFTER}
"""Of what changes nothing outside: a kill behind it is one before the next step."""
STORE_FAULTS = frozenset({Fault.RETRIABLE, Fault.STOP, Fault.KILL_BEFORE, Fault.KILL_AFTER})
