"""Python on Spark's executors: the process that forks its workers, and what travels to them by value."""

from __future__ import annotations

from types import ModuleType
from typing import Any

__all__ = ["by_value", "fork_workers", "load_worker", "pickled"]


def pickled(value: Any) -> bytes:
    """Pickle a value with functions in it, as Spark does; `pickle.loads` reads it.

    By `pyspark.cloudpickle`, PySpark's own copy: another version of the package need not go with the workers' one.
    """
    from pyspark import cloudpickle

    data: bytes = cloudpickle.dumps(value)  # type: ignore[no-untyped-call]
    return data


def by_value(module: ModuleType) -> None:
    """Have a module's functions and classes pickled by value from now on; by `pyspark.cloudpickle`, as `pickled`."""
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def load_worker() -> ModuleType:
    """Import what a worker runs, so that what is forked has it; by `pyspark.worker`, which only PySpark's daemon imports."""
    import pyspark.worker

    return pyspark.worker


def fork_workers() -> None:
    """Be the process that Spark starts for Python and that forks a worker for each task, until Spark ends it.

    By `pyspark.daemon`, which Spark runs unless `spark.python.daemon.module` names a module that calls this.
    """
    from pyspark import daemon

    daemon.manager()
