"""What every application on Spark has to keep, whatever fails: the cases, and what is looked at behind each.

An application reads the topic `in`, fed in three parts. It is run with nothing failing, which shows its steps; then once for
each step of its second part and each failure there, and started again in one of several ways until it is through. Behind
that every record is in the results, once where once was promised; and an application that begins anew in another folder,
with nothing but what the cluster has, goes on from there.
"""

from __future__ import annotations

import logging
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

from ottla.base import OttlaError
from ottla.connect.storage import TargetState
from ottla.connect.testing import Fault, Injected, Killed, Life, World
from ottla.spark.source import client_pool, positions
from ottla.spark.source import reader as source
from ottla.spark.streams import delivery
from ottla.spark.streams.lowering import direct, pushed
from ottla.spark.streams.preparation import prepare
from ottla.spark.streams.progress import OWN_WORDS
from ottla.spark.streams.restarts import Failure
from ottla.spark.streams.state import task as state_task
from ottla.spark.streams.states import State, StateMachine
from ottla.spark.streams.supervisor import Supervisor
from ottla.streams import StreamsBuilder, StreamsSettings, Topology, cut
from ottla.wire import Record
from tests.streams.machine import sparks
from tests.streams.machine.cluster import Broker, connected, process
from tests.streams.machine.sparks import ModelLauncher

__all__ = ["Again", "Case", "Kind", "Topics", "Violation", "cases", "run", "run_all"]

APPLICATION = "app"
TASKS = 2
LIVES_MAX = 6
STEPS_QUIET = 2
"""Looks at queries without news after which nothing is left to do."""
LOOKS_MAX = 200
REFUSED = {
    "FORKED": "no offset to begin at is right for all",
    "BOTH": "state without a changelog cannot be brought to where that is",
}
"""What applications of a kind may end with, for good."""
PASSING = (Fault.RETRIABLE, Fault.TIMEOUT, Fault.REFUSED)
"""Failures over which no application ends."""
NOT_STARTED = "it did not start"
"""What is said where a failure met a start, which raises it."""
ZOMBIE_LOOKS = 3
"""How many more looks a driver takes at its queries before it hears that another has its place."""


class Kind(Enum):
    """What the application does with its records."""

    DIRECT = "stateless, fetched by its tasks"
    FRAME = "stateless, through Spark"
    FORKED = "stateless, through Spark, in two branches"
    STATE = "with state"
    BOTH = "two queries over one topic, one of them an aggregate of Spark's own"


BRANCHES = {Kind.FRAME: ("out",), Kind.FORKED: ("out", "out-2")}
"""Topics that plans through Spark write to."""


class Again(Enum):
    """From what the application is started again."""

    CHECKPOINT = "from the checkpoint"
    LOST = "the checkpoint lost"
    ELSEWHERE = "another state.dir"


class Topics(Enum):
    """What became of the input before it was started again."""

    SAME = "the same"
    GROWN = "grown"
    AGAIN = "made again"
    REFILLED = "made again with as many records"
    CUT = "without its head"


@dataclass(frozen=True)
class Case:
    """What is run."""

    kind: Kind
    exactly_once: bool
    injected: Injected | None = None
    again: Again = Again.CHECKPOINT
    topics: Topics = Topics.SAME
    attempts: int = 1
    """How often Spark tries a task."""
    first: bool = False
    """Whether it is the first batch of all that meets the failure."""
    meanwhile: tuple[str, int] | None = None
    """The step, by name and number, in the middle of which the input is made again with as many records."""

    def __str__(self) -> str:
        once = "exactly once" if self.exactly_once else "at least once"
        return (
            f"{self.kind.value}, {once}: {self.injected or 'nothing failing'}, tried {self.attempts}"
            f"{', in the first batch' if self.first else ''}; "
            f"{self.again.value}, input {self.topics.value}"
            f"{f', made again at {self.meanwhile}' if self.meanwhile else ''}"
        )


@dataclass(frozen=True)
class Violation:
    """A case that did not keep what was promised."""

    case: Case
    what: str

    def __str__(self) -> str:
        return f"{self.case}: {self.what}"


