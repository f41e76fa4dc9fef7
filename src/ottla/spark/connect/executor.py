"""What Spark runs for a task, on an executor: connects to the worker, sends it the log, and calls `run_task`."""

from __future__ import annotations

import logging
import os
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import EntryPoint
from pathlib import Path

from ottla.connect import Plugins, discover, installed_entries, storage
from ottla.connect.tasks import Dial, RemotePort, TaskSpec, run_task
from ottla.spark.connect.installed import INSTALLED

__all__ = ["OnExecutor", "entries_here", "plugins_of", "run_here"]


@dataclass(frozen=True, slots=True)
class OnExecutor:
    """The function that travels to the executor. It holds no configuration: that comes over the control channel."""

    dial: Dial
    levels: Mapping[str, int]
    archives: tuple[str, ...] = ()
    """Names under which Spark has unpacked the folders of `plugin.path`; empty where executors see those themselves."""

    stdio: tuple[str, str] | None = None
    """The worker's standard input and output, where a task on the same machine may use them."""

    def __call__(self, rows: Iterable[object]) -> Iterator[str]:
        """Run the task and yield its last state."""
        plugin_path = None
        if self.archives:
            from pyspark import SparkFiles

            plugin_path = tuple(SparkFiles.get(name) for name in self.archives)
        with _standard_streams(self.stdio):
            yield run_here(self.dial, self.levels, plugin_path=plugin_path)  # this process is the task's own


def run_here(
    dial: Dial,
    levels: Mapping[str, int] | None = None,
    *,
    plugins: Plugins | None = None,
    plugin_path: tuple[str, ...] | None = None,
    run: Callable[..., storage.State] = run_task,
) -> str:
    """Run the task that the worker has at the other end of `dial`, in this thread; return the last state that it told.

    `levels` are given where the process is the task's own: they are set, and all that is logged goes to the worker.
    `plugin_path` is where this machine has the plugins, where that is not where the worker has them.
    """
    loggers = _Levels()
    port = RemotePort[TaskSpec](dial, on_levels=None if levels is None else loggers.set)
    spec = port.spec if plugin_path is None else replace(port.spec, plugin_path=plugin_path)
    try:
        with nullcontext() if levels is None else _log_to(port, loggers, levels):
            return run(spec, port, plugins=plugins or plugins_of(spec.plugin_path)).value
    except ConnectionError:
        return storage.State.UNASSIGNED.value  # the worker is gone: there is nobody to tell
    finally:
        port.close()


@cache
def plugins_of(plugin_path: tuple[str, ...]) -> Plugins:
    """Return the plugins of this process, loaded once."""
    return discover([Path(each) for each in plugin_path], more=INSTALLED, entries=entries_here())


@cache
def entries_here() -> tuple[EntryPoint, ...]:
    """Return the entry points of this process's packages, looked for once.

    Spark's daemon looks before it forks. It does not load them: a plugin may start threads while it is imported.
    """
    return installed_entries()


class _Levels:
    """Sets levels of this process's loggers, and sets them back."""

    def __init__(self) -> None:
        self._before: dict[str, int] = {}

    def set(self, levels: Mapping[str, int]) -> None:
        for name, level in levels.items():
            logger = logging.getLogger(name or None)
            self._before.setdefault(name, logger.level)
            logger.setLevel(level)

    def restore(self) -> None:
        for name, level in self._before.items():
            logging.getLogger(name or None).setLevel(level)
        self._before.clear()


class _ToWorker(logging.Handler):
    """Sends what a task logs to its worker."""

    def __init__(self, port: RemotePort[TaskSpec]) -> None:
        super().__init__()
        self._port = port

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.exc_info and record.exc_info[0] is not None:
            text += "\n" + "".join(traceback.format_exception(*record.exc_info)).rstrip()
        self._port.log(record.levelno, record.name, text)


@contextmanager
def _log_to(port: RemotePort[TaskSpec], loggers: _Levels, levels: Mapping[str, int]) -> Iterator[None]:
    root, handler = logging.getLogger(), _ToWorker(port)
    loggers.set(levels)
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
        loggers.restore()


@contextmanager
def _standard_streams(paths: tuple[str, str] | None) -> Iterator[None]:
    """Have descriptors 0 and 1 be the worker's, for connectors that read the console or write to it.

    Spark gives its Python workers an empty input, and sends what they print to standard error.
    """
    if paths is None:
        yield
        return
    kept = []
    for number, (path, flags) in enumerate(zip(paths, (os.O_RDONLY, os.O_WRONLY | os.O_APPEND), strict=True)):
        kept.append(os.dup(number))
        with suppress(OSError):  # a socket, or another user's terminal, cannot be opened again
            opened = os.open(path, flags | os.O_NOCTTY)
            os.dup2(opened, number)
            os.close(opened)
    try:
        yield
    finally:
        for number, before in enumerate(kept):
            os.dup2(before, number)
            os.close(before)
