"""What tests of continuous mode stand on: topics, applications and services that are closed in the end, and plans."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from ottla.base import TopicPartition
from ottla.client import BlockingClient, FetchPosition, Isolation
from ottla.spark import StreamsApplication, StreamsService
from ottla.spark.continuous.columns import records_of
from ottla.streams import Record as EngineRecord
from ottla.streams import StreamsBuilder, Topology
from ottla.wire import ColumnDecoder, Record, build_batch
from tests.spark.conftest import create_topic
from tests.waiting import until

__all__ = ["NOW_MS", "WAIT_SECONDS_MAX", "World", "counting", "split_or_fail"]

WAIT_SECONDS_MAX = 100.0
NOW_MS = int(time.time() * 1000)


class World:
    """An input and an output topic of two partitions, and applications that are closed in the end."""

    def __init__(self, name: str, client: BlockingClient, folder: Path) -> None:
        self.name, self.out, self.client, self._folder = name, f"{name}-out", client, folder
        self.open: list[StreamsApplication] = []
        self.services: list[StreamsService] = []
        self.topics(name, self.out)

    def settings(self, **more: Any) -> dict[str, Any]:
        """Return an application's settings."""
        return {
            "application.id": f"app-{self.name}",
            "bootstrap.servers": ",".join(map(str, self.client.client.bootstrap)),
            "state.dir": str(self._folder),
            "execution": "continuous",
            "restart.backoff.ms": 1,
            "commit.interval.ms": 20,
            **{name.replace("_", "."): value for name, value in more.items()},
        }

    def application(self, topology: Topology, jobs: Any, **settings: Any) -> StreamsApplication:
        """Return an application of its own, which is closed in the end."""
        self.open.append(StreamsApplication(topology, self.settings(**settings), jobs=jobs))
        return self.open[-1]

    def service(self, jobs: Any, hosts: int = 1) -> StreamsService:
        """Return a service that has started, and is closed in the end."""
        self.services.append(StreamsService(f"service-{self.name}", hosts=hosts, jobs=jobs))
        return self.services[-1].start()

    def topics(self, *names: str) -> None:
        """Make topics of two partitions."""
        for name in names:
            create_topic(self.client, name, 2)

    def close(self) -> None:
        """End what runs."""
        for each in (*self.open, *self.services):
            each.close()

    def feed(self, *values: str, partition: int = 0, topic: str | None = None) -> None:
        """Append lines to a topic, the world's own unless named."""
        records = [Record(0, NOW_MS + index, None, value.encode(), ()) for index, value in enumerate(values)]
        self.client.produce({TopicPartition(topic or self.name, partition): bytes(build_batch(records))})

    def put(self, topic: str, **rows: str) -> None:
        """Append rows to a table's topic, all to its first partition."""
        records = [Record(0, NOW_MS, key.encode(), value.encode(), ()) for key, value in rows.items()]
        self.client.produce({TopicPartition(topic, 0): bytes(build_batch(records))})

    def read(self, topic: str) -> list[EngineRecord]:
        """Return what is committed of a topic."""
        found: list[EngineRecord] = []
        for partition in (0, 1):
            place, offset = TopicPartition(topic, partition), 0
            while True:
                position = FetchPosition(place, offset)
                [answer] = self.client.fetch([position], max_wait_ms=0, isolation=Isolation.READ_COMMITTED)
                decoded = ColumnDecoder(with_headers=True).decode(answer.records, start=offset, aborted=answer.aborted)
                if decoded.next_offset == offset:
                    break
                offset = decoded.next_offset
                found += [each for columns in decoded.columns for each in records_of(columns, *place)]
        return found

    def counts(self, topic: str | None = None) -> dict[str, list[int]]:
        """Return every count that each word has had."""
        found: dict[str, list[int]] = {}
        for each in self.read(topic or self.out):
            found.setdefault(each.key.decode(), []).append(int.from_bytes(each.value, "big"))
        return found

    def await_counts(self, topic: str | None = None, /, **wanted: int) -> None:
        """Wait until the last count of each word is this one."""
        until(
            lambda: {word: found[-1] for word, found in self.counts(topic).items()} == wanted,
            seconds=WAIT_SECONDS_MAX,
            what=lambda: str(self.counts(topic)),
        )


def counting(topic: str, split: Any = str.split) -> Topology:
    """Lines → words → counts, by a repartition topic."""
    builder = StreamsBuilder()
    words = builder.stream(topic, key_serde="string", value_serde="string").flat_map_values(split, value_serde="string")
    counts = words.group_by(lambda key, word: word, key_serde="string", value_serde="string").count(
        materialized="counts"
    )
    counts.to_stream().to(f"{topic}-out", key_serde="string", value_serde="long")
    return builder.build()


def split_or_fail(line: str) -> list[str]:
    """Split a line; one that is poison fails."""
    if line == "poison":
        raise ValueError("nobody can read this")
    return line.split()