def plan(kind: Kind) -> Topology:
    """Return the application's topology."""
    builder = StreamsBuilder(default_key_serde="string", default_value_serde="string")
    records = builder.stream("in")
    if kind is not Kind.STATE:
        records.map_values(str.upper, value_serde="string").to("out")
    if kind is Kind.FORKED:
        records.map_values(str.upper, value_serde="string").to("out-2")
    if kind is Kind.BOTH:
        records.group_by_key().count(materialized="counts").to_stream().to("counts-out", value_serde="long")
    if kind is Kind.STATE:
        words = records.group_by_key().reduce(lambda one, other: f"{one} {other}", materialized="words")
        words.to_stream().to("words-out")
    return builder.build()


@contextmanager
def own_process() -> Iterator[None]:
    """Give a life what a process of its own would have: nothing of what others remember."""
    kept: list[tuple[Any, dict[Any, Any]]] = []
    for each in (client_pool._idle, delivery._histories, direct._known_steps, state_task._warm, state_task._plans):
        known: Any = each
        kept.append((known, dict(known)))
        known.clear()
    try:
        yield
    finally:
        for link in client_pool._idle.values():
            link.client.close()
        for known, before in kept:
            known.clear()
            known.update(before)


class _World(World):
    """What outlives a start; something may happen to topics in the middle of a step."""

    meanwhile: tuple[str, int] | None = None
    on_step: Callable[[], None]

    def step(self, name: str, life: Life, *, kinds: frozenset[Fault]) -> Fault | None:
        """See `World`."""
        if self.meanwhile == (name, self._counts[name] + 1):
            self.meanwhile = None
            self.on_step()
        return super().step(name, life, kinds=kinds)


