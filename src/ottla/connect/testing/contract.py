"""What every connector has to keep, whatever fails: the cases, and what is looked at behind each.

A scenario says what is special about one row. It is run once with nothing failing, which shows its steps; then once for each
step and each fault that can happen there, with the task started again until it has gone through everything. Behind that the
destination holds every good record, each bad one is a dead letter, and where once was promised it is once.
"""

from __future__ import annotations

import json
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, ClassVar, Protocol

from ottla.connect.config_def import ConfigDef
from ottla.connect.converters import StringConverter
from ottla.connect.errors import DataError
from ottla.connect.plugins import Plugins
from ottla.connect.storage import State
from ottla.connect.testing.cluster import ModelCluster
from ottla.connect.testing.states import Outcome, Seen, state_of
from ottla.connect.testing.words import Fault
from ottla.connect.testing.world import PURE_FAULTS, Injected, Killed, Life, World, with_pairs

__all__ = ["Contract", "Position", "Scenario", "TaskRuntime", "Trouble", "Violation", "text_of_bytes"]

LIVES_MAX = 5
"""How often a task is started until it must be through: one fault ends it once."""
HANGS_SECONDS = 120.0
"""How long a start may take in real time, on a machine that has much else to do: a plugin that waits for ever ends here."""
TOPIC, SECOND, ROUTED, DEAD_LETTERS = "rows", "more", "elsewhere", "letters"
NAME = "contract"


class TaskRuntime(Protocol):
    """What runs a task against the model: `ottla.spark.run_on_model`."""

    def __call__(
        self,
        config: Mapping[str, str],
        *,
        worker: Mapping[str, str],
        life: Life,
        cluster: ModelCluster,
        plugins: Plugins,
        exactly_once: bool,
    ) -> State:
        """Run a task to its end and return its last state."""
        ...


class Trouble(Enum):
    """What is special about one row."""

    PLAIN = "plain"
    """Nothing, and no transformation stands in the way of columns."""
    STAGED = "staged"
    """Nothing, behind a transformation."""
    FILTERED = "filtered"
    REFUSED = "refused"
    """By the transformation: a dead letter."""
    UNREADABLE = "unreadable"
    """By the converter: a dead letter, and columns go row by row."""
    ROUTED = "routed"
    """Into another topic."""
    REPORTED = "reported"
    """By the sink itself."""
    MERGED = "merged"
    """Nothing, and two topics are routed into one, so that names by topic and offset would be there twice."""

    @property
    def is_of_a_row(self) -> bool:
        """Whether one row is special, and not all are alike."""
        return self not in (Trouble.PLAIN, Trouble.STAGED, Trouble.MERGED)


class Position(Enum):
    """Where the special row is."""

    FIRST = "first"
    MIDDLE = "middle"
    LAST = "last"


@dataclass(frozen=True, slots=True)
class Scenario:
    """What is run."""

    trouble: Trouble
    position: Position = Position.FIRST
    exactly_once: bool = False

    @property
    def is_slow(self) -> bool:
        """Whether the cluster answers slowly and offsets are seldom stored, as they are in some of the scenarios."""
        return self.position is Position.MIDDLE or self.trouble is Trouble.STAGED

    def __str__(self) -> str:
        where = f"-{self.position.value}" if self.trouble.is_of_a_row else ""
        return f"{self.trouble.value}{where}-{'exactly' if self.exactly_once else 'at-least'}-once"


@dataclass(frozen=True, slots=True)
class Violation:
    """One case that did not keep the contract."""

    scenario: Scenario
    injected: Injected | None
    what: str

    def __str__(self) -> str:
        return f"{self.scenario}, {self.injected or 'nothing failing'}: {self.what}"


_Step = tuple[str, frozenset[Fault]]


@dataclass(eq=False)
class _Case:
    world: World
    cluster: ModelCluster
    folder: Path
    lives: list[Life] = field(default_factory=list)
    seen: Seen = field(default_factory=Seen)
    """What could be seen behind the last start."""

    recalled: str | None = None
    """The state that it is in, where the last start was not run but recalled."""


def text_of_bytes(data: bytes | None) -> str:
    """Return what a value of `StringConverter` is called."""
    return "" if data is None else data.decode()


