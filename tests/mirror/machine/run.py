"""One schedule: what happens at the source, a task that polls, is acknowledged, stopped and killed, and the judge of it.

The judge knows every record that was ever written. A record that the task returns has to be the next one that is still
there: behind the last one of its topic's life, or of the life that came after it. Behind a kill it begins again at what was
stored, and nowhere else does anything come twice.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

from ottla.base import KafkaError, Offset, TopicPartition
from ottla.client import BlockingClient
from ottla.connect import SourceBatch, SourceRecord
from ottla.mirror import source_task
from ottla.mirror.offset_syncs import OffsetSyncStore
from ottla.mirror.records import OffsetSync
from ottla.mirror.source_task import PARTITIONS, MirrorSourceTask
from ottla.wire import iter_records, pack_batch
from tests.mirror.machine.client import Faults, MirrorClient, waiting
from tests.mirror.machine.source import SourceCluster, Told

__all__ = ["Case", "WrongError", "checked"]

POLLS_MAX = 120
"""So many polls are enough for everything once nothing fails."""
LAG_MAX = 5


class WrongError(AssertionError):
    """What the task did is not what it promises."""


@dataclass(frozen=True)
class Case:
    """A schedule by its seed; `at` has one request fail instead of any by chance."""

    seed: int
    at: tuple[int, str] | None = None

    @classmethod
    def of(cls, text: str) -> Case:
        """Read a case as it is printed."""
        seed, _, rest = text.partition(":")
        number, _, fault = rest.partition(":")
        return cls(int(seed), (int(number), fault) if rest else None)

    def __str__(self) -> str:
        return f"{self.seed}" if self.at is None else f"{self.seed}:{self.at[0]}:{self.at[1]}"


Place = TopicPartition
Upstream = tuple[int, int]
"""A record by its topic's life and its offset."""
Position = tuple[Mapping[str, Any], Upstream]
"""An offset as the task gives it to Connect, and the record that it is of."""


class Judge:
    """Says of each record whether it may come now."""

    def __init__(self, source: SourceCluster) -> None:
        self._source = source
        self.last: dict[Place, Upstream] = {}
        """Of each partition the last record that came."""

    def came(self, place: Place, record: SourceRecord) -> Upstream:
        """Take a record in; raises WrongError."""
        told = (record.key, record.value, record.timestamp, tuple((each.key, each.value) for each in record.headers))
        life, offset = (int(each) for each in bytes(record.value).split(b":")[:2])
        log = self._source.lives[life].logs[place.partition]
        if self._source.names[life] != place.topic or log.records.get(offset) != told:
            raise WrongError(f"{place}: {told} is no record of it, or was aborted")
        if record.source_offset["offset"] != offset:
            raise WrongError(f"{place}: record {offset} is said to be {record.source_offset}")
        missed = self._missed(place, life, offset)
        if missed:
            raise WrongError(f"{place}: behind {self.last.get(place)} came {life, offset}, before which {missed} are")
        self.last[place] = life, offset
        return life, offset

    def _missed(self, place: Place, life: int, offset: int) -> list[int]:
        before, last = self.last.get(place, (-1, -1))
        if (life, offset) <= (before, last):
            raise WrongError(f"{place}: {life, offset} comes behind {before, last}")
        logs = self._source.lives[life].logs
        return logs[place.partition].needed(last + 1 if life == before else 0, offset)

    def lacks(self, place: Place) -> list[int]:
        """Return what is still there and has not come."""
        log = self._source.log(place)
        if log is None or not log.is_led:
            return []
        life, last = self.last.get(place, (-1, -1))
        end = log.stable if self._source.committed else log.end
        return log.needed(last + 1 if life == log.life else 0, end)