@dataclass(eq=False)
class _Run:
    """One case on its way."""

    case: Case
    folder: Path
    world: _World = field(init=False)
    broker: Broker = field(init=False)
    fed: Counter[int] = field(default_factory=Counter)
    """How many records each partition was fed with."""
    waiting: list[str] = field(default_factory=list)
    """Values that have to be in the results."""
    excused: set[str] = field(default_factory=set)
    """Values that need not be: their topic lost them."""
    lives: int = 0
    steps: list[tuple[str, frozenset[Fault]]] = field(default_factory=list)
    """What the part that meets the failure took, and what can fail there."""

    def __post_init__(self) -> None:
        self.world = _World(None)
        self.world.on_step = lambda: self._make_again(2)
        self.broker = Broker(self.world)
        self.world.broker = self.broker  # type: ignore[attr-defined]
        self.world.on_fenced = self._second_driver
        self.broker.roles.update({"in": "input", "out": "results", "words-out": "results"})
        self.broker.roles.update(
            {f"{APPLICATION}-words-changelog": "changelog", "counts-out": "results", "out-2": "results"}
        )
        for each in ("in", "out", "out-2", "words-out", "counts-out"):
            self.broker.add_topic(each, TASKS)

    # -- the story

    def go(self) -> list[str]:
        """Run the case; returns what was not kept."""
        try:
            self._story()
        except AssertionError as error:
            return [str(error)]
        return [self.world.stuck] if self.world.stuck is not None else self._look()

    def _story(self) -> None:
        case, where = self.case, self.folder / "one"
        self.feed()
        if not case.first:
            self._live(where)
            self.feed()
        self.world.taken.clear()
        self.world._counts.clear()
        self.world.injected, self.world.meanwhile = case.injected, case.meanwhile
        through = self._live(where)
        self.steps = list(self.world.taken)
        injected = case.injected
        if injected is not None and self.world.happened and injected.fault in PASSING and case.meanwhile is None:
            passed = self.ended_well or self.last.startswith(NOT_STARTED)
            assert passed, f"it ended over what passes: {self.last}"
        if case.again is not Again.CHECKPOINT and (not through or case.injected is None):
            shutil.rmtree(where, ignore_errors=True) if case.again is Again.LOST else None
            where = where if case.again is Again.LOST else self.folder / "two"
        self._change()
        self._settle(where)
        self.counted = self.broker.read("counts-out")
        self._settle(self.folder / "last")

    def _settle(self, where: Path) -> None:
        """Feed some more, and start until everything is done."""
        self.feed()
        for _ in range(LIVES_MAX):
            if self._live(where):
                return
            if REFUSED.get(self.case.kind.name, self.last + "!") in self.last:
                self.is_refused = True
                return
        raise AssertionError(f"it does not get through: {self.last}")

    def feed(self) -> None:
        """Add two records to each partition of the input, and in the middle of them two that were aborted."""
        for number in range(self.broker.topics["in"][1]):
            values = [f"p{number}-{self.fed[number] + each}" for each in range(2)]
            self.fed[number] += 2
            self.waiting += values
            key = b"k%d" % number
            self.broker.add("in", [(key, each.encode()) for each in values], number)

    def _change(self) -> None:
        """Do to the input what the case has."""
        if self.case.topics is Topics.GROWN:
            self.broker.grow("in")
        elif self.case.topics is Topics.CUT:
            self.excused |= set(self.waiting)
            self.broker.cut("in")
        elif self.case.topics is not Topics.SAME:
            self._make_again(0 if self.case.topics is Topics.AGAIN else 2)

    def _make_again(self, parts: int) -> None:
        """Make the input again, with some parts."""
        self.excused |= set(self.waiting)
        self.broker.make_again("in")
        for _ in range(parts):
            self.feed()

    # -- lives

    last = ""
    """How the last life ended that did not come to an end of its work."""
    ended_well = False
    is_refused = False
    """Whether it cannot go on, and says so."""
    counted: Sequence[Record] = ()
    """Results of an aggregate of Spark's own before it began anew in an empty folder."""

    def _live(self, folder: Path) -> bool:
        """Start the application; true where it has come to an end of its work, or was asked to stop."""
        life = Life(self.world)
        self.lives += 1
        before = self.world.happened
        self.ended_well = self._drive(life, folder)
        return self.ended_well and before == self.world.happened

    def _drive(self, life: Life, folder: Path, *, force: bool = False) -> bool:
        old = getattr(process, "life", None)
        process.broker, process.life = self.broker, life
        try:
            with own_process():
                return self._run(life, folder, force=force)
        except Killed:
            self.last = "killed"
            return False
        except OttlaError as error:
            self.last = f"{NOT_STARTED}: {error}"
            return False
        finally:
            life.dead = True
            process.life = old

    def _run(self, life: Life, folder: Path, *, force: bool) -> bool:
        case, broker = self.case, self.broker
        settings = StreamsSettings.of(
            {
                "application.id": APPLICATION,
                "bootstrap.servers": "model:1",
                "state.dir": str(folder),
                "processing.guarantee": "exactly_once_v2" if case.exactly_once else "at_least_once",
                "restart.attempts.max": 3,
            }
        )
        topology, stages = _planned(case.kind)
        member = broker.join(APPLICATION, life, force=force)
        client = connected()
        try:
            prepared = prepare(client, topology, stages, settings)
            launcher = ModelLauncher(
                prepared, settings, lambda: member, life, branches=BRANCHES.get(case.kind, ()), attempts=case.attempts
            )
            machine = StateMachine()
            machine.to(State.REBALANCING)
            supervisor = Supervisor(
                stages.stages,
                launcher,
                machine,
                settings,
                commit=lambda offsets: self._commit(client, life, offsets, member),
            )
            done = self._steps(life, supervisor, member)
            life.check()
            broker.leave(member)
            return done
        finally:
            client.close()

    def _commit(self, client: Any, life: Life, offsets: Any, member: Any) -> None:
        life.check()
        client.commit_offsets(APPLICATION, offsets, metadata=OWN_WORDS, member=member)

    def _steps(self, life: Life, supervisor: Supervisor, member: Any) -> bool:
        """Let the supervisor do what it does, until there is nothing left to do."""
        quiet = zombie = 0
        for look in range(LOOKS_MAX):
            before = self._position(supervisor)
            if not supervisor.step(look * 100.0):
                assert supervisor.failed is not None
                self.last = supervisor.failed.reason
                return False
            life.check()
            if life.target is TargetState.STOPPED:
                supervisor.stop(0.0)
                return False
            if not self.broker.is_member(member.group, member.member_id, member.generation):
                zombie += 1
                if zombie > ZOMBIE_LOOKS:
                    supervisor.give_up(Failure("another driver is there", fatal=True))
                    self.last = "fenced"
                    return False
            is_busy = self._position(supervisor) != before or any(each.query is None for each in supervisor.queries)
            quiet = 0 if is_busy else quiet + 1
            if quiet == STEPS_QUIET:
                supervisor.stop(0.0)
                life.check()
                return True
        raise AssertionError(f"it does not come to rest: {self.world.taken[-20:]}")

    @staticmethod
    def _position(supervisor: Supervisor) -> list[Any]:
        return [(each.restarts.total, each.metrics.last_batch) for each in supervisor.queries]

    def _second_driver(self) -> None:
        """Another driver takes the application over, while the first one is in the middle of a step."""
        errors: list[BaseException] = []

        def take_over() -> None:
            try:
                life = Life(self.world)
                if not self._drive(life, self.folder / "second", force=True):
                    raise AssertionError(f"the second driver: {self.last}")
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=take_over, daemon=True)
        thread.start()
        thread.join()
        for each in errors:
            raise each

    # -- what is looked at

    def _look(self) -> list[str]:
        found: list[str] = []
        if self.case.kind is not Kind.STATE:
            found += self._look_at_copies("out")
        if self.case.kind is Kind.FORKED:
            found += self._look_at_copies("out-2")
        if self.case.kind is Kind.STATE:
            found += self._look_at_words("words-out")
            found += self._look_at_words(f"{APPLICATION}-words-changelog")
        if self.case.kind is Kind.BOTH:
            found += self._look_at_counts()
        return found

    def _look_at_counts(self) -> list[str]:
        """Each key's last count is the number of its records, or no less at least once; less what is gone."""
        last = {each.key: int(each.value or b"") for each in self.broker.read("counts-out")}
        wanted = {b"k%d" % number: count for number, count in self.fed.items()}
        gone = Counter(b"k" + each.partition("-")[0][1:].encode() for each in self.excused)
        wrong = {
            key: last.get(key, 0)
            for key, count in wanted.items()
            if not count - gone[key] <= last.get(key, 0) <= (count if self.case.exactly_once else last.get(key, 0))
        }
        if self.is_refused:
            return []
        is_another = self.case.injected is not None and self.case.injected.fault is Fault.FENCED  # which begins anew
        if self.case.exactly_once and self.case.again is Again.CHECKPOINT and not is_another:
            for key in wanted:
                rising = [int(each.value or b"") for each in self.counted if each.key == key]
                if rising != sorted(set(rising)):
                    return [f"counts of {key!r} went back: {rising}"]
        return [f"counts are {wrong}, not {wanted}"] if wrong else []

    def _look_at_copies(self, topic: str) -> list[str]:
        wanted = {each.upper() for each in self.waiting}
        counted = Counter((each.value or b"").decode() for each in self.broker.read(topic))
        found = []
        missing = wanted - counted.keys() - {each.upper() for each in self.excused}
        if missing and not self.is_refused:
            found.append(f"{sorted(missing)} are not in the results: {sorted(counted.elements())}")
        twice = sorted(each for each, count in counted.items() if count > 1)
        if self.case.exactly_once and twice:
            found.append(f"{twice} are in the results more than once")
        if strange := counted.keys() - wanted:
            found.append(f"{sorted(strange)} come from nowhere")
        return found

    def _look_at_words(self, topic: str) -> list[str]:
        """Each key's last result has all its words in their order, and each result goes on from the one before."""
        found = []
        by_key: dict[str, list[list[str]]] = {}
        for each in self.broker.read(topic):
            by_key.setdefault((each.key or b"").decode(), []).append((each.value or b"").decode().split())
        for number in self.fed:
            mine = [each for each in self.waiting if each.startswith(f"p{number}-")]
            results = by_key.get(f"k{number}", [[]])
            if missing := set(mine) - set(results[-1]) - self.excused:
                found.append(f"{sorted(missing)} are not in the state of {topic}: {results[-1]}")
            if strange := set(results[-1]) - set(mine):
                found.append(f"{sorted(strange)} come from nowhere")
            if self.case.exactly_once:
                if results[-1] != [each for each in mine if each in results[-1]]:
                    found.append(f"{topic} has {results[-1]} for {mine}")
                for one, next_one in pairwise(results):
                    if next_one[: len(one)] != one or len(one) == len(next_one):
                        found.append(f"{topic} has {next_one} behind {one}")
        return found


