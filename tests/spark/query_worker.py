"""`python -m tests.spark.query_worker BOOTSTRAP key=value …`: a query sink in a process of its own, to be killed."""

from __future__ import annotations

import sys
import time

from ottla.spark import session
from tests.spark.query_tasks import query_task


def main(bootstrap: str, *pairs: str) -> None:
    """Run until the process is ended."""
    config = dict(pair.split("=", 1) for pair in pairs)
    spark = session("query-worker", master="local[2]")
    with query_task(spark, bootstrap, config) as port:
        told = 0
        while True:
            for state in port.states[told:]:
                print(state.value, port.trace, flush=True)
            told = len(port.states)
            time.sleep(0.05)


if __name__ == "__main__":
    main(*sys.argv[1:])
