"""A machine for joins by foreign key: rows of both sides change in an order of chance, and their questions and answers too.

Two tables of two partitions, an engine for each of their tasks, and topics between them as a broker has them: in order in a
partition, and read whenever chance has it. Tasks are restored from their changelogs in between. In the end, all having been
read, the joined table has to be the join of what the tables hold; in between it may be anything.
"""

from __future__ import annotations

import random
import zlib
from collections import defaultdict, deque

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

APPLICATION, PARTITIONS = "app", 2
ROWS = [f"l{number}" for number in range(3)]
FOREIGN = ["p", "q", "r"]


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

    def __init__(self, plan: ApplicationPlan, group: GroupPlan, number: int) -> None:
        self._plan, self.group, self.number = plan, group, number
        self._log: list[StoreChange] = []
        self._state = ResidentState()
        self.restore()

    def restore(self) -> None:
        """Begin anew with what changelogs and the words beside the offsets tell."""
        memory = self._state.memory
        self._state = ResidentState(memory_over({}, None if memory is None else kept_memory(memory)), None)
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

    def process(self, source: str, record: Record) -> list[Output]:
        """Process a record, and return what leaves."""
        self._executor.process(source, [record])
        outputs, changes, _ = self._executor.finish_batch()
        self._log += changes
        return outputs


class Machine:
    """See the module's description; the same for a seed each time."""

    def __init__(self, seed: int, kind: str) -> None:
        self._rng, self._kind = random.Random(seed), kind
        topology = joining(kind)
        settings = StreamsSettings.of({"application.id": APPLICATION, "bootstrap.servers": "127.0.0.1:1"})
        partitions = partition_plan(topology, {"l": PARTITIONS, "f": PARTITIONS})
        names = (f"{APPLICATION}-{each}" for each in topology.repartition_topics)
        counts = dict.fromkeys([*names, "l", "f", "out"], PARTITIONS)
        plan = application_plan(topology, settings, partitions, counts)
        self._tasks = [_Task(plan, group, number) for group in plan.groups for number in range(PARTITIONS)]
        self._topics: dict[TopicPartition, deque[Record]] = defaultdict(deque)
        self._time = 0
        self.rows: dict[str, dict[str, str]] = {"l": {}, "f": {}}
        """What both tables hold in the end."""
        self.joined: dict[str, str] = {}
        self.told = 0
        """Records of the result."""

    def run(self, changes: int = 12) -> None:
        """Change rows, read some of what waits in between, and all of it in the end."""
        for _ in range(changes):
            self._change()
            for _ in range(self._rng.choice((0, 0, 1, 2, 5, 20))):
                self._read_one()
            if self._rng.random() < 0.1:
                self._rng.choice(self._tasks).restore()
        while self._read_one():
            pass

    def wanted(self) -> dict[str, str]:
        """Return the join of what the tables hold."""
        found = {}
        for key, row in self.rows["l"].items():
            other = self.rows["f"].get(row.partition("|")[0])
            if other is not None or self._kind == "left":
                found[key] = f"{row}+{other}"
        return found

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
        self._append(topic, key.encode(), None if row is None else row.encode(), self._time, None)

    def _append(self, topic: str, key: bytes | None, value: bytes | None, time: int, partition: int | None) -> None:
        number = zlib.crc32(key or b"") % PARTITIONS if partition is None else partition
        self._topics[TopicPartition(topic, number)].append(Record(key, value, time, (), topic, number))

    def _read_one(self) -> bool:
        """Have one task read one record; returns whether there was any."""
        waiting = [place for place, records in self._topics.items() if records]
        if not waiting:
            return False
        place = self._rng.choice(waiting)
        record = self._topics[place].popleft()
        if place.topic == "out":
            assert record.key is not None
            self.told += 1
            self.joined[record.key.decode()] = record.value.decode() if record.value is not None else ""
            return True
        for task in self._tasks:
            if task.number == place.partition and place.topic in task.group.topics:
                for each in task.process(task.group.topics[place.topic], record):
                    self._append(each.topic, each.key, each.value, each.timestamp, each.partition)
        return True

    def result(self) -> dict[str, str]:
        """Return the joined table."""
        return {key: value for key, value in self.joined.items() if value}
