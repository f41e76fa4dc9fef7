"""A sink's topic is deleted and made again while its task puts what it had: no offset of the old one is the new one's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from ottla.base import TopicPartition
from ottla.connect import SinkConnector, SinkTask, discover
from ottla.connect.storage import State, TargetState
from ottla.connect.testing import Life, ModelCluster, World
from ottla.spark import run_on_model

PLACE = TopicPartition("lines", 0)
OLD, NEW = [f"old {number}" for number in range(6)], [f"new {number}" for number in range(10)]
WORKER = dict.fromkeys(("key.converter", "value.converter"), "org.apache.kafka.connect.storage.StringConverter")


class Sink:
    """A sink's lives in a model; `then` is called once, in the midst of the first `put`."""

    def __init__(self) -> None:
        self.world = World()
        self.cluster = ModelCluster(self.world)
        self.cluster.add_topic(PLACE.topic)
        self.got: list[Any] = []
        self.then: list[Any] = []

    def write(self, values: list[str]) -> None:
        for each in values:
            self.cluster.write(PLACE.topic, [each.encode()])

    def make_again(self) -> None:
        self.cluster.remove_topic(PLACE.topic)
        self.cluster.add_topic(PLACE.topic)
        self.write(NEW)

    def live(self) -> State:
        """Run a task until the worker wants it to stop, or nothing comes any more."""
        life, sink = Life(self.world), self
        idle = iter(range(5))
        self.cluster.on_idle = lambda: next(idle, None) is None and life.want(TargetState.STOPPED)

        class Task(SinkTask):
            def start(self, props: Mapping[str, str]) -> None: ...

            def put(self, records: Any) -> None:
                sink.got += [each.value for each in records]
                if records and sink.then:
                    sink.then.pop()(life, self.context)

        class Connector(SinkConnector):
            task_class = Task
            java_name = "tests.MadeAgain"

        config = {"name": "again", "connector.class": "tests.MadeAgain", "topics": PLACE.topic, "tasks.max": "1"}
        return run_on_model(
            config,
            worker=WORKER,
            life=life,
            cluster=self.cluster,
            plugins=discover(more=[Connector]),
            exactly_once=False,
        )


@pytest.mark.parametrize("how", ["stopped", "committed"])
def test_a_topic_made_again_during_a_long_put_is_read_from_its_beginning(how: str) -> None:
    sink = Sink()
    sink.write(OLD)

    def then(life: Life, context: Any) -> None:
        sink.make_again()
        context.request_commit()
        if how == "stopped":  # as where the connector is configured anew
            life.want(TargetState.STOPPED)

    sink.then.append(then)
    sink.live()
    if how == "stopped":
        assert PLACE not in sink.cluster.groups
    sink.live()
    assert sink.got[-len(NEW) :] == NEW
    assert sink.cluster.groups[PLACE] == len(NEW)


def test_nothing_is_committed_of_a_topic_that_is_gone() -> None:
    sink = Sink()
    sink.write(OLD)

    def then(life: Life, context: Any) -> None:
        sink.cluster.remove_topic(PLACE.topic)
        life.want(TargetState.STOPPED)

    sink.then.append(then)
    assert sink.live() is not State.FAILED
    assert PLACE not in sink.cluster.groups
