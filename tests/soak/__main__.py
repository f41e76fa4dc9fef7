"""`python -m tests.soak --seconds N [--seed S]`: everything at once on one broker; ends with `N passed, M failed`."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.server import Server, running_server
from tests.soak.ledger import Ledger, compare_latest, compare_streams
from tests.soak.loads import PARTITIONS, compacting, filling, member, plain, take, transactional

__all__ = ["main", "soak"]

SETTINGS = (
    "log.cleaner.backoff.ms=500",
    "log.retention.check.interval.ms=1000",
    "log.initial.task.delay.ms=500",
    "group.initial.rebalance.delay.ms=200",
)
TOPICS = {
    "plain": (PARTITIONS, {}),
    "transactions": (PARTITIONS, {}),
    "compacted": (
        1,
        {"cleanup.policy": "compact", "segment.bytes": "1048576", "min.cleanable.dirty.ratio": "0.1"},
    ),
    "retained": (1, {"retention.bytes": "4194304", "segment.bytes": "1048576"}),
}
READ_SECONDS_MAX = 120.0
IDLE_SECONDS = 5.0
"""How long nothing may come before a topic counts as read to its end."""


def soak(folder: Path, seconds: float, seed: int) -> list[tuple[str, list[str]]]:
    """Run for so many seconds; return each claim with what speaks against it."""
    ledger, ended, rng = Ledger(), threading.Event(), random.Random(seed)
    with running_server(folder, overrides=SETTINGS) as server:
        at = server.bootstrap
        admin = AdminClient({"bootstrap.servers": at})
        made = [NewTopic(name, partitions, 1, config=config) for name, (partitions, config) in TOPICS.items()]
        for future in admin.create_topics(made).values():
            future.result(30)
        runs = [
            *((plain, (at, f"plain-{n}", ledger, ended)) for n in range(2)),
            *((transactional, (at, f"txn-{n}", ledger, ended, random.Random(rng.random()))) for n in range(2)),
            (compacting, (at, ledger, ended, random.Random(rng.random()))),
            (filling, (at, ledger, ended)),
            *((member, (at, "classic", ledger, ended, random.Random(rng.random()))) for _ in range(3)),
            *((member, (at, "consumer", Ledger(), ended, random.Random(rng.random()))) for _ in range(2)),
        ]
        threads = [threading.Thread(target=run, args=args, name=run.__name__) for run, args in runs]  # type: ignore[arg-type]
        for thread in threads:
            thread.start()
        watch(server, ledger, seconds)
        ended.set()
        for thread in threads:
            thread.join(READ_SECONDS_MAX)
        stuck = [f"{each.name} did not end" for each in threads if each.is_alive()]
        return [("every thread ends, and nothing was refused", stuck + ledger.errors[:10]), *claims(server, ledger)]


def watch(server: Server, ledger: Ledger, seconds: float) -> None:
    """Say every few seconds how far it is."""
    started = time.monotonic()
    while (passed := time.monotonic() - started) < seconds and server.process.poll() is None:
        time.sleep(min(5.0, seconds - passed))
        with ledger.lock:
            sent = sum(map(len, ledger.acknowledged.values()))
            committed = sum(map(len, ledger.committed.values()))
            consumed = sum(map(len, ledger.consumed.values()))
        print(
            f"[{time.monotonic() - started:4.0f} s] {sent:,} acknowledged, {committed:,} in committed transactions "
            f"({ledger.aborted} aborted), {consumed:,} consumed by the group",
            flush=True,
        )


def claims(server: Server, ledger: Ledger) -> Iterator[tuple[str, list[str]]]:
    """Yield each claim about what the broker holds now, with what speaks against it."""
    yield "the broker still runs", [] if server.process.poll() is None else [f"it ended: {''.join(server.lines[-5:])}"]
    found = list(read(server, "plain", PARTITIONS))
    yield (
        "every acknowledged record is there once, in order",
        compare_streams(ledger.acknowledged, (numbered(each) for each in found)),
    )
    found = list(read(server, "transactions", PARTITIONS))
    yield (
        "committed transactions are read whole, aborted ones not at all",
        compare_streams(ledger.committed, (numbered(each) for each in found)),
    )
    drain(server, ledger)
    missing = [
        f"{stream}: {sorted(set(numbers) - ledger.consumed[stream])[:5]}"
        for stream, numbers in ledger.acknowledged.items()
        if set(numbers) - ledger.consumed[stream]
    ]
    yield "the group has read everything, members come and gone", missing
    latest: dict[str, str | None] = {}
    for each in read(server, "compacted", 1):
        value = each.value()
        latest[each.key().decode()] = None if value is None else value.decode()
    yield "the compacted topic has every key's latest value", compare_latest(ledger.latest, latest)
    size = sum(path.stat().st_size for path in (server.folder / "data" / "retained-0").glob("*.log"))
    yield "retention has kept the topic small", [] if size < 16 << 20 else [f"it holds {size:,} bytes"]
    offsets = [each.offset() for each in read(server, "retained", 1)]
    gaps = [one for one, two in pairwise(offsets) if two != one + 1]
    yield "what retention left has no gaps", [f"behind offset {each}" for each in gaps[:5]]


def read(server: Server, topic: str, partitions: int) -> Iterator[Message]:
    """Yield every record of a topic from its beginning, of committed transactions only."""
    consumer = Consumer(
        {
            "bootstrap.servers": server.bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    ends = {n: consumer.get_watermark_offsets(TopicPartition(topic, n), timeout=30)[1] for n in range(partitions)}
    consumer.assign([TopicPartition(topic, n, OFFSET_BEGINNING) for n in range(partitions)])
    last = started = time.monotonic()
    try:
        while time.monotonic() - last < IDLE_SECONDS and time.monotonic() - started < READ_SECONDS_MAX:
            for message in consumer.consume(5000, timeout=0.5):
                if message.error() is None:
                    last = time.monotonic()
                    yield message
            positions = consumer.position([TopicPartition(topic, n) for n in ends])
            if all(each.offset >= ends[each.partition] for each in positions):
                return
    finally:
        consumer.close()


def drain(server: Server, ledger: Ledger) -> None:
    """Let one last member of the group read what is left."""
    settings = {"bootstrap.servers": server.bootstrap, "group.id": "soak-classic", "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "enable.auto.commit": False})
    consumer.subscribe(["plain"])
    last = started = time.monotonic()
    while time.monotonic() - last < 2 * IDLE_SECONDS and time.monotonic() - started < READ_SECONDS_MAX:
        if take(consumer, ledger):
            last = time.monotonic()
        done = all(not set(numbers) - ledger.consumed[stream] for stream, numbers in ledger.acknowledged.items())
        if done:
            break
    consumer.close()


def numbered(message: Message) -> tuple[tuple[str, int], int]:
    """Return a record's producer, partition and number."""
    name, number = message.value().split(b":")
    return (name.decode(), message.partition()), int(number)


def main(argv: list[str]) -> int:
    """Run and print every claim; returns 0 where all hold."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="ottla-soak-") as folder:
        found = soak(Path(folder), args.seconds, args.seed)
    for claim, against in found:
        print(f"{'FAILED' if against else 'passed'}  {claim}")
        for each in against[:10]:
            print(f"        {each}")
    failed = sum(bool(against) for _, against in found)
    print(f"{len(found) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
