"""What Spark is told of a batch that failed is a line; the rest is kept for whoever asks."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ottla.spark.streams.batch_errors import LETTERS_MAX, BatchErrors
from ottla.spark.streams.launch import SparkQuery
from ottla.spark.streams.restarts import failure_of


def test_a_failed_batchs_stack_traces_are_not_told_to_spark_and_its_query_is_said_to_have_ended() -> None:
    errors, calls = BatchErrors(), []
    # as it looks where Spark's thread has died over an error: nobody has noticed
    query: Any = SimpleNamespace(isActive=True, stop=lambda: calls.append("stop"))
    running = SparkQuery(query, SimpleNamespace(of=lambda batch: None), None, errors)  # type: ignore[arg-type]
    assert running.failure() is None

    def write(batch: Any, batch_id: int) -> None:
        raise ValueError(
            "org.apache.spark.SparkException: no\n" + "\tat a.b.C.d(C.java:1)\n" * 5000 + "KafkaError: why"
        )

    with pytest.raises(RuntimeError, match="batch 7 failed: ValueError: org") as raised:
        errors.kept(write)(None, 7)  # type: ignore[arg-type]
    assert len(str(raised.value)) <= LETTERS_MAX + len("batch 7 failed: ") and raised.value.__cause__ is None
    words = running.failure()
    assert words is not None and failure_of(words).reason == "KafkaError: why" and calls == ["stop"]
