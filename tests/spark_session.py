"""The Spark session that all tests of a process share.

Spark has one context in a process: whoever asks for a session while there is one gets that, with the settings that it was
begun with, and who stops it stops everybody's. So there is one place that makes it, for every folder, and it refuses to be
stopped by a test: a file whose own fixture stopped it has failed all files behind it on its worker.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

from tests import spark_connector

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["for_all_tests"]

ROOT = Path(__file__).parents[1]


@contextmanager
def for_all_tests(folder: Path) -> Iterator[SparkSession]:
    """Start the session, as a Streams application has it, of two slots; its workers can import `tests`."""
    from ottla.spark.sessions import let_go, session
    from ottla.spark.streams.launch import QUICK_COMPILER
    from ottla.spark.streams.state.operator import LOCAL_SETTINGS, STATE_SETTINGS

    settings = {
        **STATE_SETTINGS,
        **LOCAL_SETTINGS,
        "spark.driver.extraJavaOptions": QUICK_COMPILER,
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder),
    }
    if spark_connector.missing() is None:
        settings["spark.jars"] = spark_connector.jars()
    path = [str(ROOT), str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    with patch.dict(os.environ, PYTHONPATH=os.pathsep.join(path)):
        # not registered: Spark finds `pyspark_ottla` by its name, as it does in a session of a user's own
        found = session("tests", master="local[2]", settings=settings, log_level="OFF", registered=False)
    with patch.object(found, "stop", _refuse), patch.object(found.sparkContext, "stop", _refuse):
        yield found
    let_go(found)


def _refuse() -> None:
    raise AssertionError(
        "this Spark session is that of all tests of the process; a test takes `spark` and leaves it there"
    )
