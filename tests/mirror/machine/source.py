"""The cluster that is mirrored, in memory: topics made again, retention, transactions, partitions without a leader."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from ottla.base import Millis, Offset, ProducerEpoch, ProducerId, TopicPartition, Uuid
from ottla.wire import Codec, Record, build_batch, end_transaction_marker, read_batch_header, stamp_batch

__all__ = ["Life", "Log", "SourceCluster", "Told"]

TIME = 1_700_000_000_000
BIG_BYTES = 9_000
"""Of a value in a large batch, so that eight of them travel whole."""
Told = tuple[bytes | None, bytes | None, int, tuple[tuple[str, bytes | None], ...]]
"""What a record is, wherever it lies: key, value, time in ms, headers."""


@dataclass
class Log:
    """A partition of one life of a topic."""

    life: int
    batches: list[tuple[int, int, bytes]] = field(default_factory=list)
    """First offset, the offset behind the last, and the bytes."""
    records: dict[int, Told] = field(default_factory=dict)
    """All that were ever written and are not aborted, by their offsets; those of open transactions too."""
    aborted: list[tuple[int, int, int]] = field(default_factory=list)
    """Producer, first offset, and the marker's."""
    open: dict[int, list[int]] = field(default_factory=dict)
    """Producers with a transaction, and the offsets of its records."""
    start: int = 0
    end: int = 0
    is_led: bool = True

    @property
    def stable(self) -> int:
        """The offset up to which every transaction has ended."""
        return min((min(each) for each in self.open.values() if each), default=self.end)

    def add(self, batch: bytearray) -> None:
        """Append a batch."""
        stamp_batch(batch, 0, self.end, 0)
        following = read_batch_header(batch, 0).next_offset
        self.batches.append((self.end, following, bytes(batch)))
        self.end = following

    def needed(self, begin: int, before: int) -> list[int]:
        """Return the offsets of records from `begin` on and before another that are still there."""
        begin = max(begin, self.start)
        return [each for each in range(begin, before) if each in self.records]


@dataclass
class Life:
    """A topic from when it is made until it is deleted."""

    number: int
    topic_id: Uuid
    logs: list[Log]


class SourceCluster:
    """What writers and operators do there; `happen` has one of these things happen."""

    def __init__(self, rng: random.Random, *, committed: bool) -> None:
        self.rng = rng
        self.committed = committed
        """Whether the mirror reads what is committed alone."""
        self.lives: list[Life] = []
        """All there ever were: a life's number is its place here."""
        self.topics: dict[str, Life] = {}
        self.names: dict[int, str] = {}

    def make(self, name: str, partitions: int) -> Life:
        """Make a topic."""
        number = len(self.lives)
        life = Life(number, Uuid(self.rng.randbytes(16)), [Log(number) for _ in range(partitions)])
        self.lives.append(life)
        self.topics[name], self.names[number] = life, name
        return life

    def make_again(self, name: str) -> None:
        """Delete a topic and make it again, with as many partitions; often with more records than it had."""
        old = self.topics.pop(name)
        life = self.make(name, len(old.logs))
        for log, before in zip(life.logs, old.logs, strict=True):
            while self.rng.random() < 0.8 and log.end <= before.end + 5:
                self.write(log)
            if self.rng.random() < 0.2:
                log.start = self.rng.randint(0, log.end)

    def log(self, place: TopicPartition) -> Log | None:
        """Return a partition as it is now; None where its topic is not there."""
        life = self.topics.get(place.topic)
        return None if life is None else life.logs[place.partition]

    def logs(self) -> Iterator[Log]:
        """Return all that are there."""
        for life in self.topics.values():
            yield from life.logs

    # What happens

    def write(self, log: Log, *, producer: int = -1) -> None:
        """Append a batch: mostly a small one, now and then one that travels whole."""
        rng = self.rng
        is_big = rng.random() < 0.15
        count = rng.randint(8, 12) if is_big else rng.choice((1, 2, 3, 9, 20))
        made = [self._record(log, log.end + row, is_big) for row in range(count)]
        codec = Codec.NONE if is_big and rng.random() < 0.7 else rng.choice((Codec.NONE, Codec.GZIP, Codec.LZ4))
        first, begun = log.end, producer >= 0
        batch = build_batch(
            made,
            codec=codec,
            producer_id=producer if begun else -1,
            producer_epoch=0 if begun else -1,
            base_sequence=0 if begun else -1,
            transactional=begun,
        )
        log.add(batch)
        for row, each in enumerate(made):
            log.records[first + row] = (each.key, each.value, each.timestamp, each.headers)
        if begun:
            log.open.setdefault(producer, []).extend(range(first, first + count))

    def _record(self, log: Log, offset: int, is_big: bool) -> Record:
        rng = self.rng
        key = None if rng.random() < 0.3 else b"k%d" % rng.randint(0, 9)
        text = b"%d:%d:" % (log.life, offset)
        value = text + bytes(BIG_BYTES) if is_big else text
        headers = (("h", b"1"), ("n", None)) if rng.random() < 0.2 else ()
        return Record(Offset(0), Millis(TIME + rng.randint(0, 50)), key, value, headers)

    def end_transaction(self, log: Log) -> None:
        """End one transaction of a partition, where one is open."""
        if not log.open:
            return
        producer = self.rng.choice(sorted(log.open))
        offsets, is_commit = log.open.pop(producer), self.rng.random() < 0.5
        marker = end_transaction_marker(
            commit=is_commit,
            producer_id=ProducerId(producer),
            producer_epoch=ProducerEpoch(0),
            coordinator_epoch=0,
            timestamp=Millis(TIME),
        )
        if not is_commit and offsets:
            log.aborted.append((producer, min(offsets), log.end))
            if self.committed:
                for each in offsets:
                    del log.records[each]
        log.add(marker)

    def happen(self) -> None:
        """Have one thing happen."""
        rng = self.rng
        name = rng.choice(sorted({*self.names.values()}))
        if name not in self.topics:
            if rng.random() < 0.3:
                self.make(name, len(self.lives[max(n for n, each in self.names.items() if each == name)].logs))
            return
        log = rng.choice(self.topics[name].logs)
        what = rng.random()
        if what < 0.6:
            self.write(log, producer=rng.choice((7, 8)) if rng.random() < 0.2 else -1)
        elif what < 0.7:
            self.end_transaction(log)
        elif what < 0.8:
            log.start = rng.randint(log.start, max(log.start, log.stable))
        elif what < 0.88:
            log.is_led = not log.is_led
        elif what < 0.97:
            self.make_again(name)
        else:
            del self.topics[name]
