"""How a task reaches its cluster: by TCP, or a model of one in its place (`ottla.connect.testing`)."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ottla.connect.tasks.members import Member
from ottla.connect.tasks.spare_memory import free_memory
from ottla.connect.tasks.stopper import TaskStopper
from ottla.connect.tasks.task_client import ClientThread, MakeTaskClient

__all__ = ["TCP", "Reach"]


@dataclass(frozen=True, slots=True)
class Reach:
    """What makes the parts of a task that run beside its thread, and the time that it lives in."""

    client: MakeTaskClient = ClientThread
    """Makes a client of a cluster for the task's thread."""

    member: Callable[..., Any] = Member
    """Makes a sink's membership of its group, with the arguments of `Member`."""

    stopper: Callable[..., TaskStopper] = TaskStopper
    """Makes what stops a source that waits in `poll`, with the arguments of `TaskStopper`."""

    now: Callable[[], float] = time.monotonic
    """Returns seconds; waits for less than forever are counted in them."""

    free: Callable[[], None] = free_memory
    """Gives the system the memory that a busy time has left behind."""


TCP = Reach()
