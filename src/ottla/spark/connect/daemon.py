"""Spark's Python daemon with our imports done: what it forks for a task begins at once, not after a second of imports.

Installed plugins are looked for here, too, and here is what tasks import only where they first need an address or a file.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # its threads would not survive the fork

import encodings.idna  # for the first address that is looked up
import unicodedata

import confluent_kafka
import numpy
import numpy.ma
import pyarrow

import ottla.connect
import ottla.connectors
import ottla.spark.connect.executor
from ottla.connect.tasks import SinkLoop, SourceLoop
from ottla.spark.arrow_alone import array_without_pandas
from ottla.spark.private_api.workers import fork_workers, load_worker

__all__ = ["LOADED"]

LOADED = (
    encodings.idna,
    unicodedata,
    confluent_kafka,
    numpy,
    numpy.ma,
    pyarrow,
    array_without_pandas(),
    load_worker(),
    ottla.connect,
    SinkLoop,
    SourceLoop,
    ottla.connectors,
    ottla.spark.connect.executor.entries_here(),
)

if __name__ == "__main__":
    fork_workers()
