"""What Spark plans for a micro-batch, asked of the JVM: nothing runs by these questions."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from ottla.base import OttlaError

if TYPE_CHECKING:
    from pyspark.core.rdd import RDD
    from pyspark.sql import DataFrame
    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = [
    "ARROW_OVERFLOWS",
    "QUERY_ID_PROPERTY",
    "RUN_ID_PROPERTY",
    "UnknownInputError",
    "arrow_rdd",
    "batches_held_up",
    "input_partitions",
    "query_id",
    "run_id",
    "task_count",
]

QUERY_ID_PROPERTY, RUN_ID_PROPERTY = "sql.streaming.queryId", "spark.jobGroup.id"
"""What Spark's streaming queries say to their jobs: the id in the checkpoint, and the id of this start."""

ARROW_OVERFLOWS = (
    "org.apache.arrow.vector.util.OversizedAllocationException",
    "org.apache.arrow.memory.OutOfMemoryException",
)
"""What Spark's Arrow throws where the rows of a batch are more bytes than it counts, and than it may have."""


class UnknownInputError(OttlaError):
    """A task reads what is not of a data source in Python; `kind` is the class of its partition."""

    def __init__(self, kind: str) -> None:
        super().__init__(f"a task reads a {kind}")
        self.kind = kind


def task_count(batch: DataFrame) -> int:
    """Return how many tasks will write a batch; the plan is made, and kept for the action.

    By `_jdf`'s `toRdd`: `DataFrame.rdd` plans another query around the batch, whose tasks need not be as many.
    """
    return int(batch._jdf.queryExecution().toRdd().getNumPartitions())


def input_partitions(batch: DataFrame) -> list[InputPartition]:
    """Return what each task of a batch reads, as the Python data source planned it: a plan without shuffles.

    Raises UnknownInputError where a task reads something else. By `_jdf`'s `toRdd` and the partitions' classes: publicly, a
    task learns of its partition when it reads it, and says so to nobody.
    """
    return [_input_of(each) for each in batch._jdf.queryExecution().toRdd().partitions()]


def _input_of(partition: Any) -> InputPartition:
    while (kind := str(partition.getClass().getSimpleName())) == "UnionPartition":
        partition = partition.parentPartition()
    if kind != "DataSourceRDDPartition":
        raise UnknownInputError(kind)
    read: InputPartition = pickle.loads(bytes(partition.inputPartition().get().pickedPartition()))
    return read


def arrow_rdd(batch: DataFrame) -> RDD[bytes]:
    """Return a batch's rows as serialized Arrow record batches, as `mapInArrow` would give them to its function.

    By `_jdf`'s `toArrowBatchRdd`: `mapInArrow` plans a query around the batch, which took longer than writing a small one.
    A record batch has at most `spark.sql.execution.arrow.maxRecordsPerBatch` rows, however many bytes these are: a job fails
    with one of `ARROW_OVERFLOWS` where they are too many.
    """
    from pyspark.core.rdd import RDD
    from pyspark.serializers import NoOpSerializer

    return RDD(batch._jdf.toArrowBatchRdd().toJavaRDD(), batch.sparkSession.sparkContext, NoOpSerializer())


def query_id(batch: DataFrame) -> str | None:
    """Return the id of the streaming query that calls a batch's function; None where none does.

    By a local property whose name Spark does not document: the function gets a frame and a number only.
    """
    return batch.sparkSession.sparkContext.getLocalProperty(QUERY_ID_PROPERTY)


def run_id(batch: DataFrame) -> str | None:
    """Return the id of this start of the query that calls a batch's function; as `query_id`."""
    return batch.sparkSession.sparkContext.getLocalProperty(RUN_ID_PROPERTY)


@contextmanager
def batches_held_up(queries: Sequence[StreamingQuery]) -> Iterator[None]:
    """Keep queries from deciding what their next micro-batch is made of.

    By `_jsq` and `StreamExecution.awaitProgressLock`: publicly a query can only be stopped, which takes a second each time.
    """
    locks = [query._jsq.streamingQuery().awaitProgressLock() for query in queries]
    with ExitStack() as held:
        for lock in locks:
            lock.lock()
            held.callback(lock.unlock)
        yield
