"""Connect's tasks on Spark: a task is one long-running Spark task, on whichever executor has a slot.

`interface` is what both ends agree on; `run_task` is the executor's end, `SparkTaskRunner` the worker's.
"""

from ottla.spark.tasks.interface import TaskPort, TaskSpec, WorkerClients
from ottla.spark.tasks.run import run_task

__all__ = ["TaskPort", "TaskSpec", "WorkerClients", "run_task"]
