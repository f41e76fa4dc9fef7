"""What a session of ours does that Spark leaves for later."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_a_session_listens_for_batches_before_a_process_has_many_files_open(spark: SparkSession) -> None:
    """py4j waits by `select`, which knows no descriptor from 1024 on: a port opened later would never answer."""
    listening: Any = vars(spark.sparkContext._gateway)["_callback_server"]  # a gateway answers for any other name
    assert listening is not None
