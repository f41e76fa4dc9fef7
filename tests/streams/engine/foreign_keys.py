"""A machine for joins by foreign key: rows of both sides change in an order of chance, and their questions and answers too.

Two tables of two partitions each, or of other numbers, an engine for each of their tasks, and topics between them as a
broker has them: in order in a partition, and read whenever chance has it. Tasks are restored from their changelogs in
between. In the end, all having been read, the joined table has to be the join of what the tables hold; in between it may be
anything.

With `replay` a task works at least once: what it makes waits in front of each partition, leaves in an order of chance, and
is committed with the input's offsets now and then. A task that dies loses what waits, and begins anew at its last commit,
with what its changelogs hold by then, which may be ahead of that.
"""

from __future__ import annotations

import random
import zlib
from collections import defaultdict, deque
from collections.abc import Mapping

from ottla.base import TopicPartition
from ottla.spark.continuous.plan import ApplicationPlan, GroupPlan, application_plan
from ottla.streams import (
    Executor,
    Output,
    Record,
    ResidentState,
    StoreChange,
    StreamsBuilder,
    StreamsSettings,
    Topology,
    kept_memory,
    memory_over,
    partition_plan,
)

__all__ = ["Machine"]

APPLICATION = "app"
ROWS = [f"l{number}" for number in range(3)]
FOREIGN = ["p", "q", "t"]


def joining(kind: str) -> Topology:
    """Rows `foreign key|text`, of which a foreign key may be empty, with the rows that they name."""
    builder = StreamsBuilder(default_key_serde="string", default_value_serde="string")
    left, right = builder.table("l"), builder.table("f")
    join = left.left_join if kind == "left" else left.join
    joined = join(right, lambda own, other: f"{own}+{other}", foreign_key=lambda row: row.partition("|")[0] or None)
    joined.to_stream().to("out")
    return builder.build()


class _Task:
    """One partition of a sub-topology, with what it has written to its changelogs."""

    def __init__(self, plan: ApplicationPlan, group: GroupPlan, number: int, counts: Mapping[str, int]) -> None:
        self._plan, self.group, self.number, self._counts = plan, group, number, counts
        self._log: list[StoreChange] = []
        self._changes: dict[str, deque[StoreChange]] = defaultdict(deque)
        self._outputs: dict[TopicPartition, deque[Output]] = defaultdict(deque)
        self._state = ResidentState()
        self._memory: bytes | None = None
        self.positions: dict[TopicPartition, int] = defaultdict(int)
        self._committed: dict[TopicPartition, int] = {}
        self._ends: dict[TopicPartition, int] = {}
        self.restore()

    def is_replaying(self) -> bool:
        """Whether records may come that were processed before the last death."""
        return any(self.positions[place] < end for place, end in self._ends.items())

    def commit(self) -> None:
        """Note positions, and what the task remembers; all that it has made has left."""
        memory = self._state.memory
        self._memory = None if memory is None else kept_memory(memory)
        self._committed = dict(self.positions)

    def die(self) -> None:
        """Lose what has not left, and begin anew at the last commit."""
        self._changes.clear()
        self._outputs.clear()
        self._ends = {place: max(end, self._ends.get(place, 0)) for place, end in self.positions.items()}
        self.positions = defaultdict(int, self._committed)
        self.restore()
        self._executor.replay(is_replaying=self.is_replaying())

    def restore(self) -> None:
        """Begin anew with what changelogs and the words beside the offsets tell."""
        self._state = ResidentState(memory_over({}, self._memory), None)
        self._executor = Executor(
            self._plan.topology,
            self.group.group.nodes,
            self._state,
            task=self.number,
            settings=self._plan.engine,
            application_id=APPLICATION,
            wall_clock_ms=0,
        )
        self._executor.restore(self._log)
        self._executor.finish_batch()

    def process(self, source: str, record: Record) -> None:
        """Process a record; what it makes waits."""
        self._executor.process(source, [record])
        outputs, changes, _ = self._executor.finish_batch()
        if not self.is_replaying():
            self._executor.replay(is_replaying=False)
        for change in changes:
            self._changes[change.store].append(change)
        for each in outputs:
            self._outputs[place_of(each, self._counts)].append(each)

    @property
    def waiting(self) -> list[str | TopicPartition]:
        """Where something waits to leave."""
        changes = [store for store, found in self._changes.items() if found]
        return [*changes, *(place for place, found in self._outputs.items() if found)]

    def send(self, place: str | TopicPartition) -> Output | None:
        """Have the first leave of what waits for a place; returns it where it is no changelog's."""
        if isinstance(place, str):
            self._log.append(self._changes[place].popleft())
            return None
        return self._outputs[place].popleft()


def place_of(output: Output, counts: Mapping[str, int]) -> TopicPartition:
    """Return where a record goes, by the numbers of topics' partitions."""
    number = zlib.crc32(output.key or b"") % counts[output.topic] if output.partition is None else output.partition
    return TopicPartition(output.topic, number)


