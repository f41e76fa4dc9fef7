"""The clients that run while things break: each a thread that notes what it was told, in a `Ledger`.

They are librdkafka's with its own defaults for patience and retries, so that an error here is one that a program would see.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.chaos.history import Entry, Outcome, Sent, Transaction

__all__ = ["PARTITIONS", "Ledger", "Load", "committed_offsets", "drain", "read_topic", "running"]

PARTITIONS = 6
PRODUCERS = 2
TRANSACTORS = 2
MEMBERS = 2
PAUSE_SECONDS = 0.02
"""Between two records of a producer for every partition."""
QUEUED_MAX = 5_000
CALL_SECONDS_MAX = 60.0
FLUSH_SECONDS_MAX = 120.0
PAYLOAD = b"x" * 100


@dataclass
class Ledger:
    """What the clients of one round were told; shared by its threads."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    sent: dict[tuple[str, int], Sent] = field(default_factory=lambda: defaultdict(Sent))
    acknowledged_at: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    """By partition: when its acknowledgements came."""
    transactions: list[Transaction] = field(default_factory=list)
    seen: dict[str, list[Entry]] = field(default_factory=lambda: defaultdict(list))
    """By topic: what readers were given while faults went on."""
    commits: dict[int, int] = field(default_factory=dict)
    """By partition: the highest offset whose commit the group was told to be done."""
    consumed: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    """By partition: offsets that were given to members; a commit that fails may have been done all the same."""
    ends: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    """By partition: the offset behind the last acknowledged record."""
    stale: list[str] = field(default_factory=list)
    """Answers that were older than what had been acknowledged before the question."""
    errors: list[str] = field(default_factory=list)

    def error(self, what: str) -> None:
        """Note an error that a program would have seen."""
        with self.lock:
            self.errors.append(what)

    def acknowledged(self) -> int:
        """Return how many records were acknowledged, those of committed transactions included."""
        with self.lock:
            plain = sum(len(each.acknowledged) for each in self.sent.values())
            return plain + sum(len(each.records) for each in self.transactions if each.outcome is Outcome.COMMITTED)

    def newest_acknowledgement(self) -> dict[int, float]:
        """Return when each partition was last heard of."""
        with self.lock:
            return {partition: times[-1] for partition, times in self.acknowledged_at.items()}


@dataclass(frozen=True)
class Load:
    """Where the clients of one round work."""

    bootstrap: str
    plain: str
    transactional: str
    group: str
    ledger: Ledger
    ended: threading.Event


@contextmanager
def running(load: Load) -> Iterator[None]:
    """Run every client until the block ends; then they finish what they have begun."""
    runs: list[tuple[Callable[..., None], tuple[object, ...]]] = [
        *((produce, (load, f"plain-{number}")) for number in range(PRODUCERS)),
        *((transact, (load, f"{load.transactional}-{number}")) for number in range(TRANSACTORS)),
        *((member, (load,)) for _ in range(MEMBERS)),
        (watch, (load, load.plain, False)),
        (watch, (load, load.transactional, True)),
        (ask_for_ends, (load,)),
    ]
    threads = [threading.Thread(target=_guarded, args=(load, run, args), name=run.__name__) for run, args in runs]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        load.ended.set()
        deadline = time.monotonic() + 2 * FLUSH_SECONDS_MAX
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                load.ledger.error(f"{thread.name} did not end")


def _guarded(load: Load, run: Callable[..., None], args: tuple[object, ...]) -> None:
    try:
        run(*args)
    except Exception as error:
        load.ledger.error(f"{run.__name__} ended: {error!r}")


def value_of(producer: str, number: int) -> bytes:
    """Return a record's value."""
    return b"%s:%d:%s" % (producer.encode(), number, PAYLOAD)


def entry_of(message: Message) -> Entry:
    """Return what a record says of itself, and where it stands."""
    producer, number, _ = message.value().split(b":", 2)
    return Entry(message.partition(), message.offset(), producer.decode(), int(number))


