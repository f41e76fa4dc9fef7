"""The contract of sink connectors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from ottla.connect.errors import DataError, RetriableError
from ottla.connect.storage import TargetState
from ottla.connect.testing.cluster import ModelCluster
from ottla.connect.testing.contract import (
    DEAD_LETTERS,
    SECOND,
    TOPIC,
    Contract,
    Scenario,
    Trouble,
    _Case,
    text_of_bytes,
)
from ottla.connect.testing.states import Seen
from ottla.connect.testing.words import Fault
from ottla.connect.testing.world import SINK_FAULTS, Life

__all__ = ["SinkContract"]

IDLE_FETCHES = 300
"""After how many Fetches without news a sink that has not committed everything is stopped all the same."""


@dataclass(eq=False)
class SinkContract(Contract):
    """A sink connector under test; it reads the topic `rows`, and `more` where two are routed into one."""

    read: Callable[[Path], Iterable[str]] = field(kw_only=True)
    """Returns what the rows are called that the destination in the folder holds."""

    once: bool = False
    """Whether the destination holds each row once also behind kills and failed commits (idempotent writes)."""

    row_bytes: Callable[[str], bytes] = str.encode
    """The bytes of a row in the topic."""

    refuses_by_itself: bool = False
    """Whether the destination refuses the special row of `reported`, so that the sink has something to report."""

    troubles: ClassVar[tuple[Trouble, ...]] = tuple(Trouble)

    def __post_init__(self) -> None:
        if self.dead_letter_name is None:
            self.dead_letter_name = text_of_bytes
        super().__post_init__()

    def _settings(self, scenario: Scenario) -> dict[str, str]:
        topics = f"{TOPIC},{SECOND}" if scenario.trouble is Trouble.MERGED else TOPIC
        return {**super()._settings(scenario), "topics": topics}

    def _lay_out(self, case: _Case) -> None:
        cluster, half = case.cluster, len(self.values) // 2
        second = SECOND if self._trouble is Trouble.MERGED else TOPIC
        for each in (TOPIC, second, DEAD_LETTERS):
            cluster.add_topic(each)
        for topic, part in ((TOPIC, self.values[:half]), (second, self.values[half:])):
            cluster.write(topic, [self.row_bytes(each) for each in part])
        idle: dict[Life, int] = {}

        def watch() -> None:
            life = self.life
            idle[life] = idle.get(life, 0) + 1
            if _is_through(cluster) or idle[life] > IDLE_FETCHES:
                life.want(TargetState.STOPPED)

        cluster.on_idle = watch

    def _watched(self) -> type[Any]:
        contract, task_class = self, self.connector.task_class

        class Task(task_class):  # type: ignore[misc,valid-type]
            def __init__(self, *given: Any) -> None:
                super().__init__(*given)
                self._life: Life = contract.life

            def start(self, props: Mapping[str, str]) -> None:
                self._life.plugin_step("start", lambda: super(Task, self).start(props))

            def put(self, records: Any) -> None:
                kept = list(self._kept(records))
                if kept or not records:
                    self._put(lambda: super(Task, self).put(kept), "put" if kept else "put nothing")

            def _kept(self, records: Any) -> Iterator[Any]:
                for each in records:
                    if contract._is_special(Trouble.REPORTED, each.value) and not contract.refuses_by_itself:
                        self._life.check()
                        self.context.errant_records.report(each, DataError("the destination will not have it"))
                    else:
                        yield each

            def _put(self, work: Callable[[], Any], step: str) -> None:
                try:
                    self._life.plugin_step(step, work, SINK_FAULTS)
                except RetriableError:
                    self.context.timeout(1)
                    raise

            def pre_commit(self, offsets: Any) -> Any:
                return self._life.plugin_step("pre commit", lambda: super(Task, self).pre_commit(offsets), SINK_FAULTS)

            def close(self, partitions: Any) -> None:
                if not self._life.dead:
                    super().close(partitions)

            def stop(self) -> None:
                self._life.stop(super().stop)

        if hasattr(task_class, "put_columns"):

            def put_columns(task: Any, columns: Any) -> None:
                if contract._trouble is Trouble.REPORTED and not contract.refuses_by_itself:
                    task.put(columns.records())
                else:
                    task._put(lambda: task_class.put_columns(task, columns), "put columns")

            Task.put_columns = put_columns

        class Connector(self.connector):  # type: ignore[misc,name-defined]
            java_name: ClassVar[str] = "contract.Connector"

        Connector.task_class = Task
        return Connector

    def _delivered(self, case: _Case) -> list[str]:
        return list(self.read(case.folder))

    def _once(self, case: _Case, scenario: Scenario) -> bool:
        """See `Contract`: a commit that failed brings records again, and dead letters of a task started again may be two."""
        injected = case.world.injected
        if injected is not None and injected.fault in (Fault.STOP, Fault.PAUSE, Fault.REVOKED):
            return True
        return len(case.lives) == 1 and (injected is None or injected.step != "pre commit")

    def _look(self, case: _Case, scenario: Scenario) -> list[str]:
        found = super()._look(case, scenario)
        arrived = case.seen.arrived
        if self.once and len(set(arrived)) < len(arrived):
            found.append(f"more than once: {arrived}")
        if case.seen.uncommitted:
            found.append(f"offsets are not committed to the end: {case.seen.uncommitted}")
        return found

    def _see(self, case: _Case) -> Seen:
        """See `Contract`."""
        uncommitted = "" if _is_through(case.cluster) else str(case.cluster.groups)
        return replace(super()._see(case), uncommitted=uncommitted)


def _is_through(cluster: ModelCluster) -> bool:
    """Whether a group has committed everything."""
    return all(
        cluster.groups.get(each, 0) >= log.end for each, log in cluster.logs.items() if each.topic in (TOPIC, SECOND)
    )