@dataclass(eq=False)
class Contract:
    """A connector under test; `SourceContract` and `SinkContract` are what authors use."""

    connector: type[Any]
    config: Callable[[Path], Mapping[str, str]]
    """Lays out what the connector works on in an empty folder, and returns the task's configuration."""

    values: Sequence[str]
    """What the rows are called, each once, in their order."""

    runtime: TaskRuntime
    converter: type[Any] = StringConverter
    converter_config: Mapping[str, str] = field(default_factory=dict)
    name_of: Callable[[Any], str] = str
    """What a row is called, by a record's value."""

    dead_letter_name: Callable[[Any], str] | None = None
    """What a row is called, by a dead letter's value; `name_of` the value that its JSON has, for sources."""

    all_in_folder: bool = False
    """Whether all that a start depends on, beside the cluster, are files of the folder: then starts that are alike are
    run once, which halves the time."""

    def __post_init__(self) -> None:
        self._known: dict[str, Outcome] = {}
        self._life: Life | None = None
        self._special = ""
        self._trouble = Trouble.PLAIN
        self._plugins = self._make_plugins()

    troubles: ClassVar[tuple[Trouble, ...]] = ()

    # -- what is run

    def scenarios(self) -> Iterator[Scenario]:
        """Yield every scenario."""
        for once in self.promises():
            for trouble in self.troubles:
                for position in Position if trouble.is_of_a_row else (Position.FIRST,):
                    yield Scenario(trouble, position, once)

    def promises(self) -> tuple[bool, ...]:
        """Return the deliveries to be tried: whether exactly once."""
        return (False,)

    def run(self, scenario: Scenario, folder: Path, *, every: int = 1) -> list[Violation]:
        """Run a scenario with each failure at each step; return what was not kept. `folder` is filled with cases.

        `every` is for destinations that are slow: of so many cases one is run, the same each time.
        """
        self._known.clear()
        violations, steps = self._run(scenario, None, folder / "0")
        numbers = Counter[str]()
        cases: list[Injected] = []
        for step, kinds in steps:
            numbers[step] += 1
            cases += [Injected(step, numbers[step], fault) for fault in Fault if fault in with_pairs(kinds)]
        cases = [each for each in cases if self._can_happen(scenario, each)]
        for index, injected in enumerate(cases[every - 1 :: every], 1):
            found, _ = self._run(scenario, injected, folder / str(index))
            violations += found
        return violations

    def run_one(self, scenario: Scenario, injected: Injected | None, folder: Path) -> list[Violation]:
        """Run one case; return what was not kept."""
        self._known.clear()
        return self._run(scenario, injected, folder)[0]

    def _run(self, scenario: Scenario, injected: Injected | None, folder: Path) -> tuple[list[Violation], list[_Step]]:
        folder.mkdir(parents=True)
        world = World(injected)
        case = _Case(world, ModelCluster(world), folder)
        case.cluster.roles.update({DEAD_LETTERS: "letters"})
        case.cluster.is_slow = scenario.is_slow
        self._trouble = scenario.trouble
        places = {Position.FIRST: 0, Position.MIDDLE: len(self.values) // 2, Position.LAST: -1}
        self._special = self.values[places[scenario.position]]
        config = {**self._settings(scenario), **self.config(folder)}
        self._lay_out(case)
        found: list[str] = []
        try:
            while not self._start(case, config, scenario):
                if len(case.lives) == LIVES_MAX:
                    found.append(f"it does not get through: {case.lives[-1].states[-1:]}")
                    break
            steps = list(world.taken)
            if injected is not None and not world.happened:
                return [], steps
            found += self._look(case, scenario)
            if not found:
                before = case.seen
                self._start(case, config, scenario)
                if case.seen != before:
                    found.append(f"a further start changes {before} to {case.seen}")
        except AssertionError as error:
            steps = list(world.taken)
            found.append(str(error))
        finally:
            for life in case.lives:
                life.give_back()
        return [Violation(scenario, injected, each) for each in found], steps

    def _can_happen(self, scenario: Scenario, injected: Injected) -> bool:
        once_only = (Fault.FENCED, Fault.NEIGHBOUR)
        return scenario.exactly_once or injected.fault not in once_only

    def _start(self, case: _Case, config: Mapping[str, str], scenario: Scenario) -> bool:
        """Start the task, or recall what a start like it has come to; return whether it has gone through everything."""
        is_plain = bool(case.lives) and (case.world.injected is None or case.world.happened)
        state = ""
        if is_plain and self.all_in_folder:
            state = case.recalled or state_of(case.world, case.cluster, case.folder)
            known = self._known.get(state)
            if known is not None:
                case.lives.append(Life(case.world))
                case.recalled, case.seen = known.state, known.seen
                return known.is_through
            if case.recalled is not None:
                raise AssertionError("it comes to where another case has failed")
        is_through = self._live(case, config, scenario)
        case.seen = self._see(case)
        if state:
            after = state_of(case.world, case.cluster, case.folder)
            self._known[state] = Outcome(is_through, after, case.seen)
        return is_through

    def _live(self, case: _Case, config: Mapping[str, str], scenario: Scenario) -> bool:
        """Start the task and return whether it has gone through everything."""
        life = self._life = Life(case.world)
        case.lives.append(life)
        before = case.world.happened
        states: list[State] = []
        errors: list[BaseException] = []

        def run() -> None:
            try:
                made = self.runtime(
                    config,
                    worker=self._worker(scenario),
                    life=life,
                    cluster=case.cluster,
                    plugins=self._plugins,
                    exactly_once=scenario.exactly_once,
                )
                states.append(made)
            except Killed:
                pass
            except BaseException as error:  # a plugin may raise anything; the contract's own thread raises it again
                errors.append(error)

        thread = threading.Thread(target=run, name="a task under contract", daemon=True)
        thread.start()
        thread.join(HANGS_SECONDS)
        if thread.is_alive():
            frame = sys._current_frames().get(thread.ident or 0)
            where = "".join(traceback.format_stack(frame, limit=12)) if frame is not None else ""
            raise AssertionError(f"it hangs behind {case.world.taken[-5:]}:\n{where}")
        if case.world.stuck is not None:
            raise AssertionError(case.world.stuck)
        for error in errors:
            raise AssertionError(f"it raised {error!r}") from error
        ended_well = bool(states) and states[0] is State.UNASSIGNED and not life.dead
        return ended_well and before == case.world.happened

    def _worker(self, scenario: Scenario) -> dict[str, str]:
        return {
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "contract.Converter",
            "offset.flush.interval.ms": "10" if scenario.is_slow else "1",
            **{f"value.converter.{key}": value for key, value in self.converter_config.items()},
        }

    def _settings(self, scenario: Scenario) -> dict[str, str]:
        found = {
            "name": NAME,
            "connector.class": "contract.Connector",
            "tasks.max": "1",
            "errors.tolerance": "all",
            "errors.retry.timeout": "-1",
            "errors.retry.delay.max.ms": "1",
            "errors.deadletterqueue.topic.name": DEAD_LETTERS,
            "errors.deadletterqueue.topic.replication.factor": "1",
        }
        if scenario.trouble not in (Trouble.PLAIN, Trouble.UNREADABLE, Trouble.REPORTED):
            found |= {"transforms": "trouble", "transforms.trouble.type": "contract.Trouble"}
        return found

    # -- what is special about rows

    def _is_special(self, trouble: Trouble, value: Any) -> bool:
        return self._trouble is trouble and self.name_of(value) == self._special

    @property
    def life(self) -> Life:
        """The task that runs now."""
        assert self._life is not None
        return self._life

    def _make_plugins(self) -> Plugins:
        from ottla.connect.plugins import discover

        contract = self

        class Converter(self.converter):  # type: ignore[misc,name-defined]
            java_name: ClassVar[str] = "contract.Converter"

            def _refused(self, values: Iterable[Any]) -> None:
                if any(contract._is_special(Trouble.UNREADABLE, each) for each in values):
                    raise DataError("a value that has no bytes")

            def from_connect(self, topic: str, schema: Any, value: Any) -> Any:
                self._refused([value])
                return super().from_connect(topic, schema, value)

            def columns_from_connect(self, topic: str, schema: Any, values: Any) -> Any:
                self._refused(values.to_pylist())
                return super().columns_from_connect(topic, schema, values)

            def to_connect(self, topic: str, data: bytes | None) -> Any:
                made = super().to_connect(topic, data)
                self._refused([made[1]])
                return made

            def columns_to_connect(self, topic: str, data: Any) -> Any:
                made = super().columns_to_connect(topic, data)
                if made is not None:
                    self._refused(made[1].to_pylist())
                return made

        class Troubled:
            java_name: ClassVar[str] = "contract.Trouble"
            version: ClassVar[str] = "1"
            config_def: ClassVar[ConfigDef] = ConfigDef()

            def configure(self, props: Mapping[str, Any]) -> None: ...

            def apply(self, record: Any) -> Any:
                def work() -> Any:
                    if contract._is_special(Trouble.REFUSED, record.value):
                        raise DataError("a row that is not wanted")
                    if contract._is_special(Trouble.FILTERED, record.value):
                        return None
                    if contract._trouble is Trouble.MERGED or contract._is_special(Trouble.ROUTED, record.value):
                        return record.replace(topic=ROUTED)
                    return record

                return contract.life.plugin_step("transform", work, PURE_FAULTS)

        return discover(more=[Converter, Troubled, self._watched()])

    def _watched(self) -> type[Any]:
        """Return the connector with a task whose steps are seen."""
        raise NotImplementedError

    def _lay_out(self, case: _Case) -> None:
        """Fill the cluster before the first start."""

    # -- what is looked at

    def _delivered(self, case: _Case) -> list[str]:
        """Return the names of the rows that have arrived."""
        raise NotImplementedError

    def _dead_letters(self, case: _Case) -> list[str]:
        return [self._dead_letter(each) for each in case.cluster.committed(DEAD_LETTERS)]

    def _dead_letter(self, data: bytes | None) -> str:
        if self.dead_letter_name is not None:
            return self.dead_letter_name(data)
        return self.name_of(json.loads(data or b"null"))

    def _see(self, case: _Case) -> Seen:
        """Return what can be seen now."""
        return Seen(sorted(self._delivered(case)), sorted(self._dead_letters(case)))

    def _look(self, case: _Case, scenario: Scenario) -> list[str]:
        """Return what is wrong about rows and dead letters."""
        injected = case.world.injected
        bad = {self._special} if scenario.trouble in _BECOME_DEAD_LETTERS else set()
        left_out = {self._special} if scenario.trouble is Trouble.FILTERED else set()
        arrived, dead_letters = case.seen.arrived, case.seen.dead_letters
        expected = set(self.values) - left_out
        found = []
        if missing := expected - set(arrived) - set(dead_letters):
            found.append(f"rows {sorted(missing)} are nowhere; delivered {arrived}, dead letters {dead_letters}")
        is_dead_letter_too = (
            injected is not None and injected.fault is Fault.FATAL
        )  # of the transformation that leaves it out
        if strange := (set(arrived) | set(dead_letters)) - expected - (left_out if is_dead_letter_too else set()) | (
            left_out & set(arrived)
        ):
            found.append(f"{sorted(strange)} should not be anywhere")
        if not bad <= set(dead_letters):
            found.append(f"{sorted(bad)} is no dead letter: {dead_letters}")
        may_refuse = injected is not None and injected.fault in (Fault.REFUSED, Fault.FATAL)
        if not may_refuse and set(dead_letters) - bad:
            found.append(f"good rows are dead letters: {dead_letters}")
        if bad & set(arrived):
            found.append(f"a bad row is delivered: {arrived}")
        if self._once(case, scenario):
            twice = {each: count for each, count in Counter(arrived).items() if count > 1}
            again = {each: count for each, count in Counter(dead_letters).items() if count > 1}
            if twice or again or set(arrived) & set(dead_letters):
                found.append(f"more than once: rows {twice}, dead letters {again}; {arrived}, {dead_letters}")
        return found

    def _once(self, case: _Case, scenario: Scenario) -> bool:
        """Whether rows and dead letters must be there once: by promise, or since nothing was cut off."""
        injected = case.world.injected
        in_order = injected is not None and injected.fault in (Fault.STOP, Fault.PAUSE)
        return scenario.exactly_once or in_order or len(case.lives) == 1


_BECOME_DEAD_LETTERS = (Trouble.REFUSED, Trouble.UNREADABLE, Trouble.REPORTED)