def produce(load: Load, name: str) -> None:
    """Produce numbered records to every partition, idempotently and with acks=all."""
    ledger = load.ledger
    producer = Producer({"bootstrap.servers": load.bootstrap, "enable.idempotence": True, "linger.ms": 5})

    def delivered(error: Any, message: Message) -> None:
        now = time.monotonic()
        entry = entry_of(message)
        if error is not None:
            ledger.error(f"{name}: a record was not acknowledged: {error}")
            return
        with ledger.lock:
            ledger.sent[name, entry.partition].acknowledged[entry.number] = entry.offset
            ledger.acknowledged_at[entry.partition].append(now)
            ledger.ends[entry.partition] = max(ledger.ends[entry.partition], entry.offset + 1)

    number = 0
    while not load.ended.is_set():
        if len(producer) < QUEUED_MAX:
            for partition in range(PARTITIONS):
                with ledger.lock:
                    ledger.sent[name, partition].numbers.append(number)
                producer.produce(load.plain, value_of(name, number), partition=partition, on_delivery=delivered)
            number += 1
        producer.poll(0)
        load.ended.wait(PAUSE_SECONDS)
    if left := producer.flush(FLUSH_SECONDS_MAX):
        ledger.error(f"{name}: {left} records were still unacknowledged after {FLUSH_SECONDS_MAX:.0f} s")


def transact(load: Load, name: str) -> None:
    """Produce in transactions over all partitions; every third is aborted."""
    ledger, number, count = load.ledger, 0, 0
    producer = _transactional(load, name)
    while not load.ended.is_set():
        transaction = Transaction(name, [])
        aborts = count % 3 == 2
        count += 1
        try:
            producer.begin_transaction()
            with ledger.lock:
                ledger.transactions.append(transaction)
            for each in range(number, number + 2 * PARTITIONS):
                transaction.records.append((each % PARTITIONS, each))
                producer.produce(load.transactional, value_of(name, each), partition=each % PARTITIONS)
            number += 2 * PARTITIONS
            if aborts:
                producer.flush(CALL_SECONDS_MAX)  # else librdkafka drops what it has not sent, and aborts nothing
            _end(producer.abort_transaction if aborts else producer.commit_transaction, name, ledger)
            transaction.outcome = Outcome.ABORTED if aborts else Outcome.COMMITTED
        except KafkaException as error:
            number += 2 * PARTITIONS
            if error.args[0].txn_requires_abort():
                _end(producer.abort_transaction, name, ledger)
                transaction.outcome = Outcome.ABORTED
            else:
                ledger.error(f"{name}: a transaction did not end: {error}")
                producer = _transactional(load, name)
        load.ended.wait(PAUSE_SECONDS)


def _transactional(load: Load, name: str) -> Producer:
    producer = Producer({"bootstrap.servers": load.bootstrap, "transactional.id": name})
    _end(producer.init_transactions, name, load.ledger)
    return producer


def _end(call: Callable[[float], None], name: str, ledger: Ledger) -> None:
    """Call until it is done: librdkafka says when a call may be tried again, which is not an error."""
    deadline = time.monotonic() + FLUSH_SECONDS_MAX
    while True:
        try:
            call(CALL_SECONDS_MAX)
            return
        except KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() > deadline:
                raise


def member(load: Load) -> None:
    """Read the plain topic as a member of a group."""
    settings = {"bootstrap.servers": load.bootstrap, "group.id": load.group, "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "enable.auto.commit": False})
    consumer.subscribe([load.plain])
    try:
        while not load.ended.is_set():
            take(consumer, load.ledger)
    finally:
        consumer.close()


def take(consumer: Consumer, ledger: Ledger) -> int:
    """Read some records, commit them, and note both; a commit that fails is not counted, and may be done even so."""
    messages = [each for each in consumer.consume(500, timeout=0.5) if each.error() is None]
    if not messages:
        return 0
    with ledger.lock:
        ledger.seen[messages[0].topic()].extend(map(entry_of, messages))
        for message in messages:
            ledger.consumed[message.partition()].add(message.offset())
    try:
        done = consumer.commit(asynchronous=False)
    except KafkaException:
        return 0
    with ledger.lock:
        for each in done:
            if each.error is None:
                ledger.commits[each.partition] = max(ledger.commits.get(each.partition, 0), each.offset)
    return len(messages)


def watch(load: Load, topic: str, committed_only: bool) -> None:
    """Read a topic by itself while faults go on, so that the end can be compared with what was seen."""
    consumer = _reader(load.bootstrap, committed_only=committed_only)
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(PARTITIONS)])
    try:
        while not load.ended.is_set():
            found = [entry_of(each) for each in consumer.consume(500, timeout=0.5) if each.error() is None]
            with load.ledger.lock:
                load.ledger.seen[topic].extend(found)
    finally:
        consumer.close()