@dataclass
class Worker:
    """What Connect does around a task: sends what it returns, acknowledges it, and stores offsets."""

    rng: random.Random
    judge: Judge
    target: dict[Place, list[Upstream | None]] = field(default_factory=dict)
    """What lies on the target, by its offsets; None is a transaction's marker."""
    stored: dict[Place, Position] = field(default_factory=dict)
    acknowledged: dict[Place, Position] = field(default_factory=dict)
    waiting: list[tuple[SourceRecord | SourceBatch, int, list[Upstream], int]] = field(default_factory=list)
    """What was appended and is not acknowledged: its first record's place in a batch, and its first offset."""

    def send(self, found: list[SourceRecord | SourceBatch]) -> None:
        """Append what a poll has returned, in its order."""
        for each in found:
            partition = each.source_partition
            place = Place(str(partition["topic"]), int(partition["partition"]))
            records = [each] if isinstance(each, SourceRecord) else each.records()
            if isinstance(each, SourceBatch):
                self._refuse_other_bytes(each, records)
            came = [self.judge.came(place, record) for record in records]
            log = self.target.setdefault(place, [])
            at = self.rng.randint(1, len(came)) if self.rng.random() < 0.2 else len(came)
            for first, part in ((0, came[:at]), (at, came[at:])):  # a batch that is too large goes in two
                if self.rng.random() < 0.1:
                    log.append(None)
                if part:
                    self.waiting.append((each, first, part, len(log)))
                    log += part

    @staticmethod
    def _refuse_other_bytes(batch: SourceBatch, records: list[SourceRecord]) -> None:
        packed = pack_batch(
            *(batch.data,),
            count=batch.count,
            timestamp_ms=batch.timestamp_ms,
            max_timestamp_ms=batch.max_timestamp_ms,
        )
        whole: list[Told] = [(each.key, each.value, each.timestamp, each.headers) for each in iter_records(packed)]
        single = [
            (each.key, each.value, each.timestamp, tuple((one.key, one.value) for one in each.headers))
            for each in records
        ]
        if whole != single or batch.source_offset != records[-1].source_offset:
            raise WrongError(f"{batch.topic}: a batch says other things than its records one by one")

    def acknowledge(self, task: MirrorSourceTask, count: int) -> None:
        """Tell the task of the first of what waits."""
        for _ in range(min(count, len(self.waiting))):
            each, first, came, offset = self.waiting.pop(0)
            place = Place(str(each.source_partition["topic"]), int(each.source_partition["partition"]))
            if isinstance(each, SourceBatch):
                task.commit_batch(each, first, len(came), offset)
                last = each.records()[first + len(came) - 1]
            else:
                task.commit_record(each, offset)
                last = each
            self.acknowledged[place] = last.source_offset, came[-1]

    def store(self) -> None:
        """Store how far all is acknowledged."""
        self.stored |= self.acknowledged

    def lose(self) -> None:
        """Forget what a killed worker knew."""
        self.waiting.clear()
        self.acknowledged.clear()


class _Context:
    def __init__(self, stored: Mapping[Place, Position], configs: Mapping[str, str]) -> None:
        self._stored, self.configs = stored, configs

    def offset(self, partition: Mapping[str, Any]) -> Mapping[str, Any]:
        found = self._stored.get(Place(str(partition["topic"]), int(partition["partition"])))
        return {} if found is None else found[0]


