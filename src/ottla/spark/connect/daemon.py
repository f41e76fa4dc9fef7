"""Spark's Python daemon with our imports done: what it forks for a task begins at once, not after a second of imports."""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # its threads would not survive the fork

import confluent_kafka
import numpy
import pyarrow

import ottla.connect
import ottla.connectors
import ottla.spark.connect.executor
from ottla.connect.tasks import SinkLoop, SourceLoop
from ottla.spark.arrow_alone import array_without_pandas
from ottla.spark.private_api.workers import fork_workers, load_worker

__all__ = ["LOADED"]

LOADED = (
    confluent_kafka,
    numpy,
    pyarrow,
    array_without_pandas(),
    load_worker(),
    ottla.connect,
    SinkLoop,
    SourceLoop,
    ottla.connectors,
    ottla.spark.connect.executor,
)

if __name__ == "__main__":
    fork_workers()
