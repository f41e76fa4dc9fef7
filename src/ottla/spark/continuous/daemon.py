"""Spark's Python daemon with a host's imports done: what it forks begins at once, not after a second of imports."""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # its threads would not survive the fork

import numpy

import ottla.spark.continuous.executor
from ottla.spark.private_api.workers import fork_workers, load_worker

__all__ = ["LOADED"]

LOADED = (numpy, load_worker(), ottla.spark.continuous.executor)

if __name__ == "__main__":
    fork_workers()
