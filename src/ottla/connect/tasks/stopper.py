"""Stops a source task that waits in `poll`: from another thread, once the worker has wanted it to stop for a while.

A task whose `poll` returns soon is stopped by its own thread, behind its last records, as in Kafka.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from ottla.background import supervise_thread
from ottla.connect import SourceTask, storage
from ottla.connect.tasks.interface import TaskPort

__all__ = ["TaskStopper"]

log = logging.getLogger(__name__)
PATIENCE_SECONDS = 1.0
"""How long `poll` may go on after the worker wants the task to stop."""
LOOK_SECONDS = 0.1
WAIT_SECONDS = 5.0


class TaskStopper:
    """Calls a task's `stop`, once."""

    def __init__(self, task: SourceTask, port: TaskPort) -> None:
        self._task, self._port = task, port
        self._waits = False
        self._once = threading.Lock()
        self._ended = threading.Event()
        self.has_stopped = False
        """Whether `stop` was called."""

    def start(self) -> None:
        """Begin to watch what the worker wants."""
        supervise_thread(
            self._watch, name="source task's stopper", serves="a source task", failed=lambda _: self._stop()
        )

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Say that the task's thread is in `poll` during the block."""
        self._waits = True
        try:
            yield
        finally:
            self._waits = False

    def finish(self) -> None:
        """Stop the task, unless that is done; what it raises is logged."""
        self._ended.set()
        self._stop()

    def _stop(self) -> None:
        with self._once:
            if self.has_stopped:
                return
            self.has_stopped = True
            try:
                self._task.stop()
            except Exception:  # it is over; what a plugin says now changes nothing
                log.exception("Could not stop the source task")

    def _watch(self) -> None:
        since: float | None = None
        while not self._ended.is_set():
            try:
                if self._port.target is not storage.TargetState.STOPPED:
                    self._port.wait(WAIT_SECONDS)
                    continue
            except ConnectionError:
                return  # the loop is told, too
            since = time.monotonic() if since is None else since
            if self._waits and time.monotonic() > since + PATIENCE_SECONDS:
                self._stop()
                return
            self._ended.wait(LOOK_SECONDS)
