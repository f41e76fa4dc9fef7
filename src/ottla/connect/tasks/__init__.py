"""A connector's task wherever it runs: its loop, its records' way, its offsets.

`TaskSpec` and `TaskPort` are what a worker and a task agree on, `run_task` is a task from its start to its stop, and
`RemotePort` is the port of one that runs in another process; `frames` is what goes over it. Nothing here knows of Spark.
What this package gives is imported when it is first asked for: `confluent_kafka` and PyArrow take their time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.base import late_imports

if TYPE_CHECKING:
    from ottla.connect.tasks.interface import TaskPort, TaskSpec, WorkerClients
    from ottla.connect.tasks.loop_sink import SinkLoop
    from ottla.connect.tasks.loop_source import SourceLoop
    from ottla.connect.tasks.metrics import Average, Lags, SampleWindow, Total
    from ottla.connect.tasks.modelled import run_on_model
    from ottla.connect.tasks.port import Dial, RemotePort
    from ottla.connect.tasks.run import run_task
    from ottla.connect.tasks.spare_memory import free_memory

__all__ = [
    "Average",
    "Dial",
    "Lags",
    "RemotePort",
    "SampleWindow",
    "SinkLoop",
    "SourceLoop",
    "TaskPort",
    "TaskSpec",
    "Total",
    "WorkerClients",
    "free_memory",
    "run_on_model",
    "run_task",
]

_HOMES = {
    **dict.fromkeys(("TaskPort", "TaskSpec", "WorkerClients"), "ottla.connect.tasks.interface"),
    **dict.fromkeys(("Average", "Lags", "SampleWindow", "Total"), "ottla.connect.tasks.metrics"),
    **dict.fromkeys(("Dial", "RemotePort"), "ottla.connect.tasks.port"),
    "SinkLoop": "ottla.connect.tasks.loop_sink",
    "SourceLoop": "ottla.connect.tasks.loop_source",
    "free_memory": "ottla.connect.tasks.spare_memory",
    "run_on_model": "ottla.connect.tasks.modelled",
    "run_task": "ottla.connect.tasks.run",
}

__getattr__ = late_imports(__name__, _HOMES)
"""Imports what is asked for."""
