"""One Spark session for every test of a stage."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session as a Streams application has it, of two slots; its workers can import `tests`."""
    from ottla.spark import session
    from ottla.spark.stateful import STATE_SETTINGS

    path = [str(ROOT), str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(path)
    settings = {
        **STATE_SETTINGS,
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("spark")),
    }
    opened = session("tests", master="local[2]", settings=settings, log_level="OFF")
    for name, value in settings.items():
        if name.startswith("spark.sql.") and opened.conf.isModifiable(name):
            opened.conf.set(name, value)
    yield opened
    opened.stop()
