"""`run_on_model`: a task's own loop against a model of the cluster, in the caller's thread, without Spark and sockets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from ottla.base import TopicPartition
from ottla.connect import ConnectError, Plugins, storage, testing
from ottla.connect.tasks.interface import TaskSpec, WorkerClients
from ottla.connect.tasks.model_client import ModelLoop, ModelTaskClient
from ottla.connect.tasks.reach import Reach
from ottla.connect.tasks.run import run_task
from ottla.connect.tasks.stopper import TaskStopper
from ottla.java import JavaPattern

__all__ = ["run_on_model"]

BOOTSTRAP = "model:1"
OFFSETS_TOPIC = "connect-offsets"
COMMIT_FAULTS = frozenset(
    {
        testing.Fault.RETRIABLE,
        testing.Fault.TIMEOUT,
        testing.Fault.STOP,
        testing.Fault.KILL_BEFORE,
        testing.Fault.KILL_AFTER,
    }
)


class ModelMember:
    """The only member of a sink's group; see `Member`."""

    def __init__(self, life: testing.Life, cluster: testing.ModelCluster, callbacks: Mapping[str, Any]) -> None:
        self._life, self._cluster = life, cluster
        self._assigned, self._committed = callbacks["assigned"], callbacks["committed"]
        self._revoked = callbacks["revoked"]
        self._mine: list[TopicPartition] = []
        self._waiting: list[TopicPartition] = []

    def subscribe(self, topics: Sequence[str], pattern: JavaPattern | None) -> None:
        """See `Member`."""
        names = [each for each in self._cluster.topics if each in topics or (pattern and pattern.fullmatch(each))]
        self._waiting = [each for each in self._cluster.logs if each.topic in names]

    def refresh(self, task_client: Any) -> None:
        """See `Member`."""

    def poll(self) -> None:
        """See `Member`."""
        waiting, self._waiting = self._waiting, []
        rebalance, self._life.rebalance = self._life.rebalance, None
        if rebalance is not None:
            self._revoked(self._mine, rebalance is testing.Fault.LOST)
            waiting = self._mine
        if waiting:
            self._mine = waiting
            self._assigned(waiting)

    def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """See `Member`."""
        return {each: self._cluster.groups[each] for each in partitions if each in self._cluster.groups}

    def commit(self, offsets: Mapping[TopicPartition, int], *, wait: bool) -> None:
        """See `Member`."""
        life = self._life
        life.check()
        fault = life.world.step("commit offsets", life, kinds=COMMIT_FAULTS)
        if fault is testing.Fault.KILL_BEFORE:
            life.kill()
        life.check()
        if fault is not testing.Fault.RETRIABLE:
            self._cluster.groups.update(offsets)
        if fault is testing.Fault.KILL_AFTER:
            life.kill()
        life.check()
        failed = fault in (testing.Fault.RETRIABLE, testing.Fault.TIMEOUT)
        self._committed("injected at commit offsets" if failed else None, offsets)

    def close(self) -> None:
        """See `Member`."""


class ModelStopper(TaskStopper):
    """See `TaskStopper`; a source under contract waits for nothing in `poll`, and is stopped behind its loop."""

    def start(self) -> None:
        """See `TaskStopper`."""


def run_on_model(
    config: Mapping[str, str],
    *,
    worker: Mapping[str, str],
    life: testing.Life,
    cluster: testing.ModelCluster,
    plugins: Plugins,
    exactly_once: bool,
) -> storage.State:
    """Run one task until its worker wants it to stop or it fails; see `TaskRuntime`. Raises Killed."""
    name = config["name"]
    spec = TaskSpec(
        task=storage.TaskId(name, 0),
        connector_config=config,
        config=config,
        worker={**worker, "bootstrap.servers": BOOTSTRAP, "offset.storage.partitions": "1"},
        clients=WorkerClients(BOOTSTRAP, producer={"delivery.timeout.ms": "10000"}),
        target=storage.TargetState.STARTED,
        generation=1,
        offsets_topic=OFFSETS_TOPIC if exactly_once else None,
        transactional_id=f"connect-cluster-{name}-0" if exactly_once else None,
    )
    cluster.roles[OFFSETS_TOPIC] = "offsets"

    loop = ModelLoop(life.world)
    life.sleep, life.is_beside = loop.sleep, loop.is_running
    life.look = partial(loop.breathe, briefly=cluster.is_slow)

    def client(_bootstrap: str, _client_id: str, **_settings: Any) -> ModelTaskClient:
        return ModelTaskClient(loop, testing.ModelClient(cluster, life))

    def member(_settings: Any, _group: str, **callbacks: Any) -> ModelMember:
        return ModelMember(life, cluster, callbacks)

    try:
        return run_task(spec, life, plugins=plugins, reach=Reach(client, member, ModelStopper, loop.time))
    except ConnectError:  # it was told, and a task that is gone cannot be
        return storage.State.FAILED
    finally:
        loop.end()