@lru_cache
def _planned(kind: Kind) -> tuple[Topology, Any]:
    topology = plan(kind)
    return topology, cut(topology)


@contextmanager
def in_the_model() -> Iterator[None]:
    """Have our code meet the model where it would meet brokers."""
    logging.disable(logging.CRITICAL)
    try:
        with (
            patch.object(client_pool, "BlockingClient", connected),
            patch.object(positions, "BlockingClient", connected),
            patch.object(sparks, "BlockingClient", connected),
            patch.object(source, "SHRUNK_SECONDS", 0.0),
            patch.object(positions, "SETTLED_SECONDS", 0.0),
            patch.object(pushed, "TASK_ROWS_MIN", 1),  # a task for each partition
        ):
            yield
    finally:
        logging.disable(logging.NOTSET)


def run(case: Case, folder: Path) -> tuple[list[Violation], list[tuple[str, frozenset[Fault]]], bool]:
    """Run a case; returns what was not kept, the steps of its second part, and whether the failure happened."""
    one = _Run(case, folder)
    with in_the_model():
        found = one.go()
    return [Violation(case, each) for each in found], one.steps, one.world.happened


def cases(quiet: Case, steps: Sequence[tuple[str, frozenset[Fault]]]) -> Iterator[Case]:
    """Yield every failure at each step that a case with nothing failing took, and each way to go on."""
    numbers = Counter[str]()
    for each, kinds in steps:
        numbers[each] += 1
        for fault in sorted(kinds, key=lambda each: each.name):
            injected = Injected(each, numbers[each], fault)
            for again, topics, attempts in _ways(quiet.kind, fault):
                yield replace(quiet, injected=injected, again=again, topics=topics, attempts=attempts)
        if kinds:
            meanwhile = replace(quiet, meanwhile=(each, numbers[each]))
            yield meanwhile
            for fault in (Fault.RETRIABLE, Fault.KILL_AFTER):
                if fault in kinds:
                    yield replace(meanwhile, injected=Injected(each, numbers[each], fault))