class Run:
    """A case under way."""

    def __init__(self, case: Case) -> None:
        self.rng = random.Random(case.seed)
        self.source = SourceCluster(self.rng, committed=self.rng.random() < 0.5)
        for number in range(self.rng.randint(1, 3)):
            self.source.make(f"t{number}", self.rng.randint(1, 2))
        chance = 0.0 if case.at is not None or self.rng.random() < 0.2 else self.rng.choice((0.03, 0.1, 0.3))
        self.faults = Faults(self.rng, chance=chance, at=case.at)
        self.faults.meanwhile = self._meanwhile
        self.syncs: list[tuple[bytes, bytes]] = []
        self.judge = Judge(self.source)
        self.worker = Worker(self.rng, self.judge)
        self._task: MirrorSourceTask | None = None

    @property
    def places(self) -> list[Place]:
        """All partitions that the task has."""
        found = {}
        for life in self.source.lives:
            found[self.source.names[life.number]] = len(life.logs)
        return [Place(name, number) for name, count in sorted(found.items()) for number in range(count)]

    def _meanwhile(self) -> None:
        if self.rng.random() < 0.1:
            self.source.happen()

    def _connect(self, _props: Mapping[str, str], _cluster: str, _kind: str, _role: str) -> BlockingClient:
        return waiting(MirrorClient(self.source, self.faults, self.syncs))

    def start(self) -> bool:
        """Start a task at what is stored; False where a request failed, and it will be started again."""
        props = {
            "source.cluster.alias": "east",
            "target.cluster.alias": "west",
            "source.cluster.bootstrap.servers": "model:1",
            "target.cluster.bootstrap.servers": "model:1",
            "consumer.poll.timeout.ms": "0",
            "offset.lag.max": str(LAG_MAX),
            "consumer.isolation.level": "read_committed" if self.source.committed else "read_uncommitted",
            PARTITIONS: ",".join(map(str, self.places)),
        }
        task = MirrorSourceTask(self._connect)
        task.context = _Context(self.worker.stored, props)  # type: ignore[assignment]
        self.worker.lose()
        self.judge.last = {place: upstream for place, (_, upstream) in self.worker.stored.items()}
        try:
            task.start(props)
        except (KafkaError, OSError):
            task.stop()
            return False
        self._task = task
        return True

    def step(self) -> None:
        """Do one thing."""
        if self._task is None:
            self.start()
            return
        what, rng = self.rng.random(), self.rng
        if what < 0.45:
            self.poll()
        elif what < 0.6:
            self.worker.acknowledge(self._task, rng.randint(1, 5))
        elif what < 0.68:
            self.commit()
        elif what < 0.71:
            self._task.stop()
            self._task = None
            if rng.random() < 0.5:  # told to go, with time to finish; or killed
                self.worker.store()
        else:
            self.source.happen()

    def poll(self) -> None:
        """Have the task poll, and send what it returns."""
        assert self._task is not None
        found = self._task.poll()
        self.worker.send(list(found or ()))

    def commit(self) -> None:
        """Store offsets, and tell the task."""
        assert self._task is not None
        self.worker.store()
        self._task.commit()

    def finish(self) -> None:
        """Let nothing fail any more, and have everything told that is there; raises WrongError."""
        self.faults.is_over = True
        for name in sorted({*self.source.names.values()} - {*self.source.topics}):
            if self.rng.random() < 0.5:
                self.source.make(name, sum(each.topic == name for each in self.places))
        for log in self.source.logs():
            log.is_led = log.is_led or self.rng.random() < 0.7
            while log.open:
                self.source.end_transaction(log)
            self.source.write(log)
        before = {place: len(log) for place, log in self.worker.target.items()}
        for _ in range(POLLS_MAX):
            if self._task is None:
                self.start()
                continue
            self.poll()
            self.worker.acknowledge(self._task, len(self.worker.waiting))
            if not any(map(self.judge.lacks, self.places)):
                break
        lacking = {place: found for place in self.places if (found := self.judge.lacks(place))}
        if lacking:
            raise WrongError(f"never told: {lacking}")
        for _ in range(3):  # what comes now comes twice
            self.commit()
            self.poll()
        assert self._task is not None
        self._task.stop()
        self._refuse_wrong_translations(before)

    def _refuse_wrong_translations(self, before: Mapping[Place, int]) -> None:
        """Raise WrongError where a group that changes clusters would miss a record, or not come to the end of new ones."""
        store = OffsetSyncStore()
        for key, value in self.syncs:
            store.add(OffsetSync.of(key, value))
        store.read_to_end()
        for place, log in self.worker.target.items():
            now = self.source.log(place)
            where = {each: at for at, each in enumerate(log) if each is not None}
            last, end = next((each, at) for each, at in reversed(where.items()) if at == max(where.values()))
            to = store.translate(place, last[1] + 1)
            if len(log) > before.get(place, 0) and to != end + 1:
                raise WrongError(f"{place}: a group that has read all goes on at {to} of {end + 1}")
            there = {each: at for each, at in where.items() if now and each[0] == now.life and each[1] >= now.start}
            for each in there:
                self._refuse_beyond(place, each, store.translate(place, each[1]), there)

    @staticmethod
    def _refuse_beyond(place: Place, upstream: Upstream, to: Offset | None, there: Mapping[Upstream, int]) -> None:
        missed = {each: at for each, at in there.items() if each >= upstream and at < (to or 0)}
        if missed:
            raise WrongError(f"{place}: a group at {upstream} goes on at {to}, and misses {missed}")


@contextmanager
def _no_waits() -> Iterator[None]:
    with patch.object(source_task, "RETRY_SECONDS", 0), patch.object(source_task, "LOOK_SECONDS", 0):
        yield


def checked(case: Case) -> tuple[str | None, list[str]]:
    """Run a case; returns what is wrong with it, None where nothing is, and the requests that were asked."""
    run = Run(case)
    try:
        with _no_waits():
            for _ in range(run.rng.randint(5, 60)):
                run.step()
            run.finish()
    except WrongError as error:
        return str(error), run.faults.asked
    return None, run.faults.asked