def ask_for_ends(load: Load) -> None:
    """Ask again and again where partitions end: no answer may be behind what was acknowledged before the question."""
    consumer = _reader(load.bootstrap, committed_only=False)
    ledger, turn = load.ledger, 0
    try:
        while not load.ended.is_set():
            partition = turn % PARTITIONS
            turn += 1
            with ledger.lock:
                known = ledger.ends[partition]
            try:
                _, end = consumer.get_watermark_offsets(TopicPartition(load.plain, partition), timeout=5.0)
            except KafkaException:
                continue  # nobody was there to answer: nothing was said that could be wrong
            if end < known:
                with ledger.lock:
                    ledger.stale.append(f"partition {partition} was said to end at {end}, {known} was acknowledged")
            load.ended.wait(PAUSE_SECONDS)
    finally:
        consumer.close()


def _reader(bootstrap: str, *, committed_only: bool) -> Consumer:
    isolation = "read_committed" if committed_only else "read_uncommitted"
    settings = {"bootstrap.servers": bootstrap, "group.id": "chaos-reader", "auto.offset.reset": "earliest"}
    return Consumer({**settings, "enable.auto.commit": False, "isolation.level": isolation})


def read_topic(bootstrap: str, topic: str, *, committed_only: bool, seconds: float) -> list[Entry]:
    """Return everything that a topic holds, partition by partition; raises TimeoutError where it cannot be read."""
    consumer = _reader(bootstrap, committed_only=committed_only)
    deadline = time.monotonic() + seconds
    found: dict[int, list[Entry]] = {partition: [] for partition in range(PARTITIONS)}
    try:
        ends = {each: consumer.get_watermark_offsets(TopicPartition(topic, each), timeout=30)[1] for each in found}
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in found])
        while True:
            for message in consumer.consume(5000, timeout=0.5):
                if message.error() is None:
                    found[message.partition()].append(entry_of(message))
            positions = consumer.position([TopicPartition(topic, partition) for partition in found])
            if all(each.offset >= ends[each.partition] for each in positions if ends[each.partition]):
                return [entry for entries in found.values() for entry in entries]
            if time.monotonic() > deadline:
                at = {each.partition: each.offset for each in positions}
                raise TimeoutError(f"{topic} could not be read to its end: at {at} of {ends}")
    finally:
        consumer.close()


def committed_offsets(bootstrap: str, group: str, topic: str) -> dict[int, int]:
    """Return what a group has committed."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False})
    try:
        found = consumer.committed([TopicPartition(topic, partition) for partition in range(PARTITIONS)], timeout=30)
        return {each.partition: each.offset for each in found if each.offset >= 0}
    finally:
        consumer.close()


def drain(load: Load, log: Sequence[Entry], seconds: float) -> str | None:
    """Let one last member of the group read what is left; return how the group stands where that does not come to an end."""
    ledger = load.ledger
    settings = {"bootstrap.servers": load.bootstrap, "group.id": load.group, "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "enable.auto.commit": False})
    consumer.subscribe([load.plain])
    left = {(entry.partition, entry.offset) for entry in log}
    deadline = time.monotonic() + seconds
    try:
        while time.monotonic() < deadline:
            with ledger.lock:
                left = {(partition, offset) for partition, offset in left if offset not in ledger.consumed[partition]}
            if not left:
                return None
            take(consumer, ledger)
        return described(load)
    finally:
        consumer.close()


def described(load: Load) -> str:
    """Return a group's state and members, as its coordinator has them."""
    admin = AdminClient({"bootstrap.servers": load.bootstrap})
    try:
        found = admin.describe_consumer_groups([load.group], request_timeout=10)[load.group].result()
    except KafkaException as error:
        return f"the group cannot be described: {error}"
    members = [f"{each.member_id}: {len(each.assignment.topic_partitions)} partitions" for each in found.members]
    return f"the group is {found.state.name} at {found.coordinator.id}, members {members}"