def _ways(kind: Kind, fault: Fault) -> Iterator[tuple[Again, Topics, int]]:
    """Yield what may follow a failure: how it is started again, what became of the input, and how often tasks are tried."""
    if fault is Fault.NEIGHBOUR:
        return
    yield Again.CHECKPOINT, Topics.SAME, 1
    if fault in (Fault.RETRIABLE, Fault.TIMEOUT):
        yield Again.CHECKPOINT, Topics.SAME, 2
    if fault in (Fault.FATAL, Fault.STOP, Fault.KILL_BEFORE, Fault.KILL_AFTER):
        yield Again.LOST, Topics.SAME, 1
    if fault is Fault.KILL_BEFORE:
        yield Again.ELSEWHERE, Topics.SAME, 1
        anew = (Topics.AGAIN, Topics.REFILLED)
        changed = {Kind.STATE: (*anew, Topics.CUT), Kind.BOTH: anew}.get(kind, tuple(Topics)[1:])
        for topics in changed:
            for again in Again:
                yield again, topics, 1


def run_all(
    kind: Kind, exactly_once: bool, folder: Path, *, every: int = 1, beginning: int = 0, sample: int = 0
) -> tuple[list[Violation], int]:
    """Run each `every`-th case of a kind, or about `sample` of all; returns what was not kept, and how many were run."""
    found: list[Violation] = []
    possible: list[Case] = []
    for first in (True, False):
        quiet = Case(kind, exactly_once, first=first)
        violations, steps, _ = run(quiet, folder / f"quiet {first}")
        found += violations
        possible += cases(quiet, steps)
    every = len(possible) // sample if sample else every
    ran = 2
    for number, case in enumerate(possible[beginning::every]):
        place = folder / str(number)
        violations, _, happened = run(case, place)
        shutil.rmtree(place, ignore_errors=True)
        found += violations
        ran += happened or case.injected is None
    return found, ran
