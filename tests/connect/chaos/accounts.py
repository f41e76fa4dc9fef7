"""What has to be where: good records at their destinations, bad ones as dead letters, nothing missing behind an offset."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from confluent_kafka import Consumer, TopicPartition

from tests.connect.chaos.pipelines import FLUSH, LAKE, Feeder
from tests.connectors.s3_server import S3Server
from tests.streams.kills.counting import QUIET, read_messages

__all__ = ["Account", "Places", "committed", "files_of", "settled"]

SHOWN_MAX = 12


@dataclass(frozen=True)
class Places:
    """Where things are to be looked for."""

    bootstrap: str
    database: str
    store: S3Server
    bucket: str
    folder: Path
    exactly_once: bool


@dataclass
class Account:
    """What was counted."""

    records: int = 0
    dead_letters: int = 0
    lost: int = 0
    duplicated: int = 0
    """Where once was promised."""

    repeated: int = 0
    """Where at least once allows it."""

    wrong: list[str] = field(default_factory=list)

    def hold(self, what: str, wanted: Iterable[Any], found: Iterable[Any], *, once: bool) -> None:
        """Compare what should be somewhere with what is."""
        expected, counts = Counter(wanted), Counter(found)
        missing = sorted(map(str, expected.keys() - counts.keys()))
        strange = sorted(map(str, counts.keys() - expected.keys()))
        again = {each: count for each, count in counts.items() if each in expected and count > expected[each]}
        self.lost += len(missing)
        if missing:
            self.wrong.append(f"{what}: {len(missing)} missing: {', '.join(missing[:SHOWN_MAX])}")
        if strange:
            self.wrong.append(f"{what}: {len(strange)} that should not be there: {', '.join(strange[:SHOWN_MAX])}")
        more = sum(again.values()) - sum(expected[each] for each in again)
        if once and again:
            self.duplicated += more
            self.wrong.append(f"{what}: {len(again)} more than once: {dict(list(again.items())[:SHOWN_MAX])}")
        elif not once:
            self.repeated += more


def settled(places: Places, feeder: Feeder) -> Account:
    """Count everything; what is still under way counts as missing."""
    found, once = Account(), places.exactly_once
    topics = {topic: read_messages(places.bootstrap, topic) for topic in ("lines", "logs", "shop-orders")}
    values = {topic: [(each.value() or b"").decode() for each in messages] for topic, messages in topics.items()}
    garbage = [each for each in values["lines"] if not each.isdecimal()]
    for topic, good in feeder.good.items():
        arrived = [int(each) for each in values[topic] if each.isdecimal()]
        found.hold(f"topic {topic}", good, arrived, once=once)
    found.hold(
        "dead letters of files", feeder.bad, map(str, _dead_letters(places, "lines-dead", json.loads)), once=once
    )
    with psycopg.connect(places.database) as database:
        orders = dict(database.execute("SELECT id, amount FROM orders").fetchall())
        copied = dict(database.execute("SELECT id, amount FROM copied").fetchall())
    good_orders = {key: amount for key, amount in orders.items() if amount >= 0}
    found.hold("topic shop-orders", orders.items(), map(_order, values["shop-orders"]), once=once)
    found.hold("table copied", good_orders.items(), copied.items(), once=True)
    bad_orders = orders.items() - good_orders.items()
    found.hold("dead letters of the copy", bad_orders, _dead_letters(places, "orders-dead", _order), once=False)
    for queue in ("s3-dead", "file-dead", "lake-dead"):
        found.hold(queue, set(garbage), _dead_letters(places, queue, bytes.decode), once=False)
    lines = (places.folder / "out.txt").read_text().splitlines()
    arrived = [each for topic in feeder.good for each in values[topic] if each.isdecimal()]
    found.hold("file", set(arrived), lines, once=False)
    found.hold("file-system sink", arrived, files_of(places.folder / LAKE), once=True)
    _hold_store(found, places, topics)
    found.records = sum(map(len, feeder.good.values())) + len(good_orders)
    found.dead_letters = len(feeder.bad) + len(bad_orders) + len(garbage)
    return found


def files_of(folder: Path) -> list[str]:
    """Return the lines that a reader sees below a folder: names that begin with an underscore or a dot are passed over."""
    found = []
    for path in sorted(folder.rglob("*.json")):
        if not any(part.startswith(("_", ".")) for part in path.relative_to(folder).parts):
            found += path.read_text().splitlines()
    return found


def _hold_store(found: Account, places: Places, topics: Mapping[str, list[Any]]) -> None:
    """Every record before a committed offset is in the bucket, each once, and few are behind it."""
    offsets = committed(places.bootstrap, "connect-s3", ("lines", "logs"))
    wanted: list[str] = []
    waiting: Counter[tuple[str, int]] = Counter()
    late: set[str] = set()
    for topic in ("lines", "logs"):
        for message in topics[topic]:
            text, place = (message.value() or b"").decode(), (topic, message.partition() or 0)
            if not text.isdecimal():
                continue
            if (message.offset() or 0) < offsets.get(place, 0):
                wanted.append(text)
            else:
                waiting[place] += 1
                late.add(text)
    objects = places.store.objects(places.bucket)
    there = [line for data in objects.values() for line in data.decode().splitlines()]
    late -= set(wanted)
    found.hold("S3", wanted, [each for each in there if each not in late], once=True)
    for place, count in waiting.items():
        if count >= FLUSH:
            found.wrong.append(f"S3: {count} records of {place} wait, more than an object's")


def _order(data: str | bytes) -> tuple[int, int]:
    row = json.loads(data)["payload"]
    return row["id"], row["amount"]


def _dead_letters(places: Places, topic: str, read: Any) -> list[Any]:
    return [read(each.value() or b"") for each in read_messages(places.bootstrap, topic)]


def committed(bootstrap: str, group: str, topics: Iterable[str]) -> dict[tuple[str, int], int]:
    """Return what a group has committed."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, **QUIET})
    try:
        wanted = [TopicPartition(topic, number) for topic in topics for number in range(2)]
        found = consumer.committed(wanted, 5)
        return {(each.topic, each.partition): max(each.offset, 0) for each in found}
    finally:
        consumer.close()
