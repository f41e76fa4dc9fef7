"""What sessions do not say publicly: whether there is one, whether its JVM is here, and what its executors can run."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["executor_slots", "has_context", "is_classic"]


def has_context() -> bool:
    """Whether this process has a Spark context that was not stopped.

    By `_active_spark_context`: `SparkSession.active` also returns a session whose context somebody has stopped.
    """
    from pyspark import SparkContext

    return SparkContext._active_spark_context is not None


def is_classic(of: SparkSession | DataFrame) -> bool:
    """Whether a session, or that of a frame, is one with a JVM here, and not one of Spark Connect.

    By what a remote session's `__getattr__` refuses: `pyspark.sql.utils.is_remote` answers for the process, which may have
    both kinds.
    """
    return hasattr(getattr(of, "sparkSession", of), "sparkContext")


def executor_slots(context: SparkContext) -> int:
    """Return how many tasks the executors that are there now run at once.

    By `_jsc` and the JVM's status store: `StatusTracker` does not name executors, and the REST API needs Spark's UI, which
    our sessions run without.
    """
    executors = context._jsc.sc().statusStore().executorList(True)
    return sum(int(executors.apply(index).maxTasks()) for index in range(executors.size()))
