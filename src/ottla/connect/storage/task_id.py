"""The name of a task: its connector's and a number."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["TaskId", "parse_task_id"]


class TaskId(NamedTuple):
    """A task of a connector."""

    connector: str
    task: int

    def __str__(self) -> str:
        return f"{self.connector}-{self.task}"


def parse_task_id(text: str) -> TaskId | None:
    """Return the task of `name-number`, None where the text is none; the name may have hyphens too."""
    name, hyphen, number = text.rpartition("-")
    if not hyphen or not number.isascii() or not number.isdigit():
        return None
    return TaskId(name, int(number))
