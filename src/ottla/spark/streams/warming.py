"""Python workers that have begun before a first batch wants them: their imports overlap with the planning of the queries.

A worker imports for a second, of a first batch's few; Spark keeps it and gives it to the batch's tasks.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from ottla.background import supervise_thread

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["WORKER_MODULES", "warm_up"]

WORKER_MODULES = (
    "pyspark_ottla",
    "ottla.spark.source.reader",
    "ottla.spark.streams.delivery",
    "ottla.spark.streams.lowering.direct",
    "ottla.spark.streams.state.task",
    "ottla.spark.first_array",
)
"""What the tasks of an application import."""
log = logging.getLogger(__name__)


def warm_up(spark: SparkSession) -> None:
    """Begin to warm up a local session's workers, as many as it runs tasks at once; returns at once."""
    supervise_thread(partial(_run, spark), name="streams-warm-up", serves="the first batches")


def _run(spark: SparkSession) -> None:
    context = spark.sparkContext
    slots = context.defaultParallelism
    try:
        context.parallelize(range(slots), slots).mapPartitions(_imported).collect()
    except Exception as error:  # Py4J's, of a session that was stopped meanwhile; a batch says what is really wrong
        log.debug("the workers were not warmed up: %s", error)


def _imported(rows: Iterable[int]) -> Iterable[int]:
    """Import in a worker what tasks need; that is long enough for the next task to get another worker."""
    for each in WORKER_MODULES:
        import_module(each)
    return rows
