"""`run_task`: the executor's end of a task, from its start to its orderly stop or its failure."""

from __future__ import annotations

import logging
import traceback

from ottla.connect import ConnectError, Plugins, storage
from ottla.spark.tasks.interface import TaskPort, TaskSpec

__all__ = ["run_task"]

log = logging.getLogger(__name__)


def run_task(spec: TaskSpec, port: TaskPort, *, plugins: Plugins | None = None) -> storage.State:
    """Run a task until `port.target` is STOPPED, or it fails; everything is stored and closed when this returns.

    What goes wrong is told through the port as FAILED with a trace, not raised; an orderly end is told as UNASSIGNED, as
    Kafka's workers do. The last state told is returned. `plugins` saves discovering them again. Raises ConnectionError
    where the worker is gone: then nothing can be told.
    """
    try:
        raise ConnectError("loops are to come")
    except ConnectionError:
        raise
    except Exception:
        port.tell(storage.State.FAILED, traceback.format_exc())
        return storage.State.FAILED
