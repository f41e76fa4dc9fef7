"""What a run of Connect's benchmark shares, and how records that go by are watched."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.connect_workers import Worker
from bench.rows import Metric, Rounds
from ottla.base import TopicPartition
from ottla.client import LATEST, BlockingClient
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest

__all__ = ["LINE_BYTES", "Passage", "Run", "watch"]

STEP_SECONDS_MAX = 180.0
LOOK_SECONDS = 0.005
LINE_BYTES = 100


@dataclass
class Run:
    """What all measurements share."""

    client: BlockingClient
    bootstrap: str
    folder: Path
    lines: int
    only: str | None
    metrics: Sequence[Metric]
    started: float = field(default_factory=time.monotonic)
    values: Rounds = field(default_factory=Rounds)

    def say(self, text: str) -> None:
        """Print a line of progress at once."""
        print(f"[{time.monotonic() - self.started:4.0f} s] {text}", flush=True)

    def add(self, worker: Worker, metric: str, value: float) -> None:
        """Note a figure."""
        unit = next(each.unit for each in self.metrics if each.name == metric)
        self.values.add(worker.name, metric, value)
        self.say(f"  {metric}, {worker.name}: {value:,.1f} {unit}")

    def topic(self, name: str) -> TopicPartition:
        """Make a topic of one partition and return it."""
        wanted = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
        self.client.request(CreateTopicsRequest(topics=[wanted], timeout_ms=30_000))
        return TopicPartition(name, 0)

    def end(self, topic: TopicPartition) -> int:
        """Return how many records a topic has."""
        return int(self.client.list_offsets({topic: LATEST})[topic].offset)

    def file(self, name: str, lines: int) -> Path:
        """Return a file of so many numbered lines of 100 bytes."""
        path = self.folder / name
        if not path.exists():
            with path.open("w") as file:
                for start in range(0, lines, 10_000):
                    numbers = range(start, min(start + 10_000, lines))
                    file.writelines(f"{number:012d} {'x' * (LINE_BYTES - 14)}\n" for number in numbers)
        return path


@dataclass(frozen=True)
class Passage:
    """How a number of records went by: rates are taken from the first that was seen on, so that no start counts."""

    first_s: float
    rate: float
    last_s: float


def watch(worker: Worker, name: str, look: Callable[[], int], until: int, begun: float) -> Passage:
    """Look until so many records are there; raises RuntimeError where the connector fails or takes too long."""
    first: tuple[float, int] | None = None
    looks = 0
    while True:
        found, now = look(), time.monotonic()
        if found and first is None:
            first = now, found
        if found >= until:
            break
        looks += 1
        if now - begun > STEP_SECONDS_MAX:
            raise RuntimeError(f"{found:,} of {until:,} after {STEP_SECONDS_MAX:g} s; {worker.trouble(name)}")
        if looks % 400 == 0 and (trouble := worker.trouble(name)):
            raise RuntimeError(trouble)
        time.sleep(LOOK_SECONDS)
    assert first is not None
    rate = (until - first[1]) / (now - first[0]) if now > first[0] else 0.0
    return Passage(first[0] - begun, rate, now - begun)
