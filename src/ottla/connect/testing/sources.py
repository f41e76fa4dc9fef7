"""The contract of source connectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from ottla.connect.storage import TargetState
from ottla.connect.testing.contract import (
    DEAD_LETTERS,
    ROUTED,
    TOPIC,
    Contract,
    Scenario,
    Trouble,
    _Case,
    text_of_bytes,
)
from ottla.connect.testing.world import Life

__all__ = ["SourceContract"]

IDLE_POLLS = 2
"""After how many polls without records a source is taken to be through."""


@dataclass(eq=False)
class SourceContract(Contract):
    """A source connector under test; it writes to the topic `rows`, and returns nothing from `poll` once it is through."""

    row_name: Callable[[bytes | None], str] = text_of_bytes
    """What a row is called, by its bytes in the topic."""

    has_positions: bool = True
    """Whether exactly once can be promised."""

    troubles: ClassVar[tuple[Trouble, ...]] = (
        Trouble.PLAIN,
        Trouble.STAGED,
        Trouble.FILTERED,
        Trouble.REFUSED,
        Trouble.UNREADABLE,
        Trouble.ROUTED,
    )

    def promises(self) -> tuple[bool, ...]:
        """See `Contract`."""
        return (False, True) if self.has_positions else (False,)

    def _watched(self) -> type[Any]:
        contract, task_class = self, self.connector.task_class

        class Task(task_class):  # type: ignore[misc,valid-type]
            def __init__(self, *given: Any) -> None:
                super().__init__(*given)
                self._life: Life = contract.life
                self._idle = 0

            def start(self, props: Mapping[str, str]) -> None:
                self._life.plugin_step("start", lambda: super(Task, self).start(props))

            def poll(self) -> Any:
                found = self._life.plugin_step("poll", super().poll)
                self._idle = 0 if found is not None else self._idle + 1
                if self._idle >= IDLE_POLLS:
                    self._life.want(TargetState.STOPPED)
                return found

            def commit(self) -> None:
                self._life.plugin_step("task commit", super().commit)

            def stop(self) -> None:
                self._life.stop(super().stop)

        class Connector(self.connector):  # type: ignore[misc,name-defined]
            java_name: ClassVar[str] = "contract.Connector"

        Connector.task_class = Task
        return Connector

    def _delivered(self, case: _Case) -> list[str]:
        values = [*case.cluster.committed(TOPIC), *case.cluster.committed(ROUTED)]
        return [self.row_name(each) for each in values]

    def _lay_out(self, case: _Case) -> None:
        case.cluster.add_topic(DEAD_LETTERS)

    def _settings(self, scenario: Scenario) -> dict[str, str]:
        created = {f"topic.creation.default.{key}": "1" for key in ("partitions", "replication.factor")}
        return {**super()._settings(scenario), **created}  # a topic that cannot be made yet fails between two rows
