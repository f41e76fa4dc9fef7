"""Worlds of one sink task, as it runs: its topic is made again, written to and removed at moments that a seed draws.

In the end every record of the topic that is there was put, and the group has its end: no offset of an older topic of that
name was taken for the new one's.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Mapping
from typing import Any

from ottla.base import TopicPartition
from ottla.connect import SinkConnector, SinkTask, discover
from ottla.connect.storage import TargetState
from ottla.connect.testing import Life, ModelCluster
from ottla.connect.testing import World as Steps
from ottla.spark import run_on_model

__all__ = ["run_sink_world"]

PLACE = TopicPartition("lines", 0)
WORKER = dict.fromkeys(("key.converter", "value.converter"), "org.apache.kafka.connect.storage.StringConverter")
STORIES = ("write", "write", "make again", "make again", "remove", "commit", "stop", "pause", "")
LIVES_MAX, STEPS_MAX, IDLE_MAX = 4, 12, 4


class _SinkWorld:
    def __init__(self, seed: int) -> None:
        self.seed, self.rng = seed, random.Random(seed)
        self.steps = Steps()
        self.cluster = ModelCluster(self.steps)
        self.cluster.add_topic(PLACE.topic)
        self.got: set[Any] = set()
        self.there: list[str] = []
        """What the topic of now holds."""
        self.told: list[str] = []
        self.is_over = False
        self._number = self._left = 0

    def run(self) -> None:
        for _ in range(self.rng.randint(1, LIVES_MAX)):
            self.told.append("a life")
            self._live()
        self.is_over = True
        self._live()
        missing = [each for each in self.there if each not in self.got]
        end = self.cluster.groups.get(PLACE, 0)
        if missing or end != len(self.there):
            story = ", ".join(self.told)
            raise AssertionError(
                f"seed {self.seed} (sink): {story}: {missing} were never put; committed is {end} of {len(self.there)}"
            )

    def _happen(self, story: str, life: Life | None = None, task: SinkTask | None = None) -> None:
        self.told.append(story)
        cluster, is_there = self.cluster, PLACE.topic in self.cluster.topics
        match story:
            case "write" if is_there:
                self._write()
            case "make again":
                if is_there:
                    cluster.remove_topic(PLACE.topic)
                cluster.add_topic(PLACE.topic)
                self.there = []
                for _ in range(self.rng.randint(0, 8)):
                    self._write()
            case "remove" if is_there:
                cluster.remove_topic(PLACE.topic)
                self.there = []
                if life is not None:  # a task whose topic is gone waits for it, and the model has no end of that
                    life.want(TargetState.STOPPED)
            case "commit" if task is not None:
                task.context.request_commit()
            case "stop" if life is not None:
                life.want(TargetState.STOPPED)
            case "pause" if life is not None:
                life.want(TargetState.PAUSED)
                life.want(TargetState.STARTED)

    def _write(self) -> None:
        self._number += 1
        self.there.append(f"v{self._number}")
        self.cluster.write(PLACE.topic, [self.there[-1].encode()])

    def _live(self) -> None:
        life, world = Life(self.steps), self
        self.steps.now_s = 0.0
        self._happen("write" if PLACE.topic in self.cluster.topics else "make again")
        idle = iter(range(IDLE_MAX))
        self._left = 0 if self.is_over else self.rng.randint(1, STEPS_MAX)

        def maybe(task: SinkTask | None) -> None:
            if world._left > 0 and world.rng.random() < 0.5:
                world._left -= 1
                world._happen(world.rng.choice(STORIES), life, task)

        def on_idle() -> None:
            maybe(None)
            if next(idle, None) is None:
                life.want(TargetState.STOPPED)

        class Task(SinkTask):
            def start(self, props: Mapping[str, str]) -> None: ...

            def put(self, records: Any) -> None:
                world.got |= {each.value for each in records}
                maybe(self)

            def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
                maybe(self)
                return offsets

        class Connector(SinkConnector):
            task_class = Task
            java_name = "tests.MadeAgain"

        self.cluster.on_idle = on_idle
        run_on_model(
            {"name": "again", "connector.class": "tests.MadeAgain", "topics": PLACE.topic, "tasks.max": "1"},
            worker=WORKER,
            life=life,
            cluster=self.cluster,
            plugins=discover(more=[Connector]),
            exactly_once=False,
        )


def run_sink_world(seed: int) -> None:
    """Run the world of a seed; raises AssertionError that says what was wrong."""
    logging.disable(logging.CRITICAL)
    try:
        _SinkWorld(seed).run()
    finally:
        logging.disable(logging.NOTSET)
