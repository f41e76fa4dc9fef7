"""Cases of SQL whose queries run in Spark's tasks: one session for all of them, a job for each query.

A plan travels to the task and becomes a topology there, as it does to a host of the server; what it writes comes back. So
the records are those of Python's engine, or one of the two is wrong.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from ottla.sql import SqlError, UnsupportedError
from ottla.sql.testing import Engine, outputs_of
from ottla.streams import ProcessingError, Record

__all__ = ["spark_engine"]

DONE, REFUSED, UNSUPPORTED = "done", "refused", "unsupported"


@contextmanager
def spark_engine(master: str = "local[1]") -> Iterator[Engine]:
    """Yield an engine over a session, which ends with the block; raises SparkMissingError."""
    from ottla.spark import session

    spark = session("sql-cases", master=master, registered=False)
    try:
        context = spark.sparkContext
        yield lambda plan, records: _run(context, plan, records)
    finally:
        spark.stop()


def _run(context: Any, plan: Any, records: Iterable[Record]) -> list[Record]:
    """Run a query as a job; raises SqlError as the engine would have. A job that is left is cancelled."""
    data = pickle.dumps((plan, list(records)))
    try:
        (answer,) = context.parallelize([data], 1).map(_run_there).collect()
    except BaseException:
        context.cancelAllJobs()
        raise
    status, found = pickle.loads(answer)
    if status == UNSUPPORTED:
        raise UnsupportedError(found)
    if status == REFUSED:
        raise SqlError(found)
    made: list[Record] = found
    return made


def _run_there(data: bytes) -> bytes:
    """Run a query where this is called."""
    plan, records = pickle.loads(data)
    answer: tuple[str, Any]
    try:
        answer = (DONE, list(outputs_of(plan, records)))
    except UnsupportedError as error:
        answer = (UNSUPPORTED, str(error))
    except SqlError as error:
        answer = (REFUSED, str(error))
    except ProcessingError as error:
        answer = (REFUSED, str(error.__cause__ or error))
    return pickle.dumps(answer)
