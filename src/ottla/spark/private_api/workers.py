"""Python on Spark's executors: the process that forks its workers, and what travels to them by value."""

from __future__ import annotations

from types import ModuleType
from typing import Any

__all__ = ["by_value", "fork_workers", "load_planners", "load_worker", "pickled"]


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


def load_planners() -> tuple[ModuleType, ...]:
    """Import what Spark runs in Python to find data sources, to make one, and to plan its reading.

    By `pyspark.sql.worker`, which only Spark itself names.
    """
    import pyspark.sql.worker.create_data_source
    import pyspark.sql.worker.lookup_data_sources
    import pyspark.sql.worker.plan_data_source_read

    found = pyspark.sql.worker
    return found.create_data_source, found.lookup_data_sources, found.plan_data_source_read


def fork_workers() -> None:
    """Be the process that Spark starts for Python and that forks a worker for each task, until Spark ends it.

    By `pyspark.daemon`, which Spark runs unless `spark.python.daemon.module` names a module that calls this.
    """
    from pyspark import daemon

    daemon.manager()