def _counts(topology: Topology, left: int, right: int) -> dict[str, int]:
    """Return how many partitions topics have: questions as many as the right table, answers as the left one."""
    found = {"l": left, "f": right, "out": left}
    for name in topology.repartition_topics:
        found[f"{APPLICATION}-{name}"] = right if "REGISTRATION" in name else left
    return found


class Machine:
    """See the module's description; the same for a seed each time."""

    def __init__(self, seed: int, kind: str, *, replay: bool = False, left: int = 2, right: int = 2) -> None:
        """`left` and `right` are the tables' numbers of partitions."""
        self._rng, self._kind, self._replay = random.Random(seed), kind, replay
        topology = joining(kind)
        settings = StreamsSettings.of({"application.id": APPLICATION, "bootstrap.servers": "127.0.0.1:1"})
        partitions = partition_plan(topology, {"l": left, "f": right})
        self._counts = _counts(topology, left, right)
        plan = application_plan(topology, settings, partitions, self._counts)
        tasks = [(group, at) for group in plan.groups for at in range(max(map(self._counts.__getitem__, group.topics)))]
        self._tasks = [_Task(plan, group, number, self._counts) for group, number in tasks]
        self._topics: dict[TopicPartition, list[Record]] = defaultdict(list)
        self._time = 0
        self._deaths = 8
        self.rows: dict[str, dict[str, str]] = {"l": {}, "f": {}}
        """What both tables hold in the end."""

    def run(self, changes: int = 12) -> None:
        """Change rows, do some of what waits in between, and all of it in the end."""
        for _ in range(changes):
            self._change()
            for _ in range(self._rng.choice((0, 0, 1, 2, 5, 20))):
                self._step()
            if self._rng.random() < 0.1:
                self._restore(self._rng.choice(self._tasks))
        while self._step():
            pass

    def _restore(self, task: _Task) -> None:
        if not self._replay:
            self._commit(task)
        task.die()

    def wanted(self) -> dict[str, str]:
        """Return the join of what the tables hold."""
        found = {}
        for key, row in self.rows["l"].items():
            other = self.rows["f"].get(row.partition("|")[0])
            if other is not None or self._kind == "left":
                found[key] = f"{row}+{other}"
        return found

    def result(self) -> dict[str, str]:
        """Return the joined table."""
        joined: dict[str, str | None] = {}
        for place, records in self._topics.items():
            if place.topic == "out":
                joined.update((_text(each.key) or "", _text(each.value)) for each in records)
        return {key: value for key, value in joined.items() if value is not None}

    @property
    def told(self) -> int:
        """Return how many records the result has."""
        return sum(len(records) for place, records in self._topics.items() if place.topic == "out")

    def _change(self) -> None:
        topic = self._rng.choice("llf")
        key = self._rng.choice(ROWS if topic == "l" else FOREIGN)
        text = str(self._rng.randrange(3))
        row = None if self._rng.random() < 0.3 else text
        if row is not None and topic == "l":
            row = f"{self._rng.choice([*FOREIGN, ''])}|{text}"
        self._time += 1
        if row is None:
            self.rows[topic].pop(key, None)
        else:
            self.rows[topic][key] = row
        self._append(Output("", topic, key.encode(), None if row is None else row.encode(), self._time))

    def _append(self, found: Output) -> None:
        place = place_of(found, self._counts)
        self._topics[place].append(Record(found.key, found.value, found.timestamp, (), *place))

    # -- steps

    def _step(self) -> bool:
        """Have one task read one record, or one record leave; returns whether there was anything to do."""
        reads = [(task, place) for task in self._tasks for place in self._unread(task)]
        sends = [(task, place) for task in self._tasks for place in task.waiting]
        if self._replay and self._deaths and self._rng.random() < 0.05:
            self._deaths -= 1
            self._rng.choice(self._tasks).die()
        elif sends and self._rng.random() < 0.05:
            self._commit(self._rng.choice(sends)[0])
        elif sends and (not reads or self._rng.random() < 0.5):
            self._send(*self._rng.choice(sends))
        elif reads:
            self._read(*self._rng.choice(reads))
        return bool(reads or sends or any(map(self._unread, self._tasks)))

    def _unread(self, task: _Task) -> list[TopicPartition]:
        places = (TopicPartition(topic, task.number) for topic in task.group.topics)
        return [each for each in places if task.positions[each] < len(self._topics[each])]

    def _read(self, task: _Task, place: TopicPartition) -> None:
        record = self._topics[place][task.positions[place]]
        task.positions[place] += 1
        task.process(task.group.topics[place.topic], record)
        if not self._replay:
            self._commit(task)

    def _send(self, task: _Task, place: str | TopicPartition) -> None:
        found = task.send(place)
        if found is not None:
            self._append(found)

    def _commit(self, task: _Task) -> None:
        for place in task.waiting:
            while place in task.waiting:
                self._send(task, place)
        task.commit()


def _text(raw: bytes | None) -> str | None:
    return None if raw is None else raw.decode()
