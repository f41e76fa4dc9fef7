"""`run_task`: the executor's end of a task, from its start to its orderly stop or its failure."""

from __future__ import annotations

import gc
import logging
import sys
import traceback

from ottla.connect import ConnectError, PluginKind, Plugins, storage
from ottla.connect.tasks.interface import TaskPort, TaskSpec
from ottla.connect.tasks.reach import TCP, Reach

__all__ = ["run_task"]

SWITCH_SECONDS = 0.0005
"""How long the task's thread keeps the interpreter once the client's asks for it: with Python's 5 ms each turn of the client
waited so long while a task was busy, and the task in turn for the client."""

YOUNG_OBJECTS = 50_000
"""How many objects with references come to be before Python looks for cycles among them: records have none, and with
Python's 700 looking for them took half of the time in which a plain source makes its records (3.2 us each, 1.7 us so)."""

log = logging.getLogger(__name__)


def run_task(spec: TaskSpec, port: TaskPort, *, plugins: Plugins, reach: Reach = TCP) -> storage.State:
    """Run a task until `port.target` is STOPPED, or it fails; everything is stored and closed when this returns.

    What goes wrong is told through the port as FAILED with a trace, not raised; an orderly end is told as UNASSIGNED, as
    Kafka's workers do. The last state told is returned. `plugins` are those of this process, and `reach` is how the
    cluster is spoken to. Raises ConnectionError where the worker is gone: then nothing can be told.
    """
    sys.setswitchinterval(SWITCH_SECONDS)
    young, *older = gc.get_threshold()
    if 0 < young < YOUNG_OBJECTS:  # a process whose plugin does without is left alone
        gc.set_threshold(YOUNG_OBJECTS, *older)
    try:
        _loop(spec, port, plugins, reach)
    except ConnectionError:
        raise
    except Exception:  # a plugin may raise anything; the worker is told and decides
        trace = traceback.format_exc()
        log.error("Task %s threw an uncaught and unrecoverable exception:\n%s", spec.task, trace)
        port.tell(storage.State.FAILED, trace)
        return storage.State.FAILED
    port.tell(storage.State.UNASSIGNED)
    return storage.State.UNASSIGNED


def _loop(spec: TaskSpec, port: TaskPort, plugins: Plugins, reach: Reach) -> None:
    if port.target is storage.TargetState.STOPPED:
        return
    connector = plugins.connector(spec.connector_config.get("connector.class") or "")
    if connector.kind is PluginKind.SOURCE:
        from ottla.connect.tasks.loop_source import SourceLoop

        SourceLoop(spec, port, plugins, reach).run()
    elif connector.kind is PluginKind.SINK:
        from ottla.connect.tasks.loop_sink import SinkLoop

        SinkLoop(spec, port, plugins, reach).run()
    else:
        raise ConnectError(f"{connector.name} is no connector")
