"""Spark's Python daemon of a session in which Connect's tasks and hosts of continuous Streams run side by side."""

from __future__ import annotations

import ottla.spark.connect.daemon
import ottla.spark.continuous.daemon
from ottla.spark.private_api.workers import fork_workers

__all__ = ["LOADED"]

LOADED = (*ottla.spark.connect.daemon.LOADED, *ottla.spark.continuous.daemon.LOADED)

if __name__ == "__main__":
    fork_workers()
